//! The decisions of a run.
//!
//! A run consists of the open attempts, the merge queue and the signals. Each part takes inputs and
//! returns commands. The runner executes the commands and reports each result as another input.
//! This module does no I/O, so a simulation drives the same code.
//!
//! Only the history has the states of the attempts. It follows from the events that the commands
//! journal.

pub mod attempts;
pub mod command;
pub mod input;
pub mod landing;
pub mod open_attempt;
pub mod process_watch;
mod simulation;
pub mod verified_work;

use std::{
    mem,
    time::{Duration, Instant},
};

use attempts::Attempts;
use command::{AttemptId, PendingResult, RunCommand, StatusWrite};
use input::Input;
use landing::{EndedLanding, LandingNext, LandingQueue, QueuedWork, TrialChecks};
use open_attempt::{AttemptPhase, Next, OpenAttempt};
use process_watch::GracePeriods;

use crate::{
    commit_id::CommitId,
    event::{Cause, LandingEvent, RequestEvent, StopReason, StopRequest},
    graph::{
        TaskGraph,
        task::{Status, TaskId},
    },
    select::{Active, Decision, View},
    verdict::{CheckResult, Verdict},
};

/// The facts for a decision.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent facts")]
pub struct Situation<'a> {
    /// The graph, the history and the rules.
    pub view: View<'a>,
    /// The time.
    pub now: Instant,
    /// The grace periods.
    pub graces: GracePeriods,
    /// Whether `ralph` commits the leftovers of verified attempts.
    pub autocommit: bool,
    /// Whether the promise of an agent that everything is done is trusted.
    pub trusts_promises: bool,
    /// Whether the folder of a plain loop contains the file `DONE`.
    pub done_file: bool,
    /// Whether verify commands run one at a time.
    pub one_check: bool,
    /// Whether a proof runs verify commands.
    pub proves: bool,
    /// How many pieces of work the merge queue verifies at once.
    pub queue_width: usize,
}

impl Situation<'_> {
    /// Whether the run is about to end, so that no longer work may start.
    pub fn is_ending(&self) -> bool {
        let stop = self.view.history.run.stop.as_ref();
        self.view.policy.stop.is_some() || stop.is_some_and(|stop| stop.now)
    }

    /// Whether the run was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.view.policy.stop.is_some() || self.view.history.run.stop.is_some()
    }

    /// Whether `ralph` commits the leftovers of an attempt with this verdict.
    pub fn may_commit(&self, verdict: Verdict) -> bool {
        let is_done = matches!(verdict, Verdict::Complete | Verdict::Uncommitted);
        // A plain loop in the checkout keeps its files as its agents left them.
        let policy = self.view.policy;
        is_done && self.autocommit && (policy.plain.is_none() || policy.is_isolated())
    }
}

/// The signals that asked a run to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Requests {
    signals: u32,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    attempts: Attempts,
    landing: LandingQueue,
    requests: Requests,
}

/// An open attempt in the form that the selection of the next task needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWork {
    /// The task.
    pub task_id: TaskId,
    agent: Option<String>,
    /// Whether it counts towards `jobs` and the limits.
    pub works: bool,
}

impl OpenWork {
    /// Converts these to numbers in the graph. An attempt stays open after its task was removed from
    /// the graph, and the run waits for it.
    pub fn active<'a>(open: &'a [OpenWork], graph: &TaskGraph) -> Vec<Active<'a>> {
        let active = |open: &'a OpenWork| Active {
            number: graph.number(&open.task_id),
            agent: open.agent.as_deref(),
            works: open.works,
        };
        open.iter().map(active).collect()
    }
}

/// The next step of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunDecision {
    /// Execute these commands.
    Act(Vec<RunCommand>),
    /// Take a step of the merge queue with this target branch.
    Land(String),
    /// Follow the selection: start an attempt, wait or stop.
    Select(Decision),
}

