//! A plain loop: iterations over a prompt file, with a generated graph of one task.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{default_value::is_default, graph::task::TaskId};

/// The settings of a plain loop that a run over a graph does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainLoop {
    /// The name of the loop, and of its one task.
    pub name: TaskId,
    /// The file that `ralph` reads before each iteration.
    pub prompt_file: PathBuf,
    /// The pause between two iterations.
    pub restart_delay_seconds: f64,
    /// Whether the pause after a failure is the same, as a person set it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed_delay: bool,
    /// The limit on iterations after the first, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// The limit on failures in a row; 0 for no limit.
    pub max_failures: u32,
}

impl PlainLoop {
    /// The pause between two iterations.
    pub fn restart_delay(&self) -> Duration {
        Duration::try_from_secs_f64(self.restart_delay_seconds).unwrap_or_default()
    }
}
