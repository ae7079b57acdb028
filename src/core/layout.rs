//! The layout of a picture: boxes and lines in, positions and routes out.
//!
//! A line leads from left to right, from the right side of its first box to the left side of its
//! second one. Each connected part is laid out for itself, and the parts are packed in rows. The
//! result depends on the input only. Only this module decides where boxes and lines of a picture are.

mod layers;

/// The space between two boxes of a column.
const BETWEEN_BOXES: f64 = 18.0;
/// The space between a line and the next line or box of a column.
const BETWEEN_LINES: f64 = 12.0;
/// The space between two parts.
const BETWEEN_PARTS: f64 = 28.0;
/// How much wider than high a packed picture should be.
const RATIO: f64 = 1.6;

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
        let corners = vec![[0.0; 2]; boxes.len()];
        let mut laid = GraphLayout { width: 0.0, height: 0.0, corners, routes: Vec::new() };
        let placed: Vec<PartLayout> =
            parts.iter().map(|part| layers::place(part, layers::ranked(part))).collect();
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

/// The column and the height of each box of a part.
struct Ranked {
    /// The column of each box. A line leads from a column to a later one.
    columns: Vec<usize>,
    /// The middle of each box, from the top.
    middles: Vec<f64>,
    /// The columns that each line passes between its ends, and how high.
    passes: Vec<Vec<(usize, f64)>>,
}

/// Boxes that lines connect.
struct Part {
    /// The numbers of the boxes in the picture, ascending.
    boxes: Vec<usize>,
    /// Their sizes.
    sizes: Vec<BoxSize>,
    /// The lines, as positions in `boxes`; each leads from a smaller to a larger one.
    lines: Vec<(usize, usize)>,
}

impl Part {
    /// The length of the longest path that leads to each box.
    fn levels(&self) -> Vec<usize> {
        let mut levels = vec![0; self.boxes.len()];
        // Lines are sorted by their first box, whose level is final once they are reached.
        for (from, to) in &self.lines {
            levels[*to] = levels[*to].max(levels[*from] + 1);
        }
        levels
    }
}

/// The parts: first those with lines, by their first box, then the boxes without lines.
fn connected(sizes: &[BoxSize], lines: &[(usize, usize)]) -> Vec<Part> {
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

/// A number for each of `count` boxes, the same for connected boxes.
fn roots(count: usize, lines: &[(usize, usize)]) -> Vec<usize> {
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
fn pack(parts: &[PartLayout]) -> Vec<LayoutPoint> {
    let area: f64 =
        parts.iter().map(|it| (it.width + BETWEEN_PARTS) * (it.height + BETWEEN_PARTS)).sum();
    let widest = parts.iter().map(|it| it.width).fold(0.0, f64::max);
    let width = widest.max((area * RATIO).sqrt());
    let (mut x, mut y, mut row): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let mut after_lines = true;
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let has_lines = !part.routes.is_empty();
        let is_full = x + part.width > width + 0.5;
        if x > 0.0 && (is_full || has_lines != after_lines) {
            y += row + BETWEEN_PARTS;
            (x, row) = (0.0, 0.0);
        }
        places.push([x, y]);
        x += part.width + BETWEEN_PARTS;
        row = row.max(part.height);
        after_lines = has_lines;
    }
    places
}

/// The positions nearest to those wanted (by least squares) at which each is at least its gap
/// below the one before. `gaps` has one value less than `wanted`.
fn spaced(wanted: &[f64], gaps: &[f64]) -> Vec<f64> {
    // Without the gaps, the positions must only not descend: neighbours that do are averaged.
    let mut shifts = Vec::with_capacity(wanted.len());
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let mut shift = 0.0;
    for (at, position) in wanted.iter().enumerate() {
        if at > 0 {
            shift += gaps.get(at - 1).copied().unwrap_or(0.0);
        }
        shifts.push(shift);
        let mut block = (position - shift, 1);
        while let Some((sum, count)) = blocks.pop() {
            if sum / count as f64 <= block.0 / block.1 as f64 {
                blocks.push((sum, count));
                break;
            }
            block = (block.0 + sum, block.1 + count);
        }
        blocks.push(block);
    }
    let bases = blocks.iter().flat_map(|(sum, count)| vec![sum / *count as f64; *count]);
    bases.zip(shifts).map(|(base, shift)| base + shift).collect()
}

/// A length with one decimal.
fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
