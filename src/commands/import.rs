//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;

use anyhow::Result;
use serde_json::Value;

use report::{ImportReport, ReadSource};

use super::{
    Invocation, success,
    task_editor::{TaskEditor, unsupported},
};
use crate::{
    adapters::terminal,
    cli::ImportArgs,
    core::{
        exit::{Exit, Failure},
        graph::task_edit::insert,
        import::plan::{self, ExistingTasks, ImportedTask, SourceFile, changed_fields},
        setup,
    },
    project::{graph_file::GraphFile, import},
};

/// Reads backlogs and adds their tasks, or previews them. They replace unchanged examples of
/// `ralph init`.
///
/// # Errors
/// A source that cannot be read, an invalid graph, errors of the disk; inside an attempt.
pub fn run(invocation: &Invocation, options: &ImportArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_first(invocation, "import")?;
    let directory = invocation.directory()?;
    let (mut files, mut skipped) = (Vec::<SourceFile>::new(), Vec::new());
    let name = editor.file.name().to_owned();
    for source in &options.sources {
        let path = if source.as_os_str() == "-" { source.clone() } else { directory.join(source) };
        let found = import::gather(editor.workspace.root(), &path)?;
        if found.files.iter().any(|file| file.name == name) {
            let message =
                format!("`{name}` is the graph that the tasks would be added to; name other files");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let is_new = |file: &SourceFile| files.iter().all(|known| known.name != file.name);
        let new: Vec<SourceFile> = found.files.into_iter().filter(is_new).collect();
        files.extend(new);
        skipped.extend(found.skipped);
    }
    let is_example = setup::is_example(editor.file.text());
    let existing = if is_example { ExistingTasks::default() } else { existing(&editor.file) };
    let plan = plan::plan(&files, &existing, &options.tags).map_err(|why| {
        let message = format!("{why}; remove one of these dependencies in the source");
        Failure::new(Exit::Invalid, message)
    })?;
    let is_replaced = is_example && plan.tasks.iter().any(|task| task.is_new);
    let report = ImportReport {
        replaced_examples: if is_replaced { editor.file.graph().tasks().len() } else { 0 },
        changed: changed_fields(&plan, editor.file.graph()),
        graph: name.clone(),
        dry_run: options.dry_run,
        sources: files.iter().map(ReadSource::new).collect(),
        skipped,
        plan,
    };
    let tasks = &report.plan.tasks;
    if !options.dry_run && tasks.iter().any(|task| task.is_new) {
        editor.change(|file| {
            let spelling = &file.graph().spelling;
            let new = tasks.iter().filter(|task| task.is_new);
            let new: Vec<_> = new.map(|task| ImportedTask::written(task, spelling)).collect();
            let bare = setup::without_examples(file.text());
            let text = bare.as_deref().unwrap_or(file.text());
            insert(text, &new).map(Some).map_err(unsupported(&name))
        })?;
    }
    let text = if options.json { terminal::json(&report) } else { report.text() };
    success(&text)
}

/// Returns the tasks of a graph, as an import sees them.
fn existing(file: &GraphFile) -> ExistingTasks {
    let mut existing = ExistingTasks::default();
    for task in file.graph().tasks() {
        existing.ids.insert(task.id.clone());
        if let Some(source) = task.extra.get("source").and_then(Value::as_str) {
            existing.by_source.insert(source.to_owned(), task.id.clone());
        }
    }
    existing
}
