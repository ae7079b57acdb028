//! Whether a commit is kept, and which worktrees are `ralph`'s own.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{LISTED, Repo, Worktree, program};
use crate::core::verdict::Commit;

/// The note in git's folder for a worktree that `ralph` has made it: at which commit it left it.
const NOTE: &str = "ralph";

/// Why git locks a worktree until it is made.
const BEING_MADE: &str = "initializing";

/// The worktree in `folder` that git is about to make, by its notes in `admin`, if it has not come so
/// far as to write the first file of it.
fn begun_in(admin: &Path, folder: &Path) -> Option<PathBuf> {
    let read = |name: &str| fs::read_to_string(admin.join(name)).unwrap_or_default();
    let tree = Path::new(read("gitdir").trim_end()).parent()?.to_owned();
    let is_begun = ["commondir", "HEAD"].iter().any(|name| read(name).is_empty());
    (is_begun && read("locked").trim() == BEING_MADE && tree.parent() == Some(folder))
        .then_some(tree)
}

impl Worktree {
    /// Whether a git that was killed has made it, and not to its end.
    pub fn is_half_made(&self) -> bool {
        self.locked.as_deref() == Some(BEING_MADE)
    }
}

impl Repo {
    /// The git directory of this worktree alone.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Notes that this worktree is one of `ralph`'s own, and left at this commit, which is kept.
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

    /// Whether a commit stays when this worktree is moved away from it: some ref has it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_kept(&self, commit: &str) -> Result<bool> {
        if fs::read_to_string(self.git_dir.join(NOTE)).is_ok_and(|noted| noted == commit) {
            return Ok(true);
        }
        self.is_under(commit, "refs/")
    }

    /// Whether a ref under `folder` has a commit.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_under(&self, commit: &str, folder: &str) -> Result<bool> {
        let list = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit];
        Ok(!program::run(&self.root, &[&list[..], &[folder]].concat())?.is_empty())
    }

    /// Where a branch is; none without one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn branch(&self, name: &str) -> Result<Option<String>> {
        self.commit_of(&format!("refs/heads/{name}"))
    }

    /// Whether a git that was killed has made this worktree, and not to its end.
    pub fn is_half_made(&self) -> bool {
        fs::read_to_string(self.git_dir.join("locked")).is_ok_and(|why| why.trim() == BEING_MADE)
    }

    /// Undoes those of the worktrees in `folder` that a git which was killed has only begun to make:
    /// one whose notes are not written to their end lets git fail in the whole repository.
    ///
    /// # Errors
    /// I/O errors.
    pub fn undo_begun(&self, folder: &Path) -> Result<()> {
        /// Much longer than git takes to write these notes, should it not have been killed.
        const PATIENCE: Duration = Duration::from_secs(2);
        let entries = fs::read_dir(self.common_dir.join("worktrees")).into_iter().flatten();
        for admin in entries.flatten().map(|entry| entry.path()) {
            let began = Instant::now();
            while let Some(tree) = begun_in(&admin, folder) {
                if began.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
                // By then git has written nothing else there; where somebody has, it stays.
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

    /// Locks this worktree, as `git worktree lock` does, which looks at all the others as well and
    /// fails where git is just making one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn lock_here(&self, why: &str) -> Result<()> {
        fs::write(self.git_dir.join("locked"), why).context("lock the worktree")
    }

    /// The other way round.
    ///
    /// # Errors
    /// I/O errors.
    pub fn unlock_here(&self) -> Result<()> {
        match fs::remove_file(self.git_dir.join("locked")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).context("unlock the worktree")
            }
            _ => Ok(()),
        }
    }

    /// Writes those files of the index that are not there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn fill(&self) -> Result<()> {
        self.quietly(&["checkout-index", "--all", "--quiet"])
    }

    /// The commits of `to` that `from` has not got, oldest first.
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