impl Run {
    /// The open attempts.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Gives the work for a branch that was renamed its new name. Nothing is being tried.
    pub fn rename_branch(&mut self, from: &str, to: &str) {
        let open: Vec<AttemptId> = self.attempts.open().iter().map(|it| it.id.clone()).collect();
        for id in open {
            let open = self.attempts.get_mut(&id);
            if let Some(target) =
                open.and_then(|open| open.target.as_mut()).filter(|it| *it == from)
            {
                to.clone_into(target);
            }
        }
        self.landing.rename_branch(from, to);
    }

    /// The merge queue.
    pub fn landing(&self) -> &LandingQueue {
        &self.landing
    }

    /// The number of signals that asked it to stop.
    pub fn signals(&self) -> u32 {
        self.requests.signals
    }

    /// Whether queued work may land in a run that a signal ends: it has the time that SIGTERM gives
    /// to attempts, unless something blocks landing.
    pub fn lands_last(&self, now: Instant) -> bool {
        self.requests.signals == 1 && self.attempts.has_time(now) && self.landing.held().is_none()
    }

    /// Whether queued work may land.
    fn lands(&self, sit: &Situation<'_>) -> bool {
        let stops_now = sit.view.history.run.stop.as_ref().is_some_and(|stop| stop.now);
        !sit.is_ending() || (!stops_now && self.lands_last(sit.now))
    }

    /// Returns the open attempts for the selection of the next task. `lands` says whether queued
    /// work may land.
    pub fn open_work(&self, lands: bool, jobs: usize) -> Vec<OpenWork> {
        let queued: Vec<&AttemptId> = self.landing.queued().collect();
        let is_queued = |open: &&OpenAttempt| queued.contains(&&open.id);
        let at_work = self.attempts.open().iter().filter(|open| !is_queued(open));
        // Queued attempts that do not land any more are left to the next run.
        let waits = lands || self.landing.is_trying();
        let waiting = queued.iter().filter(|_| waits).filter_map(|id| self.attempts.get(id));
        // The last of `jobs` queued attempts counts as working, so that attempts do not run far
        // ahead of the queue; with one job, each starts from the work of the one before.
        let is_held = self.landing.held().is_some();
        // Until something has passed, the branch may be red already, and each start may be for nothing.
        let is_unsure = self.landing.is_unsure();
        let waiting = waiting.enumerate().map(|(at, open)| {
            (open, if is_held { at >= jobs } else { is_unsure || at + 1 >= jobs })
        });
        at_work
            .map(|open| (open, true))
            .chain(waiting)
            .map(|(open, works)| {
                let (task_id, agent) = (open.id.task_id.clone(), open.agent.clone());
                OpenWork { task_id, agent, works }
            })
            .collect()
    }

    /// Decides the next step.
    pub fn decide(
        &mut self,
        sit: &Situation<'_>,
        now: chrono::DateTime<chrono::Utc>,
    ) -> RunDecision {
        if sit.view.history.run.stop.as_ref().is_some_and(|stop| stop.now) {
            let commands = self.attempts.cancel_all(sit);
            if !commands.is_empty() {
                return RunDecision::Act(commands);
            }
        }
        if let Some(next) = self.attempts.next_turn(sit) {
            return RunDecision::Act(self.go_on(next, sit));
        }
        if let Some(done) = self.done(sit) {
            return RunDecision::Act(vec![done]);
        }
        let is_alone = self.has_only_queued();
        if self.lands(sit)
            && let Some(branch) = self.landing.due(is_alone, sit)
        {
            return RunDecision::Land(branch.to_owned());
        }
        let selected = sit.view.decide(now);
        // Other tasks continue while the queued work needs a person.
        let goes_on = match &selected {
            Decision::Start(_) => true,
            Decision::Wait(wait) => wait.until.is_some(),
            Decision::Stop(_) => false,
        };
        let selected = match self.stuck(sit).filter(|_| !goes_on) {
            Some(stop) => Decision::Stop(stop),
            None => selected,
        };
        RunDecision::Select(selected)
    }

