//! Tasks whose work is new tasks, and graphs that attempts leave invalid.

use std::fs;

use serde_json::json;

use crate::support::{SETTINGS, TestProject, agent};

/// A project whose agent runs this script at task `plan`, and completes every other task.
fn planner(trial: TestProject, script: &str) -> TestProject {
    let commit = agent("commit");
    let path = trial.sign("agent.sh");
    let text = format!("[ \"$RALPH_TASK_ID\" = plan ] || exec {commit}\ncat > /dev/null\n{script}");
    trial.script(&path, &text);
    let path = path.display().to_string();
    trial.command([path.as_str()])
}

const PLAN: &str = "tasks:\n  - id: plan\n    priority: high\n    output: task-graph.yaml\n";
/// Adds two tasks to the graph.
const ADD: &str = "printf '  - id: parse\\n  - id: docs\\n    depends_on: [parse]\\n' >> \
                   task-graph.yaml";
const COMMIT: &str = "git commit --quiet --message Plan -- task-graph.yaml";
const REPORT: &str = "\"$RALPH\" task-complete plan";

#[test]
fn the_graph_of_init_runs_to_its_end() {
    // In a sandbox the graph of the checkout is read-only, and the agent may be in a hidden folder.
    for mode in [&["run", "--on", "local"][..], &["run", "--in-place", "--on", "local"]] {
        for (add, commits) in
            [(ADD.to_owned(), true), (format!("{ADD}; {COMMIT}"), true), (ADD.to_owned(), false)]
        {
            let trial = TestProject::bare();
            trial.git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
            trial.git(&["config", "user.name", "Tess"]);
            trial.git(&["config", "user.email", "tess@example.invalid"]);
            let trial = trial.file("TODO.md", "- [ ] parse\n- [ ] docs\n");
            trial.run(["init", "--yes", "--project"]);
            if commits {
                trial.git(&["add", "--all"]);
                trial.git(&["commit", "--quiet", "--message", "Set the stage"]);
            }
            let trial = planner(trial, &format!("set -e\n{add}\n{REPORT}"));
            trial.run(mode).graph_complete();
            let done = trial.tasks("completed");
            assert_eq!(done[0], "plan");
            assert!(
                ["parse", "docs"].iter().all(|id| done.contains(&(*id).to_owned())),
                "{done:?}"
            );
            assert_eq!(trial.lines("started").len(), done.len(), "each in one attempt");
            let plan = &trial.lines("completed")[0];
            assert_eq!(plan["added"], json!(["docs", "parse"]));
        }
    }
}

#[test]
fn new_tasks_are_no_work_of_another_task() {
    for mode in [&["run", "--once"][..], &["run", "--once", "--in-place"]] {
        let graph = PLAN.replace("    output: task-graph.yaml\n", "");
        let trial = planner(TestProject::new().graph(&graph), &format!("{ADD}\n{REPORT}"));
        trial.run(mode).code(1);
        let ended = &trial.lines("failed")[0];
        assert_eq!((&ended["verdict"], &ended["added_besides"]), (&json!("unverified"), &json!(2)));
        let why = ended["why"].as_str().unwrap();
        assert!(why.contains("it only added tasks; the `output` of a task"), "{why}");
        // They are not lost: an isolated attempt at the same task goes on with them.
        assert_eq!(trial.graph_text().contains("parse"), mode.contains(&"--in-place"));
        let trial = trial.agent("commit");
        trial.run(&mode[..1]).graph_complete();
        let mut done = trial.tasks("completed");
        done.sort();
        assert_eq!(done, ["docs", "parse", "plan"]);
    }
}

/// The branch has moved, and the file of the checkout has not got its claims back. A person has edited it.
#[test]
fn new_tasks_that_landed_survive_a_kill() {
    let trial = planner(TestProject::new().graph(PLAN), &format!("set -e\n{ADD}\n{REPORT}"));
    let record = trial.sign("points").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "land.moved:1");
    trial.run(["run"]).code(-1);
    let committed = trial.git(&["show", "refs/ralph/tip/main:task-graph.yaml"]);
    assert!(committed.contains("parse"), "{committed}");
    let edited = trial.graph_text().replace("priority: high", "priority: high # mine");
    fs::write(trial.root().join("task-graph.yaml"), edited).unwrap();
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run", "--task", "plan"]).graph_complete();
    let want = committed.replace("priority: high", "priority: high # mine");
    assert_eq!(trial.graph_text().trim_end(), want.trim_end());
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started"), ["plan", "parse", "docs"]);
}

#[test]
fn a_plan_without_new_tasks_is_not_done() {
    for (mode, why) in [
        (&["run", "--once"][..], "reported done, but `task-graph.yaml` has no new task"),
        (&["run", "--once", "--in-place"], "reported done, but nothing changed in git"),
    ] {
        let trial = planner(TestProject::new().graph(PLAN), REPORT);
        trial.run(mode).code(1);
        trial.assert_record("failed", &json!({"verdict": "unverified", "why": why}));
    }
}

