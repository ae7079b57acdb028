//! The facts about what an agent started: child agents, what it leaves running, and what becomes
//! of both.

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
pub struct ChildrenLeft {
    /// The attempt.
    pub attempt: u32,
    /// The names of the processes.
    pub children: Vec<String>,
    /// For how long they are waited for.
    pub limit_seconds: f64,
}

/// Which process this is, so that it can be told from a later one with the same number.
///
/// On a system without `/proc` the boot id is empty and the start time 0. Such an identity matches
/// no process: there is no proof without `/proc`, and nobody is signalled on a guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The process, which is also the number of its group.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since the boot.
    pub start_time: u64,
}

/// A child agent, which another agent started with `ralph spawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildAgent {
    /// Its run.
    pub child_run_id: String,
    /// The run of who started it: that of `ralph run`, or of another child.
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
    /// What it is called: its command line without the folder of the program, cut to 60 characters.
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
}

/// How a child agent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ChildOutcome {
    /// By itself.
    Exited {
        /// With this code.
        exit_code: i32,
    },
    /// By a signal.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// With the `ralph spawn` that watched it, so that nobody saw how.
    Crashed,
}

/// The end of a child agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildEnded {
    /// Which.
    #[serde(flatten)]
    pub child: ChildAgent,
    /// How.
    #[serde(flatten)]
    pub outcome: ChildOutcome,
    /// Wall time, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
}
