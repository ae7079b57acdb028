//! The graph of a named loop: one task, rewritten whenever the loop starts.

use anyhow::{Context, Result};

use crate::{
    adapters::state,
    core::{
        exit::{Exit, Failure},
        graph::task::{Status, TaskId},
    },
    project::{graph_file::GraphFile, workspace::Workspace},
    runner,
};

/// Writes the graph of the loop. Its task is pending again, unless it needs input.
///
/// # Errors
/// The loop is already running, with its own exit code; errors of the disk.
pub(super) fn graph(workspace: &Workspace, name: &TaskId) -> Result<GraphFile> {
    // Do not change the graph of a running loop. The run takes the lock again.
    let Some(_lock) = workspace.lock()? else {
        return Err(Failure::new(Exit::Running, runner::held(workspace)).into());
    };
    let asks = workspace
        .graph()
        .is_ok_and(|file| file.graph().tasks().iter().any(|it| it.status == Status::NeedsInput));
    let status = if asks { Status::NeedsInput } else { Status::Pending };
    let text = format!(
        "# Written by `ralph loop` whenever it starts.\ntasks:\n  - id: \"{name}\"\n    \
         title: \"Work of the loop {name}\"\n    status: {status}\n    commit: optional\n    verify_baseline: false\n"
    );
    state::replace(workspace.graph_path(), text.as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", workspace.graph_path().display()))?;
    workspace.graph()
}
