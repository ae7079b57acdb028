//! Notes of agents: for the tasks that depend on theirs, and for all tasks.

use serde_json::json;

use crate::support::TestProject;

const GRAPH: &str = "\
tasks:
  - {id: first}
  - {id: second, depends_on: [first]}
  - {id: third, depends_on: [second]}
";

const LEARNINGS: &str = "docs/knowledge/learnings.md";

/// A chain of three tasks whose agents run this script and then do their work.
fn chain(script: &str) -> TestProject {
    let work = "mkdir -p work; echo $RALPH_TASK_ID > work/$RALPH_TASK_ID; git add work
        git commit -qm \"Work on $RALPH_TASK_ID\"; \"$RALPH\" task-complete $RALPH_TASK_ID";
    let script = format!("cat >/dev/null\n{script}\n{work}");
    TestProject::new().graph(GRAPH).command(["sh", "-c", &script])
}

#[test]
fn a_note_is_for_the_tasks_that_depend_on_its_own() {
    let trial = chain(
        "\"$RALPH\" note \"$RALPH_TASK_ID says: see x\"
        printf '%s\\n' $RALPH_TASK_ID 'in two lines' | \"$RALPH\" note - >> \"$TRIAL_DIR/told\"
        \"$RALPH\" note \"$RALPH_TASK_ID in two LINES\" >> \"$TRIAL_DIR/told\"",
    );
    trial.run(["run"]).graph_complete();
    let told = std::fs::read_to_string(trial.sign("told")).unwrap();
    let told = trial.redact(&told);
    let told: Vec<&str> = told.lines().take(2).collect();
    let own = "[repo]/.ralph/tasks/first/[own]/notes.md";
    assert_eq!(told, [format!("noted in `{own}`"), format!("`{own}` already has this note")]);
    let file = ".ralph/tasks/first/notes.md";
    let left = trial.redact(&trial.read(file));
    assert_eq!(
        left,
        "- first says: see x (first.1, [when])\n- first\n  in two lines (first.1, [when])\n"
    );
    let noted = trial.lines("noted");
    assert_eq!(noted.len(), 6);
    assert_eq!((&noted[0]["attempt"], &noted[0]["task_id"]), (&json!(1), &json!("first")));

    let prompt = |id: &str| {
        let prompt = trial.redact(&trial.read(&format!("logs/attempts/{id}/1/prompt.md")));
        let (_, part) = prompt.split_once("## What it builds on").unwrap();
        part.split("## Where you stand").next().unwrap().trim().to_owned()
    };
    insta::assert_snapshot!(prompt("second"), @r"
    - `first` (complete): `first`
      - commit `[commit]` `Work on first`
      - its notes:

        ```text
        - first says: see x (first.1, [when])
        - first
          in two lines (first.1, [when])
        ```

    These tasks depend on yours. Do not do them: `third`.
    ");
    let third = prompt("third");
    assert!(third.contains("second says") && third.contains("Work on second"), "{third}");
    assert!(!third.contains("first"), "only what it builds on directly: {third}");
    trial.run(["show", "first"]).stdout_has(" first noted: first says: see x\n");
}

#[test]
fn a_note_for_all_goes_to_the_learnings_under_its_tag() {
    let trial = chain(
        "\"$RALPH\" note --for-all --tag tests \"$RALPH_TASK_ID: run them with --all\"
        \"$RALPH\" note --for-all 'main is `app`'; git add docs",
    );
    let prose = "# Ours\n\n## Tests\n\nProse about tests.\n\n## Build\n\nProse.\n";
    let trial = trial.file(LEARNINGS, prose);
    trial.run(["run", "-q"]).graph_complete();
    insta::assert_snapshot!(trial.redact(&trial.read(LEARNINGS)), @r"
    # Ours

    ## Tests

    Prose about tests.

    - first: run them with --all (first.1, [when])
    - second: run them with --all (second.1, [when])
    - third: run them with --all (third.1, [when])

    ## Build

    Prose.

    ## General

    - main is `app` (first.1, [when])
    ");
    let last = trial.read("logs/attempts/third/1/prompt.md");
    assert!(last.contains("first: run them with --all") && last.contains("main is `app`"));
    assert_eq!(trial.git(&["status", "--porcelain", "docs"]), "");
}

#[test]
fn the_newest_notes_are_kept_and_nothing_of_a_person() {
    let trial = chain(
        "[ $RALPH_TASK_ID = first ] && for n in 1 2 3 4 5 6; do
            \"$RALPH\" note --for-all \"$n $(printf '%900d' 0)\" >/dev/null
        done; git add docs",
    );
    let prose = format!("{}\n- A person's item\n", "A long text. ".repeat(1000));
    let trial = trial.file(LEARNINGS, &prose);
    trial.run(["run", "-q"]).graph_complete();
    let now = trial.read(LEARNINGS);
    let notes = now.strip_prefix(&prose).expect("the prose is as it was");
    let left: Vec<&str> = notes.lines().filter_map(|line| line.get(..3)).collect();
    assert_eq!(left, ["## ", "- 3", "- 4", "- 5", "- 6"]);
}

#[test]
fn noting_is_for_agents_and_takes_words() {
    let trial = TestProject::new().graph(GRAPH);
    trial.run(["note", "x"]).code(64).stderr(
        "ralph: error: `ralph note` works only inside an attempt of `ralph run`; `RALPH_RUN_ID` is not set \
         here; `ralph note TASK \"…\"` (or `--task TASK`) is for the next attempts at a task\n",
    );
    let id = "first";
    for words in [&["note", id, "keep it"][..], &["note", "keep it", "--task", id]] {
        trial.run(words).stdout(&format!("{id}: its next attempt gets the note\n"));
    }
    trial.run(["note", "no-such-task", "x"]).code(1);
    trial.run(["note", "--tag", "x", "y"]).code(64).stderr_has("--for-all");
    trial
        .run(["note", "--for-all", "--tag", "a b", "y"])
        .code(64)
        .stderr_has("a tag is a word of at most 40 letters, digits, `.`, `_` and `-`");
}

#[test]
fn where_the_run_cannot_be_reached_a_note_is_for_no_task() {
    let trial = TestProject::new().graph(GRAPH).env("RALPH_AWAY", "1");
    for words in [&["note", "first", "keep it"][..], &["note", "keep it", "--task", "first"]] {
        trial.run(words).code(64).stderr_has("leave `--task` out");
    }
    assert!(!trial.root().join("logs").exists());
}

#[test]
fn no_secret_gets_into_a_note() {
    let trial = chain("\"$RALPH\" note --for-all \"log in with $SOME_TOKEN\"; git add docs");
    let trial = trial.env("SOME_TOKEN", "aB3-not-for-all");
    trial.run(["run", "--once", "-q"]);
    let left = trial.read(LEARNINGS);
    assert!(
        left.contains(&format!("log in with {} (first.1", ralph::core::redact::MARK)),
        "{left}"
    );
}
