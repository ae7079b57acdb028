//! What foreign processes change in a slot after its agent has ended, and what a person changes in the
//! repository meanwhile: nothing that was read before counts after it.

use std::fs;

use serde_json::json;

use crate::support::{TestProject, wait_for};

/// Commits a file named after the task, and reports.
const HONEST: &str = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt; git add -A; \
                      git commit -qm \"Work on $RALPH_TASK_ID\"; \
                      \"$RALPH\" task-complete $RALPH_TASK_ID";

/// Makes git run a program on every occasion, and leaves a change that it would be run for.
const PROGRAMS: &str = r#"
run="$TRIAL_DIR/run"
git config core.fsmonitor "$run fsmonitor"
git config core.hooksPath "$TRIAL_DIR/hooks"
for driver in clean smudge; do git config filter.x.$driver "$run $driver"; done
git config filter.x.required true
git config diff.external "$run external"
for driver in command textconv; do git config diff.x.$driver "$run $driver"; done
git config merge.x.driver "$run merge"
git config commit.gpgSign true
git config gpg.program "$run sign"
git config uploadpack.packObjectsHook "$run pack"
git config "url.ext::$run url.insteadOf" "$TRIAL_DIR"
git config credential.helper "$run credential"
mkdir -p .git/info .git/hooks
echo '* filter=x diff=x merge=x' > .git/info/attributes
for hook in pre-commit post-commit post-checkout post-index-change reference-transaction post-merge; do
    for folder in "$TRIAL_DIR/hooks" .git/hooks; do
        printf '#!/bin/sh\n"%s" hook\n' "$run" > $folder/$hook; chmod +x $folder/$hook
    done
done
for file in *.txt; do echo more >> $file; done
"#;

/// A project whose agent runs `agent`, with the script [`PROGRAMS`] to tempt git with.
fn tempted(agent: &str) -> TestProject {
    let graph = "tasks: [{id: a}, {id: b, depends_on: [a]}]\n";
    let trial = TestProject::new().graph(graph).command(["sh", "-c", agent]);
    fs::create_dir(trial.sign("hooks")).unwrap();
    fs::write(trial.sign("programs"), PROGRAMS).unwrap();
    trial.script(&trial.sign("run"), "echo \"$@\" >> \"$TRIAL_DIR/ran\"; cat");
    trial
}

/// Expects that both tasks are done by their commits alone, and that git has run nothing.
fn nothing_ran(trial: &TestProject) {
    let ran = fs::read_to_string(trial.sign("ran")).unwrap_or_default();
    assert_eq!(ran, "");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    assert_eq!(trial.read("a.txt") + &trial.read("b.txt"), "work\nwork\n");
    trial.no_process_is_left();
}

#[test]
fn programs_that_a_verify_command_names_are_never_run() {
    let trial = tempted(HONEST).env("RALPH_VERIFY", "sh \"$TRIAL_DIR/programs\"");
    trial.run(["run"]).graph_complete();
    nothing_ran(&trial);
}

#[test]
fn programs_that_a_child_names_after_its_agent_are_never_run() {
    let agent = format!(
        "{HONEST}; [ $RALPH_TASK_ID = b ] || setsid sh -c 'until [ -e \"$TRIAL_DIR/go\" ]; do
         sleep 0.02; done; sh \"$TRIAL_DIR/programs\"; touch \"$TRIAL_DIR/changed\"' \
         > /dev/null 2>&1 < /dev/null &"
    );
    let verify =
        "touch \"$TRIAL_DIR/go\"; until [ -e \"$TRIAL_DIR/changed\" ]; do sleep 0.02; done";
    let trial = tempted(&agent)
        .env("RALPH_VERIFY", verify)
        .env("RALPH_CHILD_WAIT_TIMEOUT", "0s")
        .env("RALPH_ON_ORPHANS", "leave");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("children_overdue")[0]["on_orphans"], "leave");
    nothing_ran(&trial);
}

/// Hooks of the repository often run files of the worktree, which are the attempt's.
#[test]
fn a_hook_cannot_hide_what_it_leaves() {
    let agent = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt
        echo \"echo '*' > .git/info/exclude; echo 1 > left\" > check; \"$RALPH\" task-complete a";
    let trial = tempted(agent);
    trial.hook("pre-commit", "[ ! -f check ] || sh ./check");
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("completed"), ["a"]);
    let refs = trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"]);
    let kept = refs.lines().next().expect("what it left is kept");
    assert_eq!(trial.git(&["show", &format!("{kept}:left")]), "1\n");
}

#[test]
fn a_hook_cannot_hide_what_it_takes_out_of_a_commit() {
    let agent = "cat > /dev/null; echo work > a.txt; echo work > lost.txt
        echo 'git reset -q lost.txt; echo /lost.txt > .git/info/exclude' > check
        \"$RALPH\" task-complete a";
    let trial = tempted(agent);
    for name in ["pre-commit", "post-commit"] {
        trial.hook(name, "[ ! -f check ] || sh ./check");
    }
    trial.run(["run", "--once"]);
    assert_eq!(trial.lines("completed")[0]["leftovers"], json!(["lost.txt"]));
}

#[test]
fn a_git_directory_that_a_verify_command_puts_in_place_does_not_land() {
    let other = "[ ! -e a.txt ] || [ -e \"$TRIAL_DIR/other\" ] || { cp -r .git \"$TRIAL_DIR/other\"
        git --git-dir \"$TRIAL_DIR/other\" --work-tree . commit -q --allow-empty -m Other
        rm -rf .git; PUT; }";
    for put in [
        "echo \"gitdir: $TRIAL_DIR/other\" > .git",
        "ln -s \"$TRIAL_DIR/other\" .git",
        "mv \"$TRIAL_DIR/other\" .git; touch \"$TRIAL_DIR/other\"",
        "git init -q; git add -A; git commit -qm Other",
        ":",
    ] {
        let trial = tempted(HONEST).env("RALPH_VERIFY", &other.replace("PUT", put));
        trial.run(["run"]).code_is_any();
        assert!(trial.sign("other").exists(), "{put}");
        assert!(!trial.subjects().contains(&"Other".to_owned()), "{put}");
        let ended = trial.lines("started").len();
        assert!(ended <= 4, "{put}: {ended} attempts");
        trial.git(&["fsck", "--no-dangling", "--no-progress"]);
        trial.no_process_is_left();
    }
}

#[test]
fn a_persons_settings_of_git_count_from_the_next_attempt() {
    let agent = format!(
        "{HONEST}; [ $RALPH_TASK_ID = b ] || {{ touch \"$TRIAL_DIR/ready\"
         until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; }}"
    );
    let trial = tempted(&agent);
    let run = trial.start_until(["run"], "ready");
    wait_for(&trial.sign("ready"));
    trial.git(&["config", "user.name", "Other"]);
    trial.hook("pre-commit", "echo hook > \"$TRIAL_DIR/hook-$RALPH_TASK_ID\"");
    trial.leave("open");
    run.end(&trial).graph_complete();
    let log = trial.git(&["log", "--format=%s %an", "--author=Other"]);
    assert!(log.contains("Work on b Other"), "{log}");
    assert!(!log.contains("Work on a"), "{log}");
    assert!(trial.sign("hook-b").exists() && !trial.sign("hook-a").exists());
}
