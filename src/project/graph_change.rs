//! Changes of the graph file by a person's command: checked, kept for `ralph undo`, and recorded.

use anyhow::{Context, Result};
use chrono::Utc;

use crate::{
    core::{
        event::{Cause, Event},
        graph::{
            task::TaskId,
            task_edit::{TaskDifference, differences},
        },
    },
    project::{
        event_store::EventStore,
        graph_file::{GraphFile, Rejected},
        kept_change::{KeptChange, KeptChanges},
        workspace::{self, Workspace},
    },
};

/// A command that changes the graph file, as it is kept and recorded.
#[derive(Clone, Copy, Debug)]
pub struct ChangeCommand<'a> {
    /// The name of the command.
    pub name: &'a str,
    /// The tasks that it is about; none for those that it adds.
    pub about: &'a [TaskId],
    /// Why the change cannot be taken back, if it cannot.
    pub final_because: Option<&'a str>,
}

impl<'a> ChangeCommand<'a> {
    /// A command whose change can be taken back.
    pub fn of(name: &'a str, about: &'a [TaskId]) -> ChangeCommand<'a> {
        ChangeCommand { name, about, final_because: None }
    }
}

/// Changes the graph file without a record in the journal; keeps the change if a command is given.
/// Returns the text before; none if nothing changed.
///
/// # Errors
/// The error of the edit; an edit that makes the graph invalid. Errors of the disk.
pub fn change_text(
    workspace: &Workspace,
    file: &mut GraphFile,
    command: Option<&ChangeCommand<'_>>,
    edit: impl Fn(&str) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let kept = KeptChanges::of(&workspace.state);
    let graph = workspace.graph_path().to_owned();
    let keep = |before: &str, after: &str| {
        let Some(command) = command else { return Ok(()) };
        let mut tasks = command.about.to_vec();
        if tasks.is_empty() {
            let found = differences(before, after, &[]).into_iter();
            tasks.extend(found.filter(|found| found.old.is_none()).map(|found| found.id));
        }
        let change = KeptChange {
            number: 0,
            at: Utc::now(),
            command: command.name.to_owned(),
            graph: graph.clone(),
            tasks,
            final_because: command.final_because.map(str::to_owned),
        };
        kept.keep(change, before, after).context("keep the graph for `ralph undo`")
    };
    let before = file.change(&workspace.state, edit, keep).map_err(drawn)?;
    if before.is_some() {
        // The journal may be the first file of `ralph` here. The change is made, whatever git says.
        let _ = workspace.ignore_own_files();
    }
    Ok(before)
}

/// Records the changes of a command in the journal.
///
/// # Errors
/// Errors of the disk.
pub fn record(store: &mut EventStore, command: &str, found: &[TaskDifference]) -> Result<()> {
    let cause = Cause::Command;
    let mut events = Vec::new();
    for TaskDifference { id, old, new, fields } in found {
        if old != new {
            let changed = Event::StatusChanged { old: *old, new: *new, cause, reason: None };
            events.push((id.clone(), changed));
        }
        if !fields.is_empty() {
            let (command, fields) = (command.to_owned(), fields.clone());
            events.push((id.clone(), Event::TaskEdited { command, fields, cause }));
        }
    }
    store.emit_all(events)
}

/// Draws the errors of a graph that a change would make invalid.
fn drawn(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Rejected>() {
        Ok(rejected) => workspace::refused(&rejected),
        Err(error) => error,
    }
}
