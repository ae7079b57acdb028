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
    trial.run(["undo"]);
    assert_eq!(trial.graph_text(), examples);
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
    trial.run(["import", "--refresh"]);
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

/// The files that a backlog is read from, with the format to export.
const ROUND_TRIPS: [(&str, &str); 9] = [
    ("stories.json", "prd"),
    ("features.json", "prd"),
    ("issues.jsonl", "beads"),
    ("tasks.json", "task-master"),
    ("plan.md", "markdown"),
    ("sections.md", "markdown"),
    ("table.csv", "csv"),
    ("table.tsv", "csv"),
    ("other.yaml", "graph"),
];

/// Imports a file, and expects that its export is the same, and then that only the lines of a task
/// change that is completed.
fn round_trip(trial: &TestProject, name: &str, format: &str) {
    trial.run(["import", name]);
    let original = trial.read(name);
    let shown = trial.run(["export", "--to", format]).out();
    assert_eq!(shown.lines().count(), original.lines().count(), "{name}");
    trial.run(["export", "--to", format, name]);
    assert_eq!(trial.read(name), original, "{name}");
    let open = tasks(trial).into_iter().find(|line| line.contains(" pending"));
    let Some(id) = open.as_deref().and_then(|line| line.split(' ').next()) else {
        return;
    };
    trial.run(["task-complete", id]);
    trial.run(["export", "--to", format, name]);
    let changed = trial.read(name);
    let pairs = original.lines().zip(changed.lines());
    let count = pairs.filter(|(old, new)| old != new).count();
    assert_eq!(original.lines().count(), changed.lines().count(), "{name}");
    assert!((1..=2).contains(&count), "{name}: {count} lines differ\n{changed}");
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    trial.run(["import", name]);
    assert_eq!(trial.status(id), "complete", "{name}");
}

#[test]
fn an_export_is_the_original_but_for_statuses() {
    for (name, format) in ROUND_TRIPS {
        let trial = TestProject::new();
        put(&trial, name);
        round_trip(&trial, name, format);
    }
    let trial = TestProject::new();
    import(&trial, "stories.json");
    trial.run(["export", "--to", "prd"]).stdout(&trial.read("stories.json"));
    let trial = TestProject::new();
    put(&trial, "tickets");
    trial.run(["import", "tickets"]);
    let original = trial.read("tickets/T-2.md");
    trial.run(["task-complete", "T-2"]);
    trial.run(["export", "--to", "tickets", "tickets/T-2.md"]);
    assert_eq!(trial.read("tickets/T-2.md"), original.replace("in-review", "complete"));
}

#[test]
fn real_backlogs_survive_the_round_trip() {
    let formats = ["beads", "prd", "prd", "graph", "tickets"];
    for ((name, _, _), format) in REAL_COUNTS.iter().zip(formats) {
        let path = Path::new(REAL).join(name);
        if !path.exists() {
            println!("skipped: {} is not here", path.display());
            continue;
        }
        let trial = TestProject::new();
        trial.write(name, &fs::read_to_string(&path).unwrap());
        round_trip(&trial, name, format);
    }
}

