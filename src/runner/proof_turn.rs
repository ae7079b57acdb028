//! The turns of proofs: one after the other, and not beside verify commands that run alone.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// What proofs wait for, and whether they end.
#[derive(Debug, Default)]
pub(super) struct ProofTurn {
    /// Held by the proof that runs.
    held: Mutex<()>,
    waits: AtomicBool,
    stops: AtomicBool,
}

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

    /// Waits until a proof may begin; no other does while the result is held.
    pub(super) fn take(&self) -> MutexGuard<'_, ()> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while self.waits.load(Ordering::Relaxed) && !self.is_stopped() {
            thread::sleep(Duration::from_millis(20));
        }
        held
    }
}
