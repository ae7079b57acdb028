//! The task graph, valid by construction: every dependency exists, and there is no cycle.
//!
//! The only user of petgraph. Its `is_cyclic_directed` and `tarjan_scc` recurse and overflow the
//! stack at a chain of 100,000 tasks, so only `toposort` and `kosaraju_scc` are used.

pub mod ancestors;
pub mod drafted;
pub mod edit;
pub mod filter;
mod frontier;
pub mod glob;
pub mod lint;
pub mod load;
pub mod merge;
pub mod task;
pub mod task_edit;
pub mod task_paths;
pub mod title_id;
pub mod yaml;

use std::collections::HashMap;

use petgraph::{
    Direction::{Incoming, Outgoing},
    algo::{kosaraju_scc, toposort},
    graph::{DiGraph, NodeIndex},
};
use serde_json::{Map, Value};

use crate::graph::{
    frontier::Frontier,
    task::{Spelling, Status, Task, TaskId},
};

/// The tasks and their dependencies. The number of a task is its position in the file.
#[derive(Clone, Debug)]
pub struct TaskGraph {
    tasks: Vec<Task>,
    numbers: HashMap<TaskId, usize>,
    /// An edge runs from a dependency to its dependent.
    dag: DiGraph<(), ()>,
    order: Vec<usize>,
    frontier: Frontier,
    /// The spelling of statuses in the file.
    pub spelling: Spelling,
    /// The other top-level fields (`project`, `milestones`, `stories`, …), for templates.
    pub project: Map<String, Value>,
}

impl TaskGraph {
    /// Builds the graph. `edges` are pairs (dependency, dependent) of task numbers and may repeat.
    ///
    /// # Errors
    /// One cycle of each strongly connected component, and the tasks.
    pub fn new(tasks: Vec<Task>, edges: Vec<(usize, usize)>) -> Result<TaskGraph, Cyclic> {
        let numbers = tasks.iter().enumerate().map(|(i, task)| (task.id.clone(), i)).collect();
        TaskGraph::with_numbers(tasks, numbers, edges)
    }

    /// Builds the graph of tasks whose numbers by id are known.
    fn with_numbers(
        tasks: Vec<Task>,
        numbers: HashMap<TaskId, usize>,
        edges: Vec<(usize, usize)>,
    ) -> Result<TaskGraph, Cyclic> {
        // As single numbers, they are sorted many times faster.
        let mut edges: Vec<u64> =
            edges.into_iter().map(|(from, to)| ((from as u64) << 32) | to as u64).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut dag = DiGraph::with_capacity(tasks.len(), edges.len());
        for _ in &tasks {
            dag.add_node(());
        }
        // petgraph lists the newest edge first. Adding edges in reverse keeps the file order.
        for edge in edges.into_iter().rev() {
            let (from, to) = (edge >> 32, edge & u64::from(u32::MAX));
            dag.add_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), ());
        }
        let Ok(order) = toposort(&dag, None) else {
            return Err(Cyclic { cycles: cycles(&dag), tasks });
        };
        Ok(TaskGraph {
            order: order.into_iter().map(NodeIndex::index).collect(),
            frontier: Frontier::of(&tasks, &dag),
            tasks,
            numbers,
            dag,
            spelling: Spelling::default(),
            project: Map::new(),
        })
    }

    /// All tasks, by number.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// One task by number.
    pub fn task(&self, number: usize) -> &Task {
        &self.tasks[number]
    }

    /// The number of a task.
    pub fn number(&self, id: &TaskId) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// The status of a task; none if the graph does not have it.
    pub fn status_of(&self, id: &TaskId) -> Option<Status> {
        self.number(id).map(|number| self.task(number).status)
    }

    /// The direct dependencies of a task.
    pub fn dependencies(&self, number: usize) -> impl Iterator<Item = usize> {
        self.dag.neighbors_directed(NodeIndex::new(number), Incoming).map(NodeIndex::index)
    }

    /// The direct dependents of a task.
    pub fn dependents(&self, number: usize) -> impl Iterator<Item = usize> {
        self.dag.neighbors_directed(NodeIndex::new(number), Outgoing).map(NodeIndex::index)
    }

    /// All tasks, each after its dependencies.
    pub fn topological(&self) -> &[usize] {
        &self.order
    }

    /// The number of dependencies, without repeats.
    pub fn edge_count(&self) -> usize {
        self.dag.edge_count()
    }

    /// The number of tasks on the longest chain of dependencies.
    pub fn longest_chain(&self) -> usize {
        let mut depth = vec![0; self.tasks.len()];
        for &number in &self.order {
            depth[number] = 1 + self.dependencies(number).map(|d| depth[d]).max().unwrap_or(0);
        }
        depth.into_iter().max().unwrap_or(0)
    }

    /// The tasks, by number, that are pending with complete dependencies, in progress, blocked, or in
    /// need of input: all that are neither over nor waiting on others.
    pub fn frontier(&self) -> impl Iterator<Item = usize> {
        self.frontier.tasks()
    }

    /// Whether a task is in the [frontier](TaskGraph::frontier).
    pub fn is_in_frontier(&self, number: usize) -> bool {
        self.frontier.has(number)
    }

    /// Whether a dependency of a task is not complete.
    pub fn is_waiting(&self, number: usize) -> bool {
        self.frontier.is_waiting(number)
    }

    /// The number of complete tasks.
    pub fn complete_count(&self) -> usize {
        self.frontier.complete
    }

    /// The number of cancelled tasks.
    pub fn cancelled_count(&self) -> usize {
        self.frontier.cancelled
    }

    /// Updates a status after an edit of the file. The dependencies stay as they are.
    pub fn set_status(&mut self, number: usize, status: Status) {
        let was = std::mem::replace(&mut self.tasks[number].status, status);
        self.frontier.follow(&self.tasks, &self.dag, number, was);
    }

    /// Updates a claim after an edit of the file.
    pub fn set_claim(&mut self, number: usize, at: Option<String>, by: Option<String>) {
        self.tasks[number].claimed_at = at;
        self.tasks[number].claimed_by = by;
    }
}

