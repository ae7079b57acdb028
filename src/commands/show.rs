//! `ralph show`: a task with its place in the graph and its attempts, or an attempt.

use std::fs;

use anyhow::Result;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Invocation,
    attempts::{find, table, typed},
    logs::last_lines,
    status::{drawn, open_attempts},
    success, with_view,
};
use crate::{
    adapters::terminal::{self, visible, visible_lines},
    cli::ShowArgs,
    core::{
        agents::transcript::Usage,
        diagnostic::first_line,
        duration,
        event::{AttemptResult, record::Record},
        exit::{Exit, fail},
        graph::task::{Priority, TaskId},
        history::attempt_log::{self, AttemptEntry, AttemptLog, LogDetail},
        reviewer::ReviewFinding,
        spend::dollars,
        verdict::Autocommit,
    },
    project::{
        failure_output, landed_work,
        workspace::{self, Workspace, policy_for},
    },
    view::{
        attempt::{MessageView, PastAttemptDetails, PastAttemptView},
        lines::{continued, counted, full},
        log::JournalLog,
        page::{Markup, TextPage},
        task::{DependencyView, TaskDetails, TaskFacts},
    },
};

/// How many lines of the end of an output are shown.
const LINES: usize = 12;

/// The width of texts where there is no terminal.
const WIDTH: usize = 100;
/// How many tasks of each list are named.
const NAMED: usize = 15;

/// Shows a task with its newest attempt, or the named attempt.
///
/// # Errors
/// An unknown task or attempt; errors of the disk.
pub fn run(invocation: &Invocation, options: &ShowArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let name = match &options.id {
        Some(id) => Some(typed(&workspace, id)),
        None => workspace.attempt_log(LogDetail::Results)?.of(None).last().map(AttemptEntry::name),
    };
    let Some(name) = name else {
        return fail(Exit::Error, "no attempts yet; `ralph run` starts one");
    };
    let log = workspace.attempt_log(LogDetail::of_name(&name))?;
    if !is_task(&workspace, &log, &name)? {
        let attempt = attempt(&workspace, &log, &name)?;
        return success(&if options.json {
            terminal::json(&attempt)
        } else {
            attempt_page(&workspace, &attempt)
        });
    }
    let task = task(&workspace, &log, &name, Utc::now())?;
    if options.json {
        return success(&terminal::json(&task));
    }
    let mut page = task_page(&task);
    if !task.attempts.is_empty() {
        page += "\n";
        page += &attempt_page(&workspace, &attempt(&workspace, &log, &name)?);
    }
    success(&page)
}

/// Whether a name is that of a task of the graph, or may be a misspelled one.
fn is_task(workspace: &Workspace, log: &AttemptLog, name: &str) -> Result<bool> {
    if workspace.place.name().is_some() {
        return Ok(false);
    }
    match (workspace.graph(), TaskId::new(name)) {
        (Ok(file), Ok(id)) if file.graph().number(&id).is_some() => Ok(true),
        _ if log.find(name).is_some() || attempt_log::split(name).is_some() => Ok(false),
        (Err(error), _) => Err(error),
        _ => Ok(true),
    }
}

fn attempt_page(workspace: &Workspace, attempt: &PastAttemptDetails) -> String {
    let mut page = TextPage::new(Markup::Terminal(terminal::stdout_width()));
    write_attempt(&mut page, attempt, workspace.place.flag().as_str());
    drawn(&page.lines, None)
}

