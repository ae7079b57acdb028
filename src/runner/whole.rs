//! The whole: landed work is verified together on the tip at the end of a run. A failure there
//! comes from a later commit, which is searched for among the landings, and its task is reopened.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result};

use super::{Runner, RunnerMessage, checkout_graph, close, process_spec, processes};
use crate::{
    adapters::process::{self, GuardianSpec, ProcessSpec},
    core::{
        commit_id::CommitId,
        duration,
        event::{Cause, LandingEvent, StopReason, TipFault, TipRed},
        executor::Executor,
        graph::task::{Status, TaskId},
        history::LandedWork,
        select::Wait,
        verdict::{CheckResult, Outcome},
        whole::{WholeCheck, first_red},
    },
    project::{
        attempt::{self, AttemptRecord, SlotAssignment},
        executors,
        follower::BUSY,
        graph_file::Write,
        placement::{self, PlacedProcess, ProcessFacts},
        slot_pool,
    },
    regular_file,
};

/// The landings of a run whose whole has been verified.
#[derive(Default)]
pub(super) struct RunWhole {
    /// Their number.
    verified: usize,
    /// The number of commands that have run, for the names of their logs.
    ran: usize,
    /// A command that fails on the tip, and no task was opened again for it.
    pub(super) red: Option<String>,
    /// Whether the command at work must end.
    stops: Arc<AtomicBool>,
    /// How it ended.
    pub(super) ended: Option<Outcome>,
}

impl RunWhole {
    /// Ends the command at work; no other one starts.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

/// Whether the whole is verified before a run ends for this reason.
pub(super) fn precedes(reason: &StopReason) -> bool {
    match reason {
        StopReason::Complete
        | StopReason::SelectionComplete
        | StopReason::Red(_)
        | StopReason::NotProved(_)
        | StopReason::Limit(_)
        | StopReason::Provider { .. }
        | StopReason::Unreachable { .. }
        | StopReason::Blocked(_)
        | StopReason::NeedsInput(_)
        | StopReason::Failures(_)
        | StopReason::FailedTasks(_)
        | StopReason::StartLimit(_)
        | StopReason::Denied(..)
        | StopReason::Promised
        | StopReason::MergeHeld(_)
        | StopReason::Once { .. } => true,
        // A plain loop has no tasks, and a stopped run ends at once.
        StopReason::Done { .. }
        | StopReason::BaselineBroken(_)
        | StopReason::BadBase(_)
        | StopReason::HookFailed(_)
        | StopReason::Paused(_)
        | StopReason::Stopped
        | StopReason::Signal(..) => false,
    }
}

/// Verifies on the tip all work landed since the last time. Returns whether a task was reopened.
/// Costs nothing if the last landing has proved all of it.
pub(super) fn verify(runner: &mut Runner) -> Result<bool> {
    let landed = runner.core.journal.history().run.landed.clone();
    let Some(branch) = runner.core.cx.target.clone().filter(|_| !landed.is_empty()) else {
        return Ok(false);
    };
    if landed.len() <= runner.whole.verified || runner.core.run.landing().is_trying() {
        return Ok(false);
    }
    let Some(tip) = runner.core.cx.workspace.repo.landings().tip(&branch)? else {
        return Ok(false);
    };
    WholeTrial { runner, branch, tip: tip.commit, landed }.run()
}

/// A trial of everything that landed.
struct WholeTrial<'a> {
    runner: &'a mut Runner,
    branch: String,
    tip: CommitId,
    landed: Vec<LandedWork>,
}

