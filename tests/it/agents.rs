//! What real agents say in their typed output: limits, refusals, costs, and that they are done.

use std::{fs, os::unix::fs::PermissionsExt, thread, time::Duration};

use chrono::{DateTime, Utc};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{SETTINGS, TestProject, agent, until};

/// A project whose agent speaks as Claude Code does, one stream after the other.
fn speaking(streams: &str) -> TestProject {
    let config = format!(
        "grace: 200ms\nexit_grace: 300ms\nagent: {{command: [{}], output: claude-json}}\n",
        agent("streams")
    );
    TestProject::new()
        .file(".ralph/config.yaml", &config)
        .graph("tasks: [{id: a}]\n")
        .env("STREAMS", streams)
}

#[test]
fn a_usage_limit_is_waited_for_and_costs_no_attempt() {
    let trial = speaking("claude-usage-limit:1 claude-success:0");
    let run = trial.start(["run", "--max-wait", "1000000h"]);
    trial.wait_for_records(1, "waiting");
    trial.run(["dag-status"]).stdout_has("  a  rate-limited until ");
    trial.run(["resume", "--now"]);
    trial.assert_record("resume_requested", &json!({"now": true}));
    run.end(&trial).graph_complete();
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
    trial.wait_for_records(1, "waiting");
    trial.run(["resume", "--now"]);
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("rate_limited")[0]["obstacle"]["kind"], "network");
}

