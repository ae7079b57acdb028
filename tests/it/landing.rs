//! What lands was verified on exactly the commit that lands, in every form of merge.

use std::fs;

use serde_json::json;

use crate::{
    apart::{HOLD, landed, slots, sound, stage, tell},
    support::{TestProject, each, wait_for},
};

const FORMS: &[&str] = &["rebase", "merge"];

/// Runs until `a` is verified on a tip that a person moved, lets `b` and `c` queue behind it in
/// this order, and goes on to the end.
fn b_and_c_behind_a(trial: TestProject) -> TestProject {
    let run = trial.start_until(["run"], "waiting-a");
    wait_for(&trial.sign("waiting-b"));
    wait_for(&trial.sign("waiting-c"));
    let trial = trial.file("count.txt", "1\n");
    trial.leave("a");
    wait_for(&trial.sign("held"));
    for (count, id) in (2..).zip(["b", "c"]) {
        trial.leave(id);
        trial.wait_for_records(count, "queued");
    }
    trial.leave("on");
    run.end(&trial).graph_complete();
    sound(&trial);
    trial
}

/// The same with a `c` that conflicts with `b`.
fn b_before_a_conflict(trial: TestProject) -> TestProject {
    let trial = trial.file("tests/hold.sh", HOLD);
    tell(&trial, "c-1", "await c; put line 'by c'; work");
    b_and_c_behind_a(trial)
}

/// `a` and `b` fail together. At the head of `c`, which has neither, everything passes.
#[test]
fn work_before_a_conflict_is_not_verified_on_the_conflicting_work() {
    let only_one = "[ \"$(cat of-a of-b 2> /dev/null | grep -c first)\" -lt 2 ]\n";
    let work = |form: &&str| {
        let graph = "tasks: [{id: a}, {id: b}, {id: c}]\n";
        let trial = stage(graph, &format!("jobs: 3\nmerge: {form}\n"));
        let trial = trial.file("tests/only-one.sh", only_one);
        tell(&trial, "a", "await a; put of-a first; work");
        tell(&trial, "b-1", "await b; put of-b first; put line 'by b'; work");
        // The second attempt may start before `c` lands, and conflicts with it then.
        tell(&trial, "b-2", "put of-b second; work");
        tell(&trial, "b-3", "put of-b second; work");
        let trial = b_before_a_conflict(trial);
        let failed = trial.lines("failed").remove(0);
        assert_eq!((&failed["task_id"], &failed["merge"]["result"]), (&json!("b"), &json!("red")));
        assert_eq!(landed(&trial, "of-b"), "second\n", "{form}");
    };
    each(2, FORMS, work);
}

/// The verify command of `b` fails at the head of `c`, and passes on what is tried.
#[test]
fn work_before_a_conflict_is_not_sent_back_for_the_conflicting_work() {
    let work = |form: &&str| {
        let graph = "tasks: [{id: a}, {id: b, verify: test -e of-b}, {id: c}]\n";
        let trial = stage(graph, &format!("jobs: 3\nmerge: {form}\n"));
        tell(&trial, "a", "await a; work");
        tell(&trial, "b", "await b; put of-b 1; put line 'by b'; work");
        tell(&trial, "c-2", "put line 'by b and c'; work");
        let trial = b_before_a_conflict(trial);
        assert_eq!(trial.tasks("failed"), ["c"], "{form}");
        assert_eq!(trial.lines("failed")[0]["merge"]["result"], "conflict");
        assert_eq!(landed(&trial, "line"), "by b and c\n");
    };
    each(2, FORMS, work);
}

/// A verify command that moves HEAD in the worktree of the attempt only: its result there does not
/// count, and the trial decides.
#[test]
fn work_whose_verify_command_moved_head_is_tried_again() {
    let stray = "git commit --quiet --allow-empty -m Stray";
    let verify = format!("verify: ['case $PWD in */merge/*) ;; *) {stray} ;; esac']\n");
    let trial = stage("tasks: [{id: a}]\n", &format!("jobs: 1\n{verify}"));
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(slots(&trial), ["1", "merge"]);
}

