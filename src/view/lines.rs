//! The text of each event, shared by all reporters, and its mark on the timeline of a run.

mod attempt;
mod files;
pub mod schedule;

use std::time::Duration;

use serde::Serialize;

use crate::{
    adapters::terminal::{Style, visible},
    core::{
        duration,
        event::{
            Begun, Event, ExecutorEvent, LandingEvent, RequestEvent, RunEvent, StopRequest,
            record::Record,
        },
        executor::fault_text,
        graph::task::TaskId,
        loop_paths::LoopPaths,
        select::View,
        verdict::CheckResult,
    },
    view::waits::{BlockedLanding, WaitingWorkView},
};

pub use super::words::{clock, counted, first_paths, full, limit, minute, moment, short};
pub(crate) use super::words::{few, ids};
pub(super) use super::words::{length, named};
pub use attempt::{continued, how_to_answer, how_to_retry, waiting};

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

/// One line and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The style of the whole line; `None` for plain text.
    pub style: Option<Style>,
    /// The text, safe to print; of several rows if it was wrapped.
    pub text: String,
}

pub(super) fn line(style: impl Into<Option<Style>>, text: impl AsRef<str>) -> Line {
    Line { style: style.into(), text: visible(text.as_ref()).into_owned() }
}

/// One faint line.
fn faint(text: impl AsRef<str>) -> Vec<Line> {
    vec![line(Style::Faint, text)]
}

/// One line of good news.
fn good(text: impl AsRef<str>) -> Vec<Line> {
    vec![line(Style::Good, text)]
}

/// One warning.
fn warn(text: impl AsRef<str>) -> Vec<Line> {
    vec![line(Style::Warn, text)]
}

/// One line of bad news.
fn bad(text: impl AsRef<str>) -> Vec<Line> {
    vec![line(Style::Bad, text)]
}

/// Returns a plain line.
pub fn plain(text: &str) -> Line {
    line(None, text)
}

/// Returns the line of the start of an attempt.
pub fn started(record: &Record, attempt: u32, view: &View<'_>) -> Line {
    let id = record.task_id.as_ref().map_or("", TaskId::as_str);
    if let Some(plain) = &view.policy.plain {
        let of = view.history.run.shown_limit();
        return line(Style::Strong, schedule::start_of_iteration(record, of, plain));
    }
    let number = record.task_id.as_ref().and_then(|id| view.graph.number(id));
    let again = match (attempt, view.history.of(id).counted, number) {
        (1, ..) => String::new(),
        (_, 0, _) | (.., None) => format!(", attempt {attempt}"),
        (.., Some(number)) => {
            let (failed, most) = view.failed_of(number);
            format!(", attempt {attempt} ({failed} of {most} used)")
        }
    };
    let title = number.map(|number| view.graph.task(number).title_line());
    let title = title.filter(|title| *title != id);
    let title = title.map_or(String::new(), |title| format!(": {title}"));
    line(None, format!("{id} started{again}{title}"))
}

/// The words of the events of a group.
trait EventText {
    /// Returns the lines, without headings and the summary.
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line>;

    /// Returns the mark that it leaves on the timeline of a run, with its text.
    fn mark(&self) -> Option<(MarkKind, String)> {
        None
    }
}

/// What the words of an event depend on.
struct EventContext<'a> {
    record: &'a Record,
    /// The task of the event; empty if it is about none.
    id: &'a str,
    view: &'a View<'a>,
    verbose: bool,
}

/// The kinds of marks on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Work reached the target branch.
    Landed,
    /// An agent asked a person.
    Asked,
    /// A person answered.
    Answered,
    /// A task ran out of attempts.
    Parked,
    /// Work cannot reach the target branch.
    Blocked,
    /// A provider refuses for a time.
    Limited,
    /// A person paused, resumed or stopped the run.
    Requested,
    /// The machine slept, or its clock was set.
    Clock,
    /// A file of the graph or the settings was refused.
    Refused,
    /// A scheduled start was missed.
    Missed,
}

fn text_of(event: &Event) -> &dyn EventText {
    match event {
        Event::Ended(ended) => ended,
        Event::Run(event) => event,
        Event::Request(event) => event,
        Event::Attempt(event) => event,
        Event::Check(event) => event,
        Event::Executor(event) => event,
        Event::Landing(event) => event,
        Event::Graph(event) => event,
        Event::Schedule(event) => event,
    }
}

/// Returns the mark that an event leaves on the timeline of a run, with its text.
pub(super) fn mark(event: &Event) -> Option<(MarkKind, String)> {
    text_of(event).mark()
}

