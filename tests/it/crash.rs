//! The runner is killed during an attempt, and the next run recovers.

use std::{fs, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;

use crate::{
    oracle,
    support::{DIAMOND, SETTINGS, TestProject, until},
};

#[test]
fn an_attempt_cut_off_is_recovered_and_does_not_count() {
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("sleepy");
    let first = trial.start_until(["run"], "asleep");
    first.kill();
    assert!(trial.state().join("attempts/a.1.json").exists(), "the attempt is on record");
    let claim = json!({"task_id": "a", "new": "in-progress", "cause": "claimed"});
    trial.assert_record("status_changed", &claim);

    let trial = trial.agent("commit");
    trial
        .run(["run"])
        .graph_complete()
        .stderr_has("interrupted: ended because ralph exited unexpectedly");
    let ended = trial.lines("interrupted").remove(0);
    assert_eq!(ended["verdict"], "interrupted");
    assert_eq!(trial.lines("recovered").len(), 1);
    assert!(!trial.state().join("attempts/a.1.json").exists());
    trial.no_process_is_left();
}

#[test]
fn finished_work_is_not_repeated() {
    let gate = format!(
        "{SETTINGS}verify: touch \"$TRIAL_DIR/verifying\"; until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.05; done\n"
    );
    let trial = TestProject::new().file(".ralph/config.yaml", &gate).graph(DIAMOND).agent("commit");
    let first = trial.start_until(["run"], "verifying");
    first.kill();
    trial.leave("open");
    trial.run(["run"]).graph_complete();
    trial.assert_record("recovered", &json!({"task_id": "start", "attempt": 1}));
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    assert_eq!(trial.tasks("started").iter().filter(|id| *id == "start").count(), 1);
    assert_eq!(trial.read("work/start.txt"), "attempt 1\n");
    trial.no_process_is_left();
}

#[test]
#[ignore = "slow"]
fn a_group_left_by_a_dead_run_is_gone_before_the_next_attempt() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("hang");
    let first = trial.start_until(["run"], "hanging");
    first.kill();
    let trial = trial.agent("commit");
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
}

#[test]
fn an_agent_ends_with_its_run_and_is_interrupted_whatever_it_reported() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("reported-then-gate");
    let first = trial.start_until(["run"], "waiting-a");
    first.kill();
    trial.no_process_is_left();
    let trial = trial.agent("commit");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("recovered").len(), 1);
    let interrupted = &trial.lines("interrupted")[0];
    let why = "reported done, but ralph exited before its processes ended";
    assert_eq!((&interrupted["why"], &interrupted["report"]), (&json!(why), &json!("done_file")));
    assert_eq!(trial.lines("completed")[0]["attempt"], 2);
}

#[test]
#[ignore = "slow"]
fn a_graph_that_a_killed_attempt_destroyed_is_put_back_by_the_next_run() {
    for (harm, kept) in [("c3:cut", true), ("c3:delete", false)] {
        let words = format!("work,report,{harm},wait");
        let trial = oracle::stage(2).in_place().chaos(&words);
        let first = trial.start_until(["run"], "waiting");
        first.kill();
        trial.run(["run"]).graph_complete();
        trial.assert_record("graph_guarded", &json!({"task_id": "t0", "undone": true}));
        assert_eq!(oracle::faults(&trial, 2), (Vec::new(), 0), "{harm}");
        assert_eq!(trial.root().join("logs/attempts/t0/1/graph.damaged.yaml").exists(), kept);
    }
}

/// The graph of a slot is a copy, which does not land.
#[test]
#[ignore = "slow"]
fn a_copy_of_the_graph_that_a_killed_attempt_destroyed_is_discarded() {
    for harm in ["c3:cut", "c3:delete"] {
        let words = format!("work,report,{harm},wait");
        let trial = oracle::stage(2).chaos(&words);
        let first = trial.start_until(["run"], "waiting");
        first.kill();
        trial.run(["run"]).graph_complete();
        let guarded = trial.lines("graph_guarded");
        assert_eq!(guarded.len(), 1, "{harm}: {guarded:?}");
        assert!(guarded.iter().all(|line| line["what"] == "apart" && line["task_id"] == "t0"));
        assert_eq!(oracle::faults(&trial, 2), (Vec::new(), 0), "{harm}");
    }
}

