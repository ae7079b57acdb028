//! How a process ended. What that means for a task is `verdict`'s affair.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::core::duration;

/// How the agent's process ended: what `ralph` did to it first, its status second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// By itself.
    Exited {
        /// With this code.
        exit_code: i32,
    },
    /// By a signal that was not ours.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// We ended it at its limit.
    TimedOut {
        /// The limit.
        limit_seconds: u64,
    },
    /// We ended it because it did nothing for so long.
    Idle {
        /// The limit.
        limit_seconds: u64,
    },
    /// It gave its final result and did not exit, so we ended it.
    Lingered {
        /// How long it was given.
        limit_seconds: u64,
    },
    /// We ended it because the run was stopped.
    Cancelled,
    /// The runner died; how the agent ended is not known.
    #[default]
    Interrupted,
    /// It never began.
    NotStarted {
        /// The reason.
        error: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited { exit_code } => write!(f, "exited with code {exit_code}"),
            Outcome::Signaled { signal: 9 } => f.write_str("killed by signal 9 (out of memory?)"),
            Outcome::Signaled { signal } => write!(f, "killed by signal {signal}"),
            Outcome::TimedOut { limit_seconds } => {
                let limit = duration::short(Duration::from_secs(*limit_seconds));
                write!(f, "ended by ralph at its limit of {limit}")
            }
            Outcome::Idle { limit_seconds } => {
                let limit = duration::short(Duration::from_secs(*limit_seconds));
                write!(f, "ended by ralph after {limit} of doing nothing")
            }
            Outcome::Lingered { limit_seconds } => {
                let limit = duration::short(Duration::from_secs(*limit_seconds));
                write!(f, "ended by ralph {limit} after its final result")
            }
            Outcome::Cancelled => f.write_str("ended by ralph because the run was stopped"),
            Outcome::Interrupted => f.write_str("cut off when the runner died"),
            Outcome::NotStarted { error } => write!(f, "could not be started: {error}"),
        }
    }
}
