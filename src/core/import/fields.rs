//! The fields of a record, and the fields of the graph that they become.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{Loss, SourceBacklog, SourceTask, key_of_title};
use crate::{
    diagnostic::nearest,
    graph::{
        load::{self, fields::FIELDS},
        task::{Priority, Status},
    },
};

/// The fields with a meaning: each with its names in sources, folded. The first present name wins; the
/// others are kept.
const NAMES: [(&str, &str); 11] = [
    ("id", "id key"),
    ("title", "title name summary"),
    ("description", "description body"),
    ("status", "status state"),
    ("passes", "passes done completed"),
    ("priority", "priority"),
    ("depends_on", "dependson dependencies blockedby"),
    ("tags", "tags labels"),
    ("story", "story"),
    ("milestone", "milestone"),
    ("completed_at", "completedat closedat"),
];

/// The fields that become parts of the description, folded, with their headings.
const SECTIONS: [(&str, &str); 5] = [
    ("details", "Details"),
    ("design", "Design"),
    ("acceptancecriteria", "Acceptance criteria"),
    ("steps", "Steps"),
    ("teststrategy", "Test strategy"),
];

/// Statuses by folded word, in addition to those of the graph.
const STATUSES: [(Status, &str); 4] = [
    (Status::Pending, "new draft planned proposed pinned"),
    (Status::InProgress, "review inreview hooked testing"),
    (Status::Complete, "resolved merged"),
    (Status::Cancelled, "tombstone archived wontdo"),
];

/// The fields of a record that are not read yet.
pub(super) struct RecordReader {
    rest: Map<String, Value>,
    /// The task so far.
    pub(super) task: SourceTask,
    /// Its losses.
    lost: Vec<Loss>,
    description: Vec<String>,
}

