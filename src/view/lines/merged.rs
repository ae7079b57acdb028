//! What is said of worktrees and of the merge queue.

use super::{Line, counted, ids, line};
use crate::{adapters::terminal::Style, core::event::Event, view::queue::HeldView};

pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Option<Vec<Line>> {
    Some(match event {
        Event::WorktreeKept { worktree, why } => {
            vec![line(Style::Warn, format!("worktree {worktree} is not reused: {why}"))]
        }
        Event::SettingUp { command, .. } => {
            vec![line(Style::Faint, format!("setting up {id}: `{command}`"))]
        }
        Event::Queued { waiting: 1, .. } => {
            vec![line(Style::Faint, format!("{id} passed; queued to land"))]
        }
        Event::Queued { waiting, .. } => {
            vec![line(Style::Faint, format!("{id} passed; queued to land as number {waiting}"))]
        }
        Event::Merging(batch) if verbose || batch.tasks.len() > 1 => {
            let (branch, onto) = (&batch.branch, batch.onto.get(..7).unwrap_or(&batch.onto));
            vec![line(Style::Faint, format!("landing {} on {branch} at {onto}", ids(&batch.tasks)))]
        }
        Event::Merging(_) => Vec::new(),
        Event::Split(batch) => vec![line(
            Style::Warn,
            format!(
                "{} cannot land together; landing fewer to find the one that fails",
                counted(batch.tasks.len(), "task")
            ),
        )],
        Event::MergeHeld(held) => held_lines(&HeldView::of(held)),
        _ => return None,
    })
}

fn held_lines(held: &HeldView) -> Vec<Line> {
    let first = line(Style::Warn, held.text());
    let cure = held.cure().map(|cure| format!("  {cure}, and the queued work lands"));
    [Some(first), cure.map(|cure| line(Style::Faint, cure))].into_iter().flatten().collect()
}
