//! `ralph spawn -- CMD…`: runs and records a child agent inside an attempt.

use std::{
    env, io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use serde::{Deserialize, Serialize};

use super::{Invocation, inside::AttemptContext, relay};
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
    project::event_store::{EventStore, new_run_id},
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
    if let Err(error) = book.add(&parent, ChildRecord::Started(child.clone())) {
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
    book.add(&parent, ChildRecord::Ended(ended))?;
    Ok(exit)
}

/// What is recorded of a child agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChildRecord {
    Started(ChildAgent),
    Ended(ChildEnded),
}

impl ChildRecord {
    fn child(&self) -> &ChildAgent {
        match self {
            ChildRecord::Started(child) => child,
            ChildRecord::Ended(ended) => &ended.child,
        }
    }
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

    fn add(&mut self, parent: &AttemptContext, record: ChildRecord) -> Result<()> {
        let store = match self {
            ChildBook::Journal(store) => store,
            ChildBook::Relay { socket, .. } => {
                let input = serde_json::to_string(&record)?;
                let exit = relay::call(socket, vec!["__child".to_owned()], input)?;
                ensure!(exit.code() == 0, "the child agent was not recorded");
                return Ok(());
            }
        };
        let event = match record {
            ChildRecord::Started(child) => Event::ChildStarted(child),
            ChildRecord::Ended(ended) => Event::ChildEnded(ended),
        };
        store.emit(None, Some(&parent.task_id), event).map(drop)
    }
}

/// Records a child agent of a sandbox, as standard input says.
///
/// # Errors
/// Outside an attempt; another attempt; errors of the disk.
pub(super) fn record() -> Result<Exit> {
    let parent = AttemptContext::of_environment("__child", "")?;
    let record: ChildRecord = serde_json::from_reader(io::stdin().lock())?;
    let child = record.child();
    ensure!(child.attempt == parent.attempt, "attempt {} is another one", child.attempt);
    let is_run = |id: &str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    ensure!(is_run(&child.child_run_id) && is_run(&child.parent_run_id), "the run has no id");
    let store = parent.workspace()?.event_store_of(child.child_run_id.clone())?;
    ChildBook::Journal(Box::new(store)).add(&parent, record)?;
    Ok(Exit::Success)
}
