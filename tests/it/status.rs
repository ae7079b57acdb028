//! `dag-status`, `heartbeat`, `task-reset`, `task-complete` and `task-block`.

use serde_json::json;

use crate::support::{DIAMOND, TestProject};

const MIXED: &str = "\
tasks:
  - {id: done, title: Already there, status: complete}
  - {id: next, title: 'Can start', depends_on: [done], priority: high}
  - {id: later, title: Has to wait, depends_on: [next, theirs]}
  - {id: theirs, title: Somebody is at it, status: in-progress, claimed_by: tess, claimed_at: \"2026-01-01T00:00:00Z\"}
  - {id: held, title: Not now, status: blocked}
  - {id: asked, title: Which one?, status: needs-input}
  - {id: never, title: Given up, status: cancelled}
  - {id: orphan, title: Wants what is given up, depends_on: [never]}
  - {id: plain}
";

#[test]
fn every_state_has_its_part() {
    let trial = TestProject::new().graph(MIXED);
    let before = trial.everything();
    let text = trial.run(["dag-status"]).whole();
    // The age of a claim grows.
    let (head, tail) = text.split_once("for ").unwrap();
    let tail = tail.split_once(',').unwrap().1;
    insta::assert_snapshot!(format!("{head}for [age],{tail}"), @r##"
    exit code 0
    --- stdout ---
    task-graph.yaml: 1 of 9 complete, 1 cancelled, 1 in progress, 1 needs input, 1 blocked, 2 ready, 2 waiting

    In progress
      theirs  Somebody is at it  for [age], by tess, STALE; `ralph task-reset theirs` makes it pending

    Needs input; `ralph answer ID "…"`
      asked  Which one?

    Blocked by a person
      held  Not now

    Ready, in the order they will run
      next   Can start  P1
      plain  P2

    Waiting
      later   Has to wait  waiting on next, theirs (in progress)
      orphan  Wants what is given up  waiting on never (cancelled)

    Completed, the newest first
      done  Already there
    "##);
    let after = trial.everything();
    assert!(before == after, "looking changed something");
}

#[test]
fn a_title_that_is_a_block_of_text_ends_without_a_line_break() {
    let graph = "tasks:\n  - id: a\n    title: |\n      Parse it\n  - {id: b, depends_on: [a]}\n";
    let trial = TestProject::new().graph(graph);
    trial.run(["dag-status"]).stdout_has("\n  a  Parse it  P2\n");
    assert_eq!(
        trial.run(["dag-status", "--json"]).json()["tasks"]["ready"][0]["title"],
        "Parse it"
    );
}

#[test]
fn json_says_the_same() {
    let trial = TestProject::new().graph(MIXED);
    let status = trial.run(["dag-status", "--json"]).json();
    assert_eq!(
        status["counts"],
        json!({
            "total": 9, "complete": 1, "cancelled": 1, "in_progress": 1, "queued": 0, "parked": 0,
            "needs_input": 1, "blocked": 1, "on_branch": 0, "ready": 2, "conflicting": 0, "retrying": 0,
            "rate_limited": 0, "unreachable": 0, "waiting": 2
        })
    );
    let next = json!({"id": "next", "title": "Can start", "priority": 1, "state": "ready"});
    let tasks = &status["tasks"];
    assert_eq!(tasks["ready"][0], next);
    let theirs = &tasks["in_progress"][0];
    assert_eq!((&theirs["stale"], &theirs["live"]), (&true.into(), &false.into()));
    let on = json!([{"id": "next", "state": "ready"}, {"id": "theirs", "state": "in_progress"}]);
    assert_eq!(tasks["waiting"][0]["waiting_on"], on);
    assert_eq!(tasks["blocked"][0]["id"], "held");
}

#[test]
fn filters_narrow_what_is_shown() {
    let trial = TestProject::new().graph(MIXED);
    trial.run(["dag-status", "--task", "plain"]).stdout(
        "task-graph.yaml: 0 of 1 done, 1 ready\n\nReady, in the order they will run\n  plain  P2\n",
    );
}

#[test]
fn long_lists_are_cut_unless_all_is_wanted() {
    let tasks: String = (0..40).map(|n| format!("  - id: t{n}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{tasks}"));
    let short = trial.run(["dag-status"]).out();
    assert!(short.ends_with("  t14  P2\n  … and 25 more (--all)\n"), "{short}");
    let long = trial.run(["dag-status", "--all"]).out();
    assert_eq!(long.lines().count(), 3 + 40, "{long}");
}

#[test]
fn a_parked_task_is_shown_with_its_last_failure() {
    let trial = TestProject::new()
        .graph("tasks: [{id: bad, title: Hard, max_attempts: 1}]\n")
        .agent("fail");
    trial.run(["run", "-q"]).code(3);
    insta::assert_snapshot!(trial.run(["dag-status"]).whole(), @r#"
    exit code 0
    --- stdout ---
    task-graph.yaml: 0 of 1 done, 1 parked

    Parked: out of attempts
      bad  Hard  failed: exited with code 7; `ralph task-reset bad --note "…"`
    "#);
    let json = trial.run(["dag-status", "--json"]).json();
    assert_eq!(json["tasks"]["parked"][0]["why"], "failed: exited with code 7");
}

#[test]
fn control_characters_in_tasks_are_escaped() {
    let trial = TestProject::new().graph("tasks: [{id: a, title: \"red \\e[31m\\u202E alert\"}]\n");
    let text = trial.run(["dag-status"]).out();
    assert!(text.contains("red \\u{1b}[31m\\u{202e} alert") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn while_an_agent_works_its_task_is_left_to_it() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run", "--task", "a"], "waiting-a");
    trial.wait_for_records(1, "agent_started");
    let status = trial.run(["dag-status"]).out();
    assert!(
        status.contains(", an agent is at work, in ../repo.slots/1/repo (ralph/a)\n"),
        "{status}"
    );
    let busy = "ralph: error: attempt 1 at `a` has been running since [time]; stop the run first\n";
    trial.run(["task-reset", "a"]).code(5).stderr(busy);
    trial.run(["task-reset", "b", "a"]).code(5);
    trial.run(["task-block", "a", "--reason", "no"]).code(5);
    trial.run(["heartbeat"]).stdout("alive: last beat [took] ago, working on a\n");
    trial.run(["task-block", "b", "--reason", "later"]);
    assert_eq!(trial.status("b"), "blocked");
    assert!(trial.lines("reset").is_empty(), "all or nothing");

    trial
        .run(["task-complete", "a"])
        .stdout("a is reported as done; it is verified when attempt 1 ends\n");
    let shown = trial.run(["dag-status", "--json"]).json()["tasks"]["in_progress"][0]["id"].clone();
    assert_eq!(shown, "a", "a report is not a verdict");
    trial.leave("open");
    run.end(&trial).graph_complete();
    trial.no_process_is_left();
}

#[test]
fn tasks_that_cannot_run_now_are_listed_with_the_reason() {
    let graph = "\
tasks:
  - {id: a, touches: src/**, tags: [db], priority: high}
  - {id: b, touches: [docs, src/b.rs], title: The second}
  - {id: c, tags: [db]}
  - {id: d, touches: docs/*}
";
    let settings = format!("{}limits: {{db: 1}}\n", crate::support::SETTINGS);
    let trial = TestProject::new().graph(graph).file(".ralph/config.yaml", &settings).agent("gate");
    let run = trial.start_until(["run", "--task", "a"], "waiting-a");
    trial.wait_for_records(1, "agent_started");
    let status = trial.run(["dag-status"]).out();
    let (_, ready) = status.split_once("\n\nReady").unwrap();
    insta::assert_snapshot!(ready, @r"
    , in the order they will run
      d  P2

    Ready, but in conflict with what runs now
      b  The second  changes the same files as `a`
      c  limit of 1 for `db` reached
    ");
    let json = trial.run(["dag-status", "--json"]).json();
    assert_eq!(json["counts"]["conflicting"], 2);
    let why = json!("changes the same files as `a`");
    let first = &json["tasks"]["conflicting"][0];
    assert_eq!((&first["id"], &first["why"]), (&json!("b"), &why));
    insta::assert_snapshot!(trial.run(["prompt", "--why"]).out(), @r"
    next  d                 P2, longest chain 1h, unblocks 0, place 4  d
    wait  b                 P2, longest chain 1h, unblocks 0, place 2  The second: changes the same files as `a`
    wait  c                 P2, longest chain 1h, unblocks 0, place 3  c: limit of 1 for `db` reached
    ");
    trial.run(["prompt"]).stdout_has("# Task d\n");
    trial.leave("open");
    run.end(&trial);
    assert_eq!(trial.run(["dag-status", "--json"]).json()["counts"]["conflicting"], 0);
}

#[test]
fn a_report_without_work_does_not_complete() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("linger");
    let run = trial.start_until(["run", "--once"], "waiting-a");
    trial.run(["task-complete", "a"]);
    trial.leave("open");
    run.end(&trial).code(1);
    trial.assert_record("failed", &json!({"task_id": "a", "verdict": "unverified"}));
}

#[test]
fn a_persons_word_holds() {
    let trial = TestProject::new().graph(DIAMOND);
    trial.run(["task-complete", "start"]).stdout("start: pending -> complete\n");
    trial.run(["task-complete", "start"]).stdout("start is already complete\n");
    trial
        .run(["task-reset", "start", "left"])
        .stdout("start: complete -> pending, attempts reset\nleft is already pending\n");
    trial
        .run(["task-block", "left", "--reason", "no money"])
        .stdout("left: pending -> blocked (no money)\n");
    let told: Vec<_> = trial.lines("status_changed");
    assert!(told.iter().all(|line| line["cause"] == "command"));
    assert_eq!(told[2]["reason"], "no money");
    trial.run(["dag-status"]).stdout_has("Blocked by a person\n  left  The left half  no money\n");
    assert_eq!(
        trial.run(["dag-status", "--json"]).json()["tasks"]["blocked"][0]["reason"],
        "no money"
    );
    assert!(!trial.graph_text().contains("completed_at"), "{}", trial.graph_text());
}

#[test]
fn an_unknown_task_is_an_error_with_a_suggestion_and_nothing_is_touched() {
    let trial = TestProject::new().graph(DIAMOND);
    let said = "ralph: error: no task `lfet` in `task-graph.yaml`; did you mean `left`?\n";
    trial.run(["task-reset", "start", "lfet"]).code(1).stderr(said);
    trial.run(["task-complete", "lfet"]).code(1);
    trial.run(["task-block", "lfet", "--reason", "x"]).code(1);
    assert_eq!(trial.graph_text(), DIAMOND);
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn the_heartbeat_is_missing_alive_or_dead() {
    let trial = TestProject::new().graph(DIAMOND);
    trial
        .run(["heartbeat"])
        .code(1)
        .stdout("no heartbeat: `logs/ralph.heartbeat` does not exist\n");
    trial.write("logs/ralph.heartbeat", "2026-01-01T00:00:00Z\n");
    let dead = trial.run(["heartbeat"]).code(1).out();
    assert!(dead.starts_with("dead: last beat ") && dead.ends_with(", more than 1h\n"), "{dead}");
    trial.write("logs/ralph.heartbeat", "soon\n");
    trial
        .run(["heartbeat"])
        .code(1)
        .stdout("no heartbeat: `logs/ralph.heartbeat`: its first line is not a time\n");
    let now = chrono::Utc::now().to_rfc3339();
    trial.write("logs/ralph.heartbeat", &format!("{now}\n"));
    trial.run(["heartbeat", "--max-age", "10m"]).stdout("alive: last beat [took] ago\n");
}
