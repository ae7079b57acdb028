//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;

use std::path::{Path, PathBuf};

use anyhow::Result;

use report::ImportReport;

use super::{Invocation, inside::SurroundingAttempt, success};
use crate::{
    adapters::terminal,
    cli::ImportArgs,
    core::{
        exit::{Exit, Failure},
        import::plan::ImportOptions,
        setup,
    },
    project::{
        graph_file::GraphFile,
        import::{self, ImportRecord, SourceText},
        workspace::Workspace,
    },
};

/// Reads backlogs and adds their tasks, or shows what would be added.
///
/// # Errors
/// A source that cannot be read, an invalid graph, errors of the disk; inside an attempt.
pub fn run(invocation: &Invocation, options: &ImportArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    if !options.dry_run
        && let Some(around) = SurroundingAttempt::of(&workspace)
    {
        return Err(around.refuse("import"));
    }
    let directory = invocation.directory()?;
    let sources = options.sources.iter().map(|source| source_of(&workspace, &directory, source));
    let sources: Vec<(PathBuf, String)> = sources.collect();
    if options.refresh {
        return refresh(&workspace, sources, options);
    }
    let mut texts: Vec<SourceText> = Vec::new();
    let mut skipped = Vec::new();
    let name = workspace.graph_name();
    for (path, _) in &sources {
        let (found, others) = import::gather(workspace.root(), path, options.format)?;
        if found.iter().any(|text| text.name == name) {
            let message =
                format!("`{name}` is the graph that the tasks would be added to; name other files");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let is_new = |text: &SourceText| texts.iter().all(|known| known.name != text.name);
        let found: Vec<SourceText> = found.into_iter().filter(is_new).collect();
        texts.extend(found);
        skipped.extend(others);
    }
    let file = import::graph(&workspace)?;
    let wishes = ImportOptions { format: options.format, ..wishes(options) };
    let mut record = ImportRecord::read(&workspace);
    let is_example = |file: &&GraphFile| setup::is_example(file.text());
    let base = file.as_ref().filter(|file| !is_example(file));
    let plan = import::plan(&texts, &import::existing(base, &record), &wishes)?;
    let mut report = ImportReport::new(&name, options.dry_run);
    if let Some(examples) = file.as_ref().filter(is_example)
        && !plan.new_tasks().is_empty()
    {
        report.replaces(examples.graph().tasks().len());
    }
    report.add(&texts, &skipped, &plan, base.is_none());
    if !options.dry_run {
        // A base of tasks that are not there yet does no harm.
        for (_, source) in &sources {
            record.keep(&workspace, source, &wishes, &plan, |task| task.is_new)?;
        }
        import::add(&workspace, file, &plan)?;
    }
    let text = if options.json { terminal::json(&report) } else { report.import_text() };
    success(&text)
}

/// The path and the name of a source on the command line.
fn source_of(workspace: &Workspace, directory: &Path, source: &Path) -> (PathBuf, String) {
    if source.as_os_str() == "-" {
        return (source.to_owned(), "-".to_owned());
    }
    let path = directory.join(source);
    let name = import::name_of(workspace.root(), &path);
    (path, name)
}

/// What the command line sets for all tasks.
fn wishes(options: &ImportArgs) -> ImportOptions {
    ImportOptions {
        story: options.story.clone(),
        milestone: options.milestone.clone(),
        tags: options.tags.clone(),
        nested: options.nested,
        format: None,
    }
}

/// Imports sources again, and takes over what changed in them.
fn refresh(
    workspace: &Workspace,
    mut sources: Vec<(PathBuf, String)>,
    options: &ImportArgs,
) -> Result<Exit> {
    let given = Some(wishes(options)).filter(|given| *given != ImportOptions::default());
    if sources.is_empty() {
        let record = ImportRecord::read(workspace);
        let (names, gone) = record.sources(workspace.root());
        if names.is_empty() {
            return Err(Failure::new(Exit::Usage, nothing_to_refresh(&record, &gone)).into());
        }
        sources.extend(names.into_iter().map(|name| (workspace.root().join(&name), name)));
    }
    let name = workspace.graph_name();
    let new_report = || ImportReport::new(&name, options.dry_run);
    let mut all = new_report();
    for (path, source) in sources {
        let (format, given) = (options.format, given.as_ref());
        let found = import::refresh(workspace, &path, &source, format, given, options.dry_run)?;
        if options.json {
            all.add_refresh(found);
        } else {
            let mut report = new_report();
            report.add_refresh(found);
            terminal::print(&report.refresh_text())?;
        }
    }
    if options.json {
        terminal::print(&terminal::json(&all))?;
    }
    Ok(Exit::Success)
}

/// Why there is nothing to refresh.
fn nothing_to_refresh(record: &ImportRecord, gone: &[String]) -> String {
    if !gone.is_empty() {
        let names = terminal::visible(&gone.join("`, `")).into_owned();
        format!("no source is left to refresh: `{names}` no longer exists; name a file")
    } else if record.from_input {
        "what was imported here came from standard input, which cannot be refreshed; pipe it \
         again to `ralph import - --refresh`"
            .to_owned()
    } else {
        "nothing was imported here yet; name a file, as in `ralph import prd.json`".to_owned()
    }
}
