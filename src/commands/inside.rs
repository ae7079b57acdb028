//! The attempt that a command runs in, from its environment.

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

/// The attempt around this process, which is its agent or a child of the agent.
pub(super) struct AttemptContext {
    /// The id of the run.
    pub(super) run_id: String,
    /// The task.
    pub(super) task_id: TaskId,
    /// The number of the attempt.
    pub(super) attempt: u32,
    /// The task's folder in the repository of the run, or its nearest existing parent.
    folder: PathBuf,
    /// The worktree of an isolated attempt.
    pub(super) tree: Option<PathBuf>,
}

impl AttemptContext {
    /// Reads the environment; `instead` tells what to do outside an attempt.
    ///
    /// # Errors
    /// A usage error if a variable is missing that every attempt has.
    pub(super) fn of_environment(command: &str, instead: &str) -> Result<AttemptContext> {
        let missing = |name: &str| {
            let why = format!(
                "`ralph {command}` works only inside an attempt of `ralph run`; `{name}` is not set \
                 here{instead}"
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

/// The paths of the loop around this process.
pub(super) fn place() -> LoopPaths {
    let name = variable("RALPH_LOOP", |name| TaskId::new(&name).ok());
    name.map_or_else(|_| LoopPaths::default(), LoopPaths::of_loop)
}

/// The parsed value of an environment variable, or its name if it is missing or invalid.
fn variable<T>(name: &str, parse: impl Fn(String) -> Option<T>) -> Result<T, &str> {
    env::var(name).ok().and_then(parse).ok_or(name)
}
