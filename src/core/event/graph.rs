//! The files that people write: the graph, the settings, and the sources of tasks.

use serde::{Deserialize, Serialize};

use crate::{
    agents::transcript::Usage,
    graph::task::{Status, TaskId},
    outcome::Outcome,
    spend::Spend,
};

/// The graph and the settings: the files that people write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphEvent {
    /// The graph file was read, at the start or after a change.
    GraphLoaded {
        /// The number of tasks.
        tasks: usize,
        /// The number of complete tasks.
        complete: usize,
    },
    /// The graph file or the settings changed and are invalid; the last valid version stays in use.
    FileRejected {
        /// The first error, with its location.
        error: String,
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
    /// An agent was called by `ralph draft`, and ended.
    Drafted(DraftCall),
}

/// The reason why the status of a task changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `ralph` is about to start an attempt, or `ralph prompt --accept` did.
    Claimed,
    /// The verdict was complete.
    Completed,
    /// The attempt ended without completing the task, which is ready for another one.
    Released,
    /// The attempt needs input from a person.
    Asked,
    /// A person's command, such as `task-add` or `task-reset`.
    Command,
    /// The file was edited between attempts.
    Edited,
    /// The file was edited while an attempt ran: by its agent or by a person.
    EditedDuringAttempt,
    /// Recovery after a crash released the claim.
    Recovered,
    /// The file `DONE` was found in the folder of a plain loop between two iterations.
    DoneFile,
    /// The file said that the task is open, and a commit in the history of HEAD says that it is
    /// complete.
    History,
    /// The work of the task is on a branch that is not checked out.
    OtherBranch,
    /// `ralph` restored the status after an attempt at another task changed it.
    PutBack,
    /// A check of the task fails on the tip, after its work had landed.
    Reopened,
}

/// The damage that an attempt did to the graph file outside of its own task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// The file is no longer readable.
    Damaged,
    /// The file was deleted.
    Deleted,
    /// Other tasks were marked complete, or the agent's commits cancelled them.
    Finished,
    /// Other tasks were removed.
    Dropped,
    /// The copy of the graph in the slot of the attempt has other changes; only its new tasks
    /// are adopted.
    #[serde(rename = "apart")]
    OwnCopy,
    /// New tasks would run on another executor than their author, and are not adopted.
    NewElsewhere,
    /// New tasks would make the graph invalid, and are not adopted.
    NewInvalid,
    /// Fields that define the work of tasks were changed: priority, dependencies, text, acceptance.
    Changed,
}

/// A call of an agent by `ralph draft` that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftCall {
    /// Its number, per draft.
    pub call: u32,
    /// The name of the agent.
    pub agent: String,
    /// How the process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// The reported usage.
    #[serde(flatten)]
    pub usage: Usage,
    /// The number of tasks in the draft; none if there is no valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// The folder with its prompt and output, relative to the repository.
    pub log: String,
}

impl DraftCall {
    /// Its usage; it counts as an attempt.
    pub fn spend(&self) -> Spend {
        Spend::of(&self.usage, &self.outcome, self.duration_seconds)
    }
}