/// It moves HEAD in the trial too: nothing is known of the work.
#[test]
fn a_verify_command_that_moves_head_holds_landing() {
    let work = |form: &&str| {
        let settings = format!("merge: {form}\nverify: ['git checkout --quiet HEAD~1', 'true']\n");
        let trial = stage("tasks: [{id: a}]\n", &settings);
        let base = trial.git(&["rev-parse", "main"]);
        trial.run(["run"]).code(4).stderr_has("moved HEAD: `git checkout --quiet HEAD~1`");
        trial.no_process_is_left();
        assert_eq!(trial.git(&["rev-parse", "main"]), base, "{form}");
        assert_eq!(trial.tasks("merging").len(), 2, "one more trial");
        assert_eq!(trial.lines("merge_held").len(), 1);
        assert_eq!(trial.lines("failed").len(), 0, "it is no verdict on the work");
    };
    each(2, FORMS, work);
}

/// The next run judges such work as its agent left it, not as the verify command did.
#[test]
fn held_work_is_judged_again_as_its_agent_left_it() {
    let strays = [
        "git checkout --quiet HEAD~1",
        "git commit --quiet --allow-empty -m Stray",
        "echo x > stray && git add stray && git commit --quiet -m Stray",
    ];
    let work = |stray: &&str| {
        let settings = "verify: ['sh \"$TRIAL_DIR/check\"']\n";
        let trial = stage("tasks: [{id: a}]\n", settings);
        let check = trial.sign("check");
        fs::write(&check, format!("{stray}\n")).unwrap();
        trial.run(["run"]).code(4).stderr_has("moved HEAD");
        fs::write(&check, "true\n").unwrap();
        trial.run(["run"]).graph_complete();
        let log = trial.git(&["log", "--format=%s", "main"]);
        assert!(!log.contains("Stray"), "{stray}: {log}");
        assert!(!trial.read("work/a.txt").is_empty(), "{stray}");
        assert_eq!(trial.lines("started").len(), 1, "{stray}: the agent was not blamed");
        trial.no_process_is_left();
    };
    each(3, &strays, work);
}

/// What `ralph` commits for the agent is another commit than the one that was verified: a hook may
/// have changed the files.
#[test]
fn work_that_ralph_commits_is_verified_as_committed() {
    let trial = stage("tasks: [{id: a}]\n", "jobs: 1\n");
    let trial = trial.file("tests/good.sh", "! grep -q bad work/a.txt 2> /dev/null\n");
    let spoil = "if mkdir \"$TRIAL_DIR/spoiled\"; then echo bad >> work/a.txt; git add work; fi";
    trial.hook("pre-commit", &format!("{spoil} 2> /dev/null"));
    tell(&trial, "a-1", "mkdir -p work; echo 1 > work/a.txt; report");
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(trial.lines("failed")[0]["merge"]["result"], "red");
    assert_eq!(trial.tasks("completed"), ["a"]);
}

/// A person's unsaved line holds nothing up: the run goes on, and the checkout follows once there is
/// room, here at the start of the next run.
#[test]
fn a_run_goes_on_while_its_checkout_waits() {
    let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}, {id: c, depends_on: [b]}]\n", "");
    tell(&trial, "a", "put line agent; work");
    tell(&trial, "", "[ \"$(cat line)\" = agent ]; work");
    trial.write("line", "mine\n");
    let base = trial.git(&["rev-parse", "main"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
    assert_eq!(trial.lines("checkout_waits").len(), 1, "each reason is recorded once");
    let why = |number: usize| trial.lines("completed")[number]["why"].as_str().unwrap().to_owned();
    assert!(why(0).ends_with("; landed, waits for your checkout"), "{}", why(0));
    assert_eq!((trial.read("line").as_str(), trial.git(&["rev-parse", "main"])), ("mine\n", base));
    let said = "3 landed tasks wait for your checkout: line has uncommitted changes";
    trial.run(["status"]).stdout_has(said);
    trial.run(["dag-status"]).stdout_has(said).stdout_has("3 of 3 complete");
    trial.git(&["checkout", "--quiet", "--", "line"]);
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!((trial.read("line").as_str(), trial.tasks("started").len()), ("agent\n", 3));
    assert_eq!(trial.lines("checkout_followed").len(), 1);
    assert_eq!(trial.git(&["for-each-ref", "refs/ralph/tip", "refs/ralph/origin"]), "");
}

/// What two attempts changed alike is the work of the first that lands; the size of the second is that
/// of the commit that landed.
#[test]
fn the_size_of_landed_work_is_that_of_its_commit() {
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "jobs: 2\n");
    tell(&trial, "a", "put line agent; work");
    tell(&trial, "b", "put line agent; await open; work");
    let run = trial.start_until(["run"], "waiting-b");
    trial.wait_for_records(1, "completed");
    trial.leave("open");
    run.end(&trial).graph_complete();
    for line in trial.lines("completed") {
        let commit = line["commits"][0]["id"].as_str().unwrap();
        let files = trial.git(&["show", "--format=", "--name-only", commit]);
        assert_eq!(line["diff"]["files"], files.lines().count(), "{files}");
    }
}

