//! The order of the tasks, and what a run would come to, by the number of attempts at once.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    VERSION,
    attempt::AttemptView,
    night::{NightView, Patience},
    state::{StateKind, StateTable, TaskCounts},
    task::{TaskStanding, TaskView},
    waits::{BlockedLanding, UnreachableView, WaitingView, WaitingWorkView},
};
use crate::core::{
    graph::task::TaskId,
    night::AttemptLaw,
    select::{Policy, SelectionKey, Slot, View},
};

/// The numbers of attempts at once that are compared where none is given.
const JOBS: [usize; 5] = [1, 2, 4, 8, 16];
/// How many attempts must have completed tasks before their lengths count.
const ENOUGH: usize = 3;

/// What a run would come to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanView {
    /// The version of this shape.
    pub schema: u32,
    /// The run that starts now, or the rest of the one that goes on; none if nothing is open.
    pub night: Option<NightView>,
    /// The chain of tasks that bounds the time from below.
    pub critical_path: PathView,
    /// How long tasks take, relative to their estimates.
    pub pace: PaceView,
    /// The number of attempts at once after which more does not help.
    pub enough_jobs: usize,
    /// A forecast for each number of attempts at once.
    pub forecasts: Vec<ForecastView>,
    /// The tasks in the order in which one attempt at a time takes them.
    #[serde(skip)]
    pub order: Vec<PlannedTask>,
}

/// The chain of tasks that bounds the time from below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathView {
    /// The tasks, in order.
    #[schemars(with = "Vec<String>")]
    pub ids: Vec<TaskId>,
    /// How long they take together.
    pub seconds: u64,
}

/// How long tasks take, relative to their estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PaceView {
    /// The median of time over estimate; 1 where too few attempts have completed tasks.
    pub factor: f64,
    /// How many of the newest attempts have completed tasks.
    pub tasks: usize,
}

/// A forecast for one number of attempts at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ForecastView {
    /// Attempts at once.
    pub jobs: usize,
    /// How long all of it takes: if every attempt succeeds, or in half of the cases if that can be
    /// foreseen.
    pub seconds: u64,
    /// The run with this number of attempts at once; none before any attempt has ended, or if it is too
    /// large to be foreseen.
    pub night: Option<NightView>,
    /// The tasks, in the order in which they begin.
    pub tasks: Vec<ForecastTaskView>,
}

/// A task of a forecast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ForecastTaskView {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// When it begins, from now.
    pub start_seconds: u64,
    /// When it ends, from now.
    pub end_seconds: u64,
}

/// A task in the order of one attempt at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How long it takes.
    pub seconds: u64,
}

impl PlanView {
    /// A plan for this number of attempts at once, or for the usual ones where there is none.
    pub fn of(
        view: &View<'_>,
        jobs: Option<usize>,
        (is_live, now): (bool, DateTime<Utc>),
    ) -> PlanView {
        let pace = PaceView::of(view);
        let length = |number: usize| pace.seconds(view.graph.task(number).minutes);
        let path = view.critical_path(&length, now);
        let most = widest(view, &length, now);
        let usual = || JOBS.into_iter().filter(|jobs| *jobs < most).chain([most]).collect();
        let jobs: Vec<usize> = jobs.map_or_else(usual, |jobs| vec![jobs]);
        let forecast = |jobs: usize| ForecastView::of(view, jobs, &length, (is_live, now));
        let planned = |slot: &Slot| {
            let task = view.graph.task(slot.key.number);
            let (id, title) = (task.id.clone(), task.title_line().to_owned());
            PlannedTask { id, title, seconds: slot.end - slot.start }
        };
        PlanView {
            schema: VERSION,
            night: NightView::of(view, is_live, now, Patience::Long),
            critical_path: PathView {
                ids: path.iter().map(|number| view.graph.task(*number).id.clone()).collect(),
                seconds: path.iter().map(|number| length(*number)).sum(),
            },
            pace,
            enough_jobs: most,
            forecasts: jobs.into_iter().map(forecast).collect(),
            order: view.forecast(1, &length, now).slots.iter().map(planned).collect(),
        }
    }
}

impl ForecastView {
    /// A forecast of the selection for this number of attempts at once, from this time on.
    fn of(
        view: &View<'_>,
        jobs: usize,
        length: &dyn Fn(usize) -> u64,
        (is_live, now): (bool, DateTime<Utc>),
    ) -> ForecastView {
        let forecast = view.forecast(jobs, length, now);
        let policy = Policy { jobs, ..view.policy.clone() };
        // Before any attempt has ended, it would say nothing.
        let is_known = AttemptLaw::of(view).known() > 0;
        let view = &View { policy: &policy, ..*view };
        let night = is_known.then(|| NightView::of(view, is_live, now, Patience::Row)).flatten();
        let stretch = night.as_ref().map_or(1.0, |night| night.stretch(now, forecast.end));
        let after = |seconds: u64| times(seconds, stretch);
        let task = |slot: &Slot| ForecastTaskView {
            id: view.graph.task(slot.key.number).id.clone(),
            start_seconds: after(slot.start),
            end_seconds: after(slot.end),
        };
        ForecastView {
            jobs,
            seconds: after(forecast.end),
            night,
            tasks: forecast.slots.iter().map(task).collect(),
        }
    }
}

impl PaceView {
    /// Compares the newest attempts that completed tasks with their estimates.
    pub fn of(view: &View<'_>) -> PaceView {
        let (factor, tasks) = AttemptLaw::of(view).pace();
        let factor = factor.filter(|_| tasks >= ENOUGH).unwrap_or(1.0);
        PaceView { factor, tasks }
    }

    /// Whether enough tasks are complete for the factor to mean something.
    pub fn is_known(&self) -> bool {
        self.tasks >= ENOUGH
    }

    /// The length to expect of a task with this estimate.
    pub fn seconds(&self, minutes: u32) -> u64 {
        times(u64::from(minutes) * 60, self.factor).max(1)
    }
}

/// Multiplies seconds.
fn times(seconds: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "both factors are positive"
    )]
    let seconds = (seconds as f64 * factor).round() as u64;
    seconds
}

/// The smallest number of attempts at once after which more does not help.
fn widest(view: &View<'_>, length: &dyn Fn(usize) -> u64, now: DateTime<Utc>) -> usize {
    let best = view.forecast(usize::MAX, length, now);
    let (mut low, mut high) = (1, best.slots.len().max(1));
    while low < high {
        let middle = low.midpoint(high);
        if view.forecast(middle, length, now).end <= best.end {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

// The task graph by state.

/// The tasks of the graph by state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The version of this shape.
    pub schema: u32,
    /// The graph file.
    pub file: String,
    /// How many tasks are in each state.
    pub counts: TaskCounts,
    /// The tasks by state: ready ones in the order in which they will start, complete ones the newest
    /// first; cancelled ones are only counted.
    pub tasks: StateTable<Vec<TaskView>>,
    /// What a run waits for while no attempt can start.
    pub waiting: Option<WaitingView>,
    /// The executors that do not answer.
    pub unreachable: Vec<UnreachableView>,
    /// Why nothing can land.
    pub landing_blocked: Option<BlockedLanding>,
    /// What landed and waits for the checkout.
    pub landed: Option<WaitingWorkView>,
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
        graph.waiting = WaitingView::of(view.history, now).filter(|_| facts.live);
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
