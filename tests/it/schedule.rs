//! `ralph schedule`: runs that start at set times, here every second, which keeps the tests short.
//! `RALPH_CRON="* * * * *" cargo test --test it schedule::by_the_clock` starts them every minute.

use std::{
    env, fs,
    os::unix::net::UnixDatagram,
    thread,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{DIAMOND, Live, RALPH, SETTINGS, TestProject, agent, until, wait_for};

const EVERY_SECOND: &str = "* * * * * *";

/// A repository whose settings have this agent and these additional lines.
fn stage(graph: &str, name: &str, more: &str) -> TestProject {
    let settings = format!("{SETTINGS}agent: [{}]\n{more}", agent(name));
    TestProject::new().graph(graph).file(".ralph/config.yaml", &settings)
}

fn time(line: &Value, field: &str) -> DateTime<Utc> {
    line[field].as_str().unwrap_or_else(|| panic!("`{field}` of {line}")).parse().unwrap()
}

/// The number of journal lines with this action, while others write to it.
fn count(trial: &TestProject, action: &str) -> usize {
    let text = fs::read_to_string(trial.root().join("logs/ralph.jsonl")).unwrap_or_default();
    text.matches(&format!("\"action\":\"{action}\"")).count()
}

/// The wakes in the journal, while others write to it: those that started a run, or that were skipped.
fn wakes(trial: &TestProject, is_skipped: bool) -> Vec<Value> {
    let text = fs::read_to_string(trial.root().join("logs/ralph.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_it = |line: &Value| line["action"] == "woken" && line["skipped"].is_null() != is_skipped;
    lines.filter(is_it).collect()
}

fn started(trial: &TestProject) -> Vec<Value> {
    wakes(trial, false)
}

fn skipped(trial: &TestProject) -> Vec<Value> {
    wakes(trial, true)
}

#[test]
fn by_the_clock() {
    let cron = env::var("RALPH_CRON").unwrap_or(EVERY_SECOND.to_owned());
    let trial = stage(DIAMOND, "commit", "");
    let schedule = trial.start(["schedule", "--cron", &cron, "--", "--max-iterations", "2"]);
    let began = Instant::now();
    // Two minutes, if it starts runs every minute.
    while count(&trial, "completed") < 4 && began.elapsed() < Duration::from_secs(180) {
        thread::sleep(Duration::from_millis(20));
    }
    // It is named while it waits; the next wake is near.
    until("the status names the schedule", || {
        let status = trial.run(["status", "--json"]).json();
        let is_named = status["schedule"]["cron"] == serde_json::json!([cron]);
        is_named && status["schedule"]["pid"] == schedule.id()
    });
    until("the status has a line on it", || trial.run(["status"]).out().contains("\nSchedule: "));
    schedule.signal(Signal::TERM);
    let said = schedule.end(&trial).code(143).whole();
    assert!(said.contains("  next wake ") && said.contains("  woken for "), "{said}");
    assert!(said.contains("the run ended with exit code 2"), "{said}");

    // Each run continued where the previous one had stopped.
    assert_eq!(trial.tasks("completed"), ["start", "right", "left", "end"]);
    let woken = started(&trial);
    assert_eq!(woken[0]["run"], serde_json::json!(["--max-iterations", "2"]));
    for pair in woken.windows(2) {
        let [first, second] = [0, 1].map(|at| time(&pair[at], "scheduled_for"));
        assert!(first < second, "{first} and {second}");
    }
    let slept = trial.lines("slept");
    assert_eq!((&slept[0]["exit_code"], &slept[1]["exit_code"]), (&Value::Null, &2.into()));
    assert_eq!(time(&slept[0], "until"), time(&woken[0], "scheduled_for"));
    assert_eq!(trial.lines("schedule_ended")[0]["signal"], "SIGTERM");
    trial.run(["status", "--json"]).json()["schedule"].as_null().unwrap();
    trial.no_process_is_left();
}

#[test]
fn a_scheduled_run_lands_on_another_branch() {
    let trial = stage(DIAMOND, "commit", "");
    let before = trial.git(&["rev-parse", "HEAD"]);
    let words = ["schedule", "--cron", EVERY_SECOND, "--once", "--", "--onto", "night"];
    trial.run(words);
    assert_eq!(trial.tasks("completed").len(), 4);
    assert_eq!(trial.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    let graph = trial.git(&["show", "night:task-graph.yaml"]);
    assert_eq!(graph.matches("status: complete").count(), 4);
    // The next one finds nothing to do.
    trial.run(words);
    assert_eq!(trial.tasks("started").len(), 4);
}

#[test]
fn one_wake_ends_as_its_run_does() {
    let trial =
        stage("tasks: [{id: a}]\n", "fail", "schedule: {cron: '* * * * * *', run: [--once]}\n");
    trial.run(["schedule", "--once"]).code(1);
    assert_eq!(started(&trial)[0]["run"], serde_json::json!(["--once"]));
    assert_eq!(trial.lines("schedule_ended")[0]["exit_code"], 1);
    assert_eq!(trial.run(["status", "--json"]).json()["status"], "finished");
}

/// A schedule whose run waits for the file `open` at its only task.
fn gated() -> (TestProject, Live) {
    let trial = stage("tasks: [{id: a}]\n", "gate", "");
    let schedule = trial.start_until(["schedule", "--cron", EVERY_SECOND], "waiting-a");
    (trial, schedule)
}

#[test]
fn a_time_that_comes_while_the_last_run_goes_on_is_skipped() {
    let (trial, schedule) = gated();
    until("two are skipped", || skipped(&trial).len() >= 2);
    assert_eq!(trial.run(["status", "--json"]).json()["schedule"]["awake"], true);
    trial.leave("open");
    until("the next one is woken for", || started(&trial).len() >= 2);
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
    let skipped = wakes(&trial, true);
    assert!(skipped.iter().all(|line| line["skipped"] == "still_running"), "{skipped:?}");
    assert!(time(&skipped[0], "scheduled_for") < time(&skipped[1], "scheduled_for"));
    let started = started(&trial);
    let times = [&started[0], &skipped[0], &started[1]].map(|line| time(line, "scheduled_for"));
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(trial.tasks("completed"), ["a"]);
}

#[test]
fn a_time_that_comes_while_another_runs_or_in_a_pause_is_skipped() {
    let trial = stage("tasks: [{id: a}]\n", "gate", "");
    let run = trial.start_until(["run"], "waiting-a");
    let schedule = trial.start(["schedule", "--cron", EVERY_SECOND]);
    let is_skipped = |why: &str| skipped(&trial).iter().any(|line| line["skipped"] == why);
    until("a time is skipped", || is_skipped("busy"));
    trial.run(["pause"]);
    trial.leave("open");
    run.end(&trial);
    until("a time is skipped", || is_skipped("paused"));
    schedule.signal(Signal::INT);
    schedule.end(&trial).code(130);
    assert_eq!(trial.lines("loop_started").len(), 1);
}

#[test]
fn a_signal_ends_the_run_once_and_then_the_schedule() {
    for (signal, name, code) in [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143)] {
        let (trial, schedule) = gated();
        schedule.signal(signal);
        schedule.end(&trial).code(code);
        trial.assert_record("finished", &serde_json::json!({"exit_code": code}));
        let asked = trial.lines("stop_requested");
        assert_eq!((asked.len(), &asked[0]["signal"]), (1, &name.into()));
        let ended = &trial.lines("schedule_ended")[0];
        assert_eq!((&ended["signal"], &ended["exit_code"]), (&name.into(), &code.into()));
        assert_eq!(trial.lines("interrupted")[0]["verdict"], "cancelled");
        trial.no_process_is_left();
    }
}

#[test]
fn ctrl_z_and_fg_reach_the_run() {
    let (trial, schedule) = gated();
    schedule.signal(Signal::TSTP);
    until("it stands still", || count(&trial, "suspended") == 1);
    let is_stopped =
        |pid: u64| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    // A signal to continue that arrives before the run has stopped is lost.
    let run = trial.lines("loop_started")[0]["pid"].as_u64().unwrap();
    until("both are stopped", || is_stopped(run) && is_stopped(schedule.id().into()));
    schedule.signal(Signal::CONT);
    until("it goes on", || count(&trial, "continued") == 1);
    trial.leave("open");
    until("it is done", || count(&trial, "finished") >= 1);
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
}

#[test]
fn two_schedules_never_wait_in_one_repository() {
    let trial = stage("tasks: [{id: a}]\n", "commit", "schedule: 0 0 1 1 *\n");
    let first = trial.start(["schedule"]);
    until("it waits", || count(&trial, "slept") == 1);
    let other =
        "ralph: error: another `ralph schedule` is waiting in this repository: process [pid]\n";
    trial.run(["schedule"]).code(5).stderr(other);
    // A crontab gets no message about it.
    trial.run(["schedule", "--due"]).stderr("");
    trial.run(["status"]).stdout_has("\nSchedule: next wake ");
    first.kill();
    let next = trial.start(["schedule"]);
    until("it waits", || count(&trial, "slept") == 2);
    next.signal(Signal::HUP);
    next.end(&trial).code(129);
    assert_eq!(started(&trial).len(), 0);
}

/// The first wake of a schedule that starts some time after another was ended in this way.
fn after(end: impl FnOnce(Live, &TestProject)) -> (DateTime<Utc>, Value) {
    let trial = stage("tasks: [{id: a}]\n", "commit", "");
    trial.run(["pause"]);
    let first = trial.start(["schedule", "--cron", EVERY_SECOND]);
    until("a time has come", || skipped(&trial).len() == 1);
    end(first, &trial);
    trial.run(["resume"]);
    thread::sleep(Duration::from_millis(1100));
    let now = Utc::now();
    trial.run(["schedule", "--cron", EVERY_SECOND, "--once"]);
    (now, started(&trial).remove(0))
}

#[test]
fn a_time_missed_after_a_crash_is_caught_up_once() {
    let (began, woken) = after(|first, _| first.kill());
    assert!(time(&woken, "scheduled_for") < began, "{woken}");
}

#[test]
fn a_time_missed_after_ctrl_c_is_not_caught_up() {
    let (began, woken) = after(|first, trial| {
        first.signal(Signal::INT);
        first.end(trial).code(130);
    });
    assert!(time(&woken, "scheduled_for") > began && woken["missed"].is_null(), "{woken}");
}

#[test]
fn a_crontab_asks_whether_a_time_has_come() {
    let trial = stage("tasks: [{id: a}, {id: b}]\n", "commit", "");
    let due = |cron| trial.run(["schedule", "--due", "--cron", cron, "--", "--once"]);
    due("0 0 1 1 *").stderr_has("next wake ");
    let slept = trial.lines("slept");
    assert!(slept.len() == 1 && slept[0]["process"].is_null(), "{slept:?}");
    due("0 0 1 1 *").stderr("");
    // A changed schedule counts from now on.
    due(EVERY_SECOND);
    assert_eq!(trial.lines("slept").len(), 2);
    assert_eq!(started(&trial).len(), 0);
    thread::sleep(Duration::from_millis(1100));
    due(EVERY_SECOND);
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(trial.lines("slept").last().unwrap()["exit_code"], 0);
    assert_eq!(trial.lines("schedule_ended").len(), 0);
}

#[test]
fn settings_are_taken_in_while_it_waits() {
    let trial = stage("tasks: [{id: a}]\n", "commit", "schedule: 0 0 1 1 *\n");
    let schedule = trial.start(["schedule"]);
    until("it waits", || count(&trial, "slept") == 1);
    let broken = format!("{SETTINGS}schedule: 0 25 * * *\n");
    trial.save(".ralph/config.yaml", &broken);
    until("they are rejected", || count(&trial, "file_rejected") == 1);
    let settings = format!("{SETTINGS}agent: [{}]\nschedule: '{EVERY_SECOND}'\n", agent("commit"));
    trial.save(".ralph/config.yaml", &settings);
    until("it is done", || count(&trial, "completed") == 1);
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
    assert_eq!(trial.lines("file_rejected").len(), 1);
    assert_eq!(trial.lines("noticed")[0]["text"], "settings changed: schedule");
}

#[test]
fn a_service_manager_hears_of_it() {
    let trial = stage("tasks: [{id: a}]\n", "gate", "");
    let path = trial.dir().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let heard = || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    };
    let trial = trial.env("NOTIFY_SOCKET", path.to_str().unwrap());
    let schedule = trial.start(["schedule", "--cron", EVERY_SECOND]);
    assert_eq!(heard(), "READY=1");
    // It wakes at once if the next second has begun by then.
    let mut next = heard();
    if next.starts_with("STATUS=next wake ") {
        next = heard();
    }
    assert_eq!(next, "WATCHDOG=1");
    wait_for(&trial.sign("waiting-a"));
    assert_eq!(heard(), "WATCHDOG=1");
    trial.leave("open");
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
    let mut last = heard();
    while last == "WATCHDOG=1" || last.starts_with("STATUS=") {
        last = heard();
    }
    assert_eq!(last, "STOPPING=1");

    // A run that the service manager starts notifies it, and its agents cannot.
    let shell = "env > \"$TRIAL_DIR/variables\"";
    let settings = format!("{SETTINGS}agent: [sh, -c, '{shell}']\n");
    let trial = trial.file(".ralph/config.yaml", &settings).graph("tasks: [{id: b}]\n");
    trial.run(["run", "--once"]).code(1);
    assert_eq!([heard(), heard()], ["READY=1", "WATCHDOG=1"]);
    let variables = fs::read_to_string(trial.sign("variables")).unwrap();
    assert!(variables.contains("RALPH_TASK_ID=b") && !variables.contains("NOTIFY"), "{variables}");
}

#[test]
fn an_invalid_schedule_is_an_error_at_once() {
    let trial = TestProject::new();
    let said = |words: &[&str]| {
        let output = trial.process(RALPH).args(words).output().unwrap();
        format!("{} {}", output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr))
    };
    insta::assert_snapshot!(said(&["schedule"]), @r#"64 ralph: error: no schedule; pass `--cron "0 */4 * * *"`, or add `schedule: "0 */4 * * *"` to `.ralph/config.yaml`"#);
    insta::assert_snapshot!(said(&["schedule", "--cron", "0 25 * * *"]), @"64 ralph: error: `--cron`: `0 25 * * *` is not a cron expression (component error: number out of bounds); write minute, hour, day, month and day of the week, such as `0 */4 * * *`");
    insta::assert_snapshot!(said(&["schedule", "--cron", "0 0 30 2 *"]), @"64 ralph: error: `--cron`: `0 0 30 2 *` never occurs");
    insta::assert_snapshot!(said(&["schedule", "--cron", "@daily", "--time-zone", "Europa/Berlin"]), @"
    64 error: invalid value 'Europa/Berlin' for '--time-zone <ZONE>': unknown time zone `Europa/Berlin`; did you mean `Europe/Berlin`?

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(said(&["schedule", "--cron", "@daily", "--", "--max-iteration", "3"]), @"64 ralph: error: flags of `ralph run`: unexpected argument '--max-iteration' found");
    trial.write(".ralph/config.yaml", "schedule: {cron: '@daily', run: [--hlep]}\n");
    insta::assert_snapshot!(said(&["schedule"]), @"65 ralph: error: `run` of `schedule`: unexpected argument '--hlep' found");
    trial.write(".ralph/config.yaml", "schedule: {cron: '@daily', time_zone: Berlin}\n");
    insta::assert_snapshot!(said(&["schedule"]), @"
    65 error: `schedule`: unknown time zone `Berlin`; use a name such as `Europe/Berlin` or `UTC`
     --> .ralph/config.yaml:1:11
      |
    1 | schedule: {cron: '@daily', time_zone: Berlin}
      |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    let bare = TestProject::bare();
    bare.run(["schedule", "--cron", "@daily"]).code(1);
}

#[test]
fn the_next_times_are_shown_in_their_zone() {
    let trial = TestProject::new()
        .file(".ralph/config.yaml", "schedule: {cron: 30 2 29 3 *, time_zone: Europe/Berlin}\n");
    let before = trial.everything();
    let next = |words: &[&str]| {
        let output =
            trial.process(RALPH).args(["schedule", "--next"]).args(words).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let said = next(&["3"]);
    for line in said.lines() {
        assert!(line[4..].starts_with("-03-29T02:30:00+02:00 Europe/Berlin  "), "{said}");
        assert!(line.contains(", in "), "{said}");
    }
    assert_eq!(said.lines().count(), 3);
    let said = next(&["1", "--cron", "0 12 * * *", "--time-zone", "Asia/Tokyo"]);
    assert!(said[10..].starts_with("T12:00:00+09:00 Asia/Tokyo  "), "{said}");
    let said = next(&["1", "--cron", "0 0 1 1 *"]);
    assert!(said[4..].starts_with("-01-01T00:00:00+01:00 Europe/Berlin  "), "{said}");
    assert_eq!(trial.everything(), before);

    let trial = TestProject::new().env("TZ", "JST-9");
    let words = ["schedule", "--next", "1", "--cron", "0 0 1 1 *"];
    let output = trial.process(RALPH).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said[4..].starts_with("-01-01T00:00:00+09:00 (this machine)  "), "{said}");
}

#[test]
fn a_hook_comes_before_the_run() {
    let hook = "hooks: {on_scheduled_wake: 'cat > \"$TRIAL_DIR/told\"; echo warm'}\n";
    let trial = stage("tasks: [{id: a}]\n", "commit", hook);
    trial.run(["schedule", "--cron", EVERY_SECOND, "--once"]);
    let told = fs::read_to_string(trial.sign("told")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["event"], &told["trigger"]), (&"on_scheduled_wake".into(), &"cron".into()));
    assert!(told["title"].as_str().unwrap().starts_with("repo: woken for "), "{told}");
    assert_eq!(trial.read("logs/hooks/on_scheduled_wake-1.log"), "warm\n");
    assert_eq!(trial.tasks("completed"), ["a"]);
    let logs = trial.run(["logs", "--all"]).out();
    assert!(logs.contains("  woken for ") && logs.contains("  the schedule ended\n"), "{logs}");
}

#[test]
fn a_hook_that_fails_keeps_its_run_from_starting() {
    let hook = "hooks: {on_scheduled_wake: 'echo cold; exit 3'}\n";
    let trial = stage("tasks: [{id: a}]\n", "commit", hook);
    let said = trial.run(["schedule", "--cron", EVERY_SECOND, "--once"]).whole();
    let why = "  hook `on_scheduled_wake`: `echo cold; exit 3` exited with code 3; its last line: \
               cold; no run starts; the output is in logs/hooks/on_scheduled_wake-1.log\n";
    assert!(said.starts_with("exit code 1\n") && said.contains(why), "{said}");
    assert_eq!(trial.lines("hook_failed")[0]["hook"], "on_scheduled_wake");
    assert_eq!(trial.lines("loop_started").len(), 0);
}

#[test]
fn a_signal_ends_a_hook_too() {
    let hook = "hooks: {on_scheduled_wake: 'touch \"$TRIAL_DIR/hooked\"; sleep 600'}\n";
    let trial = stage("tasks: [{id: a}]\n", "commit", hook);
    let schedule = trial.start_until(["schedule", "--cron", EVERY_SECOND], "hooked");
    schedule.signal(Signal::TERM);
    schedule.end(&trial).code(143);
    assert_eq!((started(&trial).len(), count(&trial, "loop_started")), (1, 0));
    trial.no_process_is_left();
}

#[test]
fn times_may_come_to_an_end() {
    let trial = stage("tasks: [{id: a}]\n", "commit", "");
    let soon = (Utc::now() + chrono::TimeDelta::seconds(2)).format("%S %M %H %d %m * %Y");
    let said = trial.run(["schedule", "--cron", &soon.to_string()]).whole();
    assert!(said.starts_with("exit code 0\n"), "{said}");
    assert!(said.ends_with("no further scheduled times\n"), "{said}");
    assert_eq!(trial.tasks("completed"), ["a"]);
    assert_eq!(trial.lines("schedule_ended")[0]["exit_code"], 0);
}
