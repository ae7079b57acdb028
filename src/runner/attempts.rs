//! The records of the open attempts, as they are on disk, and how an attempt begins.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    context::{RunContext, task_of},
    process_spec::{self, ProcessKind},
};
use crate::{
    adapters::process::{NotStarted, ProcessSpec},
    core::{
        agents::{
            agent_command::AgentCommand,
            agent_preset,
            promise::{Promise, Worth},
        },
        commit_id::CommitId,
        event::{AttemptEvent, Event},
        executor::{ExecutorFault, LOCAL},
        graph::{
            TaskGraph,
            task::{Status, Task, TaskId},
        },
        history::History,
        run::{
            command::{AttemptId, CheckPurpose, FollowUps, ProcessEnd},
            input::Input,
            open_attempt::{AttemptPhase, OpenAttempt},
            process_watch::ProcessLimits,
            verified_work::WorkLanding,
        },
        select::SelectionKey,
        verdict::{Evidence, Outcome, Report},
    },
    crash,
    project::{
        attempt::{
            self, AcceptanceCriteria, AttemptPlace, AttemptRecord, SlotAssignment, loop_prompt,
        },
        executors,
        graph_file::GraphFile,
        landed_work::TaskCommits,
        slot_pool,
    },
    regular_file,
};

/// The records of the open attempts.
pub(super) type Records = BTreeMap<AttemptId, AttemptRecord>;

/// The open attempts of a run, as stored on disk.
#[derive(Default)]
pub(super) struct RunAttempts {
    records: Records,
    /// The number of those whose leftovers are being committed.
    pub(super) committing: usize,
    task_commits: TaskCommits,
}

