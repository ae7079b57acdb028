//! Executors that do not answer: a start there costs nothing, one attempt at a time tries again, and
//! status says so. A command that fails unless a file is there stands for all executors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use serde_json::{Value, json};

use crate::{
    oracle,
    support::{RALPH, SETTINGS, TestProject, until},
};

/// A project whose executor `far` answers while the file `open` is there. `settings` come after it.
fn project(graph: &str, settings: &str) -> TestProject {
    let trial = TestProject::new().graph(graph);
    let home = trial.dir().join("elsewhere");
    fs::create_dir_all(&home).unwrap();
    let gate = trial.dir().join("gate");
    let text = format!(
        "#!/bin/sh\necho try >> '{}'\nif [ ! -e '{}' ]; then echo 'no route to far' >&2; exit 255; fi\n\
         exec env -i \"PATH=$PATH\" 'HOME={}' 'RALPH={RALPH}' \"TRIAL=$TRIAL\" GIT_AUTHOR_NAME=a \
         GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b \"$@\"\n",
        trial.sign("tries").display(),
        open(&trial).display(),
        home.display(),
    );
    trial.script(&gate, &text);
    let executor = json!({"far": {"command": {"argv": [gate], "ralph": RALPH}}});
    let text = format!("{SETTINGS}executors: {executor}\n{settings}");
    trial.file(".ralph/config.yaml", &text).agent("commit")
}

/// The file that makes the executor answer.
fn open(trial: &TestProject) -> PathBuf {
    trial.sign("open")
}

/// The number of starts at the executor.
fn tries(trial: &TestProject) -> usize {
    fs::read_to_string(trial.sign("tries")).unwrap_or_default().lines().count()
}

/// The refs that attempts have left.
fn refs(trial: &TestProject) -> String {
    trial.git(&["for-each-ref", "--format=%(refname)", "refs/ralph"])
}

/// Expects that at no time two attempts tried an executor that was known not to answer.
#[track_caller]
fn one_tries_at_a_time(journal: &[Value]) {
    let (mut is_away, mut trying) = (false, None);
    for line in journal {
        match line["action"].as_str().unwrap() {
            "executor_unreachable" => is_away = true,
            "executor_reachable" => (is_away, trying) = (false, None),
            "started" if is_away && line["run_on"] == "far" => {
                assert!(trying.is_none(), "{trying:?} and {line}");
                trying = Some(line["task_id"].clone());
            }
            "withdrawn" => {
                trying.take_if(|task| *task == line["task_id"]);
            }
            _ => {}
        }
    }
    assert!(!is_away, "the executor has answered in the end");
}

#[test]
fn a_start_at_an_executor_that_is_away_costs_nothing() {
    // One attempt and one iteration: neither is used up.
    let graph = "tasks: [{id: a, run_on: far, max_attempts: 1}]\n";
    let trial = project(graph, "max_iterations: 1\n");
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "executor_unreachable");
    let text = trial.run(["status"]).out();
    assert!(text.contains("Executor far is out since"), "{text}");
    assert!(text.contains("no route to far"), "{text}");
    let found = trial.run(["status", "--json"]).json();
    let far = &found["unreachable"][0];
    assert_eq!(far["executor"], json!("far"), "{found}");
    assert!(far["why"].as_str().unwrap().contains("no route to far"), "{found}");
    assert!(far["since"].is_string() && far["tries"].as_u64() >= Some(2), "{found}");
    trial.run(["dag-status"]).stdout_has("executor far is out since");
    fs::write(open(&trial), "").unwrap();
    run.end(&trial).graph_complete();
    let journal = trial.journal();
    one_tries_at_a_time(&journal);
    let withdrawn = trial.lines("withdrawn");
    let started = trial.lines("started");
    assert_eq!(started.len(), withdrawn.len() + 1);
    for line in &started {
        assert_eq!((&line["attempt"], &line["iteration"]), (&json!(1), &json!(1)), "{line}");
    }
    assert_eq!(trial.lines("executor_reachable").len(), 1);
    assert_eq!(trial.lines("interrupted"), Vec::<Value>::new());
    assert_eq!(trial.lines("finished")[0]["iterations"], json!(1));
    assert_eq!(trial.lines("slot_kept"), Vec::<Value>::new());
    assert_eq!(trial.completions(), ["a"]);
    assert!(trial.run(["status", "--json"]).json()["unreachable"].as_array().unwrap().is_empty());
    assert_eq!(oracle::committed(&trial, &[]), Vec::<String>::new());
    trial.no_process_is_left();
}

