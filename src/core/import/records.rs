//! Reads backlogs whose tasks are records: JSON, JSONL, CSV and task graphs. The only user of `csv`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    Loss, Refusal, SourceBacklog, SourceLink,
    fields::{self, RecordReader, fold, is_known, names, text, word_of},
    github,
};
use crate::{diagnostic::Diagnostic, graph::load::fields::FIELDS};

/// Backlogs in JSON that are not read: the name, and the fields of the whole or of its first record.
const FOREIGN: [(&str, &[&str]); 9] = [
    ("a board of Trello", &["cards", "lists"]),
    ("an export of Azure DevOps", &["fields", "rev"]),
    ("an export of Jira", &["key", "fields"]),
    ("an export of Linear", &["identifier", "title"]),
    ("an export of Asana", &["gid"]),
    ("an export of Notion", &["object", "properties"]),
    ("an export of GitLab", &["iid"]),
    ("an export of Taskwarrior", &["uuid", "entry"]),
    ("a task list of Claude Code", &["activeForm"]),
];

/// Tables that are not read, by a column.
const FOREIGN_TABLES: [(&str, &str); 7] = [
    ("an export of Jira", "issuekey"),
    ("an export of Asana", "sectioncolumn"),
    ("an export of Azure DevOps", "workitemtype"),
    ("an export of Trello", "cardname"),
    ("an export of Linear", "cyclenumber"),
    ("an export of GitLab", "issueid"),
    ("an export of Notion", "createdtime"),
];

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
                return Err(not_json(source, &error));
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
    let mut backlog = shaped(&whole).map_err(|name| Refusal::Foreign(name.to_owned()))?;
    backlog.lost.splice(0..0, lost);
    Ok(backlog)
}

fn not_json(source: &str, error: &serde_json::Error) -> Refusal {
    let before = source.split_inclusive('\n').take(error.line().saturating_sub(1));
    let start = before.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let most = start.min(source.len().saturating_sub(1));
    let start = (0..=most).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0);
    let end = source[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    Refusal::from(Diagnostic::error(format!("this is not JSON: {why}"), start..end))
}

/// Finds the records of a backlog in JSON, and reads them.
fn shaped(whole: &Value) -> Result<SourceBacklog, &'static str> {
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned();
    if let Some(foreign) = foreign(whole) {
        return Err(foreign);
    }
    if let Some(stories) = list(whole, "userStories") {
        return Ok(all("prd", whole, &["userStories"], &stories, story));
    }
    let mut records = match whole {
        Value::Array(items) => items.clone(),
        Value::Object(_) => list(whole, "items").unwrap_or_else(|| vec![whole.clone()]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("JSON without tasks");
        }
    };
    // `gh api --paginate --slurp` makes a list of pages.
    if records.iter().all(Value::is_array) {
        records = records.iter().flat_map(names_of_page).collect();
    }
    let any = |test: fn(&Value) -> bool| records.iter().any(test);
    if any(|record| record.get("number").is_some() && record.get("title").is_some()) {
        return Ok(all("github", &Value::Null, &[], &records, github::issue));
    }
    if any(|record| record.get("issue_type").is_some() && record.get("id").is_some()) {
        return Ok(all("beads", &Value::Null, &[], &records, bead));
    }
    if let Some(backlog) = task_master(whole) {
        return Ok(backlog);
    }
    if let Some(backlog) = graph(whole) {
        return Ok(backlog);
    }
    let is_mine = |record: &Value| {
        let mut names = record.as_object().into_iter().flatten().map(|(name, _)| name);
        !record.is_object() || names.all(|name| is_known(name))
    };
    let has_title = |record: &Value| word_of(record, &["id", "title"]).is_some();
    if records.iter().all(is_mine) && (records.is_empty() || records.iter().any(has_title)) {
        return Ok(all("graph", &Value::Null, &[], &records, own));
    }
    Err("JSON that is none of the formats which are read")
}

fn names_of_page(page: &Value) -> Vec<Value> {
    page.as_array().cloned().unwrap_or_default()
}

