//! The merge rules for values: by task, by field, by item.
//!
//! The rules do not depend on the layout.

use std::collections::{HashMap, HashSet};

use super::value::{Value, ValueShape};
use crate::graph::task::Status;

/// The merged value of one place.
#[derive(Clone, Debug)]
pub(super) enum Want {
    /// This value.
    Just(Value),
    /// A mapping of parts.
    Map(Vec<(String, Want)>),
    /// A list of parts.
    List(Vec<(String, Want)>),
    /// A conflict for a person to resolve: ours, theirs.
    Conflict(Option<Value>, Option<Value>),
}

/// A side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    Theirs,
}

impl Want {
    /// The value with all conflicts resolved to one side.
    pub(super) fn taking(&self, side: Side) -> Option<Value> {
        let all = |parts: &[(String, Want)]| -> Vec<(String, Value)> {
            parts
                .iter()
                .filter_map(|(name, want)| Some((name.clone(), want.taking(side)?)))
                .collect()
        };
        match self {
            Want::Just(value) => Some(value.clone()),
            Want::Map(parts) => Some(Value::Map(all(parts))),
            Want::List(parts) => {
                Some(Value::List(all(parts).into_iter().map(|(_, value)| value).collect()))
            }
            Want::Conflict(ours, theirs) => match side {
                Side::Ours => ours.clone(),
                Side::Theirs => theirs.clone(),
            },
        }
    }

    /// The value, if there is no conflict.
    pub(super) fn settled(&self) -> Option<Value> {
        if self.is_settled() { self.taking(Side::Ours) } else { None }
    }

    fn is_settled(&self) -> bool {
        match self {
            Want::Just(_) => true,
            Want::Map(parts) | Want::List(parts) => parts.iter().all(|(_, want)| want.is_settled()),
            Want::Conflict(..) => false,
        }
    }

    /// The parts, and whether it is a list.
    pub(super) fn parts(&self, shape: ValueShape) -> Option<(bool, Vec<(String, Want)>)> {
        match self {
            Want::Map(parts) => Some((false, parts.clone())),
            Want::List(parts) => Some((true, parts.clone())),
            Want::Just(value) => {
                let parts = value.parts(shape)?.into_iter();
                let parts = parts.map(|(name, value)| (name, Want::Just(value.clone())));
                Some((matches!(value, Value::List(_)), parts.collect()))
            }
            Want::Conflict(..) => None,
        }
    }
}

/// The base, our and their version of something.
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
pub(super) fn merge(sides: Three<Option<&Value>>, shape: ValueShape) -> Option<Want> {
    if let Some(side) = plainly(&sides) {
        return sides[side].cloned().map(Want::Just);
    }
    let [_, ours, theirs] = sides;
    Some(by_part(sides, shape).unwrap_or_else(|| Want::Conflict(ours.cloned(), theirs.cloned())))
}

fn by_part(sides: Three<Option<&Value>>, shape: ValueShape) -> Option<Want> {
    let (base, ours, theirs) = (sides[0].filter(|base| !base.is_nothing()), sides[1]?, sides[2]?);
    let is_list = matches!(ours, Value::List(_));
    let is_alike = |value: &Value| matches!(value, Value::List(_)) == is_list;
    if !is_alike(theirs) || !base.is_none_or(is_alike) {
        return None;
    }
    let base_parts = base.map_or(Some(Vec::new()), |base| base.parts(shape))?;
    let parts = [base_parts, ours.parts(shape)?, theirs.parts(shape)?];
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
                MergeProgress::Of(side) => these[side].cloned().map(Want::Just),
                MergeProgress::Unclear if these[1] == these[2] => these[1].cloned().map(Want::Just),
                MergeProgress::Unclear => {
                    Some(Want::Conflict(these[1].cloned(), these[2].cloned()))
                }
            },
            _ => merge(these, shape.below(name)),
        };
        wanted.extend(want.map(|want| (name.to_owned(), want)));
    }
    Some(if is_list { Want::List(wanted) } else { Want::Map(wanted) })
}

/// The base with the tasks that only theirs has, and with the edges of theirs that lead to them;
/// none if there are none.
pub(super) fn additions(base: &Value, ours: &Value, theirs: &Value) -> Option<Value> {
    let Value::Map(entries) = theirs else {
        return None;
    };
    let ids = |file: &Value| -> HashSet<String> {
        let lists = ["tasks", "nodes"].into_iter().filter_map(|key| file.get(key));
        let items =
            lists.filter_map(|list| if let Value::List(items) = list { Some(items) } else { None });
        items.flatten().filter_map(|item| item.name(ValueShape::Tasks)).collect()
    };
    let known: HashSet<String> = ids(base).union(&ids(ours)).cloned().collect();
    let is_new = |item: &Value, key: &str| {
        let id = item.get(key).and_then(Value::text);
        id.is_some_and(|id| !known.contains(id))
    };
    let Value::Map(mut added) = base.clone() else {
        return None;
    };
    let mut is_any = false;
    for (name, value) in entries {
        let key = match (ValueShape::File.below(name), value) {
            (ValueShape::Tasks, Value::List(_)) => "id",
            (ValueShape::Edges, Value::List(_)) => "to",
            _ => continue,
        };
        let Value::List(items) = value else {
            continue;
        };
        let items: Vec<Value> = items.iter().filter(|item| is_new(item, key)).cloned().collect();
        if items.is_empty() {
            continue;
        }
        is_any = true;
        match added.iter_mut().find(|(known, _)| known == name) {
            Some((_, Value::List(all))) => all.extend(items),
            Some(_) => return None,
            None => added.push((name.clone(), Value::List(items))),
        }
    }
    is_any.then_some(Value::Map(added))
}

/// The names of all sides in one order: that of ours, or that of theirs if only they moved
/// something. A new name of the other side follows its predecessor there.
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

fn progress(tasks: Three<Option<&Value>>) -> MergeProgress {
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
fn status(value: Option<&Value>) -> Option<Status> {
    match value {
        None => Some(Status::Pending),
        Some(value) if value.is_nothing() => Some(Status::Pending),
        Some(value) => Status::parse(value.text()?),
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
fn since(fields: [Option<&Value>; 4]) -> [(bool, &str); 3] {
    let [_, claimed_at, claimed_by, completed_at] = fields;
    [completed_at, claimed_at, claimed_by].map(|field| {
        let text = field.and_then(Value::text);
        (text.is_none(), text.unwrap_or_default())
    })
}
