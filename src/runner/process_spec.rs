//! The process to start for an attempt: the command, its environment, its files and its executor.

use std::{env, path::Path, time::Duration};

use super::{
    context::{RunContext, task_of},
    processes::{ProcessHandle, ProcessOnItsWay},
};
use crate::{
    adapters::{
        process::{self, AgentProcess, GuardianSpec, NESTED, NotStarted, PANE, ProcessSpec},
        service_manager,
    },
    core::{
        agents::{agent_command::AgentCommand, transcript::Format},
        executor::{Executor, ExecutorKind},
        graph::{TaskGraph, load::fields::RESOURCES},
        run::{command::CheckPurpose, input::ProcessStart, process_watch::ProcessLimits},
    },
    project::{
        attempt::AttemptRecord,
        executors,
        placement::{self, PlacedProcess, PlacementFault, ProcessFacts},
        workspace::Workspace,
    },
};

/// The kind of a process of an attempt.
pub(super) enum ProcessKind {
    /// The agent.
    Agent,
    /// A command: its purpose, its number among the commands of that purpose, and its text.
    Check(CheckPurpose, usize, String),
}

impl ProcessKind {
    /// Whether it verifies the work of an attempt.
    pub(super) fn verifies(&self) -> bool {
        match self {
            ProcessKind::Check(CheckPurpose::Verify | CheckPurpose::Trial, ..) => true,
            ProcessKind::Check(CheckPurpose::Setup | CheckPurpose::Baseline, ..)
            | ProcessKind::Agent => false,
        }
    }
}

/// Returns the agent process of an attempt.
pub(super) fn agent(
    workspace: &Workspace,
    record: &AttemptRecord,
    call: &AgentCommand,
) -> ProcessSpec {
    let root = workspace.root();
    let task_dir = root.join(workspace.task_dir(&record.task_id)).display().to_string();
    let mut env = vec![
        ("RALPH_TASK_ID".to_owned(), record.task_id.to_string()),
        ("RALPH_ATTEMPT".to_owned(), record.attempt.to_string()),
        ("RALPH_RUN_ID".to_owned(), record.run_id.clone()),
        ("RALPH_ATTEMPT_ID".to_owned(), record.mark()),
        ("RALPH_TASK_DIR".to_owned(), task_dir.clone()),
        ("TASK_FOLDER".to_owned(), task_dir),
    ];
    // A `ralph` that the agent runs must use the same graph file and the same loop.
    if let Some(graph) = workspace.other_graph() {
        env.push(("RALPH_GRAPH".to_owned(), graph.display().to_string()));
    }
    if let Some(slot) = &record.slot {
        env.push(("RALPH_SLOT".to_owned(), slot.path.display().to_string()));
        env.push(ceiling(&slot.path));
    }
    if let Some(name) = workspace.place.name() {
        env.push(("RALPH_LOOP".to_owned(), name.to_string()));
    }
    let config = workspace.layers.named();
    env.extend(config.map(|path| ("RALPH_CONFIG".to_owned(), path.display().to_string())));
    env.extend(without_gc().into_iter().chain(call.env.clone()));
    ProcessSpec {
        argv: call.argv.clone(),
        dir: record.slot.as_ref().map_or(root, |slot| &slot.path).to_owned(),
        env,
        env_remove: removed(),
        stdin: record.file(workspace, "prompt.md"),
        stdout: record.file(workspace, "stdout"),
        stderr: record.file(workspace, "stderr"),
    }
}

/// Without its git directory, a slot must not count as part of another repository.
fn ceiling(slot: &Path) -> (String, String) {
    let above = slot.parent().unwrap_or(Path::new("/"));
    ("GIT_CEILING_DIRECTORIES".to_owned(), above.display().to_string())
}

/// The variables that an agent does not get.
fn removed() -> Vec<String> {
    // The last variables belong to an attempt that this process may itself be part of.
    let last = ["RALPH_PARENT_RUN_ID", "RALPH_LOOP", "RALPH_SLOT"];
    NESTED.into_iter().chain(service_manager::VARIABLES).chain(last).map(str::to_owned).collect()
}

