//! Processes that an agent leaves running: `ralph` waits for them after a report, and not without
//! one.

use std::fs;

use rustix::process::Signal;

use crate::support::{Live, SETTINGS, TestProject, until, wait_for};

/// A project with this limit of the wait, and more settings.
fn stage(how: &str, wait: &str) -> TestProject {
    let settings =
        SETTINGS.replace("child_wait_timeout: 0s", &format!("child_wait_timeout: {wait}"));
    TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}, {id: b}]\n")
        .agent("parent")
        .env("HOW", how)
}

pub fn waits(trial: &TestProject) {
    until("the children are waited for", || {
        fs::read_to_string(trial.root().join("logs/ralph.jsonl"))
            .is_ok_and(|text| text.contains("\"waiting_for_children\""))
    });
}

fn waiting(how: &str) -> (TestProject, Live) {
    let trial = stage(how, "10m");
    let run = trial.start(["run", "--task", "a"]);
    waits(&trial);
    (trial, run)
}

#[test]
fn children_are_waited_for_after_each_kind_of_report() {
    for how in ["commit", "done-file"] {
        let (trial, run) = waiting(how);
        let told = trial.lines("waiting_for_children").remove(0);
        let names = told["children"].as_array().unwrap();
        assert!(names.iter().filter(|name| **name == "sh").count() >= 2, "{names:?}");
        assert_eq!((&told["task_id"], &told["limit_seconds"]), (&"a".into(), &600.0.into()));
        assert_eq!(trial.tasks("completed"), [""; 0]);
        trial.leave("open");
        run.end(&trial).graph_complete();
        assert!(trial.sign("ended-near").exists() && trial.sign("ended-far").exists());
        assert_eq!(trial.tasks("children_ended"), ["a"]);
        assert_eq!(
            (trial.tasks("started"), trial.status("a")),
            (vec!["a".into()], "complete".into())
        );
        trial.no_process_is_left();
    }
}

#[test]
fn children_past_the_wait_limit_are_named_and_ended() {
    let trial = stage("commit", "100ms");
    trial.run(["run", "--task", "a"]).graph_complete();
    let told = trial.lines("children_overdue").remove(0);
    assert_eq!(told["on_orphans"], "kill");
    assert!(told["children"].as_array().unwrap().contains(&"sh".into()), "{told}");
    let ended = trial.lines("completed").remove(0);
    assert!(ended["swept"].as_array().unwrap().contains(&"sh".into()), "{ended}");
    assert_eq!(trial.tasks("children_ended"), [""; 0]);
    trial.no_process_is_left();
    assert!(!trial.sign("ended-near").exists() && !trial.sign("ended-far").exists());
}

#[test]
fn children_that_may_stay_outlive_attempt_and_run() {
    let trial = stage("commit", "0s\non_orphans: leave");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    assert_eq!(trial.lines("children_overdue")[0]["on_orphans"], "leave");
    assert_eq!(trial.lines("completed")[0].get("swept"), None);
    assert!(!trial.sign("ended-near").exists() && !trial.sign("ended-far").exists());
    trial.run(["run", "-q"]);
    trial.leave("open");
    wait_for(&trial.sign("ended-near"));
    wait_for(&trial.sign("ended-far"));
    trial.no_process_is_left();
}

#[test]
fn children_are_not_waited_for_without_a_report() {
    let trial = stage("silent", "10m");
    trial.run(["run", "--once", "--task", "a"]).code(1);
    assert_eq!(trial.tasks("waiting_for_children"), [""; 0]);
    trial.no_process_is_left();
}

/// Expects that the attempt at `a` was interrupted although it had reported, and is not counted.
fn is_interrupted(trial: &TestProject, verdict: &str) {
    let ended = trial.lines("interrupted").remove(0);
    assert_eq!((&ended["task_id"], &ended["verdict"]), (&"a".into(), &verdict.into()));
    assert!(ended["report"].is_string(), "{ended}");
    assert_eq!(trial.tasks("completed"), [""; 0]);
    assert_eq!(trial.status("a"), "pending");
}

#[test]
fn stopping_a_run_interrupts_an_attempt_whose_children_are_waited_for() {
    for how in ["commit", "done-file"] {
        let (trial, run) = waiting(how);
        run.signal(Signal::INT);
        run.end(&trial).code(130);
        trial.no_process_is_left();
        is_interrupted(&trial, "cancelled");
        // Its own file does not report for the next attempt.
        let trial = trial.agent("silent");
        trial.run(["run", "--task", "a", "--once"]).code(1);
    }

    let (trial, run) = waiting("commit");
    trial.run(["stop", "--now"]);
    run.end(&trial).code(4);
    trial.no_process_is_left();
    is_interrupted(&trial, "cancelled");
}

#[test]
fn a_time_limit_ends_the_wait_for_children_and_the_report_counts() {
    let trial = stage("commit", "10m");
    trial.run(["run", "--task", "a", "--timeout", "2s"]).graph_complete();
    assert_eq!(trial.tasks("terminating"), ["a"]);
    assert_eq!(trial.tasks("children_ended"), [""; 0]);
    trial.no_process_is_left();
}

#[test]
fn a_kill_during_the_wait_for_children_interrupts_the_attempt() {
    for how in ["commit", "done-file"] {
        let (trial, run) = waiting(how);
        run.kill();
        trial.no_process_is_left();
        let trial = trial.agent("fail");
        trial.run(["run", "--task", "a", "--once"]).code(1);
        assert_eq!(trial.tasks("recovered"), ["a"]);
        is_interrupted(&trial, "interrupted");
        let trial = trial.agent("commit");
        trial.run(["run", "--task", "a"]).graph_complete();
        assert_eq!(trial.lines("completed")[0]["attempt"], 3);
    }
}

#[test]
fn a_stop_that_is_killed_before_its_end_is_remembered() {
    // The guardian cannot end the children before the run is dead.
    let settings = SETTINGS
        .replace("child_wait_timeout: 0s", "child_wait_timeout: 10m")
        .replace("grace: 200ms", "grace: 10m");
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}]\n")
        .agent("parent")
        .env("HOW", "commit");
    let run = trial.start(["run"]);
    waits(&trial);
    run.signal(Signal::INT);
    trial.wait_for_records(1, "stop_requested");
    run.kill();
    trial.no_process_is_left();
    let trial = trial.agent("fail");
    trial.run(["run", "--once"]).code(1);
    is_interrupted(&trial, "interrupted");
}

#[test]
fn an_attempt_whose_processes_had_all_ended_is_judged_after_a_kill() {
    let settings = SETTINGS.replace("child_wait_timeout: 0s", "child_wait_timeout: 10m")
        + "verify: touch \"$TRIAL_DIR/verifying\"; until [ -e \"$TRIAL_DIR/verified\" ]; \
           do sleep 0.05; done\n";
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}]\n")
        .agent("parent")
        .env("HOW", "commit");
    let run = trial.start(["run"]);
    waits(&trial);
    trial.leave("open");
    wait_for(&trial.sign("verifying"));
    run.kill();
    trial.leave("verified");
    let trial = trial.agent("fail");
    trial.run(["run"]).graph_complete();
    assert_eq!(
        (trial.tasks("recovered"), trial.tasks("started")),
        (vec!["a".into()], vec!["a".into()])
    );
}
