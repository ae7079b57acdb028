//! A picture with its layout, as the page and the image of the graph show it.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::{BoxKind, EdgeState, FoldKinds, FoldedGraph, GraphPicture, StateMark};
use crate::{
    adapters::terminal::columns,
    core::layout::{BoxSize, GraphLayout},
};

/// The narrowest box.
const NARROWEST: f64 = 72.0;
/// The widest box.
const WIDEST: f64 = 230.0;
/// The space to the left of the text of a box, which has the sign.
pub(super) const LEFT: f64 = 30.0;
/// The space to the right of the text of a box.
pub(super) const RIGHT: f64 = 10.0;
/// The height of a box with one line of text.
const LOW: f64 = 30.0;
/// The height of a box with two lines of text.
const HIGH: f64 = 46.0;
/// The height of a box with several tasks.
const FOLDED: f64 = 54.0;

/// A layout of a picture: what is drawn, and where.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PictureLayout {
    /// The width of the picture.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// The number of implied dependencies, which have no line.
    pub implied: usize,
    /// Why more was folded than asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folded: Option<String>,
    /// The boxes.
    pub boxes: Vec<PictureBox>,
    /// The lines between them.
    pub lines: Vec<PictureLine>,
}

/// A task, or several that are drawn as one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PictureBox {
    /// The name of the box: the id of its task, or what it contains.
    pub id: String,
    /// Its left side.
    pub x: f64,
    /// Its top.
    pub y: f64,
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
    /// What is written in it.
    pub label: String,
    /// What it contains.
    pub kind: BoxKind,
    /// The state of its task, or the worst of its tasks.
    pub mark: StateMark,
    /// How many of its tasks have each mark; marks without a task are left out.
    pub counts: BTreeMap<StateMark, usize>,
    /// Its tasks.
    pub tasks: Vec<String>,
}

/// A line from a box to one that waits on it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PictureLine {
    /// The box that comes first.
    pub from: String,
    /// The box that waits on it.
    pub to: String,
    /// The worst state of the dependencies that the line stands for.
    pub state: EdgeState,
    /// Where it leads, from box to box.
    pub points: Vec<[f64; 2]>,
}

impl GraphPicture {
    /// The picture with its layout.
    #[must_use]
    pub fn with_layout(self, folding: &FoldKinds) -> GraphPicture {
        let layout = self.drawing(folding);
        GraphPicture { layout: Some(layout), ..self }
    }

    /// The layout with these kinds of folding.
    pub fn drawing(&self, folding: &FoldKinds) -> PictureLayout {
        let folded = FoldedGraph::of(self, folding);
        let counted = |tasks: &[usize]| {
            let mut counts = BTreeMap::new();
            for task in tasks {
                *counts.entry(self.nodes[*task].state.mark()).or_default() += 1;
            }
            counts
        };
        let counts: Vec<BTreeMap<StateMark, usize>> =
            folded.boxes.iter().map(|it| counted(&it.tasks)).collect();
        let texts = folded.boxes.iter().zip(&counts).map(|(it, counts)| match it.kind {
            BoxKind::Task => self.nodes[it.tasks[0]].texts(),
            BoxKind::Chain | BoxKind::Group => (it.label.clone(), counts_text(counts)),
        });
        let texts: Vec<(String, String)> = texts.collect();
        let wide = |(first, second): &(String, String)| {
            text_width(first, Font::Title).max(text_width(second, Font::Text)).ceil() + LEFT + RIGHT
        };
        let width = texts.iter().map(wide).fold(NARROWEST, f64::max).min(WIDEST);
        let height = |at: usize| match folded.boxes[at].kind {
            BoxKind::Chain | BoxKind::Group => FOLDED,
            BoxKind::Task if texts[at].1.is_empty() => LOW,
            BoxKind::Task => HIGH,
        };
        let sizes = (0..texts.len()).map(|at| BoxSize { width, height: height(at) });
        let sizes: Vec<BoxSize> = sizes.collect();
        let ends: Vec<(usize, usize)> =
            folded.lines.iter().map(|(from, to, _)| (*from, *to)).collect();
        let laid = GraphLayout::of(&sizes, &ends);
        let lines = folded.lines.iter().zip(laid.routes).map(|((from, to, state), points)| {
            let id = |at: usize| folded.boxes[at].id.clone();
            PictureLine { from: id(*from), to: id(*to), state: *state, points }
        });
        let lines = lines.collect();
        let boxes = folded.boxes.into_iter().zip(counts).zip(laid.corners).zip(sizes);
        let boxes = boxes.map(|(((it, counts), [x, y]), BoxSize { width, height })| {
            let tasks = it.tasks.iter().map(|task| self.nodes[*task].id.to_string()).collect();
            let mark = counts.keys().next().copied().unwrap_or(StateMark::Done);
            let kind = it.kind;
            PictureBox {
                id: it.id,
                x,
                y,
                width,
                height,
                label: it.label,
                kind,
                mark,
                counts,
                tasks,
            }
        });
        PictureLayout {
            width: laid.width,
            height: laid.height,
            implied: folded.implied,
            folded: folded.reason,
            boxes: boxes.collect(),
            lines,
        }
    }
}

