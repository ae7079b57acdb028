//! The text of each record, shared by the plain and the fancy reporter.

mod checks;
mod children;
mod drafts;
mod failures;
mod files;
mod iterations;
mod merged;
mod notice;
mod reach;
mod talk;
pub mod wake;

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::{
    adapters::terminal::{Style, visible},
    core::{
        duration,
        event::{AttemptResult, Begun, Cause, Event, StopRequest, record::Record},
        graph::task::{Status, TaskId},
        loop_paths::LoopPaths,
        select::View,
        verdict::{CheckResult, Verdict},
    },
    view::left::TasksLeft,
};

pub(crate) use super::words::ids;
pub use super::words::{clock, counted, first_paths, full, moment, short};
pub(super) use super::words::{length, named};
pub use children::waiting;
pub(super) use iterations::start_of_iteration;
pub use notice::notice;
pub use talk::how_to_answer;

/// The amount of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only the summary.
    Quiet,
    /// All attempts.
    Normal,
    /// Everything in the journal.
    Verbose,
}

/// The number of commits of one task in the summary.
pub(super) const COMMITS: usize = 3;

/// One line and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The style of the whole line; `None` for plain text.
    pub style: Option<Style>,
    /// The text, safe to print.
    pub text: String,
}

pub(super) fn line(style: impl Into<Option<Style>>, text: impl AsRef<str>) -> Line {
    Line { style: style.into(), text: visible(text.as_ref()).into_owned() }
}

/// Returns the prefix of a line that continues an earlier one about a task: the task's id if lines
/// of other tasks may come in between.
fn line_prefix(id: &str, view: &View<'_>) -> String {
    if view.policy.jobs > 1 { format!("{id}: ") } else { "  ".to_owned() }
}

/// Returns a plain line.
pub fn plain(text: &str) -> Line {
    line(None, text)
}

/// Returns the number of remaining tasks, and one text for each of their states; ready tasks are
/// named.
pub fn standing(view: &View<'_>) -> (usize, Vec<String>) {
    let left = TasksLeft::of(view, Utc::now());
    (left.counts.left(), left.texts())
}

/// Returns the heading of an iteration, followed by the title of its task; a single line if several
/// attempts run at once.
pub fn heading(record: &Record, attempt: u32, number: usize, view: &View<'_>) -> Vec<String> {
    let of = view.history.run.begun.max_iterations;
    if let Some(plain) = &view.policy.plain {
        return vec![start_of_iteration(record, of, plain)];
    }
    let task = view.graph.task(number);
    let iteration = record.iteration.unwrap_or(0);
    let used = match view.history.of(&task.id).counted {
        0 => String::new(),
        used => format!(" ({used} of {} used)", view.max_attempts(number)),
    };
    let text = format!(
        "Iteration {iteration} of {of} · {} · {} · attempt {attempt}{used}",
        task.id, task.priority
    );
    let title = visible(task.title_line());
    match view.policy.jobs {
        0 | 1 => vec![text, format!("  {title}")],
        _ if task.title == task.id.as_str() => vec![text],
        _ => vec![format!("{text} · {title}")],
    }
}

/// Returns the lines of a record at this verbosity, except headings and the summary.
pub fn lines(record: &Record, view: &View<'_>, verbosity: Verbosity) -> Vec<Line> {
    let verbose = verbosity >= Verbosity::Verbose;
    let plain = view.policy.plain.as_ref();
    let lines = plain.and_then(|plain| iterations::lines(record, plain, view, verbose));
    lines.unwrap_or_else(|| lines_of_run(record, view, verbose))
}

