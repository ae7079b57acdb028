//! What real agents say in their typed output: limits, refusals, costs, and that they are done.

use chrono::{DateTime, Utc};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Workspace, agent, until};

/// A project whose agent speaks as Claude Code does, one stream after the other.
fn speaking(streams: &str) -> Workspace {
    let config = format!(
        "fsync: false\ngrace: 200ms\nexit_grace: 300ms\nagent: {{command: [{}], output: claude-json}}\n",
        agent("streams")
    );
    Workspace::new()
        .file(".ralph/config.yaml", &config)
        .graph("tasks: [{id: a}]\n")
        .env("STREAMS", streams)
}

#[test]
fn a_usage_limit_is_waited_for_and_costs_no_attempt() {
    let trial = speaking("claude-usage-limit:1 claude-success:0");
    let run = trial.start(["run", "--max-wait", "1000000h"]);
    until("it waits", || run.said().contains("waiting until"));
    trial.run(["dag-status"]).stdout_has("Ready later\n  a  rate-limited until ");
    trial.run(["resume", "--now"]).stdout("what waits for a provider is tried again now\n");
    run.end(&trial).stderr_has("a rate-limited after [took]: the usage limit of the account");
    let limited = &trial.lines("rate_limited")[0];
    assert_eq!(
        (&limited["verdict"], &limited["agent"]),
        (&json!("rate-limited"), &json!("streams"))
    );
    assert_eq!(limited["obstacle"]["kind"], "usage_limit");
    assert!(limited["obstacle"]["until"].is_string());
    let completed = &trial.lines("completed")[0];
    assert!(completed["cost_usd"].as_f64() > Some(0.0), "{completed}");
    assert_eq!(completed["tools"], json!({"Bash": 1, "Edit": 1}));
    trial.run(["show", "a"]).stdout_has("Tools:\n  Bash 1\n  Edit 1\n");
    assert!(completed["tokens"]["output"].as_u64() > Some(0), "{completed}");
    assert!(trial.read("logs/attempts/a/2/prompt.md").contains("This is attempt 2 at the task."));
    assert!(!trial.read("logs/attempts/a/2/prompt.md").contains("have failed"));
}

#[test]
fn a_network_that_is_out_is_waited_for() {
    let trial = speaking("claude-network:1 claude-success:0");
    let run = trial.start(["run"]);
    until("it waits", || run.said().contains("the provider cannot be reached"));
    until("it waits", || run.said().contains("waiting until"));
    trial.run(["resume", "--now"]).whatever();
    run.end(&trial).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.lines("rate_limited")[0]["obstacle"]["kind"], "network");
}

