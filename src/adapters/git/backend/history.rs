//! Commits and what they descend from.

use anyhow::Result;
use git2::{Oid, Repository, Revwalk};

use super::{
    super::{lossy, program},
    Backend, commit_id,
};
use crate::core::{commit_id::CommitId, verdict::Commit};

impl Backend {
    /// Whether `new` is `old` or descends from it.
    pub(in crate::adapters::git) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        let library = |repo: &Repository| {
            let (old, new) = (Oid::from_str(old)?, Oid::from_str(new)?);
            repo.find_commit(old)?;
            Ok(old == new || repo.graph_descendant_of(new, old)?)
        };
        self.ask(library, |root| program::test(root, &["merge-base", "--is-ancestor", old, new]))
    }

    /// The last `count` commits of `head` without those of `hidden`, newest first.
    pub(in crate::adapters::git) fn log(
        &self,
        head: &str,
        hidden: Option<&str>,
        count: usize,
    ) -> Result<Vec<Commit>> {
        let library = |repo: &Repository| library_log(repo, head, hidden, count);
        self.ask(library, |root| program::log(root, head, hidden, count))
    }

    /// The newest commit in the history of `head`, and not in that of `hidden`, with this line in
    /// its message, and with one that starts with `also`.
    pub(in crate::adapters::git) fn commit_with_line(
        &self,
        head: &str,
        hidden: Option<&str>,
        line: &str,
        also: Option<&str>,
    ) -> Result<Option<CommitId>> {
        let library = |repo: &Repository| {
            let is_it = |message: &[u8]| {
                let mut lines = message.split(|byte| *byte == b'\n');
                let mut others = lines.clone();
                lines.any(|found| found == line.as_bytes())
                    && also.is_none_or(|also| others.any(|it| it.starts_with(also.as_bytes())))
            };
            for id in walk(repo, head, hidden)? {
                let commit = repo.find_commit(id?)?;
                if is_it(commit.message_raw_bytes()) {
                    return Ok(Some(commit_id(commit.id())));
                }
            }
            Ok(None)
        };
        self.ask(library, |root| program::commit_with_line(root, head, hidden, line, also))
    }
}

fn library_log(
    repo: &Repository,
    head: &str,
    hidden: Option<&str>,
    count: usize,
) -> Result<Vec<Commit>, git2::Error> {
    let commit = |id| {
        let commit = repo.find_commit(id)?;
        let subject = lossy(commit.summary_bytes().unwrap_or_default());
        Ok(Commit { id: commit_id(commit.id()), subject })
    };
    walk(repo, head, hidden)?.take(count).map(|id| commit(id?)).collect()
}

/// The commits in the history of `head` that are not in that of `hidden`, newest first.
fn walk<'a>(
    repo: &'a Repository,
    head: &str,
    hidden: Option<&str>,
) -> Result<Revwalk<'a>, git2::Error> {
    let mut walk = repo.revwalk()?;
    walk.push(Oid::from_str(head)?)?;
    if let Some(hidden) = hidden {
        walk.hide(Oid::from_str(hidden)?)?;
    }
    Ok(walk)
}
