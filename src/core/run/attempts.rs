//! The open attempts of a run, and the next step of each.

mod arrival;
pub(super) mod follow_up;

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{
    Situation,
    command::{
        AttemptId, CheckPurpose, PendingResult, ProcessEnd, ProcessOrder, RunCommand, SlotCommand,
        StatusWrite,
    },
    input::SlotReason,
    open_attempt::{AttemptPhase, AttemptProcess, Next, OpenAttempt},
    process_watch::{LimitReached, ProcessWatch},
};
use crate::{
    duration,
    event::{AgentEnd, AttemptEvent, AttemptResult, CheckEvent, ChildrenLeft, Event, Orphans},
    verdict::{Outcome, Verdict},
};

/// The open attempts of a run.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    open: Vec<OpenAttempt>,
    /// When every process ends, also a later one: the run was asked to terminate.
    cancel_at: Option<Instant>,
}

impl Attempts {
    /// The open attempts, in the order of their start.
    pub fn open(&self) -> &[OpenAttempt] {
        &self.open
    }

    /// Returns an open attempt.
    pub fn get(&self, id: &AttemptId) -> Option<&OpenAttempt> {
        self.open.iter().find(|open| open.id == *id)
    }

    /// Returns the process of an open attempt.
    pub fn process(&self, id: &AttemptId) -> Option<&AttemptProcess> {
        self.get(id)?.phase.process()
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut OpenAttempt> {
        self.open.iter_mut().find(|open| open.id == *id)
    }

    /// The time until a limit of a process is reached.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.watches().map(|watch| watch.patience(now)).min()
    }

    fn watches(&self) -> impl Iterator<Item = &ProcessWatch> {
        self.open.iter().filter_map(|open| open.phase.process()?.watch.as_ref())
    }

    /// Whether any process runs.
    pub fn any_process(&self) -> bool {
        self.watches().next().is_some()
    }

    /// Starts the first step of a recorded attempt, whose task is claimed.
    pub(super) fn begin(&mut self, mut attempt: OpenAttempt, started: Event) -> Vec<RunCommand> {
        let mut commands = vec![
            RunCommand::SetHolder(Some(attempt.id.task_id.clone())),
            RunCommand::KeepGraph,
            attempt.emit(started),
        ];
        if attempt.target.is_some() {
            commands.push(RunCommand::Slot(attempt.id.clone(), SlotCommand::Prepare));
        } else {
            commands.extend(attempt.start_agent());
        }
        self.open.push(attempt);
        commands
    }

    /// Starts the next step of an attempt whose slot is ready.
    pub(super) fn slot_ready(
        &mut self,
        id: &AttemptId,
        is_set_up: bool,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        if sit.is_ending() {
            let end = PendingResult::cut_off(Outcome::Cancelled, Duration::ZERO);
            return attempt.close(end);
        }
        if attempt.setup.is_empty() || is_set_up {
            return attempt.start_agent();
        }
        attempt.start_setup()
    }

    /// Gives an attempt another slot.
    pub(super) fn slot_kept(
        &mut self,
        id: &AttemptId,
        reason: SlotReason,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let SlotReason { slot, why } = reason;
        let kept = RunCommand::Emit(None, Box::new(AttemptEvent::SlotKept { slot, why }.into()));
        if sit.is_ending() {
            let end = PendingResult::cut_off(Outcome::Cancelled, Duration::ZERO);
            return [vec![kept], attempt.close(end)].concat();
        }
        vec![kept, RunCommand::Slot(id.clone(), SlotCommand::Reassign)]
    }

    /// Closes an attempt that could not start.
    pub(super) fn not_started(
        &mut self,
        id: &AttemptId,
        end: PendingResult,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        // The stop of the run may have stopped that step, too.
        attempt.close(if sit.is_ending() {
            PendingResult::cut_off(Outcome::Cancelled, Duration::ZERO)
        } else {
            end
        })
    }

    /// Starts the step after the commands whose changes are taken as given.
    pub(super) fn taken_as_given(&mut self, id: &AttemptId) -> Vec<RunCommand> {
        self.get_mut(id).map_or_else(Vec::new, OpenAttempt::go_on)
    }

