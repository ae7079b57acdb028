//! An agent waits for a person: its task is set aside with its question, and the others go on.

use serde_json::json;

use crate::support::Workspace;

const GRAPH: &str = "\
tasks:
  - id: ask
    title: Paint it
    priority: high
    max_attempts: 1
  - {id: after, depends_on: [ask]}
  - {id: other}
";

fn trial(way: &str) -> Workspace {
    Workspace::new().graph(GRAPH).agent("ask").env("ASK", way)
}

#[test]
fn a_question_sets_its_task_aside_until_it_is_answered() {
    let trial = trial("file");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r"
    exit code 4
    --- stderr ---
    [time]  3 tasks, 0 complete
    [time]  Iteration 1 of 50 · ask · P1 · attempt 1
    [time]    Paint it
    [time]  ask needs input after [took]
    [time]    Which colour?
    [time]    Red or blue?
    [time]    answer in the description of `ask`, then `ralph task-reset ask`; output in logs/attempts/ask/1
    [time]  Iteration 2 of 50 · other · P2 · attempt 1
    [time]    other
    [time]  other complete in [took]: reported done, and committed
    [time]    [commit] Work on other
    [time]    1 file, +1 -0
    [time]    2 left (1 waiting; 1 waiting for an answer)
    [time]  waiting for a person: `ask` needs input: Which colour? (exit code 4)
    [time]  1 completed in 2 attempts, [took]; 1 of 3 done
    [time]    + other: [commit] Work on other
    [time]  left:
    [time]    - ask: needs input: Which colour?; 1 other waits for it
    [time]    next: answer in the description of `ask`, then `ralph task-reset ask`
    ");
    assert_eq!(trial.status("ask"), "needs-input");
    let ended = trial.lines("needs_input").remove(0);
    assert_eq!(ended["question"], "Which colour?\nRed or blue?");
    assert_eq!(ended["verdict"], "needs-input");
    let change = trial.lines("status_changed");
    assert!(change.iter().any(|line| line["new"] == "needs-input" && line["cause"] == "asked"));

    let standing = trial.run(["dag-status", "--json"]).json();
    assert_eq!(standing["needs_input"][0]["question"], "Which colour?\nRed or blue?");
    trial.run(["dag-status"]).stdout_has("Needs input\n  ask  Paint it  Which colour?\n");

    // Asked again only when somebody has answered.
    trial.run(["run", "-q"]).code(4).whatever();
    assert_eq!(trial.tasks("started"), ["ask", "other"]);

    let answered = trial.graph_text().replace("Paint it", "Paint it; the answer is blue");
    trial.save("task-graph.yaml", &answered);
    trial.run(["task-reset", "ask"]).stdout("ask: needs-input -> pending, attempts reset\n");
    trial.run(["run"]).stderr_has("the graph is complete (exit code 0)");
    assert!(trial.read("logs/attempts/ask/2/prompt.md").contains("Red or blue?"));
    assert_eq!(trial.lines("completed")[1]["question"], json!(null), "the old file is no question");
}

#[test]
fn exit_code_42_asks_too() {
    let trial = trial("code");
    trial
        .run(["run", "-q"])
        .code(4)
        .stderr_has("waiting for a person: `ask` needs input: I do not know which colour.");
    assert_eq!(trial.lines("needs_input")[0]["exit_code"], 42);
    assert_eq!(trial.lines("finished")[0]["exit_code"], 4);
}

#[test]
fn a_proven_report_counts_for_more() {
    let trial = trial("both");
    trial.run(["run", "-q"]).stderr_has("the graph is complete (exit code 0)");
    assert_eq!(trial.tasks("needs_input"), [""; 0]);
}

#[test]
fn beside_other_reasons_it_is_one_of_them() {
    let graph = format!("{GRAPH}  - {{id: held, status: blocked}}\n");
    let trial = trial("file").graph(&graph);
    trial.run(["run"]).code(3).stderr_has("    - ask: needs input: Which colour?; 1 other waits");
}
