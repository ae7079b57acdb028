//! Importing again: what changed in a source since the last import is merged into the graph.
//!
//! The state folder keeps the fields of each task as they were imported, which is the base of the
//! merge. It keeps fields and not texts, because an import adds only the new tasks of a source: for
//! the others the base must stay the one of their own last import.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SkippedFile, SourceText, add, existing, gather, graph, plan, refused, with_new};
use crate::{
    core::{
        event::SourceRefreshed,
        graph::{load, task::Status, task_edit::differences},
        import::{
            BacklogFormat,
            plan::{ImportOptions, ImportPlan, ImportedTask},
            refresh::{FieldOutcome, RefreshedField, changes, fields, with_fields},
        },
    },
    project::{
        fatal,
        graph_change::{ChangeCommand, change_text, record_because},
        graph_file::GraphFile,
        workspace::Workspace,
    },
};

/// The file with what was imported, in the state folder.
const FILE: &str = "imports.json";

/// What was imported here.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportRecord {
    /// The sources, with the options of their last import.
    sources: BTreeMap<String, ImportOptions>,
    /// The fields of each task at its last import, by `source`.
    tasks: BTreeMap<String, Map<String, Value>>,
    /// Whether tasks came from standard input, which cannot be read again.
    pub from_input: bool,
}

impl ImportRecord {
    /// Reads the record.
    pub fn read(workspace: &Workspace) -> ImportRecord {
        workspace.state.kept(FILE).unwrap_or_default()
    }

    /// The names of all sources that still exist, and of those that do not, sorted.
    pub fn sources(&self, root: &Path) -> (Vec<String>, Vec<String>) {
        self.sources.keys().cloned().partition(|name| fs::metadata(root.join(name)).is_ok())
    }

    /// The format that a person named for a file or for the folder around it; none if it is known by
    /// the content.
    pub fn format(&self, name: &str) -> Option<BacklogFormat> {
        let own = self.sources.get(name);
        let around = || {
            let folders = name.match_indices('/').rev().map(|(at, _)| &name[..at]);
            { folders }.find_map(|folder| self.sources.get(folder))
        };
        own.or_else(around).and_then(|options| options.format)
    }

    /// The title of each task at its last import, by `source`.
    pub fn titles(&self) -> HashMap<String, String> {
        let title = |(source, fields): (&String, &Map<String, Value>)| {
            Some((source.clone(), fields.get("title")?.as_str()?.to_owned()))
        };
        self.tasks.iter().filter_map(title).collect()
    }

    /// Keeps the fields of the tasks of a plan that `which` selects.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn keep(
        &mut self,
        workspace: &Workspace,
        source: &str,
        options: &ImportOptions,
        plan: &ImportPlan,
        which: impl Fn(&ImportedTask) -> bool,
    ) -> Result<()> {
        if source == "-" {
            self.from_input = true;
        } else {
            self.sources.insert(source.to_owned(), options.clone());
        }
        for task in plan.tasks.iter().filter(|task| which(task)) {
            self.tasks.insert(task.source.clone(), task.fields.iter().cloned().collect());
        }
        self.write(workspace)
    }

    /// Keeps that sources have tasks as done now, since they were told.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn note_done(&mut self, workspace: &Workspace, sources: &[String]) -> Result<()> {
        let mut is_changed = false;
        for source in sources {
            if let Some(fields) = self.tasks.get_mut(source) {
                fields.insert("status".to_owned(), Value::from(Status::Complete.word()));
                is_changed = true;
            }
        }
        if is_changed { self.write(workspace) } else { Ok(()) }
    }

    fn write(&self, workspace: &Workspace) -> Result<()> {
        workspace.state.keep(FILE, self).context("keep what was imported")
    }
}

/// What a refresh did, or would do.
#[derive(Debug, Default)]
pub struct RefreshReport {
    /// The texts that were read.
    pub texts: Vec<SourceText>,
    /// The files of a folder that were not read.
    pub skipped: Vec<SkippedFile>,
    /// Their tasks.
    pub plan: ImportPlan,
    /// The fields that changed in the source.
    pub changes: Vec<RefreshedField>,
    /// The tasks of the graph that the source no longer has.
    pub gone: Vec<String>,
    /// The tasks whose fields at the last import are not known here, as in a fresh clone.
    pub unknown: usize,
}

