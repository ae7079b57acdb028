//! A plain loop: iterations over a prompt file, and no graph but the one that is made for it.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::core::graph::task::TaskId;

/// What a plain loop is, besides what every run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainLoop {
    /// What it is called, and so is its one task.
    pub name: TaskId,
    /// The file that is read before each iteration.
    pub prompt_file: PathBuf,
    /// The pause between an iteration and the next.
    pub restart_delay_seconds: f64,
    /// How many iterations may follow the first, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// So many failures in a row end it; 0 for no such limit.
    pub max_failures: u32,
}

impl PlainLoop {
    /// The pause between an iteration and the next.
    pub fn restart_delay(&self) -> Duration {
        Duration::try_from_secs_f64(self.restart_delay_seconds).unwrap_or_default()
    }
}
