//! Refs: which commits are kept, and where branches are.

use std::path::Path;

use anyhow::{Context, Result};

use super::{
    LISTED, Repo,
    library::{Walk, WalkedCommit},
    lossy, program,
};
use crate::core::{commit_id::CommitId, verdict::Commit};

impl Repo {
    /// The git directory of this worktree alone.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Whether any ref contains a commit. Not if the repository does not have the commit.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn keeps(&self, commit: &str) -> Result<bool> {
        let head = self.head()?;
        if let (Some(_), Some(tip)) = (head.branch, head.commit)
            && matches!(self.is_ancestor(commit, &tip), Ok(true))
        {
            return Ok(true);
        }
        if self.commit_of(commit)?.is_none() {
            return Ok(false);
        }
        let list = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit];
        Ok(!program::run(&self.root, &list)?.is_empty())
    }

    /// The commit of a branch; none if there is no such branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn branch(&self, name: &str) -> Result<Option<CommitId>> {
        self.commit_of(&format!("refs/heads/{name}"))
    }

    /// Whether `new` is `old` or descends from it.
    ///
    /// # Errors
    /// The error of `git`, for example when one of them is not in the repository.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        self.library.is_ancestor(old, new)
    }

    /// The newest commit in the history of `head`, and not in that of `hidden`, with a line in its
    /// message; none without one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn commit_with_line(
        &self,
        head: &str,
        hidden: &str,
        line: &str,
    ) -> Result<Option<CommitId>> {
        let walk = Walk { head, hidden: &[hidden], most: 1 };
        let has_line = |it: &WalkedCommit| it.message.lines().any(|found| found == line);
        let found = self.library.walk(walk, has_line)?;
        Ok(found.into_iter().next().map(|it| it.id))
    }

    /// The commits in the history of `head`, and not in that of `hidden`, with a line in their
    /// messages that starts with `start`, and the messages; newest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn messages_with(
        &self,
        head: &str,
        hidden: Option<&str>,
        start: &str,
    ) -> Result<Vec<(CommitId, String)>> {
        let walk = Walk { head, hidden: hidden.as_slice(), most: usize::MAX };
        let has_line = |it: &WalkedCommit| it.message.lines().any(|line| line.starts_with(start));
        let found = self.library.walk(walk, has_line)?;
        Ok(found.into_iter().map(|it| (it.id, it.message)).collect())
    }

    /// The commits of `to` that are not in `from`, oldest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn between(&self, from: &str, to: &str) -> Result<Vec<Commit>> {
        let mut commits = self.log(to, Some(from), LISTED)?;
        commits.reverse();
        Ok(commits)
    }

    /// The files of HEAD with one of these names, in any folder, each with the id of its content.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn files_named(&self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let list = program::run(&self.root, &["ls-tree", "-r", "-z", "HEAD"]);
        let list = lossy(&list.context("cannot list the files of HEAD")?);
        let entry = |line: &str| {
            let (entry, path) = line.split_once('\t')?;
            let name = path.rsplit('/').next()?;
            let id = entry.rsplit(' ').next()?.to_owned();
            names.contains(&name).then(|| (path.to_owned(), id))
        };
        Ok(list.split('\0').filter_map(entry).collect())
    }

    /// The paths of all files of a commit, sorted.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn files_at(&self, commit: &str) -> Result<Vec<String>> {
        let list =
            lossy(&program::run(&self.root, &["ls-tree", "-r", "-z", "--name-only", commit])?);
        Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// Keeps a commit under the ref `name`.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn keep(&self, name: &str, commit: &str) -> Result<()> {
        self.library.set_ref(name, commit)
    }

    /// Deletes a ref. Does nothing without it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn drop_ref(&self, name: &str) -> Result<()> {
        match self.commit_of(name)? {
            Some(commit) => self.library.delete_ref(name, &commit),
            None => Ok(()),
        }
    }
}
