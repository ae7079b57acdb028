//! What changed between two texts of a graph, by task.

use std::collections::{BTreeSet, HashMap};

use super::texts_of;
use crate::graph::{
    load::task_nodes,
    task::{Status, TaskId},
    yaml::{Document, Node},
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
    node: Node<'v>,
    depends_on: BTreeSet<String>,
}

/// Returns what changed, in the order of the text before and then of the text after. Empty if one
/// of the texts is not a graph. If two tasks changed places, the one in `about` moved.
pub fn differences(before: &str, after: &str, about: &[TaskId]) -> Vec<TaskDifference> {
    let (Ok(before), Ok(after)) = (Document::parse(before), Document::parse(after)) else {
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

fn ids(file: &Document) -> Vec<String> {
    let id = |task: Node<'_>| Some(task.get("id")?.text()?.into_owned());
    task_nodes(file).filter_map(id).collect()
}

fn compared(file: &Document) -> HashMap<String, ComparedTask<'_>> {
    let mut found: HashMap<String, ComparedTask<'_>> = HashMap::new();
    for node in task_nodes(file) {
        let Some(id) = node.get("id").and_then(Node::text) else { continue };
        let depends_on = node.get("depends_on").map(texts_of).unwrap_or_default();
        let task = ComparedTask { node, depends_on: depends_on.into_iter().collect() };
        found.insert(id.into_owned(), task);
    }
    let edges = file.root().and_then(|root| root.get("edges"));
    for edge in edges.into_iter().flat_map(Node::items) {
        let end = |key| edge.get(key).and_then(Node::text);
        if let (Some(from), Some(to)) = (end("from"), end("to"))
            && let Some(task) = found.get_mut(to.as_ref())
        {
            task.depends_on.insert(from.into_owned());
        }
    }
    found
}

fn status(task: &ComparedTask<'_>) -> Status {
    let word = task.node.get("status").and_then(Node::text);
    word.and_then(|word| Status::parse(&word)).unwrap_or(Status::Pending)
}

fn changed_fields(one: &ComparedTask<'_>, other: &ComparedTask<'_>) -> Vec<String> {
    let names = one.node.entries().chain(other.node.entries());
    let names: BTreeSet<String> =
        names.filter_map(|(key, _)| Some(key.text()?.into_owned())).collect();
    let is_same = |name: &str| match (one.node.get(name), other.node.get(name)) {
        (Some(one), Some(other)) => one == other,
        (one, other) => one.is_none() && other.is_none(),
    };
    let mut changed: Vec<String> = names
        .into_iter()
        .filter(|name| !PROGRESS.contains(&name.as_str()) && *name != "depends_on")
        .filter(|name| !is_same(name))
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
