//! The unsent messages of a notifier: a bounded queue that drops the oldest.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::ProgramMessage;

/// The largest number of waiting messages.
const LENGTH: usize = 32;
/// The number of waiting messages above which an urgent one goes first.
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
    /// The number of dropped messages that are not reported yet.
    lost: usize,
    /// Whether a message is being sent.
    working: bool,
    /// Whether the queue is closed.
    closed: bool,
    /// Whether there is no time left to send.
    cut: bool,
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; an urgent one goes first if many are waiting.
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

    /// Waits for the next message. Returns `None` when the queue is closed and empty. Dropped
    /// messages are reported by number, with the message after them, which stays queued.
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

    /// Marks what `next` returned as sent.
    pub(super) fn done(&self) {
        self.lock().working = false;
    }

    /// Whether a message is unsent.
    pub(super) fn is_busy(&self) -> bool {
        let inside = self.lock();
        inside.working || !inside.waiting.is_empty()
    }

    /// Closes the queue: no more messages come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Gives up sending: waiting messages are dropped.
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
    fn the_oldest_are_dropped_and_an_urgent_one_goes_first() {
        let queue = MessageQueue::default();
        for number in 0..LENGTH + 3 {
            queue.put(message(number), false);
        }
        queue.put(message(99), true);
        queue.close();
        let mut sent = Vec::new();
        while let Some((message, lost)) = queue.next() {
            if lost > 0 {
                assert_eq!((lost, message.event.as_str()), (4, "99"));
            } else {
                sent.push(message.event.clone());
            }
            queue.done();
        }
        assert_eq!((sent.len(), sent[0].as_str(), sent[1].as_str()), (LENGTH, "99", "4"));
        assert!(!queue.is_busy());
    }
}
