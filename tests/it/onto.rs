//! `ralph run --onto BRANCH`: work lands on another branch than that of the checkout, and nothing of
//! the checkout changes.

use std::fs;

use crate::{
    apart::{sound, stage, tell},
    support::{DIAMOND, TestProject, wait_for},
};

const GRAPH: &str = "tasks: [{id: a, title: A}, {id: b, title: B, depends_on: [a]}]\n";

fn tip(trial: &TestProject, branch: &str) -> String {
    trial.git(&["rev-parse", branch])
}

/// The checkout: HEAD, what git says is changed, and the graph file.
fn checkout(trial: &TestProject) -> [String; 4] {
    let git = |words: &[&str]| trial.git(words);
    [
        git(&["rev-parse", "--symbolic-full-name", "HEAD"]),
        git(&["rev-parse", "HEAD"]),
        git(&["status", "--porcelain"]),
        trial.graph_text(),
    ]
}

/// How many tasks the graph of a branch has as complete.
fn done_on(trial: &TestProject, branch: &str) -> usize {
    trial.git(&["show", &format!("{branch}:task-graph.yaml")]).matches("status: complete").count()
}

#[test]
fn work_lands_on_another_branch_and_nothing_of_the_checkout_changes() {
    let trial = stage(GRAPH, "");
    trial.write("line", "one\nmine\nthree\n");
    let before = checkout(&trial);
    let run = trial.run(["run", "--onto", "night"]).graph_complete();
    run.stderr_has("lands on `night`");
    assert_eq!(checkout(&trial), before);
    trial
        .run(["status"])
        .stdout_has("`git merge night` brings 2 tasks")
        .stdout_has(", lands on `night`");
    trial.run(["dag-status"]).stdout_has("2 on another branch");
    trial.run(["plan"]).stdout_has("2 tasks landed on `night` and are not on this branch: a, b");
    trial.run(["prompt"]).code(1);
    let doctor = trial.run(["doctor", "--json"]).code(3).json();
    let graph = doctor["findings"].as_array().unwrap().iter().find(|it| it["about"] == "graph");
    assert_eq!(graph.unwrap()["mark"], "fault", "{doctor}");
    trial.run(["run"]).code(3).stderr_has("`git merge night`, or run with `--onto night`");
    assert_eq!((trial.tasks("started").len(), checkout(&trial)), (2, before));
    // A task of the person's file goes on from there.
    let more = GRAPH.replace("]}]", "]}, {id: c, title: C, depends_on: [b]}]");
    trial.save("task-graph.yaml", &more);
    trial.git(&["commit", "--quiet", "--message", "More", "task-graph.yaml"]);
    let before = checkout(&trial);
    trial.run(["run", "--onto", "night"]).graph_complete();
    assert_eq!(
        (trial.tasks("started"), checkout(&trial)),
        (["a", "b", "c"].map(Into::into).into(), before)
    );
    trial.git(&["checkout", "--quiet", "--", "line"]);
    assert_eq!(done_on(&trial, "night"), 3);
    // What a squashed pull request brings is complete.
    trial.git(&["merge", "--quiet", "--squash", "-Xtheirs", "night"]);
    trial.git(&["commit", "--quiet", "--message", "The pull request"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started").len(), 3);
    trial.no_process_is_left();
}

#[test]
fn a_branch_in_another_worktree_follows_and_a_setting_names_it() {
    let trial = stage(GRAPH, "onto: night\n");
    let other = trial.dir().join("other");
    trial.git(&["worktree", "add", "--quiet", "-b", "night", other.to_str().unwrap()]);
    let before = checkout(&trial);
    trial.run(["run"]).graph_complete();
    assert_eq!(checkout(&trial), before);
    assert_eq!(fs::read_to_string(other.join("work/b.txt")).unwrap(), "attempt 1\n");
    let other = other.to_str().unwrap();
    assert_eq!(trial.git(&["-C", other, "status", "--porcelain"]), "");
    trial.run(["dag-status"]).stdout_has("2 of 2 complete");
    trial.run(["run", "--in-place"]).code(64).stderr_has("`onto: night` needs slots");
    // A reset opens the task on the branch again.
    tell(&trial, "a", "put again a; work");
    trial.run(["task-reset", "a"]).stdout_has("attempts reset");
    trial.run(["run"]).graph_complete();
    assert_eq!(
        (trial.tasks("started"), checkout(&trial)),
        (["a", "b", "a"].map(Into::into).into(), before)
    );
}

#[test]
fn a_reset_opens_a_parked_task_on_the_branch_at_once() {
    let trial = stage("tasks: [{id: a, title: A}]\n", "onto: night\nmax_attempts: 1\n");
    tell(&trial, "a-1", "exit 1");
    trial.run(["run"]).code(3);
    let on_branch = trial.git(&["show", "night:task-graph.yaml"]);
    assert!(on_branch.contains("status: in-progress"), "{on_branch}");
    let before = checkout(&trial);
    trial.run(["task-reset", "a"]).stdout_has("attempts reset");
    trial.run(["dag-status"]).stdout_has("1 ready");
    assert_eq!(checkout(&trial), before);
    trial.run(["run"]).graph_complete();
    assert_eq!((trial.tasks("started").len(), checkout(&trial)), (2, before));
}

#[test]
fn a_run_that_was_paused_continues_on_its_branch() {
    let trial = stage(GRAPH, "");
    tell(&trial, "a", "await go; work");
    let run = trial.start(["run", "--onto", "night"]);
    wait_for(&trial.sign("waiting-a"));
    trial.run(["pause"]).code_is_any();
    trial.run(["dag-status"]).stdout_has("In progress");
    trial.leave("go");
    run.end(&trial).code_is_any();
    let before = tip(&trial, "main");
    trial.run(["resume"]).graph_complete();
    assert_eq!((tip(&trial, "main"), done_on(&trial, "night")), (before, 2));
    // So does a run on the branch of the checkout when another branch is checked out since.
    trial.git(&["switch", "--quiet", "night"]);
    trial.save("task-graph.yaml", &trial.graph_text().replace("]\n", ", {id: c}, {id: d}]\n"));
    trial.git(&["commit", "--quiet", "--message", "More", "task-graph.yaml"]);
    tell(&trial, "c", "await on; work");
    let run = trial.start(["run", "--jobs", "1"]);
    wait_for(&trial.sign("waiting-c"));
    trial.run(["pause"]).code_is_any();
    trial.leave("on");
    run.end(&trial).code_is_any();
    trial.git(&["switch", "--quiet", "--detach"]);
    trial
        .run(["resume"])
        .code(1)
        .stderr_has("HEAD is detached, and the work of this run lands on `night`");
    trial.git(&["switch", "--quiet", "main"]);
    let before = checkout(&trial);
    trial.run(["resume"]).graph_complete();
    assert_eq!(checkout(&trial), before);
    assert!(trial.git(&["ls-tree", "-r", "--name-only", "night"]).contains("work/d.txt"));
    trial.no_process_is_left();
}

#[test]
fn what_is_no_branch_is_refused() {
    let trial = stage(GRAPH, "");
    trial.git(&["tag", "v1"]);
    trial.git(&["update-ref", "refs/remotes/origin/night", "HEAD"]);
    for (name, why) in [
        ("v1", "it is a tag"),
        ("origin/night", "`--onto night` is a local one"),
        ("two words", "not a valid name"),
        ("HEAD", "not a valid name"),
        ("refs/heads/x", "not a valid name"),
        ("", "not a valid name"),
        ("main/x", "'refs/heads/main' exists"),
    ] {
        trial.run(["run", "--onto", name]).code(64).stderr_has(why);
    }
    trial.run(["run", "--onto", "night", "--in-place"]).code(64);
    trial.run(["run", "--onto", "main"]).graph_complete();
    sound(&trial);
}

#[test]
fn a_run_follows_a_branch_that_is_renamed() {
    let trial = stage(GRAPH, "");
    tell(&trial, "a", "await go; work");
    let run = trial.start(["run"]);
    wait_for(&trial.sign("waiting-a"));
    trial.git(&["branch", "-m", "main", "trunk"]);
    trial.leave("go");
    run.end(&trial).graph_complete().stderr_has("`main` was renamed: work lands on `trunk`");
    assert_eq!((trial.tasks("started").len(), done_on(&trial, "trunk")), (2, 2));
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    // So does the next run with what was queued to land, here on a branch without a checkout.
    let trial = stage(GRAPH, "jobs: 1\n");
    let record = trial.sign("points").display().to_string();
    let trial =
        trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "merge.intended:1");
    trial.run(["run", "--onto", "night"]).code(-1);
    trial.git(&["branch", "-m", "night", "day"]);
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run", "--onto", "day"]).graph_complete();
    assert_eq!((trial.tasks("started").len(), done_on(&trial, "day")), (2, 2));
}

#[test]
fn what_is_complete_on_the_other_branch_is_not_foreseen_again() {
    let trial = TestProject::new().graph(DIAMOND).agent("commit");
    let run = trial.run(["run", "--onto", "night", "--max-iterations", "1"]).code(2);
    run.stderr_has("`ralph run --onto night` continues");
    let there =
        trial.run(["plan", "--agent", "cat", "--json", "--onto", "night"]).json()["night"].clone();
    assert_eq!(there["open"], 3);
    // On the branch of the checkout that task is neither complete nor to be done again.
    let here = trial.run(["plan", "--agent", "cat", "--json"]).json()["night"].clone();
    assert_eq!((&here["done"], &here["reasons"][0]["exit_code"]), (&0.into(), &3.into()));
}
