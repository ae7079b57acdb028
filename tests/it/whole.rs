//! What landed is verified together on the tip, and what a later commit broke is opened again.

use serde_json::{Value, json};

use crate::{
    apart::{landed, stage, tell},
    support::TestProject,
};

/// A chain of tasks that each check a file of their own.
const CHAIN: &str = "\
tasks:
  - {id: a, verify: ['test -e of-a']}
  - {id: b, verify: ['test -e of-b'], depends_on: [a]}
  - {id: c, verify: ['test -e of-c'], depends_on: [b]}
";

/// A project whose tasks each write and commit their file, unless told otherwise.
fn chain(graph: &str, settings: &str, agents: &[(&str, &str)]) -> TestProject {
    let trial = stage(graph, settings);
    for id in ["a", "b", "c", "d", "e"] {
        tell(&trial, id, &format!("put of-{id} {id}; work"));
    }
    for (name, script) in agents {
        tell(&trial, name, script);
    }
    trial
}

/// The tasks and values of a field in the lines of commands that failed on the tip.
fn reds(trial: &TestProject, field: &str) -> Vec<(Value, Value)> {
    let lines = trial.lines("tip_red").into_iter();
    lines.map(|line| (line["task_id"].clone(), line[field].clone())).collect()
}

#[test]
fn nothing_runs_again_that_the_last_landing_has_proved() {
    let graph = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n";
    for jobs in [1, 3] {
        let settings = format!("jobs: {jobs}\nverify: ['echo x >> \"$TRIAL_DIR/ran\"']\n");
        let trial = chain(graph, &settings, &[]);
        trial.run(["run"]).graph_complete();
        assert!(trial.lines("whole_verified").is_empty() && reds(&trial, "found").is_empty());
    }
    // Only what the last landing did not verify runs, once.
    let trial = chain(CHAIN, "verify: ['true']\n", &[]);
    trial.run(["run"]).graph_complete();
    let verified = json!({"commands": 2, "failed": 0, "branch": "main"});
    trial.assert_record("whole_verified", &verified);
    // A command that reads the variables of its attempt is another one for each task.
    let trial = chain(graph, "jobs: 3\nverify: ['test -e of-$RALPH_TASK_ID']\n", &[]);
    trial.run(["run"]).graph_complete();
    trial.assert_record("whole_verified", &json!({"commands": 3}));
    assert!(reds(&trial, "found").is_empty());
}

#[test]
fn work_that_needs_a_file_that_git_ignores_completes_no_graph() {
    let trial = chain("tasks: [{id: a, max_attempts: 2}]\n", "verify: [test -e made]\n", &[]);
    trial.write(".git/info/exclude", "made\n");
    tell(&trial, "a", "echo 1 > made; put of-a a; work");
    trial.run(["run"]).code(3).stderr_has("as it does without this work");
    assert_eq!((trial.tasks("failed").len(), trial.status("a")), (2, "in-progress".to_owned()));
}

#[test]
fn a_task_whose_work_a_later_one_takes_back_is_opened_again() {
    let revert =
        "git revert --no-edit $(git log --format=%H -1 -- of-a) > /dev/null; put of-c c; work";
    let agents = [("c", revert), ("a-2", "[ -e of-a ] || put of-a again; work")];
    let graph = format!("{CHAIN}  - {{id: d, depends_on: [c]}}\n  - {{id: e, depends_on: [d]}}\n");
    let trial = chain(&graph, "", &agents);
    trial.run(["run"]).graph_complete();
    let broken_by = trial.git(&["log", "--format=%H", "-1", "--grep=^Complete c"]);
    assert_eq!(reds(&trial, "found"), [(json!("a"), json!("broken"))]);
    assert_eq!(reds(&trial, "broken_by")[0].1, json!(broken_by.trim()));
    assert_eq!(reds(&trial, "broken_by_task")[0].1, json!("c"));
    assert_eq!(landed(&trial, "of-a"), "again\n");
    assert_eq!(trial.tasks("completed"), ["a", "b", "c", "d", "e", "a"]);
    assert_eq!(trial.status("a"), "complete");
    let prompt = trial.read("logs/attempts/a/2/prompt.md");
    for part in ["## Why it is open again", "test -e of-a", &broken_by[..10], "the work of `c`"] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert!(trial.subjects().contains(&"Open again: a".to_owned()));
}

