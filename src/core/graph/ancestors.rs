//! What each task waits on, directly or not, found on demand.

use std::collections::HashSet;

use super::TaskGraph;

/// The most dependencies to follow for one answer about a whole graph, which may have many.
pub const STEPS: usize = 2_000_000;

/// A graph with the order of its tasks.
pub struct Ancestors<'a> {
    graph: &'a TaskGraph,
    /// The position of each task in a topological order.
    rank: Vec<usize>,
}

impl Ancestors<'_> {
    /// The ancestors in this graph.
    pub fn of(graph: &TaskGraph) -> Ancestors<'_> {
        let mut rank = vec![0; graph.tasks().len()];
        for (at, number) in graph.topological().iter().enumerate() {
            rank[*number] = at;
        }
        Ancestors { graph, rank }
    }

    /// Returns another of the dependencies `among` that waits on `one`, and so implies it. `steps` is
    /// what is left to follow, at first [`STEPS`]; without it, nothing is implied.
    pub fn implying(&self, one: usize, among: &[usize], steps: &mut usize) -> Option<usize> {
        let mut others = among.iter().copied().filter(|other| *other != one);
        let found = others.find(|other| self.waits_on(*other, one, steps));
        found.filter(|_| *steps > 0)
    }

    /// Whether `task` waits on `other`. `steps` is what is left to follow; without it, the answer is
    /// yes, so that nothing is reported.
    pub fn waits_on(&self, task: usize, other: usize, steps: &mut usize) -> bool {
        task == other || self.waits_on_any(task, &[other], steps)
    }

    /// Whether `task` waits on one of the others, which are in ascending order. `steps` is as in
    /// [`Self::waits_on`].
    pub fn waits_on_any(&self, task: usize, others: &[usize], steps: &mut usize) -> bool {
        let Some(lowest) = others.iter().map(|other| self.rank[*other]).min() else {
            return false;
        };
        let mut open = vec![task];
        let mut seen = HashSet::new();
        while let Some(number) = open.pop() {
            for before in self.graph.dependencies(number) {
                *steps = steps.saturating_sub(1);
                if *steps == 0 || others.binary_search(&before).is_ok() {
                    return true;
                }
                if self.rank[before] > lowest && seen.insert(before) {
                    open.push(before);
                }
            }
        }
        false
    }
}
