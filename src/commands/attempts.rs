//! `ralph attempts`, `show` and `restore`: what was tried, how it went, and the work that is kept.

use std::{fmt::Write as _, fs};

use anyhow::Result;
use chrono::{DateTime, Utc};

use super::{Invocation, logs::last_lines, success};
use crate::{
    adapters::terminal::{self, visible},
    cli::{AttemptsArgs, RestoreArgs, ShowArgs},
    core::{
        agents::transcript::Usage,
        diagnostic::nearest_or,
        duration,
        event::{AttemptResult, record::Record},
        exit::{Exit, Failure, fail},
        history::attempt_log::{self, AttemptEntry, AttemptLog, LogDetail},
        reviewer::ReviewFinding,
        spend::dollars,
        verdict::{Autocommit, Verdict},
    },
    project::{attempt::leftovers::pin_name, failure_output, landed_work, workspace::Workspace},
    view::{
        attempt::{MessageView, PastAttemptDetails, PastAttemptView},
        lines::{continued, counted, full},
        log::JournalLog,
    },
};

/// How many lines of the end of an output are shown.
const LINES: usize = 12;

/// Lists the attempts.
///
/// # Errors
/// A task that was never attempted; errors of the disk.
pub fn list(invocation: &Invocation, options: &AttemptsArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let name = options.id.as_ref().map(|id| typed(&workspace, id));
    let detail = name.as_deref().map_or(LogDetail::Results, LogDetail::of_name);
    let log = workspace.attempt_log(detail)?;
    let id = name.map(|it| find(&workspace, &log, &it)).transpose()?.map(|it| it.task_id.clone());
    let mut all = log.of(id.as_ref()).map(PastAttemptView::of).peekable();
    if options.json {
        return Ok(terminal::print_json_list(all).map(|()| Exit::Success)?);
    }
    success(&match all.peek() {
        Some(_) => table(all),
        None => "no attempt yet\n".to_owned(),
    })
}

/// The table of attempts, with its heading.
pub(super) fn table(all: impl Iterator<Item = PastAttemptView>) -> String {
    terminal::table(["attempt", "when", "took", "verdict", "kept", "left"], all.map(row))
}

fn row(attempt: PastAttemptView) -> [String; 6] {
    let (name, when) = (attempt.name(), full(attempt.started_at));
    let Some(ended) = attempt.end else {
        let blank = String::new;
        return [name, when, blank(), "not ended".to_owned(), blank(), blank()];
    };
    let mut left = Vec::new();
    let evidence = &ended.evidence;
    if !evidence.commits.is_empty() {
        left.push(counted(evidence.commits.len(), "commit"));
    }
    left.extend(evidence.diff.filter(|_| !left.is_empty()).map(|diff| diff.to_string()));
    if !evidence.leftovers.is_empty() {
        left.push(format!("{} uncommitted", evidence.leftovers.len()));
    }
    let took = duration::short(ended.duration());
    let kept = ended.pinned.unwrap_or_default();
    [name, when, took, ended.verdict.to_string(), kept, left.join(", ")]
}

/// Shows one attempt.
///
/// # Errors
/// An unknown attempt; errors of the disk.
pub fn show(invocation: &Invocation, options: &ShowArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let name = match &options.name {
        Some(name) => Some(typed(&workspace, name)),
        None => workspace.attempt_log(LogDetail::Results)?.of(None).last().map(AttemptEntry::name),
    };
    let Some(name) = name else {
        return fail(Exit::Error, "no attempts yet; `ralph run` starts one");
    };
    let details = details(&workspace, &workspace.attempt_log(LogDetail::of_name(&name))?, &name)?;
    success(&if options.json {
        terminal::json(&details)
    } else {
        TextPage::new(terminal::stdout_width()).attempt(&details, workspace.place.flag().as_str())
    })
}

