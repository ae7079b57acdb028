//! The attempt that a command runs in, from its environment.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    adapters::process,
    core::{
        exit::{Exit, Failure},
        graph::task::TaskId,
        loop_paths::LoopPaths,
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
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
    /// The slot of an isolated attempt.
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
            tree: env::var_os("RALPH_SLOT").map(PathBuf::from),
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

/// The attempt that a command about tasks runs in.
pub(super) struct SurroundingAttempt {
    task_id: TaskId,
    attempt: u32,
    /// Whether the command is about the graph or the loop of the attempt.
    same_loop: bool,
}

impl SurroundingAttempt {
    /// Returns the attempt around this process if it belongs to this repository. An iteration of a
    /// plain loop is none for the graph: a loop may work on a graph by these commands.
    ///
    /// A process of an attempt descends from its guardian, whatever its environment says. Elsewhere,
    /// as in a relay, the environment names the attempt.
    pub(super) fn of(workspace: &Workspace) -> Option<SurroundingAttempt> {
        let is_around =
            |record: &AttemptRecord| record.guardian.as_ref().is_some_and(process::is_below);
        let around = workspace.state.peek::<AttemptRecord>().into_iter().find(is_around);
        if let Some(AttemptRecord { task_id, attempt, .. }) = around {
            return Some(SurroundingAttempt { task_id, attempt, same_loop: true });
        }
        let is_here = |context: &AttemptContext| {
            let own = context.workspace();
            own.is_ok_and(|own| own.root() == workspace.root())
        };
        let named = AttemptContext::of_environment("", "").ok().filter(is_here);
        let AttemptContext { task_id, attempt, .. } = named?;
        let place = place();
        let same_loop = place.name() == workspace.place.name();
        let drives_graph = place.name().is_some() && workspace.place.name().is_none();
        (!drives_graph).then_some(SurroundingAttempt { task_id, attempt, same_loop })
    }

    /// Refuses a command that steers runs, in an attempt at a task of this repository. An iteration
    /// of a plain loop may steer its own loop.
    pub(super) fn refuse_steering(workspace: &Workspace, command: &str) -> Result<()> {
        match SurroundingAttempt::of(workspace) {
            Some(around) if !around.same_loop || workspace.place.name().is_none() => {
                Err(around.refuse(command))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The number of the attempt, if it is one at this task.
    ///
    /// # Errors
    /// It is an attempt at another task, which cannot complete this one.
    pub(super) fn at(&self, id: &str) -> Result<u32> {
        let SurroundingAttempt { task_id: own, attempt, same_loop } = self;
        if *same_loop && own.as_str() == id {
            return Ok(*attempt);
        }
        let id = id.escape_debug();
        let message = format!(
            "`{id}` is not the task of this attempt, which is `{own}`: only an attempt at `{id}` \
             can report it, and a person can complete it; do your own task, and leave `{id}` to the \
             run"
        );
        Err(Failure::new(Exit::Usage, message).into())
    }

    /// Refuses a command that only people may use.
    pub(super) fn refuse(&self, command: &str) -> anyhow::Error {
        let SurroundingAttempt { task_id, attempt, .. } = self;
        let message = format!(
            "`ralph {command}` is for people, and this is attempt {attempt} at `{task_id}`: it can \
             report its own task with `ralph task-complete {task_id}`, ask a person with \
             `ralph ask \"…\"`, and use `ralph note`, `ralph spawn` and what only reads"
        );
        Failure::new(Exit::Usage, message).into()
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
