//! A task: its state, its fields and neighbors, and its attempts.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    VERSION,
    attempt::{AttemptPosition, AttemptView, seconds_since},
    attempt::{MessageView, PastAttemptView},
    lines::how_to_retry,
    state::StateKind,
    waits::{if_already_there, until_text},
    words::{counted, few, moment, short},
};
use crate::core::{
    attempt::AttemptState,
    graph::{
        load::fields::in_templates,
        task::{Priority, Status, Task, TaskId},
    },
    select::{TaskState, View},
    verdict::Verdict,
};

/// How many dependencies are named that a task waits on.
const NAMED: usize = 4;

/// A task and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its priority; 1 is the most urgent.
    pub priority: i64,
    /// The task whose agent added it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: TaskStanding,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TaskStanding {
    /// An attempt works on it, or the graph file says so.
    InProgress {
        /// Whether an attempt of a living run works on it.
        live: bool,
        /// Whether it has been in progress for too long without a living run.
        stale: bool,
        /// How long it has been in progress.
        age_seconds: Option<u64>,
        /// When it was claimed, by the graph file.
        claimed_at: Option<String>,
        /// Who claimed it, by the graph file.
        claimed_by: Option<String>,
        /// The attempt that has not ended.
        #[serde(flatten)]
        attempt: Option<AttemptPosition>,
    },
    /// It is out of attempts or of money.
    Parked {
        /// Why its newest attempt did not complete it, or what it spent.
        why: String,
    },
    /// Its agent asked a person.
    NeedsInput {
        /// The question.
        question: Option<String>,
    },
    /// A person blocked it.
    Blocked {
        /// The reason that `task-block` was given.
        reason: Option<String>,
    },
    /// It is complete on another branch.
    OnBranch {
        /// The branch.
        branch: String,
    },
    /// It is complete.
    Complete {
        /// When its attempt ended, or the time in the graph file.
        at: Option<DateTime<Utc>>,
        /// The number of its commits; none if no attempt on record completed it.
        commits: Option<usize>,
    },
    /// It will not be done.
    Cancelled {},
    /// It can start.
    Ready {},
    /// It can start once what conflicts with it has ended.
    Conflicting {
        /// The conflict.
        why: String,
    },
    /// It failed, and can start then.
    Retrying {
        /// The time.
        until: DateTime<Utc>,
    },
    /// The provider of its agent refuses until then.
    RateLimited {
        /// The time.
        until: DateTime<Utc>,
    },
    /// Its executor is out.
    Unreachable {
        /// The executor.
        executor: String,
        /// Whether only a person can mend it: the run does not wait for that.
        permanent: bool,
        /// When it is tried again; none while it is tried.
        until: Option<DateTime<Utc>>,
    },
    /// It waits on dependencies.
    Waiting {
        /// The dependencies that are not complete.
        waiting_on: Vec<DependencyView>,
    },
}

/// A dependency that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DependencyView {
    /// The task.
    pub id: TaskId,
    /// Its state.
    pub state: StateKind,
}

/// A task with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskDetails {
    /// The version of this shape.
    pub schema: u32,
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The graph file.
    pub file: String,
    /// The line of the file on which the task begins.
    pub line: usize,
    /// The other fields that are set, by the file or by its `defaults`.
    pub fields: Map<String, Value>,
    /// The commands that must succeed before it is complete, also those of the settings.
    pub verify: Vec<String>,
    /// Whether some of these commands are the task's own.
    pub own_verify: bool,
    /// The tasks that it depends on, with their states.
    pub depends_on: Vec<DependencyView>,
    /// The tasks that depend on it, with their states.
    pub dependents: Vec<DependencyView>,
    /// The number of unfinished tasks that depend on it, directly or through others.
    pub unfinished_dependents: usize,
    /// Its attempts, oldest first.
    pub attempts: Vec<PastAttemptView>,
    /// What people and agents said about it, oldest first.
    pub messages: Vec<MessageView>,
}

