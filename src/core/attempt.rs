//! The state of an attempt on its way to the target branch.
//!
//! Only events change the state, in `history/active`, so the runner, a status command and the next
//! run after a crash read the same state from the same journal.

use serde::{Deserialize, Serialize};

/// The state of an attempt that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It is recorded and claimed; its slot is being prepared or its first process is starting.
    Preparing,
    /// The commands of `setup` run in its slot.
    SettingUp,
    /// Its agent runs.
    Running,
    /// Its agent reported and exited; its remaining child processes may finish.
    WaitingForChildren,
    /// The verify commands run after its agent ended.
    Verifying,
    /// Another agent reviews its work.
    Reviewing,
    /// Its work passed and is queued to land.
    Queued,
    /// The merge queue verifies its work on top of the target branch, or moves the branch.
    Landing,
}

impl AttemptState {
    /// The state as a word for people.
    pub fn word(self) -> &'static str {
        match self {
            AttemptState::Preparing => "preparing",
            AttemptState::SettingUp => "setting up",
            AttemptState::Running => "running",
            AttemptState::WaitingForChildren => "waiting for children",
            AttemptState::Verifying => "verifying",
            AttemptState::Reviewing => "reviewing",
            AttemptState::Queued => "queued",
            AttemptState::Landing => "landing",
        }
    }

    /// Whether its agent has done its part: its work is queued to be verified where it lands.
    pub fn is_queued(self) -> bool {
        match self {
            AttemptState::Queued | AttemptState::Landing => true,
            AttemptState::Preparing
            | AttemptState::SettingUp
            | AttemptState::Running
            | AttemptState::WaitingForChildren
            | AttemptState::Verifying
            | AttemptState::Reviewing => false,
        }
    }

    /// Whether a command that is no agent may run for it.
    pub fn is_checked(self) -> bool {
        match self {
            AttemptState::SettingUp | AttemptState::Verifying | AttemptState::Landing => true,
            AttemptState::Preparing
            | AttemptState::Running
            | AttemptState::WaitingForChildren
            | AttemptState::Reviewing
            | AttemptState::Queued => false,
        }
    }

    /// Whether the merge queue is trying it.
    pub fn is_landing(self) -> bool {
        self == AttemptState::Landing
    }
}
