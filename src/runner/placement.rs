//! The executor of each process of an attempt.

use std::time::Duration;

use super::{
    context::{RunContext, task_of},
    process_spec::{self, ProcessKind},
    processes::{ProcessHandle, ProcessOnItsWay},
};
use crate::{
    adapters::process::{self, AgentProcess, GuardianSpec, NotStarted, ProcessSpec},
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
    },
};

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
    let mut spec = process_spec::agent(&cx.workspace, record, &call);
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
