//! The lines of the files that people write: the graph and the settings.

use super::{
    EventContext, EventText, Line, MarkKind, bad, counted, faint, good, length, line, named, warn,
};
use crate::core::{
    event::{Cause, DraftCall, GraphEvent, Harm},
    graph::task::{Status, TaskId},
    spend::dollars,
};

impl EventText for GraphEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        match self {
            GraphEvent::GraphLoaded { tasks, complete } => {
                vec![line(None, format!("{}, {complete} done", counted(*tasks, "task")))]
            }
            GraphEvent::FileRejected { error } => bad(format!(
                "the changed file is not used; its last valid version stays in effect: {error}"
            )),
            GraphEvent::GraphGuarded { what, tasks, undone, kept } => {
                bad(guarded(*what, tasks, *undone, kept.as_deref()))
            }
            GraphEvent::StatusChanged { old, new, cause, .. } => {
                changed(id, *old, *new, *cause, at.verbose)
            }
            GraphEvent::Drafted(call) => drafted(call),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        match self {
            GraphEvent::FileRejected { error } => Some((MarkKind::Refused, error.clone())),
            GraphEvent::GraphLoaded { .. }
            | GraphEvent::GraphGuarded { .. }
            | GraphEvent::StatusChanged { .. }
            | GraphEvent::Drafted(_) => None,
        }
    }
}

fn changed(
    id: &str,
    old: Option<Status>,
    new: Option<Status>,
    cause: Cause,
    verbose: bool,
) -> Vec<Line> {
    let by = match cause {
        // The line of the attempt covers this.
        Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked if !verbose => {
            return Vec::new();
        }
        Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked => "by this run",
        Cause::Command => "by command",
        Cause::Edited => "by an edit of the graph file",
        Cause::EditedDuringAttempt => "during an attempt",
        Cause::Recovered => "by recovery",
        Cause::PutBack => "(restored)",
        Cause::Reopened => "because a check of it fails on the tip",
        Cause::History => {
            "because it is complete in the newest commit; `ralph task-reset` opens it"
        }
        Cause::OtherBranch => "on this branch: its work is on another one",
        Cause::DoneFile => "by the file `DONE`",
    };
    let change = match (old, new) {
        (Some(old), Some(new)) => format!("{} -> {}", old.word(), new.word()),
        (None, _) => "added to the graph".to_owned(),
        (Some(_), None) => "removed from the graph".to_owned(),
    };
    faint(format!("{id}: {change} {by}"))
}

/// Returns the line of a call.
fn drafted(call: &DraftCall) -> Vec<Line> {
    let (number, took) = (call.call, length(call.duration_seconds));
    let cost = call.usage.cost_usd.map_or_else(|| "unknown".to_owned(), dollars);
    let found = match call.tasks {
        Some(count) => counted(count, "task"),
        None => "no valid graph".to_owned(),
    };
    let text = format!(
        "draft, call {number} of `{}`: {found} ({}) after {took}, cost {cost}; output in {}",
        call.agent, call.outcome, call.log
    );
    if call.tasks.is_some() { good(text) } else { warn(text) }
}

fn guarded(what: Harm, tasks: &[TaskId], undone: bool, kept: Option<&str>) -> String {
    let names = named(&tasks.iter().map(TaskId::as_str).collect::<Vec<_>>());
    let kept = kept.map_or(String::new(), |kept| format!("; the replaced file is kept as {kept}"));
    match (what, undone) {
        (Harm::Damaged, _) => {
            format!(
                "the attempt left the graph file unreadable; the last valid version is restored{kept}"
            )
        }
        (Harm::Deleted, _) => {
            "the attempt left no graph file; the last valid version is restored".to_owned()
        }
        (Harm::Finished, _) => {
            let first = tasks.first().map_or("ID", TaskId::as_str);
            format!(
                "set to complete or cancelled during the attempt, and restored: {names}; only its own \
                 attempt or a person completes a task (`ralph task-complete {first}`)"
            )
        }
        (Harm::Dropped, true) => format!(
            "the attempt committed a graph without {names}; the version before the attempt is restored{kept}"
        ),
        (Harm::OwnCopy, _) if tasks.is_empty() => {
            "the attempt left the graph in its slot unreadable; its changes are discarded"
                .to_owned()
        }
        (Harm::OwnCopy, _) => format!(
            "the attempt changed {names} in the graph of its slot; the changes are discarded"
        ),
        (Harm::NewElsewhere, _) => format!(
            "new tasks of the attempt are discarded, because they would run elsewhere than it: \
             {names}; give them the same `run_on`"
        ),
        (Harm::NewInvalid, _) => format!(
            "new tasks of the attempt are discarded, because the graph would be invalid with them: \
             {names}"
        ),
        (Harm::Changed, _) => format!(
            "{names} changed in the graph during the attempt; a person may have done that, so the \
             change is kept"
        ),
        (Harm::Dropped, false) => format!(
            "the attempt committed a graph without {names}; the file was also edited, and is \
             left as it is"
        ),
    }
}