/// Returns a shell command of an attempt, run in `dir` with its output in `log`.
pub(super) fn check(agent: ProcessSpec, command: &str, dir: &Path, log: &Path) -> ProcessSpec {
    ProcessSpec {
        argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
        stdin: "/dev/null".into(),
        stdout: log.to_owned(),
        stderr: log.to_owned(),
        dir: dir.to_owned(),
        ..agent
    }
}

/// Returns a process that runs the agent of `spec` in a terminal and exits with its status.
pub(super) fn in_pane(
    spec: ProcessSpec,
    folder: &Path,
    record: &AttemptRecord,
    sign: &Path,
    idle: Option<Duration>,
) -> ProcessSpec {
    /// The longest and the shortest interval between two looks at the screen.
    const LOOK: Duration = Duration::from_secs(2);
    const OFTEN: Duration = Duration::from_millis(100);
    let shown = |path: &Path| path.display().to_string();
    let mut argv = vec![
        shown(&process::own_program()),
        "__pane".to_owned(),
        shown(folder),
        format!("--title={} attempt {}", record.task_id, record.attempt),
        format!("--prompt={}", shown(&spec.stdin)),
        format!("--record={}", shown(sign)),
    ];
    let look = idle.map(|idle| (idle / 4).clamp(OFTEN, LOOK));
    argv.extend(look.map(|look| format!("--look={}ms", look.as_millis())));
    argv.push("--".to_owned());
    argv.extend(spec.argv);
    let mut env = spec.env;
    env.push((PANE.to_owned(), record.mark()));
    let mut env_remove = spec.env_remove;
    // These belong to the terminal in which this run may itself run.
    env_remove.extend(["TMUX", "TMUX_PANE"].map(str::to_owned));
    ProcessSpec { argv, env, env_remove, ..spec }
}

/// Git's background maintenance calls `setsid` and outlives the attempt that caused it.
fn without_gc() -> Vec<(String, String)> {
    let count: usize =
        env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let off = [("gc.auto", "0"), ("maintenance.auto", "false")];
    let mut env = vec![("GIT_CONFIG_COUNT".to_owned(), (count + off.len()).to_string())];
    for (at, (key, value)) in (count..).zip(off) {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key.to_owned()));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value.to_owned()));
    }
    env
}

/// A process that was started.
pub(super) struct SpawnedProcess {
    pub(super) process: AgentProcess,
    pub(super) start: ProcessStart,
    /// Its limits for now.
    pub(super) limits: ProcessLimits,
    pub(super) on_its_way: Option<ProcessOnItsWay>,
}

/// Returns the executor of a process of an attempt.
///
/// # Errors
/// The settings have changed and do not know it any more.
fn executor_of(
    cx: &RunContext,
    record: &AttemptRecord,
    kind: &ProcessKind,
) -> Result<Executor, String> {
    let config = &cx.workspace.config;
    let is_trial = matches!(kind, ProcessKind::Check(CheckPurpose::Trial, ..));
    let given = config.verify_on.as_deref().filter(|_| is_trial);
    let found = executors::find(config, given.or(record.run_on.as_deref()));
    let found = found.map_err(|error| format!("{error:#}"))?;
    if !is_trial || given.is_some() {
        return Ok(found);
    }
    Ok(match found.kind {
        // What keeps an agent in, or gives it its tools, is right for what it wrote.
        ExecutorKind::Sandbox(_) | ExecutorKind::Container(_) => found,
        ExecutorKind::Local
        | ExecutorKind::Slurm(_)
        | ExecutorKind::Ssh(_)
        | ExecutorKind::Command(_) => Executor::local(),
    })
}

/// Returns the executor of a process of an attempt, if that can start it as far as can be seen
/// here. The terminal of an agent would start without its program, and so would a sandbox.
pub(super) fn executor_for(
    cx: &RunContext,
    record: &AttemptRecord,
    kind: &ProcessKind,
    spec: &ProcessSpec,
) -> Result<Executor, NotStarted> {
    let executor = executor_of(cx, record, kind).map_err(NotStarted::Refused)?;
    if matches!(kind, ProcessKind::Agent) && executor.is_here() {
        process::check(spec).map_err(NotStarted::Missing)?;
    }
    Ok(executor)
}

