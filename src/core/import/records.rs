//! Reads backlogs whose tasks are records: JSON, JSONL, CSV and task graphs. The only user of `csv`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    Loss, Mark, Refusal, SourceBacklog, SourceLink,
    fields::{self, RecordReader, fold, is_known, names, text, word_of},
    github, refuse_foreign,
};
use crate::graph::load::fields::FIELDS;

/// A reader of one record, which fails if it is none.
type Reader = fn(&Value) -> Result<RecordReader, &'static str>;

/// Reads a backlog in JSON, or in JSON with a record on each line.
pub(super) fn json(source: &str) -> Result<SourceBacklog, Refusal> {
    let mut lost = Vec::new();
    let whole = match serde_json::from_str::<Value>(source) {
        Ok(whole) => whole,
        Err(error) => {
            let lines: Vec<&str> = source.lines().collect();
            let first = lines.iter().find(|line| !line.trim().is_empty());
            if first.is_none_or(|line| serde_json::from_str::<Map<String, Value>>(line).is_err()) {
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or_default();
                return Err(Refusal::Fault {
                    line: error.line(),
                    column: error.column(),
                    message: format!("this is not JSON: {why}"),
                });
            }
            let mut records = Vec::new();
            for (number, line) in
                lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty())
            {
                if let Ok(record) = serde_json::from_str::<Value>(line) {
                    records.push(record);
                } else {
                    let at = format!("line {}", number + 1);
                    lost.push(Loss::new(&at, "record", "it is not JSON"));
                }
            }
            Value::Array(records)
        }
    };
    let mut backlog = shaped(&whole)?;
    backlog.lost.splice(0..0, lost);
    Ok(backlog)
}

/// Finds the records of a backlog in JSON, and reads them.
fn shaped(whole: &Value) -> Result<SourceBacklog, Refusal> {
    let list = |name: &str| whole.get(name).and_then(Value::as_array).cloned();
    refuse_foreign(|mark| matches!(mark, Mark::Fields(names) if has_fields(whole, names, 3)))?;
    if let Some(stories) = list("userStories") {
        return Ok(all("prd", whole, &["userStories"], &stories, RecordReader::with_sections));
    }
    let mut records = match whole {
        Value::Array(items) => items.clone(),
        Value::Object(_) => list("items").unwrap_or_else(|| vec![whole.clone()]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(Refusal::Foreign("JSON without tasks".to_owned()));
        }
    };
    // `gh api --paginate --slurp` makes a list of pages.
    if records.iter().all(Value::is_array) {
        records = records.iter().filter_map(Value::as_array).flatten().cloned().collect();
    }
    let any = |one: &str, other: &str| {
        records.iter().any(|record| record.get(one).is_some() && record.get(other).is_some())
    };
    if any("number", "title") {
        return Ok(all("github", &Value::Null, &[], &records, github::issue));
    }
    if any("issue_type", "id") {
        return Ok(all("beads", &Value::Null, &[], &records, bead));
    }
    if let Some(backlog) = task_master(whole).or_else(|| graph(whole)) {
        return Ok(backlog);
    }
    let is_mine = |record: &Value| {
        let mut names = record.as_object().into_iter().flatten().map(|(name, _)| name);
        !record.is_object() || names.all(|name| is_known(name))
    };
    let has_title = |record: &Value| word_of(record, &["id", "title"]).is_some();
    if records.iter().all(is_mine) && (records.is_empty() || records.iter().any(has_title)) {
        return Ok(all("graph", &Value::Null, &[], &records, RecordReader::new));
    }
    Err(Refusal::Foreign("JSON that is none of the formats which are read".to_owned()))
}

