//! Inserts and removes whole items of a list of mappings: tasks and edges.

use std::ops::Range;

use serde_json::Value;

use super::{
    TextEdit, Unsupported, ValueStyle, Wanted,
    cut::{Cut, CutPart, CutPiece, CutStyle, ValueShape},
    unsupported,
};
use crate::graph::{
    task::TaskId,
    yaml::{NodeId, NodeKind, column, line_start, next_line},
};

/// The keys of a mapping to insert, with their values.
pub(in crate::graph) type Entries = Vec<(String, Value)>;

/// A list, cut into its items.
pub(in crate::graph) struct CutList {
    pub(in crate::graph) node: NodeId,
    pub(in crate::graph) cut: Cut,
}

impl CutList {
    /// The number of a task.
    ///
    /// # Errors
    /// The task is not in the list.
    pub(in crate::graph) fn number_of(&self, id: &TaskId) -> Result<usize, Unsupported> {
        let found = self.cut.by_name.get(id.as_str()).copied();
        found.map_or_else(|| unsupported(format!("there is no task `{id}`")), Ok)
    }

    /// The node of a task.
    ///
    /// # Errors
    /// The task is not in the list.
    pub(in crate::graph) fn node_of(&self, id: &TaskId) -> Result<NodeId, Unsupported> {
        let number = self.number_of(id)?;
        Ok(self.cut.pieces[number].part.node.expect("a task has a node"))
    }

    /// The column of the dashes; none for a list in brackets.
    pub(in crate::graph) fn col(&self) -> Option<usize> {
        match self.cut.style {
            CutStyle::Block(col) => Some(col),
            CutStyle::Flow => None,
        }
    }
}

/// The length of the blank lines at the start of a lead.
fn leading_blanks(lead: &str) -> usize {
    lead.split_inclusive('\n')
        .take_while(|line| line.ends_with('\n') && line.trim().is_empty())
        .map(str::len)
        .sum()
}

