//! Edits of single values in a YAML text; every byte that is not part of the edit stays.
//!
//! It must not know what a task is, beyond the order in which a new key is placed, nor read or
//! write files. Odd on purpose: an edit is tried on a copy of the mapping's own lines, which is
//! parsed anew and compared with the old one entry by entry; only what passes reaches the text.
//! So an edit costs the same in a small and a large file, and a wrong splice is refused instead
//! of written.

use std::fmt;
use std::ops::Range;

use crate::yaml::{Fault, Kind, MAX_BYTES, NodeId, Tree, column, line_start};

mod draft;
mod quote;

use draft::{Draft, blank_lines_end};

/// A text and its tree, kept in step through edits.
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    tree: Tree,
}

/// One change of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Gives `key` a text as its value, added if it is missing.
    Set {
        /// The key.
        key: &'a str,
        /// The text it shall read as.
        value: &'a str,
    },
    /// Takes `key` and its value away, if it is there.
    Remove {
        /// The key.
        key: &'a str,
    },
}

/// Why an edit was not made; the text is as it was.
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

fn unsupported<T>(reason: impl Into<String>) -> Result<T, Unsupported> {
    let reason = reason.into();
    Err(Unsupported { reason })
}

impl Document {
    /// Reads `text`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        Ok(Self { tree: Tree::parse(text)?, text: text.to_owned() })
    }

    /// The text with all edits so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tree of [`Document::text`].
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Applies all of `changes` to one mapping, or none of them. Ids of nodes before the mapping
    /// and its own stay good; those after it must be looked up anew.
    pub fn edit(&mut self, mapping: NodeId, changes: &[Change<'_>]) -> Result<(), Unsupported> {
        let Kind::Mapping { flow } = self.tree.kind(mapping) else {
            return unsupported("only a mapping has keys to change");
        };
        let range = self.tree.range(mapping);
        if flow && !self.text[range.clone()].starts_with('{') {
            return unsupported("the entry is a mapping without braces in a list");
        }
        let part = self.part(mapping, range, flow);
        let mut draft = match &part {
            Some(part) => part.draft.clone(),
            None => self.whole(mapping),
        };
        for change in changes {
            draft.apply(*change)?;
        }
        let Some(part) = part else {
            self.text = draft.text;
            self.tree = draft.tree;
            return Ok(());
        };
        let pad = &draft.text[..part.pad];
        let length = draft.text.len() - part.pad;
        if pad.bytes().any(|byte| byte != b' ') {
            return unsupported("the first line of the entry cannot be changed alone");
        }
        if self.text.len() - part.at.len() + length > MAX_BYTES {
            return unsupported("the text would become too large");
        }
        let delta = length.cast_signed() - part.at.len().cast_signed();
        let offset = part.at.start.cast_signed() - part.pad.cast_signed();
        self.tree.graft(mapping, &draft.tree, offset, delta);
        self.text.replace_range(part.at, &draft.text[part.pad..]);
        Ok(())
    }

    /// A copy of the mapping's own bytes, if they read alone as they do in the whole text and no
    /// alias elsewhere depends on them.
    fn part(&self, mapping: NodeId, range: Range<usize>, flow: bool) -> Option<Part> {
        let bytes = self.text.as_bytes();
        let nodes = self.tree.subtree(mapping);
        if self.tree.is_below_alias(mapping) || self.tree.is_used_outside(&nodes) {
            return None;
        }
        let mut at = range.clone();
        let mut pad = 0;
        if !flow {
            let line = line_start(bytes, at.start);
            if bytes[line..at.start].iter().all(|byte| *byte == b' ') {
                at.start = line;
            } else {
                pad = column(&self.text, at.start);
            }
            at.end = blank_lines_end(bytes, at.end);
        }
        let mut text = " ".repeat(pad);
        text.push_str(&self.text[at.clone()]);
        let tree = Tree::parse(&text).ok()?;
        let offset = at.start.cast_signed() - pad.cast_signed();
        let draft = Draft {
            text,
            tree,
            mapping: NodeId::FIRST,
            newline: self.newline_near(&range),
            on_own_line: pad == 0,
            whole: false,
        };
        let same = self.tree.matches_part(mapping, &draft.tree, offset);
        same.then_some(Part { draft, at, pad })
    }

    fn whole(&self, mapping: NodeId) -> Draft {
        Draft {
            text: self.text.clone(),
            tree: self.tree.clone(),
            mapping,
            newline: self.newline_near(&self.tree.range(mapping)),
            on_own_line: true,
            whole: true,
        }
    }

    /// The line break of the line the range ends on, else of the one before.
    fn newline_near(&self, range: &Range<usize>) -> &'static str {
        let after = self.text[range.start..].find('\n').map(|on| range.start + on);
        let on = after.or_else(|| self.text[..range.start].rfind('\n'));
        match on {
            Some(on) if self.text[..on].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }
}

struct Part {
    draft: Draft,
    /// The bytes of the document it stands for.
    at: Range<usize>,
    /// Blanks put before them, so that columns are as in the document.
    pad: usize,
}
