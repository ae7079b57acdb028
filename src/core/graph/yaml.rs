//! The span tree of a YAML text: the bytes of each value.
//!
//! One pass over the parser's events builds a flat list of small nodes in document order, so a file
//! of 100,000 tasks costs little more than reading it. Texts that could hang or exhaust a reader
//! that builds values (deep nesting, alias bombs) are rejected here first.
//!
//! This module knows YAML and bytes only, not tasks or files. It and its children are the only
//! users of the parser. The parser's spans omit block headers, collection ends and the location of
//! an empty value, so these are found again in the text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

mod build;
mod fault;

/// The limit on the size of a text, in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// The limit on nesting of lists and mappings.
pub const MAX_DEPTH: usize = 64;
/// The limit on aliases (`*name`) in one text.
pub const MAX_ALIASES: usize = 1_000;
/// The limit on the expanded size of all aliases, in bytes.
pub const MAX_EXPANDED_BYTES: usize = 16 << 20;

const ANCHORED: u8 = 1;
const TAGGED: u8 = 2;
/// The decoded text differs from the source and is stored in `Tree::decoded`.
const DECODED: u8 = 4;
const BOM: &str = "\u{feff}";

/// A parse error with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The message, as a lower-case fragment.
    pub message: String,
    /// The bytes of the text that caused it.
    pub at: Range<usize>,
    /// A hint on how to fix it.
    pub help: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// The id of a node of a [`Tree`]. After an edit, ids of later nodes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The root node.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The style of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A scalar without quotes; an empty value is one of zero width.
    Plain,
    /// A scalar in `'`.
    SingleQuoted,
    /// A scalar in `"`.
    DoubleQuoted,
    /// A block scalar after `|`.
    Literal,
    /// A block scalar after `>`.
    Folded,
    /// A list.
    Sequence {
        /// Whether it is in brackets.
        flow: bool,
    },
    /// A mapping.
    Mapping {
        /// Whether it is in braces.
        flow: bool,
    },
    /// A reference to an anchor, `*name`.
    Alias,
}

impl NodeKind {
    /// Whether the node is a scalar.
    pub fn is_scalar(self) -> bool {
        !matches!(self, Self::Sequence { .. } | Self::Mapping { .. } | Self::Alias)
    }
}

/// A node of sixteen bytes, because a large file has a million of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    start: u32,
    end: u32,
    /// The number of nodes in the subtree, including itself.
    size: u32,
    kind: NodeKind,
    flags: u8,
}

/// The nodes of one document in document order, each with its byte range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    /// Texts that are not a slice of the source, by node, ascending.
    decoded: Vec<(u32, String)>,
    /// Each alias node with its target node, by alias, ascending.
    aliases: Vec<(u32, u32)>,
}

