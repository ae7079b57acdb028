//! The task graph by state.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    VERSION,
    attempt::AttemptView,
    state::{StateKind, StateTable, TaskCounts},
    task::{TaskStanding, TaskView, standing},
    waits::{BlockedLanding, UnreachableView, WaitingView, WaitingWorkView},
};
use crate::core::select::{SelectionKey, View};

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
            let standing = match kind {
                StateKind::Ready => {
                    ready.push(view.key(number));
                    continue;
                }
                StateKind::Cancelled => continue,
                StateKind::Complete
                | StateKind::InProgress
                | StateKind::Parked
                | StateKind::NeedsInput
                | StateKind::Blocked
                | StateKind::OnBranch
                | StateKind::Conflicting
                | StateKind::Retrying
                | StateKind::RateLimited
                | StateKind::Unreachable
                | StateKind::Waiting => standing(view, number, (facts.live, &facts.attempts), now),
            };
            graph.tasks[kind].push(TaskView::of(view.graph.task(number), standing));
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
            keys(&graph, false),
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
