//! The inputs of a run: plain values, so that a simulation can supply them.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    command::{AttemptId, PendingResult, ProcessEnd},
    open_attempt::OpenAttempt,
    process_watch::ProcessLimits,
    verified_work::BuiltCommit,
};
use crate::{
    event::{ChildrenLeft, Event},
    executor::{ExecutorFault, Placement},
    verdict::{Evidence, Outcome},
};

/// Where a process is that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessStart {
    /// It runs, with its placement unless local.
    Runs(Option<Placement>),
    /// It is on its way to its executor.
    OnItsWay,
}

/// An input of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The record of a new attempt is on disk, and its task is claimed. The event is that of its start.
    Recorded(Box<OpenAttempt>, Box<Event>),
    /// An attempt that an earlier run left open was found.
    Found(Box<FoundAttempt>),
    /// The slot of an attempt is ready.
    SlotReady {
        /// The attempt.
        id: AttemptId,
        /// Whether the commands that prepare it have run in it, and their inputs are unchanged.
        is_set_up: bool,
    },
    /// The slot of an attempt contains work that is saved nowhere else.
    SlotKept(AttemptId, SlotReason),
    /// No attempt can start from the base of an attempt, for this reason.
    BadBase(AttemptId, String),
    /// The changes in the slot of an attempt were taken as not its own.
    TakenAsGiven(AttemptId),
    /// A step before the agent of an attempt failed.
    NotStarted(AttemptId, String),
    /// The process of an attempt runs.
    ProcessStarted(AttemptId, ProcessLimits, ProcessStart),
    /// The process of an attempt runs at its executor, from now on with these limits.
    ProcessArrived(AttemptId, ProcessLimits, Option<Placement>),
    /// The process of an attempt has ended at its executor, and its work is being fetched.
    ProcessFetching(AttemptId),
    /// The process of an attempt waits for its executor, for this reason.
    ProcessAwaits {
        /// The attempt.
        id: AttemptId,
        /// The executor.
        run_on: String,
        /// The reason.
        why: String,
    },
    /// The executor of an attempt has not answered the start of a process, which continues.
    Unanswered {
        /// The attempt.
        id: AttemptId,
        /// The executor.
        run_on: String,
        /// The reason, as far as known.
        why: String,
    },
    /// Contact with the process of an attempt is lost since this time; none if it is restored.
    Contact(AttemptId, Option<DateTime<Utc>>),
    /// The executor of an attempt has not taken it, and no process of the attempt got there.
    Unreachable {
        /// The attempt.
        id: AttemptId,
        /// Why.
        fault: ExecutorFault,
    },
    /// The process of an attempt and all of its child processes have ended.
    ProcessEnded(AttemptId, Box<ProcessEnd>),
    /// The agent of an attempt exited and left processes running.
    ProcessLeft {
        /// The attempt.
        id: AttemptId,
        /// Their names and the limit on the wait.
        left: ChildrenLeft,
        /// Whether the attempt reported completion.
        reported: bool,
    },
    /// The process of an attempt was idle. The value says whether files changed in that time.
    ProcessIdle(AttemptId, bool),
    /// The final result of the agent of an attempt: whether its background tasks still run; none if
    /// it has not given a final result.
    FinalResult(AttemptId, Option<bool>),
    /// The agent of an attempt must end for this reason, which is not its failure.
    EndAgent(AttemptId, String),
    /// The agent of an attempt has reported completion, or was active after its report.
    Reported(AttemptId),
    /// The evidence of an attempt whose agent has ended.
    Collected(AttemptId, Box<PendingResult>),
    /// The evidence after leftovers were committed and outputs were examined.
    Judged(AttemptId, Box<PendingResult>),
    /// The work of an attempt is to be verified in its own slot before it is judged, because its proof
    /// is made before it lands.
    VerifyFirst(AttemptId, Box<PendingResult>),
    /// The run was stopped while the work of an attempt was proved or reviewed before it lands.
    Postponed(AttemptId),
    /// The work of an attempt is saved.
    Kept {
        /// The attempt.
        id: AttemptId,
        /// The ref that points to it.
        pinned: Option<String>,
        /// The work that could not be saved, and why.
        unpinned: Vec<String>,
    },
    /// The work of a trial is combined, or the commit without it is checked out; or an error occurred.
    Built(AttemptId, Result<BuiltTrial, String>),
    /// The result of moving the tip.
    Landed(Result<LandOutcome, String>),
    /// A signal that asks the run to stop: its number and its name.
    Signal(i32, &'static str),
    /// All processes, including this one, were suspended for this long.
    StoodStill(Duration),
    /// A limit may have been reached.
    Tick,
}

/// A slot that cannot be reused, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotReason {
    /// The slot.
    pub slot: String,
    /// The work that is saved nowhere else.
    pub why: String,
}

/// An attempt that an earlier run left open.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAttempt {
    /// The attempt.
    pub attempt: OpenAttempt,
    /// The run that left it.
    pub from_run: String,
    /// Whether its agent started.
    pub had_agent: bool,
    /// How its process ended.
    pub outcome: Outcome,
    /// Whether its executor may know how its agent ended, and have its work.
    pub is_away: bool,
    /// The time since it started.
    pub took: Duration,
    /// The processes that were still running and were ended.
    pub swept: Vec<String>,
    /// The evidence of its work before the landing, and the landing, if it has landed.
    pub landed: Option<Box<Evidence>>,
}

/// A trial that the merge queue has built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltTrial {
    /// The work, if it merges without a conflict; none also where the commit without it was checked out.
    pub built: Option<BuiltCommit>,
    /// The files of its conflict.
    pub conflict: Option<Vec<String>>,
    /// The reason why it cannot be tried.
    pub refused: Option<String>,
    /// The files of the worktree for merges that differ from the last commit, which is its HEAD.
    pub changed: Vec<String>,
    /// Whether the commands that prepare a slot have run in the slot for merges, and their inputs
    /// are unchanged.
    pub is_set_up: bool,
}

/// The outcome of moving the tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandOutcome {
    /// The tip is at the commit.
    Landed {
        /// Whether the branch and its checkout did not follow.
        waits: bool,
    },
    /// Others moved the tip or the branch, and the commit lacks their additions.
    Moved,
}
