//! The lines of attempts, of their checks, and of the processes that their agents start.

use super::{
    EventContext, EventText, Line, MarkKind, bad, counted, faint, ids, length, line, named,
    shared_port, warn, with_output,
};
use crate::{
    adapters::terminal::Style,
    core::{
        commit_id::CommitId,
        event::{
            AttemptEvent, AttemptResult, Batch, CheckEvent, CheckoutRestored, ChildrenLeft, Orphans,
        },
        graph::task::TaskId,
        select::{View, parked_after},
        spend::dollars,
        verdict::{CheckResult, Commit, Verdict},
    },
    view::waits::{changed_agent, if_already_there, review_wait},
};

/// The number of commits of one task in the summary.
const COMMITS: usize = 3;

/// The largest number of lines of a question to show.
const ASKED: usize = 12;

/// Returns the prefix of a line that continues an earlier one about a task: the task's id if lines
/// of other tasks may come in between.
fn line_prefix(id: &str, view: &View<'_>) -> String {
    if view.policy.jobs > 1 { format!("{id}: ") } else { "  ".to_owned() }
}

impl EventText for AttemptEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        match self {
            AttemptEvent::Started { base, branch, log, why, .. } if at.verbose => {
                let base = base.as_ref().map_or("nothing", CommitId::short);
                let branch = branch.as_deref().unwrap_or("a detached HEAD");
                let from = format!("from {base} on {branch}; prompt and output in {log}");
                vec![line(Style::Faint, format!("chosen by: {why}")), line(Style::Faint, from)]
            }
            AttemptEvent::AgentStarted { placement: Some(placement), .. } => {
                faint(format!("{id} runs on {placement}"))
            }
            AttemptEvent::Started { .. }
            | AttemptEvent::AgentStarted { .. }
            | AttemptEvent::AgentEnded(_)
            | AttemptEvent::Promised { kept: true, .. } => Vec::new(),
            AttemptEvent::AgentChanged(change) => warn(changed_agent(change, at.record.timestamp)),
            AttemptEvent::WorkRestored { marked, .. } if !marked.is_empty() => faint(format!(
                "{id} resolves the conflict of its work with the branch in {}",
                marked.join(", ")
            )),
            AttemptEvent::WorkRestored { from, conflicts, .. } if conflicts.is_empty() => {
                if !at.verbose {
                    return Vec::new();
                }
                faint(format!("{id} continues the work of the attempt before ({from})"))
            }
            AttemptEvent::WorkRestored { from, conflicts, .. } => {
                let paths = conflicts.join(", ");
                warn(format!("{id} starts over: {from} conflicts with the branch in {paths}"))
            }
            AttemptEvent::AgentContinued { lack, .. } => {
                faint(format!("{id} continues in the same conversation: {lack}"))
            }
            AttemptEvent::WaitingForChildren(left) => {
                faint(format!("{id} is reported done; {}", waiting(left)))
            }
            AttemptEvent::ChildrenEnded { .. } => {
                faint(format!("the processes that {id} left running have ended"))
            }
            AttemptEvent::ChildrenOverdue { left, on_orphans } => {
                warn(overdue(id, left, *on_orphans))
            }
            AttemptEvent::Terminating { why, .. } => warn(format!("ending {id}: {why}")),
            AttemptEvent::Promised { kept: false, .. } => warn(format!(
                "{}the agent promised that all is done, but tasks remain; the run continues",
                line_prefix(id, at.view)
            )),
            AttemptEvent::Parked { attempts } => {
                let (retry, there) = (how_to_retry(id), if_already_there(id, at.view));
                bad(format!("✗ {id} is {}; {retry} retries it{there}", parked_after(*attempts)))
            }
            AttemptEvent::Recovered { attempt, from_run } => {
                warn(format!("recovered attempt {attempt} at {id}, left open by run {from_run}"))
            }
            AttemptEvent::CheckoutRestored(restored) => warn(restored_text(id, restored)),
            AttemptEvent::SlotKept { slot, why } => {
                warn(format!("slot {slot} is not reused: {why}"))
            }
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        let AttemptEvent::Parked { attempts } = self else {
            return None;
        };
        Some((MarkKind::Parked, parked_after(*attempts)))
    }
}

