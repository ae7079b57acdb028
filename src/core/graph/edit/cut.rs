//! Cuts a list or mapping into pieces of text, in block and flow style.
//!
//! Each byte of a part is in exactly one piece, except separators. A part in an uncommon layout is
//! not cut; the caller does without.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::graph::load::fields;
use crate::graph::yaml::{Document, Node, NodeId, NodeKind, Tree, column, line_start, next_line};

/// A text and its tree.
pub(in crate::graph) struct CutSource<'a> {
    pub(in crate::graph) text: &'a str,
    pub(in crate::graph) tree: &'a Tree,
}

/// The bytes of a node: its key, the comment after it, and deeper comments below.
#[derive(Clone, Debug)]
pub(in crate::graph) struct CutPart {
    /// The node; none for an empty file.
    pub(in crate::graph) node: Option<NodeId>,
    /// The byte range.
    pub(in crate::graph) at: Range<usize>,
    /// The number of blanks that replace a dash before it on its line.
    pub(in crate::graph) pad: usize,
}

/// The style that joins pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::graph) enum CutStyle {
    /// Whole lines, in this column.
    Block(usize),
    /// Between brackets, with commas.
    Flow,
}

/// The pieces of a part.
pub(in crate::graph) struct Cut {
    pub(in crate::graph) style: CutStyle,
    /// The text before the first piece.
    pub(in crate::graph) open: String,
    /// The text on the first line before the first piece: a dash or blanks.
    pub(in crate::graph) dash: String,
    pub(in crate::graph) pieces: Vec<CutPiece>,
    /// The index of each piece by name.
    pub(in crate::graph) by_name: HashMap<String, usize>,
    /// The text after the last piece.
    pub(in crate::graph) close: String,
}

/// One entry or item.
pub(in crate::graph) struct CutPiece {
    /// The blank lines and comments above, or the blanks after a comma.
    pub(in crate::graph) lead: String,
    pub(in crate::graph) part: CutPart,
}

/// A child in the text: its node, the bytes of its key and value, and its name.
struct CutChild {
    node: NodeId,
    at: Range<usize>,
    name: String,
}

impl<'a> CutSource<'a> {
    /// A document.
    pub(in crate::graph) fn of(document: &'a Document) -> CutSource<'a> {
        CutSource { text: document.text(), tree: document.tree() }
    }

    /// The whole text.
    pub(in crate::graph) fn whole(&self) -> CutPart {
        CutPart { node: self.tree.root(), at: 0..self.text.len(), pad: 0 }
    }

    pub(in crate::graph) fn text_of(&self, part: &CutPart) -> String {
        " ".repeat(part.pad) + &self.text[part.at.clone()]
    }

    /// The value of a part; none for an empty file.
    pub(in crate::graph) fn value_of(&self, part: &CutPart) -> Option<Node<'a>> {
        Some(Node::new(self.text, self.tree, part.node?))
    }

    /// Cuts a part, if its layout is common.
    pub(in crate::graph) fn cut(&self, part: &CutPart, shape: ValueShape) -> Option<Cut> {
        let node = part.node?;
        let children = self.children(node, shape)?;
        match self.tree.kind(node) {
            NodeKind::Mapping { flow: true } | NodeKind::Sequence { flow: true } => {
                self.cut_flow(part, node, children)
            }
            NodeKind::Mapping { .. } | NodeKind::Sequence { .. } => {
                self.cut_block(part, node, children, shape == ValueShape::File)
            }
            NodeKind::Plain
            | NodeKind::SingleQuoted
            | NodeKind::DoubleQuoted
            | NodeKind::Literal
            | NodeKind::Folded
            | NodeKind::Alias => None,
        }
    }

    fn children(&self, node: NodeId, shape: ValueShape) -> Option<Vec<CutChild>> {
        let (tree, text) = (self.tree, self.text);
        let entries = tree.entries(node).map(|(key, value)| {
            let (start, end) = (tree.range(key).start, tree.range(key).end);
            let name = tree.scalar(text, key)?.into_owned();
            Some(CutChild { node: value, at: start..end.max(tree.range(value).end), name })
        });
        let items = tree.items(node).map(|item| {
            let name = shape.name_of(Node::new(text, tree, item))?;
            Some(CutChild { node: item, at: tree.range(item), name })
        });
        entries.chain(items).collect()
    }

    fn cut_flow(&self, part: &CutPart, node: NodeId, children: Vec<CutChild>) -> Option<Cut> {
        let (range, text) = (self.tree.range(node), self.text);
        if !text[range.clone()].starts_with(['[', '{']) {
            return None;
        }
        let open = " ".repeat(part.pad) + &text[part.at.start..=range.start];
        let mut end = range.start + 1;
        let (mut pieces, mut by_name) = (Vec::new(), HashMap::new());
        for child in children {
            let gap = text.get(end..child.at.start)?;
            let separator = if pieces.is_empty() { "" } else { "," };
            if gap.trim() != separator {
                return None;
            }
            end = child.at.end;
            let lead = gap[gap.find(',').map_or(0, |comma| comma + 1)..].to_owned();
            by_name.insert(child.name, pieces.len());
            pieces.push(CutPiece {
                lead,
                part: CutPart { node: Some(child.node), at: child.at, pad: 0 },
            });
        }
        let inner = text.get(end..range.end)?.trim();
        let is_plain = ["]", "}"].contains(&inner.trim_start_matches(',').trim_start());
        let close = text[end..part.at.end].to_owned();
        let dash = String::new();
        is_plain.then_some(Cut { style: CutStyle::Flow, open, dash, pieces, by_name, close })
    }

