//! A layering for graphs of any size: columns by the longest path, an order in each column by
//! the middle of a box's neighbors, and heights near that.

use super::{BETWEEN_BOXES, BETWEEN_LINES, LayoutPoint, Part, PartLayout, Ranked, spaced};

/// The most passes of lines through columns; further lines lead straight to their box.
const PASSES: usize = 40_000;
/// How often the order of the columns is improved, once to the right and once to the left.
const SWEEPS: usize = 6;

/// A box, or a line where it passes through a column.
#[derive(Clone, Default)]
struct Spot {
    height: f64,
    is_box: bool,
    /// The connected spots of the column before.
    before: Vec<usize>,
    /// The connected spots of the column after.
    after: Vec<usize>,
}

/// The columns and heights of the boxes and lines of a part.
pub(super) fn ranked(part: &Part) -> Ranked {
    let levels = tightened(part);
    let count = levels.iter().max().map_or(0, |last| last + 1);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut spots: Vec<Spot> = Vec::with_capacity(part.boxes.len());
    for (at, size) in part.sizes.iter().enumerate() {
        spots.push(Spot { height: size.height, is_box: true, ..Spot::default() });
        columns[levels[at]].push(at);
    }
    let mut left = PASSES;
    let mut chains: Vec<Vec<usize>> = Vec::with_capacity(part.lines.len());
    for (from, to) in &part.lines {
        let between = levels[*from] + 1..levels[*to];
        let mut chain = Vec::new();
        if between.len() <= left {
            left -= between.len();
            for column in between {
                chain.push(spots.len());
                columns[column].push(spots.len());
                spots.push(Spot::default());
            }
            let whole = [*from].into_iter().chain(chain.iter().copied()).chain([*to]);
            let whole: Vec<usize> = whole.collect();
            for pair in whole.windows(2) {
                spots[pair[0]].after.push(pair[1]);
                spots[pair[1]].before.push(pair[0]);
            }
        }
        chains.push(chain);
    }
    reorder(&mut columns, &spots);
    let heights = heights(&columns, &spots);
    let passes = part.lines.iter().zip(&chains).map(|((from, _), chain)| {
        let first = levels[*from] + 1;
        chain.iter().enumerate().map(|(at, spot)| (first + at, heights[*spot])).collect()
    });
    let passes = passes.collect();
    Ranked { columns: levels, middles: heights[..part.boxes.len()].to_vec(), passes }
}

/// The columns of the boxes. Those that nothing leads to stand next to the first box they lead to.
fn tightened(part: &Part) -> Vec<usize> {
    let mut levels = part.levels();
    let mut nearest: Vec<Option<usize>> = vec![None; levels.len()];
    for (from, to) in &part.lines {
        let limit = nearest[*from].get_or_insert(usize::MAX);
        *limit = levels[*to].min(*limit);
    }
    let mut is_start = vec![true; levels.len()];
    part.lines.iter().for_each(|(_, to)| is_start[*to] = false);
    for at in 0..levels.len() {
        if let (true, Some(limit)) = (is_start[at], nearest[at]) {
            levels[at] = limit - 1;
        }
    }
    levels
}

/// Orders each column by the mean place of the neighbors of its spots.
fn reorder(columns: &mut [Vec<usize>], spots: &[Spot]) {
    let mut places = vec![0.0; spots.len()];
    let number = |column: &[usize], places: &mut Vec<f64>| {
        for (at, spot) in column.iter().enumerate() {
            places[*spot] = (at as f64 + 0.5) / column.len() as f64;
        }
    };
    for column in columns.iter() {
        number(column, &mut places);
    }
    let mut sort = |column: &mut Vec<usize>, of: fn(&Spot) -> &Vec<usize>| {
        let mut keyed: Vec<(f64, usize)> = column
            .iter()
            .map(|spot| (mean(of(&spots[*spot]), &places).unwrap_or(places[*spot]), *spot))
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        *column = keyed.into_iter().map(|(_, spot)| spot).collect();
        number(column, &mut places);
    };
    for _ in 0..SWEEPS {
        columns.iter_mut().skip(1).for_each(|column| sort(column, |spot| &spot.before));
        columns.iter_mut().rev().skip(1).for_each(|column| sort(column, |spot| &spot.after));
    }
    columns.iter_mut().skip(1).for_each(|column| sort(column, |spot| &spot.before));
}

