//! Tests of folding.

use crate::core::samples::{graph, task};
use proptest::prelude::*;

use super::{super::formats::tests::picture, *};
use crate::core::graph::{
    TaskGraph,
    task::{Status, Task},
};

fn kinds(text: &str) -> FoldKinds {
    text.parse().unwrap()
}

/// The boxes, one a line.
fn drawn(folded: &FoldedGraph) -> String {
    let name = |at: usize| folded.boxes[at].id.clone();
    let boxes = folded.boxes.iter().map(|it| format!("{}: {} {:?}", it.id, it.label, it.tasks));
    let lines = folded
        .lines
        .iter()
        .map(|(from, to, it)| format!("{} -> {} {it:?}", name(*from), name(*to)));
    boxes.chain(lines).collect::<Vec<_>>().join("\n")
}

/// Checks what every folding promises.
fn check(picture: &GraphPicture, wanted: &FoldKinds) -> FoldedGraph {
    let folded = FoldedGraph::of(picture, wanted);
    assert_eq!(folded, FoldedGraph::of(picture, wanted), "the same picture, the same boxes");
    let mut tasks: Vec<usize> = folded.boxes.iter().flat_map(|it| it.tasks.clone()).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, (0..picture.nodes.len()).collect::<Vec<_>>(), "each task is in one box");
    let ids: BTreeSet<&String> = folded.boxes.iter().map(|it| &it.id).collect();
    assert_eq!(ids.len(), folded.boxes.len(), "no two boxes have the same name");
    assert!(folded.boxes.len() <= MOST_BOXES, "{} boxes", folded.boxes.len());
    folded
}

#[test]
fn a_chain_of_thirty_is_one_box_and_a_branch_ends_it() {
    let chain: Vec<(usize, usize)> = (1..30).map(|n| (n - 1, n)).collect();
    let folded = check(&picture(&graph(30, &chain)), &FoldKinds::default());
    assert_eq!(folded.boxes.len(), 1);
    assert_eq!(
        (folded.boxes[0].label.as_str(), folded.boxes[0].kind),
        ("t0 … t29 (30)", BoxKind::Chain)
    );
    assert_eq!(check(&picture(&graph(30, &chain)), &kinds("none")).boxes.len(), 30);
    // 0 … 4, then 5 and 6, then 7 … 9, which is too short.
    let lines =
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (4, 6), (5, 7), (6, 7), (7, 8), (8, 9), (0, 4)];
    let folded = check(&picture(&graph(10, &lines)), &kinds("chains"));
    assert_eq!(folded.implied, 1);
    insta::assert_snapshot!(drawn(&folded), @r"
    chain:t0: t0 … t4 (5) [0, 1, 2, 3, 4]
    t5: t5 [5]
    t6: t6 [6]
    t7: t7 [7]
    t8: t8 [8]
    t9: t9 [9]
    chain:t0 -> t5 Pending
    chain:t0 -> t6 Pending
    t5 -> t7 Pending
    t6 -> t7 Pending
    t7 -> t8 Pending
    t8 -> t9 Pending
    ");
}

