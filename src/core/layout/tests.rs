//! Tests of the layout.

use proptest::prelude::*;

use super::*;

fn boxes(count: usize) -> Vec<BoxSize> {
    (0..count).map(|at| BoxSize { width: 60.0 + (at * 37 % 140) as f64, height: 30.0 }).collect()
}

/// The layout, after a check of the guarantees of every layout.
fn check(sizes: &[BoxSize], lines: &[(usize, usize)]) -> GraphLayout {
    let laid = GraphLayout::of(sizes, lines);
    assert_eq!(laid, GraphLayout::of(sizes, lines), "the same input, the same layout");
    check_layout(sizes, lines, &laid);
    laid
}

fn check_layout(sizes: &[BoxSize], lines: &[(usize, usize)], laid: &GraphLayout) {
    assert_eq!((laid.corners.len(), laid.routes.len()), (sizes.len(), lines.len()));
    let mut by_left: Vec<usize> = (0..sizes.len()).collect();
    by_left.sort_by(|a, b| laid.corners[*a][0].total_cmp(&laid.corners[*b][0]));
    for (place, at) in by_left.iter().copied().enumerate() {
        let ([x, y], size) = (laid.corners[at], sizes[at]);
        assert!(x >= 0.0 && y >= 0.0, "box {at} at {x}, {y}");
        assert!(x + size.width <= laid.width + 0.2 && y + size.height <= laid.height + 0.2);
        for other in by_left[place + 1..].iter().copied() {
            let [left, top] = laid.corners[other];
            if left >= x + size.width {
                break;
            }
            let is_apart = top >= y + size.height || top + sizes[other].height <= y;
            assert!(is_apart, "boxes {at} and {other} overlap");
        }
    }
    for ((from, to), route) in lines.iter().zip(&laid.routes) {
        if from == to || *from.max(to) >= sizes.len() {
            assert!(route.is_empty());
            continue;
        }
        assert!(route.len() >= 2);
        let (left, right) = (from.min(to), from.max(to));
        let mut points = route.clone();
        if from > to {
            points.reverse();
        }
        let at_side = |point: LayoutPoint, number: usize, x: f64| {
            let top = laid.corners[number][1];
            let is_high = (top - 0.1..=top + sizes[number].height + 0.1).contains(&point[1]);
            assert!((point[0] - x).abs() < 0.15 && is_high, "{point:?} is not at box {number}");
        };
        at_side(points[0], *left, laid.corners[*left][0] + sizes[*left].width);
        at_side(points[points.len() - 1], *right, laid.corners[*right][0]);
        assert!(points.windows(2).all(|it| it[0][0] <= it[1][0] + 0.1), "it leads to the right");
    }
}

/// Whether a line passes through a box at which it neither begins nor ends.
fn passes_through(sizes: &[BoxSize], lines: &[(usize, usize)], laid: &GraphLayout) -> bool {
    let crosses = |[a, b]: [LayoutPoint; 2], number: usize| {
        let ([x, y], size) = (laid.corners[number], sizes[number]);
        (0..=40).any(|step| {
            let part = f64::from(step) / 40.0;
            let (at_x, at_y) = (a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part);
            (x + 1.0..x + size.width - 1.0).contains(&at_x)
                && (y + 1.0..y + size.height - 1.0).contains(&at_y)
        })
    };
    lines.iter().zip(&laid.routes).any(|((from, to), route)| {
        let others = (0..sizes.len()).filter(|it| it != from && it != to);
        others.into_iter().any(|it| route.windows(2).any(|pair| crosses([pair[0], pair[1]], it)))
    })
}

#[test]
fn a_chain_is_a_row_and_a_diamond_has_three_columns() {
    let sizes = vec![BoxSize { width: 100.0, height: 30.0 }; 4];
    let chain = check(&sizes, &[(0, 1), (1, 2), (2, 3)]);
    assert!(chain.corners.iter().all(|corner| corner[1] == 0.0), "{chain:?}");
    assert_eq!(chain.routes[0], [[100.0, 15.0], [144.0, 15.0]]);
    assert!((chain.height - 30.0).abs() < 0.01);
    let diamond = check(&sizes, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert!((diamond.corners[1][0] - diamond.corners[2][0]).abs() < 0.01);
    assert!(diamond.corners[3][0] > diamond.corners[1][0]);
}

#[test]
fn nothing_and_nonsense_have_a_layout() {
    assert!(check(&[], &[(0, 1)]).width.abs() < 0.01);
    let laid = check(&boxes(3), &[(0, 0), (0, 9), (2, 1), (1, 2), (1, 2)]);
    assert_eq!(laid.routes[3], laid.routes[4]);
    let mut back = laid.routes[2].clone();
    back.reverse();
    assert_eq!(back, laid.routes[3]);
}

#[test]
fn boxes_without_lines_fill_rows() {
    let laid = check(&boxes(200), &[(0, 1)]);
    assert!(laid.width < 3.0 * laid.height && laid.height < 3.0 * laid.width, "{laid:?}");
}

#[test]
fn large_and_dense_graphs_are_laid_out() {
    // Layers, a chain, a fan-out, and lines over long distances.
    let layered: Vec<(usize, usize)> =
        (100..3_000).flat_map(|n| [(n - 100, n), (n / 100 * 100 - 1 - n * 7 % 99, n)]).collect();
    let chain: Vec<(usize, usize)> = (1..3_000).map(|n| (n - 1, n)).collect();
    let fan: Vec<(usize, usize)> = (1..3_000).map(|n| (0, n)).collect();
    let long: Vec<(usize, usize)> = (1..1_000).flat_map(|n| [(n - 1, n), (n / 2, n)]).collect();
    for lines in [layered, chain, fan, long] {
        check(&boxes(3_000), &lines);
    }
    // Few boxes with many lines.
    let dense: Vec<(usize, usize)> =
        (0..200).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    check(&boxes(200), &dense);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_graph_has_a_layout(
        count in 1_usize..60,
        ends in proptest::collection::vec((0_usize..60, 0_usize..60), 0..120),
    ) {
        let sizes = boxes(count);
        let lines: Vec<(usize, usize)> =
            ends.into_iter().map(|(from, to)| (from % count, to % count)).collect();
        let laid = check(&sizes, &lines);
        prop_assert!(!passes_through(&sizes, &lines, &laid), "a line passes through a box");
    }
}
