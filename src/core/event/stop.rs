//! The reason why a run ended, as text and as an exit code.

use std::{fmt, time::Duration};

use chrono::{DateTime, TimeZone, Utc};

use super::{Blocker, Held};
use crate::{
    agents::{provider_error::ProviderErrorKind, reset::LimitWindow},
    commit_id::CommitId,
    duration,
    executor::fault_text,
    exit::Exit,
    graph::task::TaskId,
    verdict::Report,
};

/// The reason why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum StopReason {
    /// Every task of the graph is complete.
    Complete,
    /// Every task that the filter selects is complete.
    SelectionComplete,
    /// All tasks have landed, but this command fails on the tip, and no task is to blame.
    Red(String),
    /// All tasks have landed, but the work of these is not proved.
    NotProved(Vec<TaskId>),
    /// The plain loop is complete.
    Done {
        /// The number of iterations.
        iterations: u32,
        /// The report of the last iteration; none if the file `DONE` was there without an
        /// iteration.
        report: Option<Report>,
    },
    /// This limit was reached, such as `2 iterations`.
    Limit(String),
    /// The provider is unavailable for longer than `max_wait`.
    Provider {
        /// The reviewer that it refuses, if that is one whose review is required.
        reviewer: Option<String>,
        /// The newest provider error.
        obstacle: Option<ProviderErrorKind>,
        /// When the wait began.
        since: DateTime<Utc>,
        /// The next time at which an attempt may start.
        until: DateTime<Utc>,
        /// The limit.
        max_wait: Duration,
    },
    /// Every executor that the remaining tasks need is out, for longer than `max_wait` or until a
    /// person fixes it.
    Unreachable {
        /// The executor.
        run_on: String,
        /// Since when.
        since: DateTime<Utc>,
        /// The newest reason.
        why: String,
        /// The limit; none if only a person can fix it.
        max_wait: Option<Duration>,
        /// The others, each with its reason.
        others: Vec<(String, String)>,
    },
    /// No task can start.
    Blocked(Vec<Blocker>),
    /// No task can start until a person answers.
    NeedsInput(Vec<Blocker>),
    /// This number of iterations of a plain loop failed in a row.
    Failures(u32),
    /// These different tasks failed in a row, with none completed between them.
    FailedTasks(Vec<TaskId>),
    /// This number of attempts in a row failed right after their start.
    StartLimit(u32),
    /// Every provider refuses access: the reason, and the exit code.
    Denied(String, Exit),
    /// The agent reported that everything is done, and `promise: trust` accepts that.
    Promised,
    /// This verify command failed before an attempt.
    BaselineBroken(String),
    /// No attempt can start from the tip of the target branch, for this reason.
    BadBase(String),
    /// This hook failed, so the step after it does not begin.
    HookFailed(String),
    /// The remaining work is done, but cannot land until a person resolves the obstacle.
    MergeHeld(Held),
    /// The one attempt of `--once` ended.
    Once {
        /// Whether it completed its task.
        completed: bool,
    },
    /// `ralph pause` stopped the run: of this plain loop, or over the graph if none is given.
    Paused(Option<TaskId>),
    /// `ralph stop` stopped the run.
    Stopped,
    /// A signal stopped the run: its number and name.
    Signal(i32, &'static str),
}

impl StopReason {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            StopReason::Limit(_) | StopReason::Provider { .. } => Exit::Limit,
            StopReason::Blocked(_)
            | StopReason::BaselineBroken(_)
            | StopReason::BadBase(_)
            | StopReason::Red(_) => Exit::Blocked,
            StopReason::NotProved(_) => Exit::NotProved,
            StopReason::NeedsInput(_)
            | StopReason::MergeHeld(_)
            | StopReason::Paused(_)
            | StopReason::Stopped => Exit::Waiting,
            StopReason::Complete
            | StopReason::SelectionComplete
            | StopReason::Done { .. }
            | StopReason::Promised
            | StopReason::Once { completed: true } => Exit::Success,
            StopReason::Once { completed: false }
            | StopReason::Failures(_)
            | StopReason::FailedTasks(_)
            | StopReason::HookFailed(_)
            | StopReason::StartLimit(_) => Exit::Error,
            StopReason::Unreachable { .. } => Exit::Agent,
            StopReason::Denied(_, code) => *code,
            StopReason::Signal(number, _) => Exit::Signal(*number),
        }
    }

    /// Returns the text for people, with times in this zone.
    pub fn text<Z: TimeZone<Offset: fmt::Display>>(&self, zone: &Z) -> String {
        let StopReason::Provider { reviewer, obstacle, since, until, max_wait } = self else {
            return self.to_string();
        };
        let day = |at: &DateTime<Utc>| at.with_timezone(zone).date_naive();
        let time = |at: &DateTime<Utc>| {
            let format = match (day(at) - day(since)).num_days() {
                0 => "%H:%M",
                1..7 => "%a %H:%M",
                _ => "%a %b %-d, %H:%M",
            };
            at.with_timezone(zone).format(format).to_string()
        };
        let hours = (*until - since).num_seconds().max(0).unsigned_abs().div_ceil(3600);
        let limit = format!("`max_wait` ({})", duration::short(*max_wait));
        let of = reviewer.as_ref();
        let of = of.map_or_else(String::new, |by| format!("`{by}`, whose review is required: "));
        let why = match obstacle {
            Some(ProviderErrorKind::UsageLimit { resets_at: Some(at), window }) => format!(
                "{} resets {}, beyond {limit}; run again then, or `--max-wait {hours}h`",
                LimitWindow::limit(*window),
                time(at)
            ),
            Some(obstacle) => format!(
                "{obstacle}, for longer than {limit}; run again after {}, or `--max-wait {hours}h`",
                time(until)
            ),
            None => format!("unavailable for longer than {limit}; `--max-wait {hours}h` waits"),
        };
        of + &why
    }
}

