//! Each agent and each verify command has a guardian of its own, which ends with it.

use std::collections::BTreeSet;

use crate::support::{SETTINGS, TestProject};

/// Two tasks, one after the other, whose agents and verify commands note the guardian above them. The
/// agent of the first one follows these lines.
fn noted(lines: &str, settings: &str) -> TestProject {
    let note = "echo $PPID >> \"$TRIAL_DIR/guardians\"";
    let work = "echo work > \"$RALPH_TASK_ID\"; git add \"$RALPH_TASK_ID\"; git commit -qm Work
        \"$RALPH\" task-complete \"$RALPH_TASK_ID\"";
    let script =
        format!("cat > /dev/null; {note}\n[ $RALPH_TASK_ID != a ] || {{ {lines}\n}}\n{work}");
    TestProject::new()
        .file(".ralph/config.yaml", &format!("{SETTINGS}# Guardians.\n{settings}"))
        .graph(&format!(
            "defaults: {{verify: '{note}'}}\ntasks: [{{id: a}}, {{id: b, depends_on: [a]}}]\n"
        ))
        .command(["sh", "-c", &script])
}

/// The guardians of a whole run, without repetition.
fn guardians(trial: &TestProject) -> usize {
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("started"), ["a", "b"], "each task takes one attempt");
    trial.no_process_is_left();
    let noted = std::fs::read_to_string(trial.sign("guardians")).unwrap();
    assert!(noted.lines().count() >= 4, "{noted}");
    noted.lines().collect::<BTreeSet<_>>().len()
}

#[test]
fn each_agent_and_each_verify_command_has_a_guardian_that_outlives_it_by_nothing() {
    for place in ["slot", "checkout"] {
        let trial = noted(":", "").env("RALPH_ISOLATION", place);
        assert_eq!(guardians(&trial), 4, "{place}");
    }
    assert_eq!(guardians(&noted("(setsid sleep 600 &) ; sleep 600 &", "")), 4);
}

#[test]
fn what_is_spared_does_not_delay_the_next_agent() {
    let settings = "on_orphans: leave\n";
    let trial = noted("(setsid sh -c 'exec > /dev/null 2>&1; sleep 2' &)", settings);
    assert_eq!(guardians(&trial), 4);
}
