//! The open attempts of a run: what each does next when something of it ends.

use std::{
    mem,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};

use super::{
    Situation,
    command::{
        AttemptId, CheckPurpose, Command, FoundAttempt, PendingResult, ProcessEnd, StatusWrite,
        WorktreeReason,
    },
    process_watch::{LimitReached, ProcessLimits, ProcessWatch},
};
use crate::core::{
    duration,
    event::{AttemptResult, Cause, ChildrenLeft, Event, Orphans},
    graph::task::Status,
    verdict::{CheckResult, Evidence, Outcome, Rule, Verdict},
};

/// An attempt that has not ended.
///
/// Where it stands is not held here: the history holds that. This is what the next step needs.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenAttempt {
    /// Which attempt.
    pub id: AttemptId,
    /// Its number in the run.
    pub iteration: u32,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The name under which its task is claimed.
    pub claimant: String,
    /// The branch that its work lands on, if it is isolated.
    pub target: Option<String>,
    /// The commit it started from.
    pub base: Option<String>,
    /// The name of its agent.
    pub agent: Option<String>,
    /// Its folder, relative to the repository.
    pub log: String,
    /// The commands that prepare its worktree.
    pub setup: Vec<String>,
    /// The verify commands to run before its agent starts.
    pub baseline: Vec<String>,
    /// The verify commands to run after its agent ended.
    pub verify: Vec<String>,
    /// What it must show to be complete.
    pub rule: Rule,
    /// Its process, while it has one.
    pub process: Option<AttemptProcess>,
    /// What is known of its end, once its agent is gone.
    pub end: Option<PendingResult>,
}

/// The process of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptProcess {
    /// What the command is for; none for the agent.
    pub purpose: Option<CheckPurpose>,
    /// The commands of this purpose.
    commands: Vec<String>,
    /// The results of those that have run.
    done: Vec<CheckResult>,
    /// Its limits, once it runs.
    pub watch: Option<ProcessWatch>,
    /// What its agent left behind and is waited for.
    left: Option<ChildrenLeft>,
}

/// What follows from the end of a process or from a judgement.
#[derive(Debug)]
pub(super) enum Next {
    /// These commands.
    Commands(Vec<Command>),
    /// The work of the attempt is to land on this branch.
    Queue(AttemptId, String),
    /// The trial of the merge queue that this attempt leads has run; its results, none if it was
    /// cut off.
    Tried(Option<Vec<CheckResult>>),
}

impl From<Vec<Command>> for Next {
    fn from(commands: Vec<Command>) -> Next {
        Next::Commands(commands)
    }
}

impl OpenAttempt {
    /// An event about it as a command.
    pub(super) fn emit(&self, event: Event) -> Command {
        let about = (self.id.task_id.clone(), self.iteration);
        Command::Emit(Some(about), Box::new(event))
    }

    fn start_agent(&mut self) -> Vec<Command> {
        self.process = Some(AttemptProcess {
            purpose: None,
            commands: Vec::new(),
            done: Vec::new(),
            watch: None,
            left: None,
        });
        vec![Command::StartAgent(self.id.clone())]
    }

    /// Starts the first process that is not preparation.
    fn start_first(&mut self) -> Vec<Command> {
        if self.baseline.is_empty() {
            return self.start_agent();
        }
        let commands = self.baseline.clone();
        self.start_checks(CheckPurpose::Baseline, commands)
    }

    /// Starts the first of these commands.
    pub(super) fn start_checks(
        &mut self,
        purpose: CheckPurpose,
        commands: Vec<String>,
    ) -> Vec<Command> {
        let purpose = Some(purpose);
        self.process =
            Some(AttemptProcess { purpose, commands, done: Vec::new(), watch: None, left: None });
        self.start_check()
    }

