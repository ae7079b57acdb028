//! The selection of the next task: the state of every task, the order of the ready tasks, and the
//! decision.
//!
//! This module does no I/O: time, history and policy are arguments. Keys are computed once per read
//! of the file, and a decision is one pass without a sort.

mod agents;
mod conflicts;
mod frontier;
mod key;
mod reach;
pub mod roster;
mod stops;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    num::NonZeroU32,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    agents::agent_command::AgentCommand,
    attempt::Isolation,
    event::{PlainLoop, StopReason},
    graph::{
        TaskGraph,
        filter::Filter,
        task::{Status, TaskId},
    },
    history::{History, TaskHistory},
    spend::Budget,
};
pub use agents::Turn;
pub use conflicts::TaskConflict;
use frontier::FrontierScan;
use key::unfinished;
pub use key::{SelectionKey, keys};
use roster::Roster;
use stops::Standstill;
pub use stops::{default_iterations, iteration_limit_reached, parked_after};

/// The default number of attempts before a task is parked.
pub const MAX_ATTEMPTS: u32 = 3;
/// The least default number of attempts of one run. Above this, a limit is worth a warning.
pub const MAX_ITERATIONS: u32 = 50;
/// The default number of rounds of attempts at a task that holds others.
pub const ROUNDS: u32 = 2;
/// The default number of different tasks that fail in a row and stop a run, and of iterations that
/// fail in a row and stop a plain loop.
pub const MAX_FAILURES: u32 = 5;
/// The default number of attempts in a row that fail right after their start and stop a run.
pub const START_LIMIT: u32 = 3;
/// The longest pause before a failed task is retried.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// The default limit on waiting for a provider.
pub const MAX_WAIT: Duration = Duration::from_secs(6 * 3600);
/// The default time after which a task in progress counts as stale.
pub const STALE_AFTER: Duration = Duration::from_secs(2 * 3600);
/// The first and the longest pause while waiting for other processes or people (`--wait`).
const WAIT: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));

/// The rules of a run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are switches")]
pub struct Policy {
    /// The filter for the tasks.
    pub filter: Filter,
    /// The largest number of attempts at the same time.
    pub jobs: usize,
    /// The largest number of attempts at the same time, by the name of an agent or a tag.
    pub limits: BTreeMap<String, NonZeroU32>,
    /// The largest number of attempts in this run; without it, as many as its tasks may take.
    pub max_iterations: Option<u32>,
    /// The number of attempts per task since its last reset; a task can override it.
    pub max_attempts: u32,
    /// How often a task that holds others gets that number of attempts before it is parked. Each
    /// further round is after everything else.
    pub rounds: u32,
    /// The number of different tasks that fail in a row, with none completed between them, and stop
    /// the run; 0 for no limit. A plain loop has its own limit on iterations.
    pub max_failures: u32,
    /// The number of attempts in a row that fail right after their start and stop the run; 0 for no
    /// limit.
    pub start_limit: u32,
    /// The agents for tasks without their own, in the order in which they are tried.
    pub agents: Vec<AgentCommand>,
    /// Whether these agents override those of tasks.
    pub agents_given: bool,
    /// The names of agents, and the agents of certain tasks and attempts.
    pub roster: Roster,
    /// The cost, token and time limits of a run.
    pub budget: Budget,
    /// The limit on waiting for a provider.
    pub max_wait: Duration,
    /// Whether to stop after the first attempt.
    pub once: bool,
    /// Whether to wait for tasks in progress elsewhere, and for answers, when no task can start.
    pub wait: bool,
    /// The time after which a task in progress counts as stale.
    pub stale_after: Duration,
    /// The signal that asked the run to stop.
    pub stop: Option<(i32, &'static str)>,
    /// The plain loop, if the run is one.
    pub plain: Option<PlainLoop>,
    /// Where attempts work.
    pub isolation: Isolation,
    /// The executor of tasks without their own, if it is not this machine as it is.
    pub run_on: Option<String>,
    /// Whether this executor overrides those of tasks.
    pub run_on_given: bool,
    /// The executors that are hosts of a pool, such as `big@a`.
    pub hosts: BTreeSet<String>,
    /// The tasks that are complete on another branch, with that branch.
    pub elsewhere: BTreeMap<TaskId, String>,
}

impl Policy {
    /// Whether each attempt has a slot of its own.
    pub fn is_isolated(&self) -> bool {
        self.isolation == Isolation::Slot
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            filter: Filter::default(),
            jobs: 1,
            limits: BTreeMap::new(),
            max_iterations: None,
            max_attempts: MAX_ATTEMPTS,
            rounds: ROUNDS,
            max_failures: MAX_FAILURES,
            start_limit: START_LIMIT,
            agents: Vec::new(),
            agents_given: false,
            roster: Roster::default(),
            budget: Budget::default(),
            max_wait: MAX_WAIT,
            once: false,
            wait: false,
            stale_after: STALE_AFTER,
            stop: None,
            plain: None,
            isolation: Isolation::default(),
            run_on: None,
            run_on_given: false,
            hosts: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
        }
    }
}

