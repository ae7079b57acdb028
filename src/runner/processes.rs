//! The processes of the open attempts: their executors and starts, their output, their ends, their
//! signs of life, the processes that they leave, and the orders to their guardians.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    attempts::Records,
    context::{RunContext, head_of, task_of},
    graph_copy,
    process_spec::{self, ProcessKind},
};
use crate::{
    adapters::{
        agent_output::Follow,
        process::{
            self, AgentProcess, Closed, GuardianCommand, GuardianSpec, NotStarted, ProcessSpec,
        },
        state::Stamp,
        terminal,
    },
    core::{
        agents::{agent_command::AgentCommand, transcript::Format},
        commit_id::CommitId,
        executor::{Executor, JobState, Placement},
        graph::{TaskGraph, load::fields::RESOURCES},
        run::{
            command::{AttemptId, ProcessOrder},
            input::{Input, ProcessStart},
            process_watch::ProcessLimits,
            verified_work::HeadSpan,
        },
        spend::Spend,
    },
    project::{
        attempt::{self, AttemptRecord},
        executors,
        graph_file::GraphFile,
        placement::{self, PlacedProcess, PlacementFault, ProcessFacts},
    },
};

/// The interval between two questions to a cluster about a job that waits.
const ASK: Duration = Duration::from_secs(5);

/// A running process of an attempt.
pub(super) struct ProcessHandle {
    pub(super) process: AgentProcess,
    /// The output of the process.
    pub(super) output: Follow,
    /// Whether the process has its own terminal.
    pub(super) has_terminal: bool,
    /// The last reported activity.
    pub(super) doing: Option<String>,
    /// The last reported final result; `None` before there is one.
    pub(super) result: Option<bool>,
    /// The log of a command other than the agent, relative to the repository.
    pub(super) log: Option<String>,
    /// The tree where it verifies isolated work, and HEAD of that tree before it started.
    pub(super) verifies: Option<(PathBuf, Option<CommitId>)>,
    /// Whether the agent has reported completion.
    pub(super) reported: bool,
    /// The graph in the worktree of an isolated attempt when it was last read.
    pub(super) graph: Option<Stamp>,
    /// Its state on the way to its executor; none once there, or if it runs here.
    pub(super) on_its_way: Option<ProcessOnItsWay>,
    /// Whether it only fetches the end and the work of an agent whose guardian was lost.
    pub(super) fetches: bool,
    /// The time until which its agent waits by itself, and how often it has said so.
    pub(super) waits: (Option<DateTime<Utc>>, u64),
    /// HEAD and the uncommitted changes at the last check for signs of life.
    pub(super) seen: (Option<CommitId>, BTreeMap<String, String>),
}

impl ProcessHandle {
    /// An agent that runs here: its output, and the state `seen` before signs of life.
    pub(super) fn new(
        process: AgentProcess,
        (stdout, format): (PathBuf, Format),
        seen: (Option<CommitId>, BTreeMap<String, String>),
    ) -> ProcessHandle {
        ProcessHandle {
            process,
            output: Follow::new(stdout, format),
            has_terminal: false,
            doing: None,
            result: None,
            log: None,
            verifies: None,
            reported: false,
            graph: None,
            on_its_way: None,
            fetches: false,
            waits: (None, 0),
            seen,
        }
    }

    /// The process once it has ended.
    pub(super) fn ended(self, closed: Closed) -> ClosedProcess {
        let way = self.on_its_way.as_ref();
        ClosedProcess {
            closed,
            head: self.head(),
            has_arrived: way.is_none(),
            was_queued: way.is_some_and(|way| way.awaits.is_some()),
            log: self.log,
        }
    }

    /// HEAD of the tree where it verified isolated work, before and after.
    pub(super) fn head(&self) -> HeadSpan {
        let Some((tree, before)) = &self.verifies else {
            return HeadSpan::default();
        };
        HeadSpan { before: before.clone(), after: head_of(tree) }
    }
}

/// A process of an attempt that has ended.
#[derive(Debug)]
pub(super) struct ClosedProcess {
    pub(super) closed: Closed,
    /// HEAD of the tree where it verified isolated work.
    pub(super) head: HeadSpan,
    /// The log of a command other than the agent, relative to the repository.
    pub(super) log: Option<String>,
    /// Whether it had got to its executor, or runs here.
    pub(super) has_arrived: bool,
    /// Whether its executor let it wait.
    pub(super) was_queued: bool,
}

/// A process that has not got to its executor.
pub(super) struct ProcessOnItsWay {
    /// Where it will be.
    pub(super) placement: Option<Placement>,
    /// Its limits, which count from its arrival.
    pub(super) limits: ProcessLimits,
    /// When its executor was last asked about it.
    pub(super) asked: Instant,
    /// The executor's message.
    pub(super) awaits: Option<String>,
}

