//! Nothing waits without a limit: guardians that an agent stops, programs of git that hang, files
//! that are not files, locks of runs that cannot be seen.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;

use crate::support::{Live, RALPH, SETTINGS, TestProject, agent, unavailable, until, wait_for};

/// The script of [`staged`].
fn staged_script(lines: &str) -> String {
    let work = "echo work > \"$RALPH_TASK_ID\"; git add \"$RALPH_TASK_ID\"; git commit -qm Work
        \"$RALPH\" task-complete \"$RALPH_TASK_ID\"";
    format!("cat > /dev/null; [ \"$RALPH_ATTEMPT\" != 1 ] || {{ {lines}\n}}\n{work}")
}

/// An agent whose first attempt follows these lines; the next ones complete their task.
fn staged(lines: &str) -> TestProject {
    let script = staged_script(lines);
    TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", &script])
}

#[test]
fn a_stopped_guardian_is_continued() {
    for place in ["slot", "checkout"] {
        let trial = staged("kill -STOP $PPID").env("RALPH_ISOLATION", place);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.lines("started").len(), 1, "{place}");
        trial.no_process_is_left();
    }
}

#[test]
fn a_killed_guardian_is_a_loss_that_says_so() {
    let trial = staged("kill -KILL $PPID; sleep 600");
    trial.run(["run"]).graph_complete();
    let ended = trial.lines("interrupted").remove(0);
    assert_eq!(ended["outcome"], "lost", "{ended}");
    assert!(ended["why"].as_str().unwrap().contains("its guardian was killed"), "{ended}");
    trial.no_process_is_left();
}

#[test]
#[ignore = "slow"]
fn a_guardian_that_never_answers_is_killed_with_its_tree() {
    let trial = staged("(setsid sleep 600 &); while :; do kill -STOP $PPID; done");
    trial.run(["run", "--timeout", "5s"]).graph_complete();
    let ends = [trial.lines("failed"), trial.lines("interrupted")].concat();
    assert_eq!(ends[0]["verdict"], "timed-out", "{ends:?}");
    trial.no_process_is_left();
}

#[test]
fn a_run_ends_although_its_guardian_is_stopped() {
    for (name, code) in [("TERM", 143), ("stop --now", 4), ("KILL", 0)] {
        let trial = staged("touch \"$TRIAL_DIR/asleep\"; kill -STOP $PPID; sleep 600");
        let run = trial.start_until(["run"], "asleep");
        if name == "KILL" {
            // The guardian cannot see that its runner dies.
            kill_process(trial.guardian("a.1"), Signal::STOP).unwrap();
            run.kill();
        } else {
            if name == "TERM" {
                run.signal(Signal::TERM);
            } else {
                trial.run(["stop", "--now"]);
            }
            run.end(&trial).code(code);
            trial.no_process_is_left();
        }
        trial.run(["run"]).graph_complete();
        trial.no_process_is_left();
    }
}

/// A project in which git runs a program that hangs, for checkouts (`smudge`) or for changed files
/// (`clean`), while the file `hangs` is in the test's folder.
fn filtered(how: &str, settings: &str) -> TestProject {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .file(".gitattributes", "*.f filter=slow\n")
        .file("x.f", "text\n")
        .graph("tasks: [{id: a}]\n")
        .agent("commit");
    let hang = "[ ! -e \"$TRIAL_DIR/hangs\" ] || { touch \"$TRIAL_DIR/hung\"; sleep 600; }; cat";
    trial.git(&["config", &format!("filter.slow.{how}"), hang]);
    trial.leave("hangs");
    // Not the content that the index has.
    fs::write(trial.root().join("x.f"), "TEXT\n").unwrap();
    trial
}

fn free(trial: &TestProject) {
    fs::remove_file(trial.sign("hangs")).unwrap();
    trial.git(&["checkout", "-q", "--", "x.f"]);
}

#[test]
fn a_filter_that_hangs_is_ended_at_the_limit() {
    let trial = filtered("smudge", "max_wait: 500ms\nmax_attempts: 1\n");
    let trial = trial.env("RALPH_FIXED_LIMIT", "3s");
    trial.run(["run"]).code(69);
    // Nothing counts for the task: no slot can be made for any.
    let why = trial.lines("executor_unreachable")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("exceeded its limit of 3.0s"), "{why}");
    assert_eq!(trial.tasks("failed"), [""; 0]);
    trial.no_process_is_left();
    free(&trial);
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
}

