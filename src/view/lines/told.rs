//! What is said of hooks, and of those who could not be told.

use super::{Line, length, line, with_output};
use crate::{
    adapters::terminal::Style,
    core::event::{Event, HookFailed, NotifyFailed},
};

/// What is said of a fact; none if it is none of these.
pub(super) fn lines(event: &Event) -> Option<Vec<Line>> {
    match event {
        Event::HookFailed(failed) => Some(hook(failed)),
        Event::NotifyFailed(NotifyFailed { notifier, moment, why }) => Some(vec![line(
            Style::Warn,
            format!("not told of `{moment}`: {notifier}: {why} (this is said once of each)"),
        )]),
        _ => None,
    }
}

fn hook(failed: &HookFailed) -> Vec<Line> {
    let check = &failed.check;
    let took = length(check.duration_seconds);
    let head =
        format!("hook `{}`: `{}` {} after {took}", failed.hook, check.command, check.outcome);
    with_output(line(Style::Bad, head), check)
}
