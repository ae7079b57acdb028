//! Every verdict, by an agent that causes it, and the consequences: retry, parking, stopping.

use std::fs;

use serde_json::json;

use crate::support::{SETTINGS, TestProject};

/// Runs one attempt by this agent, and expects this verdict and reason.
#[track_caller]
fn judged(agent: &str, verdict: &str, why: &str) -> TestProject {
    let trial = TestProject::new().graph("tasks:\n  - id: a\n    status: pending\n").agent(agent);
    let done = verdict == "complete";
    trial.run(["run", "--once", "-q"]).code(i32::from(!done));
    let action = if done { "completed" } else { "failed" };
    let ended = trial.lines(action).remove(0);
    assert_eq!((ended["verdict"].as_str(), ended["why"].as_str()), (Some(verdict), Some(why)));
    assert_eq!(trial.status("a"), if done { "complete" } else { "pending" });
    trial.no_process_is_left();
    trial
}

#[test]
fn work_that_is_there_already_is_checked_and_parked_with_what_completes_it() {
    let graph = "tasks: [{id: a, verify: ['test -e task-graph.yaml']}, {id: b, depends_on: [a], verify: \
                 ['test -e none']}]\n";
    let trial = TestProject::new().graph(graph).agent("lie");
    trial.run(["run"]).code(3).stderr_has("`ralph task-complete a` completes it");
    assert_eq!(trial.lines("failed").len(), 1, "another attempt would say the same");
    assert_eq!(trial.lines("failed")[0]["verdict"], "unverified");
    trial.run(["task-complete", "a"]);
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("failed")[1]["verdict"], "verify-failed");
}

#[test]
fn a_lie_is_unverified() {
    judged("lie", "unverified", "reported done, but nothing changed in git");
    judged("empty", "unverified", "reported done, but its commits change no file");
}

#[test]
fn work_left_uncommitted_is_committed() {
    let trial = judged(
        "leave",
        "complete",
        "reported done; ralph committed what was left; landed on `main`",
    );
    assert_eq!(trial.subjects(), ["a"]);
}

#[test]
fn silence_is_incomplete_with_and_without_commits() {
    let why = "ended without reporting that the task is done";
    let trial = judged("silent", "incomplete", why);
    assert_eq!(trial.subjects(), [""; 0], "work that is not done stays away from the branch");
    let kept = trial.git(&["log", "--format=%s", "main..refs/ralph/a/1"]);
    assert!(kept.contains("Work in silence, attempt 1\n"), "{kept}");
    let trial = judged("idle", "incomplete", why);
    let failed = trial.lines("failed").remove(0);
    assert_eq!(failed["last_line"], "I could not find the file you speak of.");
}

#[test]
fn a_failing_process_is_failed() {
    let trial = judged("fail", "failed", "exited with code 7");
    assert_eq!(trial.lines("failed")[0]["exit_code"], 7);
    judged("die", "failed", "killed by signal 9 (out of memory?)");
}

#[test]
fn work_on_another_branch_or_in_an_amended_base_is_complete() {
    let why = "reported done, and committed; landed on `main`";
    for agent in ["branch", "rewrite"] {
        judged(agent, "complete", why);
    }
}

#[test]
fn each_way_to_report_counts() {
    let why = "reported done, and committed; landed on `main`";
    for (agent, report) in [
        ("commit", "done_file"),
        ("done-file", "done_file"),
        ("graph-complete", "graph"),
        ("exit-1-but-done", "done_file"),
        ("never-reads", "done_file"),
    ] {
        let trial = judged(agent, "complete", why);
        assert_eq!(trial.lines("completed")[0]["report"], report, "{agent}");
    }
}

#[test]
fn a_task_may_need_no_commit() {
    let trial = TestProject::new().graph("tasks:\n  - {id: a, commit: optional}\n").agent("lie");
    trial.run(["run"]).graph_complete();
    trial.assert_record("completed", &json!({"task_id": "a", "report": "done_file"}));
    assert_eq!(trial.status("a"), "complete");
}

#[test]
fn control_characters_in_output_are_escaped() {
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n").agent("escape");
    let text = trial.run(["run"]).code(3).stderr_has("    red\n").err();
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn a_done_file_that_was_there_before_the_attempt_is_no_report() {
    for mode in [&["run", "--once"][..], &["run", "--once", "--in-place"]] {
        let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("idle");
        trial.write(".ralph/tasks/a/DONE", "by hand\n");
        trial.run(mode).code(1).stderr_has("`ralph task-complete a` completes the task");
        trial.assert_record("failed", &json!({"task_id": "a", "verdict": "incomplete"}));
        assert!(!trial.root().join(".ralph/tasks/a/DONE").exists());
    }
}

#[test]
fn the_done_file_of_an_attempt_is_removed_when_it_is_judged() {
    let trial = TestProject::new()
        .graph("tasks:\n  - id: a\n    verify: ['test -e \"$TRIAL_DIR/good\"']\n")
        .agent("done-file");
    trial.run(["run", "--once"]).code(1);
    trial.leave("good");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("completed")[0]["report"], "done_file");
    trial.run(["task-reset", "a"]);
    let trial = trial.agent("silent");
    trial.run(["run", "--once"]).code(1);
    assert!(trial.lines("noticed").is_empty());
}