/// Returns the lines of a record outside of a plain loop, or of one that is not special in it.
fn lines_of_run(record: &Record, view: &View<'_>, verbose: bool) -> Vec<Line> {
    let id = record.task_id.as_ref().map_or("", TaskId::as_str);
    let event = &record.event;
    match event {
        Event::LoopStarted(begun) => run_started(record, begun, verbose),
        Event::Started { .. }
        | Event::AwaitingExecutor { .. }
        | Event::AgentStarted { .. }
        | Event::Reported { .. } => started(record, id, verbose),
        Event::Withdrawn { .. }
        | Event::ExecutorUnreachable { .. }
        | Event::ExecutorReachable { .. }
        | Event::ContactLost { .. }
        | Event::ContactRegained { .. } => reach::lines(id, event, verbose, record.timestamp),
        Event::Verifying { .. } | Event::Verified(_) | Event::VerifyFailed(_) => {
            checks::lines(record, view)
        }
        Event::Completed(ended) => completed(id, ended, view),
        Event::Failed(ended)
        | Event::Interrupted(ended)
        | Event::RateLimited(ended)
        | Event::Denied(ended) => failed(id, ended, view),
        Event::NeedsInput(ended) => talk::asked(id, ended),
        Event::VerifyPostponed { .. }
        | Event::Promised { .. }
        | Event::Terminating { .. }
        | Event::Parked { .. }
        | Event::Recovered { .. }
        | Event::Reset {} => of_task(id, event, view).into_iter().collect(),
        Event::StatusChanged { old, new, cause, .. } => changed(id, *old, *new, *cause, verbose),
        Event::TaskEdited { command, fields, .. } => vec![edited(id, command, fields)],
        Event::Drafted(call) => vec![drafts::called(call)],
        Event::ChildStarted(_)
        | Event::ChildStopRequested(_)
        | Event::ChildEnded(_)
        | Event::WaitingForChildren(_)
        | Event::ChildrenEnded { .. }
        | Event::ChildrenOverdue { .. } => children::lines(id, event, verbose),
        Event::Asked { .. }
        | Event::Answered(_)
        | Event::Noted { .. }
        | Event::AgentChanged(_)
        | Event::DoneRemoved { .. } => talk::lines(id, event, record.timestamp, verbose),
        Event::GraphLoaded { .. }
        | Event::GraphRejected { .. }
        | Event::UncommittedFound { .. }
        | Event::GraphGuarded { .. }
        | Event::SettingsLoaded { .. }
        | Event::SettingsRejected { .. }
        | Event::SourceRefreshed(_)
        | Event::SourceUpdated(_)
        | Event::SourceFailed(_) => files::lines(event),
        Event::HookFailed(_) | Event::NotifyFailed(_) => failures::lines(event),
        Event::SlotKept { .. }
        | Event::CheckoutRestored(_)
        | Event::WorkRestored { .. }
        | Event::SettingUp { .. }
        | Event::Queued { .. }
        | Event::Merging(_)
        | Event::Split(_)
        | Event::MergeHeld(_) => merged::lines(id, event, verbose),
        Event::Slept(_) | Event::Woken(_) | Event::WakeSkipped(_) | Event::ScheduleEnded { .. } => {
            wake::lines(event, record.timestamp, verbose)
        }
        Event::RecordDamaged { .. }
        | Event::Waiting { .. }
        | Event::PauseRequested {}
        | Event::ResumeRequested { .. }
        | Event::StopRequested(_)
        | Event::Suspended {}
        | Event::Continued { .. }
        | Event::ClockSet { .. } => of_run(event, record.timestamp).into_iter().collect(),
        // The headings and the summary cover these.
        Event::Iterated(_) | Event::Blocked { .. } | Event::Finished { .. } => Vec::new(),
    }
}

/// Returns the lines of the start of a run.
fn run_started(record: &Record, begun: &Begun, verbose: bool) -> Vec<Line> {
    let agent = begun.agent.join(" ");
    let started = format!("run {}, agent: {agent}", record.run_id);
    let flag = begun
        .plain
        .as_ref()
        .map_or_else(String::new, |plain| LoopPaths::of_loop(plain.name.clone()).flag());
    let windows = format!(
        "each agent has a tmux window: `ralph attach{flag}` in another terminal opens it, C-b d \
         leaves it"
    );
    [verbose.then_some(started), begun.tmux.then_some(windows)]
        .into_iter()
        .flatten()
        .map(|text| line(Style::Faint, text))
        .collect()
}

/// Returns the lines of the start of an attempt, or of its report.
fn started(record: &Record, id: &str, verbose: bool) -> Vec<Line> {
    if let Event::AwaitingExecutor { run_on, why, .. } = &record.event {
        return vec![line(Style::Faint, format!("{id} waits for {run_on}: {why}"))];
    }
    if let Event::AgentStarted { placement: Some(placement), .. } = &record.event {
        return vec![line(Style::Faint, format!("{id} runs on {placement}"))];
    }
    if !verbose {
        return Vec::new();
    }
    if let Event::Started { base, branch, log, why, .. } = &record.event {
        let base = base.as_deref().map_or("nothing", |base| base.get(..7).unwrap_or(base));
        let branch = branch.as_deref().unwrap_or("a detached HEAD");
        vec![
            line(Style::Faint, format!("chosen by: {why}")),
            line(Style::Faint, format!("from {base} on {branch}; prompt and output in {log}")),
        ]
    } else if let Event::Reported { .. } = &record.event {
        vec![line(Style::Faint, format!("{id} was reported done"))]
    } else {
        Vec::new()
    }
}

/// Returns the line of an event of a task.
fn of_task(id: &str, event: &Event, view: &View<'_>) -> Option<Line> {
    if let Event::VerifyPostponed { .. } = event {
        let text =
            format!("the verify commands of {id} are left to the next run; its work is kept");
        Some(line(Style::Warn, text))
    } else if let Event::Promised { kept: false, .. } = event {
        let line_prefix = line_prefix(id, view);
        let text = format!(
            "{line_prefix}the agent promised that all is done, but tasks remain; the run continues"
        );
        Some(line(Style::Warn, text))
    } else if let Event::Terminating { why, .. } = event {
        Some(line(Style::Warn, format!("ending {id}: {why}")))
    } else if let Event::Parked { attempts } = event {
        let attempts = counted(*attempts as usize, "attempt");
        let text = format!("{id} is parked after {attempts}; `ralph task-reset {id}` retries it");
        Some(line(Style::Bad, text))
    } else if let Event::Recovered { attempt, from_run } = event {
        let text = format!("recovered attempt {attempt} at {id}, left open by run {from_run}");
        Some(line(Style::Warn, text))
    } else {
        matches!(event, Event::Reset {}).then(|| line(Style::Faint, format!("{id} was reset")))
    }
}