#[test]
fn several_that_meet_one_limit_wait_once_and_others_go_on() {
    // Each of the three ends when all three are running.
    let meet = "cat > /dev/null; touch \"$TRIAL_DIR/at-$RALPH_TASK_ID\"; \
                until [ -e \"$TRIAL_DIR/at-a\" ] && [ -e \"$TRIAL_DIR/at-b\" ] && \
                [ -e \"$TRIAL_DIR/at-c\" ]; do sleep 0.02; done; \
                echo 'API Error: Rate limit reached' >&2; exit 1";
    let limited = format!("{{command: [sh, -c, {}], name: limited}}", json!(meet));
    let other = format!("{{command: [{}], name: other}}", agent("commit"));
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("jobs: 3\nagent: {limited}\n"))
        .graph(&format!(
            "tasks: [{{id: a}}, {{id: b}}, {{id: c}}, {{id: d}}, {{id: e, agent: {other}}}]\n"
        ));
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "waiting");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
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
fn waiting_is_bounded_by_max_wait() {
    let trial = speaking("claude-usage-limit:1");
    trial
        .run(["run", "--max-wait", "1s"])
        .code(2)
        .stderr_has("weekly limit resets ")
        .stderr_has(", beyond `max_wait` ([took]); run again then, or `--max-wait ");
    trial.assert_record("rate_limited", &json!({"why": "the account reached its weekly limit"}));
    assert_eq!(trial.lines("rate_limited")[0]["obstacle"]["window"], "weekly");
    let said = trial.run(["status", "--json"]).json();
    let [most, begun] = [&said["limits"]["max_iterations"], &said["iteration"]];
    assert_eq!(most.as_u64().unwrap() - begun.as_u64().unwrap(), 50);
    let why = trial.lines("finished")[0]["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("weekly limit resets "), "{why}");
    // The limit is remembered: the next run spends no attempt to find it again.
    trial.run(["run", "--max-wait", "1s"]).code(2);
    assert_eq!((trial.lines("started").len(), trial.lines("finished").len()), (1, 2));
    let before = trial.lines("waiting").len();
    let run = trial.start(["run", "--max-wait", "1000000h"]);
    trial.wait_for_records(before + 1, "waiting");
    run.signal(Signal::INT);
    run.end(&trial).code(130);
}

#[test]
fn a_refused_key_stops_the_run_and_costs_no_attempt() {
    let trial = speaking("claude-authentication:1 claude-success:0");
    trial
        .run(["run"])
        .code(77)
        .stderr_has(
            "`streams`: authentication failed: no login, or a rejected key; log in to `streams`",
        )
        .stderr_has(", then run again (exit code 77)");
    assert_eq!(trial.lines("denied")[0]["obstacle"]["kind"], "authentication");
    assert_eq!(trial.status("a"), "pending");
    trial.run(["run"]).graph_complete();
}

#[test]
fn limits_of_one_attempt_keep_the_code_of_a_refused_key() {
    for limit in [&["run", "--once"][..], &["run", "--max-iterations", "1"]] {
        let trial = speaking("claude-authentication:1");
        trial.run(limit).code(77).stderr_has("log in to `streams`");
    }
}

/// A project whose agent is this shell script, with typed output, and the settings in use unless a
/// test changes them.
fn script(script: &str) -> TestProject {
    let agent = format!("{{command: [sh, -c, {}], output: claude-json}}", json!(script));
    TestProject::new()
        .file(".ralph/config.yaml", &format!("grace: 4s\nagent: {agent}\n"))
        .graph("tasks: [{id: a}]\n")
}

#[test]
#[ignore = "slow"]
fn refusals_and_long_prompts_count_for_their_task_and_show_that_the_agent_starts() {
    for error in [
        r#""result":"API Error: The safeguards flagged this message","stop_reason":"refusal""#,
        r#""result":"Prompt is too long","terminal_reason":"prompt_too_long""#,
        r#""result":"API Error: the output token maximum","api_error":"max_output_tokens""#,
    ] {
        let trial = script(&format!(
            "cat > /dev/null; echo '{{\"type\":\"result\",\"is_error\":true,{error}}}'; exit 1"
        ));
        trial.run(["run"]).code(3);
        assert_eq!((trial.lines("failed").len(), trial.lines("parked").len()), (3, 1));
    }
}

#[test]
fn a_provider_that_never_answers_is_waited_for_and_costs_no_attempt() {
    let begin = r#"echo '{"type":"system","subtype":"init","model":"m"}'"#;
    let trial = script(&format!("cat > /dev/null; {begin}; exec sleep 600"));
    trial.run(["run", "--idle", "500ms", "--max-wait", "1s"]).code(2).stderr_has(
        "the provider did not answer, for longer than `max_wait` ([took]); run again after ",
    );
    assert_eq!(trial.lines("rate_limited")[0]["obstacle"]["kind"], "no_answer");
    assert!(trial.lines("failed").is_empty());
    trial.run(["dag-status"]).stdout_has("  a  rate-limited until ");
}

/// An agent that prints its result with its cost when it is interrupted, as Claude Code does.
const INTERRUPTED: &str = r#"
    trap 'echo "{\"type\":\"result\",\"subtype\":\"error_during_execution\",\"is_error\":true,\"total_cost_usd\":0.25}"; exit 0' INT
    cat > /dev/null
    echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I work."}]}}'
    while :; do sleep 0.05; done"#;

#[test]
fn the_cost_of_an_attempt_that_is_cut_off_is_known() {
    let trial = script(INTERRUPTED).graph("tasks: [{id: a, max_attempts: 1}]\n");
    trial.run(["run", "--timeout", "1s"]).code(3);
    trial.assert_record("failed", &json!({"outcome": "timed_out", "cost_usd": 0.25}));

    let trial = script(INTERRUPTED);
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let stdout = trial.root().join("logs/attempts/a/1/stdout");
    until("its message", || fs::read_to_string(&stdout).is_ok_and(|text| text.contains("I work.")));
    run.signal(Signal::INT);
    run.end(&trial).code(130);
    trial.assert_record("interrupted", &json!({"verdict": "cancelled", "cost_usd": 0.25}));
    trial.no_process_is_left();
}

#[test]
fn an_agent_that_ignores_an_interrupt_is_terminated_and_then_killed() {
    let script_text = "trap '' INT; trap 'touch \"$TRIAL_DIR/term\"; exit 0' TERM; cat > /dev/null
        echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}'
        while :; do sleep 0.05; done";
    let trial = script(script_text).graph("tasks: [{id: a, max_attempts: 1}]\n");
    trial.run(["run", "--timeout", "1s"]).code(3);
    assert!(trial.sign("term").exists());
    trial.no_process_is_left();
}

