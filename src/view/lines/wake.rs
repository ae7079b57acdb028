//! The lines of runs that the schedule starts.

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

/// The delay in seconds from which a wake is reported as late.
const LATE: u64 = 60;

/// Returns the lines of such an event. A run reports only the skipped wakes, unless it is verbose.
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

/// Returns the text of the end of a scheduled run.
pub fn run_ended(exit_code: u8) -> String {
    format!("the run ended with exit code {exit_code}")
}

/// Returns the text of a schedule without times.
pub fn waits_for_requests() -> &'static str {
    "waiting for requests"
}

/// Returns the text of a wake; `shown` formats a time.
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
        1 => "; 1 other time was missed and is skipped".to_owned(),
        many => format!("; {many} other times were missed and are skipped"),
    };
    format!("woken for {}{late}{missed}", shown(at))
}

/// Returns the text of a skipped wake.
pub fn skipped(skipped: &SkippedWake, now: DateTime<Utc>) -> String {
    let what = skipped.scheduled_for.map_or_else(
        || "the requested wake".to_owned(),
        |at| format!("the wake of {}", moment(at, now)),
    );
    let why = match skipped.why {
        Hindrance::StillRunning => "the previous run is still running",
        Hindrance::Busy => "another ralph runs in this repository",
        Hindrance::Paused => "paused; `ralph resume` continues",
    };
    format!("skipped {what}: {why}")
}
