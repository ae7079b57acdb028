//! The commands of a run to the runner: plain values, so that a simulation can execute them.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::verified_work::{HeadSpan, VerifiedWork, WorkLanding};
use crate::{
    agents::transcript::Usage,
    commit_id::CommitId,
    event::{Cause, Event},
    graph::task::{Status, TaskId},
    reviewer::ReviewFinding,
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
    /// Complete, now.
    Complete,
    /// Any other status; a claim or a completion ends with it.
    Plain(Status),
}

impl StatusWrite {
    /// The status to write at the end of an attempt with this verdict, if it changes.
    pub(super) fn after(
        verdict: Verdict,
        parks: bool,
        was: Status,
    ) -> Option<(StatusWrite, Cause)> {
        match verdict {
            Verdict::Complete => Some((StatusWrite::Complete, Cause::Completed)),
            _ if parks => Some((StatusWrite::Plain(Status::InProgress), Cause::Released)),
            // A person blocked or cancelled the task during the attempt, which takes precedence.
            _ if !matches!(was, Status::InProgress | Status::Complete | Status::Pending) => None,
            Verdict::NeedsInput => Some((StatusWrite::Plain(Status::NeedsInput), Cause::Asked)),
            Verdict::Incomplete
            | Verdict::Unverified
            | Verdict::VerifyFailed
            | Verdict::Uncommitted
            | Verdict::OffBranch
            | Verdict::Failed
            | Verdict::TimedOut
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::BaselineBroken
            | Verdict::SetupFailed
            | Verdict::Conflict
            | Verdict::MergeFailed
            | Verdict::Rejected
            | Verdict::Again => Some((StatusWrite::Plain(Status::Pending), Cause::Released)),
        }
    }

    /// The status.
    pub fn status(&self) -> Status {
        match self {
            StatusWrite::Complete => Status::Complete,
            StatusWrite::Plain(status) => *status,
        }
    }
}

/// The result so far of an attempt whose agent has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingResult {
    /// How its process ended.
    pub outcome: Outcome,
    /// The wall time of its agent and its verify commands.
    pub took: Duration,
    /// The processes that it left running and that were ended.
    pub swept: Vec<String>,
    /// The lock files of git that it left behind and that were removed.
    pub unlocked: Vec<String>,
    /// The evidence from the repository and the graph.
    pub evidence: Evidence,
    /// The usage of its agent.
    pub usage: Usage,
    /// The number of calls of each tool by its agent.
    pub tools: BTreeMap<String, u64>,
    /// The last line of its agent.
    pub last_line: Option<String>,
    /// Whether its agent promised that all work is complete.
    pub promised: bool,
    /// The agent's id of its conversation; none if it has none, or if no cost is left for another prompt.
    pub conversation: Option<String>,
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

    /// The end of an attempt that cannot start from its base, and neither can any other.
    pub fn bad_base(why: String) -> PendingResult {
        let evidence = Evidence { bad_base: Some(why), ..Evidence::default() };
        let error = "its base cannot be checked out".to_owned();
        PendingResult { evidence, ..PendingResult::not_started(error) }
    }
}

/// The end of a process as the runner saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessEnd {
    /// How it ended; none if its guardian died before it could record that.
    pub outcome: Option<Outcome>,
    /// The wall time.
    pub took: Duration,
    /// The processes that it left running and that were ended.
    pub swept: Vec<String>,
    /// The file with the output of a command other than the agent, relative to the repository.
    pub log: String,
    /// The last line of that output.
    pub last_line: Option<String>,
    /// Whether a test runner says in that output that it ran no test.
    pub no_test: bool,
    /// HEAD of the worktree of a command that verifies isolated work.
    pub head: HeadSpan,
    /// Whether it did not start because its program is missing or cannot be executed.
    pub no_program: bool,
}

/// The further prompts that the agent of an attempt may get in its conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowUps {
    /// Their number; 0 if the agent cannot resume a conversation, and after a crash of its run.
    pub most: u32,
    /// The time limit for the attempt.
    pub limit: Duration,
    /// The result before the last one.
    pub(super) before: Option<Box<PendingResult>>,
}

impl FollowUps {
    /// At most this many within this time.
    pub fn new(most: u32, limit: Duration) -> FollowUps {
        FollowUps { most, limit, before: None }
    }
}

/// Another prompt for an agent in its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowUp {
    /// The agent's id of the conversation.
    pub conversation: String,
    /// Its number, from 1.
    pub number: usize,
    /// The explanation of the verdict.
    pub why: String,
    /// The output of the verify command that failed, relative to the repository.
    pub log: Option<String>,
    /// The findings of a reviewer.
    pub findings: Vec<ReviewFinding>,
    /// The wall time of the attempt so far.
    pub took: Duration,
    /// The cost of the conversation so far, in US dollars.
    pub cost_usd: Option<f64>,
}

