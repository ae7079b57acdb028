//! Limits: attempts of a run, time of an attempt.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::{DIAMOND, TestProject};

#[test]
fn the_limit_of_iterations_ends_a_run_with_two() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run", "-q", "--max-iterations", "2"]).whole(), @r"
    exit code 2
    --- stderr ---
    [time]  limit reached: 2 iterations (exit code 2)
    [time]  2 completed in 2 attempts, [took]; 2 of 4 complete
    [time]  landed (2 to review: `ralph review`, `ralph diff ID`):
    [time]    + start: Begin; 1 commit, 1 file, +1 -0, [took]
    [time]    + right: The right half; 1 commit, 1 file, +1 -0, [took]
    [time]  left: 2 (1 ready, 1 waiting)
    [time]    ○ left: The left half
    [time]    a run now would end between [time] and [time]: all is done
    [time]  next: `ralph run` continues
    ");
    assert_eq!(trial.tasks("completed"), ["start", "right"]);
    trial.run(["run", "--max-iterations=2"]).graph_complete();
}

#[test]
fn reaching_the_limit_with_the_last_task_is_complete() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--max-iterations", "4"]).graph_complete();
}

#[test]
fn a_limit_that_is_too_low_is_said_and_can_be_raised_afterwards() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    let said = trial.run(["run", "--max-iterations", "2"]).code(2).err();
    assert!(
        said.contains("limit reached: 2 iterations") && said.contains("`--max-iterations 50`"),
        "{said}"
    );
    trial
        .run(["resume", "--max-iterations", "2"])
        .code(2)
        .stderr_has("used its 2 attempts; `ralph resume --max-iterations N` with a higher N");
    trial.run(["resume", "--max-iterations", "4"]).graph_complete();
    let numbers: Vec<_> = trial.lines("started").iter().map(|it| it["iteration"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    trial.run(["resume", "--max-iterations", "9"]).stderr("warning: not paused\n");
}

#[test]
fn a_limit_holds_while_a_hook_or_a_commit_of_another_attempt_takes_long() {
    let settings = "jobs: 2\ntimeout: 2s\ngrace: 200ms\nterm_grace: 200ms\nstart_limit: 0\nrounds: 1\n\
                    max_attempts: 1\nproof: none\nhooks: {after_attempt: \"[ -e $TRIAL_DIR/hooked ] || \
                    { touch $TRIAL_DIR/hooked; sleep 8; }\"}\n";
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}, {id: c}]\n");
    let trial = trial.file(".ralph/config.yaml", settings);
    let agent = trial.dir().join("agent");
    let leave = "cat > /dev/null; [ $RALPH_TASK_ID = a ] || exec sleep 60; echo x > x; \"$RALPH\" task-complete a";
    trial.script(&agent, leave);
    let once = "[ -e \"$TRIAL_DIR/once\" ] || { touch \"$TRIAL_DIR/once\"; sleep 8; }";
    trial.hook("pre-commit", once);
    let trial = trial.command([agent.to_str().unwrap()]);
    trial.run(["run"]).code(3);
    assert!(trial.sign("once").exists() && trial.sign("hooked").exists());
    for task in ["b", "c"] {
        let all = trial.lines("failed");
        let ended = all.iter().find(|line| line["task_id"] == task).unwrap();
        assert!(ended["duration_seconds"].as_f64().unwrap() < 6.0, "{ended}");
    }
}

#[test]
fn the_default_limit_has_room_for_every_attempt_at_every_open_task() {
    let tasks: String = (0..20).map(|number| format!("  - id: t{number}\n")).collect();
    let graph = format!("tasks:\n{tasks}  - {{id: done, status: complete}}\n");
    let trial = TestProject::new().graph(&graph).agent("commit");
    for (number, max) in [(0, 60), (1, 57)] {
        let said = trial.run(["run", "--once"]).whole();
        assert!(!said.contains("at most") && !said.contains("warning"), "{said}");
        assert_eq!(trial.lines("loop_started")[number]["max_iterations"], max);
    }
}

#[test]
fn an_interrupted_attempt_uses_no_iteration() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    let run = trial.start_until(["run", "--max-iterations", "1"], "waiting-a");
    kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
    trial.wait_for_records(1, "interrupted");
    trial.leave("open");
    run.end(&trial).graph_complete().stderr_has("a started, attempt 2");
}

