//! `ralph import`: every format, what is lost, and sources that cannot be read.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path, process::Stdio};

use serde_json::Value;

use crate::support::{RALPH, TestProject};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/backlogs");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/graphs");

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
    let file = ralph::project::graph_file::GraphFile::read(&path, "graph", false, false).unwrap();
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
    let file = ralph::project::graph_file::GraphFile::read(&path, "graph", false, false).unwrap();
    let id = ralph::core::graph::task::TaskId::new(id).unwrap();
    let task = file.graph().task(file.graph().number(&id).unwrap());
    ralph::core::graph::load::fields::in_templates(task).into_iter().collect()
}

#[test]
fn every_format_becomes_tasks() {
    for (name, want) in [
        ("stories.json", &["US-001 complete", "US-2-b pending after US-001"][..]),
        ("features.json", &["a-new-kite-can-be-made pending", "the-tail-is-red complete"]),
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
                "1 complete",
                "1.1 complete",
                "1.2 in-progress after 1.1",
                "2 cancelled after 1",
                "later-1 pending after later-2",
                "later-2 in-progress",
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
        ("sections.md", &["task-1 complete", "task-2 pending after task-1"]),
        ("numbered.md", &["buy-cloth pending", "cut-it pending", "sew-it pending"]),
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
        trial.run(["import", name]).stdout_has("nothing new");
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
    let second = fields(&trial, "US-2-b");
    assert_eq!(second["source"], "stories.json#US 2/b");
    assert_eq!((&second["tags"][0], &second["priority"]), (&"air".into(), &3.into()));
    assert_eq!(second["estimatedHours"], 3);
    assert!(said.contains("`US-999`") && said.contains("stories.json:8:"), "{said}");

    let trial = TestProject::new();
    import(&trial, "github.json");
    let issue = fields(&trial, "3");
    assert_eq!((&issue["priority"], &issue["milestone"]), (&1.into(), &"v1".into()));
    assert_eq!((&issue["tags"], &issue["story"]), (&serde_json::json!(["bug"]), &"4".into()));
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
    trial.run(["import", "PLAN.md"]).stdout_has("nothing new, 2 are there already");
    // A changed example is a task of the person.
    trial.write("task-graph.yaml", &examples.replace("title: ", "title: My "));
    trial.run(["import", "PLAN.md"]);
    assert_eq!(tasks(&trial).len(), 4, "{}", trial.graph_text());
}

#[test]
fn a_dry_run_shows_all_and_changes_nothing() {
    let trial = TestProject::new();
    put(&trial, "plan.md");
    let whole = trial.run(["import", "plan.md", "--dry-run"]).stdout(
        "\
plan.md (markdown): 5 tasks (3 pending, 1 in-progress, 1 complete), 1 dependency
  T001                      complete     Cut the cloth
  T002                      pending      Glue the frame (depends on T001)
      after T001
  left-side                 pending      Left side
  right-side                in-progress  Right side
  find-a-hill-with-wind-in-the-morning
                            pending      Find a hill with wind, in the morning.
Kept in another form:
  checkbox: `[~]` is read as in-progress (`right-side`, plan.md:10:6)
Lost:
  text: it is in no task (plan.md:3:1)
  order of phases: a later phase does not wait for an earlier one; write dependencies where it must
    (plan.md:15:1)
  text: it has no checkbox (plan.md:20:1)
task-graph.yaml: 5 tasks would be added
",
    );
    drop(whole);
    assert!(!trial.root().join("task-graph.yaml").exists());
    let trial = trial.graph("tasks:\n- {id: mine}\n");
    trial.run(["import", "plan.md", "--dry-run"]);
    assert_eq!(trial.graph_text(), "tasks:\n- {id: mine}\n");
}

#[test]
fn tasks_are_added_to_a_graph_in_its_layout() {
    let graph = "version: 1\ntasks:\n- id: US-001 # mine\n  status: todo\n# the end\n";
    let trial = TestProject::new().graph(graph);
    let said = {
        put(&trial, "stories.json");
        let words = ["import", "stories.json", "--story", "S", "--milestone", "M", "--tag", "new"];
        trial.run(words).out()
    };
    let text = trial.graph_text();
    assert!(
        text.starts_with("version: 1\ntasks:\n- id: US-001 # mine\n  status: todo\n- id: US-001-"),
        "{text}"
    );
    assert!(text.ends_with("# the end\n"), "{text}");
    let all = tasks(&trial);
    assert_eq!(all.len(), 3);
    assert!(all[2].starts_with("US-2-b pending after US-001-"), "{all:?}");
    let fields = fields(&trial, "US-2-b");
    assert_eq!((&fields["story"], &fields["milestone"]), (&"S".into(), &"M".into()));
    assert_eq!(fields["tags"], serde_json::json!(["air", "new"]));
    assert!(said.contains("`project`, `branchName`"), "{said}");
}

#[test]
fn nesting_is_a_dependency_only_if_told() {
    for (words, want) in [
        (&["import", "issues.jsonl"][..], "kite-1 pending"),
        (&["import", "issues.jsonl", "--nested"], "kite-1 pending after kite-1.1 kite-1.2"),
    ] {
        let trial = TestProject::new();
        put(&trial, "issues.jsonl");
        trial.run(words);
        assert_eq!(tasks(&trial)[0], want);
    }
}

#[test]
fn standard_input_is_a_source() {
    let trial = TestProject::new();
    let mut child = trial
        .process(RALPH)
        .args(["import", "-", "--format", "markdown"])
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
fn a_source_that_cannot_be_read_changes_nothing() {
    let deep = format!("{{\"userStories\": {}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(
        "{{\"userStories\": [{{\"id\": \"a\", \"title\": \"{}\"}}]}}",
        "x".repeat(10 << 20)
    );
    let cycle = fs::read_to_string(Path::new(FIXTURES).join("cycle.json")).unwrap();
    for (name, text, part) in [
        ("empty.md", b"".as_slice(), "`empty.md` is empty"),
        ("blank.json", b" \n", "is empty"),
        ("letter.txt", b"Dear reader,\n\nhello.\n", "does not look like a backlog"),
        ("cut.json", b"{\"userStories\": [{\"id\": \"a\", \"title\": ", "not JSON"),
        ("deep.json", deep.as_bytes(), "nested too deeply"),
        ("long.json", long.as_bytes(), "`title` is 10240 KiB long"),
        ("cycle.json", cycle.as_bytes(), "form a cycle: `a` -> `b` -> `a`"),
        ("jira.json", br#"{"issues": [{"key": "A-1", "fields": {"summary": "x"}}]}"#, "Jira in JSON"),
        ("trello.json", br#"{"name": "B", "lists": [], "cards": [{"id": "1"}]}"#, "board of Trello"),
        (
            "tasks.json",
            br#"[{"id": 1, "description": "x", "entry": "2026", "status": "pending", "uuid": "u"}]"#,
            "export of Taskwarrior",
        ),
        ("latin.csv", b"id,title\n1,caf\xe9\n", "not UTF-8"),
        ("bad.yaml", b"tasks:\n  - id: [\n", "bad.yaml:"),
        ("page.html", b"<html><body><p>tasks</p></body></html>", "does not look like a backlog"),
    ] {
        let graph = "tasks:\n- {id: mine}\n";
        let trial = TestProject::new().graph(graph);
        fs::write(trial.root().join(name), text).unwrap();
        let said = trial.run(["import", name]).code(65).err();
        assert!(said.contains(part), "{name}: {said}");
        assert!(said.len() < 3_000, "{name}: {} bytes", said.len());
        assert_eq!(trial.graph_text(), graph, "{name}");
    }
    let trial = TestProject::new();
    trial.run(["import", "missing.json"]).code(1).stderr_has("`missing.json`");
}

#[test]
fn what_other_tools_mean_is_read_or_named() {
    // Equal ids.
    let trial = TestProject::new();
    let story = |id: &str, title: &str, on: &str| {
        format!(
            "{{\"id\": \"{id}\", \"title\": \"{title}\", \"passes\": false, \"dependsOn\": [{on}]}}"
        )
    };
    let (one, other) = (story("a", "One", ""), story("a", "Other", ""));
    let text =
        format!("[{one},\n{other},\n{},\n{}]", story("b", "B", "\"a\""), story("a-2", "C", ""));
    trial.write("prd.json", &text);
    trial
        .run(["import", "prd.json"])
        .stdout_has("line 1 has a task `a` too, which dependencies mean; this one is `a-3`");
    assert_eq!(tasks(&trial), ["a pending", "a-3 pending", "b pending after a", "a-2 pending"]);
    trial.run(["import", "prd.json"]);
    assert_eq!(tasks(&trial).len(), 4, "nothing is added again");

    // A status or an order under the name of another tool.
    let trial = TestProject::new();
    trial.write(
        "board.csv",
        "ID,Name,Section/Column,Predecessors,Rank\n1,A,Done,,2\n2,B,To do,1,1\n",
    );
    let said = trial.run(["import", "board.csv"]).out();
    for name in ["Section/Column", "Rank"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(said.contains("no status, order or dependency is read from it"), "{said}");
    assert_eq!(tasks(&trial), ["1 pending", "2 pending after 1"]);

    // The tasks of Claude Code: a file for each, and the list of older versions.
    let trial = TestProject::new();
    trial.write(
        "t/1.json",
        r#"{"id": "1", "subject": "A", "description": "d", "activeForm": "x",
        "status": "completed", "blocks": ["2"], "blockedBy": []}"#,
    );
    trial.write(
        "t/2.json",
        r#"{"id": "2", "subject": "B", "status": "pending", "blocks": [],
        "blockedBy": ["1"]}"#,
    );
    trial.run(["import", "t"]);
    assert_eq!(tasks(&trial), ["1 complete", "2 pending after 1"]);
    assert_eq!(fields(&trial, "1")["title"], "A");
    let trial = TestProject::new();
    trial.write(
        "todos.json",
        r#"[{"content": "Add it", "status": "in_progress", "activeForm": "x"}]"#,
    );
    trial.run(["import", "todos.json"]);
    assert_eq!(tasks(&trial), ["add-it in-progress"]);

    // The characters of checkboxes.
    for (title, dash) in [("Implementation Plan", "in-progress"), ("Plan", "cancelled")] {
        let trial = TestProject::new();
        trial.write("plan.md", &format!("# {title}\n\n- [-] a\n- [/] b\n- [o] c\n- [x] d\n"));
        let said = trial.run(["import", "plan.md"]).out();
        for part in [
            format!("`[-]` is read as {dash}"),
            "`[/]` is read as in-progress".to_owned(),
            "`[o]` is read as in-progress".to_owned(),
        ] {
            assert!(said.contains(&part), "{part}: {said}");
        }
        assert!(!said.contains("`[x]`"), "{said}");
    }
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
    assert!(all[1].starts_with("task-") && all[1].ends_with("after etc-passwd"), "{all:?}");
    assert_eq!(fields(&trial, "etc-passwd")["title"], "a\u{1b}[31mred\u{202e}");
}

/// Real backlogs, if they are available: tasks and dependencies.
const REAL_COUNTS: [(&str, usize, usize); 5] = [
    ("ralph-tui.beads.issues.jsonl", 165, 119),
    ("ralph-tui.test-prd.json", 5, 4),
    ("snarktank.prd.json", 4, 0),
    ("solar-sim.task-graph.yaml", 33, 33),
    ("vend.tickets.frontmatter.yaml", 263, 198),
];

#[test]
fn real_backlogs_become_graphs() {
    for (name, count, edges) in REAL_COUNTS {
        let path = Path::new(REAL).join(name);
        if !path.exists() {
            println!("skipped: {} is not here", path.display());
            continue;
        }
        let trial = TestProject::new();
        fs::copy(&path, trial.root().join(name)).unwrap();
        trial.run(["import", name]);
        let report = trial.run(["check", "--json"]).json();
        assert_eq!((&report["tasks"], &report["edges"]), (&count.into(), &edges.into()), "{name}");
        let before = trial.graph_text();
        trial.run(["import", name]);
        assert_eq!(trial.graph_text(), before);
    }
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
fn statuses_stay_in_one_column_next_to_long_ids() {
    let trial = TestProject::new();
    let long = format!(", {{\"id\": \"{}\", \"title\": \"Long\"}}", "x".repeat(50));
    trial.write("prd.json", &source("A", false, "one", &long));
    let said = trial.run(["import", "prd.json", "--dry-run"]).out();
    let columns: Vec<usize> = said.lines().filter_map(|line| line.find("pending  ")).collect();
    assert_eq!(columns.len(), 3, "{said}");
    assert!(columns.iter().all(|column| *column == columns[0]), "{said}");
    assert!(said.contains(&"x".repeat(50)), "{said}");
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
    for part in ["1 task added", "a: title: `Their A`", "a: status: complete", "a: description"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("b: "), "what was completed here is no change there: {said}");
    assert!(trial.graph_text().starts_with(before.trim_end()), "{}", trial.graph_text());
    assert_eq!(tasks(&trial), ["a pending", "b complete", "c pending after a"]);
    let report = trial.run(["import", "prd.json", "--json"]).json();
    assert_eq!(report["changed"][0]["value"], "Their A", "{report}");
}

#[test]
fn what_means_later_elsewhere_is_named() {
    let trial = TestProject::new();
    trial.write(
        "issues.jsonl",
        "{\"id\": \"a\", \"title\": \"A\", \"status\": \"deferred\", \"issue_type\": \"task\"}\n",
    );
    let said = trial.run(["import", "issues.jsonl"]).out();
    assert!(said.contains("status: `deferred` is read as cancelled"), "{said}");
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
fn files_of_a_folder_that_are_not_read_are_named_with_the_reason() {
    let trial = TestProject::new();
    trial.write("docs/cut.json", "{\"a\": [1,\n");
    trial.write("docs/letter.txt", "- [ ] a\n");
    trial.write("docs/README.md", "# How to\n\n---\n\nWrite tickets.\n");
    let said = trial.run(["import", "docs"]).code(65).err();
    for part in [
        "docs/cut.json` is not read: this is not JSON",
        "letter.txt` is not read: the ending",
        "README.md` is not read: it has no tasks",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    trial.write("docs/one.md", "---\nstatus: open\n---\n\n# Cut the cloth\n\n---\n\nWell.\n");
    for words in [&["import", "docs"][..], &["import", "docs", "--format", "tickets"]] {
        let said = trial.run(words).out();
        assert!(said.contains("docs/README.md: ") && said.contains("docs/cut.json: "), "{said}");
        assert_eq!(tasks(&trial), ["one pending"]);
        assert_eq!(fields(&trial, "one")["title"], "Cut the cloth");
        assert_eq!(fields(&trial, "one")["description"], "---\n\nWell.");
    }
}

#[test]
fn a_table_names_dependencies_by_title_too() {
    let trial = TestProject::new();
    let table =
        "Task,Status,Depends on\nCut it,Done,\nSew it,,cut it\n\"Fly, high\",,Sew it; Cut it\n";
    trial.write("plan.csv", table);
    trial.run(["import", "plan.csv"]);
    let want =
        ["cut-it complete", "sew-it pending after cut-it", "fly-high pending after cut-it sew-it"];
    assert_eq!(tasks(&trial), want);
    assert_eq!(fields(&trial, "fly-high")["title"], "Fly, high");
    trial.write("plan.csv", &table.replace("high\"", "high"));
    let before = trial.graph_text();
    trial.run(["import", "plan.csv"]).code(65).stderr_has("never closed");
    assert_eq!(trial.graph_text(), before);
}

#[test]
fn backlogs_of_other_tools_keep_their_meaning() {
    let linear = r#"[{"id":"9f1","identifier":"ENG-1","title":"Someday","priority":0},
        {"id":"9f2","identifier":"ENG-2","title":"Fire","priority":1,"inverseRelations":{"nodes":
        [{"type":"blocks","issue":{"identifier":"ENG-1"}},{"type":"related","issue":{"identifier":"ENG-1"}}]}}]"#;
    let project = r#"{"items":[{"id":"P1","title":"Sign out","status":"Todo","content":{"type":"Issue",
        "number":2,"body":"End it","url":"https://github.com/o/r/issues/2"}}]}"#;
    // The file, its text, what the graph has, and what the report says.
    for (name, text, graph, report) in [
        ("k.md", "- [x] 1. Set up\n- [-] 2. Add\n", &["status: cancelled"][..], "`[-]` is read as"),
        (
            "s.md",
            "# Plan\n\n- [x] Step 1: Make\n- [ ] Step 2: Run\n\n## Step 1: Make\n\nA crate.\n\n## Step 2: Run\n\nOne.\n",
            &["title: Make\n    status: complete", "title: Run\n    status: pending"],
            "2 tasks added",
        ),
        (
            "asana.csv",
            "Task ID,Completed At,Name,Blocked By (Dependencies)\n1,2025-01-02,Sign in,\n2,,Sign out,Sign in\n",
            &["status: complete", "depends_on: [\"1\"]"],
            "",
        ),
        (
            "jira.csv",
            "Summary,Issue key,Issue id,Parent id,Status,Inward issue link (Blocks),Outward issue link (Blocks)\n\
             In,WEB-1,101,,To Do,,WEB-2\nOut,WEB-2,102,101,To Do,WEB-1,\n",
            &["depends_on: [WEB-1]", "story: WEB-1"],
            "",
        ),
        (
            "l.json",
            linear,
            &["id: ENG-1", "depends_on: [ENG-1]"],
            "the type `related` does not make",
        ),
        (
            "p.json",
            project,
            &["description: End it", "source: https://github.com/o/r/issues/2"],
            "",
        ),
        (
            "de.csv",
            "Nr;Titel;Beschreibung;Status;Abhängigkeiten;Priorität;Wer\n1;An;Knopf;offen;;hoch;Ann\n\
             2;Aus;;erledigt;1;niedrig;\n",
            &["title: An\n", "priority: 1", "description: Knopf", "depends_on: [\"1\"]"],
            "Wer: kept, and nothing is read from it",
        ),
        (
            "other.csv",
            "No.,Was,Wann\n1,Sign in,morgen\n2,Sign out,heute\n",
            &["title: Sign in", "title: Sign out"],
            "Was: taken as the title",
        ),
        (
            "board.md",
            "---\n\nkanban-plugin: board\n\n---\n\n## Todo\n\n- [ ] Sign in\n\n## Done\n\n- [x] Sign out\n\n\
             %% kanban:settings\n```\n{\"kanban-plugin\":\"board\"}\n```\n%%\n",
            &["title: Sign in\n    status: pending", "title: Sign out\n    status: complete"],
            "0 dependencies\ntask-graph.yaml: 2 tasks added",
        ),
        (
            "phases.md",
            "## Phase 1: Set up\n\n- [ ] T1 Make\n\n## Phase 2: Rest\n\n- [ ] T2 Run\n",
            &["milestone: \"Phase 1: Set up\""],
            "a later phase does not wait",
        ),
    ] {
        let trial = TestProject::new();
        trial.write(name, text);
        let ran = trial.run(["import", name]);
        let (said, made) = (ran.whole(), trial.read("task-graph.yaml"));
        for part in graph {
            assert!(made.contains(part), "{name}: no `{part}` in\n{made}");
        }
        assert!(said.contains(report), "{name}: {said}");
        assert!(!said.contains("no task `"), "{name}: {said}");
        assert!(name != "l.json" || !made.contains("priority: 0"), "{made}");
        assert!(name != "s.md" || made.matches("title:").count() == 2, "{made}");
    }
    let trial = TestProject::new();
    trial.write("tasks.org", "* DONE Sign in\n* TODO Sign out\n");
    trial.run(["import", "tasks.org"]).code(65).stderr_has("is an Org file, which is not read");
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
