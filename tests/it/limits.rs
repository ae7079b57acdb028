//! Limits: attempts of a run, time of an attempt.

use std::fs;

use crate::support::{DIAMOND, Workspace};

#[test]
fn the_limit_of_iterations_ends_a_run_with_two() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run", "-q", "--max-iterations", "2"]).whole(), @r"
    exit code 2
    --- stderr ---
    [time]  the limit of 2 iterations reached (exit code 2)
    [time]  2 completed in 2 attempts, [took]; 2 of 4 complete
    [time]    + start: [commit] Work on start
    [time]    + right: [commit] Work on right
    [time]  left:
    [time]    1 ready: left
    [time]    1 waiting
    ");
    assert_eq!(trial.tasks("completed"), ["start", "right"]);
    trial.run(["run", "--max-iterations=2"]).stderr_has("the graph is complete (exit code 0)");
}

#[test]
fn reaching_the_limit_with_the_last_task_is_complete() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--max-iterations", "4"]).stderr_has("the graph is complete (exit code 0)");
}

#[test]
fn over_fifty_iterations_are_warned_about() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial
        .run(["run", "--max-iterations", "51"])
        .stderr_has("warning: up to 51 iterations (over 50) may consume significant resources\n");
    let silent = trial.run(["run", "--max-iterations", "50"]).whole();
    assert!(!silent.contains("warning"), "{silent}");
}

#[test]
fn the_limit_may_come_from_the_environment_and_not_be_nought() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit").env("RALPH_MAX_ITERATIONS", "1");
    trial.run(["run"]).code(2).stderr_has("the limit of 1 iteration reached (exit code 2)");
    trial.run(["run", "--max-iterations", "0"]).code(64).stderr_has("0 is not in 1..");
}

#[test]
fn once_is_one_attempt_with_its_result() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--once"]).stderr_has("one attempt, as asked (exit code 0)");
    let trial = trial.agent("fail");
    trial.run(["run", "--once"]).code(1).stderr_has("one attempt, as asked (exit code 1)");
    assert_eq!(trial.lines("started").len(), 2);
    trial.run(["run", "--once", "--max-iterations", "3"]).code(64).stderr_has("cannot be used");
}

#[test]
fn a_task_has_its_own_limit_of_doing_nothing() {
    let trial =
        Workspace::new().graph("tasks: [{id: a, idle: 600ms, max_attempts: 1}]\n").agent("sleepy");
    trial.run(["run", "--idle", "0s"]).code(3).stderr_has("ending a: it did nothing for [took]");
    trial.nobody_is_left();
}

#[test]
fn an_agent_past_its_limit_is_killed_with_its_group() {
    let trial = Workspace::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("hang");
    insta::assert_snapshot!(trial.run(["run", "--timeout", "1s"]).whole(), @r"
    exit code 3
    --- stderr ---
    [time]  1 task, 0 complete
    [time]  Iteration 1 of 50 · a · P2 · attempt 1
    [time]    a
    [time]  ending a: its limit of [took] is reached
    [time]  a timed-out after [took]: ended by ralph at its limit of [took]
    [time]    1 of 1 attempts used; output in logs/attempts/a/1
    [time]  a is parked after 1 attempt; `ralph task-reset a` gives it new ones
    [time]  everything left is blocked (exit code 3)
    [time]  0 completed in 1 attempt, [took]; 0 of 1 complete
    [time]  left:
    [time]    - a: parked after 1 attempt
    [time]    next: look at it with `ralph dag-status`, then `ralph task-reset a`
    ");
    let ended = trial.lines("failed").remove(0);
    assert_eq!((&ended["verdict"], &ended["outcome"]), (&"timed-out".into(), &"timed_out".into()));
    assert_eq!(ended["limit_seconds"], 1);
    assert_eq!(trial.lines("terminating").len(), 1);
    assert_eq!(fs::read_to_string(trial.sign("hanging")).unwrap().split(' ').count(), 2);
    trial.nobody_is_left();
}

#[test]
fn a_task_may_have_its_own_limit() {
    let trial = Workspace::new()
        .graph("tasks: [{id: a, max_attempts: 1, timeout: 300ms}]\n")
        .agent("sleepy");
    trial.run(["run"]).code(3).stderr_has("a timed-out after");
    trial.nobody_is_left();
}

#[test]
fn work_reported_and_committed_before_the_limit_counts() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("reported-then-gate");
    trial.run(["run", "--timeout", "5s"]).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.lines("completed")[0]["outcome"], "timed_out");
    trial.nobody_is_left();
}

#[test]
fn an_attempt_without_a_sign_of_life_is_ended() {
    let trial = Workspace::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("sleepy");
    trial.run(["run", "--idle", "1s"]).code(3).stderr_has("ending a: it did nothing for [took]");
    let ended = trial.lines("failed").remove(0);
    assert_eq!((&ended["verdict"], &ended["outcome"]), (&"timed-out".into(), &"idle".into()));
    trial.nobody_is_left();
}

#[test]
fn changed_files_are_signs_of_life() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("plod");
    trial.run(["run", "--idle", "3s"]).stderr_has("the graph is complete (exit code 0)");
    assert!(trial.lines("terminating").is_empty());
}

#[test]
fn a_limit_without_a_unit_is_refused() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run", "--timeout", "90"]).whole(), @r"
    exit code 64
    --- stderr ---
    error: invalid value '90' for '--timeout <TIME>': `90` is not a length of time; write `[took]`, `15m` or `2h`

    For more information, try '--help'.
    ");
}
