//! What an import did: its tasks, and what is not kept as the source has it, as JSON and as text.

use std::{collections::HashMap, fmt::Write as _};

use serde::Serialize;
use serde_json::Value;

use crate::{
    adapters::terminal::{self, columns, fit, visible},
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

/// What an import did, or would do.
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
    /// The tasks of the sources, and what the graph does not have as the source has it.
    #[serde(flatten)]
    pub(super) plan: ImportPlan,
    /// What the sources have changed of tasks that the graph has.
    pub(super) changed: Vec<ChangedField>,
    /// Whether the graph takes over the fields of the whole backlog.
    #[serde(skip)]
    pub(super) is_new_graph: bool,
}

/// A file that was read.
#[derive(Debug, Serialize)]
pub(super) struct ReadSource {
    name: String,
    format: &'static str,
    tasks: usize,
}

impl ReadSource {
    pub(super) fn of(file: &SourceFile) -> ReadSource {
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
        self.write_sources(&mut text, self.dry_run);
        self.write_losses(&mut text);
        self.write_changes(&mut text);
        self.write_skipped(&mut text);
        self.write_result(&mut text);
        text
    }

    /// The tasks of each source.
    fn write_sources(&self, text: &mut String, with_tasks: bool) {
        // A folder of tickets has one file for each.
        let is_folder = self.sources.len() > 3;
        for (number, source) in self.sources.iter().enumerate() {
            let tasks: Vec<&ImportedTask> =
                self.plan.tasks.iter().filter(|task| task.file == number).collect();
            if !is_folder || with_tasks {
                let name = visible(&source.name);
                wrapped(text, &format!("{name} ({}): {}", source.format, totals(&tasks)));
            }
            if with_tasks {
                write_tasks(text, &tasks);
            }
        }
        if is_folder {
            let all: Vec<&ImportedTask> = self.plan.tasks.iter().collect();
            wrapped(text, &format!("{}: {}", counted(self.sources.len(), "file"), totals(&all)));
        }
    }

    /// What the graph does not have as the source has it: each reason once, with its first place.
    fn write_losses(&self, text: &mut String) {
        for (is_kept, title) in [(true, "Kept in another form:"), (false, "Lost:")] {
            let mut groups: Vec<(usize, &Loss)> = Vec::new();
            let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
            for lost in self.plan.lost.iter().filter(|lost| lost.is_kept == is_kept) {
                let number = *numbers
                    .entry((lost.field.as_str(), lost.why.as_str()))
                    .or_insert(groups.len());
                match groups.get_mut(number) {
                    Some((count, _)) => *count += 1,
                    None => groups.push((1, lost)),
                }
            }
            let has_top = !is_kept && !self.is_new_graph && !self.plan.top.is_empty();
            if !groups.is_empty() || has_top {
                let _ = writeln!(text, "{title}");
            }
            for (count, Loss { source, at, field, why, .. }) in groups {
                let at = at.as_ref().map_or(String::new(), |at| format!("{at}, "));
                let times =
                    if count > 1 { format!("{count} times, first: ") } else { String::new() };
                let line = format!("{field}: {why} ({times}{at}{source})");
                wrapped(text, &format!("  {}", visible(&line)));
            }
            if has_top {
                let names: Vec<&str> =
                    self.plan.top.iter().map(|(name, _)| name.as_str()).collect();
                let (names, graph) = (names.join("`, `"), &self.graph);
                let why = format!("fields of the whole backlog; `{graph}` has its own top");
                wrapped(text, &format!("  `{}`: {why}", visible(&names)));
            }
        }
    }

