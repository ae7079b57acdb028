//! Where attempts run: which executor a task gets, what is refused, and what is told about it. A
//! sandbox and a command on this machine stand for all executors.

use std::fs;

use ralph::core::executor::ProgramBuild;
use serde_json::json;

use crate::support::{RALPH, SETTINGS, TestProject};

/// A command that starts a worker on this machine, in another home.
fn other_home(trial: &TestProject) -> String {
    let home = trial.dir().join("elsewhere");
    std::fs::create_dir_all(&home).unwrap();
    format!(
        "executors:\n  near:\n    command:\n      argv: [env, -i, 'PATH={}', 'HOME={}', \
         'RALPH={RALPH}', GIT_AUTHOR_NAME=a, GIT_AUTHOR_EMAIL=a@b, GIT_COMMITTER_NAME=a, GIT_COMMITTER_EMAIL=a@b]\n      \
         ralph: '{RALPH}'\n",
        std::env::var("PATH").unwrap(),
        home.display(),
    )
}

#[test]
fn unknown_executors_are_named_before_anything_starts() {
    let trial = TestProject::new().graph("tasks: [{id: a, run_on: sandbx}]\n").agent("commit");
    trial.run(["run"]).code(65).stderr(
        "ralph: error: `run_on` of task `a`: there is no executor `sandbx`; did you mean `sandbox`?\n",
    );
    trial.run(["run", "--on", "far"]).code(65).stderr_has("there is no executor `far`; known are");
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.save(".ralph/config.yaml", &format!("{SETTINGS}run_on: far\n"));
    trial.run(["run"]).code(65).stderr_has("no executor `far`");
    assert!(!trial.root().join("logs/ralph.jsonl").exists());
    // What a person gives replaces what is wrong.
    trial.run(["run", "--on", "local"]).graph_complete();
}

#[test]
fn a_sandbox_that_cannot_be_had_is_told_before_anything_starts() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let kept = "run_on: box\nexecutors: {box: {sandbox: {engine: landlock, network: off}}}\n";
    trial.save(".ralph/config.yaml", &format!("{SETTINGS}{kept}"));
    // Where there is no Landlock, the message is another one.
    trial.run(["run"]).code(69).stderr_has("executor `box`: ").stderr_has("Landlock");
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "nothing starts");
    let kept = "run_on: box\nexecutors: {box: {sandbox: {network: [no-such-wrapper, --]}}}\n";
    trial.save(".ralph/config.yaml", &format!("{SETTINGS}{kept}"));
    let ran = trial.run(["run"]).code(69).stderr_has("`no-such-wrapper`");
    ran.stderr_has("correct its `network`");
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "nothing starts");
}

#[test]
fn attempts_in_the_checkout_run_here() {
    let trial = TestProject::new();
    let settings = other_home(&trial);
    let trial = trial
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .graph("tasks: [{id: a, run_on: near}]\n")
        .agent("commit");
    trial.run(["run", "--in-place"]).code(64).stderr_has("`--on local`");
    trial.run(["run", "--tmux", "--on", "near"]).code(64);
    trial.run(["loop", "--on", "near", "--prompt-file", "task-graph.yaml"]).code(64);
}

#[test]
fn the_work_of_a_worker_elsewhere_lands() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b, depends_on: [a]}]\n");
    let trial = trial.agent("commit");
    let settings = other_home(&trial);
    trial.save(".ralph/config.yaml", &format!("{SETTINGS}{settings}run_on: near\n"));
    trial.git(&["commit", "--quiet", "-am", "Use another place"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.completions(), ["a", "b"]);
    for started in trial.lines("started") {
        assert_eq!(started["run_on"], json!("near"));
    }
    for started in trial.lines("agent_started") {
        assert_eq!(started["placement"]["run_on"], json!("near"));
        assert!(started["placement"]["host"].is_string(), "{started}");
    }
    trial.run(["show", "a"]).stdout_has("Runs on: near (");
    trial.no_process_is_left();
}

