//! What a picture draws: tasks, or boxes that several tasks are folded into.
//!
//! Each task is in exactly one box. Implied dependencies are left out and counted.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{EdgeState, GraphPicture, StateMark};
use crate::core::layout;

/// The most boxes of a picture that a person can read; more are folded, whatever was asked for.
const MOST_BOXES: usize = 300;
/// The most connected parts that are drawn apart when levels are folded.
const MOST_PARTS: usize = MOST_BOXES / 2;
/// The most boxes of one part then.
const MOST_BANDS: usize = 12;
/// The fewest tasks that are folded as a chain.
const SHORTEST_CHAIN: usize = 4;

/// Tasks that are drawn as one box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoldKind {
    /// Chains without branches.
    Chains,
    /// What is complete, in each connected part.
    Complete,
    /// The tasks of a story.
    Story,
    /// The tasks of a milestone.
    Milestone,
}

/// The kinds of folding.
const KINDS: [(&str, FoldKind); 4] = [
    ("chains", FoldKind::Chains),
    ("complete", FoldKind::Complete),
    ("story", FoldKind::Story),
    ("milestone", FoldKind::Milestone),
];

/// What to fold in a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldKinds {
    kinds: BTreeSet<FoldKind>,
    /// The names of boxes that are opened all the same.
    open: BTreeSet<String>,
}

impl Default for FoldKinds {
    fn default() -> FoldKinds {
        FoldKinds { kinds: BTreeSet::from([FoldKind::Chains]), open: BTreeSet::new() }
    }
}

impl FoldKinds {
    /// The same, with the boxes of these names opened.
    #[must_use]
    pub fn opened(self, names: impl IntoIterator<Item = String>) -> FoldKinds {
        FoldKinds { open: names.into_iter().collect(), ..self }
    }
}

impl FromStr for FoldKinds {
    type Err = String;

    fn from_str(text: &str) -> Result<FoldKinds, String> {
        let words =
            text.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none");
        let kind = |word: &str| {
            let found = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
            found.ok_or_else(|| {
                format!(
                    "cannot fold `{word}`; expected `chains`, `complete`, `story`, `milestone`, \
                     several of these with commas, or `none`"
                )
            })
        };
        let kinds = words.map(kind).collect::<Result<_, _>>()?;
        Ok(FoldKinds { kinds, open: BTreeSet::new() })
    }
}

/// What a box contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoxKind {
    /// One task.
    Task,
    /// Tasks of which each waits on the one before and on nothing else.
    Chain,
    /// Other tasks.
    Group,
}

/// A picture with its boxes and lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedGraph {
    /// The boxes; as far as lines are not circular, each after those that it waits on.
    pub boxes: Vec<FoldedBox>,
    /// The lines between different boxes, as positions in `boxes`, with the worst state of the
    /// dependencies that they stand for.
    pub lines: Vec<(usize, usize, EdgeState)>,
    /// The number of dependencies that others imply, which have no line.
    pub implied: usize,
    /// Why more was folded than asked for.
    pub reason: Option<String>,
}

/// A box of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedBox {
    /// The name of the box, which no other box has.
    pub id: String,
    /// What it contains.
    pub kind: BoxKind,
    /// What is written in it.
    pub label: String,
    /// The tasks, as ascending indexes of the nodes of the picture.
    pub tasks: Vec<usize>,
}

impl FoldedGraph {
    /// The boxes and lines of a picture.
    pub fn of(picture: &GraphPicture, wanted: &FoldKinds) -> FoldedGraph {
        let source = FoldSource::of(picture);
        let mut kinds = wanted.kinds.clone();
        let mut boxes = source.folded(&kinds);
        let first = boxes.len();
        let mut more = Vec::new();
        for (name, kind) in
            [KINDS[0], ("story", FoldKind::Story), ("milestone", FoldKind::Milestone), KINDS[1]]
        {
            if boxes.len() > MOST_BOXES && kinds.insert(kind) {
                let folded = source.folded(&kinds);
                if folded.len() < boxes.len() {
                    boxes = folded;
                    more.push(name);
                } else {
                    kinds.remove(&kind);
                }
            }
        }
        if boxes.len() > MOST_BOXES {
            boxes = source.levels();
            more.push("levels and parts");
        }
        let reason = (!more.is_empty()).then(|| {
            format!("{first} boxes are more than {MOST_BOXES}: folded by {}", more.join(", "))
        });
        let boxes = boxes.into_iter().flat_map(|it| source.opened(it, &wanted.open)).collect();
        let (boxes, lines) = source.ordered(boxes);
        FoldedGraph { boxes, lines, implied: source.implied, reason }
    }
}

/// A picture with its dependencies as indexes of nodes.
struct FoldSource<'a> {
    picture: &'a GraphPicture,
    /// The dependencies that are not implied.
    lines: Vec<(usize, usize, EdgeState)>,
    /// A number for each node that is the same for those that dependencies connect.
    roots: Vec<usize>,
    implied: usize,
}

