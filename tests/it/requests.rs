//! `ralph pause`, `resume`, `stop` and `status`: requests to a run from another terminal.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Live, SETTINGS, TestProject, until};

const THREE: &str = "tasks: [{id: a}, {id: b}, {id: c}]\n";

/// A run whose agent waits for the file `open` at its first task.
fn gated() -> (TestProject, Live) {
    let trial = TestProject::new().graph(THREE).agent("gate");
    let run = trial.start_until(["run", "--max-iterations", "7", "--timeout", "40m"], "waiting-a");
    (trial, run)
}

fn status(trial: &TestProject) -> Value {
    trial.run(["status", "--json"]).json()
}

#[test]
fn a_run_with_invalid_settings_can_be_watched_and_stopped() {
    let (trial, run) = gated();
    let settings = trial.root().join(".ralph/config.yaml");
    let valid = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{valid}timeuot: 1m\n")).unwrap();
    let warning = "warning: the settings are invalid, so this uses the defaults; `ralph check` \
                   shows why\n";
    for words in [&["status"][..], &["logs"], &["heartbeat"], &["pause"], &["stop", "--now"]] {
        trial.run(words).code(0).stderr(warning);
    }
    trial.run(["config"]).code(65);
    run.end(&trial).code(4);
    assert_eq!(trial.tasks("completed"), [""; 0]);
}

#[test]
fn a_paused_run_finishes_its_attempt_and_resume_continues_the_count() {
    let (trial, run) = gated();
    let pausing = "pausing: running attempts finish, and none starts until `ralph resume`\n";
    trial.run(["pause"]).stdout(pausing);
    trial.run(["pause"]).stderr("warning: already paused\n");
    until("it is told", || run.said().contains("paused: no new attempt starts"));
    assert_eq!(status(&trial)["status"], "pausing");
    trial.leave("open");
    run.end(&trial).code(4);
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(status(&trial)["status"], "paused");

    let refused = "ralph: error: paused; `ralph resume` continues\n";
    trial.run(["run"]).code(4).stderr(refused);
    assert_eq!(trial.lines("loop_started").len(), 1);

    trial.run(["resume"]).graph_complete();
    trial.assert_record("started", &json!({"task_id": "b", "iteration": 2}));
    trial.assert_record("started", &json!({"task_id": "c", "iteration": 3}));
    trial.assert_record("finished", &json!({"completed": 2, "iterations": 2}));
    let (first, second) = (&trial.lines("loop_started")[0], &trial.lines("loop_started")[1]);
    assert_eq!((&first["before"], &second["before"]), (&Value::Null, &json!(1)));
    for field in ["agent", "max_iterations", "timeout_seconds", "idle_seconds", "filter"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert_eq!(first["timeout_seconds"], 2400.0);
    trial.run(["resume"]).stderr("warning: not paused\n");
    let said = status(&trial);
    let counts = (&said["iteration"], &said["runs"], &said["completed"]);
    assert_eq!(counts, (&json!(3), &json!(2), &json!(3)));
    assert_eq!(said["spend"]["attempts"], 3);
    trial.run(["status"]).stdout_has("\n3 completed in 3 attempts, ");
    let paused = trial.run(["status", "--run", "2", "--json"]).json();
    assert_eq!(
        (&paused["status"], &paused["paused"], &paused["why"]),
        (&json!("finished"), &json!(false), &json!("paused"))
    );
    trial.run(["run"]).graph_complete();
}

#[test]
fn the_count_of_a_resumed_run_ends_at_the_limit_of_the_paused_one() {
    let trial = TestProject::new().graph(THREE).agent("gate");
    let tagged = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n".replace('}', ", tags: [t]}");
    let trial = trial.file("other.yaml", &tagged.replace("b, tags: [t]", "b"));
    fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
    let words = ["run", "--graph", "other.yaml", "--max-iterations", "2", "--tag", "t"];
    let run = trial.start_until(words, "waiting-a");
    trial.run(["pause"]);
    trial.leave("open");
    run.end(&trial).code(4);
    trial.run(["resume"]).code(2);
    assert_eq!(trial.tasks("completed"), ["a", "c"], "the filter holds, and so does the graph");
    assert_eq!(trial.lines("finished")[1]["iterations"], 1);
}

