//! A Slurm cluster of two nodes on this machine, with its own keys, ports and folders: the real
//! `munged`, `slurmctld` and `slurmd`.

use std::{
    fs::{self, File, Permissions},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{is_root, marked, program, send, tree, unavailable};
use crate::support::{SOON, until};

/// The names of the nodes. Each has two processors.
pub const NODES: [&str; 2] = ["n1", "n2"];

/// A cluster; gone when dropped, with its processes and jobs.
pub struct SlurmCluster {
    dir: TempDir,
    munge: Child,
    controller: Option<Child>,
    nodes: Vec<(&'static str, Option<Child>)>,
    /// The jobs that preempt others, and such.
    clients: Vec<Child>,
}

impl SlurmCluster {
    /// A cluster with two idle nodes; `None` without Slurm and MUNGE.
    ///
    /// Partitions: `main` (the default), and `high`, whose jobs preempt those of `main`.
    pub fn start() -> Option<SlurmCluster> {
        let needed = ["munged", "slurmctld", "slurmd", "srun"];
        if let Some(missing) = needed.iter().find(|name| program(name).is_none()) {
            unavailable(&format!("there is no {missing} here"));
            return None;
        }
        if !is_root() {
            eprintln!("skipped: the nodes of a cluster need root");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("slurm-").tempdir().unwrap();
        for folder in ["state", "spool.n1", "spool.n2", "munge", "log"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        // The clients of any user go through it to the socket.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("slurm.conf"), settings(dir.path())).unwrap();
        let munge = start_munge(dir.path());
        let mut cluster = SlurmCluster {
            dir,
            munge,
            controller: None,
            nodes: NODES.into_iter().map(|name| (name, None)).collect(),
            clients: Vec::new(),
        };
        cluster.start_controller();
        for node in NODES {
            cluster.start_node(node);
        }
        cluster.wait_for_idle();
        Some(cluster)
    }

    /// The settings file: `SLURM_CONF` of every client.
    pub fn conf(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    /// A client program.
    pub fn client(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command
    }

    /// Runs a client program that must succeed, and returns its output.
    #[track_caller]
    pub fn call(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } =
            self.client(words[0]).args(&words[1..]).output().unwrap();
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Starts the controller, also again.
    pub fn start_controller(&mut self) {
        self.controller = Some(self.daemon("slurmctld", &["-D"], "slurmctld"));
        until("the controller answers", || {
            self.client("scontrol").arg("ping").output().unwrap().status.success()
        });
    }

    /// Kills the controller.
    pub fn kill_controller(&mut self) {
        end(self.controller.take());
    }

    /// Starts the daemon of a node, also again.
    pub fn start_node(&mut self, name: &str) {
        let daemon = self.daemon("slurmd", &["-D", "-N", name], &format!("slurmd.{name}"));
        self.nodes.iter_mut().find(|node| node.0 == name).unwrap().1 = Some(daemon);
    }

    /// Kills the daemon of a node. Its jobs go on, and the controller notices it after a while.
    pub fn kill_node(&mut self, name: &str) {
        // Not with its tree: the processes of jobs are not below it.
        if let Some(mut daemon) =
            self.nodes.iter_mut().find(|node| node.0 == name).unwrap().1.take()
        {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    /// Kills the daemon of a node, and makes the controller notice it now.
    pub fn lose_node(&mut self, name: &str) {
        self.kill_node(name);
        self.set_node(name, "down");
    }

    /// Sets the state of a node: `drain` lets no further job on it, `resume` does.
    #[track_caller]
    pub fn set_node(&self, name: &str, state: &str) {
        let (name, state) = (format!("nodename={name}"), format!("state={state}"));
        self.call(&["scontrol", "update", &name, &state, "reason=test"]);
    }

    /// Takes a node for a job that preempts those of `main`, until the end of the test.
    pub fn preempt(&mut self, node: &str) {
        let job = self
            .client("srun")
            .args(["--partition=high", "--exclusive", "--nodelist", node, "sleep", "600"])
            .spawn();
        self.clients.push(job.unwrap());
    }

    /// Fills a node with a job of `main`, until the end of the test.
    pub fn occupy(&mut self, node: &str) {
        let job = self
            .client("srun")
            .args(["--job-name=occupies", "--exclusive", "--nodelist", node, "sleep", "600"])
            .spawn();
        self.clients.push(job.unwrap());
        until("the node is taken", || {
            self.call(&["squeue", "-h", "--name=occupies", "--states=running", "-o", "%N"])
                .contains(node)
        });
    }

    /// Waits until no job is left on any node.
    pub fn wait_for_idle(&self) {
        let began = Instant::now();
        loop {
            let output = self.client("sinfo").args(["-h", "-N", "-p", "main", "-o", "%T"]).output();
            let states = String::from_utf8(output.unwrap().stdout).unwrap();
            if states.lines().count() == NODES.len() && states.lines().all(|state| state == "idle")
            {
                return;
            }
            assert!(began.elapsed() < SOON, "the nodes are not idle: {states}{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the daemons have logged.
    pub fn log(&self) -> String {
        let names = ["slurmctld", "slurmd.n1", "slurmd.n2"];
        let read = |name: &&str| fs::read_to_string(self.dir.path().join("log").join(name)).ok();
        names.iter().filter_map(read).collect()
    }

    fn daemon(&self, name: &str, arguments: &[&str], log: &str) -> Child {
        let log = self.dir.path().join("log").join(log);
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(program(name).unwrap());
        command.args(arguments).env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        for client in self.clients.drain(..) {
            end(Some(client));
        }
        end(self.controller.take());
        for (_, node) in &mut self.nodes {
            end(node.take());
        }
        // The steps of jobs, which are below no process of the test, and what runs in them.
        for pid in marked(self.dir.path()) {
            for pid in tree(pid) {
                send(pid, Signal::KILL);
            }
        }
        let _ = self.munge.kill();
        let _ = self.munge.wait();
    }
}

/// Kills a process with everything below it.
fn end(process: Option<Child>) {
    if let Some(mut process) = process {
        for pid in tree(process.id()) {
            send(pid, Signal::KILL);
        }
        let _ = process.wait();
    }
}

fn start_munge(dir: &Path) -> Child {
    let dir = dir.join("munge");
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let key = dir.join("key");
    let random: Vec<u8> = {
        use std::io::Read;
        let mut bytes = vec![0; 1024];
        File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
        bytes
    };
    fs::write(&key, random).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    let file = |name: &str| dir.join(name).display().to_string();
    let munge = Command::new(program("munged").unwrap())
        .args(["--foreground", "--force"])
        .arg(format!("--key-file={}", file("key")))
        .arg(format!("--socket={}", file("socket")))
        .arg(format!("--pid-file={}", file("pid")))
        .arg(format!("--log-file={}", file("log")))
        .arg(format!("--seed-file={}", file("seed")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    crate::support::wait_for(&dir.join("socket"));
    munge
}

/// The settings: no cgroups, no accounting, quick to notice a lost node.
fn settings(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap().to_owned();
    // Held until all are chosen, so that they differ.
    let listeners: Vec<TcpListener> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let port = |at: usize| listeners[at].local_addr().unwrap().port();
    let (controller, first, second) = (port(0), port(1), port(2));
    let dir = dir.display();
    let node = "CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=64";
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n\
         SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
         AuthInfo=socket={dir}/munge/socket\nCredType=cred/munge\n\
         StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool.%n\n\
         SlurmctldPidFile={dir}/slurmctld.pid\nSlurmdPidFile={dir}/slurmd.%n.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
         MpiDefault=none\nJobCompType=jobcomp/none\n\
         AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdTimeout=10\n\
         MessageTimeout=5\nKillWait=5\nReturnToService=2\nPropagateResourceLimits=NONE\n\
         PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n\
         SchedulerParameters=sched_interval=1,bf_interval=1\n\
         NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} {node}\n\
         NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} {node}\n\
         PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n\
         PartitionName=high Nodes=n1,n2 Default=NO MaxTime=INFINITE State=UP PriorityTier=9 \
         PreemptMode=OFF\n"
    )
}