#[test]
fn a_graph_becomes_a_backlog_of_any_format_and_comes_back() {
    let graph = "tasks:\n- id: a\n  title: 'A, \"b\"'\n  description: |\n    one\n\n    - two\n  \
                 status: done\n  priority: 1\n- {id: b, title: B, depends_on: [a], tags: [x]}\n";
    for (format, name, ids) in [
        ("prd", "new.json", ["a", "b"]),
        ("beads", "new.jsonl", ["a", "b"]),
        ("task-master", "new.json", ["1", "2"]),
        ("markdown", "new.md", ["a", "b"]),
        ("tickets", "new.md", ["a", "b"]),
        ("csv", "new.csv", ["a", "b"]),
        ("graph", "new.yaml", ["a", "b"]),
    ] {
        let trial = TestProject::new().graph(graph);
        trial.run(["export", "--to", format, name]);
        trial.run(["export", "--to", format, "--new", name]).code(64);
        fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
        trial.run(["import", name]);
        let want = [format!("{} complete", ids[0]), format!("{} pending after {}", ids[1], ids[0])];
        assert_eq!(tasks(&trial), want, "{format}");
        let first = fields(&trial, ids[0]);
        assert_eq!(first["title"], "A, \"b\"", "{format}");
        let text = first["description"].as_str().unwrap();
        assert!(text.starts_with("one\n\n- two"), "{format}: {text}");
    }
    let trial =
        TestProject::new().graph(graph).file("other.json", "{\"userStories\": [{\"id\": \"z\"}]}");
    trial.run(["export", "--to", "prd", "other.json"]).code(64).stderr_has("no task of the graph");
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
fn a_refresh_takes_over_what_changed_there_and_keeps_what_changed_here() {
    let trial = TestProject::new();
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json", "--tag", "mine"]);
    let edited = trial
        .graph_text()
        .replace("title: A", "title: My A # why")
        .replace("  - id: b\n", "  # about b\n  - id: b\n    verify: make test\n");
    trial.save("task-graph.yaml", &edited);
    trial.run(["import", "--refresh"]).stdout_has("nothing new");
    assert_eq!(trial.graph_text(), edited);

    trial.write(
        "prd.json",
        &source(
            "Their A",
            true,
            "one\\ntwo",
            ", {\"id\": \"c\", \"title\": \"C\", \"dependsOn\": [\"a\"]}",
        ),
    );
    trial.run(["import", "prd.json", "--refresh", "--dry-run"]).stdout_has("now `Their A`");
    assert_eq!(trial.graph_text(), edited);
    let said = trial.run(["import", "--refresh"]).out();
    assert!(
        said.contains("Changed on both sides") && said.contains("a: title now `Their A`"),
        "{said}"
    );
    assert_eq!(tasks(&trial), ["a complete", "b pending", "c pending after a"]);
    let a = fields(&trial, "a");
    assert_eq!((&a["title"], &a["description"]), (&"My A".into(), &"one\ntwo".into()));
    assert_eq!(a["tags"], serde_json::json!(["x", "mine"]));
    let text = trial.graph_text();
    assert!(text.contains("title: My A # why") && text.contains("  # about b\n"), "{text}");
    assert!(text.contains("verify: make test"), "{text}");
    let changed = trial.lines("status_changed");
    let changed: Vec<(Value, Value, Value)> = { changed.iter() }
        .map(|line| (line["task_id"].clone(), line["old"].clone(), line["new"].clone()))
        .collect();
    let (pending, complete) = (Value::from("pending"), Value::from("complete"));
    let want = [("c".into(), Value::Null, pending.clone()), ("a".into(), pending, complete)];
    assert_eq!(changed, want);

    // A conflict is told once, and a task that is gone is kept.
    trial.write("prd.json", &source("Their A", true, "one\\ntwo", ""));
    let said = trial.run(["import", "--refresh"]).out();
    assert!(
        !said.contains("both sides")
            && said.contains("No longer in the source, kept in the graph: c"),
        "{said}"
    );
    assert_eq!(trial.graph_text(), text);
}

#[test]
fn a_plain_import_leaves_the_base_of_known_tasks() {
    let trial = TestProject::new();
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    trial.write("prd.json", &source("A", true, "one", ", {\"id\": \"c\", \"title\": \"C\"}"));
    trial.run(["import", "prd.json"]);
    assert_eq!(tasks(&trial), ["a pending", "b pending", "c pending"]);
    trial.run(["import", "prd.json", "--refresh"]);
    assert_eq!(tasks(&trial), ["a complete", "b pending", "c pending"]);
}

#[test]
fn a_refresh_does_not_bring_back_what_a_person_removed() {
    let trial = TestProject::new();
    let story = |text: &str| {
        source("A", false, text, ", {\"id\": \"c\", \"title\": \"C\", \"dependsOn\": [\"b\"]}")
    };
    trial.write("prd.json", &story("one"));
    trial.run(["import", "prd.json"]);
    let text = trial.graph_text();
    let (start, end) = (text.find("  - id: b\n").unwrap(), text.find("  - id: c\n").unwrap());
    let edited = format!("{}{}", &text[..start], &text[end..]).replace("    depends_on: [b]\n", "");
    trial.save("task-graph.yaml", &edited);
    trial.write("prd.json", &story("two"));
    trial.run(["import", "--refresh"]);
    assert_eq!(trial.graph_text(), edited.replace("one", "two"));
}

#[test]
fn a_refresh_that_would_break_the_graph_changes_nothing() {
    let trial = TestProject::new();
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    let edited = trial.graph_text().replace("  - id: a\n", "  - id: a\n    depends_on: [b]\n");
    trial.save("task-graph.yaml", &edited);
    let wanted = source("A", false, "one", "")
        .replace("\"title\": \"B\"", "\"title\": \"B\", \"dependsOn\": [\"a\"]");
    trial.write("prd.json", &wanted);
    trial.run(["import", "--refresh"]).code(65).stderr_has("form a cycle");
    assert_eq!(trial.graph_text(), edited);
    trial.run(["import", "--refresh", "nothing.json"]).code(1);
}

#[test]
fn sources_of_the_settings_are_refreshed_before_a_run() {
    let trial = TestProject::new().agent("commit");
    trial.write("prd.json", &source("A", true, "one", ""));
    trial.run(["import", "prd.json"]);
    let settings = format!("{}sources: [prd.json, gone.md]\n", crate::support::SETTINGS);
    let trial = trial.file(".ralph/config.yaml", &settings);
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set the stage"]);
    trial.write("prd.json", &source("A", true, "one", ", {\"id\": \"c\", \"title\": \"C\"}"));
    trial.run(["run"]).graph_complete();
    let log = trial.read("logs/run.log");
    let said = |name: &str| log.lines().filter(|line| line.contains(name)).count();
    assert_eq!(said("source `prd.json`: 1 task added"), 1, "{log}");
    assert_eq!(said("source `gone.md`: not read"), 1, "{log}");
    assert_eq!(tasks(&trial), ["a complete", "b complete", "c complete"]);
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
fn one_undo_takes_back_one_import() {
    let trial = TestProject::new().graph("tasks:\n- id: mine # me\n");
    let before = trial.graph_text();
    let stories: String =
        (0..30).map(|n| format!(", {{\"id\": \"s{n}\", \"title\": \"S\"}}")).collect();
    trial.write("prd.json", &source("A", true, "one", &stories));
    trial.run(["import", "prd.json"]);
    let added = trial.lines("status_changed");
    assert_eq!(added.len(), 32);
    assert_eq!((&added[0]["task_id"], &added[0]["new"]), (&"a".into(), &"complete".into()));
    assert_eq!((&added[1]["cause"], &added[1]["old"]), (&"command".into(), &Value::Null));
    let seqs: Vec<_> = trial.journal().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (0..32).collect::<Vec<u64>>());
    trial.run(["undo", "--list"]).stdout_has("import");
    trial.run(["undo"]).stdout_has("and 12 more");
    assert_eq!(trial.graph_text(), before);
    assert_eq!(trial.lines("status_changed").len(), 64);
    trial.run(["import", "prd.json"]);
    assert_eq!(trial.status("s29"), "pending");
}

#[test]
fn sources_are_refreshed_when_a_run_is_resumed() {
    let settings = format!("{}sources: [prd.json]\n", crate::support::SETTINGS);
    let trial = TestProject::new().agent("gate").file(".ralph/config.yaml", &settings);
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "--message", "Set the stage"]);
    let run = trial.start_until(["run"], "waiting-a");
    trial.run(["pause"]);
    trial.leave("open");
    run.end(&trial).code(4);
    trial.write("prd.json", &source("A", false, "one", ", {\"id\": \"c\", \"title\": \"C\"}"));
    trial.run(["resume"]).graph_complete();
    assert_eq!(tasks(&trial), ["a complete", "b complete", "c complete"]);
    trial.assert_record(
        "source_refreshed",
        &serde_json::json!({"source": "prd.json", "what": "1 task added"}),
    );
}