impl StopReason {
    /// The reason of a run that has done all tasks, if a commit reverts the work of one.
    pub fn reverted(id: &TaskId, by: &CommitId) -> String {
        format!(
            "what was to be done has landed, but commit {} reverts the work of `{id}`; `ralph take-back {id}` \
             opens it again",
            by.short()
        )
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Complete => f.write_str("the graph is complete"),
            StopReason::SelectionComplete => f.write_str("selected tasks complete"),
            StopReason::NotProved(tasks) => {
                let names: Vec<String> = tasks.iter().map(|id| format!("`{id}`")).collect();
                write!(f, "what was to be done has landed; not proved: {}", names.join(", "))
            }
            StopReason::Red(command) => write!(
                f,
                "what was to be done has landed, but on a clean copy of the branch `{command}` fails"
            ),
            StopReason::Done { iterations, report } => {
                let plural = if *iterations == 1 { "" } else { "s" };
                write!(f, "loop complete after {iterations} iteration{plural}")?;
                report.map_or(Ok(()), |report| write!(f, ": {report}"))
            }
            StopReason::Limit(what) => write!(f, "limit reached: {what}"),
            StopReason::Provider { .. } => f.write_str(&self.text(&Utc)),
            StopReason::Unreachable { run_on, why, max_wait, others, since: _ } => {
                match max_wait.map(duration::short) {
                    Some(limit) => write!(
                        f,
                        "executor `{run_on}` is out for longer than `max_wait` ({limit}): {why}"
                    ),
                    None => f.write_str(&fault_text(run_on, true, why)),
                }?;
                write!(f, "; `ralph doctor --on {run_on}` tries it")?;
                others.iter().try_for_each(|(name, why)| {
                    write!(f, "; `{name}`: {why}; `ralph doctor --on {name}` tries it")
                })
            }
            StopReason::Blocked(_) => f.write_str("everything left is blocked"),
            StopReason::NeedsInput(holders) => match holders.as_slice() {
                [one] => write!(f, "waiting for a person: `{}` {}", one.task_id, one.why),
                many => write!(f, "waiting for a person: {} tasks need input", many.len()),
            },
            StopReason::MergeHeld(Held { branch, why }) => {
                write!(f, "waiting for a person: cannot land on `{branch}`: {why}")
            }
            StopReason::Failures(1) => f.write_str("stopped after 1 failure"),
            StopReason::Failures(count) => write!(f, "{count} failures in a row"),
            StopReason::FailedTasks(ids) => {
                let names: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
                let (count, names) = (ids.len(), names.join(", "));
                let plural = if count == 1 { " task" } else { " different tasks" };
                write!(
                    f,
                    "{count}{plural} failed in a row and none was completed: {names}; look for a \
                     common cause (`ralph show {}`), or raise `--max-failures`",
                    ids.last().map_or("", TaskId::as_str)
                )
            }
            StopReason::StartLimit(count) => {
                write!(f, "{count} attempts in a row failed within 5s; check that the agent starts")
            }
            StopReason::Promised => {
                f.write_str("complete according to the agent (`promise: trust`)")
            }
            StopReason::Denied(why, _) | StopReason::HookFailed(why) => f.write_str(why),
            StopReason::BaselineBroken(why) => {
                write!(f, "baseline broken: {why}; fix it, then run again")
            }
            StopReason::BadBase(why) => {
                write!(f, "{why}; every attempt starts from there: fix it, then run again")
            }
            StopReason::Once { .. } => f.write_str("stopped after one attempt (`--once`)"),
            StopReason::Paused(None) => f.write_str("paused; `ralph resume` continues"),
            StopReason::Paused(Some(name)) => {
                write!(f, "paused; `ralph resume --name {name}` continues")
            }
            StopReason::Stopped => f.write_str("stopped by `ralph stop`"),
            StopReason::Signal(_, name) => write!(f, "stopped by {name}"),
        }
    }
}
