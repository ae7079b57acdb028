//! The lines of the merge queue and of executors.

use std::time::Duration;

use super::{EventContext, EventText, Line, MarkKind, counted, ids, line, moment};
use crate::{
    adapters::terminal::Style,
    core::{
        duration,
        event::{ExecutorEvent, LandingEvent},
        select::fault_words,
    },
    view::queue::HeldView,
};

impl EventText for LandingEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        let faint = |text: String| vec![line(Style::Faint, text)];
        match self {
            // It lands at once, and the next line says so.
            LandingEvent::Queued { waiting: 1, .. } if !at.verbose => Vec::new(),
            LandingEvent::Queued { waiting: 1, .. } => {
                faint(format!("{id} passed; queued to land"))
            }
            LandingEvent::Queued { waiting, .. } => {
                faint(format!("{id} passed; queued to land as number {waiting}"))
            }
            LandingEvent::Merging(batch) if !at.verbose && batch.tasks.len() == 1 => Vec::new(),
            LandingEvent::Merging(batch) => {
                let (branch, onto) = (&batch.branch, batch.onto.get(..7).unwrap_or(&batch.onto));
                faint(format!("landing {} on {branch} at {onto}", ids(&batch.tasks)))
            }
            LandingEvent::Split(batch) => {
                let tasks = counted(batch.tasks.len(), "task");
                let text = format!(
                    "{tasks} cannot land together; landing fewer to find the one that fails"
                );
                vec![line(Style::Warn, text)]
            }
            LandingEvent::MergeHeld(held) => held_lines(&HeldView::of(held)),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        let LandingEvent::MergeHeld(held) = self else {
            return None;
        };
        Some((MarkKind::Held, format!("`{}` is held up", held.branch)))
    }
}

fn held_lines(held: &HeldView) -> Vec<Line> {
    let first = line(Style::Warn, held.text());
    let cure = held.cure().map(|cure| format!("  {cure}, and the queued work lands"));
    [Some(first), cure.map(|cure| line(Style::Faint, cure))].into_iter().flatten().collect()
}

impl EventText for ExecutorEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        let good = |text: String| vec![line(Style::Good, text)];
        match self {
            ExecutorEvent::AwaitingExecutor { run_on, why, .. } => {
                vec![line(Style::Faint, format!("{id} waits for {run_on}: {why}"))]
            }
            ExecutorEvent::Withdrawn { attempt, run_on, why } if at.verbose => {
                let text = format!(
                    "attempt {attempt} at {id} did not get to `{run_on}` and is taken back: {why}"
                );
                vec![line(Style::Faint, text)]
            }
            ExecutorEvent::Withdrawn { .. } => Vec::new(),
            ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds } => {
                let lasts = pause_seconds.is_none();
                // What is known need not be said again.
                if *tries > 1 && !lasts && !at.verbose {
                    return Vec::new();
                }
                let next = match pause_seconds {
                    None => "; its tasks wait for the next run".to_owned(),
                    Some(seconds) if *tries > 0 => {
                        format!("; next try in {}", duration::short(Duration::from_secs(*seconds)))
                    }
                    Some(_) => String::new(),
                };
                let text = format!("executor `{run_on}` {}: {why}{next}", fault_words(lasts));
                vec![line(Style::Warn, text)]
            }
            ExecutorEvent::ExecutorReachable { run_on } => {
                good(format!("executor `{run_on}` answers again"))
            }
            ExecutorEvent::ContactLost { since, .. } => {
                let since = moment(*since, at.record.timestamp);
                vec![line(Style::Warn, format!("no contact with {id} since {since}"))]
            }
            ExecutorEvent::ContactRegained { .. } => good(format!("{id} is heard again")),
        }
    }
}
