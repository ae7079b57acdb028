//! A guardian takes one agent after the other, but only if nothing can be left of the one before.

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
fn a_guardian_takes_agents_and_verify_commands_one_after_the_other() {
    for place in ["slot", "checkout"] {
        let trial = noted(":", "").env("RALPH_ISOLATION", place);
        assert_eq!(guardians(&trial), 1, "{place}");
    }
    // What the agent left is ended, and then nothing is.
    assert_eq!(guardians(&noted("(setsid sleep 600 &) ; sleep 600 &", "")), 1);
}

#[test]
fn a_guardian_whose_processes_were_spared_takes_no_other_agent() {
    let settings = "on_orphans: leave\n";
    let trial = noted("(setsid sh -c 'exec > /dev/null 2>&1; sleep 2' &)", settings);
    assert_eq!(guardians(&trial), 2);
}

#[test]
fn a_guardian_that_is_stopped_while_it_waits_does_not_delay_the_run() {
    let stop = "hooks: {after_attempt: 'kill -STOP $(tail -n 1 \"$TRIAL_DIR/guardians\")'}\n";
    assert_eq!(guardians(&noted(":", stop)), 1);
}

#[test]
fn a_guardian_that_is_killed_while_it_waits_is_replaced() {
    let hook = "hooks: {after_attempt: 'kill -KILL $(tail -n 1 \"$TRIAL_DIR/guardians\")'}\n";
    let trial = noted(":", hook);
    assert_eq!(guardians(&trial), 2);
    assert_eq!(trial.lines("hook_failed"), Vec::<serde_json::Value>::new());
}
