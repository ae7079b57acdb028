//! Edits of a graph, or of any small YAML text, in place. All other bytes stay unchanged.
//!
//! An edit collects replacements of bytes in the style of their neighbors, and the intended
//! meaning of the text. At the end all of them are made at once, the text is parsed again and
//! compared with that meaning; it is refused if they differ. So a wrong splice is refused, not
//! written. The caller checks whether the result is a valid graph.

pub(super) mod cut;
mod entries;
mod items;

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    ops::Range,
};

use serde_json::Value;

use self::cut::{CutSource, ValueShape};
pub use self::entries::EntryPlace;
pub(super) use self::{
    entries::rank,
    items::{CutList, Entries},
};
use super::yaml::{Document, Node, NodeId, NodeKind, Tree};
use crate::graph::yaml::{like, needs_escape};

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

    /// The text with all replacements, those at one place in the order they were made. A missing
    /// final line break stays missing.
    fn applied(&mut self) -> Result<String, Unsupported> {
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

    /// Whether a text has the intended meaning of this edit.
    fn leads_to(&self, document: &Document) -> bool {
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

// Writes values as YAML, in block and flow style, and in flow style also as JSON.

/// The longest list that is written on one line, in bytes.
const LINE: usize = 60;

/// How a file writes its values.
#[derive(Clone, Copy, Debug)]
struct ValueStyle {
    /// The line break.
    newline: &'static str,
    /// Whether keys and texts are in double quotes, as in JSON.
    is_json: bool,
    /// The number of columns between a key and the dashes of the list below it.
    offset: usize,
}

/// Writes a value as YAML on one line.
pub fn flow(value: &Value) -> String {
    ValueStyle { newline: "\n", is_json: false, offset: 2 }.flow(value)
}

impl ValueStyle {
    fn scalar(self, text: &str) -> String {
        like(if self.is_json { NodeKind::DoubleQuoted } else { NodeKind::Plain }, text)
    }

    /// A value on one line.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are written as in JSON")]
    fn flow(self, value: &Value) -> String {
        match value {
            Value::String(text) => self.scalar(text),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| self.flow_entry(key, value));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            plain => plain.to_string(),
        }
    }

    /// A key with its value on one line.
    fn flow_entry(self, key: &str, value: &Value) -> String {
        format!("{}: {}", self.scalar(key), self.flow(value))
    }

    /// A key in this column with its value, as whole lines. The blanks before the key are left out.
    fn entry(self, col: usize, key: &str, value: &Value) -> String {
        format!("{}:{}", self.scalar(key), self.after_key(col, value))
    }

    /// The value of a key in this column, from the colon to the end of its last line.
    fn after_key(self, col: usize, value: &Value) -> String {
        let newline = self.newline;
        match value {
            Value::String(text) if fits_literal(text) => {
                format!(" {}", self.literal(col + 2, text))
            }
            Value::Array(items) if !fits_line(items) => {
                let dash = col + self.offset;
                let items = items.iter().map(|item| self.item(dash, item));
                format!("{newline}{}", items.collect::<String>())
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Object(_) => format!(" {}{newline}", self.flow(value)),
        }
    }

    /// An item of a list whose dashes are in this column, as whole lines.
    fn item(self, dash: usize, value: &Value) -> String {
        let pad = " ".repeat(dash);
        match value {
            Value::String(text) if fits_literal(text) => {
                format!("{pad}- {}", self.literal(dash + 2, text))
            }
            Value::String(_)
            | Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Object(_) => format!("{pad}- {}{}", self.flow(value), self.newline),
        }
    }

    /// A text as a literal block, from its header on.
    fn literal(self, col: usize, text: &str) -> String {
        let mut out = if text.ends_with('\n') { "|" } else { "|-" }.to_owned();
        out.push_str(self.newline);
        for line in text.lines() {
            if !line.is_empty() {
                let _ = write!(out, "{:col$}{line}", "");
            }
            out.push_str(self.newline);
        }
        out
    }
}

/// Whether a text of several lines is the same as a literal block to every reader.
fn fits_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let is_usual = |line: &str| {
        !line.starts_with('\t')
            && (line.is_empty() || !line.trim().is_empty())
            && !line.chars().any(|c| c != '\t' && needs_escape(c))
    };
    text.contains('\n')
        && !body.is_empty()
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(is_usual)
}

/// Whether a list is written on one line: it has only short words.
fn fits_line(items: &[Value]) -> bool {
    let is_word = |item: &Value| match item {
        Value::String(text) => {
            !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::Array(_) | Value::Object(_) => false,
    };
    let length = |item: &Value| item.as_str().map_or(8, str::len) + 2;
    items.iter().all(is_word) && items.iter().map(length).sum::<usize>() <= LINE
}

#[cfg(test)]
mod write_tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::graph::yaml::Document;

    const STYLE: ValueStyle = ValueStyle { newline: "\n", is_json: false, offset: 2 };

    fn reads(text: &str, value: &Value) -> bool {
        let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text:?}"));
        document.root().unwrap().is_json(value)
    }

    #[test]
    fn each_kind_of_value_has_its_form() {
        for (value, text) in [
            (json!("a b"), "k: a b\n"),
            (json!("a: b"), "k: \"a: b\"\n"),
            (json!("1"), "k: \"1\"\n"),
            (json!(1), "k: 1\n"),
            (json!("a\nb"), "k: |-\n    a\n    b\n"),
            (json!("a\n\n# b\n"), "k: |\n    a\n\n    # b\n"),
            (json!(" a\nb"), "k: \" a\\nb\"\n"),
            (json!(["a", "b"]), "k: [a, b]\n"),
            (json!(["cargo test", "x"]), "k:\n    - cargo test\n    - x\n"),
            (json!([]), "k: []\n"),
            (json!({"a": ["b c", 1]}), "k: {a: [b c, 1]}\n"),
        ] {
            assert_eq!(STYLE.entry(2, "k", &value), text);
        }
        let json = ValueStyle { is_json: true, ..STYLE };
        assert_eq!(json.flow(&json!({"a": ["b\n", 1]})), r#"{"a": ["b\n", 1]}"#);
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text in "[a-c #:\\-\n\t\r'\"|>\u{1}\u{85}\u{feff}\u{202e}é\u{1f600}]{0,12}") {
            for value in [json!(text), json!([text, text]), json!({"k": text})] {
                let want = json!({"k": value});
                prop_assert!(reads(&STYLE.entry(0, "k", &value), &want));
                let flow = format!("{{{}}}\n", STYLE.flow_entry("k", &value));
                prop_assert!(reads(&flow, &want));
            }
        }
    }
}
