//! The events of a run, as written to the journal. Every view is computed from them.
//!
//! The events are one enum of owned, serializable values; `docs/journal.md` has a heading for each.
//! This module does no I/O and reads no clock; `record` defines the format of a line.

pub mod record;
mod begun;
mod cause;
mod child;
mod drafted;
mod ended;
mod merged;
mod plain;
mod source;
mod stop;
mod told;
mod wake;

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    agents::transcript::Format,
    commit_id::CommitId,
    default_value::is_default,
    executor::Placement,
    graph::task::{Status, TaskId},
    variants,
    verdict::CheckResult,
};
pub use begun::Begun;
pub use cause::{Cause, Harm};
pub use child::{ChildAgent, ChildEnded, ChildOutcome, ChildrenLeft, Identity, Orphans};
pub use drafted::DraftCall;
pub use ended::AttemptResult;
pub use merged::{Batch, CheckoutRestored, Held};
pub use plain::PlainLoop;
pub use source::{SourceFailed, SourceRefreshed, SourceUpdated};
pub use stop::StopReason;
pub use told::{AgentChange, Hook, HookFailed, NotifyFailed};
pub use wake::{Hindrance, SkippedWake, Slept, WakeTrigger, Woken};

/// The version of the journal format, which the first line of every run contains.
pub const SCHEMA: u32 = 1;

