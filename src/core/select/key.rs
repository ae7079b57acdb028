//! The sort key of tasks.

use std::{cmp::Reverse, fmt, time::Duration};

use super::View;
use crate::{
    duration,
    graph::{
        TaskGraph,
        task::{Priority, Task},
    },
};

/// The sort key of a ready task; the smallest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectionKey {
    /// The tasks that have not used up a round of attempts first.
    pub round: u32,
    /// Then the most urgent task first.
    pub priority: Priority,
    /// Then tasks that have not failed since the last success of any task.
    pub has_failed: bool,
    /// Then tasks whose newest start was not withdrawn: its executor may accept another task.
    pub was_withdrawn: bool,
    /// Then the longest chain of unfinished work through its dependents, including itself, in
    /// minutes.
    pub chain: Reverse<u64>,
    /// Then the largest number of unfinished direct dependents.
    pub unblocks: Reverse<u32>,
    /// Then the position in the file.
    pub number: usize,
}

impl fmt::Display for SelectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = duration::short(Duration::from_secs(self.chain.0 * 60));
        write!(
            f,
            "{}, longest chain {chain}, unblocks {}, place {}{}{}",
            self.priority,
            self.unblocks.0,
            self.number + 1,
            if self.has_failed { ", failed since the last success" } else { "" },
            if self.round > 0 { ", after everything else" } else { "" }
        )
    }
}

/// Computes the key of every task, by number, as if none had failed. It depends only on the graph: a
/// chain runs through dependents, and no dependent can finish before the task.
pub fn keys(graph: &TaskGraph) -> Vec<SelectionKey> {
    let mut keys: Vec<SelectionKey> = (0..graph.tasks().len())
        .map(|number| SelectionKey {
            round: 0,
            priority: graph.task(number).priority,
            has_failed: false,
            was_withdrawn: false,
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
        }
        key.chain = Reverse(longest + u64::from(graph.task(number).minutes));
        key.unblocks = Reverse(unblocks);
        keys[number] = key;
    }
    keys
}

pub(super) fn unfinished(task: &Task) -> bool {
    !task.status.is_over()
}

impl View<'_> {
    /// Returns the current key of a task: a task that failed since the last success comes after the
    /// others of its priority, so that the tasks not yet tried are tried before its retry.
    pub fn key(&self, number: usize) -> SelectionKey {
        let id = &self.graph.task(number).id;
        let has_failed = self.history.has_failed(id);
        let was_withdrawn = self.history.of(id).withdrawn.is_some();
        SelectionKey { round: self.round(number), has_failed, was_withdrawn, ..self.keys[number] }
    }
}

#[cfg(test)]
mod tests {
    use crate::samples::{end, graph, record, started};
    use chrono::DateTime;

    use super::*;
    use crate::{
        event::Event,
        history::History,
        select::{Decision, Policy},
        verdict::Verdict,
    };

    #[test]
    fn a_retry_comes_after_tasks_that_have_not_failed_until_a_task_succeeds() {
        let graph = graph(3, &[]);
        let (keys, policy) = (keys(&graph), Policy::default());
        let mut history = History::default();
        let mut next = |id: &str, verdict| {
            history.apply(&record(id, 0, started(1)));
            history.apply(&record(id, 0, Event::Ended(end(1, verdict))));
            let (keys, history) = (&keys, &history);
            let view = View { graph: &graph, keys, history, policy: &policy, active: &[] };
            // Long after the pause of a retry.
            match view.decide(DateTime::from_timestamp(9999, 0).unwrap()) {
                Decision::Start(key) => key.number,
                other @ (Decision::Wait(_) | Decision::Stop(_)) => panic!("{other:?}"),
            }
        };
        assert_eq!(next("t0", Verdict::Incomplete), 1);
        assert_eq!(next("t1", Verdict::Incomplete), 2);
        // The graph of this test does not learn that `t2` is complete.
        assert_eq!(next("t2", Verdict::Complete), 0);
    }
}
