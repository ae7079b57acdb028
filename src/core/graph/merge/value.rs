//! What a text says, without how it is written; and which of its parts can be told apart by name.
//!
//! It knows the file's format no further than that a task has an id, an edge two ends, and which
//! lists are sets.

use std::collections::HashSet;

use crate::core::graph::edit::is_plain;
use crate::core::graph::load::fields;
use crate::core::graph::yaml::{NodeId, NodeKind, Tree};

/// A value. Two mappings are the same in whatever order they are written, two lists are not.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A single value. Whether it stands in quotes only matters where it could be no text without.
    Single {
        is_text: bool,
        text: String,
    },
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// Reads one node. None for what has a tag, or a key that is no text or stands there twice.
    pub(super) fn read(text: &str, tree: &Tree, node: NodeId) -> Option<Value> {
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
            kind => {
                let text = tree.scalar(text, node)?.into_owned();
                Some(Value::Single { is_text: kind != NodeKind::Plain || is_plain(&text), text })
            }
        }
    }

    /// Reads a whole file; one with nothing in it is an empty mapping.
    pub(super) fn of_file(text: &str, tree: &Tree) -> Option<Value> {
        tree.root().map_or(Some(Value::Map(Vec::new())), |root| Value::read(text, tree, root))
    }

    /// A single value's text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Single { text, .. } => Some(text),
            _ => None,
        }
    }

    /// What stands under a key of a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Whether nothing stands there, as behind the colon of `tasks:` alone.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Value::Single { is_text, text } => {
                !is_text && ["", "~", "null", "Null", "NULL"].contains(&text.as_str())
            }
            _ => false,
        }
    }

    /// The parts and their names, if all have one of their own.
    pub(super) fn parts(&self, shape: ValueShape) -> Option<Vec<(String, &Value)>> {
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
            _ => None,
        }
    }

    /// The name as an item of a list of this shape.
    pub(super) fn name(&self, list: ValueShape) -> Option<String> {
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

/// What a place in the file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    /// All of it.
    File,
    /// `tasks` or `nodes`.
    Tasks,
    /// One task.
    Task,
    /// `edges`.
    Edges,
    /// `defaults`, `milestones`, `meta` and whatever else stands beside the tasks.
    Other,
    /// The mappings one level below.
    Fields,
    /// A list in which the order says nothing.
    Set,
    /// What is only merged as one.
    Whole,
}

impl ValueShape {
    /// The shape of what stands under this name.
    pub(super) fn below(self, name: &str) -> ValueShape {
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
