//! Output to a terminal, and to a pipe whose reader closes it; runs whose terminal is closed, and runs
//! in the background.

use std::{
    fs::{self, File},
    io::Read,
    process::{Child, Command},
};

use rexpect::{process::WaitStatus, session::PtySession};

use crate::support::{TestProject, agent, until, wait_for};

const GRAPH: &str = "\
tasks:
  - id: first
    title: A title that is much longer than any terminal of sixty columns could ever hope to show on one line
  - {id: second, title: 日本語の題名はとても長いので端末の幅には決して収まりませんから切らなければなりませんよね本当に}
";

/// The program on a terminal with this many columns.
pub fn on_terminal(trial: &TestProject, columns: u32, words: &str) -> PtySession {
    let mut command = Command::new("sh");
    let script = format!("stty cols {columns} rows 30 && exec \"$RALPH\" {words}");
    command.args(["-c", &script]).current_dir(trial.root()).env_clear().envs(trial.variables());
    command.env("TERM", "xterm-256color");
    rexpect::session::spawn_command(command, Some(60_000)).unwrap()
}

/// Waits for the end, and returns the exit code.
pub fn code(session: &PtySession) -> i32 {
    match session.process().wait().unwrap() {
        WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

/// The decoded output: rexpect treats each byte as a character.
fn utf8(text: &str) -> String {
    let bytes = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
    String::from_utf8(bytes).unwrap()
}

/// The text without escape sequences.
pub fn bare(text: &str) -> String {
    let mut shown = String::new();
    let text = utf8(text);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            shown.push(c);
        } else if rest.next_if_eq(&'[').is_some() {
            while rest.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {}
        }
    }
    shown
}

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The rows of a printed line: a line above the live display ends with blanks up to the edge of the
/// screen or is cut there, and the display begins there.
fn rows(line: &str, columns: usize) -> Vec<&str> {
    let is_edge = |at: usize| {
        line[..at].ends_with([' ', '…'])
            && ralph::adapters::terminal::columns(&line[..at]) == columns
    };
    match line.char_indices().find(|(at, _)| is_edge(*at)) {
        Some((at, _)) => [vec![&line[..at]], rows(&line[at..], columns)].concat(),
        None => vec![line],
    }
}

#[test]
fn a_run_shows_where_it_stands_and_no_line_is_too_wide() {
    for columns in [60_u32, 100] {
        let trial = TestProject::new().graph(GRAPH);
        let mut session = on_terminal(&trial, columns, &format!("run -- {}", agent("gate")));
        wait_for(&trial.sign("waiting-first"));
        let mut said = session.exp_string("the agent is at work").unwrap();
        trial.leave("open");
        said += "the agent is at work";
        said += &session.exp_eof().unwrap();
        assert_eq!(code(&session), 0);
        let text = bare(&said);
        for line in text.split(['\n', '\r']).flat_map(|line| rows(line, columns as usize)) {
            let width = ralph::adapters::terminal::columns(line);
            assert!(width <= columns as usize, "{width} columns of {columns}: {line:?}");
        }
        for part in ["✓ first ", "✓ second ", "0/2 · ░░░░░░░░░░ · 1 running · ", "exit code 0"]
        {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(part.trim()), "{part} is not in\n{text}");
        }
        assert!(said.contains("\u{1b}[32m"), "there is colour: {said:?}");
        assert!(text.contains(SPINNER), "a spinner turns");
        trial.no_process_is_left();
    }
}

/// A hook of a commit of `ralph` has no terminal: its question does not wait for the time limit.
#[test]
fn a_hook_that_asks_on_the_terminal_fails_at_once() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    trial.hook("pre-commit", "exec < /dev/tty && echo 'Which type?' && read answer");
    let mut session = on_terminal(&trial, 80, &format!("run --once -- {}", agent("leave")));
    session.exp_eof().unwrap();
    let why = trial.lines("failed")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("(commit failed") && why.contains("/dev/tty"), "{why}");
}

