//! Runs that lose an executor, or are lost themselves: the attempt is interrupted and not counted,
//! its work is found again, and nothing goes on elsewhere.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    is_alive,
    station::{Engine, Kind, Station},
};
use crate::{
    oracle,
    support::{RALPH, TestProject, until, wait_for},
};

/// One task, which cannot be tried again if an attempt counts.
const ONCE: &str = "tasks: [{id: a, max_attempts: 1}]\n";

/// Works if no earlier attempt has.
const WORKS_ONCE: &str = "\
work_once() {
    [ ! -e work/a.txt ] || return 0
    put work/a.txt \"$RALPH_ATTEMPT\" && commit && echo a >> \"$TRIAL_DIR/worked\"
}
";

/// Says that it works, and on which node of a cluster.
const SAYS_WHERE: &str =
    "echo \"${SLURMD_NODENAME-}\" > \"$TRIAL_DIR/node\"; touch \"$TRIAL_DIR/there\"";

/// A project whose first attempt works, says so and waits; later ones work if need be and report.
fn station(kind: Kind, graph: &str) -> Option<Station> {
    let station = Station::start(kind, graph, "")?;
    station.told("do-a-1", &format!("{WORKS_ONCE}work_once; {SAYS_WHERE}; sleep 600\n"));
    station.told("do-a", &format!("{WORKS_ONCE}work_once; report\n"));
    Some(station)
}

impl Station {
    /// Expects one attempt that was interrupted and did not count, and one that has completed the
    /// task. Returns why the first one ended.
    #[track_caller]
    fn is_interrupted_once(&self) -> String {
        let interrupted = self.trial.lines("interrupted");
        assert_eq!(interrupted.len(), 1, "{interrupted:?}");
        assert_eq!(self.trial.lines("started").len(), 2);
        assert_eq!(self.trial.completions(), ["a"]);
        self.nothing_is_left();
        interrupted[0].to_string()
    }

