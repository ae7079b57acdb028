//! Causes of changes of the graph file, and kinds of damage to it.

use serde::{Deserialize, Serialize};

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
    /// A person's command, such as `task-add`, `task-reset` or `undo`.
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
    /// The work of the task is on another branch than the one that is checked out.
    OtherBranch,
    /// `ralph` restored the status after an attempt at another task changed it.
    PutBack,
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
