//! A task, its state, and how many tasks are in each state.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::AttemptPosition;
use crate::core::{
    graph::task::{Status, Task, TaskId},
    select::{TaskState, View},
};

/// A task and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskView {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its priority; 1 is the most urgent.
    pub priority: i64,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: TaskStanding,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// It is complete.
    Complete {
        /// When its attempt ended.
        #[schemars(with = "String", extend("format" = "date-time"))]
        at: DateTime<Utc>,
        /// The number of its commits.
        commits: usize,
    },
    /// It is complete, and not by an attempt on record.
    MarkedComplete {
        /// When, by the graph file.
        completed_at: Option<String>,
    },
    /// It will not be done.
    Cancelled {},
    /// It can start.
    Ready {},
    /// It can start once what conflicts with it has ended.
    KeptApart {
        /// The conflict.
        why: String,
    },
    /// It failed, and can start then.
    Retrying {
        /// The time.
        #[schemars(with = "String", extend("format" = "date-time"))]
        until: DateTime<Utc>,
    },
    /// The provider of its agent refuses until then.
    RateLimited {
        /// The time.
        #[schemars(with = "String", extend("format" = "date-time"))]
        until: DateTime<Utc>,
    },
    /// Its executor does not answer or cannot be used.
    Unreachable {
        /// The executor.
        executor: String,
        /// Whether only a person can mend it, and the run does not try it again.
        lasts: bool,
        /// When it is tried again; none while it is tried, or if it is not.
        #[schemars(with = "Option<String>", extend("format" = "date-time"))]
        until: Option<DateTime<Utc>>,
    },
    /// It waits on dependencies.
    Waiting {
        /// The dependencies that are not complete.
        #[schemars(with = "Vec<String>")]
        on: Vec<TaskId>,
        /// The same dependencies, each with its state.
        waiting_on: Vec<DependencyView>,
    },
}

/// A dependency that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DependencyView {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// Its state.
    pub state: &'static str,
}

/// How many tasks are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    /// All tasks in question.
    pub total: usize,
    /// Complete.
    pub complete: usize,
    /// Cancelled.
    pub cancelled: usize,
    /// In progress, those queued to land included.
    pub in_progress: usize,
    /// Queued to land or landing.
    pub queued: usize,
    /// Out of attempts or of money.
    pub parked: usize,
    /// Waiting for a person's answer.
    pub needs_input: usize,
    /// Blocked by a person.
    pub held: usize,
    /// Can start.
    pub ready: usize,
    /// Can start once what conflicts with them has ended.
    pub kept_apart: usize,
    /// Can start at a known time.
    pub backing_off: usize,
    /// Waiting on other tasks.
    pub blocked: usize,
}

impl TaskView {
    /// A task with its state.
    pub fn of(task: &Task, standing: TaskStanding) -> TaskView {
        let (id, title) = (task.id.clone(), task.title_line().to_owned());
        TaskView { id, title, priority: task.priority.0, standing }
    }

    /// The state in one or two words.
    pub fn status_word(&self) -> &'static str {
        match self.standing {
            TaskStanding::InProgress { .. } => "in progress",
            TaskStanding::Parked { .. } => "parked",
            TaskStanding::NeedsInput { .. } => "needs input",
            TaskStanding::Blocked { .. } => "blocked",
            TaskStanding::Complete { .. } | TaskStanding::MarkedComplete { .. } => "complete",
            TaskStanding::Cancelled {} => "cancelled",
            TaskStanding::Ready {} => "ready",
            TaskStanding::KeptApart { .. } => "kept apart",
            TaskStanding::Retrying { .. } => "retrying",
            TaskStanding::RateLimited { .. } => "rate-limited",
            TaskStanding::Unreachable { .. } => "executor unreachable",
            TaskStanding::Waiting { .. } => "waiting",
        }
    }
}

impl DependencyView {
    /// The id, and the state where it is not simply "not yet".
    pub fn text(&self) -> String {
        match self.state {
            "ready" | "waiting" | "kept apart" => self.id.to_string(),
            state => format!("{} ({state})", self.id),
        }
    }
}

impl TaskCounts {
    /// Counts the tasks in question.
    pub fn of(view: &View<'_>, now: DateTime<Utc>) -> TaskCounts {
        TaskCounts::with(view, now, |_, _| {})
    }

