//! Signals to the runner: the first ends the attempt, the second kills it; the attempt does not
//! count.

use std::{fs, thread, time::Duration};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{TestProject, agent, until};

/// A run that gets one signal while its agent works.
fn stopped(signal: Signal) -> (TestProject, String) {
    let trial =
        TestProject::new().graph("tasks:\n  - id: a\n    status: pending\n").agent("sleepy");
    let before = trial.graph_text();
    let run = trial.start_until(["run"], "asleep");
    run.signal(signal);
    let said = run.end(&trial).whole();
    assert_eq!(trial.graph_text(), before, "the task is as it was");
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
    assert!(trial.state().join("attempts").read_dir().unwrap().next().is_none());
    trial.no_process_is_left();
    (trial, said)
}

#[test]
fn ctrl_c_ends_the_attempt_and_does_not_count_it() {
    let (trial, said) = stopped(Signal::INT);
    insta::assert_snapshot!(said, @r"
    exit code 130
    --- stderr ---
    [time]  1 task, 0 done
    [time]  a started
    [time]  SIGINT: ending what runs, then stopping; press Ctrl-C again to kill it at once
    [time]  ! a  [took]  cancelled: ended by ralph because the run was stopped
    [time]  stopped by SIGINT (exit code 130)
    [time]  nothing done in 1 attempt, [took]; 0 of 1 done
    [time]  left: 1 (1 ready)
    [time]    ○ a
    [time]  next: `ralph run` continues
    ");
    trial.run(["prompt", "a"]).stdout_has("This is attempt 2 at the task.");
}

#[test]
fn term_has_its_code_and_a_hangup_stops_nothing() {
    let (trial, said) = stopped(Signal::TERM);
    assert!(said.starts_with("exit code 143\n"), "{said}");
    trial.assert_record("finished", &json!({"exit_code": 143}));

    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    for _ in 0..3 {
        run.signal(Signal::HUP);
    }
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("started"), ["a"]);
}

#[test]
fn a_second_signal_kills_at_once() {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "grace: 10m\n")
        .graph("tasks: [{id: a}]\n")
        .agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::INT);
    until("the first signal is told", || run.said().contains("press Ctrl-C again"));
    run.signal(Signal::INT);
    run.end(&trial).code(130);
    trial.assert_record("stop_requested", &json!({"signal": "SIGINT"}));
    assert_eq!(trial.status("a"), "pending");
    trial.no_process_is_left();
}

#[test]
fn a_process_that_ignores_signals_is_killed_after_the_grace() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::TERM);
    run.end(&trial).code(143);
    trial.assert_record("interrupted", &json!({"task_id": "a", "verdict": "cancelled"}));
    trial.no_process_is_left();
}

#[test]
fn an_agent_that_still_runs_at_the_signal_completes_nothing() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("reported-then-gate");
    let run = trial.start_until(["run"], "waiting-a");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
    assert_eq!(trial.tasks("completed"), [""; 0], "although it had reported");
    assert_eq!(trial.tasks("started"), ["a"], "and nothing new begins");
    let ended = &trial.lines("interrupted")[0];
    let why = "reported done, but the run was stopped before its processes ended";
    assert_eq!((&ended["verdict"], &ended["why"]), (&"cancelled".into(), &why.into()));
    assert_eq!(trial.status("a"), "pending");
    trial.no_process_is_left();
}

#[test]
fn a_run_that_waits_stops_at_once() {
    let trial = TestProject::new().graph("tasks: [{id: a, status: in-progress}]\n").agent("commit");
    let run = trial.start(["run", "--wait"]);
    trial.wait_for_records(1, "waiting");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
}

/// The state of a process in `/proc`: `T` if it is stopped.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

#[test]
fn ctrl_z_stops_the_agent_too_and_every_clock() {
    // Prints all the time, so that only a clock that did not stop could make it idle.
    let script = "cat > /dev/null; echo $$ > \"$TRIAL_DIR/pid\"
        until [ -e \"$TRIAL_DIR/open\" ]; do echo .; sleep 0.05; done; exec \"$0\"";
    let commit = agent("commit");
    let trial =
        TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", script, &commit]);
    let run = trial.start(["run", "--timeout", "5s", "--idle", "3s"]);
    let pid = trial.sign("pid");
    until("the agent runs", || fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let pid: u32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    run.signal(Signal::TSTP);
    until("the runner stands still", || state(run.id()) == Some('T'));
    until("and its agent", || state(pid) == Some('T'));
    assert_eq!(trial.run(["status", "--json"]).json()["status"], "suspended");
    trial.leave("open");
    thread::sleep(Duration::from_millis(5500));
    run.signal(Signal::CONT);
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert!(trial.lines("completed")[0]["duration_seconds"].as_f64() < Some(5.0));
    assert!(trial.lines("continued")[0]["seconds"].as_u64() >= Some(5));
    trial.no_process_is_left();
}

#[test]
fn a_suspended_run_can_be_ended() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::TSTP);
    until("the runner stands still", || state(run.id()) == Some('T'));
    run.signal(Signal::TERM);
    run.signal(Signal::CONT);
    run.end(&trial).code(143);
    trial.no_process_is_left();

    fs::remove_file(trial.sign("hanging")).unwrap();
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::TSTP);
    until("the runner stands still", || state(run.id()) == Some('T'));
    run.kill();
    trial.no_process_is_left();
}

#[test]
fn a_third_signal_leaves_the_rest_to_the_next_run() {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "grace: 10m\n")
        .graph("tasks: [{id: a}]\n")
        .agent("hang");
    let run = trial.start_until(["run"], "hanging");
    run.signal(Signal::INT);
    until("the first signal is told", || run.said().contains("press Ctrl-C again"));
    // Stopped, so that the other two arrive before its agent can end.
    run.signal(Signal::STOP);
    for signal in [Signal::INT, Signal::TERM] {
        run.signal(signal);
    }
    run.signal(Signal::CONT);
    let said = run.end(&trial).whole();
    let code = said.lines().next().unwrap();
    assert!(["exit code 130", "exit code 143"].contains(&code), "{said}");
    assert!(said.contains("stopped at once; the next run recovers the attempt"), "{said}");
    trial.no_process_is_left();
    let trial = trial.agent("commit");
    trial.run(["run"]).graph_complete();
    trial.assert_record("recovered", &json!({"task_id": "a", "attempt": 1}));
}