/// The middle of each spot, near its neighbors.
fn heights(columns: &[Vec<usize>], spots: &[Spot]) -> Vec<f64> {
    let mut heights = vec![0.0; spots.len()];
    let gaps: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| column.windows(2).map(|it| gap(&spots[it[0]], &spots[it[1]])).collect())
        .collect();
    let mut settle = |at: usize, of: fn(&Spot) -> Vec<usize>| {
        let wanted = columns[at].iter();
        let wanted =
            wanted.map(|spot| mean(&of(&spots[*spot]), &heights).unwrap_or(heights[*spot]));
        let wanted: Vec<f64> = wanted.collect();
        for (spot, height) in columns[at].iter().zip(spaced(&wanted, &gaps[at])) {
            heights[*spot] = height;
        }
    };
    for at in 0..columns.len() {
        settle(at, |spot| spot.before.clone());
    }
    for _ in 0..SWEEPS / 2 {
        (0..columns.len()).rev().for_each(|at| settle(at, |spot| spot.after.clone()));
        (0..columns.len()).for_each(|at| settle(at, |spot| spot.before.clone()));
    }
    for at in 0..columns.len() {
        settle(at, |spot| spot.before.iter().chain(&spot.after).copied().collect());
    }
    heights
}

/// The least distance between the middles of two spots of a column.
fn gap(upper: &Spot, lower: &Spot) -> f64 {
    let both = upper.is_box && lower.is_box;
    f64::midpoint(upper.height, lower.height) + if both { BETWEEN_BOXES } else { BETWEEN_LINES }
}

fn mean(spots: &[usize], values: &[f64]) -> Option<f64> {
    if spots.is_empty() {
        return None;
    }
    Some(spots.iter().map(|spot| values[*spot]).sum::<f64>() / spots.len() as f64)
}

// From columns and heights to corners and routes. A line crosses a column level, at a height that
// no box of the column has, and climbs between columns only.

/// The least space between two columns.
const LEAST_GAP: f64 = 44.0;
/// The most space between two columns.
const MOST_GAP: f64 = 150.0;
/// The space between columns that a line needs for each unit that it climbs there.
const SLOPE: f64 = 0.15;
/// The most space between two lines at the side of a box.
const BETWEEN_ENDS: f64 = 9.0;
/// The part of a side that lines may use.
const SIDE: f64 = 0.7;

/// The corners of the boxes of a part and the routes of its lines.
pub(super) fn place(part: &Part, mut ranked: Ranked) -> PartLayout {
    let count = ranked.columns.iter().max().map_or(0, |last| last + 1);
    raise(part, &mut ranked);
    let (starts, ends) = ends(part, &ranked);
    let levels: Vec<Vec<(usize, f64)>> = (0..part.lines.len())
        .map(|at| {
            let (from, to) = part.lines[at];
            let first = (ranked.columns[from], starts[at]);
            let last = (ranked.columns[to], ends[at]);
            [first].into_iter().chain(ranked.passes[at].iter().copied()).chain([last]).collect()
        })
        .collect();
    let (lefts, rights) = sides(part, &ranked, &levels, count);
    let corner =
        |at: usize| [lefts[ranked.columns[at]], ranked.middles[at] - part.sizes[at].height / 2.0];
    let route = |at: usize| {
        let (from, _) = part.lines[at];
        let start = lefts[ranked.columns[from]] + part.sizes[from].width;
        let mut points: Vec<LayoutPoint> = vec![[start, starts[at]]];
        let last = levels[at].len() - 1;
        for (place, (column, height)) in levels[at].iter().enumerate() {
            if place > 0 {
                points.push([lefts[*column], *height]);
            }
            if place < last {
                points.push([rights[*column], *height]);
            }
        }
        plain(points)
    };
    let bottom = (0..part.boxes.len()).map(|at| ranked.middles[at] + part.sizes[at].height / 2.0);
    let lowest = ranked.passes.iter().flatten().map(|(_, height)| *height);
    PartLayout {
        width: rights.iter().copied().fold(0.0, f64::max),
        height: bottom.chain(lowest).fold(0.0, f64::max),
        corners: (0..part.boxes.len()).map(corner).collect(),
        routes: (0..part.lines.len()).map(route).collect(),
    }
}