    /// The number of processes that may run as far as is known here.
    fn signs(&self) -> usize {
        let folder = self.trial.state().join("signs");
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// The number of times that the work was done.
    fn works(&self) -> usize {
        self.lines("worked").len()
    }
}

#[test]
#[ignore = "slow"]
fn work_that_was_finished_before_the_connection_was_cut_is_found_again() {
    let Some(station) = station(Kind::Ssh, ONCE) else { return };
    let trial = &station.trial;
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    station.host().cut();
    run.end(trial).graph_complete();
    let why = station.is_interrupted_once();
    // The line may be cut before the word of the start has come.
    assert!(why.contains("the connection ended"), "{why}");
    assert_eq!(
        station.works(),
        1,
        "the work is not done twice: {}",
        trial.read("logs/ralph.jsonl")
    );
    assert_eq!(trial.subjects(), ["Work on a"]);
}

#[test]
#[ignore = "slow"]
fn a_host_that_is_away_for_a_moment_costs_an_attempt_that_does_not_count() {
    let Some(station) = station(Kind::Ssh, ONCE) else { return };
    let trial = &station.trial;
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    station.host().refuse(true);
    station.host().cut();
    until("the worker there has ended", || {
        station.host().reap();
        super::marked(station.host().folder()).is_empty()
    });
    station.host().refuse(false);
    run.end(trial).graph_complete();
    station.is_interrupted_once();
    assert_eq!(
        station.works(),
        1,
        "the work is not done twice: {}",
        trial.read("logs/ralph.jsonl")
    );
}

#[test]
#[ignore = "slow"]
fn work_that_was_finished_on_a_host_when_ralph_was_killed_is_not_done_again() {
    let Some(station) = Station::start(Kind::Ssh, ONCE, "") else { return };
    let trial = &station.trial;
    let script = format!(
        "{SAYS_WHERE}; echo \"finished by 1\"; await go; work; echo a >> \"$TRIAL_DIR/worked\"\n"
    );
    station.told("do-a-1", &script);
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    station.host().stop();
    std::fs::write(station.seen("go"), "").unwrap();
    station.wait_for_end_there();
    run.kill();
    station.host().go_on();
    trial.start(["run"]).end(trial).graph_complete();
    station.landed_at_once();
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_silent_line_is_told_until_the_host_is_heard_again() {
    let Some(station) = Station::start(Kind::Ssh, ONCE, "") else { return };
    let trial = &station.trial;
    station.told("do-a-1", &format!("{SAYS_WHERE}; await go; work\n"));
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    station.host().stop();
    trial.wait_for_records(1, "contact");
    let lost = trial.lines("contact").remove(0);
    assert!(lost["lost_since"].as_str() < lost["timestamp"].as_str(), "{lost}");
    trial.run(["status"]).stdout_has("no contact since");
    trial.run(["dag-status"]).stdout_has("no contact since");
    let found = trial.run(["status", "--json"]).json();
    assert!(found["attempts"][0]["no_contact_since"].is_string(), "{found}");
    station.host().go_on();
    trial.wait_for_records(2, "contact");
    let found = trial.run(["status", "--json"]).json();
    assert_eq!(found["attempts"][0]["no_contact_since"], Value::Null, "{found}");
    std::fs::write(station.seen("go"), "").unwrap();
    run.end(trial).graph_complete();
    assert_eq!(trial.completions(), ["a"]);
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_run_that_needs_a_host_that_refuses_ends_and_is_shown() {
    let Some(station) = Station::start(Kind::Ssh, ONCE, "") else { return };
    let trial = &station.trial;
    station.host().refuse(true);
    let ran = trial.run(["run"]).code(69);
    let why = ran.finished()["why"].as_str().unwrap().to_owned();
    assert!(why.contains("is not reached") && why.contains("ssh -F /"), "{why}");
    drop(ran.err());
    trial.run(["status"]).stdout_has("is not reached");
    assert_eq!(trial.lines("started"), Vec::<Value>::new());
    station.host().refuse(false);
    trial.run(["run"]).graph_complete();
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn tasks_elsewhere_go_on_while_a_host_refuses_and_the_others_follow() {
    let graph = "tasks: [{id: a, max_attempts: 1, priority: 1}, {id: b, run_on: local}]\n";
    let Some(station) = Station::start(Kind::Ssh, graph, "") else { return };
    let trial = &station.trial;
    station.host().refuse(true);
    let run = trial.start(["run"]);
    trial.wait_for_records(1, "completed");
    trial.wait_for_records(3, "executor_unreachable");
    assert_eq!(trial.tasks("completed"), ["b"]);
    trial.run(["status"]).stdout_has("Executor there is out since");
    station.host().refuse(false);
    run.end(trial).graph_complete();
    assert_eq!(trial.completions(), ["b", "a"]);
    assert_eq!(trial.lines("interrupted"), Vec::<Value>::new());
    assert_eq!(oracle::committed(trial, &[]), Vec::<String>::new());
    station.nothing_is_left();
}

fn ralph_is_killed(kind: Kind) {
    let Some(station) = station(kind, ONCE) else { return };
    let trial = &station.trial;
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    run.kill();
    station.nothing_is_left();
    trial.start(["run"]).end(trial).graph_complete();
    println!("{kind:?}: worked {} times", station.works());
    station.is_interrupted_once();
    // What the first attempt has committed is kept, wherever it ran.
    let kept = trial.git(&["log", "--all", "--format=%s"]);
    assert_eq!(kept.matches("Work on a").count(), station.works(), "{kept}");
    assert_eq!(trial.subjects(), ["Work on a"]);
    assert!(trial.lines("slot_kept").is_empty(), "the worker had ended everything");
    assert_eq!(station.signs(), 0);
}

#[test]
#[ignore = "slow"]
fn a_killed_ralph_leaves_nothing_in_a_sandbox() {
    ralph_is_killed(Kind::Sandbox);
}

#[test]
#[ignore = "slow"]
fn a_killed_ralph_leaves_nothing_behind_a_command() {
    ralph_is_killed(Kind::Command);
}

#[test]
#[ignore = "slow"]
fn a_killed_ralph_leaves_nothing_on_a_host() {
    ralph_is_killed(Kind::Ssh);
}

#[test]
#[ignore = "slow"]
fn a_killed_ralph_leaves_nothing_in_a_container() {
    ralph_is_killed(Kind::Container);
}

#[test]
#[ignore = "slow"]
fn a_killed_ralph_leaves_nothing_on_a_cluster() {
    ralph_is_killed(Kind::Slurm);
}

#[test]
#[ignore = "slow"]
fn a_killed_container_interrupts_its_attempt() {
    let Some(station) = station(Kind::Container, ONCE) else { return };
    let trial = &station.trial;
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    let containers = station.containers();
    assert_eq!(containers.len(), 1);
    station.tool().call(&["kill", &containers[0]]);
    run.end(trial).graph_complete();
    println!("{}", station.is_interrupted_once());
    assert_eq!(station.works(), 1);
}

#[test]
#[ignore = "slow"]
fn a_job_that_waits_says_why() {
    let Some(mut station) = Station::start(Kind::Slurm, ONCE, "") else { return };
    for node in super::slurm_cluster::NODES {
        station.cluster().occupy(node);
    }
    let run = station.trial.start(["run"]);
    station.trial.wait_for_records(1, "awaiting_executor");
    let waits = station.trial.lines("awaiting_executor").remove(0);
    assert_eq!(waits["run_on"], json!("there"));
    let why = waits["why"].as_str().unwrap().to_owned();
    station.trial.run(["status"]).stdout_has(&why);
    station.cluster().call(&["scancel", "--name=occupies"]);
    let ran = run.end(&station.trial);
    ran.graph_complete();
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_canceled_job_interrupts_its_attempt() {
    let Some(mut station) = station(Kind::Slurm, ONCE) else { return };
    let run = station.trial.start(["run"]);
    wait_for(&station.seen("there"));
    station.cluster().call(&["scancel", "--user=root"]);
    run.end(&station.trial).graph_complete();
    println!("{}", station.is_interrupted_once());
    assert_eq!(station.works(), 1);
}

#[test]
#[ignore = "slow"]
fn an_agent_that_ends_before_its_canceled_job_is_interrupted() {
    let Some(station) = Station::start(Kind::Slurm, ONCE, "") else { return };
    station.told("do-a-1", "scancel \"$SLURM_JOB_ID\"; exit 143\n");
    station.told("do-a", "work\n");
    let ran = station.trial.run(["run"]);
    ran.graph_complete();
    let why = station.is_interrupted_once();
    assert!(why.contains("canceled"), "{why}");
    station.nothing_is_left();
}

/// A controller that was away when the processes of a job ended does not learn of that by itself.
#[test]
#[ignore = "slow"]
fn a_run_ends_the_jobs_whose_ends_its_cluster_has_missed() {
    let graph = "tasks: [{id: a}, {id: b}]\n";
    let Some(mut station) = Station::start(Kind::Slurm, graph, "jobs: 2\n") else { return };
    station.told("do-a", "await open; work\n");
    station.told("do-b", "await open-b; work\n");
    let run = station.trial.start(["run"]);
    wait_for(&station.seen("waiting-a"));
    wait_for(&station.seen("waiting-b"));
    station.cluster().kill_controller();
    std::fs::write(station.seen("open"), "").unwrap();
    station.trial.wait_for_records(1, "agent_ended");
    thread::sleep(Duration::from_secs(5));
    station.cluster().start_controller();
    std::fs::write(station.seen("open-b"), "").unwrap();
    run.end(&station.trial).graph_complete();
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_preempted_job_interrupts_its_attempt() {
    let Some(mut station) = station(Kind::Slurm, ONCE) else { return };
    let run = station.trial.start(["run"]);
    wait_for(&station.seen("there"));
    let node = station.lines("node").remove(0);
    station.cluster().preempt(&node);
    run.end(&station.trial).graph_complete();
    let why = station.is_interrupted_once();
    assert!(why.contains("preempt"), "{why}");
    assert_eq!(station.works(), 1);
}

#[test]
#[ignore = "slow"]
fn a_worker_that_lives_on_behind_a_lost_line_keeps_its_slot() {
    let Some(engine) = Engine::start(Kind::Ssh) else { return };
    let trial = TestProject::new().graph(ONCE);
    // `ralph` does not know that this command is `ssh`.
    let station = Station::with(engine, Kind::Ssh, trial, "", |executor| {
        let ssh = executor["ssh"].take();
        let mut argv = vec![json!("ssh")];
        argv.extend(ssh["args"].as_array().unwrap().iter().cloned());
        argv.push(ssh["host"].clone());
        let command = json!({ "argv": argv, "files": "shared", "ralph": RALPH, "env": ssh["env"] });
        *executor = json!({ "command": command });
    });
    let stops =
        "guard=$PPID; worker=$(ps -o ppid= -p $guard); echo $worker $guard > \"$TRIAL_DIR/pids\"";
    let stops = format!("{stops}; touch \"$TRIAL_DIR/there\"; kill -STOP $worker $guard");
    station.told("do-a-1", &format!("{stops}; while :; do sleep 0.1; done\n"));
    station.told("do-a", "work\n");
    let trial = &station.trial;
    let run = trial.start(["run"]);
    wait_for(&station.seen("there"));
    until("the worker has stopped", || {
        let pids = station.lines("pids").join(" ");
        pids.split_whitespace().all(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
        })
    });
    station.host().cut();
    run.end(trial).graph_complete();
    let places = station.lines("places");
    assert!(places.len() == 2 && places[0] != places[1], "two attempts in one slot: {places:?}");
    trial.run(["slots"]).stdout_has("has not told that everything there has ended");
    for pid in station.lines("pids").join(" ").split_whitespace().rev() {
        let status = std::process::Command::new("kill").args(["-CONT", pid]).status().unwrap();
        assert!(status.success());
    }
    until("its worker has told the end", || station.signs() == 0);
    trial.run(["slots", "remove"]).code(0);
    station.is_interrupted_once();
}

#[test]
#[ignore = "slow"]
fn a_worker_that_was_killed_on_a_cluster_leaves_no_slot_in_doubt() {
    let Some(station) = Station::start(Kind::Slurm, ONCE, "") else { return };
    let kills = "guard=$PPID; worker=$(ps -o ppid= -p $guard); kill -KILL $worker";
    station.told("do-a-1", &format!("touch \"$TRIAL_DIR/there\"; {kills}; sleep 600\n"));
    station.told("do-a", "work\n");
    let trial = &station.trial;
    trial.start(["run"]).end(trial).graph_complete();
    station.is_interrupted_once();
    trial.run(["slots", "remove"]).code(0);
}

#[test]
#[ignore = "slow"]
fn a_partition_that_does_not_exist_ends_the_run() {
    let Some(engine) = Engine::start(Kind::Slurm) else { return };
    let trial = TestProject::new().graph(ONCE);
    let station = Station::with(engine, Kind::Slurm, trial, "", |executor| {
        executor["slurm"]["partition"] = json!("nowhere");
    });
    let trial = &station.trial;
    let run = trial.start(["run"]).end(trial).code(69);
    run.stderr_has("Invalid partition name specified; correct `partition`");
    trial.run(["doctor", "--on", "there", "--", "true"]).code(69).stdout_has("correct `partition`");
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_lost_node_interrupts_its_attempt_and_no_two_share_a_slot() {
    let Some(mut station) = Station::start(Kind::Slurm, ONCE, "") else { return };
    // It goes on while its node is lost.
    station.told("do-a-1", &format!("{SAYS_WHERE}; while :; do sleep 0.1; done\n"));
    station.told("do-a", "work\n");
    let run = station.trial.start(["run"]);
    wait_for(&station.seen("there"));
    let node = station.lines("node").remove(0);
    station.cluster().lose_node(&node);
    let ran = run.end(&station.trial);
    println!("{}", ran.err());
    let places = station.lines("places");
    assert!(places.len() == 2 && places[0] != places[1], "two attempts in one slot: {places:?}");
    // The daemon ends the worker as soon as it is back.
    let name: &'static str = if node == "n1" { "n1" } else { "n2" };
    station.cluster().start_node(name);
    println!("{}", station.is_interrupted_once());
}

#[test]
#[ignore = "slow"]
fn an_attempt_that_lives_on_at_a_lost_node_does_not_report_for_the_next_one() {
    let Some(mut station) = Station::start(Kind::Slurm, ONCE, "") else { return };
    let late = "await go; report || :; touch \"$RALPH_TASK_DIR/DONE\" \"$TRIAL_DIR/late\"";
    station.told("do-a-1", &format!("{SAYS_WHERE}; {late}; while :; do sleep 0.1; done\n"));
    // Half of the work, by an agent that adds all there is, and no report.
    let half = "put work/half.txt half; git add -A; commit";
    station.told("do-a-2", &format!("{half}; touch \"$TRIAL_DIR/go\"; await late; sleep 1\n"));
    let run = station.trial.start(["run"]);
    wait_for(&station.seen("there"));
    let node = station.lines("node").remove(0);
    station.cluster().lose_node(&node);
    let trial = &station.trial;
    run.end(trial).code(3);
    assert_eq!(trial.lines("interrupted").len(), 1);
    assert!(trial.completions().is_empty(), "another attempt's report counts");
    assert!(!trial.git(&["ls-files", ".ralph/tasks"]).contains("tasks"), "a report is committed");
    let name: &'static str = if node == "n1" { "n1" } else { "n2" };
    station.cluster().start_node(name);
}

#[test]
#[ignore = "slow"]
fn the_next_run_leaves_the_slot_of_a_lost_node_alone() {
    let graph = "tasks: [{id: a}, {id: b, depends_on: [a]}]\n";
    let Some(mut station) = Station::start(Kind::Slurm, graph, "") else { return };
    // It goes on while its node is lost.
    station.told("do-a-1", &format!("{SAYS_WHERE}; while :; do sleep 0.1; done\n"));
    station.told("do", "work\n");
    let run = station.trial.start(["run", "--once"]);
    wait_for(&station.seen("there"));
    let node = station.lines("node").remove(0);
    station.cluster().lose_node(&node);
    run.end(&station.trial).code_is_any();
    assert_eq!(station.trial.lines("interrupted").len(), 1);
    let trial = &station.trial;
    let slots = trial.run(["slots"]).stdout_has("an earlier attempt may still work in it");
    slots.stdout_has("; remove the folder once nothing of it runs at `there`");
    trial.run(["run"]).graph_complete();
    trial.run(["slots", "remove"]).code(1).stderr_has("an earlier attempt may still work in it");
    let places = station.lines("places");
    assert!(places.len() == 3 && !places[1..].contains(&places[0]), "{places:?}");
    let kept = trial.lines("slot_kept");
    assert!(kept.len() == 2 && kept[0]["run_id"] != kept[1]["run_id"], "{kept:?}");
    // A person who removes the folder has made sure.
    let slot = std::path::Path::new(&places[0]).parent().unwrap();
    std::fs::remove_dir_all(slot).unwrap();
    trial.run(["slots", "remove"]).stderr_has("there are no slots");
    let name: &'static str = if node == "n1" { "n1" } else { "n2" };
    station.cluster().start_node(name);
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn the_time_limit_of_the_cluster_counts() {
    if std::env::var_os("RALPH_ENGINES").is_none() {
        eprintln!("skipped: `just engines` runs it; it takes two minutes");
        return;
    }
    let graph = "tasks: [{id: a, max_attempts: 1, resources: {time: 1}}]\n";
    let Some(station) = station(Kind::Slurm, graph) else { return };
    let run = station.trial.start(["run"]);
    let began = Instant::now();
    while is_alive(run.id()) && began.elapsed() < Duration::from_secs(300) {
        thread::sleep(Duration::from_millis(200));
    }
    let ran = run.end(&station.trial).code(3);
    println!("{}", ran.err());
    let failed: Vec<Value> = station.trial.lines("failed");
    assert_eq!(failed.len(), 1);
    assert!(failed[0].to_string().contains("exceeded"), "{failed:?}");
    station.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn two_jobs_at_once_run_on_two_nodes() {
    let graph = "defaults: {resources: {exclusive: true}}\ntasks: [{id: a}, {id: b}]\n";
    let Some(station) = Station::start(Kind::Slurm, graph, "jobs: 2\n") else { return };
    station.told("do", "echo ${SLURMD_NODENAME-} >> \"$TRIAL_DIR/nodes\"; together 2; work\n");
    station.trial.start(["run"]).end(&station.trial).graph_complete();
    let mut nodes = station.lines("nodes");
    nodes.sort();
    assert_eq!(nodes, super::slurm_cluster::NODES);
    station.nothing_is_left();
}
