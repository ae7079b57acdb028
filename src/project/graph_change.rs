//! Changes of the graph file by a person's command: checked, kept for `ralph undo`, and recorded.

use std::fs;

use anyhow::{Context, Result, anyhow, bail};
use chrono::Utc;

use crate::{
    adapters::state,
    core::{
        event::{Cause, GraphEvent},
        graph::{
            task::TaskId,
            task_edit::{TaskDifference, differences, remove},
        },
    },
    project::{
        event_store::EventStore,
        graph_file::{GraphFile, Rejected, graph_of},
        kept_change::{KeptChange, KeptChanges},
        workspace::{self, Workspace},
    },
    regular_file,
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
    edit: impl Fn(&GraphFile) -> Result<Option<String>>,
) -> Result<Option<String>> {
    let keep = |before: &GraphFile, after: &GraphFile| {
        let Some(command) = command else { return Ok(()) };
        let known = before.graph();
        let added = after.graph().tasks().iter().filter(|it| known.number(&it.id).is_none());
        let mut tasks: Vec<TaskId> = added.map(|task| task.id.clone()).collect();
        if tasks.is_empty() && command.about.is_empty() {
            let found = differences(before.text(), after.text(), &[]);
            tasks.extend(found.into_iter().map(|found| found.id));
        }
        keep_texts(workspace, command, tasks, false, (before.text(), after.text()))
    };
    let before = file.edit_text(&workspace.state, edit, keep).map_err(drawn)?.before;
    if before.is_some() {
        // The journal may be the first file of `ralph` here. The change is made, whatever git says.
        let _ = workspace.ignore_own_files();
    }
    Ok(before)
}

/// Creates the graph file by a command, and keeps that. Returns what is new in it.
///
/// # Errors
/// There is a file by now; errors of the disk.
pub fn create_file(
    workspace: &Workspace,
    command: &ChangeCommand<'_>,
    text: &str,
) -> Result<Vec<TaskDifference>> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let _turn = workspace.state.lock_graph().context("lock the graph file")?;
    if path.symlink_metadata().is_ok() {
        bail!("`{name}` was created meanwhile; nothing was changed, so try again");
    }
    let graph = graph_of(text.as_bytes()).context("read the new graph")?;
    let tasks: Vec<TaskId> = graph.tasks().iter().map(|task| task.id.clone()).collect();
    let empty = remove(text, &tasks).map_err(|why| anyhow!("{}", why.reason))?;
    let found = differences(&empty, text, &[]);
    keep_texts(workspace, command, tasks, true, (&empty, text))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    state::replace(path, text.as_bytes(), workspace.config.fsync)
        .with_context(|| format!("write `{name}`"))?;
    // The graph is there, whatever git says.
    let _ = workspace.ignore_own_files();
    Ok(found)
}

/// Removes the graph file, which a command created with this text.
///
/// # Errors
/// The file has another text now; errors of the disk.
pub fn remove_new_file(workspace: &Workspace, text: &str) -> Result<()> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let _turn = workspace.state.lock_graph().context("lock the graph file")?;
    let found = regular_file::read_to_string(path).with_context(|| format!("read `{name}`"))?;
    if found != text {
        bail!("`{name}` changed at this moment; try again");
    }
    fs::remove_file(path).with_context(|| format!("remove `{name}`"))
}

/// Keeps the texts before and after a change. `changed` are the tasks in question where the command
/// is about none.
fn keep_texts(
    workspace: &Workspace,
    command: &ChangeCommand<'_>,
    changed: Vec<TaskId>,
    created: bool,
    (before, after): (&str, &str),
) -> Result<()> {
    let tasks = if command.about.is_empty() { changed } else { command.about.to_vec() };
    let change = KeptChange {
        number: 0,
        at: Utc::now(),
        command: command.name.to_owned(),
        graph: workspace.graph_path().to_owned(),
        tasks,
        created,
        final_because: command.final_because.map(str::to_owned),
    };
    let kept = KeptChanges::of(&workspace.state);
    kept.keep(change, before, after).context("keep the graph for `ralph undo`")
}

/// Records the changes of a command in the journal.
///
/// # Errors
/// Errors of the disk.
pub fn record(store: &mut EventStore, command: &str, found: &[TaskDifference]) -> Result<()> {
    record_because(store, command, None, found)
}

/// Records the changes of a command in the journal, with the reason for other statuses of known
/// tasks.
///
/// # Errors
/// Errors of the disk.
pub fn record_because(
    store: &mut EventStore,
    command: &str,
    why: Option<&str>,
    found: &[TaskDifference],
) -> Result<()> {
    let cause = Cause::Command;
    let mut events = Vec::new();
    for TaskDifference { id, old, new, fields } in found {
        if old != new {
            let reason = why.filter(|_| old.is_some()).map(str::to_owned);
            let changed = GraphEvent::StatusChanged { old: *old, new: *new, cause, reason };
            events.push((id.clone(), changed));
        }
        if !fields.is_empty() {
            let (command, fields) = (command.to_owned(), fields.clone());
            events.push((id.clone(), GraphEvent::TaskEdited { command, fields, cause }));
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
