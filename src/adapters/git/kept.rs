//! Whether a commit is kept by a ref, and whether a worktree is one of `ralph`'s own.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{LISTED, Repo, Worktree, program};
use crate::core::{commit_id::CommitId, verdict::Commit};

/// The file in the git directory of a worktree that marks it as `ralph`'s own; contains the commit
/// at which `ralph` left it.
const NOTE: &str = "ralph";

/// The reason with which git locks a worktree until it is complete.
const BEING_MADE: &str = "initializing";

/// The worktree in `folder` whose git directory is `admin`, if git was killed before it wrote the
/// first file of the worktree.
fn incomplete_worktree(admin: &Path, folder: &Path) -> Option<PathBuf> {
    let read = |name: &str| fs::read_to_string(admin.join(name)).unwrap_or_default();
    let tree = Path::new(read("gitdir").trim_end()).parent()?.to_owned();
    let is_begun = ["commondir", "HEAD"].iter().any(|name| read(name).is_empty());
    (is_begun && read("locked").trim() == BEING_MADE && tree.parent() == Some(folder))
        .then_some(tree)
}

impl Worktree {
    /// Whether a killed git left this worktree incomplete.
    pub fn is_half_made(&self) -> bool {
        self.locked.as_deref() == Some(BEING_MADE)
    }
}

impl Repo {
    /// The git directory of this worktree alone.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Marks this worktree as one of `ralph`'s own, left at this commit, which is kept.
    ///
    /// # Errors
    /// I/O errors.
    pub fn own(&self, commit: &str) -> Result<()> {
        let note = self.git_dir.join(NOTE);
        fs::write(&note, commit).with_context(|| format!("write `{}`", note.display()))
    }

    /// Whether this worktree is one of `ralph`'s own.
    pub fn is_own(&self) -> bool {
        self.is_added() && self.git_dir.join(NOTE).is_file()
    }

    /// Whether a commit stays reachable when this worktree moves away from it, because a ref
    /// contains it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_kept(&self, commit: &str) -> Result<bool> {
        if fs::read_to_string(self.git_dir.join(NOTE)).is_ok_and(|noted| noted == commit) {
            return Ok(true);
        }
        self.is_under(commit, "refs/")
    }

    /// Whether a ref under `folder` contains a commit.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_under(&self, commit: &str, folder: &str) -> Result<bool> {
        let list = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit];
        Ok(!program::run(&self.root, &[&list[..], &[folder]].concat())?.is_empty())
    }

    /// The commit of a branch; none if there is no such branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn branch(&self, name: &str) -> Result<Option<CommitId>> {
        self.commit_of(&format!("refs/heads/{name}"))
    }

    /// Whether a killed git left this worktree incomplete.
    pub fn is_half_made(&self) -> bool {
        fs::read_to_string(self.git_dir.join("locked")).is_ok_and(|why| why.trim() == BEING_MADE)
    }

    /// Removes worktrees in `folder` that a killed git has only begun to add: an incomplete git
    /// directory of a worktree makes git fail in the whole repository.
    ///
    /// # Errors
    /// I/O errors.
    pub fn undo_begun(&self, folder: &Path) -> Result<()> {
        /// Much longer than a living git takes to write these files.
        const PATIENCE: Duration = Duration::from_secs(2);
        let entries = fs::read_dir(self.common_dir.join("worktrees")).into_iter().flatten();
        for admin in entries.flatten().map(|entry| entry.path()) {
            let began = Instant::now();
            while let Some(tree) = incomplete_worktree(&admin, folder) {
                if began.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
                // The killed git has written nothing else there; other files are left alone.
                let _ = fs::remove_file(tree.join(".git"));
                if tree.exists() && fs::remove_dir(&tree).is_err() {
                    break;
                }
                fs::remove_dir_all(&admin)
                    .with_context(|| format!("remove `{}`", admin.display()))?;
            }
        }
        Ok(())
    }

    /// Locks this worktree. `git worktree lock` reads all other worktrees as well and fails while
    /// git adds one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn lock_here(&self, why: &str) -> Result<()> {
        fs::write(self.git_dir.join("locked"), why).context("cannot lock the worktree")
    }

    /// Unlocks this worktree.
    ///
    /// # Errors
    /// I/O errors.
    pub fn unlock_here(&self) -> Result<()> {
        match fs::remove_file(self.git_dir.join("locked")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).context("cannot unlock the worktree")
            }
            _ => Ok(()),
        }
    }

    /// Writes the files of the index that are missing.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn fill(&self) -> Result<()> {
        self.run_quietly(&["checkout-index", "--all", "--quiet"])
    }

    /// The commits of `to` that are not in `from`, oldest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn between(&self, from: &str, to: &str) -> Result<Vec<Commit>> {
        let mut commits = self.backend.log(to, Some(from), LISTED)?;
        commits.reverse();
        Ok(commits)
    }

    /// Keeps a commit under the ref `name`.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn keep(&self, name: &str, commit: &str) -> Result<()> {
        program::run(&self.root, &["update-ref", "-m", "ralph: kept", name, commit]).map(drop)
    }
}