#[test]
fn a_folder_called_done_is_no_report_and_is_named() {
    for mode in [&["run"][..], &["run", "--in-place"]] {
        let script = "cat > /dev/null; echo \"$RALPH_ATTEMPT\" > work; git add work
            git commit -qm Work
            case $RALPH_ATTEMPT in
            1) mkdir -p \"$RALPH_TASK_DIR/DONE/x\" ;;
            2) rm -r \"$RALPH_TASK_DIR/DONE\"; mkdir \"$RALPH_TASK_DIR/DONE\" ;;
            *) touch \"$RALPH_TASK_DIR/DONE\" ;;
            esac";
        let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", script]);
        trial.run(mode).graph_complete();
        let failed = trial.lines("failed");
        assert_eq!(failed.len(), 2);
        let why = "ended without a report: `.ralph/tasks/a/DONE` is a folder, and only a file of that \
                   name is one; remove the folder, and report with `ralph task-complete`";
        assert!(failed.iter().all(|line| line["why"] == why), "{failed:?}");
        let prompt = trial.read("logs/attempts/a/2/prompt.md");
        assert!(prompt.contains("`.ralph/tasks/a/DONE` is a folder"), "{prompt}");
        assert_eq!(trial.lines("noticed").len(), 1, "the empty one");
        assert_eq!(trial.lines("completed")[0]["report"], "done_file");
    }
}

#[test]
fn files_that_were_dirty_before_are_not_the_agents() {
    for trial in [TestProject::new(), TestProject::new().in_place()] {
        let trial = trial.graph("tasks: [{id: a}]\n").agent("lie");
        trial.write("mine.txt", "in the middle of something\n");
        trial.run(["run", "--once"]).code(1);
        trial.assert_record("failed", &json!({"task_id": "a", "verdict": "unverified"}));
        assert_eq!(trial.read("mine.txt"), "in the middle of something\n");
    }
}

#[test]
fn a_second_attempt_is_told_of_the_first() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("fail-once");
    trial.run(["run"]).graph_complete().stderr_has("a started, attempt 2 (1 of 3 used)\n");
    let prompt = trial.read("logs/attempts/a/2/prompt.md");
    let at = prompt.find("## Where you stand").unwrap();
    let end = prompt.find("## How to work").unwrap();
    insta::assert_snapshot!(trial.redact(&prompt[at..end]), @r"
    ## Where you stand

    - This is attempt 2 at the task; 1 of 3 have failed.
    - Branch: `ralph/a`. Stay on it and do not rewrite its history.
    - The newest commits:
      - `[commit]` `Set the stage`

    ### The attempt before this one

    It was judged **failed**: exited with code 1.
    The last thing it said:

    ```text
    the tests are red
    ```
    Its prompt and its full output are in `[repo]/logs/attempts/a/1`.
    ");
    assert!(!trial.read("logs/attempts/a/1/prompt.md").contains("attempt before this one"));
}

const HALF: &str = "\
tasks:
  - {id: bad, priority: high, max_attempts: 1}
  - {id: after, depends_on: [bad]}
  - {id: last, depends_on: [after]}
  - {id: good}
";

#[test]
fn out_of_attempts_is_parked_and_the_rest_goes_on() {
    let trial = TestProject::new().graph(HALF).agent("fail-some");
    trial
        .run(["run"])
        .code(3)
        .stderr_has(
            "\
[time]  ✗ bad    [took]  failed (1 of 1 attempts): exited with code 7
[time]      no idea how to do bad
[time]  ✗ bad is parked after 1 attempt; `ralph task-reset bad --note \"…\"` retries it
",
        )
        .stderr_has(
            "\
[time]  everything left is blocked (exit code 3)
[time]  1 completed in 2 attempts, [took]; 1 of 4 complete
[time]  paid 2, needed 1: 1 crash
[time]  needs you:
[time]    - bad: parked after 1 attempt: failed: exited with code 7; 2 others wait on it
[time]        no idea how to do bad
[time]        `ralph show bad.1` shows it; `ralph task-reset bad --note \"…\"`
[time]  landed (1 to review: `ralph review`, `ralph diff ID`):
[time]    + good: Work on good; 1 commit, 1 file, +1 -0, [took]
[time]  left: 3 (1 parked, 2 waiting)
[time]  next: afterwards, `ralph run` continues
",
        );
    assert_eq!(
        (trial.status("bad"), trial.status("good")),
        ("in-progress".into(), "complete".into())
    );
    let held = &trial.lines("blocked")[0]["holders"];
    assert_eq!(*held, json!([{"task_id": "bad", "why": "parked after 1 attempt", "frees": 3}]));

    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("started").len(), 2, "a parked task stays parked in the next run");
    trial.run(["task-reset", "bad"]);
    trial.agent("commit").run(["run"]).graph_complete();
}