/// Returns the lines of a record at this verbosity, except headings and the summary.
pub fn lines(record: &Record, view: &View<'_>, verbosity: Verbosity) -> Vec<Line> {
    let id = record.task_id.as_ref().map_or("", TaskId::as_str);
    let verbose = verbosity >= Verbosity::Verbose;
    let at = EventContext { record, id, view, verbose };
    let plain = view.policy.plain.as_ref();
    let lines = plain.and_then(|plain| schedule::lines_of_loop(&at, plain));
    lines.unwrap_or_else(|| text_of(&record.event).lines(&at))
}

impl EventText for RunEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        match self {
            RunEvent::LoopStarted(begun) => run_started(at, begun),
            RunEvent::Waiting { until, why } => {
                let until = moment(*until, at.record.timestamp);
                faint(format!("waiting until {until}: {why}"))
            }
            RunEvent::Suspended {} => warn(
                "stopped by Ctrl-Z: the run, its attempts and their limits wait; `fg` continues",
            ),
            RunEvent::Continued { seconds, slept } => {
                let length = duration::short(Duration::from_secs(*seconds));
                let who = if *slept { "the machine slept" } else { "the run was stopped" };
                warn(format!("continuing: {who} for {length}, which does not count"))
            }
            RunEvent::Noticed { text } => warn(text),
            RunEvent::CommitsUnsigned { why } => {
                warn(format!("from now on, commits are made without a signature: {why}"))
            }
            // The summary covers these.
            RunEvent::Blocked { .. } | RunEvent::Finished { .. } => Vec::new(),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        match self {
            RunEvent::Suspended {} => Some((MarkKind::Requested, "suspended".to_owned())),
            RunEvent::Continued { seconds, slept } => {
                let what = if *slept { "the machine slept" } else { "suspended" };
                Some((MarkKind::Clock, format!("{what} for {seconds} s")))
            }
            RunEvent::CommitsUnsigned { .. } => {
                Some((MarkKind::Refused, "commits are no longer signed".to_owned()))
            }
            RunEvent::LoopStarted(_)
            | RunEvent::Waiting { .. }
            | RunEvent::Blocked { .. }
            | RunEvent::Noticed { .. }
            | RunEvent::Finished { .. } => None,
        }
    }
}

/// Returns the lines of the start of a run.
fn run_started(at: &EventContext<'_>, begun: &Begun) -> Vec<Line> {
    let agent = begun.agent.join(" ");
    let started = format!("run {}, agent: {agent}", at.record.run_id);
    let flag = begun
        .plain
        .as_ref()
        .map_or_else(String::new, |plain| LoopPaths::of_loop(plain.name.clone()).flag());
    let windows = format!("each agent has a tmux window; `ralph attach{flag}` shows the same here");
    let faint = [at.verbose.then_some(started), begun.tmux.then_some(windows)];
    faint.into_iter().flatten().map(|text| line(Style::Faint, text)).collect()
}

impl EventText for RequestEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        match self {
            RequestEvent::Answered(one) => {
                let how = if one.question.is_empty() { "told by a person" } else { "answered" };
                vec![line(None, format!("{id} was {how}: {}", first(&one.answer)))]
            }
            RequestEvent::Noted { note, .. } if at.verbose => {
                faint(format!("{id} noted: {}", first(note)))
            }
            RequestEvent::Noted { .. } | RequestEvent::Looked {} => Vec::new(),
            RequestEvent::Reset {} => faint(format!("{id} was reset")),
            RequestEvent::Reviewed { note, .. } => {
                let note =
                    note.as_ref().map_or_else(String::new, |note| format!(": {}", first(note)));
                faint(format!("{id} was reviewed{note}"))
            }
            RequestEvent::PauseRequested {} => {
                warn("paused: no new attempt starts; `ralph resume` continues")
            }
            RequestEvent::ResumeRequested { .. } => warn("resumed"),
            RequestEvent::StopRequested(stop) => warn(stopping(stop)),
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        let requested = |text: &str| Some((MarkKind::Requested, text.to_owned()));
        match self {
            RequestEvent::Answered(answer) => Some((MarkKind::Answered, answer.answer.clone())),
            RequestEvent::PauseRequested {} => requested("paused"),
            RequestEvent::ResumeRequested { .. } => requested("resumed"),
            RequestEvent::StopRequested(stop) => {
                requested(stop.limit.as_deref().unwrap_or("asked to stop"))
            }
            RequestEvent::Noted { .. }
            | RequestEvent::Reviewed { .. }
            | RequestEvent::Looked {}
            | RequestEvent::Reset {} => None,
        }
    }
}