impl ProcessOnItsWay {
    pub(super) fn new(placement: Option<Placement>, limits: ProcessLimits) -> ProcessOnItsWay {
        ProcessOnItsWay { placement, limits, asked: Instant::now(), awaits: None }
    }
}

/// The progress of a process since the last look.
pub(super) struct Progress {
    pub(super) id: AttemptId,
    /// Whether background tasks still run after the final result; `None` before the final result.
    pub(super) result: Option<bool>,
    /// Whether the final result has changed.
    pub(super) is_result_new: bool,
    /// The current activity, if it has changed.
    pub(super) doing: Option<String>,
    /// The cost of its agent so far, while that is at work.
    pub(super) cost: Option<f64>,
}

/// The running processes.
#[derive(Default)]
pub(super) struct Processes {
    running: BTreeMap<AttemptId, ProcessHandle>,
}

impl Processes {
    pub(super) fn insert(&mut self, id: AttemptId, handle: ProcessHandle) {
        self.running.insert(id, handle);
    }

    pub(super) fn remove(&mut self, id: &AttemptId) -> Option<ProcessHandle> {
        self.running.remove(id)
    }

    pub(super) fn get(&self, id: &AttemptId) -> Option<&ProcessHandle> {
        self.running.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut ProcessHandle> {
        self.running.get_mut(id)
    }

    /// Whether an agent has printed events, or a file with which it can report has changed and the report
    /// is not known.
    pub(super) fn has_news(&self, cx: &RunContext, records: &Records, graph: &GraphFile) -> bool {
        let mut running = self.running.iter();
        running.any(|(id, handle)| {
            let is_waiting = handle.log.is_none() && !handle.reported;
            handle.output.has_events()
                || records.get(id).filter(|_| is_waiting).is_some_and(|record| {
                    record.has_done_file(&cx.workspace)
                        || match record.slot {
                            None => graph.has_changed(),
                            Some(_) => graph_copy::own_stamp(&cx.workspace, record) != handle.graph,
                        }
                })
        })
    }

    /// Returns the jobs that wait at an executor, about which it is time to ask.
    pub(super) fn due_questions(&mut self) -> Vec<AttemptId> {
        let is_due = |(_, handle): &(&AttemptId, &mut ProcessHandle)| {
            handle.on_its_way.as_ref().is_some_and(|way| way.asked.elapsed() >= ASK)
        };
        let asked = |(id, handle): (&AttemptId, &mut ProcessHandle)| {
            handle.on_its_way.as_mut()?.asked = Instant::now();
            Some(id.clone())
        };
        self.running.iter_mut().filter(is_due).filter_map(asked).collect()
    }

    /// Handles the arrival of a process at its executor.
    pub(super) fn arrived(&mut self, id: &AttemptId, host: String) -> Option<Input> {
        let ProcessOnItsWay { placement, limits, .. } =
            self.running.get_mut(id)?.on_its_way.take()?;
        let limits = ProcessLimits { started: Instant::now(), ..limits };
        let placement = placement.map(|placement| placement.at(host));
        Some(Input::ProcessArrived(id.clone(), limits, placement))
    }

    /// Handles a cluster's answer about a job that waited.
    pub(super) fn job_seen(&mut self, record: &AttemptRecord, state: &JobState) -> Option<Input> {
        let JobState::Pending { .. } = state else {
            // A running job reports its arrival itself, and a lost answer says nothing.
            return None;
        };
        let (id, run_on) = (record.id(), record.run_on.clone()?);
        let way = self.running.get_mut(&id)?.on_its_way.as_mut()?;
        let why = state.describe();
        let is_news = way.awaits.replace(why.clone()).as_ref() != Some(&why);
        is_news.then_some(Input::ProcessAwaits { id, run_on, why })
    }

    /// Handles a report that a process is idle. A file that has changed since the last check is a
    /// sign of life.
    pub(super) fn idle(&mut self, cx: &RunContext, record: &AttemptRecord) -> Option<Input> {
        // A missing or damaged slot shows no signs of life.
        let seen = record.tree(&cx.workspace).and_then(|tree| {
            if record.slot.is_some() {
                tree.note_live();
            }
            Ok((tree.head()?.commit, attempt::changed(&cx.workspace, &tree)?))
        });
        let handle = self.running.get_mut(&record.id())?;
        if let Some(seen) = handle.output.look() {
            handle.waits = (seen.waits_until(handle.waits, Utc::now()), seen.waits);
        }
        // Once it may go on, it has as long as any other.
        let grace = TimeDelta::from_std(cx.workspace.config.idle).unwrap_or_default();
        let waits = handle.waits.0.is_some_and(|until| Utc::now() - grace < until);
        let changed = seen.ok().filter(|seen| !waits && handle.seen != *seen);
        let is_alive = waits || changed.is_some();
        if let Some(seen) = changed {
            handle.seen = seen;
        }
        Some(Input::ProcessIdle(record.id(), is_alive))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Gives an order to the guardian of the process of an attempt. If a person stopped the run, the
    /// guardian records that, because the next run may have to judge the attempt.
    pub(super) fn carry_out(&self, id: &AttemptId, order: ProcessOrder, is_cancelled: bool) {
        let Some(ProcessHandle { process, .. }) = self.running.get(id) else { return };
        let ends =
            matches!(order, ProcessOrder::Interrupt | ProcessOrder::Terminate | ProcessOrder::Kill);
        if ends && is_cancelled {
            process.order(GuardianCommand::Cancel);
        }
        process.order(match order {
            ProcessOrder::Interrupt => GuardianCommand::Interrupt,
            ProcessOrder::Terminate => GuardianCommand::Terminate,
            ProcessOrder::Kill => GuardianCommand::Kill,
            ProcessOrder::KillGuardian => return process.kill_guardian(),
            ProcessOrder::Spare => GuardianCommand::Spare,
            ProcessOrder::KeepAwake => GuardianCommand::Awake,
        });
    }

    /// Gives an order to every guardian.
    pub(super) fn order_all(&self, order: GuardianCommand) {
        self.running.values().for_each(|handle| handle.process.order(order));
    }

    /// The usage of running agents so far; without those that gave their final result if `at_work`.
    pub(super) fn spent(&self, at_work: bool) -> Spend {
        let agents = self.running.values().filter(|handle| handle.log.is_none());
        let agents = agents.filter(|handle| !(at_work && handle.result.is_some()));
        Spend::so_far(agents.filter_map(|handle| handle.output.usage()))
    }

    /// Reads the new output of every process.
    pub(super) fn follow(&mut self) -> Vec<Progress> {
        let look = |(id, handle): (&AttemptId, &mut ProcessHandle)| {
            handle.process.wake();
            let seen = handle.output.look();
            let cost = seen.filter(|it| !it.is_over).and_then(|it| it.usage.cost_usd);
            let result = seen.filter(|seen| seen.is_over).map(|seen| seen.background > 0);
            let mut doing = handle.output.doing();
            if handle.has_terminal {
                doing = doing.map(|doing| terminal::plain(&doing).into_owned());
            }
            let is_result_new = std::mem::replace(&mut handle.result, result) != result;
            let is_news = handle.doing != doing;
            if is_news {
                handle.doing.clone_from(&doing);
            }
            let (id, doing) = (id.clone(), doing.filter(|_| is_news));
            Progress { id, result, is_result_new, doing, cost }
        };
        self.running.iter_mut().map(look).collect()
    }
}

/// A process that was started.
pub(super) struct SpawnedProcess {
    pub(super) process: AgentProcess,
    pub(super) start: ProcessStart,
    /// Its limits for now.
    pub(super) limits: ProcessLimits,
    pub(super) on_its_way: Option<ProcessOnItsWay>,
}

/// Returns the executor of the processes of an attempt: its agent, and the commands that check its work.
///
/// # Errors
/// The settings have changed and do not know it any more.
pub(super) fn executor_of(cx: &RunContext, record: &AttemptRecord) -> Result<Executor, String> {
    let found = executors::find(&cx.workspace.config, record.run_on.as_deref());
    found.map_err(|error| format!("{error:#}"))
}

/// Returns the executor of a process of an attempt, if that can start it as far as can be seen
/// here. The terminal of an agent would start without its program, and so would a sandbox.
pub(super) fn executor_for(
    cx: &RunContext,
    record: &AttemptRecord,
    kind: &ProcessKind,
    spec: &ProcessSpec,
) -> Result<Executor, NotStarted> {
    let executor = executor_of(cx, record).map_err(NotStarted::Refused)?;
    if matches!(kind, ProcessKind::Agent(_)) && executor.is_here() {
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
    let sign = cx.workspace.state.attempt(&record.name());
    let placed = placed(cx, graph, record, executor, (&guard.spec, &sign), limits.limit);
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
    (spec, sign): (&ProcessSpec, &Path),
    limit: Duration,
) -> Result<PlacedProcess, PlacementFault> {
    let facts = ProcessFacts {
        mark: record.mark(),
        slot: spec.dir.clone(),
        base: record.base.clone(),
        task_dir: cx.workspace.root().join(record.folder(&cx.workspace)),
        record: sign.to_owned(),
        agent: record.call.as_ref().and_then(AgentCommand::preset_name),
        limit: Some(limit),
        resources: task_of(graph, record).and_then(|task| task.extra.get(RESOURCES).cloned()),
    };
    let placed = placement::placed(&cx.workspace, executor, &facts, spec.clone())?;
    let is_set_up = record.file(&cx.workspace, "setup-1.log").exists();
    Ok(placed.after_setup(record.run_on.as_deref(), is_set_up))
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
    let sign = cx.workspace.state.attempt(&record.name());
    let placed = placed(cx, graph, record, executor, (&spec, &sign), cx.workspace.config.max_wait);
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
