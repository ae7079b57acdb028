//! The forecast: the order and times of all tasks if every attempt succeeds.
//!
//! It uses the same greedy selection as `decide`, with lengths instead of agents. Forecast and run
//! therefore differ only in the lengths.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    mem,
};

use chrono::{DateTime, Utc};

use super::{Active, SelectionKey, TaskConflict, TaskState, View, can_start};
use crate::{glob::Glob, graph::task::Status};

/// A task of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The key by which it is selected.
    pub key: SelectionKey,
    /// When it starts, relative to the start of the forecast.
    pub start: u64,
    /// When it ends, on the same scale.
    pub end: u64,
}

/// All tasks that can be completed, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// The tasks.
    pub slots: Vec<Slot>,
    /// When the last one ends.
    pub end: u64,
}

impl<'a> View<'a> {
    /// Returns the forecast for `jobs` attempts at the same time. `length` returns the length of
    /// the attempt at a task, in any unit.
    pub fn forecast(
        &self,
        jobs: usize,
        length: &dyn Fn(usize) -> u64,
        now: DateTime<Utc>,
    ) -> Forecast {
        self.simulate(Ready::new(true), jobs, length, now)
    }

    fn simulate(
        &self,
        mut ready: Ready<'a>,
        jobs: usize,
        length: &dyn Fn(usize) -> u64,
        now: DateTime<Utc>,
    ) -> Forecast {
        let count = self.graph.tasks().len();
        let mut open: Vec<usize> = (0..count).map(|n| self.waits_for(n).count()).collect();
        let startable = |number: usize| {
            self.policy.filter.admits(self.graph.task(number))
                && self.graph.task(number).status == Status::Pending
                && !self.out_of_attempts(number)
        };
        for number in self.admitted().filter(|number| can_start(self.state(*number, now))) {
            ready.push(self, self.key(number));
        }
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        // The active tasks that can conflict with others.
        let mut active: Vec<Active<'a>> = self.active.to_vec();
        // Nothing waits for a task whose work has just landed.
        let is_open = |number: &usize| self.graph.task(*number).status != Status::Complete;
        for now in self.active {
            // How far an attempt is is not known here; what waits to land is about to.
            let length = |number| if now.works { length(number) } else { 0 };
            let number = now.number.filter(is_open);
            running.extend(number.map(|number| Reverse((length(number), number))));
        }
        let mut forecast = Forecast::default();
        loop {
            while running.len() < jobs.max(1)
                && let Some((key, place)) = ready.pop(&View { active: &active, ..*self })
            {
                let start = forecast.end;
                let end = start + length(key.number);
                if ready.matters(self, key.number) {
                    let agent = self.agents(key.number).get(place).map(|call| call.name.as_str());
                    active.push(Active { number: Some(key.number), agent, works: true });
                }
                running.push(Reverse((end, key.number)));
                forecast.slots.push(Slot { key, start, end });
            }
            let Some(Reverse((end, number))) = running.pop() else {
                return forecast;
            };
            forecast.end = end;
            active.retain(|active| active.number != Some(number));
            ready.release(number);
            ready.forget_failures(self);
            for dependent in self.graph.dependents(number) {
                open[dependent] -= 1;
                if open[dependent] == 0 && startable(dependent) {
                    ready.push(self, self.keys[dependent]);
                }
            }
        }
    }

    /// Returns the critical path: the tasks that follow each other without a pause if the number of
    /// parallel attempts is not limited.
    pub fn critical_path(&self, length: &dyn Fn(usize) -> u64, now: DateTime<Utc>) -> Vec<usize> {
        let slots = self.simulate(Ready::new(false), usize::MAX, length, now).slots;
        let mut ends = vec![None; self.graph.tasks().len()];
        for slot in &slots {
            ends[slot.key.number] = Some((slot.start, slot.end));
        }
        let Some(last) = slots.iter().max_by_key(|slot| (slot.end, Reverse(slot.key))) else {
            return Vec::new();
        };
        let mut path = vec![last.key.number];
        while let Some(number) = path.last()
            && let Some((start, _)) = ends[*number]
            && let Some(before) = self
                .graph
                .dependencies(*number)
                .find(|before| ends[*before].is_some_and(|(_, end)| end == start))
        {
            path.push(before);
        }
        path.reverse();
        path
    }
}