/// Whether the whole or its first record has all of these fields.
fn has_fields(value: &Value, names: &[&str], depth: usize) -> bool {
    match value {
        Value::Array(items) => items.first().is_some_and(|item| has_fields(item, names, depth)),
        Value::Object(entries) => {
            let lists = ["issues", "data", "nodes", "value", "results", "tasks"];
            let mut inside = lists.iter().filter_map(|name| entries.get(*name));
            names.iter().all(|name| entries.contains_key(*name))
                || depth > 0 && inside.any(|value| has_fields(value, names, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Reads all records. The other entries of the whole are lost.
fn all(
    format: &'static str,
    whole: &Value,
    lists: &[&str],
    records: &[Value],
    read: Reader,
) -> SourceBacklog {
    let mut backlog = SourceBacklog { format, ..SourceBacklog::default() };
    let top = whole.as_object().into_iter().flatten();
    let names = top.filter(|(name, _)| !lists.contains(&name.as_str()));
    lose_top(&mut backlog, names.map(|(name, _)| name.as_str()));
    for (number, record) in records.iter().enumerate() {
        match read(record) {
            Ok(record) => record.finish(&mut backlog, number + 1),
            Err(why) => {
                let at = format!("record {}", number + 1);
                backlog.lost.push(Loss::new(&at, "record", why));
            }
        }
    }
    backlog
}

/// Names the fields of the whole backlog, which belong to no task.
fn lose_top<'a>(backlog: &mut SourceBacklog, names: impl Iterator<Item = &'a str>) {
    let names: Vec<String> = names.map(|name| format!("`{}`", fields::clipped(name))).collect();
    if !names.is_empty() {
        let why = "fields of the whole backlog, which no task has";
        backlog.lost.push(Loss::new("", &names.join(", "), why));
    }
}

/// A bead. Only dependencies of some types make it wait.
fn bead(value: &Value) -> Result<RecordReader, &'static str> {
    let mut record = RecordReader::with_sections(value)?;
    if let Some(minutes) = record.take("estimated_minutes").and_then(|value| text(&value)) {
        record.task.set("estimate", format!("{minutes}m").into());
    }
    let dependencies = record.take("dependencies");
    for dependency in dependencies.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let key = text(dependency).or_else(|| word_of(dependency, &["depends_on_id", "id"]));
        let kind = word_of(dependency, &["type", "dependency_type"]);
        match (key, kind.as_deref().unwrap_or("blocks")) {
            (None, _) => record.lose("dependencies", "it names no issue"),
            (Some(key), "blocks" | "conditional-blocks" | "waits-for") => {
                record.task.depends_on.push(key.into());
            }
            (Some(key), "parent-child") => record.task.parent = Some(key),
            (Some(key), other) => {
                let (kind, key) = (fields::clipped(other), fields::clipped(&key));
                let why = format!("the type `{kind}` does not make a task wait (`{key}`)");
                record.lose("dependencies", why);
            }
        }
    }
    Ok(record)
}

/// Reads a task graph; none for another mapping.
pub(super) fn graph(root: &Value) -> Option<SourceBacklog> {
    let tasks = ["tasks", "nodes"].iter().find_map(|name| root.get(name)?.as_array())?;
    let mut edges: HashMap<String, Vec<SourceLink>> = HashMap::new();
    for edge in root.get("edges").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(from), Some(to)) = (word_of(edge, &["from"]), word_of(edge, &["to"])) {
            edges.entry(to).or_default().push(from.into());
        }
    }
    let defaults = root.get("defaults").and_then(Value::as_object);
    let whole: Vec<Value> = tasks.iter().map(|task| with_defaults(task, defaults)).collect();
    let lists = ["tasks", "nodes", "edges", "defaults"];
    let mut backlog = all("graph", root, &lists, &whole, RecordReader::new);
    for task in &mut backlog.tasks {
        let more = edges.remove(&task.key).unwrap_or_default();
        let own: Vec<SourceLink> = more.into_iter().filter(|link| link.key != task.key).collect();
        task.depends_on.splice(0..0, own);
    }
    for (key, _) in edges {
        let why = format!("no task `{}` in the source", fields::clipped(&key));
        backlog.lost.push(Loss::new("", "edges", why));
    }
    Some(backlog)
}

/// A task with the defaults of its graph.
fn with_defaults(task: &Value, defaults: Option<&Map<String, Value>>) -> Value {
    let mut whole = task.clone();
    for (name, default) in defaults.into_iter().flatten() {
        let Some(entries) = whole.as_object_mut() else { break };
        let adds = FIELDS.iter().any(|field| field.name == name && field.adds_to_default);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let value = match entries.get(name) {
            None => default.clone(),
            Some(mine) if adds && !fields::is_empty(mine) => {
                [list(default), list(mine)].concat().into()
            }
            Some(_) => continue,
        };
        entries.insert(name.clone(), value);
    }
    whole
}

/// Reads the tasks of task-master, with or without tags; none for another file.
fn task_master(root: &Value) -> Option<SourceBacklog> {
    let marks = ["subtasks", "testStrategy", "dependencies", "details"];
    let is_mine = |(_, tasks): &(&str, Vec<Value>)| {
        tasks.is_empty()
            || tasks.iter().any(|task| marks.iter().any(|name| task.get(name).is_some()))
    };
    let list = |whole: &Value| whole.get("tasks").and_then(Value::as_array).cloned();
    let entries = root.as_object()?;
    // Without tags, the file is one.
    let tags: Vec<(&str, Vec<Value>)> = match list(root) {
        Some(_) if root.get("edges").is_some() => return None,
        Some(tasks) => vec![("master", tasks)],
        None => {
            entries.iter().filter_map(|entry| Some((entry.0.as_str(), list(entry.1)?))).collect()
        }
    };
    if !tags.iter().any(is_mine) {
        return None;
    }
    let mut backlog = SourceBacklog { format: "task-master", ..SourceBacklog::default() };
    let is_read = |name: &str| name == "tasks" || tags.iter().any(|(tag, _)| *tag == name);
    lose_top(&mut backlog, entries.keys().map(String::as_str).filter(|name| !is_read(name)));
    for (name, tasks) in &tags {
        // Numbers start again in each tag.
        let is_main = tags.len() == 1 || *name == "master";
        let prefix = if is_main { String::new() } else { format!("{name}-") };
        let tag = (tags.len() > 1 || *name != "master").then_some(*name);
        TaskList { tasks, tag, prefix: &prefix, parent: None }.read(&mut backlog);
    }
    Some(backlog)
}