#[test]
fn work_that_takes_back_that_of_another_task_is_said() {
    let back = |script: &str| {
        let trial = chain(CHAIN, "jobs: 1\n", &[("b", script)]);
        trial.run(["run", "--max-iterations", "2"]).code(2);
        let ended = trial.lines("completed").remove(1);
        assert_eq!(ended["task_id"], "b");
        (ended, trial)
    };
    for script in [
        "git revert --no-edit HEAD~1 > /dev/null; put of-b b; work",
        "git rm -q -r of-a work; put of-b b; commit; report",
    ] {
        let (ended, trial) = back(script);
        assert_eq!(ended["takes_back"], json!(["a"]), "{ended}");
        assert!(ended["why"].as_str().unwrap().contains("takes back the landed work of `a`"));
        trial.run(["show", "b"]).stdout_has("Takes back the landed work of");
    }
    let many = "printf 'one 1\\ntwo 2\\nthree 3\\n' > of-a; git add of-a; commit; report";
    let trial = chain(CHAIN, "jobs: 1\n", &[("a", many), ("b", "put of-a b; put of-b b; work")]);
    trial.run(["run", "--max-iterations", "2"]).code(2);
    assert_eq!(trial.lines("completed")[1]["takes_back"], json!(["a"]), "nothing of it is left");
    for script in ["put of-a other; put of-b b; work", "put of-b b; work"] {
        let (ended, _) = back(script);
        assert!(ended["takes_back"].is_null(), "{ended}");
    }
}

#[test]
fn two_tasks_that_undo_each_other_do_not_go_round_in_circles() {
    let graph = "\
tasks:
  - {id: a, verify: ['test ! -e flag']}
  - {id: b, verify: ['test -e flag'], depends_on: [a]}
";
    let agents = [
        ("a-1", "put of-a a; work"),
        ("a", "git rm -q flag; put of-a $RALPH_ATTEMPT; work"),
        ("b", "put flag $RALPH_ATTEMPT; work"),
    ];
    let trial = chain(graph, "", &agents);
    let run = trial.run(["run"]).code(3);
    assert_eq!(trial.tasks("completed"), ["a", "b", "a", "b"]);
    let found: Vec<Value> = reds(&trial, "found").into_iter().map(|it| it.0).collect();
    assert_eq!(found, ["a", "b", "a"]);
    run.stderr_has("parked").stderr_has("`test ! -e flag` exited with code 1");
    let report = trial.run(["report", "--json"]).json().to_string();
    assert!(report.contains("opened again 2 times"), "{report}");
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--once"]).code(0);
}

#[test]
fn a_red_that_no_commit_broke_opens_nothing_again() {
    let graph = "\
tasks:
  - {id: a, verify: ['sh told.sh']}
  - {id: b, depends_on: [a]}
";
    let once = "[ ! -e \"$TRIAL_DIR/once\" ] || { rm \"$TRIAL_DIR/once\"; exit 1; }\n";
    let always = "[ ! -e \"$TRIAL_DIR/once\" ]\n";
    for (script, found) in [(once, "flaky"), (always, "before")] {
        let agents = [("b", "touch \"$TRIAL_DIR/once\"; put of-b b; work")];
        let trial = chain(graph, "", &agents).file("told.sh", script);
        let code = if found == "flaky" { 0 } else { 3 };
        trial.run(["run"]).code(code).stderr_has("sh told.sh");
        assert_eq!(reds(&trial, "found"), [(json!(null), json!(found))]);
        assert_eq!(trial.tasks("completed"), ["a", "b"]);
        trial.assert_record("whole_verified", &json!({"failed": 1}));
    }
}

#[test]
fn a_task_that_breaks_a_check_of_the_project_behind_its_own_is_opened_again() {
    let graph = "\
tasks:
  - {id: a}
  - {id: b, verify_only: ['true'], depends_on: [a]}
  - {id: c, verify_only: ['true'], depends_on: [b]}
";
    let agents = [
        ("b-1", "put bad x; work"),
        ("b-2", "git rm -q bad; put of-b b; work"),
        ("c", "put of-c c; work"),
    ];
    let trial = chain(graph, "verify: ['test ! -e bad']\n", &agents);
    trial.run(["run"]).graph_complete();
    assert_eq!(reds(&trial, "broken_by_task"), [(json!("b"), json!("b"))]);
    assert_eq!(trial.tasks("completed"), ["a", "b", "c", "b"]);
}

/// A person stopped the run before anything was verified together.
#[test]
fn a_run_that_goes_on_after_one_that_was_stopped_verifies_what_landed_in_it() {
    let breaks = "git rm -q of-a; put of-b b; work";
    let agents = [
        ("b", "touch \"$TRIAL_DIR/there\"; sleep 60"),
        ("b-2", breaks),
        ("a-2", "put of-a again; work"),
    ];
    let trial = chain(CHAIN, "", &agents);
    let run = trial.start_until(["run"], "there");
    run.signal(rustix::process::Signal::INT);
    run.end(&trial).code(130);
    trial.run(["run"]).graph_complete();
    assert_eq!(reds(&trial, "found"), [(json!("a"), json!("broken"))]);
    assert_eq!(landed(&trial, "of-a"), "again\n");
}
