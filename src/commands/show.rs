//! `ralph show`: a task with its place in the graph and its attempts, or an attempt.

use std::{fmt::Write as _, fs};

use anyhow::Result;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{
    Invocation,
    attempts::{find, table, typed},
    logs::last_lines,
    status::open_attempts,
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

/// Whether a name is that of a task of the graph, or may be one that is misspelt.
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
    TextPage::new(terminal::stdout_width()).attempt(attempt, workspace.place.flag().as_str())
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
    let mut page = TextPage::new(Some(width));
    page.line("Task", task.id.as_str());
    if task.title != task.id.as_str() {
        page.line("Title", &task.title);
    }
    page.line("State", &task.state_text(Utc::now()));
    page.line("Priority", &Priority(task.priority).to_string());
    page.line("Defined in", &format!("{file}:{line}"));
    for (name, value) in fields {
        let value = plain(value);
        if name != "description" && name != "status" && !visible(&value).is_empty() {
            page.line(name, &value);
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
    let mut page = page.text;
    if let Some(description) = fields.get("description").and_then(Value::as_str) {
        let text = visible_lines(description);
        let wrapped = |line: &str| {
            let lines = terminal::wrap(line, width.saturating_sub(2)).into_iter().enumerate();
            lines.map(|(at, line)| if at == 0 { line } else { line.trim_start().to_owned() })
        };
        page += "Description:\n";
        for line in text.lines().flat_map(|line| wrapped(line).collect::<Vec<_>>()) {
            let _ = writeln!(page, "{}", format!("  {line}").trim_end());
        }
    }
    page + &attempts(details, width)
}

/// The table of attempts, with what was said between them.
fn attempts(details: &TaskDetails, width: usize) -> String {
    let TaskDetails { attempts, messages, .. } = details;
    let mut text = match (attempts.len(), messages.len()) {
        (0, 0) => return String::new(),
        (0, _) => "Messages:\n".to_owned(),
        _ => "Attempts:\n".to_owned(),
    };
    let table = table(attempts.iter().cloned());
    let mut table = table.lines().map(|line| terminal::fit(line, width.saturating_sub(2)));
    let heading = table.next().filter(|_| !attempts.is_empty());
    let _ = heading.map(|line| writeln!(text, "  {line}"));
    let mut messages = messages.iter().peekable();
    let starts = attempts.iter().map(|attempt| Some(attempt.started_at)).chain([None]);
    for start in starts {
        while let Some(message) =
            messages.next_if(|message| start.is_none_or(|start| message.at < start))
        {
            for line in terminal::wrap(&format!("    {}", visible(&message.line())), width) {
                let _ = writeln!(text, "{line}");
            }
        }
        let _ = table.next().map(|line| writeln!(text, "  {line}"));
    }
    text
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

/// Labelled lines.
struct TextPage {
    text: String,
    /// The columns of the terminal, if there is one.
    width: Option<usize>,
}

impl TextPage {
    fn new(width: Option<usize>) -> TextPage {
        TextPage { text: String::new(), width }
    }

    fn line(&mut self, key: &str, value: &str) {
        self.put("", &format!("{key}: {}", visible(value)));
    }

    fn items(&mut self, items: impl Iterator<Item = String>) {
        for item in items {
            self.put("  ", &visible(&item));
        }
    }

    /// Writes a text, broken at the width of the terminal.
    fn put(&mut self, indent: &str, text: &str) {
        let width = self.width.unwrap_or(usize::MAX);
        for part in terminal::wrap(&format!("{indent}{text}"), width) {
            let _ = writeln!(self.text, "{part}");
        }
    }

    /// A heading with its items; nothing where there are none.
    fn list<T: ToString>(&mut self, heading: &str, items: impl IntoIterator<Item = T>) {
        let mut items = items.into_iter().map(|item| item.to_string()).peekable();
        if items.peek().is_some() {
            let _ = writeln!(self.text, "{heading}:");
            self.items(items);
        }
    }

    fn attempt(mut self, details: &PastAttemptDetails, flag: &str) -> String {
        let PastAttemptDetails { attempt, changes, messages, files, errors, output, verify_output } =
            details;
        self.line("Attempt", &format!("{} at {}", attempt.attempt, attempt.task_id));
        self.line("Run", &attempt.run_id);
        let said = |is_in: &dyn Fn(DateTime<Utc>) -> bool| {
            messages.iter().filter(|it| is_in(it.at)).map(MessageView::line).collect::<Vec<_>>()
        };
        self.list("Before it", said(&|at| at < attempt.started_at));
        self.line("Began", &full(attempt.started_at));
        if let Some(name) = &attempt.runs_on {
            self.line("Runs on", name);
        }
        self.line("Base", attempt.base.as_deref().unwrap_or("no commit"));
        match (&attempt.end, attempt.ended_at) {
            (Some(end), Some(at)) => self.end(&format!("{flag} {}", attempt.name()), at, end),
            _ => self.line("Ended", "not yet, or its end was not recorded"),
        }
        if let Some(proof) = &attempt.proof {
            self.line("Proof", &proof.text);
            self.list("Controls", proof.controls.iter().map(|control| control.text.clone()));
        }
        let mut log = JournalLog::default();
        self.list("Meanwhile", changes.iter().filter_map(|record| change(&mut log, record)));
        let is_after = |at| attempt.ended_at.is_some_and(|ended| ended < at);
        self.list("After it", said(&is_after));
        let none = if files.is_empty() { " (gone)" } else { "" };
        self.line("Files", &format!("{}/{none}", attempt.log));
        self.items(files.iter().map(|(name, size)| format!("{name} ({size} bytes)")));
        self.list("The end of its standard error", errors);
        self.list("The end of its output", output);
        self.list("From the output of the failed verify command", verify_output);
        self.text
    }

    fn end(&mut self, name: &str, at: DateTime<Utc>, ended: &AttemptResult) {
        let evidence = &ended.evidence;
        self.line("Ended", &format!("{}, after {}", full(at), duration::short(ended.duration())));
        self.line("Verdict", &format!("{}: {}", ended.verdict, ended.why));
        self.line("Process", &ended.outcome.to_string());
        if let Some(agent) = &ended.agent {
            self.line("Agent", &used(agent, &ended.usage));
        }
        if !ended.continued.is_empty() {
            self.line("Continued", &continued(&ended.continued));
        }
        self.list("Tools", ended.tools.iter().map(|(name, count)| format!("{name} {count}")));
        if let Some(until) = evidence.obstacle.and_then(|met| met.until) {
            self.line("Rate-limited until", &full(until));
        }
        self.list("Verified", evidence.verify.iter().map(|it| format!("{it}, {}", it.log)));
        self.list("Left running", &ended.swept);
        self.list("Locks removed", &ended.unlocked);
        if let Some(diff) = evidence.diff.filter(|_| !evidence.commits.is_empty()) {
            let more =
                if evidence.has_landed() { format!("; `ralph diff{name}`") } else { String::new() };
            self.line("Changed", &format!("{diff}{more}"));
        }
        let commits = evidence.commits.iter();
        self.list("Commits", commits.map(|it| format!("{} {}", it.short(), it.subject)));
        match &evidence.autocommit {
            Some(Autocommit::Committed(id)) => {
                self.line("Committed by ralph", id.get(..7).unwrap_or(id));
            }
            Some(Autocommit::Refused(why)) => self.line("Not committed", why),
            Some(Autocommit::Off) => self.line("Not committed", "`autocommit` is off"),
            None => {}
        }
        self.list("Left uncommitted", &evidence.leftovers);
        self.list("Missing", &evidence.missing);
        self.list("Git's hooks or settings that changed", &evidence.tampered);
        self.list("Tried to push, which the slot refused", &evidence.pushes);
        self.list("Changed although it decides what is checked", &evidence.verify_inputs_changed);
        self.list("Changed tests that existed", &evidence.tests_changed);
        self.list("Takes back the landed work of", &evidence.takes_back);
        if let Some(review) = &evidence.review {
            self.line("Review", &review.to_string());
            self.list("Findings", review.findings.iter().map(ReviewFinding::line));
        }
        if let Some(pinned) = &ended.pinned {
            let restore = format!("`ralph restore{name}` makes a branch of it");
            self.line("Kept", &format!("{pinned}; {restore}"));
        }
        self.list("Not kept", &ended.unpinned);
    }
}

/// An agent and what it used, as far as it said.
fn used(agent: &str, usage: &Usage) -> String {
    let tokens = usage.tokens.map(|tokens| {
        let sent = tokens.input + tokens.cache_write;
        let (cached, written) = (tokens.cache_read, tokens.output);
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

/// What was said about the task of an attempt after the one before, and before the next one.
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
            // Of the link itself: what it leads to is not a file of the attempt.
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.file_name().to_string_lossy().into_owned(), found.len()))
        })
        .collect();
    files.sort();
    files
}