/// The state of a task, derived from the file, the history and the active attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Complete in the file.
    Complete,
    /// Cancelled in the file.
    Cancelled,
    /// An attempt of this run is open at it.
    Running,
    /// In progress outside of this run.
    Claimed,
    /// In progress in the file, where nobody has claimed it: parked elsewhere, or set by hand.
    Unclaimed,
    /// Can start now.
    Ready,
    /// Cannot start alongside the active attempts; [`View::conflict`] has the reason.
    Conflicting,
    /// Failed, and is retried at this time.
    Retrying(DateTime<Utc>),
    /// Its agents are rate-limited until this time.
    RateLimited(DateTime<Utc>),
    /// Its executor is out, and is tried again then; none while it is tried.
    Unreachable(Option<DateTime<Utc>>),
    /// All of its agents are denied access.
    Denied,
    /// Out of attempts; this many were made.
    Parked(u32),
    /// Its attempts have reached its cost limit.
    Spent,
    /// Needs an answer from a person.
    NeedsInput,
    /// Blocked by a person.
    Blocked,
    /// Complete on another branch, which `Policy::elsewhere` has.
    OnBranch,
    /// Waiting on dependencies, which [`View::waits_for`] lists.
    Waiting,
}

/// The input for states and decisions, apart from the time.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The tasks.
    pub graph: &'a TaskGraph,
    /// Their [`keys`].
    pub keys: &'a [SelectionKey],
    /// The history.
    pub history: &'a History,
    /// The rules of the run.
    pub policy: &'a Policy,
    /// The tasks with an open attempt of this run.
    pub active: &'a [Active<'a>],
}

/// A task with an open attempt of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active<'a> {
    /// The number of the task; none if it is no longer in the graph.
    pub number: Option<usize>,
    /// The name of the agent of the attempt, if it has one.
    pub agent: Option<&'a str>,
    /// Whether the attempt is working. If not, it is queued to land, and counts neither towards
    /// `jobs` nor towards the limits.
    pub works: bool,
}

