//! Builds a [`Tree`] from the parser's events, and checks limits and duplicate keys on the way.
//!
//! Nodes hold byte positions only, no parser types. The parser gives no end for a block collection,
//! no location for an empty value, and no header in the span of a block scalar.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

use super::fault::{self, fault};
use super::{
    ANCHORED, BOM, DECODED, Fault, MAX_ALIASES, MAX_DEPTH, MAX_EXPANDED_BYTES, Node, NodeId,
    NodeKind, TAGGED, Tree, column, line_end, line_start,
};

/// The size up to which the keys of a mapping are compared pairwise, which is faster than hashing.
const FEW_KEYS: usize = 16;

/// A collection whose end was not reached yet.
struct OpenNode {
    node: u32,
    children: usize,
    /// Index into `Builder::anchors`.
    anchor: Option<usize>,
    expanded_before: usize,
    last_end: u32,
}

struct Anchor {
    node: u32,
    /// The size with all aliases expanded; unknown until the node ends.
    expanded: Option<usize>,
}

pub(super) struct Builder<'t> {
    text: &'t str,
    tree: Tree,
    open: Vec<OpenNode>,
    anchors: Vec<Anchor>,
    /// The end of the last token with content.
    cursor: usize,
    expanded: usize,
    expanded_by_aliases: usize,
    documents: usize,
}

