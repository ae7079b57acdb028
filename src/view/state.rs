//! The states of tasks: one table of their words, headings, signs and colors, from which texts, pages
//! and pictures derive everything else; and how many tasks are in each.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Index, IndexMut},
};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    adapters::terminal::Style,
    core::{
        default_value::is_default,
        graph::task::Status,
        select::{TaskState, View},
    },
};

/// The state of a task, in the order in which states are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// An attempt works on it, or the graph file says so.
    InProgress,
    /// It is out of attempts or of money.
    Parked,
    /// Its agent asked a person.
    NeedsInput,
    /// A person blocked it.
    Blocked,
    /// It is complete on another branch.
    OnBranch,
    /// It can start.
    Ready,
    /// It can start once what conflicts with it has ended.
    Conflicting,
    /// It failed, and can start at a known time.
    Retrying,
    /// The provider of its agent refuses for a time.
    RateLimited,
    /// Its executor is out.
    Unreachable,
    /// It waits on other tasks.
    Waiting,
    /// It is complete.
    Complete,
    /// It will not be done.
    Cancelled,
}

/// The few kinds of states that a sign tells apart, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateMark {
    /// A person is needed: parked, blocked, or needs input.
    Stuck,
    /// An attempt works on it.
    Running,
    /// It can start, now or at a known time.
    Ready,
    /// It waits on other tasks.
    Waiting,
    /// Cancelled.
    Cancelled,
    /// Complete.
    Done,
}

/// A state: its word, the heading of a list, the style of the heading, and its mark.
type StateRow = (StateKind, &'static str, &'static str, Style, StateMark);

const STATES: [StateRow; 13] = [
    (StateKind::InProgress, "in progress", "In progress", Style::Warn, StateMark::Running),
    (StateKind::Parked, "parked", "Parked: out of attempts", Style::Bad, StateMark::Stuck),
    (
        StateKind::NeedsInput,
        "needs input",
        "Needs input; `ralph answer ID \"…\"`",
        Style::Warn,
        StateMark::Stuck,
    ),
    (StateKind::Blocked, "blocked", "Blocked by a person", Style::Warn, StateMark::Stuck),
    (
        StateKind::OnBranch,
        "on another branch",
        "Complete on another branch; merge it, or run with `--onto BRANCH`",
        Style::Warn,
        StateMark::Stuck,
    ),
    (StateKind::Ready, "ready", "Ready, in the order they will run", Style::Good, StateMark::Ready),
    (
        StateKind::Conflicting,
        "conflicting",
        "Ready, but in conflict with what runs now",
        Style::Warn,
        StateMark::Ready,
    ),
    (StateKind::Retrying, "retrying", "Retrying after a failure", Style::Warn, StateMark::Ready),
    (StateKind::RateLimited, "rate-limited", "Rate-limited", Style::Warn, StateMark::Ready),
    (StateKind::Unreachable, "unreachable", "Executor unreachable", Style::Warn, StateMark::Ready),
    (StateKind::Waiting, "waiting", "Waiting", Style::Faint, StateMark::Waiting),
    (StateKind::Complete, "complete", "Completed, the newest first", Style::Faint, StateMark::Done),
    (StateKind::Cancelled, "cancelled", "Cancelled", Style::Faint, StateMark::Cancelled),
];

/// How a mark is written and drawn.
#[derive(Clone, Copy, Debug)]
pub struct MarkLook {
    /// The mark.
    pub mark: StateMark,
    /// Its name in pages and pictures.
    pub name: &'static str,
    /// Its words.
    pub words: &'static str,
    /// The character that stands for it in a text.
    pub sign: char,
    /// The color of its box in a picture. Dark text on it has at least a contrast of 4.5.
    pub fill: &'static str,
}

const LOOKS: [MarkLook; 6] = [
    MarkLook {
        mark: StateMark::Stuck,
        name: "stuck",
        words: "needs a person",
        sign: '!',
        fill: "#ffd9d2",
    },
    MarkLook {
        mark: StateMark::Running,
        name: "running",
        words: "in progress",
        sign: '▶',
        fill: "#cfe3ff",
    },
    MarkLook {
        mark: StateMark::Ready, name: "ready", words: "ready", sign: '○', fill: "#ffffff"
    },
    MarkLook {
        mark: StateMark::Waiting,
        name: "waiting",
        words: "waiting",
        sign: '·',
        fill: "#f3f3f3",
    },
    MarkLook {
        mark: StateMark::Cancelled,
        name: "cancelled",
        words: "cancelled",
        sign: '-',
        fill: "#e6e6e6",
    },
    MarkLook {
        mark: StateMark::Done, name: "done", words: "complete", sign: '✓', fill: "#d3f0d8"
    },
];

