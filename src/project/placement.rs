//! How a process of an attempt gets to its executor.

use std::{
    collections::BTreeMap,
    env, fmt,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use crate::core::hmac::sign;
use crate::{
    adapters::{
        executor::{container, slurm, ssh},
        process::{
            self, Carrier, ProcessSpec, WorkTransfer, WorkerFiles,
            sandbox::{SandboxPaths, SandboxSupport},
        },
    },
    core::{
        commit_id::CommitId,
        environment::AWAY,
        executor::{
            CarrierFacts, ContainerEngine, ContainerSettings, Executor, ExecutorFault,
            ExecutorKind, FileTravel, Network, Placement, Resources, SandboxSettings, SharedPath,
            SshSettings, carrier_command,
        },
    },
    project::{
        slot_environment,
        slot_pool::{self, SlotPool},
        suspect_slots,
        workspace::Workspace,
    },
    regular_file,
};

/// A process as its executor starts it.
#[derive(Debug)]
pub struct PlacedProcess {
    /// The process.
    pub spec: ProcessSpec,
    /// The way to it, if it runs behind a worker.
    pub carrier: Option<Carrier>,
    /// Where it runs, unless local. The name of a machine is unknown before the process is there.
    pub placement: Option<Placement>,
}

impl PlacedProcess {
    /// A local process.
    pub fn here(spec: ProcessSpec) -> PlacedProcess {
        PlacedProcess { spec, carrier: None, placement: None }
    }

    /// The same process of an attempt at this executor, and whether its setup has run there.
    #[must_use]
    pub fn after_setup(mut self, run_on: Option<&str>, is_set_up: bool) -> PlacedProcess {
        let carrier = self.carrier.as_mut().filter(|it| Some(&*it.executor) == run_on);
        if let Some(transfer) = carrier.and_then(|carrier| carrier.transfer.as_mut()) {
            transfer.files.is_set_up = is_set_up;
        }
        self
    }
}

/// An executor's facts about a process.
pub struct ProcessFacts {
    /// The mark of its processes, such as `r1.a.2`.
    pub mark: String,
    /// Its slot.
    pub slot: PathBuf,
    /// The commit from which the work in the slot starts.
    pub base: Option<CommitId>,
    /// The folder of the task, for its reports.
    pub task_dir: PathBuf,
    /// The record of its attempt.
    pub record: PathBuf,
    /// The preset of its agent, if it has one.
    pub agent: Option<String>,
    /// The task's cluster resources.
    pub resources: Option<Value>,
    /// Its time limit.
    pub limit: Option<Duration>,
}

/// Why an executor cannot run a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementFault {
    /// It cannot run any process, now or until a person does something.
    Executor(ExecutorFault),
    /// It cannot run this process, for this reason.
    Refused(String),
}

impl From<ExecutorFault> for PlacementFault {
    fn from(fault: ExecutorFault) -> PlacementFault {
        PlacementFault::Executor(fault)
    }
}

impl From<String> for PlacementFault {
    fn from(why: String) -> PlacementFault {
        PlacementFault::Refused(why)
    }
}

impl fmt::Display for PlacementFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PlacementFault::Executor(ExecutorFault { why, .. }) | PlacementFault::Refused(why)) =
            self;
        f.write_str(why)
    }
}

/// Does slow work before the first process of this program at an executor: detects the engine, and
/// sends this program. It is done once.
///
/// # Errors
/// The executor cannot run a process.
pub fn reach(executor: &Executor) -> Result<(), ExecutorFault> {
    match &executor.kind {
        ExecutorKind::Container(settings) => engine(settings).map(drop),
        ExecutorKind::Ssh(settings) if settings.send_binary => sent_program(settings).map(drop),
        ExecutorKind::Local
        | ExecutorKind::Sandbox(_)
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Ssh(_)
        | ExecutorKind::Command(_) => Ok(()),
    }
}

