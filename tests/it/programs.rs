//! How the program of an agent is found, and what happens if it is missing.

use std::fs;

use serde_json::json;

use crate::support::{RALPH, TestProject, agent};

/// A project with this agent command in its settings.
fn configured(graph: &str, command: &str) -> TestProject {
    let settings = format!("start_limit: 0\nagent: {command}\n");
    TestProject::new().file(".ralph/config.yaml", &settings).graph(graph)
}

/// Makes an executable link to a fake agent, outside of git's view.
fn link(trial: &TestProject, path: &str) {
    let path = trial.root().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(agent("commit"), path).unwrap();
}

#[test]
fn a_relative_agent_of_the_command_line_is_found_where_ralph_was_called() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e}]\n");
    link(&trial, "../agent.sh");
    link(&trial, ".ralph/agent.sh");
    let run = |dir: &str, words: &[&str]| {
        let mut command = trial.process(RALPH);
        command.current_dir(trial.root().join(dir)).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(".", &["run", "-j2", "--task", "a", "--", "../agent.sh"]);
    run(".ralph", &["run", "--in-place", "--task", "b", "--", "./agent.sh"]);
    run(".ralph", &["run", "--task", "c", "--agent", "../../agent.sh"]);
    run(".", &["run", "--task", "e", "--", "sh", "../agent.sh"]);
    let trial = trial.env("RALPH_AGENT", "../../agent.sh");
    let mut command = trial.process(RALPH);
    command.current_dir(trial.root().join(".ralph")).arg("run");
    assert!(command.status().unwrap().success());
    assert_eq!(trial.tasks("completed"), ["a", "b", "c", "e", "d"]);
    // Recorded as found, so that a run that resumes it finds it too.
    let recorded = |n: usize| trial.lines("loop_started")[n]["agent"][0].clone();
    assert_eq!(recorded(0), json!(trial.dir().join("agent.sh").display().to_string()));
    assert_eq!(recorded(1), json!(trial.root().join(".ralph/agent.sh").display().to_string()));
}

#[test]
fn a_relative_agent_of_the_settings_is_found_in_the_repository() {
    let trial = configured("tasks: [{id: a}, {id: b, agent: ./.ralph/b.sh}]\n", "./.ralph/a.sh");
    link(&trial, ".ralph/a.sh");
    link(&trial, ".ralph/b.sh");
    let mut command = trial.process(RALPH);
    command.current_dir(trial.root().join(".ralph")).args(["run", "-j2"]);
    assert!(command.status().unwrap().success());
    assert_eq!(trial.lines("completed").len(), 2);
}

#[test]
fn a_missing_interpreter_is_found_before_anything_is_claimed() {
    for (line, why) in [
        ("#!/nowhere/sh", "`/nowhere/sh` does not exist"),
        ("#!/usr/bin/env no-such-shell", "`no-such-shell` is not on PATH"),
    ] {
        let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["./x.sh"]);
        trial.write("x.sh", &format!("{line}\n"));
        assert!(trial.process("chmod").args(["+x", "x.sh"]).status().unwrap().success());
        trial.run(["run"]).code(69).stderr_has(why);
        assert!(!trial.root().join("logs").exists());
    }
}

#[test]
fn an_agent_that_vanishes_during_a_run_costs_no_attempt() {
    let script =
        "\"$RALPH\" task-complete \"$RALPH_TASK_ID\"; touch \"$RALPH_TASK_ID\"; rm -f \"$0\"";
    for words in [&["run", "--max-wait", "1s"][..], &["run", "--max-wait", "1s", "--in-place"]] {
        let trial = configured("tasks: [{id: a}, {id: b}]\n", "./.ralph/agent.sh");
        trial.script(&trial.root().join(".ralph/agent.sh"), script);
        // It may be updating itself.
        trial.run(words).code(2).stderr_has("the agent's program is missing");
        let refused = (trial.tasks("completed"), trial.tasks("rate_limited"));
        assert_eq!(refused, (vec!["a".into()], vec!["b".into()]));
        let refused = &trial.lines("rate_limited")[0];
        assert_eq!(refused["obstacle"]["kind"], "vanished");
        assert!(refused["why"].as_str().unwrap().contains("does not exist"), "{refused}");
        assert_eq!(trial.status("b"), "pending");
        assert!(trial.lines("failed").is_empty());
        trial.script(&trial.root().join(".ralph/agent.sh"), script);
        trial.run(["run"]).graph_complete();
    }
}

#[test]
fn a_file_that_the_system_cannot_execute_costs_no_attempt() {
    let trial = configured("tasks: [{id: a}]\n", "./.ralph/text");
    trial.write(".ralph/text", "no program\n");
    assert!(trial.process("chmod").args(["+x", ".ralph/text"]).status().unwrap().success());
    trial.run(["run"]).code(69).stderr_has("the agent cannot be started");
    let denied = &trial.lines("denied")[0];
    assert!(denied["why"].as_str().unwrap().contains("a script needs a first line"), "{denied}");
    assert_eq!(trial.status("a"), "pending");
}

#[test]
fn the_next_agent_takes_over_from_a_missing_one() {
    let second = agent("commit");
    let agents = format!("[{{command: [./.ralph/first.sh]}}, {{command: [{second}]}}]");
    let trial = configured("tasks: [{id: a}, {id: b}]\n", &agents);
    trial.script(&trial.root().join(".ralph/first.sh"), &format!("rm -f \"$0\"; exec {second}"));
    trial.run(["run"]).graph_complete();
    let agents: Vec<_> =
        trial.lines("completed").into_iter().map(|line| line["agent"].clone()).collect();
    assert_eq!(agents, [json!("first.sh"), json!("commit")]);
}
