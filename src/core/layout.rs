//! The layout of a picture: boxes and lines in, positions and routes out.
//!
//! A line leads from left to right, from the right side of its first box to the left side of its
//! second one. Each connected part is laid out for itself, and the parts are packed in rows. The
//! result depends on the input only.

mod columns;
mod engine;
mod layers;
mod parts;
mod spacing;

pub use parts::roots;

use columns::place;
use parts::{Part, connected, pack};

/// The most boxes that dagre gets: it takes 0.2 s for 200 of them and 5 s for 1,000.
pub const MOST_BOXES: usize = 300;
/// The most columns that the lines given to dagre pass through, in total.
const MOST_PASSES: usize = 500;
/// The most lines that dagre gets.
const MOST_LINES: usize = 450;

/// A point: from the left, from the top.
pub type LayoutPoint = [f64; 2];

/// The size of a box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoxSize {
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

/// What places the boxes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutEngine {
    /// The crate dagre, which avoids crossings well and is slow for large graphs.
    Dagre,
    /// A plain layering, for graphs of any size.
    Layers,
}

/// Where everything is.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphLayout {
    /// The width of the picture.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// The top left corner of each box.
    pub corners: Vec<LayoutPoint>,
    /// The points of each line, from its first box to its second one; empty for a line that has
    /// none because it leads from a box to itself or to a box that does not exist.
    pub routes: Vec<Vec<LayoutPoint>>,
    /// What placed the boxes.
    pub engine: LayoutEngine,
}

impl GraphLayout {
    /// The layout of these boxes. A line that leads from a later to an earlier box is drawn
    /// backwards, from right to left, so boxes should come after those that lead to them.
    pub fn of(boxes: &[BoxSize], lines: &[(usize, usize)]) -> GraphLayout {
        let mut forward: Vec<(usize, usize)> = lines
            .iter()
            .filter(|(from, to)| from != to && *from.max(to) < boxes.len())
            .map(|(from, to)| (*from.min(to), *from.max(to)))
            .collect();
        forward.sort_unstable();
        forward.dedup();
        let parts = connected(boxes, &forward);
        let engine = engine_for(boxes.len(), &parts);
        GraphLayout::of_parts(boxes.len(), lines, &parts, engine)
    }

    fn of_parts(
        boxes: usize,
        lines: &[(usize, usize)],
        parts: &[Part],
        engine: LayoutEngine,
    ) -> GraphLayout {
        let mut laid = GraphLayout {
            width: 0.0,
            height: 0.0,
            corners: vec![[0.0; 2]; boxes],
            routes: Vec::new(),
            engine,
        };
        let placed: Vec<PartLayout> = parts
            .iter()
            .map(|part| {
                let drafted = match engine {
                    LayoutEngine::Dagre if !part.lines.is_empty() => engine::ranked(part),
                    LayoutEngine::Dagre | LayoutEngine::Layers => layers::ranked(part),
                };
                place(part, &drafted)
            })
            .collect();
        let offsets = pack(&placed);
        let mut routes: Vec<((usize, usize), Vec<LayoutPoint>)> = Vec::new();
        for ((part, placed), [left, top]) in parts.iter().zip(placed).zip(offsets) {
            let moved = |[x, y]: LayoutPoint| [tenths(x + left), tenths(y + top)];
            laid.width = laid.width.max(tenths(left + placed.width));
            laid.height = laid.height.max(tenths(top + placed.height));
            for (number, corner) in part.boxes.iter().zip(placed.corners) {
                laid.corners[*number] = moved(corner);
            }
            for ((from, to), route) in part.lines.iter().zip(placed.routes) {
                let route = route.into_iter().map(moved).collect();
                routes.push(((part.boxes[*from], part.boxes[*to]), route));
            }
        }
        routes.sort_by_key(|(ends, _)| *ends);
        let route = |(from, to): &(usize, usize)| {
            let ends = (*from.min(to), *from.max(to));
            let found = routes.binary_search_by_key(&ends, |(ends, _)| *ends);
            let mut points = found.map_or(Vec::new(), |at| routes[at].1.clone());
            if from > to {
                points.reverse();
            }
            points
        };
        laid.routes = lines.iter().map(route).collect();
        laid
    }
}

/// The layout of a part, from its own top left corner.
struct PartLayout {
    width: f64,
    height: f64,
    corners: Vec<LayoutPoint>,
    routes: Vec<Vec<LayoutPoint>>,
}

/// In which column each box of a part is, and how high.
struct Ranked {
    /// The column of each box. A line leads from a column to a later one.
    columns: Vec<usize>,
    /// The middle of each box, from the top.
    middles: Vec<f64>,
    /// The columns that each line passes between its ends, and how high.
    passes: Vec<Vec<(usize, f64)>>,
}

/// The engine that is fast enough for these parts.
fn engine_for(boxes: usize, parts: &[Part]) -> LayoutEngine {
    let lines: usize = parts.iter().map(|part| part.lines.len()).sum();
    if boxes > MOST_BOXES || lines > MOST_LINES {
        return LayoutEngine::Layers;
    }
    let passes: usize = parts.iter().map(|part| layers::passes(part, &part.levels())).sum();
    if passes > MOST_PASSES { LayoutEngine::Layers } else { LayoutEngine::Dagre }
}

/// A length with one decimal.
fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
