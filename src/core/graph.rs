//! The task graph, valid by construction: every dependency exists, and there is no cycle.
//!
//! The only user of petgraph. Its `is_cyclic_directed` and `tarjan_scc` recurse and overflow the
//! stack at a chain of 100,000 tasks, so only `toposort` and `kosaraju_scc` are used.

pub mod edit;
pub mod filter;
pub mod lint;
pub mod load;
pub mod merge;
pub mod task;
pub mod task_edit;
pub mod yaml;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque, hash_map::Entry};

use petgraph::{
    Direction::{Incoming, Outgoing},
    algo::{kosaraju_scc, toposort},
    graph::{DiGraph, NodeIndex},
};
use serde_json::{Map, Value};

use self::task::{Spelling, Status, Task, TaskId};

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

    /// Updates a status after an edit of the file. The dependencies stay unchanged.
    pub fn set_status(&mut self, number: usize, status: Status) {
        let was = std::mem::replace(&mut self.tasks[number].status, status);
        self.frontier.follow(&self.tasks, &self.dag, number, was);
    }

    /// The graph for a starting run, without the claims of ended runs. None if there are no such
    /// claims.
    pub fn without_void_claims(&self) -> Option<TaskGraph> {
        let is_void = |number: &usize| self.tasks[*number].has_void_claim();
        let void: Vec<usize> = (0..self.tasks.len()).filter(is_void).collect();
        (!void.is_empty()).then(|| {
            let mut graph = self.clone();
            for number in void {
                graph.set_status(number, Status::Pending);
            }
            graph
        })
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
    let members: HashSet<_> = knot.iter().copied().collect();
    let mut reached_from: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut queue = VecDeque::from([start]);
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
            if let Entry::Vacant(slot) = reached_from.entry(next) {
                slot.insert(at);
                queue.push_back(next);
            }
        }
    }
    unreachable!("a strongly connected component leads back to its first member")
}

/// The tasks in progress, blocked, in need of input, or pending with complete dependencies.
#[derive(Clone, Debug, Default)]
struct Frontier {
    /// For each task, the number of its dependencies that are not complete.
    open: Vec<u32>,
    tasks: BTreeSet<usize>,
    /// The number of complete tasks.
    complete: usize,
    /// The number of cancelled tasks.
    cancelled: usize,
}

impl Frontier {
    /// Returns the front of these tasks.
    fn of(tasks: &[Task], dag: &DiGraph<(), ()>) -> Frontier {
        let mut frontier = Frontier { open: vec![0; tasks.len()], ..Frontier::default() };
        for edge in dag.raw_edges() {
            let is_open = tasks[edge.source().index()].status != Status::Complete;
            frontier.open[edge.target().index()] += u32::from(is_open);
        }
        for (number, task) in tasks.iter().enumerate() {
            frontier.count(task.status, |count| count + 1);
            frontier.place(number, task.status);
        }
        frontier
    }

    /// Follows a task that had the status `was`.
    fn follow(&mut self, tasks: &[Task], dag: &DiGraph<(), ()>, number: usize, was: Status) {
        let now = tasks[number].status;
        self.count(was, |count| count - 1);
        self.count(now, |count| count + 1);
        self.place(number, now);
        let is_complete = [was, now].map(|status| status == Status::Complete);
        if is_complete[0] == is_complete[1] {
            return;
        }
        for dependent in dag.neighbors_directed(NodeIndex::new(number), Outgoing) {
            let dependent = dependent.index();
            let open = &mut self.open[dependent];
            *open = if is_complete[1] { *open - 1 } else { *open + 1 };
            self.place(dependent, tasks[dependent].status);
        }
    }

    /// The tasks, by number.
    fn tasks(&self) -> impl Iterator<Item = usize> {
        self.tasks.iter().copied()
    }

    /// Whether a task is among them.
    fn has(&self, number: usize) -> bool {
        self.tasks.contains(&number)
    }

    /// Whether a dependency of a task is not complete.
    fn is_waiting(&self, number: usize) -> bool {
        self.open[number] > 0
    }

    fn count(&mut self, status: Status, change: impl Fn(usize) -> usize) {
        match status {
            Status::Complete => self.complete = change(self.complete),
            Status::Cancelled => self.cancelled = change(self.cancelled),
            Status::Pending | Status::InProgress | Status::Blocked | Status::NeedsInput => {}
        }
    }

    fn place(&mut self, number: usize, status: Status) {
        let is_in = match status {
            Status::Complete | Status::Cancelled => false,
            Status::Pending => !self.is_waiting(number),
            Status::InProgress | Status::Blocked | Status::NeedsInput => true,
        };
        if is_in {
            self.tasks.insert(number);
        } else {
            self.tasks.remove(&number);
        }
    }
}

/// The most dependencies to follow for one answer about a whole graph, which may have many.
pub const STEPS: usize = 2_000_000;

/// A graph with the order of its tasks.
pub struct Ancestors<'a> {
    graph: &'a TaskGraph,
    /// The position of each task in a topological order.
    rank: Vec<usize>,
}

impl Ancestors<'_> {
    /// The ancestors in this graph.
    pub fn of(graph: &TaskGraph) -> Ancestors<'_> {
        let mut rank = vec![0; graph.tasks().len()];
        for (at, number) in graph.topological().iter().enumerate() {
            rank[*number] = at;
        }
        Ancestors { graph, rank }
    }

    /// Returns another of the dependencies `among` that waits on `one`, and so implies it. `steps`
    /// is the number of steps left, at first [`STEPS`]; at 0, nothing is implied.
    pub fn implying(&self, one: usize, among: &[usize], steps: &mut usize) -> Option<usize> {
        let mut others = among.iter().copied().filter(|other| *other != one);
        let found = others.find(|other| self.waits_on(*other, one, steps));
        found.filter(|_| *steps > 0)
    }

    /// Whether `task` waits on `other`. `steps` is the number of steps left; at 0, the answer is
    /// yes, so that nothing is reported.
    pub fn waits_on(&self, task: usize, other: usize, steps: &mut usize) -> bool {
        task == other || self.waits_on_any(task, &[other], steps)
    }

    /// Whether `task` waits on one of the others, which are in ascending order. `steps` is as in
    /// [`Self::waits_on`].
    pub fn waits_on_any(&self, task: usize, others: &[usize], steps: &mut usize) -> bool {
        let Some(lowest) = others.iter().map(|other| self.rank[*other]).min() else {
            return false;
        };
        let mut open = vec![task];
        let mut seen = HashSet::new();
        while let Some(number) = open.pop() {
            for before in self.graph.dependencies(number) {
                *steps = steps.saturating_sub(1);
                if *steps == 0 || others.binary_search(&before).is_ok() {
                    return true;
                }
                if self.rank[before] > lowest && seen.insert(before) {
                    open.push(before);
                }
            }
        }
        false
    }
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
