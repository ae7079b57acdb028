//! The lines of child agents and of the processes that an agent leaves running.

use super::{Line, length, line, named};
use crate::{
    adapters::terminal::Style,
    core::event::{ChildEnded, ChildOutcome, ChildrenLeft, Event, Orphans},
};

/// Returns the lines of such an event of the task `id`.
pub(super) fn lines(id: &str, event: &Event, verbose: bool) -> Vec<Line> {
    if let Event::ChildStarted(child) = event {
        let (name, run, parent) = (child.name(), &child.child_run_id, &child.parent_run_id);
        let text = format!("{id} started {name} (run {run}, of {parent})");
        verbose.then(|| line(Style::Faint, text)).into_iter().collect()
    } else if let Event::ChildStopRequested(child) = event {
        let text = format!("`ralph stop --child`: ending {}, a child of {id}", child.label());
        vec![line(Style::Warn, text)]
    } else if let Event::ChildEnded(end) = event {
        ended(id, end, verbose)
    } else if let Event::WaitingForChildren(left) = event {
        vec![line(Style::Faint, format!("{id} is reported done; {}", waiting(left)))]
    } else if let Event::ChildrenEnded { duration_seconds, .. } = event {
        let time = length(*duration_seconds);
        vec![line(Style::Faint, format!("the processes that {id} left running ended after {time}"))]
    } else if let Event::ChildrenOverdue { left, on_orphans } = event {
        vec![line(Style::Warn, overdue(id, left, *on_orphans))]
    } else {
        Vec::new()
    }
}

fn ended(id: &str, end: &ChildEnded, verbose: bool) -> Vec<Line> {
    let (style, how) = match end.outcome {
        ChildOutcome::Exited { exit_code: 0 } if !verbose => return Vec::new(),
        ChildOutcome::Exited { exit_code: 0 } => (Style::Faint, "ended".to_owned()),
        ChildOutcome::Exited { exit_code } => {
            (Style::Warn, format!("exited with code {exit_code}"))
        }
        ChildOutcome::Signaled { signal } => {
            (Style::Warn, format!("was killed by signal {signal}"))
        }
        ChildOutcome::Crashed => (Style::Warn, "is gone; how it ended is not known".to_owned()),
    };
    let run = &end.child.child_run_id;
    vec![line(style, format!("{}, a child of {id}, {how} (run {run})", end.child.name()))]
}

/// Returns the processes that an attempt waits for, and the limit.
pub fn waiting(left: &ChildrenLeft) -> String {
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!("waiting up to {limit} for {} ({names})", processes(left))
}

fn overdue(id: &str, left: &ChildrenLeft, on_orphans: Orphans) -> String {
    let fate = match on_orphans {
        Orphans::Kill => "ended now",
        Orphans::Leave => "left running, without supervision",
    };
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!("warning: {} of {id} did not end within {limit} ({names}); {fate}", processes(left))
}

fn processes(left: &ChildrenLeft) -> String {
    let count = left.children.len();
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}