/// A list of tasks of task-master, or of the subtasks of one.
struct TaskList<'a> {
    tasks: &'a [Value],
    /// The label of its tasks.
    tag: Option<&'a str>,
    /// The prefix of its numbers.
    prefix: &'a str,
    /// The key of the task that contains it.
    parent: Option<&'a str>,
}

impl TaskList<'_> {
    fn read(&self, backlog: &mut SourceBacklog) {
        for (number, task) in self.tasks.iter().enumerate() {
            let mut record = match RecordReader::with_sections(task) {
                Ok(record) => record,
                Err(why) => {
                    let at =
                        format!("record {} of {}", number + 1, self.parent.unwrap_or("the list"));
                    backlog.lost.push(Loss::new(&at, "record", why));
                    continue;
                }
            };
            let (subtasks, links) = (record.take("subtasks"), record.take("dependencies"));
            for name in ["parentTaskId", "parentId"] {
                record.take(name);
            }
            let id = record.take("id").and_then(|id| text(&id));
            record.task.key = id.map_or_else(String::new, |id| self.key(&id));
            for link in links.as_ref().map(names).unwrap_or_default() {
                record.task.depends_on.push(self.link(&link));
            }
            record.task.parent = self.parent.map(str::to_owned);
            record.tag(self.tag.map(str::to_owned).into_iter().collect());
            let known = backlog.tasks.len();
            record.finish(backlog, number + 1);
            let key = backlog.tasks.get(known).map(|task| task.key.clone());
            if let Some(Value::Array(tasks)) = &subtasks {
                TaskList { tasks, parent: key.as_deref(), ..*self }.read(backlog);
            }
        }
    }

    /// The key of a task of this list.
    fn key(&self, number: &str) -> String {
        match self.parent {
            Some(parent) if !number.contains('.') => format!("{parent}.{number}"),
            _ => format!("{}{number}", self.prefix),
        }
    }

    /// A bare number in a subtask is its sibling, unless that makes a cycle.
    fn link(&self, number: &str) -> SourceLink {
        let is_it = |task: &Value| word_of(task, &["id"]).as_deref() == Some(number);
        let whole = format!("{}{number}", self.prefix);
        if self.parent.is_some() && self.tasks.iter().any(is_it) {
            return SourceLink { key: self.key(number), otherwise: Some(whole) };
        }
        whole.into()
    }
}

/// The separator of a table, by its header.
fn separator(text: &str) -> u8 {
    let header = text.lines().next().unwrap_or_default();
    let count = |separator: u8| header.bytes().filter(|byte| *byte == separator).count();
    *b",;\t".iter().rev().max_by_key(|separator| count(**separator)).unwrap_or(&b',')
}

/// Whether a text is a table with an id or a title.
pub(super) fn is_table(text: &str) -> bool {
    let header = text.lines().next().unwrap_or_default();
    let separator = char::from(separator(text));
    let mut names = header.split(separator).map(|name| fold(name.trim().trim_matches('"')));
    header.contains(separator) && names.any(|name| ["id", "title"].contains(&name.as_str()))
}

/// Reads a table with a header.
pub(super) fn table(source: &str) -> Result<SourceBacklog, Refusal> {
    let fault = |message: &str| Refusal::Fault { line: 1, column: 1, message: message.to_owned() };
    if source.matches('"').count() % 2 == 1 {
        return Err(fault("a quote in the table is never closed"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(source))
        .flexible(true)
        .from_reader(source.as_bytes());
    let header = reader.headers().map_err(|error| fault(&error.to_string()))?.clone();
    let columns: Vec<&str> = header.iter().map(str::trim).collect();
    refuse_foreign(
        |mark| matches!(mark, Mark::Column(name) if columns.iter().any(|column| fold(column) == *name)),
    )?;
    if let Some(name) = columns.iter().find(|name| !is_known(name) && !name.is_empty()) {
        let name = fields::clipped(name);
        return Err(Refusal::Foreign(format!("a table with a column `{name}`, which no task has")));
    }
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    for (number, row) in reader.records().enumerate() {
        let row = row.map_err(|error| fault(&error.to_string()))?;
        let mut cells = Map::new();
        for (column, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.trim().is_empty()) {
            if let Some(name) = columns.get(column).filter(|name| !name.is_empty()) {
                cells.insert((*name).to_owned(), cell.into());
            } else {
                let at = format!("row {}", number + 1);
                lost.push(Loss::new(&at, "cell", "its column has no name"));
            }
        }
        if !cells.is_empty() {
            records.push(Value::Object(cells));
        }
    }
    let mut backlog = all("csv", &Value::Null, &[], &records, RecordReader::new);
    backlog.lost.extend(lost);
    Ok(backlog)
}
