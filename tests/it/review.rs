//! The morning: what landed is shown, reviewed in an order, and taken back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    support::{SETTINGS, TestProject},
    terminal::{bare, code, on_terminal},
};

/// Keeps its prompt, writes a file of its task, and a line in the file of its letter.
const AGENT: &str = r#"#!/bin/sh
set -eu
cat > "$TRIAL_DIR/prompt-$RALPH_TASK_ID-$RALPH_ATTEMPT"
mkdir -p work
echo "$RALPH_TASK_ID" > "work/$RALPH_TASK_ID.txt"
[ ! -e "$TRIAL_DIR/extra-$RALPH_TASK_ID" ] || sh "$TRIAL_DIR/extra-$RALPH_TASK_ID"
git add --all
git commit --quiet -m "Work on $RALPH_TASK_ID"
"$RALPH" task-complete "$RALPH_TASK_ID"
"#;

const GRAPH: &str = "\
tasks:
  - {id: base, title: The base}
  - id: top
    title: On top
    depends_on: [base]
  - {id: other}
  - id: last
    # A comment that stays.
    depends_on: [other, top]
";

fn project(graph: &str, settings: &str) -> TestProject {
    let settings = format!("{SETTINGS}# The morning.\n{settings}");
    let trial = TestProject::new().graph(graph).file(".ralph/config.yaml", &settings);
    let script = trial.sign("agent");
    trial.script(&script, AGENT);
    let path = script.to_str().unwrap().to_owned();
    trial.command([&path])
}

/// What the agent of a task does besides.
fn besides(trial: &TestProject, id: &str, script: &str) {
    fs::write(trial.sign(&format!("extra-{id}")), script).unwrap();
}

/// The files of the branch with their contents; of the graph, without the times of completion.
fn tree(trial: &TestProject) -> BTreeMap<String, String> {
    let names = trial.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    let text = |name: &str| {
        let text = trial.git(&["show", &format!("HEAD:{name}")]);
        text.lines().filter(|line| !line.contains("completed_at")).collect::<Vec<_>>().join("\n")
    };
    names.lines().map(|name| (name.to_owned(), text(name))).collect()
}

fn work(trial: &TestProject) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(trial.root().join("work"))
        .map(|all| all.map(|it| it.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    found.sort();
    found
}

#[test]
fn a_diff_is_that_of_the_work_alone() {
    let trial = project(GRAPH, "");
    trial.run(["run"]).graph_complete();
    let all = trial.run(["diff", "--stat"]).code(0).out();
    assert!(all.contains("work/base.txt") && all.contains("4 files changed"), "{all}");
    let one = trial.run(["diff", "top"]).code(0).out();
    assert!(one.contains("+top") && !one.contains("base") && !one.contains("task-graph"), "{one}");
    let same = trial.run(["diff", "top.1"]).code(0).out();
    assert_eq!(one, same);
    trial.run(["diff", "--run", "9"]).code(64).stderr_has("run");
    trial.run(["diff", "nothing"]).code(1).stderr_has("nothing");
}

#[test]
fn work_taken_back_is_open_again_and_the_next_attempt_hears_why() {
    let trial = project(GRAPH, "verify: 'test ! -e broken'\n");
    trial.run(["run"]).graph_complete();
    // A run without a task to do hides no review after the run before.
    trial.run(["run", "-q"]).code(0);
    trial.run(["status"]).stdout_has("(4 to review: ");
    trial.run(["review", "other", "--accept"]).code(0);
    trial.run(["status"]).stdout_has("(3 to review: ");
    let before = trial.git(&["rev-parse", "HEAD"]);
    trial
        .run(["take-back", "base"])
        .code(1)
        .stderr_has("`last`, `top` need this work")
        .stderr_has("--with-dependents");
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), before, "nothing was changed");
    let said =
        trial.run(["take-back", "base", "--with-dependents", "--note", "use *tabs*"]).code(0);
    said.stdout_has("base: taken back from main (1 commit); it is pending").stderr_has("test ! -e");
    assert_eq!(work(&trial), ["other.txt"]);
    assert!(trial.graph_text().contains("# A comment that stays."));
    assert_eq!(
        ["base", "top", "other", "last"].map(|id| trial.status(id)),
        ["pending", "pending", "complete", "pending"]
    );
    let told = &trial.lines("taken_back");
    assert_eq!(told.len(), 3);
    assert_eq!((&told[0]["task_id"], &told[0]["note"]), (&json!("base"), &json!("use *tabs*")));
    assert!(told[1..].iter().all(|line| line["note"].is_null()), "{told:?}");
    trial.run(["status"]).stdout_has("the graph is complete; 3 open now");
    trial.run(["take-back", "base"]).code(1).stderr_has("was taken back from `main` before");
    trial.run(["diff", "base"]).code(1).stderr_has("its work was taken back");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    trial.run(["run"]).graph_complete();
    let prompt = fs::read_to_string(trial.sign("prompt-base-2")).unwrap();
    assert!(prompt.contains("use *tabs*"), "{prompt}");
    assert_eq!(work(&trial), ["base.txt", "last.txt", "other.txt", "top.txt"]);
    trial.run(["status"]).stdout_has("the graph is complete");
}