    /// Starts the next of its commands.
    fn start_check(&mut self) -> Vec<Command> {
        let Some(AttemptProcess { purpose: Some(purpose), commands, done, .. }) = &self.process
        else {
            return Vec::new();
        };
        let (purpose, number, attempt) = (*purpose, done.len() + 1, self.id.attempt);
        let command = commands[done.len()].clone();
        let log = format!("{}/{}-{number}.log", self.log, purpose.log_name());
        let event = match purpose {
            CheckPurpose::Setup => Event::SettingUp { attempt, command: command.clone(), log },
            CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial => {
                let baseline = purpose == CheckPurpose::Baseline;
                Event::Verifying { attempt, command: command.clone(), baseline, log }
            }
        };
        let start = Command::StartCheck(self.id.clone(), purpose, number, command);
        vec![self.emit(event), start]
    }

    /// Ends its process with this outcome, if it has one that is not being ended.
    fn end_process(&mut self, outcome: Outcome, sit: &Situation<'_>) -> Option<Command> {
        let watch = self.process.as_mut()?.watch.as_mut().filter(|watch| !watch.is_ending())?;
        watch.end(outcome, sit.now + sit.graces.kill);
        Some(Command::Terminate(self.id.clone()))
    }

    /// Takes in the result of a command: the next one follows, or what they were for is done.
    fn check_ended(
        &mut self,
        mut process: AttemptProcess,
        purpose: CheckPurpose,
        outcome: Outcome,
        end: ProcessEnd,
    ) -> Next {
        let took = end.took;
        let check = CheckResult {
            command: process.commands[process.done.len()].clone(),
            outcome,
            duration_seconds: duration::seconds(took),
            last_line: end.last_line,
            log: end.log,
        };
        let is_green = check.is_green();
        process.done.push(check.clone());
        let mut commands = match purpose {
            CheckPurpose::Setup => Vec::new(),
            CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial => {
                let event =
                    if is_green { Event::Verified(check) } else { Event::VerifyFailed(check) };
                vec![self.emit(event)]
            }
        };
        if let (CheckPurpose::Verify, Some(end)) = (purpose, &mut self.end) {
            end.took += took;
        }
        if is_green && process.done.len() < process.commands.len() {
            self.process = Some(process);
            commands.extend(self.start_check());
            return commands.into();
        }
        match purpose {
            CheckPurpose::Trial => return Next::Tried(Some(process.done)),
            CheckPurpose::Setup | CheckPurpose::Baseline if is_green => {
                commands.push(Command::TakeAsGiven(self.id.clone()));
                commands.extend(match purpose {
                    CheckPurpose::Setup => self.start_first(),
                    CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial => {
                        self.start_agent()
                    }
                });
            }
            CheckPurpose::Setup => {
                let setup = process.done.pop();
                let evidence = Evidence { setup, ..Evidence::default() };
                let end = PendingResult::not_started("setup failed".to_owned());
                commands.extend(self.close(PendingResult { took, evidence, ..end }));
            }
            CheckPurpose::Baseline => {
                let evidence = Evidence { verify: process.done, ..Evidence::default() };
                let end = PendingResult::not_started("baseline broken".to_owned());
                commands.extend(self.close(PendingResult { took, evidence, ..end }));
            }
            CheckPurpose::Verify => {
                let mut end = self.end.take().unwrap_or_default();
                end.evidence.verify = process.done;
                commands.extend(self.close(end));
            }
        }
        commands.into()
    }

    /// Has it judged.
    fn close(&mut self, end: PendingResult) -> Vec<Command> {
        vec![Command::Judge(self.id.clone(), Box::new(end))]
    }

    /// Has kept what it left; its end is journalled after that.
    pub(super) fn conclude(&mut self, end: PendingResult) -> Vec<Command> {
        let verdict = Verdict::of(&end.outcome, &end.evidence, self.rule);
        let evidence = Box::new(end.evidence.clone());
        self.end = Some(end);
        vec![Command::Keep(self.id.clone(), verdict, evidence)]
    }
}

/// The open attempts of a run.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    open: Vec<OpenAttempt>,
}

impl Attempts {
    /// Those that have not ended, in the order in which they started.
    pub fn open(&self) -> &[OpenAttempt] {
        &self.open
    }

    /// Returns one of them.
    pub fn get(&self, id: &AttemptId) -> Option<&OpenAttempt> {
        self.open.iter().find(|open| open.id == *id)
    }