    /// What changed in the sources of tasks that the graph has.
    fn write_changes(&self, text: &mut String) {
        if !self.changed.is_empty() {
            wrapped(text, "Differs in the source; the graph keeps its own:");
        }
        for ChangedField { id, field, value } in &self.changed {
            let value = match value {
                None => "none".to_owned(),
                Some(Value::String(word)) if *field == "status" => word.clone(),
                Some(Value::String(word)) if !word.contains('\n') => format!("`{word}`"),
                Some(Value::String(word)) => counted(word.lines().count(), "line"),
                Some(value) => value.to_string(),
            };
            let line = format!("  {id}: {field}: {}", visible(&value));
            let _ = writeln!(text, "{}", fit(&line, width()));
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

    /// What was done, or would be.
    fn write_result(&self, text: &mut String) {
        let new = self.plan.new_tasks();
        let is_command =
            |(name, _): &(String, Value)| ["verify", "agent", "prompt"].contains(&name.as_str());
        let commands = new.iter().filter(|task| task.fields.iter().any(is_command)).count();
        if commands > 0 {
            let tasks = counted(commands, "task");
            let have = if commands == 1 { "has" } else { "have" };
            let what = "`verify`, `agent` or `prompt` from the source: check these before a run.";
            wrapped(text, &format!("{tasks} {have} {what}"));
        }
        let added = counted(new.len(), "task");
        let done = match (self.dry_run, new.len()) {
            (_, 0) => "nothing new".to_owned(),
            (true, _) => format!("{added} would be added"),
            (false, _) => format!("{added} added"),
        };
        let known = match self.plan.tasks.len() - new.len() {
            0 => String::new(),
            1 => ", 1 is there already".to_owned(),
            old => format!(", {old} are there already"),
        };
        let instead = match self.replaced_examples {
            0 => String::new(),
            count => format!(" in place of the {} of `ralph init`", counted(count, "example")),
        };
        wrapped(text, &format!("{}: {done}{instead}{known}", self.graph));
    }
}

/// `5 tasks (3 pending, 2 complete), 4 dependencies`.
fn totals(tasks: &[&ImportedTask]) -> String {
    const ORDER: [Status; 6] = [
        Status::Pending,
        Status::InProgress,
        Status::Complete,
        Status::Blocked,
        Status::NeedsInput,
        Status::Cancelled,
    ];
    if tasks.is_empty() {
        return "no tasks".to_owned();
    }
    let of = |status: Status| tasks.iter().filter(|task| task.status == status).count();
    let statuses = ORDER.into_iter().filter(|status| of(*status) > 0);
    let statuses: Vec<String> = statuses.map(|status| format!("{} {status}", of(status))).collect();
    let dependencies: usize = tasks.iter().map(|task| task.dependencies().len()).sum();
    let noun = if dependencies == 1 { "dependency" } else { "dependencies" };
    let tasks = counted(tasks.len(), "task");
    format!("{tasks} ({}), {dependencies} {noun}", statuses.join(", "))
}

fn write_tasks(text: &mut String, tasks: &[&ImportedTask]) {
    // A longer id has a line of its own, so that the statuses stay in one column.
    let widest = (width() / 3).clamp(12, 24);
    let wide = tasks.iter().map(|task| columns(&task.id)).max().unwrap_or(0).min(widest);
    for task in tasks {
        let ImportedTask { id, is_new, status, .. } = *task;
        let title = task.get("title").and_then(Value::as_str).unwrap_or_default();
        let mark = if *is_new { " " } else { "=" };
        let is_long = columns(id) > wide;
        if is_long {
            let _ = writeln!(text, "{mark} {id}");
        }
        let (mark, id) = if is_long { (" ", "") } else { (mark, id.as_str()) };
        let line = format!("{mark} {id:wide$}  {status:11}  {}", visible(title));
        let _ = writeln!(text, "{}", fit(line.trim_end(), width()));
        if task.is_renamed {
            let line = format!("      `{}` in the source", visible(&task.key));
            let _ = writeln!(text, "{}", fit(&line, width()));
        }
        let waits = task.dependencies();
        if !waits.is_empty() {
            wrapped(text, &format!("      after {}", waits.join(", ")));
        }
    }
}

fn wrapped(text: &mut String, line: &str) {
    for line in terminal::wrap(line, width()) {
        let _ = writeln!(text, "{line}");
    }
}
