//! What an import did, as `--json` prints it.

use serde::Serialize;

use super::report::{breaks, place};
use crate::{
    core::{
        graph::task::Status,
        import::{
            BacklogFormat,
            plan::{ImportPlan, ImportedTask},
            refresh::RefreshedField,
        },
    },
    project::import::{SkippedFile, SourceText},
};

/// What an import did, or would do.
#[derive(Debug, Default, Serialize)]
pub(super) struct ImportSummary {
    /// The graph file.
    graph: String,
    /// Whether nothing was written.
    dry_run: bool,
    /// The number of unchanged examples of `ralph init` that the tasks replace.
    replaced_examples: usize,
    /// The files that were read.
    sources: Vec<ReadSource>,
    /// The files of folders that were not read.
    skipped: Vec<SkippedFile>,
    /// The tasks of the sources.
    tasks: Vec<SummaryTask>,
    /// What the graph does not have as the source has it.
    lost: Vec<SummaryLoss>,
    /// The fields that changed in the sources since the last import.
    changes: Vec<RefreshedField>,
    /// The tasks of the graph that the sources no longer have.
    gone: Vec<String>,
}

/// A file that was read.
#[derive(Debug, Serialize)]
struct ReadSource {
    name: String,
    format: BacklogFormat,
    tasks: usize,
}

/// A task of a source.
#[derive(Debug, Serialize)]
struct SummaryTask {
    id: String,
    source: String,
    /// Whether the graph lacked it.
    is_new: bool,
    status: Status,
    /// The names of its fields.
    fields: Vec<String>,
}

/// Something that the graph does not have as the source has it.
#[derive(Debug, Serialize)]
struct SummaryLoss {
    /// The task, by its name in the source.
    task: Option<String>,
    field: String,
    why: String,
    /// Whether the graph has it in another form.
    is_kept: bool,
    /// File, line and column.
    place: String,
}

impl ImportSummary {
    pub(super) fn new(graph: &str, dry_run: bool, replaced_examples: usize) -> ImportSummary {
        let graph = graph.to_owned();
        ImportSummary { graph, dry_run, replaced_examples, ..ImportSummary::default() }
    }

    /// Adds what was read.
    pub(super) fn add(&mut self, texts: &[SourceText], skipped: &[SkippedFile], plan: &ImportPlan) {
        for (number, text) in texts.iter().enumerate() {
            let tasks = plan.tasks.iter().filter(|task| task.file == number).count();
            let (name, format) = (text.name.clone(), text.format);
            self.sources.push(ReadSource { name, format, tasks });
        }
        self.skipped.extend_from_slice(skipped);
        self.tasks.extend(plan.tasks.iter().map(task));
        let breaks: Vec<Vec<usize>> = texts.iter().map(|text| breaks(&text.text)).collect();
        for (file, lost) in &plan.lost {
            self.lost.push(SummaryLoss {
                task: lost.task.clone(),
                field: lost.field.clone(),
                why: lost.why.clone(),
                is_kept: lost.is_kept,
                place: place(&texts[*file], &breaks[*file], lost.at.start),
            });
        }
    }

    /// Adds what a refresh found.
    pub(super) fn refreshed(&mut self, changes: Vec<RefreshedField>, gone: Vec<String>) {
        self.changes.extend(changes);
        self.gone.extend(gone);
    }
}

fn task(task: &ImportedTask) -> SummaryTask {
    SummaryTask {
        id: task.id.clone(),
        source: task.source.clone(),
        is_new: task.is_new,
        status: task.status(),
        fields: task.fields.iter().map(|(name, _)| name.clone()).collect(),
    }
}