/// What is in the way of the checkout, and what makes room.
#[test]
fn a_checkout_follows_once_what_is_in_its_way_is_gone() {
    let scenes = [
        ("echo mine > new", "rm new"),
        ("echo new >> .git/info/exclude; echo mine > new", "rm new"),
        (": > .git/index.lock", "rm .git/index.lock"),
        (
            "git update-index --skip-worktree line; echo mine > line",
            "git update-index --no-skip-worktree line; git checkout -q line",
        ),
        (
            "git update-index --assume-unchanged line; echo mine > line",
            "git update-index --no-assume-unchanged line; git checkout -q line",
        ),
        (
            "git checkout -q -b side; git checkout -q main; git bisect start -q main main~1 || :; git checkout -q side",
            "git bisect reset -q side; git checkout -q main",
        ),
        ("git checkout -q --detach", "git checkout -q main"),
    ];
    let work = |(hinder, clear): &(&str, &str)| {
        let trial = stage("tasks: [{id: a}, {id: b}]\n", "").env("RALPH_FIXED_LIMIT", "2s");
        trial.git(&["commit", "--quiet", "--allow-empty", "-m", "Set the stage"]);
        tell(&trial, "a", "await open; put line agent; put new agent; work");
        let run = trial.start_until(["run"], "waiting-a");
        let shell = |script: &str| {
            let mut shell = trial.process("sh");
            assert!(shell.args(["-c", script]).status().unwrap().success(), "{script}");
        };
        shell(hinder);
        trial.leave("open");
        run.end(&trial).graph_complete();
        assert_eq!(trial.tasks("completed").len(), 2, "{hinder}");
        // What `git status` does not show has its own command in the advice.
        let (command, _) = clear.split_once("; ").unwrap_or_default();
        if command.starts_with("git update-index") {
            trial.run(["status"]).stdout_has(command);
        }
        shell(clear);
        trial.run(["land"]).code(0);
        sound(&trial);
        assert_eq!(landed(&trial, "new"), "agent\n", "{hinder}");
        assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
    };
    each(3, &scenes, work);
}

/// A person commits on the branch while work waits for it: the next landing takes that in, verified
/// with the work.
#[test]
fn what_a_person_commits_while_work_waits_lands_with_the_next() {
    let trial = stage("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", "");
    tell(&trial, "a", "put line agent; work");
    tell(&trial, "b", "await open; work");
    trial.write("line", "mine\n");
    let run = trial.start_until(["run"], "waiting-b");
    trial.wait_for_records(1, "checkout_waits");
    trial.write("own.txt", "mine\n");
    trial.git(&["add", "own.txt"]);
    trial.git(&["commit", "--quiet", "-m", "Mine", "own.txt"]);
    trial.leave("open");
    run.end(&trial).graph_complete();
    trial.git(&["checkout", "--quiet", "--", "line"]);
    trial.run(["land"]).code(0);
    assert_eq!(
        (landed(&trial, "own.txt"), landed(&trial, "line")),
        ("mine\n".into(), "agent\n".into())
    );
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));

    // Without another landing, `ralph land` puts both together.
    let trial = stage("tasks: [{id: a}]\n", "");
    tell(&trial, "a", "put line agent; work");
    trial.write("line", "mine\n");
    trial.run(["run"]).graph_complete();
    trial.write("own.txt", "mine\n");
    trial.git(&["add", "own.txt"]);
    trial.git(&["commit", "--quiet", "-m", "Mine", "own.txt"]);
    trial.git(&["checkout", "--quiet", "--", "line"]);
    trial.run(["status"]).stdout_has("has commits of yours");
    trial.run(["land"]).code(0).stderr_has("not verified together");
    assert_eq!(
        (landed(&trial, "own.txt"), landed(&trial, "line")),
        ("mine\n".into(), "agent\n".into())
    );
}

