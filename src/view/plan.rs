//! The plan of a run: the order of its tasks, when and how it ends; and the tasks by state.

use std::{cmp::Reverse, collections::BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::{
    VERSION,
    attempt::AttemptView,
    night::NightView,
    state::{StateKind, StateMark, StateTable, TaskCounts},
    task::{TaskStanding, TaskView},
    waits::{BlockedLanding, UnreachableView, WaitingWorkView, waiting},
};
use crate::core::{
    graph::task::TaskId,
    history::Waiting,
    night::{self, AttemptLaw, OrderedTask},
    select::{SelectionKey, TaskState, View},
};

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanView {
    /// The version of this shape.
    pub schema: u32,
    /// Why a run would not start, if so.
    pub refused: Option<String>,
    /// The forecast of the run that starts now, or of the rest of the current run; none if nothing
    /// is open, if it would not start, or if the graph is too large.
    pub night: Option<NightView>,
    /// How many attempts it makes at the same time.
    pub jobs: usize,
    /// The longest chain of open tasks, by their estimates: the run takes at least that long.
    pub chain: Vec<TaskId>,
    /// How many tasks the run would do if every attempt succeeded; none if only the first are known.
    pub count: Option<usize>,
    /// The first tasks, in the order they start.
    pub order: Vec<UpcomingTask>,
}

/// A task that has not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpcomingTask {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its state now.
    pub state: StateKind,
    /// When it would start if every attempt succeeds; none if that is not known.
    pub starts_at: Option<DateTime<Utc>>,
    /// When it would end.
    pub ends_at: Option<DateTime<Utc>>,
    /// The task whose agent added it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// Why it cannot start now; none if its dependencies are planned before it.
    pub why: Option<String>,
}

impl PlanView {
    /// A plan with the first `most` tasks.
    pub fn of(view: &View<'_>, goes_on: bool, now: DateTime<Utc>, most: usize) -> PlanView {
        let night = NightView::of(view, goes_on, now);
        let order = Order::of(view, night.as_ref(), now, most);
        let chain = night::longest_chain(view).into_iter();
        PlanView {
            schema: VERSION,
            refused: None,
            jobs: view.policy.jobs.max(1),
            chain: chain.map(|number| view.graph.task(number).id.clone()).collect(),
            count: order.is_whole.then_some(order.tasks.len()),
            order: order.upcoming(view, now, most),
            night,
        }
    }
}

/// The tasks in the order a run takes them if every attempt succeeds.
pub(super) struct Order {
    tasks: Vec<OrderedTask>,
    /// Whether these are all of them.
    is_whole: bool,
    has_times: bool,
}

impl Order {
    /// The order from this time on: all of it with a forecast of the night, else `most` tasks.
    /// Their times are stretched, so that the last one ends when the night does.
    pub(super) fn of(
        view: &View<'_>,
        night: Option<&NightView>,
        begin: DateTime<Utc>,
        most: usize,
    ) -> Order {
        let goes_on = night.is_some_and(|night| night.goes_on);
        let pace = AttemptLaw::of(view).pace().unwrap_or(1.0);
        let length = |number: usize| {
            let seconds = f64::from(view.graph.task(number).minutes) * 60.0 * pace;
            TimeDelta::milliseconds((seconds.max(1.0) * 1000.0) as i64)
        };
        let count = if night.is_some() { usize::MAX } else { most };
        let mut tasks = night::order(view, goes_on, begin, count, &length);
        let stretch = night.zip(tasks.iter().map(|task| task.ends_at).max());
        let stretch = stretch.map_or(1.0, |(night, end)| night.stretch(begin, end));
        let after = |at: DateTime<Utc>| {
            let millis = (at - begin).num_milliseconds() as f64 * stretch;
            begin.checked_add_signed(TimeDelta::milliseconds(millis as i64)).unwrap_or(at)
        };
        for task in &mut tasks {
            (task.starts_at, task.ends_at) = (after(task.starts_at), after(task.ends_at));
        }
        let is_whole = tasks.len() < count;
        Order { tasks, is_whole, has_times: night.is_some_and(NightView::is_known) }
    }

    /// The first tasks that have not started, and those that wait for others.
    pub(super) fn upcoming(
        &self,
        view: &View<'_>,
        now: DateTime<Utc>,
        most: usize,
    ) -> Vec<UpcomingTask> {
        let task = |number: usize| UpcomingTask {
            id: view.graph.task(number).id.clone(),
            title: view.graph.task(number).title_line().to_owned(),
            state: StateKind::of(view.state(number, now)),
            starts_at: None,
            ends_at: None,
            added_by: view.graph.task(number).added_by.clone(),
            why: cannot_start(view, number, now),
        };
        let planned = self.tasks.iter().take(most).map(|slot| {
            let waits = view.state(slot.number, now) == TaskState::Waiting;
            let task = task(slot.number);
            UpcomingTask {
                starts_at: self.has_times.then_some(slot.starts_at),
                ends_at: self.has_times.then_some(slot.ends_at),
                why: task.why.filter(|_| !waits),
                ..task
            }
        });
        let mut tasks: Vec<UpcomingTask> = planned.collect();
        let is_planned: BTreeSet<usize> = self.tasks.iter().map(|task| task.number).collect();
        let waiting = view.admitted().filter(|number| {
            !is_planned.contains(number) && view.state(*number, now) == TaskState::Waiting
        });
        let room = if self.is_whole { most.saturating_sub(tasks.len()) } else { 0 };
        tasks.extend(waiting.take(room).map(task));
        tasks
    }
}

