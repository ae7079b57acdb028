//! The report of an import: its tasks, and changes from the source, as JSON and as text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;
use serde_json::Value;

use crate::{
    adapters::terminal::{self, fit, visible},
    core::{
        graph::task::Status,
        import::{
            Loss,
            plan::{ChangedField, ImportPlan, ImportedTask, SourceFile},
        },
    },
    project::import::SkippedFile,
    view::lines::counted,
};

/// An import's result or preview.
#[derive(Debug, Serialize)]
pub(super) struct ImportReport {
    /// The graph file.
    pub(super) graph: String,
    /// Whether nothing was written.
    pub(super) dry_run: bool,
    /// The number of unchanged examples of `ralph init` that the tasks replace.
    pub(super) replaced_examples: usize,
    /// The files that were read.
    pub(super) sources: Vec<ReadSource>,
    /// The files of folders that were not read.
    pub(super) skipped: Vec<SkippedFile>,
    /// The tasks of the sources, and the differences of the graph.
    #[serde(flatten)]
    pub(super) plan: ImportPlan,
    /// The changes by the sources to tasks that the graph has.
    pub(super) changed: Vec<ChangedField>,
}

/// A file that was read.
#[derive(Debug, Serialize)]
pub(super) struct ReadSource {
    name: String,
    format: &'static str,
    tasks: usize,
}

impl ReadSource {
    pub(super) fn new(file: &SourceFile) -> ReadSource {
        let (name, backlog) = (file.name.clone(), &file.backlog);
        ReadSource { name, format: backlog.format, tasks: backlog.tasks.len() }
    }
}

/// The width of the text.
fn width() -> usize {
    terminal::stdout_width().unwrap_or(100)
}

impl ImportReport {
    /// The report of an import.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // A folder of tickets has one file for each.
        let source = match self.sources.as_slice() {
            [source] => format!("{} ({})", visible(&source.name), source.format),
            sources => counted(sources.len(), "file"),
        };
        wrapped(&mut text, &format!("{source}: {}", totals(&self.plan.tasks)));
        if self.dry_run && !self.plan.tasks.is_empty() {
            let rows = self.plan.tasks.iter().map(|task| {
                let title = task.get("title").and_then(Value::as_str).unwrap_or_default();
                let id = format!("  {}", task.id);
                [id, task.status.to_string(), task.dependencies().join(" "), title.to_owned()]
            });
            text += &terminal::table(["  TASK", "STATUS", "AFTER", "TITLE"], rows);
        }
        self.write_losses(&mut text);
        if !self.changed.is_empty() {
            wrapped(&mut text, "Differs in the source; the graph keeps its own:");
        }
        for ChangedField { id, field, value } in &self.changed {
            let value = value.as_ref().map_or("none".to_owned(), Value::to_string);
            let line = format!("  {id}: {field}: {}", visible(&value));
            let _ = writeln!(text, "{}", fit(&line, width()));
        }
        self.write_skipped(&mut text);
        self.write_result(&mut text);
        text
    }

    /// The differences from the source: each reason once, with its first place.
    fn write_losses(&self, text: &mut String) {
        let mut groups: BTreeMap<(&str, &str), (usize, &Loss)> = BTreeMap::new();
        for lost in &self.plan.lost {
            groups.entry((&lost.field, &lost.why)).or_insert((0, lost)).0 += 1;
        }
        if !groups.is_empty() {
            let _ = writeln!(text, "Not as in the source:");
        }
        for (count, Loss { source, at, field, why }) in groups.into_values() {
            let at = at.as_ref().map_or(String::new(), |at| format!("{at}, "));
            let times = if count > 1 { format!("{count} times, first: ") } else { String::new() };
            let line = format!("{field}: {why} ({times}{at}{source})");
            wrapped(text, &format!("  {}", visible(&line)));
        }
    }

    /// The files of a folder that are not read.
    fn write_skipped(&self, text: &mut String) {
        /// The number of files that are named.
        const SHOWN: usize = 10;
        if !self.skipped.is_empty() {
            let _ = writeln!(text, "Not read:");
        }
        for file in self.skipped.iter().take(SHOWN) {
            wrapped(text, &format!("  {}: {}", visible(&file.name), visible(&file.why)));
        }
        if self.skipped.len() > SHOWN {
            let _ = writeln!(text, "  and {} more", self.skipped.len() - SHOWN);
        }
    }

    /// The result, or the plan.
    fn write_result(&self, text: &mut String) {
        let new: Vec<&ImportedTask> = self.plan.tasks.iter().filter(|task| task.is_new).collect();
        let is_command =
            |(name, _): &(String, Value)| ["verify", "agent", "prompt"].contains(&name.as_str());
        let commands = new.iter().filter(|task| task.fields.iter().any(is_command)).count();
        if commands > 0 {
            let what =
                "with `verify`, `agent` or `prompt` from the source: check these before a run";
            wrapped(text, &format!("{} {what}.", counted(commands, "task")));
        }
        let done = match (self.dry_run, new.len()) {
            (_, 0) => "nothing new".to_owned(),
            (true, added) => format!("{} would be added", counted(added, "task")),
            (false, added) => format!("{} added", counted(added, "task")),
        };
        let known = match self.plan.tasks.len() - new.len() {
            0 => String::new(),
            old => format!(", there already: {old}"),
        };
        let instead = match self.replaced_examples {
            0 => String::new(),
            count => format!(" in place of the {} of `ralph init`", counted(count, "example")),
        };
        wrapped(text, &format!("{}: {done}{instead}{known}", self.graph));
    }
}

/// `5 tasks (3 pending, 2 complete)`.
fn totals(tasks: &[ImportedTask]) -> String {
    let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(task.status).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    if counts.is_empty() {
        return "no tasks".to_owned();
    }
    format!("{} ({})", counted(tasks.len(), "task"), counts.join(", "))
}

fn wrapped(text: &mut String, line: &str) {
    for line in terminal::wrap(line, width()) {
        let _ = writeln!(text, "{line}");
    }
}