#[test]
fn the_json_of_claude_is_read_like_its_stream() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let program = trial.dir().join("bin/claude");
    let text = format!(
        "{} > /dev/null\necho '{}'",
        agent("commit"),
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.5}"#
    );
    fs::create_dir(program.parent().unwrap()).unwrap();
    trial.script(&program, &text);
    let program = program.display().to_string();
    trial.run(["run", "--", &program, "-p", "--output-format", "json"]).graph_complete();
    assert_eq!(trial.lines("started")[0]["format"], "claude-json");
    trial.assert_record("completed", &json!({"cost_usd": 0.5, "last_line": "Done."}));
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
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("agent: [{first}, {second}]\n"))
        .graph("tasks: [{id: a}, {id: b}]\n");
    trial.run(["run"]).stderr_has("  second takes over from first: the account has no credit\n");
    let changes = trial.lines("agent_changed");
    assert_eq!(changes.len(), 1, "it is said once");
    assert_eq!((&changes[0]["agent"], &changes[0]["from"]), (&json!("second"), &json!("first")));
    assert_eq!(changes[0]["obstacle"]["kind"], "credit");
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
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("agent: [{}]\n", agent("fail")))
        .graph(&format!("tasks:\n  - id: a\n    agent: {own}\n"));
    trial.run(["run", "-q"]);
    assert_eq!(trial.lines("completed")[0]["agent"], "own");

    let trial = TestProject::new().graph("tasks: [{id: a, agent: no-such-agent}]\n");
    trial.run(["run"]).code(69).stderr_has("change `agent` of `a`, or name one for all after `--`");
    trial.agent("commit").run(["run"]).graph_complete();
    let trial = TestProject::new().graph("tasks:\n  - id: a\n    agent: {preset: cluade}\n");
    trial.run(["run"]).code(65).stderr_has("unknown preset `cluade`; did you mean `claude`?");
}

