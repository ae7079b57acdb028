//! What changed between two texts of a graph, by task.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{names_of, read};
use crate::graph::{
    merge::value::Value,
    task::{Status, TaskId},
};

/// The fields that belong to the status of a task.
const PROGRESS: [&str; 4] = ["status", "claimed_at", "claimed_by", "completed_at"];

/// What changed of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDifference {
    /// The task.
    pub id: TaskId,
    /// The status before; none for a new task.
    pub old: Option<Status>,
    /// The status after; none for a removed task.
    pub new: Option<Status>,
    /// The other fields that changed, with `place` for the place in the file. Empty for a new or a
    /// removed task.
    pub fields: Vec<String>,
}

/// A task of a text, with its dependencies in either shape.
struct ComparedTask<'v> {
    value: &'v Value,
    depends_on: BTreeSet<String>,
}

/// Returns what changed, in the order of the text before and then of the text after. Empty if one
/// of the texts is not a graph. If two tasks changed places, the one in `about` moved.
pub fn differences(before: &str, after: &str, about: &[TaskId]) -> Vec<TaskDifference> {
    let (Ok((_, before)), Ok((_, after))) = (read(before), read(after)) else {
        return Vec::new();
    };
    let (old, new) = (ids(&before), ids(&after));
    let (was, is) = (compared(&before), compared(&after));
    let moved = moved(&old, &new, about);
    let added = new.iter().filter(|id| !was.contains_key(*id));
    let mut found = Vec::new();
    for name in old.iter().chain(added) {
        let Ok(id) = TaskId::new(name) else { continue };
        let (one, other) = (was.get(name), is.get(name));
        let mut fields = match (one, other) {
            (Some(one), Some(other)) => changed_fields(one, other),
            _ => Vec::new(),
        };
        if moved == Some(name) {
            fields.push("place".to_owned());
        }
        let (old, new) = (one.map(status), other.map(status));
        if old != new || !fields.is_empty() {
            found.push(TaskDifference { id, old, new, fields });
        }
    }
    found
}

fn tasks(file: &Value) -> impl Iterator<Item = &Value> {
    let list = file.get("tasks").or_else(|| file.get("nodes"));
    let items = match list {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter()
}

fn ids(file: &Value) -> Vec<String> {
    tasks(file).filter_map(|task| Some(task.get("id")?.text()?.to_owned())).collect()
}

fn compared(file: &Value) -> HashMap<String, ComparedTask<'_>> {
    let mut found: HashMap<String, ComparedTask<'_>> = HashMap::new();
    for value in tasks(file) {
        let Some(id) = value.get("id").and_then(Value::text) else { continue };
        let on = value.get("depends_on").map(names_of).unwrap_or_default();
        let task = ComparedTask { value, depends_on: on.into_iter().collect() };
        found.insert(id.to_owned(), task);
    }
    if let Some(Value::List(edges)) = file.get("edges") {
        for edge in edges {
            let end = |key: &str| edge.get(key).and_then(Value::text);
            if let (Some(from), Some(task)) =
                (end("from"), end("to").and_then(|to| found.get_mut(to)))
            {
                task.depends_on.insert(from.to_owned());
            }
        }
    }
    found
}

fn status(task: &ComparedTask<'_>) -> Status {
    let word = task.value.get("status").and_then(Value::text);
    word.and_then(Status::parse).unwrap_or(Status::Pending)
}

fn changed_fields(one: &ComparedTask<'_>, other: &ComparedTask<'_>) -> Vec<String> {
    let fields = |task: &ComparedTask<'_>| -> BTreeMap<String, Value> {
        match task.value {
            Value::Map(entries) => entries.iter().cloned().collect(),
            Value::Single { .. } | Value::List(_) => BTreeMap::new(),
        }
    };
    let (old, new) = (fields(one), fields(other));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let is_changed = |name: &str| old.get(name) != new.get(name);
    let mut changed: Vec<String> = names
        .into_iter()
        .filter(|name| !PROGRESS.contains(&name.as_str()) && *name != "depends_on")
        .filter(|name| is_changed(name))
        .cloned()
        .collect();
    if one.depends_on != other.depends_on {
        changed.push("depends_on".to_owned());
    }
    changed
}

/// The one task that has another place among those that both sides have.
fn moved<'n>(old: &'n [String], new: &[String], about: &[TaskId]) -> Option<&'n String> {
    let common = |names: &'n [String], others: &[String]| -> Vec<&'n String> {
        let others: BTreeSet<&String> = others.iter().collect();
        names.iter().filter(|name| others.contains(name)).collect()
    };
    let old = common(old, new);
    let known: BTreeSet<&String> = old.iter().copied().collect();
    let new: Vec<&String> = new.iter().filter(|name| known.contains(name)).collect();
    let first = old.iter().zip(&new).position(|(one, other)| one != other)?;
    let last = old.len() - old.iter().rev().zip(new.iter().rev()).position(|(a, b)| a != b)?;
    let (old, new) = (&old[first..last], &new[first..last]);
    let down = (old[1..] == new[..new.len() - 1]).then(|| old[0]);
    let up = (old[..old.len() - 1] == new[1..]).then(|| old[old.len() - 1]);
    let is_meant = |name: &&String| about.iter().any(|id| id.as_str() == *name);
    up.filter(is_meant).or(down).or(up)
}
