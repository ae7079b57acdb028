//! The ready tasks of a forecast. A task that cannot start is checked again only after a change
//! that can affect it.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    mem,
};

use super::{SelectionKey, View};
use crate::graph::glob::Glob;

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
