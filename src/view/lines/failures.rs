//! The lines of failed hooks and failed notifications.

use super::{Line, length, line, with_output};
use crate::{
    adapters::terminal::Style,
    core::event::{Event, HookFailed, NotifyFailed},
};

/// Returns the lines of such an event.
pub(super) fn lines(event: &Event) -> Vec<Line> {
    if let Event::HookFailed(failed) = event {
        hook(failed)
    } else if let Event::NotifyFailed(NotifyFailed { notifier, moment, why }) = event {
        let text = format!("`{moment}` not sent: {notifier}: {why} (reported once per notifier)");
        vec![line(Style::Warn, text)]
    } else {
        Vec::new()
    }
}

fn hook(failed: &HookFailed) -> Vec<Line> {
    let check = &failed.check;
    let took = length(check.duration_seconds);
    let head =
        format!("hook `{}`: `{}` {} after {took}", failed.hook, check.command, check.outcome);
    with_output(line(Style::Bad, head), check)
}