#[test]
fn commits_of_a_person_that_conflict_with_what_landed_are_merged_by_hand() {
    let trial = stage("tasks: [{id: a}]\n", "");
    tell(&trial, "a", "put line agent; work");
    trial.write("line", "mine\n");
    trial.run(["run"]).graph_complete();
    trial.git(&["add", "line"]);
    trial.git(&["commit", "--quiet", "-m", "Mine", "line"]);
    let remedy = "`git merge refs/ralph/tip/main` merges them by hand";
    trial.run(["status"]).stdout_has(remedy);
    trial.run(["land"]).code(4).stderr_has(remedy);
    trial.git(&["merge", "--quiet", "-X", "ours", "refs/ralph/tip/main"]);
    trial.run(["land"]).code(0);
    assert_eq!((landed(&trial, "line"), trial.status("a")), ("mine\n".into(), "complete".into()));
}

/// A person rewrites or drops the commit from which the branch was to follow: nothing is lost, and
/// nothing of theirs is undone.
#[test]
fn work_that_waits_is_carried_over_to_a_branch_that_was_rewritten() {
    for rewrite in ["git commit -q --amend -m Again", "git reset -q --soft HEAD~1"] {
        let trial = stage("tasks: [{id: a}]\n", "").file("own.txt", "mine\n");
        tell(&trial, "a", "put line agent; work");
        trial.write("line", "mine\n");
        trial.run(["run"]).graph_complete();
        let mut shell = trial.process("sh");
        assert!(shell.args(["-c", rewrite]).status().unwrap().success());
        let base = trial.git(&["rev-parse", "main"]);
        trial.git(&["checkout", "--quiet", "--", "line"]);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.tasks("started"), ["a"], "{rewrite}: it is not done again");
        let said = trial.lines("noticed").remove(0);
        assert!(said["text"].as_str().unwrap().contains("is on top of it now"), "{said}");
        assert_eq!(landed(&trial, "line"), "agent\n", "{rewrite}");
        assert_eq!(trial.git(&["merge-base", "main", base.trim()]), base, "{rewrite}");
        assert_eq!(trial.read("own.txt"), "mine\n", "{rewrite}");
    }
}

/// A kill between the moves of the tip and of the branch: the next run follows, and does nothing
/// twice.
#[test]
fn a_kill_between_landing_and_following_costs_nothing() {
    let points = ["land.moved:1", "follow.written:1", "follow.staged:1", "follow.moved:1"];
    let work = |point: &&str| {
        // Another agent that works when the run is killed is begun again.
        let trial = stage("tasks: [{id: a}, {id: b}]\n", "jobs: 1\n");
        let record = trial.sign("points").display().to_string();
        let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", point);
        trial.run(["run"]).code(-1);
        let trial = trial.env("RALPH_CRASH_POINT", "");
        trial.run(["run"]).graph_complete();
        sound(&trial);
        for action in ["started", "completed"] {
            assert_eq!(trial.tasks(action).len(), 2, "{point}: {action}");
        }
    };
    each(3, &points, work);
}

#[test]
fn the_commit_that_completes_a_task_has_what_the_hooks_write() {
    let trial = stage("tasks: [{id: a}]\n", "");
    let sign =
        "git interpret-trailers --in-place --trailer 'Signed-off-by: T <t@example.org>' \"$1\"";
    trial.hook("prepare-commit-msg", sign);
    trial.hook("commit-msg", "echo 'Change-Id: I1' >> \"$1\"");
    trial.run(["run"]).graph_complete();
    let told = trial.git(&["log", "-2", "--format=%B", "main"]);
    assert_eq!(told.matches("Signed-off-by: T <t@example.org>").count(), 2, "{told}");
    assert_eq!(told.matches("Change-Id: I1").count(), 2, "{told}");
    assert!(told.contains("Ralph-Task: a"), "{told}");
}

/// The next run records what was found before the kill, and has it proved.
#[test]
fn a_kill_right_after_landing_loses_neither_checks_nor_proof() {
    let trial = stage("tasks: [{id: a}]\n", "");
    let record = trial.sign("points").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "land.moved:1");
    tell(&trial, "a", "put lib.py 'one = 1'; put tests/lib.sh 'grep -q one lib.py'; work");
    trial.run(["run"]).code(-1);
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run"]).graph_complete();
    let completed = trial.lines("completed");
    assert_eq!(completed[0]["verify"][0]["command"], "sh check.sh");
    assert_eq!(completed[0]["merge"]["result"], "landed");
    assert_eq!(trial.lines("proved")[0]["outcome"], "proved");
}

