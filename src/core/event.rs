//! The facts of a run: what is written to the journal, and what every view is made from.
//!
//! Owned, serialisable, in the past tense. One enum, one heading each in `docs/journal.md`.
//! Knows no disk and no clock; how a line looks is `record`'s affair.

pub mod record;
mod begun;
mod cause;
mod child;
mod ended;
mod merged;
mod plain;
mod stop;
mod told;
mod wake;

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::core::{
    agents::transcript::Format,
    commit_id::CommitId,
    graph::task::{Status, TaskId},
    variants,
    verdict::CheckResult,
};
pub use begun::Begun;
pub use cause::{Cause, Harm};
pub use child::{ChildAgent, ChildEnded, ChildOutcome, ChildrenLeft, Identity, Orphans};
pub use ended::AttemptResult;
pub use merged::{Batch, Held};
pub use plain::PlainLoop;
pub use stop::StopReason;
pub use told::{Hook, HookFailed, NotifyFailed};
pub use wake::{Hindrance, SkippedWake, Slept, WakeTrigger, Woken};

/// The version of the journal's shape, in the first line of every run.
pub const SCHEMA: u32 = 1;

/// What happened. The name in snake case is the line's `action`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// `ralph run` began.
    LoopStarted(Begun),
    /// The graph file was read, at the start or because it had changed.
    GraphLoaded {
        /// How many tasks.
        tasks: usize,
        /// How many of them are complete.
        complete: usize,
    },
    /// The graph file had changed and could not be read; the last good one is kept.
    GraphRejected {
        /// The first fault, with its place.
        error: String,
    },
    /// The settings had changed, between attempts; the run goes by the new ones.
    SettingsLoaded {
        /// Which.
        changed: Vec<String>,
    },
    /// The settings had changed and could not be read; the last good ones are kept.
    SettingsRejected {
        /// The first fault, with its place.
        error: String,
    },
    /// The record of an open attempt could not be read.
    RecordDamaged {
        /// Where it is kept.
        kept: String,
    },
    /// An attempt did harm to the graph file beyond its own task.
    GraphGuarded {
        /// Which.
        what: Harm,
        /// The tasks it was done to; none where it was the whole file.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<TaskId>,
        /// Whether it was undone; if not, a person may have done it.
        undone: bool,
        /// Where the file is kept as the attempt left it, relative to the repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<String>,
    },
    /// An attempt began.
    Started {
        /// Its number, per task.
        attempt: u32,
        /// The commit it started from; none in an unborn repository.
        base: Option<CommitId>,
        /// The branch it started on.
        branch: Option<String>,
        /// Where prompt and output lie, relative to the repository.
        log: String,
        /// The key by which the task was chosen.
        why: String,
        /// How its output is to be read.
        #[serde(default, skip_serializing_if = "is_text")]
        format: Format,
        /// The work tree that it has to itself, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<String>,
    },
    /// A work tree of the pool has something in it that is kept nowhere else; it stays as it is.
    WorktreeKept {
        /// Which.
        worktree: String,
        /// What it is.
        why: String,
    },
    /// A command of `setup` began, to prepare the work tree of an attempt or of the merge queue.
    SettingUp {
        /// The attempt.
        attempt: u32,
        /// The command.
        command: String,
        /// Where its output lies, relative to the repository.
        log: String,
    },
    /// The agent of the attempt started.
    AgentStarted {
        /// The attempt.
        attempt: u32,
    },
    /// The attempt passed in its own worktree and is queued to land.
    Queued {
        /// The attempt.
        attempt: u32,
        /// How many wait, this one included.
        waiting: usize,
    },
    /// The merge queue puts the work of these tasks together on the target branch, to try it.
    Merging(Batch),
    /// Together they cannot be merged as they are; fewer are tried.
    Split(Batch),
    /// The target branch is not moved, because somebody's changes would be in the way.
    MergeHeld(Held),
    /// Somebody said the task is done, with `ralph task-complete`, while an attempt ran.
    Reported {
        /// The attempt.
        attempt: u32,
    },
    /// An agent asked a person something, with `ralph ask`.
    Asked {
        /// The attempt.
        attempt: u32,
        /// The question.
        question: String,
    },
    /// A person answered what a task waits for, with `ralph answer`.
    Answered(Answer),
    /// An agent left a note for those that come after it, with `ralph note`.
    Noted {
        /// The attempt.
        attempt: u32,
        /// The note.
        note: String,
        /// Whether it is for every agent, and not for those alone whose tasks depend on this one.
        #[serde(default, skip_serializing_if = "is_off")]
        for_all: bool,
        /// What it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
    },
    /// A verify command began.
    Verifying {
        /// The attempt.
        attempt: u32,
        /// The command.
        command: String,
        /// Whether the agent has not begun yet.
        #[serde(default, skip_serializing_if = "is_off")]
        baseline: bool,
        /// Where its output lies, relative to the repository.
        log: String,
    },
    /// A verify command succeeded.
    Verified(CheckResult),
    /// A verify command did not succeed.
    VerifyFailed(CheckResult),
    /// The run was stopped before the verify commands were through; the next one goes on with them.
    VerifyPostponed {
        /// The attempt.
        attempt: u32,
    },
    /// An agent started a child agent, with `ralph spawn`.
    ChildStarted(ChildAgent),
    /// A child agent ended.
    ChildEnded(ChildEnded),
    /// The agent reported its task done and ended; what it left running is waited for.
    WaitingForChildren(ChildrenLeft),
    /// All of that ended in time.
    ChildrenEnded {
        /// The attempt.
        attempt: u32,
        /// How long it took.
        duration_seconds: f64,
    },
    /// Some of that did not end in time.
    ChildrenOverdue {
        /// Which.
        #[serde(flatten)]
        left: ChildrenLeft,
        /// What becomes of them.
        on_orphans: Orphans,
    },
    /// The attempt was told to end before it did so by itself.
    Terminating {
        /// The attempt.
        attempt: u32,
        /// The reason.
        why: String,
    },
    /// The attempt ended and the task is complete.
    Completed(AttemptResult),
    /// The attempt ended and the task is not complete; the attempt counts.
    Failed(AttemptResult),
    /// The attempt was cut off by `ralph` or by a crash; it does not count.
    Interrupted(AttemptResult),
    /// The attempt ended and its task waits for a person's answer; it does not count.
    NeedsInput(AttemptResult),
    /// The provider gave its agent no service for now; the attempt does not count.
    RateLimited(AttemptResult),
    /// Its agent is refused, or refuses, whatever the task; the attempt does not count.
    Denied(AttemptResult),
    /// An iteration of a plain loop ended, and the next may begin.
    Iterated(AttemptResult),
    /// The final result of an attempt said that all of it is done.
    Promised {
        /// The attempt.
        attempt: u32,
        /// Whether that ends the run: the graph agrees, or it is taken at its word.
        kept: bool,
    },
    /// The task is out of attempts and waits for a person.
    Parked {
        /// How many attempts were made since the last reset.
        attempts: u32,
    },
    /// An attempt was found open at the start; the line after this one closes it.
    Recovered {
        /// The attempt.
        attempt: u32,
        /// The run that left it.
        from_run: String,
    },
    /// A status changed in the graph file.
    StatusChanged {
        /// Before; none for a task that is new.
        old: Option<Status>,
        /// After; none for a task that is gone.
        new: Option<Status>,
        /// By whom and why.
        cause: Cause,
        /// What the person said, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The task's attempts were set back to none.
    Reset {},
    /// Nothing can start before `until`.
    Waiting {
        /// The time.
        until: DateTime<Utc>,
        /// What for.
        why: String,
    },
    /// Everything left is blocked; what holds it, and how much each would free.
    Blocked {
        /// The smallest set, most freeing first.
        holders: Vec<Blocker>,
    },
    /// `ralph pause`: no attempt starts until `ralph resume`.
    PauseRequested {},
    /// `ralph resume` took the pause away.
    ResumeRequested {
        /// Whether what is waited for is tried again at once.
        #[serde(default, skip_serializing_if = "is_off")]
        now: bool,
    },
    /// A signal or `ralph stop` asked the run to stop.
    StopRequested(StopRequest),
    /// Ctrl-Z: the run and its attempt stand still until `fg`.
    Suspended {},
    /// The run goes on after it stood still.
    Continued {
        /// For how long it did.
        seconds: u64,
        /// Whether the whole machine slept.
        slept: bool,
    },
    /// The wall clock was set; nothing that is timed here goes by it.
    ClockSet {
        /// By so many seconds: forward, or backward where negative.
        seconds: i64,
    },
    /// A command of `hooks` in the settings did not succeed.
    HookFailed(HookFailed),
    /// Somebody who is to be told of a moment could not be; said once for each of them.
    NotifyFailed(NotifyFailed),
    /// `ralph schedule` waits until a time, or for a request.
    Slept(Slept),
    /// `ralph schedule` starts a run.
    Woken(Woken),
    /// A time or a request came, and no run was started for it.
    WakeSkipped(SkippedWake),
    /// `ralph schedule` ended.
    ScheduleEnded {
        /// The name of the signal, where it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// How the run ended that was over just before, if one was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// `ralph run` ended.
    Finished {
        /// In words.
        why: String,
        /// The exit code.
        exit_code: u8,
        /// Attempts in this run.
        iterations: u32,
        /// Tasks completed in this run.
        completed: u32,
        /// Tasks neither complete nor cancelled.
        remaining: usize,
        /// Wall time of the run.
        duration_seconds: f64,
    },
}

impl Event {
    /// The names of all actions, in the order of the variants.
    pub fn actions() -> &'static [&'static str] {
        static ACTIONS: LazyLock<&[&str]> = LazyLock::new(variants::names::<Event>);
        *ACTIONS
    }
}

/// A question and a person's answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was asked; empty where the task waited without a question.
    pub question: String,
    /// What was answered.
    pub answer: String,
}

/// A request to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The name of the signal; none for `ralph stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the attempt is ended too, instead of waited for.
    #[serde(default, skip_serializing_if = "is_off")]
    pub now: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_off(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_text(format: &Format) -> bool {
    *format == Format::Text
}

/// A task that holds others back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The task.
    pub task_id: TaskId,
    /// What is the matter with it.
    pub why: String,
    /// How many unfinished tasks would be free to go on, all the holders before it in the list
    /// being dealt with, itself counted.
    pub frees: usize,
}
