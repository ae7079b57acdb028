//! Edits of whole tasks in the text of a graph: inserts, removes and moves tasks, and sets fields.
//!
//! An edit replaces only the bytes of what it changes, in the style of its neighbors. Then the text
//! is parsed again and compared with the value that the edit should lead to, and refused if they
//! differ. Whether the result is a valid graph is for the caller to check.

mod differences;
mod fields;
mod list;
mod piece;
mod write;

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use serde_json::Value as Json;

pub use self::differences::{TaskDifference, differences};
use self::list::{CutList, Entries};
pub use self::piece::{piece, replace_piece};
use crate::graph::{
    edit::Unsupported,
    load::node_of,
    merge::{
        cut::CutSource,
        value::{Value, ValueShape},
    },
    task::TaskId,
    yaml::{NodeId, NodeKind, Tree},
};

/// A task to insert.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// The id.
    pub id: TaskId,
    /// The other fields, without the dependencies.
    pub fields: Vec<(String, Json)>,
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
        task.fields.sort_by_key(|(name, _)| fields::rank(name));
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
    let mut draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let index = list.index_of(place)?;
    let by_edges = draft.edges().filter(|_| draft.uses_edges(tasks_node));
    let items: Vec<Entries> =
        tasks.iter().map(|task| entries_of(task, by_edges.is_none())).collect();
    draft.insert_items(&list, index, &items, false);
    let added: Vec<Value> = items.iter().map(|item| Value::from(&object(item))).collect();
    let known = draft.list_mut(&name)?;
    known.splice(index..index, added);
    if let Some(edges) = by_edges {
        let of = |task: &NewTask| {
            let to = task.id.clone();
            task.depends_on.iter().map(|from| edge(from, &to)).collect::<Vec<_>>()
        };
        draft.add_edges(edges, &tasks.iter().flat_map(of).collect::<Vec<_>>())?;
    }
    draft.finish()
}

/// Returns the text without these tasks and without their entries in `edges`. Other tasks may still
/// name them in `depends_on`: see [`relink`].
///
/// # Errors
/// The text is not YAML, or its layout does not allow the edit.
pub fn remove(text: &str, ids: &[TaskId]) -> Result<String, Unsupported> {
    let mut draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let removed: HashSet<&str> = ids.iter().map(TaskId::as_str).collect();
    let numbers: HashSet<usize> =
        removed.iter().filter_map(|id| list.cut.by_name.get(*id)).copied().collect();
    draft.check_unused(&list, &numbers)?;
    draft.remove_items(&list, |index| numbers.contains(&index));
    draft.list_mut(&name)?.retain(|task| !named(task, "id", &removed));
    draft.remove_edges(|from, to| removed.contains(from) || removed.contains(to))?;
    draft.finish()
}

/// Returns the text with the task at another place.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or a task is not in it.
pub fn move_to(text: &str, id: &TaskId, place: &TaskPlace) -> Result<String, Unsupported> {
    let mut draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let (from, to) = (list.number_of(id)?, list.index_of(place)?);
    if to == from || to == from + 1 {
        return Ok(text.to_owned());
    }
    draft.move_item(&list, from, to);
    let known = draft.list_mut(&name)?;
    let task = known.remove(from);
    known.insert(if to > from { to - 1 } else { to }, task);
    draft.finish()
}

/// Returns the text with fields of a task set, or removed where the value is none.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or the task is not in it.
pub fn set_fields(
    text: &str,
    id: &TaskId,
    fields: &[(String, Option<Json>)],
) -> Result<String, Unsupported> {
    set_fields_of(text, &[(id.clone(), fields.to_vec())])
}

/// The fields of a task to set, or to remove where the value is none.
pub type FieldChanges = (TaskId, Vec<(String, Option<Json>)>);

/// Returns the text with fields of several tasks set or removed, each task once. The text is parsed
/// once, however many there are.
///
/// # Errors
/// The text is not YAML, its layout does not allow an edit, or a task is not in it.
pub fn set_fields_of(text: &str, changes: &[FieldChanges]) -> Result<String, Unsupported> {
    let without = fields::removed(text, changes)?;
    let mut draft = GraphDraft::parse(&without)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    for (id, fields) in changes {
        let number = list.number_of(id)?;
        let mut set: Vec<(&String, &Json)> =
            fields.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
        set.sort_by_key(|(key, _)| fields::rank(key));
        for (key, value) in set {
            let wanted = wanted(draft.field(&name, number, key)?, value);
            if draft.field(&name, number, key)? != Some(&wanted) {
                draft.set_field(&list, number, key, value)?;
                draft.want_field(&name, number, key, wanted)?;
            }
        }
    }
    draft.finish()
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
    let mut draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let by_edges = draft.edges().filter(|_| draft.uses_edges(tasks_node));
    let removed: HashMap<&str, HashSet<&str>> = links
        .iter()
        .map(|link| (link.id.as_str(), link.remove.iter().map(TaskId::as_str).collect()))
        .collect();
    let is_removed =
        |from: &str, to: &str| removed.get(to).is_some_and(|removed| removed.contains(from));
    draft.remove_edges(is_removed)?;
    let present = draft.edge_pairs();
    let mut added = Vec::new();
    for link in links {
        let number = list.number_of(&link.id)?;
        let own = draft.field(&name, number, "depends_on")?.map(names_of);
        let in_task = own.is_some() || by_edges.is_none();
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
            let value = Json::from(names);
            let wanted = wanted(draft.field(&name, number, "depends_on")?, &value);
            draft.set_field(&list, number, "depends_on", &value)?;
            draft.want_field(&name, number, "depends_on", wanted)?;
        }
    }
    if let Some(edges) = by_edges.filter(|_| !added.is_empty()) {
        draft.add_edges(edges, &added)?;
    }
    draft.finish()
}

