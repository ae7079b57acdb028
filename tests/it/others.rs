//! An attempt completes only its own task: what an agent says of other tasks is refused, or put back.

use std::fs;

use serde_json::json;

use crate::support::{RALPH, TestProject, agent};

const TWO: &str = "tasks:\n  - id: a\n    priority: high\n  - id: b\n    status: pending\n";

/// A project whose agent runs this script at task `a`, and completes every other task.
fn scripted(graph: &str, script: &str) -> TestProject {
    let commit = agent("commit");
    let trial = TestProject::new().graph(graph);
    let path = trial.sign("agent.sh");
    let text = format!("[ \"$RALPH_TASK_ID\" = a ] || exec {commit}\ncat > /dev/null\n{script}");
    trial.script(&path, &text);
    let path = path.display().to_string();
    trial.command([path.as_str()])
}

/// How an agent sets the status of `b` in the graph file, in one step.
const EDIT: &str = "sed 's/status: pending/status: complete/' task-graph.yaml > \
                    \"$TRIAL_DIR/new\" && mv \"$TRIAL_DIR/new\" task-graph.yaml";

#[test]
fn commands_about_other_tasks_are_refused_in_an_attempt() {
    let script = r#"
        try() { "$@" >> "$TRIAL_DIR/said" 2>&1; echo "$?" >> "$TRIAL_DIR/codes"; }
        try "$RALPH" task-complete b
        try "$RALPH" task-reset b
        try "$RALPH" task-reset a
        try "$RALPH" task-block b --reason no
        try "$RALPH" answer c blue
        try "$RALPH" prompt b --accept
        # Without the variables, and away from the agent's process group.
        try env -u RALPH_TASK_ID -u RALPH_ATTEMPT -u RALPH_RUN_ID "$RALPH" task-complete b
        try setsid --wait env -u RALPH_TASK_ID "$RALPH" task-complete b
        # What steers the run is for people.
        try "$RALPH" pause
        try "$RALPH" resume
        try "$RALPH" stop
        try "$RALPH" slots remove
        try "$RALPH" schedule --cron '0 0 1 1 *' --once
        try env RALPH_LOOP=x "$RALPH" task-add y
        try setsid --wait env -u RALPH_TASK_ID -u RALPH_ATTEMPT "$RALPH" stop --now
        echo work > work.txt
        "$RALPH" task-complete a"#;
    for words in [&["run"][..], &["run", "--in-place"]] {
        let graph = format!("{TWO}  - id: c\n    status: needs-input\n");
        let trial = scripted(&graph, script);
        trial.run(words).code(4);
        assert_eq!(fs::read_to_string(trial.sign("codes")).unwrap(), "64\n".repeat(15));
        assert_eq!(trial.tasks("completed"), ["a", "b"]);
        // None of these commands changed a status.
        let changes = trial.lines("status_changed");
        assert!(changes.iter().all(|line| line["cause"] != "command"), "{changes:?}");
        assert!(trial.lines("completed")[0]["others"].is_null());
        for action in ["pause_requested", "resume_requested", "stop_requested"] {
            assert_eq!(trial.lines(action), [json!(null); 0]);
        }
    }
}

#[test]
fn an_attempt_may_do_anything_in_another_repository() {
    let script = r#"
        git init -q "$TRIAL_DIR/inner" && cd "$TRIAL_DIR/inner" || exit
        printf 'tasks: [{id: x}]\n' > task-graph.yaml
        for words in pause resume stop 'task-block x --reason no' 'task-reset x'; do
            "$RALPH" $words >&2 || echo "$words" >> "$TRIAL_DIR/refused"
        done
        cd "$OLDPWD"; echo work > work.txt; "$RALPH" task-complete a"#;
    for words in [&["run"][..], &["run", "--in-place"]] {
        let trial = scripted(TWO, script);
        trial.run(words).graph_complete();
        let refused = fs::read_to_string(trial.sign("refused")).unwrap_or_default();
        assert_eq!(refused, "", "{}", trial.read("logs/attempts/a/1/stderr"));
    }
}

