//! Attempts in slots: what they see, what they leave, and that the state of the graph is in git.

use std::fs;

use serde_json::json;

use crate::support::{RALPH, TestProject, until};

/// Two tasks without an order.
const TWO: &str = "# By hand.\ntasks:\n  - id: a\n    title: First\n  - id: b\n    title: Second\n";

/// Commits a file named after the task, and reports.
const HONEST: &str = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt; git add -A; \
                      git commit -qm \"Work on $RALPH_TASK_ID\"; \
                      \"$RALPH\" task-complete $RALPH_TASK_ID";

fn project(graph: &str, agent: &str) -> TestProject {
    TestProject::new().graph(graph).command(["sh", "-c", agent])
}

fn is_clean(trial: &TestProject) {
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
}

#[test]
fn after_a_run_the_state_is_in_git() {
    let trial = project(TWO, HONEST);
    trial.run(["run"]);
    is_clean(&trial);
    let text = trial.graph_text();
    assert!(text.starts_with("# By hand.\n"), "{text}");
    assert!(!text.contains("claimed"), "{text}");
    let log = trial.git(&["log", "--format=%(trailers:key=Ralph-Task,valueonly,separator=%x2C)"]);
    let log: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(log, ["b", "a"]);
    // A clone knows it all.
    let clone = trial.dir().join("clone");
    trial.git(&["clone", "--quiet", ".", clone.to_str().unwrap()]);
    let ran = trial.process(RALPH).current_dir(&clone).args(["run", "--", "false"]).output();
    assert!(ran.unwrap().status.success());
    let journal = fs::read_to_string(clone.join("logs/ralph.jsonl")).unwrap();
    assert!(!journal.contains("\"started\""), "{journal}");
}

#[test]
fn restored_files_neither_repeat_work_nor_bring_claims_back() {
    let trial = project(TWO, HONEST);
    trial.leave("nothing");
    let before = trial.git(&["rev-parse", "HEAD"]);
    trial.run(["run"]);
    // An older version of the file, as from a backup or `git checkout`.
    trial.git(&["checkout", "--quiet", before.trim(), "--", "task-graph.yaml"]);
    trial.git(&["reset", "--quiet"]);
    trial.run(["run"]);
    assert_eq!(trial.tasks("started"), ["a", "b"]);
    trial.assert_record(
        "status_changed",
        &serde_json::json!({"task_id": "a", "cause": "history", "new": "complete"}),
    );
    assert_eq!(trial.git(&["status", "--porcelain"]), " M task-graph.yaml\n", "it is the person's");
    trial.git(&["checkout", "--quiet", "--", "task-graph.yaml"]);
    // A claim of a run that is over.
    trial.save(
        "task-graph.yaml",
        &trial
            .graph_text()
            .replace("complete", "in-progress")
            .replace("completed_at", "claimed_by: ralph 20260101T000000Z-1\n    claimed_at"),
    );
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started"), ["a", "b"]);
    // A person's reset is not undone, and the work before does not count.
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--once"]).code(1);
    assert_eq!(trial.tasks("started"), ["a", "b", "a"]);
}

#[test]
fn what_an_attempt_changed_of_other_tasks_is_named_and_not_counted() {
    let graph = "tasks:\n  - id: a\n  - id: b\n    title: Mine\n";
    let agent = format!("sed -i 's/Mine/Theirs/' task-graph.yaml; {HONEST}");
    let trial = project(graph, &agent);
    trial.run(["run", "--once"]);
    trial.assert_record("graph_guarded", &json!({"task_id": "a", "tasks": ["b"], "undone": true}));
    let landed = &trial.run(["status", "--json"]).json()["landed"][0];
    assert_eq!((&landed["files"], &landed["insertions"]), (&1.into(), &1.into()));
    assert!(trial.graph_text().contains("Mine"));
}

#[test]
fn a_persons_edits_of_the_graph_survive_a_landing() {
    let agent = format!("while [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done; {HONEST}");
    let trial = project(TWO, &agent);
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let edited = trial.graph_text().replace("title: Second", "title: Mine # a note");
    trial.save("task-graph.yaml", &edited);
    trial.write("own.txt", "mine\n");
    trial.leave("go");
    run.end(&trial);
    let text = trial.graph_text();
    assert!(text.contains("title: Mine # a note"), "{text}");
    assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
    assert_eq!(trial.git(&["diff", "--numstat"]), "1\t1\ttask-graph.yaml\n");
    assert_eq!(trial.git(&["status", "--porcelain"]), " M task-graph.yaml\n?? own.txt\n");
}

