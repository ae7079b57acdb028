//! The merge queue: what is tried next, and who is sent back.
//!
//! Attempts that are done wait in a row. As many as wait are tried together on the present tip of
//! the target branch. If that is green all of them land; if it is red the row is halved until the one
//! is found without which it is green. Pure: what is tried, how and where, is the runner's affair.

/// How many are tried together at most.
const BATCH: usize = 16;

/// Those who wait, the first first, each by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeQueue<T> {
    waiting: Vec<T>,
    /// So many at the front are red together on the present tip.
    suspects: usize,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// Nobody waits.
    Nothing,
    /// Try so many from the front, together.
    Try(usize),
    /// Send the first one back: with it the tip is red, and without it green.
    SendBack,
}

impl<T> Default for MergeQueue<T> {
    fn default() -> MergeQueue<T> {
        MergeQueue { waiting: Vec::new(), suspects: 0 }
    }
}

impl<T> MergeQueue<T> {
    /// Puts one at the end.
    pub fn push(&mut self, one: T) {
        self.waiting.push(one);
    }

    /// Those who wait, the first first.
    pub fn waiting(&self) -> &[T] {
        &self.waiting
    }

    /// What is to be done next.
    pub fn next(&self) -> QueueStep {
        match (self.waiting.len(), self.suspects) {
            (0, _) => QueueStep::Nothing,
            (all, 0) => QueueStep::Try(all.min(BATCH)),
            (_, 1) => QueueStep::SendBack,
            (_, suspects) => QueueStep::Try(suspects / 2),
        }
    }

    /// The first `count` are in the target branch now.
    pub fn landed(&mut self, count: usize) -> Vec<T> {
        // What is left of the suspects is as red on the new tip: together they are the same.
        self.suspects = self.suspects.saturating_sub(count);
        self.waiting.drain(..count).collect()
    }

    /// The first `count` are red together on the present tip.
    pub fn red(&mut self, count: usize) {
        self.suspects = count;
    }

    /// Takes out the first, which does not land.
    pub fn send_back(&mut self) -> Option<T> {
        // Whether the others are red without it is not known.
        self.suspects = 0;
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    /// The target branch is elsewhere now, by somebody else: what was red may be green.
    pub fn moved(&mut self) {
        self.suspects = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Works a queue off in a world where some are red alone, and some pairs are red together.
    fn work_off(
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
    fn of_a_pair_that_is_red_together_the_later_is_sent_back() {
        let pairs = BTreeSet::from([(1, 3)]);
        let (landed, back, trials) = work_off(5, &BTreeSet::new(), &pairs);
        assert_eq!((landed, back), (vec![0, 1, 2, 4], vec![3]));
        assert_eq!(trials, 5, "all; two, which land; of the other three one; two; the last");
    }

    #[test]
    fn all_that_is_green_takes_one_trial() {
        assert_eq!(work_off(7, &BTreeSet::new(), &BTreeSet::new()), ((0..7).collect(), vec![], 1));
    }

    proptest! {
        #[test]
        fn everyone_lands_once_or_is_sent_back_for_a_reason(
            count in 0..12_usize,
            bad in proptest::collection::btree_set(0..12_usize, 0..3),
            pairs in proptest::collection::btree_set((0..12_usize, 0..12_usize), 0..4),
        ) {
            let pairs = pairs.into_iter().filter(|(a, b)| a < b).collect();
            let (landed, back, trials) = work_off(count, &bad, &pairs);
            // One after the other, as if there were no batches.
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