// The ready tasks of a forecast. A task that cannot start is checked again only after a change
// that can affect it.

/// The limits that can prevent the start of a task: of its tags and of its agents.
type ReadyKind<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Tasks of one kind that change the same files. If the first cannot start, none of them can.
struct ReadyQueue {
    kind: usize,
    keys: BinaryHeap<Reverse<SelectionKey>>,
}

/// The first task of a queue, with the queue. Ignored once another task is the first.
type First = (SelectionKey, usize);

/// The ready tasks.
pub(super) struct Ready<'a> {
    /// Whether files and limits apply.
    constrained: bool,
    kinds: HashMap<ReadyKind<'a>, usize>,
    /// For each kind: one of its tasks, and the first tasks of its queues that may be able to
    /// start.
    firsts: Vec<(usize, BTreeSet<First>)>,
    numbers: HashMap<(usize, Vec<&'a str>), usize>,
    queues: Vec<ReadyQueue>,
    /// The first tasks that change the same files as this active task.
    behind: HashMap<usize, Vec<First>>,
    /// The first tasks that yield to others.
    yielding: Vec<First>,
    /// The tasks in `behind` and in `yielding`.
    conflicting: BTreeSet<First>,
    /// For each kind: the agent that a task could start with at the last check.
    places: Vec<Option<usize>>,
}

