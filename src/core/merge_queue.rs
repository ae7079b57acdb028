//! The merge queue: which entries are tried next, and which one is rejected.
//!
//! Passed attempts wait in a queue. All waiting entries are tried together, as one batch, on the
//! current tip of the target branch. If the batch passes, all of them land. If it fails, the batch
//! is bisected to find the failing entry. This module does no I/O; the runner builds and verifies
//! the batches.

/// The largest batch.
const BATCH: usize = 16;

/// A queue of entries, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeQueue<T> {
    waiting: Vec<T>,
    /// The number of entries at the front that fail together on the current tip.
    suspects: usize,
}

/// The next step of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// The queue is empty.
    Nothing,
    /// Try this number of entries from the front, together.
    Try(usize),
    /// Reject the first entry: the tip passes without it and fails with it.
    SendBack,
}

impl<T> Default for MergeQueue<T> {
    fn default() -> MergeQueue<T> {
        MergeQueue { waiting: Vec::new(), suspects: 0 }
    }
}

impl<T> MergeQueue<T> {
    /// Adds an entry at the end.
    pub fn push(&mut self, one: T) {
        self.waiting.push(one);
    }

    /// The waiting entries, in order.
    pub fn waiting(&self) -> &[T] {
        &self.waiting
    }

    /// The waiting entries, to change them.
    pub fn waiting_mut(&mut self) -> &mut [T] {
        &mut self.waiting
    }

    /// Returns the next step.
    pub fn next(&self) -> QueueStep {
        match (self.waiting.len(), self.suspects) {
            (0, _) => QueueStep::Nothing,
            (all, 0) => QueueStep::Try(all.min(BATCH)),
            (_, 1) => QueueStep::SendBack,
            (_, suspects) => QueueStep::Try(suspects / 2),
        }
    }

    /// Removes and returns the first `count` entries, which have landed.
    pub fn landed(&mut self, count: usize) -> Vec<T> {
        // The remaining suspects fail on the new tip too: together it is the same batch.
        self.suspects = self.suspects.saturating_sub(count);
        self.waiting.drain(..count).collect()
    }

    /// Records that the first `count` entries fail together on the current tip.
    pub fn red(&mut self, count: usize) {
        self.suspects = count;
    }

    /// Removes and returns the first entry, which is rejected.
    pub fn send_back(&mut self) -> Option<T> {
        // It is unknown whether the other entries fail without it.
        self.suspects = 0;
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    /// Records that another process moved the target branch: entries that failed may pass now.
    pub fn moved(&mut self) {
        self.suspects = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Processes a queue in which some entries fail alone and some pairs fail together. Returns the
    /// landed entries, the rejected entries and the number of trials.
    fn process(
        count: usize,
        bad: &BTreeSet<usize>,
        pairs: &BTreeSet<(usize, usize)>,
    ) -> (Vec<usize>, Vec<usize>, usize) {
        let is_green = |members: &BTreeSet<usize>| {
            members.is_disjoint(bad)
                && pairs.iter().all(|(a, b)| !(members.contains(a) && members.contains(b)))
        };
        let mut queue = MergeQueue::default();
        (0..count).for_each(|one| queue.push(one));
        let (mut tip, mut landed, mut back, mut trials) = (BTreeSet::new(), vec![], vec![], 0);
        loop {
            match queue.next() {
                QueueStep::Nothing => return (landed, back, trials),
                QueueStep::SendBack => back.extend(queue.send_back()),
                QueueStep::Try(count) => {
                    trials += 1;
                    let mut with = tip.clone();
                    with.extend(queue.waiting()[..count].iter().copied());
                    if is_green(&with) {
                        tip = with;
                        landed.extend(queue.landed(count));
                    } else {
                        queue.red(count);
                    }
                    assert!(is_green(&tip));
                }
            }
        }
    }

    #[test]
    fn of_a_pair_that_fails_together_the_later_one_is_rejected() {
        let pairs = BTreeSet::from([(1, 3)]);
        let (landed, back, trials) = process(5, &BTreeSet::new(), &pairs);
        assert_eq!((landed, back), (vec![0, 1, 2, 4], vec![3]));
        assert_eq!(trials, 5, "trials of 5, 2, 1, 1 and 1 entries");
    }

    #[test]
    fn a_queue_without_failures_takes_one_trial() {
        assert_eq!(process(7, &BTreeSet::new(), &BTreeSet::new()), ((0..7).collect(), vec![], 1));
    }

    proptest! {
        #[test]
        fn each_entry_lands_once_or_is_rejected_for_a_reason(
            count in 0..12_usize,
            bad in proptest::collection::btree_set(0..12_usize, 0..3),
            pairs in proptest::collection::btree_set((0..12_usize, 0..12_usize), 0..4),
        ) {
            let pairs = pairs.into_iter().filter(|(a, b)| a < b).collect();
            let (landed, back, trials) = process(count, &bad, &pairs);
            // The expected result: the entries one by one, without batches.
            let (mut tip, mut rejected) = (BTreeSet::new(), vec![]);
            for one in 0..count {
                let clash = |(a, b): &(usize, usize)| *b == one && tip.contains(a);
                if bad.contains(&one) || pairs.iter().any(clash) {
                    rejected.push(one);
                } else {
                    tip.insert(one);
                }
            }
            prop_assert_eq!(&back, &rejected);
            prop_assert_eq!(landed, tip.into_iter().collect::<Vec<_>>());
            let depth = 2 + count.checked_ilog2().unwrap_or(0) as usize;
            prop_assert!(trials <= 1 + (2 * rejected.len() + 1) * depth, "{} trials", trials);
        }
    }
}
