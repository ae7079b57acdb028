//! The attempt that a command runs in, from its environment; and `ralph spawn -- CMD…`, which runs and
//! records a child agent inside it.

use std::{
    env, io, iter,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use chrono::Utc;

use super::{Invocation, relay};
use crate::{
    adapters::{
        process::{self, Foreground, ForegroundGroup},
        signal,
        state::StateFolder,
    },
    core::{
        duration,
        event::{ChildAgent, ChildEnded, ChildEvent, ChildOutcome},
        exit::{Exit, Failure, fail},
        graph::task::TaskId,
        loop_paths::LoopPaths,
        reviewer::REVIEWS,
        run::command::AttemptId,
        verdict::Outcome,
    },
    project::{
        attempt::AttemptRecord,
        event_store::{EventStore, new_run_id},
        workspace::Workspace,
    },
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

/// Refuses a command by which an agent speaks for its attempt, if this is its reviewer.
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
fn attempts_around(workspace: &Workspace) -> Result<Vec<(LoopPaths, AttemptId)>> {
    let loops = workspace.loops().context("list the loops")?;
    let places = iter::once(LoopPaths::default()).chain(loops.into_iter().map(LoopPaths::of_loop));
    let mut around = Vec::new();
    for place in places {
        let state = StateFolder::open(place.state(workspace.repo.common_dir()), false);
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
    /// as in a relay, the environment names the attempt.
    pub(super) fn of(workspace: &Workspace) -> Option<SurroundingAttempt> {
        let around = attempts_around(workspace).ok()?.into_iter().next();
        let named = || {
            let named = AttemptContext::of_environment("", "").ok()?;
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

/// Runs the command and returns its exit code.
///
/// # Errors
/// Outside an attempt; a missing program; errors of the disk. The command is killed if its start cannot
/// be recorded.
pub fn spawn(invocation: &Invocation, argv: &[String]) -> Result<Exit> {
    let parent = AttemptContext::of_environment("spawn", "; run the command directly")?;
    let dir = invocation.directory()?;
    let (program, arguments) = argv.split_first().context("name a command after `--`")?;
    let program = process::resolve(program, &dir)
        .map_err(|why| Failure::new(Exit::Agent, format!("cannot start a child agent: {why}")))?;
    let mut book = ChildBook::of(&parent)?;
    let run_id = book.run_id().to_owned();
    let env = [
        ("RALPH_RUN_ID", Some(run_id.as_str())),
        ("RALPH_PARENT_RUN_ID", Some(parent.run_id.as_str())),
    ];
    let running = Arc::new(OnceLock::<Foreground>::new());
    let signalled = Arc::clone(&running);
    // Before the start, so that no signal ends only this process.
    signal::listen(move |number| signalled.wait().signal(number)).context("listen for signals")?;
    let began = Instant::now();
    let started = Foreground::start(&program, arguments, &dir, &env, None, ForegroundGroup::Shared)
        .context("start the command")?;
    let running = running.get_or_init(|| started);
    let child = ChildAgent {
        child_run_id: run_id.clone(),
        parent_run_id: parent.run_id.clone(),
        attempt: parent.attempt,
        argv: argv.to_vec(),
        process: running.identity().clone(),
    };
    if let Err(error) = book.add(&parent, ChildEvent::ChildStarted(child.clone())) {
        running.kill();
        return Err(error);
    }
    let (outcome, exit) = match running.wait().context("wait for the command")? {
        Outcome::Signaled { signal } => (ChildOutcome::Signaled { signal }, Exit::Signal(signal)),
        Outcome::Exited { exit_code } => {
            let code = u8::try_from(exit_code).unwrap_or(1);
            (ChildOutcome::Exited { exit_code }, Exit::Child(code))
        }
        other => unreachable!("a process without guardian only exits or is signalled: {other}"),
    };
    let duration_seconds = Some(duration::seconds(began.elapsed()));
    let ended = ChildEnded { child, outcome, duration_seconds };
    book.add(&parent, ChildEvent::ChildEnded(ended))?;
    Ok(exit)
}

/// Where child agents are recorded: in the journal, or outside of the sandbox around this process.
enum ChildBook {
    Journal(Box<EventStore>),
    Relay { socket: PathBuf, run_id: String },
}

impl ChildBook {
    fn of(parent: &AttemptContext) -> Result<ChildBook> {
        Ok(match env::var_os(process::relay::VARIABLE) {
            None => ChildBook::Journal(Box::new(parent.workspace()?.event_store()?)),
            Some(socket) => {
                ChildBook::Relay { socket: socket.into(), run_id: new_run_id(Utc::now()) }
            }
        })
    }

    fn run_id(&self) -> &str {
        match self {
            ChildBook::Journal(store) => store.run_id(),
            ChildBook::Relay { run_id, .. } => run_id,
        }
    }

    fn add(&mut self, parent: &AttemptContext, event: ChildEvent) -> Result<()> {
        match self {
            ChildBook::Journal(store) => store.emit(None, Some(&parent.task_id), event).map(drop),
            ChildBook::Relay { socket, .. } => {
                let input = serde_json::to_string(&event)?;
                let exit = relay::call(socket, vec!["__child".to_owned()], input)?;
                ensure!(exit.code() == 0, "the child agent was not recorded");
                Ok(())
            }
        }
    }
}

/// Records a child agent of a sandbox, as standard input says.
///
/// # Errors
/// Outside an attempt; another attempt; errors of the disk.
pub(super) fn record_child() -> Result<Exit> {
    let parent = AttemptContext::of_environment("__child", "")?;
    let event: ChildEvent = serde_json::from_reader(io::stdin().lock())?;
    let (ChildEvent::ChildStarted(child) | ChildEvent::ChildEnded(ChildEnded { child, .. })) =
        &event
    else {
        bail!("only the start and the end of a child agent are recorded");
    };
    ensure!(child.attempt == parent.attempt, "attempt {} is another one", child.attempt);
    let is_run = |id: &str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    ensure!(is_run(&child.child_run_id) && is_run(&child.parent_run_id), "the run has no id");
    let store = parent.workspace()?.event_store_of(child.child_run_id.clone())?;
    ChildBook::Journal(Box::new(store)).add(&parent, event)?;
    Ok(Exit::Success)
}