#[test]
fn claims_are_in_no_file_and_what_waits_for_a_person_is_committed() {
    let agent = "cat > /dev/null; echo x > x; git add -A; git commit -qm half; exit 1";
    let trial = TestProject::new()
        .graph("tasks:\n  - {id: a, title: A, max_attempts: 2}\n  - {id: b, status: todo, max_attempts: 2}\n")
        .command(["sh", "-c", agent]);
    let text = trial.graph_text();
    trial.run(["run", "--once"]).code(1);
    assert_eq!(trial.graph_text(), text, "a released task is as it was");
    is_clean(&trial);
    trial.run(["run"]).code(3);
    assert!(!trial.git(&["log", "-p", "--all"]).contains("claimed_by"));
    // Parked tasks wait for a person, which the file shows, and a clone, too.
    is_clean(&trial);
    assert_eq!(trial.status("a"), "in-progress");
}

#[test]
fn a_retry_goes_on_where_the_last_attempt_stopped() {
    let agent = "cat > \"$TRIAL_DIR/prompt-$RALPH_TASK_ID-$RALPH_ATTEMPT\"
        git log --format=%s > \"$TRIAL_DIR/log-$RALPH_TASK_ID-$RALPH_ATTEMPT\"
        git status --porcelain > \"$TRIAL_DIR/status-$RALPH_TASK_ID-$RALPH_ATTEMPT\"
        case $RALPH_TASK_ID-$RALPH_ATTEMPT in
        a-1) echo 1 > one; git add one; git commit -qm one; echo 2 > two; exit 1;;
        a-*) git add -A; git commit -qm two; \"$RALPH\" task-complete a;;
        b-*) echo b > b; git add b; git commit -qm b; \"$RALPH\" task-complete b;;
        esac";
    for (retry, log) in [("continue", "one\n"), ("fresh", "")] {
        let trial = project(TWO, agent).env("RALPH_RETRY", retry);
        trial.run(["run"]).code(i32::from(retry == "fresh") * 3);
        let seen = |what: &str| fs::read_to_string(trial.sign(&format!("{what}-a-2"))).unwrap();
        assert_eq!(seen("log").contains("one\n"), !log.is_empty(), "{retry}");
        assert_eq!(seen("status") == "?? two\n", retry == "continue");
        if retry == "continue" {
            assert!(seen("log").contains("b\n"), "it is on top of what has landed since");
            assert_eq!(trial.read("one") + &trial.read("two"), "1\n2\n");
            is_clean(&trial);
        }
    }
}

/// An alias of git and a hook have these variables.
#[test]
fn variables_of_git_do_not_reach_an_attempt() {
    let trial = project("tasks:\n  - {id: a}\n", &format!("{HONEST}; exit 1"));
    let git = trial.root().join(".git");
    let trial = trial
        .env("GIT_DIR", git.to_str().unwrap())
        .env("GIT_INDEX_FILE", git.join("index").to_str().unwrap());
    let fails =
        trial.command(["sh", "-c", "cat > /dev/null; git commit -q --allow-empty -m bad; exit 1"]);
    let before = fails.git(&["rev-parse", "main"]);
    fails.run(["run", "--once"]).code(1);
    assert_eq!(fails.git(&["rev-parse", "main"]), before);
    let trial = fails.command(["sh", "-c", HONEST]);
    trial.run(["run"]).graph_complete();
    is_clean(&trial);
}

#[test]
#[ignore = "slow"]
fn a_damaged_slot_costs_its_attempt_and_no_work_before_it() {
    for damage in ["echo junk > .git/packed-refs", "rm .git/HEAD", "git config core.bare true"] {
        let agent = format!(
            "cat > /dev/null; case $RALPH_ATTEMPT in
             1) echo half > half; git add half; git commit -qm half; exit 1;;
             2) echo more > more; {damage}; exit 1;;
             *) echo rest > rest; git add -A; git commit -qm rest; \"$RALPH\" task-complete a;; esac"
        );
        let trial = project("tasks:\n  - {id: a}\n", &agent);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.read("half") + &trial.read("rest"), "half\nrest\n", "{damage}");
        is_clean(&trial);
    }
}

#[test]
fn a_slot_whose_git_directory_has_special_files_neither_hangs_nor_writes_elsewhere() {
    for harm in [
        "rm .git/HEAD; mkfifo .git/HEAD",
        "rm .git/config; mkfifo .git/config",
        "rm .git/index; mkfifo .git/index",
        "mkfifo .git/refs/heads/x",
        "rm -r .git/info; ln -s \"$TRIAL_DIR/outside\" .git/info",
        "mv .git/objects ../objects; ln -s \"$TRIAL_DIR/outside\" .git/objects",
        "rm .git/ralph-slot; mkfifo .git/ralph-slot",
    ] {
        let agent =
            format!("cat > /dev/null; [ $RALPH_ATTEMPT = 1 ] && {{ {harm}; exit 1; }}; {HONEST}");
        let trial = project("tasks: [{id: a}]\n", &agent);
        fs::create_dir(trial.sign("outside")).unwrap();
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.tasks("started"), ["a", "a"], "{harm}");
        assert_eq!(fs::read_dir(trial.sign("outside")).unwrap().count(), 0, "{harm}");
    }
}

