//! `ralph spawn`: child agents with their own records, at any depth.

use serde_json::{Value, json};

use crate::support::{SETTINGS, TestProject, until};

fn stage(way: &str) -> TestProject {
    TestProject::new().graph("tasks: [{id: a}]\n").agent("spawn").env("WAY", way)
}

fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_else(|| panic!("`{field}` of {line}"))
}

#[test]
fn children_and_grandchildren_have_records_and_pass_everything_on() {
    let trial = stage("nested");
    trial.run(["run"]).graph_complete();
    let started = trial.lines("child_started");
    let [child, grandchild] = started.as_slice() else { panic!("{started:?}") };
    let run = text(&trial.lines("loop_started")[0], "run_id").to_owned();
    let (own, parent) = (text(child, "child_run_id"), text(child, "parent_run_id"));
    assert_eq!((text(child, "run_id"), parent), (own, &*run));
    assert_eq!(grandchild["parent_run_id"], child["child_run_id"]);
    assert_eq!((&child["task_id"], &child["attempt"]), (&"a".into(), &1.into()));
    assert!(child["pid"].is_u64() && child["start_time"].is_u64() && child["boot_id"].is_string());

    let ended = trial.lines("child_ended");
    for (line, start, code) in [(&ended[0], grandchild, 7), (&ended[1], child, 5)] {
        assert_eq!((&line["outcome"], &line["exit_code"]), (&"exited".into(), &code.into()));
        assert!(line["duration_seconds"].is_number());
        for field in ["child_run_id", "parent_run_id", "argv", "pid"] {
            assert_eq!(line[field], start[field]);
        }
    }
    let said = trial.read("logs/attempts/a/1/stdout");
    let want = format!("to the child\n{own} {run}\ngrandchild\ngrandchild: 7\nchild: 5\n");
    assert!(said.starts_with(&want), "{said}");
    trial.run(["status", "--json"]).json();
    trial.no_process_is_left();
}

#[test]
fn signals_and_missing_programs_give_the_codes_a_shell_gives() {
    let trial = stage("signals");
    trial.run(["run", "-q"]);
    let said = trial.read("logs/attempts/a/1/stdout");
    assert!(said.starts_with("killed: 137\nended: 143\nmissing: 69\n"), "{said}");
    let stderr = trial.read("logs/attempts/a/1/stderr");
    assert!(stderr.contains("cannot start a child agent: `no-such-agent` is not on PATH"));
    let signals: Vec<_> = trial.lines("child_ended").iter().map(|l| l["signal"].clone()).collect();
    assert_eq!(signals, [9, 15]);
}

#[test]
fn a_child_whose_watcher_was_killed_is_closed_with_its_attempt() {
    let trial = stage("crash");
    trial.run(["run"]).graph_complete();
    let ended = trial.lines("child_ended").remove(0);
    assert_eq!((&ended["outcome"], ended.get("exit_code")), (&"crashed".into(), None));
    assert_eq!(ended["child_run_id"], trial.lines("child_started")[0]["child_run_id"]);
    assert!(ended["seq"].as_u64() < trial.lines("completed")[0]["seq"].as_u64());
    trial.no_process_is_left();
}

#[test]
fn children_are_shown_while_they_live_and_closed_after_a_crash() {
    let trial = stage("wait").env("STAY", "1");
    let run = trial.start_until(["run", "-q"], "waiting");
    let standing = trial.run(["status", "--json"]).json();
    let children = standing["attempts"][0]["children"].as_array().unwrap().clone();
    let names: Vec<_> = children.iter().map(|child| text(child, "name")).collect();
    assert!(names[0].starts_with("sh -c ") && names.len() == 2, "{names:?}");
    assert_eq!(children[1]["parent_run_id"], children[0]["run_id"]);
    trial.run(["status"]).stdout_has("  child agent: sh -c ");
    run.kill();
    trial.no_process_is_left();
    assert_eq!(trial.tasks("child_ended"), [""; 0]);

    trial.leave("open");
    trial.run(["run", "-q"]);
    let ended = trial.lines("child_ended");
    let crashed: Vec<_> = ended.iter().filter(|line| line["outcome"] == "crashed").collect();
    assert_eq!(crashed.len(), 2);
    assert!(crashed.iter().all(|line| line["attempt"] == 1));
    let standing = trial.run(["status", "--json"]).json();
    assert_eq!(standing["attempts"], json!([]));
}

