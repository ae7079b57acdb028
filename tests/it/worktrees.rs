//! `ralph worktree`, and the other views of isolated attempts: `status`, `dag-status`, `attach`,
//! `logs -f`, `doctor`, the lines of a run.

use std::fs;

use serde_json::{Value, json};

use crate::support::{RALPH, SETTINGS, TestProject, until, wait_for};

const TWO: &str = "tasks: [{id: a, title: The first}, {id: b}]\n";

fn settings(more: &str) -> String {
    format!("{SETTINGS}jobs: 2\n{more}")
}

fn stage(more: &str) -> TestProject {
    TestProject::new().graph(TWO).file(".ralph/config.yaml", &settings(more)).agent("gate")
}

/// A repository in which two attempts have been merged, with their worktrees.
fn merged() -> TestProject {
    let trial = stage("").agent("commit");
    trial.run(["run", "-q"]);
    trial
}

/// The path of a file in a worktree.
fn worktree_file(trial: &TestProject, path: &str) -> std::path::PathBuf {
    trial.dir().join("repo.worktrees").join(path)
}

fn git_in(trial: &TestProject, tree: &str, words: &[&str]) -> String {
    let tree = worktree_file(trial, tree).display().to_string();
    trial.git(&[&["-C", &tree], words].concat())
}

/// `remove` refuses with this reason and changes nothing.
#[track_caller]
fn stays(trial: &TestProject, name: &str, why: &str) {
    let before = trial.git(&["worktree", "list", "--porcelain"]);
    let ran = trial.run(["worktree", "remove", name]).code(1);
    ran.stderr(&format!("ralph: error: ../repo.worktrees/{name} stays: {why}\n"));
    assert_eq!(trial.git(&["worktree", "list", "--porcelain"]), before);
}