/// Reads an attempt of the log, named like `a.2`.
///
/// # Errors
/// An unknown attempt; errors of the disk.
pub(super) fn details(
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
pub(super) struct TextPage {
    pub(super) text: String,
    /// The columns of the terminal, if there is one.
    width: Option<usize>,
}

impl TextPage {
    pub(super) fn new(width: Option<usize>) -> TextPage {
        TextPage { text: String::new(), width }
    }

    pub(super) fn line(&mut self, key: &str, value: &str) {
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
    pub(super) fn list<T: ToString>(&mut self, heading: &str, items: impl IntoIterator<Item = T>) {
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

/// Makes a branch of what is kept of an attempt.
///
/// # Errors
/// Nothing kept; a branch of that name; in git's own words.
pub fn restore(invocation: &Invocation, options: &RestoreArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let repo = &workspace.repo;
    let name = typed(&workspace, &options.name);
    // A ref outlives the journal, which may have been removed.
    let log = workspace.attempt_log(LogDetail::of_name(&name))?;
    let entry = log.find(&name);
    let (id, attempt) = match entry {
        Some(entry) => (entry.task_id.clone(), entry.attempt),
        None => attempt_log::split(&name).ok_or_else(|| unknown(&name, []))?,
    };
    let ended = entry.and_then(|entry| entry.ended.as_ref());
    let is_off_branch = ended.is_some_and(|(_, ended)| ended.verdict == Verdict::OffBranch);
    let refuse = |why: String| fail(Exit::Error, why);
    let pin = pin_name(&workspace.place, &id, attempt);
    let Some(commit) = repo.commit_of(&pin)? else {
        return refuse(format!(
            "nothing is kept of attempt {attempt} at `{id}`; `ralph attempts{} {id}` shows what is",
            workspace.place.flag()
        ));
    };
    let branch = match &options.branch {
        Some(branch) => branch.clone(),
        None if workspace.place.name().is_some() => format!("ralph/restore/loops/{id}.{attempt}"),
        None => format!("ralph/restore/{id}.{attempt}"),
    };
    match repo.branch(&branch)? {
        Some(found) if found == commit => {
            terminal::print(&format!("branch {branch} has it already\n"))?;
        }
        Some(_) => {
            return refuse(format!(
                "there is a branch `{branch}` already, and it stays unchanged; name another with \
                 `--branch`"
            ));
        }
        None => {
            repo.make_branch(&branch, &commit)?;
            terminal::print(&format!("branch {branch} has what attempt {attempt} at {id} left\n"))?;
        }
    }
    terminal::print(&format!(
        "look at it:      git log --stat HEAD..{branch}\n\
         compare:         git diff HEAD...{branch}\n\
         take one file:   git restore --source={branch} -- PATH\n{}",
        if is_off_branch {
            "take a commit:   git cherry-pick COMMIT\n\
             Do not merge it: the attempt rewrote its history or left its branch, so a merge may \
             undo the work of others.\n"
                .to_owned()
        } else {
            format!("take all of it:  git merge {branch}\n")
        }
    ))?;
    if repo.pins().has_strays(&commit)? {
        terminal::print(&format!(
            "stashes and other branches that it left: git log --oneline {branch}^@ --not {branch}^1\n"
        ))?;
    }
    Ok(Exit::Success)
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

/// What was typed, in a plain loop with its name before a bare number.
fn typed(workspace: &Workspace, name: &str) -> String {
    match workspace.place.name() {
        Some(own) if name.parse::<u32>().is_ok() => format!("{own}.{name}"),
        _ => name.to_owned(),
    }
}

pub(super) fn find<'a>(
    workspace: &Workspace,
    log: &'a AttemptLog,
    name: &str,
) -> Result<&'a AttemptEntry> {
    if let Some(found) = log.find(name) {
        return Ok(found);
    }
    let all = workspace.attempt_log(LogDetail::Results)?;
    let names: Vec<String> = all.of(None).map(AttemptEntry::name).collect();
    let ids = all.of(None).map(|entry| entry.task_id.as_str());
    Err(unknown(name, ids.chain(names.iter().map(String::as_str))))
}

fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> anyhow::Error {
    let hint = nearest_or(name, known, "`ralph attempts` lists them");
    Failure::new(Exit::Error, format!("no attempt `{}`; {hint}", name.escape_debug())).into()
}
