//! The lines of verify commands, of one attempt or of a batch of the merge queue.

use super::{Line, ids, length, line, with_output};
use crate::{
    adapters::terminal::Style,
    core::{
        event::{Event, record::Record},
        select::View,
    },
};

/// Returns the lines of such an event.
pub(super) fn lines(record: &Record, view: &View<'_>) -> Vec<Line> {
    let Some(id) = &record.task_id else {
        return Vec::new();
    };
    let underway = &view.history.active;
    let trial = underway.trial.as_ref().filter(|_| underway.is_landing(id));
    let line_prefix = match trial {
        Some(_) if view.policy.jobs > 1 => "merge queue: ".to_owned(),
        _ => super::line_prefix(id.as_str(), view),
    };
    let command = |command: &str| match view.policy.jobs {
        0 | 1 => String::new(),
        _ => format!("`{command}` "),
    };
    if let Event::Verifying { command, baseline, .. } = &record.event {
        let what = match trial {
            Some(trial) => format!("{} on {}", ids(&trial.tasks), trial.branch),
            None if *baseline => format!("{id} before the attempt"),
            None => id.to_string(),
        };
        vec![line(Style::Faint, format!("verifying {what}: `{command}`"))]
    } else if let Event::Verified(check) = &record.event {
        let (command, took) = (command(&check.command), length(check.duration_seconds));
        vec![line(Style::Faint, format!("{line_prefix}{command}succeeded in {took}"))]
    } else if let Event::VerifyFailed(check) = &record.event {
        let (command, took) = (command(&check.command), length(check.duration_seconds));
        let head = format!("{line_prefix}{command}{} after {took}", check.outcome);
        with_output(line(Style::Warn, head), check)
    } else {
        Vec::new()
    }
}
