//! `task-add`, `task-edit`, `task-show`, `task-move`, `task-remove` and `undo`, on real files.

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

/// The journal's lines of commands: task, action and what changed.
fn told(trial: &TestProject) -> Vec<Value> {
    let lines = trial.journal().into_iter().filter(|line| line["cause"] == "command");
    let short = |line: Value| {
        let change = if line["action"] == "task_edited" {
            line["fields"].clone()
        } else {
            json!([line["old"], line["new"]])
        };
        json!([line["task_id"], line["action"], change])
    };
    lines.map(short).collect()
}

/// A script as the editor of the person.
fn editor(trial: TestProject, script: &str) -> TestProject {
    let path = trial.root().join("editor");
    trial.script(&path, &format!("#!/bin/sh\n{script}\n"));
    // Its value is words of a shell, as for git.
    let path = format!("'{}'", path.display());
    trial.env("EDITOR", &path)
}

#[test]
fn a_task_is_added_with_its_fields_and_taken_back() {
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
        "notes.md",
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
    assert_eq!(
        told(&trial),
        [
            json!(["docs", "task_edited", ["depends_on"]]),
            json!([id, "status_changed", [null, "pending"]])
        ]
    );
    trial.run(["undo"]).stdout(&format!(
        "took back `task-add {id}`\n  docs: depends_on changed\n  {id}: removed\n"
    ));
    assert_eq!(trial.graph_text(), GRAPH);
    trial.run(["undo"]).code(1).stderr_has("nothing to undo");
}

#[test]
fn adding_and_undoing_restores_every_kind_of_file() {
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
        trial.run(["task-add", "Other", "--after", "new", "--set", "x-k={\"a\": [1, \"b\"]}"]);
        trial.run(["task-move", "other", "--first"]);
        trial.run([
            "task-edit",
            "new",
            "--title",
            "N: 2",
            "--verify",
            "true",
            "--not-before",
            "other",
        ]);
        trial.run(["task-remove", "new"]);
        trial.run(["check"]);
        for _ in 0..5 {
            trial.run(["undo"]);
        }
        assert_eq!(trial.graph_text(), graph);
    }
}

#[test]
fn fields_and_dependencies_are_changed_in_place() {
    let trial = project(GRAPH);
    trial
        .run(["task-edit", "lexer", "--title", "Lex", "--priority", "0", "--before", "docs"])
        .stdout("lexer: priority, title changed; docs: depends_on changed\n");
    trial.run(["task-edit", "parser", "--unset", "verify", "--not-after", "lexer"]);
    let want = GRAPH
        .replace("title: Write the lexer # soon\n", "title: Lex # soon\n    priority: 0\n")
        .replace("    verify: [\"true\"]\n", "")
        .replace("[lexer]", "[]")
        .replace("[parser]", "[parser, lexer]");
    assert_eq!(trial.graph_text(), want);
    trial.run(["task-edit", "lexer", "--title", "Lex"]).stdout("lexer is unchanged\n");
    let task = trial.run(["task-edit", "docs", "--tag", "z", "--json"]).json();
    assert_eq!(task["waiting_on"][0]["id"], "lexer");
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
        (vec!["task-add", "T", "--id", "docs"], 64, "`ralph task-edit docs` changes it"),
        (vec!["task-add", "T", "--after", "parsr"], 1, "did you mean `parser`?"),
        (vec!["task-add", "T", "--before", "lexre"], 1, "did you mean `lexer`?"),
        (vec!["task-add", "T", "--priority", "soon"], 64, "not a priority"),
        (vec!["task-add", "T", "--after", "docs", "--before", "lexer"], 65, "cycle"),
        (vec!["task-add", "T", "--description", "none.md"], 64, "cannot read `none.md`"),
        (vec!["task-add", "T", "--set", "status=done"], 64, "task-complete"),
        (vec!["task-add", "T", "--set", "title=x"], 64, "`title` is set twice"),
        (vec!["task-edit", "lexer", "--story", "x", "--set", "story=y"], 64, "set twice"),
        (vec!["task-add", "T", "--set", "depend_on=x"], 65, "depends_on"),
        (vec!["task-add", "T", "--set", "timeout=soon"], 65, "timeout"),
        (vec!["task-edit", "lexer", "--after", "docs"], 65, "cycle"),
        (vec!["task-edit", "lexer", "--after", "lexer"], 65, "itself"),
        (vec!["task-edit", "lexr", "--title", "x"], 1, "did you mean `lexer`?"),
        (vec!["task-edit", "lexer", "--unset", "id"], 64, "cannot be set"),
        (vec!["task-edit", "lexer"], 64, "no editor"),
        (vec!["task-move", "lexer", "--after", "parsr"], 1, "did you mean `parser`?"),
        (vec!["task-move", "lexer"], 64, "--first"),
        (vec!["task-show", "lexr"], 1, "did you mean `lexer`?"),
        (vec!["task-remove", "lexer"], 1, "`parser` depends on `lexer`; `--detach`"),
        (vec!["task-remove", "docs", "lexre"], 1, "did you mean `lexer`?"),
        (vec!["undo", "7"], 1, "nothing to undo"),
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
    trial.run(["task-add", "Large", "--description", "large.md"]);
    let details = trial.run(["task-show", "large", "--json"]).json();
    assert_eq!(details["fields"]["description"].as_str(), Some(large.trim_end()));
    trial.run(["task-remove", "large"]);
    trial.write("bad.md", "a\u{0}b");
    trial
        .run(["task-add", "T", "--description", "bad.md"])
        .code(64)
        .stderr_has("control character");
}

