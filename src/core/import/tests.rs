//! Every format becomes a graph that loads, in the layout of its file.

#![cfg(test)]

use proptest::prelude::*;
use serde_json::json;

use super::plan::{ExistingTasks, ImportedTask, SourceFile, plan};
use super::*;
use crate::graph::{
    edit::Unsupported,
    load,
    task::{Spelling, TaskId},
    task_edit::insert,
};

fn added(text: &str, spelling: &Spelling, tasks: &[&ImportedTask]) -> Result<String, Unsupported> {
    let tasks: Vec<_> = tasks.iter().map(|task| task.written(spelling)).collect();
    insert(text, &tasks)
}

fn loaded(text: &str) -> load::Loaded {
    let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    load::load(&document).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
}

fn task(id: &str, fields: &[(&str, Value)]) -> ImportedTask {
    ImportedTask {
        id: TaskId::new(id).unwrap(),
        source: format!("x#{id}"),
        is_new: true,
        status: Status::Complete,
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    }
}

#[test]
fn tasks_follow_the_layout_of_the_file() {
    let new = task(
        "new",
        &[
            ("title", json!("N: x")),
            ("status", json!("complete")),
            ("description", json!("a\n\n  b")),
        ],
    );
    for (text, want) in [
        (
            "tasks:\n  - id: a\n    status: done # c\n# end\n",
            "tasks:\n  - id: a\n    status: done # c\n  - id: new\n    title: \"N: x\"\n    \
             description: |-\n      a\n\n        b\n    status: done\n# end\n",
        ),
        (
            "nodes:\n- id: a\nedges: []\n",
            "nodes:\n- id: a\n- id: new\n  title: \"N: x\"\n  \
             description: |-\n    a\n\n      b\n  status: complete\nedges: []\n",
        ),
        (
            "{\"tasks\": [{\"id\": \"a\"}]}\n",
            "{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"new\", \"title\": \"N: x\", \"description\": \
             \"a\\n\\n  b\", \"status\": \"complete\"}]}\n",
        ),
        (
            "a: 1\r\ntasks:\r\n- id: a\r\n# end",
            "a: 1\r\ntasks:\r\n- id: a\r\n- id: new\r\n  title: \"N: x\"\r\n  description: \
             |-\r\n    a\r\n\r\n      b\r\n  status: complete\r\n# end",
        ),
        (
            "version: 1\ntasks: [] # none\nmeta: {}\n",
            "version: 1\ntasks: # none\n  - id: new\n    title: \"N: x\"\n    \
             description: |-\n      a\n\n        b\n    status: complete\nmeta: {}\n",
        ),
    ] {
        let spelling = loaded(text).graph.spelling;
        let found = added(text, &spelling, &[&new]).unwrap();
        assert_eq!(found, want);
        let graph = loaded(&found).graph;
        let last = graph.tasks().last().unwrap();
        assert_eq!(last.description.as_deref(), Some("a\n\n  b"));
    }
}

#[test]
fn dependencies_are_written_as_the_file_does_it() {
    let new =
        task("new", &[("priority", json!("P1")), ("depends_on", json!(["a"])), ("x", json!(1))]);
    for (text, want) in [
        (
            "nodes:\n- {id: a}\n- {id: b}\nedges:\n- {from: a, to: b}\n",
            "nodes:\n- {id: a}\n- {id: b}\n- {id: new, priority: P1, x: 1}\nedges:\n- {from: a, to: \
             b}\n- {from: a, to: new}\n",
        ),
        (
            "tasks:\n- id: a\n",
            "tasks:\n- id: a\n- id: new\n  priority: P1\n  depends_on: [a]\n  x: 1\n",
        ),
    ] {
        assert_eq!(added(text, &Spelling::default(), &[&new]).as_deref(), Ok(want));
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \t\n\r:#\"'|>&*!%@`{}\\[\\],?~-]{0,12}",
        "([a-z -]{0,9}\n){0,4}",
        "(yes|null|0x1f|1e3|2026-11-20|~|- a|a: b|#c)",
    ]
}

/// A record for a format: its text, or garbage in its place.
type Written = fn(usize, &Value) -> Value;