/// The tool of a backlog that is not read.
fn foreign(whole: &Value) -> Option<&'static str> {
    fn has(value: &Value, names: &[&str], depth: usize) -> bool {
        match value {
            Value::Array(items) => items.first().is_some_and(|item| has(item, names, depth)),
            Value::Object(entries) => {
                names.iter().all(|name| entries.contains_key(*name))
                    || depth > 0
                        && ["issues", "data", "nodes", "value", "results", "tasks"]
                            .iter()
                            .filter_map(|name| entries.get(*name))
                            .any(|value| has(value, names, depth - 1))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    FOREIGN.iter().find(|(_, names)| has(whole, names, 3)).map(|(name, _)| *name)
}

/// Reads all records. The other entries of the whole are for the top of the graph.
fn all(
    format: &'static str,
    whole: &Value,
    lists: &[&str],
    records: &[Value],
    read: Reader,
) -> SourceBacklog {
    let mut backlog = SourceBacklog { format, ..SourceBacklog::default() };
    for (name, value) in whole.as_object().into_iter().flatten() {
        if !lists.contains(&name.as_str()) {
            top(&mut backlog, name, value);
        }
    }
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

fn top(backlog: &mut SourceBacklog, name: &str, value: &Value) {
    if !fields::is_empty(value) {
        let is_free = !["tasks", "nodes", "edges", "defaults"].contains(&name);
        let name = if is_free { name.to_owned() } else { format!("x-{name}") };
        backlog.top.push((name, value.clone()));
    }
}

/// A record of a list of tasks with our names.
fn own(value: &Value) -> Result<RecordReader, &'static str> {
    RecordReader::new(value, false)
}

/// A story of `prd.json`.
fn story(value: &Value) -> Result<RecordReader, &'static str> {
    RecordReader::new(value, true)
}

/// A bead. Only dependencies of some types make it wait.
fn bead(value: &Value) -> Result<RecordReader, &'static str> {
    let mut record = RecordReader::new(value, true)?;
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

/// Reads a task graph; none if it is no such mapping.
pub(super) fn graph(root: &Value) -> Option<SourceBacklog> {
    let tasks = ["tasks", "nodes"].iter().find_map(|name| root.get(name)?.as_array())?;
    let mut edges: HashMap<String, Vec<SourceLink>> = HashMap::new();
    for edge in root.get("edges").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(from), Some(to)) = (word_of(edge, &["from"]), word_of(edge, &["to"])) {
            edges.entry(to).or_default().push(from.into());
        }
    }
    let defaults = root.get("defaults").and_then(Value::as_object);
    let mut backlog = SourceBacklog { format: "graph", ..SourceBacklog::default() };
    for (name, value) in root.as_object()? {
        match name.as_str() {
            "tasks" | "nodes" | "edges" | "defaults" => {}
            "meta" => backlog.lost.push(Loss::new("", "meta", "its counts are never trusted")),
            _ => top(&mut backlog, name, value),
        }
    }
    for (number, task) in tasks.iter().enumerate() {
        let mut whole = task.clone();
        for (name, default) in defaults.into_iter().flatten() {
            let Some(entries) = whole.as_object_mut() else { break };
            let adds = FIELDS.iter().any(|field| field.name == name && field.adds_to_default);
            let list =
                |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            match entries.get(name) {
                None => drop(entries.insert(name.clone(), default.clone())),
                Some(mine) if adds && !fields::is_empty(mine) => {
                    let joined = [list(default), list(mine)].concat();
                    entries.insert(name.clone(), joined.into());
                }
                Some(_) => {}
            }
        }
        match own(&whole) {
            Ok(mut record) => {
                let key = word_of(task, &["id"]).unwrap_or_default();
                record.task.depends_on = edges.remove(&key).unwrap_or_default();
                record.finish(&mut backlog, number + 1);
            }
            Err(why) => {
                let at = format!("record {}", number + 1);
                backlog.lost.push(Loss::new(&at, "record", why));
            }
        }
    }
    for (key, _) in edges {
        let why = format!("no task `{}` in the source", fields::clipped(&key));
        backlog.lost.push(Loss::new("", "edges", why));
    }
    Some(backlog)
}

