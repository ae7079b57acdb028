//! The processes of an attempt in a sandbox: which files and folders of the repository are its own.

use std::path::{Path, PathBuf};

use crate::{
    adapters::process::{
        self, ProcessSpec,
        sandbox::{self, SandboxPaths},
    },
    core::{agents::agent_preset, executor::SandboxSettings},
    project::{attempt::AttemptRecord, slot_pool::SlotPool, workspace::Workspace},
};

/// Returns a process of an attempt inside a sandbox with these settings.
///
/// # Errors
/// What is missing on this machine, or cannot be held here, and what to do.
pub fn confined(
    workspace: &Workspace,
    record: &AttemptRecord,
    spec: ProcessSpec,
    settings: &SandboxSettings,
) -> Result<ProcessSpec, String> {
    let paths = paths(workspace, record, &spec.dir)?;
    sandbox::confined(spec, settings, &paths)
}

/// Returns the paths of a process of an attempt that works in `dir`: the checkout, the slot of the
/// attempt, or the slot of the merge queue.
///
/// # Errors
/// This program is gone.
pub fn paths(
    workspace: &Workspace,
    record: &AttemptRecord,
    dir: &Path,
) -> Result<SandboxPaths, String> {
    let root = workspace.root();
    let worktree = if record.slot.is_some() { dir } else { root };
    let journal = Path::new(workspace.place.journal());
    let mut guarded: Vec<PathBuf> = ["prompts", ".ralph"].map(PathBuf::from).to_vec();
    guarded.extend(journal.components().next().map(|logs| PathBuf::from(logs.as_os_str())));
    guarded.extend(workspace.graph_path().strip_prefix(root).ok().map(Path::to_owned));
    let mut read = vec![workspace.graph_path().to_owned()];
    read.extend(workspace.layers.named().map(Path::to_owned));
    let preset = record.call.as_ref().and_then(|call| {
        agent_preset::of_command(&call.name, call.argv.first().map_or("", String::as_str))
    });
    Ok(SandboxPaths {
        main: root.to_owned(),
        git: workspace.repo.common_dir().to_owned(),
        worktree: worktree.to_owned(),
        pool: SlotPool::of(workspace).folder().to_owned(),
        task: root.join(workspace.task_dir(&record.task_id)),
        record: workspace.state.attempt(&record.name()),
        guarded,
        read,
        has_terminal: record.pane.is_some(),
        ralph: process::own_file().map_err(|error| format!("find `ralph`: {error}"))?,
        agent: preset.map(|preset| preset.name.to_owned()),
        ..SandboxPaths::of_environment()
    })
}
