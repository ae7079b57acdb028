//! A simulation of runs without processes, git or disk: random schedules with the real decisions.
//!
//! The simulated world has a graph, a journal, records on disk, processes and the commits of the
//! target branch. The invariants are checked after every step.
//! `RALPH_SIMULATIONS=1000000 cargo test --release --lib simulation` runs more schedules than the
//! default; `RALPH_SIMULATION_SEED=7` repeats one schedule.

#![cfg(test)]

use crate::samples::task;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    OpenWork, Run, RunDecision, Situation,
    command::{
        AttemptId, CheckPurpose, FollowUp, FollowUps, LandingCommand, PendingResult, ProcessEnd,
        ProcessOrder, RunCommand, SlotCommand,
    },
    input::{BuiltTrial, FoundAttempt, Input, LandOutcome, ProcessStart, SlotReason},
    landing::free_number,
    open_attempt::{AttemptPhase, AttemptProcess, OpenAttempt},
    process_watch::{GracePeriods, ProcessLimits},
    verified_work::{BuiltCommit, HeadSpan, VerifiedWork, WorkLanding},
};
use crate::{
    agents::transcript::Usage,
    commit_id::CommitId,
    dice::Dice,
    event::{
        Answer, AttemptEvent, AttemptResult, Begun, Cause, CheckEvent, ChildrenLeft, Event,
        ExecutorEvent, GraphEvent, LandingEvent, Orphans, RequestEvent, ReviewEnd, RunEvent,
        StopReason, StopRequest, record::Record,
    },
    executor::{ExecutorFault, LOCAL, Placement},
    graph::{
        TaskGraph,
        task::{CommitRule, Status, Task, TaskId},
    },
    history::History,
    reviewer::{FindingSeverity, ReviewFinding, ReviewRule, WorkReview},
    select::{self, Decision, Policy, SelectionKey, View},
    verdict::{
        Commit, DiffStat, Evidence, FINDINGS, Merge, Outcome, Report, ResolvedConflict, Rule,
        Verdict,
    },
};

/// The default number of schedules; `just simulate` runs more.
const SCHEDULES: u64 = 2_000;
/// The executor of some tasks.
const FAR: &str = "far";
/// The limit on the time of an attempt, and on its further prompts.
const LIMIT: Duration = Duration::from_secs(3600);
const MOST_FOLLOW_UPS: u32 = 2;
/// A schedule with more steps than this counts as endless.
const STEPS: usize = 20_000;

/// A commit: the attempts whose work is in it.
type Works = BTreeSet<AttemptId>;

/// The record of an open attempt on disk.
#[derive(Clone)]
struct DiskRecord {
    attempt: OpenAttempt,
    landing: Option<WorkLanding>,
    slot: usize,
    /// The exit of the agent, if its guardian wrote it.
    exit: Option<Outcome>,
    /// The last commit of the attempt.
    head: Option<CommitId>,
    /// HEAD of its worktree.
    tree_head: Option<CommitId>,
}

/// A running process.
#[expect(clippy::struct_excessive_bools, reason = "these are switches")]
#[derive(Clone)]
struct SimProcess {
    purpose: Option<CheckPurpose>,
    command: String,
    /// HEAD of its tree when it started.
    head: Option<CommitId>,
    /// Whether it has been asked to end.
    told: bool,
    /// Whether it has been killed.
    killed: bool,
    /// Whether it never ends by itself, and whether only a kill ends it.
    endless: bool,
    deaf: bool,
}

impl SimProcess {
    /// Whether it can end now.
    fn can_end(&self) -> bool {
        self.killed || if self.told { !self.deaf } else { !self.endless }
    }
}

/// A slot of the merge queue.
#[derive(Clone)]
struct SimSlot {
    head: CommitId,
    /// The commit that HEAD should be at.
    tip: Option<CommitId>,
    /// Whether its files differ from HEAD.
    changed: bool,
}

/// A review of the work of an attempt.
struct SimReview {
    /// The result of the attempt, which waits for it.
    end: Box<PendingResult>,
    /// When it can end: later, if its provider limits it.
    until: i64,
    /// How often its provider refused it.
    refused: u32,
}

/// A trial that is being built.
struct SimBuild {
    onto: CommitId,
    id: AttemptId,
    /// Whether the work of the attempt is on top.
    has_work: bool,
    slot: usize,
}

/// The world around a run.
#[expect(clippy::struct_excessive_bools, reason = "these are switches")]
struct World {
    dice: Dice,
    graph: TaskGraph,
    history: History,
    policy: Policy,
    run: Run,
    run_number: u32,
    now: i64,
    began: Instant,
    /// Whether failures and crashes can occur.
    rough: bool,
    isolated: bool,
    verify: bool,
    /// Whether verify commands run one at a time.
    one_check: bool,
    records: BTreeMap<AttemptId, DiskRecord>,
    processes: BTreeMap<AttemptId, SimProcess>,
    preparing: BTreeSet<AttemptId>,
    /// The attempts whose slots were set up before.
    set_up: BTreeSet<AttemptId>,
    building: Option<SimBuild>,
    trial_slots: BTreeMap<usize, SimSlot>,
    /// How many trials are verified at once.
    queue_width: usize,
    landing: Option<VerifiedWork>,
    /// How work is reviewed before it lands, if it is.
    review: Option<ReviewRule>,
    reviews: BTreeMap<AttemptId, SimReview>,
    /// The tasks that must be parked, because a required review failed.
    to_park: BTreeSet<TaskId>,
    /// How often each event happened.
    counts: BTreeMap<&'static str, u64>,
    /// The attempts that had started at the last step of the merge queue, if it was taken when only
    /// queued work was left.
    last_step: Option<usize>,
    /// Every commit by its id; `positions` has the commits of the branch over time.
    commits: BTreeMap<CommitId, Works>,
    positions: Vec<CommitId>,
    /// The commands that passed on each commit: HEAD was there before and after, and no file
    /// differed.
    green_at: BTreeMap<CommitId, BTreeSet<String>>,
    /// The commits on which every verify command of their work passed, and those of a person.
    verified: BTreeSet<CommitId>,
    /// The commits on which a command of a trial failed.
    reds: BTreeSet<CommitId>,
    /// The work that each attempt started from.
    bases: BTreeMap<AttemptId, Works>,
    started: BTreeMap<AttemptId, u32>,
    ended: BTreeMap<AttemptId, u32>,
    /// The tasks that a person completed by hand.
    by_hand: BTreeSet<TaskId>,
    /// The commands that passed for each open attempt, by purpose and in order.
    passed: BTreeMap<(AttemptId, &'static str), Vec<String>>,
    /// The further prompts of each attempt, and the wall time of its agent before the last.
    follow_ups: BTreeMap<AttemptId, (u32, Duration)>,
    /// The attempts whose work was found on the branch after a crash.
    found_landed: BTreeSet<AttemptId>,
    /// When SIGTERM came, and how many signals came.
    signalled: (Option<i64>, u32),
    parked: BTreeSet<TaskId>,
    /// Whether the executor of some tasks does not answer.
    is_away: bool,
    /// The newest attempt that tries whether an executor answers again, by executor.
    trying: BTreeMap<String, AttemptId>,
    /// Whether to print every input and command.
    shown: bool,
}

/// Whether a process is one of the merge queue.
fn is_trial(purpose: Option<CheckPurpose>) -> bool {
    matches!(purpose, Some(CheckPurpose::Trial(_)))
}

/// How work is reviewed, if it is.
fn draw_rule(dice: &mut Dice) -> Option<ReviewRule> {
    dice.chance(50).then(|| ReviewRule {
        severity: FindingSeverity::Medium,
        rounds: u32::try_from(dice.below(3)).unwrap_or(0),
        required: dice.chance(50),
    })
}

/// Why a step ends a run.
enum End {
    Stopped(StopReason),
    Crashed,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        let count = 1 + dice.below(7);
        let isolated = dice.chance(70);
        let has_far = dice.chance(40);
        let tasks = (0..count).map(|n| {
            let is_far = has_far && dice.chance(60);
            Task { run_on: is_far.then(|| FAR.to_owned()), ..task(&format!("t{n}")) }
        });
        let tasks = tasks.collect();
        let pairs = (1..count).flat_map(|to| (0..to).map(move |from| (from, to)));
        let edges = pairs.filter(|_| dice.chance(25)).collect();
        let graph = TaskGraph::new(tasks, edges).expect("edges go forward");
        let jobs = if isolated { 1 + dice.below(4) } else { 1 };
        let policy = Policy {
            jobs,
            max_iterations: Some(40),
            max_attempts: 1 + u32::try_from(dice.below(3)).unwrap_or(0),
            start_limit: 0,
            ..Policy::default()
        };
        let queue_width = 1 + dice.below(4);
        let verify = dice.chance(75);
        let one_check = dice.chance(30);
        let review = draw_rule(&mut dice);
        let tip = CommitId::from("c0");
        World {
            dice,
            graph,
            history: History::default(),
            policy,
            run: Run::default(),
            run_number: 0,
            now: 0,
            began: Instant::now(),
            rough: true,
            isolated,
            verify,
            one_check,
            records: BTreeMap::new(),
            processes: BTreeMap::new(),
            preparing: BTreeSet::new(),
            set_up: BTreeSet::new(),
            building: None,
            trial_slots: BTreeMap::new(),
            queue_width,
            landing: None,
            review,
            reviews: BTreeMap::new(),
            to_park: BTreeSet::new(),
            counts: BTreeMap::new(),
            last_step: None,
            commits: BTreeMap::from([(tip.clone(), Works::new())]),
            verified: BTreeSet::from([tip.clone()]),
            positions: vec![tip],
            green_at: BTreeMap::new(),
            reds: BTreeSet::new(),
            bases: BTreeMap::new(),
            started: BTreeMap::new(),
            ended: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            passed: BTreeMap::new(),
            follow_ups: BTreeMap::new(),
            found_landed: BTreeSet::new(),
            signalled: (None, 0),
            parked: BTreeSet::new(),
            is_away: false,
            trying: BTreeMap::new(),
            shown: env::var_os("RALPH_SIMULATION_SEED").is_some(),
        }
    }