#[test]
fn an_attempt_speaks_for_no_other_one() {
    // `a` looks for the folder of `b`, and forges the environment. `b` ends without a report.
    let script = r#"
        case $RALPH_TASK_ID in
        b) [ "$RALPH_ATTEMPT" = 1 ] || { echo b > b.txt; "$RALPH" task-complete b; exit; }
           echo half > b.txt; git add -A; git commit -qm half
           touch "$TRIAL_DIR/half"; while [ ! -e "$TRIAL_DIR/said" ]; do sleep .02; done
           sleep .3; exit 0 ;;
        esac
        while [ ! -e "$TRIAL_DIR/half" ]; do sleep .02; done
        above=$(dirname "$RALPH_TASK_DIR")
        for folder in "$above/b" "$(dirname "$above")/b" "$above"; do
            mkdir -p "$folder"; touch "$folder/DONE"; echo Why? > "$folder/WAIT_WITHOUT_RESTART"
        done
        as_b() { env RALPH_TASK_ID=b RALPH_ATTEMPT=1 "$RALPH" "$@"; echo $? >> "$TRIAL_DIR/codes"; }
        as_b task-complete b; as_b ask Why?; as_b note 'b is done'
        RALPH_LOOP=b as_b note 'a loop'
        touch "$TRIAL_DIR/said"
        echo work > work.txt; "$RALPH" task-complete a"#;
    let script = format!("cat > /dev/null\n{script}");
    let trial = TestProject::new().graph(TWO).command(["sh", "-c", script.as_str()]);
    trial.run(["run", "--jobs", "2"]).graph_complete();
    assert_eq!(fs::read_to_string(trial.sign("codes")).unwrap(), "64\n".repeat(4));
    let failed = trial.lines("failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((&failed[0]["task_id"], &failed[0]["verdict"]), (&json!("b"), &json!("incomplete")));
    assert_eq!(trial.lines("noted"), [json!(null); 0]);
    assert_eq!(trial.tasks("completed"), ["a", "b"]);
}

#[test]
fn the_files_of_a_task_go_from_attempt_to_attempt_and_are_found_after_it() {
    let script = r#"
        cat > /dev/null; cd "$RALPH_TASK_DIR"; ls > "$TRIAL_DIR/seen-$RALPH_ATTEMPT"
        case $RALPH_ATTEMPT in
        1) echo plan > plan.md; mkdir sketches; echo x > sketches/x; "$RALPH" note 'the door is green'
           # A person writes meanwhile.
           mkdir -p ../sketches; echo mine > ../sketches/mine; echo '- look at y' > ../notes.md; exit 1 ;;
        2) touch "$TRIAL_DIR/working"; exec sleep 600 ;;
        *) cd "$RALPH_SLOT"; echo work > work.txt; "$RALPH" task-complete a ;;
        esac"#;
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", script]);
    trial.run(["run", "--once"]).code(1);
    let folder = |path: &str| {
        let entries = fs::read_dir(trial.root().join(path)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let names = folder(".ralph/tasks/a");
    assert_eq!(names[1..], ["notes.md", "plan.md", "sketches"], "{names:?}");
    assert_eq!(trial.redact(&names[0]), "[own]", "what was there stays apart");
    assert_eq!(folder(".ralph/tasks/a/sketches"), ["mine"]);
    let notes = trial.redact(&trial.read(".ralph/tasks/a/notes.md"));
    assert_eq!(notes, "- look at y\n\n- the door is green (a.1, [when])\n");
    trial.start_until(["run"], "working").kill();
    trial.run(["run"]).graph_complete();
    for attempt in ["2", "3"] {
        let seen = fs::read_to_string(trial.sign(&format!("seen-{attempt}"))).unwrap();
        assert!(seen.contains("notes.md\nplan.md\nsketches\n"), "{seen}");
    }
    assert_eq!(folder(".ralph/tasks/a"), names);
}

#[test]
fn the_refusal_says_what_to_do() {
    let trial = scripted(TWO, "\"$RALPH\" task-complete b; \"$RALPH\" task-block a --reason x");
    trial.run(["run", "--once"]).code(1);
    let said = trial.read("logs/attempts/a/1/stderr");
    insta::assert_snapshot!(said, @r#"
    ralph: error: `b` is not the task of this attempt, which is `a`: only an attempt at `b` can report it, and a person can complete it; do your own task, and leave `b` to the run
    ralph: error: `ralph task-block` is for people, and this is attempt 1 at `a`: it can report its own task with `ralph task-complete a`, ask a person with `ralph ask "…"`, and use `ralph note` and what only reads
    "#);
}

#[test]
fn an_attempt_that_has_ended_reports_nothing() {
    let trial = TestProject::new().graph(TWO).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let late = |attempt: &str| {
        let mut process = trial.process(RALPH);
        process.args(["task-complete", "a"]).env("RALPH_RUN_ID", "r").env("RALPH_TASK_ID", "a");
        process.env("RALPH_ATTEMPT", attempt).env("RALPH_TASK_DIR", trial.root());
        process.output().unwrap()
    };
    let output = late("7");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("attempt 7 at `a` has ended"));
    trial.leave("open");
    run.end(&trial).graph_complete();
    assert_eq!(late("1").status.code(), Some(1));
}

#[test]
fn a_report_in_the_moment_of_a_crash_is_judged_and_completes_nothing_by_itself() {
    let script = "echo work > work.txt\ntouch \"$TRIAL_DIR/working\"\nexec sleep 600";
    let graph = "tasks:\n  - id: a\n    verify: [test -e work.txt]\n";
    let trial = scripted(graph, script);
    trial.start_until(["run"], "working").kill();
    let mut process = trial.process(RALPH);
    process.args(["task-complete", "a"]).env("RALPH_RUN_ID", "r").env("RALPH_TASK_ID", "a");
    process.env("RALPH_ATTEMPT", "1").env("RALPH_TASK_DIR", trial.root());
    assert!(process.status().unwrap().success());
    assert_eq!(trial.status("a"), "pending");
}

#[test]
fn a_status_that_is_set_in_the_file_is_put_back_and_the_next_prompt_says_so() {
    let script = format!(
        "if [ \"$RALPH_ATTEMPT\" = 1 ]; then {EDIT}\n\
         printf '  - id: c\\n    status: complete\\n' >> task-graph.yaml; exit; fi\n\
         echo done > mine; \"$RALPH\" task-complete a"
    );
    let trial = scripted(TWO, &script).in_place();
    trial.run(["run"]).graph_complete();
    // Whether `c` comes before the second attempt at `a` depends on how long `b` takes.
    let mut completed = trial.tasks("completed");
    completed.sort();
    assert_eq!(completed, ["a", "b", "c"], "each by its own attempt");
    trial.assert_record(
        "graph_guarded",
        &json!({"task_id": "a", "what": "finished", "tasks": ["b", "c"], "undone": true}),
    );
    let put_back =
        json!({"task_id": "b", "old": "complete", "new": "pending", "cause": "put_back"});
    trial.assert_record("status_changed", &put_back);
    assert_eq!(trial.lines("failed")[0]["others"], json!(["b", "c"]));
    let prompt = trial.read("logs/attempts/a/2/prompt.md");
    assert!(prompt.contains("It set the status of other tasks: `b`, `c`."), "{prompt}");
}

#[test]
fn a_person_can_repeat_by_command_what_was_put_back() {
    let trial = TestProject::new().graph(TWO).agent("gate");
    let run = trial.start_until(["run", "--once"], "waiting-a");
    trial.run(["task-complete", "b"]);
    trial.leave("open");
    run.end(&trial);
    assert_eq!(trial.status("b"), "complete");
    assert!(trial.lines("graph_guarded").is_empty());

    let edited = |trial: TestProject| {
        let trial = trial.graph(TWO).agent("gate");
        let run = trial.start_until(["run", "--once"], "waiting-a");
        trial.save("task-graph.yaml", &trial.graph_text().replace("pending", "complete"));
        trial.leave("open");
        let run = run.end(&trial);
        (trial, run)
    };
    let (trial, run) = edited(TestProject::new().in_place());
    run.stderr_has("`ralph task-complete b`");
    assert_eq!(trial.status("b"), "pending");
    trial.run(["task-complete", "b"]);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["a"]);

    // Isolated attempts do not edit the file of the checkout.
    let (trial, run) = edited(TestProject::new());
    run.graph_complete();
    assert_eq!(
        (trial.tasks("completed"), trial.status("b")),
        (vec!["a".into()], "complete".into())
    );
    assert!(trial.lines("graph_guarded").is_empty());
}

