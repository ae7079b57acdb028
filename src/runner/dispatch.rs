//! The messages to a run become inputs, and its commands go to the owners that carry them out.

use std::{collections::VecDeque, mem};

use anyhow::Result;

use super::{
    Runner, RunnerMessage, away, close, context::Facts, follow_ups, journal, landing::LandingView,
    process_spec::ProcessKind, reviewer, side_agent,
};
use crate::{
    adapters::process::ProcessNews,
    core::{
        exit::{Exit, Failure},
        run::{
            command::{AttemptId, LandingCommand, ProcessOrder, RunCommand, SlotCommand},
            input::Input,
            process_watch::ProcessWatch,
        },
        verdict::Outcome,
    },
    crash,
    project::{follower::Followed, slot_pool::PreparedSlot},
};

impl Runner {
    /// Handles a message. Without a message, a limit may have been reached.
    pub(super) fn receive(&mut self, message: Option<RunnerMessage>) -> Result<()> {
        if self.core.is_ended_now() {
            self.stop_jobs(true);
        }
        let input = match message {
            Some(RunnerMessage::News(id, news)) => self.process_news(id, news)?,
            Some(RunnerMessage::Missed(id, fault)) => {
                self.slots.prepared();
                Some(Input::Unreachable { id, fault })
            }
            Some(RunnerMessage::MayFetch(id, reached)) => {
                let Some(record) = self.attempts.get_mut(&id) else { return Ok(()) };
                let graph = self.core.graph.file.graph();
                match self.away.start_fetch(&self.core.cx, graph, record, reached) {
                    Some(Ok(handle)) => {
                        self.processes.insert(id, handle);
                        None
                    }
                    Some(Err(input)) => Some(input),
                    None => None,
                }
            }
            Some(RunnerMessage::NotAsked(id)) => Some(Input::ProcessEnded(id, Box::default())),
            Some(RunnerMessage::Job(id, state)) => {
                let record = self.attempts.get(&id);
                record.and_then(|record| self.processes.job_seen(record, &state))
            }
            Some(RunnerMessage::Engine(id, mut ended, word)) => {
                let suspect = self.away.engine_told(&mut ended, &word);
                let Some(record) = self.attempts.get(&id).cloned() else { return Ok(()) };
                if let Some(why) = suspect {
                    self.slots.suspect(&self.core.cx, &record, why)?;
                }
                let process = self.core.run.attempts().process(&id);
                Some(ended.settled(&self.core.cx, (process, &record), Some(&word)))
            }
            Some(RunnerMessage::Prepared(id, prepared)) => self.slot_prepared(&id, prepared)?,
            Some(RunnerMessage::Built(id, built)) => {
                crash::point("merge.built");
                Some(Input::Built(id, built.map_err(|error| format!("{error:#}"))))
            }
            Some(RunnerMessage::Landed(landed, followed)) => {
                crash::point("merge.landed");
                self.landing.followed(&mut self.core, followed.unwrap_or(Ok(Followed::Level)))?;
                Some(Input::Landed(landed.map_err(|error| format!("{error:#}"))))
            }
            Some(RunnerMessage::Followed(followed)) => {
                return self.landing.followed(&mut self.core, followed);
            }
            Some(RunnerMessage::Suspicion(slot, why)) => {
                return self.slots.suspicion(&self.core.cx, slot, why);
            }
            Some(RunnerMessage::Proved(id, proof)) => return self.proved(&id, *proof),
            Some(RunnerMessage::SideAgent(id, news)) => {
                let Some(ended) = side_agent::go_on(self, &id, news) else { return Ok(()) };
                return reviewer::ended(self, ended);
            }
            Some(RunnerMessage::HookEnded(ran)) => return self.hook_ended(ran),
            Some(RunnerMessage::WholeChecked(outcome)) => {
                self.whole.ended = Some(outcome);
                None
            }
            Some(RunnerMessage::Committed(id, end, made)) => {
                self.attempts.committing -= 1;
                self.committed(&id, *end, made)?
            }
            Some(RunnerMessage::Signal(number)) => return self.signalled(number),
            None => Some(Input::Tick),
        };
        input.map_or(Ok(()), |input| self.handle(input))
    }

