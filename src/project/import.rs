//! Backlogs on disk: which files they are, what is new in them, and how it gets into the graph.

mod gather;

use std::path::Path;

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::{
    core::{
        diagnostic::position,
        exit::{Exit, Failure},
        import::{
            Refusal,
            graph_text::{added, graph_text},
            plan::{self, ExistingTasks, ImportPlan, ImportedTask, SourceFile},
        },
        setup,
    },
    project::{
        graph_change::{change_text, create_file, record},
        graph_file::{GraphFile, read_graph},
        workspace::{Workspace, checkout_graph},
    },
};

pub use gather::{Gathered, SkippedFile, gather};

/// Returns the tasks of a graph, as an import sees them.
pub fn existing(file: Option<&GraphFile>) -> ExistingTasks {
    let mut existing = ExistingTasks::default();
    for task in file.map(|file| file.graph().tasks()).unwrap_or_default() {
        existing.ids.insert(task.id.to_string());
        if let Some(source) = task.extra.get("source").and_then(Value::as_str) {
            existing.by_source.insert(source.to_owned(), task.id.to_string());
        }
    }
    existing
}

/// Plans what sources add.
///
/// # Errors
/// A cycle among open tasks.
pub fn plan(files: &[SourceFile], existing: &ExistingTasks, tags: &[String]) -> Result<ImportPlan> {
    plan::plan(files, existing, tags).map_err(|why| {
        let message = format!("{why}; remove one of these dependencies in the source");
        Failure::new(Exit::Invalid, message).into()
    })
}

/// Returns the sentence about a source that is not imported: its name, or its error with the place.
fn refused(name: &str, text: &str, refusal: &Refusal) -> anyhow::Error {
    let message = match refusal {
        Refusal::Foreign(what) => format!(
            "`{name}` is {what}, which is not imported; an agent reads it: `ralph draft {name}`"
        ),
        Refusal::Fault(fault) => {
            let (line, column) = position(text, fault.at.start);
            let help = fault.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
            format!("{name}:{line}:{column}: {}{help}", fault.message)
        }
    };
    Failure::new(Exit::Invalid, message).into()
}

/// Writes the new tasks of a plan into the graph, which is created if there is none. They replace
/// unchanged examples of `ralph init`. The change is recorded.
///
/// # Errors
/// The tasks do not fit into the file; errors of the disk. The file is unchanged then.
pub fn add(workspace: &Workspace, file: Option<GraphFile>, plan: &ImportPlan) -> Result<()> {
    let new = plan.new_tasks();
    if new.is_empty() {
        return Ok(());
    }
    let Some(mut file) = file else {
        return create(workspace, &new, &plan.top);
    };
    let replaces = setup::is_example(file.text());
    let count = if replaces { 0 } else { file.graph().tasks().len() };
    let edit = |file: &GraphFile| {
        if replaces && setup::is_example(file.text()) {
            new_graph(workspace, &new, &plan.top).map(Some)
        } else {
            with_new(workspace, file.text(), count, &new).map(Some)
        }
    };
    let found = change_text(workspace, &mut file, edit)?;
    record(&mut workspace.event_store()?, &found)
}

/// A graph, which had so many tasks when the ids were chosen, with new ones.
fn with_new(
    workspace: &Workspace,
    text: &str,
    count: usize,
    new: &[&ImportedTask],
) -> Result<String> {
    let graph = read_graph("the graph", text).map_err(|why| anyhow!(why))?;
    let is_taken =
        |task: &&&ImportedTask| graph.tasks().iter().any(|known| known.id.as_str() == task.id);
    if graph.tasks().len() != count
        && let Some(task) = new.iter().find(is_taken)
    {
        return Err(anyhow!("the graph has a task `{}` now; import again", task.id));
    }
    let name = workspace.graph_name();
    added(text, &graph.spelling, new)
        .map_err(|why| anyhow!("cannot add the tasks to `{name}`: {why}; nothing was changed"))
}

/// The text of a new graph.
fn new_graph(
    workspace: &Workspace,
    tasks: &[&ImportedTask],
    top: &[(String, Value)],
) -> Result<String> {
    let text = graph_text(tasks, top).map_err(|why| anyhow!("{why}; nothing was written"))?;
    read_graph(&workspace.graph_name(), &text)
        .map_err(|why| anyhow!("{why}; nothing was written"))?;
    Ok(text)
}

/// Writes a new graph.
fn create(workspace: &Workspace, tasks: &[&ImportedTask], top: &[(String, Value)]) -> Result<()> {
    create_file(workspace, &new_graph(workspace, tasks, top)?).map(drop)
}

/// Reads the graph; none if there is none yet.
///
/// # Errors
/// An invalid graph; errors of the disk.
pub fn graph(workspace: &Workspace) -> Result<Option<GraphFile>> {
    exists(workspace.graph_path()).then(|| checkout_graph(workspace)).transpose()
}

/// Whether there is anything at this path, also a broken link.
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