#[test]
fn what_a_refresh_took_over_is_told_if_no_run_starts() {
    let settings = format!("{}sources: [prd.json]\n", crate::support::SETTINGS);
    let trial = TestProject::new().agent("commit").file(".ralph/config.yaml", &settings);
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    trial.write("prd.json", &source("A", false, "one", ", {\"id\": \"c\", \"title\": \"C\"}"));
    trial.run(["run", "--tag", "nosuch"]).code(64).stderr_has("source `prd.json`: 1 task added");
}

#[test]
fn the_graph_is_not_imported_into_itself() {
    let trial = TestProject::new().graph("tasks: [{id: a, title: A}]\n");
    let text = trial.graph_text();
    trial.run(["import", "task-graph.yaml"]).code(64).stderr_has("name other files");
    assert_eq!(trial.graph_text(), text);
}

/// A project with this plan imported.
fn planned(plan: &str) -> TestProject {
    let trial = TestProject::new();
    trial.write("PLAN.md", plan);
    trial.run(["import", "PLAN.md"]);
    trial
}

#[test]
fn tasks_of_one_title_are_known_by_their_order() {
    let trial = planned("# Plan\n\n## B\n\n- [x] Write tests\n- [ ] Ship\n");
    trial.write(
        "PLAN.md",
        "# Plan\n\n## A\n\n- [ ] Write tests\n\n## B\n\n- [ ] Write tests\n- [x] Write tests\n- [ ] Ship\n",
    );
    let said = trial.run(["import", "--refresh"]).out();
    assert!(said.contains("2 tasks added") && said.contains("stays complete"), "{said}");
    let want =
        ["write-tests complete", "ship pending", "write-tests-2 pending", "write-tests-3 complete"];
    assert_eq!(tasks(&trial), want);
    // A known task may now wait for a new one.
    let plan = trial.read("PLAN.md");
    trial.write(
        "PLAN.md",
        &plan.replace("- [ ] Ship\n", "- [ ] Ship\n\n  Depends on: `new`\n\n- [ ] `new`: N\n"),
    );
    trial.run(["import", "--refresh"]);
    assert_eq!(tasks(&trial)[1], "ship pending after new");
    trial.run(["undo"]);
    trial.write("PLAN.md", &plan);
    // The marks go to the right lines.
    trial.run(["task-complete", "write-tests-2"]);
    trial.run(["export", "--to", "markdown", "PLAN.md"]);
    assert_eq!(
        trial.read("PLAN.md"),
        "# Plan\n\n## A\n\n- [x] Write tests\n\n## B\n\n- [x] Write tests\n- [x] Write tests\n- [ ] Ship\n",
    );
    let before = trial.graph_text();
    trial.run(["import", "--refresh"]).stdout_has("nothing new");
    assert_eq!(trial.graph_text(), before);
}

