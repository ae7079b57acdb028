//! Sets the fields of one task to values of any kind.

use std::{collections::VecDeque, ops::Range};

use serde_json::Value;

use super::{
    FieldChanges, GraphDraft, list::CutList, missing, node_of, unreadable, write::ValueStyle,
};
use crate::graph::{
    edit::{Change, Document, Unsupported, like},
    load::fields::FIELDS,
    merge::{
        cut::{Cut, CutPart, CutPiece, CutStyle},
        value::ValueShape,
    },
    yaml::{NodeId, NodeKind, line_end},
};

fn unusual<T>(what: &str) -> Result<T, Unsupported> {
    Err(Unsupported { reason: format!("the layout of `{what}` is too unusual") })
}

/// The position of a field in the order in which fields are written.
pub(super) fn rank(name: &str) -> usize {
    FIELDS.iter().position(|field| field.name == name).unwrap_or(FIELDS.len())
}

impl GraphDraft<'_> {
    /// Sets a field of the task at `index`, in place where it has one.
    ///
    /// # Errors
    /// The layout does not allow it.
    pub(super) fn set_field(
        &mut self,
        list: &CutList,
        index: usize,
        key: &str,
        value: &Value,
    ) -> Result<(), Unsupported> {
        let part = &list.cut.pieces[index].part;
        let task = part.node.expect("a task has a node");
        let cut = self.source().cut(part, ValueShape::Task);
        let Some(cut) = cut.filter(|cut| !cut.pieces.is_empty()) else {
            return unusual("the task");
        };
        let first = self.tree.entries(task).next();
        let is_json = first.is_some_and(|(key, _)| self.tree.kind(key) == NodeKind::DoubleQuoted);
        let offset = list.col().unwrap_or(2).min(2);
        let style = ValueStyle { newline: self.newline, is_json, offset };
        match cut.by_name.get(key) {
            Some(at) => self.replace_value(&cut, &cut.pieces[*at], key, value, style),
            None => self.insert_entry(&cut, key, value, style),
        }
    }

    fn insert_entry(
        &mut self,
        cut: &Cut,
        key: &str,
        value: &Value,
        style: ValueStyle,
    ) -> Result<(), Unsupported> {
        let before = cut.by_name.iter().filter(|(name, _)| rank(name) < rank(key));
        let after = before.map(|(_, at)| *at).max().unwrap_or(0);
        let piece = &cut.pieces[after];
        match cut.style {
            CutStyle::Block(col) => {
                let at = piece.part.at.end;
                let open = if self.text[..at].ends_with('\n') { "" } else { self.newline };
                let entry = style.entry(col, key, value);
                self.splice(at, format!("{open}{:col$}{entry}", ""));
            }
            CutStyle::Flow => {
                let Some(node) = piece.part.node else { return unusual(key) };
                let gap = cut.pieces.get(1).map_or(" ", |second| second.lead.as_str());
                // Older readers parse `key:,` as one plain text.
                let room = if self.tree.range(node).is_empty() { " " } else { "" };
                let entry = style.flow_entry(key, value);
                self.splice(piece.part.at.end, format!("{room},{gap}{entry}"));
            }
        }
        Ok(())
    }

    fn replace_value(
        &mut self,
        cut: &Cut,
        piece: &CutPiece,
        key: &str,
        value: &Value,
        style: ValueStyle,
    ) -> Result<(), Unsupported> {
        let Some(node) = piece.part.node else { return unusual(key) };
        if self.tree.is_used_outside(&self.tree.subtree(node)) {
            return Err(Unsupported {
                reason: format!("the value of `{key}` is used elsewhere by an alias"),
            });
        }
        let kind = self.tree.kind(node);
        if let (NodeKind::Sequence { .. }, Value::Array(items)) = (kind, value)
            && self.replace_items(&piece.part, node, items, style)
        {
            return Ok(());
        }
        let range = self.tree.range(node);
        let is_quoted =
            matches!(kind, NodeKind::Plain | NodeKind::SingleQuoted | NodeKind::DoubleQuoted);
        let is_collection = matches!(kind, NodeKind::Sequence { .. } | NodeKind::Mapping { .. });
        if is_collection && self.text[range.clone()].contains('#') {
            return Err(Unsupported { reason: format!("the value of `{key}` contains comments") });
        }
        let gap = if range.is_empty() { " " } else { "" };
        match (cut.style, value) {
            // The quotes stay the same.
            (_, Value::String(text)) if is_quoted && !text.contains('\n') => {
                let kind = if style.is_json { NodeKind::DoubleQuoted } else { kind };
                self.replace(range, format!("{gap}{}", like(kind, text)));
            }
            (CutStyle::Flow, value) => self.replace(range, format!("{gap}{}", style.flow(value))),
            (CutStyle::Block(col), value) => {
                self.replace_lines(col, &piece.part, node, value, style)?;
            }
        }
        Ok(())
    }

    /// Replaces everything after the colon of a block entry. The comment on its first line stays.
    fn replace_lines(
        &mut self,
        col: usize,
        part: &CutPart,
        node: NodeId,
        value: &Value,
        style: ValueStyle,
    ) -> Result<(), Unsupported> {
        let range = self.tree.range(node);
        let key = self.tree.entries(self.parent_of(node)).find(|entry| entry.1 == node);
        let Some((key, _)) = key else { return unusual("the entry") };
        let key_end = self.tree.range(key).end;
        let Some(colon) = self.text[key_end..range.start.max(key_end)].find(':') else {
            return unusual("the entry");
        };
        let colon = key_end + colon + 1;
        if self.tree.is_anchored(node) || self.tree.is_tagged(node) {
            return unusual("the entry");
        }
        let bytes = self.text.as_bytes();
        let is_block = matches!(self.tree.kind(node), NodeKind::Literal | NodeKind::Folded);
        let comment_at = if is_block {
            let header = bytes[range.start..].iter();
            range.start + header.take_while(|byte| !byte.is_ascii_whitespace()).count()
        } else {
            range.end
        };
        let comment = self.text[comment_at..line_end(bytes, comment_at)].trim_end();
        let mut with = style.after_key(col, value);
        if comment.trim_start().starts_with('#') {
            let line = with.find(['\r', '\n']).unwrap_or(with.len());
            with.insert_str(line, comment);
        }
        // Deeper comments after the value stay below it.
        let end = if is_block { range.end } else { line_end(bytes, range.end) };
        let rest = self.text[end..part.at.end].trim_start_matches(['\r', '\n']);
        if !rest.is_empty() {
            with.push_str(rest);
        }
        self.replace(colon..part.at.end, with);
        Ok(())
    }

    /// The node that contains this one directly.
    fn parent_of(&self, node: NodeId) -> NodeId {
        let mut parent = self.tree.root().expect("a node has a root");
        loop {
            let entries = self.tree.entries(parent).flat_map(|(key, value)| [key, value]);
            let inner = entries
                .chain(self.tree.items(parent))
                .find(|child| self.tree.subtree(*child).contains(&node.index()));
            match inner {
                Some(inner) if inner != node => parent = inner,
                _ => return parent,
            }
        }
    }

    /// Changes a list by item, so that the other items stay as they are. Returns whether its
    /// layout allows that.
    fn replace_items(
        &mut self,
        part: &CutPart,
        node: NodeId,
        items: &[Value],
        style: ValueStyle,
    ) -> bool {
        let is_flow = self.tree.kind(node) == (NodeKind::Sequence { flow: true });
        let part = if is_flow {
            CutPart { node: Some(node), at: self.tree.range(node), pad: 0 }
        } else {
            part.clone()
        };
        let Some(cut) = self.source().cut(&part, ValueShape::Set) else { return false };
        let (Some(first), Some(last)) = (cut.pieces.first(), cut.pieces.last()) else {
            return false;
        };
        if items.is_empty() && !is_flow {
            return false;
        }
        let texts = |piece: &CutPiece| {
            let node = piece.part.node.expect("an item has a node");
            self.tree.scalar(self.text, node).map(std::borrow::Cow::into_owned)
        };
        let mut old: VecDeque<(Option<String>, &CutPiece)> =
            cut.pieces.iter().map(|piece| (texts(piece), piece)).collect();
        let mut kept = |item: &Value| {
            let at = old.iter().position(|(text, _)| text.as_deref() == item.as_str())?;
            old.remove(at).map(|(_, piece)| piece)
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
            let body: String = items.iter().enumerate().map(item).collect();
            self.replace(first.part.at.start..last.part.at.end, body);
            return true;
        };
        let mut body = String::new();
        for item in items {
            if let Some(piece) = kept(item) {
                body += &piece.lead;
                body += &self.source().text_of(&piece.part);
            } else {
                body += &style.item(col, item);
            }
            if !body.ends_with('\n') {
                body += self.newline;
            }
        }
        let start = first.part.at.start - first.lead.len();
        let at: Range<usize> = start..last.part.at.end;
        self.replace(at, body);
        true
    }
}

/// Returns the text without the fields whose new value is none.
///
/// # Errors
/// As [`set_fields_of`](super::set_fields_of).
pub(super) fn removed(text: &str, changes: &[FieldChanges]) -> Result<String, Unsupported> {
    let removals = |fields: &[(String, Option<Value>)]| -> Vec<String> {
        let removed = fields.iter().filter(|(_, value)| value.is_none());
        removed.map(|(key, _)| key.clone()).collect()
    };
    if changes.iter().all(|(_, fields)| removals(fields).is_empty()) {
        return Ok(text.to_owned());
    }
    let draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let mut document = Document::parse(text).map_err(unreadable)?;
    for (id, fields) in changes {
        let removed = removals(fields);
        let removed: Vec<Change<'_>> = removed.iter().map(|key| Change::Remove { key }).collect();
        if !removed.is_empty() {
            let node = node_of(&document, list.number_of(id)?).ok_or_else(|| missing(id))?;
            document.edit(node, &removed)?;
        }
    }
    Ok(document.text().to_owned())
}
