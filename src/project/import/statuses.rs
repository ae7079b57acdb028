//! The statuses of tasks in the text of a source.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{SourceText, refused};
use crate::core::{
    graph::{TaskGraph, task::Status},
    import::{self, plan::ExistingTasks, update},
};

/// A source with the statuses of the graph.
#[derive(Debug)]
pub struct UpdatedSource {
    /// The text.
    pub text: String,
    /// The number of its tasks that the graph has.
    pub known: usize,
    /// Its tasks that the graph has, by `source`.
    pub sources: Vec<String>,
    /// The tasks whose status was written, by `source`.
    pub written: Vec<String>,
    /// The tasks for whose status it has no place, by their name in the source.
    pub unwritten: Vec<String>,
}

/// Returns the `source` of each imported task, with its status.
pub fn by_source(graph: &TaskGraph) -> BTreeMap<String, Status> {
    let source = |task: &crate::core::graph::task::Task| {
        Some((task.extra.get("source")?.as_str()?.to_owned(), task.status))
    };
    graph.tasks().iter().filter_map(source).collect()
}

/// Writes statuses, by `source`, into a source.
///
/// # Errors
/// The text cannot be read, or would have another meaning than wanted.
pub fn update(
    source: &SourceText,
    statuses: &BTreeMap<String, Status>,
    existing: &ExistingTasks,
) -> Result<UpdatedSource> {
    let refused = |faults: Vec<_>| refused(&source.name, &source.text, &faults);
    let backlog = import::read(source.format, &source.name, &source.text).map_err(refused)?;
    let mut identified = backlog.clone();
    existing.identify(&source.name, &mut identified);
    let mut by_key: BTreeMap<String, Status> = BTreeMap::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (task, known) in backlog.tasks.into_iter().zip(identified.tasks) {
        let name = task.source.unwrap_or_else(|| format!("{}#{}", source.name, known.key));
        if let Some(status) = statuses.get(&name) {
            by_key.insert(task.key.clone(), *status);
            names.insert(task.key, name);
        }
    }
    let known = by_key.len();
    if known == 0 {
        let (text, written, unwritten) = (source.text.clone(), Vec::new(), Vec::new());
        return Ok(UpdatedSource { text, known, sources: Vec::new(), written, unwritten });
    }
    let updated = update::with_statuses(source.format, &source.name, &source.text, &by_key)
        .map_err(refused)?;
    let sources = names.values().cloned().collect();
    let written = updated.written.iter().filter_map(|key| names.remove(key)).collect();
    Ok(UpdatedSource { text: updated.text, known, sources, written, unwritten: updated.unwritten })
}
