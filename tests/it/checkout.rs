//! The person's checkout while a run goes on: what is staged, converted or switched there.

use std::fs;

use crate::support::{SETTINGS, TestProject};

const GRAPH: &str = "tasks:\n  - id: a\n    title: First\n  - id: b\n    title: Second\n";

/// Commits a file named after the task, and reports.
const HONEST: &str = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt; git add -A; \
                      git commit -qm \"Work on $RALPH_TASK_ID\"; \
                      \"$RALPH\" task-complete $RALPH_TASK_ID";

fn project() -> TestProject {
    let agent = format!("while [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done; {HONEST}");
    TestProject::new().graph(GRAPH).command(["sh", "-c", &agent])
}

#[test]
fn a_staged_graph_does_not_hold_landing_and_stages_no_claim() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["add", "-A"]);
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    // With an edit: it stays staged, without the claim.
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let edited = trial.graph_text().replace("title: Second", "title: Mine");
    trial.save("task-graph.yaml", &edited);
    trial.write("own.txt", "mine\n");
    trial.git(&["add", "-A"]);
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.git(&["status", "--porcelain"]), "A  own.txt\nM  task-graph.yaml\n");
    assert_eq!(
        trial.git(&["diff", "--cached", "--numstat"]),
        "1\t0\town.txt\n1\t1\ttask-graph.yaml\n"
    );
    trial.git(&["commit", "--quiet", "--message", "Mine"]);
    assert!(!trial.git(&["log", "-p", "--all"]).contains("claimed_by"));
    assert!(trial.graph_text().contains("title: Mine"));
}

#[test]
fn a_graph_that_git_converts_does_not_hold_landing() {
    for (attributes, line) in [("eol=crlf", "# Converted.\n"), ("ident", "# $Id$\n")] {
        let trial = project()
            .file(".gitattributes", &format!("*.yaml text {attributes}\n"))
            .file("task-graph.yaml", &format!("{line}{GRAPH}"));
        std::fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
        trial.git(&["checkout", "--", "task-graph.yaml"]);
        trial.leave("go");
        trial.run(["run"]);
        assert_eq!(trial.git(&["status", "--porcelain"]), "", "{attributes}");
        assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
    }
}

#[test]
fn a_killed_run_whose_checkout_was_switched_completes_nothing_on_the_other_branch() {
    let trial = project();
    let record = trial.sign("points").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "run.over:1");
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["checkout", "--quiet", "-b", "feature"]);
    trial.leave("go");
    run.end(&trial).code(-1);
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run"]).code(3).stderr_has("2 tasks landed on `main` and are not on this branch");
    assert_eq!((trial.status("a"), trial.status("b")), ("pending".into(), "pending".into()));
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("started"), ["a", "b", "a"], "its work is not on this branch");
}

#[test]
fn work_behind_a_persons_changed_file_lands() {
    let graph = "tasks:\n  - {id: a, priority: 1}\n  - {id: b, depends_on: [a]}\n  - {id: c}\n  - {id: d}\n";
    let agent = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt
        [ $RALPH_TASK_ID = a ] && echo agent >> README
        git add -A; git commit -qm \"Work on $RALPH_TASK_ID\"; \"$RALPH\" task-complete $RALPH_TASK_ID";
    for jobs in ["1", "3"] {
        let trial =
            TestProject::new().graph(graph).file("README", "1\n").command(["sh", "-c", agent]);
        trial.write("README", "a person's\n");
        let ran = trial.run(["run", "--jobs", jobs]).graph_complete();
        ran.stderr_has("for your checkout: README has uncommitted changes");
        assert_eq!(trial.read("README"), "a person's\n");
        assert_eq!(trial.tasks("completed").len(), 4);
        trial.run(["dag-status"]).stdout_has("for your checkout: README has");
        trial.git(&["checkout", "--quiet", "--", "README"]);
        trial.run(["land"]).stdout("`main` has all that landed\n");
        trial.run(["land"]).stdout_has("nothing waits");
        assert_eq!(trial.git(&["status", "--porcelain"]), "");
        assert_eq!(trial.read("README"), "1\nagent\n");
    }
}

