//! `ralph task-show`: a task, its place in the graph and its attempts.

use std::fmt::Write as _;

use anyhow::Result;
use chrono::Utc;
use serde_json::Value;

use super::{
    Invocation,
    attempts::rows,
    dag_status::note,
    status::open_attempts as attempt_views,
    task_editor::{TaskEditor, line_of},
    with_view,
};
use crate::{
    adapters::terminal::{self, visible, visible_lines},
    cli::TaskShowArgs,
    core::{exit::Exit, graph::task::Priority},
    project::workspace::find,
    view::{
        lines::counted,
        past_attempt::PastAttemptView,
        task::DependencyView,
        task_details::{TaskDetails, TaskFacts},
    },
};

/// The width of texts where there is no terminal.
const WIDTH: usize = 100;
/// How many tasks of each list are named.
const NAMED: usize = 15;

/// Shows a task.
///
/// # Errors
/// An unknown task; errors of the disk.
pub fn run(invocation: &Invocation, options: &TaskShowArgs) -> Result<Exit> {
    let editor = TaskEditor::open(invocation)?;
    let (id, number) = find(&editor.file, &options.id)?;
    let (history, policy, now) = (editor.store.history(), editor.workspace.policy(), Utc::now());
    let log = editor.workspace.attempt_log()?;
    let facts = TaskFacts {
        file: editor.file.name().to_owned(),
        line: line_of(&editor.file, number),
        verify: editor.workspace.verify_of(editor.file.graph().task(number)),
        live: editor.workspace.is_live(history)?,
        open: attempt_views(&editor.workspace, history, now),
        attempts: log.of(Some(&id)).map(PastAttemptView::of).collect(),
    };
    let own_verify = editor.file.graph().task(number).verify.is_some();
    let details = with_view(&editor.workspace, &editor.file, history, &policy, |view| {
        TaskDetails::of(view, number, facts, now)
    })?;
    terminal::print(&if options.json {
        terminal::json(&details)
    } else {
        text(&details, own_verify)
    })?;
    Ok(Exit::Success)
}

/// The page for people.
fn text(details: &TaskDetails, own_verify: bool) -> String {
    let width = terminal::stdout_width().unwrap_or(WIDTH);
    let TaskDetails { task, file, line, fields, verify, .. } = details;
    let mut page = String::new();
    let mut say = |text: &str| {
        let _ = writeln!(page, "{text}");
    };
    let mut labeled = |key: &str, value: &str| {
        let value = visible(value);
        if value.is_empty() {
            return;
        }
        let lines = terminal::wrap(&format!("{key}: {value}"), width);
        for (at, line) in lines.iter().enumerate() {
            say(&if at == 0 { line.clone() } else { format!("  {}", line.trim_start()) });
        }
    };
    labeled("Task", task.id.as_str());
    if task.title != task.id.as_str() {
        labeled("Title", &task.title);
    }
    let note = note(task, Utc::now());
    let word = task.status_word();
    let is_said = note.is_empty() || note.starts_with(word) || word == "ready";
    labeled(
        "State",
        &if is_said && !note.starts_with(word) {
            word.to_owned()
        } else if is_said {
            note
        } else {
            format!("{word}: {note}")
        },
    );
    labeled("Priority", &Priority(task.priority).to_string());
    labeled("Defined in", &format!("{file}:{line}"));
    for (name, value) in fields {
        if name != "description" && name != "status" {
            labeled(name, &plain(value));
        }
    }
    let origin = if own_verify || verify.is_empty() { "" } else { " (from the settings)" };
    let mut listed = |heading: &str, items: Vec<String>| {
        if !items.is_empty() {
            let _ = writeln!(page, "{heading}:");
        }
        for item in items {
            let _ = writeln!(page, "{}", format!("  {item}").trim_end());
        }
    };
    listed(
        &format!("Verify{origin}"),
        verify.iter().map(|one| visible(one).into_owned()).collect(),
    );
    listed("Depends on", neighbors(&details.depends_on));
    let heading = match details.unfinished_dependents {
        0 => "Dependents".to_owned(),
        count => format!("Dependents ({} unfinished, also through others)", counted(count, "task")),
    };
    listed(&heading, neighbors(&details.dependents));
    if let Some(description) = fields.get("description").and_then(Value::as_str) {
        let text = visible_lines(description);
        let wrapped = |line: &str| {
            let lines = terminal::wrap(line, width.saturating_sub(2)).into_iter().enumerate();
            lines.map(|(at, line)| if at == 0 { line } else { line.trim_start().to_owned() })
        };
        let lines = text.lines().flat_map(|line| wrapped(line).collect::<Vec<_>>());
        listed("Description", lines.collect());
    }
    if !details.attempts.is_empty() {
        let _ = writeln!(page, "Attempts (`ralph show {}` shows the newest):", task.id);
        for line in terminal::table(&rows(&details.attempts)).lines() {
            let _ = writeln!(page, "  {}", terminal::fit(line, width.saturating_sub(2)));
        }
    }
    page
}

/// The tasks next to it, each with its state.
fn neighbors(tasks: &[DependencyView]) -> Vec<String> {
    let shown = tasks.iter().take(NAMED).map(|task| format!("{} ({})", task.id, task.state));
    let more = tasks.len().saturating_sub(NAMED);
    shown.chain((more > 0).then(|| format!("… and {more} more"))).collect()
}

/// A value of the graph file on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Array(items) if items.iter().all(|item| item.is_string() || item.is_number()) => {
            items.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            value.to_string()
        }
    }
}
