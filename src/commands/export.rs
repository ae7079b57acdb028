//! `ralph export`: writes the graph as a backlog of another tool.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Invocation;
use crate::{
    adapters::{state, terminal},
    cli::ExportArgs,
    core::{
        exit::{Exit, Failure},
        import::{self as core_import, BacklogFormat},
    },
    project::{
        graph_file::GraphFile,
        import::{self, ImportRecord, SourceText, statuses},
        workspace::Workspace,
    },
    view::lines::counted,
};

/// Writes the backlog to a file or to standard output.
///
/// # Errors
/// An invalid graph; an existing file that no task comes from; errors of the disk.
pub fn run(invocation: &Invocation, options: &ExportArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let file = workspace.graph()?;
    let target = options
        .file
        .as_ref()
        .map(|path| Ok::<_, anyhow::Error>(invocation.directory()?.join(path)));
    let target = target.transpose()?;
    let is_there = target.as_ref().is_some_and(|path| import::exists(path));
    let original = if options.new {
        None
    } else if is_there {
        target.clone()
    } else {
        only_source(&workspace, &file, options.to)
    };
    let Some(original) = original else {
        if let Some(path) = target.as_ref().filter(|_| is_there) {
            let message =
                format!("`{}` exists; name a new file, or leave out `--new`", path.display());
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let text = core_import::fresh(options.to, file.graph(), file.text());
        return put(&workspace, target.as_deref(), &text);
    };
    let (texts, _) = import::gather(workspace.root(), &original, Some(options.to))?;
    let source = &texts[0];
    let (text, rest) = update(&workspace, &file, source)?;
    let exit = put(&workspace, target.as_deref(), &text)?;
    if rest > 0 {
        terminal::say(&format!(
            "{} of the graph {} not in `{}`; `--new` with a new file writes all",
            counted(rest, "task"),
            if rest == 1 { "is" } else { "are" },
            terminal::visible(&source.name),
        ));
    }
    Ok(exit)
}

/// Writes the statuses of the graph into a source. Returns the text and the number of tasks that are
/// not in it.
fn update(workspace: &Workspace, file: &GraphFile, source: &SourceText) -> Result<(String, usize)> {
    let name = &source.name;
    let existing = import::existing(Some(file), &ImportRecord::read(workspace));
    let updated = statuses::update(source, &statuses::by_source(file.graph()), &existing)?;
    if updated.known == 0 {
        let message = format!(
            "no task of the graph comes from `{}`, so there is nothing to update in it; name a new file",
            terminal::visible(name)
        );
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if !updated.unwritten.is_empty() {
        terminal::say(&format!(
            "{} in `{}` {} no place for a status: {}",
            counted(updated.unwritten.len(), "task"),
            terminal::visible(name),
            if updated.unwritten.len() == 1 { "has" } else { "have" },
            terminal::visible(&updated.unwritten.join(", ")),
        ));
    }
    Ok((updated.text, file.graph().tasks().len() - updated.known))
}

/// The only file of this format that tasks were imported from.
fn only_source(workspace: &Workspace, file: &GraphFile, format: BacklogFormat) -> Option<PathBuf> {
    let sources = file.graph().tasks().iter().filter_map(|task| {
        let source = task.extra.get("source").and_then(Value::as_str)?;
        let (path, _) = source.split_once('#')?;
        Some(path.to_owned())
    });
    let mut names: Vec<String> = sources.collect();
    names.sort();
    names.dedup();
    let is_it = |path: &PathBuf| {
        let text = crate::regular_file::read_to_string(path).ok();
        text.and_then(|text| core_import::detect::detect(&text)) == Some(format)
    };
    let mut found = names.iter().map(|name| workspace.root().join(name)).filter(is_it);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn put(workspace: &Workspace, path: Option<&Path>, text: &str) -> Result<Exit> {
    match path {
        None => terminal::put(text.as_bytes()).context("write")?,
        Some(path) => state::replace(path, text.as_bytes(), workspace.durable())
            .with_context(|| format!("write `{}`", path.display()))?,
    }
    Ok(Exit::Success)
}
