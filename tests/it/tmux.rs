//! An agent with its own terminal in a real tmux: it is judged, limited and ended like any other,
//! and a person can attach to it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    support::{SETTINGS, TestProject, unavailable, until, wait_for},
    terminal::{bare, code, on_terminal},
};

/// A repository with one task; `None` without tmux.
fn trial() -> Option<TestProject> {
    if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
        unavailable("there is no tmux here");
        return None;
    }
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let place = place(&trial);
    fs::create_dir_all(&place).unwrap();
    Some(trial.env("TMPDIR", place.to_str().unwrap()))
}

/// The folder for sockets: not below one whose name has a space, which tmux cannot have.
fn place(trial: &TestProject) -> PathBuf {
    let dir = trial.dir();
    let has_space = dir.to_str().unwrap().contains(' ');
    if has_space { Path::new("/tmp").join(dir.file_name().unwrap()) } else { dir.clone() }
}

/// Keys that arrive within a millisecond, which happens on a busy machine, tmux takes as pasted.
fn take_everything_as_typed(trial: &TestProject) {
    let socket = || {
        let entries = fs::read_dir(place(trial)).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|folder| folder.join("tmux")).find(|socket| socket.exists())
    };
    until("the server has a socket", || socket().is_some());
    let (set, socket) = (["set-option", "-g", "assume-paste-time", "0"], socket().unwrap());
    assert!(trial.process("tmux").arg("-S").arg(socket).args(set).status().unwrap().success());
}

/// Expects that no process and no socket is left.
#[track_caller]
fn nothing_is_left(trial: &TestProject) {
    trial.no_process_is_left();
    let entries = fs::read_dir(place(trial)).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        entries.filter(|name| name.to_string_lossy().starts_with("ralph-")).collect();
    assert!(left.is_empty(), "{left:?}");
    // Fails where it is the folder of the project, which has files.
    let _ = fs::remove_dir(place(trial));
}