impl View<'_> {
    /// Returns the state of a task.
    pub fn state(&self, number: usize, now: DateTime<Utc>) -> TaskState {
        let task = self.graph.task(number);
        if self.active.iter().any(|active| active.number == Some(number)) {
            return TaskState::Running;
        }
        // The history is looked up last: most tasks of a large graph are complete or waiting.
        let past = || self.history.of(&task.id);
        match task.status {
            Status::Complete => TaskState::Complete,
            Status::Cancelled => TaskState::Cancelled,
            Status::Blocked => TaskState::Blocked,
            Status::NeedsInput => TaskState::NeedsInput,
            Status::InProgress => match past() {
                past if self.is_out_of_attempts(number, past) => TaskState::Parked(past.counted),
                _ if task.claimed_at.is_some()
                    || task.claimed_by.is_some()
                    || self.history.active.of(&task.id).is_some() =>
                {
                    TaskState::Claimed
                }
                _ => TaskState::Unclaimed,
            },
            Status::Pending if self.policy.elsewhere.contains_key(&task.id) => TaskState::OnBranch,
            Status::Pending if self.graph.is_waiting(number) => TaskState::Waiting,
            Status::Pending => {
                let past = past();
                // The file may not have it, or have been restored.
                if past.asks {
                    return TaskState::NeedsInput;
                }
                if self.is_out_of_attempts(number, past) {
                    return TaskState::Parked(past.counted);
                }
                if task.max_cost.is_some_and(|limit| past.spend.assumed_cost() >= limit) {
                    return TaskState::Spent;
                }
                if let Some(last) = past.last.as_ref() {
                    let until = last.at.checked_add_signed(self.pause_after(past));
                    let until = until.unwrap_or(DateTime::<Utc>::MAX_UTC);
                    // An end in the future was recorded before the clock was set back.
                    if (last.at..until).contains(&now) {
                        return TaskState::Retrying(until);
                    }
                }
                let host = match self.host(number, now) {
                    Ok(host) => host,
                    Err(next_try) => return TaskState::Unreachable(next_try),
                };
                match self.agent(number, now) {
                    Turn::Now(_)
                        if host.is_some() && self.conflict_for_any_agent(number).is_none() =>
                    {
                        TaskState::Ready
                    }
                    Turn::Now(_) | Turn::Busy(_) => TaskState::Conflicting,
                    Turn::Later(until) => TaskState::RateLimited(until),
                    Turn::Never => TaskState::Denied,
                }
            }
        }
    }

    /// Returns the dependencies of a task that are not complete.
    pub fn waits_for(&self, number: usize) -> impl Iterator<Item = usize> {
        let open = |d: &usize| self.graph.task(*d).status != Status::Complete;
        self.graph.dependencies(number).filter(open)
    }

    /// Whether a task with this history has no attempts left, or another attempt cannot help.
    pub fn is_out_of_attempts(&self, number: usize, past: &TaskHistory) -> bool {
        let max = self.max_attempts(number).saturating_mul(rounds(self, number));
        past.stuck || used_attempts(self, number, past) >= max
    }

    /// How many attempts at a task failed, and with how many it is parked if they all do. Of failures
    /// within seconds, three count as one; the same failure again and again uses up more than one.
    pub fn failed_of(&self, number: usize) -> (u32, u32) {
        let past = self.history.of(&self.graph.task(number).id);
        let limit = self.max_attempts(number).saturating_mul(rounds(self, number));
        let left = limit.saturating_sub(used_attempts(self, number, past));
        (past.counted, past.counted.saturating_add(if past.stuck { 0 } else { left }))
    }

    /// The number of the round of attempts at a task, from 0.
    pub(super) fn round(&self, number: usize) -> u32 {
        let past = self.history.of(&self.graph.task(number).id);
        used_attempts(self, number, past) / self.max_attempts(number).max(1)
    }

    /// The number of attempts before a task is parked.
    pub fn max_attempts(&self, number: usize) -> u32 {
        self.graph.task(number).max_attempts.unwrap_or(self.policy.max_attempts)
    }

    /// Returns the numbers of the selected tasks.
    pub fn admitted(&self) -> impl Iterator<Item = usize> {
        (0..self.graph.tasks().len()).filter(|n| self.policy.filter.admits(self.graph.task(*n)))
    }

    /// Returns the numbers of the selected tasks that are neither over nor waiting on others.
    pub fn frontier(&self) -> impl Iterator<Item = usize> {
        self.graph.frontier().filter(|n| self.policy.filter.admits(self.graph.task(*n)))
    }

    /// Whether a selected task is neither complete nor cancelled, or has an open attempt.
    fn is_unfinished(&self) -> bool {
        let is_active = |number| self.active.iter().any(|active| active.number == Some(number));
        let mut admitted = self.admitted();
        admitted.any(|number| !self.graph.task(number).status.is_over() || is_active(number))
    }

    /// Returns the ready tasks, in the order in which they are selected.
    pub fn ready(&self, now: DateTime<Utc>) -> Vec<SelectionKey> {
        self.all_in(TaskState::Ready, now)
    }

    /// Returns the tasks of the frontier that are in a state, in the order of their keys.
    pub fn all_in(&self, state: TaskState, now: DateTime<Utc>) -> Vec<SelectionKey> {
        let mut found: Vec<SelectionKey> = self
            .frontier()
            .filter(|number| self.state(*number, now) == state)
            .map(|number| self.key(number))
            .collect();
        found.sort_unstable();
        found
    }

    /// Decides whether to start a task, wait or stop.
    pub fn decide(&self, now: DateTime<Utc>) -> Decision {
        let (idle, still) = (self.active.is_empty(), Standstill(self));
        if let Some((number, name)) = self.policy.stop {
            return if idle {
                Decision::Stop(StopReason::Signal(number, name))
            } else {
                Decision::Wait(Wait::default())
            };
        }
        let running =
            |until| Decision::Wait(Wait { until, why: "an attempt is running".to_owned() });
        let working = self.active.iter().filter(|active| active.works).count();
        if !idle && working >= self.policy.jobs {
            return running(None);
        }
        let mut scan = FrontierScan::of(self, now, true);
        let gives_way = |best| self.gives_way(best, scan.conflicting.iter().copied());
        if scan.best.is_some_and(gives_way) {
            scan = FrontierScan::of(self, now, false);
            scan.best = self.first(self.ready(now), mem::take(&mut scan.conflicting));
        }
        let FrontierScan { best, wake, away, denied, elsewhere, conflicting: _ } = scan;
        if !idle && best.is_none() {
            let until = wake.map(|(until, _)| until).into_iter().chain(self.first_try(&away)).min();
            return running(until);
        }
        if best.is_none() && !self.is_unfinished() {
            return Decision::Stop(still.complete());
        }
        // Access denied to every agent takes precedence over the limit that the last attempt reached.
        if let (None, None, Some(number), true) = (best, wake, denied, away.is_empty()) {
            return Decision::Stop(self.denied(number));
        }
        // The last iteration may have asked a question, which takes precedence over a limit.
        if self.policy.plain.is_some() && elsewhere {
            return Decision::Stop(still.stuck(now));
        }
        if let Some(stop) = still.limit(now).or_else(|| still.requested()) {
            return if idle { Decision::Stop(stop) } else { Decision::Wait(Wait::default()) };
        }
        match (best, wake) {
            (Some(key), _) => Decision::Start(key),
            (None, other) if !away.is_empty() => still.wait_for_executors(&away, other),
            (None, Some((until, false))) => {
                Decision::Wait(Wait { until: Some(until), why: still.pausing().to_owned() })
            }
            (None, Some((until, true))) => self.wait_for_provider(until),
            (None, None) if self.policy.wait && elsewhere => {
                let doubled = WAIT.0.saturating_mul(1 << self.history.run.waits.min(8));
                Decision::Wait(Wait {
                    until: Some(now + doubled.min(WAIT.1)),
                    why: "the remaining tasks are in progress elsewhere, need input, or are waiting on such tasks".to_owned(),
                })
            }
            (None, None) => Decision::Stop(still.stuck(now)),
        }
    }
}

