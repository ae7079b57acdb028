//! Backlogs of other tools: each is read exactly, or refused by its name.
//!
//! A reader for each format turns a text into a [`SourceBacklog`], whose tasks have the fields of the
//! graph. Each record becomes a task or a [`Loss`]. `plan` maps ids and dependencies.

mod fields;
mod github;
mod markdown;
pub mod plan;
mod records;

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use crate::{
    diagnostic::{Diagnostic, position},
    graph::{
        task::{Status, id_of_title},
        yaml::{Document, Node, Scalar},
    },
};

/// The name of standard input in `source:`.
pub const STANDARD_INPUT: &str = "stdin";

/// The tasks of one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceBacklog {
    /// The name of the format.
    pub format: &'static str,
    /// The tasks, in the order of the text.
    pub tasks: Vec<SourceTask>,
    /// The losses, in the order of the text.
    pub lost: Vec<Loss>,
}

/// A task as its source has it, with the fields of the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceTask {
    /// Its name in the source, which need not be a valid id.
    pub key: String,
    /// A name that identifies it everywhere, such as the address of an issue.
    pub source: Option<String>,
    /// The fields, without `id` and `depends_on`.
    pub fields: Vec<(String, Value)>,
    /// The tasks that it waits for.
    pub depends_on: Vec<SourceLink>,
    /// The task that contains it.
    pub parent: Option<String>,
}

impl SourceTask {
    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        field(&self.fields, name)
    }

    /// Sets a field, unless the value is empty.
    fn set(&mut self, name: &str, value: Value) {
        self.fields.retain(|(known, _)| known != name);
        if !fields::is_empty(&value) {
            self.fields.push((name.to_owned(), value));
        }
    }

    fn set_status(&mut self, status: Status) {
        self.set("status", status.word().into());
    }
}

/// The name of another task in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLink {
    /// The name.
    pub key: String,
    /// The task that is meant if the first one makes a cycle.
    pub otherwise: Option<String>,
}

impl From<String> for SourceLink {
    fn from(key: String) -> SourceLink {
        SourceLink { key, otherwise: None }
    }
}

/// A part of the source that the graph lacks or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The file; empty until the plan of an import names it.
    pub source: String,
    /// The task or the line in the source; none for a part of the whole backlog.
    pub at: Option<String>,
    /// The field, or the kind of text.
    pub field: String,
    /// The reason, as a lower-case fragment.
    pub why: String,
}

impl Loss {
    fn new(at: &str, field: &str, why: impl Into<String>) -> Loss {
        let at = (!at.is_empty()).then(|| at.to_owned());
        let (source, field) = (String::new(), field.to_owned());
        Loss { source, at, field, why: why.into() }
    }

    fn in_file(self, name: &str) -> Loss {
        Loss { source: name.to_owned(), ..self }
    }
}

/// Why a text is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has another format, named with its article.
    Foreign(String),
    /// It has an error at this line and column.
    Fault {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The error.
        message: String,
    },
}

