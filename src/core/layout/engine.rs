//! The layout by dagre. Only the columns and heights that it finds are used, because its lines pass
//! through boxes where a column has boxes of different widths.

use dagre::{
    EdgeLabel, LayoutOptions, NodeLabel, RankDir,
    graph::{Graph, GraphOptions},
    layout,
};

use super::{
    Ranked, layers,
    parts::Part,
    spacing::{BETWEEN_BOXES, BETWEEN_LINES},
};

/// The space between two columns, which only has to be there.
const BETWEEN_COLUMNS: f64 = 60.0;

/// Where dagre puts the boxes of a part.
pub(super) fn ranked(part: &Part) -> Ranked {
    let mut graph: Graph<NodeLabel, EdgeLabel> =
        Graph::with_options(GraphOptions { directed: true, multigraph: false, compound: false });
    for (at, size) in part.sizes.iter().enumerate() {
        let label = NodeLabel { width: size.width, height: size.height, ..NodeLabel::default() };
        graph.set_node(at.to_string(), Some(label));
    }
    for (from, to) in &part.lines {
        let label = EdgeLabel { label_offset: 0.0, ..EdgeLabel::default() };
        graph.set_edge(from.to_string(), to.to_string(), Some(label), None);
    }
    let options = LayoutOptions {
        rankdir: RankDir::LR,
        nodesep: BETWEEN_BOXES,
        edgesep: BETWEEN_LINES,
        ranksep: BETWEEN_COLUMNS,
        ..LayoutOptions::default()
    };
    layout(&mut graph, Some(options));
    read(&graph, part).unwrap_or_else(|| layers::ranked(part))
}

/// The result in the graph; none if a box has no place or a line leads backwards.
fn read(graph: &Graph<NodeLabel, EdgeLabel>, part: &Part) -> Option<Ranked> {
    let mut places = Vec::with_capacity(part.boxes.len());
    for at in 0..part.boxes.len() {
        let node = graph.node(&at.to_string())?;
        let (x, y) = (node.x?, node.y?);
        if !x.is_finite() || !y.is_finite() {
            return None;
        }
        places.push((x, y));
    }
    let mut columns: Vec<i64> = places.iter().map(|(x, _)| hundredths(*x)).collect();
    columns.sort_unstable();
    columns.dedup();
    let column = |x: f64| columns.binary_search(&hundredths(x)).ok();
    let of_boxes: Vec<usize> = places.iter().filter_map(|(x, _)| column(*x)).collect();
    let mut passes = Vec::with_capacity(part.lines.len());
    for (from, to) in &part.lines {
        let (first, last) = (of_boxes[*from], of_boxes[*to]);
        if first >= last {
            return None;
        }
        let edge = graph.edge(&from.to_string(), &to.to_string(), None)?;
        let mut through: Vec<(usize, f64)> = edge
            .points
            .iter()
            .filter(|point| point.y.is_finite())
            .filter_map(|point| Some((column(point.x)?, point.y)))
            .filter(|(column, _)| (first + 1..last).contains(column))
            .collect();
        through.sort_by_key(|(column, _)| *column);
        through.dedup_by_key(|(column, _)| *column);
        passes.push(through);
    }
    let middles = places.into_iter().map(|(_, y)| y).collect();
    Some(Ranked { columns: of_boxes, middles, passes })
}

/// A position that can be compared.
fn hundredths(position: f64) -> i64 {
    (position * 100.0).round() as i64
}
