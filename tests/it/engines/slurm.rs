//! The command for a Slurm cluster, and what the cluster tells about its jobs, on a real one.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use ralph::{
    adapters::executor::slurm,
    core::executor::{
        CarrierFacts, Executor, ExecutorKind, JobEnd, JobState, JobTracking, Resources,
        SlurmSettings, carrier_command, job_name,
    },
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{exchange, is_alive, send, slurm_cluster::SlurmCluster, tree};
use crate::support::{until, wait_for};

/// The mark of the attempt.
const MARK: &str = "20261122T170000Z-0a1b.a.2";

/// A cluster, and a script in the place of a worker.
struct Trial {
    cluster: SlurmCluster,
    dir: TempDir,
}

impl Trial {
    /// `None` without Slurm.
    fn with(script: &str) -> Option<Trial> {
        let cluster = SlurmCluster::start()?;
        let dir = tempfile::Builder::new().prefix("job-").tempdir().unwrap();
        let trial = Trial { cluster, dir };
        let file = trial.file("ralph");
        fs::write(&file, format!("#!/bin/sh\ncd {}\n{script}", trial.dir.path().display()))
            .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Some(trial)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, settings: SlurmSettings, variables: &[String]) -> Command {
        let argv = carrier(&self.file("ralph"), settings, variables);
        let mut command = self.cluster.client(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let args = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.command(SlurmSettings { args, ..SlurmSettings::default() }, &[]).spawn().unwrap()
    }

    /// What the cluster says of the attempt's job.
    fn look(&self) -> JobState {
        let output = self
            .cluster
            .client("squeue")
            .args(["--noheader", "--states=all"])
            .arg(format!("--name={}", job_name(MARK)))
            .arg(format!("--format={}", JobState::FORMAT))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        JobState::of(&String::from_utf8(output.stdout).unwrap())
    }

    #[track_caller]
    fn becomes(&self, state: &JobState) {
        until(&format!("the job is {state:?}"), || self.look() == *state);
    }
}

fn carrier(ralph: &Path, settings: SlurmSettings, variables: &[String]) -> Vec<String> {
    let facts = CarrierFacts {
        ralph,
        sent_ralph: None,
        mark: MARK,
        home: Path::new("/nowhere"),
        slot: Path::new("/nowhere"),
        mounts: &[],
        resources: &Resources(BTreeMap::new()),
        time_limit: None,
        container: None,
        slurm_variables: variables,
    };
    let executor = Executor { name: "far".to_owned(), kind: ExecutorKind::Slurm(settings) };
    carrier_command(&executor, &facts).unwrap()
}

/// Waits for a client, and returns its exit code and its standard error.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (child.wait().unwrap().code(), errors)
}

/// A worker that ends with its input.
const ENDS_WITH_ITS_INPUT: &str = "echo $$ > there; cat >/dev/null; touch ended\n";

#[test]
#[ignore = "slow"]
fn input_output_and_the_exit_code_are_carried_to_a_job() {
    let script =
        "echo \"$@ secret=$SECRET path=${PATH:+set} home=$HOME\"; cat; echo oops >&2; exit 7\n";
    let Some(trial) = Trial::with(script) else { return };
    let mut command = trial.command(SlurmSettings::default(), &[]);
    let child = command.env("SECRET", "hunter2").env("HOME", "/home/tess").spawn().unwrap();
    let (sent, output) = exchange(child);
    assert_eq!(output.status.code(), Some(7));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.lines().any(|line| line == "oops"), "{errors}");
    let first = b"__worker secret= path=set home=/home/tess\n".as_slice();
    assert!(output.stdout == [first, &sent].concat(), "bytes are changed");
    trial.becomes(&JobState::Ended(JobEnd::Exited));
}