/// Why a task cannot start now.
fn cannot_start(view: &View<'_>, number: usize, now: DateTime<Utc>) -> Option<String> {
    let state = view.state(number, now);
    if state == TaskState::Denied {
        return Some("its agent is denied access".to_owned());
    }
    let waits = [StateMark::Ready, StateMark::Waiting].contains(&StateKind::of(state).mark());
    let waits = waits && state != TaskState::Ready;
    waits.then(|| TaskView::at(view, number, (false, &[]), now).standing_note(now))
}

// The task graph by state.

/// The tasks of the graph by state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GraphView {
    /// The version of this shape.
    pub schema: u32,
    /// The graph file.
    pub file: String,
    /// How many tasks are in each state.
    pub counts: TaskCounts,
    /// The tasks by state: ready ones in the order they will start, complete ones the newest first;
    /// cancelled ones are only counted.
    pub tasks: StateTable<Vec<TaskView>>,
    /// The wait of a run while no attempt can start.
    pub waiting: Option<Waiting>,
    /// The executors that do not answer.
    pub unreachable: Vec<UnreachableView>,
    /// Why nothing can land.
    pub landing_blocked: Option<BlockedLanding>,
    /// The landed work that waits for the checkout.
    pub landed: Option<WaitingWorkView>,
    /// Whether a run is in progress.
    #[serde(skip)]
    pub live: bool,
}

/// The facts on disk about a graph, besides the journal.
#[derive(Clone, Debug, Default)]
pub struct GraphFacts {
    /// The graph file.
    pub file: String,
    /// Whether a run is in progress.
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
            let kind = StateKind::of(state);
            if kind == StateKind::Ready {
                ready.push(view.key(number));
            } else if kind != StateKind::Cancelled {
                let running = (facts.live, &facts.attempts[..]);
                graph.tasks[kind].push(TaskView::at(view, number, running, now));
            }
        }
        ready.sort_unstable();
        let ready = ready.into_iter().map(|key| view.graph.task(key.number));
        graph.tasks[StateKind::Ready] =
            ready.map(|task| TaskView::of(task, TaskStanding::Ready {})).collect();
        graph.tasks[StateKind::Complete].sort_by_key(|task| Reverse(completed_at(task)));
        graph.waiting = waiting(view.history, now).filter(|_| facts.live);
        graph.unreachable = UnreachableView::all(view.history, facts.live);
        graph.live = facts.live;
        graph.landing_blocked = BlockedLanding::now(&view.history.active);
        graph.landed = view.history.active.waiting.as_ref().map(WaitingWorkView::of);
        graph
    }
}

fn completed_at(task: &TaskView) -> Option<DateTime<Utc>> {
    if let TaskStanding::Complete { at, .. } = task.standing { at } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::samples::{end, record, started, task};
    use crate::core::{
        event::{Event, LandingEvent},
        graph::{
            TaskGraph,
            task::{Status, Task},
        },
        history::History,
        select::{Policy, keys},
        verdict::Verdict,
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
        let (keys, policy) = (
            keys(&graph),
            Policy { max_attempts: 1, rounds: 1, start_limit: 0, ..Policy::default() },
        );
        let view =
            View { graph: &graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        let now = DateTime::from_timestamp(60, 0).unwrap();
        check(&view, &GraphView::of(&view, GraphFacts::default(), now));
    }

    #[test]
    fn a_dependency_has_the_state_that_it_has_in_its_own_line() {
        shown(|_, graph| {
            assert_eq!(graph.tasks[StateKind::Parked][0].id.as_str(), "parked");
            let waiting = &graph.tasks[StateKind::Waiting];
            let TaskStanding::Waiting { waiting_on } = &waiting[0].standing else {
                panic!("{waiting:?}");
            };
            assert_eq!(waiting_on[0].text(), "parked (parked)");
        });
    }

    #[test]
    fn the_lists_and_the_counts_agree() {
        shown(|view, graph| {
            let now = DateTime::from_timestamp(60, 0).unwrap();
            assert_eq!(graph.counts, TaskCounts::of(view, now));
            assert_eq!(graph.counts.progress(), "0 of 4 done, 1 cancelled");
            let parts = graph.counts.parts();
            assert_eq!(parts, ["1 queued to land", "1 parked", "1 waiting"]);
            assert_eq!(graph.counts.left(), 3);
        });
    }
}
