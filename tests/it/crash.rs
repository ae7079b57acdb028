//! The runner dies in the middle, and the next one makes good.

use std::{fs, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{
    oracle,
    support::{DIAMOND, Workspace, until},
};

#[test]
fn an_attempt_cut_off_is_recovered_and_does_not_count() {
    let trial = Workspace::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("sleepy");
    let first = trial.start_until(["run"], "asleep");
    first.kill();
    assert_eq!(trial.status("a"), "in-progress", "nobody was there to take it back");
    assert!(trial.state().join("attempts/a.1.json").exists(), "the attempt is on record");

    let trial = trial.agent("commit");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 0
    --- stderr ---
    [time]  1 task, 0 complete
    [time]  recovered attempt 1 at a, left open by run [run]
    [time]  a interrupted after [took]: cut off when the runner died
    [time]    0 of 1 attempts used; output in logs/attempts/a/1
    [time]  Iteration 1 of 50 · a · P2 · attempt 2
    [time]    a
    [time]  a complete in [took]: reported done, and committed
    [time]    [commit] Work on a
    [time]    1 file, +1 -0
    [time]    0 left
    [time]  the graph is complete (exit code 0)
    [time]  1 completed in 1 attempt, [took]; 1 of 1 complete
    [time]    + a: [commit] Work on a
    ");
    let ended = trial.lines("interrupted").remove(0);
    assert_eq!(ended["verdict"], "interrupted");
    assert_eq!(trial.lines("recovered").len(), 1);
    assert!(!trial.state().join("attempts/a.1.json").exists());
    trial.nobody_is_left();
}

#[test]
fn what_was_finished_is_not_done_again() {
    let trial = Workspace::new().graph(DIAMOND).agent("reported-then-gate");
    let first = trial.start_until(["run"], "waiting-start");
    first.kill();

    let trial = trial.agent("commit");
    trial.run(["run"]).stderr_has("recovered attempt 1 at start, left open by run [run]");
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    assert_eq!(trial.tasks("started").iter().filter(|id| *id == "start").count(), 1);
    assert_eq!(trial.read("work/start.txt"), "attempt 1\n");
    trial.nobody_is_left();
}

#[test]
fn a_group_left_by_a_dead_run_is_gone_before_the_next_attempt() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("hang");
    let first = trial.start_until(["run"], "hanging");
    first.kill();
    let trial = trial.agent("commit");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    trial.nobody_is_left();
}

#[test]
fn an_agent_ends_with_its_run_and_what_it_reported_counts() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("reported-then-gate");
    let first = trial.start_until(["run"], "waiting-a");
    first.kill();
    trial.nobody_is_left();
    let trial = trial.agent("fail");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.lines("recovered").len(), 1);
}

#[test]
fn a_graph_that_a_killed_attempt_destroyed_is_put_back_by_the_next_run() {
    for (harm, kept) in [("c3:cut", true), ("c3:delete", false)] {
        let words = format!("work,report,{harm},wait");
        let trial = oracle::stage(2).chaos(&words);
        let first = trial.start_until(["run"], "waiting");
        first.kill();
        trial.run(["run"]).stderr_has("; the last good one is back");
        assert_eq!(oracle::faults(&trial, 2), (Vec::new(), 0), "{harm}");
        assert_eq!(trial.root().join("logs/attempts/t0/1/graph.damaged.yaml").exists(), kept);
    }
}

#[test]
fn a_graph_that_nobody_can_read_is_an_error_also_after_a_crash() {
    let trial = oracle::stage(1).chaos("wait");
    let first = trial.start_until(["run"], "waiting");
    first.kill();
    // A copy of another attempt would take things back.
    let kept = trial.state().join("graph.yaml");
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replace("claimed_at", "claimed_on")).unwrap();
    trial.write("task-graph.yaml", "tasks: [");
    trial.run(["run"]).code(65).stderr_has("is opened here and never closed");
    assert_eq!(trial.graph_text(), "tasks: [");
}

#[test]
fn the_lock_is_held_until_the_guardian_is_gone() {
    let trial = oracle::stage(1).chaos("wait");
    let first = trial.start_until(["run"], "waiting");
    let guardian = trial.guardian("t0.1");
    kill_process(guardian, Signal::STOP).unwrap();
    first.kill();
    let state = ralph::adapters::state::StateFolder::open(trial.state(), false);
    let held = state.is_locked().unwrap();
    kill_process(guardian, Signal::CONT).unwrap();
    assert!(held, "another run could begin beside what is left");
    until("the lock is free", || !state.is_locked().unwrap());
    trial.nobody_is_left();
}

