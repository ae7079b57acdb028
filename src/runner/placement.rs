//! The executor of each process of an attempt.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{Runner, RunnerMessage, process_spec::ProcessKind, processes::ProcessOnItsWay};
use crate::{
    adapters::{
        executor::slurm,
        process::{self, AgentProcess, GuardPost, NotStarted, ProcessNews, ProcessSpec},
    },
    core::{
        agents::agent_command::AgentCommand,
        executor::{Executor, ExecutorKind, JobState},
        graph::load::fields::RESOURCES,
        run::{
            command::{AttemptId, CheckPurpose},
            input::{Input, ProcessStart},
            process_watch::ProcessLimits,
        },
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

/// The interval between two questions to a cluster about a job that waits.
const ASK: Duration = Duration::from_secs(5);

impl Runner {
    /// Returns the executor of a process of an attempt.
    ///
    /// # Errors
    /// The settings have changed and do not know it any more.
    pub(super) fn executor_of(
        &self,
        record: &AttemptRecord,
        kind: &ProcessKind,
    ) -> Result<Executor, String> {
        let config = &self.workspace.config;
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
        &self,
        record: &AttemptRecord,
        kind: &ProcessKind,
        spec: &ProcessSpec,
    ) -> Result<Executor, NotStarted> {
        let executor = self.executor_of(record, kind).map_err(NotStarted::Refused)?;
        if matches!(kind, ProcessKind::Agent) && executor.is_here() {
            process::check(spec).map_err(NotStarted::Missing)?;
        }
        Ok(executor)
    }

    /// Starts a process of an attempt at this executor.
    pub(super) fn spawn_at(
        &self,
        executor: &Executor,
        record: &AttemptRecord,
        spec: &ProcessSpec,
        post: GuardPost,
        limits: &ProcessLimits,
        tell: impl Fn(ProcessNews) + Send + 'static,
    ) -> Result<SpawnedProcess, NotStarted> {
        let placed = self.placed(record, executor, spec, limits.limit);
        let PlacedProcess { spec, carrier, placement } = placed.map_err(|fault| match fault {
            PlacementFault::Executor(fault) => NotStarted::Executor(fault),
            PlacementFault::Refused(why) => NotStarted::Refused(why),
        })?;
        let is_carried = carrier.is_some();
        let process = AgentProcess::spawn(&spec, &GuardPost { carrier, ..post }, tell)?;
        let limits = limits.clone();
        Ok(if is_carried {
            let meanwhile = ProcessLimits {
                limit: self.workspace.config.max_wait,
                idle: None,
                ..limits.clone()
            };
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
        &self,
        record: &AttemptRecord,
        executor: &Executor,
        spec: &ProcessSpec,
        limit: Duration,
    ) -> Result<PlacedProcess, PlacementFault> {
        let facts = ProcessFacts {
            mark: record.mark(),
            slot: spec.dir.clone(),
            base: record.base.clone(),
            task_dir: self.workspace.root().join(self.workspace.task_dir(&record.task_id)),
            record: self.workspace.state.attempt(&record.name()),
            agent: record.call.as_ref().and_then(AgentCommand::preset_name),
            limit: Some(limit),
            resources: self.task_of(record).and_then(|task| task.extra.get(RESOURCES).cloned()),
        };
        placement::placed(&self.workspace, executor, &facts, spec.clone())
    }

    /// Handles the arrival of a process at its executor.
    pub(super) fn process_arrived(&mut self, id: &AttemptId, host: String) -> Option<Input> {
        let ProcessOnItsWay { placement, limits, .. } =
            self.processes.get_mut(id)?.on_its_way.take()?;
        let limits = ProcessLimits { started: Instant::now(), ..limits };
        let placement = placement.map(|placement| placement.at(host));
        Some(Input::ProcessArrived(id.clone(), limits, placement))
    }

    /// Asks clusters now and then about the jobs that wait. Another thread does it: a cluster may
    /// take long to answer.
    pub(super) fn ask_executors(&mut self) {
        let due = |way: &mut ProcessOnItsWay| {
            let is_due = way.asked.elapsed() >= ASK;
            way.asked = if is_due { Instant::now() } else { way.asked };
            is_due
        };
        let waiting = self.processes.on_their_way().filter_map(|(id, way)| due(way).then_some(id));
        for id in waiting.cloned().collect::<Vec<AttemptId>>() {
            let Some(record) = self.records.get(&id) else {
                continue;
            };
            let executor = executors::find(&self.workspace.config, record.run_on.as_deref());
            let Ok(Executor { kind: ExecutorKind::Slurm(settings), .. }) = executor else {
                continue;
            };
            let (outbox, mark) = (self.inbox.sender(), record.mark());
            thread::spawn(move || {
                drop(outbox.send(RunnerMessage::Job(id, slurm::look(&settings, &mark))));
            });
        }
    }

    /// Handles what a cluster says about a job that waited.
    pub(super) fn job_seen(&mut self, id: AttemptId, state: &JobState) -> Option<Input> {
        let JobState::Pending { .. } = state else {
            // A job that runs tells its arrival itself, and a lost answer says nothing.
            return None;
        };
        let run_on = self.records.get(&id)?.run_on.clone()?;
        let way = self.processes.get_mut(&id)?.on_its_way.as_mut()?;
        let why = state.describe();
        let is_news = way.awaits.replace(why.clone()).as_ref() != Some(&why);
        is_news.then_some(Input::ProcessAwaits { id, run_on, why })
    }
}
