//! The lines of the schedule, and of the commands that `ralph` calls around a run.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{EventContext, EventText, Line, MarkKind, length, line, moment, with_output};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{Hindrance, NotifyFailed, ScheduleEvent, SkippedWake, Woken},
    },
};

/// The delay in seconds from which a wake is reported as late.
const LATE: u64 = 60;

impl EventText for ScheduleEvent {
    /// A run reports only the skipped wakes and what failed, unless it is verbose.
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let now = at.record.timestamp;
        let text = match self {
            ScheduleEvent::WakeSkipped(wake) => skipped(wake, now),
            ScheduleEvent::HookFailed(failed) => {
                let check = &failed.check;
                let head = format!(
                    "hook `{}`: `{}` {} after {}",
                    failed.hook,
                    check.command,
                    check.outcome,
                    length(check.duration_seconds)
                );
                return with_output(line(Style::Bad, head), check);
            }
            ScheduleEvent::NotifyFailed(NotifyFailed { notifier, moment, why }) => {
                let text =
                    format!("`{moment}` not sent: {notifier}: {why} (reported once per notifier)");
                return vec![line(Style::Warn, text)];
            }
            ScheduleEvent::Slept(_)
            | ScheduleEvent::Woken(_)
            | ScheduleEvent::ScheduleEnded { .. }
                if !at.verbose =>
            {
                return Vec::new();
            }
            ScheduleEvent::Woken(wake) => woken(wake, |at| moment(at, now)),
            ScheduleEvent::Slept(slept) => {
                let wait = match slept.until {
                    Some(until) => format!("next wake {}", moment(until, now)),
                    None => waits_for_requests().to_owned(),
                };
                match slept.exit_code.map(run_ended) {
                    Some(ended) => format!("{ended}; {wait}"),
                    None => wait,
                }
            }
            ScheduleEvent::ScheduleEnded { signal, .. } => {
                let why = signal.as_ref().map_or(String::new(), |name| format!(" ({name})"));
                format!("the schedule ended{why}")
            }
        };
        vec![line(Style::Faint, text)]
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        let is_missed = matches!(self, ScheduleEvent::WakeSkipped(_));
        is_missed.then(|| (MarkKind::Missed, "a scheduled start was missed".to_owned()))
    }
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
