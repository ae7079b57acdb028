//! Changes of the graph file by a person's command: checked and recorded.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{
    adapters::state,
    core::event::{Cause, GraphEvent},
    project::{
        event_store::EventStore,
        graph_file::{Foreign, GraphFile, Rejected, graph_of},
        workspace::{self, Workspace},
    },
};

/// Changes the graph file without a record in the journal. Returns the changed statuses.
///
/// # Errors
/// The error of the edit; an edit that makes the graph invalid. Errors of the disk.
pub fn change_text(
    workspace: &Workspace,
    file: &mut GraphFile,
    edit: impl Fn(&GraphFile) -> Result<Option<String>>,
) -> Result<Vec<Foreign>> {
    let edited = file.edit_text(&workspace.state, edit).map_err(|error| {
        match error.downcast::<Rejected>() {
            Ok(rejected) => workspace::refused(&rejected),
            Err(error) => error,
        }
    })?;
    if edited.own.is_some() {
        // The journal may be the first file of `ralph` here. The change is made, whatever git says.
        let _ = workspace.ignore_own_files();
    }
    Ok(edited.own.unwrap_or_default())
}

/// Creates the graph file by a command. Returns the statuses of its tasks.
///
/// # Errors
/// There is a file by now; errors of the disk.
pub fn create_file(workspace: &Workspace, text: &str) -> Result<Vec<Foreign>> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let _turn = workspace.state.lock_graph().context("lock the graph file")?;
    if path.symlink_metadata().is_ok() {
        bail!("`{name}` was created meanwhile; nothing was changed, so try again");
    }
    let graph = graph_of(text.as_bytes()).context("read the new graph")?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    state::replace(path, text.as_bytes()).with_context(|| format!("write `{name}`"))?;
    // The graph is there, whatever git says.
    let _ = workspace.ignore_own_files();
    let tasks = graph.tasks().iter();
    let new = tasks.map(|task| {
        let (task_id, new) = (task.id.clone(), Some(task.status));
        Foreign { task_id, old: None, new }
    });
    Ok(new.collect())
}

/// Records the statuses that a command changed.
///
/// # Errors
/// Errors of the disk.
pub fn record(store: &mut EventStore, changed: &[Foreign]) -> Result<()> {
    let events = changed.iter().map(|Foreign { task_id, old, new }| {
        let (old, new, cause) = (*old, *new, Cause::Command);
        let event = GraphEvent::StatusChanged { old, new, cause, reason: None };
        (task_id.clone(), event)
    });
    store.emit_all(events.collect())
}
