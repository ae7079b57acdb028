//! The facts about what an agent started: what it leaves running, and what becomes of that.

use serde::{Deserialize, Serialize};

/// What becomes of processes that outstay the wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orphans {
    /// They are ended.
    #[default]
    Kill,
    /// They live on, and nobody looks after them any more.
    Leave,
}

/// What an agent that reported its task done left running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// The attempt.
    pub attempt: u32,
    /// The names of the processes.
    pub children: Vec<String>,
    /// For how long they are waited for.
    pub limit_seconds: f64,
}