#[test]
fn without_colour_there_is_none() {
    let trial = TestProject::new().graph(GRAPH).env("NO_COLOR", "1");
    let mut session = on_terminal(&trial, 80, &format!("run -- {}", agent("commit")));
    let said = session.exp_eof().unwrap();
    assert_eq!(code(&session), 0);
    let mut rest = said.as_str();
    while let Some(at) = rest.find("\u{1b}[") {
        rest = &rest[at + 2..];
        let end = rest.find(|c| ('\u{40}'..='\u{7e}').contains(&c)).unwrap();
        assert!(&rest[end..=end] != "m", "colour in {said:?}");
    }
}

#[test]
fn ctrl_c_is_typed() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let mut session = on_terminal(&trial, 80, &format!("run -- {}", agent("sleepy")));
    wait_for(&trial.sign("asleep"));
    session.send_control('c').unwrap();
    let said = bare(&session.exp_eof().unwrap());
    assert_eq!(code(&session), 130);
    assert!(said.contains("(exit code 130)"), "{said}");
    trial.assert_record("stop_requested", &serde_json::json!({"signal": "SIGINT"}));
    assert_eq!(trial.status("a"), "pending");
    trial.no_process_is_left();
}

#[test]
fn status_fits_the_terminal() {
    let trial = TestProject::new().graph(GRAPH);
    let mut session = on_terminal(&trial, 60, "dag-status");
    let text = bare(&session.exp_eof().unwrap());
    assert_eq!(code(&session), 0);
    for line in text.lines() {
        assert!(ralph::adapters::terminal::columns(line) <= 60, "{line}");
    }
    assert!(text.contains('…') && text.contains("second"), "{text}");
}

