//! Edits in every shape and style of graph, and random ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    TaskGraph, load,
    merge::{Texts, merge},
    yaml::Document,
};

const BLOCK: &str = "\
version: 1 # keep
tasks:
  # The first.
  - id: a
    title: 'A' # short
    description: |
      one

      two
    tags: [x, y]

  # Section.

  # About b.
  - id: b
    depends_on:
      - a # why
      # more
      - c
    verify: make
  - {id: c, title: C}
# the end
meta: {n: 1}
";

/// Texts of graphs with the tasks `a`, `b` and `c`, in every shape and style.
pub(super) fn shapes() -> Vec<String> {
    let mut all: Vec<String> = [
        BLOCK,
        "tasks:\n- id: a\n- id: b\n  depends_on: [a]\n- id: c\n",
        "tasks:\n- id: a\n- id: b\n- id: c",
        "nodes:\n  -\n    id: a\n  -\n    id: b\n  -\n    id: c\nedges: []\n",
        "nodes:\n  - id: a\n  - id: b\n  - id: c\n\nedges:\n  - {from: a, to: b} # e\n  - from: b\n    to: c\n",
        "edges: [{from: a, to: b}]\ntasks: [{id: a}, {id: b, title: B}, {id: c}]\n",
        "tasks: [ {id: a},\n         {id: b, tags: [x]},\n         {id: c} ]\n",
        "{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"b\", \"depends_on\": [\"a\"]}, {\"id\": \"c\"}]}\n",
        "{\n  \"tasks\": [\n    {\n      \"id\": \"a\",\n      \"title\": \"A\"\n    },\n    {\n      \
         \"id\": \"b\",\n      \"depends_on\": [\"a\"]\n    },\n    {\"id\": \"c\"}\n  ],\n  \
         \"edges\": []\n}\n",
        "defaults: &d {priority: 1}\ntasks:\n  -   id:   a\n      x-d: *d\n\n  -   id:   b\n\n  -   id: c\n",
        "\u{feff}tasks:\n  - id: a\n    description: >-\n      folded\n      text\n  - id: b\n  - id: c\n",
    ]
    .map(str::to_owned)
    .to_vec();
    let crlf: Vec<String> = all.iter().map(|text| text.replace('\n', "\r\n")).collect();
    all.extend(crlf);
    all
}