#[test]
fn tasks_that_an_earlier_attempt_added_count() {
    for mode in [&["run"][..], &["run", "--in-place"]] {
        let script = format!("if [ \"$RALPH_ATTEMPT\" = 1 ]; then {ADD}; exit 1; fi\n{REPORT}");
        let trial = planner(TestProject::new().graph(PLAN), &script);
        trial.run(mode).graph_complete();
        trial.assert_record(
            "completed",
            &json!({"task_id": "plan", "attempt": 2, "added": ["docs", "parse"]}),
        );
    }
}

#[test]
#[ignore = "slow"]
fn an_attempt_that_leaves_an_invalid_graph_is_not_complete() {
    let bad = "printf '  - id: x\\n    depends_on: [nowhere]\\n' >> task-graph.yaml";
    for mode in [&["run"][..], &["run", "--in-place"]] {
        for task in [PLAN, "tasks:\n  - id: plan\n    verify: [\"true\"]\n"] {
            let script = format!(
                "if [ \"$RALPH_ATTEMPT\" = 1 ]; then {bad}; else {ADD}; fi\n\
                 echo \"$RALPH_ATTEMPT\" > mine; git add mine; git commit -qm Work\n{REPORT}"
            );
            let trial = planner(TestProject::new().graph(task), &script);
            trial.run(mode).graph_complete();
            let failed = &trial.lines("failed")[0];
            assert_eq!(failed["verdict"], "unverified");
            let fault = failed["graph_fault"].as_str().unwrap();
            assert!(fault.starts_with("task-graph.yaml:") && fault.contains("nowhere"), "{fault}");
            let why = failed["why"].as_str().unwrap();
            assert!(why.contains("a graph that `ralph check` refuses: task-graph.yaml:"), "{why}");
            let prompt = trial.read("logs/attempts/plan/2/prompt.md");
            assert!(prompt.contains("It left `task-graph.yaml` with an error"), "{prompt}");
            assert!(prompt.contains(fault), "{prompt}");
            assert!(!trial.graph_text().contains("nowhere"));
        }
    }
}

#[test]
fn a_deleted_graph_is_an_invalid_one() {
    let settings = format!("{SETTINGS}max_attempts: 1\n");
    for (harm, mode) in [
        ("", &["run"][..]),
        ("", &["run", "--in-place"]),
        ("mkfifo task-graph.yaml;", &["run"]),
        ("git commit --quiet --all --message x;", &["run"]),
    ] {
        let trial = TestProject::new().file(".ralph/config.yaml", &settings).graph(PLAN);
        let work = "echo x > x; git add x; git commit -qm x";
        let trial = planner(trial, &format!("rm task-graph.yaml; {harm} {work}; {REPORT}"));
        trial.run(mode).code(3);
        let failed = &trial.lines("failed")[0];
        let fault = failed["graph_fault"].as_str().unwrap();
        assert!(fault.starts_with("task-graph.yaml"), "{harm}: {failed}");
        assert_eq!(trial.status("plan"), "in-progress");
    }
}

#[test]
fn a_task_that_an_agent_added_names_the_task_of_the_agent() {
    // What the agent writes there does not count.
    let add = "printf '  - id: parse\\n    added_by: tess\\n  - {id: docs, depends_on: [parse]}\\n' \
               >> task-graph.yaml";
    for tracked in [true, false] {
        let trial = planner(TestProject::new().graph(PLAN), &format!("set -e\n{add}\n{REPORT}"));
        if !tracked {
            trial.git(&["rm", "--quiet", "--cached", "task-graph.yaml"]);
            trial.save(".git/info/exclude", "task-graph.yaml\n");
            trial.git(&["commit", "--quiet", "--message", "Keep the graph private"]);
        }
        trial.run(["run", "--max-iterations", "1"]).code_is_any();
        let text = trial.graph_text();
        assert_eq!(text.matches("added_by: plan").count(), 2, "{text}");
        assert!(!text.contains("tess"), "{text}");
        let graph = trial.run(["dag-status", "--json"]).json();
        assert_eq!(graph["tasks"]["ready"][0]["added_by"], "plan", "{graph}");
        assert_eq!(trial.run(["show", "docs", "--json"]).json()["added_by"], "plan");
        trial.run(["dag-status"]).stdout_has("  docs  waiting on parse; added by plan\n");
        trial.run(["run"]).graph_complete();
        let review = trial.run(["review", "--json"]).json();
        let items = review["to_review"].as_array().unwrap();
        let risks = items.iter().map(|item| item["risks"].to_string().contains("by_agent"));
        assert_eq!(risks.filter(|is_named| *is_named).count(), 2, "{review}");
    }
}
