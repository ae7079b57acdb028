//! What a run began with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{PlainLoop, is_off, is_zero};
use crate::core::agents::agent_command::AgentCommand;

/// What a run began with: enough to begin another like it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// The version of `ralph`.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// The agent's command line; of several, the first one's.
    pub agent: Vec<String>,
    /// The agents, where they are not the settings' own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentCommand>,
    /// The graph file, where it is not `task-graph.yaml` at the top of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<PathBuf>,
    /// The settings file, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// The bound on attempts, those [`before`](Begun::before) included.
    pub max_iterations: u32,
    /// The attempts of the paused run that this one goes on with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before: u32,
    /// The bound on attempts per task.
    #[serde(default)]
    pub max_attempts: u32,
    /// The wall-clock limit of one attempt.
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
    /// The limit of doing nothing; 0 for no such limit.
    #[serde(default)]
    pub idle_seconds: Option<f64>,
    /// The settings that flags named.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub flags: Map<String, Value>,
    /// Whether one attempt was asked for.
    #[serde(default, skip_serializing_if = "is_off")]
    pub once: bool,
    /// Whether it waits for tasks that are in progress elsewhere.
    #[serde(default, skip_serializing_if = "is_off")]
    pub wait: bool,
    /// Whether its agents have terminals.
    #[serde(default, skip_serializing_if = "is_off")]
    pub tmux: bool,
    /// What the run was restricted to, as the flags said it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// What makes it a plain loop, if it is one.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub plain: Option<PlainLoop>,
}
