//! Who changed the graph file, and what was done to it.

use serde::{Deserialize, Serialize};

/// Who changed a status, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// `ralph` is about to start an attempt, or `ralph prompt --accept` did.
    Claimed,
    /// The verdict was complete.
    Completed,
    /// The attempt did not complete it; it is ready for another.
    Released,
    /// The attempt waits for a person's answer.
    Asked,
    /// A person's command: `task-reset`, `task-complete`, `task-block`, `answer`.
    Command,
    /// Somebody edited the file between attempts.
    Edited,
    /// The file was edited while an attempt ran: by its agent or by a person.
    EditedDuringAttempt,
    /// Recovery after a crash gave it back.
    Recovered,
    /// The file `DONE` lay in the folder of a plain loop between two iterations.
    DoneFile,
    /// It is again what it was before an attempt at another task changed it.
    PutBack,
}

/// What an attempt did to the graph file beyond its own task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// It cannot be read any more.
    Damaged,
    /// It is gone.
    Deleted,
    /// Other tasks were marked complete or cancelled.
    Finished,
    /// Other tasks are no longer in it.
    Dropped,
    /// Its own copy of the graph, in its work tree, says otherwise of other tasks; of that only new
    /// tasks are taken over.
    Apart,
    /// What tasks say of their work was changed: priority, dependencies, text, how they are judged.
    Changed,
}
