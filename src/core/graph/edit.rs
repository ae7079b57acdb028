//! Edits of single values in a YAML text. All bytes outside of the edit stay unchanged.
//!
//! This module knows nothing about tasks except the position of a new key, and neither reads nor
//! writes files. An edit is tried on a copy of the mapping's lines, which is parsed again and
//! compared with the original entry by entry; only then is it applied. So the cost of an edit does
//! not depend on the size of the file, and a wrong splice is refused, not written.

use std::fmt;
use std::ops::Range;

use crate::graph::yaml::{Fault, MAX_BYTES, Node, NodeId, NodeKind, Tree, column, line_start};

mod draft;
mod quote;

pub(crate) use draft::next_line;
use draft::{DraftDocument, blank_lines_end, has_tab_lines};
pub(crate) use quote::{double, is_plain, like, needs_escape};

/// A text and its tree, kept in sync by edits.
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    tree: Tree,
}

/// One change of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets the value of `key` to a text, and adds the key if it is missing.
    Set {
        /// The key.
        key: &'a str,
        /// The text of the value.
        value: &'a str,
    },
    /// Removes `key` and its value, if present.
    Remove {
        /// The key.
        key: &'a str,
    },
}

/// The error for an edit that was refused; the text is unchanged.
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
    /// Parses `text`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        Ok(Self { tree: Tree::parse(text)?, text: text.to_owned() })
    }

    /// The text, including all edits so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tree of [`Document::text`].
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The value of the whole text; none if there is none.
    pub fn root(&self) -> Option<Node<'_>> {
        Some(Node::new(&self.text, &self.tree, self.tree.root()?))
    }

    /// A node of the tree.
    pub fn node(&self, id: NodeId) -> Node<'_> {
        Node::new(&self.text, &self.tree, id)
    }

    /// Applies all `changes` to one mapping, or none. The ids of the mapping and of nodes before it
    /// stay valid; look up ids of later nodes again.
    pub fn edit(&mut self, mapping: NodeId, changes: &[Change<'_>]) -> Result<(), Unsupported> {
        let NodeKind::Mapping { flow } = self.tree().kind(mapping) else {
            return unsupported("only a mapping has keys to change");
        };
        let range = self.tree().range(mapping);
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
        let mut text = self.text.clone();
        text.replace_range(part.at, &draft.text[part.pad..]);
        let Ok(document) = Document::parse(&text) else {
            return unsupported("the text cannot be read with this change");
        };
        *self = document;
        Ok(())
    }

    /// A copy of the mapping's bytes, if they parse alone as they do in the whole text and no alias
    /// elsewhere refers to them.
    fn part(&self, mapping: NodeId, range: Range<usize>, flow: bool) -> Option<DraftPart> {
        let bytes = self.text.as_bytes();
        let nodes = self.tree().subtree(mapping);
        if self.tree().is_below_alias(mapping) || self.tree().is_used_outside(&nodes) {
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
        // The empty value of a `? key` is located at the end of the key, on a line that may be
        // replaced.
        if self.tree().start_at(nodes.end).is_some_and(|next| next < at.end) {
            return None;
        }
        let mut text = " ".repeat(pad);
        text.push_str(&self.text[at.clone()]);
        let tree = Tree::parse(&text).ok()?;
        let offset = at.start.cast_signed() - pad.cast_signed();
        let draft = DraftDocument {
            text,
            tree,
            mapping: NodeId::FIRST,
            newline: self.newline_near(&range),
            on_own_line: pad == 0,
            tabs_follow: !flow && has_tab_lines(bytes, at.end),
            whole: false,
        };
        let same = self.tree().matches_part(mapping, &draft.tree, offset);
        same.then_some(DraftPart { draft, at, pad })
    }

    fn whole(&self, mapping: NodeId) -> DraftDocument {
        DraftDocument {
            text: self.text.clone(),
            tree: self.tree().clone(),
            mapping,
            newline: self.newline_near(&self.tree().range(mapping)),
            on_own_line: true,
            tabs_follow: false,
            whole: true,
        }
    }

    /// The line break at the end of the range's line, otherwise of the line before.
    fn newline_near(&self, range: &Range<usize>) -> &'static str {
        let after = self.text[range.start..].find('\n').map(|on| range.start + on);
        let on = after.or_else(|| self.text[..range.start].rfind('\n'));
        match on {
            Some(on) if self.text[..on].ends_with('\r') => "\r\n",
            _ => "\n",
        }
    }
}

