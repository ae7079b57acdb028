//! The last way to fold: the levels of each connected part, for graphs that name no stories and are
//! too large to draw.

use std::collections::BTreeMap;

use super::{EdgeState, FoldSource, FoldedBox, MOST_BOXES};
use crate::core::layout;

/// The most connected parts; the smallest of more share a box.
const MOST_PARTS: usize = MOST_BOXES / 2;
/// The most boxes of one part.
const MOST_BANDS: usize = 12;

/// The boxes of one connected part.
type BandPart = Vec<usize>;

/// At most as many boxes as a picture may have, with the tasks of `boxes`.
pub(super) fn folded(source: &FoldSource<'_>, boxes: Vec<FoldedBox>) -> Vec<FoldedBox> {
    let (boxes, lines) = source.ordered(boxes);
    let ends: Vec<(usize, usize)> = lines.iter().map(|(from, to, _)| (*from, *to)).collect();
    let mut levels = vec![0_usize; boxes.len()];
    for (from, to) in ends.iter().filter(|(from, to)| from < to) {
        levels[*to] = levels[*to].max(levels[*from] + 1);
    }
    let roots = layout::roots(boxes.len(), &ends);
    let mut parts: BTreeMap<usize, BandPart> = BTreeMap::new();
    for (at, root) in roots.into_iter().enumerate() {
        parts.entry(root).or_default().push(at);
    }
    let (alone, mut parts): (Vec<BandPart>, Vec<BandPart>) =
        parts.into_values().partition(|part| part.len() == 1);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    let tasks = |part: &[usize]| -> Vec<usize> {
        let mut tasks: Vec<usize> =
            part.iter().flat_map(|at| boxes[*at].tasks.iter().copied()).collect();
        tasks.sort_unstable();
        tasks
    };
    let mut found = Vec::new();
    let alone = alone.concat();
    if alone.len() > MOST_BANDS {
        found.push(source.group("alone", "independent", tasks(&alone)));
    } else {
        found.extend(alone.iter().map(|at| boxes[*at].clone()));
    }
    if parts.len() > MOST_PARTS {
        let small = parts.split_off(MOST_PARTS);
        let label = format!("{} smaller parts", small.len());
        found.push(source.group("parts", &label, tasks(&small.concat())));
    }
    let most = (MOST_PARTS / parts.len().max(1)).clamp(1, MOST_BANDS);
    for part in parts {
        if part.len() <= most {
            found.extend(part.iter().map(|at| boxes[*at].clone()));
            continue;
        }
        let count = part.iter().map(|at| levels[*at] + 1).max().unwrap_or(1);
        let height = count.div_ceil(most);
        let mut bands: BTreeMap<usize, BandPart> = BTreeMap::new();
        for at in &part {
            bands.entry(levels[*at] / height).or_default().push(*at);
        }
        for (band, members) in bands {
            let (first, last) = (band * height + 1, (band * height + height).min(count));
            let label = if first == last {
                format!("level {first}")
            } else {
                format!("levels {first}–{last}")
            };
            let id = format!("levels:{first}-{last}:{}", boxes[part[0]].id);
            found.push(source.group(&id, &label, tasks(&members)));
        }
    }
    found
}

/// The lines without those that other lines imply, which between levels are most of them. Lines
/// that wait on what needs a person stay.
pub(super) fn without_implied(
    boxes: usize,
    lines: &[(usize, usize, EdgeState)],
) -> Vec<(usize, usize, EdgeState)> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    for (from, to, _) in lines.iter().filter(|(from, to, _)| from < to) {
        next[*from].push(*to);
    }
    // What each box leads to, found from the last box to the first.
    let mut reached: Vec<Vec<bool>> = vec![vec![false; boxes]; boxes];
    for at in (0..boxes).rev() {
        let mut found = vec![false; boxes];
        for to in &next[at] {
            found[*to] = true;
            found.iter_mut().zip(&reached[*to]).for_each(|(one, other)| *one |= *other);
        }
        reached[at] = found;
    }
    let is_implied = |from: usize, to: usize| {
        next[from].iter().any(|between| *between != to && reached[*between][to])
    };
    lines
        .iter()
        .filter(|(from, to, state)| {
            *state == EdgeState::Dead || from >= to || !is_implied(*from, *to)
        })
        .copied()
        .collect()
}
