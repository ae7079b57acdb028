//! Rewrites the commits of a branch without their changes at some paths.
//!
//! This is for files that every branch changes and that are not merged as texts: left out of the
//! branch, they cannot conflict.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
};

use anyhow::{Context, Result};

use super::{
    Repo,
    library::{Entries, Walk},
    lossy, program,
    slot_settings::split_at,
};
use crate::core::commit_id::CommitId;

/// A path, and the mode and id that a tree is to have there.
type TreeEdit<'a> = (&'a str, Option<&'a str>);

/// A commit of the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitLink {
    pub(super) id: CommitId,
    pub(super) parents: Vec<CommitId>,
}

impl Repo {
    /// The commits of `head` that the others do not contain, oldest first.
    pub(super) fn links(&self, head: &str, hidden: [&str; 2]) -> Result<Vec<CommitLink>> {
        let walk = Walk { head, hidden: &hidden, most: usize::MAX };
        let found = self.library.walk(walk, |_| true);
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
                None => self.rewrite_commit(&link.id, &self.tree_of(Some(&link.id))?, &parents)?,
                Some(entries) => {
                    let tree = self.with_entries(&link.id, own, &entries)?;
                    match &*parents {
                        [parent] if tree == self.tree_of(Some(parent))? => parent.clone(),
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
        Ok(lossy(&program::run_with_input(&self.root, &write, &[], &new)?).trim().into())
    }

    /// The entries of a commit at each of the paths.
    pub(super) fn entries(&self, commit: &str, own: &[&str]) -> Result<Entries> {
        if own.is_empty() {
            return Ok(Vec::new());
        }
        self.library.entries(commit, own).with_context(|| format!("cannot read commit {commit}"))
    }

    /// The tree of a commit with other entries at the paths.
    pub(super) fn with_entries(
        &self,
        commit: &str,
        own: &[&str],
        entries: &Entries,
    ) -> Result<String> {
        let tree = self.tree_of(Some(commit))?;
        if self.entries(commit, own)? == *entries {
            return Ok(tree);
        }
        let edits: Vec<TreeEdit<'_>> =
            own.iter().zip(entries).map(|(path, entry)| (*path, entry.as_deref())).collect();
        self.edited_tree(Some(&tree), &edits)?.map_or_else(|| self.tree_of(None), Ok)
    }

    /// A tree with other entries; none if it has none any more.
    fn edited_tree(&self, tree: Option<&str>, edits: &[TreeEdit<'_>]) -> Result<Option<String>> {
        let text = match tree {
            Some(tree) => program::run(&self.root, &["ls-tree", "-z", tree])?,
            None => Vec::new(),
        };
        let lines = text.split(|byte| *byte == 0).filter_map(|line| split_at(line, b'\t'));
        let mut list: BTreeMap<&[u8], String> =
            lines.map(|(entry, name)| (name, lossy(entry))).collect();
        let mut below: BTreeMap<&str, Vec<TreeEdit<'_>>> = BTreeMap::new();
        for (path, entry) in edits {
            match (path.split_once('/'), entry) {
                (Some((folder, rest)), _) => below.entry(folder).or_default().push((rest, *entry)),
                (None, Some(entry)) => {
                    let (mode, id) = entry.split_once(' ').unwrap_or_default();
                    let kind = if mode == "160000" { "commit" } else { "blob" };
                    list.insert(path.as_bytes(), format!("{mode} {kind} {id}"));
                }
                (None, None) => drop(list.remove(path.as_bytes())),
            }
        }
        for (folder, edits) in below {
            let old = list.get(folder.as_bytes());
            let old = old.and_then(|entry| entry.strip_prefix("040000 tree ")).map(str::to_owned);
            if old.is_none() && edits.iter().all(|(_, entry)| entry.is_none()) {
                continue;
            }
            match self.edited_tree(old.as_deref(), &edits)? {
                Some(id) => list.insert(folder.as_bytes(), format!("040000 tree {id}")),
                None => list.remove(folder.as_bytes()),
            };
        }
        if list.is_empty() {
            return Ok(None);
        }
        let line =
            |(name, entry): (&&[u8], &String)| [entry.as_bytes(), b"\t", name, b"\0"].concat();
        let input: Vec<u8> = list.iter().flat_map(line).collect();
        let make = ["mktree", "-z", "--missing"];
        let id = program::run_with_input(&self.root, &make, &[], &input)?;
        Ok(Some(lossy(&id).trim().to_owned()))
    }
}

/// The commits that determine the entries of a commit which does not change them: its parent, or
/// for a merge with the target the parent from the target.
fn sources(link: &CommitLink, is_of_branch: impl Fn(&str) -> bool) -> Vec<&str> {
    let outside: Vec<&str> =
        link.parents.iter().map(CommitId::as_str).filter(|id| !is_of_branch(id)).collect();
    if outside.is_empty() { link.parents.iter().map(CommitId::as_str).collect() } else { outside }
}
