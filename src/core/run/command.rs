//! What a run is told, and what it asks the runner to do: plain values, so that a simulation can
//! stand in for the world.

use std::{collections::BTreeMap, fmt, time::Duration};

use chrono::{DateTime, Utc};

use super::{attempts::OpenAttempt, process_watch::ProcessLimits};
use crate::core::{
    agents::transcript::Usage,
    event::{Cause, ChildrenLeft, Event},
    graph::task::{Status, TaskId},
    select::SelectionKey,
    verdict::{Commit, Evidence, Merge, Outcome, Verdict},
};

/// An attempt: its task and its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The task.
    pub task_id: TaskId,
    /// The number, per task.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task_id, self.attempt)
    }
}

/// A status to write into the graph file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    /// In progress, with a claim.
    Claim {
        /// When the attempt started.
        at: DateTime<Utc>,
        /// The claimant.
        by: String,
    },
    /// Complete, now.
    Complete,
    /// Any other status; a claim or a completion ends with it.
    Plain(Status),
}

/// What is known of an attempt whose agent is gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingResult {
    /// How its process ended.
    pub outcome: Outcome,
    /// Wall time of its agent and its verify commands.
    pub took: Duration,
    /// The processes that it left behind and that were ended.
    pub swept: Vec<String>,
    /// The lock files of git that it left behind and that were removed.
    pub unlocked: Vec<String>,
    /// What the repository and the graph show.
    pub evidence: Evidence,
    /// What its agent used.
    pub usage: Usage,
    /// How often its agent used which tool.
    pub tools: BTreeMap<String, u64>,
    /// The last line that its agent said.
    pub last_line: Option<String>,
    /// Whether its agent said that all of the work is done.
    pub promised: bool,
}

impl PendingResult {
    /// The end of an attempt that was stopped before its agent started.
    pub fn cut_off(outcome: Outcome, took: Duration) -> PendingResult {
        PendingResult { outcome, took, ..PendingResult::default() }
    }

    /// The end of an attempt that could not start.
    pub fn not_started(error: String) -> PendingResult {
        let outcome = Outcome::NotStarted { error };
        PendingResult { outcome, ..PendingResult::default() }
    }
}

/// How the end of a process was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessEnd {
    /// How it ended; none if its guardian did not live to say so.
    pub outcome: Option<Outcome>,
    /// Wall time.
    pub took: Duration,
    /// The processes that it left behind and that were ended.
    pub swept: Vec<String>,
    /// The output of a command that is not an agent, relative to the repository.
    pub log: String,
    /// The last line of that output.
    pub last_line: Option<String>,
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
    pub commit: String,
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

/// What the runner is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Journal an event, for a task and an iteration where it has one.
    Emit(Option<(TaskId, u32)>, Box<Event>),
    /// Write a status into the graph file.
    WriteStatus(TaskId, u32, StatusWrite, Cause),
    /// Render the prompt of the next attempt at a task and put its record on disk.
    Record(SelectionKey),
    /// Say in the lock what the run works on.
    SetHolder(Option<TaskId>),
    /// Keep a copy of the graph as it is now.
    KeepGraph,
    /// Prepare the worktree of an attempt.
    PrepareWorktree(AttemptId),
    /// Give an attempt another worktree and prepare that.
    ReassignWorktree(AttemptId),
    /// Take what is changed in the worktree now as not made by the attempt.
    TakeAsGiven(AttemptId),
    /// Start the agent of an attempt.
    StartAgent(AttemptId),
    /// Start a command of an attempt: what for, its number among these, and the command.
    StartCheck(AttemptId, CheckPurpose, usize, String),
    /// Ask the process of an attempt to end.
    Terminate(AttemptId),
    /// Kill the process of an attempt and all that it started.
    Kill(AttemptId),
    /// Let the processes that an agent left behind live.
    Spare(AttemptId),
    /// Tell the guardian that the process is not idle.
    KeepAwake(AttemptId),
    /// Examine what the agent of an attempt left.
    Collect(AttemptId, Box<ProcessEnd>),
    /// Commit leftovers where that is allowed, and examine the outputs.
    Judge(AttemptId, Box<PendingResult>),
    /// Keep what an attempt with this verdict left.
    Keep(AttemptId, Verdict, Box<Evidence>),
    /// Remove what there is of an attempt that is journalled as ended, and a report that was not
    /// believed.
    Release {
        /// The attempt.
        id: AttemptId,
        /// Its verdict.
        verdict: Verdict,
        /// Whether its report was believed, or it made none.
        believed: bool,
    },
    /// Run the hook after an attempt.
    AfterAttempt(AttemptId),
    /// Put the work of these attempts together on a commit of a branch.
    Build {
        /// The target branch.
        branch: String,
        /// Where it is.
        onto: String,
        /// The attempts, in order.
        members: Vec<AttemptId>,
    },
    /// Write into the record of an attempt as which commit it is about to land.
    RecordLanding(AttemptId, String),
    /// Move a branch from one commit to another.
    Land {
        /// The branch.
        branch: String,
        /// Where it is.
        onto: String,
        /// Where it goes.
        commit: String,
    },
    /// Keep the output of a failed trial under another name: the next trial writes the same files.
    KeepLog {
        /// The file, relative to the repository.
        from: String,
        /// Its new name.
        to: String,
    },
    /// End the program at once and leave the attempts to the next run.
    Abandon(i32),
}

/// What a command of an attempt that is not its agent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckPurpose {
    /// Preparing its worktree.
    Setup,
    /// Verifying before its agent starts.
    Baseline,
    /// Verifying after its agent ended.
    Verify,
    /// Verifying what the merge queue put together.
    Trial,
}

impl CheckPurpose {
    /// What the log files of such commands begin with.
    pub fn log_name(self) -> &'static str {
        match self {
            CheckPurpose::Setup => "setup",
            CheckPurpose::Baseline => "baseline",
            CheckPurpose::Verify => "verify",
            CheckPurpose::Trial => "merge",
        }
    }
}
