//! `task-add` and `show`, on real files.

use std::fs;

use serde_json::{Value, json};

use crate::support::{TestProject, until};

const GRAPH: &str = "\
tasks:
  # The lexer.
  - id: lexer
    title: Write the lexer # soon
  - id: parser
    title: Write the parser
    depends_on: [lexer]
    verify: [\"true\"]
  - id: docs
    depends_on: [parser]
";

fn project(graph: &str) -> TestProject {
    TestProject::new().graph(graph).agent("commit")
}

/// The journal's lines of commands: task, and its statuses.
fn told(trial: &TestProject) -> Vec<Value> {
    let lines = trial.journal().into_iter().filter(|line| line["cause"] == "command");
    lines.map(|line| json!([line["task_id"], line["old"], line["new"]])).collect()
}

#[test]
fn a_task_is_added_with_its_fields() {
    let trial = project(GRAPH);
    trial.write("notes.md", "First line\n\n# second\n");
    let words = [
        "task-add",
        "Check: types, don't crash",
        "--after",
        "parser,lexer",
        "--before",
        "docs",
        "--priority",
        "P1",
        "--verify",
        "cargo test types",
        "--verify",
        "true",
        "--story",
        "S1",
        "--milestone",
        "M1",
        "--tag",
        "x,y",
        "--description",
        "@notes.md",
        "--set",
        "timeout=30m",
        "--set",
        "max_attempts=2",
    ];
    trial
        .run(words)
        .stdout("check-types-dont-crash: added at task-graph.yaml:11, waiting on lexer, parser\n");
    let added = "  - id: check-types-dont-crash
    title: \"Check: types, don't crash\"
    description: |-
      First line

      # second
    priority: P1
    depends_on: [parser, lexer]
    story: S1
    milestone: M1
    tags: [x, \"y\"]
    verify:
      - cargo test types
      - \"true\"
    timeout: 30m
    max_attempts: 2
";
    let whole = GRAPH.replace("[parser]", "[parser, check-types-dont-crash]") + added;
    assert_eq!(trial.graph_text(), whole);
    let id = "check-types-dont-crash";
    assert_eq!(told(&trial), [json!([id, null, "pending"])]);
}

#[test]
fn tasks_are_added_to_every_kind_of_file() {
    let folder = format!("{}/tests/graphs", env!("CARGO_MANIFEST_DIR"));
    let mut graphs: Vec<String> = ["edges", "nested"]
        .map(|name| fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap())
        .to_vec();
    graphs.push("tasks: []\n".to_owned());
    graphs.push("{\"tasks\": [{\"id\": \"a\"}], \"edges\": []}".to_owned());
    graphs.push("tasks:\n- id: a\n- {id: b, depends_on: a}".to_owned());
    graphs.push(graphs[1].replace('\n', "\r\n"));
    let trial = project("tasks: []\n");
    for graph in graphs {
        trial.save("task-graph.yaml", &graph);
        let task = trial.run(["task-add", "New", "--json", "--tag", "t"]).json();
        assert_eq!((&task["id"], &task["state"]), (&json!("new"), &json!("ready")));
        let set = "x-k={\"a\": [1, \"b\"]}";
        let other = trial.run(["task-add", "Other", "--after", "new", "--set", set, "--json"]);
        let other = other.json();
        trial.run(["check"]);
        assert_eq!((&other["id"], &other["waiting_on"][0]["id"]), (&json!("other"), &json!("new")));
    }
}

#[test]
fn invalid_changes_are_refused_and_change_nothing() {
    let trial = project(GRAPH);
    let long = "x".repeat(65);
    for (words, code, reason) in [
        (vec!["task-add", "two\nlines"], 64, "more than one line"),
        (vec!["task-add", "a\u{1b}[31mb"], 64, "control character"),
        (vec!["task-add", "  "], 64, "the title is empty"),
        (vec!["task-add", "T", "--id", "a/b"], 64, "the id `a/b` may contain only"),
        (vec!["task-add", "T", "--id", "../x"], 64, "must start with"),
        (vec!["task-add", "T", "--id", &long], 64, "longer than 64"),
        (vec!["task-add", "T", "--id", "docs"], 64, "edit it in the file"),
        (vec!["task-add", "T", "--after", "parsr"], 1, "did you mean `parser`?"),
        (vec!["task-add", "T", "--before", "lexre"], 1, "did you mean `lexer`?"),
        (vec!["task-add", "T", "--priority", "soon"], 64, "not a priority"),
        (vec!["task-add", "T", "--after", "docs", "--before", "lexer"], 65, "cycle"),
        (vec!["task-add", "T", "--description", "@none.md"], 64, "cannot read `none.md`"),
        (vec!["task-add", "T", "--set", "status=done"], 64, "task-complete"),
        (vec!["task-add", "T", "--set", "title=x"], 64, "`title` is set twice"),
        (vec!["task-add", "T", "--set", "depend_on=x"], 65, "depends_on"),
        (vec!["task-add", "T", "--set", "timeout=soon"], 65, "timeout"),
        (vec!["task-add", "T", "--set", "id=x"], 64, "cannot be set"),
        (vec!["task-edit", "lexer", "--title", "x"], 64, "edit `task-graph.yaml`"),
        (vec!["show", "lexr"], 1, "did you mean `lexer`?"),
    ] {
        trial.run(words.clone()).code(code).stderr_has(reason);
        assert_eq!(trial.graph_text(), GRAPH, "{words:?}");
    }
    assert!(!trial.root().join("logs").exists());
    let plain = project("tasks: 3\n");
    plain.run(["task-add", "T"]).code(65);
    assert_eq!(plain.graph_text(), "tasks: 3\n");
}

#[test]
#[ignore = "slow"]
fn hostile_titles_and_descriptions_read_back() {
    let trial = project(GRAPH);
    for title in
        ["- a: [b]", "#x", "yes", "1e5", "'q\" \\", "{{ x }}", "\u{202e}abc", "no: *a &b !c"]
    {
        let task = trial.run(["task-add", "--json", "--", title]).json();
        assert_eq!(task["title"], title);
    }
    let large = "many words, and more\n".repeat(500_000);
    trial.write("large.md", &large);
    trial.run(["task-add", "Large", "--description", "@large.md"]);
    let details = trial.run(["show", "large", "--json"]).json();
    assert_eq!(details["fields"]["description"].as_str(), Some(large.trim_end()));
    trial.write("bad.md", "a\u{0}b");
    trial
        .run(["task-add", "T", "--description", "@bad.md"])
        .code(64)
        .stderr_has("control character");
}

#[test]
fn a_task_is_shown_with_its_place_in_the_graph() {
    let trial = project(GRAPH);
    trial.save("task-graph.yaml", &format!("{GRAPH}    description: all of it\n"));
    trial.run(["run", "--task", "lexer"]);
    trial.run(["show", "docs"]).stdout(
        "Task: docs\nState: waiting on parser\nPriority: P2\nDefined in: task-graph.yaml:11\n\
         Depends on:\n  parser (ready)\nDescription:\n  all of it\n",
    );
    let text = trial.run(["show", "lexer"]).out();
    assert!(text.contains("State: complete: at "), "{text}");
    assert!(
        text.contains("Dependents (2 tasks unfinished, also through others):\n  parser (ready)"),
        "{text}"
    );
    assert!(text.contains("lexer.1"), "{text}");
    let details = trial.run(["show", "lexer", "--json"]).json();
    assert_eq!(details["attempts"][0]["verdict"], "complete");
    assert_eq!(details["unfinished_dependents"], 2);
    assert_eq!(details["state"], "complete");
}

#[test]
fn a_run_picks_up_what_is_added() {
    let trial = TestProject::new().graph("tasks:\n  - id: a\n  - id: b\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.run(["task-add", "Third", "--before", "b"]);
    trial
        .run(["task-block", "a", "--reason", "no"])
        .code(5)
        .stderr_has("attempt 1 at `a` has been running");
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "third", "b"]);
}

#[test]
fn a_run_takes_over_the_changes_of_a_person() {
    let graph = "tasks:\n  - id: a\n  - id: b\n  - id: c\n";
    for trial in [TestProject::new(), TestProject::new().in_place()] {
        let trial = trial.graph(graph).agent("gate");
        let run = trial.start_until(["run"], "waiting-a");
        trial.run(["task-add", "Third", "--priority", "1"]);
        let text = trial.graph_text().replace("  - id: b\n", "").replace("  - id: c\n", "");
        trial.save("task-graph.yaml", &text.replacen("tasks:\n", "tasks:\n  - id: c\n", 1));
        trial.leave("open");
        run.end(&trial).graph_complete();
        assert_eq!(trial.tasks("completed"), ["a", "third", "c"]);
        let text = trial.graph_text();
        assert!(text.starts_with("tasks:\n  - id: c\n") && !text.contains("id: b"), "{text}");
        assert_eq!(trial.lines("graph_guarded"), [json!(null); 0]);
    }
}

#[test]
fn a_new_task_does_not_inherit_the_history_of_a_removed_one() {
    let trial = project("tasks:\n  - {id: one, title: One}\n  - {id: two}\n");
    trial.run(["run", "--once"]);
    trial.run(["task-complete", "two"]);
    trial.save("task-graph.yaml", "tasks: []\n");
    for id in ["one", "two"] {
        let ran = trial.run(["task-add", "Another", "--id", id]).code(64);
        ran.stderr_has("a removed task").stderr_has(&format!("`{id}-2` is free"));
    }
    trial.run(["task-add", "One"]).stdout_has("one-2: added").stdout_has("ready");
    // What was never worked on leaves nothing behind.
    trial.run(["task-add", "Three"]);
    trial.save("task-graph.yaml", "tasks: []\n");
    trial.run(["task-add", "Three"]).stdout_has("three: added");
}

#[test]
fn an_attempt_cannot_change_the_graph_by_these_commands() {
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let script = format!(
        "for c in 'task-add x' 'task-block a --reason x' 'task-reset a'; do \
         {ralph} $c 2>> \"$TRIAL_DIR/said\"; echo $? >> \"$TRIAL_DIR/codes\"; done; exit 1"
    );
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", &script]);
    trial.run(["run", "--max-iterations", "1"]).code(2);
    let read = |name: &str| fs::read_to_string(trial.sign(name)).unwrap();
    assert_eq!(read("codes"), "64\n".repeat(3));
    assert_eq!(read("said").matches("is for people").count(), 3);
    assert_eq!(told(&trial), [json!(null); 0]);
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let trial = project("tasks: []\n");
    let live: Vec<_> = (0..8).map(|_| trial.start(["task-add", "Same title"])).collect();
    for one in live {
        one.end(&trial);
    }
    until("all tasks are there", || trial.graph_text().matches("- id:").count() == 8);
    trial.run(["check"]).stdout_has("8 tasks");
}

#[test]
fn tasks_that_are_not_committed_are_committed_with_what_was_done() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["task-add", "Second", "--id", "second"]);
    let said = trial.run(["run"]).graph_complete().whole();
    assert!(!said.contains("not committed"), "{said}");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert!(trial.git(&["show", "HEAD:task-graph.yaml"]).matches("complete").count() >= 2);
}
