//! The message to a program about an event: JSON for its standard input, variables, and words for
//! people.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::lines::Line;
use crate::{
    adapters::{process::NESTED, service_manager},
    core::redact::Redactor,
    project::workspace::Workspace,
};

/// The variables of a message, each with the field that is its value.
const VARIABLES: [(&str, &str); 11] = [
    ("RALPH_EVENT", "event"),
    ("RALPH_TITLE", "title"),
    ("RALPH_TEXT", "text"),
    ("RALPH_PROJECT", "project"),
    ("RALPH_ROOT", "root"),
    ("RALPH_RUN_ID", "run_id"),
    ("RALPH_TASK_ID", "task_id"),
    ("RALPH_ATTEMPT", "attempt"),
    ("RALPH_VERDICT", "verdict"),
    ("RALPH_WHY", "why"),
    ("RALPH_EXIT_CODE", "exit_code"),
];

/// Variables of an attempt's processes that a message must not inherit from one around this run.
const OF_ATTEMPTS: [&str; 3] = ["RALPH_TASK_DIR", "TASK_FOLDER", "RALPH_LOOP"];

/// The longest value of a variable, in characters.
const LONGEST: usize = 4000;

/// Where messages come from.
#[derive(Clone, Debug)]
pub struct MessageSender {
    /// The name of the repository's folder.
    pub project: String,
    /// The repository.
    pub root: PathBuf,
    /// Removes secrets from messages.
    pub(crate) secrets: Redactor,
    /// Variables that give a called `ralph` the same files and the same loop.
    same: Vec<(String, String)>,
}

/// A message to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramMessage {
    /// The name of the event.
    pub event: String,
    /// The whole, as JSON in one line.
    pub json: String,
    /// The most important fields, and the variables that give a called `ralph` the same files and
    /// the same loop.
    pub variables: Vec<(String, String)>,
}

impl MessageSender {
    /// The repository that a run works in.
    pub fn of(workspace: &Workspace) -> MessageSender {
        let root = workspace.root().to_owned();
        let named =
            [("RALPH_GRAPH", workspace.other_graph()), ("RALPH_CONFIG", workspace.layers.named())];
        let same = named
            .into_iter()
            .filter_map(|(name, path)| Some((name.to_owned(), path?.display().to_string())));
        let name = workspace.place.name().map(|name| ("RALPH_LOOP".to_owned(), name.to_string()));
        MessageSender {
            project: root.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            same: same.chain(name).collect(),
            secrets: workspace.secrets(),
            root,
        }
    }

    /// A message: `facts` are its fields besides those of every message.
    pub fn message(
        &self,
        event: &str,
        facts: Map<String, Value>,
        lines: &[Line],
    ) -> ProgramMessage {
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let first = texts.first().map_or(event, |text| text.trim());
        let mut all = facts;
        all.insert("title".to_owned(), json!(format!("{}: {first}", self.project)));
        all.insert("text".to_owned(), json!(texts.join("\n")));
        let clean = |(key, value): (String, Value)| (key.clone(), self.clean(&key, value));
        let mut all: Map<String, Value> = all.into_iter().map(clean).collect();
        all.insert("event".to_owned(), json!(event));
        all.insert("project".to_owned(), json!(self.project));
        all.insert("root".to_owned(), json!(self.root));
        let text = |field: &str| match all.get(field) {
            None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let short = |text: String| text.replace('\0', "").chars().take(LONGEST).collect();
        let variables = VARIABLES
            .iter()
            .filter_map(|(name, field)| Some(((*name).to_owned(), short(text(field)?))));
        ProgramMessage {
            event: event.to_owned(),
            variables: variables.chain(self.same.clone()).collect(),
            json: Value::Object(all).to_string(),
        }
    }

    /// The value without secrets; ids, times and actions stay unchanged.
    fn clean(&self, key: &str, value: Value) -> Value {
        match value {
            _ if ["timestamp", "run_id", "task_id", "action"].contains(&key) => value,
            Value::String(text) => self.secrets.clone().text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.clean("", item)).collect(),
            Value::Object(map) => {
                map.into_iter().map(|(key, value)| (key, self.clean("", value))).collect()
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
        }
    }
}

/// The variables that a notifier does not inherit, from an attempt around this process or from the
/// service manager that started it.
pub fn inherited() -> Vec<String> {
    let of_messages = VARIABLES.iter().map(|(name, _)| *name);
    of_messages
        .chain(OF_ATTEMPTS)
        .chain(NESTED)
        .chain(service_manager::VARIABLES)
        .map(str::to_owned)
        .collect()
}