/// The number of rounds of attempts at a task: one if nothing depends on it, or if it has its own
/// limit.
fn rounds(view: &View<'_>, number: usize) -> u32 {
    let holds = || view.graph.dependents(number).any(|d| unfinished(view.graph.task(d)));
    let has_own = view.graph.task(number).max_attempts.is_some();
    if has_own || !holds() { 1 } else { view.policy.rounds }
}

/// The number of attempts that a task has used. Three failures within seconds weigh as one, because
/// they cost little; without a limit on failed starts nothing would end a series of them. The third
/// failure of the same kind, and each further one, uses up its round: more would be paid for nothing.
fn used_attempts(view: &View<'_>, number: usize, past: &TaskHistory) -> u32 {
    if view.policy.plain.is_some() {
        return past.counted;
    }
    let light = if view.policy.start_limit == 0 { 0 } else { past.brief - past.brief / 3 };
    let max = view.max_attempts(number);
    let more = match past.repeated {
        0 => 0,
        more => (max - max.min(3)).saturating_add((max - max.min(1)).saturating_mul(more - 1)),
    };
    past.counted.saturating_sub(light).saturating_add(more)
}

/// Returns the pause before a retry after this number of failures: 0, 1, 2, 4, … seconds, at most
/// five minutes.
pub fn pause_before_retry(failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doubled = Duration::from_secs(1) * (1 << failures.saturating_sub(1).min(16));
    doubled.min(MAX_BACKOFF)
}

fn backoff(failures: u32) -> TimeDelta {
    TimeDelta::from_std(pause_before_retry(failures)).expect("five minutes fit")
}

/// The next action of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Start an attempt at this task.
    Start(SelectionKey),
    /// Wait: no task can start now.
    Wait(Wait),
    /// End the run.
    Stop(StopReason),
}

