//! What a run is told: plain values, so that a simulation can stand in for the world.

use std::time::Duration;

use super::{
    command::{AttemptId, PendingResult, ProcessEnd},
    open_attempt::OpenAttempt,
    process_watch::ProcessLimits,
};
use crate::core::{
    commit_id::CommitId,
    event::{ChildrenLeft, Event},
    verdict::{Commit, Merge, Outcome},
};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The record of a new attempt is on disk; the event tells of its start.
    Recorded(Box<OpenAttempt>, Box<Event>),
    /// The record of an attempt was found that an earlier run left open.
    Found(Box<FoundAttempt>),
    /// The worktree of an attempt is ready.
    WorktreeReady(AttemptId),
    /// The worktree of an attempt contains something that is kept nowhere else.
    WorktreeKept(AttemptId, WorktreeReason),
    /// A step before the agent of an attempt failed.
    NotStarted(AttemptId, String),
    /// The process of an attempt runs.
    ProcessStarted(AttemptId, ProcessLimits),
    /// The process of an attempt is gone with all that it started.
    ProcessEnded(AttemptId, Box<ProcessEnd>),
    /// The agent of an attempt ended by itself and left processes behind.
    ProcessLeft {
        /// The attempt.
        id: AttemptId,
        /// Their names and the limit of the wait.
        left: ChildrenLeft,
        /// Whether the attempt reported completion.
        reported: bool,
    },
    /// The process of an attempt showed no sign of life; whether files changed meanwhile.
    ProcessIdle(AttemptId, bool),
    /// The agent of an attempt gave its final result, and whether tasks of its own still run; none
    /// if it has not.
    FinalResult(AttemptId, Option<bool>),
    /// The evidence of an attempt whose agent is gone.
    Collected(AttemptId, Box<PendingResult>),
    /// The evidence after leftovers were committed and outputs were examined.
    Judged(AttemptId, Box<PendingResult>),
    /// What an attempt left is kept.
    Kept {
        /// The attempt.
        id: AttemptId,
        /// The ref that keeps it.
        pinned: Option<String>,
        /// What could not be kept, and why.
        unpinned: Vec<String>,
    },
    /// The merge queue has put a batch together.
    Built(Result<BuiltBatch, String>),
    /// The target branch was moved, or not.
    Landed(Result<LandOutcome, String>),
    /// A signal that asks the run to stop: its number and its name.
    Signal(i32, &'static str),
    /// All processes and this one stood still for so long.
    StoodStill(Duration),
    /// A limit may have been reached.
    Tick,
}

/// A worktree and what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeReason {
    /// The worktree.
    pub worktree: String,
    /// What it contains that is kept nowhere else.
    pub why: String,
}

/// An attempt that an earlier run left open.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAttempt {
    /// The attempt.
    pub attempt: OpenAttempt,
    /// The run that left it.
    pub from_run: String,
    /// How its process ended.
    pub outcome: Outcome,
    /// The time since it started.
    pub took: Duration,
    /// The processes that were still running and were ended.
    pub swept: Vec<String>,
    /// Where its work is, if it has landed.
    pub landed: Option<Merge>,
}

/// What the merge queue put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltBatch {
    /// For each attempt that fits, in order: the last commit of its work there.
    pub commits: Vec<BuiltCommit>,
    /// Why the next one does not fit: the files in conflict, and the file that has the diff.
    pub conflict: Option<Vec<String>>,
    /// Whether the only commit is the one that its own verify commands passed on, on this very tip.
    pub is_verified: bool,
}

/// The work of one attempt on top of the target branch.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltCommit {
    /// Its last commit.
    pub commit: CommitId,
    /// Its commits, where they are not those that the attempt made.
    pub rebuilt: Option<Vec<Commit>>,
}

/// How moving the target branch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandOutcome {
    /// The branch has the commit.
    Landed,
    /// The branch has been moved by someone else and does not have the commit.
    Moved,
    /// Uncommitted changes in a checkout are in the way.
    Blocked {
        /// The checkout.
        checkout: String,
        /// The files that would be overwritten; none if there is another reason.
        paths: Vec<String>,
        /// The reason in one line.
        why: String,
    },
    /// Another git holds a lock.
    Busy {
        /// What git said.
        why: String,
    },
}
