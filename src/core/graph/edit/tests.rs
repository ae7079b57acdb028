//! Tests of edits of single mappings.

use proptest::prelude::*;
use serde_yaml::Value as Yaml;
use std::fmt::Write as _;

use super::*;
use crate::graph::yaml::{is_plain, next_line};

/// The mapping with the value `id` under the key `id`.
fn task(document: &Document, id: &str) -> NodeId {
    let (tree, text) = (document.tree(), document.text());
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

type Changes<'a> = &'a [(&'a str, Option<&'a str>)];

fn changed(document: &Document, mapping: NodeId, changes: Changes<'_>) -> Result<String, String> {
    let changes: Vec<(&str, Option<Value>)> =
        changes.iter().map(|(key, value)| (*key, value.map(Value::from))).collect();
    let mut edit = TextEdit::new(document);
    let done = edit.set(mapping, &changes, EntryPlace::AfterStatus);
    done.and_then(|()| edit.finish()).map(Document::into_text).map_err(|why| why.reason)
}

fn edited(text: &str, changes: Changes<'_>) -> Result<String, String> {
    let document = Document::parse(text).unwrap();
    changed(&document, task(&document, "a"), changes)
}

fn done(text: &str) -> Result<String, String> {
    edited(text, &[("status", Some("done"))])
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
    ("- id: a\n  status:\n    # why\n    x # c\n", "- id: a\n  status:\n    # why\n    done # c\n"),
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
    ("- id: a\n  l: |+\n    t\n\n  status: x\n\n", "- id: a\n  l: |+\n    t\n\n  status: done\n\n"),
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
    let started = ("started", Some("2026-11-20T22:44:03Z"));
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
    let n = [("n", None)];
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
        ("- id: a\n  status: &s x\n- *s\n", "the value of `status` is used elsewhere by an alias"),
        ("- id: a\n  status: [x, # c\n    y]\n", "the value of `status` contains comments"),
        ("- id: a\n  status: !!int 1\n", "the value of `status` has a tag that is not `!!str`"),
        ("- {id: a, status}\n", "`status` has no `:`"),
        ("- ? id\n  : a\n", "an entry of the mapping has an unusual key"),
        ("- [id: a]\n", "the entry is a mapping without braces in a list"),
    ] {
        assert_eq!(done(text).unwrap_err(), reason, "{text:?}");
    }
    let started = [("started", Some("x"))];
    assert_eq!(
        edited("- {id: a, status: }\n", &started).unwrap(),
        "- {id: a, status: , started: x }\n"
    );
    let inner = [("status", Some("done"))];
    assert_eq!(edited("? id: a\n", &inner).unwrap(), "? id: a\n  status: done\n");
    let document = Document::parse("- 1\n").unwrap();
    assert!(changed(&document, document.tree().root().unwrap(), &[]).is_err());
    let both = [("n", Some("1")), ("status", Some("x"))];
    assert!(edited("- id: a\n  status: { # c\n    }\n", &both).is_err());
}

#[test]
fn several_changes_are_made_together() {
    let changes = [
        ("status", Some("running")),
        ("started", Some("2026-11-20T22:44:03Z")),
        ("reason", None),
        ("by", Some("x: y")),
    ];
    assert_eq!(
        edited("- id: a\n  reason: no\n- id: b\n", &changes).unwrap(),
        "- id: a\n  status: running\n  started: \"2026-11-20T22:44:03Z\"\n  by: \"x: y\"\n- id: b\n"
    );
    let odd = [("a: b", Some("-")), ("true", Some(""))];
    assert_eq!(
        edited("- {id: a}\n", &odd).unwrap(),
        "- {id: a, \"a: b\": \"-\", \"true\": \"\"}\n"
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
        assert!(!is_plain(value), "{value:?}");
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
        assert!(is_plain(value), "{value:?}");
    }
}

#[test]
fn any_value_survives_in_any_style() {
    for value in ["it's", "a\nb\r\n", "\u{0}\u{1b}[31m", "\\\"", "\u{10ffff}\u{2028}", "#", "yes"] {
        for old in ["x", "'x'", "\"x\"", "|\n    x", "", "!!str x"] {
            let text = format!("- id: a\n  status: {old}\n  n: 1\n");
            let new = edited(&text, &[("status", Some(value))]).unwrap();
            let read: Yaml = serde_yaml::from_str(&new).unwrap();
            assert_eq!(read[0]["status"], Yaml::from(value), "{new:?}");
            assert_eq!(read[0]["n"], Yaml::from(1));
        }
    }
}

/// The reader parses a byte order mark before a mapping as a separate document.
fn read(text: &str) -> Yaml {
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
        let document = Document::parse(&before).unwrap();
        let mapping = task(&document, &format!("t{number}"));
        let mut want: Yaml = read(&before);
        let range = document.tree().range(mapping);
        let after = match changed(&document, mapping, &[(key, value.as_deref())]) {
            Ok(after) => after,
            Err(why) => {
                let one = &samples[number];
                let expected = key == "title" && one.anchor == 1 || value.is_none();
                prop_assert!(expected, "{}: {}\n{}", key, why, before);
                return Ok(());
            }
        };
        let wanted = want["tasks"][number].as_mapping_mut().unwrap();
        match &value {
            Some(value) => drop(wanted.insert(key.into(), value.as_str().into())),
            None => drop(wanted.remove(key)),
        }
        let found: Yaml = read(&after);
        prop_assert_eq!(found, want);
        let (head, tail) = common(&before, &after);
        let touched = before.len() - head - tail;
        let below = before[range.end..].split_inclusive('\n').skip(1);
        let below = below.take_while(|line| line.trim().is_empty()).map(str::len).sum::<usize>();
        let near = range.start..=next_line(before.as_bytes(), range.end) + below;
        prop_assert!(touched == 0 || near.contains(&head) || near.contains(&(before.len() - tail)));
        prop_assert!(touched <= range.len() + 4);
        if value.is_some() {
            let again = Document::parse(&after).unwrap();
            let mapping = task(&again, &format!("t{number}"));
            prop_assert_eq!(changed(&again, mapping, &[(key, value.as_deref())]), Ok(after));
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
        let Ok(document) = Document::parse(&before) else { return Ok(()) };
        let mut nodes: Vec<Node<'_>> = document.root().into_iter().collect();
        let mut mappings = Vec::new();
        while let Some(node) = nodes.pop().filter(|_| mappings.len() < 100) {
            if node.is_alias() {
                continue;
            }
            mappings.extend(node.is_mapping().then_some(node));
            nodes.extend(node.items());
            nodes.extend(node.entries().flat_map(|(key, value)| [key, value]));
        }
        if mappings.is_empty() {
            return Ok(());
        }
        let mapping = mappings[pick.index(mappings.len())];
        let change = (key, value.as_deref());
        let Ok(after) = changed(&document, mapping.id(), &[change]) else { return Ok(()) };
        let counted = mapping.entries().count();
        let had = mapping.get(key).is_some();
        let after_edit = Document::parse(&after).unwrap();
        let same = after_edit.tree().node_at(mapping.id().index());
        let found = after_edit.node(same);
        let text = found.get(key).and_then(Node::text);
        prop_assert_eq!(text.as_deref(), value.as_deref());
        let more = isize::from(value.is_some()) - isize::from(had);
        prop_assert_eq!(found.entries().count().cast_signed() - counted.cast_signed(), more);
        let read = |text: &str| serde_yaml::from_str::<Yaml>(text);
        if read(&before).is_ok() {
            prop_assert!(read(&after).is_ok(), "{:?} -> {:?}", before, after);
        }
    }
}