#[test]
fn a_commit_that_a_person_takes_off_the_branch_stays_off() {
    let agent = "cat > /dev/null; [ $RALPH_ATTEMPT = 1 ] && {
             echo a > a; git add a; git commit -qm work; touch \"$TRIAL_DIR/made\"
             until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; exit END; }
         echo b > b; git add b; git commit -qm more; \"$RALPH\" task-complete a";
    for end in ["1", "0"] {
        let report = if end == "0" { "\"$RALPH\" task-complete a; exit 0" } else { "exit 1" };
        let trial = project("tasks:\n  - {id: a}\n", &agent.replace("exit END", report));
        trial.write("secret", "1\n");
        trial.git(&["add", "secret"]);
        trial.git(&["commit", "-qm", "Secret"]);
        let run = trial.start_until(["run"], "made");
        trial.git(&["reset", "-q", "--hard", "HEAD~1"]);
        trial.leave("open");
        run.end(&trial);
        assert_eq!(trial.read("a"), "a\n");
        assert!(!trial.root().join("secret").exists(), "{end}");
        assert!(!trial.subjects().contains(&"Secret".to_owned()), "{end}");
    }
}

#[test]
fn an_answer_and_a_reset_lose_no_work() {
    let first = "cat > /dev/null; case $RALPH_ATTEMPT in
        1) echo half > half; git add half; git commit -qm half; echo more > more; FIRST;;
        *) echo rest > rest; git add -A; git commit -qm rest; \"$RALPH\" task-complete a;; esac";
    for (first_end, code, go_on) in [
        ("\"$RALPH\" ask 'Which?'", 4, &["answer", "a", "This."][..]),
        ("exit 1", 3, &["task-reset", "a"]),
    ] {
        let agent = first.replace("FIRST", first_end);
        let trial = project("tasks:\n  - {id: a, max_attempts: 1}\n", &agent);
        trial.run(["run"]).code(code);
        trial.run(go_on);
        trial.run(["run"]).graph_complete();
        let all = [trial.read("half"), trial.read("more"), trial.read("rest")];
        assert_eq!(all, ["half\n", "more\n", "rest\n"], "{go_on:?}");
    }
}

#[test]
fn a_task_that_a_commit_opens_again_is_done_again() {
    for how in ["revert", "edit"] {
        let trial = project("tasks:\n  - {id: a}\n", HONEST);
        trial.run(["run"]);
        if how == "revert" {
            trial.git(&["revert", "--no-edit", "HEAD", "HEAD~1"]);
            assert!(!trial.root().join("a.txt").exists());
        } else {
            trial.save("task-graph.yaml", "tasks:\n  - {id: a}\n");
            trial.git(&["commit", "-qam", "Again"]);
        }
        trial.run(["dag-status"]).stdout_has("1 ready");
        // The work that was reverted is none of an agent that does nothing.
        let lies = trial.command(["sh", "-c", "cat > /dev/null; \"$RALPH\" task-complete a"]);
        lies.run(["run", "--once"]).code(i32::from(how == "revert"));
        if how == "revert" {
            let trial = lies.command(["sh", "-c", HONEST]);
            trial.run(["run"]).graph_complete();
            assert_eq!(trial.read("a.txt"), "work\n");
            is_clean(&trial);
        }
    }
}

#[test]
fn work_that_conflicts_is_named_and_a_retry_starts_over() {
    let agent = "cat > /dev/null
        case $RALPH_TASK_ID-$RALPH_ATTEMPT in
        a-1) echo a > same; git add same; git commit -qm a; exit 1;;
        a-*) git log --format=%s > \"$TRIAL_DIR/log\"; echo more >> same; git add same
             git commit -qm more; \"$RALPH\" task-complete a;;
        b-*) echo b > same; git add same; git commit -qm b; \"$RALPH\" task-complete b;;
        esac";
    let trial = project(TWO, agent);
    trial.run(["run"]);
    trial.assert_record(
        "work_restored",
        &serde_json::json!({"attempt": 2, "from": "refs/ralph/a/1", "conflicts": ["same"]}),
    );
    let log = fs::read_to_string(trial.sign("log")).unwrap();
    assert!(!log.contains("a\n") && log.contains("b\n"), "{log}");
    assert_eq!(trial.git(&["show", "refs/ralph/a/1:same"]), "a\n");
    assert_eq!(trial.read("same"), "b\nmore\n");
}

