//! Attempts in the checkout: what they must not leave on the branch, in the settings and in the graph.

use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject};

const ONE: &str = "tasks: [{id: a}]\n";

/// Commits a file of the task, and reports.
const WORK: &str = "cat > /dev/null; work() { echo \"$RALPH_ATTEMPT\" >> $RALPH_TASK_ID.txt; \
                    git add $RALPH_TASK_ID.txt; \
                    git commit -qm \"Attempt $RALPH_ATTEMPT at $RALPH_TASK_ID\"; }; \
                    report() { \"$RALPH\" task-complete $RALPH_TASK_ID; }; ";

/// A project in whose checkout an agent runs this script.
fn scripted(graph: &str, script: &str) -> TestProject {
    let script = format!("{WORK}{script}");
    let trial = TestProject::new().begun().graph(graph).file("other.txt", "of a person\n");
    trial.in_place().command(["sh", "-c", &script])
}

fn head_of(trial: &TestProject) -> String {
    trial.git(&["symbolic-ref", "--short", "HEAD"]).trim().to_owned()
}

fn verdicts(trial: &TestProject) -> Vec<Value> {
    trial.lines("failed").iter().map(|line| line["verdict"].clone()).collect()
}

#[test]
#[ignore = "slow"]
fn head_is_back_on_its_branch_after_an_attempt_that_left_it() {
    for stray in [
        "git checkout -q --detach; work",
        "git checkout -q -b elsewhere; work",
        "git checkout -q --detach HEAD~1; work",
        "git checkout -q HEAD~1; git branch -q -D main; work",
        "git checkout -q --detach; git branch -q -f main HEAD~2; work",
        "echo mine >> other.txt; git commit -q --amend -am Mine; work",
        "git stash -q; git reset -q --hard HEAD~1; git stash pop -q; work",
        // What is uncommitted is in the way of switching back.
        "git checkout -q --detach; work; echo more >> a.txt",
        "echo mine > other.txt; git commit -q --amend -am Mine; echo more >> other.txt",
        "git checkout -q --detach; git add -A; git commit -qm All; work",
    ] {
        let script = format!("case $RALPH_ATTEMPT in 1) {stray};; *) work;; esac; report");
        let trial = scripted(ONE, &script);
        let base = trial.git(&["rev-parse", "HEAD"]);
        trial.run(["run"]).graph_complete();
        assert_eq!(verdicts(&trial), ["off-branch"], "{stray}");
        let restored = trial.lines("checkout_restored");
        assert_eq!((restored.len(), &restored[0]["branch"]), (1, &json!("main")), "{stray}");
        assert_eq!(restored[0]["commit"], base.trim(), "{stray}");
        assert_eq!(head_of(&trial), "main", "{stray}");
        trial.git(&["merge-base", "--is-ancestor", base.trim(), "main"]);
        assert_eq!(trial.completions(), ["a"], "{stray}");
        assert!(trial.subjects().contains(&"Attempt 2 at a".to_owned()), "{stray}");
        assert!(!trial.subjects().contains(&"Attempt 1 at a".to_owned()), "{stray}");
        // Nothing is lost.
        let kept = trial.git(&["log", "--format=%s", "refs/ralph/a/1"]);
        assert!(kept.contains("Attempt 1 at a") || kept.contains("Mine"), "{stray}: {kept}");
    }
}

#[test]
fn an_agent_that_never_stays_on_the_branch_completes_nothing() {
    let graph = "tasks: [{id: a, max_attempts: 2}, {id: b, max_attempts: 2}]\n";
    let trial = scripted(graph, "git checkout -q --detach; work; report");
    let base = trial.git(&["rev-parse", "HEAD"]);
    trial.run(["run"]).code(3);
    assert_eq!(verdicts(&trial), ["off-branch"; 4]);
    assert_eq!(trial.tasks("parked"), ["a", "b"]);
    assert_eq!((head_of(&trial), trial.git(&["rev-parse", "main"])), ("main".to_owned(), base));
    assert_eq!(trial.status("a"), "in-progress");
    for name in ["a/1", "a/2", "b/1", "b/2"] {
        trial.git(&["rev-parse", "--verify", &format!("refs/ralph/{name}")]);
    }
}