#[test]
#[ignore = "slow"]
fn a_job_that_waits_says_why_and_can_be_canceled() {
    let Some(mut trial) = Trial::with("touch there\n") else { return };
    trial.cluster.occupy("n1");
    let child = trial.start(&["--nodelist=n1"]);
    until("the job waits", || matches!(trial.look(), JobState::Pending { .. }));
    trial.cluster.call(&["scancel", &format!("--name={}", job_name(MARK))]);
    let (code, errors) = ended(child);
    assert_eq!(code, Some(1), "{errors}");
    trial.becomes(&JobState::Ended(JobEnd::Cancelled));
    // More than any node has.
    let mut child = trial.start(&["--cpus-per-task=64"]);
    until("the job is known", || matches!(trial.look(), JobState::Pending { .. }));
    until("its reason is known", || trial.look().describe().contains("will not start"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!trial.file("there").exists());
}

#[test]
#[ignore = "slow"]
fn the_ends_of_a_job_are_told_apart() {
    let Some(mut trial) = Trial::with("trap 'touch told' TERM; touch there; sleep 600\n") else {
        return;
    };
    let started = |trial: &Trial| {
        let _ = fs::remove_file(trial.file("there"));
        let child = trial.start(&["--nodelist=n2"]);
        wait_for(&trial.file("there"));
        assert_eq!(trial.look(), JobState::Running { node: "n2".to_owned() });
        child
    };
    let child = started(&trial);
    trial.cluster.call(&["scancel", &format!("--name={}", job_name(MARK))]);
    ended(child);
    trial.becomes(&JobState::Ended(JobEnd::Cancelled));
    wait_for(&trial.file("told"));

    let child = started(&trial);
    trial.cluster.preempt("n2");
    let (_, errors) = ended(child);
    assert!(errors.contains("DUE TO PREEMPTION"), "{errors}");
    trial.becomes(&JobState::Ended(JobEnd::Preempted));
}

#[test]
#[ignore = "slow"]
fn a_lost_node_is_no_proof_that_the_worker_has_ended() {
    let Some(mut trial) = Trial::with(ENDS_WITH_ITS_INPUT) else { return };
    let mut child = trial.start(&["--nodelist=n2"]);
    wait_for(&trial.file("there"));
    trial.cluster.lose_node("n2");
    trial.becomes(&JobState::Ended(JobEnd::NodeFail));
    assert!(!trial.look().is_proof_of_end(JobTracking::Cgroup));
    let pid = fs::read_to_string(trial.file("there")).unwrap().trim().parse().unwrap();
    assert!(is_alive(pid), "the job goes on without the daemon of its node");
    // Its line is dead, and the end of `srun` says nothing: its exit code is mostly 0.
    drop(child.stdin.take());
    let (_, errors) = ended(child);
    assert!(errors.contains("Node failure on n2"), "{errors}");
    assert!(is_alive(pid) && !trial.file("ended").exists());
    // The daemon ends it as soon as it is back.
    trial.cluster.start_node("n2");
    until("the worker has ended", || !is_alive(pid));
}

#[test]
#[ignore = "slow"]
fn a_job_goes_on_while_the_controller_is_away_and_nothing_is_known_of_it() {
    let Some(mut trial) = Trial::with("touch there; read line; echo \"got $line\"\n") else {
        return;
    };
    let mut child = trial.start(&[]);
    wait_for(&trial.file("there"));
    trial.cluster.kill_controller();
    let looked = trial.cluster.client("squeue").args(["--noheader"]).output().unwrap();
    assert!(!looked.status.success(), "a look that fails must not be an empty list");
    trial.cluster.start_controller();
    assert!(matches!(trial.look(), JobState::Running { .. }), "{:?}", trial.look());
    child.stdin.as_mut().unwrap().write_all(b"this\n").unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "got this\n");
    assert_eq!(ended(child).0, Some(0));
    trial.becomes(&JobState::Ended(JobEnd::Exited));
}