/// `hard` needs the strong agent, `easy` none in particular, `data` has its own by its tag, and `own`
/// its own ladder.
#[test]
fn names_and_ladders_give_each_attempt_its_agent() {
    let does = |name: &str, work: &str| {
        let script = format!(
            "cat > /dev/null; {work}; echo {name} > $RALPH_TASK_ID; git add -A; git commit -qm work
             \"$RALPH\" task-complete $RALPH_TASK_ID"
        );
        format!("{name}: {{command: [sh, -c, {}]}}", json!(script))
    };
    let settings = format!(
        "{SETTINGS}agents:\n  {}\n  {}\nagent: fast\nescalate: [fast, fast, strong]\n\
         agent_for: {{'tag:data': strong}}\n",
        does("fast", "[ $RALPH_TASK_ID != hard ] || exit 1"),
        does("strong", "[ $RALPH_TASK_ID != own ] || exit 1"),
    );
    let trial = TestProject::new().file(".ralph/config.yaml", &settings).graph(
        "tasks: [{id: easy}, {id: hard}, {id: data, tags: [data]}, {id: own, escalate: [strong, fast]}]\n",
    );
    trial.run(["run"]).graph_complete();
    let ran = |id: &str| {
        let ended = trial.journal().into_iter();
        let ended = ended.filter(|it| it["task_id"] == id && it["verdict"].is_string());
        ended.map(|it| it["agent"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ran("easy"), ["fast"]);
    assert_eq!(ran("hard"), ["fast", "fast", "strong"]);
    assert_eq!(ran("data"), ["strong"]);
    assert_eq!(ran("own"), ["strong", "fast"]);
    let costs = trial.run(["costs", "--by", "agent", "--json"]).code(0).json();
    let names: Vec<_> = costs["sums"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["fast", "strong"]);
    for sum in costs["sums"].as_array().unwrap() {
        assert_eq!(sum["done"], 2);
    }
    trial.run(["costs", "--by", "agent"]).stdout_has("\nfast    4         2 ");
    trial.run(["costs", "--by", "model"]).stdout_has("\nunknown  7         4 ");
    trial.run(["costs", "--by", "prompt"]).stdout_has("\ntask.md  7         4 ");
}

#[test]
fn a_name_that_is_none_is_an_error_before_anything_runs() {
    for (settings, error) in [
        ("agents: {fast: claude}\nagent: [fast, strnog]\n", "`strnog` is neither one of `agents`"),
        ("agents: {fast: [claude, codex]}\n", "`fast` must be one agent"),
        ("agent_for: {db: claude}\n", "`db` must begin with `tag:`, `story:`, `complexity:`"),
        ("escalate: [nowhere-to-be-found]\n", "nowhere-to-be-found"),
        ("agents:\n  fast: claud\n", "did you mean `claude`?"),
        ("escalate: cdoex\n", "did you mean `codex`?"),
        ("agent_for: {'tag:db': gemeni}\n", "did you mean `gemini`?"),
        ("review: {by: calude}\n", "did you mean `claude`?"),
    ] {
        let trial = TestProject::new().graph("tasks: [{id: a}]\n");
        let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}{settings}"));
        let ran = trial.run(["run"]);
        let is_setting = !settings.contains("nowhere");
        let ran = ran.code(if is_setting { 65 } else { 69 }).whole();
        assert!(ran.contains(error), "{settings}: {ran}");
        if is_setting {
            let line = SETTINGS.lines().count() + settings.trim().lines().count();
            assert!(ran.contains(&format!("--> .ralph/config.yaml:{line}:")), "{settings}: {ran}");
            trial.run(["check"]).code(65).stderr_has(error);
        }
        assert!(!trial.root().join("logs/attempts").exists(), "{settings}");
    }
    let trial = TestProject::new().agent("commit").env("RALPH_ESCALATE", "claud");
    trial
        .run(["check"])
        .code(65)
        .stderr_has("RALPH_ESCALATE: `escalate`: there is no agent `claud`");
}

#[test]
fn a_misspelled_agent_of_a_task_is_an_error_in_the_graph() {
    let graph = "tasks:\n  - id: a\n    agent: claud\n  - {id: b, escalate: [codex, claude, calude]}\n  - {id: c, agent: claud, status: complete}\n";
    let trial = TestProject::new().graph(graph);
    for command in [&["check"][..], &["run"]] {
        let ran = trial.run(command).code(65);
        ran.stderr_has("task-graph.yaml:3:12")
            .stderr_has("`agent`: there is no agent `claud`; did you mean `claude`?");
    }
    trial.run(["doctor"]).code(69).stdout_has("there is no agent `claud`");
    let trial = trial.graph("tasks:\n  - {id: a, agent: sh}\n  - {id: b, run_on: sandbx}\n");
    trial
        .run(["check"])
        .code(65)
        .stderr_has("task-graph.yaml:3:")
        .stderr_has("did you mean `sandbox`?");
    trial.graph("tasks:\n  - {id: a, agent: sh}\n").run(["check"]).code(0);
}

#[test]
fn text_about_limits_is_not_a_limit() {
    let trial = speaking("claude-quotes-limits:0");
    trial.run(["run", "--once"]).code(1);
    trial.assert_record("failed", &json!({"task_id": "a", "verdict": "incomplete"}));
    assert!(trial.lines("rate_limited").is_empty());
}

#[test]
fn an_agent_that_stays_after_its_result_is_ended_and_its_work_counts() {
    let trial = speaking("claude-success:stay");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("terminating"), ["a"]);
    assert_eq!(trial.lines("completed")[0]["outcome"], "lingered");
    trial.no_process_is_left();
}

#[test]
fn an_agent_that_stays_after_any_report_is_ended_and_its_work_counts() {
    for report in [
        "\"$RALPH\" task-complete a",
        "touch \"$RALPH_TASK_DIR/DONE\"",
        "sed 's/status: .*/status: complete/' task-graph.yaml > ../new; mv ../new task-graph.yaml",
    ] {
        for mode in [&["run"][..], &["run", "--in-place"]] {
            let script = format!(
                "cat > /dev/null; echo work > work; git add work; git commit -qm Work; {report}
                 exec sleep 600"
            );
            let trial = TestProject::new()
                .file(".ralph/config.yaml", &format!("{SETTINGS}exit_grace: 300ms\n"))
                .graph("tasks:\n  - id: a\n    status: pending\n")
                .command(["sh", "-c", &script]);
            trial.run(mode).graph_complete();
            assert_eq!(trial.lines("completed")[0]["outcome"], "lingered");
            let why = json!("it did not exit after its report");
            assert_eq!(trial.lines("terminating")[0]["why"], why);
            trial.no_process_is_left();
        }
    }
}