#[test]
fn an_executor_that_only_a_person_can_mend_is_tried_once_a_run_and_blames_no_agent() {
    let graph = "\
tasks:
  - {id: a, run_on: far, max_attempts: 1}
  - {id: b, run_on: far, max_attempts: 1}
  - {id: c}
  - {id: d, depends_on: [a]}
";
    let trial = project(graph, "");
    let gate = trial.dir().join("gate");
    let text = fs::read_to_string(&gate).unwrap();
    trial.script(&gate, &text.replace("exit 255", "exit 127"));
    let ran = trial.run(["run"]).code(69);
    let why = ran.finished()["why"].as_str().unwrap().to_owned();
    assert!(why.contains("executor `far` cannot be used") && why.contains("no route"), "{why}");
    assert!(why.contains("`ralph doctor --on far` tries it"), "{why}");
    assert_eq!(trial.completions(), ["c"]);
    assert_eq!(tries(&trial), 1);
    let told = trial.lines("executor_unreachable");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["lasts"], &told[0]["pause_seconds"]), (&json!(true), &json!(32)));
    assert_eq!(trial.lines("withdrawn").len(), 1);
    assert_eq!(trial.lines("denied"), Vec::<Value>::new());
    assert_eq!(refs(&trial), "");
    fs::write(open(&trial), "").unwrap();
    trial.run(["run"]).graph_complete();
    let attempts = trial.lines("started");
    assert!(attempts.iter().all(|line| line["attempt"] == 1), "{attempts:?}");
    trial.no_process_is_left();
}

#[test]
fn an_executor_that_cannot_take_work_blames_no_task_and_ends_no_run() {
    let graph = "\
tasks:
  - {id: a, run_on: far, priority: 1}
  - {id: b, run_on: far, priority: 1}
  - {id: c}
  - {id: d, depends_on: [c]}
";
    let trial = project(graph, "max_attempts: 1\n");
    fs::write(open(&trial), "").unwrap();
    let gate = trial.dir().join("gate");
    let text = fs::read_to_string(&gate).unwrap();
    trial.script(&gate, &text.replace("\"PATH=$PATH\"", "PATH=/nowhere"));
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "completed");
    trial.wait_for_records(2, "executor_unreachable");
    assert_eq!(trial.tasks("completed"), ["c", "d"]);
    trial
        .run(["status"])
        .stdout_has("Executor far is out since")
        .stdout_has("`git` is not on PATH");
    let tried: BTreeSet<String> = trial.tasks("withdrawn").into_iter().collect();
    assert_eq!(tried.len(), 2, "another task may be what it can take: {tried:?}");
    trial.script(&gate, &text);
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("failed"), Vec::<Value>::new());
    assert_eq!(trial.lines("executor_reachable").len(), 1);
    assert_eq!(refs(&trial), "");
    trial.no_process_is_left();
}

#[test]
fn an_executor_where_nothing_stays_is_refused_if_there_is_a_setup() {
    let graph = "tasks: [{id: a, run_on: far, max_attempts: 1}]\n";
    let trial = project(graph, "setup: ['true', touch dep]\n").file(".gitignore", "dep\n");
    fs::write(open(&trial), "").unwrap();
    let gate = trial.dir().join("gate");
    let text = fs::read_to_string(&gate).unwrap();
    let home = format!("'HOME={}'", trial.dir().join("elsewhere").display());
    trial.script(&gate, &text.replace(&home, "\"HOME=$(mktemp -d)\""));
    let ran = trial.run(["run"]).code(69);
    let why = ran.finished()["why"].as_str().unwrap().to_owned();
    assert!(why.contains("no file stays there from one start to the next"), "{why}");
    assert_eq!(trial.lines("failed"), Vec::<Value>::new());
    assert_eq!(tries(&trial), 2, "two commands of the setup are enough");
    trial.run(["doctor", "--on", "far"]).code(69).stdout_has("no file stays there");
    trial.script(&gate, &text);
    trial.run(["run"]).graph_complete();
    trial.no_process_is_left();
}