    fn time(&self) -> DateTime<Utc> {
        DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(self.now)
    }

    fn instant(&self) -> Instant {
        self.began + Duration::from_secs(u64::try_from(self.now).unwrap_or(0))
    }

    fn tip(&self) -> CommitId {
        self.positions.last().expect("the branch has a first commit").clone()
    }

    fn commit(&mut self, works: Works) -> CommitId {
        let id = CommitId::from(format!("c{}", self.commits.len()));
        self.commits.insert(id.clone(), works);
        id
    }

    /// Whether the work of two tasks fails together unless one attempt started from the other.
    fn clash(a: &TaskId, b: &TaskId, divisor: u64) -> bool {
        let weight = |id: &TaskId| id.as_str().bytes().map(u64::from).sum::<u64>();
        a != b && (weight(a) * weight(b)) % divisor == 0
    }

    /// Whether the verify commands pass on these works.
    fn is_green(&self, works: &Works) -> bool {
        let knows =
            |a: &AttemptId, b: &AttemptId| self.bases.get(a).is_some_and(|base| base.contains(b));
        works.iter().all(|a| {
            works
                .iter()
                .all(|b| !World::clash(&a.task_id, &b.task_id, 7) || knows(a, b) || knows(b, a))
        })
    }

    /// Whether the work of an attempt conflicts with the current branch.
    fn conflicts(&self, id: &AttemptId, onto: &Works) -> bool {
        let base = &self.bases[id];
        onto.difference(base).any(|other| World::clash(&other.task_id, &id.task_id, 5))
    }

    /// Whether a task has used up its rounds of attempts: two if others wait for it.
    fn is_out_of_attempts(&self, id: &TaskId) -> bool {
        let number = self.graph.number(id).expect("the task is in the graph");
        let mut dependents = self.graph.dependents(number);
        let holds = dependents.any(|d| !self.graph.task(d).status.is_over());
        let past = self.history.of(id);
        let rounds = if holds { self.policy.rounds } else { 1 };
        past.counted >= self.policy.max_attempts * rounds
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Run, &Situation<'_>) -> T) -> T {
        let keys = select::keys(&self.graph);
        let mut run = std::mem::take(&mut self.run);
        let stop = self.history.run.stop.as_ref();
        let stops_now = stop.is_some_and(|stop| stop.now);
        let lands = self.policy.stop.is_none() || run.lands_last(self.instant());
        let open = run.open_work(lands && !stops_now, self.policy.jobs);
        let active = OpenWork::active(&open, &self.graph);
        let view = View {
            graph: &self.graph,
            keys: &keys,
            history: &self.history,
            policy: &self.policy,
            active: &active,
        };
        let sit = Situation {
            view,
            now: self.instant(),
            graces: GracePeriods {
                kill: Duration::from_secs(5),
                term: Duration::from_secs(20),
                exit: Duration::from_secs(30),
                children: Duration::from_secs(60),
                on_orphans: Orphans::Kill,
            },
            autocommit: true,
            trusts_promises: false,
            done_file: false,
            one_check: self.one_check,
            proves: false,
            queue_width: self.queue_width,
        };
        let result = act(&mut run, &sit);
        self.run = run;
        result
    }