/// Two attempts that change the same line of `file`, one of which cannot land; those after them do `again`.
fn both_change(file: &str, again: &str, settings: &str) -> TestProject {
    let agent = format!(
        "cat > /dev/null; file={file}
        case $RALPH_TASK_ID-$RALPH_ATTEMPT in
        *-1) touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"
             until [ -e \"$TRIAL_DIR/at-a\" ] && [ -e \"$TRIAL_DIR/at-b\" ]; do sleep 0.02; done
             echo new > of-$RALPH_TASK_ID; echo $RALPH_TASK_ID > $file; git add -A; git commit -qm first;;
        *) cp $file \"$TRIAL_DIR/seen-$RALPH_ATTEMPT\"; git status --porcelain > \"$TRIAL_DIR/status\"
           {again}; git add -A; git commit -qm again;;
        esac
        \"$RALPH\" task-complete $RALPH_TASK_ID"
    );
    project("tasks: [{id: a}, {id: b}]\n", &agent)
        .file(file, "first\n")
        .file(".ralph/config.yaml", &format!("jobs: 2\n{settings}"))
}

#[test]
fn work_that_could_not_land_is_in_the_files_of_the_next_attempt_with_its_conflict_marked() {
    let trial = both_change("same", "sed -i '/^[<|=>]/d; /^first$/d' same", "");
    trial.run(["run"]).graph_complete();
    let [first, second] = &trial.tasks("completed")[..] else { panic!("two land") };
    let restored =
        json!({"attempt": 2, "from": format!("refs/ralph/{second}/1"), "marked": ["same"]});
    trial.assert_record("work_restored", &restored);
    let seen = fs::read_to_string(trial.sign("seen-2")).unwrap();
    assert!(seen.contains("<<<<<<<") && seen.contains("work of an earlier attempt"), "{seen}");
    let status = fs::read_to_string(trial.sign("status")).unwrap();
    assert_eq!(status, format!(" M same\n?? of-{second}\n"), "nothing is staged");
    assert_eq!(trial.read("same"), format!("{first}\n{second}\n"));
    assert_eq!(trial.read(&format!("of-{second}")), "new\n");
    is_clean(&trial);
}

#[test]
fn what_still_has_the_marks_of_a_conflict_does_not_land() {
    // The second attempt reports with the file as it is. The third starts over.
    let third = "[ $RALPH_ATTEMPT = 2 ] || echo \"$(cat same) and $RALPH_TASK_ID\" > same";
    let trial = both_change("same", third, "");
    trial.run(["run"]).graph_complete();
    let failed = trial.lines("failed");
    let verdicts: Vec<_> = failed.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["conflict", "unverified"]);
    assert!(failed[1]["why"].as_str().unwrap().contains("the conflict in `same` is not resolved"));
    let restored = trial.lines("work_restored");
    assert_eq!(
        (&restored[0]["marked"], &restored[1]["conflicts"]),
        (&json!(["same"]), &json!(["same"]))
    );
    let seen = fs::read_to_string(trial.sign("seen-3")).unwrap();
    assert!(!seen.contains("<<<<<<<"), "{seen}");
    assert!(!trial.read("same").contains("<<<<<<<"));
}

/// Its next attempt has the same work in its files, without any conflict.
#[test]
fn a_conflict_that_is_resolved_without_the_other_side_does_not_land() {
    let agent = "cat > /dev/null; id=$RALPH_TASK_ID
        case $id-$RALPH_ATTEMPT in
        *-1) touch \"$TRIAL_DIR/at-$id\"
             until [ -e \"$TRIAL_DIR/at-a\" ] && [ -e \"$TRIAL_DIR/at-b\" ]; do sleep 0.02; done
             sed -i \"1s/$/ $id/\" same; echo \"$id does\" >> same;;
        *-2) printf \"names: $id\\none\\ntwo\\nthree\\n$id does\\n\" > same;;
        *-3) grep -q \"$id does\" same; echo note > note;;
        *) printf 'names: a b\\none\\ntwo\\nthree\\na does\\nb does\\n' > same;;
        esac
        git add -A; git commit -qm work; \"$RALPH\" task-complete $id";
    let trial = project("tasks: [{id: a}, {id: b}]\n", agent)
        .file("same", "names:\none\ntwo\nthree\n")
        .file(
            ".ralph/config.yaml",
            "jobs: 2\nmax_attempts: 5\nverify: 'true'\nreview:\n  by: {command: [sh, -c, \"cat > /dev/null; echo '{\\\"findings\\\": []}'\"], name: strong}\n",
        );
    trial.run(["run"]).graph_complete();
    let [first, second] = &trial.tasks("completed")[..] else { panic!("two land") };
    let failed = trial.lines("failed");
    let verdicts: Vec<_> = failed.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["conflict", "unverified", "unverified"], "{second}");
    for line in &failed[1..] {
        assert_eq!(line["takes_back"], json!([first]));
        assert!(
            line["verify"].is_null() && line["review"].is_null(),
            "it is refused first: {line}"
        );
        let why = line["why"].as_str().unwrap();
        assert!(why.contains(&format!("in `same` without what `{first}` had added")), "{why}");
    }
    assert_eq!(trial.read("same"), "names: a b\none\ntwo\nthree\na does\nb does\n");
}

