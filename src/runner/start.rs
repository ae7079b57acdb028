//! The start of an attempt: first its record on disk, then its processes.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    Runner, RunnerMessage,
    placement::SpawnedProcess,
    process_spec::{self, ProcessKind},
    processes::{self, ProcessHandle},
};
use crate::{
    adapters::{
        agent_output::Follow,
        process::{AgentProcess, GuardPost, NotStarted, ProcessSpec},
        tmux,
    },
    core::{
        agents::{agent_command::AgentCommand, agent_preset, transcript::Format},
        event::{Cause, Event},
        executor::{ExecutorFault, LOCAL},
        graph::task::Task,
        run::{
            command::{AttemptId, CheckPurpose, ProcessEnd},
            input::Input,
            open_attempt::OpenAttempt,
            process_watch::ProcessLimits,
            verified_batch::HeadSpan,
        },
        select::{SelectionKey, Turn},
        verdict::Outcome,
    },
    crash,
    project::{
        attempt::{self, AcceptanceCriteria, AttemptRecord, criteria},
        config, executors,
        graph_file::{Write, rfc3339},
        slot_pool,
    },
};

impl Runner {
    /// Writes the record and the prompt of the next attempt at a task, and claims the task. None if
    /// others have changed it since it was chosen.
    pub(super) fn record(&mut self, key: SelectionKey) -> Result<Option<Input>> {
        let number = key.number;
        let id = self.graph.file.graph().task(number).id.clone();
        let history = self.store.history();
        let (attempt, iteration) = (history.of(&id).attempts + 1, history.run.next_iteration());
        let run_id = self.store.run_id().to_owned();
        let call = self.with_view(|view| match view.agent(number, Utc::now()) {
            Turn::Now(call) => call.cloned(),
            // The clock was set back since the agent was chosen.
            Turn::Busy(_) | Turn::Later(_) | Turn::Never => view.agents(number).first().cloned(),
        });
        let call = call.map(|call| config::anchored(call, self.workspace.root()));
        let prompt = self.prompt(number, call.as_ref())?;
        // A program that reads the output may have opened its file just now.
        self.workspace.ignore_outputs()?;
        let place = self.assign_slot()?;
        let record = attempt::begin(&self.workspace, &run_id, iteration, &id, attempt);
        let record = match place {
            None => attempt::in_checkout(&self.workspace, record)?,
            Some((assignment, base)) => record.in_slot(assignment, base),
        };
        let graph = self.graph.file.graph();
        let task = graph.task(number);
        let past = self.store.history().of(&id);
        let terms =
            AcceptanceCriteria::of(task, criteria::required(&self.workspace, graph, task, past));
        let baseline = self.baseline_of(task, record.slot.is_some());
        let pane = self.options.tmux.then(tmux::folder);
        let run_on =
            executors::name_of(&self.workspace.config, task, self.options.run_on.as_deref());
        let run_on = Some(run_on.to_owned()).filter(|name| name != LOCAL);
        let status_word = Some(self.graph.file.status_word(number).unwrap_or_default());
        let record =
            AttemptRecord { call, terms: Some(terms), pane, status_word, run_on, ..record };
        if let Some(change) = self.with_view(|view| view.agent_change(number, Utc::now())) {
            self.emit(Some((&id, iteration)), Event::AgentChanged(change))?;
        }
        if let Some(path) = attempt::clear_reports(&self.workspace, &id)? {
            self.emit(Some((&id, iteration)), Event::DoneRemoved { path })?;
        }
        let record = attempt::open(&self.workspace, record, &prompt)?;
        crash::point("start.recorded");
        let started = Event::Started {
            attempt: record.attempt,
            base: record.base.clone(),
            branch: record.branch.clone(),
            log: record.log.clone(),
            why: key.to_string(),
            format: record.call.as_ref().map(|call| call.output).unwrap_or_default(),
            slot: record.slot.as_ref().map(|slot| slot.path.display().to_string()),
            run_on: record.run_on.clone(),
        };
        let open = OpenAttempt { baseline, ..self.open_attempt(&record) };
        let (at, by) = (rfc3339(record.started_at), format!("ralph {}", record.run_id));
        self.records.insert(open.id.clone(), record);
        self.wake = None;
        if !self.set((&id, iteration), Write::Claim { at: &at, by: &by }, Cause::Claimed)? {
            self.withdraw(&open.id)?;
            return Ok(None);
        }
        crash::point("start.claimed");
        Ok(Some(Input::Recorded(Box::new(open), Box::new(started))))
    }

