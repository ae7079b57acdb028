//! Whole runs on each real executor.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{
    is_root,
    station::{Engine, KINDS, Kind, Station},
};
use crate::support::{RALPH, SETTINGS, TestProject, agent};

/// A graph in which two tasks can run at a time.
const GRAPH: &str = "\
tasks:
  - {id: a}
  - {id: b, depends_on: [a]}
  - {id: c, depends_on: [a]}
  - {id: d, depends_on: [b, c]}
";

/// The size of everything in a folder, in bytes.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let found = entry.path().symlink_metadata().unwrap();
            if found.is_dir() { size(&entry.path()) } else { found.len() }
        })
        .sum()
}

fn run(kind: Kind) {
    let settings = "jobs: 2\nverify: ['test -e work/$RALPH_TASK_ID.txt']\n";
    let Some(station) = Station::start(kind, GRAPH, settings) else { return };
    let trial = &station.trial;
    // `a` leaves a note, and a process that has a group of its own; `b` asks before it works.
    station.told("do-a", "\"$RALPH\" note 'the door is green'; (setsid sleep 600 &); work\n");
    station.told("do-b-1", "\"$RALPH\" ask 'Which colour?'\n");
    // `d` reports with the file that its prompt names.
    station.told(
        "do-d",
        "put work/d.txt 'attempt 1'; commit
         file=$(cat \"$TRIAL_DIR/prompt-d-1\"); file=${file#*create the file \\`}
         touch \"${file%%\\`*}\"\n",
    );
    let run = trial.start(["run"]).end(trial).code(4);
    let finished = run.finished();
    assert_eq!(finished["remaining"], json!(2), "{finished}");
    station.nothing_is_left();
    assert_eq!(trial.lines("needs_input")[0]["question"], json!("Which colour?"));
    assert!(trial.read(".ralph/tasks/a/notes.md").contains("the door is green"));
    let noted = trial.lines("noted");
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(
        (&noted[0]["task_id"], &noted[0]["note"]),
        (&json!("a"), &json!("the door is green"))
    );
    trial.run(["answer", "b", "the answer is blue"]).code(0);
    trial.start(["run"]).end(trial).graph_complete();
    station.nothing_is_left();

    assert_eq!(trial.completions().len(), 4);
    let prompt = |name: &str| fs::read_to_string(station.seen(name)).unwrap();
    assert!(prompt("prompt-c-1").contains("the door is green"));
    assert!(prompt("prompt-b-2").contains("the answer is blue"));
    let file = match kind {
        Kind::Local | Kind::Sandbox => trial.root().join(".ralph/tasks/d/"),
        _ => ".ralph/tasks/d/".into(),
    };
    let names_it = format!("`{}", file.display());
    assert!(prompt("prompt-d-1").contains(&names_it), "{}", prompt("prompt-d-1"));
    let started = trial.lines("started");
    assert_eq!(started.len(), 5);
    assert!(started.iter().all(|line| line["run_on"] == json!("there")), "{started:?}");
    for line in trial.lines("agent_started") {
        let placement = &line["placement"];
        assert_eq!(placement["run_on"], json!("there"), "{line}");
        let is_machine = matches!(kind, Kind::Ssh | Kind::Command | Kind::Slurm);
        assert_eq!(placement["host"].is_string(), is_machine, "{line}");
        let is_within = matches!(kind, Kind::Sandbox | Kind::Container);
        assert_eq!(placement["within"].is_string(), is_within, "{line}");
    }
    for id in ["a", "b", "c", "d"] {
        assert!(trial.read(&format!("work/{id}.txt")).starts_with("attempt "));
    }
    assert_eq!(trial.git(&["status", "--porcelain"]), "");
    if let Some(folder) = station.repositories() {
        let size = size(&folder);
        println!("{kind:?}: the folder of the worker has {size} bytes");
        assert!(size > 0 && size < 3 << 20, "{size}");
    }
}

#[test]
#[ignore = "slow"]
fn a_graph_completes_in_sandboxes() {
    run(Kind::Sandbox);
}

#[test]
#[ignore = "slow"]
fn a_graph_completes_behind_a_command() {
    run(Kind::Command);
}

#[test]
#[ignore = "slow"]
fn a_graph_completes_on_a_host() {
    run(Kind::Ssh);
}

#[test]
#[ignore = "slow"]
fn a_graph_completes_in_containers() {
    run(Kind::Container);
}

#[test]
#[ignore = "slow"]
fn a_graph_completes_on_a_cluster() {
    run(Kind::Slurm);
}

/// The time of a record of the journal.
fn time(record: &Value) -> DateTime<Utc> {
    record["timestamp"].as_str().unwrap().parse().unwrap()
}

#[test]
#[ignore = "a measurement"]
fn measured_time_that_an_executor_adds() {
    const TASKS: usize = 16;
    let graph = (0..TASKS).map(|n| format!("  - id: t{n}\n")).collect::<String>();
    let mut local = 0.0;
    for kind in [Kind::Local].into_iter().chain(KINDS) {
        let Some(station) = Station::start(kind, &format!("tasks:\n{graph}"), "") else { continue };
        station.trial.start(["run"]).end(&station.trial).graph_complete();
        // From the start of the first attempt to that of the last: what a run does once is left out.
        let times: Vec<DateTime<Utc>> = station.trial.lines("started").iter().map(time).collect();
        let took = times[TASKS - 1] - times[0];
        let each = took.num_microseconds().unwrap() as f64 / 1000.0 / (TASKS - 1) as f64;
        if kind == Kind::Local {
            local = each;
        }
        println!("{kind:?}: {each:.0} ms for an attempt, {:.0} more than here", each - local);
    }
}

#[test]
#[ignore = "slow"]
fn files_from_a_container_belong_to_the_user() {
    use std::os::unix::fs::MetadataExt;
    let Some(station) = Station::start(Kind::Container, "tasks: [{id: a}]\n", "") else { return };
    let trial = &station.trial;
    station.told("do", "work; mkdir -p made; touch made/left\n");
    trial.start(["run"]).end(trial).graph_complete();
    let own = trial.root().metadata().unwrap();
    let mut folders = vec![trial.dir()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let found = entry.path().symlink_metadata().unwrap();
            assert_eq!((found.uid(), found.gid()), (own.uid(), own.gid()), "{:?}", entry.path());
            count += 1;
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(count > 20 && (is_root() || own.uid() != 0));
    assert!(station.containers().is_empty());
}

#[test]
#[ignore = "slow"]
fn a_missing_image_or_engine_is_told() {
    let Some(engine) = super::station::Engine::start(Kind::Container) else { return };
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let station = Station::with(engine, Kind::Container, trial, "max_attempts: 2\n", |executor| {
        executor["container"]["image"] = json!("localhost/ralph-no-such");
    });
    let trial = &station.trial;
    let missing = trial.start(["run"]).end(trial).code(69);
    missing
        .stderr_has("executor `there` cannot be used: there is no image `localhost/ralph-no-such`");
    station.nothing_is_left();
    assert!(station.lines("places").is_empty(), "nothing ran");

    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("commit");
    let gone = "run_on: box\nexecutors: {box: {container: {image: x, engine: /no/such/engine}}}\n";
    trial.save(".ralph/config.yaml", &format!("{SETTINGS}{gone}"));
    trial.run(["run"]).code(69).stderr_has("/no/such/engine");
    assert!(!trial.root().join("logs/ralph.jsonl").exists(), "nothing starts");
}

#[test]
#[ignore = "slow"]
fn an_engine_that_starts_nothing_costs_no_attempt() {
    let Some(engine) = Engine::start(Kind::Container) else { return };
    let Engine::Container(tool) = &engine else { return };
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let path = trial.dir().join("engine");
    let says = "echo 'Error: crun: the kernel does not let me' >&2; exit 126";
    let script =
        format!("#!/bin/sh\n[ \"$1\" != run ] || {{ {says}; }}\nexec {} \"$@\"\n", tool.program);
    trial.script(&path, &script);
    let station = Station::with(engine, Kind::Container, trial, "max_wait: 2s\n", |executor| {
        executor["container"]["engine"] = json!(path);
    });
    let trial = &station.trial;
    let run = trial.start(["run"]).end(trial).code(69);
    run.stderr_has("crun: the kernel does not let me");
    assert!(trial.lines("failed").is_empty() && station.lines("places").is_empty());
    assert!(trial.lines("slot_kept").is_empty(), "nothing was started");
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn the_program_is_sent_to_a_host_that_has_none() {
    let Some(engine) = super::station::Engine::start(Kind::Ssh) else { return };
    let trial = TestProject::new().graph("tasks: [{id: a}]\n");
    let station = Station::with(engine, Kind::Ssh, trial, "", |executor| {
        let ssh = executor["ssh"].as_object_mut().unwrap();
        ssh.remove("ralph");
        ssh.insert("send_binary".to_owned(), json!(true));
    });
    let trial = &station.trial;
    trial.start(["run"]).end(trial).graph_complete();
    station.nothing_is_left();
    let sent: Vec<_> = fs::read_dir(station.host().home().join(".cache/ralph/bin"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(sent.len(), 1);
    assert!(fs::read(&sent[0]).unwrap() == fs::read(RALPH).unwrap());
}

#[test]
#[ignore = "slow"]
fn another_version_or_no_program_on_a_host_is_told() {
    let Some(engine) = super::station::Engine::start(Kind::Ssh) else { return };
    let trial = TestProject::new().graph("tasks: [{id: a, max_attempts: 1}]\n");
    let station = Station::with(engine, Kind::Ssh, trial, "", |executor| {
        executor["ssh"]["ralph"] = json!("~/ralph");
    });
    let trial = &station.trial;
    let missing = trial.start(["run"]).end(trial).code(69);
    missing.stderr_has("executor `there`").stderr_has("not found");
    let hello = "{\"hello\":{\"protocol\":0,\"version\":\"0.0.9\",\"host\":\"far\",\"program\":\"/x/ralph\"}}";
    trial.script(&station.host().home().join("ralph"), &format!("echo '{hello}'; cat > /dev/null"));
    let other = trial.start(["run"]).end(trial).code(69);
    other.stderr_has("`/x/ralph` at `far` is ralph 0.0.9").stderr_has(env!("CARGO_PKG_VERSION"));
    station.nothing_is_left();
    assert!(station.lines("places").is_empty(), "nothing ran");
    // Neither counts.
    fs::remove_file(station.host().home().join("ralph")).unwrap();
    std::os::unix::fs::symlink(RALPH, station.host().home().join("ralph")).unwrap();
    trial.start(["run"]).end(trial).graph_complete();
}

/// Tries the doctor, and a run, with an agent that is a file of the repository.
fn agent_of_the_repository(kind: Kind) {
    let graph = TestProject::new().graph("tasks: [{id: a}]\n");
    let Some(engine) = Engine::start(kind) else { return };
    let station = Station::on(engine, kind, graph, "");
    station.told("do", "work\n");
    let trial = station.trial.file("tools/agent.sh", &fs::read_to_string(agent("told")).unwrap());
    let path = trial.root().join("tools/agent.sh");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    trial.git(&["commit", "--quiet", "--all", "--message", "Make it executable"]);
    let station = Station { trial: trial.command(["./tools/agent.sh"]), ..station };
    let words = ["doctor", "--on", "there", "--", "./tools/agent.sh"];
    let found = station.trial.run(words).code(0).out();
    assert!(found.contains("wrote, committed, found the agent and was killed there"), "{found}");
    station.nothing_is_left();
    station.trial.start(["run"]).end(&station.trial).graph_complete();
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn an_agent_of_the_repository_is_found_in_a_container() {
    agent_of_the_repository(Kind::Container);
}

#[test]
#[ignore = "slow"]
fn an_agent_of_the_repository_is_found_on_a_host() {
    agent_of_the_repository(Kind::Ssh);
}
