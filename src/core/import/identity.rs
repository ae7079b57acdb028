//! Which task of a source is which task of its last reading, for sources without ids of their own.
//!
//! A task with an id in the source keeps that id. All others are compared with the last reading in
//! several steps, from the strictest to the loosest, so that a task keeps its key when its title
//! changes, when it moves, or when another task gets the same title.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    SourceBacklog, SourceTask,
    ids::{hash, slug},
};
use crate::{
    diagnostic::nearest,
    graph::task::{Status, Task},
};

/// Where the key of a task comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeyOrigin {
    /// The source has an id.
    #[default]
    Source,
    /// It was made from the title or from a number.
    Title,
}

impl KeyOrigin {
    fn new(is_key_made: bool) -> KeyOrigin {
        if is_key_made { KeyOrigin::Title } else { KeyOrigin::Source }
    }
}

/// A task of a source as it was read last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownSourceTask {
    /// Its key, which is the end of `source:` in the graph.
    pub key: String,
    origin: KeyOrigin,
    title: String,
    /// The headings above it.
    group: String,
    /// A hash of its description; empty if it has none.
    text: String,
    /// Whether the source had it as done.
    is_done: bool,
    /// Whether the source no longer had it when it was read last.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
    /// Whether the graph has it as done or cancelled.
    #[serde(skip)]
    pub is_over: bool,
}

impl KnownSourceTask {
    /// The identity of a task that was just read.
    pub fn of_source(task: &SourceTask) -> KnownSourceTask {
        let text = |name: &str| task.get(name).and_then(Value::as_str).unwrap_or_default();
        KnownSourceTask {
            key: task.key.clone(),
            origin: KeyOrigin::new(task.is_key_made),
            title: folded(text("title")),
            group: group(text("milestone"), text("story")),
            text: digest(text("description")),
            is_done: Status::parse(text("status")) == Some(Status::Complete),
            is_gone: false,
            is_over: false,
        }
    }

    /// The identity of a task of the graph, for a source whose last reading is not known.
    pub fn of_graph(key: &str, task: &Task) -> KnownSourceTask {
        let made = slug(&task.title);
        let rest = key.strip_prefix(made.as_str()).map(|rest| rest.trim_start_matches('-'));
        KnownSourceTask {
            key: key.to_owned(),
            origin: KeyOrigin::new(
                rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit())),
            ),
            title: folded(&task.title),
            group: group(
                task.milestone.as_deref().unwrap_or_default(),
                task.story.as_deref().unwrap_or_default(),
            ),
            text: digest(task.description.as_deref().unwrap_or_default()),
            // The source may not know.
            is_done: false,
            is_gone: false,
            is_over: task.status.is_over(),
        }
    }

    fn is_key_made(&self) -> bool {
        self.origin == KeyOrigin::Title
    }

    /// Its key, without the number that tells it from others with the same title.
    fn name(&self) -> &str {
        let is_number = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit());
        let parts = self.key.rsplit_once('-').filter(|(name, rest)| {
            self.is_key_made() && is_number(rest) && *name == slug(&self.title)
        });
        parts.map_or(self.key.as_str(), |(name, _)| name)
    }

    /// Whether a task that was done would be open again.
    fn reopens(&self, new: &KnownSourceTask) -> bool {
        self.is_done && !new.is_done
    }
}

fn folded(title: &str) -> String {
    title.to_lowercase()
}

fn group(milestone: &str, story: &str) -> String {
    format!("{milestone}\n{story}")
}

fn digest(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { hash(text) }
}

/// What two tasks have in common, from the most to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    All,
    TitleGroupAndText,
    TitleAndGroup,
    TitleAndText,
    Title,
    GroupAndText,
    Key,
}

impl Likeness {
    const BY_TITLE: [Likeness; 5] = [
        Likeness::All,
        Likeness::TitleGroupAndText,
        Likeness::TitleAndGroup,
        Likeness::TitleAndText,
        Likeness::Title,
    ];

    /// The text that is equal for tasks that are alike; none if there is nothing to compare.
    fn signature(self, task: &KnownSourceTask) -> Option<String> {
        let KnownSourceTask { title, group, text, key, .. } = task;
        match self {
            Likeness::All => {
                let is_done = task.is_done || task.is_over;
                Some(format!("{title}\n{group}\n{text}\n{is_done}"))
            }
            Likeness::TitleGroupAndText => Some(format!("{title}\n{group}\n{text}")),
            Likeness::TitleAndGroup => Some(format!("{title}\n{group}")),
            Likeness::TitleAndText => (!text.is_empty()).then(|| format!("{title}\n{text}")),
            Likeness::Title => Some(title.clone()),
            Likeness::GroupAndText => (!text.is_empty()).then(|| format!("{group}\n{text}")),
            Likeness::Key => Some(key.clone()),
        }
    }

