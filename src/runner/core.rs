//! The shared state of all steps of a run: the decisions, the graph and the journal, and the view
//! of them that selection, decisions and reporters get.

use std::{mem, time::Instant};

use anyhow::Result;
use chrono::{Local, Utc};

use super::{
    context::{Fact, Facts, RunContext, task_of},
    graph::RunGraph,
    journal::RunJournal,
    target::open_reset,
};
use crate::{
    adapters::machine::{self, ClockReading},
    core::{
        agents::promise::Worth,
        event::{Event, RequestEvent, RunEvent, StopReason, StopRequest, record::Record},
        exit::{self, Exit},
        graph::task::TaskId,
        proof::ProofSettings,
        run::{OpenWork, Run, Situation, process_watch::GracePeriods},
        select::{Active, View},
        spend::{Budget, Reached, Spend},
    },
    project::{attempt::AttemptRecord, fatal, landed_work::reverted},
};

/// The decisions of a run, with the graph and the history that they follow from.
pub(super) struct RunCore {
    pub(super) cx: RunContext,
    pub(super) run: Run,
    pub(super) journal: RunJournal,
    pub(super) graph: RunGraph,
    /// Whether controls of a proof may run.
    pub(super) proves: bool,
    /// The last clock reading.
    pub(super) clocks: ClockReading,
}

impl RunCore {
    /// Whether an immediate stop was requested.
    pub(super) fn is_ended_now(&self) -> bool {
        self.journal.history().run.stop.as_ref().is_some_and(|stop| stop.now)
    }

    /// Opens the tasks on the target branch that a person has reset.
    pub(super) fn open_reset(&self) -> Result<()> {
        let target = self.cx.target.as_deref().filter(|_| self.graph.checkout.is_some());
        target.map_or(Ok(()), |it| open_reset(&self.cx.workspace, self.journal.history(), it))
    }

    /// The reason of an end, or the tasks that are not proved if all of them are done.
    pub(super) fn with_proofs(&self, reason: StopReason) -> StopReason {
        let is_end = matches!(reason, StopReason::Complete | StopReason::SelectionComplete);
        let (history, graph) = (self.journal.history(), self.graph.file.graph());
        let tasks = history.unproved(graph, &self.cx.policy.filter).into_iter().cloned();
        let tasks: Vec<_> = tasks.filter(|_| is_end).collect();
        if tasks.is_empty() { reason } else { StopReason::NotProved(tasks) }
    }

    /// The words and the code of an end.
    pub(super) fn end_of(&self, result: &Result<StopReason>) -> (String, Exit) {
        let reason = match result {
            Ok(reason @ (StopReason::Complete | StopReason::SelectionComplete)) => reason,
            Ok(reason) => return (reason.text(&Local), reason.exit()),
            Err(error) => return (fatal::summary(error), exit::of_error(error)),
        };
        let (history, graph) = (self.journal.history(), self.graph.file.graph());
        let has_verify = |task| !self.cx.workspace.verify_of(task).is_empty();
        let repo = &self.cx.workspace.repo;
        let reverted = self.cx.target.as_ref().map(|it| reverted(repo, it, history, graph));
        let words = if let Some((id, by)) = reverted.iter().flatten().flatten().next() {
            StopReason::reverted(id, by)
        } else if history.run.completed > 0 && !graph.tasks().iter().any(has_verify) {
            format!("{}, and nothing was verified", reason.text(&Local))
        } else {
            reason.text(&Local)
        };
        (words, reason.exit())
    }

    /// Whether queued work may land.
    pub(super) fn may_land(&self) -> bool {
        let is_ending = self.cx.policy.stop.is_some();
        !self.is_ended_now() && (!is_ending || self.run.lands_last(Instant::now()))
    }

    /// The open attempts for the selection of the next task. Work that waits for its review leaves its
    /// place to others, unless `jobs` of them wait.
    fn open_work(&self) -> Vec<OpenWork> {
        let (active, jobs) = (&self.journal.history().active, self.cx.policy.jobs);
        let mut open = self.run.open_work(self.may_land(), jobs);
        let waits = |work: &&mut OpenWork| {
            active.of(&work.task_id).is_some_and(|it| it.review_wait.is_some())
        };
        open.iter_mut().filter(waits).take(jobs).for_each(|work| work.works = false);
        open
    }

