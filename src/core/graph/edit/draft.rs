//! A draft: the text of one mapping, on which an edit is tried and checked.
//!
//! A draft does not know the rest of the document, unless it holds all of it. It finds the bytes to
//! replace in the text, but trusts only the tree that is parsed afterwards.

use std::borrow::Cow;
use std::ops::Range;

use super::{Change, Unsupported, quote, unsupported};
use crate::graph::yaml::{NodeId, NodeKind, Tree, column, line_end, line_start};

/// The keys after which a new key is placed, in order of preference.
const PLACES: [&str; 2] = ["status", "id"];

/// The text of a mapping, on which an edit is tried.
#[derive(Clone)]
pub(super) struct DraftDocument {
    pub(super) text: String,
    pub(super) tree: Tree,
    pub(super) mapping: NodeId,
    pub(super) newline: &'static str,
    /// Whether blanks before the first entry belong to the document and are not padding.
    pub(super) on_own_line: bool,
    /// Whether a blank line or comment after a tab follows in the document.
    pub(super) tabs_follow: bool,
    /// Whether the draft is the whole document, so that nodes outside of the mapping are compared
    /// too.
    pub(super) whole: bool,
}

/// A replacement of bytes, and the entry it belongs to.
struct Splice {
    at: Range<usize>,
    with: String,
    entry: usize,
}

impl DraftDocument {
    pub(super) fn apply(&mut self, change: Change<'_>) -> Result<(), Unsupported> {
        let (Change::Set { key, .. } | Change::Remove { key }) = change;
        let found = self
            .tree
            .entries(self.mapping)
            .position(|entry| self.key(entry.0).is_some_and(|found| found == key));
        let splice = match (change, found) {
            (Change::Set { value, .. }, Some(entry)) => match self.replace(entry, value)? {
                Some(splice) => splice,
                None => return Ok(()),
            },
            (Change::Set { key, value }, None) => self.insert(key, value)?,
            (Change::Remove { .. }, Some(entry)) => self.remove(entry)?,
            (Change::Remove { .. }, None) => return Ok(()),
        };
        let (leads, all) = blank_or_comment_lines(self.text.as_bytes(), splice.at.end);
        if leads.contains(&b'\t') || (all && self.tabs_follow) {
            return unsupported(format!(
                "a blank line or comment indented by a tab follows `{key}`"
            ));
        }
        let mut text = self.text.clone();
        text.replace_range(splice.at, &splice.with);
        let next = Tree::parse(&text).ok().map(|tree| Self { text, tree, ..*self });
        match next {
            Some(next) if self.leads_to(&next, change, found, splice.entry) => {
                *self = next;
                Ok(())
            }
            _ => unsupported(format!("`{key}` cannot be changed in this layout")),
        }
    }