#[test]
fn a_crash_makes_no_status_true() {
    let script = format!("{EDIT}\ntouch \"$TRIAL_DIR/edited\"; exec sleep 600");
    for (trial, what) in
        [(scripted(TWO, &script).in_place(), "finished"), (scripted(TWO, &script), "apart")]
    {
        trial.start_until(["run"], "edited").kill();
        let is_isolated = what == "apart";
        assert_eq!(trial.status("b"), if is_isolated { "pending" } else { "complete" });
        let trial = trial.agent("commit");
        trial.run(["run"]).graph_complete();
        assert_eq!(trial.tasks("completed"), ["a", "b"]);
        trial.assert_record("graph_guarded", &json!({"what": what, "tasks": ["b"]}));
    }
}

#[test]
fn a_status_in_the_copy_of_an_isolated_attempt_is_not_taken_over() {
    let script = format!(
        "if [ \"$RALPH_ATTEMPT\" = 1 ]; then {EDIT}\n\
         printf '  - id: c\\n    status: complete\\n' >> task-graph.yaml\n\
         git commit --quiet --all --message 'All done'; exit; fi\n\
         echo done > mine; \"$RALPH\" task-complete a"
    );
    let trial = scripted(TWO, &script);
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.tasks("completed"), ["b", "a", "c"], "each by its own attempt");
    assert_eq!(trial.lines("failed")[0]["others"], json!(["b", "c"]));
    let prompt = trial.read("logs/attempts/a/2/prompt.md");
    assert!(prompt.contains("It set the status of other tasks: `b`, `c`."), "{prompt}");
}

#[test]
fn a_plain_loop_may_drive_the_graph() {
    let script = "cat > /dev/null; \"$RALPH\" task-complete a && \"$RALPH\" task-complete loop";
    let trial = TestProject::new().graph(TWO).file("PROMPT.md", "Go on.\n");
    let trial = trial.command(["sh", "-c", script]);
    trial.run(["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "1", "--name", "loop"]);
    assert_eq!(trial.status("a"), "complete");
}
