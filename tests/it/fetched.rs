//! Work that an agent elsewhere had finished when its guardian or the whole run was killed: the
//! executor is asked for it, and it lands without being done again. A command whose answers can be
//! held back stands for all executors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    engines::station::{Engine, Kind, Station},
    oracle,
    support::{TestProject, until},
};

/// One task, which cannot be tried again if an attempt counts.
const ONCE: &str = "tasks: [{id: a, max_attempts: 1}]\n";

/// Works, reports and ends while nothing gets back from there.
const FINISHES: &str = "\
touch \"$TRIAL_DIR/hold\"
echo \"finished by $RALPH_ATTEMPT\"
work
echo a >> \"$TRIAL_DIR/worked\"
";

/// A project whose executor does not answer while the file `shut` is there, and whose answers wait
/// while the file `hold` is there.
fn station(graph: &str, settings: &str) -> Station {
    let trial = TestProject::new().graph(graph);
    let way = trial.dir().join("way");
    let text = "#!/bin/sh\n\
        if [ -e \"$TRIAL_DIR/shut\" ]; then echo 'no route' >&2; exit 255; fi\n\
        \"$@\" | while IFS= read -r line; do\n\
        while [ -e \"$TRIAL_DIR/hold\" ]; do sleep 0.05; done\n\
        printf '%s\\n' \"$line\" || exit\n\
        done\n";
    trial.script(&way, text);
    let station = Station::with(Engine::Here, Kind::Command, trial, settings, |executor| {
        let argv = executor["command"]["argv"].as_array_mut().unwrap();
        argv.insert(0, json!(way));
    });
    station.told("do-a-1", FINISHES);
    station
}

impl Station {
    /// Waits until the worker has noted that its agent ended.
    pub fn wait_for_end_there(&self) {
        let folder = self.repositories().unwrap();
        until("the end of the agent is kept there", || !ends(&folder, 5).is_empty());
    }

    /// Expects one attempt, whose work was done once and landed.
    #[track_caller]
    pub fn landed_at_once(&self) {
        let trial = &self.trial;
        assert_eq!(trial.lines("interrupted"), Vec::<Value>::new());
        assert_eq!(trial.tasks("started").iter().filter(|id| *id == "a").count(), 1);
        assert_eq!(self.lines("worked"), ["a"]);
        let completed = trial.lines("completed");
        let own = completed.iter().find(|line| line["task_id"] == "a").unwrap();
        assert_eq!((&own["attempt"], &own["exit_code"]), (&json!(1), &json!(0)), "{own}");
        let output = trial.read("logs/attempts/a/1/stdout");
        assert_eq!(output.matches("finished by 1").count(), 1, "{output}");
        assert!(!trial.root().join("logs/attempts/a/1/stdout.fetched").exists());
        assert_eq!(oracle::committed(trial, &[]), Vec::<String>::new());
        trial.no_process_is_left();
    }
}

/// The files below a folder, at most so deep, in which guardians noted the ends of agents.
fn ends(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| {
        let path = entry.path();
        if path.file_name().is_some_and(|name| name == "exit") {
            vec![path]
        } else if depth > 0 && path.is_dir() {
            ends(&path, depth - 1)
        } else {
            Vec::new()
        }
    });
    below.collect()
}

#[test]
fn the_next_run_lands_what_was_finished_when_ralph_was_killed() {
    let station = station(ONCE, "verify: ['test -e work/a.txt']\n");
    let trial = &station.trial;
    let run = trial.start(["run"]);
    station.wait_for_end_there();
    run.kill();
    fs::remove_file(station.seen("hold")).unwrap();
    trial.run(["run"]).graph_complete();
    assert_eq!(trial.lines("recovered").len(), 1);
    assert_eq!(trial.lines("verified").len(), 1);
    station.landed_at_once();
}

/// The worker still has how the agent ended, which says nothing about a later process. That is killed
/// only once its start has arrived.
#[test]
fn the_end_of_an_agent_is_not_that_of_a_verify_command_whose_line_broke() {
    const VERIFY: &str = "if ! [ -e \"$TRIAL_DIR/cut\" ]; then : > \"$TRIAL_DIR/cut\"; \
        read -r _ _ _ worker _ < /proc/$PPID/stat; sleep 1; kill -9 $worker; sleep 600; fi; echo bad; false";
    let station = station(ONCE, &format!("verify: [{}]\n", json!(VERIFY)));
    let trial = &station.trial;
    station.told("do-a-1", "work");
    station.told("do-a-2", "work");
    trial.run(["run"]).code(3);
    assert!(station.seen("cut").exists());
    assert_eq!(trial.lines("completed"), Vec::<Value>::new());
    let verified = trial.lines("verified");
    assert!(verified.iter().all(|line| line["exit_code"] != 0), "{verified:?}");
    // Only the command is repeated, and asked about.
    assert_eq!(trial.tasks("started"), ["a"]);
    assert!(trial.lines("verifying").len() > 2);
    assert_eq!(trial.git(&["ls-tree", "-r", "--name-only", "main", "work"]), "");
    trial.no_process_is_left();
}

