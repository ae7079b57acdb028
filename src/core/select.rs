//! What is next: the state of every task, the order of the ready ones, and the decision.
//!
//! Pure: time, past and policy are arguments. The key of a task is fixed while its graph is: a
//! chain runs through dependents only, and none of those can finish before the task itself, so
//! keys are worked out once per reading of the file and a decision is one pass without a sort.

mod agents;
mod conflicts;
mod forecast;
mod blockers;
mod plain_loop;
mod ready;

use std::{cmp::Reverse, collections::BTreeMap, fmt, num::NonZeroU32, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};

use crate::core::{
    agents::agent_command::AgentCommand,
    duration,
    event::{Blocker, PlainLoop, StopReason},
    graph::{
        TaskGraph,
        filter::Filter,
        task::{Priority, Status, Task},
    },
    history::History,
    spend::Budget,
};
pub use agents::Turn;
pub use conflicts::Bar;
pub use forecast::{Forecast, Slot};

/// Attempts before a task is parked, where nothing else is said.
pub const MAX_ATTEMPTS: u32 = 3;
/// Attempts of one run, where nothing else is said.
pub const MAX_ITERATIONS: u32 = 50;
/// Failures in a row that stop a run.
pub const MAX_FAILURES: u32 = 5;
/// Attempts in a row that fail at once and stop a run, where nothing else is said.
pub const START_LIMIT: u32 = 3;
/// The longest pause before another attempt at a failed task.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// How long a provider is waited for, where nothing else is said.
pub const MAX_WAIT: Duration = Duration::from_secs(6 * 3600);
/// After how long `in-progress` counts as stale, where nothing else is said.
pub const STALE_AFTER: Duration = Duration::from_secs(2 * 3600);
/// The first and the longest pause while waiting for others (`--wait`).
const WAIT: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));

/// The rules of a run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are switches")]
pub struct Policy {
    /// Which tasks.
    pub filter: Filter,
    /// Attempts at the same time.
    pub jobs: usize,
    /// Attempts at the same time with the agent of that name, and at tasks with the tag of that
    /// name.
    pub limits: BTreeMap<String, NonZeroU32>,
    /// Attempts in this run.
    pub max_iterations: u32,
    /// Attempts per task since its last reset; a task may say otherwise.
    pub max_attempts: u32,
    /// So many attempts in a row that fail at once stop the run; 0 for no such limit.
    pub start_limit: u32,
    /// The agents to be tried one after the other, by tasks that name none of their own.
    pub agents: Vec<AgentCommand>,
    /// Whether they stand above what tasks name.
    pub agents_given: bool,
    /// What a run may use.
    pub budget: Budget,
    /// How long a provider may be waited for.
    pub max_wait: Duration,
    /// Stop after the first attempt.
    pub once: bool,
    /// When nothing can start, wait for tasks that are in progress elsewhere, and for answers.
    pub wait: bool,
    /// After how long a task that is in progress counts as stale; a task may say otherwise.
    pub stale_after: Duration,
    /// A task inherits the most urgent priority among its dependents.
    pub inherit: bool,
    /// The signal that asked the run to stop.
    pub stop: Option<(i32, &'static str)>,
    /// What makes it a plain loop, if it is one.
    pub plain: Option<PlainLoop>,
}

impl Policy {
    /// Whether attempts have work trees to themselves: always where there can be several at once.
    pub fn is_isolated(&self, wanted: bool) -> bool {
        self.plain.is_none() && (wanted || self.jobs > 1)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            filter: Filter::default(),
            jobs: 1,
            limits: BTreeMap::new(),
            max_iterations: MAX_ITERATIONS,
            max_attempts: MAX_ATTEMPTS,
            start_limit: START_LIMIT,
            agents: Vec::new(),
            agents_given: false,
            budget: Budget::default(),
            max_wait: MAX_WAIT,
            once: false,
            wait: false,
            stale_after: STALE_AFTER,
            inherit: false,
            stop: None,
            plain: None,
        }
    }
}

/// Where a task stands among the ready ones; the smallest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectionKey {
    /// The most urgent first.
    pub priority: Priority,
    /// Then the longest chain of unfinished work through its dependents, itself included: minutes.
    pub chain: Reverse<u64>,
    /// Then the one with the most unfinished direct dependents.
    pub unblocks: Reverse<u32>,
    /// Then the place in the file.
    pub number: usize,
}

