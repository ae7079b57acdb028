//! Backlogs of other tools: each is read exactly, or refused by its name.
//!
//! A reader for each format turns a text into a [`SourceBacklog`], whose tasks have the fields of the
//! graph. Each record becomes a task or a [`Loss`]. `plan` maps ids and dependencies, and
//! `graph_text` writes the graph.

mod fields;
mod github;
pub mod graph_text;
mod markdown;
pub mod plan;
mod records;

use serde::Serialize;
use serde_json::Value;

use crate::{
    diagnostic::Diagnostic,
    graph::{
        task::Status,
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
    /// What is not kept as it is, in the order of the text.
    pub lost: Vec<Loss>,
    /// The fields of the whole backlog, for the top of a new graph.
    pub top: Vec<(String, Value)>,
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

/// Something that the graph does not have as the source has it.
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
    /// Whether the value is still in the graph, in another form.
    pub is_kept: bool,
}

impl Loss {
    fn new(at: &str, field: &str, why: impl Into<String>) -> Loss {
        let at = (!at.is_empty()).then(|| at.to_owned());
        let (source, field) = (String::new(), field.to_owned());
        Loss { source, at, field, why: why.into(), is_kept: false }
    }

    fn kept(self) -> Loss {
        Loss { is_kept: true, ..self }
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
    /// It has an error.
    Fault(Box<Diagnostic>),
}

impl From<Diagnostic> for Refusal {
    fn from(fault: Diagnostic) -> Refusal {
        Refusal::Fault(Box::new(fault))
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
    let document = Document::parse(text).map_err(crate::graph::load::diagnostic)?;
    let root = document.root().map(yaml_value).unwrap_or_default();
    records::graph(&root).ok_or_else(|| Refusal::Foreign("YAML that is no task graph".to_owned()))
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
    let mut names = std::collections::HashSet::new();
    let all: std::collections::HashSet<String> =
        backlog.tasks.iter().map(|task| task.key.clone()).collect();
    for task in &mut backlog.tasks {
        if !names.insert(task.key.clone()) {
            let others = (2..).map(|count| format!("{}-{count}", task.key));
            let mut free = others.filter(|name| !all.contains(name) && !names.contains(name));
            let key = free.next().expect("numbers do not end");
            let old = fields::clipped(&task.key);
            let why = format!("an earlier task is `{old}`, which dependencies mean");
            backlog.lost.push(Loss::new(&key, "id", why).kept());
            names.insert(key.clone());
            task.key = key;
        }
    }
    backlog
}
