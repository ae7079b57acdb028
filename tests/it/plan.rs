//! `ralph plan`: the forecast of a run.

use crate::support::{DIAMOND, TestProject};

const GRAPH: &str = "\
tasks:
  - {id: a, title: The base, estimate: 1h}
  - {id: b, title: On it, estimate: 2h, depends_on: [a]}
  - {id: c, title: Beside it, estimate: 30m, tags: [side]}
  - {id: d, title: Also beside it, estimate: 30m, tags: [side]}
  - {id: e, title: Held, status: blocked}
  - {id: f, title: Waits for it, depends_on: [e]}
";

#[test]
fn the_plan_lists_tasks_in_order() {
    let trial = TestProject::new().graph(GRAPH);
    let page = trial.process(crate::support::RALPH).args(["plan"]).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    let head = "6 tasks, 6 open, longest chain 2 · 1 job\na run would not start: the agent cannot be started: \
                `claude` is not on PATH";
    assert!(page.starts_with(head), "{page}");
    assert!(!page.contains("the run ends"), "{page}");
    let last = "\nin order:\n  a  The base\n  b  On it\n  c  Beside it\n  d  Also beside it\n  f  Waits for \
                it  (waiting on e (blocked))\n";
    assert!(page.ends_with(last), "{page}");
    let plan = trial.run(["plan", "--json"]).json();
    assert_eq!((&plan["count"], &plan["jobs"]), (&4.into(), &1.into()));
    assert!(plan["order"][0]["starts_at"].is_null(), "no attempt has ended");
    assert_eq!(plan["chain"], serde_json::json!(["a", "b"]));
    let part = trial.run(["plan", "--tag", "side", "--json"]).json();
    assert_eq!(part["count"], 2);
}

/// Times are those of the attempts that have ended; the tasks end when the run does.
#[test]
fn past_attempts_say_how_long_tasks_take() {
    let graph: String = (0..5).map(|n| format!("  - {{id: t{n}, estimate: 1h}}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{graph}")).agent("commit");
    trial.run(["run", "-q", "--max-iterations", "3"]).code(2);
    let plan = trial.run(["plan", "--agent", "cat", "--json"]).json();
    let night = &plan["night"];
    assert_eq!((&night["learned_from"], &night["reasons"][0]["exit_code"]), (&3.into(), &0.into()));
    assert!(night["seconds"].as_f64().unwrap() < 600.0, "an hour's task took no time");
    assert_eq!(plan["order"][1]["ends_at"], night["ends_at"]["middle"]);
    trial.run(["plan", "--agent", "cat"]).stdout_has("the run ends between ");
    trial.run(["run", "-q"]);
    trial.run(["plan"]).stdout("nothing is left that can be done\n");
}

#[test]
fn a_night_is_foreseen_with_what_would_end_it() {
    let graph = "tasks:\n  - {id: a, touches: [mine]}\n  - {id: b, depends_on: [a]}\n  - {id: c}\n  \
                 - {id: choice, status: needs-input}\n  - {id: after, depends_on: [choice]}\n";
    let trial = TestProject::new().graph(graph).agent("commit");
    trial.write("mine", "1\n");
    for flag in ["--serve", "--tmux", "--detach", "--wait", "-q"] {
        trial.run(["plan", flag]).code(64);
    }
    let before = trial.graph_text();
    trial
        .run(["plan", "--agent", "cat"])
        .stdout_has(
            "not known before an attempt has ended here: choice (needs input) holds 2 tasks",
        )
        .stdout_has("not committed, so attempts do not have it: `mine`; commit or stash it")
        .stdout_has("once work changes it, as 1 task says it will");
    let limited = trial.run(["plan", "--agent", "cat", "--max-iterations", "2"]);
    limited.stdout_has("limit reached: 2 iterations").stdout_has("`--max-iterations 50`");
    trial.git(&["checkout", "--quiet", "--detach"]);
    let refused = trial.run(["plan", "--agent", "cat"]);
    let refused = refused.stdout_has("a run would not start: attempts start").out();
    assert!(!refused.contains("the run ends"), "{refused}");
    trial.git(&["checkout", "--quiet", "main"]);
    let seen =
        trial.run(["plan", "--agent", "cat", "--max-iterations", "2", "--json"]).json()["night"]
            .clone();
    assert_eq!(seen["reasons"][0]["exit_code"], 2);
    assert_eq!((&seen["open"], &seen["learned_from"]), (&5.into(), &0.into()));
    assert_eq!(trial.graph_text(), before);
    assert!(!trial.root().join("logs").exists(), "it changes nothing");
    // It learns from what has ended.
    trial.run(["run", "--max-iterations", "2"]).code(2).stderr_has("limit reached: 2 iterations");
    let seen = trial.run(["tonight", "--agent", "cat", "--json"]).json()["night"].clone();
    assert_eq!((&seen["learned_from"], &seen["open"]), (&2.into(), &3.into()));
    trial.run(["plan", "--agent", "cat"]).stdout_has("(learned from 2 attempts only)");
    trial.run(["answer", "choice", "yes"]);
    // The tasks and the run end at the same time.
    let seen = trial.run(["status", "--json"]).json();
    let tasks = seen["upcoming"].as_array().unwrap().iter();
    let last = tasks.filter_map(|task| task["ends_at"].as_str()).max();
    assert_eq!(last, seen["forecast"]["ends_at"]["middle"].as_str());
    trial.run(["run"]).graph_complete();
    trial.run(["plan"]).stdout("nothing is left that can be done\n");
}