#[test]
fn every_view_shows_the_worktrees_of_attempts() {
    let trial = stage("verify: sh \"$TRIAL_DIR/check.sh\"\n");
    trial.script(&trial.sign("check.sh"), "until [ -e \"$TRIAL_DIR/green\" ]; do sleep 0.02; done");
    let run = trial.start_until(["run"], "waiting-a");
    wait_for(&trial.sign("waiting-b"));
    until("the agents have started", || trial.lines("agent_started").len() == 2);
    insta::assert_snapshot!(trial.run(["worktree", "list"]).out(), @r"
    worktree             task  branch   state
    ../repo.worktrees/1  a     ralph/a  in use by attempt a.1, running
    ../repo.worktrees/2  b     ralph/b  in use by attempt b.1, running
    .                    -     main     the checkout that people work in
    ");
    insta::assert_snapshot!(trial.run(["dag-status"]).out().split_once("\n\n").unwrap().1, @r"
    In progress
      a  The first  for [took], an agent is at work, in ../repo.worktrees/1 (ralph/a)
      b  for [took], an agent is at work, in ../repo.worktrees/2 (ralph/b)
    ");
    let attempts = |text: String| -> Vec<String> {
        let shown = |line: &&str| line.starts_with("Current") || line.starts_with("Merge");
        text.lines().filter(shown).map(str::to_owned).collect()
    };
    insta::assert_snapshot!(attempts(trial.run(["status"]).out()).join("\n"), @r"
    Current attempt: a, attempt 1, since [time], for [took]; in ../repo.worktrees/1 (ralph/a)
    Current attempt: b, attempt 1, since [time], for [took]; in ../repo.worktrees/2 (ralph/b)
    ");
    let several =
        "ralph: error: several attempts are running: `a`, `b`; choose one with `ralph attach ID`\n";
    trial.run(["attach"]).code(1).stderr(several);
    trial
        .run(["attach", "c"])
        .code(1)
        .stderr("ralph: error: no attempt at `c` is running; choose one of `a`, `b` with `ralph attach ID`\n");
    stays(&trial, "1", "attempt a.1 is at work in it; `ralph stop` ends the run after it");
    let live = trial.start(["logs", "-f", "--output"]);
    until("it follows", || live.said().contains("not shown"));
    assert_eq!(live.said(), "also running, not shown: a (`--task a`)\n");

    // Both are verified; then one is merged, and the other waits.
    trial.leave("open");
    let stages = || {
        let status = trial.run(["status", "--json"]).json();
        let attempts = status["attempts"].as_array().unwrap().iter();
        let stages: Vec<String> =
            attempts.map(|one| one["stage"].as_str().unwrap().to_owned()).collect();
        (stages.join(" "), status)
    };
    until("both are verified", || stages().0 == "verifying verifying");
    let (_, status) = stages();
    assert_eq!(status["attempts"][0]["branch"], "ralph/a");
    assert_eq!(status["attempts"][0]["worktree"], "[repo].worktrees/1");
    assert_eq!(status["merge_queue"], json!({"waiting": [], "trying": null, "held": null}));
    trial.leave("green");
    run.end(&trial).code(0);
    live.kill();
    insta::assert_snapshot!(trial.run(["worktree", "list"]).out(), @r"
    worktree                 task  branch  state
    ../repo.worktrees/1      -     -       free
    ../repo.worktrees/2      -     -       free
    ../repo.worktrees/merge  -     -       the merge queue's
    .                        -     main    the checkout that people work in
    ");
    let list = trial.run(["worktree", "list", "--json"]).json();
    assert_eq!(list[0]["state"], "free");
    assert_eq!(list[3]["kind"], "main");
    trial.no_process_is_left();
}

#[test]
fn what_waits_to_be_merged_is_shown_with_what_is_in_its_way() {
    let trial = stage("").agent("commit");
    trial.write("work/a.txt", "mine\n");
    trial.run(["run", "-q", "--task", "a"]).code(4);
    let status = trial.run(["status"]).out();
    let shown = |line: &&str| line.starts_with("Current") || line.starts_with("Merge");
    let shown: Vec<&str> = status.lines().filter(shown).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    Current attempt: a, attempt 1, since [time], for [took]; queued to land, in ../repo.worktrees/1 (ralph/a)
    Merge queue: a; `main` cannot move: your uncommitted changes block it: work/a.txt; commit or stash them in [repo]
    ");
    let queue = trial.run(["status", "--json"]).json()["merge_queue"].clone();
    assert_eq!(queue["waiting"], json!(["a"]));
    assert_eq!(queue["held"]["paths"], json!(["work/a.txt"]));
    stays(&trial, "1", "attempt a.1 is queued to land in the next run: `ralph run`");
    fs::remove_file(trial.root().join("work/a.txt")).unwrap();
    trial.run(["run", "-q", "--task", "a"]);
    assert_eq!(trial.status("a"), "complete");
}

#[test]
fn nothing_is_removed_that_is_kept_nowhere_else() {
    let trial = merged();
    let change = "put it on a branch, or undo it, in `[repo].worktrees/1`";
    fs::write(worktree_file(&trial, "1/new"), "").unwrap();
    stays(&trial, "1", &format!("`new` has uncommitted changes; {change}"));
    git_in(&trial, "1", &["add", "new"]);
    stays(&trial, "1", &format!("`new` has uncommitted changes; {change}"));
    git_in(&trial, "1", &["commit", "-qm", "New"]);
    let commit = git_in(&trial, "1", &["rev-parse", "HEAD"]).trim().to_owned();
    stays(&trial, "1", &format!("commit [commit] is on no branch; {change}"));
    // Moved away by hand: its record is the last reference to the commit.
    fs::rename(worktree_file(&trial, "1"), trial.sign("aside")).unwrap();
    stays(
        &trial,
        "1",
        "its folder is gone, and commit [commit] is on no branch; `git branch NAME [commit]` keeps it",
    );
    trial.git(&["branch", "kept", &commit]);
    trial.run(["worktree", "remove", "1"]).stderr("forgot ../repo.worktrees/1\n");

    let two = worktree_file(&trial, "2").display().to_string();
    trial.git(&["worktree", "lock", "--reason", "mine", &two]);
    stays(&trial, "2", "it is locked (mine); `git worktree unlock [repo].worktrees/2` first");
    trial.git(&["worktree", "unlock", &two]);
    let output = trial.process(RALPH).args(["worktree", "remove", "."]).current_dir(&two).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.ends_with("stays: you are in it; `cd` to another place\n"), "{said}");
    trial.run(["worktree", "remove", &two]).stderr("removed ../repo.worktrees/2\n");
    trial.run(["worktree", "remove", "merge"]).stderr("removed ../repo.worktrees/merge\n");
    let main = "ralph: error: . stays: it is the checkout that people work in\n";
    trial.run(["worktree", "remove", "."]).code(1).stderr(main);
    trial.run(["worktree", "remove", "9"]).code(1).stderr(
        "ralph: error: `9` is not a worktree of this repository; `ralph worktree list` lists them\n",
    );
    trial.run(["worktree", "list"]).stdout(
        "worktree  task  branch  state\n\
         .         -     main    the checkout that people work in\n",
    );
}

#[test]
fn a_worktree_of_a_person_is_not_used_by_runs() {
    let trial = stage("setup: npm ci\n").agent("commit");
    let tip = &trial.git(&["rev-parse", "--short", "HEAD"])[..7];
    trial.run(["worktree", "new", "b"]).stdout("[repo].worktrees/b\n").stderr(
        "on branch ralph/b, new, from main at [commit]\nnot set up: attempts would run npm ci\n",
    );
    assert_eq!(&git_in(&trial, "b", &["rev-parse", "--short", "HEAD"])[..7], tip);
    trial
        .run(["worktree", "new", "b"])
        .code(1)
        .stderr("ralph: error: `ralph/b` is checked out already: `cd [repo].worktrees/b`\n");
    trial
        .run(["worktree", "new", "bb"])
        .code(1)
        .stderr("ralph: error: there is no task and no branch `bb`; did you mean `b`?\n");
    // The worktree of a person is theirs, and its branch is not moved.
    fs::write(worktree_file(&trial, "b/begun"), "").unwrap();
    git_in(&trial, "b", &["add", "begun"]);
    git_in(&trial, "b", &["commit", "-qm", "Begin"]);
    let mine = git_in(&trial, "b", &["rev-parse", "HEAD"]);
    trial.write(".ralph/config.yaml", &settings(""));
    trial.git(&["commit", "-qam", "No setup"]);
    trial.run(["run", "-q"]);
    assert_eq!(
        (trial.status("b"), git_in(&trial, "b", &["rev-parse", "HEAD"])),
        ("complete".to_owned(), mine)
    );
    trial
        .run(["worktree", "remove", "b"])
        .stderr("removed ../repo.worktrees/b; branch ralph/b stays\n");
    // A new worktree for the branch continues it.
    trial
        .run(["worktree", "new", "ralph/b"])
        .stdout("[repo].worktrees/b\n")
        .stderr_has("on branch ralph/b, as it is, at ");
    assert!(worktree_file(&trial, "b/begun").exists());
    // Numbers are reserved for attempts.
    trial.git(&["branch", "topic/2"]);
    trial.git(&["branch", "7"]);
    trial.run(["worktree", "new", "topic/2"]).stdout("[repo].worktrees/topic-2\n");
    trial.run(["worktree", "new", "7"]).stdout("[repo].worktrees/task-7\n");
    let list = trial.run(["worktree", "list", "--json"]).json();
    let kinds = list.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    let hand = "made_by_hand";
    assert_eq!(kinds, ["pool", "pool", "merge_queue", hand, hand, hand, "main"]);
}

#[test]
fn lines_of_several_attempts_can_be_told_apart() {
    let trial = stage("verify: 'test -e good || { echo not good; false; }'\nmax_attempts: 1\n");
    let trial = trial.agent("commit");
    let text = trial.run(["run", "-v"]).whole();
    let text = text.split_once("--- stderr ---\n").unwrap().1;
    let lines: Vec<&str> = text.lines().map(|line| &line["[time]  ".len()..]).collect();
    let of_run =
        ["run [run], agent: ", "2 tasks", "what is left", "everything left", "0 completed"];
    let end = lines.iter().position(|line| line.starts_with("everything left")).unwrap();
    for line in &lines[..end] {
        let named = ["a", "b"].iter().any(|id| {
            line.starts_with(&format!("{id} "))
                || line.starts_with(&format!("{id}: "))
                || line.contains(&format!(" {id} "))
                || line.contains(&format!(" {id}:"))
        });
        let goes_on =
            line.starts_with("  ") || line.starts_with("chosen by") || line.starts_with("from ");
        let of_run = of_run.iter().any(|begin| line.starts_with(begin));
        assert!(named || goes_on || of_run, "{line:?} in\n{text}");
    }
    // Each head line is followed by its details.
    for id in ["a", "b"] {
        let at = lines.iter().position(|line| line.starts_with(&format!("{id}: `test"))).unwrap();
        let head =
            format!("{id}: `test -e good || {{ echo not good; false; }}` exited with code 1");
        assert!(lines[at].starts_with(&head), "{text}");
        assert_eq!(lines[at + 1], "    its last line: not good", "{text}");
        let log = format!("    output in logs/attempts/{id}/1/verify-1.log");
        assert_eq!(lines[at + 2], log, "{text}");
    }
    assert!(text.contains("Iteration 1 of 50 · a · P2 · attempt 1 · The first\n"), "{text}");
}

#[test]
fn the_doctor_checks_what_isolated_attempts_need() {
    let trial = merged();
    let found = |trial: &TestProject| -> Vec<(String, String)> {
        let report: Value = trial.run(["doctor", "--json", "--", "true"]).json();
        let list = report["findings"].as_array().unwrap().iter();
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let marked = |one: &Value| format!("{} {}", text(one, "mark"), text(one, "found"));
        list.map(|one| (text(one, "about"), trial.redact(&marked(one)))).collect()
    };
    let of = |all: &[(String, String)], about: &str| {
        all.iter().find(|(name, _)| name == about).map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let all = found(&trial);
    assert!(of(&all, "worktrees").starts_with("ok ../repo.worktrees: 3 worktrees of about "));
    assert!(of(&all, "git").starts_with("ok git version "));
    assert_eq!((of(&all, "leftovers"), of(&all, "branches")), (String::new(), String::new()));

    fs::write(worktree_file(&trial, "1/new"), "").unwrap();
    trial.git(&["branch", "ralph/a"]);
    trial.write(".worktreeinclude", "# what is needed\n.env\ncache/*.bin\n");
    trial.write(".gitignore", ".env\n");
    trial.write(".env", "A=1\n");
    trial.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib\n");
    let all = found(&trial);
    let kept = "../repo.worktrees/1 (kept: `new` has uncommitted changes)";
    assert_eq!(of(&all, "leftovers"), format!("warning {kept}"));
    assert_eq!(of(&all, "branches"), "warning left from finished tasks: ralph/a");
    assert_eq!(
        of(&all, "copied files"),
        "warning patterns in `.worktreeinclude` that match no ignored file: `cache/*.bin`"
    );
    assert_eq!(of(&all, "submodules"), "warning not cloned: lib");
    trial.git(&["checkout", "-q", "--detach"]);
    let (doctor, run) = (trial.run(["doctor", "-q", "--", "true"]), trial.run(["run"]));
    doctor.code(1).stdout_has("HEAD is detached, and isolated attempts need a branch");
    run.code(1);
}