fn restored_text(id: &str, restored: &CheckoutRestored) -> String {
    let CheckoutRestored { attempt, branch, commit, files } = restored;
    let head = commit.as_ref().map(|commit| match branch {
        Some(branch) => format!("HEAD is on `{branch}` at {} again", commit.short()),
        None => format!("HEAD is detached at {} again", commit.short()),
    });
    let files = (!files.is_empty()).then(|| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        format!("the earlier version of {} is committed again", named(&files))
    });
    let what: Vec<String> = head.into_iter().chain(files).collect();
    format!("put back after attempt {attempt} at {id}: {}", what.join("; "))
}

impl EventText for AttemptResult {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        match self.verdict {
            Verdict::Complete => completed(at, self),
            Verdict::NeedsInput => asked(at, self),
            // The heading of the next iteration covers it.
            Verdict::Again => Vec::new(),
            Verdict::Incomplete
            | Verdict::Unverified
            | Verdict::VerifyFailed
            | Verdict::Uncommitted
            | Verdict::OffBranch
            | Verdict::Failed
            | Verdict::TimedOut
            | Verdict::SetupFailed
            | Verdict::Conflict
            | Verdict::MergeFailed
            | Verdict::Rejected
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::BaselineBroken => failed(at, self),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        if self.verdict == Verdict::Complete {
            Some((MarkKind::Landed, counted(self.evidence.commits.len(), "commit")))
        } else if let Some(question) = self.question() {
            Some((MarkKind::Asked, question.to_owned()))
        } else {
            let is_limited = matches!(self.verdict, Verdict::RateLimited | Verdict::Denied);
            is_limited.then(|| (MarkKind::Limited, self.why.clone()))
        }
    }
}

/// What the verdict says already.
const REPORTED: &str = "reported done, but ";

/// The widest column of ids.
const ID: usize = 24;

/// Returns the line of an ended attempt: its sign, its task, what it took, and what is said of it.
fn result(
    style: Style,
    sign: char,
    at: &EventContext<'_>,
    facts: impl IntoIterator<Item = String>,
    text: &str,
) -> Line {
    let ids = at.view.graph.tasks().iter().map(|task| task.id.as_str().len());
    let width = ids.max().unwrap_or(0).min(ID);
    let facts = facts.into_iter().collect::<Vec<_>>().join("  ");
    line(style, format!("{sign} {:<width$}  {facts}  {text}", at.id))
}

/// Returns a time, and a cost if it is known.
fn took(seconds: f64, cost: Option<f64>) -> impl Iterator<Item = String> {
    [length(seconds)].into_iter().chain(cost.map(dollars))
}

fn completed(at: &EventContext<'_>, ended: &AttemptResult) -> Vec<Line> {
    let (id, spend) = (at.id, &at.view.history.of(at.id).spend);
    let task = TaskId::new(id).ok().and_then(|id| at.view.graph.number(&id));
    let title = task.map(|number| at.view.graph.task(number).title_line());
    let commit = ended.evidence.commits.first().map(|commit| commit.subject.as_str());
    let title = title.filter(|title| *title != id).or(commit.filter(|_| task.is_some()));
    let diff = ended.evidence.diff.filter(|_| !ended.evidence.commits.is_empty());
    let cost = Some(spend.cost_usd).filter(|cost| spend.unknown_cost == 0 && *cost > 0.0);
    let facts = took(spend.duration_seconds, cost)
        .chain(diff.map(|diff| format!("+{} −{}", diff.insertions, diff.deletions)));
    let mut lines = vec![result(Style::Good, '✓', at, facts, title.unwrap_or(&ended.why))];
    lines.extend(proof(ended, at.verbose));
    if at.verbose {
        lines.push(line(Style::Faint, format!("    {}", ended.why)));
    }
    // What is beside the work that landed is said nowhere else.
    lines.extend(kept(id, ended));
    lines
}

/// Returns the lines of an attempt that ended with a question.
fn asked(at: &EventContext<'_>, ended: &AttemptResult) -> Vec<Line> {
    let question = ended.question().unwrap_or("something, but wrote no question");
    let mut question = question.lines();
    let facts = took(ended.duration_seconds, ended.usage.cost_usd);
    let first = format!("asks: {}", question.next().unwrap_or_default());
    let mut lines = vec![result(Style::Warn, '?', at, facts, &first)];
    lines.extend(question.take(ASKED - 1).map(|text| line(None, format!("    {text}"))));
    lines.extend(proof(ended, at.verbose));
    lines.push(line(None, format!("    {}", how_to_answer(at.id))));
    if at.verbose {
        lines.push(output(ended));
    }
    lines
}

