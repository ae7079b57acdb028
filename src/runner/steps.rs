//! The steps of a run that concern several owners: the loop takes them one after the other, and
//! hands each owner its inputs from the others.

use std::{mem, thread, time::Duration};

use anyhow::{Result, ensure};
use chrono::Utc;

use super::{
    Runner, attempts,
    attempts::NextAttempt,
    attend, away, checkout, close,
    context::{Facts, head_of},
    core::RunCore,
    follow_ups,
    graph::{self, Correction, EditTime},
    graph_copy,
    process_spec::ProcessKind,
    processes::{ProcessHandle, SpawnedProcess, executor_for, spawn_at},
    slots,
};
use crate::{
    adapters::process::{Closed, GuardianSpec, Member, NotStarted},
    core::{
        agents::{agent_command::AgentCommand, transcript::Format},
        event::{AttemptEvent, Cause, ChildrenLeft, GraphEvent, RunEvent},
        graph::task::TaskId,
        run::{
            command::{AttemptId, CheckPurpose, ProcessEnd, StatusWrite},
            input::Input,
            open_attempt::OpenAttempt,
            verified_work::HeadSpan,
        },
        select::{Policy, SelectionKey, Turn},
    },
    crash,
    project::{
        attempt::{self},
        config::{self, Config},
        fatal,
        follower::BUSY,
        graph_file::{Write, rfc3339},
        workspace,
    },
};

/// The time for a command that has written the graph file to also write its journal line.
const JOURNALED: Duration = Duration::from_millis(20);

impl Runner {
    /// Writes the record and the prompt of the next attempt at a task, and claims the task. None if
    /// others have changed it since it was chosen.
    pub(super) fn record(&mut self, key: SelectionKey) -> Result<Option<Input>> {
        let (number, now) = (key.number, Utc::now());
        if self.core.journal.history().of(&self.core.graph.file.graph().task(number).id).was_reset {
            self.core.open_reset()?;
            self.landing.follow(&mut self.core, BUSY)?;
        }
        let (call, change, max_attempts, run_on) = self.core.with_view(|view| {
            let call = match view.agent(number, now) {
                Turn::Now(call) => call.cloned(),
                // The clock was set back since the agent was chosen.
                Turn::Busy(_) | Turn::Later(_) | Turn::Never => {
                    view.agents(number).first().copied().cloned()
                }
            };
            let host = view.host(number, now).ok().flatten().unwrap_or(view.place(number));
            let max_attempts = view.max_attempts(number);
            (call, view.agent_change(number, now), max_attempts, host.to_owned())
        });
        let call = call.map(|call| config::anchored(call, self.core.cx.workspace.root()));
        let (file, history) = (&self.core.graph.file, self.core.journal.history());
        let (cx, task) = (&self.core.cx, file.graph().task(number));
        let folder = attempt::new_folder(&cx.workspace, &task.id)?;
        let next = (number, max_attempts, folder.as_str());
        let prompt = attempts::prompt(cx, (file, history), next, call.as_ref())?;
        // A program that reads the output may have opened its file just now.
        self.core.cx.workspace.ignore_outputs()?;
        let next = NextAttempt {
            graph: &self.core.graph.file,
            history: self.core.journal.history(),
            run_id: self.core.journal.run_id(),
            call,
            folder,
            run_on,
            place: self.slots.assign(
                &self.core.cx,
                self.attempts.records(),
                self.proofs.slots(),
            )?,
        };
        let record = next.record(&self.core.cx, number)?;
        let id = record.task_id.clone();
        let mut facts = Facts::default();
        if let Some(change) = change {
            facts.of_attempt(&record, AttemptEvent::AgentChanged(change));
        }
        if let Some(path) = attempt::clear_reports(&self.core.cx.workspace, &id)? {
            let text = format!(
                "removed {path}, which was there before the attempt: with it only the attempt \
                 reports; `ralph task-complete {id}` completes the task"
            );
            facts.of_attempt(&record, RunEvent::Noticed { text });
        }
        self.core.tell(facts)?;
        let record = attempt::open(&self.core.cx.workspace, record, &prompt)?;
        crash::point("start.recorded");
        let started = attempts::started(&record, &key);
        let open = attempts::open_attempt(&self.core.cx, &self.core.graph.file, &record);
        let follow_ups = follow_ups::most(&self.core.cx, self.core.graph.file.graph(), &record);
        let open = OpenAttempt { follow_ups, ..open };
        let (at, by) = (rfc3339(record.started_at), format!("ralph {}", record.run_id));
        let about = (&id, record.iteration);
        self.attempts.insert(record);
        self.wake = None;
        if !crate::core::known_bug::is_on("start-without-a-claim")
            && !self.set(about, Write::Claim { at: &at, by: &by }, Cause::Claimed)?
        {
            self.withdraw(&open.id)?;
            return Ok(None);
        }
        crash::point("start.claimed");
        Ok(Some(Input::Recorded(Box::new(open), Box::new(started))))
    }

