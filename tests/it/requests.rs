//! `ralph pause`, `resume`, `stop`, `status`: what is asked of a run from another terminal.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Live, SETTINGS, Workspace, until};

const THREE: &str = "tasks: [{id: a}, {id: b}, {id: c}]\n";

/// A run whose agent waits for the sign `open` at its first task.
fn gated() -> (Workspace, Live) {
    let trial = Workspace::new().graph(THREE).agent("gate");
    let run = trial.start_until(["run", "--max-iterations", "7", "--timeout", "40m"], "waiting-a");
    (trial, run)
}

fn status(trial: &Workspace) -> Value {
    trial.run(["status", "--json"]).json()
}

#[test]
fn a_paused_run_finishes_its_attempt_and_resume_continues_the_count() {
    let (trial, run) = gated();
    let pausing = "pausing: the running attempt finishes, and no other starts until `ralph \
                   resume`\n";
    trial.run(["pause"]).stdout(pausing);
    trial.run(["pause"]).stderr("warning: already paused\n");
    until("it is told", || run.said().contains("paused: no other attempt starts"));
    assert_eq!(status(&trial)["status"], "pausing");
    trial.leave("open");
    run.end(&trial).code(4).stderr_has("paused; `ralph resume` goes on (exit code 4)");
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(status(&trial)["status"], "paused");

    let refused = "ralph: error: paused; `ralph resume` goes on\n";
    trial.run(["run"]).code(4).stderr(refused);
    assert_eq!(trial.lines("loop_started").len(), 1);

    let said = trial.run(["resume"]).whole();
    assert!(
        said.contains("Iteration 2 of 7 · b") && said.contains("Iteration 3 of 7 · c"),
        "{said}"
    );
    assert!(said.contains("2 completed in 2 attempts"), "{said}");
    let (first, second) = (&trial.lines("loop_started")[0], &trial.lines("loop_started")[1]);
    assert_eq!((&first["before"], &second["before"]), (&Value::Null, &json!(1)));
    for field in ["agent", "max_iterations", "timeout_seconds", "idle_seconds", "filter"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(first["timeout_seconds"], 2400.0);
    trial.run(["resume"]).stderr("warning: not paused\n");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
}

#[test]
fn the_count_of_a_resumed_run_ends_at_the_limit_of_the_paused_one() {
    let trial = Workspace::new().graph(THREE).agent("gate");
    let tagged = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n".replace('}', ", tags: [t]}");
    let trial = trial.file("other.yaml", &tagged.replace("b, tags: [t]", "b"));
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    let words = ["run", "--graph", "other.yaml", "--max-iterations", "2", "--tag", "t"];
    let run = trial.start_until(words, "waiting-a");
    trial.run(["pause"]).whatever();
    trial.leave("open");
    run.end(&trial).code(4).whatever();
    trial.run(["resume"]).code(2).stderr_has("the limit of 2 iterations reached");
    assert_eq!(trial.tasks("completed"), ["a", "c"], "the filter holds, and so does the graph");
    assert_eq!(trial.lines("finished")[1]["iterations"], 1);
}

#[test]
fn a_run_that_is_resumed_before_its_attempt_ends_just_goes_on() {
    let (trial, run) = gated();
    trial.run(["pause"]).whatever();
    until("it is told", || run.said().contains("paused:"));
    trial.run(["resume"]).stdout("resumed: the run goes on\n");
    trial.leave("open");
    run.end(&trial).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.lines("loop_started").len(), 1);
}

