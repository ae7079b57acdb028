//! The work of an attempt: leftovers are committed or kept under a ref, shown and restored; and the
//! evidence other than commits.

use std::fs;

use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject, wait_for};

const ONE: &str = "tasks: [{id: a, title: 'Do  it', max_attempts: 1}]\n";

/// A repository whose agent runs this shell script and then reports its task done.
fn reports(graph: &str, script: &str) -> TestProject {
    let script =
        format!("cat >/dev/null; {script}\n\"$RALPH\" task-complete $RALPH_TASK_ID >/dev/null");
    TestProject::new().graph(graph).command(["sh", "-c", &script])
}

/// A repository whose agent runs this shell script and reports nothing.
fn fails(script: &str) -> TestProject {
    let script = format!("cat >/dev/null; {script}");
    TestProject::new().graph(ONE).command(["sh", "-c", &script])
}

/// Two such repositories: one with isolated attempts, and one whose attempts work in the checkout.
fn both(make: impl Fn() -> TestProject) -> [(bool, TestProject); 2] {
    [(true, make()), (false, make().in_place())]
}

/// The files of the last commit before the one that completes the task.
fn committed(trial: &TestProject) -> String {
    trial.git(&["show", "--name-only", "--format=", "HEAD~1"])
}

/// Runs one attempt, and returns the journal record of its end.
#[track_caller]
fn ended(trial: &TestProject) -> Value {
    drop(trial.run(["run", "--once", "-q"]).whole());
    let ends = ["completed", "failed", "interrupted"];
    let ended =
        trial.journal().into_iter().rfind(|line| ends.iter().any(|end| line["action"] == *end));
    trial.no_process_is_left();
    ended.expect("an attempt has ended")
}

/// `git status` of the checkout.
fn status(trial: &TestProject) -> String {
    trial.git(&["status", "--porcelain"])
}