/// Reads a task, with its attempts in the log.
///
/// # Errors
/// An unknown task; an invalid graph; errors of the disk.
pub(super) fn task(
    workspace: &Workspace,
    log: &AttemptLog,
    typed: &str,
    now: DateTime<Utc>,
) -> Result<TaskDetails> {
    let (file, store) = (workspace.graph()?, workspace.event_store()?);
    let (id, number) = workspace::find(&file, typed)?;
    let history = store.history();
    let policy = policy_for(workspace, workspace.policy(), file.graph(), history)?;
    let facts = TaskFacts {
        file: file.name().to_owned(),
        line: file.line_of(number),
        verify: workspace.verify_of(file.graph().task(number)),
        live: workspace.is_live(history)?,
        open: open_attempts(workspace, history, now),
        attempts: log.of(Some(&id)).map(PastAttemptView::of).collect(),
        messages: log.messages(&id).filter_map(MessageView::of).collect(),
    };
    with_view(workspace, &file, history, &policy, |view| TaskDetails::of(view, number, facts, now))
}

/// The page of a task.
fn task_page(details: &TaskDetails) -> String {
    let width = terminal::stdout_width().unwrap_or(WIDTH);
    let TaskDetails { task, file, line, fields, verify, .. } = details;
    let mut page = TextPage::new(Markup::Terminal(Some(width)));
    page.field("Task", task.id.as_str());
    if task.title != task.id.as_str() {
        page.field("Title", &task.title);
    }
    page.field("State", &task.state_text(Utc::now()));
    page.field("Priority", &Priority(task.priority).to_string());
    page.field("Defined in", &format!("{file}:{line}"));
    for (name, value) in fields {
        let value = plain(value);
        if name != "description" && name != "status" && !visible(&value).is_empty() {
            page.field(name, &value);
        }
    }
    let origin = if details.own_verify || verify.is_empty() { "" } else { " (from the settings)" };
    page.list(&format!("Verify{origin}"), verify.iter().map(|it| first_line(it)));
    page.list("Depends on", neighbors(&details.depends_on));
    let heading = match details.unfinished_dependents {
        0 => "Dependents".to_owned(),
        count => format!("Dependents ({} unfinished, also through others)", counted(count, "task")),
    };
    page.list(&heading, neighbors(&details.dependents));
    if let Some(description) = fields.get("description").and_then(Value::as_str) {
        page.text(None, "Description:");
        for line in visible_lines(description).lines() {
            page.text(None, format!("  {line}").trim_end());
        }
    }
    attempts(&mut page, details, width);
    drawn(&page.lines, None)
}

/// The table of attempts, with messages between them.
fn attempts(page: &mut TextPage, details: &TaskDetails, width: usize) {
    let TaskDetails { attempts, messages, .. } = details;
    match (attempts.len(), messages.len()) {
        (0, 0) => return,
        (0, _) => page.text(None, "Messages:"),
        _ => page.text(None, "Attempts:"),
    }
    let table = table(attempts.iter().cloned());
    let mut table = table.lines().map(|line| terminal::fit(line, width.saturating_sub(2)));
    let heading = table.next().filter(|_| !attempts.is_empty());
    if let Some(line) = heading {
        page.text(None, &format!("  {line}"));
    }
    let mut messages = messages.iter().peekable();
    let starts = attempts.iter().map(|attempt| Some(attempt.started_at)).chain([None]);
    for start in starts {
        while let Some(message) =
            messages.next_if(|message| start.is_none_or(|start| message.at < start))
        {
            page.text(None, &format!("    {}", message.line()));
        }
        if let Some(line) = table.next() {
            page.text(None, &format!("  {line}"));
        }
    }
}