/// Returns the command that lets a parked task run again, with a hint for its agent.
pub fn how_to_retry(id: &str) -> String {
    format!("`ralph task-reset {id} --note \"…\"`")
}

/// Returns how to answer a question.
pub fn how_to_answer(id: &str) -> String {
    format!("answer it with `ralph answer {id} \"…\"`")
}

fn failed(at: &EventContext<'_>, ended: &AttemptResult) -> Vec<Line> {
    let (id, counts) = (at.id, ended.verdict.counts());
    let (style, sign) = if counts { (Style::Bad, '✗') } else { (Style::Warn, '!') };
    let number = TaskId::new(id).ok().and_then(|id| at.view.graph.number(&id));
    let used = number.filter(|_| counts).map_or(String::new(), |number| {
        let (failed, most) = at.view.failed_of(number);
        let is_brief = most > failed && at.view.history.of(id).brief > 0;
        let light = if is_brief { ", brief failures count a third" } else { "" };
        format!(" ({failed} of {most} attempts{light})")
    });
    let why = ended.why.strip_prefix(REPORTED).unwrap_or(&ended.why);
    let mut text = format!("{}{used}: {why}", ended.verdict);
    if ended.verdict == Verdict::Incomplete && ended.evidence.commits.is_empty() {
        text += ", and committed nothing";
    }
    let facts = took(ended.duration_seconds, ended.usage.cost_usd);
    let mut lines = vec![result(style, sign, at, facts, &text)];
    lines.extend(proof(ended, at.verbose));
    if at.verbose {
        lines.extend(kept(id, ended));
        lines.push(output(ended));
    }
    lines.extend(reason(ended));
    lines.extend(ended.evidence.red().and_then(shared_port));
    lines
}

/// Returns the line that says why an attempt failed: of the command that failed, or else of its agent.
pub(super) fn reason(ended: &AttemptResult) -> Option<Line> {
    let red = ended.evidence.red().or(ended.evidence.setup.as_ref().filter(|it| !it.is_green()));
    let text = match red {
        Some(check) => check.last_line.clone()?,
        None if ended.outcome.is_own_failure() => ended.last_line.clone()?,
        None => format!("the agent said: {}", ended.last_line.as_ref()?),
    };
    Some(line(None, format!("    {text}")))
}

/// Returns the line that says where the output of an attempt is.
fn output(ended: &AttemptResult) -> Line {
    line(Style::Faint, format!("    output in {}", ended.log))
}

/// Returns where that is kept which an attempt left.
fn kept(id: &str, ended: &AttemptResult) -> Option<Line> {
    let name = ended.pinned.as_ref().map(|_| format!("{id}.{}", ended.attempt))?;
    let is_beside = ended.verdict == Verdict::Complete;
    let what = if is_beside { "kept besides what landed" } else { "its work is kept" };
    let text = format!("    {what}: `ralph show {name}`, `ralph restore {name}`");
    Some(line(Style::Faint, text))
}

/// Returns what a person should know of the work of an attempt; with its commits if `verbose`.
pub(super) fn proof(ended: &AttemptResult, verbose: bool) -> Vec<Line> {
    let evidence = &ended.evidence;
    let mut lines = Vec::new();
    if verbose {
        if !ended.continued.is_empty() {
            let text = format!("    continued {}", continued(&ended.continued));
            lines.push(line(Style::Faint, text));
        }
        let commits = &evidence.commits;
        let commit = |commit: &Commit| format!("{} {}", commit.short(), commit.subject);
        let more = commits.len().saturating_sub(COMMITS);
        let more = (more > 0).then(|| format!("and {} more", counted(more, "commit")));
        let diff = evidence.diff.filter(|_| !commits.is_empty()).map(|diff| diff.to_string());
        let texts = commits.iter().take(COMMITS).map(commit).chain(more).chain(diff);
        lines.extend(texts.map(|text| line(None, format!("    {text}"))));
    }
    for (what, names, always) in [
        ("removed lock files of a killed git", &ended.unlocked, false),
        ("left uncommitted", &evidence.leftovers, true),
        ("git's hooks or settings changed while it ran", &evidence.tampered, true),
        ("tried, and only its commits leave the slot", &evidence.tried, true),
        ("not kept", &ended.unpinned, true),
    ] {
        if !names.is_empty() && (always || verbose) {
            lines.push(line(Style::Warn, format!("    ! {what}: {}", named(names))));
        }
    }
    let no_test = evidence.verify.iter().filter(|check| check.no_test);
    let no_test = no_test.map(|check| format!("no test ran in `{}`", check.command));
    let remarks = evidence.remarks().into_iter().chain(no_test);
    lines.extend(remarks.map(|remark| line(Style::Warn, format!("    ! {remark}"))));
    lines
}