impl<'a> Ready<'a> {
    /// Creates an empty set.
    pub(super) fn new(constrained: bool) -> Ready<'a> {
        Ready {
            constrained,
            kinds: HashMap::new(),
            firsts: Vec::new(),
            numbers: HashMap::new(),
            queues: Vec::new(),
            behind: HashMap::new(),
            yielding: Vec::new(),
            conflicting: BTreeSet::new(),
            places: Vec::new(),
        }
    }

    /// Whether a task can prevent the start of others.
    pub(super) fn matters(&self, view: &View<'a>, number: usize) -> bool {
        self.constrained
            && (self.kind(view, number) != ReadyKind::default() || self.has_files(view, number))
    }

    fn has_files(&self, view: &View<'a>, number: usize) -> bool {
        let declares = || !view.graph.task(number).touches.is_empty();
        self.constrained && (declares() || !view.collided(number).is_empty())
    }

    fn kind(&self, view: &View<'a>, number: usize) -> ReadyKind<'a> {
        let limits = &view.policy.limits;
        if !self.constrained || limits.is_empty() {
            return ReadyKind::default();
        }
        let tags = view.graph.task(number).tags.iter().map(String::as_str);
        let agents = view.agents(number).into_iter().map(|call| call.name.as_str());
        let agents: Vec<&str> = agents.collect();
        let is_limited = agents.iter().any(|name| limits.contains_key(*name));
        (
            tags.filter(|tag| limits.contains_key(*tag)).collect(),
            if is_limited { agents } else { Vec::new() },
        )
    }

    /// Adds a task that has become ready.
    pub(super) fn push(&mut self, view: &View<'a>, key: SelectionKey) {
        let number = key.number;
        let next = self.firsts.len();
        let kind = *self.kinds.entry(self.kind(view, number)).or_insert(next);
        if kind == next {
            self.firsts.push((number, BTreeSet::new()));
        }
        let touches = view.graph.task(number).touches.iter().map(Glob::as_str);
        let files = touches.chain(view.collided(number).iter().map(String::as_str));
        let next = self.queues.len();
        let line = (kind, files.filter(|_| self.constrained).collect());
        let queue = *self.numbers.entry(line).or_insert(next);
        if queue == next {
            self.queues.push(ReadyQueue { kind, keys: BinaryHeap::new() });
        }
        let keys = &mut self.queues[queue].keys;
        keys.push(Reverse(key));
        if keys.peek() == Some(&Reverse(key)) {
            self.firsts[kind].1.insert((key, queue));
        }
    }

    /// Removes and returns the first task that can start alongside the active ones, and the index
    /// of its agent.
    pub(super) fn pop(&mut self, view: &View<'_>) -> Option<(SelectionKey, usize)> {
        let place = |number| if self.constrained { view.agent_index(number) } else { Some(0) };
        let places: Vec<Option<usize>> =
            self.firsts.iter().map(|(number, _)| place(*number)).collect();
        if places != self.places {
            self.retry_yielding();
            self.places.clone_from(&places);
        }
        loop {
            let best = self.firsts.iter().zip(&places).filter_map(|((_, firsts), place)| {
                let place = (*place)?;
                firsts.first().map(|first| (*first, place))
            });
            let (first, place) = best.min()?;
            let (key, number) = first;
            let ReadyQueue { kind, keys } = &mut self.queues[number];
            self.firsts[*kind].1.remove(&first);
            if keys.peek() != Some(&Reverse(key)) {
                continue;
            }
            let clash = view.clash(key.number).filter(|_| self.constrained);
            if let Some(other) = clash {
                self.behind.entry(other).or_default().push(first);
                self.conflicting.insert(first);
                continue;
            }
            let is_urgent =
                |other: &SelectionKey| (other.round, other.priority) < (key.round, key.priority);
            let urgent = self.conflicting.iter().take_while(|(other, _)| is_urgent(other));
            let free = urgent.filter(|(_, number)| places[self.queues[*number].kind].is_some());
            if view.gives_way(key, free.map(|(key, _)| *key)) {
                self.yielding.push(first);
                self.conflicting.insert(first);
                continue;
            }
            let ReadyQueue { kind, keys } = &mut self.queues[number];
            keys.pop();
            self.firsts[*kind].1.extend(keys.peek().map(|Reverse(next)| (*next, number)));
            return Some((key, place));
        }
    }

    /// Checks the yielding tasks again after an attempt has ended or a limit has changed.
    fn retry_yielding(&mut self) {
        for first in mem::take(&mut self.yielding) {
            self.put_back(first);
        }
    }

    /// Releases the tasks that conflict with a task whose attempt has ended.
    pub(super) fn release(&mut self, number: usize) {
        for first in self.behind.remove(&number).unwrap_or_default() {
            self.put_back(first);
        }
        self.retry_yielding();
    }

    /// Gives tasks that have failed their usual place, because another task has succeeded.
    pub(super) fn forget_failures(&mut self, view: &View<'a>) {
        let keys = || self.queues.iter().flat_map(|queue| queue.keys.iter().map(|key| key.0));
        if !keys().any(|key| key.has_failed) {
            return;
        }
        let waiting: Vec<usize> = keys().map(|key| key.number).collect();
        *self = Ready::new(self.constrained);
        for number in waiting {
            self.push(view, view.keys[number]);
        }
    }

    fn put_back(&mut self, first: First) {
        self.conflicting.remove(&first);
        let kind = self.queues[first.1].kind;
        self.firsts[kind].1.insert(first);
    }
}

// The tasks that can start, and what the others of the frontier wait for.

/// What a decision needs to know of the frontier.
#[derive(Default)]
pub(super) struct FrontierScan<'a> {
    /// The first task that can start.
    pub(super) best: Option<SelectionKey>,
    /// When the first of the others can start, and whether a provider keeps it.
    pub(super) wake: Option<(DateTime<Utc>, bool)>,
    /// The tasks that wait for files.
    pub(super) conflicting: Vec<SelectionKey>,
    /// The executors that are out and that tasks need.
    pub(super) away: BTreeSet<&'a str>,
    /// A task whose agents are all denied access.
    pub(super) denied: Option<usize>,
    /// Whether a task is in progress elsewhere or needs input.
    pub(super) elsewhere: bool,
}

