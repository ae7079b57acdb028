//! Backlogs on disk: which files they are, what is new in them, and how it gets into the graph.

mod gather;

use std::path::Path;

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::{
    adapters::{excerpt, terminal::Paint},
    core::{
        diagnostic::{Diagnostic, position},
        exit::{Exit, Failure},
        import::{
            self, BacklogFormat,
            graph_text::{added, graph_text},
            plan::{self, ExistingTasks, ImportOptions, ImportPlan, ImportedTask, SourceFile},
        },
        setup, variants,
    },
    project::{
        graph_change::{change_text, create_file, record},
        graph_file::{GraphFile, read_graph},
        workspace::{Workspace, checkout_graph},
    },
};

pub use gather::{SkippedFile, SourceText, gather, name_of};

/// Returns the tasks of a graph, as an import sees them, with what is known of their sources.
pub fn existing(file: Option<&GraphFile>) -> ExistingTasks {
    let mut existing = ExistingTasks::default();
    for task in file.map(|file| file.graph().tasks()).unwrap_or_default() {
        existing.ids.insert(task.id.to_string());
        if let Some(source) = task.extra.get("source").and_then(Value::as_str) {
            existing.by_source.insert(source.to_owned(), task.id.to_string());
            existing.titles.entry(source.to_owned()).or_insert_with(|| task.title.clone());
        }
    }
    existing
}

/// Reads texts and plans what they add.
///
/// # Errors
/// The errors in the texts, drawn, with the exit code of an invalid file.
pub fn plan(
    texts: &[SourceText],
    existing: &ExistingTasks,
    options: &ImportOptions,
) -> Result<ImportPlan> {
    let mut files = Vec::with_capacity(texts.len());
    for text in texts {
        let mut backlog = import::read(text.format, &text.name, &text.text)
            .map_err(|faults| refused(&text.name, &text.text, &faults))?;
        existing.identify(&text.name, &mut backlog);
        files.push(SourceFile { name: text.name.clone(), backlog });
    }
    plan::plan(&files, existing, options).map_err(|faults| {
        let file = faults[0].0;
        let faults: Vec<Diagnostic> =
            faults.into_iter().filter(|(other, _)| *other == file).map(|(_, one)| one).collect();
        refused(&texts[file].name, &texts[file].text, &faults)
    })
}

/// Returns the error for a source that cannot be read. A line that is too long to be shown is only
/// named.
pub fn refused(name: &str, text: &str, faults: &[Diagnostic]) -> anyhow::Error {
    /// The number of errors that are shown.
    const SHOWN: usize = 20;
    /// The length of a line that is shown, in bytes.
    const LONGEST: usize = 1_000;
    let color = Paint::for_stream(&std::io::stderr()).is_on();
    let is_long = |fault: &Diagnostic| {
        let (before, after) = text.as_bytes().split_at(fault.at.start.min(text.len()));
        let line = before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len)
            + after.split(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        line > LONGEST || fault.at.len() > LONGEST
    };
    let first = &faults[..faults.len().min(SHOWN)];
    let drawn = if first.iter().any(is_long) {
        let named = first.iter().map(|fault| {
            let (line, column) = position(text, fault.at.start);
            let place = format!("{name}:{line}:{column}");
            excerpt::render(&place, "", std::slice::from_ref(fault), color)
        });
        named.collect::<Vec<_>>().join("\n\n")
    } else {
        excerpt::render(name, text, faults, color)
    };
    Failure::drawn(Exit::Invalid, drawn).into()
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

/// Returns the format of a text, which the person may have named.
///
/// # Errors
/// It looks like no backlog.
pub fn format_of(name: &str, text: &str, named: Option<BacklogFormat>) -> Result<BacklogFormat> {
    if let Some(format) = named {
        return Ok(format);
    }
    let is_called = |ending: &str| name.to_ascii_lowercase().ends_with(ending);
    let is_org = is_called(".org");
    let is_table = [".csv", ".tsv"].into_iter().any(is_called) && text.trim().contains('\n');
    let by_name = is_table.then_some(BacklogFormat::Csv);
    import::detect(text).or(by_name).filter(|_| !is_org).ok_or_else(|| {
        if is_org {
            let fault =
                Diagnostic::error(format!("`{name}` is an Org file, which is not read"), 0..0);
            return refused(name, "", &[fault.help("export it as Markdown, and import that")]);
        }
        if let Some((what, help)) = import::foreign(text) {
            let fault = Diagnostic::error(format!("`{name}` is no backlog: {what}"), 0..0);
            return refused(name, "", &[fault.help(help)]);
        }
        let formats = variants::names::<BacklogFormat>().join(", ");
        let message = if text.trim().is_empty() {
            format!("`{name}` is empty")
        } else {
            format!("`{name}` does not look like a backlog")
        };
        let fault = Diagnostic::error(message, 0..0);
        refused(name, "", &[fault.help(format!("`--format` names the format: {formats}"))])
    })
}