#[test]
fn a_run_that_is_resumed_before_its_attempt_ends_just_goes_on() {
    let (trial, run) = gated();
    trial.run(["pause"]);
    until("it is told", || run.said().contains("paused:"));
    trial.run(["resume"]);
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("loop_started").len(), 1);
}

/// A run that waits for time to pass ends at this request.
fn obeyed(trial: &TestProject, run: Live, request: &str) {
    trial.run([request]);
    run.end(trial).code(4);
    assert_eq!(trial.lines(&format!("{request}_requested")).len(), 1);
}

#[test]
fn a_waiting_run_handles_requests_at_once() {
    for request in ["pause", "stop"] {
        let trial = TestProject::new().graph("tasks: [{id: a, status: in-progress}]\n");
        let trial = trial.agent("commit");
        let run = trial.start(["run", "--wait"]);
        trial.wait_for_records(1, "waiting");
        obeyed(&trial, run, request);
    }
}

#[test]
fn a_run_that_backs_off_pauses() {
    // The fourth failure backs off for eight seconds.
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 9}]\n").agent("fail");
    let run = trial.start(["run"]);
    trial.wait_for_records(4, "waiting");
    obeyed(&trial, run, "pause");
    assert_eq!(trial.lines("started").len(), 4);
}

#[test]
fn a_pause_without_a_run_holds_the_next() {
    let trial = TestProject::new().graph(THREE).agent("commit");
    trial.run(["resume"]);
    assert!(!trial.root().join("logs").exists(), "there is nothing to resume");
    trial
        .run(["pause"])
        .stdout("paused: no run is active, and no attempt starts until `ralph resume`\n");
    assert_eq!(status(&trial)["status"], "paused");
    trial.run(["run"]).code(4);
    trial.run(["resume"]).stdout("resumed: no run to continue; `ralph run` starts one\n");
    trial.run(["run", "--once"]);
    // A run that ended by itself is not continued.
    trial.run(["pause"]);
    let none = "resumed: the last run has ended; `ralph run` starts one\n";
    trial.run(["resume"]).stdout(none);
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.run(["run", "--once"]).code(0);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_run_that_was_killed_is_continued() {
    let (trial, run) = gated();
    run.kill();
    trial.leave("open");
    trial.run(["resume"]).graph_complete();
    assert_eq!(trial.lines("loop_started")[1]["flags"], trial.lines("loop_started")[0]["flags"]);
}

#[test]
fn a_paused_run_goes_on_with_new_limits() {
    let (trial, run) = gated();
    trial.run(["pause"]);
    trial.run(["resume", "--max-iterations", "2"]).code(64).stderr_has("keeps its limits");
    trial.leave("open");
    run.end(&trial).code(4);
    trial.run(["resume", "--max-iterations", "2", "--max-cost", "3.5"]).code(2);
    let flags = &trial.lines("loop_started")[1]["flags"];
    let want = json!({"max_iterations": 2, "max_cost": 3.5, "timeout": "40m"});
    assert_eq!(flags, &want);
    assert_eq!(trial.tasks("completed"), ["a", "b"], "the count continues");
}

#[test]
fn stop_ends_a_paused_run() {
    let (trial, run) = gated();
    trial.run(["pause"]);
    trial.leave("open");
    run.end(&trial).code(4);
    assert_eq!(status(&trial)["status"], "paused");
    trial.run(["stop"]).stdout("stopped: no longer paused; `ralph run` starts another run\n");
    let said = status(&trial);
    assert_eq!(
        (&said["status"], &said["why"]),
        (&json!("finished"), &json!("stopped by `ralph stop`"))
    );
    trial.run(["stop"]).stdout("no run is active\n");
    trial.run(["run"]).graph_complete();
    trial.run(["resume"]).stderr("warning: not paused\n");
    let earlier = trial.run(["status", "--run", "2", "--json"]).json();
    for field in ["status", "why", "exit_code", "completed", "iteration"] {
        assert_eq!(earlier[field], said[field], "{field}");
    }
}

#[test]
fn a_run_says_how_to_lift_a_pause_in_which_none_waits() {
    let trial = TestProject::new().graph(THREE).agent("commit");
    for completed in [0, 1] {
        trial.run(["pause"]);
        trial.run(["run"]).code(4).stderr(
            "ralph: error: paused; `ralph resume` lifts the pause, then `ralph run` starts a run\n",
        );
        trial.run(["resume"]).stdout_has("resumed: ").stdout_has("`ralph run` starts one");
        assert_eq!(trial.completions().len(), completed);
        trial.run(["run", "--once"]);
    }
}

/// What has passed lands, and the commit says that its task is complete.
#[test]
fn work_lands_in_a_pause_while_the_graph_is_broken() {
    let (trial, run) = gated();
    trial.save("task-graph.yaml", "tasks: [{id: \n");
    trial.run(["pause"]);
    until("it is told", || run.said().contains("paused:"));
    trial.leave("open");
    run.end(&trial).code(4);
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(status(&trial)["merge_queue"]["waiting"], json!([]));
    assert_eq!(trial.lines("checkout_waits")[0]["tasks"], json!(["a"]), "its file does not fit");
    assert_eq!(trial.read("task-graph.yaml"), "tasks: [{id: \n");
    trial.save("task-graph.yaml", THREE);
    trial.run(["resume"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    assert_eq!(trial.completions().len(), 3);
}

/// The next run closes the attempt that a killed run left open, and nothing of it stays open.
#[test]
fn an_earlier_run_that_was_killed_has_no_open_attempt() {
    let (trial, run) = gated();
    run.kill();
    trial.no_process_is_left();
    let crashed = status(&trial);
    assert_eq!(
        (&crashed["status"], &crashed["attempts"][0]["task_id"]),
        (&"crashed".into(), &"a".into())
    );
    trial.leave("open");
    trial.run(["run"]).graph_complete();
    let said = trial.run(["status", "--run", "2", "--json"]).json();
    assert_eq!((&said["status"], &said["attempts"]), (&json!("crashed"), &json!([])));
    assert_eq!((&said["iteration"], &said["completed"]), (&json!(1), &json!(0)));
    let text = trial.run(["status", "--run", "2"]).out();
    assert!(text.starts_with("Status: crashed: it exited unexpectedly, and another"), "{text}");
    assert!(!text.contains("Current attempt") && !text.contains("`ralph run`"), "{text}");
}

#[test]
fn a_stop_while_pausing_leaves_no_pause() {
    let (trial, run) = gated();
    trial.run(["pause"]);
    trial.run(["stop"]);
    trial.leave("open");
    run.end(&trial).code(4);
    assert_eq!(status(&trial)["status"], "finished");
    trial.run(["run"]).graph_complete();
}

#[test]
fn the_status_says_what_a_run_waits_for_and_what_it_completed() {
    let graph = "tasks: [{id: a}, {id: bad, max_attempts: 9, depends_on: [a]}]\n";
    let trial = TestProject::new().graph(graph).agent("fail-some");
    let run = trial.start(["run"]);
    // The fourth failure backs off for eight seconds.
    trial.wait_for_records(4, "waiting");
    let said = status(&trial);
    assert_eq!(said["landed"][0]["id"], "a");
    assert_eq!(said["waiting"]["why"], "retrying after a failure");
    let shown = trial.run(["status"]).stdout_has("1 completed in ").out();
    let waits = |text: &str| text.contains("aiting until ") && text.contains(": retrying after");
    assert!(shown.contains("\nWaiting: until ") && shown.contains(": retrying after"), "{shown}");
    let graph = trial.run(["dag-status"]).out();
    assert!(waits(&graph) && graph.contains("Completed, the newest first\n  a"), "{graph}");
    trial.run(["stop"]);
    run.end(&trial).code(4);
    assert_eq!(status(&trial)["waiting"], Value::Null);
}

#[test]
fn a_stopped_run_finishes_its_attempt() {
    let (trial, run) = gated();
    let said = "stopping after the running attempt; `ralph stop --now` ends it immediately\n";
    trial.run(["stop"]).stdout(said);
    until("it is told", || run.said().contains("`ralph stop`: stopping when the attempt ends"));
    assert_eq!(status(&trial)["status"], "stopping");
    trial.leave("open");
    run.end(&trial).code(4);
    assert_eq!(trial.tasks("started"), ["a"]);
    assert_eq!(trial.status("a"), "complete");
    trial.run(["stop"]);
    assert_eq!(trial.lines("stop_requested").len(), 1, "nothing is left to stop");
    trial.run(["run"]).graph_complete();
}

#[test]
fn a_run_stopped_now_ends_its_attempt_and_does_not_count_it() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("sleepy");
    trial.run(["stop", "--now"]).stdout("no run is active\n");
    assert!(!trial.root().join("logs").exists());
    let run = trial.start_until(["run"], "asleep");
    trial.run(["stop"]);
    trial
        .run(["stop", "--now"])
        .stdout("stopping: ending the running attempt; it does not count\n");
    run.end(&trial).code(4);
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    assert_eq!(trial.status("a"), "pending");
    trial.no_process_is_left();
}

#[test]
fn a_run_is_stopped_while_its_graph_is_broken() {
    let trial = TestProject::new().graph(THREE).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let graph = trial.graph_text();
    trial.save("task-graph.yaml", "tasks: [{id: \n");
    trial.run(["stop", "--now"]);
    run.end(&trial).code(4);
    trial.no_process_is_left();
    let said = status(&trial);
    assert_eq!((&said["status"], &said["attempts"]), (&json!("finished"), &json!([])));
    trial.save("task-graph.yaml", &graph);
    trial.leave("open");
    trial.run(["run"]).graph_complete();
}

#[test]
fn term_lets_the_attempt_finish() {
    let settings = SETTINGS.replace("term_grace: 200ms", "term_grace: 10m");
    let trial = TestProject::new().file(".ralph/config.yaml", &settings).graph(THREE).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    run.signal(Signal::TERM);
    until("it is told", || run.said().contains("SIGTERM: stopping when the attempt ends"));
    assert_eq!(status(&trial)["status"], "stopping");
    trial.leave("open");
    run.end(&trial).code(143);
    trial.assert_record("stop_requested", &json!({"signal": "SIGTERM"}));
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_second_term_does_not_wait() {
    let settings = SETTINGS.replace("term_grace: 200ms", "term_grace: 10m");
    let trial = TestProject::new().file(".ralph/config.yaml", &settings).graph(THREE).agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::TERM);
    until("it is told", || run.said().contains("SIGTERM: stopping"));
    run.signal(Signal::TERM);
    run.end(&trial).code(143);
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    trial.no_process_is_left();
}

#[test]
fn the_status_tells_how_a_run_stands() {
    let trial = TestProject::new().graph(THREE).agent("gate");
    trial.run(["status"]).stdout_has("Status: none: no run yet; `ralph run` starts one\nleft: 3");
    assert!(!trial.root().join("logs").exists());
    let run = trial.start_until(["run"], "waiting-a");
    let shown = trial.run(["status"]).out();
    insta::assert_snapshot!(shown, @r"
    Status: running
    nothing done in 1 attempt, [took]; 0 of 3 done
    Current attempt: a, attempt 1, since [time], for [took]; in ../repo.slots/1/repo (ralph/a)
    left: 3 (1 in progress, 2 ready)
      ○ b
      ○ c
    Run: [run], started [date] [time], process [pid], lands on `main`, last beat [took] ago
    ");
    let said = status(&trial);
    assert_eq!(said["attempts"][0]["task_id"], "a");
    assert_eq!((&said["status"], &said["iteration"]), (&json!("running"), &json!(1)));
    let limits = json!({ "timeout_seconds": 7200.0, "idle_seconds": 900.0, "max_iterations": 50,
                         "max_attempts": 3 });
    assert_eq!(said["limits"], limits);
    trial.leave("open");
    run.end(&trial);
    let said = status(&trial);
    assert_eq!((&said["status"], &said["completed"]), (&json!("finished"), &json!(3)));
    assert_eq!(said["attempts"], json!([]));
    trial.run(["status"]).stdout_has(
        "Status: finished: the graph is complete, and nothing was verified (exit code 0)\n",
    );
}

#[test]
fn an_earlier_run_is_not_hidden_by_the_next() {
    let trial = TestProject::new().graph(THREE).agent("commit");
    trial.run(["run", "--max-iterations", "2"]).code(2);
    trial.run(["run", "--once"]).code(0);
    let shown = trial.run(["status"]).out();
    let hint = ", 2 completed in 2 attempts; limit reached: 2 iterations; `ralph status --run 2`\n";
    assert!(shown.contains("\nRun 2: ") && shown.contains(hint), "{shown}");
    let night = trial.run(["status", "--run", "2"]);
    let night = night.stdout_has("Status: finished: limit reached: 2 iterations (exit code 2)\n");
    night.stdout_has("\n2 completed in 2 attempts, ");
    let said = trial.run(["status", "--run", "2", "--json"]).json();
    assert_eq!((&said["iteration"], &said["exit_code"]), (&json!(2), &json!(2)));
    trial.run(["status", "--run", "3"]).code(64).stderr_has("no run 3; the journal has 2 runs");
}

#[test]
fn what_a_run_prints_is_in_its_log_too() {
    let trial = TestProject::new().graph(THREE).agent("commit");
    let first = trial.run(["run", "--once"]).err();
    let log = trial.read("logs/run.log");
    let (head, rest) = log.split_once('\n').unwrap();
    assert!(head.contains(" run "), "{head}");
    assert_eq!(trial.redact(rest), first);
    trial.run(["run", "-q"]).graph_complete();
    assert!(trial.read("logs/run.log").contains("✓ b "), "quiet runs are logged too");
    assert_eq!(trial.git(&["status", "--porcelain"]), "", "it is ignored");
}

#[test]
fn the_status_of_a_killed_run_is_crashed() {
    let (trial, run) = gated();
    run.kill();
    let dead = trial.run(["heartbeat"]).code(1).out();
    assert!(dead.starts_with("dead: its process is gone; last beat "), "{dead}");
    until("its guardian is gone", || status(&trial)["status"] == "crashed");
    let crashed = "Status: crashed: the last run exited unexpectedly; `ralph run` continues it\n";
    trial.run(["status"]).stdout_has(crashed);
    assert_eq!(status(&trial)["attempts"][0]["task_id"], "a");
    trial.run(["stop"]);
    trial.run(["pause"]);
    trial.run(["status"]).stdout_has("it is also paused, and `ralph resume` continues");
    trial.leave("open");
    trial.run(["resume"]).graph_complete();
    assert_eq!(trial.tasks("recovered"), ["a"]);
    trial.assert_record("started", &json!({"iteration": 2}));
    assert_eq!(status(&trial)["status"], "finished");
}

#[test]
fn a_report_covers_all_runs_since_a_person_looked() {
    let trial = TestProject::new().graph(THREE).agent("commit");
    trial.run(["run", "-q", "--max-iterations", "1"]).code(2);
    // What only a program reads is no look.
    trial.run(["status", "--json"]).code(0);
    trial.run(["run", "-q", "--max-iterations", "1"]).code(2);
    let both = trial.run(["report"]).code(0).stdout_has("2 completed in 2 attempts, ").out();
    assert!(both.contains(": 2 runs\n"), "{both}");
    trial.run(["diff", "--stat"]).code(0).stdout_has("2 files changed");
    // A limit ends no night.
    trial.run(["run", "-q"]).graph_complete();
    trial.run(["status"]).stdout_has("3 completed in 3 attempts, ");
    trial.run(["task-add", "d"]).code(0);
    trial.run(["run", "-q"]).graph_complete();
    assert_eq!((&status(&trial)["runs"], &status(&trial)["completed"]), (&json!(1), &json!(1)));
}