    /// Returns the parts of a record that the next steps of the attempt need.
    pub(super) fn open_attempt(&self, record: &AttemptRecord) -> OpenAttempt {
        let setup = match &record.slot {
            Some(_) => self.workspace.config.setup.0.clone(),
            None => Vec::new(),
        };
        let task = self.task_of(record);
        let verify = match (&record.terms, &task) {
            (Some(terms), _) => terms.verify().to_vec(),
            (None, Some(task)) => self.workspace.verify_of(task),
            (None, None) => Vec::new(),
        };
        OpenAttempt {
            id: attempt_id(record),
            iteration: record.iteration,
            target: record.slot.as_ref().map(|slot| slot.target.clone()),
            base: record.base.clone(),
            agent: record.call.as_ref().map(|call| call.name.clone()),
            log: record.log.clone(),
            setup,
            baseline: Vec::new(),
            verify,
            rule: self.rule(task.as_ref()),
            process: None,
            end: None,
            verdict: None,
        }
    }

    /// Returns the verify commands to run before the agent starts.
    fn baseline_of(&self, task: &Task, isolated: bool) -> Vec<String> {
        // If the previous attempt left verification failing, this attempt must repair it.
        let due =
            self.workspace.verifies_baseline(task) && (isolated || !self.store.history().unproven);
        if due { self.workspace.verify_of(task) } else { Vec::new() }
    }

    /// Returns the task of an attempt, with the acceptance criteria of its start.
    pub(super) fn task_of(&self, record: &AttemptRecord) -> Option<Task> {
        let graph = self.graph.file.graph();
        let task = graph.task(graph.number(&record.task_id)?);
        Some(record.terms.as_ref().map_or_else(|| task.clone(), |terms| terms.applied(task)))
    }

    /// Returns what the guardian of a process needs to know.
    pub(super) fn guard_post(
        &self,
        record: &AttemptRecord,
        is_agent: bool,
        idle: Option<Duration>,
        screen: Option<PathBuf>,
    ) -> GuardPost {
        GuardPost {
            guardians: self.guardians.clone(),
            record: self.workspace.state.attempt(&record.name()),
            exit: is_agent.then(|| self.workspace.state.exit(&record.name())),
            idle,
            redact: self.workspace.redacts(),
            screen,
            carrier: None,
        }
    }

