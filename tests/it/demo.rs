//! `ralph demo`: completes its graph, and a check catches an error.

use crate::support::TestProject;

#[test]
fn the_demo_completes_and_a_check_catches_an_error() {
    let trial = TestProject::bare();
    let said = trial.run(["demo", "--to", "../shown"]).whole();
    assert!(said.starts_with("exit code 0\n"), "{said}");
    for part in [
        "8 completed in 9 attempts",
        "8 of 8 complete",
        "✗ index ",
        "birds/stork.md leads nowhere",
        "/shown\n",
        "] init\n",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    trial.run(["dag-status", "-C", "../shown"]).stdout_has("task-graph.yaml: 8 of 8 complete\n");
    trial
        .run(["demo", "--to", "../shown"])
        .code(1)
        .stderr("ralph: error: `../shown` already exists; name a folder that does not exist\n");
    trial.no_process_is_left();
}
