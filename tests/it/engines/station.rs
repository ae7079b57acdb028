//! A project whose attempts run on a real executor, each kind with the engine that it needs.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::{Value, json};

use super::{
    container_engine::{ContainerTool, IMAGE},
    marked,
    slurm_cluster::SlurmCluster,
    ssh_host::SshHost,
};
use crate::support::{RALPH, SETTINGS, TestProject, agent, until};

/// The variables of a test that its agents need.
const VARIABLES: [&str; 7] = [
    "RALPH",
    "TRIAL",
    "TRIAL_DIR",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// The kinds of executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Local,
    Sandbox,
    Command,
    Ssh,
    Container,
    Slurm,
}

/// All kinds but the one that is no other place.
pub const KINDS: [Kind; 5] =
    [Kind::Sandbox, Kind::Command, Kind::Ssh, Kind::Container, Kind::Slurm];

/// The engine of an executor; gone when dropped, with its processes.
pub enum Engine {
    /// This machine.
    Here,
    Ssh(SshHost),
    Container(ContainerTool),
    Slurm(SlurmCluster),
}

impl Engine {
    /// The engine of this kind; `None` if it cannot be had.
    pub fn start(kind: Kind) -> Option<Engine> {
        Some(match kind {
            Kind::Local | Kind::Command => Engine::Here,
            Kind::Sandbox => {
                match ralph::adapters::process::sandbox::support(
                    ralph::core::executor::SandboxEngine::Auto,
                ) {
                    Ok(_) => Engine::Here,
                    Err(why) => {
                        super::unavailable(&why);
                        return None;
                    }
                }
            }
            Kind::Ssh => Engine::Ssh(SshHost::start()?),
            Kind::Container => Engine::Container(ContainerTool::find()?),
            Kind::Slurm => Engine::Slurm(SlurmCluster::start()?),
        })
    }
}

/// A project with the agent `told` whose attempts run on the executor `there`. Its agents find
/// `TRIAL_DIR` in the folder `seen`.
pub struct Station {
    pub kind: Kind,
    pub trial: TestProject,
    pub engine: Engine,
}

impl Station {
    /// `None` without the engine of this kind.
    pub fn start(kind: Kind, graph: &str, settings: &str) -> Option<Station> {
        Some(Station::on(Engine::start(kind)?, kind, TestProject::new().graph(graph), settings))
    }

    /// A project on an engine that was started, with `more` in its settings.
    pub fn on(engine: Engine, kind: Kind, trial: TestProject, more: &str) -> Station {
        Station::with(engine, kind, trial, more, |_| {})
    }

    /// The same with other settings of the executor.
    pub fn with(
        engine: Engine,
        kind: Kind,
        trial: TestProject,
        more: &str,
        change: impl FnOnce(&mut Value),
    ) -> Station {
        let seen = trial.dir().join("seen");
        fs::create_dir(&seen).unwrap();
        for name in ["begun", "committed"] {
            symlink(seen.join(name), trial.sign(name)).unwrap();
        }
        let mut trial = trial.agent("told").env("TRIAL_DIR", seen.to_str().unwrap());
        for role in ["AUTHOR", "COMMITTER"] {
            trial = trial.env(&format!("GIT_{role}_NAME"), "Tess");
            trial = trial.env(&format!("GIT_{role}_EMAIL"), "tess@example.invalid");
        }
        if let Engine::Slurm(cluster) = &engine {
            trial = trial.env("SLURM_CONF", cluster.conf().to_str().unwrap());
        }
        let mut executor = executor(&engine, kind, &trial);
        change(&mut executor);
        let place = match kind {
            Kind::Local => "run_on: local\n".to_owned(),
            _ => format!("executors: {}\nrun_on: there\n", json!({ "there": executor })),
        };
        let trial = trial.file(".ralph/config.yaml", &format!("{SETTINGS}{place}{more}"));
        Station { kind, trial, engine }
    }

    /// Writes the script of the agent for a task, an attempt, or all: `do`, `do-a`, `do-a-1`.
    pub fn told(&self, name: &str, script: &str) {
        fs::write(self.seen(name), script).unwrap();
    }

    /// The path of a signal file of an agent.
    pub fn seen(&self, name: &str) -> PathBuf {
        self.trial.dir().join("seen").join(name)
    }

