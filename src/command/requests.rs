//! `ralph pause`, `resume`, `stop`: requests, left in the journal, where a run looks for them every
//! second.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{Here, run};
use crate::{
    event::{Event, Stop},
    exit::Exit,
    terminal,
};

/// How often and how long it is looked at whether a run that was ending has taken a request in.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(50));

/// No attempt starts from now on.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn pause(here: &Here) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if chronicle.history().paused {
        terminal::say("warning: already paused");
        return Ok(Exit::Success);
    }
    chronicle.emit(None, None, Event::PauseRequested {})?;
    let text = if workspace.is_live(chronicle.history())? {
        "pausing: the running attempt finishes, and no other starts until `ralph resume`\n"
    } else {
        "paused: no run goes on, and none starts until `ralph resume`\n"
    };
    terminal::print(text)?;
    Ok(Exit::Success)
}

/// Takes the pause away. A run that is still there goes on; otherwise one like the newest begins
/// here, and goes on with its count if the pause is what ended it.
///
/// # Errors
/// As [`run::run`].
pub fn resume(here: &Here, now: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if now && !chronicle.history().paused {
        chronicle.emit(None, None, Event::ResumeRequested { now })?;
        terminal::print("what waits for a provider is tried again now\n")?;
        return Ok(Exit::Success);
    }
    if !chronicle.history().paused {
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
        terminal::print("resumed: there was no run; `ralph run` starts one\n")?;
        return Ok(Exit::Success);
    }
    let own_end = |(_, code): &(String, u8)| *code != Exit::Waiting.code();
    let before = if newest.finished.as_ref().is_some_and(own_end) { 0 } else { newest.iterations };
    run::again(here.or(&newest.begun).workspace()?, &newest.begun, before)
}

/// Asks the run that goes on to stop.
///
/// # Errors
/// No repository; as the disk gives them.
pub fn stop(here: &Here, now: bool) -> Result<Exit> {
    let workspace = here.workspace()?;
    let mut chronicle = workspace.chronicle()?;
    if !workspace.is_live(chronicle.history())? {
        terminal::print("no run goes on here\n")?;
        return Ok(Exit::Success);
    }
    chronicle.emit(None, None, Event::StopRequested(Stop { signal: None, now }))?;
    terminal::print(if now {
        "stopping: the running attempt is ended, and does not count\n"
    } else {
        "stopping when the running attempt ends; `ralph stop --now` ends it\n"
    })?;
    Ok(Exit::Success)
}