impl RecordReader {
    /// Returns the record of a mapping, or why it is none.
    pub(super) fn new(value: &Value) -> Result<RecordReader, &'static str> {
        let rest = value.as_object().ok_or("it is not an object")?.clone();
        let (task, lost, description) = (SourceTask::default(), Vec::new(), Vec::new());
        Ok(RecordReader { rest, task, lost, description })
    }

    /// Returns the record of a mapping some of whose fields become parts of the description.
    pub(super) fn with_sections(value: &Value) -> Result<RecordReader, &'static str> {
        let mut record = RecordReader::new(value)?;
        for (folded, heading) in SECTIONS {
            let key = record.rest.keys().find(|key| fold(key) == folded).cloned();
            if let Some(value) = key.and_then(|key| record.take(&key)) {
                record.describe(&format!("{heading}:\n{}", long_text(&value)));
            }
        }
        Ok(record)
    }

    /// Takes a field that a format reads itself.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.rest.remove(name).filter(|value| !is_empty(value))
    }

    /// Takes the first of the names of a field with a meaning.
    fn take_meant(&mut self, meaning: &str) -> Option<(String, Value)> {
        let names =
            NAMES.iter().find(|(field, _)| *field == meaning).map_or("", |(_, names)| names);
        let is_it = |key: &&String, name| fold(key) == name && !is_empty(&self.rest[*key]);
        let found = names.split(' ').find_map(|name| self.rest.keys().find(|key| is_it(key, name)));
        let key = found.cloned()?;
        let value = self.rest.remove(&key)?;
        Some((key, value))
    }

    /// Sets the title, where no field has it.
    pub(super) fn rename(&mut self, title: &str) {
        self.rest.insert("title".to_owned(), title.into());
    }

    /// Adds a paragraph to the description.
    pub(super) fn describe(&mut self, text: &str) {
        let text = tidy(text);
        if !text.is_empty() {
            self.description.push(text);
        }
    }

    /// Lists a field of this task as lost.
    pub(super) fn lose(&mut self, field: &str, why: impl Into<String>) {
        self.lost.push(Loss::new("", field, why));
    }

    /// Reads all fields with a meaning, keeps the others, and adds the task to the backlog. `number` is
    /// that of the record.
    pub(super) fn finish(mut self, backlog: &mut SourceBacklog, number: usize) {
        if self.task.key.is_empty()
            && let Some((_, value)) = self.take_meant("id")
        {
            self.task.key = text(&value).unwrap_or_default();
        }
        let title = self.take_meant("title").and_then(|(_, value)| text(&value));
        let title = title.map(|title| one_line(&title)).unwrap_or_default();
        if self.task.key.is_empty() && !title.is_empty() {
            self.task.key = key_of_title(&title);
        }
        if self.task.key.is_empty() {
            let why = "it has neither an id nor a title";
            backlog.lost.push(Loss::new(&format!("record {number}"), "record", why));
            return;
        }
        let shown = if title.is_empty() { self.task.key.clone() } else { title };
        self.task.set("title", json!(shown));
        self.read_description();
        self.read_status();
        self.read_priority();
        if let Some((_, value)) = self.take_meant("depends_on") {
            self.task.depends_on.extend(names(&value).into_iter().map(Into::into));
        }
        if let Some((_, value)) = self.take_meant("tags") {
            self.tag(names(&value));
        }
        for name in ["story", "milestone"] {
            if let Some((_, value)) = self.take_meant(name) {
                self.task.set(name, json!(names(&value).join(", ")));
            }
        }
        for (name, value) in std::mem::take(&mut self.rest) {
            self.keep(&name, value);
        }
        let key = self.task.key.clone();
        let at_task = |loss: Loss| Loss { at: Some(key.clone()), ..loss };
        backlog.lost.extend(self.lost.into_iter().map(at_task));
        let mut seen = HashSet::new();
        self.task.depends_on.retain(|link| link.key != key && seen.insert(link.key.clone()));
        backlog.tasks.push(self.task);
    }

    /// Adds labels.
    pub(super) fn tag(&mut self, labels: Vec<String>) {
        let mut tags = self.task.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
        for label in labels.into_iter().map(Value::from) {
            if !tags.contains(&label) {
                tags.push(label);
            }
        }
        self.task.set("tags", Value::Array(tags));
    }

    fn read_description(&mut self) {
        if let Some((_, value)) = self.take_meant("description") {
            self.description.insert(0, long_text(&value));
        }
        let whole = tidy(&self.description.join("\n\n"));
        self.task.set("description", json!(whole));
    }

    fn read_status(&mut self) {
        let mut status = None;
        if let Some((name, value)) = self.take_meant("status") {
            let word = text(&value).unwrap_or_else(|| value.to_string());
            status = parse_status(&word);
            match status {
                None => {
                    let why =
                        format!("`{}` is no known status; kept as `x-status`", clipped(&word));
                    self.lose(&name, why);
                    self.task.set("x-status", json!(word));
                }
                // In other tools `deferred` means later, not never.
                Some(read) if Status::parse(word.trim()).is_none() || fold(&word) == "deferred" => {
                    self.lose(&name, format!("`{}` is read as {read}", clipped(&word)));
                }
                Some(_) => {}
            }
        }
        if let Some((name, value)) = self.take_meant("passes") {
            match flag(&value) {
                Some(true) => status = Some(Status::Complete),
                Some(false) if status == Some(Status::Complete) => status = Some(Status::Pending),
                Some(false) => {}
                None => drop(self.rest.insert(name, value)),
            }
        }
        if let Some((name, value)) = self.take_meant("completed_at") {
            match status {
                None | Some(Status::Complete) => {
                    status = Some(Status::Complete);
                    self.task.set("completed_at", value);
                }
                Some(_) => drop(self.rest.insert(format!("x-{name}"), value)),
            }
        }
        if self.task.get("status").is_none() {
            self.task.set_status(status.unwrap_or(Status::Pending));
        }
    }

    fn read_priority(&mut self) {
        let Some((name, value)) = self.take_meant("priority") else { return };
        let word = text(&value).unwrap_or_else(|| value.to_string());
        match Priority::parse(&word) {
            Some(_) if word.chars().all(char::is_alphabetic) => {
                self.task.set("priority", json!(word.to_ascii_lowercase()));
            }
            Some(priority) => self.task.set("priority", json!(priority.0)),
            None => {
                let why = format!("`{}` is no priority; kept as `x-priority`", clipped(&word));
                self.lose(&name, why);
                self.task.set("x-priority", json!(word));
            }
        }
    }

    /// Keeps a field without a meaning: under its own name if the graph accepts it there.
    fn keep(&mut self, name: &str, value: Value) {
        if is_empty(&value) {
            return;
        }
        if ["claimed_at", "claimed_by", "source"].contains(&name) {
            return self.lose(name, "it belongs to the other graph");
        }
        let is_field = FIELDS.iter().any(|field| field.name == name) && name != "id";
        // A cell of a table is a text.
        let scalar = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let accepted = [Some(value.clone()), scalar].into_iter().flatten();
        if let Some(value) = accepted.filter(|_| is_field).find(|value| accepts(name, value))
            && self.task.get(name).is_none()
        {
            return self.task.set(name, value);
        }
        let free = free_name(name);
        if self.task.get(&free).is_some() {
            return self.lose(name, "there are two fields of this name");
        }
        if free != name {
            let why = format!("kept as `{free}`");
            self.lose(name, why);
        }
        self.task.set(&free, value);
    }
}