impl Tree {
    /// Parses exactly one document; a text with only blanks and comments has no root.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > MAX_BYTES {
            return Err(Fault {
                message: format!("the text is larger than {} MiB", MAX_BYTES >> 20),
                at: 0..0,
                help: Some("split it into several files".to_owned()),
            });
        }
        fault::refuse_control_characters(text)?;
        build::Builder::new(text).run()
    }

    /// The root node.
    pub fn root(&self) -> Option<NodeId> {
        (!self.nodes.is_empty()).then_some(NodeId(0))
    }

    /// The style of the node.
    pub fn kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node.index()].kind
    }

    /// The bytes of the value: without anchor, tag, trailing blanks or comment; with quotes,
    /// brackets and the header of a block scalar. An empty value has zero width and is located
    /// after its colon, dash, anchor or tag.
    pub fn range(&self, node: NodeId) -> Range<usize> {
        let node = &self.nodes[node.index()];
        node.start as usize..node.end as usize
    }

    /// Whether the node has an anchor (`&name`).
    pub fn is_anchored(&self, node: NodeId) -> bool {
        self.nodes[node.index()].flags & ANCHORED != 0
    }

    /// Whether the node has a tag (`!name`).
    pub fn is_tagged(&self, node: NodeId) -> bool {
        self.nodes[node.index()].flags & TAGGED != 0
    }

    /// The target of an alias.
    pub fn target(&self, alias: NodeId) -> Option<NodeId> {
        let found = self.aliases.binary_search_by_key(&alias.0, |pair| pair.0);
        found.ok().map(|at| NodeId(self.aliases[at].1))
    }

    /// Whether an alias has exactly this node as its target.
    pub fn is_aliased(&self, node: NodeId) -> bool {
        self.aliases.iter().any(|pair| pair.1 == node.0)
    }

    /// Whether the text has aliases.
    pub fn has_aliases(&self) -> bool {
        !self.aliases.is_empty()
    }

    /// The items of a sequence; empty for any other node.
    pub fn items(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let is_sequence = matches!(self.kind(node), NodeKind::Sequence { .. });
        self.children(node).take_while(move |_| is_sequence)
    }

    /// The keys and values of a mapping; empty for any other node.
    pub fn entries(&self, node: NodeId) -> impl Iterator<Item = (NodeId, NodeId)> {
        let is_mapping = matches!(self.kind(node), NodeKind::Mapping { .. });
        let mut children = self.children(node).take_while(move |_| is_mapping);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// The entry of a mapping with the decoded key `key`.
    pub fn entry(&self, text: &str, mapping: NodeId, key: &str) -> Option<(NodeId, NodeId)> {
        self.entries(mapping)
            .find(|entry| self.key(text, entry.0).is_some_and(|found| found == key))
    }

    /// The decoded text of a scalar: quotes removed, escapes resolved, lines folded. An empty
    /// value reads as `""`.
    pub fn scalar<'a>(&'a self, text: &'a str, node: NodeId) -> Option<Cow<'a, str>> {
        self.slice(text, node).map(Cow::Borrowed)
    }

    fn slice<'a>(&'a self, text: &'a str, node: NodeId) -> Option<&'a str> {
        let Node { start, end, kind, flags, .. } = self.nodes[node.index()];
        let (start, end) = (start as usize, end as usize);
        if flags & DECODED != 0 {
            let found = self.decoded.binary_search_by_key(&node.0, |pair| pair.0);
            return found.ok().map(|at| self.decoded[at].1.as_str());
        }
        match kind {
            NodeKind::Plain => text.get(start..end),
            NodeKind::SingleQuoted | NodeKind::DoubleQuoted => text.get(start + 1..end - 1),
            NodeKind::Literal
            | NodeKind::Folded
            | NodeKind::Sequence { .. }
            | NodeKind::Mapping { .. }
            | NodeKind::Alias => None,
        }
    }

    /// The text of a key; an alias is resolved.
    fn key<'a>(&'a self, text: &'a str, key: NodeId) -> Option<&'a str> {
        let key = if self.kind(key) == NodeKind::Alias { self.target(key)? } else { key };
        self.slice(text, key)
    }

    fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let mut next = node.0 + 1;
        let end = node.0 + self.nodes[node.index()].size;
        std::iter::from_fn(move || {
            let child = NodeId(next);
            (next < end).then(|| {
                next += self.nodes[child.index()].size;
                child
            })
        })
    }

    /// The node at a position in document order.
    #[cfg(test)]
    pub(crate) fn node_at(&self, at: usize) -> NodeId {
        assert!(at < self.nodes.len(), "no node {at}");
        NodeId(at as u32)
    }

    /// The number of nodes in all.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The positions, in document order, of the node and all below it.
    pub(crate) fn subtree(&self, node: NodeId) -> Range<usize> {
        node.index()..node.index() + self.nodes[node.index()].size as usize
    }

    /// The start of the node at a position in document order.
    pub(crate) fn start_at(&self, at: usize) -> Option<usize> {
        self.nodes.get(at).map(|node| node.start as usize)
    }

    /// The last node of the subtree, or the node itself.
    pub(crate) fn last_of(&self, node: NodeId) -> NodeId {
        NodeId(node.0 + self.nodes[node.index()].size - 1)
    }

    /// Whether an alias outside `span` has a target inside it.
    pub(crate) fn is_used_outside(&self, span: &Range<usize>) -> bool {
        self.aliases.iter().any(|&(alias, target)| {
            span.contains(&(target as usize)) && !span.contains(&(alias as usize))
        })
    }

    /// Whether the target of an alias contains this node, so that an edit also changes the alias.
    pub(crate) fn is_below_alias(&self, node: NodeId) -> bool {
        self.aliases.iter().any(|&(_, target)| {
            let span = self.subtree(NodeId(target));
            span.contains(&node.index())
        })
    }

    /// Whether two runs of nodes have the same style and values, regardless of their location.
    /// Collections are compared by the order of their nodes only, so a run may end inside one.
    pub(crate) fn same_run(
        (tree, text, run): (&Self, &str, Range<usize>),
        (other, other_text, other_run): (&Self, &str, Range<usize>),
    ) -> bool {
        run.len() == other_run.len()
            && run.zip(other_run).all(|(here, there)| {
                let (a, b) = (tree.nodes[here], other.nodes[there]);
                let (here, there) = (NodeId(here as u32), NodeId(there as u32));
                a.kind == b.kind
                    && a.flags == b.flags
                    && match a.kind {
                        NodeKind::Sequence { .. } | NodeKind::Mapping { .. } => true,
                        NodeKind::Alias => text[tree.range(here)] == other_text[other.range(there)],
                        NodeKind::Plain
                        | NodeKind::SingleQuoted
                        | NodeKind::DoubleQuoted
                        | NodeKind::Literal
                        | NodeKind::Folded => {
                            a.end - a.start == b.end - b.start
                                && tree.slice(text, here) == other.slice(other_text, there)
                        }
                    }
            })
    }

    /// Whether `part`, moved by `offset` bytes, equals the subtree at `node`.
    pub(crate) fn matches_part(&self, node: NodeId, part: &Self, offset: isize) -> bool {
        let span = self.subtree(node);
        let first = node.0;
        span.len() == part.nodes.len()
            && self.nodes[span.clone()].iter().zip(&part.nodes).all(|(a, b)| *a == b.moved(offset))
            && self.decoded[self.decoded_in(&span)]
                .iter()
                .map(|(at, value)| (at - first, value))
                .eq(part.decoded.iter().map(|(at, value)| (*at, value)))
    }

    /// Replaces the subtree at `node` by `part`, moved by `offset` bytes; later nodes move by
    /// `delta` bytes. No alias elsewhere may have its target in the subtree.
    pub(crate) fn graft(&mut self, node: NodeId, part: &Self, offset: isize, delta: isize) {
        let span = self.subtree(node);
        let (first, last) = (span.start as u32, span.end as u32);
        let growth = part.nodes.len().cast_signed() - span.len().cast_signed();
        let later = |at: u32| if at >= last { grown(at, growth) } else { at };
        let old_end = self.nodes[span.start].end;
        let new_end = part.nodes[0].moved(offset).end;
        let mut above = 0;
        while above < span.start {
            let inside = self.subtree(NodeId(above as u32)).contains(&span.start);
            let ancestor = &mut self.nodes[above];
            if !inside {
                above += ancestor.size as usize;
                continue;
            }
            ancestor.size = grown(ancestor.size, growth);
            ancestor.end =
                if ancestor.end == old_end { new_end } else { grown(ancestor.end, delta) };
            above += 1;
        }
        for following in &mut self.nodes[span.end..] {
            *following = following.moved(delta);
        }
        let decoded = self.decoded_in(&span);
        self.nodes.splice(span, part.nodes.iter().map(|node| node.moved(offset)));
        for (at, _) in &mut self.decoded[decoded.end..] {
            *at = grown(*at, growth);
        }
        let texts = part.decoded.iter();
        self.decoded.splice(decoded, texts.map(|(at, value)| (at + first, value.clone())));
        self.aliases.retain(|pair| !(first..last).contains(&pair.0));
        for pair in &mut self.aliases {
            *pair = (later(pair.0), later(pair.1));
        }
        let inner = part.aliases.iter();
        self.aliases.extend(inner.map(|pair| (pair.0 + first, pair.1 + first)));
        self.aliases.sort_unstable();
    }

    fn decoded_in(&self, span: &Range<usize>) -> Range<usize> {
        let before = |limit: usize| self.decoded.partition_point(|pair| (pair.0 as usize) < limit);
        before(span.start)..before(span.end)
    }
}

