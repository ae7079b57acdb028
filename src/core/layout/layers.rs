//! A layering for graphs of any size: columns by the longest path, an order in each column by
//! the middle of what a box is connected with, and heights near that.

use super::{BETWEEN_BOXES, BETWEEN_LINES, Part, Ranked, spaced};

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

/// Orders each column by the mean place of what its spots are connected with.
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

/// The middle of each spot, near those that it is connected with.
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