impl fmt::Display for SelectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = duration::short(Duration::from_secs(self.chain.0 * 60));
        write!(
            f,
            "{}, longest chain {chain}, unblocks {}, place {}",
            self.priority,
            self.unblocks.0,
            self.number + 1
        )
    }
}

/// The key of every task, by number.
pub fn keys(graph: &TaskGraph, inherit: bool) -> Vec<SelectionKey> {
    let mut keys: Vec<SelectionKey> = (0..graph.tasks().len())
        .map(|number| SelectionKey {
            priority: graph.task(number).priority,
            chain: Reverse(0),
            unblocks: Reverse(0),
            number,
        })
        .collect();
    for &number in graph.topological().iter().rev() {
        let mut key = keys[number];
        let (mut longest, mut unblocks) = (0, 0);
        for dependent in graph.dependents(number).filter(|d| unfinished(graph.task(*d))) {
            longest = longest.max(keys[dependent].chain.0);
            unblocks += 1;
            if inherit {
                key.priority = key.priority.min(keys[dependent].priority);
            }
        }
        key.chain = Reverse(longest + u64::from(graph.task(number).minutes));
        key.unblocks = Reverse(unblocks);
        keys[number] = key;
    }
    keys
}

fn unfinished(task: &Task) -> bool {
    !task.status.is_over()
}

/// The state of a task, derived from the file, the past and what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Done.
    Complete,
    /// Will not be done.
    Cancelled,
    /// An attempt of this run is open on it.
    Running,
    /// `in-progress` in the file, but not by this run.
    Claimed,
    /// Could start now.
    Ready,
    /// Could start, but not beside what is active: [`View::apart`].
    Conflicting,
    /// Failed not long ago; could start then.
    Backoff(DateTime<Utc>),
    /// Its agent met a limit of its provider; could start then.
    Limited(DateTime<Utc>),
    /// Every agent it may have is refused.
    Denied,
    /// Out of attempts.
    Parked(u32),
    /// Its attempts have used the money that it has.
    Spent,
    /// Waits for an answer.
    NeedsInput,
    /// Held back by a person.
    Held,
    /// Waits for [`View::waits_for`].
    Waiting,
}

/// All that states and decisions are made from, but for the time.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The tasks.
    pub graph: &'a TaskGraph,
    /// Their [`keys`].
    pub keys: &'a [SelectionKey],
    /// The past.
    pub history: &'a History,
    /// The rules.
    pub policy: &'a Policy,
    /// The tasks on which an attempt of this run is open.
    pub active: &'a [Active<'a>],
}

/// A task on which an attempt of this run is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active<'a> {
    /// The number of the task.
    pub number: usize,
    /// The name of the agent that the attempt has; none where it has none.
    pub agent: Option<&'a str>,
    /// Whether the attempt is at work; if not, it only waits to be merged, and takes up neither one
    /// of the attempts at the same time nor its agent.
    pub works: bool,
}