#[test]
fn over_fifty_iterations_are_warned_about() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial
        .run(["run", "--max-iterations", "51"])
        .stderr_has("warning: up to 51 iterations (over 50) may consume significant resources\n");
    let silent = trial.run(["run", "--max-iterations", "50"]).whole();
    assert!(!silent.contains("warning"), "{silent}");
}

#[test]
fn the_limit_may_come_from_the_environment_and_must_not_be_zero() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit").env("RALPH_MAX_ITERATIONS", "1");
    trial.run(["run"]).code(2);
    assert_eq!(trial.lines("loop_started")[0]["max_iterations"], 1);
    assert_eq!(trial.tasks("started"), ["start"]);
    trial.run(["run", "--max-iterations", "0"]).code(64).stderr_has("0 is not in 1..");
}

#[test]
fn once_is_one_attempt_with_its_result() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("completed"), ["start"]);
    let trial = trial.agent("fail");
    trial
        .run(["run", "--once"])
        .code(1)
        .stderr_has("stopped after one attempt (`--once`) (exit code 1)");
    assert_eq!(trial.lines("started").len(), 2);
    trial.run(["run", "--once", "--max-iterations", "3"]).code(64).stderr_has("cannot be used");
}

#[test]
fn a_task_has_its_own_limit_of_doing_nothing() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a, idle: 600ms, max_attempts: 1}]\n")
        .agent("sleepy");
    trial.run(["run", "--idle", "0s"]).code(3);
    trial.assert_record("failed", &json!({"outcome": "idle"}));
    trial.no_process_is_left();
}

#[test]
fn an_agent_past_its_limit_is_killed_with_its_group() {
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("hang");
    trial.run(["run", "--timeout", "1s"]).code(3);
    let ended = trial.lines("failed").remove(0);
    assert_eq!((&ended["verdict"], &ended["outcome"]), (&"timed-out".into(), &"timed_out".into()));
    assert_eq!(ended["limit_seconds"], 1);
    assert_eq!(trial.lines("terminating").len(), 1);
    assert_eq!(fs::read_to_string(trial.sign("hanging")).unwrap().split(' ').count(), 2);
    trial.no_process_is_left();
}

#[test]
fn a_task_may_have_its_own_limit() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a, max_attempts: 1, timeout: 300ms}]\n")
        .agent("sleepy");
    trial.run(["run"]).code(3);
    trial.assert_record("failed", &json!({"outcome": "timed_out"}));
    trial.no_process_is_left();
}

#[test]
fn the_time_limit_of_a_run_ends_its_attempts() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("sleepy");
    trial.run(["run", "--max-duration", "1s"]).code(2);
    trial.assert_record("stop_requested", &json!({"limit": "1.0s per run", "now": true}));
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    trial.no_process_is_left();
    trial.agent("commit").run(["run"]).graph_complete();
}

/// Also one that waits for the next try of a task.
#[test]
fn a_run_that_waits_ends_at_its_time_limit() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("fail");
    let words = ["run", "--max-duration", "2s"];
    let trial = trial.env("RALPH_MAX_ATTEMPTS", "100");
    trial.run(words).code(2);
    trial.assert_record("finished", &json!({"why": "limit reached: 2.0s per run"}));
}

#[test]
fn work_reported_and_committed_before_the_limit_counts() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("reported-then-gate");
    trial.run(["run", "--timeout", "5s"]).graph_complete();
    assert_eq!(trial.lines("completed")[0]["outcome"], "timed_out");
    trial.no_process_is_left();
}

#[test]
fn an_attempt_without_a_sign_of_life_is_ended() {
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("sleepy");
    trial.run(["run", "--idle", "1s"]).code(3);
    assert_eq!(trial.tasks("terminating"), ["a"]);
    let ended = trial.lines("failed").remove(0);
    assert_eq!((&ended["verdict"], &ended["outcome"]), (&"timed-out".into(), &"idle".into()));
    trial.no_process_is_left();
}

#[test]
fn changed_files_are_signs_of_life() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("plod");
    trial.run(["run", "--idle", "3s"]).graph_complete();
    assert!(trial.lines("terminating").is_empty());
}

#[test]
fn a_limit_without_a_unit_is_refused() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    insta::assert_snapshot!(trial.run(["run", "--timeout", "90"]).whole(), @r"
    exit code 64
    --- stderr ---
    error: invalid value '90' for '--timeout <TIME>': `90` is not a length of time; write `[took]`, `15m` or `2h`

    For more information, try '--help'.
    ");
}
