//! Rewrites the commits of a branch without their changes at some paths.
//!
//! This is for files that every branch changes and that are not merged as texts: left out of the
//! branch, they cannot conflict.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use anyhow::{Context, Result};

use super::{
    Integration, program,
    reader::{Entries, Walk},
};
use crate::core::commit_id::CommitId;

/// A commit of the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitLink {
    pub(super) id: CommitId,
    pub(super) parents: Vec<CommitId>,
}

impl Integration<'_> {
    /// The commits of `head` that the others do not contain, oldest first.
    pub(super) fn links(&self, head: &str, hidden: [&str; 2]) -> Result<Vec<CommitLink>> {
        let walk = Walk { head, hidden: &hidden, most: usize::MAX };
        let found = self.walk(walk, |_| true);
        let mut found = found.context("cannot list the commits of the branch")?;
        found.reverse();
        Ok(found.into_iter().map(|it| CommitLink { id: it.id, parents: it.parents }).collect())
    }

    /// Whether any of the commits changes one of the paths.
    pub(super) fn touches(&self, links: &[CommitLink], own: &[&str]) -> Result<bool> {
        let ids: HashSet<&str> = links.iter().map(|link| &*link.id).collect();
        for link in links {
            let from = sources(link, |id| ids.contains(id));
            if self.restored_entries(&link.id, &from, own)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The entries that a commit should have at the paths, if it changes them: those of the first
    /// of its sources. None if one of its sources has the same entries.
    fn restored_entries(&self, id: &str, from: &[&str], own: &[&str]) -> Result<Option<Entries>> {
        let has = self.entries(id, own)?;
        let mut first = None;
        for source in from {
            let entries = self.entries(source, own)?;
            if entries == has {
                return Ok(None);
            }
            first.get_or_insert(entries);
        }
        let first = first.unwrap_or_else(|| vec![None; own.len()]);
        Ok((first != has).then_some(first))
    }

    /// Rewrites the commits without their changes at the paths; returns the last one. Author, dates
    /// and messages are kept; signatures are not, since they would be invalid.
    pub(super) fn rewrite_without(
        &self,
        links: &[CommitLink],
        head: &str,
        own: &[&str],
    ) -> Result<CommitId> {
        if !self.touches(links, own)? {
            return Ok(head.into());
        }
        let mut made: HashMap<&str, CommitId> = HashMap::new();
        for link in links {
            let now = |id: &str| made.get(id).cloned().unwrap_or_else(|| id.into());
            let mut parents: Vec<CommitId> = link.parents.iter().map(|id| now(id)).collect();
            parents.dedup();
            let from: Vec<CommitId> =
                sources(link, |id| made.contains_key(id)).into_iter().map(now).collect();
            let from: Vec<&str> = from.iter().map(CommitId::as_str).collect();
            let new = match self.restored_entries(&link.id, &from, own)? {
                None if parents == link.parents => link.id.clone(),
                None => self.rewrite_commit(&link.id, &self.tree_of(&link.id)?, &parents)?,
                Some(entries) => {
                    let tree = self.commits().with_entries(&link.id, own, &entries)?;
                    match &*parents {
                        [parent] if tree == self.tree_of(parent)? => parent.clone(),
                        _ => self.rewrite_commit(&link.id, &tree, &parents)?,
                    }
                }
            };
            made.insert(&link.id, new);
        }
        Ok(made.remove(head).unwrap_or_else(|| head.into()))
    }

    /// Rewrites a commit with another tree and other parents.
    fn rewrite_commit(&self, id: &str, tree: &str, parents: &[CommitId]) -> Result<CommitId> {
        let text = program::run(&self.root, &["cat-file", "commit", id])?;
        let mut new = format!("tree {tree}\n");
        for parent in parents {
            let _ = writeln!(new, "parent {parent}");
        }
        let mut new = new.into_bytes();
        let end = text.windows(2).position(|two| two == b"\n\n").map_or(text.len(), |at| at + 1);
        let mut is_kept = true;
        for line in text[..end].split_inclusive(|byte| *byte == b'\n') {
            // A line that begins with a blank continues the previous one.
            if !line.starts_with(b" ") {
                let gone: [&[u8]; 4] = [b"tree ", b"parent ", b"gpgsig", b"mergetag "];
                is_kept = !gone.iter().any(|name| line.starts_with(name));
            }
            if is_kept {
                new.extend_from_slice(line);
            }
        }
        new.extend_from_slice(&text[end..]);
        let write = ["hash-object", "-t", "commit", "-w", "--stdin"];
        program::made(&self.root, &write, &new).map(CommitId::from)
    }
}

/// The commits that determine the entries of a commit which does not change them: its parent, or
/// for a merge with the target the parent from the target.
fn sources(link: &CommitLink, is_of_branch: impl Fn(&str) -> bool) -> Vec<&str> {
    let outside: Vec<&str> =
        link.parents.iter().map(CommitId::as_str).filter(|id| !is_of_branch(id)).collect();
    if outside.is_empty() { link.parents.iter().map(CommitId::as_str).collect() } else { outside }
}
