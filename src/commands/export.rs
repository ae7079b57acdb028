//! `ralph export`: writes the graph as a backlog of another tool.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::Invocation;
use crate::{
    adapters::{state, terminal},
    cli::ExportArgs,
    core::{
        exit::{Exit, Failure},
        graph::edit::Document,
        import::{
            BacklogFormat,
            detect::detect,
            export::{columns, fresh, ticket},
            refresh::fields,
        },
    },
    project::{
        graph_file::GraphFile,
        import::{
            self, ImportRecord,
            write_back::{by_source, update},
        },
        workspace::Workspace,
    },
    view::lines::counted,
};

/// What an export wrote, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
struct ExportReport {
    format: Option<BacklogFormat>,
    /// The files that were written or were right already.
    files: Vec<String>,
    /// The number of tasks in them that the graph has.
    tasks: usize,
    /// The tasks, by their name in the file, whose status has no place there.
    unwritten: Vec<String>,
    /// The number of tasks of the graph that are in none of the files.
    missing: usize,
    /// The fields that the format has no place for.
    lost: Vec<LostColumn>,
}

/// A field that a format has no place for.
#[derive(Debug, Serialize)]
struct LostColumn {
    field: String,
    /// The number of tasks that have it.
    tasks: usize,
}

/// Writes the backlog to a file, to a folder of tickets or to standard output.
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
    let target = target.as_deref();
    let mut report = if let Some(folder) = target.filter(|path| is_folder(path, options)) {
        into_folder(&workspace, &file, folder, options)?
    } else {
        into_file(&workspace, &file, target, options)?
    };
    report.format = Some(options.to);
    if options.json {
        terminal::print(&terminal::json(&report))?;
    } else {
        report.say(options);
    }
    Ok(Exit::Success)
}

/// Whether a target is a folder, or one to be made for tickets.
fn is_folder(path: &Path, options: &ExportArgs) -> bool {
    let is_new = !import::exists(path) && options.to == BacklogFormat::Tickets;
    path.is_dir() || is_new && path.extension().is_none()
}

fn into_file(
    workspace: &Workspace,
    file: &GraphFile,
    target: Option<&Path>,
    options: &ExportArgs,
) -> Result<ExportReport> {
    let is_there = target.is_some_and(import::exists);
    let original = if options.new {
        None
    } else if is_there {
        target.map(Path::to_owned)
    } else {
        only_source(workspace, file, options.to)
    };
    let Some(original) = original else {
        if let Some(path) = target.filter(|_| is_there) {
            let message =
                format!("`{}` exists; name a new file, or leave out `--new`", path.display());
            return usage(message);
        }
        put(workspace, target, &fresh(options.to, file.graph(), file.text()))?;
        return Ok(ExportReport {
            files: target.iter().map(|path| import::name_of(workspace.root(), path)).collect(),
            tasks: file.graph().tasks().len(),
            lost: lost(file, options.to),
            ..ExportReport::default()
        });
    };
    let (texts, _) = import::gather(workspace.root(), &original, Some(options.to))?;
    let source = &texts[0];
    let existing = import::existing(Some(file), &ImportRecord::read(workspace));
    let updated = update(source, &by_source(file.graph()), &existing)?;
    if updated.known == 0 {
        return usage(format!(
            "no task of the graph comes from `{}`, so there is nothing to update in it; name a new file",
            terminal::visible(&source.name)
        ));
    }
    put(workspace, target, &updated.text)?;
    Ok(ExportReport {
        files: vec![source.name.clone()],
        tasks: updated.known,
        unwritten: updated.unwritten,
        missing: file.graph().tasks().len() - updated.known,
        ..ExportReport::default()
    })
}