/// Nobody can keep a line of a file that becomes another one.
#[test]
fn what_a_rewrite_of_a_file_loses_of_others_is_only_named() {
    let agent = "cat > /dev/null
        case $RALPH_TASK_ID-$RALPH_ATTEMPT in
        a-*) until [ -e \"$TRIAL_DIR/at-b\" ]; do sleep 0.02; done; sed -i '2a mended' same;;
        *) touch \"$TRIAL_DIR/at-b\"; main=\"git -C $TRIAL_DIR/repo show main:same\"
           until $main | grep -q mended; do sleep 0.02; done
           printf 'all is new\nin here\n' > same;;
        esac
        git add -A; git commit -qm work; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project("tasks: [{id: a}, {id: b}]\n", agent)
        .file("same", "one\ntwo\nthree\nfour\n")
        .file(".ralph/config.yaml", "jobs: 2\nmax_attempts: 3\nverify: 'true'\n");
    trial.run(["run"]).graph_complete();
    let failed = trial.lines("failed");
    assert!(failed.iter().all(|line| line["verdict"] == "conflict"), "{failed:?}");
    let landed = trial.lines("completed");
    assert_eq!(landed[1]["takes_back"], json!(["a"]));
    assert_eq!(trial.read("same"), "all is new\nin here\n");
}

/// A pattern for what is built may also match what an agent writes.
#[test]
fn source_code_that_git_ignores_is_named() {
    let agent = "cat > /dev/null; mkdir -p src/build build
        echo 'export const x = 1' | tee src/build/new.ts build/made.js; echo see > notes
        git add -A; git commit -qm work; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project("tasks: [{id: a}]\n", agent).file(".gitignore", "build\n");
    trial.run(["run"]).graph_complete();
    let landed = &trial.lines("completed")[0];
    assert_eq!(landed["tried"], json!(["src/build/, which git ignores"]), "{landed}");
}

/// Commands of `setup` cannot read a manifest with marks.
#[test]
fn commands_that_run_before_the_agent_see_no_marks() {
    let file = "package.json";
    let settings = "setup: ['! grep -q \"<<<<\" package.json']\n";
    let trial = both_change(file, "echo \"$(cat $file) and $RALPH_TASK_ID\" > $file", settings);
    trial.run(["run"]).graph_complete();
    let restored = trial.lines("work_restored");
    assert_eq!(restored.len(), 1, "{restored:?}");
    assert_eq!(restored[0]["conflicts"], json!([file]));
}

#[test]
#[ignore = "slow"]
fn work_of_earlier_attempts_counts() {
    let reports = "cat > /dev/null; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let cut_off = "cat > /dev/null; [ $RALPH_ATTEMPT = 1 ] || exec \"$RALPH\" task-complete a
                   echo a > a; git add a; git commit -qm all; exit 1";
    for in_place in [false, true] {
        let graph = "tasks:\n  - {id: a, title: A, verify: [\"test -f a\"]}\n";
        let trial = project(graph, cut_off);
        let trial = if in_place { trial.in_place() } else { trial };
        trial.run(["run"]);
        assert_eq!(trial.status("a"), "complete");
        // What is in HEAD when a task is reset is no work of the attempts after that.
        trial.run(["task-reset", "a"]).stderr_has("`ralph task-complete a`");
        let trial = trial.command(["sh", "-c", reports]);
        trial.run(["run", "--once"]).code(1);
        assert_eq!(trial.tasks("completed"), ["a"]);
        assert_eq!(trial.lines("failed").last().unwrap()["verdict"], "unverified");
        // Nobody would notice more attempts of that kind.
        trial.run(["task-reset", "a"]);
        // Work after the reset is, also if a later attempt reports it.
        let commits = "cat > /dev/null; echo again >> a; git commit -qam again";
        let trial = trial.command(["sh", "-c", commits]);
        trial.run(["run", "--once"]).code(1);
        let trial = trial.command(["sh", "-c", reports]);
        trial.run(["run", "--once"]).graph_complete();
    }
    // Without any work there is nothing to count.
    let trial = project("tasks:\n  - {id: a, max_attempts: 1}\n", reports);
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("failed")[0]["verdict"], "unverified");
}

#[test]
fn a_sparse_checkout_is_worked_in() {
    let agent = "cat > /dev/null; ls > \"$TRIAL_DIR/seen\"; echo w > x/$RALPH_TASK_ID; \
                 git add x; git commit -qm w; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project(TWO, agent).file("x/a", "1\n").file("y/a", "1\n");
    trial.git(&["sparse-checkout", "set", "--cone", "x"]);
    trial.run(["run", "--jobs", "2"]);
    assert!(!fs::read_to_string(trial.sign("seen")).unwrap().contains("y\n"));
    assert_eq!(trial.git(&["ls-tree", "-r", "--name-only", "HEAD", "y"]), "y/a\n");
    is_clean(&trial);
}

