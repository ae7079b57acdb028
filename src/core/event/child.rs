//! Processes that an agent left running.

use serde::{Deserialize, Serialize};

/// The handling of processes that outlast the wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orphans {
    /// Kill them.
    #[default]
    Kill,
    /// Leave them running, without watching them further.
    Leave,
}

/// The processes left running by an agent that reported its task done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildrenLeft {
    /// The attempt.
    pub attempt: u32,
    /// The names of the processes.
    pub children: Vec<String>,
    /// The limit on the wait for them.
    pub limit_seconds: f64,
}

/// The identity of a process, distinct from that of a later one with the same number.
///
/// On a system without `/proc` the boot id is empty and the start time 0. Such an identity matches
/// no process: without `/proc` there is no proof, and `ralph` does not signal a process on a guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The process id, which is also its process group.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since the boot.
    pub start_time: u64,
    /// The number of the pid namespace of `pid`; 0 if it is unknown.
    #[serde(default)]
    pub pid_namespace: u64,
}