#[test]
fn a_renamed_task_is_a_new_one_and_the_old_one_is_named() {
    let plan = "- [ ] Add login\n- [ ] `fly`: Fly (depends on Add login)\n";
    for is_cloned in [false, true] {
        let trial = planned(plan);
        trial.run(["task-complete", "add-login"]);
        if is_cloned {
            fs::remove_file(trial.state().join("imports.json")).unwrap();
        }
        trial.write("PLAN.md", &plan.replace("Add login", "Add login page"));
        let said = trial.run(["import", "PLAN.md", "--refresh"]).out();
        assert!(said.contains("1 task added") && said.contains("kept in the graph: add-login\n"));
        let after = if is_cloned { "add-login" } else { "add-login-page" };
        let fly = format!("fly pending after {after}");
        assert_eq!(tasks(&trial), ["add-login complete", &fly, "add-login-page pending"]);
        trial.run(["task-complete", "add-login-page"]);
        trial.run(["export", "--to", "markdown", "PLAN.md"]);
        assert!(trial.read("PLAN.md").starts_with("- [x] Add login page\n- [ ] `fly`"));
    }
}

#[test]
fn a_numbered_task_is_known_by_its_title() {
    let trial = planned("### Task 1: Cut\n\ntext\n\n### Task 2: Sew\n\ntext\n");
    trial.run(["task-complete", "task-2"]);
    trial.write(
        "PLAN.md",
        "### Task 1: Draw\n\ntext\n\n### Task 2: Cut\n\nnew\n\n### Task 3: Sew\n",
    );
    trial.run(["import", "--refresh"]);
    assert_eq!(tasks(&trial), ["task-1 pending", "task-2 complete", "task-1-2 pending"]);
    assert_eq!(fields(&trial, "task-1")["description"], "new");
    assert_eq!(fields(&trial, "task-1-2")["title"], "Draw");
}

