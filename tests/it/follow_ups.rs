//! Further prompts of an agent in its conversation, within one attempt: it is told what is missing.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{SETTINGS, TestProject, agent, wait_for};

/// A project whose agent is of this preset and does these turns, and whose verify command wants a good
/// value if there is one.
fn talking(preset: &str, turns: &str) -> TestProject {
    let settings = format!(
        "{SETTINGS}agent: {{preset: {preset}, command: [{}]}}\nverify: ['! grep bad value']\n",
        agent("follow-up")
    );
    TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .file("value", "none\n")
        .graph("tasks: [{id: a}]\n")
        .env("TURNS", turns)
        .env("SPEAKS", preset)
}

/// The words of each of its processes, after the attempt.
fn calls(trial: &TestProject) -> Vec<String> {
    let text = fs::read_to_string(trial.sign("calls")).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn prompt(trial: &TestProject, call: usize) -> String {
    fs::read_to_string(trial.sign(&format!("prompt-{call}"))).unwrap()
}

#[test]
fn an_agent_that_does_not_report_is_reminded_in_its_conversation() {
    for (preset, words) in [
        ("claude", "a.1 --resume conversation-1"),
        ("codex", "a.1 resume conversation-1"),
        ("opencode", "a.1 --session conversation-1"),
    ] {
        for is_isolated in [true, false] {
            let trial = talking(preset, "good report");
            let trial = if is_isolated { trial } else { trial.in_place() };
            let run = trial.run(["run"]);
            run.graph_complete().stderr_has("a continues in the same conversation: no report");
            assert_eq!(calls(&trial), ["a.1", words]);
            trial.assert_record("agent_continued", &json!({"attempt": 1, "lack": "no report"}));
            let completed = &trial.lines("completed")[0];
            assert_eq!(completed["continued"], json!(["no report"]));
            assert_eq!(
                completed["cost_usd"],
                if preset == "codex" { json!(null) } else { json!(1.0) }
            );
            assert_eq!(completed["tokens"]["input"], 20, "each is counted once");
            assert_eq!(trial.subjects(), ["Write good"]);
            let asked = prompt(&trial, 2);
            assert!(asked.starts_with("Your last turn at the task `a` ended without reporting"));
            assert!(asked.contains("task-complete a\n"), "{asked}");
            trial.run(["show", "a"]).stdout_has("\nContinued: once: no report\n");
            trial.no_process_is_left();
        }
    }
}

#[test]
fn an_agent_that_brings_nothing_starts_over() {
    let trial = talking("claude", "good nothing nothing report");
    trial.run(["run"]).graph_complete();
    let resumed = "a.1 --resume conversation-1";
    assert_eq!(calls(&trial), ["a.1", resumed, resumed, "a.2"]);
    let failed = &trial.lines("failed")[0];
    assert_eq!(
        (&failed["verdict"], &failed["continued"]),
        (&json!("incomplete"), &json!(["no report", "no report"]))
    );
    assert_eq!(trial.subjects(), ["Write good"], "its work is there in the next attempt");
}

#[test]
fn an_agent_that_does_nothing_twice_asks_a_person() {
    let trial = talking("claude", "nothing nothing good+report");
    trial.run(["run"]).code(4).stderr_has("needs input: ok");
    assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1"]);
    trial.run(["answer", "a", "write the value"]);
    trial.run(["run"]).graph_complete();
}

#[test]
fn a_conversation_that_is_lost_is_not_resumed_again() {
    let trial = talking("claude", "good lost report");
    trial.run(["run"]).graph_complete();
    assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1", "a.2"]);
    let failed = &trial.lines("failed")[0];
    assert_eq!(failed["verdict"], "incomplete");
    let why = failed["not_resumed"].as_str().unwrap();
    assert!(why.starts_with("No conversation found"), "{why}");
    assert_eq!(trial.subjects(), ["Write good"]);
}

#[test]
fn a_conversation_that_is_lost_does_not_hide_what_failed_before() {
    for is_isolated in [true, false] {
        let trial = talking("claude", "bad+report lost good+report");
        let trial = if is_isolated { trial } else { trial.in_place() };
        trial.run(["run"]).graph_complete().stderr_has("its conversation could not be resumed");
        assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1", "a.2"]);
        let failed = &trial.lines("failed")[0];
        assert_eq!(
            (&failed["verdict"], &failed["report"]),
            (&json!("verify-failed"), &json!("done_file"))
        );
        assert!(prompt(&trial, 3).contains("! grep bad value"), "{}", prompt(&trial, 3));
    }
}

#[test]
fn an_agent_whose_work_is_refused_mends_it_in_its_conversation() {
    for (turns, lack, part) in [
        ("bad+report good+report", "verify failed", "```text\nbad\n```"),
        ("bad+file good+file", "verify failed", "`! grep bad value` exited with code 1"),
        ("report good+report", "no proof of work", "nothing changed in git"),
        ("leave+report commit+report", "uncommitted changes", "1 changed file uncommitted"),
    ] {
        for is_isolated in [true, false] {
            let trial = talking("claude", turns).env("RALPH_AUTOCOMMIT", "false");
            let trial = if is_isolated { trial } else { trial.in_place() };
            trial.run(["run"]).graph_complete();
            assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1"], "{turns}");
            let completed = &trial.lines("completed")[0];
            assert_eq!(completed["continued"], json!([lack]), "{turns}");
            assert_eq!(completed["cost_usd"], 1.0, "{turns}");
            let asked = prompt(&trial, 2);
            assert!(asked.contains(part), "{turns}: {asked}");
            assert_eq!(trial.run(["costs", "--json"]).json()["total"]["cost_usd"], 1.0);
        }
    }
}

#[test]
fn an_agent_whose_work_is_there_already_is_asked_once_and_a_person_hears_what_completes_the_task() {
    let trial = talking("claude", "report report report report");
    let way = "if the work is there already, `ralph task-complete a` completes it";
    trial
        .run(["run"])
        .code(3)
        .stderr_has(&format!("`ralph task-reset a --note \"…\"` retries it; {way}\n"))
        .stderr_has(&format!("`ralph task-reset a --note \"…\"`; {way}\n"));
    assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1"]);
    let failed = &trial.lines("failed")[0];
    assert_eq!(failed["continued"], json!(["no proof of work"]));
    trial.run(["dag-status"]).code(0).stdout_has(way);
    trial.run(["task-complete", "a"]).code(0);
    trial.run(["run"]).graph_complete();
}

#[test]
fn a_report_before_a_follow_up_does_not_count() {
    let trial = talking("claude", "bad+report good nothing good+report");
    trial.run(["run"]).graph_complete();
    let failed = &trial.lines("failed")[0];
    assert_eq!(failed["verdict"], "incomplete");
    assert_eq!(failed["continued"], json!(["verify failed", "no report"]));
    // The next attempt knows what failed.
    assert!(prompt(&trial, 4).contains("! grep bad value"), "{}", prompt(&trial, 4));
    assert_eq!(calls(&trial)[3], "a.2");
}

#[test]
fn follow_ups_can_be_turned_off_and_are_within_the_limit_on_cost() {
    let trial = talking("claude", "good good+report").env("RALPH_FOLLOW_UPS", "0");
    trial.run(["run"]).graph_complete();
    assert_eq!(calls(&trial), ["a.1", "a.2"]);
    assert_eq!(trial.lines("agent_continued").len(), 0);

    let trial = talking("claude", "good report");
    trial.run(["run", "--max-cost", "2"]).graph_complete();
    let resumed = "a.1 --max-budget-usd 1.50 --resume conversation-1";
    assert_eq!(calls(&trial), ["a.1 --max-budget-usd 2.00", resumed]);

    let trial = talking("claude", "good report");
    trial.run(["run", "--max-cost", "0.5"]).code(2);
    assert_eq!(calls(&trial), ["a.1 --max-budget-usd 0.50"]);
}

#[test]
fn a_run_that_is_killed_around_a_follow_up_starts_over_and_loses_nothing() {
    for point in ["followup.told:1", "followup.prepared:1"] {
        let trial = talking("claude", "good good+report good+report");
        let passed = trial.sign("passed");
        let trial = trial
            .env("RALPH_CRASH_RECORD", passed.to_str().unwrap())
            .env("RALPH_CRASH_POINT", point);
        trial.run(["run"]).code(-1);
        trial.no_process_is_left();
        trial.run(["run"]).graph_complete();
        assert_eq!(calls(&trial), ["a.1", "a.2"], "{point}");
        assert_eq!(trial.subjects(), ["Write good"], "{point}");
    }
    let trial = talking("claude", "good hang report");
    let run = trial.start(["run"]);
    wait_for(&trial.sign("hangs"));
    run.signal(Signal::KILL);
    run.end(&trial).code(-1);
    trial.no_process_is_left();
    trial.run(["run"]).graph_complete();
    assert_eq!(calls(&trial), ["a.1", "a.1 --resume conversation-1", "a.2"]);
    assert_eq!(trial.lines("interrupted").len(), 1);
    assert_eq!(trial.subjects(), ["Write good"]);
}