impl WholeTrial<'_> {
    /// Runs the due checks. Returns whether a task was reopened.
    fn run(mut self) -> Result<bool> {
        let due = self.due_checks();
        let (commands, branch, commit) = (due.len(), self.branch.clone(), self.tip.clone());
        let (mut failed, mut not_run, mut reopened) = (0, 0, false);
        self.runner.whole.red = None;
        for check in &due {
            let Some(result) = self.check_at(&commit, check)? else { return Ok(reopened) };
            if result.is_green() {
                continue;
            }
            let Some(red) = self.questioned(check, result)? else { return Ok(reopened) };
            if red.found == TipFault::NotRun {
                not_run += 1;
            } else {
                failed += 1;
            }
            let is_told = self.tell_red(check, &red)?;
            if !is_told && red.found != TipFault::Flaky {
                self.runner.whole.red = Some(check.command.clone());
            }
            reopened |= is_told;
        }
        self.runner.whole.verified = self.landed.len();
        let commands = commands - not_run;
        if commands > 0 {
            let verified = LandingEvent::WholeVerified { branch, commit, commands, failed };
            self.runner.core.emit(None, verified)?;
        }
        Ok(reopened)
    }

    /// Returns the commands that have not passed on the tip.
    fn due_checks(&self) -> Vec<WholeCheck> {
        let core = &self.runner.core;
        let (workspace, graph) = (&core.cx.workspace, core.graph.file.graph());
        let verify_of = |id: &TaskId| {
            let number = graph.number(id);
            number.map_or_else(Vec::new, |number| workspace.verify_of(graph.task(number)))
        };
        let mut checks = WholeCheck::all(&self.landed, &workspace.config.verify.0, verify_of);
        if let Some(proven) = core.run.landing().proven() {
            checks.retain(|check| !check.is_proven(&self.landed, &self.tip, proven));
        }
        checks
    }

    /// Runs a command again that failed on the tip: there, on the commit where it must have passed, and on
    /// those between. None if the run was asked to stop.
    fn questioned(&mut self, check: &WholeCheck, result: CheckResult) -> Result<Option<TipRed>> {
        let tip = self.tip.clone();
        let red = TipRed {
            branch: self.branch.clone(),
            tip: tip.clone(),
            check: result,
            found: TipFault::Broken,
            broken_by: None,
            broken_by_task: None,
        };
        let with = |found| Ok(Some(TipRed { found, ..red.clone() }));
        if has_not_run(&red.check) {
            return with(TipFault::NotRun);
        }
        let Some(again) = self.check_at(&tip, check)? else { return Ok(None) };
        if again.is_green() {
            return with(TipFault::Flaky);
        }
        let (base, suspects) = check.suspects(&self.landed, &tip);
        if let Some(base) = base {
            let Some(before) = self.check_at(&base, check)? else { return Ok(None) };
            if !before.is_green() {
                return with(TipFault::Before);
            }
        }
        let mut is_stopped = false;
        let first = first_red(suspects.len(), |at| -> Result<Option<bool>> {
            let ran = self.check_at(&suspects[at], check)?;
            is_stopped |= ran.is_none();
            Ok(ran.map(|ran| !ran.is_green()))
        })?;
        if is_stopped {
            return Ok(None);
        }
        let broken_by = first.map(|at| suspects[at].clone());
        let by = self.landed.iter().find(|work| Some(&work.commit) == broken_by.as_ref());
        Ok(Some(TipRed { broken_by, broken_by_task: by.map(|work| work.task_id.clone()), ..red }))
    }

    /// Records a command that fails on the tip. Opens the tasks again whose work it verified if a
    /// commit broke that; of a command of the project, the task of that commit.
    fn tell_red(&mut self, check: &WholeCheck, red: &TipRed) -> Result<bool> {
        let mut ids: Vec<TaskId> = match red.found {
            TipFault::Broken if check.is_of_project => red.broken_by_task.iter().cloned().collect(),
            TipFault::Broken => {
                check.landed.iter().map(|at| self.landed[*at].task_id.clone()).collect()
            }
            TipFault::Flaky | TipFault::Before | TipFault::NotRun => Vec::new(),
        };
        ids.sort_unstable();
        ids.dedup();
        let graph = self.runner.core.graph.file.graph();
        ids.retain(|id| graph.status_of(id) == Some(Status::Complete));
        if ids.is_empty() {
            self.runner.core.emit(None, LandingEvent::TipRed(red.clone()))?;
            return Ok(false);
        }
        let (workspace, branch) = (&self.runner.core.cx.workspace, &red.branch);
        if self.runner.core.graph.is_read_only() {
            let open: Vec<_> = ids.iter().map(|id| (id.clone(), Status::Pending)).collect();
            let names: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
            let title = format!("Open again: {}", names.join(", "));
            checkout_graph::commit_statuses(workspace, branch, &open, &title)?;
        }
        for id in &ids {
            self.runner.core.emit(Some((id, 0)), LandingEvent::TipRed(red.clone()))?;
            self.runner.set((id, 0), Write::Plain(Status::Pending), Cause::Reopened)?;
        }
        self.runner.landing.follow(&mut self.runner.core, BUSY)?;
        self.runner.refresh()?;
        Ok(true)
    }

    /// Runs a command on a commit, in the slot of the merge queue. None if the run was asked to stop.
    fn check_at(&mut self, commit: &CommitId, check: &WholeCheck) -> Result<Option<CheckResult>> {
        let landed = &self.landed;
        let work = check.landed.last().map_or_else(|| landed.last(), |at| landed.get(*at));
        let work = work.context("nothing has landed")?.clone();
        let record = self.record_of(&work)?;
        let (workspace, slots) = (&self.runner.core.cx.workspace, &self.runner.slots);
        let settings = slots.settings(workspace)?;
        let prepared = slots.pool.check_out(&slots.pool.merge(0), &settings, commit);
        let given = workspace.config.setup.0.clone();
        let setup = match &prepared {
            Ok(tree) if !slot_pool::is_set_up(tree, &given)? => given,
            Ok(_) => Vec::new(),
            Err(error) => {
                let outcome = Outcome::NotStarted { error: format!("{error:#}") };
                return Ok(Some(result_of(&check.command, outcome, String::new())));
            }
        };
        for command in &setup {
            match self.run_check(&record, command)? {
                Some(result) if !result.is_green() => {
                    let error = format!("`setup` failed: {result}");
                    let outcome = Outcome::NotStarted { error };
                    return Ok(Some(CheckResult {
                        command: check.command.clone(),
                        outcome,
                        ..result
                    }));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
        if let (Ok(tree), false) = (&prepared, setup.is_empty())
            && tree.dirty()?.is_empty()
        {
            slot_pool::note_setup(tree, &setup)?;
        }
        self.run_check(&record, &check.command)
    }

    /// Returns a record for the processes that verify landed work in the slot of the merge queue.
    fn record_of(&self, work: &LandedWork) -> Result<AttemptRecord> {
        let (cx, id) = (&self.runner.core.cx, &work.task_id);
        let (workspace, graph) = (&cx.workspace, self.runner.core.graph.file.graph());
        let folder = workspace.task_dir(id);
        let run_id = self.runner.core.journal.run_id();
        let record = attempt::begin(workspace, run_id, 0, id, work.attempt, folder);
        let given = cx.options.run_on.as_deref();
        let run_on = match graph.number(id) {
            Some(number) => executors::name_of(&workspace.config, graph.task(number), given),
            None => given.unwrap_or(&workspace.config.run_on),
        };
        let target = cx.target.clone().context("no branch to land on")?;
        let slot = SlotAssignment { path: self.runner.slots.pool.merge(0), target, landing: None };
        Ok(AttemptRecord {
            log: work.log.clone(),
            slot: Some(slot),
            run_on: Some(run_on.to_owned()),
            ..record
        })
    }

    /// Runs a command in the slot of the merge queue, where such work is verified. None if the run was
    /// asked to stop.
    fn run_check(&mut self, record: &AttemptRecord, command: &str) -> Result<Option<CheckResult>> {
        self.runner.whole.ran += 1;
        let (cx, number) = (&self.runner.core.cx, self.runner.whole.ran);
        let workspace = &cx.workspace;
        let log = format!("{}/whole-{number}.log", record.log);
        let output = workspace.root().join(&log);
        regular_file::write(&output, b"").with_context(|| format!("write `{log}`"))?;
        let number = self.runner.core.graph.file.graph().number(&record.task_id);
        let call = self.runner.core.with_view(|view| {
            let of_task = number.map(|number| view.agents(number));
            let agents = of_task.unwrap_or_else(|| cx.policy.roster.resolve(&cx.policy.agents));
            agents.first().copied().cloned()
        });
        let call = call.context("no agent is set")?;
        let agent = process_spec::agent(workspace, record, &call);
        let spec = process_spec::check(agent, command, &self.runner.slots.pool.merge(0), &output);
        let limits = (workspace.config.verify_timeout, workspace.config.grace);
        let placed = self.placed_check(record, spec, &output);
        let (PlacedProcess { spec, carrier, .. }, executor) = match placed {
            Ok(placed) => placed,
            Err(error) => {
                let outcome = Outcome::NotStarted { error };
                return Ok(Some(result_of(command, outcome, log)));
            }
        };
        let guard = GuardianSpec::new(spec, output.clone());
        let guard = GuardianSpec { carrier, ..guard };
        let (guardians, outbox) = (cx.guardians.clone(), cx.outbox.clone());
        let stops = Arc::clone(&self.runner.whole.stops);
        self.runner.slots.let_change();
        let began = Instant::now();
        thread::spawn(move || {
            let goes_on = || !stops.load(Ordering::Relaxed);
            let outcome = process::run_guarded(&guardians, &guard, limits, goes_on);
            drop(outbox.send(RunnerMessage::WholeChecked(outcome)));
        });
        let outcome = loop {
            self.runner.wait(Wait::default())?;
            if let Some(outcome) = self.runner.whole.ended.take() {
                break outcome;
            }
        };
        placement::clean_up(&self.runner.core.cx.workspace, &executor, &record.mark());
        // A sandbox leaves its temporary folder next to the sign of its processes.
        let _ = fs::remove_dir_all(output.with_extension("tmpdir"));
        if outcome == Outcome::Cancelled {
            return Ok(None);
        }
        let is_green = outcome == Outcome::Exited { exit_code: 0 };
        let (last_line, no_test) = close::said(&output, is_green);
        let duration_seconds = duration::seconds(began.elapsed());
        let result = result_of(command, outcome, log);
        Ok(Some(CheckResult { duration_seconds, last_line, no_test, ..result }))
    }

    /// Returns a command as the executor starts it that verifies before work lands.
    fn placed_check(
        &self,
        record: &AttemptRecord,
        spec: ProcessSpec,
        sign: &Path,
    ) -> Result<(PlacedProcess, Executor), String> {
        let workspace = &self.runner.core.cx.workspace;
        let cx = &self.runner.core.cx;
        let executor = processes::executor_of(cx, record)?;
        let facts = ProcessFacts {
            mark: record.mark(),
            slot: spec.dir.clone(),
            base: None,
            task_dir: workspace.root().join(record.folder(workspace)),
            record: sign.to_owned(),
            agent: None,
            limit: Some(workspace.config.verify_timeout),
            resources: None,
        };
        match placement::placed(workspace, &executor, &facts, spec) {
            Ok(placed) => Ok((placed, executor)),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// The result of a command with this outcome.
fn result_of(command: &str, outcome: Outcome, log: String) -> CheckResult {
    CheckResult {
        command: command.to_owned(),
        outcome,
        duration_seconds: 0.0,
        last_line: None,
        log,
        no_test: false,
    }
}

/// Whether a command says nothing about the work, because it could not run.
fn has_not_run(check: &CheckResult) -> bool {
    matches!(
        check.outcome,
        Outcome::NotStarted { .. } | Outcome::Lost { .. } | Outcome::Interrupted
    )
}