impl<'a> FrontierScan<'a> {
    /// Looks through the frontier. With `only_better`, tasks that come after one that can start are
    /// left out: a night of thousands of ready tasks takes as many decisions.
    pub(super) fn of(view: &View<'a>, now: DateTime<Utc>, only_better: bool) -> FrontierScan<'a> {
        let mut scan = FrontierScan::default();
        for number in view.frontier() {
            // What happens to a task only moves its key back.
            if only_better && scan.best.is_some_and(|best| view.keys[number] >= best) {
                continue;
            }
            match view.state(number, now) {
                TaskState::Ready => {
                    let key = view.key(number);
                    scan.best = Some(scan.best.map_or(key, |best| best.min(key)));
                }
                state @ (TaskState::Retrying(until) | TaskState::RateLimited(until)) => {
                    let this = (until, matches!(state, TaskState::RateLimited(_)));
                    scan.wake = Some(scan.wake.map_or(this, |wake| wake.min(this)));
                }
                TaskState::Conflicting => {
                    let conflict = view.conflict(number, now);
                    let waits_for_files = matches!(conflict, Some(TaskConflict::Touches(_)));
                    scan.conflicting.extend(waits_for_files.then(|| view.key(number)));
                }
                TaskState::Unreachable(_) => {
                    scan.away.extend(view.policy.places(view.place(number)));
                }
                TaskState::Denied => scan.denied = Some(number),
                TaskState::Claimed | TaskState::NeedsInput => scan.elsewhere = true,
                TaskState::Complete
                | TaskState::Cancelled
                | TaskState::Running
                | TaskState::Parked(_)
                | TaskState::Spent
                | TaskState::Blocked
                | TaskState::OnBranch
                | TaskState::Waiting => {}
            }
        }
        scan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::task;
    use crate::{
        graph::{TaskGraph, task::Task},
        history::History,
        select::{Policy, keys},
    };

    fn with(
        lengths: &[u64],
        edges: &[(usize, usize)],
        check: impl Fn(View<'_>, &dyn Fn(usize) -> u64),
    ) {
        with_complete(&[], lengths, edges, check);
    }

    fn with_complete(
        complete: &[usize],
        lengths: &[u64],
        edges: &[(usize, usize)],
        check: impl Fn(View<'_>, &dyn Fn(usize) -> u64),
    ) {
        let mut tasks: Vec<Task> = (0..lengths.len()).map(|n| task(&format!("t{n}"))).collect();
        for number in complete {
            tasks[*number].status = Status::Complete;
        }
        let graph = TaskGraph::new(tasks, edges.to_vec()).unwrap();
        let (keys, history, policy) = (keys(&graph), History::default(), Policy::default());
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        check(view, &|number| lengths[number]);
    }

    #[test]
    fn more_jobs_are_faster_down_to_the_critical_path() {
        let now = DateTime::from_timestamp(0, 0).unwrap();
        with(&[10, 20, 30, 5, 5], &[(0, 1), (1, 2)], |view, length| {
            for (jobs, end) in [(1, 70), (2, 60), (3, 60), (usize::MAX, 60)] {
                let forecast = view.forecast(jobs, length, now);
                assert_eq!((forecast.end, forecast.slots.len()), (end, 5), "{jobs}");
            }
            assert_eq!(view.critical_path(length, now), [0, 1, 2]);
        });
        // The first one runs, or its work waits to land.
        with(&[10, 20, 30, 5, 5], &[(0, 1), (1, 2)], |view, length| {
            for (works, jobs, starts, end) in [
                (true, 1, [(1, 10), (2, 30), (3, 60), (4, 65)], 70),
                (true, 2, [(3, 0), (4, 5), (1, 10), (2, 30)], 60),
                (false, 2, [(3, 0), (1, 0), (4, 5), (2, 20)], 50),
            ] {
                let active = [Active { number: Some(0), agent: None, works }];
                let forecast = View { active: &active, ..view }.forecast(jobs, length, now);
                let found: Vec<_> =
                    forecast.slots.iter().map(|slot| (slot.key.number, slot.start)).collect();
                assert_eq!((&found[..], forecast.end), (&starts[..], end), "{jobs}");
            }
        });
        // The first one has landed, and its attempt is about to be closed.
        with_complete(&[0], &[10, 20], &[(0, 1)], |view, length| {
            let active = [Active { number: Some(0), agent: None, works: false }];
            assert_eq!(View { active: &active, ..view }.forecast(1, length, now).end, 20);
        });
        with(&[], &[], |view, length| {
            assert_eq!(view.forecast(4, length, now), Forecast::default());
            assert!(view.critical_path(length, now).is_empty());
        });
    }
}