impl<'t> Builder<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            tree: Tree { nodes: Vec::with_capacity(text.len() / 16), ..Tree::default() },
            open: Vec::new(),
            anchors: Vec::new(),
            cursor: if text.starts_with(BOM) { BOM.len() } else { 0 },
            expanded: 0,
            expanded_by_aliases: 0,
            documents: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Tree, Fault> {
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut parser = Parser::new_from_str_with_options(self.text, options);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| fault::of_scan(self.text, &error))?;
            self.event(event, &span)?;
        }
        let nothing = matches!(self.tree.nodes[..], [node]
            if node.kind == NodeKind::Plain && node.start == node.end && node.flags == 0);
        if nothing {
            self.tree.nodes.clear();
        }
        Ok(self.tree)
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                self.scalar(value, style, anchor, tag.is_some(), span);
                Ok(())
            }
            Event::SequenceStart(style, anchor, tag) => {
                let kind = NodeKind::Sequence { flow: style == StructureStyle::Flow };
                self.open(kind, anchor, tag.is_some(), span)
            }
            Event::MappingStart(style, anchor, tag) => {
                let kind = NodeKind::Mapping { flow: style == StructureStyle::Flow };
                self.open(kind, anchor, tag.is_some(), span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents == 1 {
                    return Ok(());
                }
                Err(fault(
                    self.text,
                    start_of(span)..end_of(span),
                    "a second document starts here".to_owned(),
                    "keep one document per file; remove this and all below, or the `---`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether the next node is the value of a mapping's key.
    fn at_value(&self) -> bool {
        self.open.last().is_some_and(|open| {
            open.children % 2 == 1
                && matches!(self.tree.nodes[open.node as usize].kind, NodeKind::Mapping { .. })
        })
    }

    /// Whether the next node is a direct child of a collection of this kind.
    fn is_in(&self, kind: NodeKind) -> bool {
        let parent = self.open.last();
        parent.is_some_and(|open| self.tree.nodes[open.node as usize].kind == kind)
    }

    fn push(&mut self, kind: NodeKind, range: Range<usize>, flags: u8) -> u32 {
        let at = self.tree.nodes.len() as u32;
        self.tree.nodes.push(Node {
            start: range.start as u32,
            end: range.end as u32,
            size: 1,
            kind,
            flags,
        });
        if let Some(parent) = self.open.last_mut() {
            parent.children += 1;
            parent.last_end = range.end as u32;
        }
        at
    }

    fn anchor(&mut self, id: usize, node: u32, expanded: Option<usize>) -> Option<usize> {
        (id != 0).then(|| {
            self.anchors.push(Anchor { node, expanded });
            self.anchors.len() - 1
        })
    }

    fn scalar(
        &mut self,
        value: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tagged: bool,
        span: &Span,
    ) {
        let (start, end) = (start_of(span), end_of(span));
        let flags = flags(anchor, tagged);
        let (kind, range, inner) = match style {
            ScalarStyle::SingleQuoted => (NodeKind::SingleQuoted, start..end, start + 1..end - 1),
            ScalarStyle::DoubleQuoted => (NodeKind::DoubleQuoted, start..end, start + 1..end - 1),
            ScalarStyle::Literal => (NodeKind::Literal, self.block_range(start, end), 0..0),
            ScalarStyle::Folded => (NodeKind::Folded, self.block_range(start, end), 0..0),
            ScalarStyle::Plain if start < end => (NodeKind::Plain, start..end, start..end),
            ScalarStyle::Plain => {
                let at = self.empty_at(start, flags);
                (NodeKind::Plain, at..at, at..at)
            }
        };
        let sliced = match kind {
            NodeKind::Literal | NodeKind::Folded => false,
            _ => range.is_empty() || self.text.as_bytes()[inner] == *value.as_bytes(),
        };
        let flags = if sliced { flags } else { flags | DECODED };
        self.cursor = self.cursor.max(end).max(range.end);
        self.expanded += range.len() + 1;
        let expanded = Some(range.len() + 1);
        let node = self.push(kind, range, flags);
        if !sliced {
            self.tree.decoded.push((node, value.into_owned()));
        }
        self.anchor(anchor, node, expanded);
    }

    /// The range of a block scalar: from the header to the end of the last line with content. The
    /// parser's span starts at the first line of content and ends after blank lines.
    fn block_range(&self, start: usize, end: usize) -> Range<usize> {
        let bytes = self.text.as_bytes();
        let mut at = self.cursor;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'|' | b'>' => break,
                b'#' | b'%' => at = line_end(bytes, at),
                b'&' | b'!' => at = word_end(bytes, at),
                _ => at += 1,
            }
        }
        let header = at.min(start);
        let mut end = end.max(header);
        loop {
            let line = line_start(bytes, end);
            if line <= header {
                end = word_end(bytes, header);
                break;
            }
            if !bytes[line..end].iter().all(u8::is_ascii_whitespace) {
                break;
            }
            end = line - 1;
        }
        while end > header && matches!(bytes[end - 1], b'\n' | b'\r') {
            end -= 1;
        }
        header..end
    }

    /// The location of an empty value: after its colon or dash.
    fn empty_at(&self, start: usize, flags: u8) -> usize {
        let bytes = self.text.as_bytes();
        if flags != 0 {
            return start;
        }
        if self.at_value() {
            let key_end = self.open.last().map_or(start, |open| open.last_end as usize);
            let mut at = key_end;
            while let Some(byte) = bytes.get(at) {
                match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                    b'#' => at = line_end(bytes, at),
                    _ => break,
                }
            }
            let ends = |next: &u8| next.is_ascii_whitespace() || b",[]{}".contains(next);
            let colon = bytes.get(at) == Some(&b':') && bytes.get(at + 1).is_none_or(ends);
            return if colon { at + 1 } else { key_end };
        }
        if !self.is_in(NodeKind::Sequence { flow: false }) {
            return start;
        }
        let line = line_start(bytes, start);
        let lead = bytes[line..start].iter();
        let lead = lead.take_while(|byte| b" \t-?:".contains(byte)).count();
        let dash = self.text[line..line + lead].rfind('-');
        dash.map_or(start, |dash| line + dash + 1)
    }

    fn open(
        &mut self,
        kind: NodeKind,
        anchor: usize,
        tagged: bool,
        span: &Span,
    ) -> Result<(), Fault> {
        let mut start = start_of(span);
        if self.open.len() == MAX_DEPTH {
            return Err(fault::too_deep(self.text, start));
        }
        let flow = match kind {
            NodeKind::Sequence { flow } | NodeKind::Mapping { flow } => flow,
            _ => true,
        };
        if !flow {
            let bytes = self.text.as_bytes();
            let mut line = line_start(bytes, start);
            if self.text[line..].starts_with(BOM) {
                line += BOM.len();
            }
            // Before a block collection, its line has only indentation, dashes and similar. The
            // exception is the first dash of a list, of which the parser gives the end.
            if matches!(kind, NodeKind::Sequence { .. })
                && self.is_in(NodeKind::Mapping { flow: false })
            {
                let dash = line + bytes[line..].iter().take_while(|byte| **byte == b' ').count();
                let parent = self.open.last().map_or(0, |open| open.node);
                let parent = self.tree.nodes[parent as usize].start as usize;
                if bytes.get(dash) == Some(&b'-') && dash - line == column(self.text, parent) {
                    start = start.min(dash);
                }
            }
            let lead = bytes[line..start].iter().position(|byte| *byte == b'\t');
            if let Some(tab) = lead {
                return Err(fault::tab(self.text, line + tab));
            }
        }
        if flow {
            self.cursor = self.cursor.max(end_of(span));
        }
        let expanded_before = self.expanded;
        self.expanded += 1;
        let node = self.push(kind, start..start, flags(anchor, tagged));
        let anchor = self.anchor(anchor, node, None);
        self.open.push(OpenNode {
            node,
            children: 0,
            anchor,
            expanded_before,
            last_end: start as u32,
        });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), Fault> {
        let open = self.open.pop().expect("the parser balances its events");
        let count = self.tree.nodes.len() as u32;
        let node = &mut self.tree.nodes[open.node as usize];
        node.size = count - open.node;
        node.end = open.last_end.max(node.start);
        if let NodeKind::Sequence { flow: true } | NodeKind::Mapping { flow: true } = node.kind {
            node.end = end_of(span) as u32;
            self.cursor = self.cursor.max(end_of(span));
        }
        let (kind, end) = (node.kind, node.end);
        if let Some(parent) = self.open.last_mut() {
            parent.last_end = end;
        }
        if let Some(anchor) = open.anchor {
            self.anchors[anchor].expanded = Some(self.expanded - open.expanded_before);
        }
        match kind {
            NodeKind::Mapping { .. } => {
                self.refuse_duplicates(NodeId(open.node), open.children / 2)
            }
            _ => Ok(()),
        }
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<(), Fault> {
        let range = start_of(span)..end_of(span);
        let Some(Anchor { node, expanded }) = self.anchors.get(anchor.wrapping_sub(1)) else {
            return Err(fault::unknown_alias(self.text, range.start));
        };
        let (target, name) = (*node, &self.text[range.clone()]);
        let Some(expanded) = *expanded else {
            let message = format!("`{name}` is inside its own anchor");
            return Err(fault(self.text, range, message, "write the value out"));
        };
        self.expanded = self.expanded.saturating_add(expanded);
        self.expanded_by_aliases = self.expanded_by_aliases.saturating_add(expanded);
        if self.tree.aliases.len() == MAX_ALIASES {
            let message = format!("`{name}` exceeds the limit of {MAX_ALIASES} aliases");
            return Err(fault(self.text, range, message, "write the values out"));
        }
        if self.expanded_by_aliases > MAX_EXPANDED_BYTES {
            let size = MAX_EXPANDED_BYTES >> 20;
            let message = format!("with `{name}`, the aliases expand to more than {size} MiB");
            return Err(fault(self.text, range, message, "use fewer aliases of large values"));
        }
        self.cursor = self.cursor.max(range.end);
        let node = self.push(NodeKind::Alias, range, 0);
        self.tree.aliases.push((node, target));
        Ok(())
    }

    fn refuse_duplicates(&self, mapping: NodeId, count: usize) -> Result<(), Fault> {
        let tree = &self.tree;
        let keys = tree
            .entries(mapping)
            .filter_map(|entry| Some((entry.0, tree.key(self.text, entry.0)?)));
        if count > FEW_KEYS {
            let mut seen = HashMap::with_capacity(count);
            for (node, key) in keys {
                if let Some(first) = seen.insert(key, node) {
                    return Err(self.duplicate(first, node, key));
                }
            }
            return Ok(());
        }
        let mut seen = [""; FEW_KEYS];
        let mut nodes = [mapping; FEW_KEYS];
        for (at, (node, key)) in keys.enumerate() {
            if let Some(first) = seen[..at].iter().position(|other| *other == key) {
                return Err(self.duplicate(nodes[first], node, key));
            }
            (seen[at], nodes[at]) = (key, node);
        }
        Ok(())
    }

    fn duplicate(&self, first: NodeId, second: NodeId, key: &str) -> Fault {
        let before = &self.text[..self.tree.range(first).start];
        let line = before.matches('\n').count() + 1;
        let range = self.tree.range(second);
        fault(
            self.text,
            range,
            format!("`{key}` is given twice, first on line {line}"),
            "keep one of the two",
        )
    }
}

fn flags(anchor: usize, tagged: bool) -> u8 {
    let anchored = if anchor == 0 { 0 } else { ANCHORED };
    anchored | if tagged { TAGGED } else { 0 }
}

fn start_of(span: &Span) -> usize {
    span.start.byte_offset().expect("a parser over a str knows byte offsets")
}

fn end_of(span: &Span) -> usize {
    span.end.byte_offset().expect("a parser over a str knows byte offsets")
}

/// The end of the run of non-blank bytes at `at`.
fn word_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter();
    at + rest.take_while(|byte| !byte.is_ascii_whitespace()).count()
}