/// Replaces what differs between runs: sizes, the width of columns.
fn plain(text: &str) -> String {
    let word = |word: &str| match word {
        "bytes)" => String::new(),
        _ if word.starts_with('(') => "[size]".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| {
        let words = line.split_whitespace().map(word).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

const ODD: &str = r#"
mkdir -p 'deep/er here'
echo 1 > 'deep/er here/quote"d '"'"'name'"'"
echo 1 > "$(printf 'new\nline')"
echo 1 > "$(printf 'caf\351')"
echo 1 > '*.txt'
echo 1 > :odd
echo 1 > x.log
rm gone.txt
"#;

#[test]
fn what_a_hook_formats_while_it_is_committed_is_not_left() {
    let stage = || reports(ONE, "cat > /dev/null; echo '  text' > new.txt\n");
    for (_, trial) in both(stage) {
        trial.hook("pre-commit", "sed -i 's/^ *//' new.txt; git add new.txt");
        let ended = ended(&trial);
        assert_eq!(ended["verdict"], "complete");
        assert!(ended.get("leftovers").is_none() && ended.get("pinned").is_none(), "{ended}");
        assert_eq!(trial.git(&["show", "HEAD:new.txt"]), "text\n");
    }
}

#[test]
fn leftovers_of_a_reported_attempt_are_committed_for_it() {
    let stage = || reports(ONE, ODD).file("gone.txt", "1").file(".gitignore", "*.log\n");
    for (is_isolated, trial) in both(stage) {
        trial.write("staged.txt", "a person's\n");
        trial.write("staged too.txt", "a person's\n");
        trial.git(&["add", "staged.txt", "staged too.txt"]);
        trial.write("mine.txt", "in the middle of something\n");
        trial.hook("pre-commit", "echo ran >> \"$TRIAL_DIR/hook-ran\"");
        let ended = ended(&trial);
        assert_eq!(ended["verdict"], "complete");
        let landed = if is_isolated { "; landed on `main`" } else { "" };
        assert_eq!(ended["why"], format!("reported done; ralph committed what was left{landed}"));
        assert_eq!(ended["autocommit"]["committed"], ended["commits"][0]["id"]);
        assert_eq!(ended["diff"]["files"], 6);
        assert!(ended.get("leftovers").is_none() && ended.get("pinned").is_none(), "{ended}");
        assert_eq!(
            trial.git(&["log", "-1", "--format=%an: %B", "HEAD~1"]),
            "Tess: Do it\n\nRalph-Task: a\nRalph-Attempt: 1\n\n"
        );
        assert_eq!(
            status(&trial),
            "A  \"staged too.txt\"\nA  staged.txt\n?? mine.txt\n",
            "a person's files are as they were"
        );
        let ran = fs::read_to_string(trial.sign("hook-ran")).unwrap();
        assert_eq!(ran, "ran\n", "hooks run");
    }
}

#[test]
fn leftovers_in_addition_to_a_commit_are_committed() {
    let script = "echo 1 > one; git add one; git commit -qm One; echo 2 > two; git add two";
    for (_, trial) in both(|| reports(ONE, script)) {
        let ended = ended(&trial);
        assert_eq!(ended["verdict"], "complete");
        assert_eq!(trial.subjects(), ["One", "Do it"]);
        assert_eq!(status(&trial), "");
    }
}

#[test]
fn new_files_with_secrets_are_not_committed_and_not_lost() {
    let script = "echo 1 > one; echo KEY=1 > .env; echo changed > web/.env; git add .env";
    for (is_isolated, trial) in both(|| reports(ONE, script).file("web/.env", "fixture\n")) {
        let run = trial.run(["run"]).graph_complete();
        run.stderr_has("left uncommitted: .env\n");
        let changed =
            trial.git(&["log", "--full-diff", "--name-only", "--format=", "-1", "--", "one"]);
        assert_eq!(changed, "one\nweb/.env\n");
        assert_eq!(trial.git(&["log", "--oneline", "--", ".env"]), "");
        let kept = if is_isolated {
            trial.git(&["show", "refs/ralph/a/1:.env"])
        } else {
            trial.read(".env")
        };
        assert_eq!(kept, "KEY=1\n");
    }
    for (_, trial) in both(|| reports(ONE, "echo KEY=1 > .env")) {
        let ended = ended(&trial);
        assert_eq!(ended["why"], "reported done, but left 1 changed file uncommitted");
    }
}

#[test]
fn a_first_commit_is_made_as_well() {
    let trial = TestProject::bare();
    trial.git(&["init", "-q", "-b", "main"]);
    trial.git(&["config", "user.name", "Tess"]);
    trial.git(&["config", "user.email", "tess@example.invalid"]);
    trial.write("task-graph.yaml", ONE);
    trial.write(".ralph/config.yaml", SETTINGS);
    let script = "echo 1 > one; \"$RALPH\" task-complete a";
    let trial = trial.in_place().command(["sh", "-c", script]);
    assert_eq!(ended(&trial)["verdict"], "complete");
    assert_eq!(trial.git(&["show", "--name-only", "--format=%s"]), "Do it\n\none\n");
}

#[test]
fn a_refused_commit_leaves_everything_as_it_was_and_says_why() {
    let script = "echo 1 > one; mkdir sub; echo 2 > 'sub/t w o'";
    for (is_isolated, trial) in both(|| reports(ONE, script)) {
        trial.write("staged.txt", "a person's\n");
        trial.git(&["add", "staged.txt"]);
        trial.hook("pre-commit", "echo checking; echo 'line 3 is too long' >&2; exit 1");
        let ended = ended(&trial);
        assert_eq!(ended["verdict"], "uncommitted");
        let why = "reported done, but left 2 changed files uncommitted (commit failed: checking \
                   / line 3 is too long)";
        assert_eq!(ended["why"], why);
        let left = if is_isolated { "" } else { "?? one\n?? sub/\n" };
        // The task is parked, which is an uncommitted edit of its status in the checkout.
        let graph = if is_isolated { "" } else { " M task-graph.yaml\n" };
        assert_eq!(status(&trial), format!("A  staged.txt\n{graph}{left}"));
        assert_eq!(ended["pinned"], "refs/ralph/a/1");
        assert_eq!(trial.git(&["show", "refs/ralph/a/1:sub/t w o"]), "2\n");
        assert!(trial.read("logs/attempts/a/1/commit.log").contains("checking"));
    }
}

#[test]
fn a_hook_that_hangs_is_ended() {
    let settings = format!("{SETTINGS}commit_timeout: 700ms\n");
    for (is_isolated, trial) in
        both(|| reports(ONE, "echo 1 > one").file(".ralph/config.yaml", &settings))
    {
        let sign = trial.sign("hook").display().to_string();
        trial.hook("pre-commit", &format!("setsid sleep 600 & touch '{sign}'; sleep 600"));
        let ended = ended(&trial);
        wait_for(&trial.sign("hook"));
        assert_eq!(ended["verdict"], "uncommitted");
        let why = ended["why"].as_str().unwrap();
        let limit = "the commit exceeded its limit of 700ms (`commit_timeout`))";
        assert!(why.ends_with(limit), "{why}");
        assert_eq!(trial.git(&["show", "refs/ralph/a/1:one"]), "1\n");
        // No lock is left, and the file is as it was.
        let left = if is_isolated { "" } else { "?? one\n" };
        let graph = if is_isolated { "" } else { " M task-graph.yaml\n" };
        assert_eq!(status(&trial), format!("{graph}{left}"));
    }
}

#[test]
fn only_verified_work_is_committed_and_nothing_that_verifying_left() {
    let graph = |verify: &str| format!("tasks: [{{id: a, verify: '{verify}'}}]\n");
    let good = graph("test -e one && echo > report.xml");
    for (is_isolated, trial) in both(|| reports(&good, "echo 1 > one")) {
        let green = ended(&trial);
        let why = green["why"].as_str().unwrap();
        let want = "reported done; ralph committed what was left; 1 verify command succeeded";
        assert!(why.starts_with(want), "{why}");
        assert_eq!(committed(&trial), "one\n");
        assert_eq!(status(&trial), if is_isolated { "" } else { "?? report.xml\n" });
        assert!(green.get("leftovers").is_none(), "{green}");
    }

    for (is_isolated, trial) in both(|| reports(&graph("test -e two"), "echo 1 > one")) {
        let red = ended(&trial);
        assert_eq!(
            (&red["verdict"], &red["pinned"]),
            (&json!("verify-failed"), &json!("refs/ralph/a/1"))
        );
        assert_eq!(status(&trial), if is_isolated { "" } else { "?? one\n" });
        assert!(trial.subjects().is_empty());
    }
}

#[test]
fn signing_and_identity_are_those_of_the_project() {
    let trial = reports(ONE, "echo 1 > one");
    let gpg = trial.sign("gpg");
    trial.script(&gpg, "cat > /dev/null; echo 'no secret key' >&2; exit 2");
    // The key is forgotten in the middle of the run, and no commit waits for it.
    for trial in [trial, reports(ONE, "echo 1 > one").in_place()] {
        trial.git(&["config", "commit.gpgSign", "true"]);
        trial.git(&["config", "gpg.program", gpg.to_str().unwrap()]);
        trial.run(["run"]).graph_complete();
        let told = trial.lines("commits_unsigned");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0]["why"].as_str().unwrap().contains("failed to sign"), "{told:?}");
        assert_eq!(trial.git(&["show", "HEAD:one"]), "1\n");
    }

    // What `ralph` itself commits waits for none either.
    let trial = reports(ONE, "echo 1 > one; git add one; git -c commit.gpgSign=no commit -qm One");
    trial.git(&["config", "commit.gpgSign", "true"]);
    trial.git(&["config", "gpg.program", gpg.to_str().unwrap()]);
    trial.run(["run"]).graph_complete().stderr_has("of `ralph` will not be signed: ");

    // Nor for one that waits for a person.
    trial.script(&gpg, "sleep 600");
    let trial = reports(ONE, "echo 1 > one").env("RALPH_COMMIT_TIMEOUT", "1s");
    trial.git(&["config", "commit.gpgSign", "true"]);
    trial.git(&["config", "gpg.program", gpg.to_str().unwrap()]);
    trial
        .run(["run"])
        .graph_complete()
        .stderr_has("`git commit-tree` exceeded its limit of [took]");

    let trial = reports(ONE, "echo 1 > one");
    trial.git(&["config", "--unset", "user.email"]);
    trial.run(["run"]).graph_complete().stderr_has("warning: git does not know who commits");
    assert_eq!(trial.git(&["log", "-1", "--format=%an", "--", "one"]), "ralph\n");
}

/// The passphrase of a key is forgotten in the middle of the night: the next thing to be signed is work
/// that is put on top of what has landed.
#[test]
fn work_is_replayed_without_a_key() {
    let graph = "tasks: [{id: a}, {id: b}]\n";
    let script = "cat > /dev/null; echo $RALPH_TASK_ID > $RALPH_TASK_ID; git add .\n\
                  git -c commit.gpgSign=no commit -qm \"Work on $RALPH_TASK_ID\"\n\
                  if [ $RALPH_TASK_ID = b ]; then touch \"$TRIAL_DIR/waits\"\n\
                  until [ -e \"$TRIAL_DIR/nokey\" ]; do sleep 0.02; done; fi\n\
                  \"$RALPH\" task-complete $RALPH_TASK_ID > /dev/null";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", script]);
    let (gpg, forgotten) = (trial.sign("gpg"), trial.sign("nokey"));
    let sign = format!(
        "cat > /dev/null; [ -e '{}' ] && {{ echo 'no secret key' >&2; exit 2; }}\n\
         echo '[GNUPG:] SIG_CREATED ' >&2; echo sig",
        forgotten.display()
    );
    trial.script(&gpg, &sign);
    trial.git(&["config", "commit.gpgSign", "true"]);
    trial.git(&["config", "gpg.program", gpg.to_str().unwrap()]);
    let run = trial.start_until(["run", "--jobs", "2"], "waits");
    trial.wait_for_records(1, "completed");
    std::fs::write(&forgotten, "").unwrap();
    run.end(&trial).graph_complete().stderr_has("commits are made without a signature");
    let signed = |name: &str| trial.git(&["cat-file", "commit", name]).contains("gpgsig");
    assert!(signed("main~2") && !signed("main"), "{}", trial.git(&["log", "--format=%s"]));
    assert_eq!(trial.git(&["log", "-2", "--format=%s"]), "Complete b: b\nWork on b\n");
}

#[test]
fn autocommit_may_be_switched_off() {
    let settings = format!("{SETTINGS}autocommit: false\n");
    let stage =
        || TestProject::new().graph(ONE).agent("leave").file(".ralph/config.yaml", &settings);
    for (is_isolated, trial) in both(stage) {
        let ended = ended(&trial);
        assert_eq!(ended["why"], "reported done, but left 1 changed file uncommitted");
        assert_eq!(trial.root().join("left.txt").exists(), !is_isolated);
        assert_eq!(trial.git(&["show", "refs/ralph/a/1:left.txt"]), "half\n");
    }
}

/// A repository in which the first attempt leaves files and fails, and the second commits another
/// and reports.
fn leaves_then_commits(settings: &str) -> TestProject {
    let script = "cat >/dev/null
        if [ $RALPH_ATTEMPT = 1 ]; then echo 1 > left; echo 1 > edited; rm gone; exit 3; fi
        echo 2 > other; git add other; git commit -qm Other; \"$RALPH\" task-complete a >/dev/null";
    let trial = TestProject::new()
        .graph("tasks: [{id: a, title: Do it, verify: test -e left -o -e gone}]\n")
        .file("gone", "1")
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .command(["sh", "-c", script]);
    trial.write("mine", "a person's\n");
    trial
}

#[test]
fn what_an_earlier_attempt_left_is_committed_with_the_one_that_completes_its_task() {
    for (is_isolated, trial) in both(|| leaves_then_commits("")) {
        assert_eq!(ended(&trial)["verdict"], "failed");
        if !is_isolated {
            // A file that a person has edited since is not a leftover of the attempt.
            trial.write("edited", "by a person\n");
        }
        let ended = ended(&trial);
        assert_eq!(ended["verdict"], "complete");
        assert_eq!(trial.subjects(), ["Other", "Do it"]);
        let (files, theirs) = if is_isolated {
            ("edited\ngone\nleft\n", "?? mine\n")
        } else {
            ("gone\nleft\n", "?? edited\n?? mine\n")
        };
        assert_eq!(committed(&trial), files);
        assert_eq!(status(&trial), theirs, "a person's files stay theirs");
    }
}

#[test]
fn without_autocommit_nothing_is_complete_that_was_verified_with_uncommitted_files() {
    for (_, trial) in both(|| leaves_then_commits("autocommit: false\n")) {
        assert_eq!(ended(&trial)["verdict"], "failed");
        let ended = ended(&trial);
        assert_eq!(ended["why"], "reported done, but left 3 changed files uncommitted");
        assert_eq!(ended["leftovers"], json!(["edited", "gone", "left"]));
        assert_eq!(ended["autocommit"], "off");
        assert_eq!(trial.git(&["show", "refs/ralph/a/2:left"]), "1\n", "kept once more");
        trial.run(["show", "a.2"]).stdout_has("Not committed: `autocommit` is off\n");
    }
}

#[test]
fn what_another_task_left_is_not_committed_with_this_one() {
    let script = "cat >/dev/null; echo $RALPH_TASK_ID > $RALPH_TASK_ID
        [ $RALPH_TASK_ID = a ] || \"$RALPH\" task-complete b >/dev/null";
    let graph = "tasks: [{id: a, max_attempts: 1}, {id: b}]\n";
    for (is_isolated, trial) in
        both(|| TestProject::new().graph(graph).command(["sh", "-c", script]))
    {
        trial.run(["run", "-q"]).code(3);
        // On top of it, `b` is complete, and `a` is marked as waiting for a person.
        let work = if is_isolated { "HEAD~2" } else { "HEAD~1" };
        assert_eq!(trial.git(&["show", "--name-only", "--format=", work]), "b\n");
        let left = if is_isolated { "" } else { " M task-graph.yaml\n?? a\n" };
        assert_eq!(status(&trial), left);
        assert_eq!(trial.git(&["show", "refs/ralph/a/1:a"]), "a\n");
    }
}

#[test]
fn an_output_that_is_missing_or_blank_is_no_completion() {
    let graph = |output: &str| format!("tasks: [{{id: a, max_attempts: 1, output: {output}}}]\n");
    let verdict = |output: &str, script: &str| {
        let ended = ended(&reports(&graph(output), script));
        (ended["verdict"].clone(), ended["missing"].clone())
    };
    let complete = (json!("complete"), Value::Null);
    let missing = |what: &str| (json!("unverified"), json!([what]));
    let script = "mkdir docs; echo x > docs/x; echo ' ' > blank.md; git add .; git commit -qm X";
    assert_eq!(verdict("docs/x", script), complete);
    assert_eq!(verdict("[docs/, a summary]", script), complete);
    assert_eq!(verdict("blank.md", script), missing("`blank.md` is empty"));
    assert_eq!(verdict("'docs/x, r.md'", script), missing("`r.md` does not exist"));
    let loose = "echo r > r.md; echo r.md > .gitignore; git add .; git commit -qm R";
    assert_eq!(verdict("r.md", loose), complete, "git is told to ignore it");
    assert_eq!(verdict("r.md", "echo r > r.md"), complete, "it is committed");
}

#[test]
fn changes_to_hooks_and_verify_inputs_are_reported() {
    let graph = "tasks: [{id: a, proof: none, verify: ['sh check.sh', 'ls tests']}]\n";
    let script =
        "echo true > check.sh; echo > tests/t; echo > tests/new; git add .; git commit -qm X
        git config alias.x y; mkdir -p .git/hooks; echo 'exit 0' > .git/hooks/pre-push";
    for (_, trial) in both(|| reports(graph, script)) {
        let trial = trial.file("check.sh", "false\n").file("tests/t", "1\n");
        trial.run(["run", "--once"]).stderr_has(
            "git's hooks or settings changed while it ran: .git/config, .git/hooks/pre-push",
        );
        let ended = trial.lines("completed").remove(0);
        assert_eq!(ended["tampered"], json!([".git/config", ".git/hooks/pre-push"]));
        assert_eq!(ended["verify_inputs_changed"], json!(["check.sh"]));
        assert_eq!(ended["tests_changed"], json!(["tests/t"]));
    }
}

#[test]
fn files_that_decide_what_is_checked_are_named_where_people_look() {
    let graph = "tasks: [{id: a, proof: none, verify: ['sh run.sh']}]\n";
    let script = "echo '{\"scripts\": {\"test\": \"true\"}}' > package.json
        for i in 1 2; do echo pass > tests/$i.py; done; echo > tests/new.py
        echo new > code; git add .; git commit -qm X";
    for (_, trial) in both(|| reports(graph, script)) {
        let trial = trial
            .file("run.sh", "true\n")
            .file("package.json", "{\"scripts\": {\"test\": \"jest\"}}\n")
            .file("tests/1.py", "assert 1\n")
            .file("tests/2.py", "assert 2\n");
        let said = "changed files that decide what is checked: `package.json`";
        trial.run(["run"]).stderr_has(said).stderr_has("changed 2 existing test files");
        let ended = trial.lines("completed").remove(0);
        let why = ended["why"].as_str().unwrap();
        assert!(why.contains(&format!("it {said}; it changed 2 existing test files")), "{why}");
        for command in ["status", "report"] {
            trial.run([command]).stdout_has(said);
            let landed = trial.run([command, "--json"]).json()["landed"][0].clone();
            assert_eq!(landed["remarks"], json!([said, "changed 2 existing test files"]));
        }
        trial.run(["show", "a"]).stdout_has("tests/1.py").stdout_has("package.json");
    }
}

#[test]
fn work_of_a_failed_attempt_is_kept_shown_and_restored() {
    let script = "echo 1 > one; git add one; git commit -qm One; echo 2 > 'two 2'
        printf 'I give up\\033[31m\\n'; exit 3";
    let trial = fails(script);
    trial.run(["run", "--once"]).code(1);
    let head = trial.git(&["rev-parse", "HEAD"]);
    insta::assert_snapshot!(plain(&trial.run(["attempts"]).whole()), @r"
    exit code 0
    --- stdout ---
    attempt when took verdict kept left
    a.1 [date] [time] [took] failed refs/ralph/a/1 1 commit, 1 file, +1 -0, 1 uncommitted
    ");
    insta::assert_snapshot!(plain(&trial.run(["show", "a.1"]).whole()), @r"
    exit code 0
    --- stdout ---
    Attempt: 1 at a
    Run: [run]
    Began: [date] [time]
    Base: [commit]
    Ended: [date] [time], after [took]
    Verdict: failed: exited with code 3
    Process: exited with code 3
    Agent: sh, cost unknown
    Changed: 1 file, +1 -0
    Commits:
    [commit] One
    Left uncommitted:
    two 2
    Kept: refs/ralph/a/1; `ralph restore a.1` makes a branch of it
    Files: logs/attempts/a/1/
    prompt.md [size]
    stderr [size]
    stdout [size]
    The end of its output:
    I give up
    ");
    let shown = trial.run(["show", "a.1", "--json"]).json();
    assert_eq!((&shown["pinned"], &shown["verdict"]), (&json!("refs/ralph/a/1"), &json!("failed")));
    assert_eq!(trial.run(["attempts", "a", "--json"]).json()[0]["leftovers"], json!(["two 2"]));
    trial
        .run(["show", "b.1"])
        .code(1)
        .stderr("ralph: error: no attempt `b.1`; did you mean `a.1`?\n");

    insta::assert_snapshot!(trial.run(["restore", "a.1"]).whole(), @r"
    exit code 0
    --- stdout ---
    branch ralph/restore/a.1 has what attempt 1 at a left
    look at it:      git log --stat HEAD..ralph/restore/a.1
    compare:         git diff HEAD...ralph/restore/a.1
    take one file:   git restore --source=ralph/restore/a.1 -- PATH
    take all of it:  git merge ralph/restore/a.1
    ");
    trial.run(["restore", "a.1"]).stdout_has("branch ralph/restore/a.1 has it already\n");
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), head, "nothing is switched");
    assert_eq!(trial.git(&["show", "ralph/restore/a.1:two 2"]), "2\n");
    trial.run(["restore", "a.1", "--branch", "main"]).code(1).stderr(
        "ralph: error: there is a branch `main` already, and it stays unchanged; name another with \
         `--branch`\n",
    );
    // The ref does not depend on the journal or the worktree.
    fs::remove_dir_all(trial.root().join("logs")).unwrap();
    trial.run(["restore", "a.1", "--branch", "mine"]).stdout_has("branch mine has what");
    trial.git(&["merge", "-q", "mine"]);
    assert_eq!(trial.read("two 2"), "2\n");
    trial.run(["restore", "a.2"]).code(1).stderr_has("nothing is kept of attempt 2 at `a`");
}

#[test]
fn kept_work_that_cannot_be_read_is_not_restored_and_the_task_goes_on() {
    let script =
        "cat > /dev/null; if [ $RALPH_ATTEMPT = 1 ]; then echo 1 > one; git add one; git commit -qm One; exit 3; fi
        echo 2 > two; git add two; git commit -qm Two; touch \"$RALPH_TASK_DIR/DONE\"";
    let graph = "tasks: [{id: a}]\n";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", script]);
    trial.run(["run", "--once"]).code(1);
    let blob = trial.git(&["rev-parse", "refs/ralph/a/1:one"]);
    let (folder, name) = blob.trim().split_at(2);
    fs::remove_file(trial.root().join(format!(".git/objects/{folder}/{name}"))).unwrap();
    trial.run(["run", "--once"]).stderr_has("a starts over: refs/ralph/a/1 cannot be restored:");
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn the_standard_error_of_a_failed_agent_is_in_the_report_and_the_next_prompt() {
    let script = "echo Bye; echo 'cannot open the model' >&2; echo 'key is too old' >&2; exit 3";
    let graph = "tasks: [{id: a, max_attempts: 2}]\n";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", script]);
    trial.run(["run", "-q"]).code(3);
    let report = trial.run(["report", "--json"]).json();
    assert_eq!(
        report["attention"][0]["detail"],
        json!(["Bye", "cannot open the model", "key is too old"])
    );
    let prompt = trial.read("logs/attempts/a/2/prompt.md");
    let told =
        "The end of its standard error:\n\n```text\ncannot open the model\nkey is too old\n```";
    assert!(prompt.contains(told), "{prompt}");
}

/// The items below a heading of `ralph show`.
fn below(shown: &str, heading: &str) -> Vec<String> {
    let lines = shown.lines().skip_while(|line| *line != heading).skip(1);
    lines.map_while(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

#[test]
fn an_attempt_is_shown_with_the_end_of_its_output_as_attach_shows_it() {
    let script =
        "printf '10%%\\r100%%\\n\\033[31mred\\033[0m words\\n'; printf '\\033[1mwhy\\033[0m\\n' >&2
        echo 1 > one; git add one; git commit -qm One";
    let verify = "for n in $(seq 20); do printf \"\\033[32mcheck\\033[0m $n\\n\"; done; exit 1";
    let graph = format!("tasks: [{{id: a, verify: {}}}]\n", json!(verify));
    let trial = reports(&graph, script);
    trial.run(["run", "--once"]).code(1);
    let shown = trial.run(["show", "a"]).out();
    let output = below(&shown, "The end of its output:");
    assert_eq!(output[..2], ["100%", "red words"], "{shown}");
    assert_eq!(below(&shown, "The end of its standard error:"), ["why"]);
    let last = (9..=20).map(|number| format!("check {number}"));
    let numbers: Vec<String> = std::iter::once("…".to_owned()).chain(last).collect();
    assert_eq!(below(&shown, "From the output of the failed verify command:"), numbers, "{shown}");
    let json = trial.run(["show", "a.1", "--json"]).json();
    assert_eq!((&json["verify_output"], &json["errors"]), (&json!(numbers), &json!(["why"])));
    // `ralph logs --output` prints what `ralph attach` printed.
    let logs = trial.run(["logs", "--output"]).out();
    assert!(logs.contains("100%\nred words\n") && !logs.contains("10%\r"), "{logs}");
}

#[test]
fn an_attempt_with_typed_output_is_shown_in_words() {
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude-success.jsonl");
    let agent = format!(
        "agent: {{command: [sh, -c, {}], output: claude-json}}\n",
        json!(format!("cat > /dev/null; cat {streams}"))
    );
    let trial = TestProject::new()
        .graph("tasks: [{id: a}]\n")
        .file(".ralph/config.yaml", &format!("{SETTINGS}{agent}"));
    trial.run(["run", "--once"]).code(1);
    let output = below(&trial.run(["show", "a"]).out(), "The end of its output:");
    assert!(!output.is_empty() && output.iter().all(|line| !line.contains('{')), "{output:?}");
    let logs = trial.run(["logs", "--output"]).out();
    let logs: Vec<&str> = logs.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    assert!(logs.windows(output.len()).any(|part| part == output), "{output:?} in {logs:?}");
}

#[test]
fn work_of_a_killed_run_is_kept_by_the_next() {
    let trial = fails("echo 1 > one; touch \"$TRIAL_DIR/left\"; exec sleep 600");
    let live = trial.start_until(["run"], "left");
    live.kill();
    let script = "cat >/dev/null; git add one; git commit -qm One; \"$RALPH\" task-complete a";
    let trial = trial.command(["sh", "-c", script]);
    trial.run(["run", "-q"]);
    assert_eq!(trial.lines("interrupted")[0]["pinned"], "refs/ralph/a/1");
    assert_eq!(trial.git(&["show", "refs/ralph/a/1:one"]), "1\n");
    assert!(trial.lines("completed")[0].get("pinned").is_none());
    trial.run(["restore", "a.2"]).code(1);
}

#[test]
fn secrets_and_ignored_files_do_not_land() {
    let stage = |settings: &str, work: &str| {
        let trial = TestProject::new()
            .file(".gitignore", "*.db\n.env\n")
            .file("value", "1\n")
            .file(".ralph/config.yaml", &format!("max_attempts: 1\n{settings}"))
            .graph("tasks: [{id: a}]\n");
        let script =
            format!("cat > /dev/null; {work}; git commit -qm Work; \"$RALPH\" task-complete a");
        let trial = trial.command(["sh", "-c", &script]);
        let ran = trial.run(["run"]);
        let said = ran.whole();
        (trial, said)
    };
    let key = format!("ghp_{}", "Zx9Kq3Lm7Tp2Vb8Nc4Rd6Wf1Hs5Jy0Ga3Ue7");
    let writes_key = format!("echo 'token = \"{key}\"' > settings.py; git add settings.py");
    let takes_back =
        format!("{writes_key}; git commit -qm A; echo 3 > settings.py; git add settings.py");
    let says_key =
        format!("echo 2 > value; git commit -qam 'With {key}'; echo 3 > value; git add value");
    for (work, what) in [
        ("echo K=1 > .env; git add -f .env", "adds a file that holds secrets by its name: `.env`"),
        (
            "echo K=1 > .env; git add -f .env; git commit -qm A; git rm -q .env; echo 2 > value; git add value",
            "adds a file that holds secrets by its name: `.env`",
        ),
        ("echo 1 > my.db; git add -f my.db", "adds a file that git ignores: `my.db`"),
        (&writes_key, "writes what looks like a key or a password: `settings.py:1`"),
        (&takes_back, "writes what looks like a key or a password: `settings.py:1 of "),
        (&says_key, "writes what looks like a key or a password: `the message of "),
        ("echo 2 > value; git add value", "changes what `protect` keeps as it is: `value`"),
    ] {
        let (trial, said) = stage("protect: [value]\n", work);
        let why = trial.lines("failed")[0]["why"].as_str().unwrap().to_owned();
        assert!(why.contains(what), "{work}: {why}\n{said}");
        assert!(!said.contains(&key), "the key is not shown");
        trial.run(["restore", "a.1"]).stdout_has("Do not merge it as it is: it ");
        assert!(!trial.subjects().contains(&"Work".to_owned()), "{work}");
    }
    let all = format!("{writes_key}; echo 1 > my.db; echo K=1 > .env; git add -f my.db .env");
    let (trial, said) = stage("allow_files: ['*.db', .env, settings.py]\n", &all);
    assert_eq!(trial.subjects(), ["Work"], "{said}");
    let large = "head -c 11000000 /dev/zero > model.bin; git add model.bin";
    let (trial, said) = stage("", large);
    assert_eq!(trial.subjects(), ["Work"]);
    assert!(said.contains("new large or binary files: model.bin (10 MB)"), "{said}");
}

/// The history would keep what a later commit removes.
#[test]
fn commits_with_a_key_are_made_again() {
    let key = format!("ghp_{}", "Zx9Kq3Lm7Tp2Vb8Nc4Rd6Wf1Hs5Jy0Ga3Ue7");
    let script = format!(
        "cat > /dev/null; if [ $RALPH_ATTEMPT = 1 ]; then echo '{key}' > a; git add a
         else git reset -q --soft \"$RALPH_BASE\"; echo none > a; git add a; fi
         git commit -qm Work; \"$RALPH\" task-complete a"
    );
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", &script]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.subjects(), ["Work"]);
    assert!(!trial.git(&["log", "-p"]).contains(&key));
}
