//! `ralph export`: writes the graph as a backlog of another tool.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Invocation, task_editor::usage};
use crate::{
    adapters::{state, terminal},
    cli::ExportArgs,
    core::{
        exit::Exit,
        graph::task::Task,
        import::{
            BacklogFormat, detect,
            export::{columns, fresh, ticket},
            plan::ExistingTasks,
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
    let directory = invocation.directory()?;
    let target = options.file.as_ref().map(|path| directory.join(path));
    let report = ExportReport { format: Some(options.to), ..ExportReport::default() };
    let mut exporter = Exporter { workspace: &workspace, file: &file, options, report };
    match target.as_deref() {
        Some(folder) if is_folder(folder, options) => exporter.write_folder(folder)?,
        target => exporter.write_file(target)?,
    }
    if options.json {
        terminal::print(&terminal::json(&exporter.report))?;
    } else {
        exporter.report.say(options);
    }
    Ok(Exit::Success)
}

/// Whether a target is a folder, or one to be made for tickets.
fn is_folder(path: &Path, options: &ExportArgs) -> bool {
    let is_new = !import::exists(path) && options.to == BacklogFormat::Tickets;
    path.is_dir() || is_new && path.extension().is_none()
}

/// An export while it is made.
struct Exporter<'a> {
    workspace: &'a Workspace,
    file: &'a GraphFile,
    options: &'a ExportArgs,
    report: ExportReport,
}

impl Exporter<'_> {
    fn name(&self, path: &Path) -> String {
        import::name_of(self.workspace.root(), path)
    }

    fn write_file(&mut self, target: Option<&Path>) -> Result<()> {
        let there = target.filter(|path| import::exists(path));
        let original = match there {
            _ if self.options.new => None,
            Some(path) => Some(path.to_owned()),
            None => self.only_source(),
        };
        let Some(original) = original else {
            if let Some(path) = there {
                let path = path.display();
                return usage(format!("`{path}` exists; name a new file, or leave out `--new`"));
            }
            let text = fresh(self.options.to, self.file.graph(), self.file.text());
            self.put(target, &text)?;
            self.report.files = target.iter().map(|path| self.name(path)).collect();
            self.report.tasks = self.file.graph().tasks().len();
            self.find_lost();
            return Ok(());
        };
        let format = Some(self.options.to);
        let (texts, _) = import::gather(self.workspace.root(), &original, format)?;
        let source = &texts[0];
        let updated = update(source, &by_source(self.file.graph()), &self.existing())?;
        if updated.known == 0 {
            return usage(format!(
                "no task of the graph comes from `{}`, so there is nothing to update in it; name a new file",
                terminal::visible(&source.name)
            ));
        }
        self.put(target, &updated.text)?;
        self.report.files.push(source.name.clone());
        self.report.tasks = updated.known;
        self.report.unwritten = updated.unwritten;
        self.report.missing = self.file.graph().tasks().len() - updated.known;
        Ok(())
    }

    /// Writes a file for each task: the statuses of tickets that are there, and the other tasks as
    /// new tickets.
    fn write_folder(&mut self, folder: &Path) -> Result<()> {
        let (shown, graph) = (self.name(folder), self.file.graph());
        if self.options.to != BacklogFormat::Tickets {
            return usage(format!("`{shown}` is a folder; only tickets are files in a folder"));
        }
        fs::create_dir_all(folder).with_context(|| format!("create `{shown}`"))?;
        let format = Some(self.options.to);
        let (texts, _) = import::gather_folder(self.workspace.root(), folder, format)?;
        if self.options.new && !texts.is_empty() {
            return usage(format!(
                "`{shown}` has tickets; name a new folder, or leave out `--new`"
            ));
        }
        // Tickets of an earlier export are not the source of their tasks.
        let folder_name = self.name(folder);
        let own = |task: &Task| format!("{folder_name}/{}.md#{}", task.id, task.id);
        let mut wanted = by_source(graph);
        for task in graph.tasks() {
            wanted.entry(own(task)).or_insert(task.status);
        }
        let mut found: HashSet<String> = HashSet::new();
        for source in &texts {
            let updated = update(source, &wanted, &self.existing())?;
            if updated.text != source.text {
                self.put(source.path.as_deref(), &updated.text)?;
            }
            if updated.known > 0 {
                self.report.files.push(source.name.clone());
                self.report.unwritten.extend(updated.unwritten);
            }
            found.extend(updated.sources);
        }
        self.report.tasks = graph.tasks().len();
        let is_there = |task: &Task| {
            let source = task.extra.get("source").and_then(Value::as_str);
            found.contains(&own(task)) || source.is_some_and(|source| found.contains(source))
        };
        let others = graph.tasks().iter().enumerate().filter(|(_, task)| !is_there(task));
        let path = |task: &Task| folder.join(format!("{}.md", task.id));
        if let Some((_, task)) = others.clone().find(|(_, task)| import::exists(&path(task))) {
            let name = self.name(&path(task));
            return usage(format!("`{name}` exists, and is not the ticket of `{}`", task.id));
        }
        for (number, task) in others {
            let path = path(task);
            self.put(Some(&path), &ticket(graph, number))?;
            self.report.files.push(self.name(&path));
            self.find_lost();
        }
        Ok(())
    }

    fn existing(&self) -> ExistingTasks {
        import::existing(Some(self.file), &ImportRecord::read(self.workspace))
    }

    /// Finds the fields of the tasks that the format has no place for.
    fn find_lost(&mut self) {
        let graph = self.file.graph();
        let Some(columns) = columns(self.options.to, graph) else { return };
        let document = self.file.document();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for task in graph.tasks() {
            let fields = fields(document, graph, task.id.as_str()).unwrap_or_default();
            let is_empty = |value: &Value| value.is_null() || *value == json!([]);
            for (name, _) in fields.iter().filter(|(_, value)| !is_empty(value)) {
                let is_own = ["source", "claimed_at", "claimed_by"].contains(&name.as_str());
                if !is_own && !columns.contains(&name.as_str()) {
                    *counts.entry(name.clone()).or_default() += 1;
                }
            }
        }
        let lost = counts.into_iter().map(|(field, tasks)| LostColumn { field, tasks });
        self.report.lost = lost.collect();
    }

    /// The only file of this format that tasks were imported from.
    fn only_source(&self) -> Option<PathBuf> {
        let source = |task: &Task| {
            let source = task.extra.get("source").and_then(Value::as_str)?;
            Some(source.split_once('#')?.0.to_owned())
        };
        let names: BTreeSet<String> = self.file.graph().tasks().iter().filter_map(source).collect();
        let record = ImportRecord::read(self.workspace);
        let path = |name: &String| {
            let path = self.workspace.root().join(name);
            let text = crate::regular_file::read_to_string(&path).ok()?;
            let found = record.format(name).or_else(|| detect(&text));
            (found == Some(self.options.to)).then_some(path)
        };
        let mut found = names.iter().filter_map(path);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    fn put(&self, path: Option<&Path>, text: &str) -> Result<()> {
        match path {
            None => terminal::put(text.as_bytes()).context("write")?,
            Some(path) => state::replace(path, text.as_bytes(), self.workspace.config.fsync)
                .with_context(|| format!("write `{}`", path.display()))?,
        }
        Ok(())
    }
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