#[test]
fn stories_and_what_is_complete_are_folded_and_circles_are_kept() {
    let of = |id: &str, story: Option<&str>, status| Task {
        story: story.map(str::to_owned),
        status,
        ..task(id)
    };
    let tasks = vec![
        of("a", None, Status::Complete),
        of("b", None, Status::Complete),
        of("in1", Some("login"), Status::Complete),
        of("out", Some("mail"), Status::Blocked),
        of("in2", Some("login"), Status::Pending),
        of("mail2", Some("mail"), Status::Pending),
        of("alone", None, Status::Complete),
    ];
    let lines = vec![(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)];
    let picture = picture(&TaskGraph::new(tasks, lines).unwrap());
    insta::assert_snapshot!(drawn(&check(&picture, &kinds("complete,story"))), @r"
    complete:a: complete (2) [0, 1]
    alone: alone [2]
    story:login: login (2) [3, 5]
    story:mail: mail (2) [4, 6]
    complete:a -> story:login Satisfied
    story:login -> story:mail Pending
    story:mail -> story:login Dead
    ");
}

#[test]
fn large_graphs_are_folded_by_themselves() {
    let layered: Vec<(usize, usize)> =
        (30..3_000).flat_map(|n| [(n - 30, n), (n / 30 * 30 - 1 - n * 7 % 29, n)]).collect();
    let folded = check(&picture(&graph(3_000, &layered)), &kinds("none"));
    assert_eq!(
        folded.reason.as_deref(),
        Some("3000 boxes are more than 300: folded by levels and parts")
    );
    // Nothing depends on anything; many small parts; one task that all others wait on.
    assert_eq!(check(&picture(&graph(500, &[])), &kinds("")).boxes.len(), 1);
    let pairs: Vec<(usize, usize)> = (0..500).map(|n| (2 * n, 2 * n + 1)).collect();
    check(&picture(&graph(1_000, &pairs)), &kinds(""));
    let fan: Vec<(usize, usize)> = (1..1_000).map(|n| (0, n)).collect();
    assert_eq!(check(&picture(&graph(1_000, &fan)), &kinds("")).boxes.len(), 2);
}

#[test]
fn what_cannot_be_folded_is_refused() {
    assert_eq!(kinds("none"), kinds(""));
    assert_eq!(kinds("story, chains"), kinds("chains,story,chains"));
    assert!("stroy".parse::<FoldKinds>().unwrap_err().contains("`stroy`"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_task_is_in_one_box(
        tasks in proptest::collection::vec((0_usize..4, 0_usize..3, any::<bool>()), 1..500),
        ends in proptest::collection::vec((0_usize..500, 0_usize..500), 0..700),
        wanted in proptest::sample::select(vec!["none", "chains", "complete,story", "milestone", "chains,complete,story,milestone"]),
    ) {
        let count = tasks.len();
        let name = |number: usize| (number > 0).then(|| format!("n{number}"));
        let tasks = tasks.into_iter().enumerate().map(|(at, (story, milestone, is_done))| Task {
            story: name(story),
            milestone: name(milestone),
            status: if is_done { Status::Complete } else { Status::Pending },
            ..task(&format!("t{at}"))
        });
        let lines = ends.into_iter().map(|(a, b)| (a % count, b % count)).filter(|(a, b)| a != b);
        let mut lines: Vec<(usize, usize)> = lines.map(|(a, b)| (a.min(b), a.max(b))).collect();
        lines.sort_unstable();
        lines.dedup();
        let picture = picture(&TaskGraph::new(tasks.collect(), lines).unwrap());
        check(&picture, &kinds(wanted));
    }
}

#[test]
fn one_group_is_opened_in_its_place() {
    let mut graph = graph(8, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]);
    for number in 0..4 {
        graph.set_status(number, Status::Complete);
    }
    let picture = picture(&graph);
    let folded = check(&picture, &kinds("complete"));
    assert_eq!((folded.boxes.len(), folded.boxes[0].id.as_str()), (5, "complete:t0"));
    let opened = kinds("complete").opened(["complete:t0".to_owned(), "none".to_owned()]);
    assert_eq!(check(&picture, &opened).boxes.len(), 8);
}

#[test]
fn what_is_near_a_task_are_its_levels_up_and_down() {
    // 0 -> 1 -> 2 -> 3 -> 4, and 5 -> 2, 1 -> 6.
    let picture = picture(&graph(7, &[(0, 1), (1, 2), (2, 3), (3, 4), (5, 2), (1, 6)]));
    let near = |levels| {
        let near = picture.around("t2", levels).unwrap();
        near.nodes.iter().map(|node| node.id.to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(near(1).into_iter().collect::<Vec<_>>(), ["t1", "t2", "t3", "t5"]);
    assert_eq!(near(2).into_iter().collect::<Vec<_>>(), ["t0", "t1", "t2", "t3", "t4", "t5"]);
    assert_eq!(picture.around("t9", 1), None);
}