    /// Starts a process of an attempt.
    pub(super) fn start_process(
        &mut self,
        id: &AttemptId,
        kind: &ProcessKind,
    ) -> Result<Option<Input>> {
        // An earlier step failed, and the attempt is closed.
        let waits = self.core.run.attempts().process(id).is_some();
        let Some(mut record) = self.attempts.get(id).cloned().filter(|_| waits) else {
            return Ok(None);
        };
        let (cx, graph) = (&self.core.cx, self.core.graph.file.graph());
        let left = attempts::cost_left(cx, self.core.journal.history(), graph, id);
        let (call, spec) = follow_ups::agent(cx, &record, kind, left)?;
        let is_agent = matches!(kind, ProcessKind::Agent(_));
        if is_agent {
            attempts::ignore_litter(cx, &record, &call)?;
        }
        let executor = executor_for(cx, &record, kind, &spec);
        let merge = self.slots.pool.merge(self.core.run.landing().slot_of(id));
        let (spec, log) = attempts::spec_of(cx, spec, &record, kind, merge.clone());
        let task = graph.number(&id.task_id).map(|number| graph.task(number));
        let limits = attempts::limits_of(cx, task, kind);
        if let ProcessKind::Check(CheckPurpose::Trial(_), number, _) = kind {
            slots::note_trial_setup(&cx.workspace, &merge, *number)?;
        }
        let verifies = record.slot.is_some() && kind.verifies();
        let verifies = verifies.then(|| (spec.dir.clone(), head_of(&spec.dir)));
        let stamp = graph_copy::own_stamp(&cx.workspace, &record);
        let guard = GuardianSpec {
            idle: limits.idle,
            is_restless: is_agent && record.call.as_ref().is_some_and(AgentCommand::is_restless),
            terminal: is_agent && record.terminal,
            ..cx.guarded(spec, &record, is_agent)
        };
        let stdout = guard.spec.stdout.clone();
        let started = executor.and_then(|to| spawn_at(cx, graph, &to, &record, guard, &limits));
        let SpawnedProcess { process, start, limits, on_its_way } = match started {
            Ok(started) => started,
            Err(NotStarted::Executor(fault)) if !kind.follows_work() => {
                return Ok(Some(Input::Unreachable { id: id.clone(), fault }));
            }
            Err(reason) => {
                let head = verifies.and_then(|(_, head)| head);
                // A guardian may have started the process before it was killed.
                let (swept, _) = close::end_unguarded(cx, &record, self.is_alone());
                let end = ProcessEnd {
                    took: limits.started.elapsed(),
                    log: log.unwrap_or_default(),
                    head: HeadSpan { before: head.clone(), after: head },
                    ..attempts::not_started(&record, reason, is_agent, swept)
                };
                return Ok(Some(Input::ProcessEnded(id.clone(), Box::new(end))));
            }
        };
        crash::point("start.spawned");
        record.add_process(&cx.workspace, &process)?;
        crash::point("start.identified");
        let format = if is_agent { call.output } else { Format::Text };
        let seen = (record.base.clone(), record.dirty.clone());
        let handle = ProcessHandle::new(process, (stdout, format), seen);
        let has_terminal = is_agent && record.terminal;
        let handle =
            ProcessHandle { has_terminal, log, verifies, graph: stamp, on_its_way, ..handle };
        self.processes.insert(id.clone(), handle);
        self.attempts.insert(record);
        Ok(Some(Input::ProcessStarted(id.clone(), limits, start)))
    }