    /// Handles an update of an attempt's process.
    fn process_news(&mut self, id: AttemptId, news: ProcessNews) -> Result<Option<Input>> {
        let record = self.attempts.get(&id);
        Ok(match news {
            ProcessNews::Closed(closed) => self.process_closed(&id, closed)?,
            ProcessNews::Left(members) => self.process_left(&id, &members),
            ProcessNews::Idle => {
                record.and_then(|record| self.processes.idle(&self.core.cx, record))
            }
            ProcessNews::Arrived(host) => self.processes.arrived(&id, host),
            ProcessNews::Fetching => Some(Input::ProcessFetching(id)),
            ProcessNews::Contact(silence) => {
                let handle = self.processes.get(&id);
                let is_on_its_way = handle.map(|handle| handle.on_its_way.is_some());
                record
                    .zip(is_on_its_way)
                    .and_then(|(record, is)| away::contact(&self.core.cx, record, is, silence))
            }
        })
    }

    /// Handles the result of preparing the slot of an attempt.
    fn slot_prepared(
        &mut self,
        id: &AttemptId,
        prepared: Result<PreparedSlot>,
    ) -> Result<Option<Input>> {
        self.slots.prepared();
        if matches!(prepared, Err(_) | Ok(PreparedSlot::BadBase(_))) {
            // A request to stop may have ended a git command, and must be taken into account.
            self.core.catch_up()?;
        }
        let Some(record) = self.attempts.get_mut(id) else { return Ok(None) };
        let seen = (self.core.graph.file.text(), self.core.journal.history());
        let mut facts = Facts::default();
        let input = self.slots.slot_prepared(&self.core.cx, record, prepared, seen, &mut facts);
        self.core.tell(facts)?;
        input.map(Some)
    }

    /// Passes an input to the run, and carries out the resulting commands.
    pub(super) fn handle(&mut self, input: Input) -> Result<()> {
        let commands = self.core.with_run(|run, sit| run.handle(input, sit));
        self.carry_out(commands)
    }

