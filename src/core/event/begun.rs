//! The start of a run: the settings and flags it began with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::PlainLoop;
use crate::{agents::agent_command::AgentCommand, default_value::is_default, isolation::Isolation};

/// The start of a run, with everything that `ralph resume` needs to start another one like it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The journal version, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// The version of `ralph`.
    pub version: String,
    /// The process id.
    pub pid: u32,
    /// The command line of the agent; of the first one if there are several.
    pub agent: Vec<String>,
    /// The agents, if they do not come from the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentCommand>,
    /// The graph file, if it is not `task-graph.yaml` at the top of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<PathBuf>,
    /// The settings file, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// The limit on attempts, including those made [`before`](Begun::before).
    pub max_iterations: u32,
    /// The number of attempts made by the paused run that this run continues.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: u32,
    /// The limit on attempts per task.
    #[serde(default)]
    pub max_attempts: u32,
    /// The wall-clock limit of one attempt.
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
    /// The limit on inactivity; 0 for no limit.
    #[serde(default)]
    pub idle_seconds: Option<f64>,
    /// The settings given as flags.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub flags: Map<String, Value>,
    /// Whether the run stops after one attempt (`--once`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub once: bool,
    /// Whether the run waits for tasks that are in progress elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: bool,
    /// Whether its agents run in terminals.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tmux: bool,
    /// Where its attempts run, if `--on` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_on: Option<String>,
    /// The filter of tasks, as the flags gave it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// The plain loop, if the run is one.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub plain: Option<PlainLoop>,
}

impl Begun {
    /// Returns the same start with more settings given as flags.
    #[must_use]
    pub fn with_flags(&self, flags: Map<String, Value>) -> Begun {
        let mut begun = self.clone();
        begun.flags.extend(flags);
        begun
    }

    /// Whether the run is a plain loop whose iterations work in slots.
    pub fn is_isolated_loop(&self) -> bool {
        self.plain.is_some() && self.flags.get("isolation") == Some(&json!(Isolation::Slot))
    }
}