/// Writes a file for each task: the statuses of tickets that are there, and the other tasks as new
/// tickets.
fn into_folder(
    workspace: &Workspace,
    file: &GraphFile,
    folder: &Path,
    options: &ExportArgs,
) -> Result<ExportReport> {
    let shown = import::name_of(workspace.root(), folder);
    if options.to != BacklogFormat::Tickets {
        return usage(format!("`{shown}` is a folder; only tickets are files in a folder"));
    }
    fs::create_dir_all(folder).with_context(|| format!("create `{shown}`"))?;
    let (texts, _) = import::gather_folder(workspace.root(), folder, Some(options.to))?;
    if options.new && !texts.is_empty() {
        return usage(format!("`{shown}` has tickets; name a new folder, or leave out `--new`"));
    }
    let existing = import::existing(Some(file), &ImportRecord::read(workspace));
    let mut report = ExportReport::default();
    let mut wanted = by_source(file.graph());
    let folder_name = import::name_of(workspace.root(), folder);
    // Tickets of an earlier export, which are not the source of their tasks.
    for task in file.graph().tasks() {
        let own = format!("{folder_name}/{}.md#{}", task.id, task.id);
        wanted.entry(own).or_insert(task.status);
    }
    let mut found: HashSet<String> = HashSet::new();
    for source in &texts {
        let updated = update(source, &wanted, &existing)?;
        let path = source.path.as_deref();
        if let Some(path) = path.filter(|_| updated.text != source.text) {
            put(workspace, Some(path), &updated.text)?;
        }
        if updated.known > 0 {
            report.files.push(source.name.clone());
            report.unwritten.extend(updated.unwritten);
        }
        found.extend(updated.sources);
    }
    let mut others = Vec::new();
    for (number, task) in file.graph().tasks().iter().enumerate() {
        let path = folder.join(format!("{}.md", task.id));
        let own = format!("{folder_name}/{}.md#{}", task.id, task.id);
        let source = task.extra.get("source").and_then(Value::as_str);
        report.tasks += 1;
        if found.contains(&own) || source.is_some_and(|source| found.contains(source)) {
            continue;
        }
        if import::exists(&path) {
            let name = import::name_of(workspace.root(), &path);
            return usage(format!("`{name}` exists, and is not the ticket of `{}`", task.id));
        }
        others.push((path, ticket(file.graph(), number)));
    }
    for (path, text) in others {
        put(workspace, Some(&path), &text)?;
        report.files.push(import::name_of(workspace.root(), &path));
        report.lost = lost(file, options.to);
    }
    Ok(report)
}

fn usage<T>(message: String) -> Result<T> {
    Err(Failure::new(Exit::Usage, message).into())
}

/// The fields of the tasks that a format has no place for.
fn lost(file: &GraphFile, format: BacklogFormat) -> Vec<LostColumn> {
    let Some(columns) = columns(format, file.graph()) else { return Vec::new() };
    let Ok(document) = Document::parse(file.text()) else { return Vec::new() };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for task in file.graph().tasks() {
        let fields = fields(&document, file.graph(), task.id.as_str()).unwrap_or_default();
        let is_empty = |value: &Value| value.is_null() || *value == json!([]);
        for (name, _) in fields.iter().filter(|(_, value)| !is_empty(value)) {
            let is_own = ["source", "claimed_at", "claimed_by"].contains(&name.as_str());
            if !is_own && !columns.contains(&name.as_str()) {
                *counts.entry(name.clone()).or_default() += 1;
            }
        }
    }
    counts.into_iter().map(|(field, tasks)| LostColumn { field, tasks }).collect()
}

impl ExportReport {
    fn say(&self, options: &ExportArgs) {
        let names = self.files.iter().map(|name| terminal::visible(name).into_owned());
        let names: Vec<String> = names.collect();
        let files = match names.as_slice() {
            [one] => format!("`{one}`"),
            _ => counted(names.len(), "file"),
        };
        if !self.unwritten.is_empty() {
            terminal::say(&format!(
                "{} in {files} {} no place for a status: {}",
                counted(self.unwritten.len(), "task"),
                if self.unwritten.len() == 1 { "has" } else { "have" },
                terminal::visible(&self.unwritten.join(", ")),
            ));
        }
        if self.missing > 0 {
            terminal::say(&format!(
                "{} of the graph {} not in {files}; `--new` with a new file writes all",
                counted(self.missing, "task"),
                if self.missing == 1 { "is" } else { "are" },
            ));
        }
        if !self.lost.is_empty() {
            let fields = self.lost.iter().map(|lost| format!("{} ({})", lost.field, lost.tasks));
            terminal::say(&format!(
                "not written, {} has no place for it: {}",
                options.to,
                terminal::visible(&fields.collect::<Vec<_>>().join(", "))
            ));
        }
    }
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
    let record = ImportRecord::read(workspace);
    let path = |name: &String| {
        let path = workspace.root().join(name);
        let text = crate::regular_file::read_to_string(&path).ok()?;
        let found = record.format(name).or_else(|| detect(&text));
        (found == Some(format)).then_some(path)
    };
    let mut found = names.iter().filter_map(path);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn put(workspace: &Workspace, path: Option<&Path>, text: &str) -> Result<()> {
    match path {
        None => terminal::put(text.as_bytes()).context("write")?,
        Some(path) => state::replace(path, text.as_bytes(), workspace.durable())
            .with_context(|| format!("write `{}`", path.display()))?,
    }
    Ok(())
}