/// How long a run that waits for time to pass takes to obey.
fn obeyed(trial: &Workspace, run: Live, request: &str, why: &str) {
    let began = Instant::now();
    trial.run([request]).whatever();
    run.end(trial).code(4).stderr_has(why);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_run_that_waits_for_others_obeys_at_once() {
    for (request, why) in [("pause", "paused; `ralph resume`"), ("stop", "stopped by `ralph stop`")]
    {
        let trial = Workspace::new().graph("tasks: [{id: a, status: in-progress}]\n");
        let trial = trial.agent("commit");
        let run = trial.start(["run", "--wait"]);
        until("it waits", || run.said().contains("waiting until"));
        obeyed(&trial, run, request, why);
    }
}

#[test]
fn a_run_that_backs_off_pauses() {
    // The fourth failure backs off for eight seconds.
    let trial = Workspace::new().graph("tasks: [{id: a, max_attempts: 9}]\n").agent("fail");
    let run = trial.start(["run"]);
    until("it backs off", || run.said().matches("waiting until").count() == 4);
    obeyed(&trial, run, "pause", "paused; `ralph resume` goes on");
    assert_eq!(trial.lines("started").len(), 4);
}

#[test]
fn a_pause_without_a_run_holds_the_next() {
    let trial = Workspace::new().graph(THREE).agent("commit");
    trial.run(["resume"]).stderr("warning: not paused\n");
    trial.run(["pause"]).stdout("paused: no run goes on, and none starts until `ralph resume`\n");
    trial.run(["status"]).stdout("Status: paused: `ralph resume` continues\n");
    trial.run(["run"]).code(4).whatever();
    trial.run(["resume"]).stdout("resumed: there was no run; `ralph run` starts one\n");
    trial.run(["run", "--once"]).whatever();
    // A run that ended by itself is over: another such begins.
    trial.run(["pause"]).whatever();
    trial.run(["resume"]).stderr_has("one attempt, as asked (exit code 0)");
    assert_eq!(trial.lines("loop_started")[1].get("before"), None);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_stopped_run_finishes_its_attempt() {
    let (trial, run) = gated();
    let said = "stopping when the running attempt ends; `ralph stop --now` ends it\n";
    trial.run(["stop"]).stdout(said);
    until("it is told", || run.said().contains("`ralph stop`: stopping when the attempt ends"));
    assert_eq!(status(&trial)["status"], "stopping");
    trial.leave("open");
    run.end(&trial).code(4).stderr_has("stopped by `ralph stop` (exit code 4)");
    assert_eq!(trial.tasks("started"), ["a"]);
    assert_eq!(trial.status("a"), "complete");
    trial.run(["stop"]).stdout("no run goes on here\n");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
}

#[test]
fn a_run_stopped_now_ends_its_attempt_and_does_not_count_it() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("sleepy");
    trial.run(["stop", "--now"]).stdout("no run goes on here\n");
    assert!(!trial.root().join("logs").exists());
    let run = trial.start_until(["run"], "asleep");
    trial.run(["stop"]).whatever();
    trial
        .run(["stop", "--now"])
        .stdout("stopping: the running attempt is ended, and does not count\n");
    run.end(&trial).code(4).stderr_has("a cancelled after [took]: ended by ralph");
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    assert_eq!(trial.status("a"), "pending");
    trial.nobody_is_left();
}

#[test]
fn term_lets_the_attempt_finish() {
    let settings = SETTINGS.replace("term_grace: 200ms", "term_grace: 10m");
    let trial = Workspace::new().file(".ralph/config.yaml", &settings).graph(THREE).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    run.signal(Signal::TERM);
    until("it is told", || run.said().contains("SIGTERM: stopping when the attempt ends"));
    assert_eq!(status(&trial)["status"], "stopping");
    trial.leave("open");
    run.end(&trial).code(143).stderr_has("stopped by SIGTERM (exit code 143)");
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_second_term_does_not_wait() {
    let settings = SETTINGS.replace("term_grace: 200ms", "term_grace: 10m");
    let trial = Workspace::new().file(".ralph/config.yaml", &settings).graph(THREE).agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::TERM);
    until("it is told", || run.said().contains("SIGTERM: stopping"));
    run.signal(Signal::TERM);
    run.end(&trial).code(143).whatever();
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    trial.nobody_is_left();
}

#[test]
fn the_status_tells_how_a_run_stands() {
    let trial = Workspace::new().graph(THREE).agent("gate");
    trial.run(["status"]).stdout("Status: none: no run yet; `ralph run` starts one\n");
    assert!(!trial.root().join("logs").exists());
    let run = trial.start_until(["run"], "waiting-a");
    let shown = trial.run(["status"]).out();
    let shown: String = shown
        .lines()
        .filter(|line| !line.starts_with("Started: "))
        .map(|line| line.to_owned() + "\n")
        .collect();
    insta::assert_snapshot!(shown, @r"
    Status: running
    Run: [run], process [pid]
    Iteration: 1 of 50
    Current attempt: a, attempt 1, since [time], for [took]
    Failures in a row: 0
    Failures in this run: 0
    Completed in this run: 0
    Timeout: 2h
    Idle limit: 15m
    Attempts per task: at most 3
    Agent: [agents]/gate
    Last beat: [took] ago
    ");
    let said = status(&trial);
    assert_eq!(said["attempts"][0]["task_id"], "a");
    assert_eq!((&said["status"], &said["iteration"]), (&json!("running"), &json!(1)));
    let limits = json!({ "timeout_seconds": 7200.0, "idle_seconds": 900.0, "max_iterations": 50,
                         "max_attempts": 3 });
    assert_eq!(said["limits"], limits);
    trial.leave("open");
    run.end(&trial).whatever();
    let said = status(&trial);
    assert_eq!((&said["status"], &said["completed"]), (&json!("finished"), &json!(3)));
    assert_eq!((&said["why"], &said["attempts"]), (&json!("the graph is complete"), &json!([])));
    trial.run(["status"]).stdout_has("Status: finished: the graph is complete\n");
}

#[test]
fn the_status_of_a_killed_run_is_crashed() {
    let (trial, run) = gated();
    run.kill();
    until("its guardian is gone", || status(&trial)["status"] == "crashed");
    let crashed = "Status: crashed: the last run exited unexpectedly; \
                   `ralph run` continues it\n";
    trial.run(["status"]).stdout_has(crashed).stdout_has("Current attempt: a, attempt 1, since ");
    trial.run(["stop"]).stdout("no run goes on here\n");
    trial.run(["pause"]).whatever();
    trial.run(["status"]).stdout_has("it is also paused, and `ralph resume` continues");
    trial.leave("open");
    let said = trial.run(["resume"]).whole();
    assert!(
        said.contains("recovered attempt 1 at a") && said.contains("Iteration 2 of 7"),
        "{said}"
    );
    assert_eq!(status(&trial)["status"], "finished");
}
