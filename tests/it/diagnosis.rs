//! The diagnosis of tasks that ran out of attempts.

use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject, until};

/// A task `a` that fails until `base.txt` is there, and `b` after it. Its doctor does `doctor`; `more` are
/// further settings.
fn project(doctor: &str, more: &str) -> TestProject {
    let agent = "[ $RALPH_TASK_ID != a ] || [ -e base.txt ] || { echo 'no base.txt'; exit 1; }
         echo 1 > $RALPH_TASK_ID.txt; git add -A; git commit -qm work
         \"$RALPH\" task-complete $RALPH_TASK_ID";
    let doctor = format!("cat > \"$TRIAL_DIR/asked\"; {doctor}");
    let settings = format!(
        "{SETTINGS}on_parked: diagnose\ndiagnose_by: {{command: [sh, doctor], name: strong}}\n{more}"
    );
    TestProject::new()
        .graph(GRAPH)
        .file("doctor", &doctor)
        .file(".ralph/config.yaml", &settings)
        .command(["sh", "-c", agent])
}

const GRAPH: &str = "tasks:\n  - {id: a, max_attempts: 1, verify: test -e a.txt, title: A}\n  - {id: b, depends_on: a}\n";

/// A doctor that answers this.
fn says(answer: &Value) -> String {
    format!("echo 'I looked. {answer}'")
}

fn prerequisite() -> String {
    says(&json!({
        "action": "prerequisite", "why": "base.txt is missing",
        "tasks": [{"id": "base", "title": "Make base.txt", "verify": "test -e base.txt"}],
    }))
}

fn diagnosis(trial: &TestProject) -> Value {
    let ended = trial.lines("diagnosed");
    assert_eq!((trial.lines("diagnosing").len(), ended.len()), (1, 1), "{ended:?}");
    ended[0]["diagnosis"].clone()
}

fn depends_on(trial: &TestProject, id: &str) -> Value {
    trial.run(["task-show", id, "--json"]).code(0).json()["depends_on"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].clone())
        .collect()
}