/// Returns a process as this executor starts it.
///
/// # Errors
/// The executor cannot run it.
pub fn placed(
    workspace: &Workspace,
    executor: &Executor,
    facts: &ProcessFacts,
    mut spec: ProcessSpec,
) -> Result<PlacedProcess, PlacementFault> {
    // Elsewhere, and in a container, a process does not get the variables of this one.
    match &executor.kind {
        ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Slurm(_) => {
            slot_environment::lead_to_slot(workspace, &mut spec);
        }
        ExecutorKind::Container(_) | ExecutorKind::Ssh(_) | ExecutorKind::Command(_) => {}
    }
    match &executor.kind {
        ExecutorKind::Local => Ok(PlacedProcess::here(spec)),
        ExecutorKind::Sandbox(settings) => {
            let confined = confined(workspace, executor, settings, facts, spec);
            confined.map_err(|why| PlacementFault::Executor(ExecutorFault::lasting(why)))
        }
        ExecutorKind::Container(_)
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Ssh(_)
        | ExecutorKind::Command(_) => carried(workspace, executor, facts, spec),
    }
}

/// Checks the locally visible part of an executor: a sandbox works, an engine answers, a program is
/// there.
///
/// # Errors
/// A missing part; a message for a person.
pub fn check(workspace: &Workspace, executor: &Executor) -> Result<(), String> {
    let program = |program: &str| {
        let found = process::resolve(program, workspace.root());
        found.map(drop).map_err(|why| format!("executor `{}`: {why}", executor.name))
    };
    match &executor.kind {
        ExecutorKind::Local => Ok(()),
        ExecutorKind::Sandbox(settings) => {
            process::sandbox::check(settings)
                .map_err(|why| format!("executor `{}`: {why}", executor.name))?;
            match &settings.network {
                Network::Wrapper(argv) => {
                    let first = argv.first().map_or("", String::as_str);
                    program(first).map_err(|why| format!("{why}; correct its `network`"))
                }
                Network::On | Network::Off => Ok(()),
            }
        }
        ExecutorKind::Container(settings) => engine(settings).map(drop).map_err(|fault| fault.why),
        ExecutorKind::Slurm(_) => program("srun"),
        ExecutorKind::Ssh(_) => program("ssh"),
        ExecutorKind::Command(settings) => {
            program(settings.argv.first().map_or("", String::as_str))
        }
    }
}

/// Checks that an executor can protect the settings of an agent from its attempts.
///
/// # Errors
/// It cannot; a message for a person.
pub fn check_agent(executor: &Executor, agent: Option<&str>) -> Result<(), String> {
    match &executor.kind {
        ExecutorKind::Sandbox(settings) => process::sandbox::check_agent(settings, agent)
            .map_err(|why| format!("executor `{}`: {why}", executor.name)),
        ExecutorKind::Local
        | ExecutorKind::Container(_)
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Ssh(_)
        | ExecutorKind::Command(_) => Ok(()),
    }
}

/// Checks that an executor answers, where that can be asked before a process starts there.
///
/// # Errors
/// It does not; a message for a person.
pub fn answers(executor: &Executor) -> Result<(), String> {
    match &executor.kind {
        ExecutorKind::Ssh(settings) => {
            ssh::reach(settings).map_err(|why| format!("executor `{}`: {why}", executor.name))
        }
        ExecutorKind::Local
        | ExecutorKind::Sandbox(_)
        | ExecutorKind::Container(_)
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Command(_) => Ok(()),
    }
}

/// Removes the leftovers of processes with this mark, which have all ended.
pub fn clean_up(workspace: &Workspace, executor: &Executor, mark: &str) {
    suspect_slots::signs(&workspace.state, mark).remove();
    if let ExecutorKind::Container(settings) = &executor.kind
        && let Ok(engine) = container::find(settings)
    {
        let _ = container::remove(&engine, mark);
    }
}

