//! Why a run ended, in words and as an exit code.

use std::fmt;

use super::{Blocker, Held};
use crate::core::{exit::Exit, graph::task::TaskId, verdict::Report};

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum StopReason {
    /// Every task in question is complete.
    Complete,
    /// The plain loop came to its end.
    Done {
        /// After so many iterations.
        iterations: u32,
        /// By what the last of them reported; none where `DONE` lay there without one.
        report: Option<Report>,
    },
    /// This limit was reached.
    Limit(String),
    /// Nothing left can start.
    Blocked(Vec<Blocker>),
    /// Nothing left can start before a person answers.
    NeedsInput(Vec<Blocker>),
    /// So many attempts failed one after the other.
    Failures(u32),
    /// So many attempts failed at once, one after the other.
    StartLimit(u32),
    /// Every agent is refused: why, and the code to exit with.
    Denied(String, Exit),
    /// The agent said that all of it is done, and is taken at its word.
    Promised,
    /// This verify command did not succeed before an attempt.
    BaselineBroken(String),
    /// This hook did not succeed, so that what it comes before does not begin.
    HookFailed(String),
    /// What is left is done, and cannot be merged before a person has cleared the way.
    MergeHeld(Held),
    /// The one attempt that was asked for was made.
    Once {
        /// Whether it completed its task.
        completed: bool,
    },
    /// `ralph pause`, of this plain loop or of the run over the graph.
    Paused(Option<TaskId>),
    /// `ralph stop`.
    Stopped,
    /// A signal: its number and name.
    Signal(i32, &'static str),
}

impl StopReason {
    /// The code to exit with.
    pub fn exit(&self) -> Exit {
        match self {
            StopReason::Limit(_) => Exit::Limit,
            StopReason::Blocked(_) | StopReason::BaselineBroken(_) => Exit::Blocked,
            StopReason::NeedsInput(_)
            | StopReason::MergeHeld(_)
            | StopReason::Paused(_)
            | StopReason::Stopped => Exit::Waiting,
            StopReason::Complete
            | StopReason::Done { .. }
            | StopReason::Promised
            | StopReason::Once { completed: true } => Exit::Success,
            StopReason::Once { completed: false }
            | StopReason::Failures(_)
            | StopReason::HookFailed(_)
            | StopReason::StartLimit(_) => Exit::Error,
            StopReason::Denied(_, code) => *code,
            StopReason::Signal(number, _) => Exit::Signal(*number),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Complete => f.write_str("the graph is complete"),
            StopReason::Done { iterations, report } => {
                let plural = if *iterations == 1 { "" } else { "s" };
                write!(f, "loop complete after {iterations} iteration{plural}")?;
                report.map_or(Ok(()), |report| write!(f, ": {report}"))
            }
            StopReason::Limit(what) => write!(f, "{what} reached"),
            StopReason::Blocked(_) => f.write_str("everything left is blocked"),
            StopReason::NeedsInput(holders) => match holders.as_slice() {
                [one] => write!(f, "waiting for a person: `{}` {}", one.task_id, one.why),
                many => write!(f, "waiting for a person: {} tasks need input", many.len()),
            },
            StopReason::MergeHeld(held) => match &held.why {
                Some(why) => {
                    write!(f, "waiting for a person: `{}` cannot be moved: {why}", held.branch)
                }
                None => write!(
                    f,
                    "waiting for a person: changes in the checkout are in the way of what is to be merged \
                     into `{}`: {}; commit or stash them and run again",
                    held.branch,
                    held.paths.join(", ")
                ),
            },
            StopReason::Failures(1) => f.write_str("1 failure, and no more are allowed"),
            StopReason::Failures(count) => write!(f, "{count} failures in a row"),
            StopReason::StartLimit(count) => write!(
                f,
                "{count} attempts in a row failed within 5s; does the agent start at all?"
            ),
            StopReason::Promised => f.write_str("done by the word of the agent (`promise: trust`)"),
            StopReason::Denied(why, _) | StopReason::HookFailed(why) => f.write_str(why),
            StopReason::BaselineBroken(why) => write!(
                f,
                "baseline broken: {why}; mend it, or set `verify_baseline: false` for a task that is to"
            ),
            StopReason::Once { .. } => f.write_str("one attempt, as asked"),
            StopReason::Paused(None) => f.write_str("paused; `ralph resume` goes on"),
            StopReason::Paused(Some(name)) => {
                write!(f, "paused; `ralph resume --name {name}` goes on")
            }
            StopReason::Stopped => f.write_str("stopped by `ralph stop`"),
            StopReason::Signal(_, name) => write!(f, "stopped by {name}"),
        }
    }
}
