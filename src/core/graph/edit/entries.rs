//! Sets and removes the keys of a mapping.

use std::{collections::VecDeque, ops::Range};

use serde_json::Value;

use super::{
    TextEdit, TextSplice, Unsupported, ValueStyle, Wanted,
    cut::{CutPart, CutPiece, CutSource, CutStyle, ValueShape, deeper_comments},
    unsupported,
};
use crate::graph::{
    load::fields::FIELDS,
    yaml::{Node, NodeId, NodeKind, Tree, column, like, line_end, line_start, next_line},
};

/// Where a new key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPlace {
    /// In the documented order of fields.
    Documented,
    /// After the status, or after the id of a task that has none.
    AfterStatus,
}

/// The position of a field in the documented order.
pub(in crate::graph) fn rank(name: &str) -> usize {
    FIELDS.iter().position(|field| field.name == name).unwrap_or(FIELDS.len())
}

/// A mapping to change.
struct Fields<'t> {
    text: &'t str,
    tree: &'t Tree,
    node: Node<'t>,
    entries: Vec<(Node<'t>, Node<'t>)>,
    style: ValueStyle,
}

impl Fields<'_> {
    fn position(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.0.text().is_some_and(|found| found == key))
    }

    fn is_flow(&self) -> bool {
        self.node.kind() == NodeKind::Mapping { flow: true }
    }

    /// The number of the entry after which a new key goes.
    fn predecessor(&self, key: &str, place: EntryPlace, gone: &[usize]) -> usize {
        let is_kept = |at: &usize| !gone.contains(at);
        let found = match place {
            EntryPlace::AfterStatus => {
                ["status", "id"].iter().find_map(|name| self.position(name).filter(is_kept))
            }
            EntryPlace::Documented => (0..self.entries.len()).rev().filter(is_kept).find(|at| {
                let name = self.entries[*at].0.text();
                name.is_some_and(|name| rank(&name) < rank(key))
            }),
        };
        found.or_else(|| (0..self.entries.len()).find(is_kept)).unwrap_or(0)
    }
    /// The change of the value of an entry; none if it has this one.
    fn change(
        &self,
        at: usize,
        key: &str,
        value: &Value,
    ) -> Result<Option<TextSplice>, Unsupported> {
        let (name, old) = self.entries[at];
        let is_marked = self.tree.is_anchored(old.id()) || self.tree.is_tagged(old.id());
        let is_line = |text: &&str| self.is_flow() || is_marked || !text.contains('\n');
        let is_collection = (old.is_list() || old.is_mapping()) && !old.is_alias();
        if old.is_json(value) && !old.is_alias() {
            return Ok(None);
        }
        if self.tree.is_used_elsewhere(old.id()) {
            return unsupported(format!("the value of `{key}` is used elsewhere by an alias"));
        }
        if let Some(text) = value.as_str().filter(is_line).filter(|_| !is_collection) {
            return self.text_change((name, old), key, text).map(Some);
        }
        let range = old.range();
        let lines = self.lines_with_comments(at);
        if let (true, Value::Array(items)) = (is_collection && old.is_list(), value)
            && let Some(change) = self.items_change(lines.as_ref().ok(), old, items)
        {
            return Ok(Some(change));
        }
        if is_collection && self.text[range.clone()].contains('#') {
            return unsupported(format!("the value of `{key}` contains comments"));
        }
        if self.is_flow() {
            let gap = if range.is_empty() { " " } else { "" };
            let with = format!("{gap}{}", self.style.flow(value));
            return Ok(Some(TextSplice { at: range, with }));
        }
        self.lines_change(lines?, (name, old), value).map(Some)
    }

    /// Replaces a scalar by a text on one line, in the same quotes.
    fn text_change(
        &self,
        (name, old): (Node<'_>, Node<'_>),
        key: &str,
        text: &str,
    ) -> Result<TextSplice, Unsupported> {
        let (range, bytes) = (old.range(), self.text.as_bytes());
        let before = &self.text[name.range().end..range.start];
        let typed = before.split_whitespace().any(|word| word.starts_with("!!") && word != "!!str");
        if self.tree.is_tagged(old.id()) && typed {
            return unsupported(format!("the value of `{key}` has a tag that is not `!!str`"));
        }
        self.check_tabs(key, range.end)?;
        let kind = if old.is_alias() { NodeKind::Alias } else { old.kind() };
        // Where all texts are quoted, only a value that was no text has no quotes.
        let is_bare = kind != NodeKind::SingleQuoted && !(kind == NodeKind::Plain && old.is_text());
        let is_quoted = self.style.is_json && is_bare;
        let mut with = like(if is_quoted { NodeKind::DoubleQuoted } else { kind }, text);
        if range.is_empty() {
            let has_place = before.ends_with(':') || self.tree.is_anchored(old.id());
            if !has_place && !self.tree.is_tagged(old.id()) {
                return unsupported(format!("`{key}` has no `:`"));
            }
            with.insert(0, ' ');
        } else if matches!(old.kind(), NodeKind::Literal | NodeKind::Folded) && !old.is_alias() {
            // A comment after the header is kept after the new value.
            let header = bytes[range.start..].iter();
            let header = header.take_while(|byte| !byte.is_ascii_whitespace()).count();
            let line = line_end(bytes, range.start).min(range.end);
            with.push_str(self.text[range.start + header..line].trim_end());
        }
        Ok(TextSplice { at: range, with })
    }

    /// Replaces everything after the colon of a block entry. The comment on its first line stays.
    fn lines_change(
        &self,
        lines: Range<usize>,
        (key, old): (Node<'_>, Node<'_>),
        value: &Value,
    ) -> Result<TextSplice, Unsupported> {
        let unusual = || unsupported("the layout of the entry is too unusual");
        let (range, key_end) = (old.range(), key.range().end);
        let Some(colon) = self.text[key_end..range.start.max(key_end)].find(':') else {
            return unusual();
        };
        let colon = key_end + colon + 1;
        if self.tree.is_anchored(old.id()) || self.tree.is_tagged(old.id()) {
            return unusual();
        }
        let bytes = self.text.as_bytes();
        let is_block = matches!(self.tree.kind(old.id()), NodeKind::Literal | NodeKind::Folded);
        let comment_at = if is_block {
            let header = bytes[range.start..].iter();
            range.start + header.take_while(|byte| !byte.is_ascii_whitespace()).count()
        } else {
            range.end
        };
        let comment = self.text[comment_at..line_end(bytes, comment_at)].trim_end();
        let col = column(self.text, self.node.range().start);
        let mut with = self.style.after_key(col, value);
        if comment.trim_start().starts_with('#') {
            let line = with.find(['\r', '\n']).unwrap_or(with.len());
            with.insert_str(line, comment);
        }
        // Deeper comments after the value stay below it.
        let end = if is_block { range.end } else { line_end(bytes, range.end) };
        let rest = self.text.get(end..lines.end).unwrap_or_default();
        with.push_str(rest.trim_start_matches(['\r', '\n']));
        Ok(TextSplice { at: colon..lines.end, with })
    }

    /// The change of a list by item, so that the other items stay unchanged. None if its layout
    /// does not allow that.
    fn items_change(
        &self,
        lines: Option<&Range<usize>>,
        old: Node<'_>,
        items: &[Value],
    ) -> Option<TextSplice> {
        let (source, style) = (CutSource { text: self.text, tree: self.tree }, self.style);
        let is_flow = old.kind() == NodeKind::Sequence { flow: true };
        let at = if is_flow { old.range() } else { lines?.clone() };
        let part = CutPart { node: Some(old.id()), at, pad: 0 };
        let cut = source.cut(&part, ValueShape::Set)?;
        let (first, last) = (cut.pieces.first()?, cut.pieces.last()?);
        if items.is_empty() && !is_flow {
            return None;
        }
        let text = |piece: &CutPiece| {
            Some(Node::new(self.text, self.tree, piece.part.node?).text()?.into_owned())
        };
        let mut left: VecDeque<(Option<String>, &CutPiece)> =
            cut.pieces.iter().map(|piece| (text(piece), piece)).collect();
        let mut kept = |item: &Value| {
            let at = left.iter().position(|(text, _)| text.as_deref() == item.as_str())?;
            left.remove(at).map(|(_, piece)| piece)
        };
        let CutStyle::Block(col) = cut.style else {
            let gap = cut.pieces.get(1).map_or(" ", |second| second.lead.as_str());
            let item = |(at, item): (usize, &Value)| {
                let text = match kept(item) {
                    Some(piece) => self.text[piece.part.at.clone()].to_owned(),
                    None => style.flow(item),
                };
                if at == 0 { text } else { format!(",{gap}{text}") }
            };
            let body = items.iter().enumerate().map(item).collect();
            return Some(TextSplice { at: first.part.at.start..last.part.at.end, with: body });
        };
        let mut body = String::new();
        for item in items {
            if let Some(piece) = kept(item) {
                body += &piece.lead;
                body += &source.text_of(&piece.part);
            } else {
                body += &style.item(col, item);
            }
            if !body.ends_with('\n') {
                body += style.newline;
            }
        }
        let at = first.part.at.start - first.lead.len()..last.part.at.end;
        Some(TextSplice { at, with: body })
    }
    /// New entries after the one with this number.
    fn insertion(
        &self,
        after: usize,
        new: &[(&str, &Value)],
        place: EntryPlace,
    ) -> Result<TextSplice, Unsupported> {
        let style = self.style;
        let key = new[0].0;
        if !self.is_flow() {
            let lines = self.lines_with_comments(after)?;
            self.check_tabs(key, lines.end)?;
            let col = column(self.text, self.node.range().start);
            let open = if self.text[..lines.end].ends_with('\n') { "" } else { style.newline };
            let entry = |(key, value): &(&str, &Value)| {
                format!("{:col$}{}", "", style.entry(col, key, value))
            };
            let entries: String = new.iter().map(entry).collect();
            return Ok(TextSplice::insertion(lines.end, format!("{open}{entries}")));
        }
        let entries: Vec<String> =
            new.iter().map(|(key, value)| style.flow_entry(key, value)).collect();
        let Some((old_key, old_value)) = self.entries.get(after) else {
            return Ok(TextSplice::insertion(self.node.range().start + 1, entries.join(", ")));
        };
        let end = old_value.range().end;
        if !self.text[old_key.range().end..end].contains(':') {
            return unsupported("an entry of the mapping has no `:`");
        }
        let gap = match (place, self.entries.get(1)) {
            (EntryPlace::Documented, Some((second, _))) => {
                let first = self.entries[0].1.range().end;
                let gap = self.text.get(first..second.range().start).unwrap_or_default();
                let gap = gap.trim_start().strip_prefix(',').unwrap_or_default();
                if gap.is_empty() || !gap.trim().is_empty() { " " } else { gap }
            }
            _ => " ",
        };
        // Older readers parse `key:,` as one plain text.
        let room = if old_value.range().is_empty() { " " } else { "" };
        let entries = entries.join(&format!(",{gap}"));
        Ok(TextSplice::insertion(end, format!("{room},{gap}{entries}")))
    }

    /// The bytes of a block entry from its key to the end of its last line.
    fn lines(&self, at: usize) -> Result<Range<usize>, Unsupported> {
        let unusual = || unsupported("an entry of the mapping has an unusual key");
        let Some((key, value)) = self.entries.get(at) else { return unusual() };
        let bytes = self.text.as_bytes();
        let col = column(self.text, self.node.range().start);
        let start = key.range().start;
        let after_key = self.text[key.range().end..].trim_start_matches([' ', '\t']);
        let is_usual = key.kind().is_scalar() && !key.is_alias() && after_key.starts_with(':');
        if !is_usual || column(self.text, start) != col {
            return unusual();
        }
        let end = value.range().end.max(key.range().end);
        let innermost = self.tree.last_of(value.id());
        let leaf = self.tree.range(innermost);
        let header = &self.text[leaf.start..line_end(bytes, leaf.start).min(end).max(leaf.start)];
        let is_block = matches!(self.tree.kind(innermost), NodeKind::Literal | NodeKind::Folded);
        let rest = self.text[end..line_end(bytes, end)].trim_start();
        if !rest.is_empty() && !rest.starts_with('#') {
            return unsupported("other text follows the entry on its line");
        }
        let mut last = next_line(bytes, end);
        if is_block && header.split('#').next().is_some_and(|header| header.contains('+')) {
            let blank = |line: &&str| line.trim().is_empty();
            let rest = self.text[last..].split_inclusive('\n');
            last += rest.take_while(blank).map(str::len).sum::<usize>();
        }
        Ok(start..last)
    }

    /// The same with the comments below the entry that are indented deeper.
    fn lines_with_comments(&self, at: usize) -> Result<Range<usize>, Unsupported> {
        let lines = self.lines(at)?;
        let col = column(self.text, self.node.range().start);
        Ok(lines.start..lines.end + deeper_comments(&self.text[lines.end..], col))
    }

    /// Refuses a change above a blank line or comment that a tab indents: some readers accept it as
    /// the end of a plain value, and report an error after other values.
    fn check_tabs(&self, key: &str, at: usize) -> Result<(), Unsupported> {
        let bytes = self.text.as_bytes();
        let next = if line_start(bytes, at) == at { at } else { next_line(bytes, at) };
        for line in self.text[next..].split_inclusive('\n') {
            let rest = line.trim_ascii_start();
            if !rest.is_empty() && !rest.starts_with('#') {
                break;
            }
            if line[..line.len() - rest.len()].contains('\t') {
                let what = "a blank line or comment indented by a tab follows";
                return unsupported(format!("{what} `{key}`"));
            }
        }
        Ok(())
    }

    /// The removal of neighboring entries.
    fn removal(&self, first: usize, last: usize) -> Result<TextSplice, Unsupported> {
        let nodes =
            self.entries[first].0.id().index()..self.tree.subtree(self.entries[last].1.id()).end;
        if self.tree.is_used_outside(&nodes) {
            return unsupported("the entry holds a value that is used elsewhere by an alias");
        }
        let at = if self.is_flow() {
            self.flow_removal(first, last)?
        } else {
            self.block_removal(first, last)?
        };
        Ok(TextSplice { at, with: String::new() })
    }

    fn block_removal(&self, first: usize, last: usize) -> Result<Range<usize>, Unsupported> {
        if last + 1 - first == self.entries.len() {
            return unsupported("the mapping has no other entry");
        }
        let bytes = self.text.as_bytes();
        let start = self.lines(first)?.start;
        for at in first..=last {
            let lines = self.lines(at)?;
            self.check_tabs(&self.entries[at].0.text().unwrap_or_default(), lines.end)?;
        }
        let line = line_start(bytes, start);
        if !self.text[line..start].bytes().all(|byte| byte == b' ') {
            return unsupported("the entry shares its line");
        }
        Ok(line..self.lines(last)?.end)
    }

    fn flow_removal(&self, first: usize, last: usize) -> Result<Range<usize>, Unsupported> {
        let bytes = self.text.as_bytes();
        let mapping = self.node.range();
        let start = self.entries[first].0.range().start;
        let end = self.entries[last].1.range().end.max(self.entries[last].0.range().end);
        let before = self.text[..start].trim_end();
        let lead =
            first.checked_sub(1).map_or(mapping.start + 1, |at| self.entries[at].1.range().end);
        if !before.ends_with([',', '{']) {
            return unsupported("a comment or an anchor precedes the entry");
        }
        if self.text[start..end].contains('#') && first != last {
            return unsupported("a comment is between the entries");
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
            if ends_line && first > 0 && !self.text[lead..start].contains(['#', '\n']) {
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
        Ok(if first == 0 { start..end } else { lead..end })
    }
}

impl<'t> TextEdit<'t> {
    /// Sets keys of a mapping to these values, and removes those without a value.
    ///
    /// # Errors
    /// The layout does not allow it.
    pub fn set(
        &mut self,
        mapping: NodeId,
        changes: &[(&str, Option<Value>)],
        place: EntryPlace,
    ) -> Result<(), Unsupported> {
        let fields = self.fields(mapping)?;
        let gone = changes.iter().filter(|(_, value)| value.is_none());
        let mut gone: Vec<usize> = gone.filter_map(|(key, _)| fields.position(key)).collect();
        gone.sort_unstable();
        let mut added: Vec<(usize, &str, &Value)> = Vec::new();
        for (key, value) in changes {
            match (fields.position(key), value) {
                (Some(at), Some(value)) => self.splices.extend(fields.change(at, key, value)?),
                (None, Some(value)) => {
                    added.push((fields.predecessor(key, place, &gone), key, value));
                }
                (_, None) => {}
            }
        }
        let mut after: Vec<usize> = added.iter().map(|(after, ..)| *after).collect();
        after.sort_unstable();
        after.dedup();
        for after in after {
            let new = added.iter().filter(|(at, ..)| *at == after);
            let new: Vec<(&str, &Value)> = new.map(|(_, key, value)| (*key, *value)).collect();
            self.splices.push(fields.insertion(after, &new, place)?);
        }
        for run in gone.chunk_by(|one, next| one + 1 == *next) {
            self.splices.push(fields.removal(run[0], run[run.len() - 1])?);
        }
        for (key, value) in changes {
            let kept = fields.position(key).map(|at| fields.entries[at].1);
            let entries = self.entries_mut(mapping);
            let at = entries.iter().position(|(name, _)| name == key);
            match (at, value) {
                (Some(at), Some(value)) => entries[at].1 = wanted(kept, value),
                (None, Some(value)) => entries.push(((*key).to_owned(), wanted(kept, value))),
                (Some(at), None) => drop(entries.remove(at)),
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn fields(&self, mapping: NodeId) -> Result<Fields<'t>, Unsupported> {
        let node = self.node(mapping);
        let NodeKind::Mapping { flow } = node.kind() else {
            return unsupported("only a mapping has keys to change");
        };
        if flow && !node.written().starts_with('{') {
            return unsupported("the entry is a mapping without braces in a list");
        }
        let entries: Vec<_> = node.entries().collect();
        let is_json = entries.first().is_some_and(|(key, _)| key.kind() == NodeKind::DoubleQuoted);
        // The columns of the list of tasks show how deep lists are below their keys.
        let list = self.tasks().ok().map(|(_, list)| self.tree.range(list));
        let list = list.filter(|list| self.text[list.clone()].starts_with('-'));
        let offset = list.map_or(2, |list| column(self.text, list.start).min(2));
        let style = ValueStyle { newline: self.newline, is_json, offset };
        Ok(Fields { text: self.text, tree: self.tree, node, entries, style })
    }
}

/// The value that a key should have. Items of a list that stay are kept verbatim.
fn wanted<'t>(old: Option<Node<'t>>, new: &Value) -> Wanted<'t> {
    let (Some(old), Value::Array(items)) = (old.filter(|old| old.is_list()), new) else {
        return Wanted::New(new.clone());
    };
    let item = |item: &Value| {
        let text = item.as_str();
        let kept = old.items().find(|kept| text.is_some() && kept.text().as_deref() == text);
        kept.map_or_else(|| Wanted::New(item.clone()), Wanted::Kept)
    };
    Wanted::List(items.iter().map(item).collect())
}
