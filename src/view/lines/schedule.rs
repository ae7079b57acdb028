//! The lines of the schedule, and of the commands that `ralph` calls around a run.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    EventContext, EventText, Line, MarkKind,
    attempt::{proof, reason},
    counted, faint, length, line, moment, with_output,
};
use crate::{
    adapters::terminal::Style,
    core::{
        commit_id::CommitId,
        duration,
        event::{
            AttemptEvent, AttemptResult, Cause, Event, GraphEvent, Hindrance, PlainLoop,
            RequestEvent, RunEvent, ScheduleEvent, Woken, record::Record,
        },
        loop_paths::LoopPaths,
        select::{View, iteration_limit_reached},
        verdict::{Merge, Outcome, Verdict},
    },
};

/// The delay in seconds from which a wake is reported as late.
const LATE: u64 = 60;

impl EventText for ScheduleEvent {
    /// A run reports only skipped wakes and failures, unless it is verbose.
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let now = at.record.timestamp;
        let text = match self {
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
            ScheduleEvent::Woken(wake) if at.verbose || wake.skipped.is_some() => {
                woken(wake, |at| moment(at, now))
            }
            ScheduleEvent::Slept(_)
            | ScheduleEvent::Woken(_)
            | ScheduleEvent::ScheduleEnded { .. }
                if !at.verbose =>
            {
                return Vec::new();
            }
            ScheduleEvent::Woken(_) => return Vec::new(),
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
        faint(text)
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        let is_missed = matches!(self, ScheduleEvent::Woken(Woken { skipped: Some(_), .. }));
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
    let time = woken.scheduled_for.map(shown);
    if let Some(why) = woken.skipped {
        let what =
            time.map_or_else(|| "the requested wake".to_owned(), |at| format!("the wake of {at}"));
        let why = match why {
            Hindrance::StillRunning => "the previous run is still running",
            Hindrance::Busy => "another ralph runs in this repository",
            Hindrance::Paused => "paused; `ralph resume` continues",
        };
        return format!("skipped {what}: {why}");
    }
    let Some(at) = time else { return "woken by a request".to_owned() };
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
    format!("woken for {at}{late}{missed}")
}

// The lines of the iterations of plain loops.

/// Returns the heading of an iteration of a plain loop.
pub(super) fn start_of_iteration(record: &Record, of: u32, plain: &PlainLoop) -> String {
    format!("{}: starting iteration {}/{of}", plain.name, record.iteration.unwrap_or(0))
}

/// Returns the lines of a record of a plain loop; `None` if they are the same as for any task.
pub(super) fn lines_of_loop(at: &EventContext<'_>, plain: &PlainLoop) -> Option<Vec<Line>> {
    let (name, record) = (&plain.name, at.record);
    let iteration = record.iteration.unwrap_or(0);
    let event = &record.event;
    if let Some(ended) = event.ended() {
        // A question has the same lines as for any task.
        return (ended.verdict != Verdict::NeedsInput).then(|| ended_lines(at, ended, plain));
    }
    let shown = if let Event::Graph(GraphEvent::GraphLoaded { .. }) = event {
        // The graph of a plain loop is internal.
        return Some(Vec::new());
    } else if matches!(event, Event::Run(RunEvent::Waiting { .. }))
        && at.view.history.cooldowns.is_empty()
    {
        // The previous line says when the next iteration starts.
        return Some(Vec::new());
    } else if let (true, Event::Attempt(AttemptEvent::Started { base, log, .. })) =
        (at.verbose, event)
    {
        let base = base.as_ref().map_or("nothing", CommitId::short);
        line(Style::Faint, format!("from {base}; prompt and output in {log}"))
    } else if let Event::Graph(GraphEvent::StatusChanged { cause: Cause::DoneFile, .. }) = event {
        let folder = LoopPaths::of_loop(name.clone()).folder(name);
        line(Style::Good, format!("{name}: `{folder}/DONE` exists; remove it to start again"))
    } else if let Event::Request(RequestEvent::PauseRequested {}) = event {
        let text =
            format!("paused: no new iteration starts; `ralph resume --name {name}` continues");
        line(Style::Warn, text)
    } else if let Event::Attempt(AttemptEvent::Recovered { from_run, .. }) = event {
        let text = format!("{name}: recovered iteration {iteration}, left open by run {from_run}");
        line(Style::Warn, text)
    } else {
        return None;
    };
    Some(vec![shown])
}

fn ended_lines(at: &EventContext<'_>, ended: &AttemptResult, plain: &PlainLoop) -> Vec<Line> {
    let which = format!("{}: iteration {}", plain.name, at.record.iteration.unwrap_or(0));
    let time = duration::short(ended.duration());
    let why = &ended.why;
    let (style, text) = match (ended.verdict, &ended.outcome, ended.evidence.report) {
        (Verdict::Complete, _, Some(report)) => {
            let checks = match ended.evidence.verify.len() {
                0 => String::new(),
                count => format!(", {} succeeded", counted(count, "verify command")),
            };
            let landed = ended.evidence.merge.as_ref().map(Merge::landed).unwrap_or_default();
            (Some(Style::Good), format!("{which}: {report} after {time}{checks}{landed}"))
        }
        (Verdict::Again, Outcome::Idle { limit_seconds }, _) => {
            let limit = duration::short(Duration::from_secs(*limit_seconds));
            let text =
                format!("{which}: inactivity limit of {limit} reached after {time}, restarting");
            (Some(Style::Warn), text)
        }
        (Verdict::Again, ..) => (None, format!("{which} {why} after {time}")),
        (verdict, ..) if verdict.counts() => {
            let text = format!("{which} {why} after {time}; {}", failure_streak(plain, at.view));
            (Some(Style::Bad), text)
        }
        (verdict, ..) => (Some(Style::Warn), format!("{which} {verdict} after {time}: {why}")),
    };
    let mut lines = vec![line(style, text)];
    // A plain loop normally keeps uncommitted work between iterations.
    lines.extend(proof(ended, at.verbose));
    let is_odd = !matches!(ended.verdict, Verdict::Complete | Verdict::Again);
    if is_odd {
        let kept =
            format!("what it left: `ralph restore --name {} {}`; ", plain.name, ended.attempt);
        let kept = if ended.pinned.is_some() { &kept } else { "" };
        lines.push(line(Style::Faint, format!("    {kept}output in {}", ended.log)));
    }
    lines.extend(reason(ended).filter(|_| is_odd || at.verbose));
    lines
}

/// Returns the number of consecutive failures, and their effect.
fn failure_streak(plain: &PlainLoop, view: &View<'_>) -> String {
    let count = view.history.run.failures_in_a_row;
    let pause = view.pause_after(view.history.of(&plain.name)).to_std().unwrap_or_default();
    let is_last = iteration_limit_reached(view).is_some();
    let next = format!("; the next starts in {}", duration::short(pause));
    let next = if is_last { "" } else { &next };
    match plain.max_failures {
        0 => format!("failure {count} in a row{next}"),
        most if count >= most => format!("failure {count} of {most} in a row"),
        most => format!("failure {count} of {most} in a row{next}"),
    }
}
