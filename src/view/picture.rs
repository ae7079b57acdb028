//! The graph as a picture: its tasks with their states, and the dependencies between them.

mod drawing;
mod formats;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{
    VERSION,
    attempt::StillState,
    state::{StateKind, StateMark, TaskCounts},
};
use crate::core::{
    graph::{Ancestors, STEPS, task::TaskId},
    history::ActiveAttempts,
    select::View,
};

pub use drawing::{PictureBox, PictureLayout, PictureLine};
pub use formats::TreeLine;

/// The tasks and dependencies of a graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// The layout, if it was requested and the picture is not too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<PictureLayout>,
}

/// A task in a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PictureNode {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// Its priority; smaller is more urgent.
    pub priority: i64,
    /// Its state.
    pub state: StateKind,
    /// Why no process works on its open attempt, if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still: Option<StillState>,
    /// The story, if the task names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub story: Option<String>,
    /// The milestone, if the task names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestone: Option<String>,
}

/// A dependency in a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PictureEdge {
    /// The task that comes first.
    pub from: TaskId,
    /// The task that waits on it.
    pub to: TaskId,
    /// Whether it still holds up the task.
    pub state: EdgeState,
    /// Whether other dependencies imply it.
    pub implied: bool,
}

/// Whether a dependency holds up the task that has it; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeState {
    /// The dependency is complete.
    Satisfied,
    /// It is open.
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
            let (task, state) = (graph.task(number), StateKind::of(view.state(number, now)));
            nodes.push(PictureNode {
                id: task.id.clone(),
                title: task.title_line().to_owned(),
                priority: task.priority.0,
                state,
                still: None,
                story: task.story.clone(),
                milestone: task.milestone.clone(),
            });
            let before: Vec<usize> = graph.dependencies(number).filter(|it| is_in[*it]).collect();
            for one in before.iter().copied() {
                edges.push(PictureEdge {
                    from: graph.task(one).id.clone(),
                    to: task.id.clone(),
                    state: edge_state(StateKind::of(view.state(one, now))),
                    implied: ancestors.implying(one, &before, &mut steps).is_some(),
                });
            }
        }
        let counts = TaskCounts::of(view, now);
        let file = file.to_owned();
        GraphPicture { schema: VERSION, file, counts, nodes, edges, layout: None }
    }

    /// Adds why no process works on the open attempts; `live` is whether a run is in progress.
    pub fn note_still(&mut self, active: &ActiveAttempts, live: bool) {
        for node in &mut self.nodes {
            let open = active.of(&node.id);
            node.still = open.and_then(|open| StillState::of(open.state, active, live));
        }
    }

    /// The picture of a task with this many levels of its dependencies and dependents; none if it
    /// is not in this picture.
    #[must_use]
    pub fn around(&self, id: &str, levels: usize) -> Option<GraphPicture> {
        let middle = &self.nodes.iter().find(|node| node.id.as_str() == id)?.id;
        let mut near: HashSet<&TaskId> = HashSet::from([middle]);
        for is_up in [true, false] {
            let mut next: HashMap<&TaskId, Vec<&TaskId>> = HashMap::new();
            for edge in self.edges.iter().filter(|edge| !edge.implied) {
                let (from, to) =
                    if is_up { (&edge.to, &edge.from) } else { (&edge.from, &edge.to) };
                next.entry(from).or_default().push(to);
            }
            let (mut seen, mut newest) = (HashSet::from([middle]), vec![middle]);
            for _ in 0..levels {
                let found = newest.iter().flat_map(|it| next.get(it).into_iter().flatten());
                newest = found.copied().filter(|it| seen.insert(it)).collect();
            }
            near.extend(seen);
        }
        let near: HashSet<TaskId> = near.into_iter().cloned().collect();
        Some(self.only(|id| near.contains(id)))
    }

    fn only(&self, is_in: impl Fn(&TaskId) -> bool) -> GraphPicture {
        let mut picture = self.clone();
        picture.nodes.retain(|node| is_in(&node.id));
        picture.edges.retain(|edge| is_in(&edge.from) && is_in(&edge.to));
        picture
    }

    /// The picture without tasks that are complete or cancelled, and the number of those.
    #[must_use]
    pub fn folded(&self) -> (GraphPicture, usize) {
        let over = self.nodes.iter().filter(|node| node.state.is_over()).map(|node| &node.id);
        let over: HashSet<&TaskId> = over.collect();
        (self.only(|id| !over.contains(id)), over.len())
    }
}

fn edge_state(from: StateKind) -> EdgeState {
    match from.mark() {
        StateMark::Done => EdgeState::Satisfied,
        StateMark::Running | StateMark::Ready | StateMark::Waiting => EdgeState::Pending,
        StateMark::Cancelled | StateMark::Stuck => EdgeState::Dead,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::formats::tests::picture;
    use crate::core::samples::graph;

    #[test]
    fn what_is_near_a_task_are_its_levels_up_and_down() {
        // 0 -> 1 -> 2 -> 3 -> 4, and 5 -> 2, 1 -> 6.
        let picture = picture(&graph(7, &[(0, 1), (1, 2), (2, 3), (3, 4), (5, 2), (1, 6)]));
        let near = |levels| {
            let near = picture.around("t2", levels).unwrap();
            near.nodes.iter().map(|node| node.id.to_string()).collect::<BTreeSet<_>>()
        };
        assert_eq!(near(1).into_iter().collect::<Vec<_>>(), ["t1", "t2", "t3", "t5"]);
        assert_eq!(near(2).into_iter().collect::<Vec<_>>(), ["t0", "t1", "t2", "t3", "t4", "t5"]);
        assert_eq!(picture.around("t9", 1), None);
    }
}
