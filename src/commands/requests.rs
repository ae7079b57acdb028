//! `ralph pause`, `resume` and `stop`: requests in the journal, which a run reads every second.

use std::{thread, time::Duration};

use anyhow::Result;
use serde_json::Value;

use super::{
    Invocation, background,
    inside::SurroundingAttempt,
    run::{self, RunOutput},
    success,
};
use crate::{
    adapters::terminal,
    cli::{ResumeArgs, StopArgs},
    core::{
        event::{RequestEvent, StopRequest},
        exit::{Exit, fail},
    },
    view::lines,
};

/// The number and the interval of checks whether a run that is ending has handled a request.
const LOOKS: (u32, Duration) = (10, Duration::from_millis(50));

/// Pauses: no attempt starts from now on.
///
/// # Errors
/// No repository; inside an attempt; errors of the disk.
pub fn pause(invocation: &Invocation) -> Result<Exit> {
    let workspace = invocation.watched()?;
    SurroundingAttempt::refuse_steering(&workspace, "pause")?;
    let mut store = workspace.event_store()?;
    if store.history().paused {
        terminal::say("warning: already paused");
        return Ok(Exit::Success);
    }
    store.emit(None, None, RequestEvent::PauseRequested {})?;
    let flag = workspace.place.flag();
    success(&if workspace.is_live(store.history())? {
        format!("pausing: running attempts finish, and none starts until `ralph resume{flag}`\n")
    } else {
        format!("paused: no run is active, and no attempt starts until `ralph resume{flag}`\n")
    })
}

/// Lifts the pause. A live run continues. A run that ended in the pause or at a limit is continued
/// here, with its attempt count and with new limits if any are given. Otherwise none starts.
///
/// # Errors
/// Inside an attempt; errors of [`run::run`].
pub fn resume(invocation: &Invocation, options: &ResumeArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    SurroundingAttempt::refuse_steering(&workspace, "resume")?;
    if options.background.detach {
        return background::start(&workspace.place);
    }
    let output = RunOutput::of(false, false, &options.background);
    let mut store = workspace.event_store()?;
    let now = options.now;
    let limits = run::limits(options.max_iterations, None, &options.limits);
    if !limits.is_empty() && workspace.is_live(store.history())? {
        return fail(
            Exit::Usage,
            "the run is active and keeps its limits; `ralph stop` ends it, and `ralph \
                       run` starts another with new limits",
        );
    }
    if now && !store.history().paused {
        store.emit(None, None, RequestEvent::ResumeRequested { now })?;
        return success("retrying the provider now\n");
    }
    let starts = if workspace.place.name().is_some() { "ralph loop" } else { "ralph run" };
    let last = &store.history().run;
    let stands_still = !options.lift
        && (last.was_cut_short() || last.ended_at_limit())
        && !workspace.is_live(store.history())?;
    if !store.history().paused && !stands_still {
        terminal::say("warning: not paused");
        return Ok(Exit::Success);
    }
    if !options.lift {
        run::check_branch(&workspace, store.history())?;
    }
    store.emit(None, None, RequestEvent::ResumeRequested { now })?;
    // The run may have decided to end just before the request.
    for _ in 0..LOOKS.0 {
        if store.history().run.finished.is_some() || !workspace.is_live(store.history())? {
            break;
        }
        thread::sleep(LOOKS.1);
        store.catch_up()?;
    }
    while store.history().run.finished.is_some() && workspace.is_live(store.history())? {
        thread::sleep(LOOKS.1);
        store.catch_up()?;
    }
    if workspace.is_live(store.history())? {
        return success("resumed: the run continues\n");
    }
    if options.lift {
        return success("resumed: attempts may start again; `ralph run` starts a run\n");
    }
    store.catch_up()?;
    let newest = &store.history().run;
    if newest.id.is_empty() {
        return success(&format!("resumed: no run to continue; `{starts}` starts one\n"));
    }
    let at_limit = newest.ended_at_limit();
    if !newest.was_cut_short() && !at_limit {
        return success(&format!("resumed: the last run has ended; `{starts}` starts one\n"));
    }
    let begun = newest.begun.with_flags(limits);
    let again = invocation.or(&begun).workspace()?;
    let flag = begun.flags.get("max_iterations").and_then(Value::as_u64);
    let max = flag.or(again.config.max_iterations.map(u64::from));
    if at_limit && max.is_some_and(|max| max <= u64::from(newest.used())) {
        let (used, flag) = (lines::counted(newest.used() as usize, "attempt"), again.place.flag());
        let how = format!("`ralph resume{flag} --max-iterations N` with a higher N continues it");
        return fail(Exit::Limit, format!("the last run has used its {used}; {how}"));
    }
    run::again(again, &begun, newest.iterations, output)
}

/// Requests a stop of the live run, or ends the paused one.
///
/// # Errors
/// No repository; inside an attempt; errors of the disk.
pub fn stop(invocation: &Invocation, options: &StopArgs) -> Result<Exit> {
    let now = options.now;
    let workspace = invocation.watched()?;
    SurroundingAttempt::refuse_steering(&workspace, "stop")?;
    let mut store = workspace.event_store()?;
    let stop = RequestEvent::StopRequested(StopRequest { now, ..StopRequest::default() });
    if !workspace.is_live(store.history())? {
        if !store.history().paused {
            return success("no run is active\n");
        }
        store.emit(None, None, stop)?;
        let starts = if workspace.place.name().is_some() { "ralph loop" } else { "ralph run" };
        return success(&format!("stopped: no longer paused; `{starts}` starts another run\n"));
    }
    store.emit(None, None, stop)?;
    let flag = workspace.place.flag();
    success(&if now {
        "stopping: ending the running attempt; it does not count\n".to_owned()
    } else {
        format!(
            "stopping after the running attempt; `ralph stop{flag} --now` ends it immediately\n"
        )
    })
}