#[test]
fn children_that_are_waited_for_are_named_by_their_commands() {
    let settings = SETTINGS.replace("child_wait_timeout: 0s", "child_wait_timeout: 10m");
    let trial = stage("wait").file(".ralph/config.yaml", &settings);
    let run = trial.start(["run"]);
    crate::children::waits(&trial);
    let told = trial.lines("waiting_for_children").remove(0);
    let names: Vec<_> = told["children"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for (name, child) in names.iter().zip(trial.lines("child_started")) {
        let (run, pid) = (text(&child, "child_run_id"), &child["pid"]);
        let ids = format!(" [run {run}, process {pid}]");
        assert!(names.iter().any(|name| name.as_str().unwrap().ends_with(&ids)), "{names:?}");
        assert!(name.as_str().unwrap().starts_with("sh -c "), "{names:?}");
    }
    trial.leave("open");
    run.end(&trial).graph_complete();
    let outcomes: Vec<_> =
        trial.lines("child_ended").iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["exited", "exited"]);
}

#[test]
fn a_child_that_is_waited_for_can_be_stopped() {
    for by in ["child_run_id", "pid"] {
        let settings = SETTINGS.replace("child_wait_timeout: 0s", "child_wait_timeout: 10m");
        let trial = stage("wait").file(".ralph/config.yaml", &settings);
        let run = trial.start(["run"]);
        crate::children::waits(&trial);
        trial.run(["stop", "--child", "1"]).code(1).stderr_has("no child agent `1` is running");
        let old = trial.lines("child_started").remove(0);
        let id = old[by].as_str().map_or_else(|| old[by].to_string(), str::to_owned);
        // With the child of the child, and without the file that both wait for.
        let run_id = text(&old, "child_run_id");
        trial
            .run(["stop", "--child", &id])
            .stdout_has("[run [run], process [pid]], a child of a\n");
        run.end(&trial).graph_complete();
        assert_eq!(trial.lines("child_stop_requested")[0]["child_run_id"], run_id);
        let ended = trial.lines("child_ended");
        let ended = ended.iter().find(|line| line["child_run_id"] == run_id).unwrap();
        assert_eq!((&ended["outcome"], &ended["signal"]), (&json!("signaled"), &json!(15)));
        assert_eq!(trial.tasks("completed"), ["a"]);
        assert_eq!(trial.tasks("children_overdue"), [""; 0]);
        trial.run(["stop", "--child", &id]).code(1);
        trial.no_process_is_left();
    }
}

#[test]
fn a_child_of_a_loop_is_stopped_alone() {
    let script =
        "cat > /dev/null; \"$RALPH\" spawn -- sh -c 'trap \"\" TERM; touch \"$TRIAL_DIR/there\"
        sleep 600 & wait; sleep 600' || echo \"child: $?\"; touch \"$TASK_FOLDER/DONE\"";
    let trial = TestProject::new().file("PROMPT.md", "Do task A\n").command(["sh", "-c", script]);
    let words = ["loop", "--prompt-file", "PROMPT.md", "--max-iterations", "3"];
    let run = trial.start_until(words, "there");
    let record = || {
        let journal = trial.read("logs/loops/loop/ralph.jsonl");
        journal.lines().find(|line| line.contains("\"child_started\"")).map(str::to_owned)
    };
    until("the child is on record", || record().is_some());
    let status = trial.run(["status", "--name", "loop"]).out();
    let line = status.lines().find(|line| line.contains("child agent")).unwrap();
    assert!(line.contains(", run ") && line.contains(", process "), "{line}");
    let pid = serde_json::from_str::<Value>(&record().unwrap()).unwrap()["pid"].to_string();
    trial.run(["stop", "--child", &pid]).code(1).stderr_has("`ralph status` shows those that are");
    trial.run(["stop", "--name", "loop", "--child", &pid]);
    run.end(&trial).code(0);
    assert_eq!(trial.read("logs/loops/loop/attempts/1/stdout"), "child: 137\n");
    trial.no_process_is_left();
}

#[test]
fn outside_of_an_attempt_there_are_no_children() {
    TestProject::new().run(["spawn", "--", "true"]).code(64).stderr(
        "ralph: error: `ralph spawn` works only inside an attempt of `ralph run`; `RALPH_RUN_ID` is \
         not set here; run the command directly\n",
    );
}