#[test]
fn a_slot_is_set_up_once_and_again_when_its_inputs_change() {
    let agent = "cat > /dev/null; cat .env >> \"$TRIAL_DIR/env\"; test -f installed/yes || exit 9
        [ $RALPH_TASK_ID = b ] && echo '{\"x\": 1}' > package.json
        echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w
        \"$RALPH\" task-complete $RALPH_TASK_ID";
    let graph =
        "tasks:\n  - {id: a, priority: 1}\n  - {id: b, priority: 2}\n  - {id: c, priority: 3}\n";
    let trial = project(graph, agent)
        .file(".gitignore", ".env\ninstalled/\n")
        .file(".worktreeinclude", ".env\n")
        .file("package.json", "{}\n")
        .env(
            "RALPH_SETUP",
            "[\"echo x >> $TRIAL_DIR/ran; mkdir -p installed; touch installed/yes\"]",
        )
        .env("RALPH_VERIFY", "[\"test -f installed/yes\"]");
    trial.write(".env", "K=1\n");
    trial.run(["run", "--max-iterations", "1"]).code(2);
    trial.write(".env", "K=2\n");
    trial.run(["run"]);
    assert_eq!(fs::read_to_string(trial.sign("env")).unwrap(), "K=1\nK=2\nK=2\n");
    // Where an attempt had files that git ignores, the end of a run is verified without them.
    assert_eq!(
        fs::read_to_string(trial.sign("ran")).unwrap(),
        "x\nx\nx\nx\n",
        "for a, for the end of its run, for c after b, and for the end of all"
    );
}

/// A virtualenv that git ignores in part, as GitHub's rules for Python do.
#[test]
fn what_setup_makes_stays_whole_and_does_not_land() {
    let agent = "cat > /dev/null; echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w
        \"$RALPH\" task-complete $RALPH_TASK_ID";
    let setup = "mkdir -p env/bin env/lib; [ -e env/lib/x ] || touch env/lib/x env/bin/x";
    let trial = project(TWO, agent)
        .file(".gitignore", "lib/\n")
        .env("RALPH_SETUP", &format!("[\"{setup}\", \"test -e env/bin/x\"]"))
        .env("RALPH_VERIFY", "[\"test -e env/bin/x\"]");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("executor_unreachable").len(), 0);
    assert_eq!(trial.git(&["ls-tree", "-r", "--name-only", "HEAD", "env"]), "");
    let found = trial.run(["doctor", "--json", "--", "sh"]).code(0).json().to_string();
    assert!(found.contains("`setup` makes `env/bin/x`, which git does not ignore"), "{found}");
}

#[test]
fn a_build_in_setup_runs_again_when_the_code_has_changed() {
    let agent =
        "cat > /dev/null; echo \"echo $RALPH_TASK_ID\" > lib/x; git add -A; git commit -qm w
        \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project("tasks: [{id: a}, {id: b, max_attempts: 1}]\n", agent)
        .file(".gitignore", "out/\n")
        .file("lib/x", "echo\n")
        .env("RALPH_SETUP", "[\"mkdir -p out && cp lib/x out/x\"]")
        .env("RALPH_VERIFY", "[\"sh out/x > out/said; ! grep -q b out/said\"]");
    trial.run(["run"]).code(3);
    assert_eq!(trial.lines("failed")[0]["verdict"], "verify-failed");
    assert_eq!(trial.git(&["show", "HEAD:lib/x"]), "echo a\n");
}