#[test]
fn a_watched_status_is_redrawn_and_survives_an_invalid_graph() {
    for columns in [60, 100] {
        let trial = TestProject::new().graph(GRAPH);
        let mut screen = on_terminal(&trial, columns, "dag-status --watch");
        let mut said = screen.exp_string("0 of 2 done").unwrap();
        trial.save("task-graph.yaml", "tasks: [");
        said += &screen.exp_string("the graph cannot be read: `ralph check`").unwrap();
        said += &screen.exp_string("0 of 2 done").unwrap();
        trial.save("task-graph.yaml", &GRAPH.replace("{id: second,", "{id: second, status: done,"));
        said += &screen.exp_string("1 of 2 complete").unwrap();
        screen.send_control('c').unwrap();
        said += &screen.exp_eof().unwrap();
        for line in bare(&said).split(['\n', '\r']) {
            let width = ralph::adapters::terminal::columns(line);
            assert!(width <= columns as usize, "{width} columns of {columns}: {line:?}");
        }
        assert!(said.contains("\u{1b}[H") && said.contains("\u{1b}[J"), "{said:?}");
    }
    let trial = TestProject::new().graph(GRAPH);
    trial.run(["dag-status", "--watch"]).code(64).stderr_has("`--watch` redraws a terminal");
    trial.run(["status", "--watch"]).code(64).stderr_has("`--watch` redraws a terminal");
    let mut screen = on_terminal(&trial, 60, "status --watch");
    screen.exp_string("no run yet").unwrap();
    trial.run(["run", "-q", "--once", "--", &agent("commit")]).code(0);
    screen.exp_string("1 of 2 complete").unwrap();
    screen.send_control('c').unwrap();
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let tasks: String =
        (0..2000).map(|n| format!("  - {{id: t{n}, title: The task with number {n}}}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{tasks}"));
    for words in ["dag-status --all", "dag-status --json", "plan --all"] {
        let script = format!("{{ \"$RALPH\" {words}; echo $? > ../code; }} | head -n 1");
        let output = trial.process("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
        assert_eq!(fs::read_to_string(trial.sign("code")).unwrap(), "0\n", "{words}");
    }
}

#[test]
fn several_at_once_have_a_line_each_that_is_gone_at_the_end() {
    for columns in [60_u32, 100] {
        let graph = "tasks: [{id: lexer, title: Cut it up}, {id: parser}, {id: a-third-one}]\n";
        let trial = TestProject::new().graph(graph);
        let words = format!("run --jobs 3 -- {}", agent("gate"));
        let mut session = on_terminal(&trial, columns, &words);
        for id in ["lexer", "parser", "a-third-one"] {
            wait_for(&trial.sign(&format!("waiting-{id}")));
        }
        let mut said = String::new();
        for id in ["lexer", "parser", "a-third-one"] {
            said += &session.exp_string(&format!("s  {id:<11}  the agent is at work")).unwrap();
        }
        trial.leave("open");
        said += &session.exp_eof().unwrap();
        assert_eq!(code(&session), 0);
        let text = bare(&said);
        assert!(text.contains("✓ lexer "), "{text}");
        assert!(text.contains("merge queue: "), "{text}");
        let (during, end) = text.rsplit_once("the graph is complete").unwrap();
        assert!(during.contains("0/3 · "), "{text}");
        assert!(!end.contains("merge queue") && !end.contains("at work"), "{text}");
        trial.no_process_is_left();
    }
}

#[test]
fn long_lines_of_an_attempt_fit_the_terminal() {
    let says = "cat > /dev/null; printf 'word %.0s' $(seq 60)";
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", says]);
    trial.run(["run", "--once"]).code(1);
    let mut screen = on_terminal(&trial, 60, "show a");
    let text = bare(&screen.exp_eof().unwrap()).replace('\r', "");
    assert!(text.contains("Verdict: ") && text.contains("word word"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

/// A shell that leads the session of a terminal, and the other end of that terminal. Nothing else has
/// this end open, so that dropping it closes the terminal.
fn on_closable_terminal(trial: &TestProject, script: &str) -> (Child, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&end).unwrap();
    unlockpt(&end).unwrap();
    let path = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
    let flags = OpenptFlags::NOCTTY.bits().cast_signed();
    let terminal = || {
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true).write(true), flags);
        options.open(&path).unwrap()
    };
    let mut command = trial.process("setsid");
    command.args(["--ctty", "sh", "-c", script]).env("TERM", "xterm-256color");
    command.stdin(terminal()).stdout(terminal()).stderr(terminal());
    (command.spawn().unwrap(), File::from(end))
}

/// Reads until the terminal has shown all of these.
fn read_until(end: &mut File, parts: &[&str]) {
    let (mut shown, mut bytes) = (String::new(), [0; 4096]);
    while !parts.iter().all(|part| shown.contains(part)) {
        let count = end.read(&mut bytes).unwrap_or_else(|error| panic!("{error} after {shown}"));
        shown += &String::from_utf8_lossy(&bytes[..count]);
    }
}

/// Waits until no run is active.
fn ends(trial: &TestProject) {
    until("the run ends", || trial.run(["status", "--json"]).json()["status"] != "running");
}

#[test]
fn a_run_outlives_its_terminal() {
    let (gate, agent) = (agent("gate"), agent("commit"));
    let run = format!("\"$RALPH\" run -- {gate}");
    // The run itself leads the session; a shell does, and leaves the run behind.
    for script in [format!("exec {run}"), format!("{run}; true")] {
        let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n");
        let (mut leader, mut end) = on_closable_terminal(&trial, &script);
        let told = "closing the terminal does not stop the run; ";
        read_until(&mut end, &[told, "the agent is at work"]);
        wait_for(&trial.sign("waiting-a"));
        drop(end);
        let code = (!script.starts_with("exec")).then(|| leader.wait().unwrap().code());
        assert_eq!(code.flatten(), None, "the shell dies of it");
        trial.leave("open");
        trial.wait_for_records(1, "finished");
        if script.starts_with("exec") {
            assert_eq!(leader.wait().unwrap().code(), Some(0));
        }
        ends(&trial);
        assert_eq!(trial.tasks("completed"), ["a", "b"]);
        assert_eq!(trial.tasks("started"), ["a", "b"], "no attempt was ended");
        trial.no_process_is_left();
    }
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let script = format!("\"$RALPH\" loop --name n --prompt-file p --max-iterations 1 -- {agent}");
    trial.write("p", "Do it.");
    let (mut leader, mut end) = on_closable_terminal(&trial, &script);
    read_until(&mut end, &["closing the terminal does not stop the run; ", "ralph stop --name n"]);
    drop(end);
    leader.wait().unwrap();
}

#[test]
fn a_detached_run_is_followed_until_it_ends() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    trial.run(["run", "--detach"]).code(0).stdout_has("prints to `logs/run.log`");
    assert_eq!(trial.run(["status", "--json"]).json()["status"], "running");
    wait_for(&trial.sign("waiting-a"));
    trial.run(["run", "--detach"]).code(5).stderr_has("another ralph runs in this repository");
    let follower = trial.start(["attach"]);
    until("it follows", || follower.printed().contains("a started"));
    trial.leave("open");
    follower.end(&trial).code(0).stdout_has("the graph is complete, and nothing was verified");
    ends(&trial);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    let log = trial.read("logs/run.log");
    assert_eq!(log.matches("✓ a  ").count(), 1, "{log}");
    trial.no_process_is_left();
}

