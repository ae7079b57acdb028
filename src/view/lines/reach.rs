//! The lines of executors that do not answer or cannot be used.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Line, Style, line, moment};
use crate::core::{duration, event::Event, select::fault_words};

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
        let next = match pause_seconds {
            None => "; its tasks wait for the next run".to_owned(),
            Some(seconds) if *tries > 0 => {
                format!("; next try in {}", duration::short(Duration::from_secs(*seconds)))
            }
            Some(_) => String::new(),
        };
        let lasts = pause_seconds.is_none();
        let text = format!("executor `{run_on}` {}: {why}{next}", fault_words(lasts));
        // What is known need not be said again.
        return if *tries <= 1 || lasts || verbose {
            vec![line(Style::Warn, text)]
        } else {
            Vec::new()
        };
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
