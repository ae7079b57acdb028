//! Puts work on top of another commit without files and without a process, where nothing has to be
//! merged: no file was changed on both sides.
//!
//! The new commits are only in memory until [`Repo::keep_drafts`] writes all of them at once.
//! Everything else is for [`Repo::integrate`]: contents that must be merged, renamed files, merges,
//! signed commits.

use std::{
    env,
    path::{Path, PathBuf},
    str,
};

use anyhow::{Context, Result};
use git2::{
    Commit, Config, Delta, Diff, FileMode, ObjectType, Oid, Repository, Sort, Tree,
    build::TreeUpdateBuilder,
};

use super::{
    BranchWork, IntegrationMethod, Repo, RepositoryFolders,
    backend::{Backend, open_at_rest, signature},
    carry::store,
    patch::trees_diff,
};
use crate::core::commit_id::CommitId;

/// The largest number of objects that are kept in memory.
const MOST: usize = 10_000;

/// Which kinds of changes there are between two trees.
#[derive(Clone, Copy, Debug, Default)]
struct ChangeKinds {
    added: bool,
    removed: bool,
}

impl Repo {
    /// Opens the repository again so that what is written is only in memory. None where libgit2
    /// cannot open it.
    pub fn drafting(&self) -> Option<Repo> {
        self.backend.library()?;
        let library = open_at_rest(&self.git_dir).ok()?;
        // The odb owns it.
        library.odb().ok()?.add_new_mempack_backend(1_000).map(drop).ok()?;
        let backend = Backend::of(&self.root, Some(library));
        let folders = RepositoryFolders {
            root: self.root.clone(),
            common_dir: self.common_dir.clone(),
            git_dir: self.git_dir.clone(),
        };
        Some(Repo::of(folders, backend))
    }

    /// Puts the work on top of `onto`, in the form of [`Repo::integrate`]. Returns the last commit,
    /// or none if that is left to the program.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn replay_in_memory(
        &self,
        onto: &str,
        work: &BranchWork<'_>,
        how: IntegrationMethod,
        own: &[&str],
    ) -> Result<Option<CommitId>> {
        if how != IntegrationMethod::Rebase || !self.is_ancestor(work.base, onto)? {
            return Ok(None);
        }
        if let Some(same) = self.fits_as_it_is(onto, work, how, own)? {
            return Ok(Some(same));
        }
        let links = self.links(work.head, [onto, work.base])?;
        if self.touches(&links, own)? {
            return Ok(None);
        }
        let Some(repo) = self.backend.library() else { return Ok(None) };
        let ids: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
        let tip = replayed(&repo, onto, &ids).map_err(anyhow::Error::from);
        Ok(tip?.map(|tip| tip.to_string().into()))
    }

    /// Writes the commits of [`drafting`](Repo::drafting) since `onto` to this repository, under the
    /// ref `name`.
    ///
    /// # Errors
    /// I/O errors; the error of `git`.
    pub fn keep_drafts(&self, drafts: &Repo, onto: &str, tip: &str, name: &str) -> Result<()> {
        let repo = drafts.backend.library().context("the commits are not in memory")?;
        let here = open_at_rest(&self.git_dir)?;
        let mut walk = repo.revwalk()?;
        walk.set_sorting(Sort::TOPOLOGICAL)?;
        walk.push(Oid::from_str(tip)?)?;
        walk.hide(Oid::from_str(onto)?)?;
        let odb = here.odb()?;
        let mut pack = repo.packbuilder()?;
        pack.set_threads(1);
        for id in walk {
            let commit = repo.find_commit(id?)?;
            if odb.exists(commit.id()) {
                continue;
            }
            pack.insert_object(commit.id(), None)?;
            let before = commit.parent(0)?.tree()?;
            for id in new_objects(&repo, &before, &commit.tree()?)? {
                if !odb.exists(id) {
                    pack.insert_object(id, None)?;
                }
            }
        }
        if pack.object_count() > 0 {
            store(&mut pack, &self.common_dir.join("objects/pack"))?;
        }
        self.keep(name, tip)
    }
}

/// The trees and files of a tree that `before` does not have at the same path.
fn new_objects(repo: &Repository, before: &Tree<'_>, tree: &Tree<'_>) -> Result<Vec<Oid>> {
    let mut open = vec![(Some(before.id()), tree.id())];
    let mut found = Vec::new();
    while let Some((before, tree)) = open.pop() {
        if before == Some(tree) {
            continue;
        }
        found.push(tree);
        let before = before.and_then(|before| repo.find_tree(before).ok());
        for entry in &repo.find_tree(tree)? {
            let was = before.as_ref().and_then(|before| before.get_name_bytes(entry.name_bytes()));
            let was = was.map(|was| was.id());
            match entry.kind() {
                Some(ObjectType::Tree) => open.push((was, entry.id())),
                Some(ObjectType::Blob) if was != Some(entry.id()) => found.push(entry.id()),
                _ => {}
            }
        }
        anyhow::ensure!(found.len() <= MOST, "there are too many new files");
    }
    Ok(found)
}

