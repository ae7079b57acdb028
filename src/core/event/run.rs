//! The run itself: its start, its waits and its end.

use std::{path::PathBuf, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    agents::agent_command::AgentCommand, attempt::Isolation, default_value::is_default,
    graph::task::TaskId,
};

/// The run itself: its start, its waits and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "other groups have larger events")]
pub enum RunEvent {
    /// `ralph run` started.
    LoopStarted(Begun),
    /// No attempt can start before `until`.
    Waiting {
        /// The time.
        until: DateTime<Utc>,
        /// The reason.
        why: String,
    },
    /// No remaining task can start.
    Blocked {
        /// The smallest set of tasks that block the others; the task that frees the most is first.
        holders: Vec<Blocker>,
    },
    /// Ctrl-Z suspended the run and its attempts until `fg`.
    Suspended {},
    /// The run continued after a suspension.
    Continued {
        /// The length of the suspension.
        seconds: u64,
        /// Whether the whole machine was asleep.
        slept: bool,
    },
    /// Commits are to be signed, and none can be; later ones are made without a signature.
    CommitsUnsigned {
        /// The message of git.
        why: String,
    },
    /// A remark for people, without further effect.
    Noticed {
        /// The remark, a sentence without a full stop.
        text: String,
    },
    /// `ralph run` ended.
    Finished {
        /// The reason.
        why: String,
        /// The exit code.
        exit_code: u8,
        /// The number of attempts in this run.
        iterations: u32,
        /// The number of tasks completed in this run.
        completed: u32,
        /// The number of tasks that are neither complete nor cancelled.
        remaining: usize,
        /// The wall time of the run.
        duration_seconds: f64,
    },
}

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
    /// The branch that work lands on; none if attempts work in the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The limit on attempts, including those made [`before`](Begun::before).
    pub max_iterations: u32,
    /// The number of attempts made by the paused run that this run continues.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: u32,
    /// The limit on attempts per task.
    #[serde(default)]
    pub max_attempts: u32,
    /// The wall-clock limit of one attempt.
    pub timeout_seconds: Option<f64>,
    /// The limit on inactivity; 0 for no limit.
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
    /// The executor of its attempts, if set by `--on`.
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

/// A task that blocks others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The task.
    pub task_id: TaskId,
    /// The reason why it cannot be completed.
    pub why: String,
    /// The number of unfinished tasks, including itself, that can continue once this task and all
    /// blockers before it in the list are resolved.
    pub frees: usize,
}
