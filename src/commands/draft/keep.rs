//! Puts a draft into the graph file.

use std::fs;

use anyhow::{Context, Result};

use super::{
    check::{DraftTarget, added},
    say,
};
use crate::{
    adapters::state,
    commands::{
        Invocation,
        task_editor::{ChangeCommand, TaskEditor},
    },
    core::{
        exit::{Exit, Failure},
        graph::task::{Task, TaskId},
    },
    project::{graph_change::keep_new_file, graph_file::graph_of, workspace::Workspace},
    view::lines::counted,
};

/// The command in the journal and in `ralph undo`.
const COMMAND: &str = "draft";
/// The graph before a new one, for `ralph undo`: a file without tasks is no graph.
const NOTHING: &str = "tasks: []\n";

/// Puts the draft into the graph.
///
/// # Errors
/// The graph has changed so that the draft does not fit; errors of the disk.
pub(super) fn keep(
    invocation: &Invocation,
    workspace: &Workspace,
    target: &DraftTarget,
    draft: &str,
) -> Result<Exit> {
    let name = workspace.graph_name();
    let ids = if target.base().is_none() && !target.has_examples {
        create(workspace, target, draft)?
    } else {
        let mut editor = TaskEditor::for_person(invocation, COMMAND)?;
        let found = editor.change(&ChangeCommand::of(COMMAND, &[]), |file| {
            target.put_into(Some(file.text()), draft).map(Some)
        })?;
        found.into_iter().filter(|one| one.old.is_none()).map(|one| one.id).collect()
    };
    let ralph = workspace.typed_command();
    say(&format!(
        "kept {} in {name}; `{ralph} undo` takes them back, `{ralph} run` works on them",
        counted(ids.len(), "task")
    ));
    Ok(Exit::Success)
}

/// Writes a new graph file.
fn create(workspace: &Workspace, target: &DraftTarget, draft: &str) -> Result<Vec<TaskId>> {
    let (path, name) = (workspace.graph_path(), workspace.graph_name());
    let text = target.put_into(None, draft)?;
    let graph = graph_of(text.as_bytes()).context("the draft is not a graph")?;
    let ids: Vec<TaskId> = graph.tasks().iter().map(|task: &Task| task.id.clone()).collect();
    let turn = workspace.state.lock_graph().context("lock the graph file")?;
    if path.symlink_metadata().is_ok() {
        let message = format!("`{name}` was created meanwhile; keep the draft with `--extend`");
        return Err(Failure::new(Exit::Error, message).into());
    }
    keep_new_file(workspace, &ChangeCommand::of(COMMAND, &ids), NOTHING, &text)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    state::replace(path, text.as_bytes(), workspace.durable())
        .with_context(|| format!("write `{name}`"))?;
    drop(turn);
    let mut store = workspace.event_store()?;
    for (id, event) in added(&ids) {
        store.emit(None, Some(id), event)?;
    }
    // The graph is there, whatever git says.
    let _ = workspace.ignore_own_files();
    Ok(ids)
}
