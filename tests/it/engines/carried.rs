//! Agents behind real engines: runner, guardian, carrier, worker and agent, and what is left when one
//! of them ends.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use ralph::{
    adapters::{
        executor::container,
        process::{
            AgentProcess, Carrier, Closed, GuardianCommand, GuardianProgram, GuardianSpec,
            ProcessNews, ProcessSpec,
        },
    },
    core::{
        executor::{
            CarrierFacts, ContainerEngine, ContainerSettings, Executor, ExecutorKind, JobEnd,
            JobState, Resources, SharedPath, SlurmSettings, SshSettings, carrier_command, job_name,
        },
        verdict::Outcome,
    },
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    container_engine::{ContainerTool, IMAGE},
    marked, send,
    slurm_cluster::SlurmCluster,
    ssh_host::SshHost,
};
use crate::support::{RALPH, SOON, until, wait_for};

/// An agent with two children that no signal but KILL ends, one of them in a group of its own.
const FAMILY: &str = "(trap '' TERM HUP INT; sleep 600) & setsid sh -c \"trap '' TERM HUP INT; \
                      sleep 600\" & cat > prompt-there; : > up; read -r _ < never\n";

/// An attempt whose files are seen by all engines under the same path.
struct Attempt {
    folder: TempDir,
    mark: String,
    argv: Vec<String>,
}

impl Attempt {
    fn new(name: &str, script: &str) -> Attempt {
        let folder = tempfile::Builder::new().prefix("attempt-").tempdir().unwrap();
        let attempt = Attempt {
            mark: format!("test-{}-{name}.a.1", std::process::id()),
            folder,
            argv: Vec::new(),
        };
        fs::create_dir(attempt.slot()).unwrap();
        fs::write(attempt.slot().join("agent"), script).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(attempt.slot().join("never"))
                .status()
                .unwrap()
                .success()
        );
        fs::write(attempt.folder.path().join("record"), "").unwrap();
        fs::write(attempt.folder.path().join("prompt"), "the prompt\n").unwrap();
        attempt
    }

    /// The same, at an executor of this kind.
    fn at(mut self, kind: ExecutorKind, engine: Option<&ContainerEngine>) -> Attempt {
        let own = SharedPath { path: self.folder.path().to_owned(), read_only: false };
        let facts = CarrierFacts {
            ralph: Path::new(RALPH),
            sent_ralph: None,
            mark: &self.mark,
            home: Path::new("/nowhere"),
            slot: &self.slot(),
            mounts: &[own],
            resources: &Resources(BTreeMap::new()),
            time_limit: None,
            container: engine,
            slurm_variables: &[],
        };
        self.argv = carrier_command(&Executor { name: "far".to_owned(), kind }, &facts).unwrap();
        self
    }

    fn slot(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("slot")
    }

    fn start(&self) -> (AgentProcess, Receiver<ProcessNews>) {
        let (tell, news) = mpsc::channel();
        let dir = self.folder.path().canonicalize().unwrap();
        let lock = File::open(&dir).unwrap();
        let spec = ProcessSpec {
            argv: vec!["sh".to_owned(), self.slot().join("agent").display().to_string()],
            dir: self.slot(),
            env: vec![
                ("RALPH_ATTEMPT_ID".to_owned(), self.mark.clone()),
                ("API_KEY".to_owned(), "hunter2-hunter2".to_owned()),
            ],
            env_remove: Vec::new(),
            stdin: dir.join("prompt"),
            stdout: dir.join("stdout"),
            stderr: dir.join("stderr"),
        };
        let guardians = GuardianProgram::of(RALPH.into(), &lock).unwrap();
        let spec = GuardianSpec {
            carrier: Some(Carrier {
                executor: "far".to_owned(),
                image: None,
                argv: self.argv.clone(),
                transfer: None,
                patience_seconds: 0,
                recovers: false,
                signs: None,
            }),
            ..GuardianSpec::new(spec, dir.join("record"))
        };
        let tell = move |told| drop(tell.send(told));
        let agent = AgentProcess::spawn(&guardians, &spec, tell).unwrap();
        (agent, news)
    }

    /// Starts an agent that tells when it is up.
    fn up(&self) -> (AgentProcess, Receiver<ProcessNews>) {
        let started = self.start();
        wait_for(&self.slot().join("up"));
        assert_eq!(fs::read_to_string(self.slot().join("prompt-there")).unwrap(), "the prompt\n");
        started
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Expects that no process of the attempt is left on any side.
    #[track_caller]
    fn nothing_is_left(&self) {
        until("no process is left", || marked(self.folder.path()).is_empty());
    }

    /// Expects the same of any agent: input, output, variables and the exit code.
    #[track_caller]
    fn is_carried(&self) {
        let (_agent, news) = self.start();
        let closed = closed(&news);
        assert_eq!(closed.outcome, Some(Outcome::Exited { exit_code: 7 }), "{closed:?}");
        let output = self.read("stdout");
        assert!(output.starts_with("the prompt\nin the slot, key "), "{output}");
        assert!(!output.contains("hunter2"), "{output}");
        assert!(self.read("stderr").ends_with("oops\n"), "{}", self.read("stderr"));
        self.nothing_is_left();
    }
}

