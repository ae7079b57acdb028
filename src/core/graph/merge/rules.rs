//! The merge rules for values: by task, by field, by item.
//!
//! The rules do not depend on the layout.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use crate::graph::{edit::cut::ValueShape, task::Status, yaml::Node};

/// The merged value of one place.
#[derive(Clone)]
pub(super) enum Want<'a> {
    /// This value of one side.
    Just(Node<'a>),
    /// A mapping of parts.
    Map(Vec<(String, Want<'a>)>),
    /// A list of parts.
    List(Vec<(String, Want<'a>)>),
    /// A conflict for a person to resolve: ours, theirs.
    Conflict(Option<Node<'a>>, Option<Node<'a>>),
}

/// A side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    Theirs,
}

impl<'a> Want<'a> {
    /// Whether the merged value, with all conflicts resolved to one side, is this value.
    pub(super) fn is(&self, side: Side, found: Option<Node<'_>>) -> bool {
        let chosen = |want: &Want<'a>| match (want, side) {
            (Want::Conflict(ours, _), Side::Ours) => *ours,
            (Want::Conflict(_, theirs), Side::Theirs) => *theirs,
            _ => None,
        };
        let is_there =
            |want: &&Want<'a>| !matches!(want, Want::Conflict(..)) || chosen(want).is_some();
        match self {
            Want::Just(value) => found == Some(*value),
            Want::Conflict(..) => found == chosen(self),
            Want::Map(parts) => {
                let parts = || parts.iter().filter(|(_, want)| is_there(&want));
                let get = |name: &str| found.and_then(|found| found.get(name));
                found.map_or(0, |found| found.entries().count()) == parts().count()
                    && found.is_none_or(Node::is_mapping)
                    && parts().all(|(name, want)| want.is(side, get(name)))
            }
            Want::List(parts) => found.filter(|found| found.is_list()).is_some_and(|found| {
                let mut items = found.items();
                let mut parts = parts.iter().map(|(_, want)| want).filter(is_there);
                parts.all(|want| items.next().is_some_and(|item| want.is(side, Some(item))))
                    && items.next().is_none()
            }),
        }
    }

    /// Whether there is no conflict, and the merged value is this value.
    pub(super) fn is_only(&self, found: Option<Node<'_>>) -> bool {
        self.is_settled() && self.is(Side::Ours, found)
    }

    /// Whether there is no conflict.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Want::Just(_) => true,
            Want::Map(parts) | Want::List(parts) => parts.iter().all(|(_, want)| want.is_settled()),
            Want::Conflict(..) => false,
        }
    }

    /// The parts, and whether it is a list.
    pub(super) fn parts(&self, shape: ValueShape) -> Option<(bool, Vec<(String, Want<'a>)>)> {
        match self {
            Want::Map(parts) => Some((false, parts.clone())),
            Want::List(parts) => Some((true, parts.clone())),
            Want::Just(value) => Some((value.is_list(), wanted(shape.parts(*value)?))),
            Want::Conflict(..) => None,
        }
    }
}

fn wanted(parts: Vec<(String, Node<'_>)>) -> Vec<(String, Want<'_>)> {
    parts.into_iter().map(|(name, value)| (name, Want::Just(value))).collect()
}

/// The base, our and their version.
pub(super) type Three<T> = [T; 3];

/// Whether ours (1) or theirs (2) wins, if that is clear without looking inside.
pub(super) fn plainly<T: PartialEq>([base, ours, theirs]: &Three<T>) -> Option<usize> {
    if ours == theirs || base == theirs {
        Some(1)
    } else if base == ours {
        Some(2)
    } else {
        None
    }
}

/// Merges values that may be missing on any side; none if the result is missing.
pub(super) fn merge(sides: Three<Option<Node<'_>>>, shape: ValueShape) -> Option<Want<'_>> {
    if let Some(side) = plainly(&sides) {
        return sides[side].map(Want::Just);
    }
    let [_, ours, theirs] = sides;
    Some(by_part(sides, shape).unwrap_or(Want::Conflict(ours, theirs)))
}

fn by_part(sides: Three<Option<Node<'_>>>, shape: ValueShape) -> Option<Want<'_>> {
    let (base, ours, theirs) = (sides[0].filter(|base| !base.is_null()), sides[1]?, sides[2]?);
    let is_list = ours.is_list();
    let is_alike = |value: Node<'_>| value.is_list() == is_list;
    if !is_alike(theirs) || !base.is_none_or(is_alike) {
        return None;
    }
    let base_parts = base.map_or(Some(Vec::new()), |base| shape.parts(base))?;
    let parts = [base_parts, shape.parts(ours)?, shape.parts(theirs)?];
    let found = parts.each_ref().map(|parts| {
        let by_name = parts.iter().map(|(name, value)| (name.as_str(), *value));
        by_name.collect::<HashMap<_, _>>()
    });
    let names = parts.each_ref().map(|parts| {
        let names = parts.iter().map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>()
    });
    let progress = (shape == ValueShape::Task).then(|| progress([base, Some(ours), Some(theirs)]));
    let mut wanted = Vec::new();
    for name in order(&names) {
        let these = found.each_ref().map(|values| values.get(name).copied());
        let want = match progress {
            Some(progress) if PROGRESS.contains(&name) => match progress {
                MergeProgress::Of(side) => these[side].map(Want::Just),
                MergeProgress::Unclear if these[1] == these[2] => these[1].map(Want::Just),
                MergeProgress::Unclear => Some(Want::Conflict(these[1], these[2])),
            },
            _ => merge(these, shape.below(name)),
        };
        wanted.extend(want.map(|want| (name.to_owned(), want)));
    }
    Some(if is_list { Want::List(wanted) } else { Want::Map(wanted) })
}

/// Our file with the tasks that only theirs has, and with the edges of theirs that lead to them;
/// none if there are none.
///
/// # Errors
/// The name of a list of ours that has items without a name, or two of the same name.
pub(super) fn additions<'a>(
    [base, ours, theirs]: Three<Node<'a>>,
) -> Result<Option<Want<'a>>, String> {
    let ids = |file: Node<'a>| {
        let lists = ["tasks", "nodes"].into_iter().filter_map(move |key| file.get(key));
        lists.flat_map(Node::items).filter_map(|item| ValueShape::Tasks.name_of(item))
    };
    let known: HashSet<String> = ids(base).chain(ids(ours)).collect();
    let mut wanted_entries = wanted(ValueShape::File.parts(ours).unwrap_or_default());
    let mut is_any = false;
    for (name, list) in ValueShape::File.parts(theirs).unwrap_or_default() {
        let shape = ValueShape::File.below(&name);
        let keys = [(ValueShape::Tasks, "id"), (ValueShape::Edges, "to")];
        let Some((_, key)) = keys.into_iter().find(|(of, _)| *of == shape) else { continue };
        let is_new = |item: &Node<'a>| {
            item.get(key).and_then(Node::text).is_some_and(|id| !known.contains(id.as_ref()))
        };
        let new = list.items().filter(is_new);
        let new = new.map(|item| Some((shape.name_of(item)?, Want::Just(item))));
        let Some(new) = new.collect::<Option<Vec<_>>>() else { return Err(name) };
        if new.is_empty() {
            continue;
        }
        is_any = true;
        match wanted_entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, want)) => match want.parts(shape) {
                Some((true, mut parts)) => {
                    parts.extend(new);
                    *want = Want::List(parts);
                }
                _ => return Err(name),
            },
            None => wanted_entries.push((name, Want::List(new))),
        }
    }
    Ok(is_any.then_some(Want::Map(wanted_entries)))
}

