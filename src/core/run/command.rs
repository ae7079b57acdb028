//! What a run asks the runner to do: plain values, so that a simulation can stand in for the world.

use std::{collections::BTreeMap, fmt, time::Duration};

use chrono::{DateTime, Utc};

use crate::core::{
    agents::transcript::Usage,
    commit_id::CommitId,
    event::{Cause, Event},
    graph::task::{Status, TaskId},
    select::SelectionKey,
    verdict::{Evidence, Outcome, Verdict},
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

/// What the runner is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum RunCommand {
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
        onto: CommitId,
        /// The attempts, in order.
        members: Vec<AttemptId>,
    },
    /// Write into the record of an attempt as which commit it is about to land.
    RecordLanding(AttemptId, CommitId),
    /// Move a branch from one commit to another.
    Land {
        /// The branch.
        branch: String,
        /// Where it is.
        onto: CommitId,
        /// Where it goes.
        commit: CommitId,
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