#[test]
#[ignore = "slow"]
fn a_request_to_stop_ends_a_filter_that_hangs() {
    for how in ["smudge", "clean"] {
        for (name, code) in [("TERM", 143), ("stop --now", 4), ("KILL", 0)] {
            let trial = filtered(how, "jobs: 1\n");
            let trial = if how == "clean" { trial.in_place() } else { trial };
            let run = trial.start(["run"]);
            hung(&trial, &run);
            match name {
                "TERM" => run.signal(Signal::TERM),
                "stop --now" => drop(trial.run(["stop", "--now"])),
                _ => {}
            }
            if name == "KILL" {
                run.kill();
                free(&trial);
            } else {
                run.end(&trial).code(code);
                trial.no_process_is_left();
                free(&trial);
            }
            trial.run(["run"]).graph_complete();
            trial.no_process_is_left();
        }
    }
}

#[test]
fn a_signal_ends_a_command_and_the_git_that_it_waits_for() {
    let commands =
        [&["status"][..], &["check"], &["verify", "a"], &["prompt"], &["restore", "a.1"]];
    for (words, signal) in commands.into_iter().zip([Signal::TERM, Signal::INT].into_iter().cycle())
    {
        // libgit2 cannot read it, so every command calls the program.
        let trial = TestProject::bare()
            .env("GIT_DEFAULT_HASH", "sha256")
            .repository()
            .graph("tasks: [{id: a, verify: 'true'}]\n");
        // A `git` that hangs with a child which ignores the signal.
        let bin = trial.dir().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let hang = "(trap '' TERM INT; touch \"$TRIAL_DIR/hung\"; sleep 600; sleep 600)";
        trial.script(&bin.join("git"), hang);
        let trial = trial.env("PATH", &path);
        let live = trial.start_until(words, "hung");
        live.signal(signal);
        // Ended by the signal.
        live.end(&trial).code(-1);
        trial.no_process_is_left();
    }
}

#[test]
fn a_lock_of_the_journal_that_an_agent_holds_is_waited_for_with_a_limit() {
    let lines = "journal=\"$TRIAL_DIR/repo/logs/ralph.jsonl\"
        until grep -q agent_started \"$journal\"; do sleep 0.02; done
        flock \"$journal\" sh -c 'touch \"$TRIAL_DIR/held\"; sleep 600' &
        until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done; exit 1";
    let trial = staged(lines).env("RALPH_FIXED_LIMIT", "1s");
    let run = trial.start_until(["run"], "held");
    let locked = "ralph.jsonl` for longer than [took]; `fuser";
    trial.run(["note", "a", "later"]).code(1).stderr_has(locked);
    trial.leave("open");
    // The run ends too if it has something to write meanwhile.
    run.end(&trial).code_is_any();
    trial.no_process_is_left();
    // The lock ends with the attempt that holds it.
    trial.run(["run"]).graph_complete();
}

#[test]
fn a_lock_of_another_program_ends_a_command_at_the_limit() {
    let work = agent("commit");
    for (file, words) in [
        (".git/ralph/graph.lock", &["task-reset", "a"][..]),
        ("logs/ralph.jsonl", &["task-reset", "a"]),
        ("logs/ralph.jsonl", &["run", "--", &work]),
    ] {
        let trial = TestProject::new()
            .graph("tasks: [{id: a}]\n")
            .env("RALPH_FIXED_LIMIT", "1s")
            .agent("commit");
        trial.run(["task-block", "a", "--reason", "x"]);
        let hold = format!("exec flock {file} sh -c 'touch \"$TRIAL_DIR/locked\"; exec sleep 600'");
        let mut holder = trial
            .process("sh")
            .args(["-c", &hold])
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&trial.sign("locked"));
        let (exit, said) = limited(&trial, words);
        let group = Pid::from_raw(i32::try_from(holder.id()).unwrap()).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
        holder.wait().unwrap();
        assert_eq!(exit, Some(1), "{file} {words:?}: {said}");
        assert!(said.contains("for longer than 1.0s") && said.contains(file), "{words:?}: {said}");
        trial.run(["task-reset", "a"]);
        trial.run(["run"]).graph_complete();
    }
}

/// Waits until the run itself waits for a filter.
fn hung(trial: &TestProject, run: &Live) {
    let of_run = |pid: &Path| {
        let text = fs::read(pid.join("environ")).unwrap_or_default();
        text.windows(13).any(|part| part == b"RALPH_GIT_OF=")
    };
    wait_for(&trial.sign("hung"));
    until(&format!("git of process {} hangs", run.id()), || {
        let mut all = fs::read_dir("/proc").unwrap().flatten();
        all.any(|entry| of_run(&entry.path()))
    });
}