#[test]
fn what_an_agent_is_told_to_type_works_in_a_slot() {
    let agent = "cat > /dev/null; echo w > $RALPH_TASK_ID.txt; git add -A; git commit -qm w
        for command in 'dag-status' 'check' 'config' \"verify $RALPH_TASK_ID\" 'prompt' 'note hello' 'logs' 'status'; do
            \"$RALPH\" $command > /dev/null 2>> \"$TRIAL_DIR/errors\" || echo \"$command: $?\"
        done >> \"$TRIAL_DIR/failed\"
        env | sed -n 's/^\\(RALPH_[A-Z_]*\\)=.*/\\1/p' > \"$TRIAL_DIR/names\"
        \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project(TWO, agent).env("RALPH_VERIFY", "[\"true\"]");
    trial.run(["run", "--jobs", "2"]);
    let failed = fs::read_to_string(trial.sign("failed")).unwrap();
    let failed: Vec<&str> = failed.lines().filter(|line| !line.starts_with("prompt: ")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    // No variable that tells an attempt where it is has the name of a setting.
    let names = fs::read_to_string(trial.sign("names")).unwrap();
    assert!(names.contains("RALPH_SLOT\n") && names.contains("RALPH_TASK_ID\n"), "{names}");
    for key in ralph::project::config::Config::keys() {
        let name = format!("RALPH_{}", key.to_uppercase());
        let is_given = ["RALPH_VERIFY", "RALPH_KEEP_AWAKE"].contains(&&*name);
        assert!(is_given || !names.lines().any(|line| line == name), "{name}");
    }
}

#[test]
fn the_folder_of_reports_may_be_that_of_the_slot() {
    let agent = "cat > /dev/null; [ -e .ralph/tasks/$RALPH_TASK_ID/DONE ] && exit 9
        echo w >> $RALPH_TASK_ID.txt; git add -A; git commit -qm w
        mkdir -p .ralph/tasks/$RALPH_TASK_ID; touch .ralph/tasks/$RALPH_TASK_ID/DONE";
    let trial = project(TWO, agent);
    trial.run(["run"]);
    trial.run(["task-reset", "a"]);
    trial.run(["run"]);
    assert_eq!(trial.tasks("completed"), ["a", "b", "a"]);
}

#[test]
fn several_jobs_need_slots_and_uncommitted_files_are_named() {
    let trial = project(TWO, HONEST).env("RALPH_ISOLATION", "checkout");
    trial.run(["run", "--jobs", "2"]).code(64);
    let trial = trial.env("RALPH_JOBS", "3");
    trial.run(["run"]).code(64);
    let found = trial.run(["doctor", "--json", "--quick", "--", "sh"]).code(64).json();
    let jobs = found["findings"].as_array().unwrap().iter().find(|one| one["about"] == "jobs");
    assert_eq!((&found["would_start"], &jobs.unwrap()["exit_code"]), (&false.into(), &64.into()));
    // The flag means one job, and what is there is named before an attempt finds it.
    let trial = project(TWO, HONEST).env("RALPH_JOBS", "3");
    trial.write("mine", "1\n");
    trial.run(["run", "--in-place", "--jobs", "2"]).code(64);
    let run = trial.run(["run", "--in-place"]);
    run.stderr_has("one job instead of 3").stderr_has("open to attempts in the checkout: `mine`");
    assert_eq!(trial.lines("loop_started")[0]["flags"]["jobs"], 1);
    let trial = project(TWO, HONEST);
    trial.write("mine", "1\n");
    trial.run(["run"]).stderr_has("attempts do not have it: `mine`");
}

#[test]
fn the_doctor_tries_setup_and_verify_in_a_slot() {
    let doctor = |setup: &str, verify: &str| {
        let trial = project(TWO, HONEST).env("RALPH_SETUP", setup).env("RALPH_VERIFY", verify);
        let output = trial.process(RALPH).args(["doctor", "--json", "--", "sh"]).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap();
        let slot = findings.iter().find(|one| one["about"] == "slot").unwrap();
        is_clean(&trial);
        format!("{} {}", slot["mark"].as_str().unwrap(), slot["found"].as_str().unwrap())
    };
    let good = doctor("[\"touch x\"]", "[\"test -f x\"]");
    assert!(
        good.starts_with("ok ") && good.contains("setup and 1 verify command passed"),
        "{good}"
    );
    let bad = doctor("[\"exit 3\"]", "[\"true\"]");
    assert!(bad.starts_with("warning ") && bad.contains("`exit 3` (setup) fails"), "{bad}");
    let bad = doctor("[]", "[\"test -f node_modules/x\"]");
    assert!(bad.starts_with("warning ") && bad.contains("(verify) fails on main"), "{bad}");
    let bad = doctor("[]", "[\"case $PWD in *.slots/*) exit 1;; esac\"]");
    assert!(bad.starts_with("error ") && bad.contains("passes in your checkout"), "{bad}");
}

#[test]
fn a_slot_is_free_after_its_attempt() {
    let trial = project(TWO, HONEST);
    trial.run(["run"]);
    until("the slot is free", || {
        let output = trial.process(RALPH).args(["slots", "--json"]).output().unwrap();
        let slots: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        slots.as_array().unwrap().iter().all(|slot| slot["state"] == "free")
    });
}

#[test]
fn a_nested_repository_is_no_work() {
    let agent = "cat > /dev/null; case $RALPH_ATTEMPT in
        1) git init -q app; (cd app; echo w > f; git add f; git -c user.name=I -c user.email=i@x commit -qm inner); git add -A 2>/dev/null;;
        *) mkdir -p app; echo w > app/f; git add -A;; esac
        git commit -qm Work; \"$RALPH\" task-complete a";
    let trial = project("tasks: [{id: a, proof: none, verify: 'test -f app/f'}]\n", agent);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("failed")[0]["verdict"], "off-branch");
    assert_eq!(trial.git(&["ls-tree", "-r", "--name-only", "HEAD", "app"]), "app/f\n");
}