/// The run is killed between the record of the end of an attempt and what puts HEAD back.
#[cfg(all(target_os = "linux", debug_assertions))]
#[test]
fn the_next_run_puts_head_back_unless_a_person_has_moved_it() {
    for is_moved in [false, true] {
        let script = "case $RALPH_ATTEMPT in 1) git checkout -q --detach;; esac; work; report";
        let trial = scripted(ONE, script);
        let record = trial.sign("passed").display().to_string();
        let trial =
            trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "close.told:1");
        trial.run(["run"]).code(-1);
        trial.no_process_is_left();
        if is_moved {
            trial.git(&["switch", "--quiet", "--create", "mine", "main"]);
            let touch = trial.process("touch").args(["-d", "tomorrow", ".git/HEAD"]).status();
            assert!(touch.unwrap().success());
        }
        trial.run(["run"]).graph_complete();
        assert_eq!(head_of(&trial), if is_moved { "mine" } else { "main" });
        assert_eq!(trial.tasks("checkout_restored").len(), usize::from(!is_moved));
        assert_eq!(trial.completions(), ["a"]);
        assert_eq!(trial.subjects(), ["Attempt 2 at a"]);
    }
}

#[test]
fn head_that_was_detached_before_the_run_may_stay_so() {
    let trial = scripted("tasks: [{id: a}, {id: b}]\n", "work; report");
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.completions(), ["a", "b"]);
    assert_eq!(trial.tasks("checkout_restored"), [""; 0]);
}

#[test]
fn head_that_cannot_be_put_back_stops_the_run() {
    // The commit of a person would be undone by the files that stay.
    let stray = "git checkout -q HEAD~1; echo mine > other.txt; report";
    let trial = scripted(ONE, stray);
    let base = trial.git(&["rev-parse", "HEAD"]);
    trial.run(["run"]).code(1).stderr_has("`git switch main`");
    // Nothing starts before a person has put it back.
    trial.run(["run"]).code(1).stderr_has("`git switch main`");
    assert_eq!(trial.tasks("started"), ["a"]);
    assert_eq!(trial.git(&["rev-parse", "main"]), base);
    trial.git(&["stash", "--quiet", "--include-untracked"]);
    trial.git(&["switch", "--quiet", "main"]);
    trial.command(["sh", "-c", &format!("{WORK}work; report")]).run(["run"]).graph_complete();
}

#[test]
fn commits_that_git_cannot_read_complete_nothing() {
    for (object, damage) in [
        ("HEAD:a.txt", "truncate -s 9"),
        ("HEAD:a.txt", "rm"),
        ("HEAD:a.txt", "cp .git/description"),
        ("HEAD:other.txt", "rm"),
        ("HEAD^{tree}", "truncate -s 20"),
        ("HEAD^{tree}", "rm"),
        ("HEAD", "truncate -s 20"),
        ("HEAD", "rm"),
    ] {
        let script = format!(
            "[ $RALPH_TASK_ID = a ] || {{ work; report; exit; }}
             seq 1 99 > other.txt; git add -A; work; id=$(git rev-parse '{object}')
             file=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)
             chmod u+w $file; {damage} $file; report"
        );
        let trial = scripted("tasks: [{id: a, max_attempts: 1}, {id: b}]\n", &script);
        let base = trial.git(&["rev-parse", "HEAD"]);
        trial.run(["run"]).code(3);
        let failed = &trial.lines("failed")[0];
        assert_eq!(failed["verdict"], "off-branch", "{object} {damage}");
        let why = failed["why"].to_string();
        assert!(why.contains("git cannot read its commits"), "{object} {damage}: {why}");
        // Its files stay, and the branch can be read.
        assert!(trial.read("other.txt").starts_with("1\n2\n"), "{object} {damage}");
        assert_eq!(trial.completions(), ["b"], "{object} {damage}");
        trial.git(&["rev-list", "--objects", "--verify-objects", "--quiet", "main"]);
        trial.git(&["merge-base", "--is-ancestor", base.trim(), "main"]);
        trial.git(&["diff", "--quiet", base.trim(), "main", "--", "a.txt", "other.txt"]);
    }
}