fn stopping(stop: &StopRequest) -> String {
    if let Some(limit) = &stop.limit {
        return format!("limit reached: {limit}: ending what runs, then stopping");
    }
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

/// Returns the advice where a check found its port in use: the check of another slot may have it.
fn shared_port(check: &CheckResult) -> Option<Line> {
    let text = "    checks that share a port run one at a time with `verify_exclusive: true`";
    check.meets_used_port().then(|| line(None, text))
}

/// Returns a line, followed by the output line that says why the command failed, and its log.
fn with_output(head: Line, check: &CheckResult) -> Vec<Line> {
    let mut lines = vec![head];
    if let Some(last) = &check.last_line {
        lines.push(line(None, format!("    {last}")));
    }
    lines.extend(shared_port(check));
    lines.push(line(Style::Faint, format!("    output in {}", check.log)));
    lines
}

impl EventText for LandingEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        match self {
            LandingEvent::Queued { .. } | LandingEvent::Merging(_) if !at.verbose => Vec::new(),
            LandingEvent::Queued { waiting: 1, .. } => faint(format!("{id} is queued to land")),
            LandingEvent::Queued { waiting, .. } => {
                faint(format!("{id} is queued to land as number {waiting}"))
            }
            LandingEvent::Merging(batch) => {
                let (branch, onto) = (&batch.branch, batch.onto.get(..7).unwrap_or(&batch.onto));
                faint(format!("landing {} on {branch} at {onto}", ids(&batch.tasks)))
            }
            LandingEvent::MergeHeld(held) => warn(BlockedLanding::of(held).text),
            LandingEvent::CheckoutWaits(waiting) => {
                let waiting = WaitingWorkView::of(waiting);
                let cure = format!("  {}", waiting.cure());
                vec![line(Style::Warn, waiting.text()), line(Style::Faint, cure)]
            }
            LandingEvent::CheckoutFollowed { branch, .. } => {
                good(format!("`{branch}` has all that landed"))
            }
            LandingEvent::TakenBack(taken) => warn(format!("{id} was {taken}")),
            LandingEvent::TipRed(red) => {
                let head = if id.is_empty() {
                    red.to_string()
                } else {
                    format!("{id} is open again: {red}")
                };
                with_output(line(Style::Bad, head), &red.check)
            }
            LandingEvent::WholeVerified { commands, failed: 0, .. } => {
                good(format!("what landed passes together: {}", counted(*commands, "command")))
            }
            LandingEvent::WholeVerified { commands, failed, .. } => warn(format!(
                "what landed does not pass together: {failed} of {} failed",
                counted(*commands, "command")
            )),
            LandingEvent::BranchRenamed { from, to } => {
                warn(format!("`{from}` was renamed: work lands on `{to}`"))
            }
        }
    }

    fn mark(&self) -> Option<(MarkKind, String)> {
        match self {
            LandingEvent::MergeHeld(held) => {
                Some((MarkKind::Blocked, format!("landing on `{}` is blocked", held.branch)))
            }
            LandingEvent::CheckoutWaits(waiting) => {
                Some((MarkKind::Blocked, format!("`{}` waits for a person", waiting.branch)))
            }
            LandingEvent::TipRed(red) => Some((MarkKind::Refused, red.to_string())),
            LandingEvent::TakenBack(taken) => Some((MarkKind::Requested, taken.to_string())),
            LandingEvent::Queued { .. }
            | LandingEvent::WholeVerified { .. }
            | LandingEvent::Merging(_)
            | LandingEvent::CheckoutFollowed { .. }
            | LandingEvent::BranchRenamed { .. } => None,
        }
    }
}

impl EventText for ExecutorEvent {
    fn lines(&self, at: &EventContext<'_>) -> Vec<Line> {
        let id = at.id;
        match self {
            ExecutorEvent::AwaitingExecutor { run_on, why, .. } => {
                faint(format!("{id} waits for {run_on}: {why}"))
            }
            ExecutorEvent::Withdrawn { attempt, run_on, why } if at.verbose => faint(format!(
                "attempt {attempt} at {id} did not get to `{run_on}` and is taken back: {why}"
            )),
            ExecutorEvent::Withdrawn { .. } => Vec::new(),
            ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds, lasts } => {
                // What is known need not be said again.
                if *tries > 1 && !at.verbose {
                    return Vec::new();
                }
                let pause = duration::short(Duration::from_secs(*pause_seconds));
                let next = format!("; next try in {pause}");
                let next = if *tries > 0 { next } else { String::new() };
                warn(fault_text(run_on, *lasts, why) + &next)
            }
            ExecutorEvent::ExecutorReachable { run_on } => {
                good(format!("executor `{run_on}` is back"))
            }
            ExecutorEvent::Contact { lost_since: Some(since), .. } => {
                let since = moment(*since, at.record.timestamp);
                warn(format!("no contact with {id} since {since}"))
            }
            ExecutorEvent::Contact { lost_since: None, .. } => {
                good(format!("contact with {id} restored"))
            }
        }
    }
}