#[test]
#[ignore = "slow"]
fn the_job_ends_with_its_client() {
    let Some(trial) = Trial::with(ENDS_WITH_ITS_INPUT) else { return };
    let there = |trial: &Trial| {
        wait_for(&trial.file("there"));
        until("the process is known", || !fs::read(trial.file("there")).unwrap().is_empty());
        let text = fs::read_to_string(trial.file("there")).unwrap();
        fs::remove_file(trial.file("there")).unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    // By the end of its input.
    let mut child = trial.start(&[]);
    there(&trial);
    drop(child.stdin.take());
    wait_for(&trial.file("ended"));
    assert_eq!(ended(child).0, Some(0));
    // By the helper process of `srun`, which ends the job with its parent.
    for signal in [Signal::TERM, Signal::KILL] {
        let child = trial.start(&[]);
        let worker = there(&trial);
        send(child.id(), signal);
        until("the worker has ended", || !is_alive(worker));
        ended(child);
        until("the job has ended", || matches!(trial.look(), JobState::Ended(_)));
    }
    // If that is killed as well, nothing tells the cluster: the job has to be canceled.
    let child = trial.start(&[]);
    let worker = there(&trial);
    let mut all = tree(child.id());
    all.reverse();
    for pid in all {
        send(pid, Signal::KILL);
    }
    ended(child);
    assert!(is_alive(worker) && matches!(trial.look(), JobState::Running { .. }));
    trial.cluster.call(&["scancel", &format!("--name={}", job_name(MARK))]);
    until("the worker has ended", || !is_alive(worker));
    trial.becomes(&JobState::Ended(JobEnd::Cancelled));
}

/// The variable that makes [`asks_the_cluster_of_its_environment`] do something.
const ASKED: &str = "RALPH_TEST_ASKED";

/// The address of the cluster is a variable of the process that asks, so each question has one.
#[test]
fn asks_the_cluster_of_its_environment() {
    let settings = SlurmSettings::default();
    match std::env::var(ASKED).as_deref() {
        Ok("look") => println!("told: {:?}", slurm::look(&settings, MARK)),
        Ok("cancel") => println!("told: {:?}", slurm::cancel(&settings, MARK)),
        Ok("tracking") => println!("told: {:?}", slurm::tracking(&settings)),
        Ok("variables") => println!("told: {:?}", slurm::job_variables()),
        _ => {}
    }
}

/// The command that asks, and what it was told.
fn asking(command: &mut Command, what: &str) -> String {
    let name = "engines::slurm::asks_the_cluster_of_its_environment";
    command.args(["--exact", name, "--nocapture"]).env(ASKED, what);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let told = said.split_once("told: ").unwrap_or_else(|| panic!("{said}")).1;
    told.lines().next().unwrap().to_owned()
}

#[test]
#[ignore = "slow"]
fn a_question_that_fails_is_not_answered_with_no_job() {
    let Some(mut trial) = Trial::with("touch there; sleep 600\n") else { return };
    let this = std::env::current_exe().unwrap().display().to_string();
    let ask = |trial: &Trial, what: &str| asking(&mut trial.cluster.client(&this), what);
    assert_eq!(ask(&trial, "look"), "Absent");
    assert_eq!(ask(&trial, "variables"), "[]");
    assert_eq!(ask(&trial, "tracking"), "Partial");
    let child = trial.start(&[]);
    wait_for(&trial.file("there"));
    assert!(ask(&trial, "look").starts_with("Running"));
    let mut inside = trial.cluster.client(&this);
    inside.env("SLURM_JOB_ID", "7").env("SLURM_NTASKS", "3");
    let inside = asking(&mut inside, "variables");
    assert!(inside.contains("SLURM_JOB_ID") && inside.contains("SLURM_NTASKS"), "{inside}");
    assert!(!inside.contains("SLURM_CONF"), "{inside}");
    trial.cluster.kill_controller();
    let told = ask(&trial, "look");
    assert!(told.starts_with("Unknown"), "{told}");
    assert!(ask(&trial, "cancel").starts_with("Err"));
    trial.cluster.start_controller();
    assert_eq!(ask(&trial, "cancel"), "Ok(())");
    ended(child);
    trial.becomes(&JobState::Ended(JobEnd::Cancelled));
}

#[test]
#[ignore = "slow"]
fn a_run_inside_of_a_job_starts_jobs_of_its_own() {
    let Some(trial) = Trial::with("echo $SLURM_JOB_ID\n") else { return };
    let variables: Vec<String> =
        ["SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURM_NODELIST"]
            .map(str::to_owned)
            .to_vec();
    let inner = carrier(&trial.file("ralph"), SlurmSettings::default(), &variables);
    let script = "echo $SLURM_JOB_ID; exec \"$@\"";
    let mut outer = trial.cluster.client("srun");
    outer.args(["--quiet", "--nodelist=n1", "sh", "-c", script, "_"]).args(inner);
    let said = String::from_utf8(outer.output().unwrap().stdout).unwrap();
    let jobs: Vec<&str> = said.split_whitespace().collect();
    assert!(jobs.len() == 2 && jobs[0] != jobs[1], "{said}");
}

/// Whether tests that take minutes are asked for.
fn is_long() -> bool {
    std::env::var_os("RALPH_ENGINES").is_some()
}

#[test]
#[ignore = "slow"]
fn the_time_limit_of_the_cluster_is_told_from_other_ends() {
    if !is_long() {
        eprintln!("skipped: `just engines` runs it; it takes two minutes");
        return;
    }
    let Some(trial) = Trial::with("touch there; sleep 600\n") else { return };
    let child = trial.start(&["--time=1"]);
    wait_for(&trial.file("there"));
    let (_, errors) = ended(child);
    assert!(errors.contains("DUE TO TIME LIMIT"), "{errors}");
    trial.becomes(&JobState::Ended(JobEnd::Timeout));
}

#[test]
#[ignore = "slow"]
fn the_cluster_notices_by_itself_that_a_node_is_dead() {
    if !is_long() {
        eprintln!("skipped: `just engines` runs it; it takes a minute");
        return;
    }
    let Some(mut trial) = Trial::with(ENDS_WITH_ITS_INPUT) else { return };
    let mut child = trial.start(&["--nodelist=n2"]);
    wait_for(&trial.file("there"));
    trial.cluster.kill_node("n2");
    // Until then, and after it, nothing is known of the worker.
    assert_eq!(trial.look(), JobState::Running { node: "n2".to_owned() });
    trial.becomes(&JobState::Ended(JobEnd::NodeFail));
    drop(child.stdin.take());
    let (_, errors) = ended(child);
    assert!(errors.contains("Node failure on n2"), "{errors}");
}