/// Reads the tasks of task-master, with or without tags; none if it is no such file.
fn task_master(root: &Value) -> Option<SourceBacklog> {
    let marks = ["subtasks", "testStrategy", "dependencies", "details"];
    let is_mine = |tasks: &&Vec<Value>| {
        tasks.is_empty()
            || tasks.iter().any(|task| marks.iter().any(|name| task.get(name).is_some()))
    };
    let mut backlog = SourceBacklog { format: "task-master", ..SourceBacklog::default() };
    if let Some(tasks) = root.get("tasks").and_then(Value::as_array) {
        if !is_mine(&tasks) || root.get("edges").is_some() {
            return None;
        }
        for (name, value) in root.as_object()?.iter().filter(|(name, _)| *name != "tasks") {
            top(&mut backlog, name, value);
        }
        TaskList { tasks, tag: None, prefix: "", parent: None }.read(&mut backlog);
        return Some(backlog);
    }
    let tasks_of = |tag: &'_ Value| tag.get("tasks").and_then(Value::as_array).cloned();
    let tags: Vec<(&String, Vec<Value>)> = { root.as_object()?.iter() }
        .filter_map(|(name, tag)| Some((name, tasks_of(tag)?)))
        .collect();
    if tags.is_empty() || !tags.iter().any(|(_, tasks)| is_mine(&tasks)) {
        return None;
    }
    for (name, value) in root.as_object()?.iter().filter(|(_, tag)| tasks_of(tag).is_none()) {
        top(&mut backlog, name, value);
    }
    for (name, tasks) in &tags {
        // Numbers start again in each tag.
        let is_main = tags.len() == 1 || *name == "master";
        let prefix = if is_main { String::new() } else { format!("{name}-") };
        let tag = (tags.len() > 1 || *name != "master").then_some(name.as_str());
        TaskList { tasks, tag, prefix: &prefix, parent: None }.read(&mut backlog);
    }
    Some(backlog)
}

/// A list of tasks of task-master, or of the subtasks of one.
struct TaskList<'a> {
    tasks: &'a [Value],
    /// The label of its tasks.
    tag: Option<&'a str>,
    /// What stands before its numbers.
    prefix: &'a str,
    /// The key of the task that contains it.
    parent: Option<&'a str>,
}

impl TaskList<'_> {
    fn read(&self, backlog: &mut SourceBacklog) {
        for (number, task) in self.tasks.iter().enumerate() {
            let mut record = match RecordReader::new(task, true) {
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
    let fault = |message: &str| Refusal::from(Diagnostic::error(message, 0..0));
    if source.matches('"').count() % 2 == 1 {
        return Err(fault("a quote in the table is never closed"));
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(source))
        .flexible(true)
        .from_reader(source.as_bytes());
    let header = reader.headers().map_err(|error| fault(&error.to_string()))?.clone();
    let columns: Vec<&str> = header.iter().map(str::trim).collect();
    let folded: Vec<String> = columns.iter().map(|name| fold(name)).collect();
    let tool = FOREIGN_TABLES.iter().find(|(_, column)| folded.iter().any(|name| name == column));
    if let Some((tool, _)) = tool {
        return Err(Refusal::Foreign((*tool).to_owned()));
    }
    if let Some(name) = columns.iter().find(|name| !is_known(name) && !name.is_empty()) {
        let name = fields::clipped(name);
        return Err(Refusal::Foreign(format!("a table with a column `{name}`, which no task has")));
    }
    let mut backlog = SourceBacklog { format: "csv", ..SourceBacklog::default() };
    for (number, row) in reader.records().enumerate() {
        let row = row.map_err(|error| fault(&error.to_string()))?;
        if row.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        let mut cells = Map::new();
        for (column, cell) in row.iter().enumerate() {
            match columns.get(column).filter(|name| !name.is_empty()) {
                Some(name) => drop(cells.insert((*name).to_owned(), cell.into())),
                None if cell.trim().is_empty() => {}
                None => {
                    let at = format!("row {}", number + 1);
                    backlog.lost.push(Loss::new(&at, "cell", "its column has no name"));
                }
            }
        }
        if let Ok(record) = own(&Value::Object(cells)) {
            record.finish(&mut backlog, number + 1);
        }
    }
    Ok(backlog)
}
