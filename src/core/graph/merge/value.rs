//! The values of a text, independent of its layout, and the names of their parts.
//!
//! Of the file format, this module only knows that a task has an id, that an edge has two ends, and
//! which lists are sets.

use std::collections::HashSet;

use crate::graph::edit::is_plain;
use crate::graph::load::fields;
use crate::graph::yaml::{NodeId, NodeKind, Tree};

/// A value. The order of entries matters in lists but not in mappings.
#[derive(Clone, Debug)]
pub(in crate::graph) enum Value {
    /// A scalar. `is_text` is set if it is quoted, or is a string even without quotes.
    Single {
        is_text: bool,
        text: String,
    },
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// Reads one node. None for a tag, a key that is not a scalar, or a duplicate key.
    pub(in crate::graph) fn read(text: &str, tree: &Tree, node: NodeId) -> Option<Value> {
        if tree.is_tagged(node) {
            return None;
        }
        match tree.kind(node) {
            NodeKind::Alias => Value::read(text, tree, tree.target(node)?),
            NodeKind::Sequence { .. } => {
                let items = tree.items(node).map(|item| Value::read(text, tree, item));
                items.collect::<Option<_>>().map(Value::List)
            }
            NodeKind::Mapping { .. } => {
                let (mut entries, mut seen) = (Vec::new(), HashSet::new());
                for (key, value) in tree.entries(node) {
                    let key = tree.scalar(text, key)?.into_owned();
                    if !seen.insert(key.clone()) {
                        return None;
                    }
                    entries.push((key, Value::read(text, tree, value)?));
                }
                Some(Value::Map(entries))
            }
            kind @ (NodeKind::Plain
            | NodeKind::SingleQuoted
            | NodeKind::DoubleQuoted
            | NodeKind::Literal
            | NodeKind::Folded) => {
                let text = tree.scalar(text, node)?.into_owned();
                Some(Value::Single { is_text: kind != NodeKind::Plain || is_plain(&text), text })
            }
        }
    }

    /// Reads a whole file; an empty file is an empty mapping.
    pub(in crate::graph) fn of_file(text: &str, tree: &Tree) -> Option<Value> {
        tree.root().map_or(Some(Value::Map(Vec::new())), |root| Value::read(text, tree, root))
    }

    /// The text of a scalar.
    pub(in crate::graph) fn text(&self) -> Option<&str> {
        match self {
            Value::Single { text, .. } => Some(text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The value of a key of a mapping.
    pub(in crate::graph) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            Value::Single { .. } | Value::List(_) => None,
        }
    }

    /// Whether the value is null, as in `tasks:` alone.
    pub(in crate::graph) fn is_nothing(&self) -> bool {
        match self {
            Value::Single { is_text, text } => {
                !is_text && ["", "~", "null", "Null", "NULL"].contains(&text.as_str())
            }
            Value::List(_) | Value::Map(_) => false,
        }
    }

    /// The parts with their names, if each has a unique name.
    pub(in crate::graph) fn parts(&self, shape: ValueShape) -> Option<Vec<(String, &Value)>> {
        match self {
            Value::Map(entries) if shape != ValueShape::Whole => {
                Some(entries.iter().map(|(key, value)| (key.clone(), value)).collect())
            }
            Value::List(items) => {
                let named = items.iter().map(|item| Some((item.name(shape)?, item)));
                let named: Vec<(String, &Value)> = named.collect::<Option<_>>()?;
                let unique: HashSet<&String> = named.iter().map(|(name, _)| name).collect();
                (unique.len() == named.len()).then_some(named)
            }
            Value::Single { .. } | Value::Map(_) => None,
        }
    }

    /// The name of an item in a list of this shape.
    pub(in crate::graph) fn name(&self, list: ValueShape) -> Option<String> {
        let of = |key: &str| Some(self.get(key)?.text()?.to_owned());
        match list {
            ValueShape::Tasks => of("id"),
            ValueShape::Edges => Some(format!("{} -> {}", of("from")?, of("to")?)),
            ValueShape::Other => of("id").or_else(|| of("name")),
            ValueShape::Set => Some(self.text()?.to_owned()),
            ValueShape::File | ValueShape::Task | ValueShape::Fields | ValueShape::Whole => None,
        }
    }
}

impl From<&serde_json::Value> for Value {
    /// The value as it reads when it is written without more quotes than needed.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are scalars without quotes")]
    fn from(value: &serde_json::Value) -> Value {
        match value {
            serde_json::Value::String(text) => Value::Single { is_text: true, text: text.clone() },
            serde_json::Value::Array(items) => Value::List(items.iter().map(Value::from).collect()),
            serde_json::Value::Object(entries) => Value::Map(
                entries.iter().map(|(key, value)| (key.clone(), Value::from(value))).collect(),
            ),
            plain => Value::Single { is_text: false, text: plain.to_string() },
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (
                Value::Single { is_text, text },
                Value::Single { is_text: other_is, text: other_text },
            ) => is_text == other_is && text == other_text,
            (Value::List(items), Value::List(others)) => items == others,
            (Value::Map(entries), Value::Map(others)) => {
                entries.len() == others.len()
                    && entries.iter().zip(others).all(|((key, value), at_same_place)| {
                        if *key == at_same_place.0 {
                            return *value == at_same_place.1;
                        }
                        other.get(key).is_some_and(|found| found == value)
                    })
            }
            _ => false,
        }
    }
}

/// The role of a place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::graph) enum ValueShape {
    /// The whole file.
    File,
    /// `tasks` or `nodes`.
    Tasks,
    /// One task.
    Task,
    /// `edges`.
    Edges,
    /// `defaults`, `milestones`, `meta` and other top-level values.
    Other,
    /// The mappings one level below those.
    Fields,
    /// A list without order.
    Set,
    /// A value that is merged as a whole.
    Whole,
}

impl ValueShape {
    /// The shape of the value under this name.
    pub(in crate::graph) fn below(self, name: &str) -> ValueShape {
        match (self, name) {
            (ValueShape::File, "tasks" | "nodes") => ValueShape::Tasks,
            (ValueShape::File, "edges") => ValueShape::Edges,
            (ValueShape::File, _) => ValueShape::Other,
            (ValueShape::Tasks, _) => ValueShape::Task,
            (ValueShape::Task | ValueShape::Fields | ValueShape::Other, name)
                if fields::is_set(name) =>
            {
                ValueShape::Set
            }
            (ValueShape::Other, _) => ValueShape::Fields,
            _ => ValueShape::Whole,
        }
    }
}
