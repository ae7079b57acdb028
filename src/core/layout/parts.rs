//! The connected parts of a picture, and how they are packed into rows.

use super::{BoxSize, LayoutPoint, PartLayout};

/// The space between two parts.
const BETWEEN: f64 = 28.0;
/// How much wider than high a packed picture should be.
const RATIO: f64 = 1.6;

/// Boxes that lines connect.
pub(super) struct Part {
    /// The numbers of the boxes in the picture, ascending.
    pub(super) boxes: Vec<usize>,
    /// Their sizes.
    pub(super) sizes: Vec<BoxSize>,
    /// The lines, as positions in `boxes`; each leads from a smaller to a larger one.
    pub(super) lines: Vec<(usize, usize)>,
}

impl Part {
    /// The length of the longest path that leads to each box.
    pub(super) fn levels(&self) -> Vec<usize> {
        let mut levels = vec![0; self.boxes.len()];
        // Lines are sorted by their first box, whose level is final once they are reached.
        for (from, to) in &self.lines {
            levels[*to] = levels[*to].max(levels[*from] + 1);
        }
        levels
    }
}

/// The parts: first those with lines, by their first box, then the boxes without lines.
pub(super) fn connected(sizes: &[BoxSize], lines: &[(usize, usize)]) -> Vec<Part> {
    let roots = roots(sizes.len(), lines);
    let mut has_lines = vec![false; sizes.len()];
    for (from, to) in lines {
        (has_lines[*from], has_lines[*to]) = (true, true);
    }
    let mut part_of = vec![None; sizes.len()];
    let mut place = vec![0; sizes.len()];
    let mut parts: Vec<Part> = Vec::new();
    for with_lines in [true, false] {
        for number in (0..sizes.len()).filter(|number| has_lines[*number] == with_lines) {
            let part = *part_of[roots[number]].get_or_insert_with(|| {
                parts.push(Part { boxes: Vec::new(), sizes: Vec::new(), lines: Vec::new() });
                parts.len() - 1
            });
            place[number] = parts[part].boxes.len();
            parts[part].boxes.push(number);
            parts[part].sizes.push(sizes[number]);
        }
    }
    for (from, to) in lines {
        if let Some(part) = part_of[roots[*from]] {
            parts[part].lines.push((place[*from], place[*to]));
        }
    }
    parts
}

/// A number for each of `count` things that is the same for those that lines connect.
pub fn roots(count: usize, lines: &[(usize, usize)]) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..count).collect();
    for (from, to) in lines {
        let (from, to) = (root(&mut parents, *from), root(&mut parents, *to));
        parents[from.max(to)] = from.min(to);
    }
    (0..count).map(|number| root(&mut parents, number)).collect()
}

fn root(parents: &mut [usize], mut number: usize) -> usize {
    while parents[number] != number {
        parents[number] = parents[parents[number]];
        number = parents[number];
    }
    number
}

/// The place of each part: in rows from left to right, those without lines in rows of their own.
pub(super) fn pack(parts: &[PartLayout]) -> Vec<LayoutPoint> {
    let area: f64 = parts.iter().map(|it| (it.width + BETWEEN) * (it.height + BETWEEN)).sum();
    let widest = parts.iter().map(|it| it.width).fold(0.0, f64::max);
    let width = widest.max((area * RATIO).sqrt());
    let (mut x, mut y, mut row): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let mut after_lines = true;
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let has_lines = !part.routes.is_empty();
        let is_full = x + part.width > width + 0.5;
        if x > 0.0 && (is_full || has_lines != after_lines) {
            y += row + BETWEEN;
            (x, row) = (0.0, 0.0);
        }
        places.push([x, y]);
        x += part.width + BETWEEN;
        row = row.max(part.height);
        after_lines = has_lines;
    }
    places
}