/// In the morning, the branch is put on top of what others have pushed.
#[test]
fn rebased_work_is_found_under_its_new_ids() {
    let trial = project("tasks: [{id: a}, {id: b}]\n", "jobs: 1\n");
    trial.git(&["branch", "theirs"]);
    trial.run(["run"]).graph_complete();
    trial.git(&["checkout", "--quiet", "theirs"]);
    trial.git(&["commit", "--quiet", "--allow-empty", "--message", "Theirs"]);
    trial.git(&["rebase", "--quiet", "theirs", "main"]);
    trial.run(["review", "--json"]).stdout_has("\"a\"");
    trial.run(["diff", "a", "--stat"]).code(0).stdout_has("work/a.txt");
    trial.run(["take-back", "a"]).code(0);
    assert_eq!(work(&trial), ["b.txt"]);
    assert_eq!((trial.status("a"), trial.status("b")), ("pending".into(), "complete".into()));
}

/// What broke the checks is not put on the branch, unless the person wants it.
#[test]
fn what_fails_without_the_work_stays() {
    let trial = project("tasks: [{id: a}, {id: b}]\n", "jobs: 1\n");
    trial.run(["run"]).graph_complete();
    let config = format!("{SETTINGS}verify: 'cat work/a.txt'\n");
    let trial = trial.file(".ralph/config.yaml", &config);
    let before = trial.git(&["rev-parse", "HEAD"]);
    let said = trial.run(["take-back", "a"]).code(1);
    said.stderr_has("the verify command `cat work/a.txt` failed").stderr_has("nothing was changed");
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(trial.status("a"), "complete");
    assert!(trial.lines("taken_back").is_empty());
    trial.run(["take-back", "a", "--unverified"]).code(0).code_is_any();
    assert_eq!(work(&trial), ["b.txt"]);
    // One that fails and then passes on the same files says nothing of the work, as in the merge queue.
    let once = "verify: 'mkdir \"$TRIAL_DIR/once\" 2> /dev/null && exit 1; true'\n";
    let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}{once}"));
    let said = trial.run(["take-back", "b"]).code(0);
    said.stderr_has("failed and then passed on the same files").code_is_any();
    assert!(work(&trial).is_empty());
}

#[test]
fn later_changes_of_the_same_lines_are_named() {
    let trial = project("tasks: [{id: a}, {id: b, depends_on: []}]\n", "jobs: 1\n");
    besides(&trial, "a", "echo one > shared");
    besides(&trial, "b", "echo two > shared");
    trial.run(["run"]).graph_complete();
    let before = trial.git(&["rev-parse", "HEAD"]);
    let said = trial.run(["take-back", "a"]).code(1);
    said.stderr_has("changed the same lines of `shared`").stderr_has("Work on b");
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(trial.status("a"), "complete");
    let said = trial.run(["take-back", "a", "b", "--json"]).json();
    assert_eq!(said["followed"], true);
    assert!(!trial.root().join("shared").exists());
}

/// An unsaved line of a person is in the way of the checkout only.
#[test]
fn a_checkout_with_unsaved_work_gets_it_later() {
    let trial = project(GRAPH, "");
    trial.run(["run"]).graph_complete();
    trial.write("work/last.txt", "mine\n");
    let said = trial.run(["take-back", "last"]).code(0);
    said.stderr_has("work/last.txt").stdout_has("the branch waits for your checkout");
    trial.run(["status"]).stdout_has("work/last.txt");
    assert_eq!(trial.read("work/last.txt"), "mine\n");
    trial.write("work/last.txt", "last\n");
    trial.run(["land"]).code(0).code_is_any();
    assert_eq!(work(&trial), ["base.txt", "other.txt", "top.txt"]);
    assert_eq!(trial.status("last"), "pending");
}

