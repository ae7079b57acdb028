//! Edits of whole tasks in the text of a graph: inserts, removes and moves tasks, and sets fields.
//!
//! An edit replaces only the bytes of what it changes, in the style of its neighbors. Then the text
//! is parsed again and compared with the value that the edit should lead to, and refused if they
//! differ. Whether the result is a valid graph is for the caller to check.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::{
    edit::{Entries, EntryPlace, TextEdit, Unsupported, cut::ValueShape, rank, unsupported},
    load::task_nodes,
    task::{Status, TaskId},
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

/// A place among the tasks of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskPlace {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Directly before this task.
    Before(TaskId),
    /// Directly after this task.
    After(TaskId),
}

/// Dependencies of one task to add and to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relink {
    /// The task.
    pub id: TaskId,
    /// The dependencies to add. Those that it has already are left as they are.
    pub add: Vec<TaskId>,
    /// The dependencies to remove, wherever the file names them.
    pub remove: Vec<TaskId>,
}

/// Returns the text with new tasks at `place`, in their order, with their fields in the order in
/// which fields are documented. Their dependencies are written as those of the other tasks: in
/// `depends_on`, or in `edges`.
///
/// # Errors
/// The text is not YAML, or its layout does not allow the edit.
pub fn insert(text: &str, tasks: &[NewTask], place: &TaskPlace) -> Result<String, Unsupported> {
    let mut tasks = tasks.to_vec();
    for task in &mut tasks {
        task.fields.sort_by_key(|(name, _)| rank(name));
    }
    insert_as_given(text, &tasks, place)
}

