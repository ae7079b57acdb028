//! `ralph spawn -- CMD…`: a child agent with a record of its own, inside an attempt.

use std::{
    env,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

use anyhow::{Context, Result};

use super::Here;
use crate::{
    agent::{self, Foreground},
    duration,
    event::{Child, ChildEnded, ChildOutcome, Event},
    exit::{Exit, Failure},
    signal,
    task::TaskId,
    verdict::Outcome,
    workspace::Workspace,
};

/// Who starts the child: an agent, or another child of one.
struct Parent {
    run_id: String,
    task_id: TaskId,
    attempt: u32,
    /// The task's folder, which is in the repository of the run wherever the agent has gone; or
    /// what is left of the way there.
    folder: PathBuf,
}

impl Parent {
    fn of_environment() -> Result<Parent> {
        Ok(Parent {
            run_id: variable("RALPH_RUN_ID", Some)?,
            task_id: variable("RALPH_TASK_ID", |id| TaskId::new(&id).ok())?,
            attempt: variable("RALPH_ATTEMPT", |number| number.parse().ok())?,
            folder: variable("RALPH_TASK_DIR", |folder| {
                Path::new(&folder).ancestors().find(|folder| folder.exists()).map(Path::to_owned)
            })?,
        })
    }
}

/// What only an attempt's environment has.
fn variable<T>(name: &str, parse: impl Fn(String) -> Option<T>) -> Result<T> {
    env::var(name).ok().and_then(parse).ok_or_else(|| {
        let why = format!(
            "`ralph spawn` is for agents, inside an attempt of `ralph run`, and here `{name}` is \
             not set as it is there; start the command itself"
        );
        Failure::new(Exit::Usage, why).into()
    })
}

/// Runs the command to its end and ends as it did.
///
/// # Errors
/// Outside of an attempt; no such program; as the disk gives them, and the command is ended if its
/// beginning cannot be recorded.
pub fn run(here: &Here, argv: &[String]) -> Result<Exit> {
    let parent = Parent::of_environment()?;
    let dir = here.directory()?;
    let (program, arguments) = argv.split_first().context("name a command after `--`")?;
    let program = agent::resolve(program, &dir)
        .map_err(|why| Failure::new(Exit::Agent, format!("cannot start a child agent: {why}")))?;
    let mut chronicle = Workspace::open(&parent.folder, None)?.chronicle()?;
    let run_id = chronicle.run_id().to_owned();
    let env = [("RALPH_RUN_ID", run_id.as_str()), ("RALPH_PARENT_RUN_ID", &parent.run_id)];
    let running = Arc::new(OnceLock::<Foreground>::new());
    let signalled = Arc::clone(&running);
    // Before it starts, so that no signal ends this process and leaves it behind.
    signal::listen(move |number| signalled.wait().signal(number)).context("listen for signals")?;
    let began = Instant::now();
    let started =
        Foreground::start(&program, arguments, &dir, &env).context("start the command")?;
    let running = running.get_or_init(|| started);
    let child = Child {
        child_run_id: run_id.clone(),
        parent_run_id: parent.run_id.clone(),
        attempt: parent.attempt,
        argv: argv.to_vec(),
        process: running.identity().clone(),
    };
    let id = &parent.task_id;
    if let Err(error) = chronicle.emit(None, Some(id), Event::ChildStarted(child.clone())) {
        running.kill();
        return Err(error);
    }
    let (outcome, exit) = match running.wait().context("wait for the command")? {
        Outcome::Signaled { signal } => (ChildOutcome::Signaled { signal }, Exit::Signal(signal)),
        Outcome::Exited { exit_code } => {
            let code = u8::try_from(exit_code).unwrap_or(1);
            (ChildOutcome::Exited { exit_code }, Exit::Child(code))
        }
        other => unreachable!("nothing else happens to a process that nobody guards: {other}"),
    };
    let duration_seconds = Some(duration::seconds(began.elapsed()));
    let ended = ChildEnded { child, outcome, duration_seconds };
    chronicle.emit(None, Some(id), Event::ChildEnded(ended))?;
    Ok(exit)
}