/// The mark of a backlog of a tool whose format is not supported.
enum Mark {
    /// Fields of the whole or of its first record.
    Fields(&'static [&'static str]),
    /// A column of a table, folded.
    Column(&'static str),
    /// A text in Markdown, or in the name of its file.
    Text(&'static str),
}

/// The formats that are refused by name although they have tasks.
const FOREIGN: [(&str, Mark); 19] = [
    ("a board of Trello", Mark::Fields(&["cards", "lists"])),
    ("an export of Azure DevOps", Mark::Fields(&["fields", "rev"])),
    ("an export of Jira", Mark::Fields(&["key", "fields"])),
    ("an export of Linear", Mark::Fields(&["identifier", "title"])),
    ("an export of Asana", Mark::Fields(&["gid"])),
    ("an export of Notion", Mark::Fields(&["object", "properties"])),
    ("an export of GitLab", Mark::Fields(&["iid"])),
    ("an export of Taskwarrior", Mark::Fields(&["uuid", "entry"])),
    ("a task list of Claude Code", Mark::Fields(&["activeForm"])),
    ("an export of Jira", Mark::Column("issuekey")),
    ("an export of Asana", Mark::Column("sectioncolumn")),
    ("an export of Azure DevOps", Mark::Column("workitemtype")),
    ("an export of Trello", Mark::Column("cardname")),
    ("an export of Linear", Mark::Column("cyclenumber")),
    ("an export of GitLab", Mark::Column("issueid")),
    ("an export of Notion", Mark::Column("createdtime")),
    ("a story of BMAD", Mark::Text("## Tasks / Subtasks")),
    ("a specification of agent-os", Mark::Text(".agent-os/")),
    ("a specification of agent-os", Mark::Text("agent-os/specs/")),
];

/// Refuses a backlog that has one of the marks.
fn refuse_foreign(has: impl Fn(&Mark) -> bool) -> Result<(), Refusal> {
    match FOREIGN.iter().find(|(_, mark)| has(mark)) {
        Some((tool, _)) => Err(Refusal::Foreign((*tool).to_owned())),
        None => Ok(()),
    }
}

/// Returns the value of a field.
fn field<'a>(fields: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Reads a backlog. The format follows from the ending of `name` and from the content.
///
/// # Errors
/// The reason why it is not imported.
pub fn read(name: &str, text: &str) -> Result<SourceBacklog, Refusal> {
    let bare = text.trim_start_matches('\u{feff}');
    let start = bare.trim_start();
    let ending = name.rsplit('/').next().and_then(|file| file.rsplit_once('.'));
    let ending = ending.map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let is_list = start.starts_with(['{', '[']);
    let backlog = match ending.as_str() {
        _ if start.is_empty() => return Err(Refusal::Foreign("an empty file".to_owned())),
        "org" => return Err(Refusal::Foreign("an Org file".to_owned())),
        "md" | "markdown" => markdown::read(name, bare),
        "yaml" | "yml" => graph(bare),
        "csv" | "tsv" => records::table(bare),
        "json" | "jsonl" | "ndjson" => records::json(bare),
        _ if is_list && !start.starts_with("[ ]") && !start.starts_with("[x]") => {
            records::json(bare)
        }
        _ if bare.lines().any(|line| line.starts_with("tasks:") || line.starts_with("nodes:")) => {
            graph(bare)
        }
        _ if records::is_table(bare) => records::table(bare),
        _ => markdown::read(name, bare),
    }?;
    Ok(named_apart(backlog))
}

/// Reads a task graph in YAML.
fn graph(text: &str) -> Result<SourceBacklog, Refusal> {
    let root = yaml(text)?;
    records::graph(&root).ok_or_else(|| Refusal::Foreign("YAML that is no task graph".to_owned()))
}

/// Parses YAML.
fn yaml(text: &str) -> Result<Value, Refusal> {
    let document = Document::parse(text).map_err(|fault| {
        let Diagnostic { message, at, help, .. } = crate::graph::load::diagnostic(fault);
        let (line, column) = position(text, at.start);
        let help = help.map_or(String::new(), |help| format!("; {help}"));
        Refusal::Fault { line, column, message: message + &help }
    })?;
    Ok(document.root().map(yaml_value).unwrap_or_default())
}

/// Returns a YAML value as JSON. A number that JSON would write otherwise, such as `1.10`, is a text.
fn yaml_value(node: Node<'_>) -> Value {
    let text = |node: Node<'_>| node.text().unwrap_or_default().into_owned();
    match node.scalar() {
        Some(Scalar::Number(number)) if number.to_string() != text(node) => text(node).into(),
        None if node.is_list() => node.items().map(yaml_value).collect(),
        None => {
            node.entries().map(|(key, value)| (text(key), yaml_value(value))).collect::<Value>()
        }
        Some(_) => node.json(),
    }
}

/// Gives tasks with the name of an earlier one names of their own.
fn named_apart(mut backlog: SourceBacklog) -> SourceBacklog {
    let mut used: HashSet<String> = backlog.tasks.iter().map(|task| task.key.clone()).collect();
    let mut seen = HashSet::new();
    for task in &mut backlog.tasks {
        if !seen.insert(task.key.clone()) {
            let mut others = (2..).map(|count| format!("{}-{count}", task.key));
            let key = others.find(|name| used.insert(name.clone())).expect("numbers do not end");
            let old = fields::clipped(&task.key);
            let why = format!("an earlier task is `{old}`, which dependencies mean");
            backlog.lost.push(Loss::new(&key, "id", why));
            task.key = key;
        }
    }
    backlog
}

/// The name of a task that has only a title: like an id that `task-add` makes, where it has words for
/// one.
fn key_of_title(title: &str) -> String {
    let id = id_of_title(title, |_| false).to_string();
    if id == "task" && !title.is_empty() { title.to_owned() } else { id }
}

#[cfg(test)]
mod tests;