/// Does the same as [`insert`], with the fields in the order in which they are given.
///
/// # Errors
/// The text is not YAML, or its layout does not allow the edit.
pub fn insert_as_given(
    text: &str,
    tasks: &[NewTask],
    place: &TaskPlace,
) -> Result<String, Unsupported> {
    if tasks.is_empty() {
        return Ok(text.to_owned());
    }
    edited(text, |edit| {
        let list = edit.task_list()?;
        let in_task = edit.dependencies_in_tasks()?;
        let items: Vec<Entries> = tasks.iter().map(|task| entries_of(task, in_task)).collect();
        edit.insert_items(&list, list.index_of(place)?, &items, false);
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

/// Returns the text without these tasks and without their entries in `edges`. Other tasks may still
/// name them in `depends_on`: see [`relink`].
///
/// # Errors
/// The text is not YAML, or its layout does not allow the edit.
pub fn remove(text: &str, ids: &[TaskId]) -> Result<String, Unsupported> {
    let removed: HashSet<&str> = ids.iter().map(TaskId::as_str).collect();
    edited(text, |edit| {
        let list = edit.task_list()?;
        let numbers: HashSet<usize> =
            removed.iter().filter_map(|id| list.cut.by_name.get(*id)).copied().collect();
        edit.check_unused(&list, &numbers)?;
        edit.remove_items(&list, |index| numbers.contains(&index));
        edit.remove_edges(|from, to| removed.contains(from) || removed.contains(to))
    })
}

/// Returns the text with the task at another place.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or a task is not in it.
pub fn move_to(text: &str, id: &TaskId, place: &TaskPlace) -> Result<String, Unsupported> {
    edited(text, |edit| {
        let list = edit.task_list()?;
        let (from, to) = (list.number_of(id)?, list.index_of(place)?);
        if to != from && to != from + 1 {
            edit.move_item(&list, from, to);
        }
        Ok(())
    })
}

/// Returns the text with fields of a task set, or removed where the value is none.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or the task is not in it.
pub fn set_fields(
    text: &str,
    id: &TaskId,
    fields: &[(String, Option<Value>)],
) -> Result<String, Unsupported> {
    set_fields_of(text, &[(id.clone(), fields.to_vec())])
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

/// Returns the text with other dependencies. A dependency is written as the file does it: in
/// `depends_on` of its task, or in `edges`.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or a task is not in it.
pub fn relink(text: &str, links: &[Relink]) -> Result<String, Unsupported> {
    if links.is_empty() {
        return Ok(text.to_owned());
    }
    let removed: HashMap<&str, HashSet<&str>> = links
        .iter()
        .map(|link| (link.id.as_str(), link.remove.iter().map(TaskId::as_str).collect()))
        .collect();
    let is_removed =
        |from: &str, to: &str| removed.get(to).is_some_and(|removed| removed.contains(from));
    edited(text, |edit| {
        let list = edit.task_list()?;
        let all_in_tasks = edit.dependencies_in_tasks()?;
        let present: HashSet<(String, String)> = edit
            .edge_pairs()
            .filter_map(|(_, from, to)| (!is_removed(&from, &to)).then_some((from, to)))
            .collect();
        edit.remove_edges(is_removed)?;
        let mut added = Vec::new();
        for link in links {
            let task = list.node_of(&link.id)?;
            let own = edit.node(task).get("depends_on").map(texts_of);
            let in_task = own.is_some() || all_in_tasks;
            let mut names = own.clone().unwrap_or_default();
            names.retain(|name| !is_removed(name, link.id.as_str()));
            for from in &link.add {
                let pair = (from.to_string(), link.id.to_string());
                if names.contains(&pair.0) || present.contains(&pair) {
                    continue;
                }
                if in_task {
                    names.push(pair.0);
                } else {
                    added.push(edge(from, &link.id));
                }
            }
            if in_task && own.unwrap_or_default() != names {
                let value = Some(Value::from(names));
                edit.set(task, &[("depends_on", value)], EntryPlace::Documented)?;
            }
        }
        edit.add_edges(&added)
    })
}

/// Returns the text of one task with the comments directly above it, as if it were the first column
/// of a file.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or the task is not in it.
pub fn piece(text: &str, id: &TaskId) -> Result<String, Unsupported> {
    let document = parsed(text)?;
    let list = TextEdit::new(&document).task_list()?;
    let own = &text[list.own(text, list.number_of(id)?)];
    let col = list.col().unwrap_or(0);
    let mut piece = String::with_capacity(own.len());
    for line in own.split_inclusive('\n') {
        let blanks = line.bytes().take(col).take_while(|byte| *byte == b' ').count();
        piece.push_str(&line[blanks..]);
    }
    let piece = piece.replace("\r\n", "\n");
    Ok(if piece.ends_with('\n') { piece } else { piece + "\n" })
}

/// Returns the text with another [`piece`] in place of that of the task.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, the task is not in it, or the new piece
/// is not one task with the same id. If the new piece is not YAML, neither is the text returned.
pub fn replace_piece(text: &str, id: &TaskId, new: &str) -> Result<String, Unsupported> {
    let document = parsed(text)?;
    let mut edit = TextEdit::new(&document);
    let list = edit.task_list()?;
    let number = list.number_of(id)?;
    edit.check_unused(&list, &HashSet::from([number]))?;
    let newline = edit.newline();
    let with = match list.col() {
        None => new.trim().replace('\n', newline),
        Some(col) => {
            let line = |line: &str| {
                let pad = if line.trim().is_empty() { 0 } else { col };
                " ".repeat(pad) + line + newline
            };
            new.lines().map(line).collect::<Vec<_>>().concat()
        }
    };
    edit.replace_item(&list, number, with);
    let changed = edit.applied()?;
    // The errors of a text that is not YAML have places in the whole text, for the caller to show.
    let Ok(document) = Document::parse(&changed) else { return Ok(changed) };
    let tasks = TextEdit::new(&document).task_list();
    let is_there = tasks.is_ok_and(|tasks| tasks.cut.by_name.get(id.as_str()) == Some(&number));
    if is_there && edit.leads_to(&document) {
        return Ok(changed);
    }
    unsupported(format!("the text is not one task with the id `{id}`"))
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
        self.insert_items(&list, list.cut.pieces.len(), added, true);
        Ok(())
    }

    fn remove_edges(&mut self, is_removed: impl Fn(&str, &str) -> bool) -> Result<(), Unsupported> {
        let gone = self.edge_pairs().filter(|(_, from, to)| is_removed(from, to));
        let gone: HashSet<usize> = gone.map(|(number, ..)| number).collect();
        let Some(edges) = self.edges().filter(|_| !gone.is_empty()) else { return Ok(()) };
        let list = self.cut_list("edges", edges, ValueShape::Edges)?;
        self.remove_items(&list, |index| gone.contains(&index));
        Ok(())
    }
}

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

#[cfg(test)]
mod tests;