/// An event. Its name in snake case is the `action` of the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// `ralph run` started.
    LoopStarted(Begun),
    /// The graph file was read, at the start or after a change.
    GraphLoaded {
        /// The number of tasks.
        tasks: usize,
        /// The number of complete tasks.
        complete: usize,
    },
    /// The graph file changed and is invalid; the last valid graph stays in use.
    GraphRejected {
        /// The first error, with its location.
        error: String,
    },
    /// A run in the checkout found uncommitted changes, which its attempts see.
    UncommittedFound {
        /// The first changed files.
        paths: Vec<String>,
        /// The number of others.
        more: usize,
    },
    /// The settings changed between attempts; the new ones apply.
    SettingsLoaded {
        /// The settings that changed.
        changed: Vec<String>,
    },
    /// The settings changed and are invalid; the last valid ones stay in use.
    SettingsRejected {
        /// The first error, with its location.
        error: String,
    },
    /// The record of an open attempt could not be read.
    RecordDamaged {
        /// The path that it was moved to.
        kept: String,
    },
    /// An attempt damaged the graph file or changed tasks other than its own.
    GraphGuarded {
        /// The kind of damage.
        what: Harm,
        /// The affected tasks; empty if the whole file is affected.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<TaskId>,
        /// Whether it was undone. If not, a person may have made the change.
        undone: bool,
        /// The copy of the file as the attempt left it, relative to the repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<String>,
    },
    /// What an attempt in the checkout did to its branch and to files of others was put back.
    CheckoutRestored(CheckoutRestored),
    /// An attempt started.
    Started {
        /// Its number, per task.
        attempt: u32,
        /// The commit it started from; none in an unborn repository.
        base: Option<CommitId>,
        /// The branch it started on.
        branch: Option<String>,
        /// The folder with its prompt and output, relative to the repository.
        log: String,
        /// The key by which the task was selected.
        why: String,
        /// The format of its output.
        #[serde(default, skip_serializing_if = "is_text")]
        format: Format,
        /// Its own slot, if it is isolated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<String>,
        /// Where it is to run, if that is not this machine as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_on: Option<String>,
    },
    /// A file or empty folder `DONE` was in the folder of the task before an attempt, and was removed:
    /// only the attempt itself reports with it.
    DoneRemoved {
        /// Its path, relative to the repository.
        path: String,
    },
    /// Another agent of the list takes over, or the first one is available again.
    AgentChanged(AgentChange),
    /// A slot of the pool contains work that is saved nowhere else, so it is left unchanged.
    SlotKept {
        /// The slot.
        slot: String,
        /// What it contains.
        why: String,
    },
    /// The work of an earlier attempt was brought into the slot of this one.
    WorkRestored {
        /// The attempt.
        attempt: u32,
        /// The ref that keeps the work.
        from: String,
        /// The files in which it conflicts with the branch; then the attempt starts over.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<String>,
    },
    /// A command of `setup` started, which prepares the slot of an attempt or of the merge
    /// queue.
    SettingUp {
        /// The attempt.
        attempt: u32,
        /// The command.
        command: String,
        /// The file with its output, relative to the repository.
        log: String,
    },
    /// A process of the attempt waits for its executor, in the queue of a cluster.
    AwaitingExecutor {
        /// The attempt.
        attempt: u32,
        /// The executor.
        run_on: String,
        /// What it waits for, as far as that is known.
        why: String,
    },
    /// The attempt was taken back before its agent started, because its executor does not answer: it
    /// costs neither an iteration nor an attempt, and its number is used again.
    Withdrawn {
        /// The attempt.
        attempt: u32,
        /// The executor.
        run_on: String,
        /// What was tried, and how it failed.
        why: String,
    },
    /// An executor does not answer or cannot be used. One attempt at a time tries it again, unless
    /// only a person can mend what is wrong.
    ExecutorUnreachable {
        /// The executor.
        run_on: String,
        /// The reason.
        why: String,
        /// The number of tries that have failed since it answered last; 0 if the first one goes on.
        tries: u32,
        /// The pause before the next try; none if the run does not try it again.
        pause_seconds: Option<u64>,
    },
    /// An executor that did not answer does so again.
    ExecutorReachable {
        /// The executor.
        run_on: String,
    },
    /// The line to the process of the attempt is silent or was cut: whether the process runs is not
    /// known.
    ContactLost {
        /// The attempt.
        attempt: u32,
        /// When it was last heard.
        since: DateTime<Utc>,
    },
    /// The process of the attempt is heard again.
    ContactRegained {
        /// The attempt.
        attempt: u32,
    },
    /// The agent of the attempt started.
    AgentStarted {
        /// The attempt.
        attempt: u32,
        /// Where it runs, if that is not this machine as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placement: Option<Placement>,
    },
    /// The attempt passed in its own slot and is queued to land.
    Queued {
        /// The attempt.
        attempt: u32,
        /// The number of queued attempts, including this one.
        waiting: usize,
    },
    /// The merge queue combines the work of these tasks on the target branch for a trial.
    Merging(Batch),
    /// The batch failed; a smaller one is tried.
    Split(Batch),
    /// The target branch cannot be moved; uncommitted changes of a person are the usual reason.
    MergeHeld(Held),
    /// `ralph task-complete` reported the task done during an attempt.
    Reported {
        /// The attempt.
        attempt: u32,
    },
    /// An agent asked a person a question, with `ralph ask`.
    Asked {
        /// The attempt.
        attempt: u32,
        /// The question.
        question: String,
    },
    /// A person answered the question of a task, with `ralph answer`.
    Answered(Answer),
    /// An agent left a note for later agents, with `ralph note`.
    Noted {
        /// The attempt.
        attempt: u32,
        /// The note.
        note: String,
        /// Whether it is for every agent, and not only for those of tasks that depend on this one.
        #[serde(default, skip_serializing_if = "is_default")]
        for_all: bool,
        /// The topic.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
    },
    /// A verify command started.
    Verifying {
        /// The attempt.
        attempt: u32,
        /// The command.
        command: String,
        /// Whether it runs before the agent starts.
        #[serde(default, skip_serializing_if = "is_default")]
        baseline: bool,
        /// The file with its output, relative to the repository.
        log: String,
    },
    /// A verify command succeeded.
    Verified(CheckResult),
    /// A verify command failed.
    VerifyFailed(CheckResult),
    /// The run was stopped before all verify commands had ended; the next run continues with them.
    VerifyPostponed {
        /// The attempt.
        attempt: u32,
    },
    /// An agent started a child agent, with `ralph spawn`.
    ChildStarted(ChildAgent),
    /// `ralph stop --child` asked a child agent to end.
    ChildStopRequested(ChildAgent),
    /// A child agent ended.
    ChildEnded(ChildEnded),
    /// The agent reported its task done and exited; its remaining child processes may finish.
    WaitingForChildren(ChildrenLeft),
    /// All of these child processes ended in time.
    ChildrenEnded {
        /// The attempt.
        attempt: u32,
        /// The time that they took.
        duration_seconds: f64,
    },
    /// Some of these child processes did not end in time.
    ChildrenOverdue {
        /// The processes.
        #[serde(flatten)]
        left: ChildrenLeft,
        /// Whether they are killed or left running.
        on_orphans: Orphans,
    },
    /// `ralph` asked the process of the attempt to exit.
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
    /// The attempt was interrupted by `ralph` or by a crash; it does not count.
    Interrupted(AttemptResult),
    /// The attempt ended and its task needs input; the attempt does not count.
    NeedsInput(AttemptResult),
    /// The agent was rate-limited or its provider was unavailable; the attempt does not count.
    RateLimited(AttemptResult),
    /// The agent was denied access or cannot work on any task; the attempt does not count.
    Denied(AttemptResult),
    /// An iteration of a plain loop ended, and the next one can start.
    Iterated(AttemptResult),
    /// The final result of an attempt promised that all work is complete.
    Promised {
        /// The attempt.
        attempt: u32,
        /// Whether the promise is accepted and ends the run: the graph is complete, or promises are
        /// trusted.
        kept: bool,
    },
    /// The task is out of attempts and needs a person.
    Parked {
        /// The number of attempts since the last reset.
        attempts: u32,
    },
    /// An open attempt of an earlier run was found at the start; a later line closes it.
    Recovered {
        /// The attempt.
        attempt: u32,
        /// The run that left it.
        from_run: String,
    },
    /// A status changed in the graph file.
    StatusChanged {
        /// The status before; none for a new task.
        old: Option<Status>,
        /// The status after; none for a removed task.
        new: Option<Status>,
        /// The cause of the change.
        cause: Cause,
        /// The reason that the person gave, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A command changed a task in the graph file, and not its status.
    TaskEdited {
        /// The command, such as `task-edit`.
        command: String,
        /// The fields that changed; `place` is its place in the file.
        fields: Vec<String>,
        /// The cause of the change.
        cause: Cause,
    },
    /// An agent was called by `ralph draft`, and ended.
    Drafted(DraftCall),
    /// The attempts of the task were reset.
    Reset {},
    /// No attempt can start before `until`.
    Waiting {
        /// The time.
        until: DateTime<Utc>,
        /// The reason.
        why: String,
    },
    /// No remaining task can start.
    Blocked {
        /// The smallest set of tasks that block the others; the one that frees the most is first.
        holders: Vec<Blocker>,
    },
    /// `ralph pause`: no attempt starts until `ralph resume`.
    PauseRequested {},
    /// `ralph resume` ended the pause.
    ResumeRequested {
        /// Whether rate-limited providers are retried immediately.
        #[serde(default, skip_serializing_if = "is_default")]
        now: bool,
    },
    /// A signal or `ralph stop` asked the run to stop.
    StopRequested(StopRequest),
    /// Ctrl-Z suspended the run and its attempts until `fg`.
    Suspended {},
    /// The run continued after a suspension.
    Continued {
        /// The length of the suspension.
        seconds: u64,
        /// Whether the whole machine was asleep.
        slept: bool,
    },
    /// The wall clock was set; time limits do not depend on it.
    ClockSet {
        /// The change in seconds; negative if the clock was set back.
        seconds: i64,
    },
    /// A command of the setting `hooks` failed.
    HookFailed(HookFailed),
    /// A notification failed. Recorded once per target.
    NotifyFailed(NotifyFailed),
    /// Changes of a source were taken over before the run, or the source could not be read.
    SourceRefreshed(SourceRefreshed),
    /// A source says now that tasks are done.
    SourceUpdated(SourceUpdated),
    /// A source could not be told that tasks are done; the next run tries again.
    SourceFailed(SourceFailed),
    /// `ralph schedule` waits for a time or a request.
    Slept(Slept),
    /// `ralph schedule` started a run.
    Woken(Woken),
    /// `ralph schedule` did not start a run for a time or a request.
    WakeSkipped(SkippedWake),
    /// `ralph schedule` ended.
    ScheduleEnded {
        /// The name of the signal, if a signal ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// The exit code of the run that ended right before, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// `ralph run` ended.
    Finished {
        /// The reason.
        why: String,
        /// The exit code.
        exit_code: u8,
        /// The number of attempts in this run.
        iterations: u32,
        /// The number of tasks completed in this run.
        completed: u32,
        /// The number of tasks that are neither complete nor cancelled.
        remaining: usize,
        /// The wall time of the run.
        duration_seconds: f64,
    },
}

impl Event {
    /// Returns the names of all actions, in the order of the variants.
    pub fn actions() -> &'static [&'static str] {
        static ACTIONS: LazyLock<&[&str]> = LazyLock::new(variants::names::<Event>);
        *ACTIONS
    }
}

/// A question and the answer of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question; empty if the task needed input without one.
    pub question: String,
    /// The answer.
    pub answer: String,
}

/// A request to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The name of the signal; none for `ralph stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the running attempts are ended too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub now: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_text(format: &Format) -> bool {
    *format == Format::Text
}

/// A task that blocks others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The task.
    pub task_id: TaskId,
    /// The reason why it cannot be completed.
    pub why: String,
    /// The number of unfinished tasks, including itself, that can continue once this task and all
    /// blockers before it in the list are resolved.
    pub frees: usize,
}
