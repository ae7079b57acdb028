//! The graph of a plain loop: one task, written again whenever the loop starts.

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

/// Makes the graph that is the loop. Its task is anew what it was to begin with, but for a question
/// that waits for its answer.
///
/// # Errors
/// With an exit code of its own: the loop runs already. As the disk gives them.
pub(super) fn graph(workspace: &Workspace, name: &TaskId) -> Result<GraphFile> {
    // Not under the feet of a loop of this name; the run takes the lock again.
    let Some(_lock) = workspace.lock()? else {
        return Err(Failure::new(Exit::Running, runner::held(workspace)).into());
    };
    let asks = workspace
        .graph()
        .is_ok_and(|file| file.graph().tasks().iter().any(|it| it.status == Status::NeedsInput));
    let status = if asks { Status::NeedsInput } else { Status::Pending };
    let text = format!(
        "# Made by `ralph loop`, and made anew when it starts.\ntasks:\n  - id: \"{name}\"\n    \
         status: {status}\n    commit: optional\n    verify_baseline: false\n"
    );
    state::replace(workspace.graph_path(), text.as_bytes(), workspace.durable())
        .with_context(|| format!("write `{}`", workspace.graph_path().display()))?;
    workspace.graph()
}
