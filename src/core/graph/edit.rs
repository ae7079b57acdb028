//! Edits of a graph, or of any small YAML text, in place. All bytes outside of the edit stay as they
//! are.
//!
//! An edit collects replacements of bytes in the style of their neighbors, and what the text should
//! mean afterwards. At the end all of them are made at once, the text is parsed again and compared
//! with that meaning; it is refused if they differ. So a wrong splice is refused, not written. Whether
//! the result is a valid graph is for the caller to check.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    ops::Range,
};

use serde_json::Value;

use super::yaml::{Document, Node, NodeId, NodeKind, Tree};

pub(super) mod cut;
mod entries;
mod items;
mod write;

use self::cut::{CutSource, ValueShape};
pub use self::entries::EntryPlace;
pub(super) use self::entries::rank;
pub(super) use self::items::{CutList, Entries};
pub use self::write::flow;

/// The error for an edit that was refused; the text is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The reason, as a lower-case fragment.
    pub reason: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unsupported {}

pub(super) fn unsupported<T>(reason: impl Into<String>) -> Result<T, Unsupported> {
    Err(Unsupported { reason: reason.into() })
}

/// The bytes of a text to replace.
struct TextSplice {
    at: Range<usize>,
    with: String,
}

impl TextSplice {
    fn insertion(at: usize, with: String) -> TextSplice {
        TextSplice { at: at..at, with }
    }
}