#[test]
fn one_attempt_at_a_time_tries_and_tasks_on_other_executors_go_on() {
    let graph = "\
tasks:
  - {id: a, run_on: far, priority: 1}
  - {id: b, run_on: far, priority: 1}
  - {id: c, run_on: far, priority: 1}
  - {id: d}
  - {id: e, depends_on: [d]}
";
    let trial = project(graph, "jobs: 3\n");
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "completed");
    assert_eq!(trial.tasks("completed"), ["d", "e"]);
    until("it is tried again", || trial.lines("executor_unreachable").len() >= 3);
    fs::write(open(&trial), "").unwrap();
    run.end(&trial).graph_complete();
    one_tries_at_a_time(&trial.journal());
    let started = trial.lines("started");
    assert!(started.iter().all(|line| line["attempt"] == 1), "{started:?}");
    let iterations = |line: &Value| line["iteration"].as_u64().unwrap();
    let last = started.iter().map(iterations).max();
    assert!(last <= Some(5), "withdrawn attempts use up iterations: {started:?}");
    assert_eq!(trial.lines("completed").len(), 5);
    assert_eq!(oracle::committed(&trial, &[]), Vec::<String>::new());
    trial.no_process_is_left();
}

#[test]
fn a_run_that_waits_longer_than_max_wait_says_for_what() {
    let graph = "tasks: [{id: a, run_on: far}, {id: b, depends_on: [a]}]\n";
    let trial = project(graph, "max_wait: 2s\n");
    let ran = trial.run(["run"]).code(69);
    let why = ran.finished()["why"].as_str().unwrap().to_owned();
    assert!(why.contains("executor `far` is out") && why.contains("no route"), "{why}");
    let said = ran.err();
    assert!(said.contains("no route to far"));
    // A run that has ended tries nothing again, and the next one tries at once.
    let (_, end) = said.split_once("is out for longer").unwrap();
    assert!(!end.contains("next try"), "{said}");
    let text = trial.run(["status"]).stdout_has("no route to far").out();
    assert!(!text.contains("next try") && !text.contains("tried again"), "{text}");
    let text = trial.run(["dag-status"]).stdout_has("executor far is out").out();
    assert!(!text.contains("next try") && !text.contains("tried again"), "{text}");
    let graph = trial.run(["dag-status", "--json"]).json();
    for found in [&graph, &trial.run(["status", "--json"]).json()] {
        let far = &found["unreachable"][0];
        assert_eq!((&far["executor"], &far["next_try"]), (&json!("far"), &Value::Null), "{found}");
    }
    assert_eq!(
        (&graph["tasks"]["ready"][0]["id"], &graph["counts"]["ready"]),
        (&json!("a"), &json!(1))
    );
    assert_eq!(trial.status("a"), "pending");
    assert_eq!(refs(&trial), "");
    assert!(tries(&trial) >= 2);
    assert_eq!(oracle::committed(&trial, &[]), Vec::<String>::new());
    // The next run tries at once.
    fs::write(open(&trial), "").unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("failed"), Vec::<Value>::new());
    trial.no_process_is_left();
}

#[test]
fn a_retry_that_is_withdrawn_keeps_the_work_before_it() {
    let graph = "tasks: [{id: a, run_on: far}]\n";
    let trial = project(graph, "").agent("told");
    let seen = trial.dir().join("seen");
    fs::create_dir(&seen).unwrap();
    let trial = trial.env("TRIAL_DIR", seen.to_str().unwrap());
    let text = trial.read(".ralph/config.yaml");
    let text = text.replace("\"ralph\":", "\"env\":[\"TRIAL_DIR\"],\"ralph\":");
    trial.save(".ralph/config.yaml", &text);
    trial.git(&["commit", "--quiet", "-am", "Pass a variable"]);
    let open = open(&trial);
    fs::write(&open, "").unwrap();
    let shut = format!(
        "put work/one.txt 1; commit; echo 2 > work/two.txt; rm '{}'; exit 1\n",
        open.display()
    );
    fs::write(seen.join("do-a-1"), shut).unwrap();
    fs::write(seen.join("do-a"), "test -e work/one.txt; test -e work/two.txt; work\n").unwrap();
    let run = trial.start(["run"]);
    trial.wait_for_records(2, "withdrawn");
    fs::write(&open, "").unwrap();
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("failed").len(), 1);
    assert_eq!(trial.lines("completed")[0]["attempt"], json!(2));
    assert_eq!(trial.lines("slot_kept"), Vec::<Value>::new());
    trial.no_process_is_left();
}

#[test]
fn a_run_that_is_killed_while_an_executor_is_away_leaves_nothing_to_mend() {
    let graph = "tasks: [{id: a, run_on: far, max_attempts: 1}]\n";
    let trial = project(graph, "");
    let mut withdrawn = 0;
    for _ in 0..3 {
        let run = trial.start(["run"]);
        trial.wait_for_records(withdrawn + 1, "withdrawn");
        run.kill();
        withdrawn = trial.lines("withdrawn").len();
    }
    fs::write(open(&trial), "").unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.completions(), ["a"]);
    assert_eq!(oracle::committed(&trial, &[]), Vec::<String>::new());
    trial.no_process_is_left();
}