/// Replays a chain of commits; none if something has to be merged.
fn replayed(repo: &Repository, onto: &str, chain: &[&str]) -> Result<Option<Oid>, git2::Error> {
    let config = repo.config()?.snapshot()?;
    let is_dated = env::var_os("GIT_COMMITTER_DATE").is_some();
    if config.get_bool("commit.gpgSign").unwrap_or(false) || is_dated {
        return Ok(None);
    }
    let onto = repo.find_commit(Oid::from_str(onto)?)?;
    let Some(first) = chain.first() else { return Ok(Some(onto.id())) };
    let first = repo.find_commit(Oid::from_str(first)?)?;
    let Ok(from) = first.parent(0) else { return Ok(None) };
    let theirs = trees_diff(repo, Some(&from.tree()?), &onto.tree()?)?;
    let theirs = kinds(&theirs);
    let (mut tip, mut last) = (onto, from.id());
    for id in chain {
        let commit = repo.find_commit(Oid::from_str(id)?)?;
        if commit.parent_count() != 1 || commit.parent_id(0)? != last {
            return Ok(None);
        }
        last = commit.id();
        if commit.parent_id(0)? == tip.id() {
            tip = commit;
            continue;
        }
        let Some(next) = replayed_commit(repo, &tip, &commit, theirs, &config)? else {
            return Ok(None);
        };
        tip = repo.find_commit(next)?;
    }
    Ok(Some(tip.id()))
}

fn kinds(diff: &Diff<'_>) -> ChangeKinds {
    let has = |wanted| diff.deltas().any(|delta| delta.status() == wanted);
    ChangeKinds { added: has(Delta::Added), removed: has(Delta::Deleted) }
}

