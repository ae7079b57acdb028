//! The turns of proofs: few at once while the run works, more at its end, and none beside verify
//! commands that run alone.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What proofs wait for, and whether they end.
#[derive(Debug, Default)]
pub(super) struct ProofTurn {
    running: Mutex<usize>,
    /// How many may run at once beyond the first.
    more: AtomicUsize,
    waits: AtomicBool,
    stops: AtomicBool,
}

/// The turn of a proof, until it is dropped.
#[derive(Debug)]
pub(super) struct ProofPermit<'a>(&'a ProofTurn);

impl ProofTurn {
    /// Whether all proofs were ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Ends all proofs.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Says whether verify commands run beside which no proof may begin.
    pub(super) fn wait(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Lets so many proofs run at once, at least one.
    pub(super) fn allow(&self, at_once: usize) {
        self.more.store(at_once.saturating_sub(1), Ordering::Relaxed);
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a proof may begin.
    pub(super) fn take(&self) -> ProofPermit<'_> {
        loop {
            let mut running = self.running();
            let is_free = *running <= self.more.load(Ordering::Relaxed);
            if self.is_stopped() || (is_free && !self.waits.load(Ordering::Relaxed)) {
                *running += 1;
                return ProofPermit(self);
            }
            drop(running);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for ProofPermit<'_> {
    fn drop(&mut self) {
        *self.0.running() -= 1;
    }
}