    /// Counts the tasks in question, and calls `see` for each that is neither over nor waiting.
    pub(super) fn with(
        view: &View<'_>,
        now: DateTime<Utc>,
        mut see: impl FnMut(usize, TaskState),
    ) -> TaskCounts {
        let mut counts = TaskCounts::default();
        let mut add = |counts: &mut TaskCounts, number| {
            let state = view.state(number, now);
            counts.add(view, number, state);
            see(number, state);
        };
        let graph = view.graph;
        if !view.policy.filter.selects_all() {
            view.admitted().for_each(|number| add(&mut counts, number));
            return counts;
        }
        // An attempt may be open at a task that is over or waits by now.
        let is_late = |number: &usize| !graph.is_in_frontier(*number);
        let late: BTreeSet<usize> =
            view.active.iter().filter_map(|active| active.number).filter(is_late).collect();
        graph.frontier().chain(late.iter().copied()).for_each(|number| add(&mut counts, number));
        let others = |status, all: usize| {
            all - late.iter().filter(|number| graph.task(**number).status == status).count()
        };
        let complete = others(Status::Complete, graph.complete_count());
        let cancelled = others(Status::Cancelled, graph.cancelled_count());
        counts.blocked += graph.tasks().len() - counts.total - complete - cancelled;
        counts.complete += complete;
        counts.cancelled += cancelled;
        counts.total = graph.tasks().len();
        counts
    }

    /// Counts one more task, which is in this state.
    pub(super) fn add(&mut self, view: &View<'_>, number: usize, state: TaskState) {
        self.total += 1;
        let count = match state {
            TaskState::Complete => &mut self.complete,
            TaskState::Cancelled => &mut self.cancelled,
            TaskState::Running | TaskState::Claimed => {
                let id = &view.graph.task(number).id;
                self.queued += usize::from(view.history.active.is_queued(id));
                &mut self.in_progress
            }
            TaskState::Parked(_) | TaskState::Spent => &mut self.parked,
            TaskState::NeedsInput => &mut self.needs_input,
            TaskState::Blocked => &mut self.held,
            TaskState::Ready | TaskState::Denied => &mut self.ready,
            TaskState::Conflicting => &mut self.kept_apart,
            TaskState::Retrying(_) | TaskState::RateLimited(_) | TaskState::Unreachable(_) => {
                &mut self.backing_off
            }
            TaskState::Waiting => &mut self.blocked,
        };
        *count += 1;
    }

    /// How much is complete: `2 of 10 complete, 1 cancelled`.
    pub fn progress(&self) -> String {
        let TaskCounts { total, complete, cancelled, .. } = self;
        let cancelled = match cancelled {
            0 => String::new(),
            count => format!(", {count} cancelled"),
        };
        format!("{complete} of {total} complete{cancelled}")
    }

    /// How many tasks are neither complete nor cancelled.
    pub fn left(&self) -> usize {
        self.total - self.complete - self.cancelled
    }

    /// What is left by state; states without a task are left out.
    pub fn parts(&self) -> Vec<(usize, &'static str)> {
        let all = [
            (self.in_progress - self.queued, "in progress"),
            (self.queued, "queued to land"),
            (self.parked, "parked"),
            (self.needs_input, if self.needs_input == 1 { "needs input" } else { "need input" }),
            (self.held, "blocked"),
            (self.ready, "ready"),
            (self.kept_apart, "kept apart"),
            (self.backing_off, "retrying later"),
            (self.blocked, "waiting"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::core::samples::graph;
    use proptest::prelude::*;

    use super::*;
    use crate::core::{
        graph::filter::Filter,
        history::History,
        select::{Active, Policy, keys},
    };

    const STATUSES: [Status; 6] = [
        Status::Pending,
        Status::InProgress,
        Status::Complete,
        Status::Blocked,
        Status::NeedsInput,
        Status::Cancelled,
    ];

    proptest! {
        #[test]
        fn counts_are_those_of_all_tasks_one_by_one(
            statuses in proptest::collection::vec(prop::sample::select(&STATUSES[..]), 6),
            edges in proptest::collection::vec((0usize..6, 0usize..6), 0..8),
            open in proptest::collection::vec(0usize..7, 0..4),
            is_filtered: bool,
        ) {
            let edges: Vec<(usize, usize)> = edges.into_iter().filter(|(a, b)| a < b).collect();
            let mut graph = graph(6, &edges);
            for (number, status) in statuses.into_iter().enumerate() {
                graph.set_status(number, status);
            }
            let active: Vec<Active<'_>> = open
                .into_iter()
                .map(|n| Active { number: (n < 6).then_some(n), agent: None, works: true })
                .collect();
            let tasks = ["t0", "t1", "t2"].map(|id| TaskId::new(id).unwrap());
            let tasks = if is_filtered { tasks.to_vec() } else { Vec::new() };
            let filter = Filter { tasks, ..Filter::default() };
            let (history, policy) = (History::default(), Policy { filter, ..Policy::default() });
            let keys = keys(&graph, false);
            let view = View {
                graph: &graph, keys: &keys, history: &history, policy: &policy, active: &active,
            };
            let mut want = TaskCounts::default();
            let now = DateTime::UNIX_EPOCH;
            view.admitted().for_each(|n| want.add(&view, n, view.state(n, now)));
            prop_assert_eq!(TaskCounts::of(&view, now), want);
        }
    }
}
