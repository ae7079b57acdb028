//! Processes that an agent started: child agents, and processes left running.

use serde::{Deserialize, Serialize};

/// Processes that an agent started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    /// An agent started a child agent, with `ralph spawn`.
    ChildStarted(ChildAgent),
    /// `ralph stop --child` asked a child agent to end.
    ChildStopRequested(ChildAgent),
    /// A child agent ended.
    ChildEnded(ChildEnded),
    /// The agent reported its task done and exited; its remaining child processes may finish.
    WaitingForChildren(ChildrenLeft),
    /// All of these child processes ended in time.
    ChildrenEnded {
        /// The attempt.
        attempt: u32,
        /// The time that they took.
        duration_seconds: f64,
    },
    /// Some of these child processes did not end in time.
    ChildrenOverdue {
        /// The processes.
        #[serde(flatten)]
        left: ChildrenLeft,
        /// Whether they are killed or left running.
        on_orphans: Orphans,
    },
}

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

/// The identity of a process, which tells it from a later one with the same number.
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
    /// The number of the pid namespace in which `pid` counts; 0 if it is unknown.
    #[serde(default)]
    pub pid_namespace: u64,
}

/// A child agent, started by another agent with `ralph spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildAgent {
    /// The run id of the child.
    pub child_run_id: String,
    /// The run id of the parent: of `ralph run`, or of another child.
    pub parent_run_id: String,
    /// The attempt it belongs to.
    pub attempt: u32,
    /// The command line.
    pub argv: Vec<String>,
    /// The process.
    #[serde(flatten)]
    pub process: Identity,
}

impl ChildAgent {
    /// The display name: the command line without the folder of the program, cut to 60 characters.
    pub fn name(&self) -> String {
        const LONGEST: usize = 60;
        let (program, words) = self.argv.split_first().map_or(("", &[][..]), |(p, w)| (p, w));
        let program = program.rsplit('/').next().unwrap_or(program);
        let name = words.iter().fold(program.to_owned(), |name, word| name + " " + word);
        if name.chars().count() <= LONGEST {
            return name;
        }
        name.chars().take(LONGEST - 1).chain(['…']).collect()
    }

    /// The display name with the ids that `ralph stop --child` takes.
    pub fn label(&self) -> String {
        format!("{} [run {}, process {}]", self.name(), self.child_run_id, self.process.pid)
    }

    /// Whether `ralph stop --child` means it: by its run, or by the number of its process.
    pub fn is_meant(&self, id: &str) -> bool {
        self.child_run_id == id || self.process.pid.to_string() == id
    }
}

/// How a child agent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ChildOutcome {
    /// It exited.
    Exited {
        /// The exit code.
        exit_code: i32,
    },
    /// A signal killed it.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// The `ralph spawn` that watched it died first, so the outcome is unknown.
    Crashed,
}

/// The end of a child agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildEnded {
    /// The child agent.
    #[serde(flatten)]
    pub child: ChildAgent,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: ChildOutcome,
    /// Wall time, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
}
