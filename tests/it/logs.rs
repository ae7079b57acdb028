//! `ralph logs` and `ralph attach`: events and agent output, for people and programs, live and
//! afterwards.
//!
//! `logs.txt` has the exact text of every kind of record; `RALPH_WRITE=1 cargo test --test it logs`
//! rewrites it.

use std::{fs, process::Stdio};

use ralph::core::event::Event;

use crate::{
    support::{Live, RALPH, TestProject, agent, is_page, until},
    terminal::{bare, code, on_terminal},
};

const TWO: &str = "tasks: [{id: a, title: One}, {id: b, depends_on: [a]}]\n";

/// An agent that commits, reports its task done and prints the named recording.
fn replaying(name: &str) -> TestProject {
    let file = format!("{}/tests/transcripts/{name}", env!("CARGO_MANIFEST_DIR"));
    let format = format!("{}-json", name.split('-').next().unwrap());
    let agent =
        format!("agent: {{command: [\"{}\", {file}], output: {format}}}\n", agent("recorded"));
    TestProject::new().graph(TWO).file(".ralph/config.yaml", &agent)
}

#[test]
fn every_fact_is_a_line() {
    let trial = TestProject::new().graph(TWO).agent("fail-once");
    trial.run(["logs"]).code(0).stderr("no run yet; `ralph run` starts one\n");
    trial.run(["run", "--max-iterations", "2"]).code(2);
    let log = "\
[date]
[time]  run [run], agent: [agents]/fail-once
[time]  2 tasks, 0 done
[time]  a started
[time]  ✗ a  [took]  failed: exited with code 1
[time]  a started, attempt 2
[time]  a is queued to land
[time]  landing a on main at [commit]
[time]  ✓ a  [took]  +1 −0  reported done, and committed; landed on `main`
[time]  limit reached: 2 iterations (exit code 2): 1 completed in 2 attempts, 1 left
";
    trial.run(["logs"]).stdout(log);
    trial.run(["task-reset", "a"]);
    let end = "[time]  a: complete -> pending by command\n[time]  a was reset\n";
    trial.run(["logs"]).stdout(&format!("{log}{end}"));
    trial.run(["logs", "-n", "2"]).stdout(&format!("[date]\n{end}"));
    trial.run(["logs", "-n", "0"]).stdout("");
}

#[test]
fn only_what_is_asked_for() {
    let trial = TestProject::new().graph(TWO).agent("commit");
    trial.run(["run", "--once"]);
    trial.run(["run"]);
    let count = |text: String, part: &str| text.matches(part).count();
    assert_eq!(count(trial.run(["logs"]).out(), "run ["), 1);
    assert_eq!(count(trial.run(["logs", "--all"]).out(), "run ["), 2);
    let of_b = trial.run(["logs", "--task", "b"]).out();
    trial.run(["logs", "b"]).stdout(&of_b);
    trial.run(["show"]).stdout_has("Attempt: 1 at b\n");
    assert_eq!((count(of_b.clone(), " b "), count(of_b, " a ")), (4, 0));
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--task", "a"]);
    let of_second = trial.run(["logs", "--task", "a", "--attempt", "2"]).out();
    assert_eq!((count(of_second.clone(), "✓ a "), of_second.lines().count()), (1, 5));
    assert!(of_second.contains(" a started, attempt 2\n"), "{of_second}");
    trial
        .run(["logs", "--task", "bb"])
        .code(1)
        .stderr("ralph: error: the journal has no entries about `bb`; did you mean `b`?\n");
    trial.run(["logs", "--task", "a", "--attempt", "7"]).code(1).stderr(
        "ralph: error: the journal has no entries about attempt 7 at `a`; `ralph attempts` lists all attempts\n",
    );
    trial.run(["logs", "--task", "../x"]).code(64).stderr_has("the id");
    trial.run(["logs", "--attempt", "2"]).code(64).stderr_has("`ralph logs ID --attempt N`");
}