    fn key(&self, key: NodeId) -> Option<Cow<'_, str>> {
        self.tree.scalar(&self.text, key)
    }

    fn entries(&self) -> Vec<(NodeId, NodeId)> {
        self.tree.entries(self.mapping).collect()
    }

    /// Whether `next` equals this draft with only the change applied.
    fn leads_to(
        &self,
        next: &Self,
        change: Change<'_>,
        found: Option<usize>,
        entry: usize,
    ) -> bool {
        if next.mapping.index() >= next.tree.len()
            || next.tree.kind(next.mapping) != self.tree.kind(self.mapping)
            || (self.whole && !self.same_outside(next))
        {
            return false;
        }
        let (mut old, mut new) = (self.entries(), next.entries());
        match change {
            Change::Remove { .. } => drop(old.remove(entry)),
            Change::Set { key, value } => {
                if entry >= new.len() {
                    return false;
                }
                let (new_key, new_value) = new.remove(entry);
                let kept = found.is_none() || {
                    let (old_key, old_value) = old.remove(entry);
                    let flags = |draft: &Self, node| {
                        (draft.tree.is_anchored(node), draft.tree.is_tagged(node))
                    };
                    self.same_node(old_key, next, new_key)
                        && flags(self, old_value) == flags(next, new_value)
                };
                let reads = |node, text: &str| {
                    let plain = next.tree.kind(node) == NodeKind::Plain;
                    (!plain || quote::is_plain(text))
                        && next.key(node).is_some_and(|found| found == text)
                };
                let key_reads = next.key(new_key).is_some_and(|found| found == key);
                if !kept || !key_reads || !reads(new_value, value) {
                    return false;
                }
            }
        }
        old.len() == new.len()
            && old.iter().zip(&new).all(|(old, new)| {
                let here = self.tree.range(old.0).start..self.tree.range(old.1).end;
                let there = next.tree.range(new.0).start..next.tree.range(new.1).end;
                self.text[here] == next.text[there]
                    && self.same_node(old.0, next, new.0)
                    && self.same_node(old.1, next, new.1)
            })
    }

    fn same_node(&self, node: NodeId, next: &Self, other: NodeId) -> bool {
        Tree::same_run(
            (&self.tree, &self.text, self.tree.subtree(node)),
            (&next.tree, &next.text, next.tree.subtree(other)),
        )
    }

    fn same_outside(&self, next: &Self) -> bool {
        let here = self.tree.subtree(self.mapping);
        let there = next.tree.subtree(next.mapping);
        let same = |run, other| {
            Tree::same_run((&self.tree, &self.text, run), (&next.tree, &next.text, other))
        };
        same(0..here.start, 0..there.start)
            && same(here.end..self.tree.len(), there.end..next.tree.len())
    }

    fn replace(&self, entry: usize, value: &str) -> Result<Option<Splice>, Unsupported> {
        let (key, old) = self.entries()[entry];
        let (kind, range) = (self.tree.kind(old), self.tree.range(old));
        let bytes = self.text.as_bytes();
        let before = &self.text[self.tree.range(key).end..range.start];
        let name = self.key(key).unwrap_or_default();
        if let NodeKind::Sequence { .. } | NodeKind::Mapping { .. } = kind {
            return unsupported(format!("the value of `{name}` is a list or a mapping"));
        }
        if self.tree.is_aliased(old) {
            return unsupported(format!("the value of `{name}` is used elsewhere by an alias"));
        }
        let typed = before.split_whitespace().any(|word| word.starts_with("!!") && word != "!!str");
        if self.tree.is_tagged(old) && typed {
            return unsupported(format!("the value of `{name}` has a tag that is not `!!str`"));
        }
        let is_as_wanted = self.key(old).is_some_and(|found| found == value)
            && (kind != NodeKind::Plain || quote::is_plain(value));
        if is_as_wanted {
            return Ok(None);
        }
        let mut with = quote::like(kind, value);
        if range.is_empty() {
            let has_place = before.ends_with(':') || self.tree.is_anchored(old);
            if !has_place && !self.tree.is_tagged(old) {
                return unsupported(format!("`{name}` has no `:`"));
            }
            with.insert(0, ' ');
        } else if matches!(kind, NodeKind::Literal | NodeKind::Folded) {
            // A comment after the header is kept after the new value.
            let header = bytes[range.start..].iter();
            let header = header.take_while(|byte| !byte.is_ascii_whitespace()).count();
            let line = line_end(bytes, range.start).min(range.end);
            with.push_str(self.text[range.start + header..line].trim_end());
        }
        let at = range;
        Ok(Some(Splice { at, with, entry }))
    }

    fn insert(&self, key: &str, value: &str) -> Result<Splice, Unsupported> {
        let entries = self.entries();
        let named = |name: &&str| {
            let is_named = |entry: &(NodeId, NodeId)| self.key(entry.0).is_some_and(|k| k == *name);
            entries.iter().position(is_named)
        };
        let after = PLACES.iter().find_map(named).unwrap_or(0);
        if self.tree.kind(self.mapping) == (NodeKind::Mapping { flow: true }) {
            return self.insert_in_flow(after, key, value);
        }
        let (first, last) = self.lines(after)?;
        let nearest = self.tree.range(self.mapping).start;
        let pad = " ".repeat(column(&self.text, nearest));
        let entry = format!(
            "{pad}{}: {}",
            quote::like(NodeKind::Plain, key),
            quote::like(NodeKind::Plain, value)
        );
        debug_assert!(first <= last, "an entry ends after it starts");
        let lines = &self.text[..last];
        let newline = match lines.strip_suffix('\n') {
            Some(line) if line.ends_with('\r') => "\r\n",
            Some(_) => "\n",
            None => self.newline,
        };
        let with = if lines.ends_with('\n') {
            format!("{entry}{newline}")
        } else {
            format!("{newline}{entry}")
        };
        Ok(Splice { at: last..last, with, entry: after + 1 })
    }

    fn insert_in_flow(&self, after: usize, key: &str, value: &str) -> Result<Splice, Unsupported> {
        let entries = self.entries();
        let quotes_keys = entries
            .get(after)
            .is_some_and(|entry| self.tree.kind(entry.0) == NodeKind::DoubleQuoted);
        let style = if quotes_keys { NodeKind::DoubleQuoted } else { NodeKind::Plain };
        let entry = format!("{}: {}", quote::like(style, key), quote::like(style, value));
        let Some((old_key, old_value)) = entries.get(after) else {
            let at = self.tree.range(self.mapping).start + 1;
            let with = entry;
            return Ok(Splice { at: at..at, with, entry: 0 });
        };
        let end = self.tree.range(*old_value).end;
        if !self.text[self.tree.range(*old_key).end..end].contains(':') {
            return unsupported("an entry of the mapping has no `:`");
        }
        // Older readers parse `key:,` as one plain text.
        let gap = if self.tree.range(*old_value).is_empty() { " " } else { "" };
        Ok(Splice { at: end..end, with: format!("{gap}, {entry}"), entry: after + 1 })
    }

    /// The first byte of a block entry and the end of its last line, including the line break.
    fn lines(&self, entry: usize) -> Result<(usize, usize), Unsupported> {
        let (key, value) = self.entries()[entry];
        let bytes = self.text.as_bytes();
        let mapping = self.tree.range(self.mapping).start;
        let line = line_start(bytes, self.tree.range(key).start);
        let lead = bytes[line..].iter().take_while(|byte| **byte == b' ').count();
        let first = if line <= mapping { mapping } else { line + lead };
        let is_explicit = bytes.get(first) == Some(&b'?')
            && bytes.get(first + 1).is_none_or(u8::is_ascii_whitespace);
        let after_key = self.text[self.tree.range(key).end..].trim_start_matches([' ', '\t']);
        if is_explicit
            || !self.tree.kind(key).is_scalar()
            || column(&self.text, first) != column(&self.text, mapping)
            || !after_key.starts_with(':')
        {
            return unsupported("an entry of the mapping has an unusual key");
        }
        let innermost = self.tree.last_of(value);
        let end = self.tree.range(value).end;
        let leaf_range = self.tree.range(innermost);
        let header = &self.text[leaf_range.start..line_end(bytes, leaf_range.start).min(end)];
        let is_block = matches!(self.tree.kind(innermost), NodeKind::Literal | NodeKind::Folded);
        let last = if is_block && header.split('#').next().is_some_and(|h| h.contains('+')) {
            blank_lines_end(bytes, end)
        } else {
            next_line(bytes, end)
        };
        let rest = self.text[end..line_end(bytes, end)].trim_start();
        if !rest.is_empty() && !rest.starts_with('#') {
            return unsupported("other text follows the entry on its line");
        }
        Ok((first, last))
    }

    fn remove(&self, entry: usize) -> Result<Splice, Unsupported> {
        let entries = self.entries();
        let (key, value) = entries[entry];
        let nodes = key.index()..self.tree.subtree(value).end;
        if self.tree.is_used_outside(&nodes) {
            return unsupported("the entry holds a value that is used elsewhere by an alias");
        }
        let at = if self.tree.kind(self.mapping) == (NodeKind::Mapping { flow: true }) {
            self.flow_removal(&entries, entry)?
        } else {
            self.block_removal(&entries, entry)?
        };
        let with = String::new();
        Ok(Splice { at, with, entry })
    }

    fn block_removal(
        &self,
        entries: &[(NodeId, NodeId)],
        entry: usize,
    ) -> Result<Range<usize>, Unsupported> {
        if entries.len() == 1 {
            return unsupported("the mapping has no other entry");
        }
        let bytes = self.text.as_bytes();
        let (first, last) = self.lines(entry)?;
        let line = line_start(bytes, first);
        let blank = self.text[line..first].bytes().all(|byte| byte == b' ');
        if !blank || (entry == 0 && !self.on_own_line) {
            return unsupported("the entry shares its line");
        }
        if bytes[..last].ends_with(b"\n") || line == 0 {
            return Ok(line..last);
        }
        // Without a final line break, the line break before the entry is removed instead.
        let before = line_end(bytes, line - 1);
        Ok(before.min(line - 1 - usize::from(self.text[..line].ends_with("\r\n")))..last)
    }

    fn flow_removal(
        &self,
        entries: &[(NodeId, NodeId)],
        entry: usize,
    ) -> Result<Range<usize>, Unsupported> {
        let bytes = self.text.as_bytes();
        let mapping = self.tree.range(self.mapping);
        let (start, end) =
            (self.tree.range(entries[entry].0).start, self.tree.range(entries[entry].1).end);
        let before = self.text[..start].trim_end();
        let lead =
            entry.checked_sub(1).map_or(mapping.start + 1, |on| self.tree.range(entries[on].1).end);
        if !before.ends_with([',', '{']) {
            return unsupported("a comment or an anchor precedes the entry");
        }
        let rest = self.text[end..mapping.end].trim_start();
        let comma = mapping.end - rest.len();
        if rest.starts_with(',') {
            let after = comma + 1;
            let line = line_start(bytes, start);
            let is_alone = self.text[line.max(lead)..start].trim().is_empty() && line >= lead;
            if is_alone && self.text[after..line_end(bytes, after)].trim().is_empty() {
                return Ok(line..next_line(bytes, after));
            }
            // The last one on a line goes with the comma before it, which would leave a blank.
            let ends_line = matches!(bytes.get(after), Some(b'\n' | b'\r'));
            if ends_line && entry > 0 && !self.text[lead..start].contains(['#', '\n']) {
                return Ok(lead..end);
            }
            let blanks = bytes[after..].iter().take_while(|byte| **byte == b' ').count();
            return Ok(start..after + blanks);
        }
        if !rest.starts_with('}') {
            return unsupported("a comment follows the entry");
        }
        if self.text[lead..start].contains('#') {
            return unsupported("a comment precedes the entry");
        }
        Ok(if entry == 0 { start..end } else { lead..end })
    }
}