struct DraftPart {
    draft: DraftDocument,
    /// The bytes of the document that it replaces.
    at: Range<usize>,
    /// The number of blanks added before them, which keeps columns the same as in the document.
    pad: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_yaml::Value;
    use std::fmt::Write as _;

    use super::Change::{Remove, Set};
    use super::*;

    /// The mapping with the value `id` under the key `id`.
    fn task(document: &Document, id: &str) -> NodeId {
        let (tree, text) = (document.tree(), document.text.as_str());
        let mut open = vec![tree.root().unwrap()];
        while let Some(node) = open.pop() {
            let found = tree.entry(text, node, "id");
            if found.is_some_and(|entry| tree.scalar(text, entry.1).is_some_and(|v| v == id)) {
                return node;
            }
            open.extend(tree.items(node));
            open.extend(tree.entries(node).flat_map(|entry| [entry.0, entry.1]));
        }
        panic!("no task {id}");
    }

    fn edited(text: &str, changes: &[Change<'_>]) -> Result<String, String> {
        let mut document = Document::parse(text).unwrap();
        let mapping = task(&document, "a");
        let result = document.edit(mapping, changes);
        assert_eq!(Tree::parse(&document.text).unwrap(), *document.tree(), "{}", document.text);
        match result {
            Ok(()) => Ok(document.text),
            Err(why) => {
                assert_eq!(document.text, text);
                Err(why.reason)
            }
        }
    }

    fn done(text: &str) -> Result<String, String> {
        edited(text, &[Set { key: "status", value: "done" }])
    }

    const LAYOUTS: &[(&str, &str)] = &[
        ("- id: a\n  status: x # c\n- id: b\n", "- id: a\n  status: done # c\n- id: b\n"),
        ("- status: 'x'\n  id: a\n", "- status: 'done'\n  id: a\n"),
        ("- id: a\n  status: \"x\"\n", "- id: a\n  status: \"done\"\n"),
        ("- {id: a, status: x}\n", "- {id: a, status: done}\n"),
        ("- {id: a,\n   status: x,\n   n: 1}\n", "- {id: a,\n   status: done,\n   n: 1}\n"),
        ("[{\"id\":\"a\",\"status\":\"x\"}]", "[{\"id\":\"a\",\"status\":\"done\"}]"),
        ("[{\"id\":\"a\",\"status\":x}]", "[{\"id\":\"a\",\"status\":done}]"),
        ("- 'id': \"a\"\n  \"status\": x\n", "- 'id': \"a\"\n  \"status\": done\n"),
        ("- id: a\n  # one\n  status: x\n  # two\n", "- id: a\n  # one\n  status: done\n  # two\n"),
        ("- id: a\r\n  status: x\r\n", "- id: a\r\n  status: done\r\n"),
        ("- id: a\n  status: x", "- id: a\n  status: done"),
        ("\u{feff}id: a\nstatus: x\n", "\u{feff}id: a\nstatus: done\n"),
        ("- id: a\n  status: !!str x\n", "- id: a\n  status: !!str done\n"),
        ("- id: a\n  t: \u{1f600}\n  status: x\n", "- id: a\n  t: \u{1f600}\n  status: done\n"),
        ("- id: a\n  status:\n- id: b\n", "- id: a\n  status: done\n- id: b\n"),
        ("- id: a\n  status:   # c\n  n: 1\n", "- id: a\n  status: done   # c\n  n: 1\n"),
        ("- id: a\n  status:", "- id: a\n  status: done"),
        (
            "- id: a\n  status:\n    # why\n    x # c\n",
            "- id: a\n  status:\n    # why\n    done # c\n",
        ),
        ("- id: a\n  status: x\n    y\n  n: 1\n", "- id: a\n  status: done\n  n: 1\n"),
        ("- id: a\n  status: |\n    x\n    y\n\n  n: 1\n", "- id: a\n  status: done\n\n  n: 1\n"),
        ("- id: a\n  status: >- # c\n    x\n  n: 1\n", "- id: a\n  status: done # c\n  n: 1\n"),
        ("tasks:\n- id: a\n  status: x\n", "tasks:\n- id: a\n  status: done\n"),
        ("tasks:\n-\n    id: a\n    status: x\n", "tasks:\n-\n    id: a\n    status: done\n"),
        ("s: &s x\nt:\n- id: a\n  status: *s\n", "s: &s x\nt:\n- id: a\n  status: done\n"),
        ("- id: a\n  status: &s x\n", "- id: a\n  status: &s done\n"),
        ("- id: a\n  status: &s\n", "- id: a\n  status: &s done\n"),
        ("- id: a\n  status: x\n  ? k\n  : v\n", "- id: a\n  status: done\n  ? k\n  : v\n"),
        ("- {id: a, status: , n: 1}\n", "- {id: a, status: done , n: 1}\n"),
        ("- id: a\n  d: &d x\n  status: x\n- *d\n", "- id: a\n  d: &d x\n  status: done\n- *d\n"),
        (
            "- id: a\n  l: |+\n    t\n\n  status: x\n\n",
            "- id: a\n  l: |+\n    t\n\n  status: done\n\n",
        ),
        ("a:\n  id: a\n  status: x\nb: 1\n", "a:\n  id: a\n  status: done\nb: 1\n"),
        ("- - id: a\n    status: x\n", "- - id: a\n    status: done\n"),
        (
            "%TAG !e! t:\n---\n- id: a\n  t: !e!k v\n  status: x\n",
            "%TAG !e! t:\n---\n- id: a\n  t: !e!k v\n  status: done\n",
        ),
    ];

    #[test]
    fn a_value_is_set_in_every_layout() {
        for (text, expected) in LAYOUTS {
            assert_eq!(done(text).as_deref(), Ok(*expected), "{text:?}");
        }
    }

    #[test]
    fn a_missing_key_is_inserted_in_every_layout() {
        for (text, expected) in [
            ("- id: a\n", "- id: a\n  status: done\n"),
            ("- id: a", "- id: a\n  status: done"),
            ("- id: a # c\n  n: 1\n", "- id: a # c\n  status: done\n  n: 1\n"),
            ("- n: 1\n  # c\n  id: a\n  # d\n", "- n: 1\n  # c\n  id: a\n  status: done\n  # d\n"),
            ("- id: a\r\n- id: b", "- id: a\r\n  status: done\r\n- id: b"),
            ("x: 1\r\nt:\r\n- id: a", "x: 1\r\nt:\r\n- id: a\r\n  status: done"),
            ("- {id: a, n: 1}\n", "- {id: a, status: done, n: 1}\n"),
            ("- {\"id\": \"a\"}\n", "- {\"id\": \"a\", \"status\": \"done\"}\n"),
            ("- {n: 1,\n   id: a,\n   }\n", "- {n: 1,\n   id: a, status: done,\n   }\n"),
            ("-\n    id: a\n    n: 1\n", "-\n    id: a\n    status: done\n    n: 1\n"),
            ("- id: >-\n    a\n\n  n: 1\n", "- id: >-\n    a\n  status: done\n\n  n: 1\n"),
            ("\u{feff}id: a\n", "\u{feff}id: a\nstatus: done\n"),
            ("- id:\n    a\n  n: 1\n", "- id:\n    a\n  status: done\n  n: 1\n"),
            ("s: &s x\nt:\n- id: a\n  k: *s\n", "s: &s x\nt:\n- id: a\n  status: done\n  k: *s\n"),
            ("- &t\n  id: a\n- *t\n", "- &t\n  id: a\n  status: done\n- *t\n"),
            ("- id: a\n\n\n- id: b\n", "- id: a\n  status: done\n\n\n- id: b\n"),
        ] {
            assert_eq!(done(text).as_deref(), Ok(expected), "{text:?}");
        }
        let started = Set { key: "started", value: "2026-11-20T22:44:03Z" };
        for (text, expected) in [
            (
                "- id: a\n  status: |+\n    x\n\n  n: 1\n",
                "- id: a\n  status: |+\n    x\n\n  started: \"2026-11-20T22:44:03Z\"\n  n: 1\n",
            ),
            (
                "- id: a\n  status: x\n    y\n",
                "- id: a\n  status: x\n    y\n  started: \"2026-11-20T22:44:03Z\"\n",
            ),
            (
                "- status: [a,\n    b] # c\n  id: a\n",
                "- status: [a,\n    b] # c\n  started: \"2026-11-20T22:44:03Z\"\n  id: a\n",
            ),
        ] {
            assert_eq!(edited(text, &[started]).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_key_is_removed_in_every_layout() {
        let n = [Remove { key: "n" }];
        for (text, expected) in [
            ("- id: a\n  n: 1 # c\n  # d\n  m: 2\n", "- id: a\n  # d\n  m: 2\n"),
            ("- id: a\n  n:\n    - 1\n    - 2\n", "- id: a\n"),
            ("- id: a\n  n: 1", "- id: a"),
            ("- id: a\r\n  n: 1", "- id: a"),
            ("- id: a\n  n: |\n    x\n  m: 2\n", "- id: a\n  m: 2\n"),
            ("n: 1\nid: a\n", "id: a\n"),
            ("-\n  n: 1\n  id: a\n", "-\n  id: a\n"),
            ("- {id: a, n: 1}\n", "- {id: a}\n"),
            ("- {n: 1, id: a}\n", "- {id: a}\n"),
            ("- {id: a, n: 1, m: 2}\n", "- {id: a, m: 2}\n"),
            ("- {id: a, n: 1,}\n", "- {id: a, }\n"),
            ("- {\n  id: a,\n  n: 1,\n  m: 2\n  }\n", "- {\n  id: a,\n  m: 2\n  }\n"),
            ("- {\n  id: a,\n  n: 1\n  }\n", "- {\n  id: a\n  }\n"),
            ("- {\n  id: a, n: 1,\n  m: 2\n  }\n", "- {\n  id: a,\n  m: 2\n  }\n"),
            ("- {\r\n  id: a, n: 1,\r\n  m: 2 }\r\n", "- {\r\n  id: a,\r\n  m: 2 }\r\n"),
            ("- id: a\n", "- id: a\n"),
        ] {
            assert_eq!(edited(text, &n).as_deref(), Ok(expected), "{text:?}");
        }
        for text in [
            "- n: 1\n  id: a\n",
            "- id: a\n  n: &n 1\n- *n\n",
            "- id: a\n  ? n\n  : 1\n",
            "- {id: a, # c\n   n: 1}\n",
        ] {
            assert!(edited(text, &n).is_err(), "{text:?}");
        }
    }

    #[test]
    fn unsafe_edits_are_refused() {
        for (text, reason) in [
            (
                "- id: a\n  status: &s x\n- *s\n",
                "the value of `status` is used elsewhere by an alias",
            ),
            ("- id: a\n  status: [x]\n", "the value of `status` is a list or a mapping"),
            ("- id: a\n  status: !!int 1\n", "the value of `status` has a tag that is not `!!str`"),
            ("- {id: a, status}\n", "`status` has no `:`"),
            ("- ? id\n  : a\n", "an entry of the mapping has an unusual key"),
            ("- [id: a]\n", "the entry is a mapping without braces in a list"),
        ] {
            assert_eq!(done(text).unwrap_err(), reason, "{text:?}");
        }
        let started = [Set { key: "started", value: "x" }];
        assert_eq!(
            edited("- {id: a, status: }\n", &started).unwrap(),
            "- {id: a, status: , started: x }\n"
        );
        let inner = [Set { key: "status", value: "done" }];
        assert_eq!(edited("? id: a\n", &inner).unwrap(), "? id: a\n  status: done\n");
        let mut document = Document::parse("- 1\n").unwrap();
        let root = document.tree().root().unwrap();
        assert!(document.edit(root, &[]).is_err());
        let both = [Set { key: "n", value: "1" }, Set { key: "status", value: "x" }];
        assert!(edited("- id: a\n  status: {}\n", &both).is_err());
    }

    #[test]
    fn several_changes_are_made_together() {
        let changes = [
            Set { key: "status", value: "running" },
            Set { key: "started", value: "2026-11-20T22:44:03Z" },
            Remove { key: "reason" },
            Set { key: "by", value: "x: y" },
        ];
        assert_eq!(
            edited("- id: a\n  reason: no\n- id: b\n", &changes).unwrap(),
            "- id: a\n  status: running\n  by: \"x: y\"\n  started: \"2026-11-20T22:44:03Z\"\n- id: b\n"
        );
        let odd = [Set { key: "a: b", value: "-" }, Set { key: "true", value: "" }];
        assert_eq!(
            edited("- {id: a}\n", &odd).unwrap(),
            "- {id: a, \"true\": \"\", \"a: b\": \"-\"}\n"
        );
    }

    #[test]
    fn plain_texts_are_strings_for_every_reader() {
        for value in [
            "",
            " a",
            "a ",
            "yes",
            "No",
            "NULL",
            "~",
            "1",
            "-1",
            "1e3",
            "0x1f",
            "1:30",
            "1_000",
            ".5",
            "2026-11-20",
            "2026-11-20T22:44:03Z",
            "a: b",
            "a #b",
            "a:",
            "- a",
            "[a",
            "{a",
            "*a",
            "&a",
            "!a",
            "|",
            ">",
            "%a",
            "@a",
            "`a",
            "'a",
            "\"a",
            "a, b",
            "a]",
            "=",
            "<<",
            "?",
            "\u{feff}a",
            "a\nb",
            "\t",
            "012",
            "0o7",
            "---",
            "...",
            "\u{202e}a",
            "\u{85}",
            "\u{662}",
        ] {
            assert!(!quote::is_plain(value), "{value:?}");
        }
        for value in [
            "done",
            "in-progress",
            "T-001",
            "a b",
            "3 tasks",
            "http://x.y/z",
            "é",
            "a\u{1f600}",
            "01KQJ5R",
            "src/a.rs",
            "_x",
            "v1.2",
            "nope",
        ] {
            assert!(quote::is_plain(value), "{value:?}");
        }
    }

    #[test]
    fn any_value_survives_in_any_style() {
        for value in
            ["it's", "a\nb\r\n", "\u{0}\u{1b}[31m", "\\\"", "\u{10ffff}\u{2028}", "#", "yes"]
        {
            for old in ["x", "'x'", "\"x\"", "|\n    x", "", "!!str x"] {
                let text = format!("- id: a\n  status: {old}\n  n: 1\n");
                let new = edited(&text, &[Set { key: "status", value }]).unwrap();
                let read: Value = serde_yaml::from_str(&new).unwrap();
                assert_eq!(read[0]["status"], Value::from(value), "{new:?}");
                assert_eq!(read[0]["n"], Value::from(1));
            }
        }
    }

    /// The reader parses a byte order mark before a mapping as a separate document.
    fn read(text: &str) -> Value {
        serde_yaml::from_str(text.trim_start_matches('\u{feff}')).unwrap()
    }

    #[derive(Clone, Debug)]
    struct Sample {
        status: usize,
        flow: bool,
        id: usize,
        comment: bool,
        extra: usize,
        /// An anchor on the title, and whether a later list uses it.
        anchor: usize,
    }

    fn sample() -> impl Strategy<Value = Sample> {
        (0..12usize, any::<bool>(), 0..3usize, any::<bool>(), 0..6usize, 0..4usize).prop_map(
            |(status, flow, id, comment, extra, anchor)| Sample {
                status,
                flow,
                id,
                comment,
                extra,
                anchor,
            },
        )
    }

    fn block_task(sample: &Sample, number: usize, indent: &str, dash: &str) -> String {
        let pad = format!("{indent}{}", " ".repeat(dash.trim_end_matches('\n').len()));
        let pad = if dash.ends_with('\n') { format!("{indent}   ") } else { pad };
        let id = ["t0", "'t0'", "\"t0\""][sample.id].replace('0', &number.to_string());
        let mut fields = vec![format!("id: {id}")];
        if sample.comment {
            fields.push("# about # it: all".to_owned());
        }
        let anchor = if sample.anchor == 1 { format!("&n{number} ") } else { String::new() };
        fields.push(format!("title: {anchor}Some title"));
        let status = [
            "",
            "status: x",
            "status: 'x'",
            "status: \"x\" # c",
            "status:",
            "status: # c",
            "status:\n    # c\n      x",
            "status: >-\n    x\n    y",
            "status: |+\n    x\n",
            "status: x\n    y",
            "status: !!str x",
            "",
        ][sample.status];
        if !status.is_empty() {
            fields.push(status.replace("\n    ", &format!("\n{pad}  ")));
        }
        let extra = [
            "",
            "deps: [a, b]",
            "deps:\n- a\n- b: c",
            "text: |\n  line # no\n\n  more",
            "\"q\": 'it''s'",
            "last: |+\n  x\n\n",
        ][sample.extra];
        if !extra.is_empty() {
            fields.push(extra.replace('\n', &format!("\n{pad}")));
        }
        let mut out = format!("{indent}{dash}");
        if dash.ends_with('\n') {
            out.push_str(&pad);
        }
        out + &fields.join(&format!("\n{pad}")) + "\n"
    }

    fn flow_task(sample: &Sample, number: usize, indent: &str) -> String {
        let quoted = sample.id == 2;
        let key = |key: &str| {
            if quoted { format!("\"{key}\": ") } else { format!("{key}: ") }
        };
        let gap = if sample.comment { format!(",\n{indent}   ") } else { ", ".to_owned() };
        let mut fields =
            vec![format!("{}\"t{number}\"", key("id")), format!("{}\"Some title\"", key("title"))];
        let status = ["", "x", "'x'", "\"x\"", " "][sample.status % 5];
        if !status.is_empty() {
            fields.push(key("status") + status);
        }
        if sample.extra % 2 == 1 {
            fields.insert(0, key("deps") + "[a, {b: c}]");
        }
        format!("{indent}- {{{}}}\n", fields.join(&gap))
    }

    fn document(samples: &[Sample], shape: usize) -> String {
        let indent = ["", "  ", "    "][shape % 3];
        let dash = ["- ", "-   ", "-\n"][shape / 3 % 3];
        let mut out = String::from("version: 1\n# the tasks\ntasks:\n");
        for (number, sample) in samples.iter().enumerate() {
            out.push_str(&if sample.flow {
                flow_task(sample, number, indent)
            } else {
                block_task(sample, number, indent, dash)
            });
            if sample.comment {
                write!(out, "\n{indent}# between\n").unwrap();
            }
        }
        if let Some(used) = samples.iter().position(|one| one.anchor == 1 && !one.flow) {
            writeln!(out, "used: *n{used}").unwrap();
        }
        out.push_str("end: yes\n");
        if shape & 16 != 0 {
            out.truncate(out.trim_end().len());
        }
        if shape & 32 != 0 {
            out = out.replace('\n', "\r\n");
        }
        if shape & 64 != 0 {
            out.insert(0, '\u{feff}');
        }
        out
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "done",
                "yes",
                "2026-11-20T22:44:03Z",
                "",
                "a: b",
                "# x",
                "it's \"so\"",
                "a\nb",
                "é\u{1f600}",
            ])
            .prop_map(str::to_owned),
            ".{0,12}",
        ]
    }

    fn common(a: &str, b: &str) -> (usize, usize) {
        let head = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let room = a.len().min(b.len()) - head;
        let tail = a.bytes().rev().zip(b.bytes().rev()).take(room).take_while(|(a, b)| a == b);
        (head, tail.count())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn an_edit_changes_one_value_only(
            samples in prop::collection::vec(sample(), 1..5),
            shape in 0..128usize,
            pick in any::<prop::sample::Index>(),
            key in prop::sample::select(vec!["status", "status", "title", "started", "deps"]),
            value in prop::option::weighted(0.8, value()),
        ) {
            let before = document(&samples, shape);
            let number = pick.index(samples.len());
            let mut kept = Document::parse(&before).unwrap();
            let mapping = task(&kept, &format!("t{number}"));
            let mut want: Value = read(&before);
            let change = match &value {
                Some(value) => Set { key, value },
                None => Remove { key },
            };
            let range = kept.tree().range(mapping);
            let result = kept.edit(mapping, &[change]);
            prop_assert_eq!(&Tree::parse(&kept.text).unwrap(), kept.tree());
            if let Err(why) = result {
                prop_assert_eq!(&kept.text, &before);
                let one = &samples[number];
                let expected = key == "deps"
                    || (key == "title" && one.anchor == 1)
                    || value.is_none();
                prop_assert!(expected, "{}: {}\n{}", key, why, before);
                return Ok(());
            }
            let wanted = want["tasks"][number].as_mapping_mut().unwrap();
            match &value {
                Some(value) => drop(wanted.insert(key.into(), value.as_str().into())),
                None => drop(wanted.remove(key)),
            }
            let found: Value = read(&kept.text);
            prop_assert_eq!(found, want);
            let (head, tail) = common(&before, &kept.text);
            let touched = before.len() - head - tail;
            let near = range.start..=blank_lines_end(before.as_bytes(), range.end);
            prop_assert!(touched == 0 || near.contains(&head) || near.contains(&(before.len() - tail)));
            prop_assert!(touched <= range.len() + 4);
            if let Some(value) = &value {
                let again = task(&kept, &format!("t{number}"));
                let text = kept.text.clone();
                kept.edit(again, &[Set { key, value }]).unwrap();
                prop_assert_eq!(kept.text, text);
            }
        }

        #[test]
        fn an_edit_of_any_text_is_right_or_refused(
            parts in prop::collection::vec(prop::sample::select(vec![
                "id: a", "status: x", "status:", "status: ", "n: 1", "- ", "-", "\n", "\n", "\n  ",
                "\n  ", "\n    ", " # c", "#", "\r\n", "\t", "{", "}", "[", "]", ", ", ",", ": ", "? ",
                "|", "|+", ">-", "\"q\"", "'s'", "&a ", "*a", "!!str ", "!t ", "<<: *a", "a", "b: ",
                "{id: a, status: x}", "- id: a\n  status: x\n", "- {n: 1}\n", "\u{e9}", "---\n",
            ]), 1..12),
            pick in any::<prop::sample::Index>(),
            key in prop::sample::select(vec!["status", "status", "new", "id", "n", "a"]),
            value in prop::option::weighted(0.7, value()),
        ) {
            let before = parts.concat();
            let Ok(mut kept) = Document::parse(&before) else { return Ok(()) };
            let nodes = (0..kept.tree().len()).map(|at| kept.tree().node_at(at));
            let mappings: Vec<_> =
                nodes.filter(|node| matches!(kept.tree().kind(*node), NodeKind::Mapping { .. })).collect();
            if mappings.is_empty() {
                return Ok(());
            }
            let mapping = mappings[pick.index(mappings.len())];
            let change = match &value {
                Some(value) => Set { key, value },
                None => Remove { key },
            };
            let counted = kept.tree().entries(mapping).count();
            let had = kept.tree().entry(&before, mapping, key).is_some();
            if kept.edit(mapping, &[change]).is_err() {
                prop_assert_eq!(&kept.text, &before);
                return Ok(());
            }
            prop_assert_eq!(&Tree::parse(&kept.text).unwrap(), kept.tree());
            let entry = kept.tree().entry(&kept.text, mapping, key);
            let found = entry.and_then(|entry| kept.tree().scalar(&kept.text, entry.1));
            prop_assert_eq!(found.as_deref(), value.as_deref());
            let change = isize::from(value.is_some()) - isize::from(had);
            prop_assert_eq!(
                kept.tree().entries(mapping).count().cast_signed() - counted.cast_signed(),
                change
            );
            let read = |text: &str| serde_yaml::from_str::<Value>(text);
            if read(&before).is_ok() {
                prop_assert!(read(&kept.text).is_ok(), "{:?} -> {:?}", before, kept.text);
            }
        }

        #[test]
        fn text_and_tree_stay_in_sync(
            samples in prop::collection::vec(sample(), 1..6),
            shape in 0..128usize,
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, value()), 1..8),
        ) {
            let mut kept = Document::parse(&document(&samples, shape)).unwrap();
            for (pick, key, value) in edits {
                let mapping = task(&kept, &format!("t{}", pick.index(samples.len())));
                let key = ["status", "started", "reason", "title"][key];
                let change = match value.len() % 3 {
                    0 => Remove { key },
                    _ => Set { key, value: &value },
                };
                let _ = kept.edit(mapping, &[change]);
                prop_assert_eq!(&Tree::parse(&kept.text).unwrap(), kept.tree());
            }
        }
    }
}