/// What the disk tells about a task besides graph and journal.
#[derive(Clone, Debug, Default)]
pub struct TaskFacts {
    /// The graph file.
    pub file: String,
    /// The line of the file on which the task begins.
    pub line: usize,
    /// The commands that must succeed before it is complete.
    pub verify: Vec<String>,
    /// Whether a run goes on.
    pub live: bool,
    /// The attempts that have not ended.
    pub open: Vec<AttemptView>,
    /// All attempts at the task.
    pub attempts: Vec<PastAttemptView>,
    /// What was said about it.
    pub messages: Vec<MessageView>,
}

impl TaskView {
    /// A task with its state.
    pub fn of(task: &Task, standing: TaskStanding) -> TaskView {
        let (id, title) = (task.id.clone(), task.title_line().to_owned());
        let (priority, added_by) = (task.priority.0, task.added_by.clone());
        TaskView { id, title, priority, added_by, standing }
    }

    /// The task of this number; `running` is whether a run goes on, and its attempts.
    pub fn at(
        view: &View<'_>,
        number: usize,
        running: (bool, &[AttemptView]),
        now: DateTime<Utc>,
    ) -> TaskView {
        TaskView::of(view.graph.task(number), standing(view, number, running, now))
    }

    /// Its state.
    pub fn kind(&self) -> StateKind {
        match self.standing {
            TaskStanding::InProgress { .. } => StateKind::InProgress,
            TaskStanding::Parked { .. } => StateKind::Parked,
            TaskStanding::NeedsInput { .. } => StateKind::NeedsInput,
            TaskStanding::Blocked { .. } => StateKind::Blocked,
            TaskStanding::OnBranch { .. } => StateKind::OnBranch,
            TaskStanding::Complete { .. } => StateKind::Complete,
            TaskStanding::Cancelled {} => StateKind::Cancelled,
            TaskStanding::Ready {} => StateKind::Ready,
            TaskStanding::Conflicting { .. } => StateKind::Conflicting,
            TaskStanding::Retrying { .. } => StateKind::Retrying,
            TaskStanding::RateLimited { .. } => StateKind::RateLimited,
            TaskStanding::Unreachable { .. } => StateKind::Unreachable,
            TaskStanding::Waiting { .. } => StateKind::Waiting,
        }
    }

    /// The note about it, after its title.
    pub fn note(&self, now: DateTime<Utc>) -> String {
        let note = self.standing_note(now);
        let by = self.added_by.as_ref();
        // The question whether to run it says so.
        let by = by.filter(|by| !note.contains(&format!("was added by `{by}`")));
        let added = by.map(|by| format!("added by {by}"));
        let parts = [note].into_iter().filter(|note| !note.is_empty()).chain(added);
        parts.collect::<Vec<_>>().join("; ")
    }

    /// The note about its state.
    pub(super) fn standing_note(&self, now: DateTime<Utc>) -> String {
        let first = |text: &Option<String>| {
            text.as_ref().and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
        };
        match &self.standing {
            TaskStanding::InProgress { .. } => self.progress(),
            TaskStanding::Parked { why } => format!("{why}; {}", how_to_retry(self.id.as_str())),
            TaskStanding::NeedsInput { question } => first(question),
            TaskStanding::Blocked { reason } => first(reason),
            TaskStanding::OnBranch { branch } => format!("on `{branch}`"),
            TaskStanding::Complete { at, commits } => {
                let at = at.map(|at| format!("at {}", moment(at, now)));
                let commits = commits.map(|count| counted(count, "commit"));
                at.into_iter().chain(commits).collect::<Vec<_>>().join(", ")
            }
            TaskStanding::Cancelled {} => String::new(),
            TaskStanding::Ready {} => Priority(self.priority).to_string(),
            TaskStanding::Conflicting { why } => why.clone(),
            TaskStanding::Retrying { until } => format!("retrying at {}", moment(*until, now)),
            TaskStanding::RateLimited { until } => {
                format!("rate-limited until {}", moment(*until, now))
            }
            TaskStanding::Unreachable { executor, permanent, until } => {
                until_text(executor, *permanent, *until, now)
            }
            TaskStanding::Waiting { waiting_on } => {
                format!("waiting on {}", few(waiting_on.iter().map(DependencyView::text), NAMED))
            }
        }
    }

    /// Its state, with the note.
    pub fn state_text(&self, now: DateTime<Utc>) -> String {
        let (word, note) = (self.kind().word(), self.standing_note(now));
        if note.starts_with(word) {
            note
        } else if note.is_empty() || self.kind() == StateKind::Ready {
            word.to_owned()
        } else {
            format!("{word}: {note}")
        }
    }