impl Node {
    fn moved(self, offset: isize) -> Self {
        Self { start: grown(self.start, offset), end: grown(self.end, offset), ..self }
    }
}

/// Adds an offset to a position. Positions stay far below `u32::MAX`, because the size of the text
/// is limited.
fn grown(value: u32, by: isize) -> u32 {
    (value as usize).wrapping_add_signed(by) as u32
}

/// The start of the line with the byte at `at`.
pub(crate) fn line_start(bytes: &[u8], at: usize) -> usize {
    let before = bytes[..at].iter();
    before.rev().position(|byte| *byte == b'\n').map_or(0, |back| at - back)
}

/// The end of the line with the byte at `at`, excluding the line break.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |on| at + on);
    end - usize::from(end > at && bytes.get(end) == Some(&b'\n') && bytes[end - 1] == b'\r')
}

/// The number of characters before `at` on its line, excluding a byte order mark.
pub(crate) fn column(text: &str, at: usize) -> usize {
    let lead = &text[line_start(text.as_bytes(), at)..at];
    lead.trim_start_matches(BOM).chars().count()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn dump(text: &str) -> String {
        fn one(tree: &Tree, text: &str, node: NodeId, out: &mut String) {
            let range = tree.range(node);
            if tree.is_anchored(node) {
                out.push('&');
            }
            if tree.is_tagged(node) {
                out.push('!');
            }
            match tree.kind(node) {
                NodeKind::Sequence { .. } => {
                    out.push('[');
                    for item in tree.items(node) {
                        one(tree, text, item, out);
                        out.push(' ');
                    }
                    out.push(']');
                }
                NodeKind::Mapping { .. } => {
                    out.push('{');
                    for (key, value) in tree.entries(node) {
                        one(tree, text, key, out);
                        out.push('=');
                        one(tree, text, value, out);
                        out.push(' ');
                    }
                    out.push('}');
                }
                NodeKind::Alias => out.push_str(&text[range.clone()]),
                NodeKind::Plain
                | NodeKind::SingleQuoted
                | NodeKind::DoubleQuoted
                | NodeKind::Literal
                | NodeKind::Folded => {
                    out.push_str(&text[range.clone()]);
                    let value = tree.scalar(text, node).unwrap();
                    if value != text[range.clone()] {
                        write!(out, "~{value}~").unwrap();
                    }
                }
            }
            if !tree.kind(node).is_scalar() && tree.kind(node) != NodeKind::Alias {
                write!(out, "@{}", &text[range].replace(['\n', '\r'], "/")).unwrap();
            }
        }
        let tree = Tree::parse(text).unwrap();
        let mut out = String::new();
        if let Some(root) = tree.root() {
            one(&tree, text, root, &mut out);
        }
        out
    }

    fn fault(text: &str) -> Fault {
        let fault = Tree::parse(text).unwrap_err();
        assert!(fault.at.end <= text.len() && text.get(fault.at.clone()).is_some());
        fault
    }

    /// The text of the location, and the message.
    fn located(text: &str) -> (String, String) {
        let fault = fault(text);
        assert!(text.is_empty() || !fault.at.is_empty());
        (text[fault.at].to_owned(), fault.message)
    }

    #[test]
    fn node_is_small() {
        assert!(size_of::<Node>() <= 20);
    }

    #[test]
    fn an_empty_text_has_no_root() {
        for text in ["", "\n", "# only\n", "---\n", "\u{feff}", "--- # x\n"] {
            assert_eq!(Tree::parse(text).unwrap().root(), None, "{text:?}");
        }
    }

    #[test]
    fn ranges_cover_the_bytes_of_values() {
        for (text, expected) in [
            ("a: 1 # c\n", "{a=1 }@a: 1"),
            ("\u{feff}a: 1\n", "{a=1 }@a: 1"),
            ("a:\nb: 2\n", "{a= b=2 }@a:/b: 2"),
            ("a:   # x\nb:", "{a= b= }@a:   # x/b:"),
            ("- a\n-\n- # c\n", "[a   ]@- a/-/-"),
            ("k:\n- a\n- - b\n", "{k=[a [b ]@- b ]@- a/- - b }@k:/- a/- - b"),
            ("k:\n  - a\n", "{k=[a ]@- a }@k:/  - a"),
            (
                "- k:\n  - # c\n    a\n",
                "[{k=[a ]@- # c/    a }@k:/  - # c/    a ]@- k:/  - # c/    a",
            ),
            (
                "a: |\n  x\n\n  y\n\n# c\nb: 1\n",
                "{a=|\n  x\n\n  y~x\n\ny\n~ b=1 }@a: |/  x//  y//# c/b: 1",
            ),
            ("a: >- # c | d\n  x\n  y\n", "{a=>- # c | d\n  x\n  y~x y~ }@a: >- # c | d/  x/  y"),
            ("a: |+\n\n  x\n\n", "{a=|+\n\n  x~\nx\n\n~ }@a: |+//  x"),
            ("a: |\nb: 1", "{a=|~~ b=1 }@a: |/b: 1"),
            ("- &a !!str |\n  x\n", "[&!|\n  x~x\n~ ]@- &a !!str |/  x"),
            ("a: x\n  y # c\n", "{a=x\n  y~x y~ }@a: x/  y"),
            ("a: 'it''s'\n", "{a='it''s'~it's~ }@a: 'it''s'"),
            ("a: 'x'\n", "{a='x'~x~ }@a: 'x'"),
            ("a: \"\\u0041\"\n", "{a=\"\\u0041\"~A~ }@a: \"\\u0041\""),
            (
                "a: \"x\n  y\"\n",
                "{a=\"x\n  y\"~x y~ }@a: \"x\n  y\"".replace("@a: \"x\n", "@a: \"x/").as_str(),
            ),
            ("{a: [1, 2], \"b\":, c}", "{a=[1 2 ]@[1, 2] \"b\"~b~= c= }@{a: [1, 2], \"b\":, c}"),
            ("a: &x 1\nb: *x\n", "{a=&1 b=*x }@a: &x 1/b: *x"),
            ("a: &x\nb: !!str\n", "{a=& b=! }@a: &x/b: !!str"),
            ("? a\n: b\n? c\n", "{a=b c= }@? a/: b/? c"),
            ("a: 1\r\nb: |\r\n  x\r\n", "{a=1 b=|\r\n  x~x\n~ }@a: 1//b: |//  x"),
            ("é: \u{1f600}\n", "{é=\u{1f600} }@é: \u{1f600}"),
            ("- \n  id: a\n", "[{id=a }@id: a ]@- /  id: a"),
            ("a: ~\n", "{a=~ }@a: ~"),
        ] {
            assert_eq!(dump(text), expected, "{text:?}");
        }
    }

    #[test]
    fn entries_are_found_by_decoded_key() {
        let text = "- {\"i\\x64\": a}\n- &k key\n- *k : b\n";
        let tree = Tree::parse(text).unwrap();
        let items: Vec<_> = tree.items(tree.root().unwrap()).collect();
        let (_, value) = tree.entry(text, items[0], "id").unwrap();
        assert_eq!(tree.scalar(text, value).unwrap(), "a");
        assert!(tree.entry(text, items[2], "key").is_some());
        assert!(tree.entry(text, items[1], "key").is_none());
        assert!(tree.is_aliased(items[1]));
        let alias = tree.entries(items[2]).next().unwrap().0;
        assert_eq!(tree.target(alias), Some(items[1]));
    }

    #[test]
    fn duplicate_keys_are_rejected() {
        let fault = fault("a: 1\nb:\n  id: x\n  'id': y\n");
        assert_eq!(fault.message, "`id` is given twice, first on line 3");
        assert_eq!(fault.at, 18..22);
        let many = (0..40).map(|n| format!("k{}: 1", n % 30));
        let many = many.collect::<Vec<_>>().join("\n");
        assert_eq!(located(&many).1, "`k0` is given twice, first on line 1");
    }

    #[test]
    fn faults_have_message_and_location() {
        for (text, at, message) in [
            ("a: *nope\n", "*nope", "`*nope` has no anchor"),
            ("a: 1\n---\nb: 2\n", "---", "a second document starts here"),
            ("a: x\0y\n", "\0", "the control character `U+0000` is not allowed"),
            ("a: \"x\u{1b}y\"\n", "\u{1b}", "the control character `U+001B` is not allowed"),
            ("a: x\u{9b}y\n", "\u{9b}", "the control character `U+009B` is not allowed"),
            ("a: x\rb: 1\r", "\r", "a carriage return has no line feed after it"),
            ("a:\n\tb: 1\n", "\t", "a tab is used as indentation"),
            (" \ta: 1\n", "\t", "a tab is used as indentation"),
            ("a: [1, 2", "[", "`[` is opened here and never closed"),
            ("a: \"x", "\"", "a quote is opened here and never closed"),
            ("a: b: c\n", ":", "a `:` is not allowed here"),
            ("é: @x\n", "@", "a value cannot start with `@`"),
            ("a: &x [*x]\n", "*x", "`*x` is inside its own anchor"),
        ] {
            assert_eq!(located(text), (at.to_owned(), message.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn hostile_texts_are_rejected_early() {
        let deep = format!("lists and mappings are nested more than {MAX_DEPTH} deep");
        let mut maps = String::new();
        for depth in 0..6_000 {
            maps.push_str(&" ".repeat(depth));
            maps.push_str("a:\n");
        }
        let mut bomb = String::from("a0: &a0 lolololololol\n");
        for level in 1..12 {
            let list = vec![format!("*a{}", level - 1); 9].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{list}]").unwrap();
        }
        let big = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(20_000));
        let many = format!("a: &a x\nb: [{}]\n", "*a, ".repeat(20_000));
        let expands = "the aliases expand to more than 16 MiB";
        for (text, message) in [
            ("[".repeat(100_000), deep.as_str()),
            ("[".repeat(100_000) + &"]".repeat(100_000), &deep),
            ("{a: ".repeat(100_000), &deep),
            ("- ".repeat(20_000), &deep),
            (maps, &deep),
            (bomb, expands),
            (big, expands),
            (many, "`*a` exceeds the limit of 1000 aliases"),
        ] {
            let begin = Instant::now();
            let message_found = fault(&text).message;
            assert!(message_found.contains(message), "{message_found}");
            // A text that is not rejected early takes minutes, even on a fast machine.
            assert!(begin.elapsed() < Duration::from_secs(60), "{message}");
        }
    }

    #[test]
    fn size_is_checked_first() {
        let text = "\0".repeat(MAX_BYTES + 1);
        assert_eq!(Tree::parse(&text).unwrap_err().at, 0..0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            check(&text);
        }

        #[test]
        fn no_yaml_like_text_panics(parts in prop::collection::vec(prop::sample::select(vec![
            "a", "b: ", ":", "-", "- ", "\n", "\n  ", " ", "\t", "\r\n", "\"", "'", "|", ">-", "|+",
            "[", "]", "{", "}", ",", "&x ", "*x", "!!str ", "!t", "#", " # c", "? ", "---", "...",
            "\u{feff}", "é", "\\", "%", "<<: ", "\r", "~",
        ]), 0..14)) {
            check(&parts.concat());
        }
    }

    fn check(text: &str) {
        match Tree::parse(text) {
            Err(fault) => assert!(text.get(fault.at).is_some()),
            Ok(tree) => {
                for at in 0..tree.len() {
                    let node = NodeId(at as u32);
                    assert!(text.get(tree.range(node)).is_some(), "{text:?}");
                    assert_eq!(tree.scalar(text, node).is_some(), tree.kind(node).is_scalar());
                }
            }
        }
    }
}