#[test]
fn work_in_the_checkout_is_taken_back_as_well() {
    let trial = project(GRAPH, "").in_place();
    trial.run(["run"]).graph_complete();
    trial.run(["take-back", "top", "--with-dependents"]).code(0).code_is_any();
    assert_eq!(work(&trial), ["base.txt", "other.txt"]);
    assert_eq!(trial.status("top"), "pending");
    trial.run(["run"]).graph_complete();
}

#[test]
fn a_run_at_work_and_an_agent_take_nothing_back() {
    let trial = project("tasks: [{id: a}, {id: b, depends_on: [a]}]\n", "");
    besides(
        &trial,
        "b",
        "\"$RALPH\" take-back a > \"$TRIAL_DIR/said\" 2>&1 || true; touch \"$TRIAL_DIR/waits\"; \
         until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done",
    );
    let run = trial.start_until(["run"], "waits");
    trial.run(["take-back", "a"]).code(5).stderr_has("a run is at work here");
    let said = fs::read_to_string(trial.sign("said")).unwrap();
    assert!(said.contains("take-back"), "{said}");
    trial.leave("go");
    run.end(&trial).graph_complete();
    assert!(trial.lines("taken_back").is_empty());
}

/// Whatever it is killed at, it is done once when it is asked for again, or when the next run begins.
#[test]
fn a_kill_at_any_step_loses_nothing() {
    let points: Vec<&str> =
        ralph::crash::POINTS.iter().filter(|point| point.starts_with("back.")).copied().collect();
    for (point, again) in points.iter().flat_map(|point| [(point, true), (point, false)]) {
        let trial = project(GRAPH, "");
        trial.run(["run"]).graph_complete();
        let record = trial.sign("passed");
        let dying = trial
            .env("RALPH_CRASH_RECORD", record.to_str().unwrap())
            .env("RALPH_CRASH_POINT", &format!("{point}:1"));
        let words = ["take-back", "last", "--note", "mind the gap"];
        dying.run(words).code(-1).code_is_any();
        let trial = dying.env("RALPH_CRASH_POINT", "none:1");
        if again {
            trial.run(words).code_is_any();
        }
        trial.run(["run"]).graph_complete();
        let backs = trial.lines("taken_back");
        let is_back = *point != "back.intended" || again;
        // A kill after the line is written has it written again.
        assert_eq!(!backs.is_empty(), is_back, "{point} {again}: {backs:?}");
        assert_eq!(
            trial.tasks("completed").iter().filter(|id| *id == "last").count(),
            1 + usize::from(is_back)
        );
        if is_back {
            let prompt = fs::read_to_string(trial.sign("prompt-last-2")).unwrap();
            assert!(prompt.contains("mind the gap"), "{point} {again}: {prompt}");
            assert!(prompt.contains("was taken back by a person"), "{point} {again}: {prompt}");
        }
        assert_eq!(
            work(&trial),
            ["base.txt", "last.txt", "other.txt", "top.txt"],
            "{point} {again}"
        );
    }
}

