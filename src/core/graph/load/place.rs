//! Finds the byte ranges of fields, items and edges, for diagnostics.

use std::ops::Range;

use super::{GraphShape, first_line};
use crate::graph::{edit::Document, yaml::NodeId};

/// A location in the file that an error can point to.
#[derive(Clone, Copy)]
pub(super) enum FaultPlace {
    /// A field of a task. If the task lacks the field: its `id`, or the task.
    Field(usize, &'static str),
    /// One item of a list in a task.
    Item(usize, &'static str, usize),
    /// One end of an edge.
    Edge(usize, &'static str),
    /// A field of `defaults`.
    Default(&'static str),
}

/// Finds locations in one document.
pub(super) struct Places<'a> {
    /// The text and its span tree.
    pub(super) document: &'a Document,
    /// Its tasks and edges.
    pub(super) shape: &'a GraphShape,
}

impl Places<'_> {
    pub(super) fn node(&self, place: FaultPlace) -> Option<NodeId> {
        let (tree, text) = (self.document.tree(), self.document.text());
        let field = |mapping, name| tree.entry(text, mapping, name).map(|(_, value)| value);
        match place {
            FaultPlace::Field(task, name) => field(self.shape.tasks[task], name),
            FaultPlace::Item(task, name, item) => {
                let list = field(self.shape.tasks[task], name)?;
                tree.items(list).nth(item).or(Some(list))
            }
            FaultPlace::Edge(edge, name) => field(self.shape.edges[edge], name),
            FaultPlace::Default(name) => field(field(tree.root()?, "defaults")?, name),
        }
    }

    /// Returns the byte range of a location.
    pub(super) fn range(&self, place: FaultPlace) -> Range<usize> {
        if let Some(node) = self.node(place) {
            return self.document.tree().range(node);
        }
        match place {
            FaultPlace::Field(task, _) | FaultPlace::Item(task, _, _) => {
                let id = (self.document.tree())
                    .entry(self.document.text(), self.shape.tasks[task], "id")
                    .map(|(_, value)| self.document.tree().range(value));
                id.unwrap_or_else(|| first_line(self.document, self.shape.tasks[task]))
            }
            FaultPlace::Edge(edge, _) => first_line(self.document, self.shape.edges[edge]),
            FaultPlace::Default(_) => 0..0,
        }
    }

    pub(super) fn short_range(&self, place: FaultPlace) -> Range<usize> {
        let at = self.range(place);
        let line = self.document.text()[at.clone()].lines().next().map_or(0, str::len);
        at.start..at.start + line
    }

    pub(super) fn key_range(&self, number: Option<usize>, name: &str) -> Range<usize> {
        let (tree, text) = (self.document.tree(), self.document.text());
        let mapping = match number {
            Some(number) => Some(self.shape.tasks[number]),
            None => tree.root().and_then(|root| Some(tree.entry(text, root, "defaults")?.1)),
        };
        let key = mapping.and_then(|mapping| tree.entry(text, mapping, name));
        key.map_or(0..0, |(key, _)| tree.range(key))
    }
}