#[test]
fn commits_that_change_the_settings_complete_nothing() {
    let settings = format!("{SETTINGS}verify: test -e proof-$RALPH_TASK_ID\nmax_attempts: 2\n");
    let cheat = "sed -i 's/^verify:.*/verify: test a/' .ralph/config.yaml; git add -A";
    for isolation in ["slot", "checkout"] {
        let script = format!(
            "case $RALPH_TASK_ID$RALPH_ATTEMPT in a1) touch proof-a; {cheat};;
             a2) printf '%s' \"$SETTINGS\" > .ralph/config.yaml; git add -A;; esac; work; report"
        );
        let trial = scripted("tasks: [{id: a, priority: high}, {id: b}]\n", &script)
            .file(".ralph/config.yaml", &settings)
            .env("SETTINGS", &settings)
            .env("RALPH_ISOLATION", isolation);
        trial.run(["run"]).code(3);
        assert_eq!(trial.completions(), ["a"], "{isolation}");
        let failed: Vec<_> = trial.lines("failed");
        let failed: Vec<_> = failed.iter().map(|it| (&it["task_id"], &it["verdict"])).collect();
        let (a, b) = (json!("a"), json!("b"));
        let (unverified, red) = (json!("unverified"), json!("verify-failed"));
        assert!(failed.contains(&(&a, &unverified)), "{isolation}: {failed:?}");
        assert_eq!(failed.iter().filter(|it| **it == (&b, &red)).count(), 2, "{isolation}");
        let why = trial.lines("failed")[0]["why"].to_string();
        assert!(why.contains("which only a person may change"), "{why}");
        assert_eq!(trial.lines("noticed"), [json!(null); 0], "{isolation}");
        assert_eq!(trial.read(".ralph/config.yaml"), settings, "{isolation}");
        assert_eq!(trial.git(&["show", "HEAD:.ralph/config.yaml"]), settings, "{isolation}");
        let restored = usize::from(isolation != "slot");
        assert_eq!(trial.tasks("checkout_restored").len(), restored, "{isolation}");
    }
}

#[test]
fn uncommitted_settings_of_an_attempt_are_not_used_by_its_run() {
    let settings = format!("{SETTINGS}verify: \"false\"\nmax_attempts: 2\n");
    let trial = scripted(
        ONE,
        "echo 'commit_timeout: 3s' >> .ralph/config.yaml; \
                               sed -i 's/\"false\"/\"true\"/' .ralph/config.yaml; work; report",
    )
    .file(".ralph/config.yaml", &settings);
    trial.run(["run"]).code(3);
    assert_eq!(verdicts(&trial), ["verify-failed"; 2]);
    assert_eq!(trial.lines("noticed"), [json!(null); 0]);
    assert_eq!(trial.lines("file_rejected").len(), 2);
    // Nothing tells who changed them.
    assert!(trial.read(".ralph/config.yaml").contains("verify: \"true\""));
    assert_eq!(trial.git(&["show", "HEAD:.ralph/config.yaml"]), settings);
}

#[test]
fn settings_of_a_person_may_be_committed_along() {
    let trial = scripted("tasks: [{id: a}, {id: b}]\n", "git add -A; work; report");
    let settings = format!("{SETTINGS}max_attempts: 1\n");
    trial.write(".ralph/config.yaml", &settings);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.git(&["show", "HEAD:.ralph/config.yaml"]), settings);
    assert_eq!(trial.tasks("checkout_restored"), [""; 0]);
}

#[test]
#[ignore = "slow"]
fn a_damaged_graph_does_not_stay_in_the_newest_commit() {
    let graph = "tasks:\n  - id: a\n    priority: high\n  - id: b # keep\n";
    for (damage, verdict) in [
        ("echo 'tasks: [{' > task-graph.yaml", "unverified"),
        ("git rm -q --cached task-graph.yaml; rm task-graph.yaml", "unverified"),
        (
            "printf 'tasks:\\n  - id: a\\n    priority: high\\n  - id: b # keep\\n    title: \\377\\n' \
             > task-graph.yaml",
            "unverified",
        ),
        ("printf 'tasks:\\n  - id: a\\n    priority: high\\n' > task-graph.yaml", ""),
    ] {
        let script = format!(
            "case $RALPH_TASK_ID$RALPH_ATTEMPT in a1) {damage}; git add -A;; esac; work; report"
        );
        let trial = scripted(graph, &script);
        trial.run(["run"]).graph_complete();
        let expected: &[&str] = if verdict.is_empty() { &[] } else { &[verdict] };
        assert_eq!(verdicts(&trial), expected, "{damage}");
        let restored = json!({"task_id": "a", "attempt": 1, "files": ["task-graph.yaml"]});
        trial.assert_record("checkout_restored", &restored);
        let committed = trial.git(&["show", "HEAD:task-graph.yaml"]);
        assert_eq!(committed, trial.graph_text(), "{damage}");
        assert_eq!(committed.matches("status: complete").count(), 2, "{damage}: {committed}");
        assert!(committed.contains("- id: b # keep\n"), "{damage}");
        assert_eq!(trial.git(&["status", "--porcelain"]), "", "{damage}");
    }
}