#[test]
fn an_agent_that_starts_turns_after_its_report_is_interrupted_and_its_cost_counts() {
    let result = "{\"type\": \"result\", \"subtype\": \"error_during_execution\", \"is_error\": true, \
                  \"total_cost_usd\": 1.25}";
    let turn = "{\"type\": \"assistant\", \"message\": {\"content\": [{\"type\": \"text\", \"text\": \"'$i'\"}]}}";
    let between = result.replace("error_during_execution", "success").replace("true", "false");
    let script = format!(
        "cat > /dev/null; trap \"echo '{}'; exit 0\" INT
        echo work > work; git add work; git commit -qm Work; \"$RALPH\" task-complete a
        while :; do i=$((i + 1)); echo '{turn}'; sleep 0.05; [ $i != 2 ] || echo '{between}'; done",
        result.replace('"', "\\\""),
    );
    let agent = format!("{{command: [bash, -c, {}], output: claude-json}}", json!(script));
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}exit_grace: 1s\nagent: {agent}\n"))
        .graph("tasks: [{id: a}]\n");
    trial.run(["run"]).graph_complete();
    let completed = &trial.lines("completed")[0];
    assert_eq!((&completed["outcome"], &completed["cost_usd"]), (&json!("lingered"), &json!(1.25)));
    assert_eq!(trial.lines("terminating")[0]["why"], "it did not exit after its report");
    trial.no_process_is_left();
}

#[test]
fn children_have_their_own_limit_after_the_report() {
    let script = "cat > /dev/null; echo work > work; git add work; git commit -qm Work
        \"$RALPH\" task-complete a
        (until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.05; done; touch \"$TRIAL_DIR/ended\") &";
    let settings = SETTINGS.replace("child_wait_timeout: 0s", "child_wait_timeout: 10m");
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{settings}exit_grace: 1s\n"))
        .graph("tasks: [{id: a}]\n")
        .command(["sh", "-c", script]);
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "waiting_for_children");
    // Another turn of the run is past the grace.
    thread::sleep(Duration::from_secs(1));
    trial.run(["task-block", "a", "--reason", "x"]).code(5);
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert!(trial.sign("ended").exists());
    assert_eq!(trial.tasks("terminating"), [""; 0]);
}

#[test]
fn an_agent_is_named_by_flag() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").env("IS_SANDBOX", "1");
    trial
        .run(["run", "--agent", "codex"])
        .code(69)
        .stderr_has("`codex` is not on PATH; install it with `npm install -g @openai/codex`, name");
    trial.run(["run", "--agent", "codex x"]).code(64).stderr_has("`agent: [codex, x]`");
}

#[test]
fn a_budget_stops_the_run_when_the_attempt_is_over() {
    let streams = "claude-success:0 claude-success:0 claude-success:0";
    let trial = speaking(streams).graph("tasks: [{id: a, story: s}, {id: b}, {id: c}, {id: d}]\n");
    let cost = |trial: &TestProject| trial.lines("completed")[0]["cost_usd"].as_f64().unwrap();
    trial
        .run(["run", "--max-cost", "0.0001"])
        .code(2)
        .stderr_has("limit reached: $0.0001 per run (");
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.run(["run", "--max-tokens", "1"]).code(2).stderr_has("limit reached: 1 tokens per run (");
    trial.run(["run", "--max-duration", "1ms", "-q"]).code(2);
    trial
        .run(["run", "--max-cost", "nothing"])
        .code(64)
        .stderr_has("expected an amount above 0, such as `2.50`");

    // The shortest run may be over before its first attempt.
    let attempts = trial.lines("completed").len();
    assert!((2..4).contains(&attempts));
    let sums = trial.run(["costs", "--by", "story", "--json"]).json();
    assert_eq!(sums["total"]["cost_usd"].as_f64(), Some(cost(&trial) * attempts as f64));
    assert_eq!(sums["sums"][1]["name"], "s");
    trial.run(["costs", "--by", "agent"]).stdout_has(&format!("streams  {attempts}"));
    let said = trial.run(["status", "--json"]).json();
    let [most, begun] = [&said["limits"]["max_iterations"], &said["iteration"]];
    assert_eq!(most.as_u64().unwrap() - begun.as_u64().unwrap(), 50);
}