impl RunAttempts {
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Gives the records of a branch that was renamed its new name.
    pub(super) fn rename_branch(&mut self, cx: &RunContext, from: &str, to: &str) -> Result<()> {
        for record in self.records.values_mut() {
            if let Some(slot) = record.slot.as_mut().filter(|slot| slot.target == from) {
                to.clone_into(&mut slot.target);
                record.write(&cx.workspace)?;
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, id: &AttemptId) -> Option<&AttemptRecord> {
        self.records.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut AttemptRecord> {
        self.records.get_mut(id)
    }

    /// Adds a record, or replaces it with a newer one.
    pub(super) fn insert(&mut self, record: AttemptRecord) {
        self.records.insert(record.id(), record);
    }

    pub(super) fn remove(&mut self, id: &AttemptId) -> Option<AttemptRecord> {
        self.records.remove(id)
    }

    /// Writes another slot into the record of an attempt.
    pub(super) fn reassign(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        path: PathBuf,
    ) -> Result<()> {
        let Some(record) = self.records.get_mut(id) else { return Ok(()) };
        record.slot = record.slot.take().map(|slot| SlotAssignment { path, ..slot });
        record.write(&cx.workspace)
    }

    /// Writes the commit that an attempt is about to land as into its record.
    pub(super) fn record_landing(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        landing: WorkLanding,
        mut evidence: Evidence,
    ) -> Result<()> {
        let Some(record) = self.records.get_mut(id) else { return Ok(()) };
        if let Some(slot) = &mut record.slot {
            slot.landing = landing.commit().cloned();
        }
        landing.complete(&mut evidence);
        record.found = Some(Box::new(evidence));
        record.write(&cx.workspace)?;
        crash::point("merge.intended");
        Ok(())
    }

    /// Removes the guardian from the record of an attempt whose process has ended: from now on, its
    /// children may be of another attempt.
    pub(super) fn forget_guardian(&mut self, cx: &RunContext, id: &AttemptId) -> Result<()> {
        let Some(record) = self.records.get_mut(id).filter(|it| it.guardian.is_some()) else {
            return Ok(());
        };
        record.guardian = None;
        record.note_process(&cx.workspace)
    }

    /// Records the current uncommitted changes in the slot of an attempt as present before its
    /// start, after commands with this purpose.
    pub(super) fn take_as_given(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        purpose: Option<CheckPurpose>,
    ) -> Option<Input> {
        let record = self.records.get_mut(id)?;
        let setup = executors::setup(&cx.workspace.config, record.run_on.as_deref());
        let changed = record.tree(&cx.workspace).and_then(|tree| {
            let changed = attempt::changed(&cx.workspace, &tree)?;
            // Files that git does not ignore do not stay in a slot.
            let stays = changed.keys().all(|path| record.inherited.contains(path));
            match purpose {
                Some(CheckPurpose::Setup) if stays => slot_pool::note_setup(&tree, &setup)?,
                Some(CheckPurpose::Setup) => {
                    let made = changed.keys().filter(|path| !record.inherited.contains(*path));
                    tree.slot().hide(&made.cloned().collect::<Vec<_>>())?;
                }
                _ => {}
            }
            Ok(changed)
        });
        Some(match changed {
            Ok(dirty) => {
                record.dirty = dirty;
                Input::TakenAsGiven(id.clone())
            }
            Err(error) => Input::NotStarted(id.clone(), format!("{error:#}")),
        })
    }

    /// Records an attempt's leftovers. A run killed later may have verified, which leaves files as
    /// well.
    pub(super) fn record_left(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        evidence: &mut Evidence,
    ) -> Result<()> {
        let Some(record) = self.records.get_mut(id) else {
            return Ok(());
        };
        let left = &mut evidence.leftovers;
        if let Some(known) = &record.left {
            left.retain(|path| known.contains(path));
            return Ok(());
        }
        record.left = Some(left.clone());
        if record.slot.is_some() && evidence.strayed.is_none() {
            let last = evidence.commits.last().map(|commit| commit.id.clone());
            record.end_head = last.or_else(|| record.base.clone());
        }
        record.write(&cx.workspace)
    }

    /// Returns a commit of an earlier attempt at the same task, since its last reset, that is in the
    /// history of the base: an attempt that finds everything done has nothing to commit.
    pub(super) fn earlier_work(
        &mut self,
        cx: &RunContext,
        history: &History,
        record: &AttemptRecord,
        evidence: &Evidence,
    ) -> Result<Option<CommitId>> {
        let is_needed = evidence.report.is_some() && cx.plain().is_none();
        let Some(base) = record.base.as_ref().filter(|_| is_needed) else {
            return Ok(None);
        };
        let repo = &cx.workspace.repo;
        let is_reverted = |commit: &CommitId| -> Result<bool> {
            let line = format!("This reverts commit {commit}.");
            Ok(repo.commit_with_line(base, commit, &line)?.is_some())
        };
        let past = history.of(&record.task_id);
        if let Some(work) = past.work.clone()
            && repo.is_ancestor(&work, base).unwrap_or(false)
        {
            return Ok(Some(work).filter(|work| !is_reverted(work).unwrap_or(true)));
        }
        // The message of a commit does not tell whether it is from before the reset.
        if !evidence.commits.is_empty() || past.was_reset {
            return Ok(None);
        }
        // A commit that only marks the task as done in its source has no attempt.
        let found = self.task_commits.newest(repo, base, &record.task_id)?;
        Ok(match found {
            Some(commit) if !is_reverted(&commit)? => Some(commit),
            _ => None,
        })
    }
}

/// The parts of the next attempt at a task.
pub(super) struct NextAttempt<'a> {
    pub(super) graph: &'a GraphFile,
    pub(super) history: &'a History,
    pub(super) run_id: &'a str,
    pub(super) call: Option<AgentCommand>,
    /// The folder for its reports.
    pub(super) folder: String,
    /// Its executor.
    pub(super) run_on: String,
    /// Its slot and its base; none if it works in the checkout.
    pub(super) place: Option<(SlotAssignment, CommitId)>,
}

impl NextAttempt<'_> {
    /// Returns the record of the attempt.
    pub(super) fn record(self, cx: &RunContext, number: usize) -> Result<AttemptRecord> {
        let NextAttempt { graph: file, history, run_id, call, folder, run_on, place } = self;
        let graph = file.graph();
        let task = graph.task(number);
        let past = history.of(&task.id);
        let (attempt, iteration) = (past.attempts + 1, history.run.next_iteration());
        let record = attempt::begin(&cx.workspace, run_id, iteration, &task.id, attempt, folder);
        let record = match place {
            None => attempt::in_checkout(&cx.workspace, record)?,
            Some((assignment, base)) => record.in_slot(assignment, base),
        };
        let required = cx.workspace.verify_of(task);
        Ok(AttemptRecord {
            call,
            terms: Some(AcceptanceCriteria::of(task, required)),
            terminal: cx.options.tmux,
            status_word: Some(file.status_word(number).unwrap_or_default()),
            run_on: Some(run_on).filter(|name| name != LOCAL),
            ..record
        })
    }
}

/// Returns the event of the start of an attempt that was chosen for this key.
pub(super) fn started(record: &AttemptRecord, key: &SelectionKey) -> Event {
    AttemptEvent::Started {
        attempt: record.attempt,
        base: record.base.clone(),
        branch: record.branch.clone(),
        log: record.log.clone(),
        why: key.to_string(),
        format: record.call.as_ref().map(|call| call.output).unwrap_or_default(),
        slot: record.slot.as_ref().map(|slot| slot.path.display().to_string()),
        run_on: record.run_on.clone(),
    }
    .into()
}

/// Whether a task adds a verify command for its own work: no other has it, as each has those of
/// `defaults`.
fn is_own_check(cx: &RunContext, graph: &TaskGraph, task: &Task, command: &String) -> bool {
    let project = task.verify_only.as_ref().unwrap_or(&cx.workspace.config.verify.0);
    let is_shared = || {
        let mut others = graph.tasks().iter().filter(|other| other.id != task.id);
        others.any(|other| other.verify.contains(command))
    };
    let is_added = task.verify.contains(command) && !project.contains(command);
    is_added && !is_shared()
}

/// Returns the parts of a record that the next steps of the attempt need.
pub(super) fn open_attempt(
    cx: &RunContext,
    graph: &GraphFile,
    record: &AttemptRecord,
) -> OpenAttempt {
    let setup = match &record.slot {
        Some(_) => cx.workspace.config.setup.0.clone(),
        None => Vec::new(),
    };
    let task = task_of(graph.graph(), record);
    let verify = match (&record.terms, &task) {
        (Some(terms), _) => terms.verify().to_vec(),
        (None, Some(task)) => cx.workspace.verify_of(task),
        (None, None) => Vec::new(),
    };
    // The criteria of the attempt do not tell the commands of the project from those of the task.
    let number = graph.graph().number(&record.task_id);
    let written = number.map(|number| graph.graph().task(number));
    let own = |command: &&String| {
        written.is_some_and(|task| is_own_check(cx, graph.graph(), task, command))
    };
    let own_checks = verify.iter().filter(own).cloned().collect();
    OpenAttempt {
        id: record.id(),
        iteration: record.iteration,
        target: record.slot.as_ref().map(|slot| slot.target.clone()),
        base: record.base.clone(),
        agent: record.call.as_ref().map(|call| call.name.clone()),
        log: record.log.clone(),
        setup,
        own_checks,
        verify,
        rule: cx.rule(task.as_ref()),
        follow_ups: FollowUps::default(),
        phase: AttemptPhase::Preparing,
    }
}

/// The rest of the run's and task's limits for an open attempt, in US dollars.
pub(super) fn cost_left(
    cx: &RunContext,
    history: &History,
    graph: &TaskGraph,
    id: &AttemptId,
) -> Option<f64> {
    let run = run_cost_left(cx, history);
    run.into_iter().chain(task_cost_left(history, graph, &id.task_id)).reduce(f64::min)
}

/// The rest of a task's limit for its open attempt, in US dollars; none without a limit.
pub(super) fn task_cost_left(history: &History, graph: &TaskGraph, id: &TaskId) -> Option<f64> {
    let limit = graph.number(id).and_then(|number| graph.task(number).max_cost)?;
    Some(limit - history.of(id).spend.assumed_cost())
}

/// The cost that is left for the run; none without a limit.
pub(super) fn run_cost_left(cx: &RunContext, history: &History) -> Option<f64> {
    cx.policy.budget.left(&history.spend())
}

/// Returns the prompt of the next attempt at a task with this agent, which reports in this folder.
pub(super) fn prompt(
    cx: &RunContext,
    (graph, history): (&GraphFile, &History),
    (number, max_attempts, folder): (usize, u32, &str),
    call: Option<&AgentCommand>,
) -> Result<String> {
    if let Some(plain) = cx.plain() {
        return loop_prompt(&cx.workspace, &plain.prompt_file, history.of(&plain.name));
    }
    let run_on = cx.options.run_on.as_deref();
    let place = AttemptPlace { run_on, folder: Some(folder) };
    attempt::render(&cx.workspace, graph.graph(), history, number, max_attempts, call, place)
}

/// Returns how the attempt reported its task done, if it did. `status` is the current status of
/// the task in the graph file.
pub(super) fn report(
    cx: &RunContext,
    record: &AttemptRecord,
    status: Option<Status>,
) -> Option<Report> {
    let report = attempt::report(&cx.workspace, record, status);
    let Some(plain) = cx.plain().filter(|_| report.is_none()) else {
        return report;
    };
    let own = cx.workspace.config.promise();
    let text = if own.worth == Worth::Off { String::new() } else { own.text };
    let promise = Promise { worth: Worth::Trust, text, pattern: own.pattern };
    let mut said = [record.last_words(&cx.workspace), record.last_errors(&cx.workspace)];
    // An agent that only repeats its prompt makes no promise.
    for prompt in [&record.file(&cx.workspace, "prompt.md"), &plain.prompt_file] {
        let prompt = regular_file::read_to_string(prompt).unwrap_or_default();
        if promise.is_made(&prompt) {
            said = said.map(|text| text.replace(prompt.trim(), ""));
        }
    }
    let by_pattern = Promise { text: String::new(), ..promise.clone() };
    promise.report(&said[0]).or_else(|| by_pattern.report(&said[1]))
}

/// Hides the files that an agent leaves for itself from git, in the checkout; slots hide them
/// from their start.
pub(super) fn ignore_litter(
    cx: &RunContext,
    record: &AttemptRecord,
    call: &AgentCommand,
) -> Result<()> {
    let litter = Some(litter_of(call)).filter(|it| !it.is_empty() && record.slot.is_none());
    litter.map_or(Ok(()), |litter| cx.workspace.repo.local().exclude(litter))
}

/// Returns the patterns of the files that an agent leaves for itself.
pub(super) fn litter_of(call: &AgentCommand) -> &'static [&'static str] {
    let program = call.argv.first().map_or("", String::as_str);
    agent_preset::of_command(&call.name, program).map_or(&[][..], |preset| preset.litter)
}