#[test]
fn an_unreadable_graph_is_an_error_after_a_crash() {
    let trial = oracle::stage(1).chaos("wait");
    let first = trial.start_until(["run"], "waiting");
    first.kill();
    // Restoring the copy of another attempt would undo changes.
    let kept = trial.state().join("graph.yaml");
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replace("claimed_at", "claimed_on")).unwrap();
    trial.write("task-graph.yaml", "tasks: [");
    trial.run(["run"]).code(65);
    assert_eq!(trial.graph_text(), "tasks: [");
}

#[test]
fn the_lock_is_held_until_the_guardian_is_gone() {
    let trial = oracle::stage(1).chaos("wait");
    let first = trial.start_until(["run"], "waiting");
    let guardian = trial.guardian("t0.1");
    kill_process(guardian, Signal::STOP).unwrap();
    first.kill();
    let state = ralph::adapters::state::StateFolder::open(trial.state());
    let held = state.is_locked().unwrap();
    kill_process(guardian, Signal::CONT).unwrap();
    assert!(held, "another run could start while processes of the last one live");
    until("the lock is free", || !state.is_locked().unwrap());
    trial.no_process_is_left();
}

#[test]
fn a_reset_is_possible_after_a_crash() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("sleepy");
    let first = trial.start_until(["run"], "asleep");
    first.kill();
    trial.run(["task-reset", "a"]);
    assert_eq!(trial.status("a"), "pending");
    trial.agent("commit").run(["run"]).graph_complete();
}

/// Kills runs at many moments, and checks the result.
#[test]
fn nothing_is_done_twice_wherever_the_run_is_killed() {
    let tasks: String = (0..6).map(|n| format!("  - id: t{n}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{tasks}")).agent("many");
    let attempts = || fs::read_to_string(trial.sign("attempts")).unwrap_or_default();
    for round in 1..=5_u64 {
        let before = attempts().len();
        let run = trial.start(["run", "-q"]);
        until("one more attempt began", || attempts().len() > before);
        // Not a wait for something: each run is killed at another moment.
        thread::sleep(Duration::from_millis(round * 47 % 160));
        run.kill();
    }
    trial.run(["run"]).graph_complete();
    let completed = trial.tasks("completed");
    for n in 0..6 {
        let id = format!("t{n}");
        assert_eq!(trial.status(&id), "complete");
        assert!(completed.iter().filter(|done| **done == id).count() <= 1, "{completed:?}");
    }
    let open: Vec<_> = trial.state().join("attempts").read_dir().unwrap().flatten().collect();
    assert!(open.is_empty(), "{open:?}");
    trial.no_process_is_left();
}

#[test]
fn a_torn_line_costs_that_line_only() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "--once", "-q"]);
    let mut journal = trial.read("logs/ralph.jsonl");
    journal.push_str("{\"timestamp\":\"2026-");
    trial.write("logs/ralph.jsonl", &journal);
    trial.run(["run"]).graph_complete();
    let text = trial.read("logs/ralph.jsonl");
    let damaged =
        text.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
    assert_eq!(damaged.count(), 1, "{text}");
    assert_eq!(trial.run(["dag-status", "--json"]).json()["counts"]["complete"], 4);
}

#[test]
fn the_graph_keeps_completed_tasks_when_the_journal_is_lost() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    trial.run(["run", "-q", "--max-iterations", "2"]).code(2);
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    fs::remove_dir_all(trial.state()).unwrap();
    trial.run(["run", "-q"]).graph_complete();
    trial.assert_record("finished", &json!({"iterations": 2, "completed": 2}));
}

/// Agents have their own process groups, so a signal to the runner's group does not reach them.
#[test]
fn an_agent_has_a_group_of_its_own() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("hang");
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
    run.end(&trial).code(130);
    trial.no_process_is_left();
}

#[test]
fn a_record_that_cannot_be_read_is_kept_and_named() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a, status: in-progress}, {id: b}]\n")
        .agent("commit");
    std::fs::create_dir_all(trial.state().join("attempts")).unwrap();
    std::fs::write(trial.state().join("attempts/a.1.json"), "{\"task_id\":").unwrap();
    trial.run(["run"]).code(3);
    let said = trial.lines("noticed")[0]["text"].as_str().unwrap().to_owned();
    let (_, kept) = said.split_once("kept as ").unwrap();
    let kept = kept.split(", and its task").next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "{\"task_id\":");
    assert_eq!(trial.tasks("completed"), ["b"]);
}
