//! Compares the graphs of the line reader with those of the full readers.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::graph::{
    edit::Change,
    load::{load, node_of},
};

/// Everything about a graph, so that two graphs can be compared.
fn everything(graph: &TaskGraph) -> String {
    let mut all =
        format!("{:#?}\n{:?}\n{:?}\n", graph.project, graph.spelling, graph.topological());
    for (number, task) in graph.tasks().iter().enumerate() {
        let after: Vec<usize> = graph.dependencies(number).collect();
        let before: Vec<usize> = graph.dependents(number).collect();
        let found = graph.number(&task.id);
        let _ = writeln!(all, "{found:?} {after:?} {before:?} {task:#?}");
    }
    all
}

/// Whether the line reader reads the text. If it does, its graph must be that of the full readers,
/// and they must have nothing to report.
fn is_read(text: &str) -> bool {
    let Some((graph, starts)) = read(text) else { return false };
    let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text:?}"));
    let full = load(&document).unwrap_or_else(|faults| panic!("{faults:#?}\n{text:?}\n{text}"));
    assert!(full.warnings.is_empty(), "{:#?}\n{text}", full.warnings);
    let (ours, theirs) = (everything(&graph), everything(&full.graph));
    if ours != theirs {
        let pairs = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
        panic!("the readers differ: {pairs:?}\n{text:?}\n{text}");
    }
    // An edit of the lines of a task is an edit of the file.
    let number = text.len() % graph.tasks().len();
    let changes = [
        Change::Set { key: "status", value: "in-progress" },
        Change::Set { key: "claimed_by", value: "ralph 1" },
        Change::Remove { key: "completed_at" },
    ];
    let (mut whole, mut part) = (document.clone(), Document::later(text, starts));
    let (mut item, node) = part.item(number).expect("the lines of a task");
    let edited = whole.edit(node_of(&whole, number).unwrap(), &changes);
    assert_eq!(edited, item.edit(node, &changes), "{text}");
    part.replace_item(number, item.text()).unwrap();
    assert_eq!(whole.text(), part.text(), "{text}");
    true
}

const REAL: [&str; 4] = [
    "# Work of the team.\nversion: 1\nproject: Sun & moon\ndefaults:\n  commit: optional\n  \
     priority: low\n  tags: [team:a, web]\n  owner: us\n\nmilestones:\n  - id: M1\n    title: First\n    \
     tasks:\n      - a1\n    depends_on: []\n  - id: M2 # second\n    title: Second\ntasks:\n  - id: \
     a1\n    title: Add the login form # soon\n    description: |\n      Two lines,\n        one of \
     them indented.\n\n      # no comment\n    priority: P1\n    status: done\n    completed_at: \
     2026-11-20T22:44:03Z\n    x-size: 12\n  # The next one.\n  - id: b-1\n    title: \"Say \
     \\\"hello\\\": \\\\o/\"\n    depends_on:\n      - a1\n    verify:\n      - cargo test\n      - 'echo \
     ''x'' # y'\n    estimate: 2h\n    touches: [src/**, docs/*.md]\n\n  - id: c_1\n    title: It's \
     a:b\n    status: pending\n",
    "nodes:\n- id: S-001-R\n  title: Research (part 1)\n  status: complete\n  complexity: S\n  story: \
     S-001\n  milestone: M1\n  output: docs/a.md\n  created: 2026-01-01\n- id: S-001-P\n  status: \
     in_progress\n  complexity: XL\n  claimed_at: \"2026-01-28T00:00:00Z\"\n  claimed_by: ralph \
     20260128\n  timeout: 15m\n  max_attempts: 2\n  max_cost: 2.5\n  verify_baseline: true\n- id: \
     \"7\"\n  description: >-\n    One line that is\n    folded into one.\n\n    And another.\nedges:\n- \
     from: S-001-R\n  to: S-001-P\n  type: blocks\n- {from: S-001-P, to: \"7\"}\nmeta:\n  total: 3\n  by: \
     {a: 1, b: [x, y]}\n",
    "tasks:\n  - {id: a1, title: 'One', priority: 1, depends_on: []}\n  - {id: b1, depends_on: [a1], \
     tags: [x, 'y z'], x: 1.5}\n  -   id: c1\n      depends_on:\n      - a1\n      - b1\n      notes:\n        \
     deep:\n          - one: 1\n            two: ~\n          - three\n        flat: .github/x\ndefaults: \
     {verify: [\"true\"], path: src, estimate: 3}\n",
    "tasks:\n- id: one\n  title: Über den Fluss \u{1f600}\n  path: ./src\n  notes: $HOME/x; (y) ^z\n  \
     priority: -3\n  agent: claude\n  idle: 90s\n  commit: required\n  allow: vague-text\n  \
     source: https://example.com/a#b\n- id: two\n  title:\n  description: ''\n  priority: high\n  \
     estimate: 1.5\n  depends_on: one\n  resources: {mem: 16G, cpus-per-task: 8}\n  flag: True\n  \
     nothing: ~\n  empty:\n",
];