    /// Starts the step after the end of a process.
    pub(super) fn process_ended(
        &mut self,
        id: &AttemptId,
        end: ProcessEnd,
        sit: &Situation<'_>,
    ) -> Next {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new().into();
        };
        let (mut process, result) = match mem::take(&mut attempt.phase) {
            AttemptPhase::Working(process) => (process, None),
            AttemptPhase::Verifying(process, result)
            | AttemptPhase::Queued(Some(process), result) => (process, Some(result)),
            phase @ (AttemptPhase::Preparing
            | AttemptPhase::Collecting(_)
            | AttemptPhase::Judging
            | AttemptPhase::Queued(None, _)
            | AttemptPhase::Keeping(..)) => {
                attempt.phase = phase;
                return Vec::new().into();
            }
        };
        let watch = process.watch.take();
        // Without the time for which everything was suspended.
        let started = watch.as_ref().map(|watch| watch.limits().started);
        let took = started.map_or(end.took, |at| sit.now.saturating_duration_since(at));
        let end = ProcessEnd { took, ..end };
        // Why `ralph` ended it is more precise than how it exited, which is not known of a lost one.
        let is_lost = matches!(end.outcome, Some(Outcome::Lost { .. }));
        let ours = watch.as_ref().and_then(|watch| watch.ending().cloned());
        let ours = ours.filter(|ours| !(is_lost && matches!(ours, Outcome::Lingered { .. })));
        let outcome = ours.or(end.outcome.clone()).unwrap_or_else(|| arrival::unguarded(id, sit));
        if process.recovers && outcome == Outcome::Cancelled && sit.is_stopping() {
            // Its record stays, and the next run asks again.
            self.open.retain(|open| open.id != *id);
            return Vec::new().into();
        }
        if let Some(fault) = arrival::place_fault(&process, &outcome, &end, id, sit) {
            return self.withdraw(id, fault, sit).into();
        }
        let Some(purpose) = process.purpose else {
            let waited = watch.is_some_and(|watch| watch.children_ended());
            let ended = (waited && end.outcome.is_some())
                .then(|| attempt.emit(AttemptEvent::ChildrenEnded { attempt: id.attempt }));
            let end = ProcessEnd { outcome: Some(outcome), ..end };
            attempt.phase = AttemptPhase::Collecting(None);
            let collect = RunCommand::Collect(id.clone(), Box::new(end));
            return ended.into_iter().chain([collect]).collect::<Vec<_>>().into();
        };
        if purpose == CheckPurpose::Verify && outcome == Outcome::Cancelled && sit.is_stopping() {
            return self.postponed(id).into();
        }
        let is_lost = matches!(outcome, Outcome::Lost { .. });
        let verifies = matches!(purpose, CheckPurpose::Verify | CheckPurpose::Trial(_));
        if is_lost && verifies && process.may_repeat() && !sit.is_ending() {
            return attempt.repeat_check(process, result.unwrap_or_default()).into();
        }
        let is_trial = matches!(purpose, CheckPurpose::Trial(_));
        let is_over = is_lost && (!is_trial || sit.is_ending());
        let cut_off = is_over || matches!(outcome, Outcome::Cancelled | Outcome::Interrupted);
        if cut_off && purpose != CheckPurpose::Verify {
            if is_trial {
                attempt.phase = AttemptPhase::Queued(None, result.unwrap_or_default());
                let postponed = CheckEvent::VerifyPostponed { attempt: id.attempt };
                let postponed = sit.is_stopping().then(|| attempt.emit(postponed));
                let commands = postponed.into_iter().collect();
                return Next::Tried { id: id.clone(), commands, done: None, crowded: false };
            }
            return attempt.close(PendingResult::cut_off(outcome, end.took)).into();
        }
        process.crowded |= sit.proves;
        attempt.check_ended((process, purpose), result, outcome, end)
    }

    /// Leaves an attempt whose work is verified to the next run: its record stays.
    pub(super) fn postponed(&mut self, id: &AttemptId) -> Vec<RunCommand> {
        let at = self.open.iter().position(|open| open.id == *id);
        let postponed = CheckEvent::VerifyPostponed { attempt: id.attempt };
        at.map_or_else(Vec::new, |at| vec![self.open.remove(at).emit(postponed)])
    }

    /// Waits for the processes that an agent left running after its report, or kills them.
    pub(super) fn process_left(
        &mut self,
        id: &AttemptId,
        left: ChildrenLeft,
        reported: bool,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let kill = vec![RunCommand::Process(id.clone(), ProcessOrder::Kill)];
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let waiting = attempt.emit(AttemptEvent::WaitingForChildren(left.clone()));
        let Some(AttemptProcess { purpose, watch: Some(watch), left: members, .. }) =
            attempt.process_mut()
        else {
            return Vec::new();
        };
        *members = Some(left);
        if watch.waits_for_children() {
            return Vec::new();
        }
        let graces = sit.graces;
        let never_waits = graces.children.is_zero() && graces.on_orphans == Orphans::Kill;
        if purpose.is_some() || !reported || never_waits || watch.is_ending() {
            return kill;
        }
        watch.wait_for_children(sit.now, graces.children);
        vec![waiting]
    }

    /// Records whether an agent has given its final result.
    pub(super) fn final_result(&mut self, id: &AttemptId, busy: Option<bool>, sit: &Situation<'_>) {
        if let Some(watch) = self.get_mut(id).and_then(OpenAttempt::watch_mut) {
            watch.final_result(busy, sit.now, sit.graces.exit);
        }
    }

    /// Limits the time that an agent has to exit after its report.
    pub(super) fn reported(&mut self, id: &AttemptId, sit: &Situation<'_>) {
        let process = self.get_mut(id).and_then(OpenAttempt::process_mut);
        let agent = process.filter(|process| process.purpose.is_none());
        if let Some(watch) = agent.and_then(|process| process.watch.as_mut()) {
            watch.reported(sit.now, sit.graces.exit);
        }
    }

    /// Ends every process that has reached a limit.
    pub(super) fn enforce(&mut self, sit: &Situation<'_>) -> Vec<RunCommand> {
        let mut commands = Vec::new();
        for attempt in &mut self.open {
            let id = attempt.id.clone();
            let watch = attempt.watch_mut();
            let Some(reached) = watch.and_then(|watch| watch.reached(sit.now, &sit.graces)) else {
                continue;
            };
            match reached {
                LimitReached::Interrupt => {
                    commands.push(RunCommand::Process(id, ProcessOrder::Terminate));
                }
                LimitReached::Grace => commands.push(RunCommand::Process(id, ProcessOrder::Kill)),
                LimitReached::Unanswered => {
                    commands.push(RunCommand::Process(id, ProcessOrder::KillGuardian));
                }
                LimitReached::End(signal, why) => {
                    let event = AttemptEvent::Terminating { attempt: id.attempt, why };
                    commands.extend([signal.command(&id), attempt.emit(event)]);
                }
                LimitReached::Children => {
                    let left = attempt.phase.process().and_then(|it| it.left.clone());
                    let on_orphans = sit.graces.on_orphans;
                    commands.extend(left.map(|left| {
                        attempt.emit(AttemptEvent::ChildrenOverdue { left, on_orphans })
                    }));
                    commands.push(match on_orphans {
                        Orphans::Kill => RunCommand::Process(id, ProcessOrder::Kill),
                        Orphans::Leave => RunCommand::Process(id, ProcessOrder::Spare),
                    });
                }
            }
        }
        commands
    }

    /// Asks every process to end, for an immediate stop of the run.
    pub(super) fn cancel_all(&mut self, sit: &Situation<'_>) -> Vec<RunCommand> {
        let end = |open: &mut OpenAttempt| open.end_process(Outcome::Cancelled, sit);
        self.open.iter_mut().filter_map(end).collect()
    }

    /// Gives every process time to end by itself, after SIGTERM to the run.
    pub(super) fn cancel_later(&mut self, sit: &Situation<'_>) {
        let at = *self.cancel_at.insert(sit.now + sit.graces.term);
        self.watches_mut().for_each(|watch| watch.cancel_at(at));
    }

    /// Whether processes have time to end by themselves after SIGTERM to the run.
    pub(super) fn has_time(&self, now: Instant) -> bool {
        self.cancel_at.is_some_and(|at| now < at)
    }

    /// Kills every process, after the second signal to the run.
    pub(super) fn kill_all(&mut self, sit: &Situation<'_>) -> Vec<RunCommand> {
        let mut commands = Vec::new();
        for open in &mut self.open {
            let id = open.id.clone();
            if let Some(watch) = open.watch_mut() {
                watch.killed(sit.now);
                commands.push(RunCommand::Process(id, ProcessOrder::Kill));
            }
        }
        commands
    }

    /// Extends every limit by this length.
    pub(super) fn postpone(&mut self, length: Duration) {
        self.cancel_at = self.cancel_at.map(|at| at + length);
        self.watches_mut().for_each(|watch| watch.postpone(length));
    }

    fn watches_mut(&mut self) -> impl Iterator<Item = &mut ProcessWatch> {
        self.open.iter_mut().filter_map(OpenAttempt::watch_mut)
    }

    /// Verifies the work of an attempt whose agent has ended, if the other evidence shows that its
    /// task is done.
    pub(super) fn collected(
        &mut self,
        id: &AttemptId,
        mut end: PendingResult,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        if let AttemptPhase::Collecting(landed @ Some(_)) = &mut attempt.phase {
            end.evidence = landed.take().map(|it| *it).unwrap_or_default();
            return attempt.conclude(end);
        }
        let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
        let done = verdict == Verdict::Complete || sit.may_commit(verdict);
        if !done {
            return attempt.close(end);
        }
        let (outcome, usage) = (end.outcome.clone(), end.usage.clone());
        let duration_seconds = duration::seconds(end.took);
        let ended = AgentEnd { attempt: id.attempt, outcome, duration_seconds, usage };
        let ended = attempt.emit(AttemptEvent::AgentEnded(ended));
        // Also where the task is no longer in the graph: unverified work must not land.
        // Isolated work is verified where it will land.
        let next = if attempt.verify.is_empty() || attempt.target.is_some() {
            attempt.close(end)
        } else {
            attempt.start_verify(end)
        };
        [ended].into_iter().chain(next).collect()
    }

    /// Queues a judged attempt to land, or concludes it.
    pub(super) fn judged(
        &mut self,
        id: &AttemptId,
        end: PendingResult,
        sit: &Situation<'_>,
    ) -> Next {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new().into();
        };
        let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
        if follow_up::may_be_there(attempt, &end, sit) {
            return attempt.start_verify(end).into();
        }
        let lands = verdict == Verdict::Complete && end.evidence.merge.is_none();
        match attempt.target.clone().filter(|_| lands) {
            Some(target) => {
                attempt.phase = AttemptPhase::Queued(None, Box::new(end));
                Next::Queue(id.clone(), target)
            }
            None => follow_up::conclude(self, id, end, sit).into(),
        }
    }

    /// Journals the end of an attempt whose work is saved. The order of the writes is safe against
    /// a crash at any point: the graph, the journal, then the removal of the record.
    pub(super) fn kept(
        &mut self,
        id: &AttemptId,
        pinned: Option<String>,
        unpinned: Vec<String>,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(at) = self.open.iter().position(|open| open.id == *id) else {
            return Vec::new();
        };
        let mut attempt = self.open.remove(at);
        let AttemptPhase::Keeping(verdict, mut end) = mem::take(&mut attempt.phase) else {
            return Vec::new();
        };
        let number = sit.view.graph.number(&id.task_id);
        let mut why = verdict.explain(&end.outcome, &end.evidence);
        if number.is_none() {
            why += "; the task is no longer in the graph";
        }
        let believed = verdict == Verdict::Complete || end.evidence.report.is_none();
        end.evidence.leftovers.truncate(LEFTOVERS);
        let promised = mem::take(&mut end.promised);
        let active = sit.view.history.active.of(&id.task_id);
        let continued = active.map_or_else(Vec::new, |active| active.continued.clone());
        let ended = AttemptResult {
            why,
            duration_seconds: duration::seconds(end.took),
            evidence: Box::new(end.evidence),
            agent: attempt.agent.clone(),
            usage: end.usage,
            tools: end.tools,
            last_line: end.last_line,
            swept: end.swept,
            unlocked: end.unlocked,
            pinned,
            unpinned,
            log: attempt.log.clone(),
            continued,
            ..AttemptResult::new(id.attempt, verdict, end.outcome)
        };
        let mut past = sit.view.history.of(&id.task_id).clone();
        if verdict.counts() {
            past.count_failure(&ended);
        }
        let is_out = number.is_some_and(|number| sit.view.is_out_of_attempts(number, &past));
        let parks = (verdict.counts() && is_out) || ended.needs_person();
        let mut status = number.map(|number| sit.view.graph.task(number).status);
        let mut commands = Vec::new();
        if let Some((write, cause)) = status.and_then(|was| StatusWrite::after(verdict, parks, was))
        {
            status = Some(write.status());
            let task_id = id.task_id.clone();
            commands.push(RunCommand::WriteStatus(task_id, attempt.iteration, write, cause));
        }
        commands.push(attempt.emit(Event::Ended(ended)));
        if promised {
            let is_open = |n: usize| {
                // The new status of its own task is not in the graph yet.
                let own = status.filter(|_| Some(n) == number);
                !own.unwrap_or(sit.view.graph.task(n).status).is_over()
            };
            let kept = sit.trusts_promises || !sit.view.admitted().any(is_open);
            commands.push(attempt.emit(AttemptEvent::Promised { attempt: id.attempt, kept }));
        }
        if parks {
            commands.push(attempt.emit(AttemptEvent::Parked { attempts: past.counted }));
        }
        commands.push(RunCommand::Release { id: id.clone(), believed });
        commands.push(RunCommand::SetHolder(None));
        commands.push(RunCommand::AfterAttempt(id.clone()));
        commands
    }
}

/// The most leftover paths to journal. A build folder that git does not ignore has thousands.
const LEFTOVERS: usize = 50;