/// The error for tasks whose dependencies have cycles.
#[derive(Debug)]
pub struct Cyclic {
    /// Each cycle as task numbers: every task is a dependency of the next, the last of the first.
    pub cycles: Vec<Vec<usize>>,
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// Returns one cycle of each strongly connected component.
fn cycles(dag: &DiGraph<(), ()>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = kosaraju_scc(dag)
        .into_iter()
        .filter(|component| {
            component.len() > 1 || dag.find_edge(component[0], component[0]).is_some()
        })
        .map(|component| cycle_in(dag, &component))
        .collect();
    found.sort_unstable();
    found
}

/// Returns the shortest cycle through the first task of a component, by breadth-first search.
fn cycle_in(dag: &DiGraph<(), ()>, knot: &[NodeIndex]) -> Vec<usize> {
    let start = *knot.iter().min().expect("a component has a member");
    let members: std::collections::HashSet<_> = knot.iter().copied().collect();
    let mut reached_from: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in dag.neighbors_directed(at, Outgoing).filter(|next| members.contains(next)) {
            if next == start {
                let mut path = vec![at.index()];
                let mut back = at;
                while back != start {
                    back = reached_from[&back];
                    path.push(back.index());
                }
                path.reverse();
                return path;
            }
            if let std::collections::hash_map::Entry::Vacant(slot) = reached_from.entry(next) {
                slot.insert(at);
                queue.push_back(next);
            }
        }
    }
    unreachable!("a strongly connected component leads back to its first member")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{graph, task};

    #[test]
    fn neighbors_are_in_file_order() {
        let graph = graph(4, &[(0, 3), (1, 3), (0, 2), (1, 3)]);
        assert_eq!(graph.dependents(0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(graph.dependencies(3).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(graph.edge_count(), 3);
        assert_eq!(graph.longest_chain(), 2);
        assert_eq!(graph.number(&TaskId::new("t2").unwrap()), Some(2));
    }

    #[test]
    fn one_cycle_per_component_is_reported() {
        let tasks = || (0..7).map(|i| task(&format!("t{i}"))).collect();
        let edges = vec![(0, 1), (1, 2), (2, 0), (3, 4), (4, 3), (5, 5), (0, 6)];
        assert_eq!(
            TaskGraph::new(tasks(), edges).unwrap_err().cycles,
            [vec![0, 1, 2], vec![3, 4], vec![5]]
        );
    }

    #[test]
    fn a_chain_of_100_000_needs_no_stack() {
        let edges: Vec<_> = (1..100_000).map(|i| (i - 1, i)).collect();
        let long = graph(100_000, &edges);
        assert_eq!(long.longest_chain(), 100_000);
        let tasks = long.tasks().to_vec();
        let mut edges = edges;
        edges.push((99_999, 0));
        assert_eq!(TaskGraph::new(tasks, edges).unwrap_err().cycles[0].len(), 100_000);
    }
}