/// The lines of a file of test values, in which signs stand for line breaks and the like.
fn values(file: &'static str) -> impl Iterator<Item = String> {
    const SIGNS: [(char, &str); 6] = [
        ('⏎', "\n"),
        ('⇥', "\t"),
        ('␍', "\r"),
        ('␤', "\u{2028}"),
        ('␅', "\u{85}"),
        ('␖', "\u{feff}"),
    ];
    let value = |line: &str| {
        SIGNS.iter().fold(line.to_owned(), |text, (sign, with)| text.replace(*sign, with))
    };
    file.lines().map(value)
}

#[test]
fn files_in_the_usual_layout_are_read_from_their_lines() {
    for text in REAL {
        assert!(is_read(text), "{text}");
        assert!(is_read(text.trim_end()), "{text}");
    }
    for text in [
        include_str!("../../../../../task-graph.yaml"),
        include_str!("../../../../../tests/graphs/edges.yaml"),
        include_str!("../../../../../tests/graphs/nested.yaml"),
    ] {
        assert!(is_read(text), "{text}");
    }
}

#[test]
fn what_is_not_certain_is_left_to_the_full_readers() {
    for line in values(include_str!("uncertain_fields.txt")) {
        let text = format!("tasks:\n- id: a\n  {line}\n- id: b\n");
        assert!(read(&text).is_none(), "{text}");
    }
    for text in values(include_str!("uncertain_files.txt")) {
        assert!(read(&text).is_none(), "{text}");
    }
}

#[test]
fn scalars_are_what_they_are_to_the_full_readers() {
    let mut read = 0;
    for value in values(include_str!("scalars.txt")) {
        for text in [
            format!("tasks:\n- id: a\n  x-a: {value}\n"),
            format!("tasks:\n- id: a\n  title: {value}\n"),
            format!("tasks:\n- id: a\n  tags: {value}\n"),
            format!("tasks:\n- id: a\n  tags:\n  - {value}\n"),
            format!("tasks:\n- id: a\n  tags: [{value}, x]\n"),
            format!("tasks:\n- id: a\n  x-a: {{b: {value}}}\n"),
            format!("tasks:\n- id: {value}\n"),
            format!("tasks:\n- id: a\n  priority: {value}\n  estimate: {value}\n"),
            format!("tasks:\n- id: a\n  max_attempts: {value}\n  max_cost: {value}\n"),
            format!(
                "tasks:\n- id: a\n  timeout: {value}\n  verify_baseline: {value}\n  verify: {value}\n"
            ),
            format!(
                "defaults:\n  tags: {value}\n  estimate: {value}\n  own: {value}\ntasks:\n- id: a\n"
            ),
            format!("project: {value}\ntasks:\n- id: a\nedges: {value}\n"),
            format!("project: {value}\ntasks:\n- id: a\n"),
        ] {
            read += usize::from(is_read(&text));
        }
    }
    assert!(read > 500, "{read}");
}

