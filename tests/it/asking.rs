//! An agent asks a person: its task waits with its question, and the other tasks continue.

use std::fs;

use serde_json::json;

use crate::support::{RALPH, TestProject, until};

const GRAPH: &str = "\
tasks:
  - id: ask
    title: Paint it
    priority: high
    max_attempts: 1
  - {id: after, depends_on: [ask]}
  - {id: other}
";

fn trial(way: &str) -> TestProject {
    TestProject::new().graph(GRAPH).agent("ask").env("ASK", way)
}

#[test]
fn a_question_sets_its_task_aside_until_it_is_answered() {
    let trial = trial("file");
    insta::assert_snapshot!(trial.run(["run"]).whole(), @r#"
    exit code 4
    --- stderr ---
    [time]  3 tasks, 0 done
    [time]  ask started: Paint it
    [time]  ? ask    [took]  asks: Which colour?
    [time]      Red or blue?
    [time]      answer it with `ralph answer ask "…"`
    [time]  other started
    [time]  ✓ other  [took]  +1 −0  Work on other
    [time]  waiting for a person: `ask` needs input: Which colour? (exit code 4)
    [time]  1 completed in 2 attempts, [took]; 1 of 3 complete
    [time]  needs you:
    [time]    - ask (Paint it): needs input; 1 other waits on it
    [time]        Which colour?
    [time]        Red or blue?
    [time]        `ralph answer ask "…"`
    [time]  landed (1 to review: `ralph review`, `ralph diff ID`):
    [time]    + other: Work on other; 1 commit, 1 file, +1 -0, [took]
    [time]  left: 2 (1 needs input, 1 waiting)
    [time]  next: afterwards, `ralph run` continues
    "#);
    assert_eq!(trial.status("ask"), "needs-input");
    let ended = trial.lines("needs_input").remove(0);
    assert_eq!(ended["question"], "Which colour?\nRed or blue?");
    assert_eq!(ended["verdict"], "needs-input");
    let change = trial.lines("status_changed");
    assert!(change.iter().any(|line| line["new"] == "needs-input" && line["cause"] == "asked"));

    let standing = trial.run(["dag-status", "--json"]).json();
    assert_eq!(standing["tasks"]["needs_input"][0]["question"], "Which colour?\nRed or blue?");
    trial
        .run(["dag-status"])
        .stdout_has("Needs input; `ralph answer ID \"…\"`\n  ask  Paint it  Which colour?\n");

    // The question is not asked again before it is answered.
    trial.run(["run", "-q"]).code(4);
    assert_eq!(trial.tasks("started"), ["ask", "other"]);

    let answered = trial.graph_text().replace("Paint it", "Paint it; the answer is blue");
    trial.save("task-graph.yaml", &answered);
    trial.run(["task-reset", "ask"]);
    trial.run(["run"]).graph_complete();
    assert!(trial.read("logs/attempts/ask/2/prompt.md").contains("Red or blue?"));
    assert_eq!(trial.lines("completed")[1]["question"], json!(null), "the old file is no question");
}

#[test]
fn exit_code_42_asks_too() {
    let trial = trial("code");
    trial.run(["run", "-q"]).code(4);
    let asked = json!({"task_id": "ask", "exit_code": 42,
                       "last_line": "I do not know which colour."});
    trial.assert_record("needs_input", &asked);
    assert_eq!(trial.lines("finished")[0]["exit_code"], 4);
}

#[test]
fn a_proven_report_counts_for_more() {
    let trial = trial("both");
    trial.run(["run", "-q"]).graph_complete();
    assert_eq!(trial.tasks("needs_input"), [""; 0]);
}

#[test]
fn an_answer_survives_a_rotation_of_the_journal() {
    let trial = trial("file");
    trial.run(["run", "-q"]).code(4);
    trial.run(["answer", "ask", "red of course"]);
    let journal = trial.root().join("logs/ralph.jsonl");
    fs::rename(&journal, journal.with_extension("jsonl.1")).unwrap();
    trial.run(["prompt", "ask"]).stdout_has("red of course");
}

#[test]
fn a_question_is_one_of_several_blockers() {
    let graph = format!("{GRAPH}  - {{id: held, status: blocked}}\n");
    let trial = trial("file").graph(&graph);
    trial.run(["run"]).code(3);
    let holders = &trial.lines("blocked")[0]["holders"];
    let ids: Vec<&str> =
        holders.as_array().unwrap().iter().filter_map(|one| one["task_id"].as_str()).collect();
    assert_eq!(ids, ["ask", "held"]);
}

#[test]
fn an_agent_asks_by_command_and_is_told_the_answer() {
    let trial = trial("command");
    let said = trial.run(["run"]).code(4).whole();
    let told = "asked; commit finished work and exit: `ask` needs input, and its next attempt gets the answer\n";
    assert_eq!(std::fs::read_to_string(trial.sign("told")).unwrap(), told);
    assert!(said.contains("  asks: Which colour?\n"), "{said}");
    let question = "Which colour?\n\nRed\nor blue?";
    assert_eq!(trial.lines("needs_input")[0]["question"], question);
    trial.run(["show", "ask"]).stdout_has(" attempt 1 asked: Which colour? Red or blue?\n");

    trial.run(["answer", "ask"]).stdout(&format!("{question}\n"));
    trial.run(["answer", "other", "x"]).code(1).stderr(
        "ralph: error: `other` is complete; only a task that needs input can be answered\n",
    );
    trial.run(["answer", "ask", " "]).code(1).stderr("ralph: error: an answer must not be empty\n");
    trial
        .run(["answer", "ask", "not red"])
        .stdout("ask: needs-input -> pending; its next attempt gets the answer\n");
    trial
        .run(["answer", "ask", "not green"])
        .stdout("ask: the answer is corrected; its next attempt gets this one\n");
    // The agent asks again, and both answers are kept.
    trial.run(["run", "-q"]).code(4);
    trial.run(["answer", "ask", "the answer is blue"]);
    trial.run(["run", "-q"]).graph_complete();
    trial.run(["answer", "ask", "x"]).code(1).stderr_has("`ask` is complete; only a task");
    let prompt = trial.read("logs/attempts/ask/3/prompt.md");
    let part = prompt.split("## What a person answered").nth(1).expect(&prompt);
    let part = part.split("## Where you stand").next().unwrap();
    insta::assert_snapshot!(part.trim(), @r"
    A person answered earlier agents at this task, or left a note. This applies to you.

    Asked:

    ```text
    Which colour?

    Red
    or blue?
    ```

    Answered:

    ```text
    not green
    ```

    Asked:

    ```text
    Which colour?

    Red
    or blue?
    ```

    Answered:

    ```text
    the answer is blue
    ```
    ");
    assert!(!prompt.contains("the answer should be in the task above"), "{prompt}");
    let answered = trial.lines("answered");
    assert_eq!(
        (&answered[1]["question"], &answered[1]["answer"]),
        (&json!(question), &json!("not green"))
    );
    assert_eq!(answered[2]["answer"], "the answer is blue");
    // The answers are kept until the task is complete.
    trial.run(["task-reset", "ask"]);
    assert_eq!(trial.run(["prompt", "ask", "--json"]).json()["answers"], json!([]));
}

#[test]
fn a_run_that_waits_goes_on_with_the_answer() {
    let trial = trial("command");
    let run = trial.start(["run", "--wait"]);
    trial.wait_for_records(1, "waiting");
    assert_eq!(trial.tasks("started"), ["ask", "other"]);
    let mut answer = trial
        .process("sh")
        .args(["-c", "echo the answer is blue | \"$RALPH\" answer ask - > /dev/null"])
        .spawn()
        .unwrap();
    assert!(answer.wait().unwrap().success());
    run.end(&trial).graph_complete();
    trial.assert_record("answered", &json!({"task_id": "ask", "answer": "the answer is blue"}));
    assert_eq!(trial.tasks("completed"), ["other", "ask", "after"]);
}

#[test]
fn only_the_agent_of_a_running_attempt_can_ask() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command([
        "sh",
        "-c",
        "cat >/dev/null; \"$RALPH\" ask \"$(printf '%02001d' 1)\"; touch \"$TRIAL_DIR/asked\"
        \"$RALPH\" answer a x; exec sleep 600",
    ]);
    trial.run(["ask", "x"]).code(64).stderr(
        "ralph: error: `ralph ask` works only inside an attempt of `ralph run`; `RALPH_RUN_ID` is not set here\n",
    );
    let late = |attempt: &str| {
        let mut process = trial.process(RALPH);
        process.args(["ask", "x"]).env("RALPH_RUN_ID", "r").env("RALPH_TASK_ID", "a");
        process.env("RALPH_ATTEMPT", attempt).env("RALPH_TASK_DIR", trial.root());
        let output = process.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let over = |attempt| (Some(1), format!("ralph: error: attempt {attempt} at `a` has ended\n"));
    assert_eq!(late("1"), over(1));
    let run = trial.start_until(["run"], "asked");
    assert_eq!(late("7"), over(7));
    let stderr = trial.root().join("logs/attempts/a/1/stderr");
    until("it is refused", || {
        std::fs::read_to_string(&stderr).unwrap().contains("`ralph answer` is for people")
    });
    run.signal(rustix::process::Signal::INT);
    run.end(&trial).code(130);
    let said = trial.read("logs/attempts/a/1/stderr");
    assert!(said.contains("may have 2000 characters in total, not 2001"), "{said}");
    assert_eq!(late("1"), over(1));
}

#[test]
fn a_question_survives_a_restored_graph_file() {
    let agent = "cat > /dev/null; \"$RALPH\" ask 'Which one?'; exit 0";
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").command(["sh", "-c", agent]);
    trial.run(["run"]).code(4).stderr_has("ralph answer a");
    // The question is committed with its status.
    assert_eq!(
        (trial.status("a").as_str(), &*trial.git(&["status", "--porcelain"])),
        ("needs-input", "")
    );
    trial.git(&["checkout", "--quiet", "HEAD~1", "--", "task-graph.yaml"]);
    assert_eq!(trial.status("a"), "pending");
    trial.run(["run"]).code(4);
    assert_eq!(trial.tasks("started").len(), 1);
    trial.run(["answer", "a"]).stdout("Which one?\n");
    trial.run(["answer", "a", "The first"]);
    trial.run(["run", "--once"]).code(1);
    assert_eq!(trial.tasks("started").len(), 2);
    // A person may drop it.
    trial.run(["task-reset", "a"]);
    trial.run(["run", "--once"]).code(1);
    assert_eq!(trial.tasks("started").len(), 3);
}

#[test]
fn what_was_said_stands_between_the_attempts() {
    let trial = trial("file");
    trial.run(["run", "--task", "ask"]).code(4);
    trial.run(["task-reset", "ask"]);
    trial.run(["run", "--task", "ask"]).code(4);
    trial.run(["answer", "ask", "So:\nthe answer is blue"]);
    trial.run(["note", "--task", "ask", "Mind the door"]);
    trial.run(["run", "--task", "ask"]).code(0);
    let text = trial.run(["show", "ask"]).out();
    let (_, table) = text.split_once("Attempts:\n").unwrap();
    let marks = [
        "ask.1",
        "a person reset it",
        "ask.2",
        "attempt 2 asked: Which colour? Red or blue?",
        "a person answered: So: the answer is blue",
        "a person noted: Mind the door",
        "ask.3",
    ];
    let places: Vec<_> = marks.iter().map(|mark| table.find(mark)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {table}");
    let kinds = |words: &[&str]| {
        let json = trial.run(words).json();
        let all = json["messages"].as_array().unwrap().iter();
        all.map(|it| it["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds(&["show", "ask", "--json"]), "question reset question answer note");
    assert_eq!(kinds(&["show", "ask.3", "--json"]), "answer note");
    let show = trial.run(["show", "ask"]).out();
    assert!(show.contains("Before it:\n") && !show.contains("After it:"), "{show}");
    trial.run(["show", "ask.1"]).stdout_has("After it:\n").stdout_has("a person reset it\n");
}