fn missing(id: &TaskId) -> Unsupported {
    Unsupported { reason: format!("there is no task `{id}`") }
}

fn unreadable(fault: impl std::fmt::Display) -> Unsupported {
    Unsupported { reason: format!("the text cannot be read: {fault}") }
}

fn read(text: &str) -> Result<(Tree, Value), Unsupported> {
    let tree = Tree::parse(text).map_err(unreadable)?;
    match Value::of_file(text, &tree) {
        Some(value) => Ok((tree, value)),
        None => Err(Unsupported { reason: "the text has tags or duplicate keys".to_owned() }),
    }
}

/// The entries of a new task. The dependencies follow the priority, as in the documented order.
fn entries_of(task: &NewTask, with_dependencies: bool) -> Entries {
    let mut entries: Entries = vec![("id".to_owned(), Json::from(task.id.as_str()))];
    entries.extend(task.fields.iter().filter(|(name, _)| name != "id").cloned());
    if with_dependencies && !task.depends_on.is_empty() {
        let names: Vec<&str> = task.depends_on.iter().map(TaskId::as_str).collect();
        let is_later = |name: &str| fields::rank(name) > fields::rank("depends_on");
        let priority = entries.iter().position(|(name, _)| name == "priority").map(|at| at + 1);
        let at = priority.or_else(|| entries.iter().position(|(name, _)| is_later(name)));
        let field = ("depends_on".to_owned(), Json::from(names));
        entries.insert(at.unwrap_or(entries.len()), field);
    }
    entries
}

fn edge(from: &TaskId, to: &TaskId) -> Entries {
    let text = |id: &TaskId| Json::from(id.as_str());
    vec![("from".to_owned(), text(from)), ("to".to_owned(), text(to))]
}

fn object(entries: &Entries) -> Json {
    Json::Object(entries.iter().cloned().collect())
}

/// Whether the value of `key` is one of these.
fn named(value: &Value, key: &str, names: &HashSet<&str>) -> bool {
    value.get(key).and_then(Value::text).is_some_and(|name| names.contains(name))
}

/// Whether a text ends in a block scalar, to which its final line break belongs.
fn ends_in_block(text: &str) -> bool {
    let kind = Tree::parse(text).ok().and_then(|tree| Some(tree.kind(tree.last_of(tree.root()?))));
    matches!(kind, Some(NodeKind::Literal | NodeKind::Folded))
}

/// The value that a field should have. Items of a list that stay are left as they are written.
fn wanted(old: Option<&Value>, new: &Json) -> Value {
    let (Some(Value::List(old)), Json::Array(items)) = (old, new) else {
        return Value::from(new);
    };
    let item = |item: &Json| {
        let kept = old.iter().find(|kept| kept.text().is_some() && kept.text() == item.as_str());
        kept.cloned().unwrap_or_else(|| Value::from(item))
    };
    Value::List(items.iter().map(item).collect())
}

/// The texts of a list, or the one text in place of a list.
fn names_of(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().filter_map(Value::text).map(str::to_owned).collect(),
        Value::Single { .. } if value.is_nothing() => Vec::new(),
        Value::Single { text, .. } => vec![text.clone()],
        Value::Map(_) => Vec::new(),
    }
}

/// The bytes of a text to replace.
struct TextSplice {
    at: Range<usize>,
    with: String,
}

/// A text with the replacements of an edit, and the value that they should lead to.
struct GraphDraft<'a> {
    text: &'a str,
    tree: Tree,
    newline: &'static str,
    want: Value,
    splices: Vec<TextSplice>,
}

impl<'a> GraphDraft<'a> {
    fn parse(text: &'a str) -> Result<GraphDraft<'a>, Unsupported> {
        let (tree, want) = read(text)?;
        let first = text.find('\n').map_or("", |at| &text[..=at]);
        let newline = if first.ends_with("\r\n") { "\r\n" } else { "\n" };
        Ok(GraphDraft { text, tree, newline, want, splices: Vec::new() })
    }

    fn source(&self) -> CutSource<'_> {
        CutSource { text: self.text, tree: &self.tree }
    }

    fn splice(&mut self, at: usize, with: String) {
        self.replace(at..at, with);
    }

    fn replace(&mut self, at: Range<usize>, with: String) {
        self.splices.push(TextSplice { at, with });
    }