#[test]
#[ignore = "slow"]
fn a_command_that_says_nothing_is_told_until_it_answers() {
    let trial = project("tasks: [{id: a, run_on: far, max_attempts: 1}]\n", "");
    let gate = trial.dir().join("gate");
    let text = fs::read_to_string(&gate).unwrap();
    let (before, after) = text.split_once("if [ !").unwrap();
    let after = after.split_once("exit 255; fi\n").unwrap().1;
    let wait = format!("until [ -e '{}' ]; do sleep 0.05; done\n", open(&trial).display());
    trial.script(&gate, &format!("{before}{wait}{after}"));
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "executor_unreachable");
    let told = trial.lines("executor_unreachable").remove(0);
    assert_eq!((&told["task_id"], &told["tries"]), (&json!("a"), &json!(0)), "{told}");
    let text = trial.run(["status"]).out();
    assert!(text.contains("Executor far is out since"), "{text}");
    assert!(text.contains("it has said nothing for"), "{text}");
    trial.run(["dag-status"]).stdout_has("executor far is out since");
    let found = trial.run(["status", "--json"]).json();
    assert_eq!(found["unreachable"][0]["next_try"], Value::Null, "{found}");
    fs::write(open(&trial), "").unwrap();
    run.end(&trial).graph_complete();
    assert_eq!(trial.lines("executor_reachable").len(), 1);
    assert_eq!(trial.lines("withdrawn"), Vec::<Value>::new());
    assert_eq!((trial.completions(), tries(&trial)), (vec!["a".to_owned()], 1));
    trial.no_process_is_left();
}

#[test]
fn a_pool_spreads_attempts_over_its_hosts_and_does_without_one_that_is_out() {
    let graph = "tasks: [{id: a}, {id: b}, {id: c}, {id: d}, {id: e, run_on: big@x, depends_on: [a, b, c, d]}]\n";
    let trial = project(graph, "jobs: 3\nrun_on: big\nlimits: {big: 1}\nproof: none\n");
    let gate = trial.dir().join("gate");
    let text = fs::read_to_string(&gate).unwrap();
    let text = text.replace("echo try", "host=$1; shift; echo try");
    let shut = format!("[ ! -e '{}.'$host ]", open(&trial).display());
    trial.script(&gate, &text.replace(&format!("[ ! -e '{}' ]", open(&trial).display()), &shut));
    let config = fs::read_to_string(trial.root().join(".ralph/config.yaml")).unwrap();
    let pool = json!({"big": {"command": {
        "argv": [gate, "{host}"], "hosts": ["x", "y", "z"], "ralph": RALPH,
    }}});
    let lines = config.lines().map(|line| {
        let is_it = line.starts_with("executors:");
        if is_it { format!("executors: {pool}") } else { line.to_owned() }
    });
    let trial = trial.file(".ralph/config.yaml", &lines.collect::<Vec<_>>().join("\n"));
    for host in ["x", "y"] {
        trial.leave(&format!("open.{host}"));
    }
    trial.run(["run"]).graph_complete();
    let hosts = |action: &str| -> BTreeSet<String> {
        let lines = trial.lines(action);
        lines.iter().filter_map(|line| Some(line["run_on"].as_str()?.to_owned())).collect()
    };
    assert_eq!(hosts("withdrawn"), BTreeSet::from(["big@z".to_owned()]));
    assert!(
        hosts("started").is_superset(&BTreeSet::from(["big@x".to_owned(), "big@y".to_owned()]))
    );
    assert_eq!(trial.lines("failed"), Vec::<Value>::new());
    let of_e = trial.lines("started").into_iter().find(|line| line["task_id"] == "e").unwrap();
    assert_eq!(of_e["run_on"], "big@x");
    let (mut at_work, mut task_at) = (BTreeMap::new(), BTreeMap::new());
    for line in trial.journal() {
        let task = line["task_id"].as_str().unwrap_or_default().to_owned();
        match line["action"].as_str().unwrap() {
            "started" => {
                let host = line["run_on"].as_str().unwrap().to_owned();
                *at_work.entry(host.clone()).or_insert(0) += 1;
                assert_eq!(at_work[&host], 1, "{line}");
                task_at.insert(task, host);
            }
            "withdrawn" | "queued" | "completed" => {
                task_at.remove(&task).map(|host| at_work.remove(&host));
            }
            _ => {}
        }
    }
    trial.no_process_is_left();
}