    /// Completes a plain loop whose folder has a file `DONE` between two iterations.
    fn done(&self, sit: &Situation<'_>) -> Option<RunCommand> {
        let plain = sit.view.policy.plain.as_ref().filter(|_| sit.done_file)?;
        let number = sit.view.graph.number(&plain.name)?;
        let is_open = sit.view.graph.task(number).status != Status::Complete;
        (is_open && !self.attempts.any_process()).then(|| {
            let (id, iteration) = (plain.name.clone(), sit.view.history.run.iterations);
            RunCommand::WriteStatus(id, iteration, StatusWrite::Complete, Cause::DoneFile)
        })
    }

    /// The reason to stop if only queued work is left and a person has to unblock landing.
    fn stuck(&self, sit: &Situation<'_>) -> Option<StopReason> {
        let held = self.landing.held().filter(|_| self.has_only_queued())?;
        (!sit.view.policy.wait && !sit.is_ending()).then(|| StopReason::MergeHeld(held.clone()))
    }

    /// Whether every open attempt is queued to land.
    fn has_only_queued(&self) -> bool {
        let queued: Vec<&AttemptId> = self.landing.queued().collect();
        self.attempts.open().iter().all(|open| queued.contains(&&open.id))
    }

    /// Takes a step of the merge queue, which builds on `tip`.
    pub fn land(&mut self, tip: Option<&CommitId>, sit: &Situation<'_>) -> Vec<RunCommand> {
        let is_alone = self.has_only_queued();
        let next = self.landing.step(tip, is_alone, sit);
        self.go_on_landing(next, sit)
    }

    /// Handles an input and returns the commands that follow.
    pub fn handle(&mut self, input: Input, sit: &Situation<'_>) -> Vec<RunCommand> {
        let commands = self.answer(input, sit);
        self.attempts.in_turn(commands, sit)
    }

    fn answer(&mut self, input: Input, sit: &Situation<'_>) -> Vec<RunCommand> {
        let attempts = &mut self.attempts;
        match input {
            Input::Recorded(attempt, started) => attempts.begin(*attempt, *started),
            Input::Found(found) => attempts.found(*found, sit),
            Input::SlotReady { id, is_set_up } => attempts.slot_ready(&id, is_set_up, sit),
            Input::SlotKept(id, why) => attempts.slot_kept(&id, why, sit),
            Input::TakenAsGiven(id) => attempts.taken_as_given(&id),
            Input::BadBase(id, why) => attempts.not_started(&id, PendingResult::bad_base(why), sit),
            Input::NotStarted(id, error) => {
                attempts.not_started(&id, PendingResult::not_started(error), sit)
            }
            Input::ProcessStarted(id, limits, start) => {
                attempts.process_started(&id, limits, start, sit)
            }
            Input::ProcessArrived(id, limits, placement) => {
                attempts.process_arrived(&id, limits, placement, sit)
            }
            Input::ProcessFetching(id) => attempts.process_fetching(&id),
            Input::ProcessAwaits { id, run_on, why } => {
                attempts.process_awaits(&id, run_on, why, sit)
            }
            Input::Unanswered { id, run_on, why } => attempts.unanswered(&id, run_on, why, sit),
            Input::Contact(id, since) => attempts.contact(&id, since, sit.now),
            Input::Unreachable { id, fault } => attempts.withdraw(&id, fault, sit),
            Input::ProcessEnded(id, end) => {
                let next = attempts.process_ended(&id, *end, sit);
                self.go_on(next, sit)
            }
            Input::ProcessLeft { id, left, reported } => {
                attempts.process_left(&id, left, reported, sit)
            }
            Input::ProcessIdle(id, changed) => attempts.process_idle(&id, changed, sit),
            Input::FinalResult(id, busy) => {
                attempts.final_result(&id, busy, sit);
                Vec::new()
            }
            Input::EndAgent(id, why) => {
                attempts.get_mut(&id).map_or_else(Vec::new, |attempt| attempt.end_agent(why, sit))
            }
            Input::Reported(id) => {
                attempts.reported(&id, sit);
                Vec::new()
            }
            Input::Collected(id, end) => attempts.collected(&id, *end, sit),
            Input::Judged(id, end) => {
                let next = attempts.judged(&id, *end, sit);
                self.go_on(next, sit)
            }
            Input::VerifyFirst(id, end) => {
                attempts.get_mut(&id).map_or_else(Vec::new, |attempt| attempt.start_verify(*end))
            }
            Input::Postponed(id) => attempts.postponed(&id),
            Input::Kept { id, pinned, unpinned } => attempts.kept(&id, pinned, unpinned, sit),
            Input::Built(id, built) => {
                let lands = self.lands(sit);
                let next = self.landing.built(&id, built, lands, sit);
                self.go_on_landing(next, sit)
            }
            Input::Landed(landed) => {
                let next = self.landing.landed(landed, sit);
                self.go_on_landing(next, sit)
            }
            Input::Signal(number, name) => self.signalled(number, name, sit),
            Input::StoodStill(length) => {
                attempts.postpone(length);
                Vec::new()
            }
            Input::Tick => attempts.enforce(sit),
        }
    }

