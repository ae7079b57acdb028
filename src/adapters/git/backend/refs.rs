//! Refs and HEAD, read and moved.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Result;
use git2::{Oid, Repository};

use super::{
    super::{is_commit, program},
    Backend, commit_id, existing,
};
use crate::core::commit_id::CommitId;

impl Backend {
    /// The commit that a ref points to, or with this id; none without it.
    pub(in crate::adapters::git) fn commit_of(&self, name: &str) -> Result<Option<CommitId>> {
        let library = |repo: &Repository| {
            if is_commit(name) {
                let found = existing(repo.find_commit(Oid::from_str(name)?))?;
                return Ok(found.map(|found| commit_id(found.id())));
            }
            let found = existing(repo.find_reference(name))?;
            found.map(|found| Ok(commit_id(found.peel_to_commit()?.id()))).transpose()
        };
        self.ask(library, |root| program::commit(root, name))
    }

    /// Points the ref `name` to a commit.
    pub(in crate::adapters::git) fn set_ref(&self, name: &str, commit: &str) -> Result<()> {
        const WHY: &str = "ralph: kept";
        let library = |repo: &Repository| {
            let id = Oid::from_str(commit)?;
            repo.find_commit(id)?;
            repo.reference(name, id, true, WHY).map(drop)
        };
        let update = ["update-ref", "-m", WHY, name, commit];
        self.ask(library, |root| program::run(root, &update).map(drop))
    }

    /// The refs in these folders, sorted by name: a line with the id and the name for each.
    pub(in crate::adapters::git) fn refs(&self, folders: &[&str]) -> Result<Vec<u8>> {
        let library = |repo: &Repository| {
            let odb = repo.odb()?;
            let mut found = BTreeMap::new();
            for reference in repo.references()? {
                let reference = reference?;
                let name = reference.name_bytes().to_owned();
                let is_in = |folder: &&str| {
                    let rest = name.strip_prefix(folder.as_bytes());
                    rest.is_some_and(|rest| rest.starts_with(b"/"))
                };
                if !folders.iter().any(is_in) {
                    continue;
                }
                let id = match reference.target() {
                    Some(id) => Some(id),
                    None => reference.resolve()?.target(),
                };
                let id = id.filter(|id| odb.exists(*id));
                // Git leaves it out, and says so.
                let id = id.ok_or_else(|| git2::Error::from_str("a ref is broken"))?;
                found.insert(name, id);
            }
            let lines = found.into_iter().flat_map(|(name, id)| {
                [id.to_string().into_bytes(), b" ".to_vec(), name, b"\n".to_vec()].concat()
            });
            Ok(lines.collect())
        };
        let list = ["for-each-ref", "--format=%(objectname) %(refname)"];
        self.ask(library, |root| program::run(root, &[&list[..], folders].concat()))
    }

    /// Points HEAD to a commit, and to no branch.
    pub(in crate::adapters::git) fn set_head(&self, commit: &str, why: &str) -> Result<()> {
        let library = |repo: &Repository| {
            let id = Oid::from_str(commit)?;
            repo.find_commit(id)?;
            repo.reference("HEAD", id, true, why).map(drop)
        };
        let update = ["update-ref", "--no-deref", "-m", why, "HEAD", commit];
        self.ask(library, |root| program::run(root, &update).map(drop))
    }

    /// Moves HEAD's branch, or HEAD itself if it is on none, from the commit `old` to another.
    pub(in crate::adapters::git) fn move_head(
        &self,
        old: &str,
        new: &str,
        why: &str,
    ) -> Result<()> {
        let library = |repo: &Repository| {
            let (old, new) = (Oid::from_str(old)?, Oid::from_str(new)?);
            repo.find_commit(new)?;
            let head = repo.find_reference("HEAD")?;
            let name = head.symbolic_target()?.unwrap_or("HEAD");
            // libgit2 refuses, as git does, when it has moved.
            repo.reference_matching(name, new, true, old, why).map(drop)
        };
        let update = ["update-ref", "-m", why, "HEAD", new, old];
        self.ask(library, |root| program::run(root, &update).map(drop))
    }

    /// The id that HEAD has, whether or not there is such an object; none on a branch without commits.
    pub(in crate::adapters::git) fn head_id(&self) -> Result<Option<String>> {
        let library =
            |repo: &Repository| Ok(existing(repo.refname_to_id("HEAD"))?.map(|id| id.to_string()));
        self.ask(library, |root| program::answer(root, &["rev-parse", "-q", "--verify", "HEAD"]))
    }

    /// Points a branch to a commit, and HEAD to the branch.
    pub(in crate::adapters::git) fn set_branch(
        &self,
        branch: &str,
        commit: &str,
        why: &str,
    ) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        let library = |repo: &Repository| {
            let id = Oid::from_str(commit)?;
            repo.find_commit(id)?;
            repo.reference(&name, id, true, why)?;
            repo.reference_symbolic("HEAD", &name, true, why).map(drop)
        };
        let program = |root: &Path| {
            program::run(root, &["update-ref", "-m", why, &name, commit])?;
            program::run(root, &["symbolic-ref", "-m", why, "HEAD", &name]).map(drop)
        };
        self.ask(library, program)
    }

    /// Deletes the ref `name` if it points to `old`. libgit2 does this without a lock on the packed
    /// refs, where a killed `git` may have left one.
    pub(in crate::adapters::git) fn delete_ref(&self, name: &str, old: &str) -> Result<()> {
        let library = |repo: &Repository| {
            let mut found = repo.find_reference(name)?;
            // libgit2 refuses, as git does, when the ref moves before it is deleted.
            if found.target() == Some(Oid::from_str(old)?) {
                found.delete()?;
                remove_empty_folders(repo.commondir(), name);
            }
            Ok(())
        };
        self.ask(library, |root| program::run(root, &["update-ref", "-d", name, old]).map(drop))
    }
}

/// Removes the folders that a deleted ref leaves empty, as git does and libgit2 does not: every
/// later list of refs reads them. Those of `refs/heads` and the like stay.
fn remove_empty_folders(common_dir: &Path, name: &str) {
    let folders =
        Path::new(name).ancestors().skip(1).take_while(|path| path.components().count() > 2);
    for folder in folders {
        if fs::remove_dir(common_dir.join(folder)).is_err() {
            return;
        }
    }
}