#[test]
fn an_agent_in_a_window_has_a_terminal_and_is_judged_as_ever() {
    let Some(trial) = trial() else { return };
    let trial = trial.agent("painter");
    let usual = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let how = "[time]  each agent has a tmux window: `ralph attach` in another terminal opens it, \
               C-b d leaves it\n";
    let said = trial.run(["run", "--tmux"]).whole();
    assert_eq!(said.replacen(how, "", 1), usual.run(["run"]).whole());
    assert!(said.contains(how), "{said}");
    assert_eq!(
        fs::read_to_string(trial.sign("terminal")).unwrap(),
        "prints on a terminal\nhas one to ask\n\
         task a attempt 1 pane unset term screen-256color\n"
    );
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
    assert_eq!(trial.read("logs/attempts/a/1/stderr"), "");
    assert_eq!(trial.lines("completed")[0]["last_line"], "the last words");
    assert_eq!(trial.lines("loop_started")[0]["tmux"], true);
    nothing_is_left(&trial);
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
fn how_the_agent_ends_is_told_as_it_was() {
    for (script, how) in [
        ("exit 7", json!({"outcome": "exited", "exit_code": 7})),
        ("kill -SEGV $$", json!({"outcome": "signaled", "signal": 11})),
    ] {
        let Some(trial) = trial() else { return };
        let trial = trial.command(["sh", "-c", script]);
        trial.run(["run", "--tmux", "--once"]).code(1);
        trial.assert_record("failed", &how);
        nothing_is_left(&trial);
    }
}

#[test]
fn no_process_survives_any_end_of_an_attempt_with_a_terminal() {
    // A process that cannot be reached through its group, its terminal or its parent.
    let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP; sleep 600' & \
                  touch \"$TRIAL_DIR/there\"; while :; do sleep 1; done";
    let start = |flags: &[&str]| {
        let trial = trial()?.command(["sh", "-c", script]);
        let live = match flags {
            [flag, value] => trial.start(["run", "--tmux", "--once", flag, value]),
            _ => trial.start(["run", "--tmux", "--once"]),
        };
        wait_for(&trial.sign("there"));
        Some((trial, live))
    };
    let Some((trial, live)) = start(&["--timeout", "1s"]) else { return };
    live.end(&trial).code(1);
    trial.assert_record("failed", &json!({"outcome": "timed_out"}));
    nothing_is_left(&trial);

    let (trial, live) = start(&[]).unwrap();
    live.signal(Signal::INT);
    live.end(&trial).code(130);
    nothing_is_left(&trial);

    let (trial, live) = start(&[]).unwrap();
    kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
    live.end(&trial).code(1);
    trial.assert_record("interrupted", &json!({"verdict": "interrupted"}));
    nothing_is_left(&trial);

    let (trial, live) = start(&[]).unwrap();
    live.kill();
    trial.no_process_is_left();
    // The folder is in the record of the attempt, and is removed with it.
    let trial = trial.agent("commit");
    trial.run(["run", "--tmux"]).graph_complete();
    assert_eq!(trial.tasks("recovered"), ["a"]);
    nothing_is_left(&trial);
}

#[test]
fn an_agent_that_is_asked_to_end_may_do_so() {
    let Some(trial) = trial() else { return };
    let script = "trap 'echo so be it; exit 0' TERM; touch \"$TRIAL_DIR/there\"; \
                  while :; do sleep 0.1; done";
    let trial = trial
        .command(["sh", "-c", script])
        .file(".ralph/config.yaml", &SETTINGS.replace("grace: 200ms", "grace: 60s"));
    let live = trial.start_until(["run", "--tmux"], "there");
    trial.run(["stop", "--now"]);
    live.end(&trial).code(4);
    assert!(trial.read("logs/attempts/a/1/stdout").ends_with("so be it\r\n"));
    nothing_is_left(&trial);
}

#[test]
fn what_an_agent_left_running_is_waited_for_and_can_still_print() {
    let Some(trial) = trial() else { return };
    // The child of the child exists before the report, and it ends only once it is waited for.
    let script = "(sleep 600 & echo $! > \"$TRIAL_DIR/sleeper\"; wait; echo late) &
        until [ -s \"$TRIAL_DIR/sleeper\" ]; do sleep 0.02; done
        \"$RALPH\" task-complete a > /dev/null; echo bye";
    let trial = trial
        .command(["sh", "-c", script])
        .graph("tasks: [{id: a, commit: optional}]\n")
        .file(".ralph/config.yaml", &SETTINGS.replace("timeout: 0s", "timeout: 60s"));
    let run = trial.start(["run", "--tmux"]);
    trial.wait_for_records(1, "waiting_for_children");
    let sleeper = fs::read_to_string(trial.sign("sleeper")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(sleeper).unwrap(), Signal::TERM).unwrap();
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("waiting_for_children")[0]["children"], json!(["sh", "sleep"]));
    assert_eq!(trial.lines("children_ended").len(), 1);
    assert_eq!(trial.read("logs/attempts/a/1/stdout"), "bye\r\nlate\r\n");
    nothing_is_left(&trial);
}

#[test]
fn an_agent_whose_screen_stands_still_is_idle_however_busy_it_is() {
    let Some(trial) = trial() else { return };
    // It prints, but the screen does not change.
    let script = "while :; do printf '\\033[Hworking'; done";
    let trial = trial.command(["sh", "-c", script]);
    trial.run(["run", "--tmux", "--once", "--idle", "1s"]).code(1);
    assert_eq!(trial.lines("failed")[0]["outcome"], "idle");
    nothing_is_left(&trial);
}

#[test]
fn an_agent_whose_screen_changes_is_not_idle() {
    let Some(trial) = trial() else { return };
    let script = "for n in 1 2 3 4 5 6; do printf '\\033[Hstep %s' $n; sleep 0.5; done; exit 9";
    let trial = trial.command(["sh", "-c", script]);
    trial.run(["run", "--tmux", "--once", "--idle", "2s"]).code(1);
    trial.assert_record("failed", &json!({"outcome": "exited", "exit_code": 9}));
}

#[test]
fn a_person_goes_to_the_window_and_leaves_it() {
    let Some(trial) = trial() else { return };
    let script = "cat > /dev/null; echo 'Hello, window'; read -r word < /dev/tty; \
                  echo \"heard $word\" > \"$TRIAL_DIR/heard\"; exec sleep 600";
    let trial = trial.command(["sh", "-c", script]);
    let live = trial.start(["run", "--tmux", "--once"]);
    until("the agent speaks", || {
        fs::read_to_string(trial.root().join("logs/attempts/a/1/stdout"))
            .is_ok_and(|text| text.contains("window"))
    });
    take_everything_as_typed(&trial);
    let mut person = on_terminal(&trial, 60, "attach");
    person.exp_string("Hello, window").unwrap();
    person.exp_string("ralph: a attempt 1").unwrap();
    person.send_line("there").unwrap();
    wait_for(&trial.sign("heard"));
    person.send_control('b').unwrap();
    person.send("d").unwrap();
    person.flush().unwrap();
    person.exp_string("[detached").unwrap();
    person.exp_eof().unwrap();
    assert_eq!(code(&person), 0);

    // Inside tmux there is a choice, and without a terminal no window is opened.
    let trial = trial.env("TMUX", "/tmp/x,1,0");
    let mut person = on_terminal(&trial, 200, "attach");
    let said = bare(&person.exp_eof().unwrap());
    assert_eq!(code(&person), 1);
    assert!(said.contains("TMUX= ralph attach"), "{said}");
    let follower = trial.start(["attach"]);
    until("the output is shown", || follower.printed().contains("Hello, window"));
    live.signal(Signal::INT);
    live.end(&trial).code(130);
    follower.end(&trial).code(0).stdout_has("stopped by SIGINT");
    nothing_is_left(&trial);
}

#[test]
fn without_a_new_enough_tmux_nothing_is_claimed() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let bin = trial.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    let trial = trial.env("PATH", bin.to_str().unwrap());
    trial.run(["run", "--tmux"]).code(69).stderr(
        "ralph: error: `--tmux` needs tmux 3.0 or newer, and it is not on PATH; install it, or \
         leave out `--tmux`\n",
    );
    trial.script(&bin.join("tmux"), "echo tmux 2.9a");
    trial.run(["run", "--tmux"]).code(69).stderr(
        "ralph: error: `--tmux` needs tmux 3.0 or newer, and this is tmux 2.9a; install a newer \
         one, or leave out `--tmux`\n",
    );
    assert_eq!(trial.status("a"), "pending");
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn a_loop_says_how_to_attach_to_it() {
    let Some(trial) = trial() else { return };
    let trial = trial.file("PROMPT.md", "Do task A\n").command([
        "sh",
        "-c",
        "cat > /dev/null; touch \"$TASK_FOLDER/DONE\"",
    ]);
    let words = "loop --tmux --name docs --prompt-file PROMPT.md --max-iterations 2";
    trial
        .run(words.split(' ').collect::<Vec<_>>())
        .stderr_has("`ralph attach --name docs` in another terminal opens it");
    nothing_is_left(&trial);
}

/// A tmux server of a person, with one window that runs this script. It ends with the test.
struct Person(PathBuf);

impl Person {
    fn start(trial: &TestProject, script: &str) -> Person {
        let socket = trial.dir().join("person");
        let mut command = trial.process("tmux");
        command.arg("-S").arg(&socket).args([
            "-f",
            "/dev/null",
            "new",
            "-d",
            "-x",
            "150",
            "-y",
            "40",
        ]);
        assert!(command.args(["sh", "-c", script]).status().unwrap().success());
        Person(socket)
    }

    /// Runs a tmux command on the server, and returns its output.
    fn run(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.0).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn runs_and_loops_start_inside_tmux() {
    for words in ["run --tmux", "loop --tmux --prompt-file PROMPT.md --max-iterations 3"] {
        let Some(trial) = trial() else { return };
        let work =
            "cat > /dev/null; tty <&1 > \"$TRIAL_DIR/agent-tty\"; echo work > work; git add work
            git commit -qm Work; touch \"$TRIAL_DIR/there\"
            until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.05; done
            \"$RALPH\" task-complete \"$RALPH_TASK_ID\"";
        let trial = trial.file("PROMPT.md", "Do task A\n");
        trial.script(&trial.sign("agent.sh"), work);
        let script = format!(
            "tty > \"$TRIAL_DIR/person-tty\"; \"$RALPH\" {words} -- \"$TRIAL_DIR/agent.sh\" \
             > \"$TRIAL_DIR/said\" 2>&1; echo $? > \"$TRIAL_DIR/code.new\"
             mv \"$TRIAL_DIR/code.new\" \"$TRIAL_DIR/code\"; exec sleep 600"
        );
        let person = Person::start(&trial, &script);
        wait_for(&trial.sign("there"));
        // The window of the agent is in a server of its own: the person's has only its own window.
        assert_eq!(person.run(&["list-windows", "-a"]).lines().count(), 1);
        let read = |name: &str| fs::read_to_string(trial.sign(name)).unwrap();
        let (own, window) = (read("person-tty"), read("agent-tty"));
        let is_terminal = |path: &str| path.starts_with("/dev/pts/");
        assert!(is_terminal(&own) && is_terminal(&window) && own != window, "{own}{window}");
        // `attach` opens no window within the window, and says what to do.
        let name = if words.starts_with("loop") { " --name loop" } else { "" };
        let attach = format!(
            "\"$RALPH\" attach{name} 2> \"$TRIAL_DIR/refused\"; echo $? > \"$TRIAL_DIR/attach.new\"
             mv \"$TRIAL_DIR/attach.new\" \"$TRIAL_DIR/attach\""
        );
        let root = trial.root().to_str().unwrap();
        person.run(&["new-window", "-d", "-c", root, "sh", "-c", &attach]);
        wait_for(&trial.sign("attach"));
        let refused = read("refused");
        assert!(refused.contains(&format!("`TMUX= ralph attach{name}`")), "{refused}");
        assert_eq!(read("attach"), "1\n");
        trial.leave("open");
        wait_for(&trial.sign("code"));
        assert_eq!(read("code"), "0\n", "{}", read("said"));
        drop(person);
        nothing_is_left(&trial);
    }
}
