//! The lock of a repository's run, and who holds it.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    adapters::{
        process::{self, Identity},
        state::Lock,
    },
    core::history::History,
};

/// The holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The process of the runner.
    pub process: Identity,
    /// The id of its run.
    pub run_id: String,
    /// When it took the lock (RFC 3339).
    pub since: String,
    /// The task that it works on.
    pub task_id: Option<String>,
    /// The branch that its work lands on, if that is not the one of the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onto: Option<String>,
}

/// How long a guardian may take to clean up after a dead runner.
const CLEANING: Duration = Duration::from_secs(30);

/// The same if nothing can be seen of the runner, because it is in another pid namespace.
const ELSEWHERE: Duration = Duration::from_secs(1);

impl Workspace {
    /// Takes the lock; none if another run has it. Waits a few milliseconds for a guardian that
    /// still holds it to clean up after a dead runner.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn lock(&self) -> Result<Option<Lock>> {
        let began = Instant::now();
        loop {
            if let Some(lock) = self.state.try_lock().context("take the lock")? {
                return Ok(Some(lock));
            }
            let holder = self.holder().map(|holder| holder.process);
            // A lock without a living runner, or one that a command tests, is released soon.
            let patience = if holder.as_ref().is_some_and(process::is_elsewhere) {
                ELSEWHERE
            } else if holder.as_ref().is_none_or(process::is_alive) {
                Duration::from_millis(100)
            } else {
                process::wake_guardians(self.state.dir());
                CLEANING
            };
            if began.elapsed() > patience {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the newest run of this history is still running.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn is_live(&self, history: &History) -> Result<bool> {
        // All worktrees share the lock but not the journal, and a guardian that cleans up after a
        // dead runner holds the lock too.
        let ours = |holder: LockHolder| {
            holder.run_id == history.run.id && process::may_live(&holder.process)
        };
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(ours))
    }

    /// Whether a run is active in any worktree of this repository.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn is_busy(&self) -> Result<bool> {
        let lives = |holder: LockHolder| process::may_live(&holder.process);
        Ok(self.state.is_locked().context("look at the lock")? && self.holder().is_none_or(lives))
    }

    /// The holder of the lock, or its last holder.
    pub fn holder(&self) -> Option<LockHolder> {
        self.state.holder()
    }
}