    /// Whether nothing that the run has started works.
    fn is_alone(&self) -> bool {
        self.processes.is_empty()
            && !self.slots.is_preparing()
            && !self.slots.has_spared
            && !self.away.is_asking_engines()
            && !self.hooks.is_busy()
            && self.attempts.committing == 0
            && !self.core.run.landing().is_trying()
    }

    /// Handles the end of the process of an attempt.
    pub(super) fn process_closed(
        &mut self,
        id: &AttemptId,
        mut closed: Closed,
    ) -> Result<Option<Input>> {
        let (Some(handle), Some(record)) = (self.processes.remove(id), self.attempts.get(id))
        else {
            return Ok(None);
        };
        let record = record.clone();
        if closed.outcome.is_none() {
            let is_alone = self.is_alone();
            (closed.swept, closed.immortal) =
                close::end_unguarded(&self.core.cx, &record, is_alone);
        } else {
            self.attempts.forget_guardian(&self.core.cx, id)?;
        }
        // No attempt may start while processes of the previous one remain.
        ensure!(
            closed.immortal == 0,
            "processes of attempt {} at `{}` could not be killed ({}); inspect them with `ps`, then run again",
            id.attempt,
            id.task_id,
            closed.immortal,
        );
        let process = self.core.run.attempts().process(id);
        if closed.outcome.is_none()
            && away::fetches_after_loss(&self.core.cx, process, &handle, &record)
        {
            self.away.fetch_work(&self.core.cx, &record, Duration::ZERO);
            return Ok(Some(Input::ProcessFetching(id.clone())));
        }
        if handle.fetches {
            away::take_fetched(&self.core.cx, process, &record, &mut closed)?;
        }
        let ended = self.away.ask_engine(&self.core.cx, id, &record, handle.ended(closed));
        // While an engine is asked, the limits of the process do not matter any more.
        Ok(Some(match ended {
            Some(ended) => ended.settled(&self.core.cx, (process, &record), None),
            None => Input::ProcessFetching(id.clone()),
        }))
    }

    /// Handles the end of an agent that left these processes running, or a change in that list.
    pub(super) fn process_left(&self, id: &AttemptId, members: &[Member]) -> Option<Input> {
        let record = self.attempts.get(id)?;
        let left = ChildrenLeft {
            attempt: id.attempt,
            children: members.iter().map(|member| member.name.clone()).collect(),
            limit_seconds: self.core.cx.workspace.config.child_wait_timeout.as_secs_f64(),
        };
        let reported = attempts::report(&self.core.cx, record, None).is_some();
        Some(Input::ProcessLeft { id: id.clone(), left, reported })
    }

    /// Reads the new output of processes, and passes their activity to the reporters.
    pub(super) fn follow(&mut self) -> Result<()> {
        let waiting = self.processes.due_questions();
        away::ask_clusters(&self.core.cx, waiting, self.attempts.records());
        for progress in self.processes.follow() {
            if let Some(doing) = &progress.doing {
                for reporter in &mut self.core.journal.reporters {
                    reporter.doing(&progress.id.task_id, doing);
                }
            }
            attend::follow_cost(self, &progress.id, progress.cost)?;
            self.follow_report(&progress.id)?;
            if progress.is_result_new {
                self.handle(Input::FinalResult(progress.id, progress.result))?;
            }
        }
        self.core.check_spend(&self.processes.spent(true), &self.processes.spent(false))
    }