#[test]
fn a_checkout_follows_as_soon_as_it_can() {
    let graph = "tasks:\n  - {id: a, priority: 1}\n  - {id: b}\n";
    let agent = "cat > /dev/null; [ $RALPH_TASK_ID = a ] && echo agent > new
        while [ $RALPH_TASK_ID = b ] && [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done
        echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", agent]);
    trial.write("new", "a person's\n");
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "agent_started");
    trial.assert_record("checkout_waits", &serde_json::json!({"paths": ["new"], "tasks": ["a"]}));
    std::fs::remove_file(trial.root().join("new")).unwrap();
    trial.wait_for_records(1, "checkout_followed");
    assert_eq!(trial.read("new"), "agent\n", "the run goes on");
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.tasks("started"), ["a", "b"]);
    assert_eq!(trial.read("new"), "agent\n");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

/// Git writes the files before it finds that it cannot move the branch.
#[test]
fn a_checkout_follows_once_its_branch_is_not_locked_any_more() {
    let graph = "tasks:\n  - {id: a, priority: 1}\n  - {id: b}\n";
    let agent = "cat > /dev/null
        while [ $RALPH_TASK_ID = b ] && [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done
        echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", agent]);
    let lock = trial.root().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "checkout_waits");
    trial.leave("go");
    trial.wait_for_records(2, "completed");
    fs::remove_file(&lock).unwrap();
    run.end(&trial).graph_complete();
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert_eq!((trial.read("a.txt"), trial.read("b.txt")), ("w\n".into(), "w\n".into()));
    assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
}

/// Its index is damaged, or a filter fails: waiting does not help, and the end of the run does not.
#[test]
fn a_checkout_that_git_cannot_write_waits() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["rm", "--quiet", "--cached", "task-graph.yaml"]);
    trial.leave("go");
    run.end(&trial).graph_complete().stderr_has("`task-graph.yaml` is not in the index");
    trial.git(&["add", "task-graph.yaml"]);
    trial.run(["land"]).stdout("`main` has all that landed\n");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

/// The run does not write into the checkout but by what lands: git does there what it always does.
#[test]
fn a_person_may_switch_stash_and_commit_while_a_run_goes_on() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    trial.git(&["checkout", "--quiet", "--", "task-graph.yaml"]);
    trial.git(&["checkout", "--quiet", "-b", "side"]);
    trial.git(&["commit", "--quiet", "--allow-empty", "--message", "Mine"]);
    let mine = trial.git(&["rev-parse", "side"]);
    trial.leave("go");
    run.end(&trial).graph_complete();
    // The run is on its branch, wherever the checkout is.
    let status = trial.run(["status"]).out();
    assert!(status.contains("`git switch main`") && status.contains("2 of 2 complete"), "{status}");
    assert!(!status.contains("open now"), "{status}");
    assert_eq!((trial.status("a"), trial.status("b")), ("pending".into(), "pending".into()));
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    assert_eq!(
        (trial.git(&["status", "--porcelain"]), trial.git(&["rev-parse", "side"])),
        (String::new(), mine)
    );
    trial.git(&["checkout", "--quiet", "main"]);
    assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
}

/// The work is in the repository by then.
#[test]
fn work_that_landed_is_complete_although_its_slot_is_gone() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", HONEST]);
    let record = trial.sign("points").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "land.moved:1");
    trial.run(["run"]).code(-1);
    fs::remove_dir_all(trial.dir().join("repo.slots")).unwrap();
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run"]).graph_complete();
    assert_eq!(
        (trial.tasks("started"), trial.tasks("completed")),
        (vec!["a".into()], vec!["a".into()])
    );
    assert!(!trial.run(["show"]).out().contains("Not kept"));
}