/// The things that are put in place of a file, and the commands that make them.
const SPECIAL: [(&str, &str); 3] =
    [("FIFO", "mkfifo"), ("folder", "mkdir"), ("device", "ln -s /dev/zero")];

/// An agent that completes its task, and puts something in place of a file of the main checkout
/// in its first attempt.
fn replacing(file: &str, make: &str) -> TestProject {
    let script = format!(
        "cat > /dev/null; echo work > \"$RALPH_TASK_ID\"; git add \"$RALPH_TASK_ID\"
        git commit -qm Work; \"$RALPH\" task-complete \"$RALPH_TASK_ID\"
        [ \"$RALPH_TASK_ID.$RALPH_ATTEMPT\" != a.1 ] || {{ rm -f \"$TRIAL_DIR\"/repo/{file}
        {make} \"$TRIAL_DIR\"/repo/{file}; }}"
    );
    TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").command(["sh", "-c", &script])
}

#[test]
fn a_graph_that_is_no_longer_a_file_is_put_back() {
    for (name, make) in SPECIAL {
        for place in ["slot", "checkout"] {
            let trial = replacing("task-graph.yaml", make).env("RALPH_ISOLATION", place);
            trial.run(["run"]).graph_complete();
            assert_eq!(trial.tasks("completed"), ["a", "b"], "{name} {place}");
            assert_eq!(
                (trial.status("a"), trial.status("b")),
                ("complete".into(), "complete".into())
            );
            trial.assert_record("graph_guarded", &json!({"what": "damaged", "undone": true}));
            trial.run(["run"]).graph_complete();
            trial.no_process_is_left();
        }
    }
}

#[test]
fn a_journal_that_is_no_longer_a_file_is_begun_anew() {
    for (_, make) in SPECIAL {
        for file in ["logs/ralph.jsonl", "logs/ralph.heartbeat"] {
            let trial = replacing(file, make);
            trial.run(["run"]).graph_complete();
            assert_eq!(
                (trial.status("a"), trial.status("b")),
                ("complete".into(), "complete".into())
            );
            assert!(trial.root().join(file).is_file());
            trial.run(["run"]).graph_complete();
            trial.no_process_is_left();
        }
    }
}

#[test]
fn files_of_people_and_agents_that_are_not_files_do_not_block() {
    for (name, make) in SPECIAL {
        let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
        let files = ["docs/knowledge/learnings.md", "prompts/task.md", "logs/ralph.heartbeat"];
        // A link from the logs to another place is refused.
        for file in &files[..if name == "device" { 2 } else { 3 }] {
            let folder = trial.root().join(file).parent().unwrap().to_owned();
            fs::create_dir_all(folder).unwrap();
            let made = trial.process("sh").args(["-c", &format!("{make} {file}")]).status();
            assert!(made.unwrap().success());
        }
        trial.in_place().run(["run"]).graph_complete();
        let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
        let make = format!("rm .ralph/config.yaml; {make} .ralph/config.yaml");
        assert!(trial.process("sh").args(["-c", &make]).status().unwrap().success());
        let said = trial.run(["run"]).code(1).err();
        assert!(said.contains("`.ralph/config.yaml`: it is not a regular file"), "{name}: {said}");
    }
}

#[test]
fn files_of_a_slot_that_are_not_files_are_made_again() {
    for (name, make) in SPECIAL {
        let files = ".git/ralph-slot .git/ralph-setup .git/info/exclude .git/info/attributes \
                     .git/hooks/pre-push secret.env";
        let lines = format!(
            "for file in {files}; do rm -f $file; mkdir -p \"$(dirname $file)\"; {make} $file; done
             exit 1"
        );
        let trial = staged(&lines)
            .file(".worktreeinclude", "*.env\n")
            .file(".gitignore", "*.env\n")
            .file(".ralph/config.yaml", &format!("{SETTINGS}setup: test -f secret.env\n"));
        trial.hook("pre-push", "exit 0");
        fs::write(trial.root().join("secret.env"), "x\n").unwrap();
        let said = limited(&trial, &["run", "--", "sh", "-c", &staged_script(&lines)]);
        assert_eq!(said.0, Some(0), "{name}: {}", said.1);
        assert_eq!(trial.tasks("completed"), ["a"], "{name}");
        trial.no_process_is_left();
    }
}

#[test]
#[ignore = "slow"]
fn a_fifo_that_git_reads_in_a_slot_is_waited_for_with_a_limit() {
    let lines = "mkdir sub; mkfifo sub/.gitignore; exit 1";
    let trial = staged(lines).env("RALPH_FIXED_LIMIT", "2s");
    let said = limited(&trial, &["run", "--", "sh", "-c", &staged_script(lines)]);
    assert_eq!(said.0, Some(0), "{}", said.1);
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.no_process_is_left();
}

/// Runs a command with a limit; its exit code is 124 if it does not end in time.
fn limited(trial: &TestProject, words: &[&str]) -> (Option<i32>, String) {
    let mut command = trial.process("timeout");
    let output = command.args(["-k", "1", "120", RALPH]).args(words).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn setting_up_does_not_wait_for_files_that_are_not_files() {
    for (name, make) in SPECIAL {
        let trial = TestProject::new().agent("commit");
        for file in ["AGENTS.md", "CLAUDE.md", ".gitmodules", ".worktreeinclude", "package.json"] {
            let made = trial.process("sh").args(["-c", &format!("{make} {file}")]).status();
            assert!(made.unwrap().success());
        }
        for words in
            [&["doctor", "--quick"][..], &["init", "--yes"], &["merge-driver", "--install"]]
        {
            let (code, said) = limited(&trial, words);
            assert!(
                code.is_some_and(|code| code != 124 && code != 101),
                "{name} {words:?}: {said}"
            );
        }
    }
}

#[test]
fn a_repository_whose_path_is_not_utf8_is_refused() {
    let trial = TestProject::new();
    let root = trial.dir().join(OsStr::from_bytes(b"bad\xff"));
    let git = ["init", "--quiet", "."];
    fs::create_dir(&root).unwrap();
    assert!(trial.process("git").current_dir(&root).args(git).status().unwrap().success());
    let graph = "tasks: [{id: a}]\n";
    fs::write(root.join("task-graph.yaml"), graph).unwrap();
    for words in [&["run", "--", "true"][..], &["status"], &["run", "--in-place", "--", "true"]] {
        let ran = trial.process(RALPH).current_dir(&root).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("the path of the repository is not UTF-8: `"), "{said}");
    }
    assert!(!root.join(".git/ralph").exists());
}

#[test]
fn the_lock_of_a_run_in_another_pid_namespace_is_seen() {
    const APART: [&str; 5] =
        ["--map-current-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("gate");
    let command = |is_apart: bool| {
        let mut command = trial.process(if is_apart { "unshare" } else { RALPH });
        command.args(if is_apart { &APART[..] } else { &[] });
        command.args(is_apart.then_some(RALPH)).args(["run", "--"]).arg(agent("gate"));
        command
    };
    if !trial.process("unshare").args(APART).arg("true").status().is_ok_and(|it| it.success()) {
        unavailable("no pid namespace can be made here");
        return;
    }
    for first_is_apart in [false, true] {
        let _ = fs::remove_file(trial.sign("waiting-a"));
        let mut first = command(first_is_apart).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&trial.sign("waiting-a"));
        let second = command(!first_is_apart).output().unwrap();
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(5), "{said}");
        assert!(said.contains("another ralph runs in this repository: process "), "{said}");
        assert!(said.contains(" of another pid namespace, run "), "{said}");
        assert!(said.contains(", working on `a`, since "), "{said}");
        first.kill().unwrap();
        first.wait().unwrap();
    }
    trial.leave("open");
    // A guardian may still hold the lock, which cannot be seen from the other namespace.
    until("a further run works", || command(false).output().unwrap().status.code() != Some(5));
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.no_process_is_left();
}

#[test]
fn settings_that_include_a_fifo_cost_their_attempt_only() {
    let lines = "mkfifo \"$TRIAL_DIR/fifo\"
        printf '[include]\\n\\tpath = %s\\n' \"$TRIAL_DIR/fifo\" >> .git/config; exit 0";
    let trial = staged(lines);
    let script = staged_script(lines);
    let (exit, said) = limited(&trial, &["run", "--", "sh", "-c", &script]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("settings with which git did not open the slot"), "{said}");
}

#[test]
fn an_agent_that_kills_its_guardian_each_time_is_parked() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let agent = ["run", "--", "sh", "-c", "cat > /dev/null; kill -9 $PPID; sleep 5"];
    trial.run(agent).code(3);
    assert_eq!(trial.lines("started").len(), 3);
    trial.no_process_is_left();
}