    /// The note about a task in progress.
    fn progress(&self) -> String {
        let TaskStanding::InProgress { live, stale, age_seconds, claimed_by, attempt, .. } =
            &self.standing
        else {
            return String::new();
        };
        let mut note = match age_seconds {
            Some(age) => format!("for {}", short(*age)),
            None if *stale => "since an unknown time".to_owned(),
            None => "starting or ending right now".to_owned(),
        };
        let is_running = attempt.as_ref().is_none_or(|it| it.state == AttemptState::Running);
        let is_silent = attempt.as_ref().is_some_and(|it| it.no_contact_since.is_some());
        if *live && is_running && !is_silent {
            note += ", an agent is at work";
        } else if let Some(by) = claimed_by.as_ref().filter(|_| !live) {
            let _ = write!(note, ", by {by}");
        }
        if !live && attempt.is_some() {
            note += ", its run has ended (the next one continues it)";
        }
        if let Some(text) = attempt.as_ref().and_then(AttemptPosition::text) {
            let _ = write!(note, ", {text}");
        }
        if *stale {
            let sign = if age_seconds.is_some() { ", STALE" } else { "" };
            let _ = write!(note, "{sign}; `ralph task-reset {}` makes it pending", self.id);
        }
        note
    }
}

impl TaskDetails {
    /// The task of this number.
    pub fn of(view: &View<'_>, number: usize, facts: TaskFacts, now: DateTime<Utc>) -> TaskDetails {
        let task = view.graph.task(number);
        let mut fields = in_templates(task);
        fields.retain(|name, value| {
            let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            !is_empty && !["id", "title", "priority", "verify"].contains(&name.as_str())
        });
        let near = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<DependencyView> {
            numbers.map(|number| neighbor(view, number, now)).collect()
        };
        TaskDetails {
            schema: VERSION,
            task: TaskView::at(view, number, (facts.live, &facts.open), now),
            file: facts.file,
            line: facts.line,
            fields,
            verify: facts.verify,
            own_verify: !task.verify.is_empty() || task.verify_only.is_some(),
            depends_on: near(&mut view.graph.dependencies(number)),
            dependents: near(&mut view.graph.dependents(number)),
            unfinished_dependents: waiting_for(view, number),
            attempts: facts.attempts,
            messages: facts.messages,
        }
    }
}

/// The number of unfinished tasks behind a task.
fn waiting_for(view: &View<'_>, number: usize) -> usize {
    let mut seen = vec![false; view.graph.tasks().len()];
    let mut open: Vec<usize> = view.graph.dependents(number).collect();
    let mut count = 0;
    while let Some(next) = open.pop() {
        if !std::mem::replace(&mut seen[next], true) {
            count += usize::from(!view.graph.task(next).status.is_over());
            open.extend(view.graph.dependents(next));
        }
    }
    count
}

/// Returns where one task stands; `running` is whether a run goes on, and its attempts.
pub(super) fn standing(
    view: &View<'_>,
    number: usize,
    running: (bool, &[AttemptView]),
    now: DateTime<Utc>,
) -> TaskStanding {
    let past = view.history.of(&view.graph.task(number).id);
    match view.state(number, now) {
        TaskState::Complete => completed(view, number).unwrap_or_else(|| {
            let at = view.graph.task(number).extra.get("completed_at");
            let at = at.and_then(serde_json::Value::as_str).and_then(time);
            TaskStanding::Complete { at, commits: None }
        }),
        TaskState::Cancelled => TaskStanding::Cancelled {},
        TaskState::Running | TaskState::Claimed => in_progress(view, number, running, now),
        TaskState::Unclaimed => TaskStanding::Parked {
            why: "nobody claimed it: parked elsewhere, or set by hand".to_owned(),
        },
        state @ (TaskState::Parked(_) | TaskState::Spent) => {
            TaskStanding::Parked { why: parked(view, number, state) }
        }
        TaskState::NeedsInput => TaskStanding::NeedsInput { question: past.question() },
        TaskState::Blocked => TaskStanding::Blocked { reason: past.reason.clone() },
        TaskState::OnBranch => {
            let branch = view.policy.elsewhere.get(&view.graph.task(number).id).cloned();
            TaskStanding::OnBranch { branch: branch.unwrap_or_default() }
        }
        TaskState::Ready | TaskState::Denied => TaskStanding::Ready {},
        TaskState::Conflicting => {
            let why = view.conflict(number, now).map(|conflict| view.explain(conflict));
            TaskStanding::Conflicting { why: why.unwrap_or_default() }
        }
        TaskState::Retrying(until) => TaskStanding::Retrying { until },
        TaskState::RateLimited(until) => TaskStanding::RateLimited { until },
        TaskState::Unreachable(next) => {
            let executor = view.place(number).to_owned();
            let places = view.policy.places(&executor);
            let known = places.iter().filter_map(|name| view.history.unreachable.get(*name));
            let permanent = known.clone().next().is_some() && known.clone().all(|it| it.lasts);
            TaskStanding::Unreachable { executor, permanent, until: next }
        }
        TaskState::Waiting => waiting(view, number, now),
    }
}