/// The tasks next to it, each with its state.
fn neighbors(tasks: &[DependencyView]) -> Vec<String> {
    let shown = tasks.iter().take(NAMED).map(|task| format!("{} ({})", task.id, task.state.word()));
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

/// Reads an attempt of the log, named like `a.2`.
///
/// # Errors
/// An unknown attempt; errors of the disk.
pub(super) fn attempt(
    workspace: &Workspace,
    log: &AttemptLog,
    name: &str,
) -> Result<PastAttemptDetails> {
    let entry = find(workspace, log, name)?;
    let mut attempt = PastAttemptView::of(entry);
    landed_work::note_arrival(&workspace.repo, attempt.end.as_mut())?;
    let logs = workspace.log_folder();
    let file = |name: &str| logs.path(&format!("{}/{name}", entry.log));
    Ok(PastAttemptDetails {
        attempt,
        changes: log.changes(entry).cloned().collect(),
        messages: messages(log, entry),
        files: files(workspace, entry),
        errors: file("stderr")
            .map_or_else(Vec::new, |path| failure_output::last_words(&path, LINES)),
        output: file("stdout").map_or_else(Vec::new, |path| last_lines(&path, entry.format, LINES)),
        verify_output: verify_output(workspace, entry),
    })
}

/// Writes an attempt; `flag` selects its loop.
fn write_attempt(page: &mut TextPage, details: &PastAttemptDetails, flag: &str) {
    let PastAttemptDetails { attempt, changes, messages, files, errors, output, verify_output } =
        details;
    page.field("Attempt", &format!("{} at {}", attempt.attempt, attempt.task_id));
    page.field("Run", &attempt.run_id);
    let said = |is_in: &dyn Fn(DateTime<Utc>) -> bool| {
        messages.iter().filter(|it| is_in(it.at)).map(MessageView::line).collect::<Vec<_>>()
    };
    page.list("Before it", said(&|at| at < attempt.started_at));
    page.field("Began", &full(attempt.started_at));
    if let Some(name) = &attempt.runs_on {
        page.field("Runs on", name);
    }
    page.field("Base", attempt.base.as_deref().unwrap_or("no commit"));
    match (&attempt.end, attempt.ended_at) {
        (Some(end), Some(at)) => write_end(page, &format!("{flag} {}", attempt.name()), at, end),
        _ => page.field("Ended", "not yet, or its end was not recorded"),
    }
    if let Some(proof) = &attempt.proof {
        page.field("Proof", &proof.text);
        page.list("Controls", proof.controls.iter().map(|control| control.text.clone()));
    }
    let mut log = JournalLog::default();
    page.list("Meanwhile", changes.iter().filter_map(|record| change(&mut log, record)));
    let is_after = |at| attempt.ended_at.is_some_and(|ended| ended < at);
    page.list("After it", said(&is_after));
    let none = if files.is_empty() { " (gone)" } else { "" };
    page.field("Files", &format!("{}/{none}", attempt.log));
    for (name, size) in files {
        page.text(None, &format!("  {name} ({size} bytes)"));
    }
    page.list("The end of its standard error", errors);
    page.list("The end of its output", output);
    page.list("From the output of the failed verify command", verify_output);
}

fn write_end(page: &mut TextPage, name: &str, at: DateTime<Utc>, ended: &AttemptResult) {
    let evidence = &ended.evidence;
    page.field("Ended", &format!("{}, after {}", full(at), duration::short(ended.duration())));
    page.field("Verdict", &format!("{}: {}", ended.verdict, ended.why));
    page.field("Process", &ended.outcome.to_string());
    if let Some(agent) = &ended.agent {
        page.field("Agent", &used(agent, &ended.usage));
    }
    if !ended.continued.is_empty() {
        page.field("Continued", &continued(&ended.continued));
    }
    page.list("Tools", ended.tools.iter().map(|(name, count)| format!("{name} {count}")));
    if let Some(until) = evidence.obstacle.and_then(|met| met.until) {
        page.field("Rate-limited until", &full(until));
    }
    page.list("Verified", evidence.verify.iter().map(|it| format!("{it}, {}", it.log)));
    page.list("Left running", &ended.swept);
    page.list("Locks removed", &ended.unlocked);
    if let Some(diff) = evidence.diff.filter(|_| !evidence.commits.is_empty()) {
        let more =
            if evidence.has_landed() { format!("; `ralph diff{name}`") } else { String::new() };
        page.field("Changed", &format!("{diff}{more}"));
    }
    let commits = evidence.commits.iter();
    page.list("Commits", commits.map(|it| format!("{} {}", it.short(), it.subject)));
    match &evidence.autocommit {
        Some(Autocommit::Committed(id)) => {
            page.field("Committed by ralph", id.get(..7).unwrap_or(id));
        }
        Some(Autocommit::Refused(why)) => page.field("Not committed", why),
        Some(Autocommit::Off) => page.field("Not committed", "`autocommit` is off"),
        None => {}
    }
    page.list("Left uncommitted", &evidence.leftovers);
    page.list("Missing", &evidence.missing);
    page.list("Git's hooks or settings that changed", &evidence.tampered);
    page.list("Tried, although only its commits leave the slot", &evidence.tried);
    let pulled = evidence.pulled.iter().map(|it| format!("{} {}", it.short(), it.subject));
    page.list("Commits of others that it pulled", pulled);
    page.list("Changed although it decides what is checked", &evidence.verify_inputs_changed);
    page.list("Changed tests that existed", &evidence.tests_changed);
    page.list("Takes back the landed work of", &evidence.takes_back);
    if let Some(review) = &evidence.review {
        page.field("Review", &review.to_string());
        page.list("Findings", review.findings.iter().map(ReviewFinding::line));
    }
    if let Some(pinned) = &ended.pinned {
        let restore = format!("`ralph restore{name}` makes a branch of it");
        page.field("Kept", &format!("{pinned}; {restore}"));
    }
    page.list("Not kept", &ended.unpinned);
}

/// An agent and its reported usage.
fn used(agent: &str, usage: &Usage) -> String {
    let tokens = usage.tokens.map(|tokens| {
        let (sent, cached, written) = (tokens.sent(), tokens.cache_read, tokens.output);
        format!("{sent} tokens sent, {cached} cached, {written} written")
    });
    let parts = [
        Some(agent.to_owned()),
        usage.model.clone(),
        usage.turns.map(|turns| counted(turns as usize, "turn")),
        tokens,
        Some(usage.cost_usd.map_or("cost unknown".to_owned(), dollars)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A change during an attempt in the words of `ralph logs`, with its time.
fn change(log: &mut JournalLog, record: &Record) -> Option<String> {
    let said = log.line(record)?;
    Some(format!("{} {}", full(record.timestamp), said.text.trim_start()))
}

/// The messages about an attempt's task, after the previous attempt and before the next.
fn messages(log: &AttemptLog, entry: &AttemptEntry) -> Vec<MessageView> {
    let others = || log.of(Some(&entry.task_id));
    let ends = others().filter_map(|it| Some((it.attempt, it.ended.as_ref()?.0)));
    let from = ends.filter(|(attempt, _)| *attempt < entry.attempt).map(|(_, at)| at).max();
    let next = others().find(|it| it.attempt > entry.attempt).map(|it| it.started_at);
    let all = log.messages(&entry.task_id).filter_map(MessageView::of);
    let is_near = |it: &MessageView| {
        from.is_none_or(|from| from < it.at) && next.is_none_or(|next| it.at < next)
    };
    all.filter(is_near).collect()
}

/// The part of the output of the verify command that failed that says why, if one did.
fn verify_output(workspace: &Workspace, entry: &AttemptEntry) -> Vec<String> {
    let ended = entry.ended.as_ref();
    let red = ended.and_then(|(_, ended)| ended.evidence.verify.iter().find(|it| !it.is_green()));
    let log = red.and_then(|check| workspace.log_folder().path(&check.log));
    log.map_or_else(Vec::new, |log| failure_output::excerpt(&log, LINES))
}

/// The files of an attempt with their sizes in bytes, by name.
pub(super) fn files(workspace: &Workspace, entry: &AttemptEntry) -> Vec<(String, u64)> {
    let folder = workspace.log_folder().path(&entry.log);
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().flatten();
    let mut files: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            // Of the link itself: its target is not a file of the attempt.
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.file_name().to_string_lossy().into_owned(), found.len()))
        })
        .collect();
    files.sort();
    files
}