#[test]
fn a_removed_task_is_detached_or_rewired() {
    let trial = project(GRAPH);
    trial
        .run(["task-remove", "parser", "--rewire"])
        .stdout("parser: removed from task-graph.yaml\ndocs: now depends on lexer\n");
    assert!(trial.graph_text().ends_with("- id: docs\n    depends_on: [lexer]\n"));
    trial.run(["undo"]);
    assert_eq!(trial.graph_text(), GRAPH);
    trial.run(["task-remove", "lexer", "parser", "--detach"]).stdout(
        "lexer: removed from task-graph.yaml\nparser: removed from task-graph.yaml\n\
         docs: now depends on nothing\n",
    );
    assert_eq!(trial.graph_text(), "tasks:\n  - id: docs\n    depends_on: []\n");
    assert_eq!(trial.run(["undo", "--list", "--json"]).json()[0]["command"], "task-remove");
}

#[test]
fn the_place_in_the_file_decides_between_equals() {
    let trial = project("tasks: [{id: a}, {id: b}, {id: c}]\n");
    trial.run(["task-move", "c", "--first"]).stdout("c: moved to the start in task-graph.yaml\n");
    assert_eq!(trial.graph_text(), "tasks: [{id: c}, {id: a}, {id: b}]\n");
    assert_eq!(told(&trial), [json!(["c", "task_edited", ["place"]])]);
    trial.run(["task-move", "a", "--after", "c"]).stdout("a is already there\n");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["c", "a", "b"]);
}

#[test]
fn a_task_is_shown_with_its_place_in_the_graph() {
    let trial = project(GRAPH);
    trial.run(["task-edit", "docs", "--set", "description=all of it"]);
    trial.run(["run", "--task", "lexer"]);
    trial.run(["task-show", "docs"]).stdout(
        "Task: docs\nState: waiting on parser\nPriority: P2\nDefined in: task-graph.yaml:11\n\
         Depends on:\n  parser (ready)\nDescription:\n  all of it\n",
    );
    let text = trial.run(["task-show", "lexer"]).out();
    assert!(text.contains("State: complete: at "), "{text}");
    assert!(
        text.contains("Dependents (2 tasks unfinished, also through others):\n  parser (ready)"),
        "{text}"
    );
    assert!(text.contains("lexer.1"), "{text}");
    let details = trial.run(["task-show", "lexer", "--json"]).json();
    assert_eq!(details["attempts"][0]["verdict"], "complete");
    assert_eq!(details["unfinished_dependents"], 2);
    assert_eq!(details["state"], "complete");
}

#[test]
fn an_editor_changes_the_text_of_the_task() {
    let trial = project(GRAPH);
    let trial =
        editor(trial, "sed -i 's/Write the lexer/Lex: all/; s/# The lexer./# Lex./' \"$1\"");
    trial.run(["task-edit", "lexer"]).code(65).stderr_has("a `:` is not allowed here");
    let trial = editor(trial, "sed -i 's/Write the lexer/Lex all/; s/# The lexer./# Lex./' \"$1\"");
    trial.run(["task-edit", "lexer"]).stdout("lexer: title changed\n");
    let want = GRAPH.replace("Write the lexer", "Lex all").replace("# The lexer.", "# Lex.");
    assert_eq!(trial.graph_text(), want);
    trial.run(["undo"]);
    assert_eq!(trial.graph_text(), GRAPH);
}