    /// Notices that an agent has reported completion, in any way.
    fn follow_report(&mut self, id: &AttemptId) -> Result<()> {
        let (Some(record), Some(handle)) = (self.attempts.get(id), self.processes.get_mut(id))
        else {
            return Ok(());
        };
        if handle.log.is_some() || handle.reported {
            return Ok(());
        }
        let stamp = graph_copy::own_stamp(&self.core.cx.workspace, record);
        let status = match &record.slot {
            None => self.core.graph.file.graph().status_of(&id.task_id),
            Some(_) if stamp == handle.graph => None,
            Some(_) => graph_copy::own_status(&self.core.cx.workspace, record),
        };
        handle.reported |= attempt::report(&self.core.cx.workspace, record, status).is_some();
        handle.graph = stamp;
        if handle.reported { self.handle(Input::Reported(id.clone())) } else { Ok(()) }
    }

    /// Writes a status to the graph file and records the change. Returns whether the file has it.
    pub(super) fn set(
        &mut self,
        about: (&TaskId, u32),
        write: Write<'_>,
        cause: Cause,
    ) -> Result<bool> {
        let goes_on = !self.core.run.attempts().open().is_empty()
            || self.core.cx.is_asked_to_end(self.core.journal.history());
        let time = EditTime { edited: graph::cause_of_edits(&self.core.run), goes_on };
        let (mut facts, records) = (Facts::default(), self.attempts.records());
        let set =
            self.core.graph.set(&self.core.cx, records, about, (write, cause, time), &mut facts);
        self.core.tell(facts)?;
        set
    }

    /// Writes the status of a task whose attempt has ended into the graph file, and into git if the
    /// attempt worked in the checkout.
    pub(super) fn write_status(
        &mut self,
        about: (&TaskId, u32),
        write: &StatusWrite,
        cause: Cause,
    ) -> Result<()> {
        let id = about.0;
        let (at, word);
        let write = match write {
            StatusWrite::Complete => {
                let landed = self.landing.landed_at(self.attempts.records(), id);
                at = landed.unwrap_or_else(|| rfc3339(Utc::now()));
                Write::Complete { at: &at }
            }
            StatusWrite::Plain(status) => {
                word = graph::word_before(self.attempts.records(), id, *status);
                word.as_deref().map_or(Write::Plain(*status), |word| {
                    Write::Restored(Some(word).filter(|word| !word.is_empty()))
                })
            }
        };
        self.set(about, write, cause)?;
        let mut records = self.attempts.records().values();
        let in_place = records.find(|it| it.task_id == *id && it.slot.is_none());
        if let Some(record) = in_place.filter(|_| self.core.cx.plain().is_none())
            && !checkout::has_left_branch(&self.core.cx, record)?
        {
            // A killed run may have written the status, with an earlier time.
            let known = self.core.graph.completed_at(id);
            let write = match (write, &known) {
                (Write::Complete { .. }, Some(at)) => Write::Complete { at },
                (write, _) => write,
            };
            graph::commit_status(&self.core.cx.workspace, record, write)?;
        }
        let change = self.landing.changes.values().find(|change| change.task_id == *id);
        if let (Write::Complete { .. }, Some(change)) = (write, change) {
            let (mut facts, records) = (Facts::default(), self.attempts.records());
            self.core.graph.adopt(&self.core.cx.workspace, records, change, &mut facts);
            self.core.tell(facts)?;
        }
        crash::point("close.written");
        if crate::core::known_bug::is_on("remove-the-record-first")
            && let Some(record) = self.attempts.records().values().find(|it| it.task_id == *id)
        {
            self.core.cx.workspace.state.remove_attempt(&record.name())?;
        }
        Ok(())
    }

    /// Corrects statuses in the graph file that git or the lock of this run contradict.
    pub(super) fn follow_history(&mut self) -> Result<()> {
        let (history, records) = (self.core.journal.history(), self.attempts.records());
        self.correct(self.core.graph.corrections(&self.core.cx, history, records)?)
    }