/// Returns how often the agent of an attempt got another prompt in its conversation, and what was missing each time.
pub fn continued(lacks: &[String]) -> String {
    let times = match lacks.len() {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    };
    format!("{times}: {}", lacks.join(", "))
}

impl EventText for CheckEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let (id, view) = (at.id, at.view);
        let of_task = |trial: &&Batch| at.record.task_id.iter().any(|id| trial.tasks.contains(id));
        let trial = view.history.active.trials.iter().find(of_task);
        let result = |check: &CheckResult| {
            let prefix = match trial {
                Some(trial) if trial.tasks.len() > 1 => "merge queue: ".to_owned(),
                _ => line_prefix(id, view),
            };
            if view.policy.jobs < 2 { prefix } else { format!("{prefix}`{}` ", check.command) }
        };
        match self {
            // The line of the attempt says which command failed, and why.
            CheckEvent::SettingUp { .. }
            | CheckEvent::Verifying { .. }
            | CheckEvent::Verified(_)
            | CheckEvent::VerifyFailed(_)
                if !at.verbose =>
            {
                Vec::new()
            }
            CheckEvent::SettingUp { command, .. } => faint(format!("setting up {id}: `{command}`")),
            CheckEvent::Verifying { command, .. } => {
                let what = match trial {
                    Some(trial) => format!("{} on {}", ids(&trial.tasks), trial.branch),
                    None => id.to_owned(),
                };
                faint(format!("verifying {what}: `{command}`"))
            }
            CheckEvent::Verified(check) => {
                let took = length(check.duration_seconds);
                faint(format!("{}succeeded in {took}", result(check)))
            }
            CheckEvent::VerifyFailed(check) => {
                let took = length(check.duration_seconds);
                let head = format!("{}{} after {took}", result(check), check.outcome);
                with_output(line(Style::Warn, head), check)
            }
            CheckEvent::Flaky(check) => {
                let what = "failed and then passed on the same files: nobody's failure";
                with_output(line(Style::Warn, format!("{id}: `{}` {what}", check.command)), check)
            }
            CheckEvent::VerifyPostponed { .. } => {
                let text = "are left to the next run; its work is kept";
                warn(format!("the verify commands of {id} {text}"))
            }
            CheckEvent::Reviewing { by, .. } if at.verbose => {
                faint(format!("`{by}` reviews the work of {id}"))
            }
            CheckEvent::Reviewing { .. } => Vec::new(),
            CheckEvent::WorkReviewed(end) => {
                let is_good = end.review.is_good();
                let style = if is_good { Style::Faint } else { Style::Warn };
                // The end of the attempt says the rest; the next line, that a review waits.
                let is_news = at.verbose || !(is_good || end.review.sent_back || end.waits);
                is_news.then(|| line(style, format!("{id}: {}", end.review))).into_iter().collect()
            }
            CheckEvent::ReviewWaits(wait) => {
                warn(format!("{id}: {}", review_wait(wait, at.record.timestamp)))
            }
            CheckEvent::Proved { proof, .. } => match proof.is_good() {
                true if !at.verbose => Vec::new(),
                true => faint(format!("{id} {proof}")),
                false => warn(format!("{id} {proof}")),
            },
        }
    }
}

/// Returns the processes that an attempt waits for, and the limit.
pub fn waiting(left: &ChildrenLeft) -> String {
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!("waiting up to {limit} for {} ({names})", counted_processes(left))
}

fn overdue(id: &str, left: &ChildrenLeft, on_orphans: Orphans) -> String {
    let fate = match on_orphans {
        Orphans::Kill => "ended now",
        Orphans::Leave => "left running, without supervision",
    };
    let (limit, names) = (length(left.limit_seconds), named(&left.children));
    format!(
        "warning: {} of {id} did not end within {limit} ({names}); {fate}",
        counted_processes(left)
    )
}

fn counted_processes(left: &ChildrenLeft) -> String {
    let count = left.children.len();
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}
