//! A picture with its layout, as the page shows it.

use serde::Serialize;

use super::{EdgeState, GraphPicture, PictureNode};
use crate::{
    adapters::terminal::columns,
    core::layout::{BoxSize, GraphLayout},
};

/// The most tasks that are drawn; a person finds nothing in a larger picture, and it takes long.
const MOST_BOXES: usize = 1000;
/// The narrowest and the widest box.
const WIDTHS: [f64; 2] = [72.0, 230.0];
/// The space left and right of the text of a box, which has the sign to its left.
const BESIDE: f64 = 43.0;
/// The width of a character of an id and of a title, as in `graph.js`.
const CHARACTERS: [f64; 2] = [7.3, 6.6];
/// The height of a box with one line of text, and with two.
const HEIGHTS: [f64; 2] = [30.0, 46.0];

/// The layout of a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PictureLayout {
    /// The width of the picture.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// A box for each task.
    pub boxes: Vec<PictureBox>,
    /// The lines between them.
    pub lines: Vec<PictureLine>,
}

/// Where a task is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PictureBox {
    /// The id of the task.
    pub id: String,
    /// Its left side.
    pub x: f64,
    /// Its top.
    pub y: f64,
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

/// A line from a task to a dependent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PictureLine {
    /// The task that comes first.
    pub from: String,
    /// The task that waits on it.
    pub to: String,
    /// Whether the dependency still holds it up.
    pub state: EdgeState,
    /// Where it leads, from box to box.
    pub points: Vec<[f64; 2]>,
}

impl GraphPicture {
    /// The picture with its layout; without one if it has too many tasks.
    #[must_use]
    pub fn with_layout(self) -> GraphPicture {
        let layout = (self.nodes.len() <= MOST_BOXES).then(|| self.drawing());
        GraphPicture { layout, ..self }
    }

    fn drawing(&self) -> PictureLayout {
        let width = self.nodes.iter().map(PictureNode::width).fold(WIDTHS[0], f64::max);
        let width = width.min(WIDTHS[1]);
        let sizes: Vec<BoxSize> =
            self.nodes.iter().map(|node| BoxSize { width, height: node.height() }).collect();
        let edges = self.shown_edges();
        let ends: Vec<(usize, usize)> = edges.iter().map(|(from, to, _)| (*from, *to)).collect();
        let laid = GraphLayout::of(&sizes, &ends);
        let id = |at: usize| self.nodes[at].id.to_string();
        let boxes = laid.corners.iter().zip(sizes).enumerate();
        let boxes = boxes.map(|(at, ([x, y], BoxSize { width, height }))| PictureBox {
            id: id(at),
            x: *x,
            y: *y,
            width,
            height,
        });
        let lines = edges.into_iter().zip(laid.routes).map(|((from, to, state), points)| {
            PictureLine { from: id(from), to: id(to), state, points }
        });
        PictureLayout {
            width: laid.width,
            height: laid.height,
            boxes: boxes.collect(),
            lines: lines.collect(),
        }
    }
}

impl PictureNode {
    /// The width that the text of its box needs.
    fn width(&self) -> f64 {
        let widths = [self.id.as_str(), &self.title].map(|text| columns(text) as f64);
        (widths[0] * CHARACTERS[0]).max(widths[1] * CHARACTERS[1]).ceil() + BESIDE
    }

    /// The height of its box.
    fn height(&self) -> f64 {
        HEIGHTS[usize::from(self.title != self.id.as_str())]
    }
}

#[cfg(test)]
mod tests {
    use super::{super::formats::tests::picture, *};
    use crate::core::samples::graph;

    #[test]
    fn each_task_has_a_box_and_each_dependency_that_no_other_implies_a_line() {
        let drawn = picture(&graph(4, &[(0, 1), (1, 2), (0, 2), (3, 2)])).with_layout();
        let layout = drawn.layout.unwrap();
        let mut ids: Vec<&str> = layout.boxes.iter().map(|one| one.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["t0", "t1", "t2", "t3"]);
        let mut lines: Vec<String> =
            layout.lines.iter().map(|line| format!("{} {}", line.from, line.to)).collect();
        lines.sort_unstable();
        assert_eq!(lines, ["t0 t1", "t1 t2", "t3 t2"]);
        assert!(layout.boxes.iter().all(|one| one.x + one.width <= layout.width + 0.2));
    }

    #[test]
    fn a_picture_of_too_many_tasks_has_no_layout() {
        assert!(picture(&graph(MOST_BOXES, &[])).with_layout().layout.is_some());
        assert!(picture(&graph(MOST_BOXES + 1, &[])).with_layout().layout.is_none());
    }
}