pub(super) fn graph(text: &str) -> TaskGraph {
    let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
    load::load(&document).unwrap_or_else(|faults| panic!("{faults:#?}: {text}")).graph
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn new(name: &str, fields: &[(&str, Value)], depends_on: &[&str]) -> NewTask {
    NewTask {
        id: id(name),
        fields: fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        depends_on: depends_on.iter().map(|name| id(name)).collect(),
    }
}

fn ids(graph: &TaskGraph) -> Vec<String> {
    graph.tasks().iter().map(|task| task.id.to_string()).collect()
}

/// The ids of the dependencies of a task, sorted.
fn needs(graph: &TaskGraph, name: &str) -> Vec<String> {
    let number = graph.number(&id(name)).unwrap_or_else(|| panic!("no {name}"));
    let mut all: Vec<String> =
        graph.dependencies(number).map(|at| graph.task(at).id.to_string()).collect();
    all.sort();
    all
}

#[test]
fn new_tasks_follow_the_style_of_their_neighbors() {
    let fields = [
        ("verify", json!(["make test", "make lint"])),
        ("title", json!("New: one")),
        ("description", json!("first\n\n# second")),
        ("priority", json!(1)),
    ];
    let tasks = [new("x1", &fields, &["a"]), new("x2", &[], &["x1"])];
    let at = |text: &str| insert(text, &tasks).unwrap();
    let block = "\
- id: x1
  title: \"New: one\"
  description: |-
    first

    # second
  priority: 1
  depends_on: [a]
  verify:
  - make test
  - make lint
- id: x2
  depends_on: [x1]
";
    let text = "tasks:\n- id: a\n- id: b";
    assert_eq!(at(text), format!("{text}\n{}", block.trim_end()));
    let found = at(BLOCK);
    assert!(found.contains("- {id: x2, depends_on: [x1]}\n# the end\n"), "{found}");
    let spaced = at("tasks:\n  - id: a\n\n  - id: b\n");
    assert!(spaced.contains("- id: b\n\n  - id: x1\n") && spaced.contains("\n\n  - id: x2\n"));
    let edges = at("nodes:\n- {id: a}\nedges: []\n");
    assert!(edges.ends_with("edges:\n  - {from: a, to: x1}\n  - {from: x1, to: x2}\n"), "{edges}");
    let pretty = "{\n \"tasks\": [\n  {\n   \"id\": \"a\",\n   \"title\": \"A\"\n  }\n ]\n}\n";
    let want = "{\n \"tasks\": [\n  {\n   \"id\": \"a\",\n   \"title\": \"A\"\n  },\n  {\n   \
                \"id\": \"x1\",\n   \"title\": \"T\"\n  }\n ]\n}\n";
    let one = [new("x1", &[("title", json!("T"))], &[])];
    assert_eq!(insert(pretty, &one).unwrap(), want);
    assert_eq!(insert("tasks: [] # c\n", &one).unwrap(), "tasks: # c\n  - id: x1\n    title: T\n");
    assert_eq!(insert("{tasks: []}", &one).unwrap(), "{tasks: [{id: x1, title: T}]}");
}

#[test]
fn fields_are_set_in_place() {
    let set = |fields: &[(&str, Value)]| {
        let fields: Vec<(String, Option<Value>)> = fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (!value.is_null()).then(|| value.clone())))
            .collect();
        move |text: &str, name: &str| {
            set_fields_of(text, &[(id(name), fields.clone())])
                .unwrap_or_else(|why| panic!("{why}: {fields:?}"))
        }
    };
    let swap = |old: &str, new: &str| {
        assert!(BLOCK.contains(old));
        BLOCK.replacen(old, new, 1)
    };
    assert_eq!(
        set(&[("title", json!("it's"))])(BLOCK, "a"),
        swap("'A' # short", "'it''s' # short")
    );
    assert_eq!(set(&[("tags", json!(["y", "z"]))])(BLOCK, "a"), swap("[x, y]", "[y, z]"));
    assert_eq!(
        set(&[("depends_on", json!(["c", "d", "a"]))])(BLOCK, "b"),
        swap(
            "      - a # why\n      # more\n      - c\n",
            "      # more\n      - c\n      - d\n      - a # why\n"
        )
    );
    assert_eq!(
        set(&[("title", json!("x\ny"))])(BLOCK, "a"),
        swap("title: 'A' # short\n", "title: |- # short\n      x\n      y\n")
    );
    assert_eq!(
        set(&[("description", json!("short"))])(BLOCK, "a"),
        swap("description: |\n      one\n\n      two\n", "description: short\n")
    );
    assert_eq!(
        set(&[("priority", json!(1)), ("title", json!("B"))])(BLOCK, "b"),
        swap("  - id: b\n", "  - id: b\n    title: B\n    priority: 1\n")
    );
    assert_eq!(
        set(&[("verify", json!(["make", "a b"]))])(BLOCK, "b"),
        swap("verify: make\n", "verify:\n      - make\n      - a b\n")
    );
    assert_eq!(set(&[("verify", Value::Null)])(BLOCK, "b"), swap("    verify: make\n", ""));
    assert_eq!(
        set(&[("priority", json!("P1"))])(BLOCK, "c"),
        swap("{id: c, title: C}", "{id: c, title: C, priority: P1}")
    );
    assert_eq!(
        set(&[("title", json!("B"))])("tasks: [{id: b}]", "b"),
        "tasks: [{id: b, title: B}]"
    );
    assert_eq!(
        set(&[("title", json!("B"))])("tasks:\n- id: b", "b"),
        "tasks:\n- id: b\n  title: B"
    );
}

#[test]
fn dependencies_follow_the_shape_of_the_file() {
    for text in shapes() {
        if needs(&graph(&text), "b").contains(&"c".to_owned()) {
            continue;
        }
        let more = ["b", "a", "b"]
            .map(id)
            .iter()
            .fold(text.clone(), |text, on| depend(&text, &[id("c")], on).unwrap());
        assert_eq!(needs(&graph(&more), "c"), ["a", "b"], "{more}");
        assert_eq!(
            more.contains("depends_on"),
            !text.contains("edges") || text.contains("depends_on"),
            "{more}"
        );
    }
}

