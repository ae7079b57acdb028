//! Edits of whole tasks in the text of a graph: inserts and removes tasks, and sets fields.
//!
//! An edit replaces only the changed bytes, in the style of their neighbors. Then the text is
//! parsed again and compared with the value that the edit should lead to, and refused if they
//! differ. The caller checks whether the result is a valid graph.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::{
    edit::{Entries, EntryPlace, TextEdit, Unsupported, cut::ValueShape, rank},
    load::task_nodes,
    task::TaskId,
    yaml::{Document, Node},
};

/// A task to insert.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The id.
    pub id: TaskId,
    /// The other fields, without the dependencies.
    pub fields: Vec<(String, Value)>,
    /// The tasks that must be complete first.
    pub depends_on: Vec<TaskId>,
}

/// Returns the text with new tasks after all others, in their order, with their fields in the
/// documented order. Their dependencies are written as those of the other tasks: in `depends_on`,
/// or in `edges`.
///
/// # Errors
/// The text is not YAML, or its layout does not allow the edit.
pub fn insert(text: &str, tasks: &[NewTask]) -> Result<String, Unsupported> {
    if tasks.is_empty() {
        return Ok(text.to_owned());
    }
    let mut tasks = tasks.to_vec();
    for task in &mut tasks {
        task.fields.sort_by_key(|(name, _)| rank(name));
    }
    edited(text, |edit| {
        let list = edit.task_list()?;
        let in_task = edit.dependencies_in_tasks()?;
        let items: Vec<Entries> = tasks.iter().map(|task| entries_of(task, in_task)).collect();
        edit.append_items(&list, &items, false);
        if in_task {
            return Ok(());
        }
        let of = |task: &NewTask| {
            let to = task.id.clone();
            task.depends_on.iter().map(|from| edge(from, &to)).collect::<Vec<_>>()
        };
        edit.add_edges(&tasks.iter().flat_map(of).collect::<Vec<_>>())
    })
}

/// The fields of a task to set, or to remove where the value is none.
pub type FieldChanges = (TaskId, Vec<(String, Option<Value>)>);

/// Returns the text with fields of several tasks set or removed, each task once. The text is parsed
/// once, however many there are.
///
/// # Errors
/// The text is not YAML, its layout does not allow an edit, or a task is not in it.
pub fn set_fields_of(text: &str, changes: &[FieldChanges]) -> Result<String, Unsupported> {
    edited(text, |edit| {
        let list = edit.task_list()?;
        for (id, fields) in changes {
            let mut fields: Vec<(&str, Option<Value>)> =
                fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            fields.sort_by_key(|(key, _)| rank(key));
            edit.set(list.node_of(id)?, &fields, EntryPlace::Documented)?;
        }
        Ok(())
    })
}

/// Returns the text with another task as a dependency of these. A dependency is written as the file
/// does it: in `depends_on` of its task, or in `edges`.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or a task is not in it.
pub fn depend(text: &str, tasks: &[TaskId], on: &TaskId) -> Result<String, Unsupported> {
    if tasks.is_empty() {
        return Ok(text.to_owned());
    }
    edited(text, |edit| {
        let list = edit.task_list()?;
        let all_in_tasks = edit.dependencies_in_tasks()?;
        let present: HashSet<(String, String)> =
            edit.edge_pairs().map(|(_, from, to)| (from, to)).collect();
        let mut added = Vec::new();
        for id in tasks {
            let task = list.node_of(id)?;
            let own = edit.node(task).get("depends_on").map(texts_of);
            let in_task = own.is_some() || all_in_tasks;
            let mut names = own.unwrap_or_default();
            if names.iter().any(|name| name == on.as_str())
                || present.contains(&(on.to_string(), id.to_string()))
            {
                continue;
            }
            if in_task {
                names.push(on.to_string());
                let value = Some(Value::from(names));
                edit.set(task, &[("depends_on", value)], EntryPlace::Documented)?;
            } else {
                added.push(edge(on, id));
            }
        }
        edit.add_edges(&added)
    })
}

fn parsed(text: &str) -> Result<Document, Unsupported> {
    Document::parse(text)
        .map_err(|fault| Unsupported { reason: format!("the text cannot be read: {fault}") })
}