#[test]
fn three_attempts_and_no_more() {
    let trial = TestProject::new().graph("tasks: [{id: bad}]\n").agent("fail-some");
    trial.run(["run"]).code(3);
    trial.assert_record("parked", &json!({"task_id": "bad", "attempts": 3}));
    assert_eq!(trial.status("bad"), "in-progress");
    let attempts: Vec<_> =
        trial.lines("failed").iter().map(|line| line["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
}

#[test]
fn a_task_has_as_many_attempts_as_it_says() {
    let trial = TestProject::new()
        .graph("tasks:\n  - {id: bad, max_attempts: 1}\n  - {id: bad2, max_attempts: 2}\n")
        .agent("fail-some");
    trial.run(["run", "-q"]).code(3);
    assert_eq!(trial.tasks("failed"), ["bad", "bad2", "bad2"]);
    assert_eq!(trial.tasks("parked"), ["bad", "bad2"]);
}

#[test]
fn a_commit_of_the_graph_alone_is_no_proof() {
    let script = "cat > /dev/null; echo >> task-graph.yaml; mkdir -p docs/knowledge
        echo learned >> docs/knowledge/learnings.md
        git add -A; git commit -qm Done; \"$RALPH\" task-complete \"$RALPH_TASK_ID\"";
    let graph = |fields: &str| format!("tasks:\n  - {{id: a, max_attempts: 1{fields}}}\n");
    let trial = TestProject::new().graph(&graph("")).command(["sh", "-c", script]);
    trial.run(["run"]).code(3);
    trial.assert_record("failed", &json!({"verdict": "unverified", "metadata_only": true}));
    let graph = graph(", output: task-graph.yaml");
    let trial = TestProject::new().in_place().graph(&graph).command(["sh", "-c", script]);
    trial.run(["run"]).graph_complete();
}

#[test]
fn different_tasks_that_fail_in_a_row_stop_the_run() {
    let tasks: String = (1..8).map(|n| format!("  - id: bad{n}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{tasks}")).agent("fail");
    trial.run(["run", "-q"]).code(1);
    assert_eq!(trial.tasks("failed"), ["bad1", "bad2", "bad3", "bad4", "bad5"]);
    let why = trial.lines("finished")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("none was completed: bad1, bad2, bad3, bad4, bad5;"), "{why}");
    trial.run(["run", "-q", "--max-failures", "2"]).code(1);
    assert_eq!(trial.lines("failed").len(), 7);
    let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}max_failures: 0\n"));
    trial.run(["run", "-q", "--max-iterations", "6"]).code(2);
}

#[test]
fn hard_tasks_are_parked_and_the_others_are_done() {
    let easy: String = (1..9).map(|n| format!("  - id: easy{n}\n")).collect();
    let graph = format!("tasks:\n  - id: bad1\n  - id: bad2\n{easy}");
    let trial = TestProject::new().graph(&graph).agent("fail-some");
    trial.run(["run", "-q"]).code(3).stderr_has("bad1").stderr_has("bad2");
    assert_eq!(trial.tasks("started")[..3], ["bad1", "bad2", "easy1"]);
    assert_eq!((trial.lines("completed").len(), trial.lines("failed").len()), (8, 6));
    let mut parked = trial.tasks("parked");
    parked.sort_unstable();
    assert_eq!(parked, ["bad1", "bad2"]);
}

#[test]
fn an_agent_that_does_not_start_stops_the_run() {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "max_attempts: 9\n")
        .graph("tasks: [{id: a}]\n")
        .agent("fail");
    let why = "3 attempts in a row failed within 5s; check that the agent starts";
    trial.run(["run", "-q"]).code(1);
    assert_eq!(trial.lines("finished")[0]["why"], why);
    assert_eq!(trial.lines("failed").len(), 3);
}

#[test]
fn a_flood_of_output_is_kept_on_disk() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("flood");
    trial.run(["run"]).graph_complete();
    let length = fs::metadata(trial.root().join("logs/attempts/a/1/stdout")).unwrap().len();
    assert!(length > 50_000_000, "{length}");
    let journal = fs::metadata(trial.root().join("logs/ralph.jsonl")).unwrap().len();
    assert!(journal < 10_000, "output is not in the journal: {journal}");
}

#[test]
#[ignore = "slow"]
fn an_unread_prompt_blocks_nothing() {
    let text = "The quick brown fox. ".repeat(200_000);
    let graph = format!("tasks:\n  - id: a\n    description: {text}\n");
    let trial = TestProject::new().graph(&graph).agent("never-reads");
    trial.run(["run", "-q"]);
    assert!(trial.read("logs/attempts/a/1/prompt.md").len() > 4_000_000);
    assert_eq!(trial.status("a"), "complete");
}
