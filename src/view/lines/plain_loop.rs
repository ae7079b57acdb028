//! The lines of a plain loop that differ from those of a run over a graph.

use std::time::Duration;

use super::{EventContext, Line, attempt::proof, counted, line};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{
            AttemptEvent, AttemptResult, Cause, Event, GraphEvent, PlainLoop, RequestEvent,
            RunEvent, record::Record,
        },
        loop_paths::LoopPaths,
        select::View,
        verdict::{Merge, Outcome, Verdict},
    },
};

/// Returns the heading of an iteration.
pub fn start_of_iteration(record: &Record, of: u32, plain: &PlainLoop) -> String {
    format!("{}: starting iteration {}/{of}", plain.name, record.iteration.unwrap_or(0))
}

/// Returns the lines of a record; `None` if they are the same as for any task.
pub(super) fn lines(at: &EventContext<'_>, plain: &PlainLoop) -> Option<Vec<Line>> {
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
        let base = base.as_deref().map_or("nothing", |base| base.get(..7).unwrap_or(base));
        line(Style::Faint, format!("from {base}; prompt and output in {log}"))
    } else if let Event::Graph(GraphEvent::StatusChanged { cause: Cause::DoneFile, .. }) = event {
        let folder = LoopPaths::of_loop(name.clone()).folder(name);
        line(Style::Good, format!("{name}: `{folder}/DONE` exists; remove it to start again"))
    } else if let Event::Request(RequestEvent::PauseRequested {}) = event {
        let text =
            format!("paused: no new iteration starts; `ralph resume --name {name}` continues");
        line(Style::Warn, text)
    } else if let Event::Attempt(AttemptEvent::Terminating { why, .. }) = event {
        line(Style::Warn, format!("{name}: ending iteration {iteration}: {why}"))
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
            let landed = match &ended.evidence.merge {
                Some(Merge::Landed { branch, .. }) => format!("; landed on `{branch}`"),
                Some(Merge::Conflict { .. } | Merge::Red { .. } | Merge::Refused { .. }) | None => {
                    String::new()
                }
            };
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
    let mut shown = ended.clone();
    if !at.verbose {
        // A plain loop normally keeps uncommitted work between iterations.
        shown.evidence.leftovers.clear();
    }
    lines.extend(proof(&shown));
    if !ended.unpinned.is_empty() {
        let names = ended.unpinned.join(", ");
        lines.push(line(Style::Warn, format!("  not kept: {names}")));
    }
    let is_odd = !matches!(ended.verdict, Verdict::Complete | Verdict::Again);
    if let Some(last) = ended.last_line.as_ref().filter(|_| is_odd || at.verbose) {
        lines.push(line(None, format!("  its last line: {last}")));
    }
    if is_odd {
        let kept =
            format!("what it left: `ralph restore --name {} {}`; ", plain.name, ended.attempt);
        let kept = if ended.pinned.is_some() { &kept } else { "" };
        lines.push(line(Style::Faint, format!("  {kept}output in {}", ended.log)));
    }
    lines
}

/// Returns the number of consecutive failures, and what follows.
fn failure_streak(plain: &PlainLoop, view: &View<'_>) -> String {
    let count = view.history.run.failures_in_a_row;
    let pause = view.pause_after(view.history.of(&plain.name)).to_std().unwrap_or_default();
    let is_last = view.history.run.iterations >= view.policy.max_iterations;
    let next = format!("; the next starts in {}", duration::short(pause));
    let next = if is_last { "" } else { &next };
    match plain.max_failures {
        0 => format!("failure {count} in a row{next}"),
        most if count >= most => format!("failure {count} of {most} in a row"),
        most => format!("failure {count} of {most} in a row{next}"),
    }
}