/// The next run releases it, whatever was committed and cloned.
#[test]
fn a_claim_of_a_run_that_is_over_keeps_nothing_from_a_forecast() {
    let graph = "tasks:\n- {id: a, status: in-progress, claimed_by: ralph 20260101T000000Z-1}\n";
    let trial = TestProject::new().graph(graph).agent("commit");
    let plan = trial.run(["plan", "--json"]).json();
    assert_eq!(plan["order"][0]["id"], "a");
    let seen = trial.run(["tonight", "--agent", "cat", "--json"]).json()["night"].clone();
    assert_eq!(seen["reasons"][0]["exit_code"], 0);
    trial.run(["run"]).graph_complete();
}

#[test]
fn the_rest_of_a_run_is_foreseen_while_it_goes_on() {
    let trial = TestProject::new().graph(DIAMOND).agent("gate");
    let run = trial.start_until(["run"], "waiting-start");
    let seen = trial.run(["tonight", "--agent", "cat", "--json"]).json()["night"].clone();
    assert_eq!((&seen["goes_on"], &seen["open"]), (&true.into(), &4.into()));
    trial.leave("open");
    run.end(&trial).graph_complete();
}

/// Attempts that all failed are not expected to succeed, and each rung of a ladder has its own costs.
#[test]
fn a_plan_has_the_odds_and_the_costs_of_the_attempts_so_far() {
    let graph: String = (0..12).map(|n| format!("- {{id: t{n}}}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{graph}"));
    let script = "cat > /dev/null; [ $0 = dear ] && touch \"$RALPH_TASK_ID\"; [ $0 = dear ] && \"$RALPH\" task-complete \
                  \"$RALPH_TASK_ID\"; echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
                  \"result\":\"ok\",\"total_cost_usd\":'$1'}'";
    let agent = |name: &str, cost: &str| {
        let command = serde_json::json!(["sh", "-c", script, name, cost]);
        format!("  {name}: {{command: {command}, output: claude-json}}\n")
    };
    let agents = format!("agents:\n{}{}", agent("cheap", "0.5"), agent("dear", "5"));
    let set = |more: &str| {
        let settings = format!("{}{agents}follow_ups: 0\n{more}", crate::support::SETTINGS);
        trial.write(".ralph/config.yaml", &settings);
    };
    set("agent: cheap\n");
    trial.run(["run", "-q"]).code(1);
    let night = |jobs: &str| trial.run(["plan", "--json", "--jobs", jobs]).json()["night"].clone();
    assert_eq!(night("1")["reasons"][0]["exit_code"], 1, "five failed in a row");
    set("escalate: [cheap, dear]\n");
    trial.run(["run", "-q", "--task", "t10"]).code(0);
    let cost = night("2")["cost_usd"]["high"].clone();
    assert!(cost.as_f64().is_some_and(|cost| cost > 5.0), "the second agent is dear: {cost}");
    trial.run(["plan"]).stdout_has("the run costs ");
}
