//! `ralph pause`, `resume`, `stop`: requests, left in the journal, where a run looks for them every
//! second.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{Invocation, run};
use crate::{
    adapters::terminal,
    core::{
        event::{Event, StopRequest},
        exit::Exit,
        history::RunHistory,
    },
};

/// How often and how long it is looked at whether a run that was ending has taken a request in.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(50));

/// Exit codes above are those of signals.
const SIGNALS: u8 = 128;

/// No attempt starts from now on.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn pause(here: &Invocation) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if chronicle.history().paused {
        terminal::say("warning: already paused");
        return Ok(Exit::Success);
    }
    chronicle.emit(None, None, Event::PauseRequested {})?;
    let flag = workspace.place.flag();
    terminal::print(&if workspace.is_live(chronicle.history())? {
        format!(
            "pausing: the running attempt finishes, and no other starts until `ralph resume{flag}`\n"
        )
    } else {
        format!("paused: no run goes on, and none starts until `ralph resume{flag}`\n")
    })?;
    Ok(Exit::Success)
}

/// Takes the pause away. A run that is still there goes on; otherwise one like the newest begins
/// here, and goes on with its count if the pause is what ended it.
///
/// # Errors
/// As [`run::run`].
pub fn resume(here: &Invocation, now: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if now && !chronicle.history().paused {
        chronicle.emit(None, None, Event::ResumeRequested { now })?;
        terminal::print("what waits for a provider is tried again now\n")?;
        return Ok(Exit::Success);
    }
    // The command that began a plain loop is long; nobody should have to type it again.
    let is_loop = workspace.place.name().is_some();
    let stands_still = is_loop
        && was_cut_short(&chronicle.history().run)
        && !workspace.is_live(chronicle.history())?;
    if !chronicle.history().paused && !stands_still {
        terminal::say("warning: not paused");
        return Ok(Exit::Success);
    }
    chronicle.emit(None, None, Event::ResumeRequested { now })?;
    // It may have made up its mind to end just before.
    for _ in 0..LOOKS.0 {
        if chronicle.history().run.finished.is_some() || !workspace.is_live(chronicle.history())? {
            break;
        }
        thread::sleep(LOOKS.1);
        chronicle.catch_up()?;
    }
    while chronicle.history().run.finished.is_some() && workspace.is_live(chronicle.history())? {
        thread::sleep(LOOKS.1);
        chronicle.catch_up()?;
    }
    if workspace.is_live(chronicle.history())? {
        terminal::print("resumed: the run goes on\n")?;
        return Ok(Exit::Success);
    }
    chronicle.catch_up()?;
    let newest = &chronicle.history().run;
    if newest.id.is_empty() {
        let starts = if is_loop { "ralph loop" } else { "ralph run" };
        terminal::print(&format!("resumed: there was no run; `{starts}` starts one\n"))?;
        return Ok(Exit::Success);
    }
    let goes_on = was_cut_short(newest);
    if is_loop && !goes_on {
        terminal::print("resumed: the loop is over; `ralph loop` starts another\n")?;
        return Ok(Exit::Success);
    }
    let before = if goes_on { newest.iterations } else { 0 };
    run::again(here.or(&newest.begun).workspace()?, &newest.begun, before)
}

/// Whether a run was over before its time: by a crash, a person or a signal, or to wait for one.
fn was_cut_short(run: &RunHistory) -> bool {
    let by_itself = |(_, code): &(String, u8)| *code != Exit::Waiting.code() && *code <= SIGNALS;
    !run.id.is_empty() && !run.finished.as_ref().is_some_and(by_itself)
}

/// Asks the run that goes on to stop.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn stop(here: &Invocation, now: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if !workspace.is_live(chronicle.history())? {
        terminal::print("no run goes on here\n")?;
        return Ok(Exit::Success);
    }
    chronicle.emit(None, None, Event::StopRequested(StopRequest { signal: None, now }))?;
    let flag = workspace.place.flag();
    terminal::print(&if now {
        "stopping: the running attempt is ended, and does not count\n".to_owned()
    } else {
        format!("stopping when the running attempt ends; `ralph stop{flag} --now` ends it\n")
    })?;
    Ok(Exit::Success)
}
