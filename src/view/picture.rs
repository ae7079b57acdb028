//! The graph as a picture: its tasks with their states, and the dependencies between them.

mod drawing;
mod folding;
mod formats;
mod svg;
mod text_width;
mod tree;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::{VERSION, graph::word, task::TaskCounts};
use crate::core::{
    graph::{Ancestors, STEPS, task::TaskId},
    select::{TaskState, View},
};

pub use drawing::{PictureBox, PictureLayout, PictureLine};
pub use folding::{BoxKind, FoldKind, FoldKinds, FoldedBox, FoldedGraph, MarkCounts};
pub use tree::TreeLine;

/// The tasks and dependencies of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GraphPicture {
    /// The version of this shape.
    pub schema: u32,
    /// The graph file.
    pub file: String,
    /// How many tasks are in each state.
    pub counts: TaskCounts,
    /// The tasks by the length of the longest chain that they wait on, then in the order of the file.
    pub nodes: Vec<PictureNode>,
    /// The dependencies.
    pub edges: Vec<PictureEdge>,
    /// What is drawn and where, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<PictureLayout>,
}

/// A task in a picture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PictureNode {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its priority; smaller is more urgent.
    pub priority: i64,
    /// Its state in words, as in `ralph dag-status`.
    pub state: &'static str,
    /// The shape that shows the state.
    pub mark: StateMark,
    /// The story, if the task names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub story: Option<String>,
    /// The milestone, if the task names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestone: Option<String>,
}

/// The few kinds of states that a picture tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateMark {
    /// Complete.
    Done,
    /// Cancelled.
    Cancelled,
    /// An attempt works on it.
    Running,
    /// It can start, now or at a known time.
    Ready,
    /// It waits on other tasks.
    Waiting,
    /// A person is needed: parked, blocked, or needs input.
    Stuck,
}

/// A dependency in a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PictureEdge {
    /// The task that comes first.
    #[schemars(with = "String")]
    pub from: TaskId,
    /// The task that waits on it.
    #[schemars(with = "String")]
    pub to: TaskId,
    /// Whether it still holds up the task.
    pub state: EdgeState,
    /// Whether other dependencies imply it.
    pub implied: bool,
}

/// Whether a dependency holds up the task that has it; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeState {
    /// The dependency is complete.
    Satisfied,
    /// It is still to be done.
    Pending,
    /// It will not be done without a person: parked, blocked, needs input or cancelled.
    Dead,
}

impl GraphPicture {
    /// The picture of the tasks in question.
    pub fn of(view: &View<'_>, file: &str, now: DateTime<Utc>) -> GraphPicture {
        let graph = view.graph;
        let mut is_in = vec![false; graph.tasks().len()];
        view.admitted().for_each(|number| is_in[number] = true);
        let mut levels = vec![0; graph.tasks().len()];
        for number in graph.topological().iter().copied() {
            let before = graph.dependencies(number).filter(|it| is_in[*it]);
            levels[number] = before.map(|it| levels[it] + 1).max().unwrap_or(0);
        }
        let mut order: Vec<usize> = (0..is_in.len()).filter(|number| is_in[*number]).collect();
        order.sort_by_key(|number| levels[*number]);
        let ancestors = Ancestors::of(graph);
        let (mut nodes, mut edges, mut steps) = (Vec::new(), Vec::new(), STEPS);
        for number in order {
            let (task, state) = (graph.task(number), view.state(number, now));
            nodes.push(PictureNode {
                id: task.id.clone(),
                title: task.title_line().to_owned(),
                priority: task.priority.0,
                state: word(state),
                mark: mark(state),
                story: task.story.clone(),
                milestone: task.milestone.clone(),
            });
            let before: Vec<usize> = graph.dependencies(number).filter(|it| is_in[*it]).collect();
            for one in before.iter().copied() {
                edges.push(PictureEdge {
                    from: graph.task(one).id.clone(),
                    to: task.id.clone(),
                    state: edge_state(view.state(one, now)),
                    implied: ancestors.implying(one, &before, &mut steps).is_some(),
                });
            }
        }
        let counts = TaskCounts::of(view, now);
        let file = file.to_owned();
        GraphPicture { schema: VERSION, file, counts, nodes, edges, layout: None }
    }

    /// The picture without tasks that are complete or cancelled, and the number of those.
    #[must_use]
    pub fn folded(&self) -> (GraphPicture, usize) {
        let is_over =
            |node: &&PictureNode| matches!(node.mark, StateMark::Done | StateMark::Cancelled);
        let over: Vec<&TaskId> = self.nodes.iter().filter(is_over).map(|node| &node.id).collect();
        let over: std::collections::HashSet<&TaskId> = over.into_iter().collect();
        let mut picture = self.clone();
        picture.nodes.retain(|node| !over.contains(&node.id));
        picture.edges.retain(|edge| !over.contains(&edge.from) && !over.contains(&edge.to));
        (picture, over.len())
    }
}

impl StateMark {
    /// It in words.
    pub fn words(self) -> &'static str {
        match self {
            StateMark::Done => "complete",
            StateMark::Cancelled => "cancelled",
            StateMark::Running => "in progress",
            StateMark::Ready => "ready",
            StateMark::Waiting => "waiting",
            StateMark::Stuck => "stuck",
        }
    }

    /// The character that stands for it in a text.
    pub fn sign(self) -> char {
        match self {
            StateMark::Done => '✓',
            StateMark::Cancelled => '-',
            StateMark::Running => '▶',
            StateMark::Ready => '○',
            StateMark::Waiting => '·',
            StateMark::Stuck => '!',
        }
    }
}

fn mark(state: TaskState) -> StateMark {
    match state {
        TaskState::Complete => StateMark::Done,
        TaskState::Cancelled => StateMark::Cancelled,
        TaskState::Running | TaskState::Claimed => StateMark::Running,
        TaskState::Ready
        | TaskState::Denied
        | TaskState::Conflicting
        | TaskState::Retrying(_)
        | TaskState::RateLimited(_)
        | TaskState::Unreachable(_) => StateMark::Ready,
        TaskState::Parked(_) | TaskState::Spent | TaskState::NeedsInput | TaskState::Blocked => {
            StateMark::Stuck
        }
        TaskState::Waiting => StateMark::Waiting,
    }
}

fn edge_state(from: TaskState) -> EdgeState {
    match mark(from) {
        StateMark::Done => EdgeState::Satisfied,
        StateMark::Running | StateMark::Ready | StateMark::Waiting => EdgeState::Pending,
        StateMark::Cancelled | StateMark::Stuck => EdgeState::Dead,
    }
}