/// The worker is asked again for half a minute, and then the attempt does not count.
#[test]
fn an_agent_that_breaks_its_slot_there_uses_an_attempt() {
    let station = station("tasks: [{id: a, max_attempts: 2}]\n", "");
    let trial = &station.trial;
    station.told("do-a-1", "work; rm -r .git");
    station.told("do-a-2", "work");
    let run = trial.run(["run"]).graph_complete();
    run.stderr_has("(1 of 2 attempts)");
    assert!(trial.lines("interrupted").is_empty() && trial.lines("contact").is_empty());
    let said = trial.read("logs/attempts/a/1/stderr");
    assert!(said.contains("ralph: its work is lost: ") && said.contains("has broken it"), "{said}");
    assert_eq!(trial.completions(), ["a"]);
}

#[test]
fn a_killed_guardian_does_not_cost_what_was_finished() {
    let station = station(ONCE, "");
    let trial = &station.trial;
    let run = trial.start(["run"]);
    station.wait_for_end_there();
    let guardian = trial.guardian("a.1");
    rustix::process::kill_process(guardian, Signal::KILL).unwrap();
    fs::remove_file(station.seen("hold")).unwrap();
    run.end(trial).graph_complete();
    station.landed_at_once();
}

#[test]
fn a_killed_guardian_of_the_question_does_not_cost_what_was_finished() {
    let station = station(ONCE, "");
    let trial = &station.trial;
    let run = trial.start(["run"]);
    station.wait_for_end_there();
    let first = trial.guardian("a.1");
    run.kill();
    let run = trial.start(["run"]);
    until("the question has a guardian", || trial.guardian("a.1") != first);
    rustix::process::kill_process(trial.guardian("a.1"), Signal::KILL).unwrap();
    fs::remove_file(station.seen("hold")).unwrap();
    run.end(trial).graph_complete();
    station.landed_at_once();
}

#[test]
fn an_executor_that_is_away_at_the_start_holds_up_nothing_and_is_asked_until_it_answers() {
    let graph = "tasks: [{id: a, max_attempts: 1}, {id: b, run_on: local}]\n";
    let station = station(graph, "");
    let trial = &station.trial;
    let run = trial.start(["run", "--task", "a"]);
    station.wait_for_end_there();
    run.kill();
    fs::write(station.seen("shut"), "").unwrap();
    fs::remove_file(station.seen("hold")).unwrap();
    let run = trial.start(["run", "--jobs", "2"]);
    trial.wait_for_records(1, "completed");
    assert_eq!(trial.tasks("completed"), ["b"]);
    trial.wait_for_records(1, "contact");
    trial.run(["status"]).stdout_has("no contact since");
    // A run that is stopped leaves the question to the next one.
    run.signal(Signal::INT);
    run.end(trial).code(130);
    assert_eq!(trial.lines("interrupted"), Vec::<Value>::new());
    fs::remove_file(station.seen("shut")).unwrap();
    trial.run(["run"]).graph_complete();
    station.landed_at_once();
}

#[test]
fn an_agent_that_failed_there_is_judged_and_one_that_was_cut_off_is_interrupted() {
    let station = station("tasks: [{id: a, max_attempts: 2}]\n", "");
    let trial = &station.trial;
    station.told("do-a-1", "touch \"$TRIAL_DIR/hold\"; echo broken >&2; exit 3\n");
    station.told("do-a-2", "put work/a.txt 2; commit; touch \"$TRIAL_DIR/there\"; sleep 600\n");
    station.told("do-a-3", "test -e work/a.txt; report\n");
    let run = trial.start(["run"]);
    station.wait_for_end_there();
    run.kill();
    fs::remove_file(station.seen("hold")).unwrap();
    let run = trial.start(["run"]);
    crate::support::wait_for(&station.seen("there"));
    let failed = trial.lines("failed");
    assert_eq!((failed.len(), &failed[0]["exit_code"]), (1, &json!(3)), "{failed:?}");
    assert!(trial.read("logs/attempts/a/1/stderr").contains("broken"));
    run.kill();
    trial.run(["run"]).graph_complete();
    let interrupted = trial.lines("interrupted");
    assert_eq!((interrupted.len(), &interrupted[0]["attempt"]), (1, &json!(2)), "{interrupted:?}");
    assert_eq!(trial.lines("completed")[0]["attempt"], json!(3));
    assert_eq!(trial.subjects(), ["Work on a"]);
    trial.no_process_is_left();
}