    /// Whether a task that was done can be an open one now.
    fn may_reopen(self) -> bool {
        matches!(self, Likeness::All | Likeness::TitleGroupAndText | Likeness::TitleAndGroup)
    }
}

/// Gives the tasks of a backlog the keys that they had at the last reading. Without `by_place`, only
/// keys and titles are compared.
pub fn identify(backlog: &mut SourceBacklog, known: &[KnownSourceTask], by_place: bool) {
    if known.is_empty() || backlog.tasks.iter().all(|task| !task.is_key_made) {
        return;
    }
    let new: Vec<KnownSourceTask> = backlog.tasks.iter().map(KnownSourceTask::of_source).collect();
    let keys = Matching::new(known, &new).keys(by_place);
    let changed: HashMap<String, String> = { new.into_iter().zip(&keys) }
        .filter(|(task, key)| task.key != **key)
        .map(|(task, key)| (task.key, key.clone()))
        .collect();
    for (task, key) in backlog.tasks.iter_mut().zip(keys) {
        task.key = key;
        for link in task.depends_on.iter_mut().chain(&mut task.parent) {
            if let Some(key) = changed.get(&link.key) {
                link.key.clone_from(key);
            }
        }
    }
}

/// The tasks of two readings of a source, and which are the same.
struct Matching<'a> {
    old: &'a [KnownSourceTask],
    new: &'a [KnownSourceTask],
    of_old: Vec<Option<usize>>,
    of_new: Vec<Option<usize>>,
}

