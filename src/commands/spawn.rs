//! `ralph spawn -- CMD…`: runs and records a child agent inside an attempt.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use anyhow::{Context, Result};

use super::{Invocation, inside::AttemptContext};
use crate::{
    adapters::{
        process::{self, Foreground, ForegroundGroup},
        signal,
    },
    core::{
        duration,
        event::{ChildAgent, ChildEnded, ChildOutcome, Event},
        exit::{Exit, Failure},
        verdict::Outcome,
    },
};

/// Runs the command and returns its exit code.
///
/// # Errors
/// Outside an attempt; a missing program; errors of the disk. The command is killed if its start cannot
/// be recorded.
pub fn run(invocation: &Invocation, argv: &[String]) -> Result<Exit> {
    let parent = AttemptContext::of_environment("spawn", "; run the command directly")?;
    let dir = invocation.directory()?;
    let (program, arguments) = argv.split_first().context("name a command after `--`")?;
    let program = process::resolve(program, &dir)
        .map_err(|why| Failure::new(Exit::Agent, format!("cannot start a child agent: {why}")))?;
    let mut store = parent.workspace()?.event_store()?;
    let run_id = store.run_id().to_owned();
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
    let id = &parent.task_id;
    if let Err(error) = store.emit(None, Some(id), Event::ChildStarted(child.clone())) {
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
    store.emit(None, Some(id), Event::ChildEnded(ended))?;
    Ok(exit)
}
