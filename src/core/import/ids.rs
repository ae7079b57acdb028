//! The names of tasks: ids for the names of other tools, and which task of a plan is which of its last
//! reading.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::SourceBacklog;
use crate::graph::task::{MAX_ID, TaskId};

/// The length of an id that is made from a title.
const LONGEST: usize = 48;

/// An id in the place of each name, in the same order, with whether it differs from the name.
///
/// A valid name that is free is kept. All others depend only on the name and on the ids that are
/// taken, so that the same source always gets the same ids.
pub(super) fn map<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    taken: &HashSet<String>,
) -> Vec<(String, bool)> {
    let kept = names.clone().filter(|name| TaskId::new(name).is_ok() && !taken.contains(*name));
    let mut used: HashSet<String> = kept.map(str::to_owned).collect();
    let mut given: HashSet<&str> = HashSet::new();
    let mut next = |name: &'a str| {
        let is_kept = used.contains(name) && given.insert(name) && TaskId::new(name).is_ok();
        if is_kept {
            return (name.to_owned(), false);
        }
        let mut id = cleaned(name);
        if taken.contains(&id) || used.contains(&id) {
            id = with_suffix(&id, &hash(name));
        }
        let mut count = 2;
        while taken.contains(&id) || used.contains(&id) {
            id = with_suffix(&cleaned(name), &format!("{}-{count}", hash(name)));
            count += 1;
        }
        used.insert(id.clone());
        (id, true)
    };
    names.map(&mut next).collect()
}

/// A name with only the characters of an id.
fn cleaned(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let repeats = id.ends_with(c) && "-.".contains(c);
        if !(repeats || id.is_empty() && !c.is_ascii_alphanumeric()) {
            id.push(c);
        }
    }
    id.truncate(MAX_ID);
    let id = id.trim_end_matches(['-', '.']);
    if id.is_empty() { format!("task-{}", hash(name)) } else { id.to_owned() }
}

fn with_suffix(id: &str, suffix: &str) -> String {
    let length = id.len().min(MAX_ID - suffix.len() - 1);
    format!("{}-{suffix}", id[..length].trim_end_matches(['-', '.']))
}

/// A short id made from a title: `Add a login page` becomes `add-a-login-page`.
pub(super) fn slug(title: &str) -> String {
    let mut id = String::new();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        if !id.is_empty() && id.len() + word.len() >= LONGEST {
            break;
        }
        if !id.is_empty() {
            id.push('-');
        }
        id.extend(word.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()));
    }
    if id.is_empty() && !title.trim().is_empty() {
        return format!("task-{}", hash(title));
    }
    id
}

/// Six letters that differ for different texts (FNV-1a).
pub(super) fn hash(text: &str) -> String {
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:06x}", (sum ^ (sum >> 24)) & 0x00ff_ffff)
}