    fn handle(&mut self, input: Input) -> Result<(), End> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            if self.shown {
                println!("{:>6} <- {input:?}", self.now);
            }
            let commands = self.with(|run, sit| run.handle(input, sit));
            inputs.extend(self.carry_out(commands)?);
        }
        Ok(())
    }

    /// Executes commands. The result of each is handled before the next.
    fn carry_out(&mut self, commands: Vec<RunCommand>) -> Result<Vec<Input>, End> {
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            if self.rough && self.dice.roll().is_multiple_of(400) {
                return Err(End::Crashed);
            }
            if self.shown {
                println!("{:>6} {command:?}", self.now);
            }
            let answer = self.apply(command)?;
            if self.rough && self.dice.roll().is_multiple_of(400) {
                return Err(End::Crashed);
            }
            if let Some(input) = answer {
                let more = self.with(|run, sit| run.handle(input, sit));
                for command in more.into_iter().rev() {
                    commands.push_front(command);
                }
            }
        }
        Ok(Vec::new())
    }

    fn check_end(&mut self, id: &AttemptId, ended: &AttemptResult) {
        if ended.verdict == Verdict::Complete {
            let cut_off = ended.outcome.is_cut_off();
            assert!(!cut_off || self.found_landed.contains(id), "{id} was still running");
            if let (Some(Merge::Landed { commit, .. }), false) =
                (&ended.evidence.merge, self.found_landed.contains(id))
            {
                let last = ended.evidence.commits.last().map(|commit| &commit.id);
                assert_eq!(last, Some(commit), "{id} names a commit that did not land");
            }
        }
        if let Some(Merge::Red { onto, .. }) = &ended.evidence.merge {
            self.check_sent_back(id, onto);
        }
        if let Some(Merge::RedBase { onto, .. }) = &ended.evidence.merge {
            let works = &self.commits[onto];
            let failed = self.reds.iter().any(|red| self.commits[red] == *works);
            assert!(failed, "{id} is said to fail without its work, and that was not tried");
        }
        self.check_review(id, ended);
        let count = self.ended.entry(id.clone()).or_default();
        *count += 1;
        assert_eq!(*count, 1, "{id} ended twice");
    }

    fn emit(&mut self, about: Option<(TaskId, u32)>, event: impl Into<Event>) {
        let event = event.into();
        let (task_id, iteration) = about.unzip();
        if let (Event::Attempt(AttemptEvent::Started { attempt, .. }), Some(id)) =
            (&event, &task_id)
        {
            let id = AttemptId { task_id: id.clone(), attempt: *attempt };
            *self.started.entry(id).or_default() += 1;
        }
        let before = self.history.run.iterations;
        let withdrawn =
            if let (Event::Executor(ExecutorEvent::Withdrawn { attempt, .. }), Some(id)) =
                (&event, &task_id)
            {
                let id = AttemptId { task_id: id.clone(), attempt: *attempt };
                assert!(self.started.remove(&id).is_some(), "{id} is withdrawn and did not start");
                assert!(!self.ended.contains_key(&id), "{id} is withdrawn after its end");
                Some(id)
            } else {
                None
            };
        if let Event::Executor(ExecutorEvent::ExecutorReachable { run_on }) = &event {
            self.trying.remove(run_on);
        }
        if let (Event::Attempt(AttemptEvent::Parked { .. }), Some(id)) = (&event, &task_id) {
            self.parked.insert(id.clone());
            self.to_park.remove(id);
        }
        if let (Some(ended), Some(task_id)) = (event.ended(), &task_id) {
            self.check_end(&AttemptId { task_id: task_id.clone(), attempt: ended.attempt }, ended);
        }
        let attempt = if let Event::Attempt(AttemptEvent::AgentStarted { attempt, .. })
        | Event::Check(
            CheckEvent::SettingUp { attempt, .. }
            | CheckEvent::Verifying { attempt, .. }
            | CheckEvent::VerifyPostponed { attempt },
        )
        | Event::Landing(LandingEvent::Queued { attempt, .. }) = &event
        {
            Some(*attempt)
        } else {
            None
        };
        if let (Some(attempt), Some(id)) = (attempt, &task_id) {
            let id = AttemptId { task_id: id.clone(), attempt };
            assert!(!self.ended.contains_key(&id), "{id} goes on after its end");
        }
        let record = Record {
            timestamp: self.time(),
            run_id: format!("r{}", self.run_number),
            seq: 0,
            iteration,
            task_id,
            event,
        };
        self.history.apply(&record);
        if let Some(id) = withdrawn {
            assert_eq!(self.history.run.iterations + 1, before, "{id} costs an iteration");
            let attempts = self.history.of(&id.task_id).attempts;
            assert_eq!(attempts + 1, id.attempt, "{id} costs an attempt");
        }
    }

    fn apply(&mut self, command: RunCommand) -> Result<Option<Input>, End> {
        match command {
            RunCommand::Emit(about, event) => self.emit(about, *event),
            RunCommand::WriteStatus(id, _, write, cause) => {
                self.write_status(id, write.status(), cause);
            }
            RunCommand::Record(key) => return self.record_and_claim(key),
            RunCommand::Slot(id, SlotCommand::Prepare | SlotCommand::Reassign) => {
                assert!(self.isolated && self.preparing.insert(id));
            }
            RunCommand::StartAgent(id) => return Ok(Some(self.start_agent(id))),
            RunCommand::FollowUp(id, next) => return Ok(Some(self.follow_up(id, &next))),
            RunCommand::FetchWork(id, _) => return Ok(Some(self.fetch(id))),
            RunCommand::StartCheck(id, purpose, _, command) => {
                return Ok(Some(self.start_check(id, purpose, &command)));
            }
            RunCommand::Process(id, order) => self.order(&id, order),
            RunCommand::Collect(id, end) => {
                let result = Box::new(self.collect(&id, &end));
                return Ok(Some(Input::Collected(id, result)));
            }
            RunCommand::Judge(id, end) => return Ok(self.judge(id, end)),
            RunCommand::Keep(id, ..) => {
                return Ok(Some(Input::Kept { id, pinned: None, unpinned: Vec::new() }));
            }
            RunCommand::Release { id, .. } => {
                assert!(!self.processes.contains_key(&id), "{id} is released while it runs");
                assert!(!self.reviews.contains_key(&id), "{id} is released during its review");
                self.records.remove(&id);
            }
            RunCommand::Withdraw(id) => {
                assert!(!self.processes.contains_key(&id), "{id} is withdrawn while it runs");
                self.records.remove(&id);
                self.passed.retain(|(of, _), _| *of != id);
                self.set_up.remove(&id);
                self.follow_ups.remove(&id);
            }
            RunCommand::Landing(command) => self.apply_landing(command),
            RunCommand::Abandon(_) => return Err(End::Crashed),
            RunCommand::Slot(id, SlotCommand::TakeAsGiven)
                if self.rough && self.dice.chance(10) =>
            {
                return Ok(Some(Input::NotStarted(id, "git failed".to_owned())));
            }
            RunCommand::Slot(id, SlotCommand::TakeAsGiven) => {
                return Ok(Some(Input::TakenAsGiven(id)));
            }
            RunCommand::SetHolder(_) | RunCommand::KeepGraph | RunCommand::AfterAttempt(_) => {}
        }
        Ok(None)
    }

    fn write_status(&mut self, id: TaskId, new: Status, cause: Cause) {
        let Some(number) = self.graph.number(&id) else { return };
        let old = Some(self.graph.task(number).status);
        // Only the journal has the other statuses of isolated attempts.
        if !self.isolated || new == Status::Complete {
            self.graph.set_status(number, new);
        }
        let event = GraphEvent::StatusChanged { old, new: Some(new), cause, reason: None };
        self.emit(Some((id, 0)), event);
    }

    fn start_agent(&mut self, id: AttemptId) -> Input {
        if let Some(open) = self.run.attempts().get(&id) {
            let setup = self.passed(&id, "setup") == open.setup;
            assert!(setup || self.set_up.contains(&id), "{id} starts before setup");
        }
        self.start(id, None, "agent")
    }

    fn start_check(&mut self, id: AttemptId, purpose: CheckPurpose, command: &str) -> Input {
        let verifies =
            |it: &SimProcess| it.purpose.is_some_and(|purpose| purpose != CheckPurpose::Setup);
        let is_beside = self.processes.values().any(verifies);
        assert!(
            purpose == CheckPurpose::Setup || !self.one_check || !is_beside,
            "{id} verifies at the same time as another attempt"
        );
        self.start(id, Some(purpose), command)
    }

    /// Gives an order to a process.
    fn order(&mut self, id: &AttemptId, order: ProcessOrder) {
        let Some(process) = self.processes.get_mut(id) else { return };
        match order {
            ProcessOrder::Interrupt | ProcessOrder::Terminate => process.told = true,
            ProcessOrder::Kill | ProcessOrder::KillGuardian => {
                (process.told, process.killed) = (true, true);
            }
            ProcessOrder::Spare | ProcessOrder::KeepAwake => {}
        }
    }

    fn apply_landing(&mut self, command: LandingCommand) {
        match command {
            LandingCommand::Build { onto, id, slot } => {
                self.begin_build(SimBuild { onto, id, has_work: true, slot });
            }
            LandingCommand::CheckOut { id, onto, slot } => {
                self.begin_build(SimBuild { onto, id, has_work: false, slot });
            }
            LandingCommand::Record(id, landing) => {
                if let Some(record) = self.records.get_mut(&id) {
                    record.landing = Some(*landing);
                }
            }
            LandingCommand::Land { verified, .. } => {
                for id in self.new_works(verified.onto(), verified.tip()) {
                    let record = self.records.get(&id);
                    assert!(record.is_some_and(|it| it.landing.is_some()), "no intent of {id}");
                }
                self.check_verified(&verified);
                self.landing = Some(verified);
            }
            LandingCommand::KeepLog { .. } => {}
        }
    }

    /// Judges an attempt, whose work is verified and reviewed first if that is due.
    fn judge(&mut self, id: AttemptId, mut end: Box<PendingResult>) -> Option<Input> {
        self.commit_leftovers(&id, &mut end);
        let open = self.run.attempts().get(&id)?;
        let is_complete = Verdict::of(&end.outcome, &end.evidence, open.rule) == Verdict::Complete;
        let is_due = self.isolated
            && self.review.is_some()
            && is_complete
            && end.evidence.review.is_none()
            && !end.evidence.commits.is_empty();
        if is_due && end.evidence.verify.is_empty() && !open.verify.is_empty() {
            return Some(Input::VerifyFirst(id, end));
        }
        if !is_due {
            return Some(Input::Judged(id, end));
        }
        self.begin_review(&id);
        let review = SimReview { end, until: self.now, refused: 0 };
        assert!(self.reviews.insert(id.clone(), review).is_none(), "{id} has two reviews");
        None
    }

    fn begin_review(&mut self, id: &AttemptId) {
        let by = "reviewer".to_owned();
        let (log, slot) = (String::new(), Some("review".to_owned()));
        let begun = CheckEvent::Reviewing { attempt: id.attempt, by, log, slot };
        self.emit(Some((id.task_id.clone(), 0)), begun);
    }

    /// Whether a request ends all reviews.
    fn ends_reviews(&self) -> bool {
        let stop = self.history.run.stop.as_ref();
        self.policy.stop.is_some() || stop.is_some_and(|stop| stop.now)
    }

    /// The answer of a reviewer by a number that was drawn: findings, a failure, or nothing.
    fn draw_review(&mut self, drawn: usize) -> WorkReview {
        let by = "reviewer";
        match drawn {
            0..3 => {
                let severity = [FindingSeverity::Low, FindingSeverity::High][self.dice.below(2)];
                let finding =
                    ReviewFinding { file: None, line: None, severity, text: String::new() };
                WorkReview { by: by.to_owned(), findings: vec![finding], ..WorkReview::default() }
            }
            3..7 => WorkReview::failed(by, "it crashed, or its provider refused it".to_owned()),
            _ => WorkReview { by: by.to_owned(), ..WorkReview::default() },
        }
    }

    /// Simulates the end of a review: a verdict, a failure, a limit of its provider, or a conflict that is
    /// seen before it begins.
    fn end_review(&mut self, id: AttemptId) -> Result<(), End> {
        let SimReview { mut end, refused, .. } = self.reviews.remove(&id).expect("it was chosen");
        let rule = self.review.expect("work is reviewed");
        if refused == 0 && self.conflicts(&id, &self.commits[&self.tip()]) && self.dice.chance(80) {
            self.count("conflicts before a review");
            let (branch, onto) = ("main".to_owned(), self.tip());
            end.evidence.merge = Some(Merge::Conflict { branch, onto, paths: Vec::new() });
            return self.handle(Input::Judged(id, end));
        }
        let drawn = if self.rough { self.dice.below(12) } else { 11 };
        let mut review = self.draw_review(drawn);
        let is_stopped = self.ends_reviews();
        let told = |review: WorkReview| {
            let outcome = Outcome::Exited { exit_code: i32::from(review.failed.is_some()) };
            let (attempt, usage) = (id.attempt, Usage::default());
            let duration_seconds = 1.0;
            CheckEvent::WorkReviewed(ReviewEnd {
                attempt,
                outcome,
                review,
                duration_seconds,
                usage,
                obstacle: None,
                waits: false,
            })
        };
        let about = Some((id.task_id.clone(), 0));
        if is_stopped || (drawn == 3 && rule.required) {
            self.emit(about, told(review));
            if !is_stopped {
                // It has no login.
                self.count("runs ended by a reviewer");
                let limit = Some("a reviewer without login".to_owned());
                let stop = StopRequest { limit, ..StopRequest::default() };
                self.emit(None, RequestEvent::StopRequested(stop));
            }
            self.count("postponed reviews");
            return self.handle(Input::Postponed(id));
        }
        if drawn < 6 && drawn > 3 && rule.required && refused < 3 {
            self.count("limits waited for");
            self.emit(about, told(review));
            self.begin_review(&id);
            let until = self.now + 60;
            self.reviews.insert(id, SimReview { end, until, refused: refused + 1 });
            return Ok(());
        }
        let active = self.history.active.of(&id.task_id);
        let here = active.map_or(0, |it| it.continued.iter().filter(|it| *it == FINDINGS).count());
        let before = self.history.of(&id.task_id).rejected + u32::try_from(here).unwrap_or(0);
        let missing = review.decide(rule, before);
        assert!(before <= rule.rounds, "{id} was sent back {before} times");
        self.count(match (&review.failed, review.sent_back, review.findings.is_empty()) {
            (Some(_), ..) => "failed reviews",
            (None, true, _) => "rounds of findings",
            (None, false, false) => "findings that stay",
            (None, false, true) => "reviews without findings",
        });
        end.evidence.missing.extend(missing);
        end.evidence.review = Some(Box::new(review.clone()));
        self.emit(about, told(review));
        self.handle(Input::Judged(id, end))
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Checks that the end of an attempt fits the review of its work.
    fn check_review(&mut self, id: &AttemptId, ended: &AttemptResult) {
        let (Some(rule), true) = (self.review, self.isolated) else { return };
        let review = ended.evidence.review.as_ref();
        let is_complete = ended.verdict == Verdict::Complete;
        if is_complete && !self.found_landed.contains(id) {
            let review = review.expect("work lands that was not reviewed");
            let grave = review.findings.iter().any(|it| it.severity >= rule.severity);
            assert!(!review.sent_back, "{id} lands and was sent back");
            assert!(
                !rule.required || (!grave && review.failed.is_none()),
                "{id} lands without the review that it requires"
            );
        }
        if ended.verdict == Verdict::Rejected {
            assert!(review.is_some_and(|review| review.sent_back), "{id} is rejected for nothing");
        }
        if ended.needs_person() && ended.verdict == Verdict::Unverified {
            self.to_park.insert(id.task_id.clone());
        }
    }

    fn begin_build(&mut self, trial: SimBuild) {
        assert!(self.building.is_none() && self.landing.is_none());
        let has_time = self.signalled.0.is_none_or(|at| self.now < at + 20);
        assert!(has_time, "landing begins after the grace period of SIGTERM");
        let at_work = self.processes.iter().filter(|(_, it)| is_trial(it.purpose));
        let mut slots = at_work.map(|(id, _)| self.run.landing().slot_of(id));
        assert!(!slots.any(|slot| slot == trial.slot), "two trials in slot {}", trial.slot);
        self.passed.remove(&(trial.id.clone(), "merge"));
        self.building = Some(trial);
    }

    /// The trial slot of an attempt.
    fn trial_slot(&mut self, id: &AttemptId) -> &mut SimSlot {
        let slot = self.run.landing().slot_of(id);
        self.trial_slots.get_mut(&slot).expect("the trial was built")
    }

    /// Commits the leftovers of an agent, if its verify commands passed.
    fn commit_leftovers(&mut self, id: &AttemptId, end: &mut PendingResult) {
        let evidence = &mut end.evidence;
        let Some(head) = evidence.commits.last().map(|commit| commit.id.clone()) else { return };
        if evidence.leftovers.is_empty() || evidence.red().is_some() {
            return;
        }
        evidence.leftovers.clear();
        if self.dice.chance(30) {
            // A verify command removed it.
            return;
        }
        let commit = self.commit(self.commits[&head].clone());
        evidence.commits.push(Commit { id: commit.clone(), subject: String::new() });
        if let Some(record) = self.records.get_mut(id) {
            (record.head, record.tree_head) = (Some(commit.clone()), Some(commit));
        }
    }

    fn passed(&self, id: &AttemptId, purpose: &'static str) -> Vec<String> {
        self.passed.get(&(id.clone(), purpose)).cloned().unwrap_or_default()
    }

    /// The work that is in the second commit and not in the first.
    fn new_works(&self, onto: &CommitId, tip: &CommitId) -> Works {
        &self.commits[tip] - &self.commits[onto]
    }

    /// Checks that all verify commands passed on exactly the commit that is about to land, and the
    /// setup too if that was in the worktree for merges.
    fn check_verified(&mut self, verified: &VerifiedWork) {
        let (tip, none) = (verified.tip(), BTreeSet::new());
        let green = self.green_at.get(tip).unwrap_or(&none);
        for id in self.new_works(verified.onto(), tip) {
            let open = self.run.attempts().get(&id).expect("only open attempts land");
            let missing = open.verify.iter().find(|command| !green.contains(*command));
            assert_eq!(missing, None, "{tip} lands and was not verified there");
        }
        assert!(!self.verify || self.is_green(&self.commits[tip]), "{tip} lands and fails");
        let first = self.run.landing().queued().next().expect("it is queued");
        let setup = self.run.attempts().get(first).map(|open| open.setup.clone());
        let passed = self.passed(first, "merge");
        let set_up = setup.unwrap_or_default().iter().all(|command| passed.contains(command));
        assert!(passed.is_empty() || set_up, "{tip} lands and was verified without setup");
        self.verified.insert(tip.clone());
    }

    /// Checks that work that is sent back failed on top of `onto`, without any other.
    fn check_sent_back(&self, id: &AttemptId, onto: &CommitId) {
        let mut works = self.commits[onto].clone();
        works.insert(id.clone());
        let failed = self.reds.iter().any(|red| self.commits[red] == works);
        assert!(failed, "{id} is sent back and did not fail");
    }

    /// Claims a task after the record of its attempt is on disk, unless a person changes it then.
    fn record_and_claim(&mut self, key: SelectionKey) -> Result<Option<Input>, End> {
        let input = self.record(key);
        if self.rough && self.dice.roll().is_multiple_of(400) {
            return Err(End::Crashed);
        }
        let Input::Recorded(open, _) = &input else { unreachable!("a record") };
        let id = open.id.clone();
        if self.dice.chance(3) {
            self.set_by_hand(key.number, Status::Blocked);
            self.records.remove(&id);
            self.bases.remove(&id);
            self.follow_ups.remove(&id);
            return Ok(None);
        }
        let (old, new) = (Some(Status::Pending), Some(Status::InProgress));
        if !self.isolated {
            self.graph.set_status(key.number, Status::InProgress);
        }
        let event = GraphEvent::StatusChanged { old, new, cause: Cause::Claimed, reason: None };
        self.emit(Some((id.task_id, 0)), event);
        Ok(Some(input))
    }

    /// The record of the next attempt at a task.
    fn record(&mut self, key: SelectionKey) -> Input {
        let task = self.graph.task(key.number);
        let attempt = self.history.of(&task.id).attempts + 1;
        let id = AttemptId { task_id: task.id.clone(), attempt };
        let unfinished = |d: usize| self.graph.task(d).status != Status::Complete;
        assert!(!self.graph.dependencies(key.number).any(unfinished), "{id} starts too early");
        assert_eq!(task.status, Status::Pending, "{id} is not pending");
        let run_on = task.run_on.as_deref().unwrap_or(LOCAL);
        let is_far = run_on == FAR;
        if let Some(known) = self.history.unreachable.get(run_on) {
            let may = known.next_try <= self.time();
            assert!(may, "{id} tries too early");
            let other = self.trying.get(run_on).and_then(|id| self.run.attempts().get(id));
            assert!(other.is_none(), "{id} tries at the same time as another attempt");
            self.trying.insert(run_on.to_owned(), id.clone());
        }
        assert!(!self.is_out_of_attempts(&task.id), "{id} is one attempt too many");
        let open = self.run.attempts().open().len();
        assert!(open < 2 * self.policy.jobs, "{open} attempts are open");
        let used: BTreeSet<usize> = {
            let open = self.run.attempts().open().iter();
            open.filter_map(|open| Some(self.records.get(&open.id)?.slot)).collect()
        };
        let slot = free_number(used);
        let at_work = |id: &AttemptId| self.records[id].slot == slot;
        assert!(!self.processes.keys().any(at_work), "two attempts in slot {slot}");
        assert!(!self.preparing.iter().any(at_work), "two attempts in slot {slot}");
        let base = self.tip();
        self.bases.insert(id.clone(), self.commits[&base].clone());
        let own = format!("check {}", id.task_id);
        let verify = if self.verify { vec!["check".to_owned(), own] } else { Vec::new() };
        let has_own = self.dice.chance(50);
        let own_checks: Vec<String> = verify.iter().skip(1).filter(|_| has_own).cloned().collect();
        let setup = if self.isolated && self.dice.chance(30) {
            vec!["one".to_owned(), "two".to_owned()]
        } else {
            Vec::new()
        };
        let open = OpenAttempt {
            id: id.clone(),
            iteration: self.history.run.next_iteration(),
            target: self.isolated.then(|| "main".to_owned()),
            base: Some(base.clone()),
            agent: None,
            log: String::new(),
            setup,
            own_checks,
            verify,
            rule: Rule::Task(CommitRule::Required),
            follow_ups: FollowUps::new(if is_far { 0 } else { MOST_FOLLOW_UPS }, LIMIT),
            phase: AttemptPhase::Preparing,
        };
        let started = AttemptEvent::Started {
            run_on: is_far.then(|| FAR.to_owned()),
            attempt,
            base: Some(base),
            branch: None,
            log: String::new(),
            why: String::new(),
            format: crate::agents::transcript::Format::Text,
            slot: self.isolated.then(|| slot.to_string()),
        };
        let record = DiskRecord {
            attempt: open.clone(),
            landing: None,
            slot,
            exit: None,
            head: None,
            tree_head: None,
        };
        assert!(self.records.insert(id, record).is_none());
        Input::Recorded(Box::new(open), Box::new(started.into()))
    }

    fn start(&mut self, id: AttemptId, purpose: Option<CheckPurpose>, command: &str) -> Input {
        let is_trial = is_trial(purpose);
        let own = self.records[&id].tree_head.clone();
        let tree_head = if is_trial { Some(self.trial_slot(&id).head.clone()) } else { own };
        let is_verified = matches!(purpose, Some(CheckPurpose::Verify | CheckPurpose::Trial(_)));
        let is_far = !is_verified && self.is_far(&id);
        if is_far && self.is_away {
            return self.unreachable(id);
        }
        if self.rough && self.dice.chance(2) {
            let outcome = Some(Outcome::NotStarted { error: "no such program".to_owned() });
            self.reds.extend(tree_head.clone().filter(|_| is_trial));
            let head = HeadSpan { before: tree_head.clone(), after: tree_head };
            let end = ProcessEnd { outcome, head, ..ProcessEnd::default() };
            return Input::ProcessEnded(id, Box::new(end));
        }
        assert!(!self.found_landed.contains(&id), "{id} had landed");
        let slot = self.records[&id].slot;
        for other in self.processes.keys().filter(|_| !is_trial) {
            let trial = crate::run::simulation::is_trial(self.processes[other].purpose);
            assert!(trial || self.records[other].slot != slot, "{id} runs alongside {other}");
        }
        let command = command.to_owned();
        let deaf = self.rough && self.dice.chance(4);
        let endless = deaf || (self.rough && self.dice.chance(6));
        let (told, killed) = (false, false);
        let head = tree_head;
        let process = SimProcess { purpose, command, head, told, killed, endless, deaf };
        let before = self.processes.insert(id.clone(), process);
        assert!(before.is_none(), "{id} has two processes");
        let before = self.follow_ups.get(&id).filter(|_| purpose.is_none());
        let before = before.map_or(Duration::ZERO, |(_, took)| *took);
        let limits = ProcessLimits {
            started: self.instant().checked_sub(before).expect("the machine has run that long"),
            limit: LIMIT,
            idle: purpose.is_none().then_some(Duration::from_secs(600)),
        };
        let far = Placement { run_on: FAR.to_owned(), within: None, host: None };
        Input::ProcessStarted(id, limits, ProcessStart::Runs(is_far.then_some(far)))
    }

    /// Starts the agent of an attempt again, which may complete the work, or do nothing.
    fn follow_up(&mut self, id: AttemptId, next: &FollowUp) -> Input {
        let at_work = self.processes.values().filter(|process| !is_trial(process.purpose));
        assert!(at_work.count() < self.policy.jobs, "{id} goes on beside `jobs` others");
        let (taken, took) = self.follow_ups.entry(id.clone()).or_default();
        (*taken, *took) = (*taken + 1, next.took);
        assert!(*taken <= MOST_FOLLOW_UPS, "{id} gets one prompt too many");
        assert_eq!(next.number, *taken as usize, "{id} counts its prompts");
        assert!(next.took < LIMIT, "{id} goes on although its time is over");
        self.count("follow-ups");
        let record = self.records.get_mut(&id).expect("it is open");
        (record.exit, record.head) = (None, None);
        self.start(id, None, "agent")
    }

    /// Simulates the question to an executor about an attempt of an earlier run.
    fn fetch(&mut self, id: AttemptId) -> Input {
        let process = SimProcess {
            purpose: None,
            command: "agent".to_owned(),
            head: self.records[&id].tree_head.clone(),
            told: false,
            killed: false,
            endless: self.rough && self.dice.chance(6),
            deaf: false,
        };
        assert!(self.processes.insert(id.clone(), process).is_none(), "{id} has two processes");
        let limit = Duration::from_secs(24 * 3600);
        let limits = ProcessLimits { started: self.instant(), limit, idle: None };
        Input::ProcessStarted(id, limits, ProcessStart::OnItsWay)
    }

    fn is_far(&self, id: &AttemptId) -> bool {
        let open = self.history.active.of(&id.task_id);
        open.is_some_and(|open| open.run_on.as_deref() == Some(FAR))
    }

    /// The executor of an attempt does not answer, or its slot cannot be made.
    fn unreachable(&mut self, id: AttemptId) -> Input {
        let lasts = self.rough && self.dice.chance(10);
        let fault = ExecutorFault { why: "no route".to_owned(), lasts };
        Input::Unreachable { id, fault }
    }

    /// Returns the evidence of an attempt.
    fn collect(&mut self, id: &AttemptId, end: &ProcessEnd) -> PendingResult {
        assert!(!self.processes.contains_key(id), "{id} is examined while it runs");
        let outcome = end.outcome.clone().unwrap_or_default();
        let worked = outcome == Outcome::Exited { exit_code: 0 };
        let mut works = self.bases[id].clone();
        works.insert(id.clone());
        let (report, question) = match self.dice.below(if self.rough { 12 } else { 1 }) {
            1 => (None, None),
            2 => (None, Some("which?".to_owned())),
            // It may have reported before it was ended.
            _ => ((worked || self.rough && self.dice.chance(50)).then_some(Report::DoneFile), None),
        };
        let head = if report.is_some() && !(self.rough && self.dice.chance(5)) {
            let head = self.records.get(id).and_then(|record| record.head.clone());
            Some(head.unwrap_or_else(|| self.commit(works)))
        } else {
            None
        };
        if let Some(record) = self.records.get_mut(id) {
            record.head.clone_from(&head);
            record.tree_head.clone_from(&head);
        }
        let commits = head.into_iter().map(|id| Commit { id, subject: String::new() }).collect();
        let diff = Some(DiffStat { files: 1, insertions: 1, deletions: 0 });
        let left = self.rough && self.dice.chance(10);
        let leftovers = left.then(|| "file".to_owned()).into_iter().collect();
        let evidence =
            Evidence { report, commits, diff, leftovers, question, ..Evidence::default() };
        let conversation = self.dice.chance(80).then(|| "c".to_owned());
        let rest = PendingResult::default();
        PendingResult { evidence, outcome, took: end.took, conversation, ..rest }
    }

    /// The steps that may end next: one of an attempt, or a git command of the queue.
    fn choices(&self) -> Vec<Option<AttemptId>> {
        let mut choices = Vec::new();
        let can_end = self.processes.iter().filter(|(_, process)| process.can_end());
        choices.extend(can_end.map(|(id, _)| Some(id.clone())));
        choices.extend(self.preparing.iter().cloned().map(Some));
        let is_stopped = self.ends_reviews();
        let reviews = self.reviews.iter().filter(|(_, it)| is_stopped || it.until <= self.now);
        choices.extend(reviews.map(|(id, _)| Some(id.clone())));
        if self.building.is_some() || self.landing.is_some() {
            choices.push(None);
        }
        choices
    }

    /// Simulates one event: the end of a process, of a preparation or of a git command. Time
    /// passes.
    fn happen(&mut self, until: Option<DateTime<Utc>>) -> Result<(), End> {
        self.now += 1 + i64::try_from(self.dice.below(5)).unwrap_or(0);
        if self.rough {
            match self.dice.below(60) {
                0 => self.person(),
                1 => return self.signal(),
                2 => {
                    let left = self.processes.keys().next().cloned();
                    if let Some(id) = left.filter(|id| self.processes[id].purpose.is_none()) {
                        let children = vec!["server".to_owned()];
                        let left =
                            ChildrenLeft { attempt: id.attempt, children, limit_seconds: 60.0 };
                        let reported = self.dice.chance(50);
                        return self.handle(Input::ProcessLeft { id, left, reported });
                    }
                }
                3 => {
                    let id = self.processes.keys().next_back().cloned();
                    if let Some(id) = id {
                        let changed = self.dice.chance(50);
                        return self.handle(Input::ProcessIdle(id, changed));
                    }
                }
                4 => {
                    self.now += 4000;
                    return self.tick();
                }
                7 | 8 => self.is_away = !self.is_away,
                6 => {
                    let id = self.processes.keys().next_back().cloned();
                    if let Some(id) = id {
                        return self.handle(Input::Reported(id));
                    }
                }
                5 => {
                    self.now += 500;
                    self.signalled.0 = self.signalled.0.map(|at| at + 500);
                    return self.handle(Input::StoodStill(Duration::from_secs(500)));
                }
                _ => {}
            }
        }
        let lands = self.policy.stop.is_none() || self.run.lands_last(self.instant());
        // A due tick may follow other inputs: a killed process ends although its next kill is due.
        let is_due = self.run.patience(self.instant(), lands).is_some_and(|left| left.is_zero());
        if is_due && self.dice.chance(80) {
            return self.tick();
        }
        let mut choices = self.choices();
        if choices.is_empty() {
            if let Some(until) = until {
                self.now = self.now.max(until.timestamp());
            }
            if let Some(until) = self.reviews.values().map(|review| review.until).min() {
                self.now = self.now.max(until);
                return self.tick();
            }
            let patience = self.run.patience(self.instant(), lands).unwrap_or_default();
            self.now += i64::try_from(patience.as_secs()).unwrap_or(0) + 1;
            return self.tick();
        }
        match choices.swap_remove(self.dice.below(choices.len())) {
            Some(id) if self.preparing.contains(&id) => self.prepared(id),
            Some(id) if self.reviews.contains_key(&id) => self.end_review(id),
            Some(id) => self.end_process(id),
            None if self.building.is_some() => self.end_build(),
            None => self.end_landing(),
        }
    }

    fn prepared(&mut self, id: AttemptId) -> Result<(), End> {
        self.preparing.remove(&id);
        if self.is_away && self.is_far(&id) && self.dice.chance(50) {
            let input = self.unreachable(id);
            return self.handle(input);
        }
        let input = match self.dice.below(if self.rough { 12 } else { 1 }) {
            1 => self.unreachable(id),
            2 => {
                let reason = SlotReason { slot: "1".to_owned(), why: "work".to_owned() };
                Input::SlotKept(id, reason)
            }
            number => {
                let is_set_up = number == 3;
                self.set_up.extend(is_set_up.then(|| id.clone()));
                Input::SlotReady { id, is_set_up }
            }
        };
        self.handle(input)
    }

    fn end_process(&mut self, id: AttemptId) -> Result<(), End> {
        let process = self.processes.remove(&id).expect("it was chosen");
        let is_trial = is_trial(process.purpose);
        let verifies = is_trial || process.purpose == Some(CheckPurpose::Verify);
        // Its result depends on HEAD, whatever was meant to be verified.
        let works = process.head.as_ref().map(|head| self.commits[head].clone());
        let good = match process.purpose {
            // Some fail now and then.
            Some(CheckPurpose::Trial(_)) => {
                works.is_some_and(|works| self.is_green(&works))
                    && !(self.rough && self.dice.chance(8))
            }
            Some(CheckPurpose::Verify) => {
                works.is_none_or(|works| self.is_green(&works))
                    && !(self.rough && self.dice.chance(10))
            }
            Some(CheckPurpose::Setup) | None => !(self.rough && self.dice.chance(8)),
        };
        let outcome = match (process.told, self.rough && self.dice.chance(2)) {
            (_, true) => self
                .dice
                .chance(50)
                .then(|| Outcome::Lost { executor: "far".to_owned(), why: "no route".to_owned() }),
            (true, false) => Some(Outcome::Signaled { signal: 15 }),
            (false, false) => Some(Outcome::Exited { exit_code: i32::from(!good) }),
        };
        let is_elsewhere = is_trial && {
            let slot = self.trial_slot(&id);
            Some(&slot.head) != slot.tip.as_ref()
        };
        if verifies && self.rough && self.dice.chance(if is_elsewhere { 30 } else { 3 }) {
            self.move_head(&id, is_trial);
        }
        let own = self.records[&id].tree_head.clone();
        let after = if is_trial { Some(self.trial_slot(&id).head.clone()) } else { own };
        let head = HeadSpan { before: process.head, after };
        let is_green = outcome == Some(Outcome::Exited { exit_code: 0 });
        let end = self.run.attempts().get(&id).and_then(|open| open.phase.result());
        let leftovers = end.is_some_and(|end| !end.evidence.leftovers.is_empty());
        let is_clean = if is_trial { !self.trial_slot(&id).changed } else { !leftovers };
        let is_proof = verifies && is_clean && head.before == head.after;
        let stayed = head.after.clone().filter(|_| is_proof);
        if let Some(commit) = stayed.clone().filter(|_| is_green) {
            self.green_at.entry(commit).or_default().insert(process.command.clone());
        }
        self.reds.extend(stayed.filter(|_| is_trial && !is_green));
        if let Some(purpose) = process.purpose.filter(|_| is_green) {
            let passed = self.passed.entry((id.clone(), purpose.log_name())).or_default();
            passed.push(process.command);
        }
        let open = self.run.attempts().get(&id).and_then(|open| open.phase.process());
        let asks_again = process.told && open.is_some_and(|process| process.recovers);
        if process.purpose.is_none()
            && !asks_again
            && let Some(record) = self.records.get_mut(&id)
        {
            record.exit.clone_from(&outcome);
        }
        let took = Duration::from_secs(1);
        self.handle(Input::ProcessEnded(
            id,
            Box::new(ProcessEnd { outcome, took, head, ..ProcessEnd::default() }),
        ))
    }

    /// Simulates a verify command that moves HEAD of its tree.
    fn move_head(&mut self, id: &AttemptId, is_trial: bool) {
        let number = self.dice.below(self.commits.len());
        let any = self.commits.keys().nth(number).cloned().expect("a number below the length");
        // A command may also go where HEAD should have been.
        let verified =
            if is_trial { self.trial_slot(id).tip.clone() } else { self.records[id].head.clone() };
        let commit = verified.filter(|_| self.dice.chance(50)).unwrap_or(any);
        if is_trial {
            self.trial_slot(id).head = commit;
        } else if let Some(record) = self.records.get_mut(id) {
            record.tree_head = Some(commit);
        }
    }

    fn end_build(&mut self) -> Result<(), End> {
        let SimBuild { onto, id, has_work, slot } = self.building.take().expect("it was chosen");
        if self.rough && self.dice.chance(3) {
            return self.handle(Input::Built(id, Err("git failed".to_owned())));
        }
        let mut trial = BuiltTrial::default();
        let mut head = onto;
        let mut tip = Some(head.clone());
        let mut works = self.commits[&head].clone();
        if has_work && self.conflicts(&id, &works) {
            trial.conflict = Some(vec!["file".to_owned()]);
            if self.rough && self.dice.chance(20) {
                // The conflict files of git were not cleaned up.
                head = self.records[&id].head.clone().expect("it has a commit");
            }
        } else if has_work {
            works.insert(id.clone());
            let own = self.records[&id].head.clone().expect("queued work has a commit");
            // Work on top of its own base stays unchanged.
            let is_on_top = self.commits[&own] == works;
            head = if is_on_top { own } else { self.commit(works) };
            let commit = head.clone();
            tip = Some(commit.clone());
            let commits = vec![Commit { id: commit.clone(), subject: String::new() }];
            let rebuilt = (!is_on_top).then(|| (commits, DiffStat::default()));
            let is_resolved = !is_on_top && self.dice.chance(20);
            let file = || ResolvedConflict { path: "list".to_owned(), command: None };
            let resolved = is_resolved.then(file).into_iter().collect();
            trial.built = Some(BuiltCommit { commit, rebuilt, resolved });
        }
        let changed = self.rough && self.dice.chance(2);
        trial.changed.extend(changed.then(|| "file".to_owned()));
        self.trial_slots.insert(slot, SimSlot { head, tip, changed });
        self.handle(Input::Built(id, Ok(trial)))
    }

    fn end_landing(&mut self) -> Result<(), End> {
        let verified = self.landing.take().expect("it was chosen");
        let landed = match self.dice.below(if self.rough { 20 } else { 1 }) {
            1 => Err("git failed".to_owned()),
            _ if self.tip() != *verified.onto() => Ok(LandOutcome::Moved),
            _ => {
                self.positions.push(verified.tip().clone());
                self.count("landings");
                Ok(LandOutcome::Landed { waits: self.dice.chance(2) })
            }
        };
        self.handle(Input::Landed(landed))
    }

    /// Simulates a person who edits the graph, moves the branch or stops the run.
    fn person(&mut self) {
        let number = self.dice.below(self.graph.tasks().len());
        let id = self.graph.task(number).id.clone();
        let status = self.graph.task(number).status;
        match self.dice.below(7) {
            0 if status == Status::Pending => self.set_by_hand(number, Status::Complete),
            4 if self.graph.tasks().len() > 1 => self.remove_by_hand(number),
            1 if status == Status::Pending => self.set_by_hand(number, Status::Blocked),
            2 => {
                let works = self.commits[&self.tip()].clone();
                let commit = self.commit(works);
                self.verified.insert(commit.clone());
                self.positions.push(commit);
            }
            3 => {
                let stop = crate::event::StopRequest::default();
                self.emit(None, RequestEvent::StopRequested(stop));
            }
            _ if status == Status::Pending && self.history.of(&id).asks => {
                let (question, answer) = ("which?".to_owned(), "this".to_owned());
                self.emit(Some((id, 0)), RequestEvent::Answered(Answer { question, answer }));
            }
            _ if matches!(status, Status::Blocked | Status::NeedsInput) => {
                self.set_by_hand(number, Status::Pending);
                self.emit(Some((id, 0)), RequestEvent::Reset {});
            }
            _ => {}
        }
    }

    /// Removes a task from the graph, also during an attempt at it.
    fn remove_by_hand(&mut self, number: usize) {
        let (id, old) = (self.graph.task(number).id.clone(), self.graph.task(number).status);
        let moved = |n: usize| n - usize::from(n > number);
        let all = 0..self.graph.tasks().len();
        let edges = all.filter(|to| *to != number).flat_map(|to| {
            let from = self.graph.dependencies(to).filter(|from| *from != number);
            from.map(move |from| (moved(from), moved(to)))
        });
        let edges = edges.collect();
        let tasks = self.graph.tasks().iter().filter(|task| task.id != id).cloned().collect();
        self.graph = TaskGraph::new(tasks, edges).expect("fewer edges make no circle");
        let (old, cause) = (Some(old), Cause::Edited);
        self.emit(Some((id, 0)), GraphEvent::StatusChanged { old, new: None, cause, reason: None });
    }

    fn set_by_hand(&mut self, number: usize, status: Status) {
        let (id, old) = (self.graph.task(number).id.clone(), self.graph.task(number).status);
        self.graph.set_status(number, status);
        if status == Status::Complete {
            self.by_hand.insert(id.clone());
        }
        let (old, new, cause) = (Some(old), Some(status), Cause::Command);
        self.emit(Some((id, 0)), GraphEvent::StatusChanged { old, new, cause, reason: None });
    }

    fn signal(&mut self) -> Result<(), End> {
        let name = if self.dice.chance(50) { "SIGTERM" } else { "SIGINT" };
        if self.policy.stop.is_none() {
            self.policy.stop = Some((15, name));
        }
        self.signalled.1 += 1;
        if self.signalled.1 == 1 && name == "SIGTERM" {
            self.signalled.0 = Some(self.now);
        }
        self.handle(Input::Signal(15, name))?;
        let all_killed = self.processes.values().all(|process| process.killed);
        assert!(self.signalled.1 != 2 || all_killed, "a second signal kills");
        Ok(())
    }

    /// Lets time pass to where limits are reached, and checks that they are kept.
    fn tick(&mut self) -> Result<(), End> {
        self.handle(Input::Tick)?;
        // The grace periods of TERM and of the kill after it.
        let late = self.signalled.0.is_some_and(|at| self.now > at + 20);
        let told = self.processes.values().all(|process| process.told);
        assert!(!late || told, "a process outlives the grace period of SIGTERM");
        for (id, process) in self.processes.iter().filter(|(_, it)| it.purpose.is_none()) {
            let process = (process, self.run.attempts().process(id));
            let (SimProcess { told, .. }, Some(AttemptProcess { watch: Some(watch), .. })) =
                process
            else {
                continue;
            };
            let worked = self.instant().saturating_duration_since(watch.limits().started);
            let before = self.follow_ups.get(id).map_or(Duration::ZERO, |(_, took)| *took);
            assert!(worked >= before, "{id} has its time again");
            assert!(*told || worked <= LIMIT || watch.limits().limit > LIMIT, "{id} has no limit");
        }
        Ok(())
    }

    /// Simulates one run, which starts with the records of the previous one.
    fn run_once(&mut self) -> End {
        self.run_number += 1;
        if self.shown {
            println!("run {}: {:?}, jobs {}", self.run_number, self.positions, self.policy.jobs);
        }
        self.run = Run::default();
        (self.policy.stop, self.signalled, self.trying) = (None, (None, 0), BTreeMap::new());
        // All processes end with the runner.
        self.processes.clear();
        self.preparing.clear();
        self.reviews.clear();
        self.to_park.clear();
        self.building = None;
        if let Some(verified) = self.landing.take() {
            // Git may or may not have finished.
            if self.tip() == *verified.onto() && self.dice.chance(50) {
                self.positions.push(verified.tip().clone());
                self.count("landings");
            }
        }
        self.emit(None, RunEvent::LoopStarted(Begun::default()));
        match self.run_to_the_end() {
            Ok(reason) => End::Stopped(reason),
            Err(end) => end,
        }
    }

    fn run_to_the_end(&mut self) -> Result<StopReason, End> {
        let found: Vec<DiskRecord> = self.records.values().cloned().collect();
        for record in found {
            self.recover(record)?;
        }
        for _ in 0..STEPS {
            self.check();
            let now = self.time();
            let decision = self.with(|run, sit| run.decide(sit, now));
            match decision {
                RunDecision::Act(commands) => drop(self.carry_out(commands)?),
                RunDecision::Land(_) => {
                    let tip = self.tip();
                    let queued: Vec<&AttemptId> = self.run.landing().queued().collect();
                    let mut open = self.run.attempts().open().iter();
                    let is_last = open.all(|open| queued.contains(&&open.id));
                    self.last_step = is_last.then_some(self.started.len());
                    let commands = self.with(|run, sit| run.land(Some(&tip), sit));
                    self.carry_out(commands)?;
                }
                RunDecision::Select(Decision::Start(key)) => {
                    self.carry_out(vec![RunCommand::Record(key)])?;
                    let at_work =
                        self.processes.iter().filter(|(_, process)| !is_trial(process.purpose));
                    assert!(at_work.count() <= self.policy.jobs, "more than `jobs` at work");
                }
                RunDecision::Select(Decision::Wait(wait)) => self.happen(wait.until)?,
                RunDecision::Select(Decision::Stop(reason)) => {
                    self.stopped(&reason);
                    return Ok(reason);
                }
            }
        }
        panic!("no end after {STEPS} steps");
    }

    fn recover(&mut self, record: DiskRecord) -> Result<(), End> {
        let on_branch = |commit: &CommitId| {
            self.positions.contains(commit) || {
                let tip = self.commits[&self.tip()].clone();
                self.commits[commit].is_subset(&tip) && tip.contains(&record.attempt.id)
            }
        };
        let landed = record.landing.clone().filter(|it| it.commit().is_some_and(on_branch));
        let landed = landed.map(|landing| {
            let mut evidence = Evidence::default();
            landing.complete(&mut evidence);
            Box::new(evidence)
        });
        let outcome = record.exit.clone().unwrap_or(Outcome::Interrupted);
        if landed.is_some() {
            self.found_landed.insert(record.attempt.id.clone());
        }
        self.passed.retain(|(id, _), _| *id != record.attempt.id);
        let is_away =
            record.exit.is_none() && self.is_far(&record.attempt.id) && self.dice.chance(50);
        // From now on, it gets no other prompt.
        self.follow_ups.insert(record.attempt.id.clone(), (MOST_FOLLOW_UPS, Duration::ZERO));
        let (follow_ups, phase) = (FollowUps::default(), AttemptPhase::Preparing);
        let attempt = OpenAttempt { follow_ups, phase, ..record.attempt };
        let found = FoundAttempt {
            attempt,
            from_run: format!("r{}", self.run_number - 1),
            had_agent: false,
            outcome,
            is_away,
            took: Duration::from_secs(1),
            swept: Vec::new(),
            landed,
        };
        self.handle(Input::Found(Box::new(found)))
    }

    /// Checks the invariants of every step.
    fn check(&self) {
        assert!(self.verified.contains(&self.tip()), "the branch is at an unverified commit");
        for task in self.graph.tasks() {
            let landed = self.commits[&self.tip()].iter().any(|id| id.task_id == task.id);
            let done = task.status == Status::Complete && !self.by_hand.contains(&task.id);
            assert!(!done || landed || !self.isolated, "{} is complete and not landed", task.id);
        }
        for open in self.run.attempts().open() {
            let active = self.history.active.of(&open.id.task_id);
            let active = active.expect("an open attempt is active");
            let (id, state, phase) = (&open.id, active.state, &open.phase);
            assert_eq!(active.attempt, id.attempt, "{id} is not the active attempt");
            assert!(phase.fits(state), "{id} is {state:?} in the history and {phase:?} in the run");
        }
        for id in self.reviews.keys() {
            let phase = self.run.attempts().get(id).map(|open| &open.phase);
            assert_eq!(phase, Some(&AttemptPhase::Judging), "{id} goes on during its review");
        }
        for open in &self.history.active.attempts {
            let id = AttemptId { task_id: open.task_id.clone(), attempt: open.attempt };
            assert!(!self.ended.contains_key(&id), "{id} is active and has ended");
        }
    }

    /// Checks the invariants at the end of a run that did not crash.
    fn stopped(&mut self, reason: &StopReason) {
        assert!(self.processes.is_empty(), "processes still run: {reason}");
        assert!(self.reviews.is_empty(), "reviewers still run: {reason}");
        assert!(self.to_park.is_empty(), "{:?} are not parked", self.to_park);
        for task in self.graph.tasks().iter().filter(|task| task.status == Status::InProgress) {
            let spent = self.is_out_of_attempts(&task.id);
            // A crash right after the end of an attempt loses the line, not the state.
            let told = self.counts.contains_key("crashes") || self.parked.contains(&task.id);
            assert!(!spent || told, "{} is not parked", task.id);
        }
        if let StopReason::MergeHeld(_) = reason {
            let last = Some(self.started.len());
            assert_eq!(self.last_step, last, "landing was not tried after everything else ended");
        }
        let all = self.graph.tasks().iter().all(|task| task.status.is_over());
        if !matches!(reason, StopReason::Signal(..) | StopReason::MergeHeld(_)) {
            assert_eq!(*reason == StopReason::Complete, all, "{reason}");
        }
        self.emit(
            None,
            RunEvent::Finished {
                why: reason.to_string(),
                exit_code: reason.exit().code(),
                iterations: 0,
                completed: 0,
                remaining: 0,
                duration_seconds: 0.0,
            },
        );
    }
}

