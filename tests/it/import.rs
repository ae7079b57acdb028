//! `ralph import`: every format, what is lost, and sources that are refused.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path, process::Stdio};

use serde_json::Value;

use crate::support::{RALPH, TestProject};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/backlogs");

/// Copies a fixture into the project, and imports it.
fn import(trial: &TestProject, name: &str) -> String {
    put(trial, name);
    trial.run(["import", name]).out()
}

fn put(trial: &TestProject, name: &str) {
    let from = Path::new(FIXTURES).join(name);
    if from.is_dir() {
        for entry in fs::read_dir(&from).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            put(trial, &format!("{name}/{file}"));
        }
        return;
    }
    let to = trial.root().join(name);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

/// The tasks of the graph, as `ralph` reads them: id, status, and what it waits for.
fn tasks(trial: &TestProject) -> Vec<String> {
    let path = trial.root().join("task-graph.yaml");
    let file = ralph::project::graph_file::GraphFile::read(&path, "graph").unwrap();
    let graph = file.graph();
    let line = |number: usize| {
        let task = graph.task(number);
        let mut waits: Vec<String> =
            graph.dependencies(number).map(|other| graph.task(other).id.to_string()).collect();
        waits.sort();
        let waits =
            if waits.is_empty() { String::new() } else { format!(" after {}", waits.join(" ")) };
        format!("{} {}{waits}", task.id, task.status)
    };
    (0..graph.tasks().len()).map(line).collect()
}

/// The fields of a task as templates see them.
fn fields(trial: &TestProject, id: &str) -> BTreeMap<String, Value> {
    let path = trial.root().join("task-graph.yaml");
    let file = ralph::project::graph_file::GraphFile::read(&path, "graph").unwrap();
    let id = ralph::core::graph::task::TaskId::new(id).unwrap();
    let task = file.graph().task(file.graph().number(&id).unwrap());
    ralph::core::graph::load::fields::in_templates(task).into_iter().collect()
}

#[test]
fn unchanged_examples_are_replaced() {
    let plan = "# Plan\n\n- [ ] Write the lexer\n- [ ] Write the parser\n";
    let trial = TestProject::new().file("PLAN.md", plan);
    let advice = trial.run(["init", "--yes"]).out();
    assert!(advice.contains(" import PLAN.md\n"), "{advice}");
    let examples = trial.graph_text();
    let dry = trial.run(["import", "PLAN.md", "--dry-run", "--json"]).json();
    assert_eq!(dry["replaced_examples"], 2, "{dry}");
    assert_eq!(trial.graph_text(), examples);
    trial.run(["import", "PLAN.md"]).stdout_has("in place of the 2 examples");
    let imported = ["write-the-lexer pending", "write-the-parser pending"];
    assert_eq!(tasks(&trial), imported);
    // Once more: nothing is replaced.
    trial.run(["import", "PLAN.md"]).stdout_has("nothing new, there already: 2");
    // A changed example is a task of the person.
    trial.write("task-graph.yaml", &examples.replace("title: ", "title: My "));
    trial.run(["import", "PLAN.md"]);
    assert_eq!(tasks(&trial).len(), 4, "{}", trial.graph_text());
}

/// A source with this status and description of `a`, and with more stories.
fn source(title: &str, passes: bool, text: &str, more: &str) -> String {
    format!(
        "{{\"userStories\": [\n{{\"id\": \"a\", \"title\": \"{title}\", \"passes\": {passes}, \
         \"description\": \"{text}\", \"labels\": [\"x\"]}},\n{{\"id\": \"b\", \"title\": \"B\", \
         \"passes\": false}}{more}]}}\n"
    )
}

#[test]
fn the_graph_is_not_imported_into_itself() {
    let trial = TestProject::new().graph("tasks: [{id: a, title: A}]\n");
    let text = trial.graph_text();
    trial.run(["import", "task-graph.yaml"]).code(64).stderr_has("name other files");
    assert_eq!(trial.graph_text(), text);
}