/// Whether a field of a table has a meaning, or is one of the graph.
pub(super) fn is_known(name: &str) -> bool {
    let folded = fold(name);
    let has_name = |(_, names): &(&str, &str)| names.split(' ').any(|known| known == folded);
    name.starts_with("x-")
        || NAMES.iter().any(has_name)
        || FIELDS.iter().any(|field| field.name == name)
}

/// Parses a status in the words of the graph or of a source.
pub(super) fn parse_status(word: &str) -> Option<Status> {
    let folded = fold(word);
    let is_it = |(_, words): &&(Status, &str)| words.split(' ').any(|known| known == folded);
    let listed = || STATUSES.iter().find(is_it).map(|(status, _)| *status);
    Status::parse(word.trim()).or_else(listed)
}

/// The name under which the graph keeps an unknown field.
fn free_name(name: &str) -> String {
    let is_known = nearest(name, FIELDS.iter().map(|field| field.name)).is_some();
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if name.starts_with("x-") || !is_known && is_plain {
        return name.to_owned();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    format!("x-{}", name.chars().map(plain).collect::<String>())
}

/// Whether the graph accepts a value for a field that it has.
fn accepts(name: &str, value: &Value) -> bool {
    let text = format!("tasks:\n- {{id: a, {name}: {value}}}\n");
    load::read(&text).is_ok_and(|(_, loaded)| loaded.warnings.is_empty())
}

/// Whether a value is empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The text of a scalar that is not blank.
pub(super) fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// The first text under one of these keys of a mapping.
pub(super) fn word_of(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text(value.get(name)?))
}

fn flag(value: &Value) -> Option<bool> {
    match text(value)?.to_ascii_lowercase().as_str() {
        "true" | "yes" | "x" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// The names in a list: texts, objects with a name, or one text with separators.
pub(super) fn names(value: &Value) -> Vec<String> {
    const KEYS: [&str; 5] = ["id", "name", "number", "title", "key"];
    match value {
        Value::Array(items) => items.iter().flat_map(names).collect(),
        Value::Object(_) => word_of(value, &KEYS).into_iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text = text(value).unwrap_or_default();
            let parts = text.split([',', ';', '\n']).map(one_line);
            parts.filter(|name| !name.is_empty()).collect()
        }
    }
}

/// A text of several lines: a text, a list with an item for each, or anything else as JSON.
fn long_text(value: &Value) -> String {
    let item = |item: &Value| {
        let own = ["text", "title", "description", "criterion", "name"];
        let rest = |(name, value): (&String, &Value)| {
            let is_more = !own.contains(&name.as_str()) && name != "id";
            value.as_str().filter(|_| is_more).map(|value| format!(" ({name}: `{value}`)"))
        };
        let more: String = item.as_object().into_iter().flatten().filter_map(rest).collect();
        let line = text(item).or_else(|| word_of(item, &own)).unwrap_or_else(|| item.to_string());
        format!("- {}{more}", tidy(&line).replace('\n', "\n  "))
    };
    match value {
        Value::Array(items) => items.iter().map(item).collect::<Vec<_>>().join("\n"),
        Value::String(text) => tidy(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A name without separators and case: `depends_on` and `dependsOn` are the same.
pub(super) fn fold(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A text of a source in a message.
pub(super) fn clipped(text: &str) -> String {
    const LONGEST: usize = 60;
    let escaped = text.escape_debug().to_string();
    if escaped.chars().count() <= LONGEST {
        return escaped;
    }
    escaped.chars().take(LONGEST).chain(['…']).collect()
}

/// A long text as the graph keeps it: `\n` line breaks, no blanks at the end of lines, no blank
/// lines around it.
pub(super) fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let start = lines.iter().take_while(|line| line.is_empty()).count();
    lines[start..].join("\n").trim_end_matches('\n').to_owned()
}

/// One line of a text: its line breaks and repeated blanks are single blanks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
