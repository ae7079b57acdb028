//! The filter for the tasks of a run, parsed from and written as words.

use crate::core::graph::task::{Task, TaskId};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