/// The names of all sides in one order: that of ours, or that of theirs if only they moved a
/// name. A new name of the other side follows its predecessor there.
fn order<'a>([base, ours, theirs]: &Three<Vec<&'a str>>) -> Vec<&'a str> {
    let set = |names: &[&'a str]| names.iter().copied().collect::<HashSet<&str>>();
    let sets = [set(base), set(ours), set(theirs)];
    let common = |names: &[&'a str]| -> Vec<&'a str> {
        names.iter().copied().filter(|name| sets.iter().all(|set| set.contains(name))).collect()
    };
    let (was, is, other) = (common(base), common(ours), common(theirs));
    let theirs_leads = was == is && was != other;
    let (first, second) = if theirs_leads { (theirs, ours) } else { (ours, theirs) };
    let (first_set, second_set) =
        if theirs_leads { (&sets[2], &sets[1]) } else { (&sets[1], &sets[2]) };

    let mut behind: HashMap<Option<&str>, Vec<&'a str>> = HashMap::new();
    let mut last = None;
    for name in second {
        if first_set.contains(name) {
            last = Some(*name);
        } else {
            behind.entry(last).or_default().push(name);
        }
    }
    let mut all = Vec::with_capacity(first.len() + second.len());
    let mut waiting = behind.remove(&None).unwrap_or_default();
    for name in first {
        let is_new = !second_set.contains(name);
        if !is_new {
            all.append(&mut waiting);
            waiting = behind.remove(&Some(*name)).unwrap_or_default();
        }
        all.push(*name);
    }
    all.append(&mut waiting);
    all
}

/// The fields of the progress of a task, which are taken together from one side.
const PROGRESS: [&str; 4] = ["status", "claimed_at", "claimed_by", "completed_at"];

#[derive(Clone, Copy)]
enum MergeProgress {
    /// Ours (1) or theirs (2).
    Of(usize),
    Unclear,
}

fn progress(tasks: Three<Option<Node<'_>>>) -> MergeProgress {
    let fields = tasks.map(|task| PROGRESS.map(|name| task.and_then(|task| task.get(name))));
    if let Some(side) = plainly(&fields) {
        return MergeProgress::Of(side);
    }
    let [_, ours, theirs] = fields;
    let (Some(our_status), Some(their_status)) = (status(ours[0]), status(theirs[0])) else {
        return MergeProgress::Unclear;
    };
    if our_status == their_status {
        return MergeProgress::Of(if since(theirs) < since(ours) { 2 } else { 1 });
    }
    match rank(our_status).cmp(&rank(their_status)) {
        std::cmp::Ordering::Greater => MergeProgress::Of(1),
        std::cmp::Ordering::Less => MergeProgress::Of(2),
        std::cmp::Ordering::Equal => MergeProgress::Unclear,
    }
}

/// The status of a task; pending by default.
fn status(value: Option<Node<'_>>) -> Option<Status> {
    match value {
        None => Some(Status::Pending),
        Some(value) if value.is_null() => Some(Status::Pending),
        Some(value) => Status::parse(&value.text()?),
    }
}

/// The precedence of a status. Complete beats everything but cancelled; a block by a person beats a
/// question, and a question beats a claim. Only complete and cancelled contradict each other.
fn rank(status: Status) -> u8 {
    match status {
        Status::Pending => 0,
        Status::InProgress => 1,
        Status::NeedsInput => 2,
        Status::Blocked => 3,
        Status::Complete | Status::Cancelled => 4,
    }
}

/// The sort key of the time at which a status was reached: the earlier one wins. Times written by
/// `ralph` sort as text. A missing time sorts last.
fn since(fields: [Option<Node<'_>>; 4]) -> [(bool, Cow<'_, str>); 3] {
    let [_, claimed_at, claimed_by, completed_at] = fields;
    [completed_at, claimed_at, claimed_by].map(|field| {
        let text = field.and_then(Node::text);
        (text.is_none(), text.unwrap_or_default())
    })
}