#[test]
fn a_second_import_adds_what_is_new_and_names_what_changed_there() {
    let trial = TestProject::new();
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    trial.run(["task-complete", "b"]);
    let before = trial.graph_text();
    let more = ", {\"id\": \"c\", \"title\": \"C\", \"dependsOn\": [\"a\"]}";
    trial.write("prd.json", &source("Their A", true, "one\\ntwo", more));
    let said = trial.run(["import", "prd.json"]).out();
    for part in
        ["1 task added", "a: title: \"Their A\"", "a: status: \"complete\"", "a: description"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("b: "), "what was completed here is no change there: {said}");
    assert!(trial.graph_text().starts_with(before.trim_end()), "{}", trial.graph_text());
    assert_eq!(tasks(&trial), ["a pending", "b complete", "c pending after a"]);
    let report = trial.run(["import", "prd.json", "--json"]).json();
    assert_eq!(report["changed"][0]["value"], "Their A", "{report}");
}

#[test]
fn a_source_without_tasks_says_so_and_changes_nothing() {
    for (name, text) in [
        ("none.json", "[]"),
        ("prd.json", "{\"userStories\": []}"),
        ("tasks.json", "{\"master\": {\"tasks\": []}}"),
        ("graph.yaml", "tasks: []\n"),
    ] {
        let graph = "tasks:\n- {id: mine}\n";
        let trial = TestProject::new().graph(graph);
        trial.write(name, text);
        trial.run(["import", name]).stdout_has("no tasks");
        assert_eq!(trial.graph_text(), graph, "{name}");
        let trial = TestProject::new();
        trial.write(name, text);
        trial.run(["import", name]);
        assert!(!trial.root().join("task-graph.yaml").exists());
    }
}

#[test]
fn tickets_name_each_other_in_any_case() {
    let trial = TestProject::new();
    trial.write("tasks/1.md", "---\nid: TASK-1\ntitle: In\nstatus: Done\n---\nx\n");
    let second = "---\nid: TASK-2\ntitle: Out\nstatus: To Do\ndependencies:\n  - task-1\n---\ny\n";
    trial.write("tasks/2.md", second);
    trial.run(["import", "tasks"]);
    assert!(trial.read("task-graph.yaml").contains("depends_on: [TASK-1]"));
}

#[test]
fn every_format_becomes_tasks() {
    for (name, want) in [
        ("stories.json", &["US-001 complete", "us-2-b pending after US-001"][..]),
        (
            "issues.jsonl",
            &[
                "kite-1 pending",
                "kite-1.1 complete",
                "kite-1.2 in-progress after kite-1.1",
                "kite-3 cancelled",
            ],
        ),
        (
            "tasks.json",
            &[
                "later-1 pending after later-2",
                "later-2 in-progress",
                "1 complete",
                "1.1 complete",
                "1.2 in-progress after 1.1",
                "2 cancelled after 1",
            ],
        ),
        ("github.json", &["3 pending after 4", "4 complete", "5 cancelled"]),
        ("github-api.json", &["3 pending after 4", "4 complete"]),
        (
            "plan.md",
            &[
                "T001 complete",
                "T002 pending after T001",
                "left-side pending",
                "right-side in-progress",
                "find-a-hill-with-wind-in-the-morning pending",
            ],
        ),
        ("tickets", &["T-1 complete", "T-2 in-progress after T-1"]),
        ("table.csv", &["K-1 complete", "K-2 in-progress after K-1", "K-3 pending after K-1 K-2"]),
        ("table.tsv", &["1 complete", "2 pending after 1"]),
        ("other.yaml", &["cut complete", "sew pending after cut"]),
    ] {
        let trial = TestProject::new();
        import(&trial, name);
        assert_eq!(tasks(&trial), want, "{name}");
        trial.run(["check"]).stderr("");
        let before = trial.graph_text();
        let said = trial.run(["import", name]).out();
        assert!(said.contains("nothing new") && !said.contains("Differs"), "{name}: {said}");
        assert_eq!(trial.graph_text(), before, "{name}");
    }
}