/// Returns the line of an event of the run itself.
fn of_run(event: &Event, now: DateTime<Utc>) -> Option<Line> {
    Some(if let Event::RecordDamaged { kept } = event {
        let text = format!(
            "the record of an attempt cannot be read; it is kept as {kept}, and its task stays in \
             progress until `ralph task-reset`"
        );
        line(Style::Bad, text)
    } else if let Event::Waiting { until, why } = event {
        line(Style::Faint, format!("waiting until {}: {why}", moment(*until, now)))
    } else if let Event::PauseRequested {} = event {
        line(Style::Warn, "paused: no new attempt starts; `ralph resume` continues")
    } else if let Event::ResumeRequested { .. } = event {
        line(Style::Warn, "resumed")
    } else if let Event::StopRequested(stop) = event {
        line(Style::Warn, stopping(stop))
    } else if let Event::Suspended {} = event {
        let text = "stopped by Ctrl-Z: the run, its attempts and their limits wait; `fg` continues";
        line(Style::Warn, text)
    } else if let Event::Continued { seconds, slept } = event {
        let length = duration::short(Duration::from_secs(*seconds));
        let who = if *slept { "the machine slept" } else { "the run was stopped" };
        line(Style::Warn, format!("continuing: {who} for {length}, which does not count"))
    } else if let Event::ClockSet { seconds } = event {
        let length = duration::short(Duration::from_secs(seconds.unsigned_abs()));
        let way = if *seconds < 0 { "back" } else { "forward" };
        line(Style::Faint, format!("the clock was set {way} by {length}; limits are not affected"))
    } else {
        return None;
    })
}

/// Returns a line, followed by the last output line of the command and the path of its log.
fn with_output(head: Line, check: &CheckResult) -> Vec<Line> {
    let mut lines = vec![head];
    if let Some(last) = &check.last_line {
        lines.push(line(None, format!("    its last line: {last}")));
    }
    lines.push(line(Style::Faint, format!("    output in {}", check.log)));
    lines
}

/// Returns the line of a task that a command changed.
fn edited(id: &str, command: &str, fields: &[String]) -> Line {
    line(None, format!("{id}: {} changed by `{}`", fields.join(", "), command))
}

fn changed(
    id: &str,
    old: Option<Status>,
    new: Option<Status>,
    cause: Cause,
    verbose: bool,
) -> Vec<Line> {
    let by = match cause {
        // The line of the attempt covers this.
        Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked if !verbose => {
            return Vec::new();
        }
        Cause::Claimed | Cause::Completed | Cause::Released | Cause::Asked => "by this run",
        Cause::Command => "by command",
        Cause::Edited => "by an edit of the graph file",
        Cause::EditedDuringAttempt => "during an attempt",
        Cause::Recovered => "by recovery",
        Cause::PutBack => "(restored)",
        Cause::History => {
            "because it is complete in the newest commit; `ralph task-reset` opens it"
        }
        Cause::OtherBranch => "on this branch: its work is on another one",
        Cause::DoneFile => "by the file `DONE`",
    };
    let change = match (old, new) {
        (Some(old), Some(new)) => format!("{} -> {}", old.word(), new.word()),
        (None, _) => "added to the graph".to_owned(),
        (Some(_), None) => "removed from the graph".to_owned(),
    };
    vec![line(Style::Faint, format!("{id}: {change} {by}"))]
}

fn stopping(stop: &StopRequest) -> String {
    match (&stop.signal, stop.now) {
        (Some(name), true) => format!(
            "{name}: ending what runs, then stopping; press Ctrl-C again to kill it at once"
        ),
        (Some(name), false) => format!(
            "{name}: stopping when the attempt ends or its grace is over; a second one kills it at \
             once"
        ),
        (None, true) => "`ralph stop --now`: ending what runs, then stopping".to_owned(),
        (None, false) => "`ralph stop`: stopping when the attempt ends".to_owned(),
    }
}

fn completed(id: &str, ended: &AttemptResult, view: &View<'_>) -> Vec<Line> {
    let time = duration::short(ended.duration());
    let mut lines = vec![line(Style::Good, format!("{id} complete in {time}: {}", ended.why))];
    lines.extend(proof(ended));
    lines.extend(kept(id, ended, "what else it left is kept"));
    let (left, standing) = standing(view);
    let standing = standing.join("; ");
    let standing = if standing.is_empty() { String::new() } else { format!(" ({standing})") };
    lines.push(line(Style::Faint, format!("  {left} left{standing}")));
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
        let max = view.max_attempts(number);
        lines.push(line(
            Style::Faint,
            format!("  {counted} of {max} attempts used; output in {}", ended.log),
        ));
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
        ("changed files named in `verify`", &evidence.verify_inputs_changed),
    ] {
        if !names.is_empty() {
            lines.push(line(Style::Warn, format!("  {what}: {}", named(names))));
        }
    }
    lines
}