impl View<'_> {
    /// The state of one task.
    pub fn state(&self, number: usize, now: DateTime<Utc>) -> TaskState {
        let task = self.graph.task(number);
        if self.active.iter().any(|active| active.number == number) {
            return TaskState::Running;
        }
        // The past is looked up last: most tasks of a large graph are done or wait.
        let past = || self.history.of(&task.id);
        match task.status {
            Status::Complete => TaskState::Complete,
            Status::Cancelled => TaskState::Cancelled,
            Status::Blocked => TaskState::Held,
            Status::NeedsInput => TaskState::NeedsInput,
            Status::InProgress => match past().counted {
                counted if self.out_of_attempts(number) => TaskState::Parked(counted),
                _ => TaskState::Claimed,
            },
            Status::Pending if self.waits_for(number).next().is_some() => TaskState::Waiting,
            Status::Pending => {
                let past = past();
                if self.out_of_attempts(number) {
                    return TaskState::Parked(past.counted);
                }
                if task.max_cost.is_some_and(|limit| past.spend.cost_usd >= limit) {
                    return TaskState::Spent;
                }
                if let Some(last) = past.last.as_ref() {
                    let until = last.at.checked_add_signed(self.pause_after(past));
                    let until = until.unwrap_or(DateTime::<Utc>::MAX_UTC);
                    // An end that is yet to come was told by a clock that was set since.
                    if (last.at..until).contains(&now) {
                        return TaskState::Backoff(until);
                    }
                }
                match self.agent(number, now) {
                    Turn::Now(_) if self.bar(number).is_none() => TaskState::Ready,
                    Turn::Now(_) | Turn::Busy(_) => TaskState::Conflicting,
                    Turn::Later(until) => TaskState::Limited(until),
                    Turn::Never => TaskState::Denied,
                }
            }
        }
    }

    /// The dependencies of a task that are not complete.
    pub fn waits_for(&self, number: usize) -> impl Iterator<Item = usize> {
        let open = |d: &usize| self.graph.task(*d).status != Status::Complete;
        self.graph.dependencies(number).filter(open)
    }

    /// Whether a task has used up its attempts, or another one would be in vain.
    pub fn out_of_attempts(&self, number: usize) -> bool {
        let past = self.history.of(&self.graph.task(number).id);
        past.stuck || past.counted >= self.max_attempts(number)
    }

    /// How many attempts a task has.
    pub fn max_attempts(&self, number: usize) -> u32 {
        self.graph.task(number).max_attempts.unwrap_or(self.policy.max_attempts)
    }

    /// The numbers of the tasks in question.
    pub fn admitted(&self) -> impl Iterator<Item = usize> {
        (0..self.graph.tasks().len()).filter(|n| self.policy.filter.admits(self.graph.task(*n)))
    }

    /// The ready tasks, in the order in which they will be chosen.
    pub fn ready(&self, now: DateTime<Utc>) -> Vec<SelectionKey> {
        self.all_in(TaskState::Ready, now)
    }

    /// The tasks in one state, the most urgent first.
    pub fn all_in(&self, state: TaskState, now: DateTime<Utc>) -> Vec<SelectionKey> {
        let mut found: Vec<SelectionKey> = self
            .admitted()
            .filter(|number| self.state(*number, now) == state)
            .map(|number| self.keys[number])
            .collect();
        found.sort_unstable();
        found
    }

    /// The decision: start what, wait until when, or stop for what reason.
    pub fn decide(&self, now: DateTime<Utc>) -> Decision {
        let idle = self.active.is_empty();
        if let Some((number, name)) = self.policy.stop {
            return if idle {
                Decision::Stop(StopReason::Signal(number, name))
            } else {
                Decision::Wait(Wait::default())
            };
        }
        let mut wake: Option<(DateTime<Utc>, bool)> = None;
        let (mut best, mut unfinished, mut elsewhere, mut denied) =
            (None::<SelectionKey>, false, false, None);
        let mut apart = Vec::new();
        for number in self.admitted() {
            match self.state(number, now) {
                TaskState::Complete | TaskState::Cancelled => continue,
                TaskState::Ready => {
                    let key = self.keys[number];
                    best = Some(best.map_or(key, |best| best.min(key)));
                }
                state @ (TaskState::Backoff(until) | TaskState::Limited(until)) => {
                    let this = (until, matches!(state, TaskState::Limited(_)));
                    wake = Some(wake.map_or(this, |wake| wake.min(this)));
                }
                TaskState::Conflicting => {
                    let for_files = matches!(self.apart(number, now), Some(Bar::Touches(_)));
                    apart.extend(for_files.then_some(self.keys[number]));
                }
                TaskState::Denied => denied = Some(number),
                TaskState::Claimed | TaskState::NeedsInput => elsewhere = true,
                TaskState::Running
                | TaskState::Parked(_)
                | TaskState::Spent
                | TaskState::Held
                | TaskState::Waiting => {}
            }
            unfinished = true;
        }
        if best.is_some_and(|best| self.gives_way(best, apart.iter().copied())) {
            best = self.first(self.ready(now), apart);
        }
        let at_work = self.active.iter().filter(|active| active.works).count();
        if !idle && (best.is_none() || at_work >= self.policy.jobs) {
            let until = wake.map(|(until, _)| until);
            return Decision::Wait(Wait { until, why: "an attempt is running".to_owned() });
        }
        if !unfinished {
            return Decision::Stop(self.complete());
        }
        // A question is asked by the last iteration, too.
        if self.policy.plain.is_some() && elsewhere {
            return Decision::Stop(self.stuck(now));
        }
        if let Some(stop) = self.limit(now).or_else(|| self.requested()) {
            return if idle { Decision::Stop(stop) } else { Decision::Wait(Wait::default()) };
        }
        match (best, wake) {
            (Some(key), _) => Decision::Start(key),
            (None, Some((until, false))) => {
                Decision::Wait(Wait { until: Some(until), why: self.pausing().to_owned() })
            }
            (None, Some((until, true))) => self.wait_for_provider(until),
            (None, None) if denied.is_some() => Decision::Stop(self.denied(denied.unwrap_or(0))),
            (None, None) if self.policy.wait && elsewhere => {
                let doubled = WAIT.0.saturating_mul(1 << self.history.run.waits.min(8));
                Decision::Wait(Wait {
                    until: Some(now + doubled.min(WAIT.1)),
                    why: "everything left is in progress elsewhere, or waits for that or for an answer".to_owned(),
                })
            }
            (None, None) => Decision::Stop(self.stuck(now)),
        }
    }

    /// Nothing left can start: because of unanswered questions alone, or for other reasons too.
    fn stuck(&self, now: DateTime<Utc>) -> StopReason {
        let holders = self.holders(now);
        let asks = |holder: &Blocker| {
            let number = self.graph.number(&holder.task_id);
            number.is_some_and(|number| self.graph.task(number).status == Status::NeedsInput)
        };
        let only_asks = holders.iter().all(asks);
        if only_asks { StopReason::NeedsInput(holders) } else { StopReason::Blocked(holders) }
    }

    /// The limit of the run that has been reached, if one has.
    fn limit(&self, now: DateTime<Utc>) -> Option<StopReason> {
        let run = &self.history.run;
        if self.policy.once && run.iterations > 0 {
            return Some(StopReason::Once { completed: run.last_completed });
        }
        if run.promised {
            return Some(StopReason::Promised);
        }
        if let Some(why) = &run.baseline_broken {
            return Some(StopReason::BaselineBroken(why.clone()));
        }
        if (1..=run.failures_in_a_row).contains(&self.max_failures()) {
            return Some(StopReason::Failures(run.failures_in_a_row));
        }
        if (1..=run.starts_failed).contains(&self.policy.start_limit) {
            return Some(StopReason::StartLimit(run.starts_failed));
        }
        let recent = &self.history.recent;
        if let Some(reached) = self.policy.budget.reached(&run.spend, run.started_at, recent, now) {
            return Some(StopReason::Limit(reached.to_string()));
        }
        if run.iterations >= self.policy.max_iterations {
            let max = self.policy.max_iterations;
            let limit = format!("{max} iteration{}", if max == 1 { "" } else { "s" });
            return Some(StopReason::Limit(limit));
        }
        self.restarts()
    }

    /// What people asked for. A run that is over by itself says so instead.
    fn requested(&self) -> Option<StopReason> {
        let name = || self.policy.plain.as_ref().map(|plain| plain.name.clone());
        let paused = self.history.paused.then(|| StopReason::Paused(name()));
        self.history.run.stop.as_ref().map(|_| StopReason::Stopped).or(paused)
    }
}