#[test]
fn a_reset_is_possible_after_a_crash() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("sleepy");
    let first = trial.start_until(["run"], "asleep");
    first.kill();
    trial.run(["task-reset", "a"]).stdout("a: in-progress -> pending, attempts reset\n");
    trial.agent("commit").run(["run"]).stderr_has("the graph is complete (exit code 0)");
}

/// Kills runs at many moments, and holds what is left against what must be.
#[test]
fn nothing_is_done_twice_wherever_the_run_is_killed() {
    let tasks: String = (0..6).map(|n| format!("  - id: t{n}\n")).collect();
    let trial = Workspace::new().graph(&format!("tasks:\n{tasks}")).agent("many");
    let attempts = || fs::read_to_string(trial.sign("attempts")).unwrap_or_default();
    for round in 1..=5_u64 {
        let before = attempts().len();
        let run = trial.start(["run", "-q"]);
        until("one more attempt began", || attempts().len() > before);
        // Not to wait for anything: to die at another moment each time.
        thread::sleep(Duration::from_millis(round * 47 % 160));
        run.kill();
    }
    let last = trial.run(["run"]).whole();
    assert!(last.contains("the graph is complete (exit code 0)"), "{last}");
    let completed = trial.tasks("completed");
    for n in 0..6 {
        let id = format!("t{n}");
        assert_eq!(trial.status(&id), "complete");
        assert!(completed.iter().filter(|done| **done == id).count() <= 1, "{completed:?}");
    }
    let open: Vec<_> = trial.state().join("attempts").read_dir().unwrap().flatten().collect();
    assert!(open.is_empty(), "{open:?}");
    trial.nobody_is_left();
}

#[test]
fn a_torn_line_costs_that_line_only() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--once", "-q"]).whatever();
    let mut journal = trial.read("logs/ralph.jsonl");
    journal.push_str("{\"timestamp\":\"2026-");
    trial.write("logs/ralph.jsonl", &journal);
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    let text = trial.read("logs/ralph.jsonl");
    let damaged =
        text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
    assert_eq!(damaged.count(), 1, "{text}");
    trial.run(["dag-status"]).stdout_has("4 of 4 complete");
}

#[test]
fn the_past_may_be_lost_and_the_graph_still_says_what_is_done() {
    let trial = Workspace::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "-q", "--max-iterations", "2"]).code(2).whatever();
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    fs::remove_dir_all(trial.state()).unwrap();
    trial.run(["run", "-q"]).stderr_has("2 completed in 2 attempts");
}

/// A group signal to the runner is not one to its agents, which have groups of their own.
#[test]
fn an_agent_has_a_group_of_its_own() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("hang");
    let run = trial.start_until(["run"], "hanging");
    let text = fs::read_to_string(trial.sign("hanging")).unwrap();
    let pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let group = Pid::from_raw(pids[0]).unwrap();
    assert_eq!(rustix::process::getpgid(Pid::from_raw(pids[1])).unwrap(), group);
    kill_process_group(group, Signal::KILL).unwrap();
    until("the death is noticed", || {
        !fs::read_to_string(trial.root().join("logs/ralph.jsonl"))
            .is_ok_and(|text| !text.contains("\"failed\""))
    });
    run.signal(Signal::INT);
    run.end(&trial).whatever().code(130);
    trial.nobody_is_left();
}

#[test]
fn a_record_that_cannot_be_read_is_kept_and_named() {
    let trial =
        Workspace::new().graph("tasks: [{id: a, status: in-progress}, {id: b}]\n").agent("commit");
    std::fs::create_dir_all(trial.state().join("attempts")).unwrap();
    std::fs::write(trial.state().join("attempts/a.1.json"), "{\"task_id\":").unwrap();
    trial.run(["run"]).code(3).stderr_has("the record of an attempt cannot be read; it is kept as");
    let kept = trial.lines("record_damaged")[0]["kept"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "{\"task_id\":");
    assert_eq!(trial.tasks("completed"), ["b"]);
}