#[test]
fn a_task_that_lacks_something_gets_it_and_another_round() {
    let trial = project(&prerequisite(), "");
    trial.run(["run"]).graph_complete();
    let words = json!({
        "by": "strong", "did": "prerequisite", "tasks": ["base"], "why": "base.txt is missing"
    });
    assert_eq!(diagnosis(&trial), words);
    assert_eq!(trial.tasks("started"), ["a", "base", "a", "b"]);
    assert_eq!((depends_on(&trial, "a"), depends_on(&trial, "b")), (json!(["base"]), json!(["a"])));
    let graph = trial.graph_text();
    assert!(graph.contains("added_by: a") && graph.contains("verify: test -e a.txt"), "{graph}");
    assert!(trial.subjects().contains(&"Add before a: base".to_owned()), "{:?}", trial.subjects());
    let asked = std::fs::read_to_string(trial.sign("asked")).unwrap();
    for part in ["no base.txt", "`test -e a.txt`", "at most $1.00", "Attempt 1"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    trial.run(["task-show", "a"]).code(0).stdout_has("`strong` put `base` before it: base.txt is");
    trial.run(["report"]).code(0).stdout_has("`strong` put `base` before it: base.txt is missing");
    trial.no_process_is_left();
}

#[test]
fn parts_of_a_task_come_before_it_and_its_dependents_wait_for_it() {
    let parts = says(&json!({
        "action": "split", "why": "too large",
        "tasks": [{"id": "one"}, {"id": "base", "depends_on": ["one"]}],
    }));
    let trial = project(&format!("echo 1 > base.txt; git add -A; git commit -qm x; {parts}"), "");
    trial.run(["run"]).graph_complete();
    // What the doctor wrote was kept nowhere.
    assert_eq!(trial.tasks("started"), ["a", "one", "base", "a", "b"]);
    assert_eq!(diagnosis(&trial)["tasks"], json!(["one", "base"]));
    assert_eq!((depends_on(&trial, "a"), depends_on(&trial, "b")), (json!(["base"]), json!(["a"])));
    assert!(!trial.subjects().contains(&"x".to_owned()));
    trial.no_process_is_left();
}

#[test]
fn another_agent_of_the_settings_gets_a_round() {
    let other = "echo 1 > base.txt; echo 1 > a.txt; git add -A; git commit -qm work
         \"$RALPH\" task-complete $RALPH_TASK_ID";
    let answer =
        says(&json!({"action": "agent", "agent": "other", "why": "it can write base.txt"}));
    let agents = "agents: {other: {command: [sh, other]}}\nagent: [sh, -c, 'echo no; exit 1']\n";
    // A ladder would stand above the agent.
    let graph = "tasks: [{id: a, max_attempts: 1, escalate: [claude]}]\n";
    for graph in [graph, &graph.replace(", escalate: [claude]", "")] {
        let trial = project(&answer, agents).file("other", other).graph(graph).command([]);
        let is_ladder = graph.contains("escalate");
        if is_ladder {
            let named =
                "agents: {other: {command: [sh, other]}, claude: {command: [sh, -c, exit 1]}}";
            let settings = trial.read(".ralph/config.yaml");
            let settings = settings.replace("agents: {other: {command: [sh, other]}}", named);
            trial.write(".ralph/config.yaml", &settings);
        }
        trial.run(["run"]).graph_complete();
        assert_eq!(diagnosis(&trial)["agent"], "other");
        let by: Vec<Value> =
            trial.lines("completed").iter().map(|it| it["agent"].clone()).collect();
        assert_eq!(by, ["other"]);
        let text = trial.graph_text();
        assert!(text.contains("agent: other") && !text.contains("escalate"), "{text}");
        trial.no_process_is_left();
    }
}

#[test]
fn the_question_of_a_diagnosis_is_answered_like_that_of_an_agent() {
    let trial = project(&says(&json!({"action": "ask", "question": "May I write base.txt?"})), "");
    trial.run(["run"]).code(4);
    assert_eq!(trial.status("a"), "needs-input");
    trial.run(["status"]).code(0).stdout_has("May I write base.txt?");
    trial.run(["answer", "a"]).code(0).stdout("May I write base.txt?\n");
    trial.run(["answer", "a", "yes"]).code(0);
    let trial = trial.file("base.txt", "1\n");
    trial.run(["run"]).graph_complete();
    assert_eq!(diagnosis(&trial)["did"], "asked");
}

#[test]
fn what_cannot_be_done_stands_beside_the_parked_task() {
    let trial = project(&says(&json!({"action": "give_up", "why": "there is no base"})), "");
    trial.run(["run"]).code(3);
    let words = "`strong` says that it cannot be done: there is no base";
    assert_eq!(trial.lines("finished")[0]["exit_code"], 3);
    for command in [&["status"][..], &["task-show", "a"], &["report"]] {
        let shown = trial.run(command).whole();
        assert!(shown.contains(words), "{command:?}: {shown}");
    }
    trial.run(["task-reset", "a"]).code(0);
    let shown = trial.run(["status"]).whole();
    assert!(!shown.contains(words), "{shown}");
}

/// It answers prose, hangs, writes and speaks for the author, or wants what it may not.
#[test]
fn what_a_diagnosis_may_not_do_changes_nothing() {
    let task = |more: Value| {
        let mut task = json!({"id": "base", "title": "x"});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        says(&json!({"action": "prerequisite", "why": "x", "tasks": [task]}))
    };
    let writes = "echo 1 > base.txt; git add -A; git commit -qm bad; \"$RALPH\" task-complete a
         \"$RALPH\" task-reset a; rm -rf .git task-graph.yaml; exit 3";
    for (doctor, why) in [
        ("echo fine".to_owned(), "no `action` as JSON"),
        ("sleep 60".to_owned(), "ended by ralph at its limit of 2.0s"),
        (writes.to_owned(), "exited with code 3"),
        (says(&json!({"action": "remove", "why": "x"})), "unknown variant"),
        (says(&json!({"action": "give_up", "why": "x", "verify": []})), "unknown field `verify`"),
        (says(&json!({"action": "agent", "agent": "evil", "why": "x"})), "no other agent"),
        (task(json!({"id": "b"})), "already has a task `b`"),
        (task(json!({"depends_on": ["b"]})), "cycle"),
        (task(json!({"depends_on": ["nowhere"]})), "nowhere"),
        (task(json!({"verify_only": "true"})), "cannot set `verify_only`"),
        (task(json!({"status": "complete"})), "cannot set `status`"),
        (task(json!({"agent": ["sh"]})), "cannot set `agent`"),
        (task(json!({"run_on": "local"})), "cannot set `run_on`"),
    ] {
        let trial = project(&doctor, "timeout: 2s\n");
        trial.run(["run"]).code(3);
        let found = diagnosis(&trial);
        assert_eq!(found["did"], "failed", "{doctor}: {found}");
        assert!(found["why"].as_str().unwrap().contains(why), "{doctor}: {found}");
        assert_eq!(trial.tasks("started"), ["a"], "{doctor}");
        assert_eq!(trial.status("a"), "in-progress", "{doctor}: it is parked");
        let graph = trial.graph_text();
        assert!(!graph.contains("base") && graph.contains("verify: test -e a.txt"), "{graph}");
        assert_eq!(trial.git(&["status", "--short"]), "", "{doctor}");
        trial.no_process_is_left();
    }
}

#[test]
fn a_person_decides_first_if_tasks_of_agents_ask() {
    let trial = project(&prerequisite(), "agent_tasks: ask\n");
    trial.run(["run"]).code(4);
    assert_eq!(
        (trial.tasks("started"), trial.status("base")),
        (vec!["a".to_owned()], "needs-input".to_owned())
    );
    trial.run(["answer", "base", "yes"]).code(0);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started"), ["a", "base", "a", "b"]);
}

#[test]
fn a_run_that_is_killed_during_a_diagnosis_does_not_pay_for_it_again() {
    let trial = project("touch \"$TRIAL_DIR/looks\"; sleep 60", "");
    let run = trial.start_until(["run"], "looks");
    trial.wait_for_records(1, "diagnosing");
    run.kill();
    trial.run(["run"]).code(3);
    let found = diagnosis(&trial);
    assert_eq!((&found["did"], &found["why"]), (&json!("failed"), &json!("the run ended before")));
    assert_eq!(trial.tasks("started"), ["a"]);
    assert_eq!(trial.status("a"), "in-progress");
    trial.no_process_is_left();
}

#[test]
fn a_run_that_is_stopped_during_a_diagnosis_ends_at_once() {
    let trial = project("touch \"$TRIAL_DIR/looks\"; sleep 60", "");
    let run = trial.start_until(["run"], "looks");
    trial.run(["stop", "--now"]).code(0);
    until("the run has ended", || !trial.lines("finished").is_empty());
    run.end(&trial).code_is_any();
    assert_eq!(diagnosis(&trial)["why"], "the run ended before");
    trial.no_process_is_left();
}

/// Its cost is read while it works.
#[test]
fn a_diagnosis_ends_at_its_cost_and_costs_the_run() {
    let step = json!({"type": "step_finish", "part": {"type": "step-finish", "cost": 0.75}});
    let doctor = format!("echo '{step}'; sleep 60");
    let trial = project(&doctor, "diagnose_cost: 0.5\n");
    let settings = trial.read(".ralph/config.yaml");
    let settings = settings.replace("name: strong", "name: strong, output: opencode-json");
    let trial = trial.file(".ralph/config.yaml", &settings);
    trial.run(["run"]).code(3);
    assert_eq!(diagnosis(&trial)["why"], "the limit on its cost was reached");
    let costs = trial.run(["costs", "--json"]).code(0).json();
    assert_eq!(
        (&costs["total"]["attempts"], &costs["total"]["cost_usd"]),
        (&json!(1), &json!(0.75))
    );
    trial.no_process_is_left();
}

#[test]
fn a_diagnosis_is_made_only_if_the_settings_say_so_and_its_agent_is_there() {
    let trial = project(&prerequisite(), "");
    let settings = trial.read(".ralph/config.yaml");
    let trial = trial.file(".ralph/config.yaml", &settings.replace("on_parked: diagnose", ""));
    trial.run(["run"]).code(3);
    assert!(trial.lines("diagnosing").is_empty());
    let trial = project("", "");
    let trial =
        trial.file(".ralph/config.yaml", &settings.replace("[sh, doctor]", "[no-such-agent]"));
    trial.run(["run"]).code(69).stderr_has("change `diagnose_by`");
}
