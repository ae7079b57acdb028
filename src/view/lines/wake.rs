//! What is said of runs that are started by the clock.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Line, line, moment};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{Event, Hindrance, SkippedWake, Slept, Woken},
    },
};

/// Later than so many seconds is worth a word.
const LATE: u64 = 60;

/// What is said of such an event. A run that goes on meanwhile reports only the wakes that were
/// skipped.
pub(super) fn lines(event: &Event, now: DateTime<Utc>, verbose: bool) -> Vec<Line> {
    let text = if let Event::WakeSkipped(wake) = event {
        skipped(wake, now)
    } else if !verbose {
        return Vec::new();
    } else if let Event::Woken(wake) = event {
        woken(wake, |at| moment(at, now))
    } else if let Event::Slept(slept) = event {
        let wait = match slept.until {
            Some(until) => format!("next wake {}", moment(until, now)),
            None => waits_for_requests().to_owned(),
        };
        slept_after(slept).map_or(wait.clone(), |ended| format!("{ended}; {wait}"))
    } else if let Event::ScheduleEnded { signal, .. } = event {
        let why = signal.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        format!("the schedule ended{why}")
    } else {
        return Vec::new();
    };
    vec![line(Style::Faint, text)]
}

fn slept_after(slept: &Slept) -> Option<String> {
    slept.exit_code.map(run_ended)
}

/// What is said of the end of a run that the clock started.
pub fn run_ended(exit_code: u8) -> String {
    format!("the run ended with exit code {exit_code}")
}

/// What is said of a schedule without times.
pub fn waits_for_requests() -> &'static str {
    "waiting for requests"
}

/// What is said of a wake; `shown` tells a time.
pub fn woken(woken: &Woken, shown: impl FnOnce(DateTime<Utc>) -> String) -> String {
    let Some(at) = woken.scheduled_for else {
        return "woken by a request".to_owned();
    };
    let late = if woken.late_seconds >= LATE {
        let late = duration::short(Duration::from_secs(woken.late_seconds));
        format!(", {late} late: the machine slept, or no schedule ran")
    } else {
        String::new()
    };
    let missed = match woken.missed {
        0 => String::new(),
        1 => "; one other time has passed, and is not caught up on".to_owned(),
        many => format!("; {many} other times have passed, and are not caught up on"),
    };
    format!("woken for {}{late}{missed}", shown(at))
}

/// What is said of a wake that came to no run.
pub fn skipped(skipped: &SkippedWake, now: DateTime<Utc>) -> String {
    let what = skipped.scheduled_for.map_or_else(
        || "the wake that was asked for".to_owned(),
        |at| format!("the wake of {}", moment(at, now)),
    );
    let why = match skipped.why {
        Hindrance::StillRunning => "the run of the last one goes on",
        Hindrance::Busy => "another ralph runs in this repository",
        Hindrance::Paused => "paused; `ralph resume` goes on",
    };
    format!("skipped {what}: {why}")
}