    fn go_on(&mut self, next: Next, sit: &Situation<'_>) -> Vec<RunCommand> {
        match next {
            Next::Commands(commands) => commands,
            Next::Queue(id, target) => {
                let Some(attempt) = self.attempts.get(&id) else {
                    return Vec::new();
                };
                let waiting = self.landing.push(QueuedWork {
                    id: id.clone(),
                    iteration: attempt.iteration,
                    target,
                    setup: attempt.setup.clone(),
                    verify: attempt.verify.clone(),
                    own: attempt.own_checks.clone(),
                    is_fresh: false,
                    flaky: 0,
                    after: Vec::new(),
                });
                vec![attempt.emit(LandingEvent::Queued { attempt: id.attempt, waiting })]
            }
            Next::Tried { id, mut commands, done, crowded } => {
                let next = self.landing.verified(&id, done, crowded, sit);
                commands.extend(self.go_on_landing(next, sit));
                commands
            }
        }
    }

    fn go_on_landing(&mut self, next: LandingNext, sit: &Situation<'_>) -> Vec<RunCommand> {
        let LandingNext { mut commands, ended, verify, cancel } = next;
        for id in cancel {
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            let (has_ended, end) = attempt.end_trial(sit);
            commands.extend(end);
            if has_ended {
                self.landing.has_ended(&id);
            }
        }
        for EndedLanding { id, landing } in ended {
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            let AttemptPhase::Queued(_, end) = mem::take(&mut attempt.phase) else { continue };
            let mut end = *end;
            end.took += landing.checks.iter().map(CheckResult::took).sum();
            landing.complete(&mut end.evidence);
            commands.extend(attempts::follow_up::conclude(&mut self.attempts, &id, end, sit));
        }
        if let Some(TrialChecks { id, run, commands: checks, alone }) = verify
            && let Some(attempt) = self.attempts.get_mut(&id)
        {
            commands.extend(attempt.start_trial(run, checks, alone));
        }
        commands
    }

    /// Handles a signal. The first one stops the run: Ctrl-C ends the attempts, TERM gives
    /// them time to end by themselves. The second one kills them. The third one ends the program;
    /// guardians end the remaining processes, and the next run closes the attempts.
    fn signalled(
        &mut self,
        number: i32,
        name: &'static str,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        self.requests.signals += 1;
        match self.requests.signals {
            1 => {
                let now = name != TERM;
                if !now {
                    self.attempts.cancel_later(sit);
                }
                let stop = StopRequest { signal: Some(name.to_owned()), limit: None, now };
                vec![RunCommand::Emit(None, Box::new(RequestEvent::StopRequested(stop).into()))]
            }
            2 => self.attempts.kill_all(sit),
            _ => vec![RunCommand::Abandon(number)],
        }
    }

    /// The time until a limit is reached or a step of the merge queue is due; `lands` says whether
    /// queued work may land.
    pub fn patience(&self, now: Instant, lands: bool) -> Option<Duration> {
        let landing = self.landing.patience(now).filter(|_| lands);
        let limits = [self.attempts.patience(now), landing];
        limits.into_iter().flatten().min()
    }
}

/// The signal that gives attempts time to end by themselves.
const TERM: &str = "SIGTERM";