#[test]
fn a_refresh_opens_no_complete_task() {
    let trial = planned("- [x] One\n- [ ] Two\n");
    let before = trial.graph_text();
    trial.write("PLAN.md", "- [ ] One\n- [ ] Two\n");
    let said = trial.run(["import", "--refresh"]).out();
    assert!(said.contains("stays complete") && said.contains("  one\n"), "{said}");
    assert_eq!(trial.graph_text(), before);
    let said = trial.run(["import", "--refresh"]).out();
    assert!(!said.contains("Open again"), "it is told once: {said}");
}

#[test]
fn undo_takes_back_a_refresh_and_a_new_graph() {
    let trial = TestProject::new();
    trial.write("prd.json", &source("A", false, "one", ""));
    trial.run(["import", "prd.json"]);
    let first = trial.graph_text();
    trial.write("prd.json", &source("B", true, "two", ", {\"id\": \"c\", \"title\": \"C\"}"));
    trial.run(["import", "--refresh"]);
    assert_eq!(tasks(&trial), ["a complete", "b pending", "c pending"]);
    let said = trial.run(["undo"]).out();
    assert!(said.contains("import --refresh") && said.contains("c: removed"), "{said}");
    assert_eq!(trial.graph_text(), first);
    // What was taken back stays so until the source changes again.
    trial.run(["import", "--refresh"]);
    assert_eq!(trial.graph_text(), first);
    trial.run(["undo"]).stdout_has("removed `task-graph.yaml`");
    assert!(!trial.root().join("task-graph.yaml").exists());
    trial.run(["import", "prd.json"]);
    assert_eq!(tasks(&trial), ["a complete", "b pending", "c pending"]);
    // A task that is added creates the file as well.
    trial.run(["undo"]);
    trial.run(["task-add", "first", "--verify", "true"]).stdout_has("first: added at");
    trial.run(["undo"]).stdout_has("removed `task-graph.yaml`");
    trial.run(["import", "prd.json"]);
    // A file that was edited since stays, without the imported tasks.
    trial.run(["task-add", "mine"]);
    trial.run(["undo", "--list"]);
    let number = trial.run(["undo", "--list", "--json"]).json()[1]["number"].to_string();
    trial.run(["undo", &number]);
    assert_eq!(tasks(&trial), ["mine pending"]);
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
fn a_written_plan_reads_back_as_the_same_tasks() {
    let graph = "\
tasks:
  - id: a
    title: See what b depends on c
    description: |-
      - [ ] no task
      1. [x] neither
      - \\[ ] a backslash

      ## Task 7: no heading

      Depends on: `b`
  - id: B
    title: '[P] **Bold** title'
    depends_on: [a, b]
  - id: b
    title: No text
    depends_on: [c]
  - id: c
    title: '1. Code'
    description: |-
      ```
      - [ ] in code
  - {id: '7', title: Seven, depends_on: [a]}
";
    let trial = TestProject::new().graph(graph);
    let ids = ["a", "B", "b", "c", "7"];
    let all = |trial: &TestProject| {
        ids.map(|id| {
            let fields = fields(trial, id);
            (fields["title"].clone(), fields.get("description").cloned())
        })
    };
    let (before, lines) = (all(&trial), tasks(&trial));
    trial.run(["export", "--to", "markdown", "--new", "PLAN.md"]);
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    trial.run(["import", "PLAN.md"]);
    assert_eq!(tasks(&trial), lines, "{}", trial.read("PLAN.md"));
    assert_eq!(all(&trial), before, "{}", trial.read("PLAN.md"));
}

#[test]
fn a_folder_of_tickets_has_a_file_for_each_task() {
    let trial = TestProject::new();
    put(&trial, "tickets");
    trial.run(["import", "tickets"]);
    trial.run(["task-add", "mine", "--after", "T-2"]);
    trial.run(["task-complete", "T-2"]);
    let readme = trial.read("tickets/README.md");
    for _ in 0..2 {
        trial.run(["export", "--to", "tickets", "tickets"]);
        assert!(trial.read("tickets/T-2.md").contains("status: complete"));
        assert!(trial.read("tickets/mine.md").starts_with("---\nid: mine\n"));
        assert_eq!(trial.read("tickets/README.md"), readme);
        trial.run(["task-complete", "mine"]);
    }
    assert!(trial.read("tickets/mine.md").contains("status: complete"));
    trial.run(["export", "--to", "tickets", "all"]);
    assert!(trial.read("all/T-1.md").contains("title: Cut the cloth"));
    let before = tasks(&trial);
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    trial.run(["import", "all"]);
    let mut after = tasks(&trial);
    after.sort();
    assert_eq!(after, before);
    trial.write("odd/mine.md", "Something else.\n");
    trial.run(["export", "--to", "tickets", "odd"]).code(64).stderr_has("`odd/mine.md` exists");
    assert!(!trial.root().join("odd/T-1.md").exists());
    trial.run(["export", "--to", "csv", "odd"]).code(64).stderr_has("is a folder");
}

#[test]
fn the_named_format_holds_for_later_refreshes() {
    let trial = TestProject::new();
    trial.write("list.txt", "Things\n\n- one thing\n- other thing\n");
    trial.run(["import", "list.txt", "--format", "markdown"]);
    trial.write("list.txt", "id,title\n\n- one thing\n- other thing\n- third thing\n");
    trial.run(["import", "--refresh"]);
    assert_eq!(tasks(&trial).len(), 3);
}

#[test]
fn standard_input_cannot_be_refreshed_and_says_so() {
    let trial = TestProject::new();
    trial.write("in.md", "- [ ] one thing\n");
    let input = fs::File::open(trial.root().join("in.md")).unwrap();
    let output =
        trial.process(RALPH).args(["import", "-", "--json"]).stdin(input).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tasks"][0]["id"], "one-thing");
    trial.run(["import", "--refresh"]).code(64).stderr_has("standard input");
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
    trial.run(["import", "plan.csv", "--refresh"]).code(65).stderr_has("never closed");
    assert_eq!(trial.graph_text(), before);
}

#[test]
fn a_changed_text_is_shown_by_its_lines() {
    let trial = planned("- [ ] `a`: A\n\n  one\n  two\n");
    trial.write("PLAN.md", "- [ ] `a`: A\n\n  one\n  three\n  four\n");
    let said = trial.run(["import", "--refresh"]).out();
    assert!(said.contains("a: description changed: 2 added and 1 removed, 3 lines now"), "{said}");
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
fn tickets_name_each_other_in_any_case_and_close_in_their_own_words() {
    let trial = TestProject::new();
    trial.write("tasks/1.md", "---\nid: TASK-1\ntitle: In\nstatus: Done\n---\nx\n");
    let second = "---\nid: TASK-2\ntitle: Out\nstatus: To Do\ndependencies:\n  - task-1\n---\ny\n";
    trial.write("tasks/2.md", second);
    trial.run(["import", "tasks"]);
    assert!(trial.read("task-graph.yaml").contains("depends_on: [TASK-1]"));
    trial.run(["task-complete", "TASK-2"]);
    trial.run(["export", "--to", "tickets", "tasks"]);
    assert!(trial.read("tasks/2.md").contains("status: Done\n"));
}