impl StateKind {
    /// The kind of a state.
    pub fn of(state: TaskState) -> StateKind {
        match state {
            TaskState::Running | TaskState::Claimed => StateKind::InProgress,
            TaskState::Unclaimed | TaskState::Parked(_) | TaskState::Spent => StateKind::Parked,
            TaskState::NeedsInput => StateKind::NeedsInput,
            TaskState::Blocked => StateKind::Blocked,
            TaskState::OnBranch => StateKind::OnBranch,
            // A run that begins tries the agent of a denied one again.
            TaskState::Ready | TaskState::Denied => StateKind::Ready,
            TaskState::Conflicting => StateKind::Conflicting,
            TaskState::Retrying(_) => StateKind::Retrying,
            TaskState::RateLimited(_) => StateKind::RateLimited,
            TaskState::Unreachable(_) => StateKind::Unreachable,
            TaskState::Waiting => StateKind::Waiting,
            TaskState::Complete => StateKind::Complete,
            TaskState::Cancelled => StateKind::Cancelled,
        }
    }

    fn row(self) -> &'static StateRow {
        &STATES[self as usize]
    }

    /// It in one or two words.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// The heading of a list of its tasks.
    pub fn heading(self) -> &'static str {
        self.row().2
    }

    /// Its style in a text.
    pub fn style(self) -> Style {
        self.row().3
    }

    /// Its mark.
    pub fn mark(self) -> StateMark {
        self.row().4
    }

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        matches!(self.mark(), StateMark::Done | StateMark::Cancelled)
    }
}

impl StateMark {
    /// How it is written and drawn.
    pub fn look(self) -> &'static MarkLook {
        &LOOKS[self as usize]
    }
}

/// The table for the scripts of the page: the word and the mark of each state, and the words of each
/// mark.
pub fn for_scripts() -> Value {
    let states = STATES.iter().map(|(kind, word, _, _, mark)| (key(*kind), json!([word, mark])));
    let marks = LOOKS.iter().map(|look| (look.name.to_owned(), json!(look.words)));
    let more = STILL.map(|(name, words)| (name.to_owned(), json!([words, name])));
    let more_marks = STILL.map(|(name, words)| (name.to_owned(), json!(words)));
    json!({
        "states": states.chain(more).collect::<serde_json::Map<_, _>>(),
        "marks": marks.chain(more_marks).collect::<serde_json::Map<_, _>>(),
    })
}

/// What a page shows apart, each with a sign of its own: open attempts that no process works on, and
/// agents that their provider refuses.
const STILL: [(&str, &str); 4] = [
    ("queued", "queued to land"),
    ("held", "held: nothing can land"),
    ("interrupted", "interrupted"),
    ("rate_limited", "rate-limited"),
];

fn key(kind: StateKind) -> String {
    json!(kind).as_str().unwrap_or_default().to_owned()
}

/// A value for each state, such as the number of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct StateTable<T>(BTreeMap<StateKind, T>);

impl<T> StateTable<T> {
    /// The states with their values.
    pub fn iter(&self) -> impl Iterator<Item = (StateKind, &T)> {
        self.0.iter().map(|(kind, value)| (*kind, value))
    }
}

impl<T: Default> Default for StateTable<T> {
    fn default() -> StateTable<T> {
        StateTable(STATES.iter().map(|row| (row.0, T::default())).collect())
    }
}

impl<T> Index<StateKind> for StateTable<T> {
    type Output = T;

    fn index(&self, kind: StateKind) -> &T {
        &self.0[&kind]
    }
}

impl<T: Default> IndexMut<StateKind> for StateTable<T> {
    fn index_mut(&mut self, kind: StateKind) -> &mut T {
        self.0.entry(kind).or_default()
    }
}

/// How many tasks are in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaskCounts {
    /// All tasks in question.
    pub total: usize,
    /// Complete by the graph, with a proof that says otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub unproved: usize,
    /// Queued to land or landing; these are in progress, too.
    pub queued: usize,
    /// By state.
    #[serde(flatten)]
    pub states: StateTable<usize>,
}

impl TaskCounts {
    /// Counts the tasks in question.
    pub fn of(view: &View<'_>, now: DateTime<Utc>) -> TaskCounts {
        TaskCounts {
            unproved: view.history.unproved(view.graph, &view.policy.filter).len(),
            ..TaskCounts::with(view, now, |_, _| {})
        }
    }

