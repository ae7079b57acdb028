//! What an import says: the tasks, and what is not kept as the source has it.

use std::{collections::HashMap, fmt::Write as _};

use serde_json::Value;

use crate::{
    adapters::terminal::{self, columns, fit, visible},
    core::{
        graph::task::Status,
        import::{
            LostField,
            plan::{ImportPlan, ImportedTask},
            refresh::{FieldOutcome, RefreshedField},
        },
    },
    project::import::{RefreshReport, SkippedFile, SourceText},
    view::lines::counted,
};

/// The width of the text.
fn width() -> usize {
    terminal::stdout_width().unwrap_or(100)
}

/// The tasks of each source.
pub(super) fn sources(texts: &[SourceText], plan: &ImportPlan, with_tasks: bool) -> String {
    let mut text = String::new();
    for (number, source) in texts.iter().enumerate() {
        let tasks: Vec<&ImportedTask> =
            plan.tasks.iter().filter(|task| task.file == number).collect();
        // A folder of tickets has one file for each.
        if texts.len() > 3 && !with_tasks {
            continue;
        }
        let name = visible(&source.name);
        wrapped(&mut text, &format!("{name} ({}): {}", source.format, totals(&tasks)));
        if with_tasks {
            list(&mut text, &tasks);
        }
    }
    if texts.len() > 3 {
        let all: Vec<&ImportedTask> = plan.tasks.iter().collect();
        wrapped(&mut text, &format!("{}: {}", counted(texts.len(), "file"), totals(&all)));
    }
    text
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
    let of = |status: Status| tasks.iter().filter(|task| task.status() == status).count();
    let statuses: Vec<String> = ORDER
        .into_iter()
        .filter(|status| of(*status) > 0)
        .map(|status| format!("{} {status}", of(status)))
        .collect();
    let dependencies: usize = tasks.iter().map(|task| task.dependencies().len()).sum();
    let noun = if dependencies == 1 { "dependency" } else { "dependencies" };
    let statuses = statuses.join(", ");
    let statuses = if statuses.is_empty() { statuses } else { format!(" ({statuses})") };
    format!("{}{statuses}, {dependencies} {noun}", counted(tasks.len(), "task"))
}

fn list(text: &mut String, tasks: &[&ImportedTask]) {
    // A longer id has a line of its own, so that the statuses stay in one column.
    let widest = (width() / 3).clamp(12, 24);
    let wide = tasks.iter().map(|task| columns(&task.id)).max().unwrap_or(0).min(widest);
    for task in tasks {
        let status = task.status();
        let title = task.get("title").and_then(Value::as_str).unwrap_or_default();
        let mark = if task.is_new { " " } else { "=" };
        let is_long = columns(&task.id) > wide;
        if is_long {
            let _ = writeln!(text, "{mark} {}", task.id);
        }
        let (mark, id) = if is_long { (" ", "") } else { (mark, task.id.as_str()) };
        let line = format!("{mark} {id:wide$}  {status:11}  {}", visible(title));
        let _ = writeln!(text, "{}", fit(line.trim_end(), width()));
        if task.is_renamed {
            let name = visible(&task.key).into_owned();
            let _ = writeln!(text, "{}", fit(&format!("      `{name}` in the source"), width()));
        }
        let waits = task.dependencies();
        if !waits.is_empty() {
            wrapped(text, &format!("      after {}", waits.join(", ")));
        }
    }
}

/// What the graph does not have as the source has it: each reason once, with its first place.
pub(super) fn losses(
    texts: &[SourceText],
    plan: &ImportPlan,
    is_fresh: bool,
    graph: &str,
) -> String {
    let mut text = String::new();
    let lines: Vec<Vec<usize>> = texts.iter().map(|source| breaks(&source.text)).collect();
    for (is_kept, title) in [(true, "Kept in another form:"), (false, "Lost:")] {
        let mut order: Vec<(&str, &str)> = Vec::new();
        let mut groups: HashMap<(&str, &str), (usize, usize, &LostField)> = HashMap::new();
        for (file, lost) in plan.lost.iter().filter(|(_, lost)| lost.is_kept == is_kept) {
            let key = (lost.field.as_str(), lost.why.as_str());
            if let Some((count, _, _)) = groups.get_mut(&key) {
                *count += 1;
            } else {
                order.push(key);
                groups.insert(key, (1, *file, lost));
            }
        }
        let has_top = !is_kept && !is_fresh && !plan.top.is_empty();
        if order.is_empty() && !has_top {
            continue;
        }
        let _ = writeln!(text, "{title}");
        for key in order {
            let (count, file, lost) = groups[&key];
            let place = place(&texts[file], &lines[file], lost.at.start);
            let of = lost.task.as_ref().map(|task| format!("`{}`, ", visible(task)));
            let of = of.unwrap_or_default();
            let count = if count == 1 {
                format!("{of}{place}")
            } else {
                format!("{count} times, first: {of}{place}")
            };
            wrapped(&mut text, &format!("  {}: {} ({count})", visible(key.0), visible(key.1)));
        }
        if has_top {
            let names: Vec<&str> = plan.top.iter().map(|(name, _)| name.as_str()).collect();
            let names = visible(&names.join("`, `")).into_owned();
            wrapped(
                &mut text,
                &format!("  `{names}`: fields of the whole backlog; `{graph}` has its own top"),
            );
        }
    }
    text
}