#[test]
fn a_task_has_its_own_executor_and_the_flag_wins() {
    let trial = TestProject::new();
    let settings = other_home(&trial);
    let trial = trial
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .graph("tasks: [{id: a, run_on: near}, {id: b}]\n")
        .agent("commit");
    trial.run(["run"]).graph_complete();
    let places: Vec<_> = trial.lines("started").iter().map(|it| it["run_on"].clone()).collect();
    assert_eq!(places, [json!("near"), json!(null)]);
    trial.run(["task-reset", "a"]).code(0);
    trial.run(["run", "--on", "local"]);
    assert_eq!(trial.lines("started")[2]["run_on"], json!(null));
}

#[test]
fn an_agent_that_is_kept_in_lets_no_other_out() {
    let trial = TestProject::new();
    let settings = other_home(&trial);
    let trial =
        trial.file(".ralph/config.yaml", &format!("{SETTINGS}{settings}max_attempts: 1\n")).graph(
            "defaults: {run_on: near}\ntasks:\n  - {id: a, output: task-graph.yaml}\n  - {id: b}\n",
        );
    // It adds a task that would run here.
    let out = "sed -i 's/^  - {id: b}/  - {id: b}\\n  - {id: out, run_on: local}/' task-graph.yaml; \
               echo x > x; git add -A; git commit -qm x; touch \"$RALPH_TASK_DIR/DONE\"";
    trial.run(["run", "--task", "a", "--", "sh", "-c", out]).code(3);
    assert!(!trial.graph_text().contains("id: out"), "{}", trial.graph_text());
    let guarded = trial.lines("graph_guarded");
    assert_eq!(
        (&guarded[0]["what"], &guarded[0]["tasks"]),
        (&json!("new_elsewhere"), &json!(["out"]))
    );
    // It changes where attempts run.
    let settings = "sed -i 's/^executors/hooks: {before_run: touch out}\\nexecutors/' .ralph/config.yaml; \
                    git commit -qam x; touch \"$RALPH_TASK_DIR/DONE\"";
    trial.run(["run", "--task", "b", "--", "sh", "-c", settings]).code(3);
    let why = trial.lines("failed").pop().unwrap()["why"].to_string();
    assert!(why.contains("it changed `.ralph/config.yaml`"), "{why}");
    assert!(!trial.read(".ralph/config.yaml").contains("before_run"));
}

#[test]
fn the_doctor_tries_an_executor() {
    let trial = TestProject::new();
    let settings = other_home(&trial);
    let trial = trial
        .file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"))
        .graph("tasks: [{id: a}]\n")
        .agent("commit");
    let found = trial.run(["doctor", "--on", "near", "--", "true"]).code(0).out();
    assert!(
        found.contains("near: a process wrote, committed, found the agent and was killed there"),
        "{found}"
    );
    trial.no_process_is_left();
    let absent = trial.dir().join("only-here");
    trial.script(&absent, "#!/bin/sh\n");
    let path = format!("{}:{}", trial.dir().display(), std::env::var("PATH").unwrap());
    let mut doctor = trial.process(RALPH);
    let doctor = doctor.args(["doctor", "--on", "near", "--", "only-here"]).env("PATH", path);
    let found = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(found.contains("there is no program `only-here` there"), "{found}");
    trial.save(
        ".ralph/config.yaml",
        &format!("{SETTINGS}executors:\n  gone:\n    command: {{argv: [/no/such/carrier]}}\n"),
    );
    trial.run(["doctor", "--on", "gone", "--", "true"]).code(69).stdout_has("/no/such/carrier");
    trial.run(["run", "--on", "gone"]).code(69).stderr_has("/no/such/carrier");
    assert!(!trial.root().join("logs/ralph.jsonl").exists());
}

#[test]
fn a_host_without_small_programs_is_told_which() {
    let trial = TestProject::new();
    let few = trial.dir().join("few");
    fs::create_dir(&few).unwrap();
    for name in ["cat", "chmod", "mkdir", "mv"] {
        trial.script(&few.join(name), "#!/bin/sh\nexit 1\n");
    }
    let word = |text: &str| text.to_owned();
    let (version, system, hash) = (word("1"), word("Linux"), word("x"));
    let build = ProgramBuild { version, system, hash, size: 9 };
    let mut shell = trial.process("/bin/sh");
    let ran = shell.args(["-c", &build.script(None).unwrap()]).env("PATH", &few).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "it lacks the programs uname wc rm\n");
}