#[test]
fn a_refused_text_is_kept() {
    let trial = project(GRAPH);
    for (script, code, reason) in [
        ("printf 'x: [' > \"$1\"; exit 1", 1, "failed (exit status: 1); what you typed is in "),
        ("exit 3", 1, "failed (exit status: 3); nothing is changed"),
        (
            "printf '\\000\\001garbage: [' > \"$1\"",
            65,
            "`lexer` is unchanged; what you typed is in ",
        ),
        ("sed -i 's/id: lexer/id: other/' \"$1\"", 65, "is not one task with the id `lexer`"),
        ("printf -- '- id: z\\n' >> \"$1\"", 65, "is not one task with the id `lexer`"),
        ("printf '  depends_on: [docs]\\n' >> \"$1\"", 65, "cycle"),
    ] {
        let trial = editor(TestProject::new().graph(GRAPH), script);
        let run = trial.run(["task-edit", "lexer"]).code(code).stderr_has(reason);
        let err = run.err();
        assert_eq!(trial.graph_text(), GRAPH, "{script}");
        if let Some((_, path)) = err.trim_end().rsplit_once("what you typed is in ") {
            let path = path.replace("[repo]", &trial.root().display().to_string());
            assert_ne!(fs::read(path).unwrap(), b"", "{script}");
        }
    }
    trial.run(["task-edit", "lexer"]).code(64);
}

#[test]
fn what_an_editor_left_is_lost_in_no_case() {
    for (script, code, said) in [
        (": > \"$1\"", 0, "`ralph task-remove lexer` removes the task"),
        ("rm \"$1\"", 0, "`ralph task-remove lexer` removes the task"),
        ("printf '\\377' >> \"$1\"", 1, "what you typed is in "),
        ("rm \"$1\"; mkdir \"$1\"", 1, "cannot read what the editor left"),
        ("rm \"$1\"; mkfifo \"$1\"", 1, "cannot read what the editor left"),
        ("echo '  x: 1' >> \"$1\"; exit 1", 1, "what you typed is in "),
    ] {
        let trial = editor(project(GRAPH), script);
        trial.run(["task-edit", "lexer"]).code(code).stderr_has(said);
        assert_eq!(trial.graph_text(), GRAPH, "{script}");
        let left = fs::read_dir(trial.state().join("edit")).unwrap().count();
        assert_eq!(left > 0, code == 1, "{script}");
    }
}

#[test]
fn what_others_change_while_the_editor_is_open_is_kept() {
    let script =
        "sed -i 's/Write the lexer/Lex/' \"$1\"; printf '  - id: more\\n' >> task-graph.yaml";
    let trial = editor(project(GRAPH), script);
    trial.run(["task-edit", "lexer"]);
    let want = GRAPH.replace("Write the lexer", "Lex") + "  - id: more\n";
    assert_eq!(trial.graph_text(), want);
    let script = "sed -i 's/Lex/Lex it/' \"$1\"; sed -i 's/Lex/Lex them/' task-graph.yaml";
    let trial = editor(trial, script);
    trial.run(["task-edit", "lexer"]).code(65).stderr_has("`title` of task `lexer`");
    assert!(trial.graph_text().contains("title: Lex them # soon"));
}

#[test]
fn a_run_picks_up_what_is_added_and_keeps_what_it_works_on() {
    let trial = TestProject::new().graph("tasks:\n  - id: a\n  - id: b\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.run(["task-add", "Third", "--before", "b"]);
    trial
        .run(["task-remove", "a", "--detach"])
        .code(5)
        .stderr_has("attempt 1 at `a` has been running");
    trial.run(["task-edit", "a", "--title", "A"]).stderr_has("attempt 1 at `a` is running");
    trial.run(["undo"]).code(1).stderr_has("an attempt at `a` is running");
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "third", "b"]);
    trial.run(["undo", "1"]).code(1).stderr_has("attempt 1 has worked on");
    assert!(trial.graph_text().contains("title: A\n"));
}

#[test]
fn a_run_takes_over_the_changes_of_a_person() {
    let graph = "tasks:\n  - id: a\n  - id: b\n  - id: c\n";
    for trial in [TestProject::new(), TestProject::new().in_place()] {
        let trial = trial.graph(graph).agent("gate");
        let run = trial.start_until(["run"], "waiting-a");
        trial.run(["task-add", "Third", "--priority", "1"]);
        trial.run(["task-remove", "b"]);
        trial.run(["task-move", "c", "--first"]);
        trial.leave("open");
        run.end(&trial).graph_complete();
        assert_eq!(trial.tasks("completed"), ["a", "third", "c"]);
        let text = trial.graph_text();
        assert!(text.starts_with("tasks:\n  - id: c\n") && !text.contains("id: b"), "{text}");
        assert_eq!(trial.lines("graph_guarded"), [json!(null); 0]);
    }
}

#[test]
fn the_status_of_a_running_task_is_left_to_the_run() {
    let trial = TestProject::new().graph("tasks:\n  - id: a\n").agent("gate");
    let trial = editor(trial, "sed -i 's/^\\( *\\)- id: a.*/&\\n\\1  status: cancelled/' \"$1\"");
    let run = trial.start_until(["run"], "waiting-a");
    let before = trial.graph_text();
    trial.run(["task-edit", "a"]).code(65).stderr_has("leave its status to the run");
    assert_eq!(trial.graph_text(), before);
    trial.leave("open");
    run.end(&trial).graph_complete();
}