    /// Starts a process of an attempt.
    pub(super) fn start_process(
        &mut self,
        id: &AttemptId,
        kind: &ProcessKind,
    ) -> Result<Option<Input>> {
        // An earlier step failed, and the attempt is closed.
        let waits = self.run.attempts().process(id).is_some();
        let Some(mut record) = self.records.get(id).cloned().filter(|_| waits) else {
            return Ok(None);
        };
        let call = record.call.clone().context("an attempt without an agent")?;
        let spec = process_spec::agent(&self.workspace, &record, &call);
        let is_agent = matches!(kind, ProcessKind::Agent);
        if is_agent {
            self.ignore_litter(&record, &call)?;
            record.ignored = self.ignored_in_slot(&record);
        }
        let executor = self.executor_for(&record, kind, &spec);
        let (mut spec, log) = self.spec_of(spec, &record, kind);
        let limits = self.limits_of(&record, kind);
        let sign = self.workspace.state.attempt(&record.name());
        let pane = record.pane.clone().filter(|_| is_agent);
        if let Some(folder) = &pane {
            spec = process_spec::in_pane(spec, folder, &record, &sign, limits.idle);
        }
        if let ProcessKind::Check(CheckPurpose::Trial, number, _) = kind {
            self.note_trial_setup(*number)?;
        }
        let screen = pane.as_deref().map(tmux::screen);
        let post = self.guard_post(&record, is_agent, limits.idle, screen);
        let verifies = record.slot.is_some() && kind.verifies();
        let verifies = verifies.then(|| (spec.dir.clone(), processes::head_of(&spec.dir)));
        let (outbox, name) = (self.inbox.sender(), id.clone());
        let send = move |news| drop(outbox.send(RunnerMessage::News(name.clone(), news)));
        let graph = self.own_graph_stamp(&record);
        let started =
            executor.and_then(|to| self.spawn_at(&to, &record, &spec, post, &limits, send));
        let SpawnedProcess { process, start, limits, on_its_way } = match started {
            Ok(started) => started,
            Err(NotStarted::Executor(fault)) if !kind.verifies() => {
                let run_on = record.run_on.clone().unwrap_or_default();
                return Ok(Some(Input::Unreachable { id: id.clone(), run_on, fault }));
            }
            Err(reason) => {
                let head = verifies.and_then(|(_, head)| head);
                let end = ProcessEnd {
                    took: limits.started.elapsed(),
                    log: log.unwrap_or_default(),
                    head: HeadSpan { before: head.clone(), after: head },
                    ..self.not_started(&record, reason, is_agent)
                };
                return Ok(Some(Input::ProcessEnded(id.clone(), Box::new(end))));
            }
        };
        crash::point("start.spawned");
        self.note_process(&mut record, &process)?;
        crash::point("start.identified");
        let format = if is_agent { call.output } else { Format::Text };
        let handle = ProcessHandle {
            process,
            output: Follow::new(spec.stdout, format),
            in_pane: record.pane.is_some(),
            doing: None,
            result: None,
            log,
            verifies,
            reported: false,
            graph,
            seen: (record.base.clone(), record.dirty.clone()),
            on_its_way,
            fetches: false,
        };
        self.processes.insert(id.clone(), handle);
        self.records.insert(id.clone(), record);
        Ok(Some(Input::ProcessStarted(id.clone(), limits, start)))
    }

    /// Adds a process to the record of its attempt.
    pub(super) fn note_process(
        &self,
        record: &mut AttemptRecord,
        process: &AgentProcess,
    ) -> Result<()> {
        record.agent = Some(process.identity().clone());
        record.guardian = Some(process.guardian().clone());
        record.note_process(&self.workspace)
    }

    /// Returns the files that git ignores in the slot of an attempt whose work is verified.
    pub(super) fn ignored_in_slot(&self, record: &AttemptRecord) -> Option<Vec<String>> {
        let verifies = record.terms.as_ref().is_some_and(|terms| !terms.verify().is_empty());
        record.slot.as_ref().filter(|_| verifies)?;
        record.tree(&self.workspace).ok()?.ignored().ok()
    }

    /// Hides the files that an agent leaves for itself from git, in the checkout; slots hide them
    /// from their start.
    fn ignore_litter(&self, record: &AttemptRecord, call: &AgentCommand) -> Result<()> {
        let litter = litter_of(call);
        if litter.is_empty() || record.slot.is_some() {
            return Ok(());
        }
        self.workspace.repo.exclude(litter)
    }

    /// Returns the end of a process that was not started.
    fn not_started(
        &self,
        record: &AttemptRecord,
        reason: NotStarted,
        is_agent: bool,
    ) -> ProcessEnd {
        let no_program = is_agent && matches!(reason, NotStarted::Missing(_));
        let outcome = match reason {
            NotStarted::Missing(error) | NotStarted::Refused(error) => {
                Outcome::NotStarted { error }
            }
            NotStarted::Executor(ExecutorFault { why, .. }) => {
                let executor = record.run_on.clone().unwrap_or_default();
                Outcome::Lost { executor, why }
            }
            NotStarted::Unguarded => Outcome::unguarded(record.run_on.as_deref()),
        };
        // A guardian may have started the process before it was killed.
        let (swept, _) = self.end_unguarded(record);
        ProcessEnd { outcome: Some(outcome), swept, no_program, ..ProcessEnd::default() }
    }