    fn cut_block(
        &self,
        part: &CutPart,
        node: NodeId,
        children: Vec<CutChild>,
        is_file: bool,
    ) -> Option<Cut> {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let is_list = matches!(self.tree.kind(node), NodeKind::Sequence { .. });
        let col = column(text, self.tree.range(node).start);
        let first = children.first()?;
        let first_line = line_start(bytes, self.tree.range(node).start);
        // The first entry of an item follows its dash; all other entries have their own lines.
        let is_behind_dash = !is_list && !is_file && first_line <= part.at.start;
        let (mut open, mut dash) = (String::new(), String::new());
        let mut end = part.at.start;
        if is_behind_dash {
            dash = " ".repeat(part.pad) + text.get(part.at.start..first.at.start)?;
            if dash.len() != col || !dash.bytes().all(|byte| b" -".contains(&byte)) {
                return None;
            }
            end = first.at.start;
        } else if !is_file {
            end = next_line(bytes, part.at.start);
            open = " ".repeat(part.pad) + text.get(part.at.start..end)?;
        }
        let (mut pieces, mut by_name) = (Vec::new(), HashMap::new());
        for child in children {
            let start = if pieces.is_empty() && is_behind_dash {
                child.at.start
            } else if is_list {
                self.dash_line(end..child.at.start, col)?
            } else {
                let line = line_start(bytes, child.at.start);
                let lead = text.get(line..child.at.start)?;
                (lead.len() == col && lead.bytes().all(|byte| byte == b' ')).then_some(line)?
            };
            let lead = text.get(end..start)?;
            // Directives may precede the first entry of the file.
            let is_head = is_file && pieces.is_empty();
            if !is_head && !lead.lines().all(is_blank_or_comment) {
                return None;
            }
            let pad = if start == child.at.start && is_behind_dash { col } else { 0 };
            end = self.end_of(&child, part.at.end);
            end += deeper_comments(text.get(end..part.at.end)?, col);
            let part = CutPart { node: Some(child.node), at: start..end, pad };
            by_name.insert(child.name, pieces.len());
            pieces.push(CutPiece { lead: lead.to_owned(), part });
        }
        let close = text.get(end..part.at.end)?.to_owned();
        Some(Cut { style: CutStyle::Block(col), open, dash, pieces, by_name, close })
    }

    /// The start of the only line in `gap` with the dash of an item.
    fn dash_line(&self, gap: Range<usize>, col: usize) -> Option<usize> {
        let mut at = gap.start;
        let mut found = None;
        for line in self.text.get(gap)?.split_inclusive('\n') {
            let lead = line.len() - line.trim_start_matches(' ').len();
            if line[lead..].starts_with('-') {
                let is_only = found.replace(at).is_none();
                (is_only && lead == col).then_some(())?;
            }
            at += line.len();
        }
        found
    }

    /// The end of a child's last line, including blank lines if they are part of its text.
    fn end_of(&self, child: &CutChild, limit: usize) -> usize {
        let bytes = self.text.as_bytes();
        let last = self.tree.last_of(child.node);
        let mut end = next_line(bytes, child.at.end);
        let header = self.text[self.tree.range(last)].lines().next().unwrap_or_default();
        let is_block = matches!(self.tree.kind(last), NodeKind::Literal | NodeKind::Folded);
        if is_block && header.split('#').next().is_some_and(|header| header.contains('+')) {
            let rest = self.text[end..].split_inclusive('\n');
            end += rest.take_while(|line| line.trim().is_empty()).map(str::len).sum::<usize>();
        }
        end.min(limit)
    }
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// The number of leading bytes that are comments indented deeper than `col`, which belong to the
/// entry above.
pub(super) fn deeper_comments(text: &str, col: usize) -> usize {
    let (mut length, mut found) = (0, 0);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(' ');
        if !is_blank_or_comment(line) {
            break;
        }
        length += line.len();
        if bare.starts_with('#') {
            if line.len() - bare.len() <= col {
                break;
            }
            found = length;
        }
    }
    found
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

    /// The name of an item in a list of this shape.
    pub(in crate::graph) fn name_of(self, item: Node<'_>) -> Option<String> {
        let of = |key: &str| Some(item.get(key)?.text()?.into_owned());
        match self {
            ValueShape::Tasks => of("id"),
            ValueShape::Edges => Some(format!("{} -> {}", of("from")?, of("to")?)),
            ValueShape::Other => of("id").or_else(|| of("name")),
            ValueShape::Set => Some(item.text()?.into_owned()),
            ValueShape::File | ValueShape::Task | ValueShape::Fields | ValueShape::Whole => None,
        }
    }

    /// The parts of a value of this shape with their names, if each has a unique name.
    pub(in crate::graph) fn parts(self, value: Node<'_>) -> Option<Vec<(String, Node<'_>)>> {
        if value.is_mapping() && self != ValueShape::Whole {
            let named = value.entries().map(|(key, value)| Some((key.text()?.into_owned(), value)));
            return named.collect();
        }
        if !value.is_list() {
            return None;
        }
        let named = value.items().map(|item| Some((self.name_of(item)?, item)));
        let named: Vec<(String, Node<'_>)> = named.collect::<Option<_>>()?;
        let unique: HashSet<&String> = named.iter().map(|(name, _)| name).collect();
        (unique.len() == named.len()).then_some(named)
    }
}