    /// The lines of such a file.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.seen(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The host.
    pub fn host(&self) -> &SshHost {
        match &self.engine {
            Engine::Ssh(host) => host,
            _ => panic!("not on a host"),
        }
    }

    /// The cluster.
    pub fn cluster(&mut self) -> &mut SlurmCluster {
        match &mut self.engine {
            Engine::Slurm(cluster) => cluster,
            _ => panic!("not on a cluster"),
        }
    }

    /// The engine of the containers.
    pub fn tool(&self) -> &ContainerTool {
        match &self.engine {
            Engine::Container(tool) => tool,
            _ => panic!("not in a container"),
        }
    }

    /// The containers of this project, running or not.
    pub fn containers(&self) -> Vec<String> {
        let label = format!("--filter=label={}", label(&self.trial));
        let listed = self.tool().call(&["ps", "--all", "--quiet", &label]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8(listed.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
    }

    /// The processes, containers and jobs that are left of the project.
    pub fn left(&self) -> Vec<String> {
        let folder = self.trial.dir();
        let mut pids = marked(&folder);
        if let Engine::Ssh(host) = &self.engine {
            pids.extend(marked(host.folder()));
        }
        pids.sort_unstable();
        pids.dedup();
        let line = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
        };
        let mut left: Vec<String> = pids.iter().map(line).collect();
        match &self.engine {
            Engine::Container(_) => left.extend(self.containers()),
            Engine::Slurm(cluster) => {
                let jobs = cluster.client("squeue").args(["-h", "-o", "job %j %T"]).output();
                let jobs = String::from_utf8(jobs.unwrap().stdout).unwrap();
                left.extend(jobs.lines().filter(|job| job.contains("ralph:")).map(str::to_owned));
            }
            Engine::Here | Engine::Ssh(_) => {}
        }
        left
    }

    /// Expects that nothing is left of the project anywhere.
    #[track_caller]
    pub fn nothing_is_left(&self) {
        let mut left = Vec::new();
        until("nothing is left running", || {
            if let Engine::Ssh(host) = &self.engine {
                host.reap();
            }
            let now = self.left();
            if now != left {
                eprintln!("left: {now:?}");
                left = now;
            }
            left.is_empty()
        });
    }

    /// The folder for repositories of the worker, if it has one.
    pub fn repositories(&self) -> Option<PathBuf> {
        match &self.engine {
            Engine::Ssh(host) => Some(host.home().join(".cache/ralph")),
            Engine::Here if self.kind == Kind::Command => {
                Some(self.trial.dir().join("elsewhere/.cache/ralph"))
            }
            _ => None,
        }
    }
}

/// What containers of a project have.
fn label(trial: &TestProject) -> String {
    format!("trial={}", trial.dir().file_name().unwrap().display())
}

/// The settings of the executor.
fn executor(engine: &Engine, kind: Kind, trial: &TestProject) -> Value {
    let seen = trial.dir().join("seen").display().to_string();
    match (kind, engine) {
        (Kind::Local, _) => json!({ "local": null }),
        (Kind::Sandbox, _) => json!({ "sandbox": { "write": [seen] } }),
        (_, Engine::Ssh(host)) => json!({ "ssh": {
            "host": host.settings().host,
            "args": host.settings().args,
            "ralph": RALPH,
            "env": VARIABLES,
        } }),
        (_, Engine::Container(tool)) => json!({ "container": {
            "image": IMAGE,
            "engine": tool.program,
            "args": ["--network=none", "--pull=never", format!("--label={}", label(trial))],
            "mounts": [
                format!("{seen}:{seen}"),
                format!("{0}:{0}:ro", agent("")),
                format!("{RALPH}:{RALPH}:ro"),
            ],
            "env": VARIABLES,
        } }),
        (_, Engine::Slurm(_)) => json!({ "slurm": { "env": VARIABLES } }),
        (_, Engine::Here) => {
            let home = trial.dir().join("elsewhere");
            fs::create_dir(&home).unwrap();
            let path = format!("PATH={}", std::env::var("PATH").unwrap());
            json!({ "command": {
                "argv": ["env", "-i", path, format!("HOME={}", home.display())],
                "ralph": RALPH,
                "env": VARIABLES,
            } })
        }
    }
}
