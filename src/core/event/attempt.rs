//! An attempt: its start, its agent, the files that it starts from, and the commands around it.

use serde::{Deserialize, Serialize};

use super::{
    child::{ChildrenLeft, Orphans},
    side_agent::{ReviewEnd, ReviewWait},
};
use crate::{
    agents::{
        provider_error::ProviderError,
        transcript::{Format, Usage},
    },
    commit_id::CommitId,
    executor::Placement,
    outcome::Outcome,
    proof::Proof,
    verdict::CheckResult,
};

/// An attempt: its start, its agent, and the files that it starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEvent {
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
        /// The executor to run on, unless local.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_on: Option<String>,
    },
    /// Another agent of the list takes over, or the first one is available again.
    AgentChanged(AgentChange),
    /// The work of an earlier attempt was brought into the slot of this one.
    WorkRestored {
        /// The attempt.
        attempt: u32,
        /// The ref that keeps the work.
        from: String,
        /// The files that conflict with the branch; then the attempt starts over.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<String>,
        /// The files that have both sides of a conflict, marked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marked: Vec<String>,
    },
    /// The agent of the attempt started.
    AgentStarted {
        /// The attempt.
        attempt: u32,
        /// Where it runs, unless local.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placement: Option<Placement>,
    },
    /// The agent of the attempt continues its conversation.
    AgentContinued {
        /// The attempt.
        attempt: u32,
        /// The reason, such as `no report`.
        lack: String,
    },
    /// The agent of the attempt ended, and its work is verified and lands.
    AgentEnded(AgentEnd),
    /// The agent reported its task done and exited; its remaining child processes may finish.
    WaitingForChildren(ChildrenLeft),
    /// All of these child processes ended in time.
    ChildrenEnded {
        /// The attempt.
        attempt: u32,
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
    /// The changes of an attempt in the checkout to its branch and to files of others were undone.
    CheckoutRestored(CheckoutRestored),
    /// A slot of the pool contains work that is saved nowhere else, so it is left unchanged.
    SlotKept {
        /// The slot.
        slot: String,
        /// Its unsaved work.
        why: String,
    },
}

impl AttemptEvent {
    /// The bare start of an attempt.
    pub fn started(attempt: u32) -> AttemptEvent {
        AttemptEvent::Started {
            attempt,
            base: None,
            branch: None,
            log: String::new(),
            why: String::new(),
            format: Format::Text,
            slot: None,
            run_on: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_text(format: &Format) -> bool {
    *format == Format::Text
}

/// The end of an agent whose work is verified and lands, so that its cost counts meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentEnd {
    /// The attempt.
    pub attempt: u32,
    /// How its process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its wall time.
    pub duration_seconds: f64,
    /// The reported usage.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A change from one agent of a list to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChange {
    /// The agent of the next attempt.
    pub agent: String,
    /// The agent that it replaces.
    pub from: String,
    /// The provider error that blocks the replaced agent; none if the next agent is the first of the
    /// list, which is available again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<ProviderError>,
}

/// The changes undone after an attempt in the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutRestored {
    /// The attempt.
    pub attempt: u32,
    /// The branch that HEAD is on; none if HEAD is detached, as it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that HEAD was moved to; none if it had stayed on its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The files whose earlier version is committed on top of the attempt's commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Commands of `setup` and `verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckEvent {
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
    /// A verify command started.
    Verifying {
        /// The attempt.
        attempt: u32,
        /// The command.
        command: String,
        /// The file with its output, relative to the repository.
        log: String,
    },
    /// A verify command succeeded.
    Verified(CheckResult),
    /// A verify command failed.
    VerifyFailed(CheckResult),
    /// A verify command failed, and then passed on the same tree.
    Flaky(CheckResult),
    /// The run was stopped before all verify commands had ended; the next run continues with them.
    VerifyPostponed {
        /// The attempt.
        attempt: u32,
    },
    /// Another agent begins to review the work of an attempt.
    Reviewing {
        /// The attempt.
        attempt: u32,
        /// The name of the reviewer's agent.
        by: String,
        /// The folder with its prompt and output, relative to the repository.
        log: String,
        /// Its slot.
        slot: Option<String>,
    },
    /// The review of the work of an attempt has ended.
    WorkReviewed(ReviewEnd),
    /// The work of an attempt waits for its required review.
    ReviewWaits(ReviewWait),
    /// Controls have shown whether the verify commands notice the work of an attempt.
    Proved {
        /// The attempt.
        attempt: u32,
        /// Their result.
        #[serde(flatten)]
        proof: Proof,
    },
}
