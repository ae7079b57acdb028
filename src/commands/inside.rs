//! The attempt that a command is run in, as its environment tells.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    core::{
        exit::{Exit, Failure},
        graph::task::TaskId,
        loop_paths::LoopPaths,
    },
    project::workspace::Workspace,
};

/// An attempt, seen from inside: by its agent, or by a child of that.
pub(super) struct AttemptContext {
    /// The run it belongs to.
    pub(super) run_id: String,
    /// Its task.
    pub(super) task_id: TaskId,
    /// Its number.
    pub(super) attempt: u32,
    /// The task's folder, which is in the repository of the run wherever the agent has gone; or
    /// what is left of the way there.
    folder: PathBuf,
    /// The work tree that the attempt has to itself, if it has one.
    pub(super) tree: Option<PathBuf>,
}

impl AttemptContext {
    /// What the environment tells; `instead` is what to do outside of an attempt.
    ///
    /// # Errors
    /// A usage error where a variable is missing that every attempt has.
    pub(super) fn of_environment(command: &str, instead: &str) -> Result<AttemptContext> {
        let missing = |name: &str| {
            let why = format!(
                "`ralph {command}` is for agents, inside an attempt of `ralph run`, and here \
                 `{name}` is not set as it is there{instead}"
            );
            Failure::new(Exit::Usage, why)
        };
        Ok(AttemptContext {
            run_id: variable("RALPH_RUN_ID", Some).map_err(missing)?,
            task_id: variable("RALPH_TASK_ID", |id| TaskId::new(&id).ok()).map_err(missing)?,
            attempt: variable("RALPH_ATTEMPT", |number| number.parse().ok()).map_err(missing)?,
            folder: variable("RALPH_TASK_DIR", |folder| {
                Path::new(&folder).ancestors().find(|folder| folder.exists()).map(Path::to_owned)
            })
            .map_err(missing)?,
            tree: env::var_os("RALPH_WORKTREE").map(PathBuf::from),
        })
    }

    /// The repository of the run.
    ///
    /// # Errors
    /// No repository.
    pub(super) fn workspace(&self) -> Result<Workspace> {
        Workspace::heard(&self.folder, place())
    }
}

/// Where the things of the loop lie that this process is inside of.
pub(super) fn place() -> LoopPaths {
    let name = variable("RALPH_LOOP", |name| TaskId::new(&name).ok());
    name.map_or_else(|_| LoopPaths::default(), LoopPaths::of_loop)
}

/// A variable of the environment, or its name where it does not say what it should.
fn variable<T>(name: &str, parse: impl Fn(String) -> Option<T>) -> Result<T, &str> {
    env::var(name).ok().and_then(parse).ok_or(name)
}
