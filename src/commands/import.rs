//! `ralph import`: adds the tasks of a backlog to the graph.

mod report;
mod summary;

use std::path::PathBuf;

use anyhow::Result;

use summary::ImportSummary;

use super::{Invocation, inside::SurroundingAttempt};
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
    if options.refresh {
        return refresh(invocation, &workspace, options);
    }
    let mut texts: Vec<SourceText> = Vec::new();
    let mut skipped = Vec::new();
    let directory = invocation.directory()?;
    for source in &options.sources {
        let is_input = source.as_os_str() == "-";
        let path = if is_input { source.clone() } else { directory.join(source) };
        let (found, others) = import::gather(workspace.root(), &path, options.format)?;
        let is_new = |text: &SourceText| texts.iter().all(|known| known.name != text.name);
        let found: Vec<SourceText> = found.into_iter().filter(is_new).collect();
        if found.iter().any(|text| text.name == workspace.graph_name()) {
            let message = format!(
                "`{}` is the graph that the tasks would be added to; name other files",
                workspace.graph_name()
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        texts.extend(found);
        skipped.extend(others);
    }
    let file = graph(&workspace)?;
    let wishes = ImportOptions { format: options.format, ..wishes(options) };
    let mut record = ImportRecord::read(&workspace);
    let replaced = file.as_ref().filter(|file| setup::is_example(file.text()));
    let base = file.as_ref().filter(|_| replaced.is_none());
    let plan = import::plan(&texts, &import::existing(base, &record), &wishes)?;
    let name = workspace.graph_name();
    let examples = replaced
        .filter(|_| !plan.new_tasks().is_empty())
        .map_or(0, |file| file.graph().tasks().len());
    let mut summary = ImportSummary::new(&name, options.dry_run, examples);
    summary.add(&texts, &skipped, &plan);
    let mut text = report::sources(&texts, &plan, options.dry_run);
    text += &report::losses(&texts, &plan, base.is_none(), &name);
    text += &report::skipped(&skipped);
    if !options.dry_run {
        // A base of tasks that are not there yet does no harm.
        for source in &options.sources {
            let name = import::name_of(workspace.root(), &directory.join(source));
            let name = if source.as_os_str() == "-" { "-".to_owned() } else { name };
            record.keep(&workspace, &name, &wishes, &plan, |task| task.is_new)?;
        }
        import::add(&workspace, file, &plan)?;
    }
    text += &report::result(&plan, &name, options.dry_run, examples);
    let text = if options.json { terminal::json(&summary) } else { text };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

/// Reads the graph; none if there is none yet.
fn graph(workspace: &Workspace) -> Result<Option<GraphFile>> {
    if import::exists(workspace.graph_path()) { workspace.graph().map(Some) } else { Ok(None) }
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
fn refresh(invocation: &Invocation, workspace: &Workspace, options: &ImportArgs) -> Result<Exit> {
    let directory = invocation.directory()?;
    let given = wishes(options);
    let has_wishes = given != ImportOptions::default();
    let mut sources: Vec<(PathBuf, String)> = Vec::new();
    for source in &options.sources {
        let is_input = source.as_os_str() == "-";
        let path = if is_input { source.clone() } else { directory.join(source) };
        let name = if is_input { "-".to_owned() } else { import::name_of(workspace.root(), &path) };
        sources.push((path, name));
    }
    if options.sources.is_empty() {
        let names = ImportRecord::read(workspace).sources(workspace.root());
        sources.extend(names.into_iter().map(|name| (workspace.root().join(&name), name)));
    }
    if sources.is_empty() {
        let record = ImportRecord::read(workspace);
        let gone = record.gone(workspace.root());
        let message = if !gone.is_empty() {
            let names = terminal::visible(&gone.join("`, `")).into_owned();
            format!("no source is left to refresh: `{names}` no longer exists; name a file")
        } else if record.from_input {
            "what was imported here came from standard input, which cannot be refreshed; pipe it \
             again to `ralph import - --refresh`"
                .to_owned()
        } else {
            "nothing was imported here yet; name a file, as in `ralph import prd.json`".to_owned()
        };
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let name = workspace.graph_name();
    let mut summary = ImportSummary::new(&name, options.dry_run, 0);
    for (path, source) in sources {
        let given = has_wishes.then_some(&given);
        let report =
            import::refresh(workspace, &path, &source, options.format, given, options.dry_run)?;
        if options.json {
            summary.add(&report.texts, &report.skipped, &report.plan);
            summary.refreshed(report.changes, report.gone);
            continue;
        }
        let mut text = report::sources(&report.texts, &report.plan, false);
        text += &report::refreshed(&report);
        text += &report::skipped(&report.skipped);
        text += &report::result(&report.plan, &name, options.dry_run, 0);
        terminal::print(&text)?;
    }
    if options.json {
        terminal::print(&terminal::json(&summary))?;
    }
    Ok(Exit::Success)
}