#[test]
fn programs_get_the_lines_as_they_are() {
    let trial = TestProject::new().graph(TWO).agent("commit");
    trial.run(["run", "--once"]);
    let file = trial.root().join("logs/ralph.jsonl");
    let mut text = fs::read_to_string(&file).unwrap();
    let newer = text.lines().next_back().unwrap().replace("\"finished\"", "\"teleported\"");
    text = format!("{text}{newer}\nnot json\n{{}}\n");
    fs::write(&file, &text).unwrap();
    let kept = trial.redact(text.strip_suffix("not json\n{}\n").unwrap());
    let said = "2 lines of the journal could not be read, and were left out\n";
    trial.run(["logs", "--json", "--all"]).stdout(&kept).stderr(said);
    let lines: Vec<&str> = kept.lines().collect();
    let last = format!("{}\n", lines[lines.len() - 1]);
    trial.run(["logs", "--json", "-n", "1"]).stdout(&last).stderr(said);
    let of_a = trial.run(["logs", "--json", "--task", "a"]).stderr(said).out();
    assert!(of_a.lines().all(|line| line.contains("\"task_id\":\"a\"")), "{of_a}");
    // Records of a newer version are not shown to people.
    assert!(!trial.run(["logs", "--all"]).stderr(said).out().contains("teleported"));
}

macro_rules! ended {
    ($verdict:literal) => {
        concat!(
            r#""attempt":1,"verdict":""#,
            $verdict,
            r#"","why":"[why]","outcome":"exited","exit_code":1,"duration_seconds":1.0,"log":"[log]""#
        )
    };
}