#[test]
fn what_deserves_a_look_comes_first() {
    let graph = "tasks: [{id: plain}, {id: deps, path: src}, {id: secret}]\n";
    let trial =
        project(graph, "verify: 'test -d .git || test -f .git'\njobs: 1\nallow_files: ['.env']\n");
    besides(&trial, "deps", "echo '{}' > package.json");
    besides(&trial, "secret", "echo x > .env");
    trial.run(["run"]).graph_complete();
    let list = trial.run(["review", "--json"]).json();
    let ids = |list: &Value| -> Vec<String> {
        let items = list["to_review"].as_array().unwrap().iter();
        items.map(|item| item["task_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&list), ["secret", "deps", "plain"]);
    let kinds = |at: usize| -> Vec<Value> {
        let risks = list["to_review"][at]["risks"].as_array().unwrap().iter();
        risks.map(|risk| risk["kind"].clone()).collect()
    };
    assert_eq!(kinds(0), [json!("secrets")]);
    assert_eq!(kinds(1), [json!("outside"), json!("dependencies")]);
    trial.run(["review"]).code(0).stdout_has("files that hold secrets by their names: `.env`");
    trial.run(["review", "secret", "--accept", "--note", "a sample"]).code(0).code_is_any();
    trial
        .assert_record("reviewed", &json!({"task_id": "secret", "attempt": 1, "note": "a sample"}));
    assert_eq!(ids(&trial.run(["review", "--json"]).json()), ["deps", "plain"]);
    trial.run(["review", "secret"]).code(1).stderr_has("no landed work to review");
    trial.run(["take-back", "deps"]).code(0).code_is_any();
    assert_eq!(ids(&trial.run(["review", "--json"]).json()), ["plain"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(ids(&trial.run(["review", "--json"]).json()), ["deps", "plain"], "it landed anew");
}

#[test]
fn a_list_of_what_landed_fits_the_terminal() {
    let title = "A title that is longer than a terminal of sixty columns can show on one line";
    let graph = format!("tasks: [{{id: base, title: {title}, path: elsewhere}}]\n");
    let trial = project(&graph, "");
    trial.run(["run"]).graph_complete();
    let mut screen = on_terminal(&trial, 60, "review < /dev/null");
    let text = bare(&screen.exp_eof().unwrap());
    assert_eq!(code(&screen), 0);
    assert!(text.contains("on one line") && text.contains("1 file, +1 -0"), "{text}");
    for line in text.lines() {
        assert!(ralph::adapters::terminal::columns(line) <= 60, "{line}");
    }
}

#[test]
fn a_revert_by_hand_is_noticed_and_opens_the_task_on_request() {
    let trial = project(GRAPH, "");
    trial.run(["run"]).graph_complete();
    let made = trial.git(&["log", "--format=%H", "--grep", "Work on other"]);
    trial.git(&["revert", "--no-edit", made.trim()]);
    trial
        .run(["status"])
        .stdout_has("other: complete, but commit")
        .stdout_has("ralph take-back other");
    trial.run(["run"]).code(0).stderr_has("but commit").stderr_has("`ralph take-back other`");
    trial.run(["take-back", "other", "--with-dependents"]).code(0).code_is_any();
    assert_eq!(trial.status("other"), "pending");
    let said = trial.run(["status"]).code(0).out();
    assert!(!said.contains("reverts its work"), "{said}");
    trial.run(["run"]).graph_complete();
    assert_eq!(work(&trial), ["base.txt", "last.txt", "other.txt", "top.txt"]);
}

#[test]
fn a_reset_task_is_complete_again_once_it_was_done_again() {
    let trial = project("tasks:\n  - {id: one}\n  - {id: two, depends_on: [one]}\n", "");
    trial.run(["run"]).graph_complete();
    let made = trial.git(&["log", "--format=%H", "--grep", "Work on two"]);
    trial.git(&["revert", "--no-edit", made.trim()]);
    trial.run(["task-reset", "two"]).code(0).code_is_any();
    trial.run(["run"]).graph_complete();
    let titles = trial.git(&["log", "-3", "--format=%s"]);
    assert_eq!(titles, "Complete two: two\nWork on two\nOpen again: two\n");
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    assert_eq!(trial.status("two"), "complete");
}

#[test]
fn nothing_of_ralph_is_left_but_what_the_person_has() {
    let trial = project(GRAPH, "");
    trial.run(["merge-driver", "--install"]).code(0).code_is_any();
    trial.run(["run"]).graph_complete();
    let head = trial.git(&["rev-parse", "HEAD"]);
    // What others have in the folder of the slots, and what is not saved in a slot, is not lost.
    let slots = trial.dir().join("repo.slots");
    fs::create_dir(slots.join("mine")).unwrap();
    fs::write(slots.join("mine/notes"), "1").unwrap();
    trial.run(["uninit", "--yes"]).code(1).stderr_has("a slot stays, and so does all the rest");
    assert!(trial.state().exists() && slots.join("mine/notes").exists());
    fs::remove_dir_all(slots.join("mine")).unwrap();
    trial.run(["uninit"]).code(4).stdout_has(".git/ralph").stderr_has("nothing was removed");
    assert!(trial.state().exists());
    let record = trial.sign("passed").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "uninit.away:1");
    trial.run(["uninit", "--yes"]).code(-1).code_is_any();
    let trial = trial.env("RALPH_CRASH_POINT", "none:1");
    trial.run(["uninit", "--yes"]).code(0).stderr_has("the commits of landed work stay");
    assert!(!trial.state().with_extension("removed").exists());
    assert!(!trial.state().exists() && !trial.root().join("logs").exists());
    assert_eq!(trial.git(&["for-each-ref", "refs/ralph"]), "");
    assert!(!trial.dir().join("repo.slots").exists());
    let left = fs::read_to_string(trial.root().join(".git/info/exclude")).unwrap_or_default();
    assert!(!left.contains("ralph"), "{left}");
    assert!(!fs::read_to_string(trial.root().join(".git/config")).unwrap().contains("ralph"));
    assert!(trial.root().join("task-graph.yaml").exists());
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), head);
    trial.run(["uninit", "--all", "--yes"]).code(0).code_is_any();
    assert!(!trial.root().join("task-graph.yaml").exists());
    trial.run(["uninit"]).code(0).stderr_has("there is nothing of ralph here");
}

/// The checkout may not have the task as one that needs input.
#[test]
fn an_answer_reaches_a_run_that_lands_on_another_branch() {
    let trial = project("tasks: [{id: a}]\n", "");
    besides(&trial, "a", "[ -e \"$TRIAL_DIR/told\" ] || { \"$RALPH\" ask 'Which?'; exit 1; }");
    trial.run(["run", "--onto", "night"]).code(4).code_is_any();
    trial.run(["answer", "a", "this one"]).code(0).code_is_any();
    trial.leave("told");
    trial.run(["run", "--onto", "night"]).graph_complete();
    let prompt = fs::read_to_string(trial.sign("prompt-a-2")).unwrap();
    assert!(prompt.contains("this one"), "{prompt}");
}

#[test]
fn a_parked_task_is_reset_with_a_word_for_its_next_attempt() {
    let trial = project("tasks: [{id: a, max_attempts: 1}]\n", "");
    besides(&trial, "a", "[ -e \"$TRIAL_DIR/told\" ] || exit 1");
    trial.run(["run"]).code(3).stderr_has("`ralph task-reset a --note");
    trial.run(["task-reset", "a", "--note", "mind the gap"]).code(0).code_is_any();
    trial.leave("told");
    trial.run(["run"]).graph_complete();
    let prompt = fs::read_to_string(trial.sign("prompt-a-2")).unwrap();
    assert!(prompt.contains("mind the gap"), "{prompt}");
}

/// The tasks that a step takes back, by their places in the graph; a step without one runs all.
fn steps() -> impl Strategy<Value = Vec<BTreeSet<usize>>> {
    prop::collection::vec(prop::collection::btree_set(0..4_usize, 0..3), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any landings and take-backs, the branch is that of a run in which what was taken back never
    /// landed.
    #[test]
    fn what_is_taken_back_never_was(steps in steps(), form in 0..2_usize) {
        const IDS: [&str; 4] = ["base", "top", "other", "last"];
        let form = format!("merge: {}\nverify: 'true'\n", ["rebase", "merge"][form]);
        let stage = || {
            let trial = project(GRAPH, &form);
            // A file that two tasks change at different places.
            let lines: String = (0..40).map(|line| format!("{line}\n")).collect();
            let trial = trial.file("shared.txt", &lines);
            besides(&trial, "base", "sed -i '3s/.*/base/' shared.txt");
            besides(&trial, "other", "sed -i '30s/.*/other/' shared.txt");
            trial
        };
        let trial = stage();
        let mut there: BTreeSet<&str> = BTreeSet::new();
        for step in &steps {
            if step.is_empty() || there.is_empty() {
                trial.run(["run"]).graph_complete();
                there.extend(IDS);
                continue;
            }
            let named: Vec<&str> =
                step.iter().map(|at| IDS[*at]).filter(|id| there.contains(id)).collect();
            if named.is_empty() {
                continue;
            }
            let words = [&["take-back", "--with-dependents"][..], &named].concat();
            trial.run(&words).code(0).code_is_any();
            there.retain(|id| !named.contains(id));
            let needs = [("top", "base"), ("last", "other"), ("last", "top")];
            for (id, on) in needs {
                if !there.contains(on) {
                    there.remove(id);
                }
            }
        }
        let never = stage();
        for id in IDS.iter().filter(|id| there.contains(*id)) {
            never.run(["run", "--task", id]).code_is_any();
        }
        prop_assert_eq!(tree(&trial), tree(&never));
        prop_assert_eq!(trial.git(&["status", "--porcelain"]), "");
    }
}

/// A remote repository, and a `gh` that keeps what it is called with, and opens a request of a branch only
/// once.
fn with_remote(trial: TestProject) -> TestProject {
    let there = trial.dir().join("there.git");
    trial.git(&["init", "--quiet", "--bare", there.to_str().unwrap()]);
    trial.git(&["remote", "add", "origin", there.to_str().unwrap()]);
    trial.git(&["push", "--quiet", "origin", "main"]);
    trial.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    let tools = trial.dir().join("tools");
    fs::create_dir(&tools).unwrap();
    let forge = "#!/bin/sh\nset -e\nfor word; do echo \"$word\"; done > \"$TRIAL_DIR/called\"\n\
                 if [ $2 = create ] && [ -e \"$TRIAL_DIR/open\" ]; then echo already exists >&2; exit 1; fi\n\
                 touch \"$TRIAL_DIR/open\"\n\
                 while [ $# -gt 0 ]; do [ \"$1\" != --body-file ] || cp \"$2\" \"$TRIAL_DIR/body\"; shift; done\n\
                 echo https://example.invalid/pull/1\n";
    trial.script(&tools.join("gh"), forge);
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    trial.env("PATH", &path)
}

#[test]
fn a_pull_request_has_the_evidence_and_is_pushed_only_when_asked() {
    let trial = with_remote(project(GRAPH, "verify: 'true'\n"));
    trial.run(["run"]).graph_complete();
    let there = || trial.git(&["ls-remote", "--heads", "origin"]);
    let said = trial.run(["pr"]).code(4).stdout_has("The base, and 3 more tasks");
    said.stderr_has("\n  git push origin").stderr_has("gh pr create --base main --head ralph/run-");
    assert_eq!(there().lines().count(), 1, "nothing was pushed");
    assert!(!trial.sign("called").exists());
    trial.run(["pr", "--push", "--draft"]).code(0).stdout_has("https://example.invalid/pull/1");
    let pushed = there();
    assert_eq!(pushed.lines().count(), 2, "{pushed}");
    assert!(pushed.contains(trial.git(&["rev-parse", "HEAD"]).trim()));
    let called = fs::read_to_string(trial.sign("called")).unwrap();
    assert!(
        called.starts_with("pr\ncreate\n--base\nmain\n") && called.contains("\n--draft\n"),
        "{called}"
    );
    let body = fs::read_to_string(trial.sign("body")).unwrap();
    assert!(body.contains("### Landed") && body.contains("The base"), "{body}");
    trial.run(["pr", "--per", "task"]).code(64).stderr_has("one for all that landed");
}

#[test]
fn a_branch_is_pushed_without_the_program_that_opens_requests() {
    if std::process::Command::new("gh").arg("--version").output().is_ok() {
        return println!("skipped: a program that opens requests is installed");
    }
    let trial = with_remote(project(GRAPH, "verify: 'true'\n"));
    fs::remove_dir_all(trial.dir().join("tools")).unwrap();
    trial.run(["run"]).graph_complete();
    let said = trial.run(["pr", "--push"]).code(4).stderr_has("is pushed; to open it:");
    assert!(!said.whole().contains("git push origin"));
    assert_eq!(trial.git(&["ls-remote", "--heads", "origin"]).lines().count(), 2);
}

#[test]
fn a_run_may_end_with_a_pull_request_of_its_branch_and_a_second_run_updates_it() {
    let hook = "hooks: {after_run: '\"$RALPH\" pr --push'}\n";
    let trial = with_remote(project(GRAPH, hook));
    let main = trial.git(&["rev-parse", "main"]);
    trial.run(["run", "--onto", "night", "--task", "base"]).code_is_any();
    let called = || fs::read_to_string(trial.sign("called")).unwrap();
    assert!(called().contains("create\n") && called().contains("--head\nnight\n"), "{}", called());
    trial.run(["run", "--onto", "night"]).graph_complete();
    assert!(called().starts_with("pr\nedit\nnight\n--body-file\n"), "{}", called());
    let body = fs::read_to_string(trial.sign("body")).unwrap();
    assert!(body.contains("- `base`: The base;") && body.contains("- `last`: "), "{body}");
    assert_eq!(trial.git(&["rev-parse", "main"]), main);
    let heads = trial.git(&["ls-remote", "--heads", "origin", "night"]);
    assert!(heads.contains(trial.git(&["rev-parse", "night"]).trim()), "{heads}");
    let all = trial.run(["diff", "--stat"]).code(0).out();
    assert!(all.contains("4 files changed"), "{all}");
    trial.run(["land"]).code(0).stdout_has("`git merge night` brings it here");
    trial.run(["take-back", "last"]).code(0).stdout_has("taken back from night");
    trial.run(["review"]).code(0).stdout_has("base");
}