impl FoldSource<'_> {
    fn of(picture: &GraphPicture) -> FoldSource<'_> {
        let lines = picture.shown_edges();
        let ends: Vec<(usize, usize)> = lines.iter().map(|(from, to, _)| (*from, *to)).collect();
        let roots = layout::roots(picture.nodes.len(), &ends);
        let implied = picture.edges.len() - lines.len();
        FoldSource { picture, lines, roots, implied }
    }

    fn id(&self, node: usize) -> &str {
        self.picture.nodes[node].id.as_str()
    }

    fn task(&self, node: usize) -> FoldedBox {
        let id = self.id(node).to_owned();
        FoldedBox { label: id.clone(), id, kind: BoxKind::Task, tasks: vec![node] }
    }

    /// The boxes of the tasks of a box that is to be open; else the box itself.
    fn opened(&self, folded: FoldedBox, open: &BTreeSet<String>) -> Vec<FoldedBox> {
        if open.contains(&folded.id) && folded.tasks.len() <= MOST_BOXES {
            return folded.tasks.iter().map(|node| self.task(*node)).collect();
        }
        vec![folded]
    }

    /// A box of several tasks; the box of a task if there is only one.
    fn group(&self, name: &str, label: &str, tasks: Vec<usize>) -> FoldedBox {
        if let [node] = tasks[..] {
            return self.task(node);
        }
        let label = format!("{label} ({})", tasks.len());
        FoldedBox { id: name.to_owned(), kind: BoxKind::Group, label, tasks }
    }

    /// The boxes with these kinds of folding, in any order.
    fn folded(&self, kinds: &BTreeSet<FoldKind>) -> Vec<FoldedBox> {
        let mut groups: BTreeMap<(FoldKind, String), Vec<usize>> = BTreeMap::new();
        let mut boxes = Vec::new();
        for (at, node) in self.picture.nodes.iter().enumerate() {
            let story = node.story.as_ref().filter(|_| kinds.contains(&FoldKind::Story));
            let milestone =
                node.milestone.as_ref().filter(|_| kinds.contains(&FoldKind::Milestone));
            let is_complete =
                node.state.mark() == StateMark::Done && kinds.contains(&FoldKind::Complete);
            let key = match (story, milestone) {
                (Some(story), _) => (FoldKind::Story, story.clone()),
                (None, Some(milestone)) => (FoldKind::Milestone, milestone.clone()),
                (None, None) if is_complete => {
                    (FoldKind::Complete, self.id(self.roots[at]).to_owned())
                }
                (None, None) => {
                    boxes.push(self.task(at));
                    continue;
                }
            };
            groups.entry(key).or_default().push(at);
        }
        for ((kind, name), tasks) in groups {
            boxes.push(match kind {
                FoldKind::Story => self.group(&format!("story:{name}"), &name, tasks),
                FoldKind::Milestone => self.group(&format!("milestone:{name}"), &name, tasks),
                FoldKind::Complete | FoldKind::Chains => {
                    self.group(&format!("complete:{name}"), "complete", tasks)
                }
            });
        }
        if kinds.contains(&FoldKind::Chains) { self.without_chains(boxes) } else { boxes }
    }

    /// The boxes with one for each chain of tasks.
    fn without_chains(&self, boxes: Vec<FoldedBox>) -> Vec<FoldedBox> {
        let lines = self.lines_between(&boxes);
        let (mut next, mut before) = (vec![Vec::new(); boxes.len()], vec![0; boxes.len()]);
        for (from, to) in lines.keys() {
            next[*from].push(*to);
            before[*to] += 1;
        }
        let is_task = |at: usize| boxes[at].kind == BoxKind::Task;
        let follower = |at: usize| match next[at][..] {
            [to] if before[to] == 1 && is_task(at) && is_task(to) => Some(to),
            _ => None,
        };
        let mut is_inside = vec![false; boxes.len()];
        (0..boxes.len()).filter_map(follower).for_each(|to| is_inside[to] = true);
        let mut folded = Vec::new();
        let mut is_used = vec![false; boxes.len()];
        for start in (0..boxes.len()).filter(|at| !is_inside[*at]) {
            let mut chain = vec![start];
            let mut last = start;
            while let Some(to) = follower(last) {
                chain.push(to);
                last = to;
            }
            if chain.len() >= SHORTEST_CHAIN {
                for at in &chain {
                    is_used[*at] = true;
                }
                let tasks: Vec<usize> = chain.iter().map(|at| boxes[*at].tasks[0]).collect();
                let (first, last) = (self.id(tasks[0]), self.id(tasks[tasks.len() - 1]));
                let label = format!("{first} … {last} ({})", tasks.len());
                let id = format!("chain:{first}");
                folded.push(FoldedBox { id, kind: BoxKind::Chain, label, tasks });
            }
        }
        let rest = boxes.into_iter().zip(is_used).filter(|(_, used)| !used).map(|(it, _)| it);
        folded.extend(rest);
        folded
    }

    /// The last way to fold: some bands of levels for each connected part, the largest parts first.
    fn levels(&self) -> Vec<FoldedBox> {
        // Each node comes after those that it waits on.
        let mut levels = vec![0_usize; self.roots.len()];
        for (from, to, _) in &self.lines {
            levels[*to] = levels[*to].max(levels[*from] + 1);
        }
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, root) in self.roots.iter().enumerate() {
            parts.entry(*root).or_default().push(node);
        }
        let (alone, mut parts): (Vec<Vec<usize>>, Vec<Vec<usize>>) =
            parts.into_values().partition(|part| part.len() == 1);
        parts.sort_by_key(|part| Reverse(part.len()));
        let small = parts.split_off(parts.len().min(MOST_PARTS));
        let label = format!("{} smaller parts", small.len());
        let mut boxes = vec![
            self.group("alone", "independent", alone.concat()),
            self.group("parts", &label, small.concat()),
        ];
        boxes.retain(|it| !it.tasks.is_empty());
        let most = (MOST_PARTS / parts.len().max(1)).clamp(1, MOST_BANDS);
        for part in parts {
            let count = part.iter().map(|node| levels[*node] + 1).max().unwrap_or(1);
            let height = count.div_ceil(most);
            let mut bands: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for node in &part {
                bands.entry(levels[*node] / height).or_default().push(*node);
            }
            for (band, nodes) in bands {
                let (first, last) = (band * height + 1, (band * height + height).min(count));
                let id = format!("levels:{first}-{last}:{}", self.id(part[0]));
                boxes.push(self.group(&id, &format!("levels {first}–{last}"), nodes));
            }
        }
        boxes
    }

    /// The lines between different boxes.
    fn lines_between(&self, boxes: &[FoldedBox]) -> BTreeMap<(usize, usize), EdgeState> {
        let mut owners = vec![0; self.picture.nodes.len()];
        for (at, folded) in boxes.iter().enumerate() {
            folded.tasks.iter().for_each(|task| owners[*task] = at);
        }
        let mut lines = BTreeMap::new();
        for (from, to, state) in &self.lines {
            let ends = (owners[*from], owners[*to]);
            if ends.0 != ends.1 {
                let worst = lines.entry(ends).or_insert(*state);
                *worst = *state.max(worst);
            }
        }
        lines
    }

    /// The boxes in an order in which each comes after those that it waits on, as far as possible,
    /// and their lines. Among those that could be next, the first in the picture goes first.
    fn ordered(&self, boxes: Vec<FoldedBox>) -> (Vec<FoldedBox>, Vec<(usize, usize, EdgeState)>) {
        let lines = self.lines_between(&boxes);
        let (mut next, mut left) = (vec![Vec::new(); boxes.len()], vec![0_usize; boxes.len()]);
        for (from, to) in lines.keys() {
            next[*from].push(*to);
            left[*to] += 1;
        }
        let mut by_place: Vec<(usize, usize)> =
            boxes.iter().enumerate().map(|(at, it)| (middle(&it.tasks), at)).collect();
        by_place.sort_unstable();
        let mut rank = vec![0; boxes.len()];
        by_place.iter().enumerate().for_each(|(place, (_, at))| rank[*at] = place);
        let free = (0..boxes.len()).filter(|at| left[*at] == 0);
        let mut open: BinaryHeap<Reverse<usize>> = free.map(|at| Reverse(rank[at])).collect();
        let mut order = Vec::with_capacity(boxes.len());
        let mut is_placed = vec![false; boxes.len()];
        let mut rest = by_place.iter().map(|(_, at)| *at);
        loop {
            let at = match open.pop() {
                Some(Reverse(place)) => by_place[place].1,
                // All that is left waits on a circle of boxes: it is broken where it begins.
                None => match rest.find(|at| !is_placed[*at]) {
                    Some(at) => at,
                    None => break,
                },
            };
            if is_placed[at] {
                continue;
            }
            is_placed[at] = true;
            order.push(at);
            for to in &next[at] {
                left[*to] = left[*to].saturating_sub(1);
                if left[*to] == 0 && !is_placed[*to] {
                    open.push(Reverse(rank[*to]));
                }
            }
        }
        let mut places = vec![0; boxes.len()];
        order.iter().enumerate().for_each(|(place, at)| places[*at] = place);
        let mut slots: Vec<Option<FoldedBox>> = boxes.into_iter().map(Some).collect();
        let boxes = order.iter().filter_map(|at| slots[*at].take()).collect();
        let mut lines: Vec<(usize, usize, EdgeState)> =
            lines.into_iter().map(|((from, to), it)| (places[from], places[to], it)).collect();
        lines.sort_by_key(|(from, to, _)| (*from, *to));
        (boxes, lines)
    }
}

/// The mean of the indexes.
fn middle(tasks: &[usize]) -> usize {
    tasks.iter().sum::<usize>() / tasks.len().max(1)
}

#[cfg(test)]
mod tests;