#[test]
fn statuses_of_others_that_an_attempt_commits_are_not_believed_later() {
    let graph = "tasks:\n  - {id: a}\n  - {id: b}\n  - {id: c, status: pending}\n  - {id: d}\n";
    let edit = "sed -i 's/id: b/&, status: complete/; s/pending/complete/; s/id: d/&, status: \
                cancelled/' task-graph.yaml; git add task-graph.yaml";
    let script = format!("case $RALPH_TASK_ID in a) {edit};; esac; work; report");
    for count in ["1", "4"] {
        let trial = scripted(graph, &script);
        trial.run(["run", "--max-iterations", count]).code_is_any();
        let restored = json!({"task_id": "a", "attempt": 1, "files": ["task-graph.yaml"]});
        trial.assert_record("checkout_restored", &restored);
        // An older version of the file, as `git stash` leaves it.
        trial.git(&["checkout", "-q", "task-graph.yaml"]);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.completions(), ["a", "b", "c", "d"], "{count}");
        assert_eq!(trial.git(&["show", "HEAD:task-graph.yaml"]), trial.graph_text());
    }
}

#[test]
fn uncommitted_files_of_a_person_are_uncommitted_again_when_head_is_put_back() {
    for stray in [
        "git add -A; git commit -q --amend --no-edit; work",
        "git checkout -q -b feat; git add -A; git commit -qm All; work",
    ] {
        let script = format!("case $RALPH_ATTEMPT in 1) {stray};; *) work;; esac; report");
        let trial = scripted(ONE, &script);
        trial.write("other.txt", "an edit\n");
        trial.write("notes.txt", "mine\n");
        trial.run(["run"]).graph_complete();
        assert_eq!(verdicts(&trial), ["off-branch"], "{stray}");
        assert_eq!(trial.read("other.txt"), "an edit\n", "{stray}");
        assert_eq!(trial.read("notes.txt"), "mine\n", "{stray}");
        let status = trial.git(&["status", "--porcelain", "other.txt", "notes.txt"]);
        assert_eq!(status, " M other.txt\n?? notes.txt\n", "{stray}");
    }
}

#[test]
fn the_claim_that_an_attempt_commits_is_not_its_work_nor_that_of_the_next_one() {
    let script = "cat > /dev/null; git commit -qam \"Nothing $RALPH_ATTEMPT\"; report";
    let trial = scripted(ONE, script);
    trial.run(["run"]).code(3);
    assert_eq!(verdicts(&trial), ["unverified", "unverified", "unverified"]);
    assert_eq!(trial.lines("completed"), Vec::<Value>::new());
}

#[test]
fn commits_that_a_verify_command_takes_off_the_branch_are_kept() {
    let graph = "tasks: [{id: a, verify: ['test -e a.txt', 'git reset -q --hard HEAD~1']}]\n";
    let trial = scripted(graph, "work; report");
    trial.run(["run", "--once"]).code(1);
    assert_eq!(verdicts(&trial), ["off-branch"]);
    assert!(trial.git(&["log", "--format=%s", "refs/ralph/a/1"]).contains("Attempt 1 at a"));
    assert_eq!(trial.lines("completed"), Vec::<Value>::new());
}

#[test]
fn an_agent_that_removes_what_git_ignores_can_still_be_verified() {
    let graph = "tasks: [{id: a, verify: ['test -e a.txt']}]\n";
    let trial = scripted(graph, "work; git clean -fdxq; report");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.completions(), ["a"]);
}