#[test]
fn the_cost_of_an_agent_counts_while_its_work_is_verified() {
    let script = "cat > /dev/null; echo work > $RALPH_TASK_ID; git add -A; git commit -qm Work
        \"$RALPH\" task-complete $RALPH_TASK_ID
        echo '{\"type\": \"result\", \"subtype\": \"success\", \"result\": \"\", \"total_cost_usd\": 1, \
        \"usage\": {\"input_tokens\": 600, \"output_tokens\": 400}}'";
    let agent = format!("{{command: [sh, -c, {}], output: claude-json}}", json!(script));
    let verify = "[ $RALPH_TASK_ID != a ] || until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.05; done";
    for (limit, reached) in [
        ("max_cost: 0.5", "limit reached: $0.50"),
        ("max_tokens: 2000", "limit reached: 2000 tokens"),
    ] {
        let config =
            format!("{SETTINGS}jobs: 2\n{limit}\nverify: {}\nagent: {agent}\n", json!(verify));
        let trial = TestProject::new()
            .file(".ralph/config.yaml", &config)
            .graph("tasks: [{id: a}, {id: b}, {id: c}, {id: d}]\n");
        let run = trial.start(["run"]);
        trial.wait_for_records(2, "agent_ended");
        trial.run(["status", "--json"]).stdout_has("\"cost_usd\": 2.0");
        trial.leave("open");
        run.end(&trial).code(2).stderr_has(reached);
        assert_eq!(trial.tasks("started"), ["a", "b"]);
        let costs = trial.run(["costs", "--json"]).json();
        assert_eq!(costs["total"]["cost_usd"], 2.0);
    }
}