/// Starts a process of an attempt at this executor.
pub(super) fn spawn_at(
    cx: &RunContext,
    graph: &TaskGraph,
    executor: &Executor,
    record: &AttemptRecord,
    guard: GuardianSpec,
    limits: &ProcessLimits,
) -> Result<SpawnedProcess, NotStarted> {
    let placed = placed(cx, graph, record, executor, &guard.spec, limits.limit);
    let PlacedProcess { spec, carrier, placement } = placed.map_err(|fault| match fault {
        PlacementFault::Executor(fault) => NotStarted::Executor(fault),
        PlacementFault::Refused(why) => NotStarted::Refused(why),
    })?;
    let is_carried = carrier.is_some();
    let guard = GuardianSpec { spec, carrier, ..guard };
    let process = AgentProcess::spawn(&cx.guardians, &guard, cx.news_of(&record.id()))?;
    let limits = limits.clone();
    Ok(if is_carried {
        let meanwhile =
            ProcessLimits { limit: cx.workspace.config.max_wait, idle: None, ..limits.clone() };
        let on_its_way = Some(ProcessOnItsWay::new(placement, limits));
        SpawnedProcess { process, start: ProcessStart::OnItsWay, limits: meanwhile, on_its_way }
    } else {
        let start = ProcessStart::Runs(placement);
        SpawnedProcess { process, start, limits, on_its_way: None }
    })
}

/// Returns a process of an attempt as this executor starts it.
///
/// # Errors
/// The executor cannot run it.
pub(super) fn placed(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &AttemptRecord,
    executor: &Executor,
    spec: &ProcessSpec,
    limit: Duration,
) -> Result<PlacedProcess, PlacementFault> {
    let facts = ProcessFacts {
        mark: record.mark(),
        slot: spec.dir.clone(),
        base: record.base.clone(),
        task_dir: cx.workspace.root().join(cx.workspace.task_dir(&record.task_id)),
        record: cx.workspace.state.attempt(&record.name()),
        agent: record.call.as_ref().and_then(AgentCommand::preset_name),
        limit: Some(limit),
        resources: task_of(graph, record).and_then(|task| task.extra.get(RESOURCES).cloned()),
    };
    placement::placed(&cx.workspace, executor, &facts, spec.clone())
}

/// Starts a guardian that fetches the end and the work of an agent.
pub(super) fn spawn_fetch(
    cx: &RunContext,
    graph: &TaskGraph,
    record: &mut AttemptRecord,
    executor: &Executor,
) -> Result<ProcessHandle, String> {
    let call = record.call.clone().ok_or("the attempt has no agent")?;
    let mut spec = agent(&cx.workspace, record, &call);
    record.asks += 1;
    record.remove_fetched_output(&cx.workspace);
    let [stdout, stderr] = record.fetched_output(&cx.workspace);
    (spec.stdout, spec.stderr) = (stdout, stderr);
    let placed = placed(cx, graph, record, executor, &spec, cx.workspace.config.max_wait);
    let placed = placed.map_err(|fault| fault.to_string())?;
    let mut carrier = placed.carrier.ok_or("its executor is this machine now")?;
    carrier.recovers = true;
    let guard = cx.guarded(placed.spec, record, true);
    let guard = GuardianSpec { carrier: Some(carrier), ..guard };
    let process = AgentProcess::spawn(&cx.guardians, &guard, cx.news_of(&record.id()))
        .map_err(|reason| format!("its work cannot be asked for: {reason:?}"))?;
    record.add_process(&cx.workspace, &process).map_err(|error| format!("{error:#}"))?;
    let seen = (record.base.clone(), record.dirty.clone());
    let handle = ProcessHandle::new(process, (spec.stdout, Format::Text), seen);
    Ok(ProcessHandle { log: Some(String::new()), fetches: true, ..handle })
}