    pub(super) fn get_mut(&mut self, id: &AttemptId) -> Option<&mut OpenAttempt> {
        self.open.iter_mut().find(|open| open.id == *id)
    }

    /// How long until a limit of a process is reached.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        self.watches().map(|watch| watch.patience(now)).min()
    }

    fn watches(&self) -> impl Iterator<Item = &ProcessWatch> {
        self.open.iter().filter_map(|open| open.process.as_ref()?.watch.as_ref())
    }

    /// Whether any process runs.
    pub fn any_process(&self) -> bool {
        self.watches().next().is_some()
    }

    /// Claims the task of a recorded attempt and starts its first step.
    pub(super) fn begin(&mut self, mut attempt: OpenAttempt, started: Event) -> Vec<Command> {
        let task_id = attempt.id.task_id.clone();
        let claim = StatusWrite::Claim { at: attempt.started_at, by: attempt.claimant.clone() };
        let mut commands = vec![
            Command::SetHolder(Some(task_id.clone())),
            Command::WriteStatus(task_id, attempt.iteration, claim, Cause::Claimed),
            Command::KeepGraph,
            attempt.emit(started),
        ];
        if attempt.target.is_some() {
            commands.push(Command::PrepareWorktree(attempt.id.clone()));
        } else {
            commands.extend(attempt.start_first());
        }
        self.open.push(attempt);
        commands
    }

    /// Goes on with an attempt that an earlier run left open.
    pub(super) fn found(&mut self, found: FoundAttempt, sit: &Situation<'_>) -> Vec<Command> {
        let FoundAttempt { mut attempt, from_run, outcome, took, swept, landed } = found;
        let id = attempt.id.clone();
        let last = sit.view.history.of(&id.task_id).last.as_ref();
        if let Some(last) = last.filter(|last| last.ended.attempt >= id.attempt) {
            let AttemptResult { verdict, evidence, .. } = &last.ended;
            let believed = *verdict == Verdict::Complete || evidence.report.is_none();
            return vec![Command::Release { id, verdict: *verdict, believed }];
        }
        let recovered = attempt.emit(Event::Recovered { attempt: id.attempt, from_run });
        if landed.is_some() {
            let evidence = Evidence { merge: landed, ..Evidence::default() };
            attempt.end = Some(PendingResult { evidence, ..PendingResult::default() });
        }
        self.open.push(attempt);
        let end = ProcessEnd { outcome: Some(outcome), took, swept, ..ProcessEnd::default() };
        vec![recovered, Command::Collect(id, Box::new(end))]
    }

    /// Starts the next step of an attempt whose worktree is ready.
    pub(super) fn worktree_ready(&mut self, id: &AttemptId, sit: &Situation<'_>) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        if sit.is_ending() {
            let end = PendingResult::cut_off(Outcome::Cancelled, Duration::ZERO);
            return attempt.close(end);
        }
        if attempt.setup.is_empty() {
            return attempt.start_first();
        }
        let commands = attempt.setup.clone();
        attempt.start_checks(CheckPurpose::Setup, commands)
    }

    /// Gives an attempt another worktree.
    pub(super) fn worktree_kept(
        &mut self,
        id: &AttemptId,
        reason: WorktreeReason,
        sit: &Situation<'_>,
    ) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let WorktreeReason { worktree, why } = reason;
        let kept = Command::Emit(None, Box::new(Event::WorktreeKept { worktree, why }));
        if sit.is_ending() {
            let end = PendingResult::cut_off(Outcome::Cancelled, Duration::ZERO);
            return [vec![kept], attempt.close(end)].concat();
        }
        vec![kept, Command::ReassignWorktree(id.clone())]
    }

    /// Closes an attempt that could not start.
    pub(super) fn not_started(&mut self, id: &AttemptId, error: String) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        attempt.process = None;
        attempt.close(PendingResult::not_started(error))
    }

    /// Notes that the process of an attempt runs.
    pub(super) fn process_started(
        &mut self,
        id: &AttemptId,
        limits: ProcessLimits,
    ) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let Some(process) = &mut attempt.process else {
            return Vec::new();
        };
        process.watch = Some(ProcessWatch::new(limits));
        if process.purpose.is_some() {
            return Vec::new();
        }
        vec![attempt.emit(Event::AgentStarted { attempt: id.attempt })]
    }

    /// Starts what follows the end of a process.
    pub(super) fn process_ended(
        &mut self,
        id: &AttemptId,
        end: ProcessEnd,
        sit: &Situation<'_>,
    ) -> Next {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new().into();
        };
        let Some(mut process) = attempt.process.take() else {
            return Vec::new().into();
        };
        let watch = process.watch.take();
        // What ralph did to it says more than how it died of that.
        let ours = watch.as_ref().and_then(|watch| watch.ending().cloned());
        let outcome = ours.or(end.outcome.clone()).unwrap_or(Outcome::Interrupted);
        let Some(purpose) = process.purpose else {
            let waited = watch.and_then(|watch| watch.children_ended(sit.now));
            let ended = waited.filter(|_| end.outcome.is_some()).map(|waited| {
                let duration_seconds = duration::seconds(waited);
                attempt.emit(Event::ChildrenEnded { attempt: id.attempt, duration_seconds })
            });
            let end = ProcessEnd { outcome: Some(outcome), ..end };
            let collect = Command::Collect(id.clone(), Box::new(end));
            return ended.into_iter().chain([collect]).collect::<Vec<_>>().into();
        };
        if purpose == CheckPurpose::Verify && outcome == Outcome::Cancelled && sit.is_stopping() {
            let postponed = attempt.emit(Event::VerifyPostponed { attempt: id.attempt });
            // Its record stays, and the next run goes on with it.
            self.open.retain(|open| open.id != *id);
            return vec![postponed].into();
        }
        let cut_off = matches!(outcome, Outcome::Cancelled | Outcome::Interrupted);
        if cut_off && purpose != CheckPurpose::Verify {
            if purpose == CheckPurpose::Trial {
                return Next::Tried(None);
            }
            return attempt.close(PendingResult::cut_off(outcome, end.took)).into();
        }
        attempt.check_ended(process, purpose, outcome, end)
    }

    /// Waits for what a reporting agent left behind, or ends it.
    pub(super) fn process_left(
        &mut self,
        id: &AttemptId,
        left: ChildrenLeft,
        reported: bool,
        sit: &Situation<'_>,
    ) -> Vec<Command> {
        let kill = vec![Command::Kill(id.clone())];
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let waiting = attempt.emit(Event::WaitingForChildren(left.clone()));
        let Some(AttemptProcess { purpose, watch: Some(watch), left: members, .. }) =
            &mut attempt.process
        else {
            return Vec::new();
        };
        *members = Some(left);
        if watch.waits_for_children() {
            return Vec::new();
        }
        let graces = sit.graces;
        let in_vain = graces.children.is_zero() && graces.on_orphans == Orphans::Kill;
        if purpose.is_some() || !reported || in_vain || watch.is_ending() {
            return kill;
        }
        watch.wait_for_children(sit.now, graces.children);
        vec![waiting]
    }

    /// Ends a process that shows no sign of life, unless files have changed.
    pub(super) fn process_idle(
        &mut self,
        id: &AttemptId,
        changed: bool,
        sit: &Situation<'_>,
    ) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let watch = attempt.process.as_ref().and_then(|process| process.watch.as_ref());
        let Some(limit) = watch.and_then(|watch| watch.limits().idle) else {
            return Vec::new();
        };
        if changed {
            let is_ending = watch.is_some_and(ProcessWatch::is_ending);
            return if is_ending { Vec::new() } else { vec![Command::KeepAwake(id.clone())] };
        }
        let Some(end) = attempt.end_process(Outcome::Idle { limit_seconds: limit.as_secs() }, sit)
        else {
            return Vec::new();
        };
        let why = format!("it did nothing for {}", duration::short(limit));
        vec![end, attempt.emit(Event::Terminating { attempt: id.attempt, why })]
    }

    /// Notes whether an agent has given its final result.
    pub(super) fn final_result(&mut self, id: &AttemptId, busy: Option<bool>, sit: &Situation<'_>) {
        let watch = self.get_mut(id).and_then(|attempt| attempt.process.as_mut()?.watch.as_mut());
        if let Some(watch) = watch {
            watch.final_result(busy, sit.now, sit.graces.exit);
        }
    }

    /// Ends what is past a limit.
    pub(super) fn enforce(&mut self, sit: &Situation<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        for attempt in &mut self.open {
            let id = attempt.id.clone();
            let watch = attempt.process.as_mut().and_then(|process| process.watch.as_mut());
            let Some(reached) = watch.and_then(|watch| watch.reached(sit.now, &sit.graces)) else {
                continue;
            };
            match reached {
                LimitReached::Grace => commands.push(Command::Kill(id)),
                LimitReached::End(_, why) => {
                    let event = Event::Terminating { attempt: id.attempt, why };
                    commands.extend([Command::Terminate(id), attempt.emit(event)]);
                }
                LimitReached::Children => {
                    let left = attempt.process.as_ref().and_then(|it| it.left.clone());
                    let on_orphans = sit.graces.on_orphans;
                    commands.extend(
                        left.map(|left| attempt.emit(Event::ChildrenOverdue { left, on_orphans })),
                    );
                    commands.push(match on_orphans {
                        Orphans::Kill => Command::Kill(id),
                        Orphans::Leave => Command::Spare(id),
                    });
                }
            }
        }
        commands
    }

    /// Asks every process to end: the run is stopped at once.
    pub(super) fn cancel_all(&mut self, sit: &Situation<'_>) -> Vec<Command> {
        let end = |open: &mut OpenAttempt| open.end_process(Outcome::Cancelled, sit);
        self.open.iter_mut().filter_map(end).collect()
    }

    /// Gives every process a time to end by itself: the run was asked to terminate.
    pub(super) fn cancel_later(&mut self, sit: &Situation<'_>) {
        for watch in self.watches_mut() {
            watch.cancel_at(sit.now + sit.graces.term);
        }
    }

    /// Kills every process: the run was asked to stop twice.
    pub(super) fn kill_all(&mut self, sit: &Situation<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        for open in &mut self.open {
            let id = open.id.clone();
            if let Some(watch) = open.process.as_mut().and_then(|it| it.watch.as_mut()) {
                watch.killed(sit.now);
                commands.push(Command::Kill(id));
            }
        }
        commands
    }

    /// Puts every limit off.
    pub(super) fn postpone(&mut self, length: Duration) {
        self.watches_mut().for_each(|watch| watch.postpone(length));
    }

    fn watches_mut(&mut self) -> impl Iterator<Item = &mut ProcessWatch> {
        self.open.iter_mut().filter_map(|open| open.process.as_mut()?.watch.as_mut())
    }

    /// Verifies the work of an attempt whose agent is gone, if its task is done as far as can be
    /// seen without that.
    pub(super) fn collected(
        &mut self,
        id: &AttemptId,
        mut end: PendingResult,
        sit: &Situation<'_>,
    ) -> Vec<Command> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        if let Some(found) = attempt.end.take() {
            end.evidence.merge = found.evidence.merge;
            return attempt.conclude(end);
        }
        let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
        let done = verdict == Verdict::Complete || sit.may_commit(verdict);
        let gone = sit.view.graph.number(&id.task_id).is_none();
        if !done || gone || attempt.verify.is_empty() {
            return attempt.close(end);
        }
        attempt.end = Some(end);
        let commands = attempt.verify.clone();
        attempt.start_checks(CheckPurpose::Verify, commands)
    }

    /// Queues a judged attempt to land, or concludes it.
    pub(super) fn judged(&mut self, id: &AttemptId, end: PendingResult) -> Next {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new().into();
        };
        let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
        let lands = verdict == Verdict::Complete && end.evidence.merge.is_none();
        match attempt.target.clone().filter(|_| lands && !end.evidence.commits.is_empty()) {
            Some(target) => {
                attempt.end = Some(end);
                Next::Queue(id.clone(), target)
            }
            None => attempt.conclude(end).into(),
        }
    }

    /// Journals the end of an attempt of which everything is kept. The order makes it safe to be
    /// killed anywhere: the graph, the journal, and only then the record is removed.
    pub(super) fn kept(
        &mut self,
        id: &AttemptId,
        pinned: Option<String>,
        unpinned: Vec<String>,
        sit: &Situation<'_>,
    ) -> Vec<Command> {
        let Some(at) = self.open.iter().position(|open| open.id == *id) else {
            return Vec::new();
        };
        let mut attempt = self.open.remove(at);
        let mut end = attempt.end.take().unwrap_or_default();
        let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
        let number = sit.view.graph.number(&id.task_id);
        let spent = sit.view.history.of(&id.task_id).counted + u32::from(verdict.counts());
        let max = number.map_or(u32::MAX, |number| sit.view.max_attempts(number));
        let parks = verdict == Verdict::SetupFailed || (verdict.counts() && spent >= max);
        let status = number.map(|number| sit.view.graph.task(number).status);
        let mut commands = Vec::new();
        if let Some((write, cause)) = status.and_then(|was| status_after(verdict, parks, was)) {
            let task_id = id.task_id.clone();
            commands.push(Command::WriteStatus(task_id, attempt.iteration, write, cause));
        }
        let mut why = verdict.explain(&end.outcome, &end.evidence);
        if number.is_none() {
            why += "; the task is no longer in the graph";
        }
        let believed = verdict == Verdict::Complete || end.evidence.report.is_none();
        end.evidence.leftovers.truncate(LEFTOVERS);
        let promised = mem::take(&mut end.promised);
        commands.push(attempt.emit(Event::of_end(AttemptResult {
            attempt: id.attempt,
            verdict,
            why,
            outcome: end.outcome,
            duration_seconds: duration::seconds(end.took),
            evidence: end.evidence,
            agent: attempt.agent.clone(),
            usage: end.usage,
            tools: end.tools,
            last_line: end.last_line,
            swept: end.swept,
            unlocked: end.unlocked,
            pinned,
            unpinned,
            log: attempt.log.clone(),
        })));
        if promised {
            let is_open = |n: usize| {
                let done = Some(n) == number && verdict == Verdict::Complete;
                !done && !sit.view.graph.task(n).status.is_over()
            };
            let kept = sit.trusts_promises || !sit.view.admitted().any(is_open);
            commands.push(attempt.emit(Event::Promised { attempt: id.attempt, kept }));
        }
        if parks {
            commands.push(attempt.emit(Event::Parked { attempts: spent }));
        }
        commands.push(Command::Release { id: id.clone(), verdict, believed });
        commands.push(Command::SetHolder(None));
        commands.push(Command::AfterAttempt(id.clone()));
        commands
    }
}

