//! Time limits that no setting changes.
//!
//! `RALPH_FIXED_LIMIT=1s` shortens all of them, in builds with debug assertions only, which is what tests
//! run.

use std::time::Duration;

/// How long a lock of a file is waited for.
pub fn lock() -> Duration {
    shortened().unwrap_or(Duration::from_secs(120))
}

/// The time limit of each `git` command, including filters such as git-lfs.
pub fn git() -> Duration {
    shortened().unwrap_or(Duration::from_secs(10 * 60))
}

/// The time limit of a hook.
pub fn hook() -> Duration {
    shortened().unwrap_or(Duration::from_secs(60))
}

/// The time limit of a proof, and of those that the end of a run waits for.
pub fn proof() -> Duration {
    shortened().unwrap_or(Duration::from_secs(30 * 60))
}

#[cfg(debug_assertions)]
fn shortened() -> Option<Duration> {
    crate::core::duration::parse(&std::env::var("RALPH_FIXED_LIMIT").ok()?).ok()
}

#[cfg(not(debug_assertions))]
fn shortened() -> Option<Duration> {
    None
}