#[test]
fn a_run_that_does_not_start_is_not_detached() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["./missing"]);
    for words in [
        &["run", "--detach"][..],
        &["loop", "--detach", "--prompt-file", "p", "--max-iterations", "1"],
    ] {
        trial.write("p", "Do it.");
        trial.run(words).code(69).stderr_has("the agent cannot be started: ").stdout("");
    }
    trial.run(["resume", "--detach"]).code(0).stderr("warning: not paused\n");
    assert!(!trial.root().join("logs/ralph.jsonl").exists());
    trial.no_process_is_left();
}

#[test]
fn stop_ends_what_was_detached() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("hang");
    trial.write("p", "Do it.");
    for (words, name) in [
        (&["run", "--detach"][..], ""),
        (&["loop", "--detach", "--prompt-file", "p", "--max-iterations", "2"], " --name loop"),
    ] {
        trial.run(words).code(0).stdout_has(&format!("ralph stop{name}"));
        wait_for(&trial.sign("hanging"));
        fs::remove_file(trial.sign("hanging")).unwrap();
        let stop: Vec<&str> = "stop --now".split(' ').chain(name.split_whitespace()).collect();
        trial.run(stop);
        let status: Vec<&str> = ["status"].into_iter().chain(name.split_whitespace()).collect();
        until("it stops", || trial.run(&status[..]).out().contains("stopped by `ralph stop`"));
        trial.no_process_is_left();
    }
}

#[test]
fn a_paused_run_may_continue_in_the_background() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.run(["pause"]);
    trial.leave("open");
    run.end(&trial).code(4);
    trial.run(["resume", "--detach"]).code(0).stdout_has("the run continues in the background");
    ends(&trial);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

/// A stand-in for `systemd-inhibit`, which notes what it holds and runs its command.
fn inhibitor(trial: TestProject, refuses: &str) -> TestProject {
    let bin = trial.dir().join("awake");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "case $1 in {refuses}) exit 1;; esac; echo \"$1\" >> \"$TRIAL_DIR/held\"
         while [ \"${{1#--}}\" != \"$1\" ]; do shift; done; \"$@\""
    );
    trial.script(&bin.join("systemd-inhibit"), &script);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    trial.env("PATH", &path).env("RALPH_KEEP_AWAKE", "true")
}

#[test]
fn a_run_keeps_the_machine_awake_and_leaves_no_process_that_does() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let held = |trial: &TestProject| fs::read_to_string(trial.sign("held")).unwrap();
    let graph = "tasks: [{id: a}]\n";
    let trial = inhibitor(TestProject::new().graph(graph).agent("gate"), "nothing");
    let run = trial.start_until(["run"], "waiting-a");
    assert_eq!(held(&trial), "--what=idle:sleep:handle-lid-switch\n");
    assert!(run.said().contains("stays awake until the run ends, also with its lid closed"));
    run.kill();
    trial.no_process_is_left();
    trial.leave("open");
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();

    // The lid may be beyond what a person at another machine may hold.
    let trial = inhibitor(TestProject::new().graph(graph).agent("commit"), "*lid*");
    trial.run(["run"]).graph_complete().stderr_has("until the run ends, its lid open");
    assert_eq!(held(&trial), "--what=idle:sleep\n");
    let trial = inhibitor(TestProject::new().graph(graph).agent("commit"), "*");
    let none = "the machine may sleep during the run: `systemd-inhibit` does not work here";
    trial.run(["run"]).graph_complete().stderr_has(none);
    trial.no_process_is_left();
}
