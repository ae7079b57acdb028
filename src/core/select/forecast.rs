//! The forecast: the order and times of all tasks if every attempt succeeds.
//!
//! It uses the same greedy selection as `decide`, with lengths instead of agents. Forecast and run
//! therefore differ only in the lengths.

use std::{cmp::Reverse, collections::BinaryHeap};

use chrono::{DateTime, Utc};

use super::{Active, SelectionKey, View, can_start, ready::Ready};
use crate::graph::task::Status;

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
        let (keys, history, policy) = (keys(&graph, false), History::default(), Policy::default());
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
