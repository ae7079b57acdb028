//! The person's checkout while a run goes on: what is staged, converted or switched there.

use crate::support::TestProject;

const GRAPH: &str = "tasks:\n  - id: a\n    title: First\n  - id: b\n    title: Second\n";

/// Commits a file named after the task, and reports.
const HONEST: &str = "cat > /dev/null; echo work > $RALPH_TASK_ID.txt; git add -A; \
                      git commit -qm \"Work on $RALPH_TASK_ID\"; \
                      \"$RALPH\" task-complete $RALPH_TASK_ID";

fn project() -> TestProject {
    let agent = format!("while [ ! -e \"$TRIAL_DIR/go\" ]; do sleep 0.01; done; {HONEST}");
    TestProject::new().graph(GRAPH).command(["sh", "-c", &agent])
}

#[test]
fn a_staged_graph_does_not_hold_landing_and_stages_no_claim() {
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["add", "-A"]);
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    // With an edit: it stays staged, without the claim.
    let trial = project();
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    let edited = trial.graph_text().replace("title: Second", "title: Mine");
    trial.save("task-graph.yaml", &edited);
    trial.write("own.txt", "mine\n");
    trial.git(&["add", "-A"]);
    trial.leave("go");
    run.end(&trial);
    assert_eq!(trial.git(&["status", "--porcelain"]), "A  own.txt\nM  task-graph.yaml\n");
    assert_eq!(
        trial.git(&["diff", "--cached", "--numstat"]),
        "1\t0\town.txt\n1\t1\ttask-graph.yaml\n"
    );
    trial.git(&["commit", "--quiet", "--message", "Mine"]);
    assert!(!trial.git(&["log", "-p", "--all"]).contains("claimed_by"));
    assert!(trial.graph_text().contains("title: Mine"));
}

#[test]
fn a_graph_that_git_converts_does_not_hold_landing() {
    for (attributes, line) in [("eol=crlf", "# Converted.\n"), ("ident", "# $Id$\n")] {
        let trial = project()
            .file(".gitattributes", &format!("*.yaml text {attributes}\n"))
            .file("task-graph.yaml", &format!("{line}{GRAPH}"));
        std::fs::remove_file(trial.root().join("task-graph.yaml")).unwrap();
        trial.git(&["checkout", "--", "task-graph.yaml"]);
        trial.leave("go");
        trial.run(["run"]);
        assert_eq!(trial.git(&["status", "--porcelain"]), "", "{attributes}");
        assert_eq!((trial.status("a"), trial.status("b")), ("complete".into(), "complete".into()));
    }
}

#[test]
fn a_killed_run_whose_checkout_was_switched_completes_nothing_on_the_other_branch() {
    let trial = project();
    let record = trial.sign("points").display().to_string();
    let trial = trial.env("RALPH_CRASH_RECORD", &record).env("RALPH_CRASH_POINT", "run.over:1");
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "agent_started");
    trial.git(&["checkout", "--quiet", "-b", "feature"]);
    trial.leave("go");
    run.end(&trial).code(-1);
    let trial = trial.env("RALPH_CRASH_POINT", "");
    trial.run(["run", "--once"]);
    assert_eq!(trial.tasks("started"), ["a", "b", "a"], "its work is not on this branch");
    trial.assert_record(
        "status_changed",
        &serde_json::json!({"task_id": "b", "cause": "other_branch", "new": "pending"}),
    );
}
