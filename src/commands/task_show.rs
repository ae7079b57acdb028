//! `ralph task-show`: a task, its place in the graph and its attempts.

use std::fmt::Write as _;

use anyhow::Result;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Invocation, attempts::rows, dag_status::note, status::open_attempts as attempt_views, with_view,
};
use crate::{
    adapters::terminal::{self, visible, visible_lines},
    cli::TaskShowArgs,
    core::{exit::Exit, graph::task::Priority, history::attempt_log::AttemptLog},
    project::workspace::{Workspace, find},
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
    let workspace = invocation.workspace()?;
    let details = details(&workspace, &workspace.attempt_log()?, &options.id, Utc::now())?;
    terminal::print(&if options.json { terminal::json(&details) } else { text(&details) })?;
    Ok(Exit::Success)
}

/// Reads a task, with its attempts in the log.
///
/// # Errors
/// An unknown task; an invalid graph; errors of the disk.
pub(super) fn details(
    workspace: &Workspace,
    log: &AttemptLog,
    typed: &str,
    now: DateTime<Utc>,
) -> Result<TaskDetails> {
    let (file, store) = (workspace.graph()?, workspace.event_store()?);
    let (id, number) = find(&file, typed)?;
    let (history, policy) = (store.history(), workspace.policy());
    let facts = TaskFacts {
        file: file.name().to_owned(),
        line: file.line_of(number),
        verify: workspace.verify_of(file.graph().task(number)),
        live: workspace.is_live(history)?,
        open: attempt_views(workspace, history, now),
        attempts: log.of(Some(&id)).map(PastAttemptView::of).collect(),
    };
    with_view(workspace, &file, history, &policy, |view| TaskDetails::of(view, number, facts, now))
}

/// The page for people.
fn text(details: &TaskDetails) -> String {
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
    let origin = if details.own_verify || verify.is_empty() { "" } else { " (from the settings)" };
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
