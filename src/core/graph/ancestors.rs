//! What each task waits on, directly or not, found on demand.

use std::collections::HashSet;

use super::TaskGraph;

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

    /// Whether `task` waits on `other`. `steps` is what is left to follow; without it, the answer is
    /// yes, so that nothing is reported.
    pub fn waits_on(&self, task: usize, other: usize, steps: &mut usize) -> bool {
        let mut open = vec![task];
        let mut seen = HashSet::new();
        while let Some(number) = open.pop() {
            if number == other {
                return true;
            }
            for before in self.graph.dependencies(number) {
                *steps = steps.saturating_sub(1);
                if *steps == 0 {
                    return true;
                }
                if self.rank[before] >= self.rank[other] && seen.insert(before) {
                    open.push(before);
                }
            }
        }
        false
    }
}