impl<'a> Matching<'a> {
    fn new(old: &'a [KnownSourceTask], new: &'a [KnownSourceTask]) -> Matching<'a> {
        Matching { old, new, of_old: vec![None; old.len()], of_new: vec![None; new.len()] }
    }

    /// The key of each new task.
    fn keys(mut self, by_place: bool) -> Vec<String> {
        self.pair_own_ids();
        for likeness in Likeness::BY_TITLE {
            self.pair_alike(likeness, false);
        }
        for likeness in Likeness::BY_TITLE {
            self.pair_alike(likeness, true);
        }
        if by_place {
            self.pair_alike(Likeness::GroupAndText, false);
            self.pair_alike(Likeness::Key, false);
            self.pair_by_place();
        }
        let mut taken: HashSet<String> = self.old.iter().map(|task| task.key.clone()).collect();
        let mut key = |(new, old): (&KnownSourceTask, &Option<usize>)| {
            if let Some(old) = old {
                return self.old[*old].key.clone();
            }
            let base = new.name();
            let names = (2..).map(|count| format!("{base}-{count}"));
            let mut names = std::iter::once(new.key.clone()).chain(names);
            let free = names.find(|name| !taken.contains(name)).unwrap_or_default();
            taken.insert(free.clone());
            free
        };
        self.new.iter().zip(&self.of_new).map(&mut key).collect()
    }

    fn pair(&mut self, old: usize, new: usize) {
        self.of_old[old] = Some(new);
        self.of_new[new] = Some(old);
    }

    /// Pairs the tasks that have an id in the source.
    fn pair_own_ids(&mut self) {
        let by_key: HashMap<&str, usize> =
            self.old.iter().enumerate().map(|(at, task)| (task.key.as_str(), at)).collect();
        for (at, task) in self.new.iter().enumerate().filter(|(_, task)| !task.is_key_made()) {
            if let Some(old) = by_key.get(task.key.as_str()).copied() {
                self.pair(old, at);
            }
        }
    }

    /// Pairs unpaired tasks that are alike. If there are more of them on one side, `is_any` pairs
    /// those next to paired tasks first, and then the others in their order.
    fn pair_alike(&mut self, likeness: Likeness, is_any: bool) {
        let mut groups: BTreeMap<String, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (at, task) in self.old.iter().enumerate().filter(|(at, _)| self.of_old[*at].is_none()) {
            if let Some(signature) = likeness.signature(task) {
                groups.entry(signature).or_default().0.push(at);
            }
        }
        for (at, task) in self.new.iter().enumerate().filter(|(at, _)| self.of_new[*at].is_none()) {
            if let Some(signature) = likeness.signature(task) {
                groups.entry(signature).or_default().1.push(at);
            }
        }
        for (mut old, mut new) in groups.into_values() {
            if old.len() != new.len() && is_any {
                self.pair_next_to_paired(&old, &new, likeness);
                old.retain(|at| self.of_old[*at].is_none());
                new.retain(|at| self.of_new[*at].is_none());
            } else if old.len() != new.len() {
                continue;
            }
            for (old, new) in old.into_iter().zip(new) {
                if self.may_pair(old, new, likeness) {
                    self.pair(old, new);
                }
            }
        }
    }

    fn may_pair(&self, old: usize, new: usize, likeness: Likeness) -> bool {
        let (old, new) = (&self.old[old], &self.new[new]);
        (old.is_key_made() || new.is_key_made())
            && (likeness.may_reopen() || !old.is_gone && !old.reopens(new))
    }

    fn pair_next_to_paired(&mut self, old: &[usize], new: &[usize], likeness: Likeness) {
        let candidates: HashSet<usize> = old.iter().copied().collect();
        let after = |at: usize| at.checked_add(1);
        let before = |at: usize| at.checked_sub(1);
        for at in new.iter().copied() {
            let neighbor = before(at).and_then(|before| self.of_new[before]).and_then(after);
            self.pair_candidate(neighbor, at, &candidates, likeness);
        }
        for at in new.iter().copied().rev() {
            let neighbor = self.of_new.get(at + 1).copied().flatten().and_then(before);
            self.pair_candidate(neighbor, at, &candidates, likeness);
        }
    }

    fn pair_candidate(
        &mut self,
        old: Option<usize>,
        new: usize,
        candidates: &HashSet<usize>,
        likeness: Likeness,
    ) {
        if let Some(old) = old.filter(|old| candidates.contains(old))
            && self.of_old[old].is_none()
            && self.of_new[new].is_none()
            && self.may_pair(old, new, likeness)
        {
            self.pair(old, new);
        }
    }

    /// Returns the unpaired tasks between the same paired neighbors: the old ones, and the new ones.
    fn gaps(&self) -> Vec<(Vec<usize>, Range<usize>)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.new.len() {
            let end = (at..self.new.len()).find(|at| self.of_new[*at].is_some());
            let new = at..end.unwrap_or(self.new.len());
            at = new.end + 1;
            if !new.is_empty() {
                found.push((self.gap(&new), new));
            }
        }
        found
    }

    /// Pairs tasks between the same paired neighbors: those with similar titles, and then a single
    /// open task on both sides.
    fn pair_by_place(&mut self) {
        /// The number of comparisons in one gap.
        const MOST: usize = 250_000;
        for (old, new) in self.gaps() {
            if new.len().saturating_mul(old.len()) <= MOST {
                self.pair_similar(&old, &new);
            }
        }
        for (old, new) in self.gaps() {
            let is_bounded = new.start > 0 || new.end < self.new.len();
            if let [old] = old[..]
                && new.len() == 1
                && is_bounded
            {
                let (was, is) = (&self.old[old], &self.new[new.start]);
                let is_open = !was.is_done && !was.is_over && !is.is_done;
                if is_open && was.group == is.group && was.is_key_made() && is.is_key_made() {
                    self.pair(old, new.start);
                }
            }
        }
    }

    /// The unpaired old tasks between the pairs of the tasks around a range of new ones.
    fn gap(&self, new: &Range<usize>) -> Vec<usize> {
        let start = new.start.checked_sub(1).and_then(|at| self.of_new[at]).map_or(0, |at| at + 1);
        let end = self.of_new.get(new.end).copied().flatten().unwrap_or(self.old.len());
        let is_free = |at: &usize| self.of_old[*at].is_none() && !self.old[*at].is_gone;
        (start..end.max(start)).filter(is_free).collect()
    }

    fn pair_similar(&mut self, old: &[usize], new: &Range<usize>) {
        let mut from = 0;
        for at in new.clone() {
            let is_it = |old: &usize| {
                let (was, is) = (&self.old[*old], &self.new[at]);
                let is_made = was.is_key_made() && is.is_key_made();
                is_made && !was.reopens(is) && are_similar(&was.title, &is.title)
            };
            if let Some(found) = old[from..].iter().position(is_it) {
                self.pair(old[from + found], at);
                from += found + 1;
            }
        }
    }
}