/// What [`Attempt::is_carried`] expects.
const PLAIN: &str = "cat; [ -e agent ] && echo \"in the slot, key $API_KEY\"\n\
                     [ \"$API_KEY\" = hunter2-hunter2 ] || exit 1; echo oops >&2; exit 7\n";

#[track_caller]
fn closed(news: &Receiver<ProcessNews>) -> Closed {
    loop {
        if let ProcessNews::Closed(closed) = news.recv_timeout(SOON).unwrap() {
            return closed;
        }
    }
}

#[track_caller]
fn is_lost(news: &Receiver<ProcessNews>) -> String {
    match closed(news).outcome {
        Some(Outcome::Lost { why, .. }) => why,
        other => panic!("not lost: {other:?}"),
    }
}

fn ssh(host: &SshHost) -> ExecutorKind {
    ExecutorKind::Ssh(SshSettings { ralph: Some(RALPH.to_owned()), ..host.settings() })
}

#[test]
#[ignore = "slow"]
fn an_agent_at_a_host_is_one_like_any_other() {
    let Some(host) = SshHost::start() else { return };
    Attempt::new("plain", PLAIN).at(ssh(&host), None).is_carried();
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn nothing_is_left_at_a_host_whatever_ends_an_attempt() {
    let Some(host) = SshHost::start() else { return };
    let attempt = || Attempt::new("family", FAMILY).at(ssh(&host), None);
    let cut = attempt();
    let (_agent, news) = cut.up();
    // New connections fail as well: the work cannot be fetched.
    host.refuse(true);
    host.cut();
    is_lost(&news);
    cut.nothing_is_left();
    host.refuse(false);

    let killed = attempt();
    let (agent, news) = killed.up();
    agent.order(GuardianCommand::Kill);
    assert!(matches!(closed(&news).outcome, Some(Outcome::Signaled { .. })));
    killed.nothing_is_left();

    let alone = attempt();
    let (agent, _news) = alone.up();
    drop(agent);
    alone.nothing_is_left();

    let unguarded = attempt();
    let (agent, news) = unguarded.up();
    agent.kill_guardian();
    assert_eq!(closed(&news).outcome, None);
    unguarded.nothing_is_left();
    host.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_stalled_connection_loses_nothing() {
    let Some(host) = SshHost::start() else { return };
    let script = "cat > prompt-there; : > up; read -r line < never; seq 20000; echo end\n";
    let attempt = Attempt::new("stall", script).at(ssh(&host), None);
    let (_agent, news) = attempt.up();
    host.stop();
    // The agent goes on there meanwhile, until the line is full.
    fs::write(attempt.slot().join("never"), "go\n").unwrap();
    thread::sleep(Duration::from_millis(500));
    host.go_on();
    assert_eq!(closed(&news).outcome, Some(Outcome::Exited { exit_code: 0 }));
    let output = attempt.read("stdout");
    assert!(output.lines().count() == 20001 && output.ends_with("end\n"), "{}", output.len());
    attempt.nothing_is_left();
}

/// A container to be.
fn boxed() -> Option<(ExecutorKind, ContainerEngine)> {
    let settings = ContainerSettings {
        image: IMAGE.to_owned(),
        engine: Some(ContainerTool::find()?.program),
        args: vec!["--network=none".to_owned()],
        mounts: Vec::new(),
        env: Vec::new(),
    };
    let engine = container::find(&settings).unwrap();
    Some((ExecutorKind::Container(settings), engine))
}

#[test]
#[ignore = "slow"]
fn an_agent_in_a_container_is_one_like_any_other() {
    let Some((kind, engine)) = boxed() else { return };
    Attempt::new("plain", PLAIN).at(kind, Some(&engine)).is_carried();
}

#[test]
#[ignore = "slow"]
fn nothing_is_left_of_a_container_whatever_ends_an_attempt() {
    let Some((kind, engine)) = boxed() else { return };
    let attempt = |name: &str| Attempt::new(name, FAMILY).at(kind.clone(), Some(&engine));
    let is_gone = |attempt: &Attempt| {
        until("the container is removed", || !container::is_there(&engine, &attempt.mark).unwrap());
        attempt.nothing_is_left();
    };
    let killed = attempt("killed");
    let (agent, news) = killed.up();
    agent.order(GuardianCommand::Kill);
    assert!(matches!(closed(&news).outcome, Some(Outcome::Signaled { .. })));
    is_gone(&killed);

    let alone = attempt("alone");
    let (agent, _news) = alone.up();
    drop(agent);
    is_gone(&alone);

    let removed = attempt("removed");
    let (_agent, news) = removed.up();
    assert_eq!(container::remove(&engine, &removed.mark), Ok(true));
    is_lost(&news);
    is_gone(&removed);
}

fn slurm() -> ExecutorKind {
    ExecutorKind::Slurm(SlurmSettings::default())
}

/// An attempt at this cluster.
fn submitted(cluster: &SlurmCluster, name: &str, script: &str) -> Attempt {
    let mut attempt = Attempt::new(name, script).at(slurm(), None);
    let conf = format!("SLURM_CONF={}", cluster.conf().display());
    attempt.argv.splice(0..0, ["env".to_owned(), conf]);
    attempt
}

/// Where the job of an attempt stands.
fn look(cluster: &SlurmCluster, attempt: &Attempt) -> JobState {
    let name = format!("--name={}", job_name(&attempt.mark));
    let format = format!("--format={}", JobState::FORMAT);
    JobState::of(&cluster.call(&["squeue", "--noheader", "--states=all", &name, &format]))
}

#[test]
#[ignore = "slow"]
fn an_agent_in_a_job_is_one_like_any_other() {
    let Some(cluster) = SlurmCluster::start() else { return };
    submitted(&cluster, "plain", PLAIN).is_carried();
    cluster.wait_for_idle();
}

#[test]
#[ignore = "slow"]
fn nothing_is_left_of_a_job_whatever_ends_an_attempt() {
    let Some(mut cluster) = SlurmCluster::start() else { return };
    let killed = submitted(&cluster, "killed", FAMILY);
    let (agent, news) = killed.up();
    agent.order(GuardianCommand::Kill);
    assert!(matches!(closed(&news).outcome, Some(Outcome::Signaled { .. })));
    killed.nothing_is_left();

    let alone = submitted(&cluster, "alone", FAMILY);
    let (agent, _news) = alone.up();
    drop(agent);
    alone.nothing_is_left();

    // The cluster of the tests finds no children that have left their parents: the worker has the
    // time between TERM and KILL to end them.
    let canceled = submitted(&cluster, "canceled", FAMILY);
    let (_agent, news) = canceled.up();
    cluster.call(&["scancel", &format!("--name={}", job_name(&canceled.mark))]);
    is_lost(&news);
    until("it is known", || look(&cluster, &canceled) == JobState::Ended(JobEnd::Cancelled));
    canceled.nothing_is_left();

    let preempted = submitted(&cluster, "preempted", FAMILY);
    let (_agent, news) = preempted.up();
    let JobState::Running { node } = look(&cluster, &preempted) else { panic!("not running") };
    cluster.preempt(&node);
    is_lost(&news);
    until("it is known", || look(&cluster, &preempted) == JobState::Ended(JobEnd::Preempted));
    preempted.nothing_is_left();
}

#[test]
#[ignore = "slow"]
fn a_job_whose_clients_were_all_killed_ends_with_the_silence() {
    if std::env::var_os("RALPH_ENGINES").is_none() {
        eprintln!("skipped: `just engines` runs it; it takes six minutes");
        return;
    }
    let Some(cluster) = SlurmCluster::start() else { return };
    let attempt = submitted(&cluster, "silent", FAMILY);
    let (agent, news) = attempt.up();
    agent.kill_guardian();
    for pid in super::tree(std::process::id()) {
        if super::status(pid, "Name:").is_some_and(|name| name == "srun") {
            send(pid, Signal::KILL);
        }
    }
    assert_eq!(closed(&news).outcome, None);
    for _ in 0..7 {
        thread::sleep(Duration::from_secs(60));
        if marked(attempt.folder.path()).is_empty() {
            return;
        }
    }
    panic!("the worker does not notice the silence");
}
