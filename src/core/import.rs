//! Backlogs of other tools: read into tasks, and written back.
//!
//! One reader per format turns a text into a [`SourceBacklog`], whose tasks have the fields of the
//! graph. What has no place there is kept under its own name, and what cannot be kept is listed as a
//! [`LostField`]. `plan` maps ids and dependencies and makes the text of the graph, `refresh` takes
//! over what changed in a source, and `export` writes backlogs.

mod builder;
pub mod detect;
pub mod export;
mod fields;
mod github;
pub mod ids;
mod json_backlog;
mod markdown;
pub mod plan;
pub mod refresh;
pub mod render;
mod table;
mod value;
mod yaml_backlog;

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{diagnostic::Diagnostic, graph::task::Status};

/// The size of the largest text of one task, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The name of standard input in `source:`.
pub const STANDARD_INPUT: &str = "stdin";

/// The format of a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BacklogFormat {
    /// `prd.json`: stories with `passes` or `dependsOn`.
    Prd,
    /// The JSONL of beads.
    Beads,
    /// The `tasks.json` of task-master.
    TaskMaster,
    /// GitHub issues, as `gh issue list --json` or the API prints them.
    Github,
    /// A plan in Markdown.
    Markdown,
    /// Tickets with YAML front matter.
    Tickets,
    /// A table with a header: CSV or TSV.
    Csv,
    /// A task graph.
    Graph,
}

impl BacklogFormat {
    /// All formats.
    pub const ALL: [BacklogFormat; 8] = [
        BacklogFormat::Prd,
        BacklogFormat::Beads,
        BacklogFormat::TaskMaster,
        BacklogFormat::Github,
        BacklogFormat::Markdown,
        BacklogFormat::Tickets,
        BacklogFormat::Csv,
        BacklogFormat::Graph,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            BacklogFormat::Prd => "prd",
            BacklogFormat::Beads => "beads",
            BacklogFormat::TaskMaster => "task-master",
            BacklogFormat::Github => "github",
            BacklogFormat::Markdown => "markdown",
            BacklogFormat::Tickets => "tickets",
            BacklogFormat::Csv => "csv",
            BacklogFormat::Graph => "graph",
        }
    }
}

impl fmt::Display for BacklogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The tasks of one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceBacklog {
    /// The tasks, in the order of the text.
    pub tasks: Vec<SourceTask>,
    /// What is not kept as it is, in the order of the text.
    pub lost: Vec<LostField>,
    /// The fields of the whole backlog, for the top of a new graph.
    pub top: Vec<(String, Value)>,
}

/// A task as its source has it, with the fields of the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceTask {
    /// Its name in the source, which need not be a valid id.
    pub key: String,
    /// Whether the source has no id for it, so that the key was made from its title or its number.
    pub is_key_made: bool,
    /// A name that identifies it everywhere, such as the address of an issue.
    pub source: Option<String>,
    /// The bytes of its id, or of its first line.
    pub at: Range<usize>,
    /// The fields, without `id` and `depends_on`.
    pub fields: Vec<(String, Value)>,
    /// What it waits for.
    pub depends_on: Vec<SourceLink>,
    /// The task that contains it.
    pub parent: Option<SourceLink>,
    /// Where its status is written.
    pub status_at: Vec<(StatusMark, Range<usize>)>,
    /// The end of its last field in JSON, where another one can be added.
    pub fields_end: Option<usize>,
}

/// How a source writes a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMark {
    /// A word.
    Word,
    /// Whether it is done.
    Flag,
    /// The character in a checkbox.
    Box,
}

impl SourceTask {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        field(&self.fields, name)
    }

    /// The status.
    pub fn status(&self) -> Status {
        status_of(&self.fields)
    }
}

/// The value of a field.
fn field<'a>(fields: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// The status in the fields of a task.
fn status_of(fields: &[(String, Value)]) -> Status {
    let word = field(fields, "status").and_then(Value::as_str);
    word.and_then(Status::parse).unwrap_or(Status::Pending)
}

/// The name of another task, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLink {
    /// Its name in the source.
    pub key: String,
    /// The bytes of the name.
    pub at: Range<usize>,
}

impl SourceLink {
    fn new(key: impl Into<String>, at: &Range<usize>) -> SourceLink {
        SourceLink { key: key.into(), at: at.clone() }
    }
}

/// Something that the graph does not have as the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostField {
    /// The task, by its name in the source; none for a part of the whole backlog.
    pub task: Option<String>,
    /// The field, or the kind of text.
    pub field: String,
    /// The reason, as a lower-case fragment.
    pub why: String,
    /// Whether the value is still in the graph, in another form.
    pub is_kept: bool,
    /// The bytes.
    pub at: Range<usize>,
}

impl LostField {
    fn new(field: &str, why: impl Into<String>, at: Range<usize>) -> LostField {
        LostField { task: None, field: field.to_owned(), why: why.into(), is_kept: false, at }
    }

    /// The same of a task.
    fn of(self, task: &str) -> LostField {
        LostField { task: Some(task.to_owned()), ..self }
    }
}

/// Reads a backlog. `name` is the name of its file.
///
/// # Errors
/// All errors, in the order of the text.
pub fn read(
    format: BacklogFormat,
    name: &str,
    text: &str,
) -> Result<SourceBacklog, Vec<Diagnostic>> {
    let reading = match format {
        BacklogFormat::Prd => json_backlog::prd(text),
        BacklogFormat::Beads => json_backlog::beads(text),
        BacklogFormat::TaskMaster => json_backlog::task_master(text),
        BacklogFormat::Github => github::read(text),
        BacklogFormat::Markdown => Ok(markdown::read(text)),
        BacklogFormat::Tickets => yaml_backlog::tickets(text, stem(name)),
        BacklogFormat::Csv => table::read(text),
        BacklogFormat::Graph => yaml_backlog::graph(text),
    }?;
    reading.finish(text)
}

/// The name of a file without folders and ending.
fn stem(name: &str) -> Option<&str> {
    let file = name.rsplit('/').next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    (!stem.is_empty() && file != STANDARD_INPUT).then_some(stem)
}
