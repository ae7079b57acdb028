//! `ralph plan`: the forecast of a run.

use serde_json::Value;

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
    assert!(page.contains("4 tasks to do, 4h of work; lengths as estimated"), "{page}");
    assert!(page.contains("critical path: 3h, a -> b"), "{page}");
    assert!(page.contains("by the estimates alone, since no attempt has ended here"), "{page}");
    let last = "\njobs  takes\n   1  4h\n   2  3h\nmore than 2 jobs does not help\n\nin order, one at a time:\n      \
                1h  a  The base\n      2h  b  On it\n     30m  c  Beside it\n     30m  d  Also beside it\n";
    assert!(page.ends_with(last), "{page}");
    let plan = trial.run(["plan", "--json"]).json();
    assert_eq!(plan["enough_jobs"], 2);
    let seconds = |at: usize| plan["forecasts"][at]["seconds"].as_u64().unwrap();
    assert_eq!((seconds(0), seconds(1)), (4 * 3600, 3 * 3600));
    assert!(plan["forecasts"][0]["night"].is_null(), "no attempt has ended");
    assert_eq!(plan["critical_path"]["ids"], serde_json::json!(["a", "b"]));
    let part = trial.run(["plan", "--tag", "side", "--json"]).json();
    assert_eq!(part["forecasts"][0]["seconds"], 3600);
}

#[test]
fn conflicting_tasks_take_longer() {
    let graph = "\
tasks:
  - {id: a, estimate: 1h, touches: src/**}
  - {id: b, estimate: 1h, touches: src/b.rs}
  - {id: c, estimate: 1h, tags: [db]}
  - {id: d, estimate: 1h, tags: [db]}
  - {id: e, estimate: 1h}
";
    let trial = TestProject::new().graph(graph);
    let limited = |limits: &str| {
        let settings = format!("{}jobs: 3\nlimits: {limits}\n", crate::support::SETTINGS);
        trial.write(".ralph/config.yaml", &settings);
        let plan = |jobs: &str| trial.run(["plan", "--json", "--jobs", jobs]).json();
        let hours = |plan: &Value| plan["forecasts"][0]["seconds"].as_u64().unwrap() / 3600;
        let (one, nine) = (plan("1"), plan("9"));
        (hours(&one), hours(&nine), nine["enough_jobs"].as_u64().unwrap())
    };
    assert_eq!(limited("{}"), (5, 2, 3));
    assert_eq!(limited("{db: 1}"), (5, 2, 3));
    assert_eq!(limited("{claude: 2}"), (5, 3, 2));
    assert_eq!(limited("{claude: 1}"), (5, 5, 1));
    let order = limited("{db: 1}");
    assert_eq!(order.2, 3);
    let plan = trial.run(["plan", "--json", "--jobs", "3"]).json();
    let tasks = plan["forecasts"][0]["tasks"].as_array().unwrap();
    let ids: Vec<&str> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "c", "e", "b", "d"]);
}

#[test]
fn past_attempts_say_how_long_tasks_take() {
    let graph: String = (0..5).map(|n| format!("  - {{id: t{n}, estimate: 1h}}\n")).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{graph}")).agent("commit");
    trial.run(["run", "-q", "--max-iterations", "3"]).code(2);
    let plan = trial.run(["plan", "--json", "--jobs", "1"]).json();
    assert_eq!(plan["pace"]["tasks"], 3);
    assert!(plan["pace"]["factor"].as_f64().unwrap() < 0.1, "an hour's task took no time");
    let forecast = &plan["forecasts"][0];
    assert!(forecast["seconds"].as_u64().unwrap() < 600);
    assert_eq!(forecast["night"]["learned_from"], 3);
    assert_eq!(forecast["night"]["reasons"][0]["exit_code"], 0);
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
        .run(["plan"])
        .stdout_has(
            "no attempt has ended here, and no task has an estimate): choice (needs input) holds 2 tasks",
        )
        .stdout_has("not committed, so attempts do not have it: `mine`; commit or stash it")
        .stdout_has("once work changes it, as 1 task says it will");
    let limited = trial.run(["plan", "--max-iterations", "2"]);
    limited.stdout_has("limit reached: 2 iterations").stdout_has("`--max-iterations 50`");
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.run(["plan", "--agent", "cat"]).stdout_has("a run would not start: attempts start");
    trial.git(&["checkout", "--quiet", "main"]);
    let seen = trial.run(["plan", "--max-iterations", "2", "--json"]).json()["night"].clone();
    assert_eq!(seen["reasons"][0]["exit_code"], 2);
    assert_eq!((&seen["open"], &seen["learned_from"]), (&5.into(), &0.into()));
    assert_eq!(trial.graph_text(), before);
    assert!(!trial.root().join("logs").exists(), "it changes nothing");
    // It learns from what has ended.
    trial.run(["run", "--max-iterations", "2"]).code(2).stderr_has("limit reached: 2 iterations");
    let seen = trial.run(["tonight", "--json"]).json()["night"].clone();
    assert_eq!((&seen["learned_from"], &seen["open"]), (&2.into(), &3.into()));
    trial.run(["plan"]).stdout_has("(learned from 2 attempts only)");
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
    assert_eq!(plan["forecasts"][0]["tasks"][0]["id"], "a");
    let seen = trial.run(["tonight", "--json"]).json()["night"].clone();
    assert_eq!(seen["reasons"][0]["exit_code"], 0);
    trial.run(["run"]).graph_complete();
}

#[test]
fn the_rest_of_a_run_is_foreseen_while_it_goes_on() {
    let trial = TestProject::new().graph(DIAMOND).agent("gate");
    let run = trial.start_until(["run"], "waiting-start");
    let seen = trial.run(["tonight", "--json"]).json()["night"].clone();
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
    let night = |jobs: &str| {
        trial.run(["plan", "--json", "--jobs", jobs]).json()["forecasts"][0]["night"].clone()
    };
    assert_eq!(night("1")["reasons"][0]["exit_code"], 1, "five failed in a row");
    set("escalate: [cheap, dear]\n");
    trial.run(["run", "-q", "--task", "t10"]).code(0);
    let names: Vec<String> =
        night("2")["agents"].as_array().unwrap().iter().map(|it| it["name"].to_string()).collect();
    assert_eq!(names, ["\"cheap\"", "\"dear\""]);
    trial.run(["plan"]).stdout_has("cheap: ").stdout_has("dear: ");
}