/// Moves everything to the top.
fn raise(part: &Part, ranked: &mut Ranked) {
    let boxes = ranked.middles.iter().zip(&part.sizes);
    let tops = boxes.map(|(middle, size)| middle - size.height / 2.0);
    let lines = ranked.passes.iter().flatten().map(|(_, height)| *height);
    let top = tops.chain(lines).fold(f64::MAX, f64::min);
    ranked.middles.iter_mut().for_each(|height| *height -= top);
    ranked.passes.iter_mut().flatten().for_each(|(_, height)| *height -= top);
}

/// Where each line leaves its first box and reaches its second one: spread over the side, in the
/// order of where the lines lead.
fn ends(part: &Part, ranked: &Ranked) -> (Vec<f64>, Vec<f64>) {
    let mut leaving: Vec<Vec<(f64, usize)>> = vec![Vec::new(); part.boxes.len()];
    let mut reaching = leaving.clone();
    for (line, (from, to)) in part.lines.iter().enumerate() {
        let passes = &ranked.passes[line];
        let next = passes.first().map_or(ranked.middles[*to], |(_, height)| *height);
        let last = passes.last().map_or(ranked.middles[*from], |(_, height)| *height);
        leaving[*from].push((next, line));
        reaching[*to].push((last, line));
    }
    let spread = |sides: Vec<Vec<(f64, usize)>>| {
        let mut heights = vec![0.0; part.lines.len()];
        for (at, mut lines) in sides.into_iter().enumerate() {
            lines.sort_by(|a, b| a.0.total_cmp(&b.0));
            let gaps = lines.len().saturating_sub(1) as f64;
            let gap = BETWEEN_ENDS.min(part.sizes[at].height * SIDE / gaps.max(1.0));
            for (place, (_, line)) in lines.into_iter().enumerate() {
                heights[line] = ranked.middles[at] + (place as f64 - gaps / 2.0) * gap;
            }
        }
        heights
    };
    (spread(leaving), spread(reaching))
}

/// The left and right side of each column. Steep lines get more space.
fn sides(
    part: &Part,
    ranked: &Ranked,
    levels: &[Vec<(usize, f64)>],
    count: usize,
) -> (Vec<f64>, Vec<f64>) {
    let mut widths: Vec<f64> = vec![0.0; count];
    for (at, size) in part.sizes.iter().enumerate() {
        let width = &mut widths[ranked.columns[at]];
        *width = width.max(size.width);
    }
    let mut gaps = vec![LEAST_GAP; count];
    for pair in levels.iter().flat_map(|line| line.windows(2)) {
        let ((column, from), (_, to)) = (pair[0], pair[1]);
        gaps[column] = gaps[column].max((to - from).abs() * SLOPE).min(MOST_GAP);
    }
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    let mut x = 0.0;
    for (width, gap) in widths.into_iter().zip(gaps) {
        lefts.push(x);
        rights.push(x + width);
        x += width + gap;
    }
    (lefts, rights)
}

/// The points without those that lie on the line between their neighbours.
fn plain(points: Vec<LayoutPoint>) -> Vec<LayoutPoint> {
    let mut kept: Vec<LayoutPoint> = Vec::with_capacity(points.len());
    for point in points {
        if kept.last().is_some_and(|last| near(*last, point)) {
            continue;
        }
        while let [.., first, middle] = kept[..] {
            let is_level =
                (first[1] - middle[1]).abs() < 0.05 && (middle[1] - point[1]).abs() < 0.05;
            if !is_level {
                break;
            }
            kept.pop();
        }
        kept.push(point);
    }
    kept
}

fn near(one: LayoutPoint, other: LayoutPoint) -> bool {
    (one[0] - other[0]).abs() < 0.05 && (one[1] - other[1]).abs() < 0.05
}