/// The command says what it changed; the run sees the same in the file.
#[test]
fn a_command_during_a_run_has_one_line_for_a_change() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.run(["task-add", "Third", "--id", "c"]);
    trial.wait_for_records(2, "graph_loaded");
    trial.leave("go");
    run.end(&trial);
    let mut changed = trial.lines("status_changed");
    changed.retain(|line| line["task_id"] == "c" && line["old"].is_null());
    let causes: Vec<_> = changed.iter().map(|line| line["cause"].clone()).collect();
    assert_eq!(causes, ["command"]);
}

#[test]
fn what_a_killed_runs_verify_command_left_is_not_committed() {
    let agent = "cat > /dev/null; echo w > w.txt; git add -A; git commit -qm Work; \
                 \"$RALPH\" task-complete $RALPH_TASK_ID";
    let record = |trial: &TestProject| trial.sign("points").display().to_string();
    for point in ["verify.ended:1", "merge.intended:1"] {
        let trial = TestProject::new()
            .graph("tasks: [{id: a, verify: 'echo x > made.lock'}]\n")
            .command(["sh", "-c", agent]);
        let record = record(&trial);
        let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", point);
        trial.run(["run"]).code(-1);
        let trial = trial.env("RALPH_CRASH_POINT", "");
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.tasks("started"), ["a"]);
        let files = trial.git(&["ls-tree", "--name-only", "HEAD"]);
        assert!(files.contains("w.txt") && !files.contains("made.lock"), "{point}: {files}");
    }
}

/// A branch without the settings has no `verify` either.
#[test]
fn the_settings_of_a_run_are_not_those_of_a_branch_that_a_person_looks_at() {
    let trial = project();
    trial.git(&["checkout", "--quiet", "-b", "old", "HEAD"]);
    trial.git(&["rm", "--quiet", ".ralph/config.yaml"]);
    trial.git(&["commit", "--quiet", "--message", "Before `ralph init`"]);
    trial.git(&["checkout", "--quiet", "main"]);
    let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}verify: [touch checked]\n"));
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["checkout", "--quiet", "old"]);
    trial.leave("go");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    let verified = trial.lines("completed");
    assert!(
        verified.iter().all(|line| line["verify"][0]["command"] == "touch checked"),
        "{verified:?}"
    );
    assert_eq!(trial.lines("noticed").len(), 0);
}

/// Without them no verify command would run. A sparse checkout has not deleted them.
#[test]
fn a_run_without_the_settings_of_the_last_commit_is_refused() {
    let trial = project();
    trial.leave("go");
    trial.git(&["sparse-checkout", "set", "docs"]);
    assert!(!trial.root().join(".ralph/config.yaml").exists());
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.git(&["sparse-checkout", "disable"]);
    fs::remove_file(trial.root().join(".ralph/config.yaml")).unwrap();
    for words in [&["run"][..], &["doctor", "--quick"]] {
        let ran = trial.run(words).code(65).whole();
        assert!(ran.contains("`git checkout -- .ralph/config.yaml`"), "{ran}");
    }
    trial.git(&["checkout", "--", ".ralph/config.yaml"]);
    trial.run(["run"]).graph_complete();
}

/// A person is at work on its settings.
#[test]
fn a_run_waits_for_a_repository_that_cannot_be_read() {
    let agent = "cat > /dev/null; while [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done
        echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w; touch $RALPH_TASK_DIR/DONE";
    let trial = TestProject::new().graph(GRAPH).command(["sh", "-c", agent]);
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let settings = trial.read(".git/config");
    trial.write(".git/config", &format!("{settings}[broken"));
    trial.leave("go");
    trial.wait_for_records(1, "waiting");
    trial.write(".git/config", &settings);
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("started"), ["a", "b"]);
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

/// Nothing is made again in the place where the repository was.
#[test]
fn a_run_ends_when_its_repository_is_moved() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let (there, here) = (trial.dir().join("moved"), trial.root().to_owned());
    fs::rename(&here, &there).unwrap();
    run.end(&trial).code(74).stderr_has("run again where the repository is now");
    assert!(!here.exists(), "something was made again in the old place");
    fs::rename(&there, &here).unwrap();
    trial.leave("go");
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
}