/// Returns the sandbox support of an executor, if it is one and works.
pub fn sandbox_support(executor: &Executor) -> Option<SandboxSupport> {
    let ExecutorKind::Sandbox(settings) = &executor.kind else { return None };
    process::sandbox::support(settings.engine).ok()
}

fn engine(settings: &ContainerSettings) -> Result<ContainerEngine, ExecutorFault> {
    container::find(settings).map_err(|fault| ExecutorFault {
        why: settings.describe(&fault),
        lasts: !fault.is_passing(),
    })
}

/// Returns a process inside a sandbox of this machine.
fn confined(
    workspace: &Workspace,
    executor: &Executor,
    settings: &SandboxSettings,
    facts: &ProcessFacts,
    spec: ProcessSpec,
) -> Result<PlacedProcess, String> {
    let support = process::sandbox::support(settings.engine)?;
    let mut paths = sandbox_paths(workspace, facts)?;
    // An agent in a folder that the sandbox has for itself must be found.
    let programs = spec.argv.iter().map(PathBuf::from);
    paths.read.extend(programs.filter(|path| path.is_absolute() && path.is_file()));
    let spec = process::sandbox::confined(spec, settings, &paths)?;
    let within = Some(support.to_string());
    let placement = Placement { run_on: executor.name.clone(), within, host: None };
    Ok(PlacedProcess { spec, carrier: None, placement: Some(placement) })
}

/// Returns the files and folders of the repository, as a sandbox must know them.
///
/// # Errors
/// This program is gone.
pub fn sandbox_paths(workspace: &Workspace, facts: &ProcessFacts) -> Result<SandboxPaths, String> {
    let pool = SlotPool::of(workspace).folder().to_owned();
    // The checkout of a person may be an added worktree.
    let root = if facts.slot.starts_with(&pool) { workspace.root() } else { &facts.slot };
    let journal = Path::new(workspace.place.journal());
    let mut guarded: Vec<PathBuf> = ["prompts", ".ralph"].map(PathBuf::from).to_vec();
    guarded.extend(journal.components().next().map(|logs| PathBuf::from(logs.as_os_str())));
    guarded.extend(workspace.graph_path().strip_prefix(root).ok().map(Path::to_owned));
    let mut read = vec![workspace.graph_path().to_owned()];
    read.extend(workspace.layers.named().map(Path::to_owned));
    Ok(SandboxPaths {
        main: root.to_owned(),
        git: workspace.repo.common_dir().to_owned(),
        worktree: facts.slot.clone(),
        pool,
        task: facts.task_dir.clone(),
        record: facts.record.clone(),
        guarded,
        read,
        has_terminal: false,
        ralph: process::own_file().map_err(|error| format!("find `ralph`: {error}"))?,
        agent: facts.agent.clone(),
        ..SandboxPaths::of_environment()
    })
}