/// Replays one commit on top of `tip`. `theirs` are the changes on the other side.
fn replayed_commit(
    repo: &Repository,
    tip: &Commit<'_>,
    commit: &Commit<'_>,
    theirs: ChangeKinds,
    config: &Config,
) -> Result<Option<Oid>, git2::Error> {
    let (before, target) = (commit.parent(0)?.tree()?, tip.tree()?);
    let diff = trees_diff(repo, Some(&before), &commit.tree()?)?;
    let ours = kinds(&diff);
    // A folder may have been renamed on one side, and the other one may have added to it.
    let may_be_moved = ours.removed && theirs.added || ours.added && theirs.removed;
    let message = str::from_utf8(commit.message_raw_bytes());
    let is_plain = commit.message_encoding().ok().flatten().is_none();
    let (false, Ok(message), true) = (may_be_moved || diff.deltas().len() == 0, message, is_plain)
    else {
        return Ok(None);
    };
    let mut update = TreeUpdateBuilder::new();
    let mut removed = Vec::new();
    for delta in diff.deltas() {
        let (old, new) = (delta.old_file(), delta.new_file());
        let Some(path) = new.path() else { return Ok(None) };
        let there = target.get_path(path).ok().map(|entry| (entry.id(), entry.filemode()));
        let was = old.exists().then(|| (old.id(), u32::from(old.mode()).cast_signed()));
        if there != was {
            return Ok(None);
        }
        if !new.exists() {
            update.remove(path);
            removed.extend(path.parent().map(Path::to_owned));
            continue;
        }
        match new.mode() {
            mode @ (FileMode::Blob | FileMode::BlobExecutable | FileMode::Link) => {
                update.upsert(path, new.id(), mode);
            }
            _ => return Ok(None),
        }
    }
    let tree = repo.find_tree(update.create_updated(repo, &target)?)?;
    // Git has no empty folders.
    let is_empty = |folder: &PathBuf| {
        let found = tree.get_path(folder).and_then(|entry| repo.find_tree(entry.id()));
        if folder.as_os_str().is_empty() {
            tree.is_empty()
        } else {
            found.is_ok_and(|it| it.is_empty())
        }
    };
    if removed.iter().any(is_empty) {
        return Ok(None);
    }
    let (author, committer) = (commit.author(), signature(config, "COMMITTER")?);
    let replayed = repo.commit(None, &author, &committer, message, &tree, &[tip])?;
    // libgit2 changes times after 2038, zones that no place has, and blanks around names.
    let written = repo.find_commit(replayed)?.header_field_bytes("author")?;
    let is_same = *written == *commit.header_field_bytes("author")?;
    Ok(is_same.then_some(replayed))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::adapters::git::{Integrated, tests::TestSlots};

    const REBASE: IntegrationMethod = IntegrationMethod::Rebase;

    /// Replays the work of a slot in memory and with the program. Returns the commit that was made
    /// in memory, which has the same contents, authors and messages.
    fn both(trees: &TestSlots, slot: &Repo, onto: &str, own: &[&str]) -> Option<CommitId> {
        let main = trees.main();
        let head = slot.head().unwrap().commit.unwrap();
        trees.bring(slot, &head);
        let work = BranchWork { head: &head, base: &trees.first, message: "All" };
        let packs = || trees.place.git(&["count-objects", "-v"]);
        let before = packs();
        let drafts = main.drafting().unwrap();
        let tip = drafts.replay_in_memory(onto, &work, REBASE, own).unwrap();
        assert_eq!(packs(), before, "something was written");
        let trial = trees.add(&format!("merge-{onto}"));
        let merged = trial.integrate(onto, &work, REBASE, own, None).unwrap();
        fs::remove_dir_all(trial.root()).unwrap();
        let tip = tip?;
        main.keep_drafts(&drafts, onto, &tip, "refs/ralph/trial").unwrap();
        let Integrated::Done(merged) = merged else { panic!("{merged:?}") };
        trees.bring(slot, &head);
        let log = |repo: &Repo, tip: &str| {
            let range = format!("{onto}..{tip}");
            trees.git(repo, &["log", "--format=%T %an %ae %ad %cn %B", &range])
        };
        let again = trees.add(&format!("again-{onto}"));
        let expected = again.integrate(onto, &work, REBASE, own, None).unwrap();
        let Integrated::Done(expected) = expected else { panic!("{expected:?}") };
        assert_eq!(trees.git(&again, &["rev-parse", "HEAD^{tree}"]), {
            trees.place.git(&["rev-parse", &format!("{tip}^{{tree}}")])
        });
        assert_eq!(log(&main, &tip), log(&again, &expected), "{merged}");
        trees.place.git(&["fsck", "--strict"]);
        Some(tip)
    }

    #[test]
    fn work_on_other_files_is_replayed_in_memory() {
        let trees = TestSlots::new();
        let slot = trees.add("1");
        fs::create_dir_all(slot.root().join("deep/er")).unwrap();
        fs::write(slot.root().join("deep/er/file"), "1\n").unwrap();
        trees.commit(&slot, "b", "1\n");
        trees.commit(&slot, "a", "2\n");
        let onto = trees.place.commit("deep/other", "1\n", "Other");
        let tip = both(&trees, &slot, &onto, &["graph"]).unwrap();
        let files = trees.place.git(&["ls-tree", "-r", "--name-only", &tip]);
        assert_eq!(files, "a\nb\ndeep/er/file\ndeep/other");
        // Nothing to replay.
        let drafts = trees.main().drafting().unwrap();
        let none = BranchWork { head: &trees.first, base: &trees.first, message: "" };
        assert_eq!(drafts.replay_in_memory(&onto, &none, REBASE, &[]).unwrap(), Some(onto));
    }

    #[test]
    fn what_has_to_be_merged_is_left_to_the_program() {
        let trees = TestSlots::new();
        let replays = |slot: &Repo, onto: &str, own: &[&str]| {
            let head = slot.head().unwrap().commit.unwrap();
            trees.bring(slot, &head);
            let work = BranchWork { head: &head, base: &trees.first, message: "All" };
            let drafts = trees.main().drafting().unwrap();
            drafts.replay_in_memory(onto, &work, REBASE, own).unwrap().is_some()
        };
        let onto = trees.place.commit("new", "1\n", "New");
        let slot = trees.add("free");
        trees.commit(&slot, "other", "1\n");
        assert!(replays(&slot, &onto, &[]));
        assert!(!replays(&slot, &onto, &["other"]), "it is left out");
        trees.place.git(&["config", "commit.gpgSign", "true"]);
        assert!(!replays(&slot, &onto, &[]), "it is signed");
        trees.place.git(&["config", "--unset", "commit.gpgSign"]);
        for (path, text) in [("new", "other\n"), ("new", "1\n")] {
            let slot = trees.add(&format!("same-{}", text.len()));
            trees.commit(&slot, path, text);
            assert!(!replays(&slot, &onto, &[]), "both sides added it");
        }
        let slot = trees.add("renamed");
        trees.git(&slot, &["mv", "a", "z"]);
        trees.commit(&slot, "more", "1\n");
        assert!(!replays(&slot, &onto, &[]), "a file was renamed");
        let slot = trees.add("merged");
        trees.git(&slot, &["checkout", "-q", "-b", "side"]);
        trees.commit(&slot, "one", "1\n");
        trees.git(&slot, &["checkout", "-q", "--detach", &trees.first]);
        trees.commit(&slot, "two", "1\n");
        trees.git(&slot, &["merge", "-q", "-m", "Both", "side"]);
        assert!(!replays(&slot, &onto, &[]), "it has a merge");
        let slot = trees.add("empty");
        trees.git(&slot, &["commit", "-q", "--allow-empty", "-m", "Empty"]);
        assert!(!replays(&slot, &onto, &[]), "it changes nothing");
        let slot = trees.add("late");
        trees.commit(&slot, "late", "1\n");
        let date = "--date=@5000000000 +0000";
        trees.git(&slot, &["commit", "-q", "--amend", "--no-edit", date]);
        assert!(!replays(&slot, &onto, &[]), "libgit2 cannot write its time");
        let slot = trees.add("changed");
        trees.commit(&slot, "a", "2\n");
        let onto = trees.place.commit("a", "3\n", "Changed");
        assert!(!replays(&slot, &onto, &[]), "both sides changed it");
    }
}