fn in_progress(
    view: &View<'_>,
    number: usize,
    (running, attempts): (bool, &[AttemptView]),
    now: DateTime<Utc>,
) -> TaskStanding {
    let task = view.graph.task(number);
    let attempt = attempts.iter().find(|attempt| attempt.task_id == task.id);
    let live = running && attempt.is_some();
    let age = attempt.map(|attempt| attempt.seconds).or_else(|| claimed_for(task, now));
    let limit = view.policy.stale_after.as_secs();
    let position = attempt.map(|attempt| {
        let mut position = attempt.position.clone();
        position.note_still(&view.history.active, running);
        position
    });
    // An attempt that starts or ends right now may be in only one of the graph and the history.
    let is_claimed = task.status == Status::InProgress;
    TaskStanding::InProgress {
        live,
        stale: !live && is_claimed && age.is_none_or(|age| age > limit),
        age_seconds: age,
        claimed_at: task.claimed_at.clone(),
        claimed_by: task.claimed_by.clone(),
        attempt: position,
    }
}

/// The end of the attempt that completed a task; none if no attempt did.
fn completed(view: &View<'_>, number: usize) -> Option<TaskStanding> {
    let past = view.history.of(&view.graph.task(number).id);
    let last = past.last.as_ref().filter(|last| last.verdict == Verdict::Complete)?;
    Some(TaskStanding::Complete { at: Some(last.at), commits: Some(past.commits.len()) })
}

/// How long ago the file says that the task was claimed.
fn claimed_for(task: &Task, now: DateTime<Utc>) -> Option<u64> {
    Some(seconds_since(time(task.claimed_at.as_deref()?)?, now))
}

/// A time of the graph file.
fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// Why a task is parked: the money that it used, or the end of its newest attempt.
fn parked(view: &View<'_>, number: usize, state: TaskState) -> String {
    let id = &view.graph.task(number).id;
    let past = view.history.of(id);
    if state == TaskState::Spent {
        return format!("cost limit reached: {} spent", past.spend.cost());
    }
    if let Some(reopened) = past.reopening().filter(|_| past.stuck) {
        return reopened.red.to_string();
    }
    let last = past.last.as_ref();
    let why = last.map(|last| format!("{}: {}", last.ended.verdict, last.ended.why));
    why.unwrap_or_default() + &if_already_there(id.as_str(), view)
}

fn waiting(view: &View<'_>, number: usize, now: DateTime<Utc>) -> TaskStanding {
    let on = view.waits_for(number).map(|number| neighbor(view, number, now));
    TaskStanding::Waiting { waiting_on: on.collect() }
}

/// Returns a task next to another one, with its state.
fn neighbor(view: &View<'_>, number: usize, now: DateTime<Utc>) -> DependencyView {
    let state = StateKind::of(view.state(number, now));
    DependencyView { id: view.graph.task(number).id.clone(), state }
}

impl DependencyView {
    /// The id, and the state where it is not simply "not yet".
    pub fn text(&self) -> String {
        let is_usual =
            matches!(self.state, StateKind::Ready | StateKind::Waiting | StateKind::Conflicting);
        if is_usual { self.id.to_string() } else { format!("{} ({})", self.id, self.state.word()) }
    }
}
