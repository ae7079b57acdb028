//! The picture as text: a tree for the terminal, and the languages of Graphviz and Mermaid. Implied
//! dependencies are left out.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
};

use super::{EdgeState, GraphPicture, StateMark};
use crate::core::graph::task::TaskId;

/// The most characters of a title in a picture.
const TITLE: usize = 60;

impl GraphPicture {
    /// The picture in the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = String::from(
            "digraph ralph {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", \
             fontname=\"sans-serif\"];\n",
        );
        for node in &self.nodes {
            let look = node.state.mark().look();
            let label = format!("{} {}", look.sign, label(node.id.as_str(), &node.title, "\\n"));
            let id = quoted(node.id.as_str());
            let label = quoted(&label).replace("\\\\n", "\\n");
            let fill = look.fill;
            let _ = writeln!(text, "  {id} [label={label}, fillcolor=\"{fill}\"];");
        }
        for (from, to, state) in self.shown_edges() {
            let style = match state {
                EdgeState::Satisfied => " [color=\"#9a9a9a\"]",
                EdgeState::Pending => "",
                EdgeState::Dead => " [style=dashed, color=\"#b3261e\"]",
            };
            let [from, to] = [from, to].map(|at| quoted(self.nodes[at].id.as_str()));
            let _ = writeln!(text, "  {from} -> {to}{style};");
        }
        text + "}\n"
    }

    /// The picture in the language of Mermaid.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let label = label(&escaped(node.id.as_str()), &escaped(&node.title), "<br>");
            let look = node.state.mark().look();
            let (sign, class) = (look.sign, look.name);
            let _ = writeln!(text, "  t{at}[\"{sign} {label}\"]:::{class}");
        }
        for (from, to, state) in self.shown_edges() {
            let arrow = if state == EdgeState::Dead { "-.->" } else { "-->" };
            let _ = writeln!(text, "  t{from} {arrow} t{to}");
        }
        let marks: BTreeSet<StateMark> = self.nodes.iter().map(|node| node.state.mark()).collect();
        for look in marks.into_iter().map(StateMark::look) {
            let (name, fill) = (look.name, look.fill);
            let _ = writeln!(text, "  classDef {name} fill:{fill},color:#1a1a1a,stroke:#707070");
        }
        text
    }

    /// The edges that no other edges imply, as indexes of the nodes.
    pub(super) fn shown_edges(&self) -> Vec<(usize, usize, EdgeState)> {
        let nodes = self.nodes.iter().enumerate();
        let index: HashMap<&TaskId, usize> = nodes.map(|(at, node)| (&node.id, at)).collect();
        let shown = self.edges.iter().filter(|edge| !edge.implied);
        shown.map(|edge| (index[&edge.from], index[&edge.to], edge.state)).collect()
    }
}

/// The text of a box: the id, and the title if it adds to it.
fn label(id: &str, title: &str, line_break: &str) -> String {
    if title == id {
        return id.to_owned();
    }
    let plain: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let cut = if plain.chars().count() > TITLE {
        plain.chars().take(TITLE - 1).chain(['…']).collect()
    } else {
        plain
    };
    format!("{id}{line_break}{cut}")
}

/// A text as a string of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The text without markup for Mermaid.
fn escaped(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || " .,-_/!?+'".contains(c) {
            plain.push(c);
        } else {
            let _ = write!(plain, "#{};", u32::from(c));
        }
    }
    plain
}

/// One task of the tree. Each task stands below the last of its dependencies. A chain is not
/// indented, so that a long one stays readable.
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

/// The link of a task to the one above.
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
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (from, to, _) in self.shown_edges() {
            before[to].push(from);
        }
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut open = Vec::new();
        for (node, before) in before.iter().enumerate() {
            // Each node comes after its dependencies.
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
    use crate::core::samples::{graph, task};
    use chrono::DateTime;

    use super::*;
    use crate::core::{
        graph::{
            TaskGraph,
            task::{Status, Task},
        },
        history::History,
        select::{Policy, View, keys},
    };

    pub(in crate::view::picture) fn picture(graph: &TaskGraph) -> GraphPicture {
        let (keys, policy, history) = (keys(graph), Policy::default(), History::default());
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

    #[test]
    fn other_programs_get_boxes_and_arrows() {
        let titled =
            |id: &str, title: &str, status| Task { title: title.to_owned(), status, ..task(id) };
        let tasks = vec![
            titled("a", "Read \"it\" \\ all\n<script>", Status::Complete),
            titled("b", "b", Status::Blocked),
            titled("c", &"long ".repeat(30), Status::Pending),
        ];
        let graph = TaskGraph::new(tasks, vec![(0, 1), (1, 2), (0, 2)]).unwrap();
        let picture = picture(&graph);
        insta::assert_snapshot!(picture.dot(), @r##"
        digraph ralph {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fontname="sans-serif"];
          "a" [label="✓ a\nRead \"it\" \\ all <script>", fillcolor="#d3f0d8"];
          "b" [label="! b", fillcolor="#ffd9d2"];
          "c" [label="· c\nlong long long long long long long long long long long long…", fillcolor="#f3f3f3"];
          "a" -> "b" [color="#9a9a9a"];
          "b" -> "c" [style=dashed, color="#b3261e"];
        }
        "##);
        insta::assert_snapshot!(picture.mermaid(), @r#"
        flowchart LR
          t0["✓ a<br>Read #34;it#34; #92; all#10;#60;script#62;"]:::done
          t1["! b"]:::stuck
          t2["· c<br>long long long long long long long long long long long long…"]:::waiting
          t0 --> t1
          t1 -.-> t2
          classDef stuck fill:#ffd9d2,color:#1a1a1a,stroke:#707070
          classDef waiting fill:#f3f3f3,color:#1a1a1a,stroke:#707070
          classDef done fill:#d3f0d8,color:#1a1a1a,stroke:#707070
        "#);
    }
}
