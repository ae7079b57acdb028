//! The picture as lines of text: a tree in which each task stands below the last of the tasks that it
//! waits on. A chain is not indented, so that a long one stays readable.

use std::collections::HashMap;

use super::GraphPicture;

/// One task of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLine {
    /// The branches to the left of the task.
    pub branches: String,
    /// The index of the task among the nodes.
    pub node: usize,
    /// The other tasks that it waits on, which the tree does not show.
    pub also: Vec<String>,
}

/// The depth from which branches are no longer indented further.
const DEEPEST: usize = 12;

/// A task whose line is to be written.
struct NextTask {
    node: usize,
    /// The branches of the task above, as they continue below it.
    stem: String,
    depth: usize,
    link: TreeLink,
}

/// How a task stands below the one above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeLink {
    /// There is none above.
    Root,
    /// It is the only one below.
    Chain,
    /// Others follow.
    Branch,
    /// It is the last of several.
    Last,
}

impl GraphPicture {
    /// The lines of the tree, from top to bottom.
    pub fn tree(&self) -> Vec<TreeLine> {
        let index: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for edge in self.edges.iter().filter(|edge| !edge.implied) {
            if let (Some(from), Some(to)) =
                (index.get(edge.from.as_str()), index.get(edge.to.as_str()))
            {
                before[*to].push(*from);
            }
        }
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut open = Vec::new();
        for (node, before) in before.iter().enumerate() {
            // The nodes are in an order in which each comes after those that it waits on.
            match before.iter().max() {
                Some(last) => below[*last].push(node),
                None => open.push(NextTask {
                    node,
                    stem: String::new(),
                    depth: 0,
                    link: TreeLink::Root,
                }),
            }
        }
        open.reverse();
        let mut lines = Vec::new();
        while let Some(next) = open.pop() {
            let (branches, stem, depth) = next.drawn();
            let parent = before[next.node].iter().max();
            let others = before[next.node].iter().filter(|one| Some(*one) != parent);
            let also = others.map(|one| self.nodes[*one].id.to_string()).collect();
            lines.push(TreeLine { branches, node: next.node, also });
            let children = &below[next.node];
            for (at, child) in children.iter().enumerate().rev() {
                let link = match (children.len(), at + 1 == children.len()) {
                    (1, _) => TreeLink::Chain,
                    (_, true) => TreeLink::Last,
                    (_, false) => TreeLink::Branch,
                };
                open.push(NextTask { node: *child, stem: stem.clone(), depth, link });
            }
        }
        lines
    }
}

impl NextTask {
    /// The branches of the line, those that continue below it, and their depth.
    fn drawn(&self) -> (String, String, usize) {
        let stem = &self.stem;
        let (own, rest) = match self.link {
            TreeLink::Root => return (String::new(), String::new(), 0),
            TreeLink::Chain => return (format!("{stem}↓ "), stem.clone(), self.depth),
            TreeLink::Branch => ("├─ ", "│  "),
            TreeLink::Last => ("└─ ", "   "),
        };
        let branches = format!("{stem}{own}");
        if self.depth >= DEEPEST {
            return (branches, stem.clone(), self.depth);
        }
        (branches, format!("{stem}{rest}"), self.depth + 1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::core::samples::graph;
    use chrono::DateTime;

    use super::*;
    use crate::core::{
        graph::{TaskGraph, task::Status},
        history::History,
        select::{Policy, View, keys},
    };

    pub(in crate::view::picture) fn picture(graph: &TaskGraph) -> GraphPicture {
        let (keys, policy, history) = (keys(graph, false), Policy::default(), History::default());
        let view = View { graph, keys: &keys, history: &history, policy: &policy, active: &[] };
        GraphPicture::of(&view, "g.yaml", DateTime::from_timestamp(60, 0).unwrap())
    }

    fn drawn(picture: &GraphPicture) -> String {
        let line = |line: TreeLine| {
            let also = if line.also.is_empty() {
                String::new()
            } else {
                format!(" + {}", line.also.join(", "))
            };
            let node = &picture.nodes[line.node];
            format!("{}{} {}{also}", line.branches, node.state.mark().look().sign, node.id)
        };
        picture.tree().into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_task_stands_below_the_last_that_it_waits_on() {
        // 0 -> 1 -> 2 -> 3, 1 -> 4, 4 -> 5, 3 -> 5, 6 alone, and 0 -> 3, which the chain implies.
        let edges = [(0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (3, 5), (0, 3)];
        let mut graph = graph(7, &edges);
        insta::assert_snapshot!(drawn(&picture(&graph)), @r"
        ○ t0
        ↓ · t1
        ├─ · t2
        │  ↓ · t3
        │  ↓ · t5 + t4
        └─ · t4
        ○ t6
        ");
        graph.set_status(0, Status::Complete);
        graph.set_status(6, Status::Blocked);
        let (folded, over) = picture(&graph).folded();
        assert_eq!(over, 1);
        insta::assert_snapshot!(drawn(&folded), @r"
        ! t6
        ○ t1
        ├─ · t2
        │  ↓ · t3
        │  ↓ · t5 + t4
        └─ · t4
        ");
    }

    #[test]
    fn a_chain_of_any_length_is_not_indented() {
        let edges: Vec<(usize, usize)> = (1..50_000).map(|n| (n - 1, n)).collect();
        let lines = picture(&graph(50_000, &edges)).tree();
        assert_eq!(lines.len(), 50_000);
        assert!(lines.iter().skip(1).all(|line| line.branches == "↓ "));
        // A comb: each task has a next one and a leaf.
        let edges: Vec<(usize, usize)> =
            (0..2_000).flat_map(|n| [(2 * n, 2 * n + 1), (2 * n, 2 * n + 2)]).collect();
        let lines = picture(&graph(4_001, &edges)).tree();
        assert!(lines.iter().all(|line| line.branches.chars().count() <= 3 * (DEEPEST + 1)));
    }
}