/// Gives tasks that are named by a number, as in `Task 3`, the keys that the tasks with their titles
/// had at the last reading, since numbers change with a plan. `known` has titles by key.
///
/// All other tasks are known by their ids, or by their titles, from which their keys are made.
pub(super) fn identify(backlog: &mut SourceBacklog, known: &HashMap<String, String>) {
    let mut taken: HashSet<String> = known.keys().cloned().collect();
    taken.extend(backlog.tasks.iter().map(|task| task.key.clone()));
    let mut numbered = Vec::new();
    let mut is_same: HashSet<String> = HashSet::new();
    for (number, task) in backlog.tasks.iter().enumerate().filter(|(_, task)| task.is_key_made) {
        let title = task.get("title").and_then(Value::as_str).unwrap_or_default();
        if known.get(&task.key).is_some_and(|known| known == title) {
            is_same.insert(task.key.clone());
        } else if !task.key.starts_with(&slug(title)) {
            numbered.push((number, title.to_owned()));
        }
    }
    let free = known.iter().filter(|(key, _)| !is_same.contains(*key));
    let mut by_title: HashMap<&str, &str> =
        free.map(|(key, title)| (title.as_str(), key.as_str())).collect();
    let mut changed: HashMap<String, String> = HashMap::new();
    for (number, title) in numbered {
        let old = &backlog.tasks[number].key;
        let mut names = (2..).map(|count| format!("{old}-{count}"));
        let key = match by_title.remove(title.as_str()) {
            Some(key) => key.to_owned(),
            None if known.contains_key(old) => {
                names.find(|name| !taken.contains(name)).expect("numbers do not end")
            }
            None => continue,
        };
        taken.insert(key.clone());
        changed.insert(old.clone(), key);
    }
    for task in &mut backlog.tasks {
        let links = task.depends_on.iter_mut().chain(&mut task.parent).map(|link| &mut link.key);
        for key in links.chain([&mut task.key]) {
            if let Some(new) = changed.get(key) {
                key.clone_from(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BacklogFormat, read};

    use super::*;

    #[test]
    fn valid_names_are_kept_and_others_mapped() {
        let taken = HashSet::from(["taken".to_owned()]);
        let names = ["a/b", "a-b", "taken", "T-1", "\u{1b}[31m", "a..b", "../../etc", "日本"];
        let ids = map(names.iter().copied(), &taken);
        let of = |at: usize| ids[at].0.as_str();
        assert_eq!((of(1), of(3)), ("a-b", "T-1"));
        assert!(of(0).starts_with("a-b-") && of(2).starts_with("taken-"), "{ids:?}");
        assert_eq!((of(5), of(6)), ("a.b", "etc"));
        assert!(of(7).starts_with("task-"));
        assert_eq!(ids, map(names.iter().copied(), &taken));
        assert_eq!(slug("Add a *login* page"), "add-a-login-page");
    }

    /// The keys of the tasks of a changed plan.
    fn keys(before: &str, after: &str) -> Vec<String> {
        let tasks = |text: &str| read(BacklogFormat::Markdown, "x", text).unwrap();
        let title = |value: Option<&Value>| value.unwrap().as_str().unwrap().to_owned();
        let known = tasks(before).tasks;
        let known = known.iter().map(|task| (task.key.clone(), title(task.get("title"))));
        let mut backlog = tasks(after);
        identify(&mut backlog, &known.collect());
        backlog.tasks.into_iter().map(|task| task.key).collect()
    }

    #[test]
    fn a_task_is_known_by_its_id_or_its_title() {
        for (what, before, after, want) in [
            ("the same", "- [ ] a\n- [ ] a\n", "- [ ] a\n- [ ] a\n", &["a", "a-2"][..]),
            ("another place", "- [ ] a\n- [ ] b\n", "# B\n\n- [x] b\n- [ ] a\n", &["b", "a"]),
            ("another title", "- [ ] add login\n", "- [ ] add login page\n", &["add-login-page"]),
            (
                "other numbers",
                "### Task 1: A\n\n- [x] s\n\n### Task 2: B\n\n- [ ] s\n",
                "### Task 1: New\n\n- [ ] s\n\n### Task 2: A\n\n- [x] s\n\n### Task 3: B\n\n- [ ] s\n",
                &["task-1-2", "task-1", "task-2"],
            ),
            (
                "a number with the title of another task",
                "- [ ] 1.1 A\n- [ ] 1.2 B\n",
                "- [ ] 1.1 A\n- [ ] 1.2 A\n- [ ] 1.3 B\n",
                &["1.1", "1.2-2", "1.2"],
            ),
            ("its own id", "- [ ] T001 a\n- [ ] T002 b\n", "- [ ] T002 a\n", &["T002"]),
        ] {
            assert_eq!(keys(before, after), want, "{what}");
        }
    }

    #[test]
    fn dependencies_follow_the_keys() {
        let before = "### Task 1: A\n\ntext\n";
        let after = "### Task 1: B\n\nDepends on: Task 2\n\n### Task 2: A\n\ntext\n";
        let mut backlog = read(BacklogFormat::Markdown, "x", after).unwrap();
        identify(&mut backlog, &HashMap::from([("task-1".to_owned(), "A".to_owned())]));
        assert_eq!(backlog.tasks[0].depends_on[0].key, "task-1");
        assert_eq!(keys(before, after), ["task-1-2", "task-1"]);
    }

    proptest! {
        #[test]
        fn mapped_ids_are_valid_and_unique(
            names in prop::collection::vec(".{0,80}", 0..40),
            taken in prop::collection::hash_set("[a-c]{1,2}", 0..9),
        ) {
            let ids = map(names.iter().map(String::as_str), &taken);
            let unique: HashSet<&String> = ids.iter().map(|(id, _)| id).collect();
            prop_assert_eq!(unique.len(), names.len());
            for ((id, is_mapped), name) in ids.iter().zip(&names) {
                prop_assert!(TaskId::new(id).is_ok(), "{:?}", id);
                prop_assert!(!taken.contains(id));
                prop_assert_eq!(*is_mapped, id != name);
            }
        }
    }
}
