//! Edits of the graph file by people and agents during a run, valid and invalid.

use crate::support::{TestProject, agent, wait_for};

#[test]
fn an_edit_in_the_middle_is_kept_and_picked_up() {
    let trial = TestProject::new().graph("tasks:\n  - id: a # mine\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let edited =
        trial.graph_text() + "\n  # by hand,\twith care\n  -   id:   b\n      title: 'Second'\n";
    trial.save("task-graph.yaml", &edited);
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    insta::assert_snapshot!(trial.redact(&trial.graph_text()), @r#"
    tasks:
      - id: a # mine
        status: complete
        completed_at: "[when]"

      # by hand,	with care
      -   id:   b
          status: complete
          completed_at: "[when]"
          title: 'Second'
    "#);
    let told = &trial.lines("status_changed")[1];
    assert_eq!((&told["task_id"], &told["cause"]), (&"b".into(), &"edited_during_attempt".into()));
}

#[test]
fn a_task_that_a_person_blocks_meanwhile_stays_blocked() {
    let trial = TestProject::new().graph("tasks: [{id: a}, {id: b}]\n").agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    trial.run(["task-block", "b", "--reason", "not yet"]);
    trial.leave("open");
    run.end(&trial).code(3);
    assert_eq!(trial.lines("blocked")[0]["holders"][0]["task_id"], "b");
    assert_eq!(trial.status("b"), "blocked");
}

#[test]
fn a_task_that_is_deleted_meanwhile_stays_deleted() {
    for trial in [TestProject::new(), TestProject::new().in_place()] {
        let trial = trial.graph("tasks:\n  - id: a\n  - id: b\n").agent("reported-then-gate");
        let run = trial.start_until(["run"], "waiting-a");
        trial.save("task-graph.yaml", "tasks:\n  - id: b\n");
        trial.leave("open");
        run.end(&trial).graph_complete();
        assert!(!trial.graph_text().contains("id: a"));
        let why = trial.lines("completed")[0]["why"].as_str().unwrap().to_owned();
        assert!(why.contains("no longer in the graph"), "{why}");
        assert_eq!(trial.subjects(), ["Work on a", "Work on b"]);
    }
}

#[test]
fn work_that_an_agent_finds_is_done() {
    let trial = TestProject::new().graph("tasks:\n  - id: first\n").agent("edit-graph");
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["first", "found"]);
    assert!(trial.graph_text().contains("- id: found # by an agent\n"));
}

/// The graph file is incomplete when this agent ends, and saved shortly after.
fn half_saved(agent: &str) {
    let trial = TestProject::new().graph("tasks:\n  - id: a\n  - id: b\n").agent(agent);
    let run = trial.start_until(["run"], "waiting-a");
    let whole = trial.graph_text();
    trial.save("task-graph.yaml", "tasks:\n  - id: [");
    trial.leave("open");
    trial.wait_for_records(1, "file_rejected");
    trial.save("task-graph.yaml", &whole);
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn a_half_saved_graph_is_waited_for() {
    half_saved("reported-then-gate");
}

#[test]
fn a_report_is_heard_while_the_graph_is_half_saved() {
    half_saved("gate");
}

/// Work lands while the file cannot be read, and the file is mended before the other attempt ends.
#[test]
fn what_landed_while_the_graph_could_not_be_read_is_complete_in_it() {
    let trial = TestProject::new().graph("tasks:\n- id: a\n- id: b\n- id: c\n  depends_on: [a]\n");
    let path = trial.sign("agent.sh");
    let gate = "case $RALPH_TASK_ID in c) open=;; *) open=open-$RALPH_TASK_ID;; esac\n\
                touch \"$TRIAL_DIR/waiting-$RALPH_TASK_ID\"\n\
                until [ -e \"$TRIAL_DIR/$open\" ]; do sleep 0.05; done\n";
    trial.script(&path, &format!("cat > /dev/null\n{gate}exec {} < /dev/null", agent("commit")));
    let path = path.display().to_string();
    let trial = trial.command([path.as_str()]);
    let run = trial.start_until(["run", "--jobs", "2"], "waiting-b");
    wait_for(&trial.sign("waiting-a"));
    let whole = trial.graph_text();
    trial.save("task-graph.yaml", &(whole.clone() + "- id: ["));
    trial.leave("open-a");
    trial.wait_for_records(1, "completed");
    assert_eq!(trial.lines("file_rejected").len(), 1);
    // The next task starts all the same.
    wait_for(&trial.sign("waiting-c"));
    trial.wait_for_records(2, "completed");
    trial.save("task-graph.yaml", &whole);
    trial.leave("open-b");
    run.end(&trial).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "c", "b"]);
    assert_eq!(trial.status("a"), "complete");
}

/// The run does not know the changes of a person in it, so it cannot say that all is done.
#[test]
fn a_graph_that_stays_unreadable_does_not_end_the_night_and_is_said_at_its_end() {
    let trial = TestProject::new().graph("tasks:\n- id: a\n- id: b\n  depends_on: [a]\n");
    let trial = trial.agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let whole = trial.graph_text();
    trial.save("task-graph.yaml", &(whole.clone() + "- id: ["));
    trial.leave("open");
    run.end(&trial).code(65).stderr_has("`[` is opened here and never closed");
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
    trial.save("task-graph.yaml", &(whole + "- id: c\n"));
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a", "b", "c"]);
}

#[test]
fn the_spelling_of_the_file_is_kept() {
    let text = "nodes:\r\n- id: a\r\n  status: in_progress\r\n- id: b\r\n  status: \"todo\"\r\n\
                - id: c\r\n  status: done\r\nedges:\r\n- {from: c, to: b}";
    let trial = TestProject::new().graph(text).agent("commit");
    trial.run(["run", "-q"]).code(3);
    assert_eq!(trial.lines("blocked")[0]["holders"][0]["task_id"], "a");
    let want = text.replace("\"todo\"", "\"done\"");
    let now: String = trial
        .graph_text()
        .split_inclusive('\n')
        .filter(|line| !line.contains("completed_at"))
        .collect();
    assert_eq!(now, want);
}