impl TextEdit<'_> {
    /// Cuts a list at the top of the file.
    ///
    /// # Errors
    /// It is not in a common layout.
    pub(in crate::graph) fn cut_list(
        &self,
        name: &str,
        list: NodeId,
        shape: ValueShape,
    ) -> Result<CutList, Unsupported> {
        let part = CutPart { node: Some(list), at: self.place_of(list), pad: 0 };
        let cut = self.source().cut(&part, shape).ok_or_else(|| Unsupported {
            reason: format!("the layout of the list `{name}` is too unusual"),
        })?;
        Ok(CutList { node: list, cut })
    }

    /// The lines of a block list with its key, or the brackets of a flow list.
    fn place_of(&self, list: NodeId) -> Range<usize> {
        let range = self.tree.range(list);
        if self.tree.kind(list) == (NodeKind::Sequence { flow: true }) {
            return range;
        }
        let bytes = self.text.as_bytes();
        let entries = self.tree.root().into_iter().flat_map(|root| self.tree.entries(root));
        let (mut start, mut end) = (range.start, self.text.len());
        for (key, value) in entries {
            let line = line_start(bytes, self.tree.range(key).start);
            if value == list {
                start = line;
            } else if line > range.start {
                end = end.min(line);
            }
        }
        start..end.max(range.end)
    }

    /// Appends items.
    pub(in crate::graph) fn append_items(
        &mut self,
        list: &CutList,
        items: &[Entries],
        is_line: bool,
    ) {
        if items.is_empty() {
            return;
        }
        let values =
            items.iter().map(|item| Wanted::New(Value::Object(item.iter().cloned().collect())));
        self.items_mut(list.node).extend(values);
        let Some(model) = list.cut.pieces.last() else {
            self.fill_empty(list.node, items, is_line);
            return;
        };
        let style = self.style(list);
        let texts: Vec<String> = match list.col() {
            Some(col) => {
                items.iter().map(|item| self.block_item(col, model, item, style)).collect()
            }
            None => items.iter().map(|item| self.flow_item(model, item, style)).collect(),
        };
        self.put_items(list, &texts);
    }

    /// Puts the texts of items at the end.
    fn put_items(&mut self, list: &CutList, texts: &[String]) {
        let pieces = &list.cut.pieces;
        let (first, at) = (&pieces[0].lead, pieces[pieces.len() - 1].part.at.end);
        if list.col().is_none() {
            let gap = pieces.get(1).map_or(if first.is_empty() { " " } else { first }, |p| &p.lead);
            let glue = format!(",{gap}");
            self.splice(at, format!("{glue}{}", texts.join(&glue)));
            return;
        }
        let newline = self.newline;
        let is_spaced = |piece: &&CutPiece| leading_blanks(&piece.lead) > 0;
        let spaced = pieces.iter().skip(1).filter(is_spaced).count();
        let is_spaced = spaced > 0 && spaced * 2 >= pieces.len() - 1;
        let gap = if is_spaced { newline } else { "" };
        let open = if self.text[..at].ends_with('\n') { "" } else { newline };
        let body: String = texts.iter().flat_map(|text| [gap, text.as_str()]).collect();
        self.splice(at, format!("{open}{body}"));
    }

    fn style(&self, list: &CutList) -> ValueStyle {
        let first = list.cut.pieces.first().and_then(|piece| piece.part.node);
        let key = first.and_then(|item| self.tree.entries(item).next());
        let is_json = key.is_some_and(|(key, _)| self.tree.kind(key) == NodeKind::DoubleQuoted);
        // The columns of the list itself show how deep lists are below their keys.
        let offset = list.col().unwrap_or(2).min(2);
        ValueStyle { newline: self.newline, is_json, offset }
    }

    /// An item of a block list, like the item `model`.
    fn block_item(
        &self,
        col: usize,
        model: &CutPiece,
        item: &Entries,
        style: ValueStyle,
    ) -> String {
        let node = model.part.node.expect("an item has a node");
        let pad = " ".repeat(col);
        if self.tree.kind(node) == (NodeKind::Mapping { flow: true }) {
            return format!("{pad}- {}{}", self.flow_item(model, item, style), style.newline);
        }
        let start = self.tree.range(node).start;
        let is_behind_dash = line_start(self.text.as_bytes(), start) == model.part.at.start;
        let key = if is_behind_dash { column(self.text, start).max(col + 2) } else { col + 2 };
        let mut text = format!("{pad}-{}", " ".repeat(key - col - 1));
        for (at, (name, value)) in item.iter().enumerate() {
            if at > 0 {
                text.push_str(&" ".repeat(key));
            }
            text.push_str(&style.entry(key, name, value));
        }
        text
    }

    /// A mapping in braces, with the same line breaks as `model`.
    fn flow_item(&self, model: &CutPiece, item: &Entries, style: ValueStyle) -> String {
        let entries: Vec<String> =
            item.iter().map(|(key, value)| style.flow_entry(key, value)).collect();
        let node = model.part.node.expect("an item has a node");
        let (open, gap, close) = self.gaps(node).unwrap_or_default();
        let gap = if gap.is_empty() { " ".to_owned() } else { gap };
        format!("{{{open}{}{close}}}", entries.join(&format!(",{gap}")))
    }

    /// The blanks of a mapping in braces: after the brace, between entries, before the brace.
    fn gaps(&self, node: NodeId) -> Option<(String, String, String)> {
        let range = self.tree.range(node);
        let text = &self.text[range.clone()];
        if !text.starts_with('{') {
            return None;
        }
        let blank = |text: &str| text.trim().is_empty().then(|| text.to_owned());
        let entries: Vec<_> = self.tree.entries(node).collect();
        let (first, last) = (entries.first()?, entries.last()?);
        let open = blank(&self.text[range.start + 1..self.tree.range(first.0).start])?;
        let close = blank(&self.text[self.tree.range(last.1).end..range.end - 1])?;
        let gap = entries.get(1).and_then(|second| {
            let gap = &self.text[self.tree.range(first.1).end..self.tree.range(second.0).start];
            blank(gap.trim_start().strip_prefix(',')?)
        });
        Some((open, gap.unwrap_or_default(), close))
    }

    /// Fills an empty list.
    fn fill_empty(&mut self, list: NodeId, items: &[Entries], is_line: bool) {
        let range = self.tree.range(list);
        let root = self.tree.root().expect("a list has a root");
        let key = self.tree.entries(root).next();
        let is_json = key.is_some_and(|(key, _)| self.tree.kind(key) == NodeKind::DoubleQuoted);
        let style = ValueStyle { newline: self.newline, is_json, offset: 2 };
        let flow = |item: &Entries| {
            let entries = item.iter().map(|(key, value)| style.flow_entry(key, value));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        };
        if self.tree.kind(root) == (NodeKind::Mapping { flow: true }) {
            let items: Vec<String> = items.iter().map(flow).collect();
            self.replace(range, format!("[{}]", items.join(", ")));
            return;
        }
        let lines = |item: &Entries| {
            if is_line {
                return format!("  - {}{}", flow(item), style.newline);
            }
            let entries = item.iter().map(|(key, value)| style.entry(4, key, value));
            format!("  - {}", entries.collect::<Vec<_>>().join("    "))
        };
        let text = items.iter().map(lines).collect::<Vec<_>>().concat();
        let bytes = self.text.as_bytes();
        let end = next_line(bytes, range.end);
        let blanks = self.text[..range.start].trim_end_matches(' ').len();
        self.replace(blanks..range.end, String::new());
        let open = if bytes[..end].ends_with(b"\n") { "" } else { self.newline };
        self.splice(end, format!("{open}{text}"));
    }
}