/// A backlog of these records, each a good one or a bad one.
fn written(format: &str, records: &[bool], done: &[bool]) -> (&'static str, String) {
    let of = |write: Written| -> Vec<Value> {
        let one = |(number, is_good): (usize, &bool)| match is_good {
            true => write(number, &json!(done[number])),
            false => [json!(1), Value::Null, json!("text")][number % 3].clone(),
        };
        records.iter().enumerate().map(one).collect()
    };
    let word = |done: &Value, yes: &str, no: &str| {
        if done == &json!(true) { yes.to_owned() } else { no.to_owned() }
    };
    match format {
        "prd" => {
            let list = of(|n, done| json!({"id": format!("k{n}"), "title": "T", "passes": done}));
            ("prd.json", json!({"userStories": list}).to_string())
        }
        "graph" => {
            let list = of(|n, done| {
                let status = if done == &json!(true) { "done" } else { "todo" };
                json!({"id": format!("k{n}"), "title": "T", "status": status, "x-a": 1})
            });
            ("g.json", json!({"tasks": list, "edges": []}).to_string())
        }
        "github" => {
            let list = of(|n, done| {
                let state = if done == &json!(true) { "closed" } else { "open" };
                json!({"number": n, "title": "T", "state": state})
            });
            ("i.json", Value::from(list).to_string())
        }
        "beads" => {
            let list = of(|n, done| {
                let status = if done == &json!(true) { "closed" } else { "open" };
                json!({"id": format!("k{n}"), "title": "T", "issue_type": "task", "status": status})
            });
            let lines: Vec<String> = list.iter().map(Value::to_string).collect();
            (
                "i.jsonl",
                format!("{{\"id\": \"z\", \"issue_type\": \"task\"}}\n{}\n", lines.join("\n")),
            )
        }
        "task-master" => {
            let list = of(|n, done| {
                let status = if done == &json!(true) { "done" } else { "pending" };
                json!({"id": n, "title": "T", "dependencies": [], "status": status})
            });
            ("tasks.json", json!({"master": {"tasks": list}}).to_string())
        }
        "csv" => {
            let rows = records.iter().enumerate().map(|(n, is_good)| match is_good {
                true => format!("k{n},T,{}\n", word(&json!(done[n]), "done", "todo")),
                false => ",,done\n".to_owned(),
            });
            ("t.csv", format!("id,title,status\n{}", rows.collect::<String>()))
        }
        _ => {
            let rows = records.iter().enumerate().map(|(n, is_good)| match is_good {
                true => format!("- [{}] `k{n}`: T\n", word(&json!(done[n]), "x", " ")),
                false => "\n- no box\n\n".to_owned(),
            });
            ("t.md", rows.collect::<String>())
        }
    }
}

proptest! {
    #[test]
    fn any_backlog_becomes_a_graph_that_loads(
        keys in prop::collection::hash_set(text(), 1..6),
        titles in prop::collection::vec(text(), 6),
        texts in prop::collection::vec(text(), 6),
        status in prop::sample::select(vec!["open", "DONE", "in_progress", "tombstone", "x y"]),
        flow in any::<bool>(),
    ) {
        let keys: Vec<String> = keys.into_iter().collect();
        let stories: Vec<Value> = keys.iter().enumerate().map(|(at, key)| json!({
            "id": key, "title": titles[at], "description": texts[at], "status": status,
            "priority": texts[at], "notes": {"a": [texts[at], 1]}, "timeout": titles[at],
            "createdAt": "x", "verify": [titles[at]], "agent": texts[at],
            "dependsOn": keys[..at],
        })).collect();
        let prd = json!({"userStories": stories, "name": titles[0]}).to_string();
        let backlog = read("prd.json", &prd).unwrap();
        let file = SourceFile { name: "prd.json".to_owned(), backlog };
        let Ok(plan) = plan(&[file], &ExistingTasks::default(), &[]) else { return Ok(()) };
        let all: Vec<&ImportedTask> = plan.tasks.iter().collect();
        let fresh = added("version: 1\ntasks: []\n", &Spelling::default(), &all).unwrap();
        let mut graphs = vec![loaded(&fresh).graph];
        let text = if flow { "{tasks: [{id: zz-zz}]}\n" } else { "tasks:\n- id: zz-zz\n" };
        let into = added(text, &Spelling::default(), &all).unwrap();
        graphs.push(loaded(&into).graph);
        for graph in graphs {
            for task in &plan.tasks {
                let number = graph.number(&task.id);
                let found = graph.task(number.unwrap());
                prop_assert_eq!(Some(found.title.as_str()), task.get("title").and_then(Value::as_str));
                prop_assert_eq!(found.description.as_deref(), task.get("description").and_then(Value::as_str));
                prop_assert_eq!(found.extra.get("source"), task.get("source"));
                prop_assert_eq!(found.extra.get("notes"), task.get("notes"));
            }
        }
    }

    #[test]
    fn each_record_is_a_task_or_a_named_loss(
        records in prop::collection::vec(prop::bool::weighted(0.8), 1..12),
        done in prop::collection::vec(any::<bool>(), 12),
    ) {
        for format in ["prd", "graph", "github", "beads", "task-master", "csv", "markdown"] {
            let (name, text) = written(format, &records, &done);
            let good: Vec<bool> = { records.iter().zip(&done) }
                .filter(|(is_good, _)| **is_good)
                .map(|(_, done)| *done)
                .collect();
            if good.is_empty() {
                continue;
            }
            let SourceBacklog { format: found, tasks, lost, .. } = read(name, &text).unwrap();
            prop_assert_eq!(found, format);
            let tasks: Vec<_> = tasks.iter().filter(|task| task.key != "z").collect();
            let complete = |task: &&SourceTask| task.get("status") == Some(&json!("complete"));
            let found: Vec<bool> = tasks.iter().map(complete).collect();
            prop_assert_eq!(found, good, "{}: {}", format, text);
            prop_assert_eq!(tasks.len() + lost.len(), records.len(), "{}: {:?}", format, lost);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in text(),
        ending in prop::sample::select(vec!["md", "json", "jsonl", "csv", "yaml", "txt"]),
    ) {
        drop(read(&format!("x.{ending}"), &text));
    }
}
