//! Notifiers and hooks: real commands.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{SETTINGS, TestProject, until, wait_for};

const TWO: &str = "tasks: [{id: a}, {id: b, depends_on: [a]}]\n";

/// A trial with these settings.
fn trial(settings: &str) -> TestProject {
    TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .graph(TWO)
        .agent("commit")
}

/// The input of notifier commands, one JSON object a line.
fn told(trial: &TestProject) -> Vec<Value> {
    let text = fs::read_to_string(trial.sign("told")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn events(trial: &TestProject) -> Vec<String> {
    told(trial).iter().map(|it| it["event"].as_str().unwrap().to_owned()).collect()
}

/// The settings for a notifier command that records its input.
const NOTE: &str = "notify: [{on: any, command: 'cat >> \"$TRIAL_DIR/told\"'}]\n";

#[test]
fn a_command_is_told_of_moments_in_json_variables_and_words() {
    let run = "cat >> \"$TRIAL_DIR/told\"; \
               echo \"$RALPH_EVENT|$RALPH_TASK_ID|$RALPH_ATTEMPT|$RALPH_EXIT_CODE|$RALPH_TITLE|\
               ${RALPH_ATTEMPT_ID-none}\" >> \"$TRIAL_DIR/variables\"";
    let trial = trial(&format!("notify:\n  - {{on: any, command: '{run}'}}\n"));
    trial.run(["run"]).graph_complete();
    assert_eq!(events(&trial), ["started", "completed", "completed", "finished"]);
    let all = told(&trial);
    let line = trial.lines("completed")[0].clone();
    for (field, value) in line.as_object().unwrap() {
        assert_eq!(all[1][field], *value, "{field} of the journal's line");
    }
    assert_eq!(
        (&all[1]["project"], &all[1]["root"]),
        (&Value::from("repo"), &Value::from(trial.root().to_str().unwrap()))
    );
    let text = all[3]["text"].as_str().unwrap();
    assert!(text.contains("2 completed in 2 attempts") && text.contains("+ a: "), "{text}");
    let variables = fs::read_to_string(trial.sign("variables")).unwrap();
    let variables: Vec<&str> = variables.lines().collect();
    assert!(variables[1].starts_with("completed|a|1|0|repo: ✓ a  "), "{variables:?}");
    assert!(variables[1].ends_with("  +1 −0  Work on a|none"), "{variables:?}");
    assert!(variables[3].starts_with("finished|||0|repo: "), "{variables:?}");
    assert_eq!(fs::read_dir(trial.state().join("notify")).unwrap().count(), 0, "nothing stays");
    trial.no_process_is_left();
}

#[test]
fn by_default_only_the_end_and_questions_are_notified() {
    let trial = trial("max_attempts: 1\nnotify: ['cat >> \"$TRIAL_DIR/told\"']\n").agent("fail");
    trial.run(["run", "-q"]).code(3);
    assert_eq!(events(&trial), ["parked", "blocked", "finished"]);
    let text = told(&trial)[1]["text"].as_str().unwrap().to_owned();
    let head = "nothing left can start; 0 of 2 done\nneeds you:\n  - a: parked after 1 attempt";
    assert!(text.starts_with(head) && text.contains("`ralph task-reset a --note \"…\"`"), "{text}");
    let needed = &told(&trial)[2]["attention"][0];
    assert_eq!((&needed["task_id"], &needed["kind"]), (&Value::from("a"), &Value::from("parked")));
}

#[test]
fn a_failing_notifier_is_reported_once_and_fails_nothing() {
    let trial = trial("notify: [{on: any, command: 'echo key=$MY_TOKEN; exit 3'}]\n")
        .env("MY_TOKEN", "s3cr3t-s3cr3t-s3cr3t");
    let said = trial.run(["run"]).whole();
    let complaint = "`started` not sent: `echo key=$MY_TOKEN; exit 3`: exited with code 3: \
                     key=[redacted] (reported once per notifier)";
    assert_eq!(said.matches("`started` not sent").count(), 1, "{said}");
    assert!(
        said.contains(complaint) && said.contains("complete, and nothing was verified"),
        "{said}"
    );
    let failed = &trial.lines("noticed")[0];
    assert_eq!(failed["text"], complaint);
    assert_eq!(failed["run_id"], trial.lines("loop_started")[0]["run_id"]);
}

#[test]
fn a_hanging_notifier_delays_nothing_and_ends_with_the_run() {
    let hang = "setsid sleep 600 & echo x >> \"$TRIAL_DIR/hung\"; exec sleep 600";
    let trial = trial(&format!(
        "notify:\n  - {{on: any, command: '{hang}'}}\n  \
         - {{on: any, command: 'cat >> \"$TRIAL_DIR/told\"'}}\n"
    ));
    let began = Instant::now();
    trial.run(["run"]).graph_complete();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let failed = &trial.lines("noticed")[0]["text"];
    let failed = failed.as_str().unwrap();
    assert!(failed.starts_with("`started` not sent") && failed.contains("limit"), "{failed}");
    assert_eq!(events(&trial), ["started", "completed", "completed", "finished"]);
    trial.no_process_is_left();

    let killed = self::trial(&format!("notify: [{{on: started, command: '{hang}'}}]\n"));
    let run = killed.command(["sleep", "600"]);
    let live = run.start_until(["run"], "hung");
    live.kill();
    run.no_process_is_left();
}

#[test]
fn the_end_is_told_even_if_a_slow_command_still_has_much_to_send() {
    // The command takes the first event until the run ends, or until its limit.
    let tasks: String = (0..5).map(|n| format!("  - id: t{n}\n")).collect();
    let slow = "[ $RALPH_EVENT != started ] || until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.02; done; \
                cat >> \"$TRIAL_DIR/told\"";
    let hooks = "{after_attempt: 'exit 1', after_run: 'touch \"$TRIAL_DIR/go\"; sleep 0.3'}";
    let trial = trial(&format!("notify: [{{on: any, command: '{slow}'}}]\nhooks: {hooks}\n"))
        .graph(&format!("tasks:\n{tasks}"));
    trial.run(["run", "-q"]);
    let events = events(&trial);
    assert_eq!(events.last().unwrap(), "finished", "{events:?}");
}

#[test]
fn a_guardian_that_is_killed_takes_no_notifier_with_it() {
    // The run ends the processes of an attempt whose guardian is killed. They are then its
    // children, as notifiers are.
    let slow = "touch \"$TRIAL_DIR/telling\"; until [ -e \"$TRIAL_DIR/go\" ]; do sleep 0.02; done; \
                cat >> \"$TRIAL_DIR/told\"";
    let trial = trial(&format!("notify: [{{on: started, command: '{slow}'}}]\n"));
    let agent = "touch \"$TRIAL_DIR/working\"; setsid sleep 600 & exec sleep 600";
    let trial = trial.command(["sh", "-c", agent]);
    let run = trial.start_until(["run", "--once"], "telling");
    wait_for(&trial.sign("working"));
    kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
    until("the attempt is closed", || {
        trial.journal().iter().any(|it| it["action"] == "interrupted")
    });
    trial.leave("go");
    run.end(&trial).code(1);
    assert_eq!(events(&trial), ["started"], "it was told to its end");
    trial.no_process_is_left();
}

#[test]
fn changed_settings_change_the_notifiers() {
    let hook = "hooks: {before_attempt: '[ $RALPH_TASK_ID != b ] || cp \"$TRIAL_DIR/next\" .ralph/config.yaml'}\n";
    let trial = trial(&format!("notify: []\n{hook}"));
    fs::write(trial.sign("next"), format!("{SETTINGS}{NOTE}{hook}")).unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("noticed")[0]["text"], "settings changed: notify");
    assert_eq!(events(&trial), ["completed", "finished"], "of the second task");
}

#[test]
fn hooks_run_in_order_and_know_what_it_is_about() {
    let note = |words: &str| format!("'echo {words} >> \"$TRIAL_DIR/hooks\"; cat'");
    let settings = format!(
        "hooks:\n  before_run: {}\n  before_attempt: [{}, {}]\n  after_attempt: {}\n  after_run: {}\n",
        note("$RALPH_EVENT"),
        note("first $RALPH_TASK_ID $RALPH_ATTEMPT"),
        note("second ${RALPH_ATTEMPT_ID-none}"),
        note("$RALPH_EVENT $RALPH_TASK_ID $RALPH_VERDICT"),
        note("$RALPH_EVENT $RALPH_EXIT_CODE $RALPH_WHY"),
    );
    let trial = trial(&settings);
    trial.run(["run", "-q"]);
    let hooks = fs::read_to_string(trial.sign("hooks")).unwrap();
    insta::assert_snapshot!(hooks, @r"
    before_run
    first a 1
    second none
    after_attempt a complete
    first b 1
    second none
    after_attempt b complete
    after_run 0 the graph is complete, and nothing was verified
    ");
    let json: Value =
        serde_json::from_str(&trial.read("logs/attempts/a/1/after_attempt-1.log")).unwrap();
    assert_eq!(
        (&json["event"], &json["verdict"]),
        (&Value::from("after_attempt"), &Value::from("complete"))
    );
    assert!(json["text"].as_str().unwrap().starts_with("✓ a  "));
    assert!(trial.read("logs/hooks/before_run-1.log").contains("\"event\":\"before_run\""));
    assert_eq!(trial.git(&["status", "--short", "--", "logs"]), "");
    trial.no_process_is_left();
}

#[test]
fn a_failing_hook_before_something_stops_the_run_before_the_agent() {
    let run = trial("hooks: {before_run: 'echo no database >&2; exit 3'}\n");
    run.run(["run"]).code(1).stderr_has(
        "\
[time]  hook `before_run`: `echo no database >&2; exit 3` exited with code 3 after [took]
[time]      no database
[time]      output in logs/hooks/before_run-1.log
[time]  hook `before_run`: `echo no database >&2; exit 3` exited with code 3; its last line: no database; fix it, or remove it from `hooks` (exit code 1)
",
    );
    assert!(run.lines("started").is_empty());

    let attempt =
        trial("hooks: {before_attempt: ['true', 'echo no room; exit 1', 'touch third']}\n");
    attempt.run(["run"]).code(1);
    assert!(attempt.lines("started").is_empty() && attempt.status("a") == "pending");
    assert!(!attempt.root().join("third").exists());
    let failed = &attempt.lines("hook_failed")[0];
    assert_eq!((&failed["task_id"], &failed["iteration"]), (&Value::from("a"), &Value::from(1)));
}

#[test]
fn a_failing_hook_after_something_is_told_and_the_run_goes_on() {
    let trial = trial("hooks: {after_attempt: 'exit 3', after_run: 'exit 4'}\n");
    trial.run(["run"]).graph_complete();
    trial.assert_record("hook_failed", &serde_json::json!({"hook": "after_run", "exit_code": 4}));
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    let hooks: Vec<Value> =
        trial.lines("hook_failed").into_iter().map(|it| it["hook"].clone()).collect();
    assert_eq!(hooks, ["after_attempt", "after_attempt", "after_run"]);
}

#[test]
fn a_hook_that_hangs_is_ended_with_all_it_started() {
    let hang = "setsid sleep 600 & trap \"\" TERM; while :; do sleep 0.05; done";
    let trial = trial(&format!("hooks: {{before_run: '{hang}'}}\n")).env("RALPH_FIXED_LIMIT", "1s");
    trial.run(["run"]).code(1);
    trial.assert_record("hook_failed", &serde_json::json!({"outcome": "timed_out"}));
    trial.no_process_is_left();
}

#[test]
fn a_hook_is_ended_by_signals_and_with_ralph() {
    let hang = "setsid sleep 600 & touch \"$TRIAL_DIR/hung\"; exec sleep 600";
    for hook in ["before_run", "before_attempt"] {
        let trial = trial(&format!("hooks: {{{hook}: '{hang}'}}\n"));
        let run = trial.start_until(["run"], "hung");
        run.signal(Signal::INT);
        run.end(&trial).code(130);
        assert!(trial.lines("hook_failed").is_empty() && trial.lines("started").is_empty());
        trial.no_process_is_left();
    }
    let trial = trial(&format!("hooks: {{before_run: '{hang}'}}\n"));
    let run = trial.start_until(["run"], "hung");
    run.kill();
    trial.no_process_is_left();
}

#[test]
fn what_a_hook_does_before_an_attempt_is_not_the_attempts() {
    let commit = "git commit -q --allow-empty -m hook; echo made > made";
    let stage = || trial(&format!("hooks: {{before_attempt: '{commit}'}}\n"));
    for trial in [stage(), stage().in_place()] {
        trial.run(["run", "-q"]);
        let completed = &trial.lines("completed")[0];
        assert_eq!(completed["commits"].as_array().unwrap().len(), 1);
        assert_eq!(completed["commits"][0]["subject"], "Work on a");
    }
}

#[test]
fn a_hook_that_finishes_the_task_spares_the_agent() {
    let hook = "[ $RALPH_TASK_ID = a ] && sed -i s/id..a}/id:\\ a,\\ status:\\ complete}/ \
                task-graph.yaml || true";
    let trial = trial(&format!("hooks: {{before_attempt: '{hook}'}}\n"));
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started"), ["b"]);
}

#[test]
fn doctor_tries_each_notifier() {
    let trial = trial("notify: ['cat >> \"$TRIAL_DIR/told\"', 'echo no network; exit 3']\n");
    let said = trial.run(["doctor", "--", "true"]).whole();
    assert!(said.contains("took a test event"), "{said}");
    assert!(said.contains("`echo no network; exit 3`: exited with code 3: no network"), "{said}");
    assert_eq!(events(&trial), ["test"]);
    trial.run(["notify", "--test"]).code(64).stderr_has("`ralph doctor` tries the commands");
}

#[test]
fn secrets_are_not_told() {
    let trial =
        trial("max_attempts: 1\nnotify: [{on: failed, command: 'cat >> \"$TRIAL_DIR/told\"'}]\n")
            .env("MY_TOKEN", "s3cr3t-s3cr3t-s3cr3t");
    let trial = trial.command(["sh", "-c", "echo it is $MY_TOKEN; exit 1"]);
    trial.run(["run", "-q"]).code(3);
    let told = fs::read_to_string(trial.sign("told")).unwrap();
    assert!(told.contains("it is [redacted]") && !told.contains("s3cr3t"), "{told}");
}