/// The wanted value of one place.
#[derive(Clone)]
pub(super) enum Wanted<'t> {
    /// That of the text before, with the changes inside.
    Kept(Node<'t>),
    /// A new one.
    New(Value),
    /// The items of a list.
    List(Vec<Wanted<'t>>),
    /// Any.
    Any,
}

/// A text with the changes to make.
pub struct TextEdit<'t> {
    text: &'t str,
    tree: &'t Tree,
    newline: &'static str,
    splices: Vec<TextSplice>,
    /// The wanted items of the lists that change.
    lists: HashMap<NodeId, Vec<Wanted<'t>>>,
    /// The wanted entries of the mappings that change.
    mappings: HashMap<NodeId, Vec<(String, Wanted<'t>)>>,
}

impl<'t> TextEdit<'t> {
    /// Begins an edit.
    pub fn new(document: &'t Document) -> TextEdit<'t> {
        let text = document.text();
        let first = text.find('\n').map_or("", |at| &text[..=at]);
        let newline = if first.ends_with("\r\n") { "\r\n" } else { "\n" };
        let (lists, mappings) = (HashMap::new(), HashMap::new());
        TextEdit { text, tree: document.tree(), newline, splices: Vec::new(), lists, mappings }
    }

    /// The line break of the text.
    pub(super) fn newline(&self) -> &'static str {
        self.newline
    }

    /// A node of the text before.
    pub(super) fn node(&self, id: NodeId) -> Node<'t> {
        Node::new(self.text, self.tree, id)
    }

    fn root(&self) -> Option<Node<'t>> {
        Some(self.node(self.tree.root()?))
    }

    fn source(&self) -> CutSource<'t> {
        CutSource { text: self.text, tree: self.tree }
    }

    fn splice(&mut self, at: usize, with: String) {
        self.splices.push(TextSplice::insertion(at, with));
    }

    fn replace(&mut self, at: Range<usize>, with: String) {
        self.splices.push(TextSplice { at, with });
    }

    /// The name and the node of the list of tasks.
    pub(super) fn tasks(&self) -> Result<(&'static str, NodeId), Unsupported> {
        let list = |name| Some((name, self.root()?.get(name).filter(|list| list.is_list())?.id()));
        let none = || Unsupported { reason: "the file has no list of tasks".to_owned() };
        list("tasks").or_else(|| list("nodes")).ok_or_else(none)
    }

    /// The list of tasks, cut into its items.
    pub(super) fn task_list(&self) -> Result<CutList, Unsupported> {
        let (name, node) = self.tasks()?;
        self.cut_list(name, node, ValueShape::Tasks)
    }

    /// The node of `edges`, if it is a list.
    pub(super) fn edges(&self) -> Option<NodeId> {
        Some(self.root()?.get("edges").filter(|edges| edges.is_list())?.id())
    }

    /// The wanted items of a list.
    pub(super) fn items_mut(&mut self, list: NodeId) -> &mut Vec<Wanted<'t>> {
        let node = self.node(list);
        self.lists.entry(list).or_insert_with(|| node.items().map(Wanted::Kept).collect())
    }

    /// The wanted entries of a mapping.
    fn entries_mut(&mut self, mapping: NodeId) -> &mut Vec<(String, Wanted<'t>)> {
        let node = self.node(mapping);
        let name = |key: Node<'_>| key.text().unwrap_or_default().into_owned();
        let entries = || node.entries().map(|(key, value)| (name(key), Wanted::Kept(value)));
        self.mappings.entry(mapping).or_insert_with(|| entries().collect())
    }

    /// Checks that no alias outside of these items needs what they contain.
    pub(super) fn check_unused(
        &self,
        list: &CutList,
        numbers: &HashSet<usize>,
    ) -> Result<(), Unsupported> {
        let mut nodes = numbers.iter().filter_map(|number| list.cut.pieces[*number].part.node);
        if nodes.any(|node| self.tree.is_used_elsewhere(node)) {
            return unsupported("the task has a value that is used elsewhere by an alias");
        }
        Ok(())
    }

    /// The text with all replacements, those at one place in the order in which they were made. A
    /// missing final line break stays missing.
    pub(super) fn applied(&mut self) -> Result<String, Unsupported> {
        let mut splices = std::mem::take(&mut self.splices);
        splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
        let more: usize = splices.iter().map(|splice| splice.with.len()).sum();
        let mut text = String::with_capacity(self.text.len() + more);
        let mut done = 0;
        for TextSplice { at, with } in splices {
            let Some(kept) = self.text.get(done..at.start) else {
                return unsupported("the changes overlap in this layout");
            };
            text.push_str(kept);
            text.push_str(&with);
            done = at.end;
        }
        text.push_str(&self.text[done..]);
        let was_open = !self.text.is_empty() && !self.text.ends_with('\n');
        if was_open && text.ends_with('\n') && !ends_in_block(&text) {
            text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
        } else if !was_open && !text.is_empty() && !text.ends_with('\n') {
            text.push_str(self.newline);
        }
        Ok(text)
    }

    /// Makes all changes.
    ///
    /// # Errors
    /// The layout does not allow one of them.
    pub fn finish(mut self) -> Result<Document, Unsupported> {
        let text = self.applied()?;
        let document = Document::parse(&text).ok();
        document.filter(|document| self.leads_to(document)).ok_or_else(|| Unsupported {
            reason: "the layout of the file does not allow it".to_owned(),
        })
    }

    /// Whether a text means what this edit should lead to.
    pub(super) fn leads_to(&self, document: &Document) -> bool {
        match (self.root(), document.root()) {
            (Some(old), Some(new)) => self.is_kept(old, new),
            (old, new) => old.is_none() && new.is_none(),
        }
    }

    fn is_kept(&self, old: Node<'_>, new: Node<'_>) -> bool {
        if old.tag() != new.tag() {
            return false;
        }
        if let Some(items) = self.lists.get(&old.value_id()) {
            return self.has_items(items, new);
        }
        if let Some(entries) = self.mappings.get(&old.value_id()) {
            let found = |(key, value): &(String, Wanted<'_>)| {
                new.get(key).is_some_and(|new| self.is_wanted(value, new))
            };
            return new.is_mapping()
                && new.entries().count() == entries.len()
                && entries.iter().all(found);
        }
        if old.is_list() {
            let mut others = new.items();
            return new.is_list()
                && old.items().all(|old| others.next().is_some_and(|new| self.is_kept(old, new)))
                && others.next().is_none();
        }
        if !old.is_mapping() {
            return old == new;
        }
        let mut others = new.entries();
        let is_same = |(key, old): (Node<'_>, Node<'_>)| {
            others
                .next()
                .is_some_and(|(other, new)| self.is_kept(key, other) && self.is_kept(old, new))
        };
        new.is_mapping() && old.entries().all(is_same) && others.next().is_none()
    }

    fn is_wanted(&self, wanted: &Wanted<'_>, new: Node<'_>) -> bool {
        match wanted {
            Wanted::Any => true,
            Wanted::Kept(old) => self.is_kept(*old, new),
            Wanted::New(value) => new.is_json(value),
            Wanted::List(items) => self.has_items(items, new),
        }
    }

    fn has_items(&self, items: &[Wanted<'_>], new: Node<'_>) -> bool {
        new.is_list()
            && new.items().count() == items.len()
            && items.iter().zip(new.items()).all(|(item, new)| self.is_wanted(item, new))
    }
}

/// Whether a text ends in a block scalar, to which its final line break belongs.
fn ends_in_block(text: &str) -> bool {
    let kind = Tree::parse(text).ok().and_then(|tree| Some(tree.kind(tree.last_of(tree.root()?))));
    matches!(kind, Some(NodeKind::Literal | NodeKind::Folded))
}

#[cfg(test)]
mod tests;