/// Whether two titles have more than half of their words in common, or differ by a typing error.
fn are_similar(one: &str, other: &str) -> bool {
    /// The length of a title in which a typing error is one.
    const SHORTEST: usize = 8;
    let words = |text: &str| -> HashSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let (a, b) = (words(one), words(other));
    let common = a.intersection(&b).count();
    let is_long = one.len().min(other.len()) >= SHORTEST;
    common * 2 > a.len().max(b.len())
        || common >= 2 && common == a.len().min(b.len())
        || is_long && a.len() == b.len() && nearest(one, [other]).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::{BacklogFormat, read};
    use super::*;

    fn known(text: &str) -> Vec<KnownSourceTask> {
        let tasks = read(BacklogFormat::Markdown, "x", text).unwrap().tasks;
        tasks.iter().map(KnownSourceTask::of_source).collect()
    }

    /// The keys of the tasks of a changed plan.
    fn keys(before: &str, after: &str) -> Vec<String> {
        let mut backlog = read(BacklogFormat::Markdown, "x", after).unwrap();
        identify(&mut backlog, &known(before), true);
        backlog.tasks.into_iter().map(|task| task.key).collect()
    }

    #[test]
    fn a_task_stays_itself_in_a_changed_plan() {
        for (what, before, after, want) in [
            ("the same", "- [ ] a\n- [ ] a\n", "- [ ] a\n- [ ] a\n", &["a", "a-2"][..]),
            (
                "another with this title before a done one",
                "- [x] test\n",
                "- [ ] test\n- [x] test\n",
                &["test-2", "test"],
            ),
            (
                "another with this title under an earlier heading",
                "# P\n\n## B\n\n- [ ] test\n",
                "# P\n\n## A\n\n- [ ] test\n\n## B\n\n- [ ] test\n",
                &["test-2", "test"],
            ),
            (
                "a neighbor tells which",
                "- [ ] one\n- [ ] test\n",
                "- [ ] test\n- [ ] one\n- [ ] test\n",
                &["test-2", "one", "test"],
            ),
            (
                "the first of two is removed",
                "- [x] test\n- [ ] mid\n- [ ] test\n",
                "- [ ] mid\n- [ ] test\n",
                &["mid", "test-2"],
            ),
            ("a new word", "- [ ] add login\n", "- [ ] add login page\n", &["add-login"]),
            (
                "a new title in its place",
                "- [ ] a b\n- [ ] c d\n- [ ] e f\n",
                "- [ ] a b\n- [ ] other\n- [ ] e f\n",
                &["a-b", "c-d", "e-f"],
            ),
            (
                "a new title over the same text",
                "- [ ] one\n\n  same text\n\n- [ ] two\n",
                "- [ ] two\n- [ ] new\n\n  same text\n",
                &["two", "one"],
            ),
            (
                "another task in the place of a done one",
                "- [ ] a b\n- [x] c d\n- [ ] e f\n",
                "- [ ] a b\n- [ ] other\n- [ ] e f\n",
                &["a-b", "other", "e-f"],
            ),
            (
                "other numbers",
                "### Task 1: A\n\n- [x] s\n\n### Task 2: B\n\n- [ ] s\n",
                "### Task 1: New\n\n- [ ] s\n\n### Task 2: A\n\n- [x] s\n\n### Task 3: B\n\n- [ ] s\n",
                &["task-1-2", "task-1", "task-2"],
            ),
            ("its own id", "- [ ] T001 a\n- [ ] T002 b\n", "- [ ] T002 a\n", &["T002"]),
            ("a whole new plan", "- [ ] a\n- [ ] b\n", "- [ ] c\n- [ ] d\n", &["c", "d"]),
        ] {
            assert_eq!(keys(before, after), want, "{what}");
        }
    }

    #[test]
    fn a_task_that_was_gone_comes_back_only_in_its_place() {
        let mut before = known("## A\n\n- [ ] test\n");
        before[0].is_gone = true;
        for (after, want) in [("## A\n\n- [ ] test\n", "test"), ("## B\n\n- [ ] test\n", "test-2")]
        {
            let mut backlog = read(BacklogFormat::Markdown, "x", after).unwrap();
            identify(&mut backlog, &before, true);
            assert_eq!(backlog.tasks[0].key, want, "{after}");
        }
    }

    #[test]
    fn dependencies_follow_the_keys() {
        let before = "- [x] test\n- [ ] ship (depends on test)\n";
        let after = "- [ ] test\n- [x] test\n- [ ] ship it (depends on test-2)\n";
        let mut backlog = read(BacklogFormat::Markdown, "x", after).unwrap();
        identify(&mut backlog, &known(before), true);
        assert_eq!(backlog.tasks[2].depends_on[0].key, "test");
    }
}
