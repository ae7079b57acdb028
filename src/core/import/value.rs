//! The values of a source, with their bytes, whatever the syntax of the source.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use crate::graph::yaml::{NodeId, NodeKind, Tree};

/// A value and its bytes.
#[derive(Clone, Debug)]
pub(super) struct SourceValue {
    pub(super) at: Range<usize>,
    pub(super) kind: SourceKind,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum SourceKind {
    Null,
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    Text(String),
    List(Vec<SourceValue>),
    Map(Vec<SourceEntry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug)]
pub(super) struct SourceEntry {
    pub(super) name: String,
    pub(super) key_at: Range<usize>,
    pub(super) value: SourceValue,
}

impl SourceValue {
    /// A text at this place.
    pub(super) fn of_text(text: impl Into<String>, at: Range<usize>) -> SourceValue {
        SourceValue { at, kind: SourceKind::Text(text.into()) }
    }

    /// Reads a node of a YAML text.
    pub(super) fn of_yaml(text: &str, tree: &Tree, node: NodeId) -> SourceValue {
        let at = tree.range(node);
        let scalar = || tree.scalar(text, node).unwrap_or_default().into_owned();
        let kind = match tree.kind(node) {
            NodeKind::Plain => plain(scalar()),
            NodeKind::SingleQuoted
            | NodeKind::DoubleQuoted
            | NodeKind::Literal
            | NodeKind::Folded => SourceKind::Text(scalar()),
            NodeKind::Sequence { .. } => SourceKind::List(
                tree.items(node).map(|item| SourceValue::of_yaml(text, tree, item)).collect(),
            ),
            NodeKind::Mapping { .. } => {
                let entry = |(key, value): (NodeId, NodeId)| SourceEntry {
                    name: tree.scalar(text, key).unwrap_or_default().into_owned(),
                    key_at: tree.range(key),
                    value: SourceValue::of_yaml(text, tree, value),
                };
                SourceKind::Map(tree.entries(node).map(entry).collect())
            }
            NodeKind::Alias => match tree.target(node) {
                Some(target) => SourceValue::of_yaml(text, tree, target).kind,
                None => SourceKind::Null,
            },
        };
        SourceValue { at, kind }
    }

    /// The text of a scalar, as it is written.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match &self.kind {
            SourceKind::Text(text) | SourceKind::Number(text) => Some(Cow::Borrowed(text)),
            SourceKind::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            SourceKind::Null | SourceKind::List(_) | SourceKind::Map(_) => None,
        }
    }

    /// The text of a scalar that is not blank.
    pub(super) fn word(&self) -> Option<String> {
        let text = self.text()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Whether it is true or false.
    pub(super) fn flag(&self) -> Option<bool> {
        match &self.kind {
            SourceKind::Bool(flag) => Some(*flag),
            SourceKind::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "y" | "x" | "1" => Some(true),
                "false" | "no" | "n" | "0" => Some(false),
                _ => None,
            },
            SourceKind::Number(text) => match text.as_str() {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            },
            SourceKind::Null | SourceKind::List(_) | SourceKind::Map(_) => None,
        }
    }

    /// The items of a list; empty for anything else.
    pub(super) fn items(&self) -> &[SourceValue] {
        if let SourceKind::List(items) = &self.kind { items } else { &[] }
    }

    /// The items of a list, without copying them; empty for anything else.
    pub(super) fn into_items(self) -> Vec<SourceValue> {
        if let SourceKind::List(items) = self.kind { items } else { Vec::new() }
    }

    /// The entries of a mapping; empty for anything else.
    pub(super) fn entries(&self) -> &[SourceEntry] {
        if let SourceKind::Map(entries) = &self.kind { entries } else { &[] }
    }

    /// The value of a key of a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&SourceValue> {
        self.entries().iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }

    /// The first non-blank text under one of these keys.
    pub(super) fn word_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name)?.word())
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, SourceKind::List(_))
    }

    /// Whether it is a mapping.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, SourceKind::Map(_))
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        match &self.kind {
            SourceKind::Null => true,
            SourceKind::Text(text) => text.trim().is_empty(),
            SourceKind::List(items) => items.is_empty(),
            SourceKind::Map(entries) => entries.is_empty(),
            SourceKind::Bool(_) | SourceKind::Number(_) => false,
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> Value {
        match &self.kind {
            SourceKind::Null => Value::Null,
            SourceKind::Bool(flag) => Value::Bool(*flag),
            SourceKind::Number(text) => number(text),
            SourceKind::Text(text) => Value::String(text.clone()),
            SourceKind::List(items) => items.iter().map(SourceValue::json).collect(),
            SourceKind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.name.clone(), entry.value.json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

fn number(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// What a YAML scalar without quotes is.
fn plain(text: String) -> SourceKind {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => SourceKind::Null,
        "true" | "True" | "TRUE" => SourceKind::Bool(true),
        "false" | "False" | "FALSE" => SourceKind::Bool(false),
        _ if serde_json::from_str::<serde_json::Number>(&text).is_ok() => SourceKind::Number(text),
        _ => SourceKind::Text(text),
    }
}
