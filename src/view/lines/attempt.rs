//! The lines of attempts and of the iterations of plain loops, of their checks, and of the processes that their agents start.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    EventContext, EventText, Line, MarkKind, counted, ids, length, line, moment, named, with_output,
};
use crate::{
    adapters::terminal::Style,
    core::{
        agents::provider_error::ProviderError,
        commit_id::CommitId,
        duration,
        event::{
            AgentChange, AttemptEvent, AttemptResult, Batch, Cause, CheckEvent, CheckoutRestored,
            ChildEnded, ChildEvent, ChildOutcome, ChildrenLeft, Event, GraphEvent, Orphans,
            PlainLoop, RequestEvent, RunEvent, record::Record,
        },
        graph::task::TaskId,
        loop_paths::LoopPaths,
        select::{View, iteration_limit_reached},
        verdict::{CheckResult, Merge, Outcome, Verdict},
    },
    view::state::left,
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
        let faint = |text: String| line(Style::Faint, text);
        let warn = |text: String| vec![line(Style::Warn, text)];
        match self {
            AttemptEvent::Started { base, branch, log, why, .. } if at.verbose => {
                let base = base.as_ref().map_or("nothing", CommitId::short);
                let branch = branch.as_deref().unwrap_or("a detached HEAD");
                let from = format!("from {base} on {branch}; prompt and output in {log}");
                vec![faint(format!("chosen by: {why}")), faint(from)]
            }
            AttemptEvent::AgentStarted { placement: Some(placement), .. } => {
                vec![faint(format!("{id} runs on {placement}"))]
            }
            AttemptEvent::Started { .. }
            | AttemptEvent::AgentStarted { .. }
            | AttemptEvent::AgentEnded(_)
            | AttemptEvent::Promised { kept: true, .. } => Vec::new(),
            AttemptEvent::DoneRemoved { path } => warn(format!(
                "removed {path}, which was there before the attempt: with it only the attempt \
                 reports; `ralph task-complete {id}` completes the task"
            )),
            AttemptEvent::AgentChanged(change) => warn(changed_agent(change, at.record.timestamp)),
            AttemptEvent::WorkRestored { from, conflicts, .. } if conflicts.is_empty() => {
                vec![faint(format!("{id} continues the work of the attempt before ({from})"))]
            }
            AttemptEvent::WorkRestored { from, conflicts, .. } => {
                let paths = conflicts.join(", ");
                warn(format!("{id} starts over: {from} conflicts with the branch in {paths}"))
            }
            AttemptEvent::Terminating { why, .. } => warn(format!("ending {id}: {why}")),
            AttemptEvent::Promised { kept: false, .. } => warn(format!(
                "{}the agent promised that all is done, but tasks remain; the run continues",
                line_prefix(id, at.view)
            )),
            AttemptEvent::Parked { attempts } => {
                let attempts = counted(*attempts as usize, "attempt");
                let text =
                    format!("{id} is parked after {attempts}; `ralph task-reset {id}` retries it");
                vec![line(Style::Bad, text)]
            }
            AttemptEvent::Recovered { attempt, from_run } => {
                warn(format!("recovered attempt {attempt} at {id}, left open by run {from_run}"))
            }
            AttemptEvent::RecordDamaged { kept } => {
                let text = format!(
                    "the record of an attempt cannot be read; it is kept as {kept}, and its task \
                     stays in progress until `ralph task-reset`"
                );
                vec![line(Style::Bad, text)]
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
        Some((MarkKind::Parked, format!("parked after {}", counted(*attempts as usize, "attempt"))))
    }
}

fn changed_agent(change: &AgentChange, now: DateTime<Utc>) -> String {
    let AgentChange { agent, from, obstacle } = change;
    match obstacle {
        None => format!("{agent} is available again and replaces {from}"),
        Some(ProviderError { obstacle, until: None }) => {
            format!("{agent} takes over from {from}: {obstacle}")
        }
        Some(ProviderError { obstacle, until: Some(until) }) => {
            format!("{agent} takes over from {from} until {}: {obstacle}", moment(*until, now))
        }
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
            Verdict::Complete => completed(at.id, self, at.view),
            Verdict::NeedsInput => asked(at.id, self),
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
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::RateLimited
            | Verdict::Denied
            | Verdict::BaselineBroken => failed(at.id, self, at.view),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        if self.verdict == Verdict::Complete {
            Some((MarkKind::Landed, counted(self.evidence.commits.len(), "commit")))
        } else {
            let is_limited = matches!(self.verdict, Verdict::RateLimited | Verdict::Denied);
            is_limited.then(|| (MarkKind::Limited, self.why.clone()))
        }
    }
}

fn completed(id: &str, ended: &AttemptResult, view: &View<'_>) -> Vec<Line> {
    let time = duration::short(ended.duration());
    // Whether it is done is shown by its proof.
    let is_doubtful = view.history.of(id).is_doubtful();
    let done = if ended.evidence.to_prove || is_doubtful { "landed" } else { "complete" };
    let mut lines = vec![line(Style::Good, format!("{id} {done} in {time}: {}", ended.why))];
    lines.extend(proof(ended));
    lines.extend(kept(id, ended, "what else it left is kept"));
    let (left, standing) = left(view, Utc::now());
    let standing = if standing.is_empty() { "" } else { &format!(" ({})", standing.join("; ")) };
    lines.push(line(Style::Faint, format!("  {left} left{standing}")));
    lines
}

/// Returns the lines of an attempt that ended with a question.
pub(super) fn asked(id: &str, ended: &AttemptResult) -> Vec<Line> {
    let time = duration::short(ended.duration());
    let mut lines = vec![line(Style::Warn, format!("{id} needs input after {time}"))];
    let question = ended.question().unwrap_or("it wrote no question");
    lines.extend(question.lines().take(ASKED).map(|text| line(None, format!("  {text}"))));
    lines.extend(proof(ended));
    let hint = format!("  {}; output in {}", how_to_answer(id), ended.log);
    lines.push(line(Style::Faint, hint));
    lines
}

/// Returns how to answer a question.
pub fn how_to_answer(id: &str) -> String {
    format!("answer it with `ralph answer {id} \"…\"`")
}

fn failed(id: &str, ended: &AttemptResult, view: &View<'_>) -> Vec<Line> {
    let style = if ended.verdict.counts() { Style::Bad } else { Style::Warn };
    let time = duration::short(ended.duration());
    let mut text = format!("{id} {} after {time}: {}", ended.verdict, ended.why);
    if ended.verdict == Verdict::Incomplete && ended.evidence.commits.is_empty() {
        text += ", and committed nothing";
    }
    let mut lines = vec![line(style, text)];
    lines.extend(proof(ended));
    lines.extend(kept(id, ended, "what it left is kept"));
    if let Some(last) = &ended.last_line {
        lines.push(line(None, format!("  its last line: {last}")));
    }
    if let Some(number) = TaskId::new(id).ok().and_then(|id| view.graph.number(&id)) {
        let counted = view.history.of(&view.graph.task(number).id).counted;
        let max = view.limit_of_round(number);
        let text = format!("  {counted} of {max} attempts used; output in {}", ended.log);
        lines.push(line(Style::Faint, text));
    }
    lines
}

/// Returns where that is kept which an attempt left, and what of it could not be.
fn kept(id: &str, ended: &AttemptResult, what: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    if ended.pinned.is_some() {
        let name = format!("{id}.{}", ended.attempt);
        let text = format!("  {what}: `ralph show {name}`, `ralph restore {name}`");
        lines.push(line(Style::Faint, text));
    }
    if !ended.unpinned.is_empty() {
        lines.push(line(Style::Warn, format!("  not kept: {}", named(&ended.unpinned))));
    }
    lines
}

pub(super) fn proof(ended: &AttemptResult) -> Vec<Line> {
    let commits = &ended.evidence.commits;
    let mut lines: Vec<Line> = commits
        .iter()
        .take(COMMITS)
        .map(|commit| line(None, format!("  {} {}", commit.short(), commit.subject)))
        .collect();
    if commits.len() > COMMITS {
        lines
            .push(line(None, format!("  and {} more", counted(commits.len() - COMMITS, "commit"))));
    }
    if let (Some(diff), false) = (ended.evidence.diff, commits.is_empty()) {
        lines.push(line(None, format!("  {diff}")));
    }
    if !ended.unlocked.is_empty() {
        let names = ended.unlocked.join(", ");
        lines.push(line(Style::Warn, format!("  removed lock files of a killed git: {names}")));
    }
    let evidence = &ended.evidence;
    for (what, names) in [
        ("left uncommitted", &evidence.leftovers),
        ("git's hooks or settings changed while it ran", &evidence.tampered),
    ] {
        if !names.is_empty() {
            lines.push(line(Style::Warn, format!("  {what}: {}", named(names))));
        }
    }
    let remarks = evidence.remarks().into_iter();
    lines.extend(remarks.map(|remark| line(Style::Warn, format!("  {remark}"))));
    lines
}

/// What is said of a verify command that failed and runs again.
const AGAIN: &str = "; once more, before that counts";

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
            CheckEvent::SettingUp { command, .. } => {
                vec![line(Style::Faint, format!("setting up {id}: `{command}`"))]
            }
            CheckEvent::Verifying { command, baseline, .. } => {
                let what = match trial {
                    Some(trial) => format!("{} on {}", ids(&trial.tasks), trial.branch),
                    None if *baseline => format!("{id} before the attempt"),
                    None => id.to_owned(),
                };
                vec![line(Style::Faint, format!("verifying {what}: `{command}`"))]
            }
            CheckEvent::AlreadyPasses { command, .. } => {
                let what = "already passes: it cannot show that the task is done";
                vec![line(Style::Warn, format!("{id}: `{command}` {what}"))]
            }
            CheckEvent::Verified(check) => {
                let took = length(check.duration_seconds);
                vec![line(Style::Faint, format!("{}succeeded in {took}", result(check)))]
            }
            CheckEvent::VerifyFailed(check) | CheckEvent::VerifyRepeated(check) => {
                let took = length(check.duration_seconds);
                let again = if matches!(self, CheckEvent::VerifyRepeated(_)) { AGAIN } else { "" };
                let head = format!("{}{} after {took}{again}", result(check), check.outcome);
                with_output(line(Style::Warn, head), check)
            }
            CheckEvent::Flaky(check) => {
                let what = "failed and then passed on the same files: nobody's failure";
                vec![line(Style::Warn, format!("{id}: `{}` {what}", check.command))]
            }
            CheckEvent::VerifyPostponed { .. } => {
                let text = "are left to the next run; its work is kept";
                vec![line(Style::Warn, format!("the verify commands of {id} {text}"))]
            }
            CheckEvent::Proved { proof, .. } => vec![super::proved(id, proof)],
        }
    }
}