    /// Corrects statuses in the graph file.
    pub(super) fn correct(&mut self, corrections: Vec<Correction>) -> Result<()> {
        for correction in corrections {
            self.set((&correction.task_id, 0), correction.write(), correction.cause)?;
        }
        Ok(())
    }

    /// Rereads the graph file and records the changes of others.
    pub(super) fn refresh(&mut self) -> Result<()> {
        let mut facts = Facts::default();
        self.core.graph.restore_special(&self.core.cx.workspace, &mut facts)?;
        self.core.tell(facts)?;
        loop {
            let mut facts = Facts::default();
            let rejected = match self.core.graph.refresh(&self.core.cx.workspace)? {
                Ok(found) => {
                    // Work landed meanwhile is not in the file.
                    let is_back = self.core.graph.unreadable.take().is_some();
                    let (is_changed, records) = (found.is_some(), self.attempts.records());
                    let lands = records.values().any(|record| record.landing().is_some());
                    let mut foreign = graph::without_landings(records, found.unwrap_or_default());
                    if !is_back && (!is_changed || (foreign.is_empty() && lands)) {
                        let is_edited = is_changed && self.core.graph.is_edited();
                        return if is_edited { self.follow_history() } else { Ok(()) };
                    }
                    facts.of_run(self.core.graph.loaded());
                    if !foreign.is_empty() {
                        // A command writes the file, and then its line.
                        thread::sleep(JOURNALED);
                        self.core.catch_up()?;
                    }
                    let RunCore { graph, run, journal, .. } = &self.core;
                    let commanded = &journal.history().run.commanded;
                    foreign.retain(|it| commanded.get(&it.task_id) != Some(&it.new));
                    let cause = graph::cause_of_edits(run);
                    graph::note(graph.file.graph(), foreign, cause, &mut facts);
                    self.core.tell(facts)?;
                    return self.follow_history();
                }
                Err(rejected) => rejected,
            };
            // The last valid graph is used, unless the run writes the file and no attempt runs, whose end
            // repairs it. A run that ends needs no other.
            let goes_on = self.core.graph.is_read_only()
                || self.core.run.attempts().any_process()
                || self.core.cx.is_asked_to_end(self.core.journal.history());
            if !goes_on && !self.core.graph.is_half_saved() {
                // Open work is judged, and lands.
                let is_open = !self.core.run.attempts().open().is_empty();
                return if is_open { Ok(()) } else { Err(workspace::refused(&rejected)) };
            }
            self.core.graph.report_bad(&rejected, &mut facts);
            self.core.tell(facts)?;
            if goes_on {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Reloads changed settings between attempts: an attempt is judged by the settings of its
    /// start. If the new settings are invalid, the last valid ones stay.
    pub(super) fn reload_settings(&mut self) -> Result<()> {
        if self.core.run.attempts().any_process() && !self.core.cx.is_isolated() {
            return Ok(());
        }
        if self.core.cx.is_isolated() && self.core.cx.has_other_settings()? {
            return Ok(());
        }
        let (config, changed) = match self.core.cx.workspace.layers.refresh() {
            Ok(None) => return Ok(()),
            Ok(Some(new)) => new,
            Err(error) => {
                let error = fatal::summary(&error);
                return self.core.emit(None, GraphEvent::FileRejected { error }).map(drop);
            }
        };
        // The branch of a run does not change.
        let onto = self.core.cx.workspace.config.onto.clone();
        self.core.cx.workspace.configure(Config { onto, ..config });
        for reporter in &mut self.core.journal.reporters {
            reporter.settle(&self.core.cx.workspace.config);
        }
        let Policy { stop, ref mut elsewhere, .. } = self.core.cx.policy;
        let elsewhere = mem::take(elsewhere);
        let policy = self.core.cx.options.policy(&self.core.cx.workspace);
        self.core.cx.policy = Policy { stop, elsewhere, ..policy };
        if changed.is_empty() {
            return Ok(());
        }
        let text = format!("settings changed: {}", changed.join(", "));
        self.core.emit(None, RunEvent::Noticed { text }).map(drop)
    }
}
