//! How a process ended, and how its agent reported that it is done. `verdict` decides what that means for a task.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{duration, executor::LOCAL};

/// The exit code of an agent that needs input and must not be restarted.
pub const WAITS: i32 = 42;

/// How the agent's process ended: an action of `ralph` takes precedence over the exit status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It exited.
    Exited {
        /// The exit code.
        exit_code: i32,
    },
    /// A signal killed it that `ralph` did not send.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// `ralph` ended it at its time limit.
    TimedOut {
        /// The limit.
        limit_seconds: u64,
    },
    /// `ralph` ended it because it was inactive for this long.
    Idle {
        /// The limit.
        limit_seconds: u64,
    },
    /// It gave its final result or reported completion and did not exit, so `ralph` ended it.
    Lingered {
        /// The time it had to exit.
        limit_seconds: u64,
    },
    /// `ralph` ended it because the run was stopped.
    Cancelled,
    /// It has cost as much as it may.
    OverCost,
    /// `ralph` exited unexpectedly; how the agent ended is unknown.
    #[default]
    Interrupted,
    /// The connection to where it ran was lost; how it ended is unknown.
    Lost {
        /// The name of the executor.
        executor: String,
        /// The reason.
        #[serde(rename = "lost")]
        why: String,
    },
    /// The engine of its executor ended it at a limit of its own, such as time or memory.
    Exceeded {
        /// The name of the executor.
        executor: String,
        /// The message of the engine.
        #[serde(rename = "lost")]
        why: String,
    },
    /// It did not start.
    NotStarted {
        /// The reason.
        error: String,
    },
}

impl Outcome {
    /// The loss of a process at this executor.
    pub fn lost(run_on: Option<&str>, why: &str) -> Outcome {
        Outcome::Lost { executor: run_on.unwrap_or(LOCAL).to_owned(), why: why.to_owned() }
    }

    /// The end of a process whose guardian was killed, at this executor.
    pub fn unguarded(run_on: Option<&str>) -> Outcome {
        Outcome::lost(run_on, "its guardian was killed")
    }

    /// Whether it was ended at a limit of time, activity or memory.
    pub fn is_at_limit(&self) -> bool {
        matches!(self, Outcome::TimedOut { .. } | Outcome::Idle { .. } | Outcome::Exceeded { .. })
    }

    /// Whether the process ended by itself and failed: with an exit code that has no other meaning,
    /// or by a signal.
    pub fn is_own_failure(&self) -> bool {
        let is_failure = |code: i32| code != 0 && code != WAITS;
        matches!(self, Outcome::Exited { exit_code } if is_failure(*exit_code))
            || matches!(self, Outcome::Signaled { .. })
    }

    /// Whether the process was ended, or lost, for a reason outside of its work.
    pub fn is_cut_off(&self) -> bool {
        match self {
            Outcome::Cancelled
            | Outcome::OverCost
            | Outcome::Interrupted
            | Outcome::Lost { .. } => true,
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimedOut { .. }
            | Outcome::Idle { .. }
            | Outcome::Lingered { .. }
            | Outcome::Exceeded { .. }
            | Outcome::NotStarted { .. } => false,
        }
    }
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
                write!(f, "ended by ralph after {limit} without activity")
            }
            Outcome::Lingered { limit_seconds } => {
                let limit = duration::short(Duration::from_secs(*limit_seconds));
                write!(f, "ended by ralph {limit} after its final result or report")
            }
            Outcome::Cancelled => f.write_str("ended by ralph because the run was stopped"),
            Outcome::OverCost => f.write_str("ended at its cost limit (`max_cost`)"),
            Outcome::Interrupted => f.write_str("ended because ralph exited unexpectedly"),
            Outcome::Lost { executor, why } => write!(f, "lost at executor `{executor}`: {why}"),
            Outcome::Exceeded { executor, why } => {
                write!(f, "ended by executor `{executor}`: {why}")
            }
            Outcome::NotStarted { error } => write!(f, "could not be started: {error}"),
        }
    }
}

/// How the agent reported that it is done. An exit code is never a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The file `DONE` in the attempt's folder, by hand or by `ralph task-complete`.
    #[serde(alias = "command")]
    DoneFile,
    /// `status: complete` in the graph file.
    Graph,
    /// The text of a promise in the final result; only in a plain loop.
    Promise,
    /// A match of the done pattern in the final result; only in a plain loop.
    Pattern,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Report::DoneFile | Report::Graph => "reported done",
            Report::Promise => "promised that all is done",
            Report::Pattern => "done pattern matched",
        })
    }
}