#[test]
fn several_that_meet_one_limit_wait_once_and_others_go_on() {
    // Each of the three ends when all of them are at work.
    let meet = "cat > /dev/null; touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"; \
                until [ -e \"$TRIAL_DIR/at-a\" ] && [ -e \"$TRIAL_DIR/at-b\" ] && \
                [ -e \"$TRIAL_DIR/at-c\" ]; do sleep 0.02; done; \
                echo 'API Error: Rate limit reached' >&2; exit 1";
    let limited = format!("{{command: [sh, -c, {}], name: limited}}", json!(meet));
    let other = format!("{{command: [{}], name: other}}", agent("commit"));
    let trial = Workspace::new()
        .file(".ralph/config.yaml", &format!("fsync: false\njobs: 3\nagent: {limited}\n"))
        .graph(&format!(
            "tasks: [{{id: a}}, {{id: b}}, {{id: c}}, {{id: d}}, {{id: e, agent: {other}}}]\n"
        ));
    let run = trial.start(["run"]);
    until("it waits", || run.said().contains("waiting until"));
    run.signal(Signal::INT);
    run.end(&trial).whatever().code(130);
    assert_eq!(trial.tasks("started"), ["a", "b", "c", "e"]);
    assert_eq!(trial.tasks("completed"), ["e"]);
    let time =
        |value: &serde_json::Value| value.as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    for line in trial.lines("rate_limited") {
        let pause = time(&line["obstacle"]["until"]) - time(&line["timestamp"]);
        assert!(pause.num_seconds() <= 60, "the first step of the waiting: {line}");
    }
    assert_eq!(trial.lines("rate_limited").len(), 3);
}

#[test]
fn nobody_waits_longer_than_the_limit_says() {
    let trial = speaking("claude-usage-limit:1");
    trial.run(["run", "--max-wait", "1s"]).code(2).stderr_has("of waiting reached (exit code 2)");
    // The limit is remembered: the next run does not spend an attempt to learn of it again.
    trial.run(["run", "--max-wait", "1s"]).code(2).stderr_has("of waiting reached");
    assert_eq!(trial.lines("started").len(), 1);
    let run = trial.start(["run", "--max-wait", "1000000h"]);
    until("it waits", || run.said().contains("waiting until"));
    run.signal(Signal::INT);
    run.end(&trial).whatever().code(130);
}

#[test]
fn a_refused_key_stops_the_run_and_costs_no_attempt() {
    let trial = speaking("claude-authentication:1 claude-success:0");
    trial
        .run(["run"])
        .code(77)
        .stderr_has("`streams`: the agent is not logged in, or its key is refused (exit code 77)");
    assert_eq!(trial.lines("denied")[0]["obstacle"]["kind"], "authentication");
    assert_eq!(trial.status("a"), "pending");
    trial.run(["dag-status"]).stdout_has("a");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
}

#[test]
fn the_next_agent_of_the_list_goes_on() {
    let one = |name: &str, streams: &str| {
        format!(
            "{{command: [{}], output: claude-json, name: {name}, env: {{NAME: {name}, STREAMS: \"{streams}\"}}}}",
            agent("streams")
        )
    };
    let (first, second) =
        (one("first", "claude-credit:1"), one("second", "claude-success:0 claude-success:0"));
    let trial = Workspace::new()
        .file(".ralph/config.yaml", &format!("fsync: false\nagent: [{first}, {second}]\n"))
        .graph("tasks: [{id: a}, {id: b}]\n");
    trial.run(["run", "-q"]).whatever();
    let agents = |action: &str| -> Vec<_> {
        trial.lines(action).iter().map(|line| line["agent"].clone()).collect()
    };
    assert_eq!(
        (agents("denied"), agents("completed")),
        (vec![json!("first")], vec![json!("second"); 2])
    );
}

#[test]
fn a_task_may_have_an_agent_of_its_own() {
    let own = format!("{{command: [{}], name: own}}", agent("commit"));
    let trial = Workspace::new()
        .file(".ralph/config.yaml", &format!("fsync: false\nagent: [{}]\n", agent("fail")))
        .graph(&format!("tasks:\n  - id: a\n    agent: {own}\n"));
    trial.run(["run", "-q"]).whatever();
    assert_eq!(trial.lines("completed")[0]["agent"], "own");

    let trial = Workspace::new().graph("tasks: [{id: a, agent: no-such-agent}]\n");
    trial.run(["run"]).code(69).stderr_has("change `agent` of `a`, or name one for all after `--`");
    trial.agent("commit").run(["run"]).stderr_has("the graph is complete");
    let trial = Workspace::new().graph("tasks:\n  - id: a\n    agent: {preset: cluade}\n");
    trial.run(["run"]).code(65).stderr_has("unknown preset `cluade`; did you mean `claude`?");
}

#[test]
fn words_about_limits_are_none() {
    let trial = speaking("claude-quotes-limits:0");
    trial.run(["run", "--once"]).code(1).stderr_has("a incomplete after [took]");
}

#[test]
fn an_agent_that_stays_after_its_result_is_ended_and_its_work_counts() {
    let trial = speaking("claude-success:stay");
    trial.run(["run"]).stderr_has("ending a: it gave its final result and did not exit");
    assert_eq!(trial.lines("completed")[0]["outcome"], "lingered");
    trial.nobody_is_left();
}

#[test]
fn an_agent_is_named_by_flag() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").env("IS_SANDBOX", "1");
    trial.run(["run", "--agent", "codex"]).code(69).stderr_has("`codex` is not on PATH; name");
    trial.run(["run", "--agent", "codex x"]).code(64).stderr_has("`agent: [codex, x]`");
}