    /// Counts the tasks in question, and calls `see` for each that is neither over nor waiting.
    pub fn with(
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
        // An attempt may be open at a task that is over or waits by now, and another branch may have it.
        let is_late = |number: &usize| !graph.is_in_frontier(*number);
        let elsewhere = view.policy.elsewhere.keys().filter_map(|id| graph.number(id));
        let open = view.active.iter().filter_map(|active| active.number);
        let late: BTreeSet<usize> = open.chain(elsewhere).filter(is_late).collect();
        graph.frontier().chain(late.iter().copied()).for_each(|number| add(&mut counts, number));
        let others = |status, all: usize| {
            all - late.iter().filter(|number| graph.task(**number).status == status).count()
        };
        let complete = others(Status::Complete, graph.complete_count());
        let cancelled = others(Status::Cancelled, graph.cancelled_count());
        let others = graph.tasks().len() - counts.total - complete - cancelled;
        counts.states[StateKind::Waiting] += others;
        counts.states[StateKind::Complete] += complete;
        counts.states[StateKind::Cancelled] += cancelled;
        counts.total = graph.tasks().len();
        counts
    }

    /// Counts one more task, which is in this state.
    pub(super) fn add(&mut self, view: &View<'_>, number: usize, state: TaskState) {
        self.total += 1;
        let kind = StateKind::of(state);
        if kind == StateKind::InProgress {
            let id = &view.graph.task(number).id;
            self.queued += usize::from(view.history.active.is_queued(id));
        }
        self.states[kind] += 1;
    }

    /// How much is complete: `2 of 10 complete, 1 cancelled`.
    pub fn progress(&self) -> String {
        let TaskCounts { total, states, unproved, .. } = self;
        let cancelled = match states[StateKind::Cancelled] {
            0 => String::new(),
            count => format!(", {count} cancelled"),
        };
        let complete = states[StateKind::Complete];
        match unproved {
            // Nothing is called complete that is not.
            0 if complete == 0 => format!("0 of {total} done{cancelled}"),
            0 => format!("{complete} of {total} complete{cancelled}"),
            count => format!("{complete} of {total} landed, {count} not proved{cancelled}"),
        }
    }

    /// How many tasks are done, of those that are to be done: `2 of 9 done`.
    pub fn done_of_total(&self) -> String {
        let TaskCounts { total, states, unproved, .. } = self;
        let (done, all) = (states[StateKind::Complete], total - states[StateKind::Cancelled]);
        match unproved {
            0 => format!("{done} of {all} done"),
            count => format!("{done} of {all} landed, {count} not proved"),
        }
    }

    /// How many tasks are neither complete nor cancelled.
    pub fn left(&self) -> usize {
        let open = self.states.iter().filter(|(kind, _)| !kind.is_over());
        open.map(|(_, count)| count).sum()
    }

    /// What is left by state, as `3 ready`; states without a task are left out.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for (kind, count) in self.states.iter().filter(|(kind, _)| !kind.is_over()) {
            let is_active = kind == StateKind::InProgress;
            let queued = if is_active { self.queued } else { 0 };
            let are_asking = kind == StateKind::NeedsInput && *count > 1;
            let word = if are_asking { "need input" } else { kind.word() };
            let all = [(count - queued, word), (queued, "queued to land")];
            let all = all.into_iter().filter(|(count, _)| *count > 0);
            parts.extend(all.map(|(count, word)| format!("{count} {word}")));
        }
        parts
    }

    /// How much is complete, and what is left by state.
    pub fn summary(&self) -> String {
        [self.progress()].into_iter().chain(self.parts()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        graph::{
            filter::Filter,
            task::{Status, TaskId},
        },
        history::History,
        samples::graph,
        select::{Active, Policy, keys},
    };
    use proptest::prelude::*;

    const STATUSES: [Status; 6] = [
        Status::Pending,
        Status::InProgress,
        Status::Complete,
        Status::Blocked,
        Status::NeedsInput,
        Status::Cancelled,
    ];

    #[test]
    fn the_tables_are_in_the_order_of_the_states_and_marks() {
        for (at, (kind, word, ..)) in STATES.iter().enumerate() {
            assert_eq!((*kind as usize, key(*kind).is_empty()), (at, false), "{word}");
        }
        for (at, look) in LOOKS.iter().enumerate() {
            assert_eq!((look.mark as usize, json!(look.mark)), (at, json!(look.name)));
        }
    }

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
            let keys = keys(&graph);
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