/// How many leftover paths are journalled; a build folder that git does not ignore has thousands.
const LEFTOVERS: usize = 50;

/// The status to write when an attempt with this verdict ends, if it is to change.
fn status_after(verdict: Verdict, parks: bool, was: Status) -> Option<(StatusWrite, Cause)> {
    match verdict {
        Verdict::Complete => Some((StatusWrite::Complete, Cause::Completed)),
        _ if parks => Some((StatusWrite::Plain(Status::InProgress), Cause::Released)),
        // A person who blocks or cancels a task while it is worked on has the last word.
        _ if !matches!(was, Status::InProgress | Status::Complete | Status::Pending) => None,
        Verdict::NeedsInput => Some((StatusWrite::Plain(Status::NeedsInput), Cause::Asked)),
        Verdict::Incomplete
        | Verdict::Unverified
        | Verdict::VerifyFailed
        | Verdict::Uncommitted
        | Verdict::OffBranch
        | Verdict::Failed
        | Verdict::TimedOut
        | Verdict::Cancelled
        | Verdict::Interrupted
        | Verdict::RateLimited
        | Verdict::Denied
        | Verdict::BaselineBroken
        | Verdict::SetupFailed
        | Verdict::MergeFailed
        | Verdict::Again => Some((StatusWrite::Plain(Status::Pending), Cause::Released)),
    }
}