/// The end of the line at `at`, including the line break.
pub(crate) fn next_line(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter();
    rest.clone().position(|byte| *byte == b'\n').map_or(bytes.len(), |on| at + on + 1)
}

/// The end of the line at `at` and of all blank lines after it.
pub(super) fn blank_lines_end(bytes: &[u8], at: usize) -> usize {
    let mut end = next_line(bytes, at);
    while end < bytes.len() {
        let next = next_line(bytes, end);
        if !bytes[end..next].iter().all(u8::is_ascii_whitespace) {
            break;
        }
        end = next;
    }
    end
}

/// Whether a blank line or comment indented by a tab follows. Some readers accept it as the end of
/// a plain value, but report an error after other values.
pub(super) fn has_tab_lines(bytes: &[u8], at: usize) -> bool {
    let (lead, _) = blank_or_comment_lines(bytes, at);
    lead.contains(&b'\t')
}

/// The indentation of all lines after `at` up to the next line with content, and whether there is
/// no such line.
fn blank_or_comment_lines(bytes: &[u8], at: usize) -> (Vec<u8>, bool) {
    let mut next = if line_start(bytes, at) == at { at } else { next_line(bytes, at) };
    let mut leads = Vec::new();
    while next < bytes.len() {
        let line = &bytes[next..next_line(bytes, next)];
        let rest = line.trim_ascii_start();
        if !rest.is_empty() && rest[0] != b'#' {
            return (leads, false);
        }
        leads.extend_from_slice(&line[..line.len() - rest.len()]);
        next += line.len();
    }
    (leads, true)
}