#[test]
fn a_file_with_any_byte_or_line_changed_is_read_alike() {
    let mut read = 0;
    for text in REAL {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for at in 0..lines.len() {
            let before = lines[..at].concat();
            let (line, after) = (lines[at], lines[at + 1..].concat());
            for line in [
                String::new(),
                format!(" {line}"),
                format!("  {line}"),
                format!("{line}{line}"),
                line.replacen("  ", "", 1),
            ] {
                read += usize::from(is_read(&format!("{before}{line}{after}")));
            }
            for inserted in
                ["\n", "# c\n", "      # c\n", "      \n", "    - x\n", "x: 1\n", "  y\n"]
            {
                read += usize::from(is_read(&format!("{before}{inserted}{line}{after}")));
            }
        }
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (before, rest) = text.split_at(at);
            let with = [" ", "\n", ":", ": ", "#", "-", "'", "\"", "[", "0"][at % 10];
            let changed = match at % 3 {
                0 => before.to_owned(),
                1 => format!("{before}{}", rest.chars().skip(1).collect::<String>()),
                _ => format!("{before}{with}{rest}"),
            };
            read += usize::from(is_read(&changed));
        }
    }
    assert!(read > 500, "{read}");
}

/// Fields as they may be written, one key after the other; the lines are indented with the task.
const FIELD_TEXTS: &[&[&str]] = &[
    &[
        "title: Add it",
        "title: 'It''s # it'",
        "title: \"A \\\"b\\\"\" # c",
        "title:",
        "title: 12",
        "title: 1.50",
        "title: ~",
    ],
    &[
        "description: |\n  a\n\n  b # c\n    d",
        "description: |-\n    a: b\n    - c",
        "description: >\n  a\n  b\n\n  c\n",
        "description: >-\n  a\n\n\n  b",
        "description: Plain text, with: colons",
        "description: plain",
        "description: |\n\n  a",
    ],
    &[
        "priority: 1",
        "priority: P2",
        "priority: high",
        "priority: \"3\"",
        "priority: 1.5",
        "priority: -1",
        "priority:",
    ],
    &[
        "status: done",
        "status: pending",
        "status: in_progress",
        "status: 'TODO'",
        "status: Needs Input",
        "status: ~",
    ],
    &[
        "depends_on: []",
        "depends_on: [t0]",
        "depends_on:\n- t0",
        "depends_on:\n  - t0\n  - 't1'",
        "depends_on: t0",
        "depends_on: [t0, t0]",
    ],
    &[
        "tags: [a, 'b c', d:e]",
        "tags: x",
        "tags:\n  - a # b\n  # c\n  - 1\n",
        "tags: ~",
        "tags: [1.0, true]",
    ],
    &["estimate: 2h", "estimate: 1.5", "estimate: '30m'", "estimate: 3", "estimate:"],
    &["complexity: S", "complexity: xl", "complexity: 'M'", "complexity: ~"],
    &[
        "verify: cargo test",
        "verify: []",
        "verify:\n- a: b",
        "verify:\n  - |\n    a\n    b\n  - 'c'",
        "verify: [a, \"b: c\"]",
        "verify:",
    ],
    &["touches: src/**", "touches: ['*.rs', docs/*.md]", "touches:\n  - a/**\n  - b"],
    &["commit: optional", "commit: required"],
    &["timeout: 90s", "idle: '0s'", "stale_after: 2h 30m", "timeout: 0s"],
    &["max_attempts: 3", "max_cost: 2.50", "max_cost: 3", "verify_baseline: false"],
    &[
        "notes:\n  a: 1\n  b:\n    - c: d\n      e: [f]\n    - g",
        "notes: {a: {b: [1, ~]}}",
        "notes: ~",
        "notes: 2026-01-01",
    ],
    &["owner: me", "owner: 007", "owner: 'x'", "owner: {a: 1}", "owner:\n  - a", "owner: 1e3"],
    &[
        "x-depend_on: [a]",
        "labels: [a]",
        "created: 2026-01-01T00:00:00Z",
        "path: src",
        "output: [a, b]",
        "source: x:1",
        "agent: claude",
    ],
    &[
        "claimed_at: 2026-01-01T00:00:00Z",
        "claimed_by: ralph 1",
        "completed_at: '2026'",
        "run_on: local",
        "allow: [x]",
        "prompt: a.md",
    ],
];