#[test]
fn a_budget_stops_the_run_when_the_attempt_is_over() {
    let streams = "claude-success:0 claude-success:0 claude-success:0";
    let trial = speaking(streams).graph("tasks: [{id: a, story: s}, {id: b}, {id: c}, {id: d}]\n");
    let cost = |trial: &Workspace| trial.lines("completed")[0]["cost_usd"].as_f64().unwrap();
    trial.run(["run", "--max-cost", "0.0001"]).code(2).stderr_has("of $0.0001 for a run (");
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.run(["run", "--max-tokens", "1"]).code(2).stderr_has("the limit of 1 tokens for a run (");
    trial.run(["run", "--max-duration", "1ms", "-q"]).code(2).stderr_has("for a run reached");
    let by_day = "fsync: false\nmax_cost_per_day: 0.01\n";
    let trial = trial.file(".ralph/config.yaml", by_day).agent("commit");
    trial.run(["run"]).code(2).stderr_has("the limit of $0.0100 for 24 hours (");
    trial
        .run(["run", "--max-cost", "nothing"])
        .code(64)
        .stderr_has("a sum above 0, such as `2.50`");

    // The shortest run may be over before its first attempt.
    let attempts = trial.lines("completed").len();
    assert!((2..4).contains(&attempts));
    let sums = trial.run(["costs", "--by", "story", "--json"]).json();
    assert_eq!(sums["total"]["cost_usd"].as_f64(), Some(cost(&trial) * attempts as f64));
    assert_eq!(sums["sums"][1]["name"], "s");
    trial.run(["costs", "--by", "agent"]).stdout_has(&format!("streams  {attempts}"));
    trial.run(["status"]).stdout_has("Iteration: 0 of 50");
}

#[test]
fn a_resumed_run_has_the_budget_that_it_had() {
    let trial = speaking("claude-success:0 claude-success:0 claude-success:0")
        .graph("tasks: [{id: a}, {id: b}, {id: c}]\n");
    trial.run(["run", "--max-cost", "0.0001", "-q"]).whatever().code(2);
    trial.run(["pause"]).whatever();
    trial.run(["resume"]).code(2).stderr_has("of $0.0001 for a run (");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_task_may_have_a_budget_of_its_own() {
    let trial = speaking("claude-quotes-limits:0 claude-success:0")
        .graph("tasks: [{id: a, max_cost: 0.0001}, {id: b, depends_on: [a]}]\n");
    trial.run(["run"]).code(3).stderr_has("a: out of money: $");
    trial.run(["task-reset", "a"]).whatever();
    trial.run(["run", "--task", "a", "-q"]).whatever();
    assert_eq!(trial.status("a"), "complete");
    trial.run(["costs"]).stdout_has("a  2         ");
}

#[test]
fn what_an_agent_does_not_say_is_unknown() {
    let trial = Workspace::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["run", "-q"]).whatever();
    trial.run(["costs"]).stdout_has("unknown  unknown  unknown  unknown");
    assert!(trial.run(["costs", "--json"]).json()["total"]["cost_usd"].is_null());
}

#[test]
fn a_promise_counts_only_if_the_graph_agrees() {
    let script = "\"$0\"; echo '<promise>COMPLETE</promise>'";
    let commit = agent("commit");
    let two = "tasks: [{id: a}, {id: b}]\n";
    let trial = Workspace::new().graph(two).command(["sh", "-c", script, &commit]);
    trial.run(["run"]).stderr_has("it promised that all is done; the graph does not agree");
    let kept: Vec<_> = trial.lines("promised").iter().map(|line| line["kept"].clone()).collect();
    assert_eq!(kept, [json!(false), json!(true)]);

    let trial = Workspace::new()
        .file(".ralph/config.yaml", "fsync: false\npromise: trust\n")
        .graph(two)
        .command(["sh", "-c", script, &commit]);
    trial.run(["run"]).stderr_has("done by the word of the agent (`promise: trust`) (exit code 0)");
    assert_eq!(trial.tasks("completed"), ["a"]);

    let trial =
        Workspace::new().graph(two).command(["sh", "-c", "\"$0\"; echo ALL  GREEN", &commit]);
    trial.run(["run", "-q", "--done-pattern", "^ALL +GREEN$"]).whatever();
    assert_eq!(trial.lines("promised").len(), 2);
    trial.run(["run", "--done-pattern", "("]).code(64).stderr_has("`(` is no pattern");
}