    /// Carries out commands in order. Commands that follow from one come before the next.
    pub(super) fn carry_out(&mut self, commands: Vec<RunCommand>) -> Result<()> {
        self.slots.let_change();
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            if !is_without_process(&command) {
                self.slots.let_change();
            }
            let answer = self.apply(command);
            if answer.is_err() {
                self.slots.let_change();
            }
            let Some(input) = answer? else {
                continue;
            };
            let more = self.core.with_run(|run, sit| run.handle(input, sit));
            for command in more.into_iter().rev() {
                commands.push_front(command);
            }
        }
        // While the run waits, processes may start that it does not know.
        self.slots.let_change();
        Ok(())
    }

    /// Has the owner carry out a command. Returns an immediate result as an input.
    fn apply(&mut self, command: RunCommand) -> Result<Option<Input>> {
        match command {
            RunCommand::Emit(about, event) => {
                journal::pass_before(&event);
                let about = about.as_ref().map(|(id, iteration)| (id, *iteration));
                let record = self.core.emit(about, *event)?;
                journal::pass_after(&record.event);
                if record.event.ended().is_some() {
                    self.hooks.ended = Some(record);
                }
            }
            RunCommand::SetHolder(id) => {
                self.core.journal.write_lock_holder(&self.core.cx, id.as_ref())?;
            }
            RunCommand::WriteStatus(id, iteration, write, cause) => {
                self.write_status((&id, iteration), &write, cause)?;
            }
            RunCommand::KeepGraph => self.core.graph.keep(&self.core.cx.workspace)?,
            RunCommand::Record(key) => return self.record(key),
            RunCommand::Slot(id, command) => return self.slot_command(&id, command),
            RunCommand::StartAgent(id) => {
                return self.start_process(&id, &ProcessKind::Agent(None));
            }
            RunCommand::FollowUp(id, next) => {
                let (cx, graph) = (&self.core.cx, &self.core.graph.file);
                let failed = follow_ups::prepare(cx, graph, &mut self.attempts, &id, &next);
                let kind = ProcessKind::Agent(Some(next));
                return failed.map_or_else(|| self.start_process(&id, &kind), |it| Ok(Some(it)));
            }
            RunCommand::FetchWork(id, took) => {
                let record = self.attempts.get(&id);
                return Ok(record.map(|it| self.away.fetch_work(&self.core.cx, it, took)));
            }
            RunCommand::StartCheck(id, purpose, number, command) => {
                return self.start_process(&id, &ProcessKind::Check(purpose, number, command));
            }
            RunCommand::Process(id, order) => self.order(&id, order),
            RunCommand::Collect(id, end) => return self.collect(&id, *end),
            RunCommand::Judge(id, end) => return self.judge(&id, *end),
            RunCommand::Keep(id, verdict, evidence) => {
                let Some(record) = self.attempts.get(&id) else { return Ok(None) };
                let workspace = &self.core.cx.workspace;
                let kept = close::keep_work(workspace, &self.slots, record, verdict, &evidence)?;
                crash::point("close.judged");
                let (pinned, unpinned) = kept;
                return Ok(Some(Input::Kept { id, pinned, unpinned }));
            }
            RunCommand::Release { id, believed } => {
                self.attempts.get(&id).inspect(|it| away::cancel_jobs(&self.core.cx, it));
                self.release(&id, believed)?;
            }
            RunCommand::Withdraw(id) => self.withdraw(&id)?,
            RunCommand::AfterAttempt(_) => {
                let mut hooks = mem::take(&mut self.hooks);
                let due = hooks.after_attempt(&self.core.view(&[]));
                self.hooks = hooks;
                due.map(|due| self.add_hook(due)).transpose()?;
            }
            RunCommand::Landing(LandingCommand::Record(id, landing)) => {
                let open = self.core.run.attempts().get(&id);
                let judged = open.and_then(|open| open.phase.result());
                let evidence = judged.map(|end| end.evidence.clone()).unwrap_or_default();
                self.attempts.record_landing(&self.core.cx, &id, *landing, evidence)?;
            }
            RunCommand::Landing(command) => {
                let (run, records) = (&self.core.run, self.attempts.records());
                let (file, slots) = (&self.core.graph.file, &self.slots);
                let edited = self.core.graph.is_edited().then(|| file.text());
                let view = LandingView { run, records, graph: file.graph(), edited, slots };
                return self.landing.carry_out(&self.core.cx, command, view);
            }
            RunCommand::Abandon(number) => {
                let why = "stopped at once; the next run recovers the attempt";
                return Err(Failure::new(Exit::Signal(number), why).into());
            }
        }
        Ok(None)
    }

    /// Carries out a command about the slot of an attempt.
    fn slot_command(&mut self, id: &AttemptId, command: SlotCommand) -> Result<Option<Input>> {
        match command {
            SlotCommand::TakeAsGiven => {
                let process = self.core.run.attempts().process(id);
                let purpose = process.and_then(|process| process.purpose);
                return Ok(self.attempts.take_as_given(&self.core.cx, id, purpose));
            }
            SlotCommand::Reassign => {
                let path = self.slots.free_slot(self.attempts.records(), self.proofs.slots());
                self.attempts.reassign(&self.core.cx, id, path)?;
            }
            SlotCommand::Prepare => {}
        }
        let (records, history) = (self.attempts.records(), self.core.journal.history());
        self.slots.prepare(&self.core.cx, id, records, history).map(|()| None)
    }

    /// Gives an order to the guardian of the process of an attempt, or ends the question to its executor.
    fn order(&mut self, id: &AttemptId, order: ProcessOrder) {
        match order {
            ProcessOrder::Interrupt | ProcessOrder::Terminate | ProcessOrder::Kill => {
                if self.away.stop_asking(&self.core.cx, id) {
                    return;
                }
            }
            ProcessOrder::Spare => self.slots.has_spared = true,
            ProcessOrder::KillGuardian | ProcessOrder::KeepAwake => {}
        }
        let watch = self.core.run.attempts().process(id).and_then(|process| process.watch.as_ref());
        let is_cancelled = watch.and_then(ProcessWatch::ending) == Some(&Outcome::Cancelled);
        self.processes.carry_out(id, order, is_cancelled);
    }
}

/// Whether no process is started by this step at the end of an attempt, except by git itself: facts
/// read from its slot before still hold after it.
fn is_without_process(command: &RunCommand) -> bool {
    matches!(
        command,
        RunCommand::Emit(..)
            | RunCommand::WriteStatus(..)
            | RunCommand::SetHolder(_)
            | RunCommand::Judge(..)
            | RunCommand::Keep(..)
            | RunCommand::Release { .. }
    )
}