/// The text after an edit.
fn edited(
    text: &str,
    change: impl FnOnce(&mut TextEdit<'_>) -> Result<(), Unsupported>,
) -> Result<String, Unsupported> {
    let document = parsed(text)?;
    let mut edit = TextEdit::new(&document);
    change(&mut edit)?;
    edit.finish().map(Document::into_text)
}

/// The entries of a new task. The dependencies follow the priority, as in the documented order.
fn entries_of(task: &NewTask, with_dependencies: bool) -> Entries {
    let mut entries: Entries = vec![("id".to_owned(), Value::from(task.id.as_str()))];
    entries.extend(task.fields.iter().filter(|(name, _)| name != "id").cloned());
    if with_dependencies && !task.depends_on.is_empty() {
        let names: Vec<&str> = task.depends_on.iter().map(TaskId::as_str).collect();
        let is_later = |name: &str| rank(name) > rank("depends_on");
        let priority = entries.iter().position(|(name, _)| name == "priority").map(|at| at + 1);
        let at = priority.or_else(|| entries.iter().position(|(name, _)| is_later(name)));
        let field = ("depends_on".to_owned(), Value::from(names));
        entries.insert(at.unwrap_or(entries.len()), field);
    }
    entries
}

fn edge(from: &TaskId, to: &TaskId) -> Entries {
    let text = |id: &TaskId| Value::from(id.as_str());
    vec![("from".to_owned(), text(from)), ("to".to_owned(), text(to))]
}

/// The texts of a list, or the one text in place of a list.
fn texts_of(value: Node<'_>) -> Vec<String> {
    let single = (!value.is_null() && !value.is_list()).then_some(value);
    let texts = value.items().chain(single).filter_map(Node::text);
    texts.map(std::borrow::Cow::into_owned).collect()
}

impl TextEdit<'_> {
    /// Whether dependencies belong into the tasks: one has them, or the file has no `edges`.
    fn dependencies_in_tasks(&self) -> Result<bool, Unsupported> {
        let (_, tasks) = self.tasks()?;
        let has = |task: Node<'_>| task.get("depends_on").is_some();
        Ok(self.edges().is_none() || self.node(tasks).items().any(has))
    }

    /// The entries of `edges` with two ends: number, from, to.
    fn edge_pairs(&self) -> impl Iterator<Item = (usize, String, String)> {
        let list = self.edges().map(|edges| self.node(edges));
        list.into_iter().flat_map(Node::items).enumerate().filter_map(|(number, edge)| {
            let end = |key| Some(edge.get(key)?.text()?.into_owned());
            Some((number, end("from")?, end("to")?))
        })
    }

    fn add_edges(&mut self, added: &[Entries]) -> Result<(), Unsupported> {
        let Some(edges) = self.edges().filter(|_| !added.is_empty()) else { return Ok(()) };
        let list = self.cut_list("edges", edges, ValueShape::Edges)?;
        self.append_items(&list, added, true);
        Ok(())
    }
}

/// The fields that belong to the status of a task.
const PROGRESS: [&str; 4] = ["status", "claimed_at", "claimed_by", "completed_at"];

/// A task of a text, with its dependencies in either shape.
struct ComparedTask<'v> {
    node: Node<'v>,
    depends_on: BTreeSet<String>,
}

/// Returns the tasks of both texts whose fields differ, other than those of the status. Empty if one
/// of the texts is not a graph.
pub fn edited_tasks(before: &str, after: &str) -> Vec<TaskId> {
    let (Ok(before), Ok(after)) = (Document::parse(before), Document::parse(after)) else {
        return Vec::new();
    };
    let (was, is) = (compared(&before), compared(&after));
    let edited = was.iter().filter(|(id, one)| is.get(*id).is_some_and(|is| differ(one, is)));
    edited.filter_map(|(name, _)| TaskId::new(name).ok()).collect()
}

fn compared(file: &Document) -> BTreeMap<String, ComparedTask<'_>> {
    let mut found: BTreeMap<String, ComparedTask<'_>> = BTreeMap::new();
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

fn differ(one: &ComparedTask<'_>, other: &ComparedTask<'_>) -> bool {
    let keys = one.node.entries().chain(other.node.entries()).filter_map(|(key, _)| key.text());
    let is_same = |name: &str| match (one.node.get(name), other.node.get(name)) {
        (Some(one), Some(other)) => one == other,
        (one, other) => one.is_none() && other.is_none(),
    };
    let mut keys = keys.filter(|name| !PROGRESS.contains(&name.as_ref()) && *name != "depends_on");
    keys.any(|name| !is_same(&name)) || one.depends_on != other.depends_on
}

#[cfg(test)]
mod tests;
