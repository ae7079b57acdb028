//! The lines of slots and of the merge queue.

use super::{Line, counted, ids, line, named};
use crate::{
    adapters::terminal::Style,
    core::event::{CheckoutRestored, Event},
    view::queue::HeldView,
};

/// Returns the lines of such an event.
pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Vec<Line> {
    let shown = if let Event::SlotKept { slot, why } = event {
        line(Style::Warn, format!("slot {slot} is not reused: {why}"))
    } else if let Event::CheckoutRestored(restored) = event {
        line(Style::Warn, restored_text(id, restored))
    } else if let Event::WorkRestored { from, conflicts, .. } = event {
        if conflicts.is_empty() {
            line(Style::Faint, format!("{id} continues the work of the attempt before ({from})"))
        } else {
            let paths = conflicts.join(", ");
            line(
                Style::Warn,
                format!("{id} starts over: {from} conflicts with the branch in {paths}"),
            )
        }
    } else if let Event::SettingUp { command, .. } = event {
        line(Style::Faint, format!("setting up {id}: `{command}`"))
    } else if let Event::Queued { waiting, .. } = event {
        // It lands at once, and the next line says so.
        if *waiting == 1 && !verbose {
            return Vec::new();
        }
        let place = if *waiting == 1 { String::new() } else { format!(" as number {waiting}") };
        line(Style::Faint, format!("{id} passed; queued to land{place}"))
    } else if let Event::Merging(batch) = event {
        if !verbose && batch.tasks.len() == 1 {
            return Vec::new();
        }
        let (branch, onto) = (&batch.branch, batch.onto.get(..7).unwrap_or(&batch.onto));
        line(Style::Faint, format!("landing {} on {branch} at {onto}", ids(&batch.tasks)))
    } else if let Event::Split(batch) = event {
        let tasks = counted(batch.tasks.len(), "task");
        let text =
            format!("{tasks} cannot land together; landing fewer to find the one that fails");
        line(Style::Warn, text)
    } else if let Event::MergeHeld(held) = event {
        return held_lines(&HeldView::of(held));
    } else {
        return Vec::new();
    };
    vec![shown]
}

fn restored_text(id: &str, restored: &CheckoutRestored) -> String {
    let CheckoutRestored { attempt, branch, commit, files } = restored;
    let head = commit.as_ref().map(|commit| match branch {
        Some(branch) => format!("HEAD is on `{branch}` at {} again", commit.short()),
        None => format!("HEAD is detached at {} again", commit.short()),
    });
    let files = (!files.is_empty()).then(|| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("the earlier version of {} is committed again", named(&files))
    });
    let what: Vec<String> = head.into_iter().chain(files).collect();
    format!("put back after attempt {attempt} at {id}: {}", what.join("; "))
}

fn held_lines(held: &HeldView) -> Vec<Line> {
    let first = line(Style::Warn, held.text());
    let cure = held.cure().map(|cure| format!("  {cure}, and the queued work lands"));
    [Some(first), cure.map(|cure| line(Style::Faint, cure))].into_iter().flatten().collect()
}
