//! The newest commit of each task, by the trailers in the messages of commits.
//!
//! Commits that arrive from another clone are in no journal here. The history is read once, and then
//! what is new in it.

use std::collections::HashMap;

use anyhow::Result;

use crate::{
    adapters::git::Repo,
    core::{commit_id::CommitId, graph::task::TaskId},
};

/// The starts of the lines that name the task and the attempt of a commit.
const TRAILERS: [&str; 2] = ["Ralph-Task: ", "Ralph-Attempt: "];

/// The newest commits of attempts at each task in the history of a commit.
#[derive(Debug, Default)]
pub struct TaskCommits {
    /// The commit whose history was read.
    tip: Option<CommitId>,
    newest: HashMap<String, CommitId>,
}

impl TaskCommits {
    /// Returns the newest commit of an attempt at a task in the history of `head`.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn newest(
        &mut self,
        repo: &Repo,
        head: &CommitId,
        task: &TaskId,
    ) -> Result<Option<CommitId>> {
        let is_ancestor = |old: &CommitId, new: &CommitId| repo.is_ancestor(old, new);
        let descends = |tip: &CommitId| is_ancestor(tip, head).unwrap_or(false);
        let precedes = |tip: &CommitId| is_ancestor(head, tip).unwrap_or(false);
        if self.tip.as_ref().is_none_or(descends) {
            self.read(repo, head)?;
        } else if !self.tip.as_ref().is_some_and(precedes) {
            *self = TaskCommits::default();
            self.read(repo, head)?;
        }
        match self.newest.get(task.as_str()) {
            Some(commit) if !is_ancestor(commit, head)? => {
                let mut before = TaskCommits::default();
                before.read(repo, head)?;
                Ok(before.newest.remove(task.as_str()))
            }
            found => Ok(found.cloned()),
        }
    }

    /// Reads the history of a commit that descends from the tip.
    fn read(&mut self, repo: &Repo, head: &CommitId) -> Result<()> {
        if self.tip.as_ref() == Some(head) {
            return Ok(());
        }
        let [task, attempt] = TRAILERS;
        let found = repo.messages_with(head, self.tip.as_deref(), attempt)?;
        for (commit, message) in found.into_iter().rev() {
            for id in message.lines().filter_map(|line| line.strip_prefix(task)) {
                self.newest.insert(id.to_owned(), commit.clone());
            }
        }
        self.tip = Some(head.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::git_in;

    #[test]
    fn commits_of_attempts_are_found_in_the_history_of_any_commit() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let output = git_in(folder.path()).args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            CommitId::from(String::from_utf8(output.stdout).unwrap().trim())
        };
        git(&["init", "-q"]);
        let commit = |message: &str| {
            git(&["commit", "-q", "--allow-empty", "-m", message]);
            git(&["rev-parse", "HEAD"])
        };
        let start = commit("Start");
        let one = commit("One\n\nRalph-Task: a\nRalph-Attempt: 1");
        let done = commit("Closed in its source\n\nRalph-Task: b");
        let two = commit("Two\n\nRalph-Task: a\nRalph-Attempt: 2");
        let repo = Repo::discover(folder.path()).unwrap();
        let mut commits = TaskCommits::default();
        let mut newest = |head: &CommitId, id: &str| {
            commits.newest(&repo, head, &TaskId::new(id).unwrap()).unwrap()
        };
        assert_eq!(newest(&one, "a"), Some(one.clone()));
        assert_eq!(newest(&two, "a"), Some(two.clone()));
        assert_eq!(newest(&two, "b"), None, "no attempt made it");
        assert_eq!(newest(&done, "a"), Some(one.clone()), "an older base");
        assert_eq!(newest(&start, "a"), None);
        git(&["reset", "-q", "--hard", &one]);
        let other = commit("Other\n\nRalph-Task: b\nRalph-Attempt: 1");
        assert_eq!(newest(&other, "b"), Some(other.clone()), "another history");
        assert_eq!(newest(&other, "a"), Some(one));
    }
}