#[test]
fn edited_tasks_are_found() {
    let edited = |after: &str| edited_tasks(BLOCK, after);
    let edges = format!("{BLOCK}edges: [{{from: a, to: c}}]\n");
    assert_eq!(edited(&edges), [id("c")]);
    assert_eq!(edited(&BLOCK.replace("title: C", "title: D")), [id("c")]);
    assert_eq!(edited(&BLOCK.replace("title: C", "title: C, status: done")), []);
    let other = insert(BLOCK, &[new("d", &[], &["a"])]).unwrap();
    assert_eq!(edited(&other), []);
}

#[test]
fn every_task_of_a_real_graph_can_be_edited() {
    for text in [
        include_str!("../../../../tests/graphs/edges.yaml"),
        include_str!("../../../../tests/graphs/nested.yaml"),
        include_str!("../../../../task-graph.yaml"),
    ] {
        let before = graph(text);
        for task in before.tasks() {
            let number = before.number(&task.id).unwrap();
            let fields = [
                ("title", json!("N: x")),
                ("description", json!("a\nb")),
                ("tags", json!(["x y", "z"])),
                ("verify", json!(["make"])),
                ("priority", json!(1)),
            ];
            let fields = fields.map(|(key, value)| (key.to_owned(), Some(value)));
            let found = set_fields_of(text, &[(task.id.clone(), fields.to_vec())]).unwrap();
            let after = graph(&found);
            assert_eq!(after.task(number).description.as_deref(), Some("a\nb"), "{found}");
            assert_eq!(
                (after.task(number).title.as_str(), after.task(number).priority.0),
                ("N: x", 1)
            );
            let comments = |text: &str| text.matches(" #").count();
            assert_eq!(comments(&found), comments(text), "{found}");
        }
    }
}

#[test]
fn ten_thousand_tasks_are_inserted_at_once() {
    let tasks: Vec<NewTask> = (0..10_000)
        .map(|n| new(&format!("n{n}"), &[("title", json!(format!("Task {n}: x")))], &["a"]))
        .collect();
    let text = insert(BLOCK, &tasks).unwrap();
    assert_eq!(graph(&text).tasks().len(), 10_003);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_inserted_reads_back(
        shape in 0..22_usize,
        title in "[a-z:#'\"\\-\\[{ \\n\\t\u{7}é]{0,12}",
        description in "[a-z# \\-\\n]{0,30}",
        on in any::<bool>(),
    ) {
        let text = &shapes()[shape];
        let title = format!("t{title}");
        let fields = [("title", json!(title)), ("description", json!(description))];
        let task = new("n", &fields, if on { &["c"] } else { &[] });
        let found = insert(text, &[task]).unwrap();
        let read = graph(&found);
        let number = read.number(&id("n")).unwrap();
        prop_assert_eq!(&read.task(number).title, &title);
        prop_assert_eq!(read.task(number).description.clone().unwrap_or_default(), description);
        prop_assert_eq!(needs(&read, "n"), if on { vec!["c".to_owned()] } else { Vec::new() });
    }

    #[test]
    fn an_insertion_is_taken_back_without_later_changes(
        shape in 0..22_usize,
        title in "[a-z:#'-]{1,9}",
        on in any::<bool>(),
        later in any::<bool>(),
    ) {
        let before = &shapes()[shape];
        let task = new("x", &[("title", json!(format!("t{title}")))], if on { &["c"] } else { &[] });
        let after = insert(before, &[task]).unwrap();
        let change = [("story".to_owned(), Some(json!("s")))];
        let change = |text: &str| set_fields_of(text, &[(id("b"), change.to_vec())]).unwrap();
        let ours = if later { change(&after) } else { after.clone() };
        let found = merge(Texts { base: &after, ours: &ours, theirs: before }).unwrap();
        prop_assert_eq!(found.conflicts, []);
        if later {
            let want = graph(&change(before));
            prop_assert_eq!(ids(&graph(&found.text)), ids(&want));
            let story = graph(&found.text).task(1).story.clone();
            prop_assert_eq!(story, Some("s".to_owned()));
        } else {
            prop_assert_eq!(&found.text, before);
        }
    }
}
