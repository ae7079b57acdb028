//! The messages that a notifier has not sent yet: a few, of which the oldest are dropped.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::ProgramMessage;

/// How many messages wait at most.
const LENGTH: usize = 32;
/// With more messages than this, an urgent one goes first.
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
    /// How many messages were dropped and not reported.
    lost: usize,
    /// Whether a message is being sent.
    working: bool,
    /// No more messages come.
    closed: bool,
    /// There is no time left to send.
    cut: bool,
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; an urgent one goes first where there are many.
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

    /// Waits for the next message; none when the queue is closed. Dropped messages are reported by
    /// their number, with the message after them, which stays queued.
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

    /// Whether something is not sent yet.
    pub(super) fn is_busy(&self) -> bool {
        let inside = self.lock();
        inside.working || !inside.waiting.is_empty()
    }

    /// No more messages come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Gives up sending: what waits is dropped.
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