    /// The name and the node of the list of tasks.
    fn tasks(&self) -> Result<(String, NodeId), Unsupported> {
        let entry = |name: &str| {
            let (_, node) = self.tree.entry(self.text, self.tree.root()?, name)?;
            let is_list = matches!(self.tree.kind(node), NodeKind::Sequence { .. });
            is_list.then(|| (name.to_owned(), node))
        };
        let none = || Unsupported { reason: "the file has no list of tasks".to_owned() };
        entry("tasks").or_else(|| entry("nodes")).ok_or_else(none)
    }

    fn edges(&self) -> Option<NodeId> {
        let (_, node) = self.tree.entry(self.text, self.tree.root()?, "edges")?;
        matches!(self.tree.kind(node), NodeKind::Sequence { .. }).then_some(node)
    }

    /// Whether dependencies belong into `edges`: no task has a `depends_on`.
    fn uses_edges(&self, tasks: NodeId) -> bool {
        let has = |task| self.tree.entry(self.text, task, "depends_on").is_some();
        !self.tree.items(tasks).any(has)
    }

    /// Checks that no alias outside of these tasks needs what they contain.
    fn check_unused(&self, list: &CutList, numbers: &HashSet<usize>) -> Result<(), Unsupported> {
        for &number in numbers {
            let node = list.cut.pieces[number].part.node;
            if node.is_some_and(|node| self.tree.is_used_outside(&self.tree.subtree(node))) {
                let reason = "the task has a value that is used elsewhere by an alias".to_owned();
                return Err(Unsupported { reason });
            }
        }
        Ok(())
    }

    /// The wanted items of a list at the top of the file.
    fn list_mut(&mut self, name: &str) -> Result<&mut Vec<Value>, Unsupported> {
        if let Value::Map(entries) = &mut self.want
            && let Some((_, Value::List(items))) = entries.iter_mut().find(|(key, _)| key == name)
        {
            return Ok(items);
        }
        Err(Unsupported { reason: format!("`{name}` is not a list") })
    }

    /// The wanted value of a field.
    fn field(
        &mut self,
        list: &str,
        number: usize,
        key: &str,
    ) -> Result<Option<&Value>, Unsupported> {
        Ok(self.list_mut(list)?[number].get(key))
    }

    fn want_field(
        &mut self,
        list: &str,
        number: usize,
        key: &str,
        value: Value,
    ) -> Result<(), Unsupported> {
        if let Value::Map(entries) = &mut self.list_mut(list)?[number] {
            match entries.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key.to_owned(), value)),
            }
        }
        Ok(())
    }

    fn add_edges(&mut self, edges: NodeId, added: &[Entries]) -> Result<(), Unsupported> {
        let list = self.cut_list("edges", edges, ValueShape::Edges)?;
        self.insert_items(&list, list.cut.pieces.len(), added, true);
        let added = added.iter().map(|item| Value::from(&object(item)));
        self.list_mut("edges")?.extend(added);
        Ok(())
    }

    fn remove_edges(&mut self, is_removed: impl Fn(&str, &str) -> bool) -> Result<(), Unsupported> {
        let Some(edges) = self.edges() else { return Ok(()) };
        let matches = |value: &Value| {
            let end = |key: &str| value.get(key).and_then(Value::text);
            matches!((end("from"), end("to")), (Some(from), Some(to)) if is_removed(from, to))
        };
        let known = self.list_mut("edges")?;
        let gone: HashSet<usize> =
            (0..known.len()).filter(|index| matches(&known[*index])).collect();
        if gone.is_empty() {
            return Ok(());
        }
        known.retain(|value| !matches(value));
        let list = self.cut_list("edges", edges, ValueShape::Edges)?;
        self.remove_items(&list, |index| gone.contains(&index));
        Ok(())
    }

    /// The wanted entries of `edges`: from, to.
    fn edge_pairs(&mut self) -> HashSet<(String, String)> {
        let pair = |value: &Value| {
            let end = |key: &str| Some(value.get(key)?.text()?.to_owned());
            Some((end("from")?, end("to")?))
        };
        self.list_mut("edges")
            .map_or_else(|_| HashSet::new(), |edges| edges.iter().filter_map(pair).collect())
    }

    /// The text with all replacements. A missing final line break stays missing.
    fn applied(&mut self) -> Result<String, Unsupported> {
        let splices = std::mem::take(&mut self.splices);
        let clash = || Unsupported { reason: "the changes overlap in this layout".to_owned() };
        let mut text = list::apply(self.text, splices).ok_or_else(clash)?;
        let was_open = !self.text.is_empty() && !self.text.ends_with('\n');
        if was_open && text.ends_with('\n') && !ends_in_block(&text) {
            text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
        } else if !was_open && !text.is_empty() && !text.ends_with('\n') {
            text.push_str(self.newline);
        }
        Ok(text)
    }

    fn finish(mut self) -> Result<String, Unsupported> {
        let text = self.applied()?;
        match read(&text) {
            Ok((_, value)) if value == self.want => Ok(text),
            _ => Err(Unsupported { reason: "the layout of the file does not allow it".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;