/// As far as an agent says what it uses while it works.
#[test]
fn an_attempt_ends_at_the_limit_that_its_usage_reaches() {
    let claude = json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [],
        "usage": {"input_tokens": 600, "output_tokens": 400}}});
    let opencode = json!({"type": "step_finish", "part": {"type": "step-finish", "cost": 0.3,
        "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}}});
    for (output, event, limit, reached) in [
        ("claude-json", claude, "max_tokens: 2500", "limit reached: 2500 tokens per run ("),
        ("opencode-json", opencode, "max_cost: 0.5", "limit reached: $0.50 per run ("),
    ] {
        let event = event.to_string().replace("\"m\"", "\"m'$n'\"");
        let script = format!(
            "cat > /dev/null; echo work > work
            for n in 1 2 3 4 5 6 7 8 9; do echo '{event}'; sleep 0.1; done; sleep 600"
        );
        let agent = format!("{{command: [sh, -c, {}], output: {output}}}", json!(script));
        let trial = TestProject::new()
            .file(".ralph/config.yaml", &format!("{SETTINGS}{limit}\nagent: {agent}\n"))
            .graph("tasks: [{id: a}]\n");
        trial.run(["run"]).code(2).stderr_has(reached);
        let ended = &trial.lines("interrupted")[0];
        assert_eq!(ended["outcome"], "cancelled");
        trial.run(["show", "a"]).stdout_has("State: ready");
        assert_eq!(
            trial.git(&["show", &format!("{}:work", ended["pinned"].as_str().unwrap())]),
            "work\n"
        );
        trial.no_process_is_left();
    }
}

#[test]
fn an_attempt_ends_at_the_cost_limit_of_its_task_and_others_go_on() {
    let event = json!({"type": "step_finish", "part": {"type": "step-finish", "cost": 0.3,
        "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}}});
    let script = format!(
        "cat > /dev/null; echo work > $RALPH_TASK_ID; git add -A; git commit -qm Work
        [ $RALPH_TASK_ID = a ] || exec \"$RALPH\" task-complete $RALPH_TASK_ID
        for n in 1 2 3; do echo '{event}'; done; sleep 600"
    );
    let agent = format!("{{command: [sh, -c, {}], output: opencode-json}}", json!(script));
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}agent: {agent}\n"))
        .graph("tasks: [{id: a, max_cost: 0.5}, {id: b}]\n");
    trial.run(["run"]).code(3).stderr_has("`max_cost` of its task is reached");
    assert_eq!(
        (trial.tasks("interrupted"), trial.tasks("completed")),
        (vec!["a".into()], vec!["b".into()])
    );
    trial.run(["show", "a"]).stdout_has("cost limit reached: $0.90 spent");
    trial.no_process_is_left();
}

#[test]
fn claude_is_told_what_an_attempt_may_cost() {
    let claude = "#!/bin/sh\necho \"$@\" >> \"$TRIAL_DIR/told\"; cat > /dev/null; echo \"$RALPH_TASK_ID\" > work
        [ $RALPH_TASK_ID != b ] || { echo '{\"type\": \"result\", \"subtype\": \"error_max_budget_usd\", \
        \"is_error\": true, \"total_cost_usd\": 1.3}'; exit 1; }
        git add -A; git commit -qm Work; \"$RALPH\" task-complete $RALPH_TASK_ID
        echo '{\"type\": \"result\", \"subtype\": \"success\", \"result\": \"\", \"total_cost_usd\": 0.75}'";
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}max_cost: 2\n"))
        .graph("tasks: [{id: a, max_cost: 1}, {id: b}, {id: c}]\n");
    let program = trial.sign("claude");
    fs::write(&program, claude).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let trial = trial.command([program.to_str().unwrap(), "-p", "--output-format", "stream-json"]);
    trial.run(["run"]).code(2).stderr_has("limit reached: $2.00 per run");
    let told = fs::read_to_string(trial.sign("told")).unwrap();
    let told: Vec<&str> = told.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(told, ["1.00", "1.25"], "what is left for the task, and for the run");
    // At the limit of the run the attempt has not failed.
    assert_eq!(trial.tasks("interrupted"), ["b"], "{}", trial.read("logs/ralph.jsonl"));
    let own = trial.command([
        program.to_str().unwrap(),
        "--output-format",
        "stream-json",
        "--max-budget-usd=1",
    ]);
    own.run(["run", "--max-cost", "9"]).code(3);
    let told = fs::read_to_string(own.sign("told")).unwrap();
    assert!(!told.lines().skip(2).any(|line| line.contains("9.00")), "{told}");
    assert_eq!(
        own.lines("failed").last().unwrap()["obstacle"]["kind"],
        "budget",
        "its own limit counts"
    );
}

#[test]
fn an_agent_that_waits_for_its_limit_is_not_idle() {
    let event = json!({"type": "rate_limit_event", "rate_limit_info":
        {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": "AT"}});
    let event = event.to_string().replace("\"AT\"", "'$(($(date +%s) + 4))'");
    let work = "sleep 5; echo work > work; git add work; git commit -qm Work
        \"$RALPH\" task-complete a; echo '{\"type\": \"result\", \"subtype\": \"success\"}'";
    let run = |then: &str| {
        let script = format!("cat > /dev/null; echo '{event}'; {then}");
        let agent = format!("{{command: [sh, -c, {}], output: claude-json}}", json!(script));
        let config = format!("{SETTINGS}idle: 3s\nmax_wait: 1s\nagent: {agent}\n");
        let trial = TestProject::new().file(".ralph/config.yaml", &config);
        trial.graph("tasks: [{id: a}]\n")
    };
    let trial = run(work);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("terminating"), [""; 0]);
    let trial = run("sleep 600");
    trial.run(["run"]).code(2);
    let why = trial.lines("terminating")[0]["why"].clone();
    assert!(why.as_str().unwrap().starts_with("idle for 3"), "{why}");
    let limited = &trial.lines("rate_limited")[0];
    assert_eq!(limited["obstacle"]["kind"], "usage_limit");
    assert!(limited["duration_seconds"].as_f64() > Some(5.0), "{limited}");
}

#[test]
fn the_processor_time_of_a_restless_agent_is_no_sign_of_life() {
    // Its own loop does not count, and what it runs in a group of its own does.
    let spins = "while :; do :; done";
    for (script, ends_by) in [
        (spins.to_owned(), "idle"),
        (format!("setsid timeout 6 sh -c '{spins}' & {spins}"), "idle"),
    ] {
        let trial = TestProject::new().graph("tasks: [{id: a}]\n");
        let program = trial.sign("opencode");
        trial.script(&program, &format!("cat > /dev/null; {script}"));
        let config = format!("{SETTINGS}idle: 3s\nmax_wait: 1s\nagent: [{}]\n", json!(program));
        let trial = trial.file(".ralph/config.yaml", &config);
        trial.run(["run", "--once"]).code(1);
        let ended = trial.journal().into_iter().find(|it| it["outcome"] == ends_by).unwrap();
        let is_long = ended["duration_seconds"].as_f64() > Some(6.0);
        assert_eq!(is_long, script.contains("setsid"), "{ended}");
    }
}

#[test]
fn each_run_has_its_own_budget() {
    let trial = speaking("claude-success:0 claude-success:0 claude-success:0")
        .graph("tasks: [{id: a}, {id: b}, {id: c}]\n");
    trial.run(["run", "--max-cost", "0.0001", "-q"]).code(2);
    assert_eq!(trial.tasks("completed"), ["a"]);
    trial.run(["run", "--max-cost", "0.0001", "-q"]).code(2);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_task_may_have_a_budget_of_its_own() {
    let trial = speaking("claude-quotes-limits:0 claude-success:0")
        .graph("tasks: [{id: a, max_cost: 0.0001}, {id: b, depends_on: [a]}]\n");
    trial.run(["run"]).code(3).stderr_has("a: cost limit reached: $");
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--task", "a", "-q"]);
    assert_eq!(trial.status("a"), "complete");
    trial.run(["costs"]).stdout_has("a  2         ");
}

#[test]
fn unreported_usage_is_unknown() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    trial.run(["run", "-q"]);
    trial.run(["costs"]).stdout_has("unknown  unknown  unknown  unknown");
    assert!(trial.run(["costs", "--json"]).json()["total"]["cost_usd"].is_null());
}

#[test]
fn a_promise_counts_only_if_the_graph_agrees() {
    let script = "\"$0\"; echo '<promise>COMPLETE</promise>'";
    let commit = agent("commit");
    let two = "tasks: [{id: a}, {id: b}]\n";
    let trial = TestProject::new().graph(two).command(["sh", "-c", script, &commit]);
    trial.run(["run"]).graph_complete();
    let kept: Vec<_> = trial.lines("promised").iter().map(|line| line["kept"].clone()).collect();
    assert_eq!(kept, [json!(false), json!(true)]);

    let trial = TestProject::new()
        .file(".ralph/config.yaml", "promise: trust\n")
        .graph(two)
        // A long line is read to its end.
        .command(["sh", "-c", &script.replace("'<", "$(printf %0600d 1)'<"), &commit]);
    trial.run(["run"]);
    trial.assert_record("promised", &json!({"kept": true}));
    trial.assert_record("finished", &json!({"exit_code": 0, "remaining": 1}));
    assert_eq!(trial.tasks("completed"), ["a"]);

    let trial =
        TestProject::new().graph(two).command(["sh", "-c", "\"$0\"; echo ALL  GREEN", &commit]);
    trial.run(["run", "-q", "--done-pattern", "^ALL +GREEN$"]);
    assert_eq!(trial.lines("promised").len(), 2);
    trial.run(["run", "--done-pattern", "("]).code(64).stderr_has("`(` is not a valid pattern");
}

#[test]
fn an_agent_that_can_only_edit_files_reports_in_the_graph() {
    for place in ["slot", "checkout"] {
        let trial = TestProject::new()
            .graph("tasks:\n  - id: a\n    status: pending\n")
            .file(".gitignore", "/.ralph/tasks/\n")
            .agent("aider")
            .env("RALPH_ISOLATION", place);
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.lines("completed")[0]["report"], "graph", "{place}");
        assert_eq!(trial.tasks("started"), ["a"], "{place}");
        let prompt = fs::read_to_string(trial.sign("prompt-a")).unwrap();
        assert!(!prompt.contains("task-complete") && !prompt.contains("DONE"), "{prompt}");
    }
    // `ralph prompt` shows the prompt of the agent that is next.
    let trial = TestProject::new().graph("tasks: [{id: a, agent: aider}, {id: b}]\n");
    trial.run(["prompt", "a"]).stdout_has("set `status: complete`");
    trial.run(["prompt", "b"]).stdout_has("task-complete b");
}
