//! The ready tasks of a forecast, kept so that what cannot start is not looked at again before
//! something has changed for it.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    mem,
};

use super::{SelectionKey, View};
use crate::core::graph::glob::Glob;

/// The limits that can hold a task back: of its tags and of its agents.
type ReadyKind<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Tasks of one kind that touch the same files: while its first one cannot start, none of it can.
struct ReadyQueue {
    kind: usize,
    keys: BinaryHeap<Reverse<SelectionKey>>,
}

/// The first task of a queue. Left aside once another one is.
type First = (SelectionKey, usize);

/// The ready tasks.
pub(super) struct Ready<'a> {
    /// Whether files and limits are heeded.
    heeds: bool,
    kinds: HashMap<ReadyKind<'a>, usize>,
    /// By kind: any task of it, and the first ones that may be able to start.
    firsts: Vec<(usize, BTreeSet<First>)>,
    numbers: HashMap<(usize, Vec<&'a str>), usize>,
    queues: Vec<ReadyQueue>,
    /// Those that change the same files as the task of that number, which is active.
    behind: HashMap<usize, Vec<First>>,
    /// Those that give way to others.
    yielding: Vec<First>,
    /// Both of them.
    apart: BTreeSet<First>,
    /// Of which kinds a task could start when it was looked last.
    places: Vec<Option<usize>>,
}

impl<'a> Ready<'a> {
    /// None yet.
    pub(super) fn new(heeds: bool) -> Ready<'a> {
        Ready {
            heeds,
            kinds: HashMap::new(),
            firsts: Vec::new(),
            numbers: HashMap::new(),
            queues: Vec::new(),
            behind: HashMap::new(),
            yielding: Vec::new(),
            apart: BTreeSet::new(),
            places: Vec::new(),
        }
    }

    /// Whether a task can hold others back.
    pub(super) fn matters(&self, view: &View<'a>, number: usize) -> bool {
        self.heeds
            && (self.kind(view, number) != ReadyKind::default() || self.has_files(view, number))
    }

    fn has_files(&self, view: &View<'a>, number: usize) -> bool {
        self.heeds && !view.graph.task(number).touches.is_empty()
    }

    fn kind(&self, view: &View<'a>, number: usize) -> ReadyKind<'a> {
        let limits = &view.policy.limits;
        if !self.heeds || limits.is_empty() {
            return ReadyKind::default();
        }
        let tags = view.graph.task(number).tags.iter().map(String::as_str);
        let agents = view.agents(number).iter().map(|call| call.name.as_str());
        let is_limited = agents.clone().any(|name| limits.contains_key(name));
        (
            tags.filter(|tag| limits.contains_key(*tag)).collect(),
            if is_limited { agents.collect() } else { Vec::new() },
        )
    }

    /// A task has become ready.
    pub(super) fn push(&mut self, view: &View<'a>, number: usize) {
        let key = view.keys[number];
        let next = self.firsts.len();
        let kind = *self.kinds.entry(self.kind(view, number)).or_insert(next);
        if kind == next {
            self.firsts.push((number, BTreeSet::new()));
        }
        let touches = view.graph.task(number).touches.iter().filter(|_| self.heeds);
        let next = self.queues.len();
        let line = (kind, touches.map(Glob::as_str).collect());
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

    /// The first task that can start beside what is active, and which of its agents it has.
    pub(super) fn pop(&mut self, view: &View<'_>) -> Option<(SelectionKey, usize)> {
        let place = |number| if self.heeds { view.place(number) } else { Some(0) };
        let places: Vec<Option<usize>> =
            self.firsts.iter().map(|(number, _)| place(*number)).collect();
        if places != self.places {
            self.look_again();
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
            let clash = view.clash(key.number).filter(|_| self.heeds);
            if let Some(other) = clash {
                self.behind.entry(other).or_default().push(first);
                self.apart.insert(first);
                continue;
            }
            let urgent = self.apart.iter().take_while(|(other, _)| other.priority < key.priority);
            let free = urgent.filter(|(_, number)| places[self.queues[*number].kind].is_some());
            if view.gives_way(key, free.map(|(key, _)| *key)) {
                self.yielding.push(first);
                self.apart.insert(first);
                continue;
            }
            let ReadyQueue { kind, keys } = &mut self.queues[number];
            keys.pop();
            self.firsts[*kind].1.extend(keys.peek().map(|Reverse(next)| (*next, number)));
            return Some((key, place));
        }
    }

    /// What gave way need not any more, now that an attempt has ended or a limit is reached.
    fn look_again(&mut self) {
        for first in mem::take(&mut self.yielding) {
            self.put_back(first);
        }
    }

    /// The attempt at a task has ended.
    pub(super) fn release(&mut self, number: usize) {
        for first in self.behind.remove(&number).unwrap_or_default() {
            self.put_back(first);
        }
        self.look_again();
    }

    fn put_back(&mut self, first: First) {
        self.apart.remove(&first);
        let kind = self.queues[first.1].kind;
        self.firsts[kind].1.insert(first);
    }
}