/// Returns the end of a process that was not started.
pub(super) fn not_started(
    record: &AttemptRecord,
    reason: NotStarted,
    is_agent: bool,
    swept: Vec<String>,
) -> ProcessEnd {
    let no_program = is_agent && matches!(reason, NotStarted::Missing(_));
    let outcome = match reason {
        NotStarted::Missing(error) | NotStarted::Refused(error) => Outcome::NotStarted { error },
        NotStarted::Executor(ExecutorFault { why, .. }) => {
            Outcome::lost(record.run_on.as_deref(), &why)
        }
        NotStarted::Unguarded => Outcome::unguarded(record.run_on.as_deref()),
    };
    ProcessEnd { outcome: Some(outcome), swept, no_program, ..ProcessEnd::default() }
}

/// Returns the process to start, and the path of its log if it is not an agent. Trials run in the
/// slot `merge`.
pub(super) fn spec_of(
    cx: &RunContext,
    agent: ProcessSpec,
    record: &AttemptRecord,
    kind: &ProcessKind,
    merge: PathBuf,
) -> (ProcessSpec, Option<String>) {
    let ProcessKind::Check(purpose, number, command) = kind else {
        return (agent, None);
    };
    let log = format!("{}/{}-{number}.log", record.log, purpose.log_name());
    let path = cx.workspace.root().join(&log);
    // A killed run may have left this file.
    let _ = fs::remove_file(&path);
    let dir = match purpose {
        CheckPurpose::Trial(_) => merge,
        CheckPurpose::Setup | CheckPurpose::Verify => agent.dir.clone(),
    };
    (process_spec::check(agent, command, &dir, &path), Some(log))
}

/// Returns the limits of a process of an attempt at a task that starts now.
pub(super) fn limits_of(cx: &RunContext, task: Option<&Task>, kind: &ProcessKind) -> ProcessLimits {
    let config = &cx.workspace.config;
    let started = Instant::now();
    match kind {
        ProcessKind::Agent(next) => {
            // The time of the conversation so far counts.
            let before = next.as_ref().map_or(Duration::ZERO, |next| next.took);
            let started = started.checked_sub(before).unwrap_or(started);
            let limit = task.and_then(|task| task.timeout).unwrap_or(config.timeout);
            let idle = task.and_then(|task| task.idle).unwrap_or(config.idle);
            let idle = Some(idle).filter(|idle: &Duration| !idle.is_zero());
            ProcessLimits { started, limit, idle }
        }
        ProcessKind::Check(CheckPurpose::Setup, ..) => {
            ProcessLimits { started, limit: config.setup_timeout, idle: None }
        }
        ProcessKind::Check(CheckPurpose::Verify | CheckPurpose::Trial(_), ..) => {
            ProcessLimits { started, limit: config.verify_timeout, idle: None }
        }
    }
}