    /// Calls `see` with the view that task selection uses.
    pub(super) fn with_view<T>(&self, see: impl FnOnce(&View<'_>) -> T) -> T {
        let open = self.open_work();
        see(&self.view(&OpenWork::active(&open, self.graph.file.graph())))
    }

    pub(super) fn view<'a>(&'a self, active: &'a [Active<'a>]) -> View<'a> {
        View {
            graph: self.graph.file.graph(),
            keys: self.graph.file.keys(),
            history: self.journal.history(),
            policy: &self.cx.policy,
            active,
        }
    }

    /// Calls `see` with the situation that accompanies every input.
    pub(super) fn with_situation<T>(
        &self,
        open: &[OpenWork],
        see: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        let config = &self.cx.workspace.config;
        let active = OpenWork::active(open, self.graph.file.graph());
        see(&Situation {
            view: self.view(&active),
            now: Instant::now(),
            graces: GracePeriods {
                kill: config.grace,
                term: config.term_grace,
                exit: config.exit_grace,
                children: config.child_wait_timeout,
                on_orphans: config.on_orphans,
            },
            autocommit: config.autocommit,
            trusts_promises: config.promise == Worth::Trust,
            done_file: false,
            one_check: config.verify_exclusive,
            proves: self.proves,
            queue_width: config.queue_width(self.cx.policy.jobs),
        })
    }

    /// Calls `decide` with the run and the situation.
    pub(super) fn with_run<T>(&mut self, decide: impl FnOnce(&mut Run, &Situation<'_>) -> T) -> T {
        let open = self.open_work();
        let mut run = mem::take(&mut self.run);
        let result = self.with_situation(&open, |sit| decide(&mut run, sit));
        self.run = run;
        result
    }

    /// Emits an event: to the journal, then to the history, then to the reporters. All events take
    /// this path. Returns its record.
    pub(super) fn emit(
        &mut self,
        about: Option<(&TaskId, u32)>,
        event: impl Into<Event>,
    ) -> Result<Record> {
        let (task_id, iteration) = about.unzip();
        let fact = Fact { task_id: task_id.cloned(), iteration, event: event.into() };
        let (records, record) = self.journal.write(fact)?;
        self.publish(&records);
        Ok(record)
    }

    /// Emits facts in order.
    pub(super) fn tell(&mut self, facts: Facts) -> Result<()> {
        for fact in facts {
            let (records, _) = self.journal.write(fact)?;
            self.publish(&records);
        }
        Ok(())
    }

    /// The required proof of an attempt's work.
    pub(super) fn proof_settings(&self, record: &AttemptRecord) -> ProofSettings {
        let task = task_of(self.graph.file.graph(), record);
        let settings = &self.cx.workspace.config.proof;
        task.map_or_else(|| settings.clone(), |task| task.proof_settings(settings))
    }

    /// Detects that the machine slept.
    pub(super) fn check_clocks(&mut self) -> Result<()> {
        let now = machine::clocks();
        let Some(length) = mem::replace(&mut self.clocks, now).slept_until(&now) else {
            return Ok(());
        };
        let continued = RunEvent::Continued { seconds: length.as_secs(), slept: true };
        self.emit(None, continued).map(drop)
    }

    /// Ends running work at the run's time limit.
    pub(super) fn check_time_limit(&mut self) -> Result<()> {
        let (budget, run) = (&self.cx.policy.budget, &self.journal.history().run);
        let is_over = budget.ends_at(run.started_at).is_some_and(|end| end <= Utc::now());
        let Some(limit) = budget.duration.filter(|_| is_over && !self.is_ended_now()) else {
            return Ok(());
        };
        self.stop_at(&Reached::Duration(limit))
    }

    /// Ends all work where the usage of agents `at_work` reaches a limit of the run, with all that
    /// run.
    pub(super) fn check_spend(&mut self, at_work: &Spend, running: &Spend) -> Result<()> {
        let (budget, now) = (self.cx.policy.budget.within_attempts(at_work), Utc::now());
        if budget == Budget::default() || self.is_ended_now() {
            return Ok(());
        }
        let spend = self.journal.history().spend().plus(running);
        let reached = budget.reached(&spend, None, now);
        reached.map_or(Ok(()), |reached| self.stop_at(&reached))
    }

    fn stop_at(&mut self, reached: &Reached) -> Result<()> {
        let limit = Some(reached.to_string());
        let stop = StopRequest { limit, now: true, ..StopRequest::default() };
        self.emit(None, RequestEvent::StopRequested(stop)).map(drop)
    }

    /// Reads the journal entries of other processes.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        let records = self.journal.catch_up()?;
        self.publish(&records);
        Ok(())
    }

    pub(super) fn publish(&mut self, records: &[Record]) {
        let mut reporters = mem::take(&mut self.journal.reporters);
        self.with_view(|view| {
            for record in records {
                for reporter in &mut reporters {
                    reporter.record(record, view);
                }
            }
        });
        self.journal.reporters = reporters;
    }
}
