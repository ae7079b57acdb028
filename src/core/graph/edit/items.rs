//! Edits of single tasks in a large text whose nodes are not known.
//!
//! A reader of lines knows where the lines of each task begin. They are a document of their own, so
//! an edit of one task parses that task and nothing else.

use std::ops::Range;

use super::{Document, Unsupported, unsupported};
use crate::graph::yaml::{MAX_BYTES, NodeId};

impl Document {
    /// Makes a document of a text that another reader has read, with the start of the first line of
    /// each task and the end of the last task. It is parsed when its tree is needed; if that fails,
    /// it has no nodes.
    pub fn later(text: &str, items: Vec<usize>) -> Document {
        Document { items, ..Document::unparsed(text) }
    }

    /// The start of the first line of a task, if it is known.
    pub fn item_start(&self, number: usize) -> Option<usize> {
        self.item_range(number).map(|at| at.start)
    }

    /// The lines of a task as a document, and the task in it, if they are known.
    pub fn item(&self, number: usize) -> Option<(Document, NodeId)> {
        let item = Document::parse(&self.text[self.item_range(number)?]).ok()?;
        let task = item.tree().items(item.tree().root()?).next()?;
        Some((item, task))
    }

    /// Replaces the lines of a task.
    ///
    /// # Errors
    /// The lines are not known, or the text would become too large.
    pub fn replace_item(&mut self, number: usize, text: &str) -> Result<(), Unsupported> {
        let Some(at) = self.item_range(number) else {
            return unsupported("the lines of the task are not known");
        };
        if self.text.len() - at.len() + text.len() > MAX_BYTES {
            return unsupported("the text would become too large");
        }
        for later in &mut self.items[number + 1..] {
            *later = *later - at.len() + text.len();
        }
        self.text.replace_range(at, text);
        self.tree.take();
        Ok(())
    }

    fn item_range(&self, number: usize) -> Option<Range<usize>> {
        Some(*self.items.get(number)?..*self.items.get(number + 1)?)
    }
}