impl EventText for ChildEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        let faint = |text: String| vec![line(Style::Faint, text)];
        match self {
            ChildEvent::ChildStarted(child) if at.verbose => {
                let (name, run, parent) = (child.name(), &child.child_run_id, &child.parent_run_id);
                faint(format!("{id} started {name} (run {run}, of {parent})"))
            }
            ChildEvent::ChildStarted(_) => Vec::new(),
            ChildEvent::ChildStopRequested(child) => {
                let text =
                    format!("`ralph stop --child`: ending {}, a child of {id}", child.label());
                vec![line(Style::Warn, text)]
            }
            ChildEvent::ChildEnded(end) => child_ended(id, end, at.verbose),
            ChildEvent::WaitingForChildren(left) => {
                faint(format!("{id} is reported done; {}", waiting(left)))
            }
            ChildEvent::ChildrenEnded { duration_seconds, .. } => {
                let time = length(*duration_seconds);
                faint(format!("the processes that {id} left running ended after {time}"))
            }
            ChildEvent::ChildrenOverdue { left, on_orphans } => {
                vec![line(Style::Warn, overdue(id, left, *on_orphans))]
            }
        }
    }
}

fn child_ended(id: &str, end: &ChildEnded, verbose: bool) -> Vec<Line> {
    let (style, how) = match end.outcome {
        ChildOutcome::Exited { exit_code: 0 } if !verbose => return Vec::new(),
        ChildOutcome::Exited { exit_code: 0 } => (Style::Faint, "ended".to_owned()),
        ChildOutcome::Exited { exit_code } => {
            (Style::Warn, format!("exited with code {exit_code}"))
        }
        ChildOutcome::Signaled { signal } => {
            (Style::Warn, format!("was killed by signal {signal}"))
        }
        ChildOutcome::Crashed => (Style::Warn, "is gone; how it ended is not known".to_owned()),
    };
    let run = &end.child.child_run_id;
    vec![line(style, format!("{}, a child of {id}, {how} (run {run})", end.child.name()))]
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

/// Returns the heading of an iteration of a plain loop.
pub fn start_of_iteration(record: &Record, of: u32, plain: &PlainLoop) -> String {
    format!("{}: starting iteration {}/{of}", plain.name, record.iteration.unwrap_or(0))
}

/// Returns the lines of a record of a plain loop; `None` if they are the same as for any task.
pub(super) fn lines_of_loop(at: &EventContext<'_>, plain: &PlainLoop) -> Option<Vec<Line>> {
    let (name, record) = (&plain.name, at.record);
    let iteration = record.iteration.unwrap_or(0);
    let event = &record.event;
    if let Some(ended) = event.ended() {
        // A question has the same lines as for any task.
        return (ended.verdict != Verdict::NeedsInput).then(|| ended_lines(at, ended, plain));
    }
    let shown = if let Event::Graph(GraphEvent::GraphLoaded { .. }) = event {
        // The graph of a plain loop is internal.
        return Some(Vec::new());
    } else if matches!(event, Event::Run(RunEvent::Waiting { .. }))
        && at.view.history.cooldowns.is_empty()
    {
        // The previous line says when the next iteration starts.
        return Some(Vec::new());
    } else if let (true, Event::Attempt(AttemptEvent::Started { base, log, .. })) =
        (at.verbose, event)
    {
        let base = base.as_ref().map_or("nothing", CommitId::short);
        line(Style::Faint, format!("from {base}; prompt and output in {log}"))
    } else if let Event::Graph(GraphEvent::StatusChanged { cause: Cause::DoneFile, .. }) = event {
        let folder = LoopPaths::of_loop(name.clone()).folder(name);
        line(Style::Good, format!("{name}: `{folder}/DONE` exists; remove it to start again"))
    } else if let Event::Request(RequestEvent::PauseRequested {}) = event {
        let text =
            format!("paused: no new iteration starts; `ralph resume --name {name}` continues");
        line(Style::Warn, text)
    } else if let Event::Attempt(AttemptEvent::Recovered { from_run, .. }) = event {
        let text = format!("{name}: recovered iteration {iteration}, left open by run {from_run}");
        line(Style::Warn, text)
    } else {
        return None;
    };
    Some(vec![shown])
}

fn ended_lines(at: &EventContext<'_>, ended: &AttemptResult, plain: &PlainLoop) -> Vec<Line> {
    let which = format!("{}: iteration {}", plain.name, at.record.iteration.unwrap_or(0));
    let time = duration::short(ended.duration());
    let why = &ended.why;
    let (style, text) = match (ended.verdict, &ended.outcome, ended.evidence.report) {
        (Verdict::Complete, _, Some(report)) => {
            let checks = match ended.evidence.verify.len() {
                0 => String::new(),
                count => format!(", {} succeeded", counted(count, "verify command")),
            };
            let landed = ended.evidence.merge.as_ref().map(Merge::landed).unwrap_or_default();
            (Some(Style::Good), format!("{which}: {report} after {time}{checks}{landed}"))
        }
        (Verdict::Again, Outcome::Idle { limit_seconds }, _) => {
            let limit = duration::short(Duration::from_secs(*limit_seconds));
            let text =
                format!("{which}: inactivity limit of {limit} reached after {time}, restarting");
            (Some(Style::Warn), text)
        }
        (Verdict::Again, ..) => (None, format!("{which} {why} after {time}")),
        (verdict, ..) if verdict.counts() => {
            let text = format!("{which} {why} after {time}; {}", failure_streak(plain, at.view));
            (Some(Style::Bad), text)
        }
        (verdict, ..) => (Some(Style::Warn), format!("{which} {verdict} after {time}: {why}")),
    };
    let mut lines = vec![line(style, text)];
    let mut shown = ended.clone();
    if !at.verbose {
        // A plain loop normally keeps uncommitted work between iterations.
        shown.evidence.leftovers.clear();
    }
    lines.extend(proof(&shown));
    if !ended.unpinned.is_empty() {
        let names = ended.unpinned.join(", ");
        lines.push(line(Style::Warn, format!("  not kept: {names}")));
    }
    let is_odd = !matches!(ended.verdict, Verdict::Complete | Verdict::Again);
    if let Some(last) = ended.last_line.as_ref().filter(|_| is_odd || at.verbose) {
        lines.push(line(None, format!("  its last line: {last}")));
    }
    if is_odd {
        let kept =
            format!("what it left: `ralph restore --name {} {}`; ", plain.name, ended.attempt);
        let kept = if ended.pinned.is_some() { &kept } else { "" };
        lines.push(line(Style::Faint, format!("  {kept}output in {}", ended.log)));
    }
    lines
}

/// Returns the number of consecutive failures, and what follows.
fn failure_streak(plain: &PlainLoop, view: &View<'_>) -> String {
    let count = view.history.run.failures_in_a_row;
    let pause = view.pause_after(view.history.of(&plain.name)).to_std().unwrap_or_default();
    let is_last = iteration_limit_reached(view).is_some();
    let next = format!("; the next starts in {}", duration::short(pause));
    let next = if is_last { "" } else { &next };
    match plain.max_failures {
        0 => format!("failure {count} in a row{next}"),
        most if count >= most => format!("failure {count} of {most} in a row"),
        most => format!("failure {count} of {most} in a row{next}"),
    }
}
