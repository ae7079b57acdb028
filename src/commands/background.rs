//! `--detach`: starts a run or a loop in the background, and returns once it has started; and the
//! reporter of the run there.

use std::{
    env,
    ffi::OsString,
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use anyhow::{Context, Result};

use super::success;
use crate::{
    adapters::{
        process::{self, Foreground},
        signal, terminal,
    },
    core::{
        event::{Event, RunEvent, record::Record},
        exit::Exit,
        loop_paths::LoopPaths,
        outcome::Outcome,
        select::View,
    },
    runner::Reporter,
};

/// Returns the exit that repeats the end of a process that nothing limits.
pub(super) fn exit_of(outcome: &Outcome) -> Exit {
    match outcome {
        Outcome::Signaled { signal } => Exit::Signal(*signal),
        Outcome::Exited { exit_code } => Exit::Child(u8::try_from(*exit_code).unwrap_or(1)),
        other => unreachable!("a process without guardian only exits or is signalled: {other}"),
    }
}

/// Starts this command line again with `--detached` instead of `--detach`. Returns the exit code of
/// the run if it ends before it has started.
///
/// # Errors
/// The process cannot be started.
pub(super) fn start(place: &LoopPaths) -> Result<Exit> {
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    let flag = words.iter_mut().find(|word| *word == "--detach");
    *flag.context("`--detach` is not on the command line")? = OsString::from("--detached");
    let running = Arc::new(OnceLock::<Foreground>::new());
    let signalled = Arc::clone(&running);
    // The run has left the terminal, so only this process gets typed keys.
    signal::listen(move |number| match number {
        signal::SUSPEND => signal::suspend(),
        signal::HANGUP => {}
        number => signalled.wait().signal(number),
    })
    .context("listen for signals")?;
    let (started, said) = Foreground::start_copy(words).context("start the run")?;
    let running = running.get_or_init(|| started);
    let said = io::read_to_string(said).context("wait for the start of the run")?;
    let Some(said) = said.strip_suffix(process::STARTED) else {
        terminal::print(&said)?;
        return Ok(exit_of(&running.wait().context("wait for the run")?));
    };
    let (log, flag) = (place.run_log(), place.flag());
    success(&format!(
        "{said}the run continues in the background and prints to `{log}`\n  \
         ralph attach{flag}   follows it; Ctrl-C leaves it alone\n  \
         ralph status{flag}   shows how it stands\n  \
         ralph stop{flag}     ends it after the current attempt\n"
    ))
}

/// The reporter of a run in the background: once the run has started, its log gets the streams of
/// this process.
pub(super) struct BackgroundReporter {
    /// The log.
    pub(super) log: PathBuf,
}

impl Reporter for BackgroundReporter {
    fn record(&mut self, record: &Record, _view: &View<'_>) {
        if let Event::Run(RunEvent::LoopStarted(_)) = record.event {
            // Without its log, the run stays at the terminal that started it.
            let _ = process::leave_streams(&self.log);
        }
    }
}
