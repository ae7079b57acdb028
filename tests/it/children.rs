//! What an agent leaves running after its report is waited for; what one without a report leaves
//! is not.

use std::fs;

use rustix::process::Signal;

use crate::support::{Live, SETTINGS, Workspace, until, wait_for};

/// With this limit of the wait and whatever else is set.
fn stage(how: &str, wait: &str) -> Workspace {
    let settings =
        SETTINGS.replace("child_wait_timeout: 0s", &format!("child_wait_timeout: {wait}"));
    Workspace::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}, {id: b}]\n")
        .agent("parent")
        .env("HOW", how)
}

pub fn waits(trial: &Workspace) {
    until("the children are waited for", || {
        fs::read_to_string(trial.root().join("logs/ralph.jsonl"))
            .is_ok_and(|text| text.contains("\"waiting_for_children\""))
    });
}

fn waiting(how: &str) -> (Workspace, Live) {
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
        run.end(&trial)
            .stderr_has("the processes that a left running ended after [took]\n[time]  a complete");
        assert!(trial.sign("ended-near").exists() && trial.sign("ended-far").exists());
        assert_eq!(trial.tasks("children_ended"), ["a"]);
        assert_eq!(
            (trial.tasks("started"), trial.status("a")),
            (vec!["a".into()], "complete".into())
        );
        trial.nobody_is_left();
    }
}

#[test]
fn children_that_outstay_the_wait_are_named_and_ended() {
    let trial = stage("commit", "100ms");
    trial.run(["run", "--task", "a"]).stderr_has("of a did not end within [took] (sh, sh");
    let told = trial.lines("children_overdue").remove(0);
    assert_eq!(told["on_orphans"], "kill");
    assert!(told["children"].as_array().unwrap().contains(&"sh".into()), "{told}");
    let ended = trial.lines("completed").remove(0);
    assert!(ended["swept"].as_array().unwrap().contains(&"sh".into()), "{ended}");
    assert_eq!(trial.tasks("children_ended"), [""; 0]);
    trial.nobody_is_left();
    assert!(!trial.sign("ended-near").exists() && !trial.sign("ended-far").exists());
}

#[test]
fn children_that_may_stay_outlive_attempt_and_run() {
    let trial = stage("commit", "0s\non_orphans: leave");
    trial.run(["run"]).stderr_has("; left running, without supervision");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    assert_eq!(trial.lines("children_overdue")[0]["on_orphans"], "leave");
    assert_eq!(trial.lines("completed")[0].get("swept"), None);
    assert!(!trial.sign("ended-near").exists() && !trial.sign("ended-far").exists());
    trial.run(["run", "-q"]).whatever();
    trial.leave("open");
    wait_for(&trial.sign("ended-near"));
    wait_for(&trial.sign("ended-far"));
    trial.nobody_is_left();
}

#[test]
fn without_a_report_nobody_is_waited_for() {
    let trial = stage("silent", "10m");
    trial.run(["run", "--once", "--task", "a"]).code(1).whatever();
    assert_eq!(trial.tasks("waiting_for_children"), [""; 0]);
    trial.nobody_is_left();
}

#[test]
fn whatever_ends_an_attempt_ends_the_wait() {
    let (trial, run) = waiting("commit");
    run.signal(Signal::INT);
    run.end(&trial).whatever().code(130);
    trial.nobody_is_left();
    assert_eq!(trial.status("a"), "complete", "it was reported and committed");

    let (trial, run) = waiting("commit");
    trial.run(["stop", "--now"]).whatever();
    run.end(&trial).whatever();
    trial.nobody_is_left();

    let trial = stage("commit", "10m");
    trial
        .run(["run", "--task", "a", "--timeout", "2s"])
        .stderr_has("ending a: its limit of [took] is");
    assert_eq!(trial.tasks("children_ended"), [""; 0]);
    trial.nobody_is_left();
}

#[test]
fn a_run_that_dies_in_the_wait_takes_the_children_along() {
    let (trial, run) = waiting("done-file");
    run.kill();
    trial.nobody_is_left();
    trial.run(["run", "--task", "a"]).stderr_has("recovered attempt 1 at a");
    assert_eq!((trial.lines("started").len(), trial.status("a")), (1, "complete".into()));
}