/// Adds the new tasks of a source, and takes over what changed in the others.
///
/// # Errors
/// A source or a graph that cannot be read; a change that makes the graph invalid; errors of the
/// disk.
pub fn refresh(
    workspace: &Workspace,
    path: &Path,
    name: &str,
    format: Option<BacklogFormat>,
    given: Option<&ImportOptions>,
    is_dry: bool,
) -> Result<RefreshReport> {
    let mut record = ImportRecord::read(workspace);
    let earlier = record.sources.get(name);
    let mut options = given.or(earlier).cloned().unwrap_or_default();
    options.format = format.or_else(|| earlier.and_then(|earlier| earlier.format));
    let (texts, skipped) = gather(workspace.root(), path, options.format)?;
    let file = graph(workspace)?;
    let known = existing(file.as_ref(), &record);
    let mut plan = plan(&texts, &known, &options)?;
    let here = |source: &str| {
        texts
            .iter()
            .any(|text| source.strip_prefix(&text.name).is_some_and(|rest| rest.starts_with('#')))
    };
    let is_there = |source: &str| plan.tasks.iter().any(|task| task.source == source);
    let mut gone: Vec<String> = known
        .by_source
        .iter()
        .filter(|(source, _)| here(source) && !is_there(source))
        .map(|(_, id)| id.clone())
        .collect();
    gone.sort();
    // A person removed these from the graph.
    if file.is_some() {
        plan.leave_out(|task| record.tasks.contains_key(&task.source));
    }
    let old = || plan.tasks.iter().filter(|task| !task.is_new);
    let unknown = old().filter(|task| !record.tasks.contains_key(&task.source)).count();
    let mut changes = Vec::new();
    if let Some(file) = file {
        changes = if is_dry {
            merged(file.text(), &plan, &record)?.1
        } else {
            take_over(workspace, file, &plan, &record)?
        };
    } else if !is_dry {
        add(workspace, None, &plan)?;
    }
    if !is_dry {
        record.keep(workspace, name, &options, &plan, |_| true)?;
    }
    Ok(RefreshReport { texts, skipped, plan, changes, gone, unknown })
}

/// Writes the new tasks and the changes into the graph and into the journal, as one change that `ralph
/// undo` takes back.
fn take_over(
    workspace: &Workspace,
    mut file: GraphFile,
    plan: &ImportPlan,
    record: &ImportRecord,
) -> Result<Vec<RefreshedField>> {
    let (new, count) = (plan.new_tasks(), file.graph().tasks().len());
    let found = RefCell::new(Vec::new());
    let edit = |file: &GraphFile| {
        // Changed dependencies may name new tasks.
        let added = if new.is_empty() {
            file.text().to_owned()
        } else {
            with_new(workspace, file.text(), count, &new)?
        };
        let (merged, fields) = merged(&added, plan, record)?;
        found.replace(fields);
        Ok(Some(merged))
    };
    let command = ChangeCommand::of("import --refresh", &[]);
    let before = change_text(workspace, &mut file, Some(&command), edit)?;
    let Some(before) = before else { return Ok(found.into_inner()) };
    let mut store = workspace.event_store()?;
    let mut differences = differences(&before, file.text(), &[]);
    // New tasks first.
    differences.sort_by_key(|one| one.old.is_some());
    let why = Some("changed in its source");
    record_because(&mut store, command.name, why, &differences)?;
    Ok(found.into_inner())
}

/// A graph with the changes of the source, and these changes.
fn merged(
    text: &str,
    plan: &ImportPlan,
    record: &ImportRecord,
) -> Result<(String, Vec<RefreshedField>)> {
    let (document, loaded) =
        load::read(text).map_err(|faults| refused("the graph", text, &faults))?;
    let graph = loaded.graph;
    let mut all = Vec::new();
    for task in plan.tasks.iter().filter(|task| !task.is_new) {
        let base = record.tasks.get(&task.source);
        if let Some((base, ours)) = base.zip(fields(&document, &graph, &task.id)) {
            all.extend(changes(task, base, &ours));
        }
    }
    let wanted: Vec<&RefreshedField> = all.iter().filter(|change| change.is_taken()).collect();
    if let Ok(text) = with_fields(text, &wanted, &graph.spelling) {
        return Ok((text, all));
    }
    // What the layout does not allow stays, and is told.
    let mut text = text.to_owned();
    for change in all.iter_mut().filter(|change| change.is_taken()) {
        match with_fields(&text, &[change], &graph.spelling) {
            Ok(changed) => text = changed,
            Err(_) => change.outcome = FieldOutcome::NoPlace,
        }
    }
    Ok((text, all))
}

/// Refreshes the sources of the settings. Returns what happened to each, if anything did: a source
/// that cannot be read does not stop a run.
pub fn refresh_all(workspace: &Workspace) -> Vec<SourceRefreshed> {
    let refreshed = |source: &String| {
        let path = workspace.root().join(source);
        let what = match refresh(workspace, &path, source, None, None, false) {
            Ok(report) => report.line()?,
            Err(error) => format!("not read: {}", fatal::summary(&error)),
        };
        Some(SourceRefreshed { source: source.clone(), what })
    };
    workspace.config.sources.iter().filter_map(refreshed).collect()
}

impl RefreshReport {
    /// What changed, in one line; none if nothing did.
    fn line(&self) -> Option<String> {
        let new = self.plan.tasks.iter().filter(|task| task.is_new).count();
        let of = |outcome: FieldOutcome| {
            self.changes.iter().filter(|change| change.outcome == outcome).count()
        };
        let parts = [
            (new, "task", "added"),
            (of(FieldOutcome::Taken), "field", "taken over"),
            (
                of(FieldOutcome::ChangedInGraph) + of(FieldOutcome::NoPlace),
                "field",
                "changed on both sides, kept as in the graph",
            ),
            (of(FieldOutcome::KeptComplete), "task", "open again in the source, kept as complete"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _, _)| *count > 0)
            .map(|(count, noun, done)| {
                format!("{count} {noun}{} {done}", if count == 1 { "" } else { "s" })
            })
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