/// Whether nothing but time, its provider or what is active keeps a task from being started.
fn can_start(state: TaskState) -> bool {
    matches!(
        state,
        TaskState::Ready
            | TaskState::Conflicting
            | TaskState::Backoff(_)
            | TaskState::Limited(_)
            | TaskState::Denied
    )
}

/// The pause before another attempt after `failures` of them: none, 1, 2, 4, … seconds, at most
/// five minutes.
fn backoff(failures: u32) -> TimeDelta {
    if failures == 0 {
        return TimeDelta::zero();
    }
    let doubled = Duration::from_secs(1) * (1 << failures.saturating_sub(1).min(16));
    TimeDelta::from_std(doubled.min(MAX_BACKOFF)).expect("five minutes fit")
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Begin an attempt at this task.
    Start(SelectionKey),
    /// Nothing can start now.
    Wait(Wait),
    /// The run is over.
    Stop(StopReason),
}

/// A pause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wait {
    /// When something may have changed by itself; none where only the end of an attempt can.
    pub until: Option<DateTime<Utc>>,
    /// What for.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::{
        event::{AttemptResult, Begun, Event, StopRequest},
        graph::tests::{graph, task},
        history::tests::{end, record, started},
        verdict::Verdict,
    };

    pub(super) fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// Any graph of up to ten tasks, with any statuses that a file may hold.
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

    /// What is ready in the order of choice, by the letter of the rule and by brute force.
    pub(super) fn twin(graph: &TaskGraph) -> Vec<usize> {
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

    /// An attempt at work, or one that waits to be merged.
    fn active(number: usize, works: bool) -> Active<'static> {
        Active { number, agent: None, works }
    }

    fn decide(graph: &TaskGraph, history: &History, policy: &Policy, now: i64) -> Decision {
        let keys = keys(graph, policy.inherit);
        View { graph, keys: &keys, history, policy, active: &[] }.decide(at(now))
    }

    proptest! {
        #[test]
        fn the_choice_is_that_of_brute_force(graph in any_graph(ANY)) {
            let got = decide(&graph, &History::default(), &Policy::default(), 0);
            let finished = graph.tasks().iter().all(|t| !unfinished(t));
            match (got, twin(&graph).first().copied()) {
                (Decision::Start(key), Some(want)) => prop_assert_eq!(key.number, want),
                (Decision::Stop(StopReason::Complete), None) => prop_assert!(finished),
                (Decision::Stop(reason), None) => {
                    let only_input = matches!(reason, StopReason::NeedsInput(_));
                    let (StopReason::Blocked(holders) | StopReason::NeedsInput(holders)) = reason
                    else {
                        return Err(TestCaseError::fail(format!("{reason:?}")));
                    };
                    prop_assert!(!finished);
                    let of_input = |h: &Blocker| h.why == "needs input";
                    prop_assert_eq!(only_input, holders.iter().all(of_input));
                    // Dealing with every holder frees everything that is pending.
                    let pending = |t: &&Task| t.status == Status::Pending;
                    let held = |t: &&Task| matches!(t.status,
                        Status::InProgress | Status::Blocked | Status::NeedsInput);
                    let frees: usize = holders.iter().map(|h| h.frees).sum();
                    let cancelled = holders.iter().filter(|h| h.why.starts_with("cancelled")).count();
                    prop_assert_eq!(
                        frees - cancelled,
                        graph.tasks().iter().filter(|t| pending(t) || held(t)).count()
                    );
                }
                (got, want) => prop_assert!(false, "{:?} for {:?}", got, want),
            }
        }

        #[test]
        fn a_run_always_ends_and_never_jumps_the_queue(
            mut graph in any_graph(&[Status::Pending]),
            verdicts in proptest::collection::vec(0u8..4, 64),
            max in 1u32..30,
        ) {
            let mut history = History::default();
            history.apply(&record("t0", 0, Event::LoopStarted(Begun {
                max_iterations: max,
                ..Begun::default()
            })));
            let policy = Policy { max_iterations: max, ..Policy::default() };
            let (mut now, mut verdicts) = (0, verdicts.into_iter().cycle());
            let foreseen = View {
                graph: &graph, keys: &keys(&graph, false), history: &history, policy: &policy, active: &[],
            }.forecast(1, &|_| 1, at(0)).slots.into_iter().map(|slot| slot.key).collect::<Vec<_>>();
            let mut all_went_well = true;
            let mut order = Vec::new();
            for step in 0.. {
                prop_assert!(step < 500, "the run does not end");
                match decide(&graph, &history, &policy, now) {
                    Decision::Start(key) => {
                        let n = key.number;
                        prop_assert!(graph.dependencies(n).all(|d| graph.task(d).status == Status::Complete));
                        let id = graph.task(n).id.to_string();
                        let attempt = history.of(&graph.task(n).id).attempts + 1;
                        prop_assert!(history.of(&graph.task(n).id).counted < MAX_ATTEMPTS);
                        history.apply(&record(&id, now, started(attempt)));
                        now += 1;
                        order.push(key);
                        if verdicts.next() == Some(0) {
                            all_went_well = false;
                            history.apply(&record(&id, now, Event::Failed(end(attempt, Verdict::Failed))));
                        } else {
                            graph.set_status(n, Status::Complete);
                            history.apply(&record(&id, now, Event::Completed(end(attempt, Verdict::Complete))));
                        }
                    }
                    Decision::Wait(wait) => {
                        let until = wait.until.expect("nothing runs, so only time can help").timestamp();
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
                        if let StopReason::Blocked(holders) = reason {
                            prop_assert!(holders.iter().all(|h| h.why.starts_with("parked")));
                        }
                        break;
                    }
                }
            }
            if all_went_well {
                prop_assert_eq!(&order[..], &foreseen[..order.len()]);
            }
        }
    }

    #[test]
    fn ties_are_broken_by_chain_then_unblocking_then_place() {
        // t0 alone; t1 -> t4 -> t5; t2 -> t6; t3 -> t7, t8 (all equally urgent).
        let graph = graph(9, &[(1, 4), (4, 5), (2, 6), (3, 7), (3, 8)]);
        let policy = Policy::default();
        let history = History::default();
        let keys = keys(&graph, false);
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let numbers: Vec<_> = view.ready(at(0)).iter().map(|key| key.number).collect();
        assert_eq!(numbers, [1, 3, 2, 0]);
        assert_eq!(keys[1].to_string(), "P2, longest chain 3h, unblocks 1, place 2");
    }

    #[test]
    fn priority_is_inherited_only_when_asked() {
        let mut tasks: Vec<Task> = (0..3).map(|i| task(&format!("t{i}"))).collect();
        tasks[2].priority = Priority(0);
        tasks[0].priority = Priority(1);
        let graph = TaskGraph::new(tasks, vec![(1, 2)]).unwrap();
        for (inherit, want) in [(false, 0), (true, 1)] {
            let policy = Policy { inherit, ..Policy::default() };
            let Decision::Start(key) = decide(&graph, &History::default(), &policy, 0) else {
                panic!("something is ready");
            };
            assert_eq!(key.number, want);
        }
    }

    #[test]
    fn failures_back_off_then_park_then_block() {
        let graph = graph(2, &[(0, 1)]);
        let mut history = History::default();
        let policy = Policy { start_limit: 0, ..Policy::default() };
        for (attempt, pause) in [(1, 1), (2, 2)] {
            history.apply(&record("t0", 100, Event::Failed(end(attempt, Verdict::Failed))));
            let Decision::Wait(wait) = decide(&graph, &history, &policy, 100) else {
                panic!("backs off");
            };
            assert_eq!(wait.until, Some(at(100 + pause)));
            assert!(matches!(decide(&graph, &history, &policy, 100 + pause), Decision::Start(_)));
        }
        history.apply(&record("t0", 100, Event::Failed(end(3, Verdict::Failed))));
        let Decision::Stop(StopReason::Blocked(holders)) = decide(&graph, &history, &policy, 999)
        else {
            panic!("blocked");
        };
        assert_eq!(holders.len(), 1);
        assert_eq!((holders[0].why.as_str(), holders[0].frees), ("parked after 3 attempts", 2));
    }

    #[test]
    fn an_agent_that_does_not_start_stops_the_run() {
        let graph = graph(2, &[]);
        let policy = Policy { max_attempts: 9, ..Policy::default() };
        let failed = |seconds: f64, verdict| {
            Event::Failed(AttemptResult { duration_seconds: seconds, ..end(1, verdict) })
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
    fn waiting_doubles_and_ends_with_progress() {
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
            history.apply(&record("t0", 0, Event::Waiting { until, why: wait.why }));
        }
        assert_eq!(pauses, [30, 60, 120, 240, 300]);
        let patient = Policy { wait: false, ..policy };
        assert!(matches!(
            decide(&graph, &history, &patient, 0),
            Decision::Stop(StopReason::Blocked(_))
        ));
    }

    #[test]
    fn limits_stop_only_what_could_go_on() {
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
    fn requests_stop_what_could_go_on_once_nothing_runs() {
        let mut graph = graph(2, &[]);
        let mut history = History::default();
        let mut decided = |event, active: &[Active<'_>]| {
            history.apply(&record("t0", 0, event));
            let (keys, policy) = (keys(&graph, false), Policy { jobs: 2, ..Policy::default() });
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active }
                .decide(at(0))
        };
        let paused = || Event::PauseRequested {};
        assert_eq!(decided(paused(), &[]), Decision::Stop(StopReason::Paused(None)));
        assert_eq!(decided(paused(), &[active(0, true)]), Decision::Wait(Wait::default()));
        assert!(matches!(decided(Event::ResumeRequested { now: false }, &[]), Decision::Start(_)));
        let stop = || Event::StopRequested(StopRequest::default());
        assert_eq!(decided(stop(), &[]), Decision::Stop(StopReason::Stopped));
        // The next run knows nothing of it, but a pause holds.
        assert_eq!(decided(paused(), &[]), Decision::Stop(StopReason::Stopped));
        let next = || Event::LoopStarted(Begun::default());
        assert_eq!(decided(next(), &[]), Decision::Stop(StopReason::Paused(None)));
        graph.set_status(0, Status::Complete);
        graph.set_status(1, Status::Complete);
        assert_eq!(
            decide(&graph, &history, &Policy::default(), 0),
            Decision::Stop(StopReason::Complete)
        );
    }

    #[test]
    fn never_more_than_jobs_at_once() {
        let graph = graph(3, &[]);
        let keys = keys(&graph, false);
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
        // What waits to be merged has done its work, and is not begun anew.
        assert_eq!(decided(&[active(0, true), active(1, false)]), third);
        assert_eq!(decided(&[active(0, false), active(1, false)]), third);
        let all = [active(0, false), active(1, false), active(2, false)];
        assert!(matches!(decided(&all), Decision::Wait(_)));
    }
}
