//! What is said of the processes that an agent leaves running.

use super::{Line, length, line, named};
use crate::{
    event::{Event, Left, Orphans},
    terminal::Style,
};

/// What is said of such an event about the task `id`.
pub(super) fn lines(id: &str, event: &Event) -> Vec<Line> {
    match event {
        Event::WaitingForChildren(left) => {
            vec![line(Style::Faint, format!("{id} is reported done; {}", waiting(left)))]
        }
        Event::ChildrenEnded { duration_seconds, .. } => {
            let time = length(*duration_seconds);
            vec![line(Style::Faint, format!("what {id} had left running ended after {time}"))]
        }
        Event::ChildrenOverdue { left, on_orphans } => {
            vec![line(Style::Warn, overdue(id, left, *on_orphans))]
        }
        _ => Vec::new(),
    }
}

/// What is waited for, and for how long.
pub fn waiting(left: &Left) -> String {
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!("waiting up to {limit} for {} ({names})", processes(left))
}

fn overdue(id: &str, left: &Left, on_orphans: Orphans) -> String {
    let fate = match on_orphans {
        Orphans::Kill => "ended now",
        Orphans::Leave => "left running, and nobody looks after them",
    };
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!("warning: {} of {id} did not end within {limit} ({names}); {fate}", processes(left))
}

fn processes(left: &Left) -> String {
    let count = left.children.len();
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}