/// Records of every action: the action, the task, and the other fields.
const RECORDS: &[(&str, &str, &str)] = &[
    (
        "loop_started",
        "",
        r#""schema":1,"version":"1","pid":7,"agent":["my-agent"],"max_iterations":9,"max_attempts":3,"timeout_seconds":7200.0,"idle_seconds":900.0"#,
    ),
    ("graph_loaded", "", r#""tasks":2,"complete":1"#),
    ("file_rejected", "", r#""error":"g.yaml:1:1: bad""#),
    ("noticed", "", r#""text":"settings changed: jobs, notify""#),
    ("graph_guarded", "a", r#""what":"damaged","undone":true,"kept":"[kept]""#),
    ("graph_guarded", "a", r#""what":"deleted","undone":true"#),
    ("graph_guarded", "a", r#""what":"finished","tasks":["b","c"],"undone":true"#),
    ("graph_guarded", "a", r#""what":"dropped","tasks":["b"],"undone":true,"kept":"[kept]""#),
    ("graph_guarded", "a", r#""what":"apart","tasks":["b"],"undone":true"#),
    ("graph_guarded", "a", r#""what":"changed","tasks":["a","b"],"undone":false"#),
    ("checkout_restored", "a", r#""attempt":1,"branch":"main","commit":"0123456789""#),
    ("checkout_restored", "a", r#""attempt":2,"branch":"main","files":["task-graph.yaml"]"#),
    (
        "started",
        "a",
        r#""attempt":1,"base":"b","branch":"main","log":"[log]","why":"P2","slot":"/s/1""#,
    ),
    ("agent_changed", "a", r#""agent":"codex","from":"claude","obstacle":{"kind":"credit"}"#),
    ("agent_changed", "a", r#""agent":"claude","from":"codex""#),
    ("slot_kept", "", r#""slot":"/s/1","why":"`x` has uncommitted changes""#),
    ("work_restored", "a", r#""attempt":2,"from":"refs/ralph/a/1","conflicts":["f"]"#),
    ("setting_up", "a", r#""attempt":1,"command":"npm ci","log":"[log]""#),
    (
        "awaiting_executor",
        "a",
        r#""attempt":1,"run_on":"farm","why":"its job waits in the queue (Resources)""#,
    ),
    ("withdrawn", "a", r#""attempt":1,"run_on":"farm","why":"no route to host""#),
    (
        "executor_unreachable",
        "",
        r#""run_on":"farm","why":"no route to host","tries":1,"pause_seconds":1"#,
    ),
    ("executor_reachable", "", r#""run_on":"farm""#),
    ("contact", "a", r#""attempt":1,"lost_since":"2026-11-20T22:40:03.000Z""#),
    ("contact", "a", r#""attempt":1,"lost_since":null"#),
    ("agent_started", "a", r#""attempt":1"#),
    ("agent_started", "a", r#""attempt":1,"placement":{"run_on":"farm","host":"n1"}"#),
    ("agent_continued", "a", r#""attempt":1,"lack":"no report""#),
    ("agent_ended", "a", r#""attempt":1,"outcome":"exited","exit_code":0,"duration_seconds":5.0"#),
    ("queued", "a", r#""attempt":1,"waiting":2"#),
    ("merging", "a", r#""branch":"main","onto":"b","tasks":["a","b"]"#),
    ("merge_held", "a", r#""branch":"main","why":"git failed""#),
    ("checkout_waits", "", r#""branch":"main","checkout":"/r","tasks":["a"],"paths":["x"]"#),
    ("checkout_followed", "", r#""branch":"main","commit":"b""#),
    ("branch_renamed", "", r#""from":"main","to":"trunk""#),
    ("taken_back", "a", r#""branch":"main","commit":"b","reverted":["a"],"note":"use tabs""#),
    ("reviewed", "a", r#""attempt":1,"note":"fine""#),
    ("looked", "", ""),
    (
        "tip_red",
        "a",
        r#""branch":"main","tip":"b","command":"test -e x","outcome":"exited","exit_code":1,"duration_seconds":1.0,"log":"logs/attempts/a/1/whole-1.log","found":"broken","broken_by":"c","broken_by_task":"d""#,
    ),
    (
        "tip_red",
        "",
        r#""branch":"main","tip":"b","command":"test -e x","outcome":"exited","exit_code":1,"duration_seconds":1.0,"log":"logs/attempts/a/1/whole-1.log","found":"flaky""#,
    ),
    ("whole_verified", "", r#""branch":"main","commit":"b","commands":2,"failed":0"#),
    ("whole_verified", "", r#""branch":"main","commit":"b","commands":2,"failed":1"#),
    ("answered", "a", r#""question":"Which colour?","answer":"blue""#),
    ("noted", "a", r#""attempt":1,"note":"see x""#),
    ("noted", "a", r#""attempt":1,"note":"see y""#),
    ("verifying", "a", r#""attempt":1,"command":"make","log":"[log]""#),
    (
        "verified",
        "a",
        r#""command":"make","outcome":"exited","exit_code":0,"duration_seconds":1.0,"log":"[log]""#,
    ),
    (
        "verify_failed",
        "a",
        r#""command":"make","outcome":"timed_out","limit_seconds":900,"duration_seconds":900.0,"log":"[log]""#,
    ),
    (
        "flaky",
        "a",
        r#""command":"make","outcome":"exited","exit_code":2,"duration_seconds":1.0,"log":"[log]""#,
    ),
    ("verify_postponed", "a", r#""attempt":1"#),
    ("reviewing", "a", r#""attempt":1,"by":"strong","log":"[log]","slot":"/r.slots/review""#),
    (
        "work_reviewed",
        "a",
        r#""attempt":1,"outcome":"exited","exit_code":0,"duration_seconds":9.0,"review":{"by":"strong","findings":[{"file":"a","line":3,"severity":"high","text":"no test"}],"sent_back":true}"#,
    ),
    (
        "review_waits",
        "a",
        r#""attempt":1,"by":"strong","obstacle":{"kind":"overloaded","until":"2026-11-20T22:45:03Z"}"#,
    ),
    (
        "proved",
        "a",
        r#""attempt":1,"outcome":"not_proved","reason":"not_noticed","functions":["add"],"duration_seconds":2.0"#,
    ),
    (
        "waiting_for_children",
        "a",
        r#""attempt":1,"children":["sh","worker"],"limit_seconds":300.0"#,
    ),
    ("children_ended", "a", r#""attempt":1"#),
    (
        "children_overdue",
        "a",
        r#""attempt":1,"children":["sh"],"limit_seconds":300.0,"on_orphans":"kill""#,
    ),
    (
        "children_overdue",
        "a",
        r#""attempt":1,"children":["sh"],"limit_seconds":300.0,"on_orphans":"leave""#,
    ),
    ("terminating", "a", r#""attempt":1,"why":"idle for 15m""#),
    ("completed", "a", ended!("complete")),
    ("failed", "a", ended!("failed")),
    ("interrupted", "a", ended!("cancelled")),
    ("needs_input", "a", ended!("needs-input")),
    ("rate_limited", "a", ended!("rate-limited")),
    ("denied", "a", ended!("denied")),
    ("iterated", "a", ended!("again")),
    ("promised", "a", r#""attempt":1,"kept":true"#),
    ("promised", "a", r#""attempt":1,"kept":false"#),
    ("parked", "a", r#""attempts":3"#),
    ("recovered", "a", r#""attempt":1,"from_run":"r""#),
    ("status_changed", "a", r#""old":"pending","new":"complete","cause":"command""#),
    ("status_changed", "a", r#""old":"pending","new":"blocked","cause":"edited""#),
    ("status_changed", "a", r#""old":null,"new":"pending","cause":"edited_during_attempt""#),
    ("status_changed", "a", r#""old":"complete","new":"pending","cause":"put_back""#),
    ("status_changed", "a", r#""old":"in-progress","new":"pending","cause":"recovered""#),
    (
        "drafted",
        "",
        r#""call":2,"agent":"claude","outcome":"exited","exit_code":0,"duration_seconds":61.5,"cost_usd":0.25,"tasks":7,"log":"logs/draft/r/2""#,
    ),
    ("reset", "a", ""),
    ("waiting", "", r#""until":"2026-11-20T23:00:00.000Z","why":"a backs off""#),
    ("blocked", "", r#""holders":[{"task_id":"a","why":"parked after 3 attempts","frees":2}]"#),
    ("pause_requested", "", ""),
    ("resume_requested", "", ""),
    ("resume_requested", "", r#""now":true"#),
    ("stop_requested", "", ""),
    ("stop_requested", "", r#""now":true"#),
    ("stop_requested", "", r#""signal":"SIGTERM""#),
    ("stop_requested", "", r#""signal":"SIGINT","now":true"#),
    ("suspended", "", ""),
    ("continued", "", r#""seconds":60,"slept":false"#),
    ("continued", "", r#""seconds":60,"slept":true"#),
    ("commits_unsigned", "", r#""why":"gpg: signing failed: No secret key""#),
    (
        "hook_failed",
        "",
        r#""hook":"after_run","command":"tidy","outcome":"exited","exit_code":4,"duration_seconds":1.0,"log":"[log]""#,
    ),
    (
        "noticed",
        "",
        r#""text":"`finished` not sent: desktop: no bus (reported once per notifier)""#,
    ),
    ("slept", "", r#""until":"2026-11-21T00:00:00.000Z","cron":["@daily"]"#),
    (
        "woken",
        "",
        r#""trigger":"cron","scheduled_for":"2026-11-20T22:00:00.000Z","late_seconds":0,"missed":2,"run":[]"#,
    ),
    ("woken", "", r#""trigger":"webhook","run":["--once"]"#),
    (
        "woken",
        "",
        r#""trigger":"cron","scheduled_for":"2026-11-20T22:00:00.000Z","skipped":"still_running""#,
    ),
    (
        "woken",
        "",
        r#""trigger":"cron","scheduled_for":"2026-11-20T22:00:00.000Z","skipped":"busy""#,
    ),
    (
        "woken",
        "",
        r#""trigger":"cron","scheduled_for":"2026-11-20T22:00:00.000Z","skipped":"paused""#,
    ),
    ("schedule_ended", "", r#""signal":"SIGTERM""#),
    (
        "finished",
        "",
        r#""why":"everything left is blocked","exit_code":3,"iterations":2,"completed":1,"remaining":1,"duration_seconds":5.0"#,
    ),
];

#[test]
fn every_kind_of_record_has_its_line() {
    let trial = TestProject::new().graph(TWO);
    let text: String = (0..)
        .zip(RECORDS)
        .map(|(seq, (action, task, fields))| {
            let task = if task.is_empty() { "null".to_owned() } else { format!("\"{task}\"") };
            let comma = if fields.is_empty() { "" } else { "," };
            format!(
                "{{\"timestamp\":\"2026-11-20T22:44:03.000Z\",\"run_id\":\"r\",\"seq\":{seq},\
                 \"iteration\":1,\"task_id\":{task},\"action\":\"{action}\"{comma}{fields}}}\n"
            )
        })
        .collect();
    trial.write("logs/ralph.jsonl", &text);
    for action in Event::actions() {
        assert!(RECORDS.iter().any(|(name, _, _)| *name == action), "no record `{action}`");
    }
    is_page("tests/it/logs.txt", &trial.run(["logs", "--all"]).stderr("").out());
}

#[test]
fn a_new_day_is_named() {
    let trial = TestProject::new().graph(TWO);
    let line = |seq: u32, at: &str| {
        format!(
            "{{\"timestamp\":\"{at}\",\"run_id\":\"r\",\"seq\":{seq},\"iteration\":null,\
             \"task_id\":\"a\",\"action\":\"reset\"}}\n"
        )
    };
    let days = ["2026-11-20T23:59:59.000Z", "2026-11-21T00:00:01.000Z", "2026-11-21T00:00:02.000Z"];
    let text: String = (0..).zip(days).map(|(seq, at)| line(seq, at)).collect();
    trial.write("logs/ralph.jsonl", &text);
    let output = trial.process(RALPH).arg("logs").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "2026-11-20\n23:59:59  a was reset\n2026-11-21\n00:00:01  a was reset\n00:00:02  a was \
         reset\n"
    );
}

#[test]
fn following_continues_in_a_new_journal() {
    let trial = TestProject::new().graph(TWO).agent("commit");
    let live = trial.start(["logs", "-f"]);
    until("it waits", || live.said() == "no run yet; waiting for one\n");
    trial.run(["run", "--once"]);
    let complete = |live: &Live, id: &str| live.printed().contains(&format!("✓ {id}  "));
    until("the first is told", || complete(&live, "a"));
    let old = trial.root().join("logs/old.jsonl");
    fs::rename(trial.root().join("logs/ralph.jsonl"), old).unwrap();
    trial.run(["run"]);
    until("the second is told", || complete(&live, "b"));
    let text = live.printed();
    assert_eq!(text.matches("✓ a  ").count(), 1, "{text}");
    live.kill();
}

#[test]
fn a_follower_whose_reader_has_gone_ends() {
    let trial = TestProject::new().graph(TWO).agent("commit");
    trial.run(["run"]);
    for words in ["logs -f", "logs -f --raw"] {
        let script = format!("{{ \"$RALPH\" {words}; echo $? > ../code; }} | head -n 2");
        let mut shell = trial.process("sh");
        let mut pipe = shell.args(["-c", &script]).stdout(Stdio::null()).spawn().unwrap();
        until("it ends", || {
            trial.run(["task-reset", "a"]);
            trial.run(["run", "-q"]);
            trial.sign("code").exists()
        });
        assert!(pipe.wait().unwrap().success());
        assert_eq!(fs::read_to_string(trial.sign("code")).unwrap(), "0\n", "{words}");
        fs::remove_file(trial.sign("code")).unwrap();
    }
}

#[test]
fn raw_is_every_byte_but_no_escape_reaches_a_terminal() {
    let script =
        "printf '\\033]0;owned\\007\\033[31mr\\303\\244d\\r\\n\\377\\n'; printf 'odd\\033[2J' >&2";
    let trial = TestProject::new().graph(TWO).command(["sh", "-c", script]);
    trial.run(["run", "--once"]).code(1);
    let output = trial.process(RALPH).args(["logs", "--raw"]).output().unwrap();
    assert_eq!(output.stdout, b"\x1b]0;owned\x07\x1b[31mr\xc3\xa4d\r\n\xff\n");
    assert_eq!(output.stderr, b"odd\x1b[2J");
    for words in ["logs --raw", "logs --output", "logs", "logs --all --json"] {
        let mut person = on_terminal(&trial, 100, &format!("{words} 2>&1"));
        let said = person.exp_eof().unwrap();
        assert_eq!(code(&person), 0, "{words}");
        for escape in ["\u{1b}]", "\u{1b}[2J", "\u{7}"] {
            assert!(!said.contains(escape), "{words}: {said:?}");
        }
        let shown = "\\u{1b}]0;owned\\u{7}\\u{1b}[31mräd";
        assert_eq!(bare(&said).contains(shown), words == "logs --raw", "{said:?}");
    }
    let plain = trial.run(["logs", "--output"]).out();
    assert!(plain.contains("\nräd\n\u{fffd}\nodd\n"), "{plain:?}");
    trial.run(["logs", "--raw", "-n", "1"]).stdout("\u{fffd}\n");
}

#[test]
fn typed_output_is_words_and_tools() {
    for (name, said) in [
        (
            "claude-success.jsonl",
            "  > Edit src/sun.rs\n  > Bash cargo test --quiet\nThe sun shines.\n",
        ),
        (
            "codex-success.jsonl",
            "  > command_execution bash -lc 'cargo test'\n  > file_change src/sun.rs\nThe sun shines.\n",
        ),
        ("gemini-success.jsonl", "  > run_shell_command make\nThe sun shines.\n"),
        (
            "copilot-success.jsonl",
            "  > waiting for the provider (rate_limit)\n  > bash make\nThe sun shines.\n",
        ),
        ("opencode-success.jsonl", "  > bash make\nThe sun shines.\n"),
    ] {
        let trial = replaying(name);
        trial.run(["run", "--once"]).code(0);
        let of_agent = |words: &[&str]| -> String {
            let text = trial.run(words).out();
            text.split_inclusive('\n').filter(|line| !line.starts_with("[time]")).collect()
        };
        assert_eq!(of_agent(&["logs", "--output"]), said, "{name}");
        assert_eq!(of_agent(&["logs", "--output", "-n", "2"]), "The sun shines.\n", "{name}");
    }
}

#[test]
fn an_agent_is_followed_from_attempt_to_attempt_until_the_run_is_over() {
    let trial = TestProject::new().graph(TWO).agent("gate");
    trial
        .run(["attach"])
        .code(1)
        .stderr("ralph: error: no run is active: `ralph run` starts a run\n");
    let run = trial.start_until(["run"], "waiting-a");
    trial
        .run(["attach", "b"])
        .code(1)
        .stderr("ralph: error: no attempt at `b` is running; `ralph attach` shows `a`\n");
    let live = trial.start(["attach"]);
    until("it follows", || live.printed().contains("a started"));
    trial.leave("open");
    let text = live.end(&trial).code(0).out();
    let order = [
        "a started",
        "\na | a is reported as done",
        "  ✓ a  ",
        "b started",
        "\nb | b is reported as done",
        "  ✓ b  ",
        "(exit code 0)",
    ];
    let places: Vec<_> = order.iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in\n{text}");
    run.end(&trial).code(0);
    trial.run(["attach"]).code(1).stderr(
        "ralph: error: no run is active: the last run is finished; `ralph logs --output` shows its output\n",
    );
}

#[test]
fn detaching_does_not_stop_the_run() {
    let trial = TestProject::new().graph(TWO).agent("gate");
    let run = trial.start_until(["run", "--once"], "waiting-a");
    let mut person = on_terminal(&trial, 60, "attach");
    person.exp_string("a started").unwrap();
    person.send_control('c').unwrap();
    let said = bare(&person.exp_eof().unwrap());
    assert_eq!(code(&person), 0);
    assert!(said.contains("detached; the run continues"), "{said}");
    trial.leave("open");
    run.end(&trial).code(0);

    fs::remove_file(trial.sign("open")).unwrap();
    let run = trial.start_until(["run"], "waiting-b");
    let live = trial.start(["attach"]);
    until("it follows", || !live.printed().is_empty());
    run.kill();
    let ran = live.end(&trial).code(1).stdout_has("b started");
    ran.stderr_has("the run exited unexpectedly");
}

#[test]
fn lines_are_wrapped_where_they_are_read() {
    let long = "word ".repeat(40);
    let trial = TestProject::new().graph(TWO).agent("commit");
    let config = format!("verify: [\"true {long}\"]\n");
    let trial = trial.file(".ralph/config.yaml", &config);
    trial.run(["run", "--once"]).code(0);
    for columns in [60, 100] {
        let mut person = on_terminal(&trial, columns, "logs");
        let text = bare(&person.exp_eof().unwrap());
        assert_eq!(code(&person), 0);
        for line in text.lines() {
            let width = ralph::adapters::terminal::columns(line.trim_end());
            assert!(width <= columns as usize, "{width} columns of {columns}: {line:?}");
        }
        assert!(text.matches("word").count() >= 80, "{text}");
    }
    let piped = trial.run(["logs"]).out();
    assert!(piped.lines().any(|line| line.contains(long.trim_end())), "{piped}");
}
