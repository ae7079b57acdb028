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

#[test]
fn stopping_an_attempt_ends_the_wait_for_children() {
    let (trial, run) = waiting("commit");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
    trial.no_process_is_left();
    assert_eq!(trial.status("a"), "complete", "it was reported and committed");

    let (trial, run) = waiting("commit");
    trial.run(["stop", "--now"]);
    run.end(&trial);
    trial.no_process_is_left();

    let trial = stage("commit", "10m");
    trial.run(["run", "--task", "a", "--timeout", "2s"]).graph_complete();
    assert_eq!(trial.tasks("terminating"), ["a"]);
    assert_eq!(trial.tasks("children_ended"), [""; 0]);
    trial.no_process_is_left();
}

#[test]
fn children_end_with_a_run_killed_during_the_wait() {
    let (trial, run) = waiting("done-file");
    run.kill();
    trial.no_process_is_left();
    trial.run(["run", "--task", "a"]).graph_complete();
    assert_eq!(trial.tasks("recovered"), ["a"]);
    assert_eq!((trial.lines("started").len(), trial.status("a")), (1, "complete".into()));
}