#[test]
fn only_what_nothing_depends_on_is_taken_back() {
    let trial = project(GRAPH);
    trial.run(["task-add", "One"]);
    trial.run(["task-add", "Two", "--after", "one"]);
    trial.run(["undo", "1"]).code(1).stderr_has("`two` depends on `one` by now");
    trial.run(["task-edit", "one", "--priority", "1"]);
    trial.save("task-graph.yaml", &trial.graph_text().replace("title: One", "title: Uno"));
    trial.run(["undo"]).stdout("took back `task-edit one`\n  one: priority changed\n");
    assert!(trial.graph_text().contains("title: Uno"));
    trial.run(["undo"]);
    trial.run(["undo"]).code(1).stderr_has("task `one` changed since");
    let listed = trial.run(["undo", "--list"]).out();
    assert!(listed.contains("task-add one"), "{listed}");
    trial.save("task-graph.yaml", GRAPH);
    trial.run(["undo"]).stdout_has("nothing to take back");
    trial.run(["undo", "--list"]).stdout("no change to take back\n");
}

#[test]
fn a_new_task_does_not_inherit_the_history_of_a_removed_one() {
    let trial = project("tasks:\n  - {id: one, title: One}\n  - {id: two}\n");
    trial.run(["run", "--once"]);
    trial.run(["task-complete", "two"]);
    trial.run(["task-remove", "one", "two"]);
    for id in ["one", "two"] {
        let ran = trial.run(["task-add", "Another", "--id", id]).code(64);
        ran.stderr_has("a removed task").stderr_has(&format!("`{id}-2` is free"));
    }
    trial.run(["task-add", "One"]).stdout_has("one-2: added").stdout_has("ready");
    // What was never worked on leaves nothing behind.
    trial.run(["task-add", "Three"]);
    trial.run(["task-remove", "three"]);
    trial.run(["task-add", "Three"]).stdout_has("three: added");
    trial.write("draft.yaml", "tasks:\n- {id: one, title: The same again}\n");
    let ran = trial.run(["draft", "--extend", "--keep", "draft.yaml"]).code(65);
    ran.stderr_has("a removed task was called `one`");
}

#[test]
fn a_status_is_taken_back_where_that_makes_sense() {
    let trial = project(GRAPH);
    trial.run(["task-block", "lexer", "--reason", "no"]);
    trial.run(["undo"]).stdout("took back `task-block lexer`\n  lexer: blocked -> pending\n");
    assert_eq!(trial.graph_text(), GRAPH);
    trial.run(["task-complete", "lexer"]);
    trial.git(&["commit", "-qam", "Done"]);
    trial.run(["undo"]).stdout("took back `task-complete lexer`\n  lexer: complete -> pending\n");
    assert_eq!(trial.graph_text(), GRAPH);
    trial.git(&["commit", "-qam", "Not done"]);
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("completed"), ["lexer"]);
    trial.run(["task-reset", "lexer"]);
    trial.run(["undo"]).stdout("took back `task-reset lexer`\n  lexer: pending -> complete\n");
    trial.run(["task-complete", "parser"]);
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("completed"), ["lexer", "docs"]);
    trial
        .run(["undo"])
        .code(1)
        .stderr_has("`docs`, which depends on `parser`, was attempted since");
    let failing = TestProject::new().graph("tasks: [{id: a}]\n").agent("fail");
    failing.run(["run", "--max-iterations", "1"]).code(2);
    failing.run(["task-block", "a", "--reason", "x"]);
    failing.run(["task-reset", "a"]);
    failing.run(["undo"]).code(1).stderr_has("its attempts were reset");
}

#[test]
fn an_attempt_cannot_change_the_graph_by_these_commands() {
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let script = format!(
        "for c in 'task-add x' 'task-edit a --title x' 'task-move a --last' 'task-remove a' undo; do \
         {ralph} $c 2>> \"$TRIAL_DIR/said\"; echo $? >> \"$TRIAL_DIR/codes\"; done; exit 1"
    );
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", &script]);
    trial.run(["run", "--max-iterations", "1"]).code(2);
    let read = |name: &str| fs::read_to_string(trial.sign(name)).unwrap();
    assert_eq!(read("codes"), "64\n".repeat(5));
    assert_eq!(read("said").matches("is for people").count(), 5);
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
    for _ in 0..8 {
        trial.run(["undo"]);
    }
    assert_eq!(trial.graph_text(), "tasks: []\n");
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