/// The offsets of all line breaks.
pub(super) fn breaks(text: &str) -> Vec<usize> {
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect()
}

/// `prd.json:12:5`.
pub(super) fn place(source: &SourceText, breaks: &[usize], at: usize) -> String {
    let line = breaks.partition_point(|end| *end < at);
    let start = if line == 0 { 0 } else { breaks[line - 1] + 1 };
    let column = source.text.get(start..at).map_or(0, |text| text.chars().count());
    format!("{}:{}:{}", visible(&source.name), line + 1, column + 1)
}

/// The new value of a field; the number of changed lines of a long text.
fn shown(change: &RefreshedField) -> String {
    let lines = |value: &Option<Value>| {
        let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let Some(value) = &change.value else { return "removed".to_owned() };
    let (old, new) = (lines(&change.before), lines(&change.value));
    if new.len() < 2 && old.len() < 2 {
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return format!("now `{}`", visible(&word));
    }
    let (added, removed) = changed_lines(&old, &new);
    let count = counted(new.len(), "line");
    format!("changed: {added} added and {removed} removed, {count} now")
}

/// The numbers of lines that only the new text and only the old text has.
fn changed_lines(old: &[String], new: &[String]) -> (usize, usize) {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    for line in new {
        *counts.entry(line).or_default() += 1;
    }
    for line in old {
        *counts.entry(line).or_default() -= 1;
    }
    let sum = |is_new: bool| -> usize {
        let counts = counts.values().filter(|count| (**count > 0) == is_new);
        counts.map(|count| usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)).sum()
    };
    (sum(true), sum(false))
}

/// What changed in the source since the last import.
pub(super) fn refreshed(report: &RefreshReport) -> String {
    let mut text = String::new();
    for (outcome, title) in [
        (FieldOutcome::Taken, "Changed in the source:"),
        (FieldOutcome::ChangedInGraph, "Changed on both sides; the graph keeps its value:"),
        (
            FieldOutcome::KeptComplete,
            "Open again in the source, but complete in the graph, where it stays complete \
             (`ralph task-reset ID` opens it again):",
        ),
        (
            FieldOutcome::NoPlace,
            "Changed in the source, but the layout of the graph file allows no change here:",
        ),
    ] {
        let changes: Vec<&RefreshedField> =
            report.changes.iter().filter(|change| change.outcome == outcome).collect();
        if !changes.is_empty() {
            wrapped(&mut text, title);
        }
        for change in changes {
            let field = visible(&change.field);
            let line = match outcome {
                FieldOutcome::KeptComplete => format!("  {}", change.id),
                // It is done, whatever its new text asks for.
                _ if change.of_complete => {
                    format!("  {} (complete): {field} {}", change.id, shown(change))
                }
                _ => format!("  {}: {field} {}", change.id, shown(change)),
            };
            let _ = writeln!(text, "{}", fit(&line, width()));
        }
    }
    if !report.gone.is_empty() {
        let ids = report.gone.join(", ");
        wrapped(&mut text, &format!("No longer in the source, kept in the graph: {ids}"));
    }
    if report.unknown > 0 {
        let tasks = counted(report.unknown, "task");
        wrapped(
            &mut text,
            &format!("{tasks} were imported elsewhere: their changes are taken over from now on"),
        );
    }
    text
}

/// The files of a folder that are not read.
pub(super) fn skipped(files: &[SkippedFile]) -> String {
    /// The number of files that are named.
    const SHOWN: usize = 10;
    let mut text = String::new();
    if !files.is_empty() {
        let _ = writeln!(text, "Not read:");
    }
    for file in files.iter().take(SHOWN) {
        wrapped(&mut text, &format!("  {}: {}", visible(&file.name), visible(&file.why)));
    }
    if let Some(more) = files.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}

/// What was done, or would be. The new tasks replace so many examples of `ralph init`.
pub(super) fn result(plan: &ImportPlan, graph: &str, is_dry: bool, examples: usize) -> String {
    let mut text = String::new();
    let new = plan.tasks.iter().filter(|task| task.is_new).count();
    let old = plan.tasks.len() - new;
    let commands = plan
        .tasks
        .iter()
        .filter(|task| task.is_new)
        .filter(|task| ["verify", "agent", "prompt"].iter().any(|name| task.get(name).is_some()))
        .count();
    if commands > 0 {
        wrapped(
            &mut text,
            &format!(
                "{} {} `verify`, `agent` or `prompt` from the source: check these before a run.",
                counted(commands, "task"),
                if commands == 1 { "has" } else { "have" },
            ),
        );
    }
    let done = match (is_dry, new) {
        (_, 0) => "nothing new".to_owned(),
        (true, _) => format!("{} would be added", counted(new, "task")),
        (false, _) => format!("{} added", counted(new, "task")),
    };
    let known = match old {
        0 => String::new(),
        1 => ", 1 is there already".to_owned(),
        old => format!(", {old} are there already"),
    };
    let instead = match examples {
        0 => String::new(),
        count => format!(" in place of the {} of `ralph init`", counted(count, "example")),
    };
    wrapped(&mut text, &format!("{graph}: {done}{instead}{known}"));
    text
}

fn wrapped(text: &mut String, line: &str) {
    for line in terminal::wrap(line, width()) {
        let _ = writeln!(text, "{line}");
    }
}
