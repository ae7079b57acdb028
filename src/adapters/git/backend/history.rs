//! Commits and what they descend from.

use anyhow::Result;
use git2::{Oid, Repository};

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
            match is_on_line(repo, old, new)? {
                Some(is_ancestor) => Ok(is_ancestor),
                None => repo.graph_descendant_of(new, old),
            }
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

    /// The newest commit in the history of `head`, and not in that of `hidden`, with this line in its
    /// message.
    pub(in crate::adapters::git) fn commit_with_line(
        &self,
        head: &str,
        hidden: &str,
        line: &str,
    ) -> Result<Option<CommitId>> {
        let library = |repo: &Repository| {
            for id in walk(repo, head, Some(hidden), usize::MAX)? {
                let commit = repo.find_commit(id)?;
                if lines(commit.message_raw_bytes()).any(|found| found == line.as_bytes()) {
                    return Ok(Some(commit_id(commit.id())));
                }
            }
            Ok(None)
        };
        self.ask(library, |root| program::commit_with_line(root, head, hidden, line))
    }

    /// The commits in the history of `head`, and not in that of `hidden`, with a line in their
    /// messages that starts with this text, and the messages; newest first.
    pub(in crate::adapters::git) fn messages_with(
        &self,
        head: &str,
        hidden: Option<&str>,
        start: &str,
    ) -> Result<Vec<(CommitId, String)>> {
        let library = |repo: &Repository| {
            let mut found = Vec::new();
            for id in walk(repo, head, hidden, usize::MAX)? {
                let commit = repo.find_commit(id)?;
                let message = commit.message_raw_bytes();
                if lines(message).any(|line| line.starts_with(start.as_bytes())) {
                    found.push((commit_id(commit.id()), lossy(message)));
                }
            }
            Ok(found)
        };
        self.ask(library, |root| program::messages_with(root, head, hidden, start))
    }
}

fn lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    message.split(|byte| *byte == b'\n')
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
    walk(repo, head, hidden, count)?.into_iter().map(commit).collect()
}

/// The number of commits on a line of history in which a near ancestor is looked for.
const NEAR: usize = 50;

/// The same where the commits down to one are listed.
const FAR: usize = 1_000;

/// The commits in the history of `head` that are not in that of `hidden`, newest first, at most
/// `count` of them.
fn walk(
    repo: &Repository,
    head: &str,
    hidden: Option<&str>,
    count: usize,
) -> Result<Vec<Oid>, git2::Error> {
    let (head, hidden) = (Oid::from_str(head)?, hidden.map(Oid::from_str).transpose()?);
    let most = if hidden.is_some() { FAR } else { count };
    if let Some(mut commits) = line(repo, head, hidden, most)? {
        commits.truncate(count);
        return Ok(commits);
    }
    let mut walk = repo.revwalk()?;
    walk.push(head)?;
    if let Some(hidden) = hidden {
        walk.hide(hidden)?;
    }
    walk.take(count).collect()
}

/// Whether `old` is `new` or in its history, by walking both back until they meet. None if there is a
/// merge before, or if that is far: libgit2 reads each commit of a longer walk again.
fn is_on_line(repo: &Repository, old: Oid, new: Oid) -> Result<Option<bool>, git2::Error> {
    let (mut from_new, mut from_old) = (vec![new], vec![old]);
    let (mut next, mut older) = (new, Some(old));
    while from_new.len() <= NEAR {
        if next == old {
            return Ok(Some(true));
        }
        next = match parent(repo, next)? {
            Parent::One(parent) => parent,
            Parent::None => return Ok(Some(false)),
            Parent::Many => return Ok(None),
        };
        from_new.push(next);
        older = match older.map(|it| parent(repo, it)).transpose()? {
            Some(Parent::One(parent)) => Some(parent),
            _ => None,
        };
        from_old.extend(older);
        // What comes before `old` does not have `old` in its history.
        let have_met = older.is_some_and(|it| from_new.contains(&it));
        if have_met || from_old[1..].contains(&next) {
            return Ok(Some(false));
        }
    }
    Ok(None)
}

/// What comes before a commit.
enum Parent {
    None,
    One(Oid),
    Many,
}

fn parent(repo: &Repository, commit: Oid) -> Result<Parent, git2::Error> {
    let commit = repo.find_commit(commit)?;
    let mut parents = commit.parent_ids();
    Ok(match (parents.next(), parents.next()) {
        (None, _) => Parent::None,
        (Some(parent), None) => Parent::One(parent),
        _ => Parent::Many,
    })
}

/// The commits from `head` down to `end`, without that, or the first `most` of them without an end.
/// None if there is a merge among them, or if `end` is not among the next ones. libgit2 walks a whole
/// history whose commits have the same time.
fn line(
    repo: &Repository,
    head: Oid,
    end: Option<Oid>,
    most: usize,
) -> Result<Option<Vec<Oid>>, git2::Error> {
    let (mut commits, mut next) = (Vec::new(), head);
    loop {
        if Some(next) == end || (end.is_none() && commits.len() == most) {
            return Ok(Some(commits));
        }
        if commits.len() == most {
            return Ok(None);
        }
        commits.push(next);
        next = match parent(repo, next)? {
            Parent::One(parent) => parent,
            Parent::None if end.is_none() => return Ok(Some(commits)),
            _ => return Ok(None),
        };
    }
}

#[cfg(test)]
mod tests {
    use git2::Signature;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn a_line_says_what_libgit2_says(parents in prop::collection::vec((0..4_usize, 0..9_usize), 1..80)) {
            let folder = tempfile::tempdir().unwrap();
            let repo = Repository::init(&folder).unwrap();
            let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
            let author = Signature::now("A", "a@b.c").unwrap();
            let mut commits: Vec<Oid> = Vec::new();
            for (kind, back) in parents {
                let mut before = Vec::new();
                if let Some(last) = commits.len().checked_sub(1) {
                    // Most continue the last one, some an earlier one, some merge it.
                    let earlier = last - back.min(last);
                    before.push(if kind == 1 { earlier } else { last });
                    before.extend((kind == 2 && back == 8 && earlier != last).then_some(earlier));
                }
                let before: Vec<_> =
                    before.iter().map(|at| repo.find_commit(commits[*at]).unwrap()).collect();
                let before: Vec<_> = before.iter().collect();
                let text = commits.len().to_string();
                commits.push(repo.commit(None, &author, &author, &text, &tree, &before).unwrap());
            }
            for old in commits.iter().step_by(3) {
                for new in &commits {
                    if let Some(said) = is_on_line(&repo, *old, *new).unwrap() {
                        let is_below = repo.graph_descendant_of(*new, *old).unwrap();
                        prop_assert_eq!(said, old == new || is_below);
                    }
                }
            }
        }
    }
}
