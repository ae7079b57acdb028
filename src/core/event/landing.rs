//! The merge queue, and the executors on which attempts run.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    commit_id::CommitId, default_value::is_default, graph::task::TaskId, verdict::CheckResult,
};

/// The merge queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandingEvent {
    /// The work of the attempt is queued to land.
    Queued {
        /// The attempt.
        attempt: u32,
        /// The number of queued attempts, including this one.
        waiting: usize,
    },
    /// The merge queue tries the work of these tasks, on top of the target branch and of the work
    /// queued before it.
    Merging(Batch),
    /// Nothing can land, for this reason.
    MergeHeld(Held),
    /// Work has landed, and the branch and its checkout do not have it yet: a person's changes are
    /// in the way.
    CheckoutWaits(WaitingWork),
    /// The branch and its checkout have the work that had to wait.
    CheckoutFollowed {
        /// The branch.
        branch: String,
        /// Its commit.
        commit: CommitId,
    },
    /// A person has renamed the target branch; work lands on it under its new name.
    BranchRenamed {
        /// The name before.
        from: String,
        /// The name now.
        to: String,
    },
    /// A person took the landed work of the task back, with `ralph take-back`.
    TakenBack(TakenBack),
    /// A command failed on the tip. If the line has a task, it is open again.
    TipRed(TipRed),
    /// Everything that landed was verified together.
    WholeVerified {
        /// The branch.
        branch: String,
        /// The tip.
        commit: CommitId,
        /// The number of commands.
        commands: usize,
        /// How many of them failed.
        failed: usize,
    },
}

/// Landed work of a task that is on a branch no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBack {
    /// The branch.
    pub branch: String,
    /// The commit that does not have the work any more.
    pub commit: CommitId,
    /// The commits of the work, oldest first.
    pub reverted: Vec<CommitId>,
    /// The person's note to the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl fmt::Display for TakenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "taken back from `{}`", self.branch)?;
        self.note.iter().try_for_each(|note| write!(f, ": {note}"))
    }
}

/// A verify command that failed on the tip of a branch, after the work that it verified had landed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TipRed {
    /// The branch.
    pub branch: String,
    /// The tip.
    pub tip: CommitId,
    /// The command and its result.
    #[serde(flatten)]
    pub check: CheckResult,
    /// The result of running it again.
    pub found: TipFault,
    /// The commit that broke it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by: Option<CommitId>,
    /// The task whose work that commit is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by_task: Option<TaskId>,
}

/// Why a command fails on the tip of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TipFault {
    /// A commit broke it.
    Broken,
    /// It passed on the same commit when it ran again.
    Flaky,
    /// It fails on the commit as well on which the work landed that it verified.
    Before,
    /// It could not run.
    NotRun,
}

impl fmt::Display for TipRed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TipRed { branch, check, .. } = self;
        match (self.found, &self.broken_by) {
            (TipFault::Broken, Some(commit)) => {
                write!(f, "on `{branch}`, {check} since commit {}", commit.short())?;
                self.broken_by_task.iter().try_for_each(|id| write!(f, " of `{id}`"))
            }
            (TipFault::Broken, None) => write!(f, "on `{branch}`, {check}"),
            (TipFault::Flaky, _) => {
                write!(f, "on `{branch}`, {check}, then passed on the same commit")
            }
            (TipFault::Before, _) => {
                write!(f, "on `{branch}`, {check}, and did so where its work landed")
            }
            (TipFault::NotRun, _) => write!(f, "on `{branch}`, {check}: it says nothing"),
        }
    }
}

/// A trial of the merge queue: the tasks it combines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The target branch.
    pub branch: String,
    /// The commit that they are tried on: of the target branch, or of the trial before.
    pub onto: CommitId,
    /// The tasks whose work is tried, in this order.
    pub tasks: Vec<TaskId>,
}

/// The reason why no work can land now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The target branch.
    pub branch: String,
    /// The reason.
    pub why: String,
}

impl Held {
    /// Nothing can land on a branch that does not exist any more.
    pub fn gone(branch: &str) -> Held {
        let why = format!("branch `{branch}` is gone; `git branch {branch}` makes it again here");
        Held { branch: branch.to_owned(), why }
    }
}

/// Work that landed, and that the branch of a person does not have yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingWork {
    /// The branch.
    pub branch: String,
    /// The checkout that has it; empty if none has.
    pub checkout: String,
    /// The tasks, in the order they landed.
    pub tasks: Vec<TaskId>,
    /// The files in the checkout that would be overwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The reason, if it is not files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl WaitingWork {
    /// Whether other work waits for the same reason.
    pub fn is_for(&self, other: &WaitingWork) -> bool {
        (&self.branch, &self.paths, &self.why) == (&other.branch, &other.paths, &other.why)
    }
}

/// Executors, and the contact with attempts that run there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorEvent {
    /// A process of the attempt waits for its executor, in the queue of a cluster.
    AwaitingExecutor {
        /// The attempt.
        attempt: u32,
        /// The executor.
        run_on: String,
        /// The reason for the wait, as far as known.
        why: String,
    },
    /// The attempt was withdrawn before its agent started, because its executor is out: it
    /// costs neither an iteration nor an attempt, and its number is reused.
    Withdrawn {
        /// The attempt.
        attempt: u32,
        /// The executor.
        run_on: String,
        /// The failed step and its error.
        why: String,
    },
    /// An executor is out: it does not answer, or cannot take work. One attempt at a time tries it
    /// again.
    ExecutorUnreachable {
        /// The executor.
        run_on: String,
        /// The reason.
        why: String,
        /// The number of failed tries since its last answer; 0 during the first.
        tries: u32,
        /// The pause before the next try.
        pause_seconds: u64,
        /// Whether only a person can fix it: the run does not wait for that.
        #[serde(default, skip_serializing_if = "is_default")]
        lasts: bool,
    },
    /// An executor that was out has taken a process.
    ExecutorReachable {
        /// The executor.
        run_on: String,
    },
    /// Contact with the process of the attempt is lost, so that nothing shows whether it runs; or
    /// contact is restored.
    Contact {
        /// The attempt.
        attempt: u32,
        /// When the process answered last; none once it answers again.
        lost_since: Option<DateTime<Utc>>,
    },
}