/// It has commits that are nowhere else, and the next attempt needs the slot.
#[test]
fn a_clone_in_a_slot_is_set_aside() {
    let agent =
        "cat > /dev/null; git clone -q . copy; git -C copy -c user.name=I -c user.email=i@x \
                 commit -q --allow-empty -m Inner
        echo w > $RALPH_TASK_ID; git add $RALPH_TASK_ID; git commit -qm Work
        \"$RALPH\" task-complete $RALPH_TASK_ID";
    let trial = project("tasks: [{id: a}, {id: b}]\n", agent);
    trial.run(["run"]).graph_complete();
    let slots = trial.dir().join("repo.slots");
    for (end, name) in trial.lines("completed").iter().zip(["a.1", "b.1"]) {
        let copy = slots.join("kept").join(name).join("copy/");
        let moved = format!("copy/ (a nested repository, now `{}`)", copy.display());
        assert_eq!(end["unpinned"], json!([moved]));
        let log = trial.git(&["-C", copy.to_str().unwrap(), "log", "-1", "--format=%s"]);
        assert_eq!(log, "Inner\n");
    }
    assert!(slots.join("1").exists() && !slots.join("2").exists());
    assert_eq!(trial.lines("slot_kept").len(), 0);
}

#[test]
fn a_sparse_checkout_of_an_agent_deletes_nothing() {
    let agent =
        "cat > /dev/null; git sparse-checkout set --no-cone /task-graph.yaml /w.txt; echo w > w.txt
        \"$RALPH\" task-complete a";
    let trial = project("tasks: [{id: a}]\n", agent).file("lib/x", "1\n");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.read("lib/x"), "1\n");
    assert_eq!(trial.git(&["ls-tree", "-r", "--name-only", "HEAD", "lib"]), "lib/x\n");
    is_clean(&trial);
}

#[test]
fn what_passes_only_because_of_ignored_files_or_settings_does_not_land() {
    for cheat in [
        "echo out/ >> .gitignore; mkdir out; echo GOOD > out/f; ln -s out/f f; git add -A",
        "git config filter.e.clean 'sed s/GOOD/BAD/'; echo 'f filter=e' > .git/info/attributes; echo GOOD > f; touch -t 202001010000 f; git add f",
    ] {
        let agent =
            format!("cat > /dev/null; {cheat}; git commit -qm Work; \"$RALPH\" task-complete a");
        let trial = project("tasks: [{id: a, max_attempts: 1, verify: grep -q GOOD f}]\n", &agent);
        trial.run(["run"]).code(3);
        assert_eq!(trial.lines("failed")[0]["verdict"], "verify-failed", "{cheat}");
        assert_eq!(trial.git(&["ls-tree", "HEAD", "f"]), "", "{cheat}");
    }
}

#[test]
fn files_of_ralph_in_a_commit_do_not_land() {
    let agent = "cat > /dev/null; echo w > w.txt; mkdir -p logs .ralph/tasks/a
        echo x > logs/ralph.jsonl; touch .ralph/tasks/a/DONE; git add -f w.txt logs .ralph; git commit -qm Work
        \"$RALPH\" task-complete a";
    let trial = project("tasks: [{id: a}]\n", agent);
    trial.run(["run"]).graph_complete();
    let files = trial.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(files, ".ralph/config.yaml\ntask-graph.yaml\nw.txt\n");
    is_clean(&trial);
}

#[test]
fn a_fifo_for_attributes_costs_its_attempt_only() {
    let agent = format!(
        "cat > /dev/null; [ $RALPH_TASK_ID$RALPH_ATTEMPT = a1 ] && {{ echo k > k; git add k; git commit -qm k; \
         mkfifo .gitattributes; exit 1; }}; {HONEST}"
    );
    let trial = project(TWO, &agent).env("RALPH_FIXED_LIMIT", "20s");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started").len(), 3);
}

#[test]
fn a_graph_file_that_is_written_again_does_not_end_a_run() {
    let graph = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n";
    let trial = project(graph, HONEST);
    let run = trial.start(["run", "--jobs", "2"]);
    trial.wait_for_records(1, "agent_started");
    let path = trial.root().join("task-graph.yaml");
    for _ in 0..10 {
        let Ok(text) = fs::read(&path) else { continue };
        let _ = fs::remove_file(&path);
        std::thread::sleep(std::time::Duration::from_millis(60));
        if !path.exists() {
            fs::write(&path, text).unwrap();
        }
    }
    run.end(&trial).graph_complete();
    trial.git(&["add", "-A"]);
    assert!(!trial.git(&["ls-files"]).contains(".ralph-"));
}
