//! What one of those who are told has still to be told: a few messages, of which the oldest give
//! way.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::ProgramMessage;

/// How many wait at most.
const LENGTH: usize = 32;
/// Behind so many an urgent one still waits for its turn.
const FEW: usize = 3;

/// A queue between the loop and one thread.
#[derive(Default)]
pub(super) struct MessageQueue {
    inside: Mutex<QueueState>,
    news: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Arc<ProgramMessage>>,
    /// How many gave way and were not complained of.
    lost: usize,
    /// Whether one is being told.
    working: bool,
    /// Nothing more comes.
    closed: bool,
    /// There is no time left.
    cut: bool,
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message, an urgent one in front of the others where they are many.
    pub(super) fn put(&self, message: Arc<ProgramMessage>, urgent: bool) {
        let mut inside = self.lock();
        if inside.waiting.len() == LENGTH {
            inside.waiting.pop_front();
            inside.lost += 1;
        }
        if urgent && inside.waiting.len() > FEW {
            inside.waiting.push_front(message);
        } else {
            inside.waiting.push_back(message);
        }
        self.news.notify_one();
    }

    /// Waits for the next message; none when nothing more comes. Those that gave way are told by
    /// their number, with the message after them, which stays.
    pub(super) fn next(&self) -> Option<(Arc<ProgramMessage>, usize)> {
        let mut inside = self.lock();
        loop {
            if inside.lost > 0
                && let Some(first) = inside.waiting.front().cloned()
            {
                inside.working = true;
                return Some((first, std::mem::take(&mut inside.lost)));
            }
            if let Some(message) = inside.waiting.pop_front() {
                inside.working = true;
                return Some((message, 0));
            }
            if inside.closed {
                return None;
            }
            inside = self.news.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What `next` gave is dealt with.
    pub(super) fn done(&self) {
        self.lock().working = false;
    }

    /// Whether something is not dealt with.
    pub(super) fn is_busy(&self) -> bool {
        let inside = self.lock();
        inside.working || !inside.waiting.is_empty()
    }

    /// Nothing more comes.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// There is no time left: what waits is not told any more.
    pub(super) fn cut(&self) {
        self.lock().cut = true;
    }

    /// Whether there is no time left.
    pub(super) fn is_cut(&self) -> bool {
        self.lock().cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> Arc<ProgramMessage> {
        Arc::new(ProgramMessage {
            event: number.to_string(),
            title: String::new(),
            text: String::new(),
            json: String::new(),
            variables: Vec::new(),
        })
    }

    #[test]
    fn the_oldest_give_way_and_the_end_goes_first() {
        let queue = MessageQueue::default();
        for number in 0..LENGTH + 3 {
            queue.put(message(number), false);
        }
        queue.put(message(99), true);
        queue.close();
        let mut told = Vec::new();
        while let Some((message, lost)) = queue.next() {
            if lost > 0 {
                assert_eq!((lost, message.event.as_str()), (4, "99"));
            } else {
                told.push(message.event.clone());
            }
            queue.done();
        }
        assert_eq!((told.len(), told[0].as_str(), told[1].as_str()), (LENGTH, "99", "4"));
        assert!(!queue.is_busy());
    }
}
