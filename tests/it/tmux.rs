//! An agent that prints on a terminal, with a window of a real tmux that shows it: it is judged, limited
//! and ended like any other.

use std::{
    fs,
    process::{Command, Stdio},
};

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::{TestProject, unavailable, until, wait_for};

/// A repository with one task, and a tmux server of its own; `None` without tmux.
fn trial() -> Option<TestProject> {
    if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
        unavailable("there is no tmux here");
        return None;
    }
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let place = trial.dir().to_str().unwrap().to_owned();
    Some(trial.env("TMUX_TMPDIR", &place))
}

#[test]
fn an_agent_with_a_terminal_is_judged_as_ever() {
    let Some(trial) = trial() else { return };
    let trial = trial.agent("painter");
    let usual = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let how = "[time]  each agent has a tmux window; `ralph attach` shows the same here\n";
    let said = trial.run(["run", "--tmux"]).whole();
    assert_eq!(said.replacen(how, "", 1), usual.run(["run"]).whole());
    assert!(said.contains(how), "{said}");
    assert_eq!(fs::read_to_string(trial.sign("terminal")).unwrap(), "prints on a terminal\n");
    assert_eq!(
        fs::read_to_string(trial.sign("prompt")).unwrap(),
        trial.read("logs/attempts/a/1/prompt.md")
    );
    assert_eq!(
        trial.read("logs/attempts/a/1/stdout"),
        "\u{1b}[31mred\u{1b}[0m and plain\r\non standard error\r\n\
         a is reported as done; it is verified when attempt 1 ends\r\n\
         the last \u{1b}[1mwords\u{1b}[0m\r\n"
    );
    assert_eq!(trial.lines("completed")[0]["last_line"], "the last words");
    assert_eq!(trial.lines("loop_started")[0]["tmux"], true);
    trial.no_process_is_left();
}

#[test]
fn all_that_was_printed_before_the_end_is_kept() {
    let Some(trial) = trial() else { return };
    let trial = trial.command(["sh", "-c", "seq 100000; echo the end"]);
    trial.run(["run", "--tmux", "--once", "-q"]).code(1);
    let log = trial.read("logs/attempts/a/1/stdout").replace('\r', "");
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(log == numbers + "the end\n", "{} bytes", log.len());
}

#[test]
fn no_process_survives_any_end_of_an_attempt_with_a_terminal() {
    // A process that cannot be reached through its group, its terminal or its parent.
    let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; sleep 600' & \
                  touch \"$TRIAL_DIR/there\"; while :; do sleep 1; done";
    let start = |flags: &[&str]| {
        let trial = trial()?.command(["sh", "-c", script]);
        let words = ["run", "--tmux", "--once"];
        let live = trial.start(words.iter().chain(flags).copied().collect::<Vec<_>>());
        wait_for(&trial.sign("there"));
        Some((trial, live))
    };
    let Some((trial, live)) = start(&["--timeout", "1s"]) else { return };
    live.end(&trial).code(1);
    trial.assert_record("failed", &json!({"outcome": "timed_out"}));
    trial.no_process_is_left();

    let (trial, live) = start(&[]).unwrap();
    live.signal(Signal::INT);
    live.end(&trial).code(130);
    trial.no_process_is_left();

    let (trial, live) = start(&[]).unwrap();
    kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
    live.end(&trial).code(1);
    trial.assert_record("interrupted", &json!({"verdict": "interrupted"}));
    trial.no_process_is_left();

    let (trial, live) = start(&[]).unwrap();
    live.kill();
    trial.no_process_is_left();
}

#[test]
fn a_window_shows_what_the_agent_prints_and_closes_with_the_run() {
    let Some(trial) = trial() else { return };
    let script = "cat > /dev/null; echo 'Hello, window'; until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.05; done";
    let trial = trial.command(["sh", "-c", script]);
    let live = trial.start(["run", "--tmux", "--once"]);
    let screen = || {
        let mut tmux = trial.process("tmux");
        let shown = tmux.args(["capture-pane", "-p", "-t", "=ralph-repo:"]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    until("the window shows it", || screen().contains("Hello, window"));
    let follower = trial.start(["attach"]);
    until("the output is shown", || follower.printed().contains("Hello, window"));
    trial.leave("go");
    live.end(&trial).code(1);
    follower.end(&trial).code(0);
    until("the window closes", || !screen().contains("Hello, window"));
    trial.no_process_is_left();
}

#[test]
fn without_tmux_nothing_is_claimed() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let bin = trial.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    let trial = trial.env("PATH", bin.to_str().unwrap());
    trial.run(["run", "--tmux"]).code(69).stderr(
        "ralph: error: `--tmux` needs tmux, and it is not on PATH; install it, or leave out `--tmux`\n",
    );
    assert_eq!(trial.status("a"), "pending");
    assert!(!trial.root().join("logs").exists());
}