#[test]
fn fields_keep_their_meaning_or_their_name() {
    let trial = TestProject::new();
    let said = import(&trial, "stories.json");
    let first = fields(&trial, "US-001");
    let text = first["description"].as_str().unwrap();
    assert!(text.contains("I see it.") && text.contains("- It has a tail"), "{text}");
    let second = fields(&trial, "us-2-b");
    assert_eq!(second["source"], "stories.json#US 2/b");
    assert_eq!((&second["tags"][0], &second["priority"]), (&"air".into(), &3.into()));
    assert_eq!(second["estimatedHours"], 3);
    assert!(said.contains("`US-999`") && said.contains("(US 2/b, stories.json)"), "{said}");

    let trial = TestProject::new();
    import(&trial, "github.json");
    let issue = fields(&trial, "3");
    assert_eq!((&issue["priority"], &issue["milestone"]), (&1.into(), &"v1".into()));
    assert_eq!(issue["tags"], serde_json::json!(["bug"]));
    assert_eq!(issue["source"], "https://github.com/acme/kite/issues/3");
    assert!(issue["description"].as_str().unwrap().contains("Comment by cy:\nSeen too."));

    let trial = TestProject::new();
    let said = import(&trial, "tickets");
    assert_eq!(fields(&trial, "T-1")["description"], "Cut along the line.\n\n---\n\nThen fold.");
    assert_eq!(fields(&trial, "T-2")["x-estimate"], "three moons");
    assert!(said.contains("kept as `x-estimate`"), "{said}");
    assert!(said.contains("tickets/README.md"), "{said}");

    let trial = TestProject::new();
    import(&trial, "issues.jsonl");
    let part = fields(&trial, "kite-1.1");
    assert_eq!((&part["estimate"], &part["story"]), (&"90m".into(), &"kite-1".into()));
    assert!(part["description"].as_str().unwrap().ends_with("Acceptance criteria:\nIn the air."));
}

#[test]
fn a_dry_run_shows_all_and_changes_nothing() {
    let trial = TestProject::new();
    put(&trial, "plan.md");
    trial.run(["import", "plan.md", "--dry-run"]).stdout(
        "\
plan.md (markdown): 5 tasks (3 pending, 1 in-progress, 1 complete)
  TASK                                  STATUS       AFTER  TITLE
  T001                                  complete            Cut the cloth
  T002                                  pending      T001   Glue the frame (depends on T001)
  left-side                             pending             Left side
  right-side                            in-progress         Right side
  find-a-hill-with-wind-in-the-morning  pending             Find a hill with wind, in the morning.
Not as in the source:
  checkbox: `[~]` is read as in-progress (right-side, plan.md)
  order of phases: a later phase does not wait for an earlier one; add dependencies where it must
    (plan.md)
  text: it has no checkbox (line 20, plan.md)
  text: it is in no task (line 3, plan.md)
task-graph.yaml: 5 tasks would be added
",
    );
    assert!(!trial.root().join("task-graph.yaml").exists());
    let trial = trial.graph("tasks:\n- {id: mine}\n");
    trial.run(["import", "plan.md", "--dry-run"]);
    assert_eq!(trial.graph_text(), "tasks:\n- {id: mine}\n");
}

#[test]
fn tasks_are_added_to_a_graph_in_its_layout() {
    let graph = "version: 1\ntasks:\n- id: US-001 # mine\n  status: todo\n# the end\n";
    let trial = TestProject::new().graph(graph);
    put(&trial, "stories.json");
    let said = trial.run(["import", "stories.json", "--tag", "new"]).out();
    let text = trial.graph_text();
    let start = "version: 1\ntasks:\n- id: US-001 # mine\n  status: todo\n- id: us-001-2\n";
    assert!(text.starts_with(start) && text.ends_with("# the end\n"), "{text}");
    let all = tasks(&trial);
    assert!(all.len() == 3 && all[2].starts_with("us-2-b pending after us-001-2"), "{all:?}");
    assert_eq!(fields(&trial, "us-2-b")["tags"], serde_json::json!(["air", "new"]));
    assert!(said.contains("`branchName`, `project`"), "{said}");
}

