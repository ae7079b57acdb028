//! Things in a column, moved as little as possible so that none touches the next.

/// The space between two boxes of a column.
pub(super) const BETWEEN_BOXES: f64 = 18.0;
/// The space between a line and the next line or box of a column.
pub(super) const BETWEEN_LINES: f64 = 12.0;

/// The positions nearest to those wanted (by least squares) at which each is at least its gap
/// below the one before. `gaps` has one value less than `wanted`.
pub(super) fn spaced(wanted: &[f64], gaps: &[f64]) -> Vec<f64> {
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
