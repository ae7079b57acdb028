//! What is said of work trees and of the merge queue.

use super::{Line, counted, ids, line, named};
use crate::{
    adapters::terminal::{Style, visible},
    core::event::{Event, Held},
};

pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Option<Vec<Line>> {
    Some(match event {
        Event::WorktreeKept { worktree, why } => {
            vec![line(Style::Warn, format!("work tree {worktree} is left as it is: {why}"))]
        }
        Event::SettingUp { command, .. } => {
            vec![line(Style::Faint, format!("setting up {id}: `{command}`"))]
        }
        Event::Queued { waiting: 1, .. } => {
            vec![line(Style::Faint, format!("{id} is done by itself and waits to be merged"))]
        }
        Event::Queued { waiting, .. } => vec![line(
            Style::Faint,
            format!("{id} is done by itself and waits to be merged, as number {waiting}"),
        )],
        Event::Merging(batch) if verbose || batch.tasks.len() > 1 => {
            let (branch, onto) = (&batch.branch, batch.onto.get(..7).unwrap_or(&batch.onto));
            vec![line(
                Style::Faint,
                format!("merging {} into {branch} at {onto}", ids(&batch.tasks)),
            )]
        }
        Event::Merging(_) => Vec::new(),
        Event::Split(batch) => vec![line(
            Style::Warn,
            format!(
                "{} cannot be merged together; looking for the one that is in the way",
                counted(batch.tasks.len(), "task")
            ),
        )],
        Event::MergeHeld(held) => held_lines(held),
        _ => return None,
    })
}

/// What keeps the target branch where it is.
pub fn hindrance(held: &Held) -> String {
    let what = match &held.why {
        Some(why) => why.clone(),
        None => format!("changes of yours are in the way: {}", named(&held.paths)),
    };
    visible(&what).into_owned()
}

fn held_lines(held: &Held) -> Vec<Line> {
    let Held { branch, checkout, .. } = held;
    let what = hindrance(held);
    vec![
        line(Style::Warn, format!("`{branch}` is not moved for now: {what}")),
        line(
            Style::Faint,
            format!("  commit or stash them in {checkout}, and the work that waits is merged"),
        ),
    ]
}