#[test]
fn standard_input_is_a_source() {
    let trial = TestProject::new();
    let mut child = trial
        .process(RALPH)
        .args(["import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"- [ ] one thing\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(tasks(&trial), ["one-thing pending"]);
    assert_eq!(fields(&trial, "one-thing")["source"], "stdin#one-thing");
}

#[test]
fn other_formats_are_refused_by_name_and_change_nothing() {
    let deep = format!("{{\"userStories\": {}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let cycle = fs::read_to_string(Path::new(FIXTURES).join("cycle.json")).unwrap();
    for (name, text, part) in [
        ("empty.md", b"".as_slice(), "`empty.md` is an empty file, which is not imported"),
        ("letter.txt", b"Dear reader,\n\nhello.\n", "a text without checkboxes"),
        ("plan.md", b"# Plan\n\n1. Cut\n2. Sew\n", "a text without checkboxes"),
        ("steps.md", b"### Task 1: Cut\n\n- [ ] Draw\n", "a plan whose headings are tasks"),
        ("story.md", b"# Story\n\n## Tasks / Subtasks\n\n- [ ] Cut\n", "a story of BMAD"),
        ("tasks.md", b"Spec: @.agent-os/specs/x.md\n- [ ] 1. Cut\n", "agent-os"),
        ("tasks.org", b"* TODO Cut\n- [ ] Sew\n", "an Org file"),
        ("list.yaml", b"- a: 1\n", "YAML that is no task graph"),
        ("cut.json", b"{\"userStories\": [{\"id\": \"a\", \"title\": ", "not JSON"),
        ("deep.json", deep.as_bytes(), "not JSON: recursion limit"),
        ("cycle.json", cycle.as_bytes(), "form a cycle: `a` -> `b` -> `a`"),
        (
            "f.json",
            br#"[{"category": "x", "description": "y", "passes": true}]"#,
            "none of the formats",
        ),
        ("j.json", br#"{"issues": [{"key": "A-1", "fields": {"summary": "x"}}]}"#, "Jira"),
        ("l.json", br#"[{"identifier": "E-1", "title": "x", "number": 1}]"#, "Linear"),
        ("a.json", br#"{"data": [{"gid": "1", "name": "x"}]}"#, "Asana"),
        ("t.json", br#"{"name": "B", "lists": [], "cards": [{"id": "1"}]}"#, "board of Trello"),
        ("g.json", br#"[{"iid": 1, "title": "x"}]"#, "GitLab"),
        ("w.json", br#"[{"id": 1, "entry": "2026", "uuid": "u"}]"#, "Taskwarrior"),
        ("c.json", br#"[{"content": "x", "status": "pending", "activeForm": "y"}]"#, "Claude Code"),
        ("jira.csv", b"Summary,Issue key\nIn,WEB-1\n", "Jira"),
        ("asana.csv", b"Task ID,Name,Section/Column\n1,In,Done\n", "Asana"),
        ("other.csv", b"id,title,Wer\n1,In,Ann\n", "a column `Wer`"),
        ("quote.csv", b"id,title\n1,\"In\n", "never closed"),
        ("latin.csv", b"id,title\n1,caf\xe9\n", "not UTF-8"),
        ("bad.yaml", b"tasks:\n  - id: [\n", "bad.yaml:"),
    ] {
        let graph = "tasks:\n- {id: mine}\n";
        let trial = TestProject::new().graph(graph);
        fs::write(trial.root().join(name), text).unwrap();
        let said = trial.run(["import", name]).code(65).err();
        assert!(said.contains(part), "{name}: {said}");
        let is_foreign = said.contains("not imported");
        assert_eq!(is_foreign, said.contains(&format!("`ralph draft {name}`")), "{said}");
        assert_eq!(trial.graph_text(), graph, "{name}");
    }
    let trial = TestProject::new();
    trial.run(["import", "missing.json"]).code(1).stderr_has("`missing.json`");
}

#[test]
fn equal_ids_and_odd_statuses_are_named() {
    let trial = TestProject::new();
    let text = r#"{"userStories": [{"id": "a", "title": "One"}, {"id": "a", "title": "Other"}, null,
        {"id": "b", "title": "B", "dependsOn": ["a"], "status": "deferred", "priority": "odd"}]}"#;
    trial.write("prd.json", text);
    let said = trial.run(["import", "prd.json"]).out();
    assert_eq!(tasks(&trial), ["a pending", "a-2 pending", "b cancelled after a"]);
    for part in [
        "an earlier task is `a`",
        "record: it is not an object (record 3",
        "`deferred` is read as cancelled",
        "`odd` is no priority; kept as `x-priority`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn criteria_keep_their_commands() {
    let trial = TestProject::new();
    let criterion = r#"{"id": "1", "text": "It is there", "testCommand": "test -e x"}"#;
    let story = format!(r#"{{"id": "a", "title": "A", "acceptanceCriteria": [{criterion}]}}"#);
    trial.write("prd.json", &format!(r#"{{"userStories": [{story}]}}"#));
    trial.run(["import", "prd.json"]);
    let want = "Acceptance criteria:\n- It is there (testCommand: `test -e x`)";
    assert_eq!(fields(&trial, "a")["description"], want);
}

#[test]
fn checkboxes_of_kiro_and_openspec_are_read_exactly() {
    let list = "# Implementation Plan\n\n- [x] 1. Set up\n- [-] 2. Add\n  - [ ]* 2.1 Test it\n    \
                - _Requirements: 1.1_\n1. [ ] 2.2 Ordered\n+ [X] 2.3 Plus\n```\n- [ ] code\n```\n";
    let trial = TestProject::new().file("tasks.md", list);
    let said = trial.run(["import", "tasks.md"]).out();
    let want = ["1 complete", "2 in-progress", "2.1 pending", "2.2 pending", "2.3 complete"];
    assert_eq!(tasks(&trial), want);
    assert!(said.contains("`[-]` is read as in-progress"), "{said}");
    let optional = fields(&trial, "2.1");
    assert_eq!((&optional["story"], &optional["tags"][0]), (&"2".into(), &"optional".into()));
    let trial = TestProject::new().file("tasks.md", "- [-] a\n- [ ] b\n");
    trial.run(["import", "tasks.md"]);
    assert_eq!(tasks(&trial), ["a cancelled", "b pending"]);
}

#[test]
fn folders_of_tickets_say_what_is_done_and_what_is_no_task() {
    let ticket = |id: &str, on: &str| {
        format!("---\nid: {id}\ntitle: T\nstatus: To Do\ndependencies: [{on}]\n---\n\nText.\n")
    };
    let trial = TestProject::new();
    trial.write("backlog/tasks/task-3 - T.md", &ticket("TASK-3", "task-1"));
    trial.write("backlog/completed/task-1 - T.md", &ticket("TASK-1", ""));
    trial.write("backlog/archive/tasks/task-2 - T.md", &ticket("TASK-2", ""));
    trial.write("backlog/drafts/draft-1 - T.md", &ticket("DRAFT-1", ""));
    trial.write("backlog/README.md", "# How\n\n- [ ] write a ticket\n");
    trial.write("backlog/no-id.md", "---\nstatus: open\n---\n\n# Cut it\n\nText.\n");
    let said = trial.run(["import", "backlog"]).out();
    let want = ["TASK-1 complete", "no-id pending", "TASK-3 pending after TASK-1"];
    assert_eq!(tasks(&trial), want);
    assert_eq!(fields(&trial, "no-id")["title"], "Cut it");
    assert_eq!(fields(&trial, "no-id")["description"], "Text.");
    for part in ["`archive` are no tasks", "`drafts` are no tasks", "a checklist next to other"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    trial.write("docs/cut.json", "{\"a\": [1,\n");
    trial.write("docs/letter.txt", "- [ ] a\n");
    let said = trial.run(["import", "docs"]).code(65).err();
    assert!(said.contains("docs/cut.json`: this is not JSON"), "{said}");
}

#[test]
fn hostile_names_become_ids_and_safe_text() {
    let trial = TestProject::new();
    let stories = serde_json::json!({"userStories": [
        {"id": "../../etc/passwd", "title": "a\u{1b}[31mred\u{202e}", "description": "<script>x</script>\u{0}"},
        {"id": "\u{7}", "title": "b", "dependsOn": ["../../etc/passwd"]},
    ]});
    let text = format!("\u{feff}{}", stories.to_string().replace(',', ",\r\n"));
    trial.write("prd.json", &text);
    let said = trial.run(["import", "prd.json", "--dry-run"]).out();
    assert!(!said.contains('\u{1b}'), "{said:?}");
    trial.run(["import", "prd.json"]);
    let all = tasks(&trial);
    assert_eq!(all[0], "etc-passwd pending");
    assert!(all[1].starts_with("task ") && all[1].ends_with("after etc-passwd"), "{all:?}");
    assert_eq!(fields(&trial, "etc-passwd")["title"], "a\u{1b}[31mred\u{202e}");
}
