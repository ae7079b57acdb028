//! How a process of an attempt gets to its executor.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    adapters::process::{self, Carrier, ProcessSpec, sandbox::SandboxPaths},
    core::{
        commit_id::CommitId,
        executor::{
            CarrierFacts, Executor, ExecutorKind, FileTravel, Placement, Resources,
            SandboxSettings, SharedPath, SshSettings, carrier_command,
        },
        hmac, loop_paths,
    },
    project::{slot_pool::SlotPool, workspace::Workspace},
    regular_file,
};

/// A process as its executor starts it.
#[derive(Debug)]
pub struct PlacedProcess {
    /// The process.
    pub spec: ProcessSpec,
    /// The way to it, if it runs behind a worker.
    pub carrier: Option<Carrier>,
    /// Where it runs, if that is not this machine as it is. The name of a machine is not known
    /// before the process is there.
    pub placement: Option<Placement>,
}

impl PlacedProcess {
    /// A process on this machine as it is.
    pub fn here(spec: ProcessSpec) -> PlacedProcess {
        PlacedProcess { spec, carrier: None, placement: None }
    }
}

/// What an executor must know about a process.
pub struct ProcessFacts {
    /// What its processes are recognized by, such as `r1.a.2`.
    pub mark: String,
    /// The slot in which it works.
    pub slot: PathBuf,
    /// The commit from which the work in the slot starts.
    pub base: Option<CommitId>,
    /// The folder of the task, in which it reports.
    pub task_dir: PathBuf,
    /// The record of its attempt.
    pub record: PathBuf,
    /// The name of its agent.
    pub agent: Option<String>,
    /// What the task needs of a cluster.
    pub resources: Option<Value>,
    /// Its time limit.
    pub limit: Option<Duration>,
}

/// Returns a process as this executor starts it.
///
/// # Errors
/// The executor cannot run it; a message for a person.
pub fn placed(
    workspace: &Workspace,
    executor: &Executor,
    facts: &ProcessFacts,
    spec: ProcessSpec,
) -> Result<PlacedProcess, String> {
    match &executor.kind {
        ExecutorKind::Local => Ok(PlacedProcess::here(spec)),
        ExecutorKind::Sandbox(settings) => confined(workspace, executor, settings, facts, spec),
        ExecutorKind::Container(_)
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Ssh(_)
        | ExecutorKind::Command(_) => Err(String::new()),
    }
}

/// Returns a process inside a sandbox of this machine.
fn confined(
    workspace: &Workspace,
    executor: &Executor,
    settings: &SandboxSettings,
    facts: &ProcessFacts,
    spec: ProcessSpec,
) -> Result<PlacedProcess, String> {
    let pool = SlotPool::of(workspace);
    let own_files = loop_paths::OWN.iter().map(PathBuf::from);
    let others = ["prompts", ".ralph"].map(PathBuf::from);
    // An agent in a folder that the sandbox has for itself must be found.
    let programs =
        spec.argv.iter().map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
    let graph = workspace.graph_path().to_owned();
    let named = workspace.layers.named().map(Path::to_owned);
    let paths = SandboxPaths {
        main: workspace.root().to_owned(),
        git: workspace.repo.common_dir().to_owned(),
        worktree: facts.slot.clone(),
        pool: pool.folder().to_owned(),
        task: facts.task_dir.clone(),
        record: facts.record.clone(),
        guarded: own_files.chain(others).chain([PathBuf::from(workspace.graph_name())]).collect(),
        read: [graph].into_iter().chain(named).chain(programs).collect(),
        ralph: process::own_file().map_err(|error| error.to_string())?,
        agent: facts.agent.clone(),
        ..SandboxPaths::of_environment()
    };
    let support = process::sandbox::support(settings.engine)?;
    let spec = process::sandbox::confined(spec, settings, &paths)?;
    let within = Some(support.to_string());
    let placement = Placement { run_on: executor.name.clone(), within, host: None };
    Ok(PlacedProcess { spec, carrier: None, placement: Some(placement) })
}
