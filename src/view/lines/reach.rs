//! The lines of executors that do not answer.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Line, Style, line, moment};
use crate::core::{duration, event::Event};

/// Returns the lines of an event of this group.
pub(super) fn lines(id: &str, event: &Event, verbose: bool, now: DateTime<Utc>) -> Vec<Line> {
    if let Event::ContactLost { since, .. } = event {
        let text = format!("no contact with {id} since {}", moment(*since, now));
        return vec![line(Style::Warn, text)];
    }
    if let Event::ContactRegained { .. } = event {
        return vec![line(Style::Good, format!("{id} is heard again"))];
    }
    if let Event::ExecutorUnreachable { run_on, why, tries, pause_seconds } = event {
        let pause = duration::short(Duration::from_secs(*pause_seconds));
        let next = if *tries > 0 { format!("; next try in {pause}") } else { String::new() };
        let text = format!("executor `{run_on}` does not answer: {why}{next}");
        // What is known need not be said again.
        return if *tries <= 1 || verbose { vec![line(Style::Warn, text)] } else { Vec::new() };
    }
    if let Event::ExecutorReachable { run_on } = event {
        return vec![line(Style::Good, format!("executor `{run_on}` answers again"))];
    }
    let Event::Withdrawn { attempt, run_on, why } = event else {
        return Vec::new();
    };
    let text =
        format!("attempt {attempt} at {id} did not get to `{run_on}` and is taken back: {why}");
    if verbose { vec![line(Style::Faint, text)] } else { Vec::new() }
}
