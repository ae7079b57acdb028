//! The filter for the tasks of a run, parsed from and written as words.

use std::collections::BTreeSet;

use crate::{
    diagnostic::{nearest, visible},
    graph::task::{Task, TaskId},
};

/// A filter for the tasks of a run. Several values of one kind widen it, several kinds narrow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// These tasks.
    pub tasks: Vec<TaskId>,
    /// Tasks of these stories.
    pub stories: Vec<String>,
    /// Tasks of these milestones.
    pub milestones: Vec<String>,
    /// Tasks with one of these tags.
    pub tags: Vec<String>,
}

impl Filter {
    /// Whether the filter selects every task.
    pub fn selects_all(&self) -> bool {
        *self == Filter::default()
    }

    /// Returns why the filter is a mistake, with a suggestion: no task has one of its values, or no
    /// task matches all of them.
    pub fn mistake(&self, tasks: &[Task], file: &str) -> Option<String> {
        let ids = tasks.iter().map(|task| task.id.as_str());
        let stories = tasks.iter().filter_map(|task| task.story.as_deref());
        let milestones = tasks.iter().filter_map(|task| task.milestone.as_deref());
        let tags = tasks.iter().flat_map(|task| &task.tags).map(String::as_str);
        let wanted: Vec<&str> = self.tasks.iter().map(TaskId::as_str).collect();
        unknown("task", &wanted, ids, file)
            .or_else(|| unknown("story", &self.stories, stories, file))
            .or_else(|| unknown("milestone", &self.milestones, milestones, file))
            .or_else(|| unknown("tag", &self.tags, tags, file))
            .or_else(|| {
                let none = !self.selects_all() && !tasks.iter().any(|task| self.admits(task));
                none.then(|| {
                    let flags: Vec<String> =
                        self.words().iter().map(|word| format!("`--{word}`")).collect();
                    format!("no task in `{file}` matches all of {}", flags.join(", "))
                })
            })
    }

    /// Whether the filter selects a task.
    pub fn admits(&self, task: &Task) -> bool {
        fn one_of(wanted: &[String], has: Option<&String>) -> bool {
            wanted.is_empty() || has.is_some_and(|has| wanted.contains(has))
        }
        (self.tasks.is_empty() || self.tasks.contains(&task.id))
            && one_of(&self.stories, task.story.as_ref())
            && one_of(&self.milestones, task.milestone.as_ref())
            && (self.tags.is_empty() || task.tags.iter().any(|tag| self.tags.contains(tag)))
    }

    /// Parses the output of [`Filter::words`]. Kinds from newer versions are ignored.
    pub fn of_words(words: &[String]) -> Filter {
        let mut filter = Filter::default();
        for (kind, name) in words.iter().filter_map(|word| word.split_once('=')) {
            match kind {
                "task" => filter.tasks.extend(TaskId::new(name)),
                "story" => filter.stories.push(name.to_owned()),
                "milestone" => filter.milestones.push(name.to_owned()),
                "tag" => filter.tags.push(name.to_owned()),
                _ => {}
            }
        }
        filter
    }

    /// The filter in the form of flags.
    pub fn words(&self) -> Vec<String> {
        let tasks = self.tasks.iter().map(|id| format!("task={id}"));
        tasks
            .chain(self.stories.iter().map(|name| format!("story={name}")))
            .chain(self.milestones.iter().map(|name| format!("milestone={name}")))
            .chain(self.tags.iter().map(|name| format!("tag={name}")))
            .collect()
    }
}

/// Returns the message about the first name that no task has.
fn unknown<'a>(
    kind: &str,
    wanted: &[impl AsRef<str>],
    known: impl Iterator<Item = &'a str>,
    file: &str,
) -> Option<String> {
    /// The number of names that are listed.
    const LISTED: usize = 8;
    if wanted.is_empty() {
        return None;
    }
    let known: BTreeSet<&str> = known.collect();
    let wrong = wanted.iter().map(AsRef::as_ref).find(|name| !known.contains(name))?;
    let names = || {
        let names: Vec<String> =
            known.iter().take(LISTED).map(|name| format!("`{}`", visible(name))).collect();
        let more = if known.len() > LISTED { ", …" } else { "" };
        format!("{}{more}", names.join(", "))
    };
    let hint = match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", visible(near)),
        None if known.is_empty() => format!("no task has a {kind}"),
        None if kind == "task" => "`ralph dag-status` lists the tasks".to_owned(),
        None => format!("it has {}", names()),
    };
    let has =
        if kind == "task" { "no task".to_owned() } else { format!("no task with the {kind}") };
    Some(format!("{has} `{}` in `{file}`; {hint}", visible(wrong)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::task;

    #[test]
    fn a_filter_survives_a_round_trip() {
        let filter = Filter {
            tasks: vec![TaskId::new("a").unwrap()],
            stories: vec!["x=y".to_owned()],
            milestones: vec!["M 1".to_owned()],
            tags: vec!["t".to_owned(), "u".to_owned()],
        };
        assert_eq!(Filter::of_words(&filter.words()), filter);
    }

    #[test]
    fn a_mistake_has_a_suggestion() {
        let tagged = |id: &str, tag: &str, story: &str| Task {
            tags: vec![tag.to_owned()],
            story: Some(story.to_owned()),
            ..task(id)
        };
        let tasks = [tagged("a", "nightly", "login"), tagged("b", "slow", "export")];
        let mistake = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Filter::of_words(&words).mistake(&tasks, "g.yaml")
        };
        assert_eq!(mistake(&[]), None);
        assert_eq!(mistake(&["tag=slow", "story=export", "task=b"]), None);
        let nightly = "no task with the tag `nightl` in `g.yaml`; did you mean `nightly`?";
        assert_eq!(mistake(&["tag=slow", "tag=nightl"]).unwrap(), nightly);
        let other = "no task with the tag `other` in `g.yaml`; it has `nightly`, `slow`";
        assert_eq!(mistake(&["tag=other"]).unwrap(), other);
        let odd = "no task with the story `it's\\u{1b}[31m` in `g.yaml`; it has `export`, `login`";
        assert_eq!(mistake(&["story=it's\u{1b}[31m"]).unwrap(), odd);
        let v2 = "no task with the milestone `v2` in `g.yaml`; no task has a milestone";
        assert_eq!(mistake(&["milestone=v2"]).unwrap(), v2);
        let both = "no task in `g.yaml` matches all of `--story=login`, `--tag=slow`";
        assert_eq!(mistake(&["tag=slow", "story=login"]).unwrap(), both);
    }
}