const TOP_TEXTS: &[&str] = &[
    "version: 1\n",
    "project: My project\n",
    "# c\n\n",
    "edges: []\n",
    "edges:\n- from: t0\n  to: t1\n",
    "edges:\n  - {from: t0, to: t1, kind: x}\n",
    "meta:\n  total: 3\n  list:\n  - a\n",
    "last: \"2026\"\n",
    "stories:\n  - id: S1\n    title: x\n  # c\n  - id: S2\n",
    "defaults:\n  priority: low\n  tags: [z]\n  owner: us\n",
    "defaults: {estimate: 4h, verify: make, commit: optional}\n",
    "defaults:\n  complexity: L\n  timeout: 1h\n  max_cost: 1\n",
    "defaults:\n  notes: x\n  path: ~\n  status: done\n",
    "\n   \n",
    "text: |\n  a\n",
];

/// A graph in one of many layouts, given choices.
fn rendered(
    tops: &[usize],
    tasks: &[(Vec<(usize, usize)>, bool)],
    dash: usize,
    pad: usize,
) -> String {
    let mut text: String = tops.iter().map(|top| TOP_TEXTS[top % TOP_TEXTS.len()]).collect();
    text.push_str(if pad == 3 { "nodes: # c\n" } else { "tasks:\n" });
    for (number, (fields, spaced)) in tasks.iter().enumerate() {
        let lead = format!("{}-{}", " ".repeat(dash), " ".repeat(pad));
        let _ = writeln!(text, "{lead}id: t{number}");
        for (field, choice) in fields {
            let choices = FIELD_TEXTS[field % FIELD_TEXTS.len()];
            for line in choices[choice % choices.len()].split('\n') {
                let lead = if line.is_empty() { 0 } else { lead.len() };
                let _ = writeln!(text, "{}{line}", " ".repeat(lead));
            }
        }
        if *spaced {
            text.push_str("\n  # c\n");
        }
    }
    text.extend(tops.iter().rev().map(|top| TOP_TEXTS[(top / 16) % TOP_TEXTS.len()]));
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_graphs_are_read_alike_in_every_layout(
        tops in prop::collection::vec(0..4096usize, 0..3),
        tasks in prop::collection::vec((prop::collection::vec((0..64usize, 0..64usize), 0..5), any::<bool>()), 2..4),
        (dash, pad) in (0..3usize, 1..4usize),
    ) {
        is_read(&rendered(&tops, &tasks, dash, pad));
    }

    #[test]
    fn mutated_graphs_are_read_alike(
        which in 0..REAL.len() + 2,
        tops in prop::collection::vec(0..4096usize, 0..2),
        tasks in prop::collection::vec((prop::collection::vec((0..64usize, 0..64usize), 0..4), any::<bool>()), 1..3),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..3usize, prop::sample::select(vec![
            "", "", "", "\n", " ", "  ", "- ", "-", ":", ": ", "#", " # c", "'", "\"", "\\", "[", "]", "{", "}", ",", "|", ">", "|-",
            "&x ", "*x", "!x ", "<<: ", "?", "? ", "%", "@", "`", "~", "0", "0x", "1e", ".", "_", "=", "<", "\t", "\r\n", "---\n",
            "...\n", "\u{85}", "\u{a0}", "\u{2028}", "\u{feff}", "\u{fffd}", "\u{1f600}", "null", "true", "yes", "1", "-1", "1.5",
            "id: x", "title: a\n", "\n\n", "\n  ", "\n    ", "\n      ", "tasks:\n", "edges:\n", "t0", "<<", "+", "$", "(", "/",
        ])), 1..4),
    ) {
        let whole = match REAL.get(which) {
            Some(text) => (*text).to_owned(),
            None => rendered(&tops, &tasks, which % 3, 1),
        };
        let mut text: Vec<char> = whole.chars().collect();
        for (place, length, with) in cuts {
            let from = place.index(text.len() + 1);
            let to = (from + length).min(text.len());
            text.splice(from..to, with.chars());
        }
        is_read(&text.into_iter().collect::<String>());
    }
}
