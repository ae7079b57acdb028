//! The attempt that a command runs in, from its environment.

use std::{
    env, iter,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    adapters::{process, state::StateFolder},
    core::{
        exit::{Exit, Failure, fail},
        graph::task::TaskId,
        loop_paths::LoopPaths,
        reviewer::REVIEWS,
        run::command::AttemptId,
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
};

/// The attempt around this process, which is its agent or a child of the agent.
pub(super) struct AttemptContext {
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
    /// Reads the environment.
    ///
    /// # Errors
    /// A usage error if a variable is missing that every attempt has.
    pub(super) fn of_environment(command: &str) -> Result<AttemptContext> {
        let for_people = match command {
            "note" => {
                "; `ralph note TASK \"…\"` (or `--task TASK`) is for the next attempts at a task"
            }
            _ => "",
        };
        let missing = |name: &str| {
            let why = format!(
                "`ralph {command}` works only inside an attempt of `ralph run`; `{name}` is not set \
                 here{for_people}"
            );
            Failure::new(Exit::Usage, why)
        };
        variable("RALPH_RUN_ID", Some).map_err(missing)?;
        Ok(AttemptContext {
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
    /// No repository; the environment names another attempt than the one around this process.
    pub(super) fn workspace(&self) -> Result<Workspace> {
        let place = place();
        let workspace = Workspace::heard(&self.folder, place.clone())?;
        let around = attempts_around(&workspace)?;
        let own = (place, AttemptId { task_id: self.task_id.clone(), attempt: self.attempt });
        match around.first() {
            Some((_, AttemptId { task_id, attempt })) if !around.contains(&own) => fail(
                Exit::Usage,
                format!(
                    "this is attempt {attempt} at `{task_id}`, which speaks only for itself; the \
                     environment names attempt {} at `{}`",
                    self.attempt, self.task_id
                ),
            ),
            Some(_) | None => Ok(workspace),
        }
    }
}

/// Refuses a command of an agent on behalf of its attempt, if this is its reviewer.
///
/// # Errors
/// A usage error.
pub(super) fn refuse_beside(command: &str) -> Result<()> {
    let why = format!(
        "`ralph {command}` is for the author of the work; a reviewer answers with findings in its last \
         message"
    );
    ensure!(env::var_os(REVIEWS).is_none(), Failure::new(Exit::Usage, why));
    Ok(())
}

/// Returns the attempts from whose guardians this process descends, whatever its environment says, each
/// with the paths of its loop: an attempt at a task before the iteration of a loop.
pub(super) fn attempts_around(workspace: &Workspace) -> Result<Vec<(LoopPaths, AttemptId)>> {
    let loops = workspace.loops().context("list the loops")?;
    let places = iter::once(LoopPaths::default()).chain(loops.into_iter().map(LoopPaths::of_loop));
    let mut around = Vec::new();
    for place in places {
        let state = StateFolder::open(place.state(workspace.repo.common_dir()));
        let mut records = state.peek::<AttemptRecord>();
        records.retain(|record| record.guardian.as_ref().is_some_and(process::is_below));
        around.extend(records.iter().map(|record| (place.clone(), record.id())));
    }
    Ok(around)
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
    /// the environment names the attempt.
    pub(super) fn of(workspace: &Workspace) -> Option<SurroundingAttempt> {
        let around = attempts_around(workspace).ok()?.into_iter().next();
        let named = || {
            let named = AttemptContext::of_environment("").ok()?;
            let own = named.workspace().ok()?;
            let AttemptContext { task_id, attempt, .. } = named;
            (own.root() == workspace.root()).then_some((place(), AttemptId { task_id, attempt }))
        };
        let (place, AttemptId { task_id, attempt }) = around.or_else(named)?;
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
        fail(
            Exit::Usage,
            format!(
                "`{id}` is not the task of this attempt, which is `{own}`: only an attempt at `{id}` \
             can report it, and a person can complete it; do your own task, and leave `{id}` to the \
             run"
            ),
        )
    }

    /// Refuses a command that only people may use.
    pub(super) fn refuse(&self, command: &str) -> anyhow::Error {
        let SurroundingAttempt { task_id, attempt, .. } = self;
        let message = format!(
            "`ralph {command}` is for people, and this is attempt {attempt} at `{task_id}`: it can \
             report its own task with `ralph task-complete {task_id}`, ask a person with \
             `ralph ask \"…\"`, and use `ralph note` and what only reads"
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