    /// Returns the process to start, and the path of its log if it is not an agent.
    fn spec_of(
        &self,
        agent: ProcessSpec,
        record: &AttemptRecord,
        kind: &ProcessKind,
    ) -> (ProcessSpec, Option<String>) {
        let ProcessKind::Check(purpose, number, command) = kind else {
            return (agent, None);
        };
        let log = format!("{}/{}-{number}.log", record.log, purpose.log_name());
        let path = self.workspace.root().join(&log);
        // A killed run may have left this file.
        let _ = fs::remove_file(&path);
        let dir = match purpose {
            CheckPurpose::Trial => self.slots.pool.merge(),
            CheckPurpose::Setup | CheckPurpose::Baseline | CheckPurpose::Verify => {
                agent.dir.clone()
            }
        };
        (process_spec::check(agent, command, &dir, &path), Some(log))
    }

    /// Returns the limits of a process that starts now.
    fn limits_of(&self, record: &AttemptRecord, kind: &ProcessKind) -> ProcessLimits {
        let config = &self.workspace.config;
        let graph = self.graph.file.graph();
        let task = graph.number(&record.task_id).map(|number| graph.task(number));
        let started = Instant::now();
        match kind {
            ProcessKind::Agent => {
                let limit = task.and_then(|task| task.timeout).unwrap_or(config.timeout);
                let idle = task.and_then(|task| task.idle).unwrap_or(config.idle);
                let idle = Some(idle).filter(|idle: &Duration| !idle.is_zero());
                ProcessLimits { started, limit, idle }
            }
            ProcessKind::Check(CheckPurpose::Setup, ..) => {
                ProcessLimits { started, limit: config.setup_timeout, idle: None }
            }
            ProcessKind::Check(
                CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial,
                ..,
            ) => ProcessLimits { started, limit: config.verify_timeout, idle: None },
        }
    }

    /// Notes that the slot for merges is set up, before command `number` of a trial: its first
    /// commands are those of the setup, and all before this one have passed.
    fn note_trial_setup(&self, number: usize) -> Result<()> {
        let setup = &self.workspace.config.setup.0;
        let merge = self.slots.pool.merge();
        match self.workspace.repo.open_slot(&merge).filter(|_| number == setup.len() + 1) {
            // Files that git does not ignore do not stay in a slot.
            Some(slot) if slot.dirty()?.is_empty() => slot_pool::note_setup(&slot, setup),
            _ => Ok(()),
        }
    }

    /// Records the current uncommitted changes in the slot of an attempt as present before its
    /// start.
    pub(super) fn take_as_given(&mut self, id: &AttemptId) -> Option<Input> {
        let record = self.records.get(id)?;
        let open = self.run.attempts().get(id);
        let purpose = open.and_then(|open| open.process.as_ref()?.purpose);
        let setup = &self.workspace.config.setup.0;
        let changed = record.tree(&self.workspace).and_then(|tree| {
            let changed = attempt::changed(&self.workspace, &tree)?;
            // Files that git does not ignore do not stay in a slot.
            let stays = changed.keys().all(|path| record.inherited.contains(path));
            if purpose == Some(CheckPurpose::Setup) && stays {
                slot_pool::note_setup(&tree, setup)?;
            }
            Ok(changed)
        });
        match changed {
            Ok(dirty) => {
                self.records.get_mut(id)?.dirty = dirty;
                Some(Input::TakenAsGiven(id.clone()))
            }
            Err(error) => Some(Input::NotStarted(id.clone(), format!("{error:#}"))),
        }
    }
}

/// Returns the patterns of the files that an agent leaves for itself.
pub(super) fn litter_of(call: &AgentCommand) -> &'static [&'static str] {
    let program = call.argv.first().map_or("", String::as_str);
    agent_preset::of_command(&call.name, program).map_or(&[][..], |preset| preset.litter)
}

/// Returns the attempt id of a record.
pub(super) fn attempt_id(record: &AttemptRecord) -> AttemptId {
    AttemptId { task_id: record.task_id.clone(), attempt: record.attempt }
}