/// Returns a process that a worker elsewhere starts.
fn carried(
    workspace: &Workspace,
    executor: &Executor,
    facts: &ProcessFacts,
    mut spec: ProcessSpec,
) -> Result<PlacedProcess, PlacementFault> {
    let is_sent = executor.files() == Some(FileTravel::Sent);
    let engine = match &executor.kind {
        ExecutorKind::Container(settings) => Some(engine(settings)?),
        _ => None,
    };
    let sent_ralph = match &executor.kind {
        ExecutorKind::Ssh(settings) if settings.send_binary => Some(sent_program(settings)?),
        _ => None,
    };
    let resources = match &facts.resources {
        None => Resources::default(),
        Some(written) => serde_json::from_value(written.clone())
            .map_err(|why| format!("`resources` of the task: {why}"))?,
    };
    let command = carrier_command(
        executor,
        &CarrierFacts {
            ralph: &process::own_file().map_err(|error| error.to_string())?,
            sent_ralph: sent_ralph.as_deref(),
            mark: &facts.mark,
            home: &home(),
            slot: &facts.slot,
            mounts: &mounts(workspace),
            resources: &resources,
            time_limit: facts.limit,
            container: engine.as_ref(),
            slurm_variables: &slurm::job_variables(),
        },
    )?;
    spec.env.push((AWAY.to_owned(), "1".to_owned()));
    spec.env.extend(passed(executor.variables()));
    let transfer = if is_sent { Some(transfer(workspace, executor, facts)?) } else { None };
    let image = image(executor);
    let within = engine.map(|engine| format!("{} {}", engine.program, image.unwrap_or_default()));
    let signs = || suspect_slots::signs(&workspace.state, &facts.mark);
    let carrier = Carrier {
        signs: (!is_sent).then(signs),
        executor: executor.name.clone(),
        argv: command,
        image: image.map(str::to_owned),
        transfer,
        patience_seconds: workspace.config.max_wait.as_secs(),
        recovers: false,
    };
    Ok(PlacedProcess {
        spec,
        carrier: Some(carrier),
        placement: Some(Placement { run_on: executor.name.clone(), within, host: None }),
    })
}

fn image(executor: &Executor) -> Option<&str> {
    match &executor.kind {
        ExecutorKind::Container(settings) => Some(&settings.image),
        _ => None,
    }
}

/// The other mounts of a container: the objects that the slot borrows.
fn mounts(workspace: &Workspace) -> Vec<SharedPath> {
    let objects = workspace.repo.common_dir().join("objects");
    vec![SharedPath { path: objects, read_only: true }]
}

/// The variables of this process with these names.
fn passed(names: &[String]) -> Vec<(String, String)> {
    names.iter().filter_map(|name| Some((name.clone(), env::var(name).ok()?))).collect()
}

/// Returns the path of this program on a host, to which it is sent once.
fn sent_program(settings: &SshSettings) -> Result<String, ExecutorFault> {
    static SENT: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(Mutex::default);
    let key = format!("{} {:?}", settings.host, settings.args);
    let mut sent = SENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = sent.get(&key) {
        return Ok(path.clone());
    }
    let own = process::own_file().map_err(|error| error.to_string())?;
    let path = ssh::send_program(settings, &own)?;
    sent.insert(key, path.clone());
    Ok(path)
}

/// Returns how the files of an attempt get to a worker and back.
fn transfer(
    workspace: &Workspace,
    executor: &Executor,
    facts: &ProcessFacts,
) -> Result<WorkTransfer, String> {
    let slot = slot_pool::name(&facts.slot);
    let spec = workspace.state.work(&slot);
    let text = json!({
        "slot": facts.slot,
        "main": workspace.root(),
        "token": facts.mark,
        "expected_base": facts.base,
    });
    regular_file::write(&spec, text.to_string().as_bytes())
        .map_err(|error| format!("write `{}`: {error}", spec.display()))?;
    let step = |step: &str| {
        let program = process::own_program().display().to_string();
        vec![program, "__work".to_owned(), step.to_owned(), spec.display().to_string()]
    };
    Ok(WorkTransfer {
        files: WorkerFiles {
            repository: repository_name(workspace.root()),
            dir: executor.dir().map(str::to_owned),
            slot,
            token: facts.mark.clone(),
            is_sha256: facts.base.as_ref().is_some_and(|base| base.len() == 64),
            is_set_up: false,
        },
        send: step("send"),
        fetch: step("fetch"),
    })
}

/// The name of a repository on other machines: repositories of several people and machines may be
/// sent to the same folder.
fn repository_name(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let digest = sign(machine.trim().as_bytes(), "", root.as_os_str().as_encoded_bytes());
    let digest: String =
        digest.chars().filter(char::is_ascii_alphanumeric).skip(6).take(12).collect();
    format!("r{digest}-{name}")
}

fn home() -> PathBuf {
    env::home_dir().unwrap_or_default()
}