/// A command to the runner.
#[derive(Clone, Debug, PartialEq)]
pub enum RunCommand {
    /// Journal an event, with its task and iteration if it has them.
    Emit(Option<(TaskId, u32)>, Box<Event>),
    /// Write a status into the graph file.
    WriteStatus(TaskId, u32, StatusWrite, Cause),
    /// Render the prompt of the next attempt at a task, put its record on disk and claim the task.
    /// Nothing is recorded if others have changed the task since, so that it can no longer start.
    Record(SelectionKey),
    /// Record in the lock the task that the run works on.
    SetHolder(Option<TaskId>),
    /// Keep a copy of the current graph.
    KeepGraph,
    /// A command for the slot of an attempt.
    Slot(AttemptId, SlotCommand),
    /// Start the agent of an attempt.
    StartAgent(AttemptId),
    /// Start it again, with another prompt.
    FollowUp(AttemptId, FollowUp),
    /// Ask the executor of an attempt for the end of its agent and for its work. The agent worked for
    /// this long.
    FetchWork(AttemptId, Duration),
    /// Start a command of an attempt: its purpose, its number for that purpose, and the command.
    StartCheck(AttemptId, CheckPurpose, usize, String),
    /// Give an order to the guardian of the process of an attempt.
    Process(AttemptId, ProcessOrder),
    /// Collect the evidence of an attempt whose agent has ended.
    Collect(AttemptId, Box<ProcessEnd>),
    /// Commit leftovers if that is allowed, and examine the outputs.
    Judge(AttemptId, Box<PendingResult>),
    /// Save the work of an attempt with this verdict.
    Keep(AttemptId, Verdict, Box<Evidence>),
    /// Remove the record of an attempt whose end is journalled, and its report if that was
    /// rejected.
    Release {
        /// The attempt.
        id: AttemptId,
        /// Whether its report was accepted, or it made none.
        believed: bool,
    },
    /// Remove the record of an attempt that was withdrawn, and release its slot.
    Withdraw(AttemptId),
    /// Run the hook for the end of an attempt.
    AfterAttempt(AttemptId),
    /// Take a step of the merge queue.
    Landing(LandingCommand),
    /// End the program immediately and leave the attempts to the next run.
    Abandon(i32),
}

/// An order to the guardian of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOrder {
    /// Interrupt the agent, so that it prints its result and ends.
    Interrupt,
    /// Ask the process to end.
    Terminate,
    /// Kill the process and all of its child processes.
    Kill,
    /// Kill the guardian, which does not answer.
    KillGuardian,
    /// Leave the remaining child processes of an agent running.
    Spare,
    /// The process is not idle.
    KeepAwake,
}

/// A command about the slot of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCommand {
    /// Prepare it.
    Prepare,
    /// Give the attempt another slot and prepare that.
    Reassign,
    /// Do not attribute the current changes in it to the attempt.
    TakeAsGiven,
}

/// A step of the merge queue.
#[derive(Clone, Debug, PartialEq)]
pub enum LandingCommand {
    /// Combine the work of an attempt with a commit below it, in a slot of the merge queue.
    Build {
        /// The commit.
        onto: CommitId,
        /// The attempt.
        id: AttemptId,
        /// The number of the slot.
        slot: usize,
    },
    /// Check a commit out, in the trial slot of an attempt.
    CheckOut {
        /// The attempt.
        id: AttemptId,
        /// The commit.
        onto: CommitId,
        /// The number of the slot.
        slot: usize,
    },
    /// Write the commit that is about to land, and its evidence, into the record of an attempt.
    Record(AttemptId, Box<WorkLanding>),
    /// Move a branch to the last commit of verified work.
    Land {
        /// The work.
        verified: VerifiedWork,
        /// The number of the slot where it was verified.
        slot: usize,
    },
    /// Rename the output of a failed trial, because the next trial writes the same files.
    KeepLog {
        /// The file, relative to the repository.
        from: String,
        /// Its new name.
        to: String,
    },
}

impl From<LandingCommand> for RunCommand {
    fn from(command: LandingCommand) -> RunCommand {
        RunCommand::Landing(command)
    }
}

/// The purpose of a command of an attempt other than its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckPurpose {
    /// Preparing its slot.
    Setup,
    /// Verifying after its agent ended.
    Verify,
    /// Verifying work where it will land.
    Trial(TrialRun),
}

/// The tree that a command of the merge queue runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialRun {
    /// The work on top of the work ahead of it.
    First,
    /// The same once more, because it failed.
    Again,
    /// The work ahead, without this work.
    Base,
}

impl CheckPurpose {
    /// The first part of the names of the log files.
    pub fn log_name(self) -> &'static str {
        match self {
            CheckPurpose::Setup => "setup",
            CheckPurpose::Verify => "verify",
            CheckPurpose::Trial(TrialRun::First) => "merge",
            CheckPurpose::Trial(TrialRun::Again) => "again",
            CheckPurpose::Trial(TrialRun::Base) => "base",
        }
    }
}