/// A pause, with its reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    /// When to decide again; none if only the end of an attempt can change the decision.
    pub until: Option<DateTime<Utc>>,
    /// The reason.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use crate::samples::{end, graph, record, started, task};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        event::{AttemptResult, Begun, Blocker, Event, RequestEvent, RunEvent, StopRequest},
        graph::task::{Priority, Task},
        verdict::{CheckResult, Outcome, Verdict},
    };

    pub(super) fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// Generates graphs of up to nine tasks with these statuses.
    pub(super) fn any_graph(statuses: &'static [Status]) -> impl Strategy<Value = TaskGraph> {
        (1usize..10).prop_flat_map(move |count| {
            let tasks = proptest::collection::vec(
                (
                    0i64..3,
                    prop::sample::select(statuses),
                    prop::sample::select(vec![30u32, 60, 120]),
                ),
                count,
            );
            let edges = proptest::collection::vec((0..count, 0..count), 0..count * 2);
            (tasks, edges).prop_map(|(fields, edges)| {
                let tasks = fields
                    .into_iter()
                    .enumerate()
                    .map(|(i, (priority, status, minutes))| Task {
                        priority: Priority(priority),
                        status,
                        minutes,
                        ..task(&format!("t{i}"))
                    })
                    .collect();
                let edges = edges.into_iter().filter(|(a, b)| a < b).collect();
                TaskGraph::new(tasks, edges).unwrap()
            })
        })
    }

    const ANY: &[Status] = &[
        Status::Pending,
        Status::Pending,
        Status::Pending,
        Status::Complete,
        Status::InProgress,
        Status::Blocked,
        Status::NeedsInput,
        Status::Cancelled,
    ];

    /// Returns the ready tasks in the order of selection, computed directly from the rule.
    pub(super) fn brute_force(graph: &TaskGraph) -> Vec<usize> {
        fn chain(graph: &TaskGraph, n: usize) -> u64 {
            let open = graph.dependents(n).filter(|d| unfinished(graph.task(*d)));
            u64::from(graph.task(n).minutes) + open.map(|d| chain(graph, d)).max().unwrap_or(0)
        }
        let ready = (0..graph.tasks().len()).filter(|n| {
            graph.task(*n).status == Status::Pending
                && graph.dependencies(*n).all(|d| graph.task(d).status == Status::Complete)
        });
        let mut order: Vec<usize> = Vec::new();
        for n in ready {
            let is_before = |b: &usize| {
                let unblocks =
                    |n: usize| graph.dependents(n).filter(|d| unfinished(graph.task(*d))).count();
                let (pn, pb) = (graph.task(n).priority.0, graph.task(*b).priority.0);
                let (cn, cb) = (chain(graph, n), chain(graph, *b));
                pn < pb || pn == pb && cn > cb || pn == pb && cn == cb && unblocks(n) > unblocks(*b)
            };
            order.insert(order.iter().position(is_before).unwrap_or(order.len()), n);
        }
        order
    }

    /// An attempt that works, or one that is queued to land.
    fn active(number: usize, works: bool) -> Active<'static> {
        Active { number: Some(number), agent: None, works }
    }

    fn decide(graph: &TaskGraph, history: &History, policy: &Policy, now: i64) -> Decision {
        let keys = keys(graph);
        View { graph, keys: &keys, history, policy, active: &[] }.decide(at(now))
    }

    proptest! {
        #[test]
        fn the_selection_matches_brute_force(graph in any_graph(ANY)) {
            let got = decide(&graph, &History::default(), &Policy::default(), 0);
            let finished = graph.tasks().iter().all(|t| !unfinished(t));
            match (got, brute_force(&graph).first().copied()) {
                (Decision::Start(key), Some(want)) => prop_assert_eq!(key.number, want),
                (Decision::Stop(StopReason::Complete), None) => prop_assert!(finished),
                (Decision::Stop(reason), None) => {
                    let only_input = matches!(reason, StopReason::NeedsInput(_));
                    let (StopReason::Blocked(blockers) | StopReason::NeedsInput(blockers)) = reason
                    else {
                        return Err(TestCaseError::fail(format!("{reason:?}")));
                    };
                    prop_assert!(!finished);
                    let of_input = |h: &Blocker| h.why == "needs input";
                    prop_assert_eq!(only_input, blockers.iter().all(of_input));
                    // Resolving every blocker frees all pending tasks.
                    let pending = |t: &&Task| t.status == Status::Pending;
                    let held = |t: &&Task| matches!(t.status,
                        Status::InProgress | Status::Blocked | Status::NeedsInput);
                    let frees: usize = blockers.iter().map(|h| h.frees).sum();
                    let cancelled = blockers.iter().filter(|h| h.why.starts_with("cancelled")).count();
                    prop_assert_eq!(
                        frees - cancelled,
                        graph.tasks().iter().filter(|t| pending(t) || held(t)).count()
                    );
                }
                (got, want) => prop_assert!(false, "{:?} for {:?}", got, want),
            }
        }

        #[test]
        fn the_frontier_follows_every_status(
            mut graph in any_graph(ANY),
            changes in proptest::collection::vec((0usize..10, prop::sample::select(ANY)), 0..20),
        ) {
            let (history, policy) = (History::default(), Policy::default());
            let keys = keys(&graph);
            for (number, status) in changes {
                let count = graph.tasks().len();
                let view = View {
                    graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[],
                };
                let states: Vec<TaskState> = (0..count).map(|n| view.state(n, at(0))).collect();
                let are = |wanted: &[TaskState]| {
                    (0..count).filter(|n| wanted.contains(&states[*n])).collect::<Vec<usize>>()
                };
                let rest = are(&[TaskState::Complete, TaskState::Cancelled, TaskState::Waiting]);
                let front: Vec<usize> = graph.frontier().collect();
                prop_assert_eq!(front.len() + rest.len(), count);
                prop_assert!(rest.iter().all(|n| !graph.is_in_frontier(*n)));
                prop_assert!(front.iter().all(|n| graph.is_in_frontier(*n)));
                prop_assert_eq!(graph.complete_count(), are(&[TaskState::Complete]).len());
                prop_assert_eq!(graph.cancelled_count(), are(&[TaskState::Cancelled]).len());
                for n in 0..count {
                    prop_assert_eq!(graph.is_waiting(n), view.waits_for(n).next().is_some());
                }
                graph.set_status(number % count, status);
            }
        }

        #[test]
        fn every_run_ends(
            mut graph in any_graph(&[Status::Pending]),
            verdicts in proptest::collection::vec(0u8..4, 64),
            max in 1u32..30,
        ) {
            let mut history = History::default();
            history.apply(&record("t0", 0, RunEvent::LoopStarted(Begun {
                max_iterations: max,
                ..Begun::default()
            })));
            let policy = Policy { max_iterations: Some(max), start_limit: 0, ..Policy::default() };
            let (mut now, mut verdicts) = (0, verdicts.into_iter().cycle());
            for step in 0.. {
                prop_assert!(step < 500, "the run does not end");
                match decide(&graph, &history, &policy, now) {
                    Decision::Start(key) => {
                        let n = key.number;
                        prop_assert!(graph.dependencies(n).all(|d| graph.task(d).status == Status::Complete));
                        let id = graph.task(n).id.to_string();
                        let attempt = history.of(&graph.task(n).id).attempts + 1;
                        let holds = graph.dependents(n).any(|d| !graph.task(d).status.is_over());
                        let most = MAX_ATTEMPTS * if holds { ROUNDS } else { 1 };
                        prop_assert!(history.of(&graph.task(n).id).counted < most);
                        history.apply(&record(&id, now, started(attempt)));
                        now += 1;
                        if verdicts.next() == Some(0) {
                            history.apply(&record(&id, now, Event::Ended(end(attempt, Verdict::Failed))));
                        } else {
                            graph.set_status(n, Status::Complete);
                            history.apply(&record(&id, now, Event::Ended(end(attempt, Verdict::Complete))));
                        }
                    }
                    Decision::Wait(wait) => {
                        let until = wait.until.expect("no attempt runs, so the wait has an end").timestamp();
                        prop_assert!(until > now);
                        now = until;
                    }
                    Decision::Stop(StopReason::Complete) => {
                        prop_assert!(graph.tasks().iter().all(|t| t.status == Status::Complete));
                        break;
                    }
                    Decision::Stop(reason) => {
                        prop_assert!(graph.tasks().iter().any(|t| t.status != Status::Complete));
                        prop_assert!(history.run.iterations <= max);
                        if let StopReason::Blocked(blockers) = reason {
                            prop_assert!(blockers.iter().all(|h| h.why.starts_with("parked")));
                        }
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn ties_are_broken_by_chain_then_dependents_then_position() {
        // t0; t1 -> t4 -> t5; t2 -> t6; t3 -> t7, t8 (all equally urgent).
        let graph = graph(9, &[(1, 4), (4, 5), (2, 6), (3, 7), (3, 8)]);
        let policy = Policy::default();
        let history = History::default();
        let keys = keys(&graph);
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let numbers: Vec<_> = view.ready(at(0)).iter().map(|key| key.number).collect();
        assert_eq!(numbers, [1, 3, 2, 0]);
        assert_eq!(keys[1].to_string(), "P2, longest chain 3h, unblocks 1, place 2");
    }

    #[test]
    fn a_task_that_holds_others_gets_a_second_round_after_everything_else_with_the_next_agent() {
        let mut tasks: Vec<Task> = (0..3).map(|i| task(&format!("t{i}"))).collect();
        tasks[0].priority = Priority(0);
        let graph = TaskGraph::new(tasks, vec![(0, 1)]).unwrap();
        let call = |name: &str| AgentCommand::preset(name).unwrap();
        let agents = vec![call("claude"), call("codex")];
        let policy = Policy { start_limit: 0, agents, ..Policy::default() };
        let keys = keys(&graph);
        let mut history = History::default();
        let started_first = |history: &History| {
            let (policy, active) = (&policy, &[][..]);
            let view = View { graph: &graph, keys: &keys, history, policy, active };
            let decision = view.decide(at(999));
            if let Decision::Stop(StopReason::Blocked(blockers)) = &decision {
                return Err(blockers[0].why.clone());
            }
            let Decision::Start(key) = decision else { panic!("{decision:?}") };
            let turn = view.agent(key.number, at(999));
            let Turn::Now(Some(agent)) = turn else { panic!("{turn:?}") };
            Ok((key.number, agent.name.clone()))
        };
        let fail = |history: &mut History, id: &str, attempt| {
            history.apply(&record(id, 100, Event::Ended(end(attempt, Verdict::Failed))));
        };
        (1..=2).for_each(|attempt| fail(&mut history, "t0", attempt));
        history.apply(&record("t2", 100, Event::Ended(end(1, Verdict::Conflict))));
        assert_eq!(started_first(&history), Ok((0, "claude".to_owned())));
        fail(&mut history, "t0", 3);
        assert_eq!(started_first(&history), Ok((2, "claude".to_owned())), "no conflict counts");
        (2..=4).for_each(|attempt| fail(&mut history, "t2", attempt));
        assert_eq!(started_first(&history), Ok((0, "codex".to_owned())), "nothing waits for t2");
        (4..=6).for_each(|attempt| fail(&mut history, "t0", attempt));
        assert_eq!(started_first(&history), Err("parked after 6 attempts".to_owned()));
    }

    #[test]
    fn brief_failures_weigh_less_and_the_same_failure_is_not_paid_for_again_and_again() {
        let graph = graph(3, &[(1, 2)]);
        let state_of = |id: &str, ended: &[AttemptResult], start_limit, max_attempts| {
            let mut history = History::default();
            for ended in ended {
                history.apply(&record(id, 100, Event::Ended(ended.clone())));
            }
            let policy = Policy { max_attempts, start_limit, ..Policy::default() };
            let (keys, history) = (keys(&graph), &history);
            let view = View { graph: &graph, keys: &keys, history, policy: &policy, active: &[] };
            view.state(graph.number(&TaskId::new(id).unwrap()).unwrap(), at(99_999))
        };
        let state = |ended: &[AttemptResult], limit| state_of("t0", ended, limit, MAX_ATTEMPTS);
        let brief = |count: usize| vec![end(1, Verdict::Failed); count];
        assert_eq!(state(&brief(3), 0), TaskState::Parked(3));
        assert_eq!(state(&brief(8), 3), TaskState::Ready);
        assert_eq!(state(&brief(9), 3), TaskState::Parked(9));
        let long = AttemptResult { duration_seconds: 60.0, ..end(1, Verdict::Failed) };
        assert_eq!(state(&vec![long; 3], 3), TaskState::Parked(3));
        let red = |line: Option<&str>| {
            let mut red = end(1, Verdict::VerifyFailed);
            red.evidence.verify = vec![CheckResult {
                command: "make".to_owned(),
                outcome: Outcome::Exited { exit_code: 1 },
                duration_seconds: 1.0,
                last_line: line.map(str::to_owned),
                log: String::new(),
                no_test: false,
            }];
            red
        };
        let many = |line, count: usize| vec![red(line); count];
        let of = |ended: &[AttemptResult]| state_of("t0", ended, 3, 9);
        assert_eq!(of(&many(None, 5)), TaskState::Ready);
        assert_eq!(of(&[many(Some("x"), 2), many(Some("y"), 2)].concat()), TaskState::Ready);
        assert_eq!(of(&many(Some("x"), 3)), TaskState::Parked(3));
        let holder = |count| state_of("t1", &many(Some("x"), count), 3, 9);
        assert_eq!((holder(3), holder(4)), (TaskState::Ready, TaskState::Parked(4)));
    }

    #[test]
    fn failures_are_retried_then_park_the_task_then_stop_the_run() {
        let graph = graph(2, &[(0, 1)]);
        let mut history = History::default();
        let policy = Policy { start_limit: 0, rounds: 1, ..Policy::default() };
        for (attempt, pause) in [(1, 1), (2, 2)] {
            history.apply(&record("t0", 100, Event::Ended(end(attempt, Verdict::Failed))));
            let Decision::Wait(wait) = decide(&graph, &history, &policy, 100) else {
                panic!("the task is retried later");
            };
            assert_eq!(wait.until, Some(at(100 + pause)));
            assert!(matches!(decide(&graph, &history, &policy, 100 + pause), Decision::Start(_)));
        }
        history.apply(&record("t0", 100, Event::Ended(end(3, Verdict::Failed))));
        let Decision::Stop(StopReason::Blocked(blockers)) = decide(&graph, &history, &policy, 999)
        else {
            panic!("blocked");
        };
        assert_eq!(blockers.len(), 1);
        assert_eq!((blockers[0].why.as_str(), blockers[0].frees), ("parked after 3 attempts", 2));
    }

    #[test]
    fn an_agent_that_does_not_start_stops_the_run() {
        let graph = graph(2, &[]);
        let policy = Policy { max_attempts: 9, ..Policy::default() };
        let failed = |seconds: f64, verdict| {
            Event::Ended(AttemptResult { duration_seconds: seconds, ..end(1, verdict) })
        };
        let stops = |ends: &[Event]| {
            let mut history = History::default();
            for end in ends {
                history.apply(&record("t0", 100, end.clone()));
            }
            decide(&graph, &history, &policy, 999) == Decision::Stop(StopReason::StartLimit(3))
        };
        let at_once = || failed(0.4, Verdict::Failed);
        assert!(!stops(&[at_once(), at_once()]));
        assert!(stops(&[at_once(), at_once(), at_once()]));
        for other in [failed(60.0, Verdict::Failed), failed(0.4, Verdict::Incomplete)] {
            assert!(!stops(&[at_once(), at_once(), other, at_once()]));
        }
    }

    #[test]
    fn waits_double_and_require_the_wait_policy() {
        let mut graph = graph(2, &[(0, 1)]);
        graph.set_status(0, Status::InProgress);
        let mut history = History::default();
        let policy = Policy { wait: true, ..Policy::default() };
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let Decision::Wait(wait) = decide(&graph, &history, &policy, 0) else {
                panic!("waits")
            };
            let until = wait.until.unwrap();
            pauses.push(until.timestamp());
            history.apply(&record("t0", 0, RunEvent::Waiting { until, why: wait.why }));
        }
        assert_eq!(pauses, [30, 60, 120, 240, 300]);
        let impatient = Policy { wait: false, ..policy };
        assert!(matches!(
            decide(&graph, &history, &impatient, 0),
            Decision::Stop(StopReason::Blocked(_))
        ));
    }

    #[test]
    fn limits_stop_only_a_run_with_unfinished_tasks() {
        let graph = graph(1, &[]);
        let mut history = History::default();
        history.run.iterations = 50;
        let got = decide(&graph, &history, &Policy::default(), 0);
        assert!(matches!(got, Decision::Stop(StopReason::Limit(_))));
        let mut done = graph;
        done.set_status(0, Status::Complete);
        let got = decide(&done, &history, &Policy::default(), 0);
        assert_eq!(got, Decision::Stop(StopReason::Complete));
    }

    #[test]
    fn the_default_limit_grows_with_the_graph_and_what_was_refused_uses_none_of_it() {
        let begun = Begun { max_iterations: 60, ..Begun::default() };
        let mut history = History::default();
        history.apply(&record("t0", 0, RunEvent::LoopStarted(begun.clone())));
        history.run.iterations = 60;
        let limit = |graph: &TaskGraph, history: &History| match decide(
            graph,
            history,
            &Policy::default(),
            0,
        ) {
            Decision::Stop(StopReason::Limit(limit)) => Some(limit),
            Decision::Start(_) => None,
            other @ (Decision::Wait(_) | Decision::Stop(_)) => panic!("{other:?}"),
        };
        assert_eq!(limit(&graph(20, &[]), &history).as_deref(), Some("60 iterations"));
        assert_eq!(limit(&graph(21, &[]), &history), None, "a task was added");
        for verdict in [Verdict::RateLimited, Verdict::Interrupted, Verdict::Failed] {
            let mut history = history.clone();
            history.apply(&record("t9", 1, started(1)));
            history.apply(&record("t9", 1, Event::Ended(end(1, verdict))));
            history.run.iterations = 60;
            let used = verdict == Verdict::Failed;
            assert_eq!(limit(&graph(1, &[]), &history).is_some(), used, "{verdict}");
            // A run that continues this one does not lose it.
            let begun = Begun { before: 60, ..begun.clone() };
            history.apply(&record("t0", 2, RunEvent::LoopStarted(begun)));
            assert_eq!(
                (history.run.used(), history.run.shown_limit()),
                if used { (60, 60) } else { (59, 61) }
            );
        }
    }

    #[test]
    fn requests_stop_a_run_after_its_attempts_end() {
        let mut graph = graph(2, &[]);
        let mut history = History::default();
        let mut decided = |event: Event, active: &[Active<'_>]| {
            history.apply(&record("t0", 0, event));
            let (keys, policy) = (keys(&graph), Policy { jobs: 2, ..Policy::default() });
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active }
                .decide(at(0))
        };
        let paused = || RequestEvent::PauseRequested {}.into();
        assert_eq!(decided(paused(), &[]), Decision::Stop(StopReason::Paused(None)));
        assert_eq!(decided(paused(), &[active(0, true)]), Decision::Wait(Wait::default()));
        assert!(matches!(
            decided(RequestEvent::ResumeRequested { now: false }.into(), &[]),
            Decision::Start(_)
        ));
        let stop = || RequestEvent::StopRequested(StopRequest::default()).into();
        assert_eq!(decided(stop(), &[]), Decision::Stop(StopReason::Stopped));
        // The stop ends with the run; a pause also applies to the next run.
        assert_eq!(decided(paused(), &[]), Decision::Stop(StopReason::Stopped));
        let next = || RunEvent::LoopStarted(Begun::default()).into();
        assert_eq!(decided(next(), &[]), Decision::Stop(StopReason::Paused(None)));
        graph.set_status(0, Status::Complete);
        graph.set_status(1, Status::Complete);
        assert_eq!(
            decide(&graph, &history, &Policy::default(), 0),
            Decision::Stop(StopReason::Complete)
        );
    }

    #[test]
    fn at_most_jobs_attempts_work_at_once() {
        let graph = graph(3, &[]);
        let keys = keys(&graph);
        let history = History::default();
        let policy = Policy { jobs: 2, ..Policy::default() };
        let decided = |active: &[Active<'_>]| {
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active }
                .decide(at(0))
        };
        let second = Decision::Start(keys[1]);
        let third = Decision::Start(keys[2]);
        assert_eq!(decided(&[active(0, true)]), second);
        assert!(matches!(decided(&[active(0, true), active(1, true)]), Decision::Wait(_)));
        // A queued attempt no longer works, and its task is not started again.
        assert_eq!(decided(&[active(0, true), active(1, false)]), third);
        assert_eq!(decided(&[active(0, false), active(1, false)]), third);
        let all = [active(0, false), active(1, false), active(2, false)];
        assert!(matches!(decided(&all), Decision::Wait(_)));
    }
}