#[test]
fn work_that_lands_is_not_taken_for_an_edit_of_the_graph() {
    const SCRIPT: &str = "cat > /dev/null; echo 1 > $RALPH_TASK_ID; git add -A; git commit -qm 1; \
        case $RALPH_TASK_ID in q*) sleep 0.2; \"$RALPH\" ask which;; *) \"$RALPH\" task-complete $RALPH_TASK_ID;; esac";
    let tasks: Vec<String> = (1..=6).map(|n| format!("{{id: t{n}}}, {{id: q{n}}}")).collect();
    let trial = TestProject::new()
        .graph(&format!("tasks: [{}]\n", tasks.join(", ")))
        .command(["sh", "-c", SCRIPT]);
    trial.run(["run", "--jobs", "4"]).code(4);
    assert_eq!(trial.completions().len(), 6);
    let causes = trial.lines("status_changed").into_iter().map(|line| line["cause"].clone());
    assert!(
        causes.clone().all(|cause| cause != "edited_during_attempt"),
        "{:?}",
        causes.collect::<Vec<_>>()
    );
}

/// Each check ends only while all of them run.
#[test]
fn queued_work_is_verified_once_and_many_pieces_at_once() {
    let together = "touch \"$TRIAL_DIR/began-$RALPH_TASK_ID\"
        for id in a b c; do until [ -e \"$TRIAL_DIR/began-$id\" ]; do sleep 0.05; done; done\n";
    let trial = stage("tasks: [{id: a}, {id: b}, {id: c}]\n", "jobs: 3\nverify: sh check\n");
    let trial = trial.file("check", together);
    trial.run(["run"]).graph_complete();
    sound(&trial);
    assert_eq!(trial.lines("verified").len(), 3);
}

#[test]
fn a_check_that_fails_now_and_then_is_nobodys_failure() {
    let once = "mkdir \"$TRIAL_DIR/once-$RALPH_TASK_ID\" 2> /dev/null && exit 1; true\n";
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "jobs: 2\nproof: none\nverify: sh check\n");
    let trial = trial.file("check", once);
    let run = trial.run(["run"]).graph_complete();
    run.stderr_has("failed and then passed on the same files");
    // What landed in between may have changed the files of the second one.
    assert!(!trial.lines("flaky").is_empty());
    assert_eq!(trial.tasks("started").len(), 2);
    sound(&trial);
}

#[test]
fn a_check_that_fails_again_and_again_on_the_same_files_is_called_flaky_in_the_next_prompt() {
    let alternates = "n=$(cat \"$TRIAL_DIR/n\" 2> /dev/null || echo 0)
        echo $((n + 1)) > \"$TRIAL_DIR/n\"; [ $n -ge 6 ] || [ $((n % 2)) = 1 ]\n";
    let trial = stage("tasks: [{id: a}]\n", "jobs: 1\nproof: none\nverify: sh check\n");
    let trial = trial.file("check", alternates);
    trial.run(["run"]).graph_complete();
    let failed = trial.lines("failed");
    let [failed] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!(
        (&failed["merge"]["result"], &failed["merge"]["flaky"]),
        (&json!("red"), &json!(true))
    );
    let told = fs::read_to_string(trial.sign("prompt-a-2")).unwrap();
    assert!(told.contains("The command is flaky"), "{told}");
}

/// The first task that fails like the branch itself may be there to mend it; those after it are not.
#[test]
fn a_branch_that_is_red_already_is_not_paid_for_by_every_task() {
    let graph = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n";
    let trial = stage(graph, "jobs: 2\nmax_attempts: 2\nverify: 'echo 7 tests failed; false'\n");
    let run = trial.run(["run"]).code(3);
    run.stderr_has("with the work of several tasks and on `main` at [commit]");
    assert!(trial.tasks("started").len() < 5, "{:?}", trial.tasks("started"));
    let red = trial.lines("failed").remove(0);
    assert_eq!(
        (&red["verdict"], &red["merge"]["already"]),
        (&json!("verify-failed"), &json!(true))
    );
    assert_eq!(trial.lines("interrupted")[0]["verdict"], "baseline-broken");
    // With the branch mended, all of it lands.
    let trial = trial.env("RALPH_VERIFY", "true");
    trial.run(["run"]).graph_complete();
}

/// In a new project every check fails until the first task has landed.
#[test]
fn a_task_that_mends_the_branch_has_all_its_attempts() {
    let trial =
        stage("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", "jobs: 2\nverify: test -e made\n");
    tell(&trial, "a-1", "work");
    tell(&trial, "a-2", "put made 1; work");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("failed"), ["a"]);
}