/// The counts in words, the most urgent first: `1 ready, 3 waiting`.
pub(super) fn counts_text(counts: &BTreeMap<StateMark, usize>) -> String {
    let words = counts.iter().map(|(mark, count)| format!("{count} {}", mark.look().words));
    words.collect::<Vec<_>>().join(", ")
}

/// The fonts of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Font {
    /// Names of boxes.
    Title,
    /// Everything else.
    Text,
}

/// The widths of the characters from the blank to the tilde, in thousandths of the size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 584, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
/// The width of other characters, for each column that they have in a terminal.
const COLUMN: f64 = 0.6;
/// The width of characters with two columns.
const FULL: f64 = 1.04;
/// How much wider than the table a font may be.
const RESERVE: f64 = 1.18;

impl Font {
    /// The size of the font.
    fn size(self) -> f64 {
        match self {
            Font::Title => 13.0,
            Font::Text => 11.0,
        }
    }

    /// How much wider it is than the plain font.
    fn weight(self) -> f64 {
        match self {
            Font::Title => 1.1,
            Font::Text => 1.0,
        }
    }
}

/// The width that a text needs.
pub(super) fn text_width(text: &str, font: Font) -> f64 {
    text.chars().map(|c| char_width(c, font)).sum()
}

fn char_width(c: char, font: Font) -> f64 {
    let table = (c as usize).checked_sub(0x20).and_then(|at| WIDTHS.get(at));
    let width = match table {
        Some(width) => f64::from(*width) / 1000.0 * RESERVE,
        None => match columns(c.encode_utf8(&mut [0; 4])) {
            0 => 0.0,
            1 => COLUMN * RESERVE,
            _ => FULL,
        },
    };
    width * font.size() * font.weight()
}

/// The text as far as it fits, with an ellipsis if it was cut.
pub(super) fn fitted(text: &str, font: Font, room: f64) -> Cow<'_, str> {
    if text_width(text, font) <= room {
        return Cow::Borrowed(text);
    }
    let room = room - char_width('…', font);
    let mut used = 0.0;
    let kept = text.chars().take_while(|c| {
        used += char_width(*c, font);
        used <= room
    });
    let kept: String = kept.collect();
    Cow::Owned(kept.trim_end().to_owned() + "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_its_width() {
        let text = |text: &str, room: f64| fitted(text, Font::Text, room).into_owned();
        assert_eq!(text("iiiiiiiiii", 40.0), "iiiiiiiiii");
        assert_eq!(text("WWWWWWWWWW", 40.0), "WW…");
        assert_eq!(text("日本語の題名です", 60.0), "日本語の…");
        assert_eq!(text("words and more", 49.0), "words…");
        assert!(text_width("日本", Font::Text) > 3.0 * text_width("il", Font::Text));
        for room in 0..200 {
            let cut = text("Mixed 日本 text, e\u{301} and \u{1f600} signs", f64::from(room));
            let width = text_width(&cut, Font::Text);
            assert!(width <= f64::from(room).max(char_width('…', Font::Text)), "{cut}");
        }
    }
}
