//! The task graph, and where each task stands.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    VERSION,
    attempt::{AttemptPosition, AttemptView, seconds_since},
    queue::HeldView,
    reach::UnreachableView,
    run::WaitingView,
    task::{DependencyView, TaskCounts, TaskStanding, TaskView},
};
use crate::core::{
    graph::task::{Status, Task},
    select::{NextTry, SelectionKey, TaskState, View},
    verdict::Verdict,
};

/// The tasks of the graph by state, each list in the order in which it is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The version of this shape.
    pub schema: u32,
    /// The graph file.
    pub file: String,
    /// How many tasks are in each state.
    pub counts: TaskCounts,
    /// The tasks in progress.
    pub in_progress: Vec<TaskView>,
    /// The tasks that are out of attempts or of money.
    pub parked: Vec<TaskView>,
    /// The tasks whose agent asked a person.
    pub needs_input: Vec<TaskView>,
    /// The tasks that a person blocked.
    pub held: Vec<TaskView>,
    /// The tasks that can start, in the order in which they will.
    pub ready: Vec<TaskView>,
    /// The tasks that can start once what conflicts with them has ended.
    pub kept_apart: Vec<TaskView>,
    /// The tasks that can start at a known time.
    pub backing_off: Vec<TaskView>,
    /// The tasks that wait on other tasks.
    pub blocked: Vec<TaskView>,
    /// The tasks that attempts completed, the newest first.
    pub complete: Vec<TaskView>,
    /// What a run waits for while no attempt can start.
    pub waiting: Option<WaitingView>,
    /// The executors that do not answer.
    pub unreachable: Vec<UnreachableView>,
    /// What keeps the target branch from moving.
    pub merge_held: Option<HeldView>,
    /// Whether a run goes on.
    #[serde(skip)]
    pub live: bool,
}

/// What the disk tells about a graph besides the journal.
#[derive(Clone, Debug, Default)]
pub struct GraphFacts {
    /// The graph file.
    pub file: String,
    /// Whether a run goes on.
    pub live: bool,
    /// The attempts that have not ended.
    pub attempts: Vec<AttemptView>,
}