/// Simulates one schedule: runs with failures first, then runs without, until no record is left.
fn schedule(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(seed);
    for _ in 0..6 {
        match world.run_once() {
            End::Crashed => {
                world.count("crashes");
                if !world.reviews.is_empty() {
                    world.count("crashes during a review");
                }
            }
            End::Stopped(StopReason::Complete) => break,
            End::Stopped(_) => {}
        }
    }
    (world.rough, world.is_away) = (false, false);
    for _ in 0..2 {
        if let End::Crashed = world.run_once() {
            panic!("a run without failures crashed");
        }
    }
    assert!(world.records.is_empty(), "records are left: {:?}", world.records.keys());
    for id in world.started.keys() {
        assert_eq!(world.ended.get(id), Some(&1), "{id} started and has no end");
    }
    assert!(world.history.active.attempts.is_empty(), "{:?}", world.history.active);
    for position in &world.positions {
        let works = &world.commits[position];
        assert!(
            !world.verify || world.is_green(works),
            "the branch was at {position}, which fails"
        );
    }
    world.counts
}

#[test]
fn no_schedule_violates_an_invariant() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("RALPH_SIMULATION_SEED") {
        schedule(seed);
        return;
    }
    let count = number("RALPH_SIMULATIONS").unwrap_or(SCHEDULES);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..count {
        let result = std::panic::catch_unwind(|| schedule(seed));
        let Ok(counts) = result else {
            panic!("RALPH_SIMULATION_SEED={seed} violates an invariant");
        };
        for (what, count) in counts {
            *sums.entry(what).or_default() += count;
        }
    }
    let told: Vec<String> = sums.iter().map(|(what, sum)| format!(", {what} {sum}")).collect();
    println!("schedules {count}{}, violations 0", told.concat());
    let [landings, crashes, follow_ups] =
        ["landings", "crashes", "follow-ups"].map(|what| sums.get(what).copied().unwrap_or(0));
    for what in [
        "conflicts before a review",
        "crashes during a review",
        "failed reviews",
        "findings that stay",
        "limits waited for",
        "postponed reviews",
        "reviews without findings",
        "rounds of findings",
        "runs ended by a reviewer",
    ] {
        assert!(sums.contains_key(what), "{what} never happened");
    }
    assert!(follow_ups > count / 5, "{follow_ups} follow-ups");
    assert!(landings > count / 2 && crashes > count / 20, "{landings} landings, {crashes} crashes");
}