impl GraphView {
    /// The tasks in question.
    pub fn of(view: &View<'_>, facts: GraphFacts, now: DateTime<Utc>) -> GraphView {
        let mut graph = GraphView { schema: VERSION, file: facts.file, ..GraphView::default() };
        let mut ready: Vec<SelectionKey> = Vec::new();
        for number in view.admitted() {
            let state = view.state(number, now);
            graph.counts.add(view, number, state);
            let list = match state {
                // One that no attempt completed is only counted.
                TaskState::Complete => {
                    let task = |standing| TaskView::of(view.graph.task(number), standing);
                    graph.complete.extend(complete(view, number).map(task));
                    continue;
                }
                TaskState::Cancelled => continue,
                // A run that begins tries its agent again.
                TaskState::Ready | TaskState::Denied => {
                    ready.push(view.key(number));
                    continue;
                }
                TaskState::Running | TaskState::Claimed => &mut graph.in_progress,
                TaskState::Parked(_) | TaskState::Spent => &mut graph.parked,
                TaskState::NeedsInput => &mut graph.needs_input,
                TaskState::Blocked => &mut graph.held,
                TaskState::Conflicting => &mut graph.kept_apart,
                TaskState::Retrying(_) | TaskState::RateLimited(_) | TaskState::Unreachable(_) => {
                    &mut graph.backing_off
                }
                TaskState::Waiting => &mut graph.blocked,
            };
            let standing = standing(view, number, (facts.live, &facts.attempts), now);
            list.push(TaskView::of(view.graph.task(number), standing));
        }
        ready.sort_unstable();
        let ready = ready.into_iter().map(|key| view.graph.task(key.number));
        graph.ready = ready.map(|task| TaskView::of(task, TaskStanding::Ready {})).collect();
        graph.complete.sort_by_key(|task| Reverse(completed_at(task)));
        graph.waiting = WaitingView::of(view.history, now).filter(|_| facts.live);
        graph.unreachable = UnreachableView::all(view.history, facts.live);
        graph.live = facts.live;
        graph.merge_held = view.history.active.held.as_ref().map(HeldView::of);
        graph
    }
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
        TaskState::Complete => complete(view, number).unwrap_or_else(|| {
            let at = view.graph.task(number).extra.get("completed_at");
            let at = at.and_then(serde_json::Value::as_str).map(str::to_owned);
            TaskStanding::MarkedComplete { completed_at: at }
        }),
        TaskState::Cancelled => TaskStanding::Cancelled {},
        TaskState::Running | TaskState::Claimed => in_progress(view, number, running, now),
        state @ (TaskState::Parked(_) | TaskState::Spent) => {
            TaskStanding::Parked { why: parked(view, number, state) }
        }
        TaskState::NeedsInput => {
            TaskStanding::NeedsInput { question: past.question().map(str::to_owned) }
        }
        TaskState::Blocked => TaskStanding::Blocked { reason: past.reason.clone() },
        TaskState::Ready | TaskState::Denied => TaskStanding::Ready {},
        TaskState::Conflicting => {
            let why = view.conflict(number, now).map(|conflict| view.explain(conflict));
            TaskStanding::KeptApart { why: why.unwrap_or_default() }
        }
        TaskState::Retrying(until) => TaskStanding::Retrying { until },
        TaskState::RateLimited(until) => TaskStanding::RateLimited { until },
        TaskState::Unreachable(next) => {
            let executor = view.executor(number).unwrap_or_default().to_owned();
            let lasts = next == NextTry::Never;
            TaskStanding::Unreachable { executor, lasts, until: next.time() }
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
    let limit = task.stale_after.unwrap_or(view.policy.stale_after).as_secs();
    let position: Option<AttemptPosition> = attempt.map(|attempt| attempt.position.clone());
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
fn complete(view: &View<'_>, number: usize) -> Option<TaskStanding> {
    let past = view.history.of(&view.graph.task(number).id);
    let last = past.last.as_ref().filter(|last| last.verdict == Verdict::Complete)?;
    Some(TaskStanding::Complete { at: last.at, commits: past.commits.len() })
}

fn completed_at(task: &TaskView) -> Option<DateTime<Utc>> {
    if let TaskStanding::Complete { at, .. } = task.standing { Some(at) } else { None }
}

/// How long ago the file says that the task was claimed.
fn claimed_for(task: &Task, now: DateTime<Utc>) -> Option<u64> {
    let at = DateTime::parse_from_rfc3339(task.claimed_at.as_deref()?).ok()?;
    Some(seconds_since(at.to_utc(), now))
}

/// Why a task is parked: the money that it used, or the end of its newest attempt.
fn parked(view: &View<'_>, number: usize, state: TaskState) -> String {
    let past = view.history.of(&view.graph.task(number).id);
    if state == TaskState::Spent {
        return format!("cost limit reached: {} spent", past.spend.cost());
    }
    let last = past.last.as_ref();
    last.map_or_else(String::new, |last| format!("{}: {}", last.ended.verdict, last.ended.why))
}

fn waiting(view: &View<'_>, number: usize, now: DateTime<Utc>) -> TaskStanding {
    let on: Vec<usize> = view.waits_for(number).collect();
    TaskStanding::Waiting {
        on: on.iter().map(|number| view.graph.task(*number).id.clone()).collect(),
        waiting_on: on.iter().map(|number| neighbor(view, *number, now)).collect(),
    }
}

/// Returns a task next to another one, with its state.
pub(super) fn neighbor(view: &View<'_>, number: usize, now: DateTime<Utc>) -> DependencyView {
    DependencyView { id: view.graph.task(number).id.clone(), state: word(view.state(number, now)) }
}

/// The state of a task in the words that every text uses.
pub(super) fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Complete => "complete",
        TaskState::Cancelled => "cancelled",
        TaskState::Running | TaskState::Claimed => "in progress",
        TaskState::Ready | TaskState::Denied => "ready",
        TaskState::Conflicting => "kept apart",
        TaskState::Retrying(_) => "retrying",
        TaskState::RateLimited(_) => "rate-limited",
        TaskState::Unreachable(_) => "executor unreachable",
        TaskState::Parked(_) | TaskState::Spent => "parked",
        TaskState::NeedsInput => "needs input",
        TaskState::Blocked => "blocked",
        TaskState::Waiting => "waiting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::samples::{end, record, started, task};
    use crate::core::{
        event::{Event, LandingEvent},
        graph::{TaskGraph, task::Task},
        history::History,
        select::{Policy, keys},
    };

    /// A view of `parked`, out of attempts and in progress by the file, `after`, which depends on
    /// it, `open`, queued to land, and `over`, cancelled.
    fn shown(check: impl Fn(&View<'_>, &GraphView)) {
        let with = |id: &str, status| Task { status, ..task(id) };
        let tasks = vec![
            with("parked", Status::InProgress),
            with("after", Status::Pending),
            with("open", Status::InProgress),
            with("over", Status::Cancelled),
        ];
        let graph = TaskGraph::new(tasks, vec![(0, 1)]).unwrap();
        let mut history = History::default();
        for event in [started(1), Event::Ended(end(1, Verdict::Failed))] {
            history.apply(&record("parked", 1, event));
        }
        for event in [started(1), LandingEvent::Queued { attempt: 1, waiting: 1 }.into()] {
            history.apply(&record("open", 2, event));
        }
        let (keys, policy) = (keys(&graph, false), Policy { max_attempts: 1, ..Policy::default() });
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let now = DateTime::from_timestamp(60, 0).unwrap();
        check(&view, &GraphView::of(&view, GraphFacts::default(), now));
    }

    #[test]
    fn a_dependency_has_the_state_that_it_has_in_its_own_line() {
        shown(|_, graph| {
            assert_eq!(graph.parked[0].id.as_str(), "parked");
            let TaskStanding::Waiting { waiting_on, .. } = &graph.blocked[0].standing else {
                panic!("{:?}", graph.blocked);
            };
            assert_eq!(waiting_on[0].text(), "parked (parked)");
        });
    }

    #[test]
    fn the_lists_and_the_counts_agree() {
        shown(|view, graph| {
            let now = DateTime::from_timestamp(60, 0).unwrap();
            assert_eq!(graph.counts, TaskCounts::of(view, now));
            assert_eq!(graph.counts.progress(), "0 of 4 complete, 1 cancelled");
            let parts = graph.counts.parts();
            assert_eq!(parts, [(1, "queued to land"), (1, "parked"), (1, "waiting")]);
            assert_eq!(graph.counts.left(), 3);
        });
    }
}
