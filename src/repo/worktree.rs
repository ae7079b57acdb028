//! Work trees beside the one that people work in: made, moved on to another commit, let go of.
//!
//! Nothing here is forced. Where a work tree has something that a move would destroy, git refuses,
//! and so does this.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use git2::Oid;

use super::{Repo, branch_name, lossy, program};

/// One work tree of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Its top.
    pub path: PathBuf,
    /// The commit it has; none before the first.
    pub head: Option<String>,
    /// The branch it is on; none when HEAD is detached.
    pub branch: Option<String>,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
    /// Whether its folder is gone.
    pub missing: bool,
}

/// Whether a branch of some name can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchRoom {
    /// There is none.
    Free,
    /// There is one, and no other work tree has it checked out.
    Ours {
        /// Where it is.
        commit: String,
    },
    /// Another work tree has it checked out.
    CheckedOut {
        /// Which.
        path: PathBuf,
        /// Where it is.
        commit: String,
    },
    /// Git cannot have both.
    Barred {
        /// The branch that stands where a folder would have to be.
        by: String,
    },
}

impl Repo {
    /// The work trees of the repository as git lists them, the main one first.
    ///
    /// # Errors
    /// In git's own words.
    pub fn worktrees(&self) -> Result<Vec<Worktree>> {
        let text = program::run(&self.root, &["worktree", "list", "--porcelain", "-z"])?;
        let mut found: Vec<Worktree> = Vec::new();
        for line in text.split(|byte| *byte == 0) {
            let cut = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let (word, rest) = (&line[..cut], line.get(cut + 1..).unwrap_or_default());
            if word == b"worktree" {
                let path = PathBuf::from(OsStr::from_bytes(rest));
                found.push(Worktree { missing: !path.exists(), path, ..Worktree::default() });
            }
            let Some(last) = found.last_mut() else {
                continue;
            };
            match word {
                b"HEAD" if !rest.iter().all(|byte| *byte == b'0') => last.head = Some(lossy(rest)),
                b"branch" => last.branch = Some(branch_name(&lossy(rest))),
                b"locked" => last.locked = Some(lossy(rest)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The top of the main work tree, also where this is another one. None where that is bare.
    pub fn main_root(&self) -> Option<PathBuf> {
        let main = self.worktrees().ok()?.into_iter().next()?;
        (!main.missing && main.path != self.common_dir).then_some(main.path)
    }

    /// Makes a work tree with HEAD detached at `base`.
    ///
    /// # Errors
    /// In git's own words: a folder that is not empty stays as it is.
    pub fn add_worktree(&self, path: &Path, base: &str) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
        }
        let path = path.display().to_string();
        program::run(&self.root, &["worktree", "add", "--quiet", "--detach", &path, base]).map(drop)
    }

    /// Locks this work tree, so that nobody removes it, and says why.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn lock_worktree(&self, why: &str) -> Result<()> {
        // What `git worktree lock` does, without a process.
        fs::write(self.git_dir.join("locked"), why).context("lock the work tree")
    }

    /// Unlocks this work tree.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn unlock_worktree(&self) -> Result<()> {
        match fs::remove_file(self.git_dir.join("locked")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).context("unlock the work tree")
            }
            _ => Ok(()),
        }
    }

    /// Has git forget a work tree whose folder somebody deleted, and no other one.
    ///
    /// # Errors
    /// As the disk gives them.
    pub fn forget_worktree(&self, path: &Path) -> Result<()> {
        let entries = match fs::read_dir(self.common_dir.join("worktrees")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let folder = entry?.path();
            let noted = fs::read(folder.join("gitdir")).unwrap_or_default();
            let noted = Path::new(OsStr::from_bytes(noted.trim_ascii_end()));
            if noted == path.join(".git") && !path.exists() {
                fs::remove_dir_all(&folder)
                    .with_context(|| format!("forget `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    /// Removes a work tree in which nothing is changed or untracked.
    ///
    /// # Errors
    /// In git's own words, where something is.
    pub fn remove_worktree(&self, path: &Path) -> Result<()> {
        let path = path.display().to_string();
        program::run(&self.root, &["worktree", "remove", "--", &path]).map(drop)
    }

    /// Goes to the branch `branch`, which is made at `base` or moved there. The commits it had are the
    /// caller's affair.
    ///
    /// # Errors
    /// In git's own words: what is changed here is never overwritten.
    pub fn switch(&self, branch: &str, base: &str) -> Result<()> {
        if self.head()?.commit.as_deref() == Some(base)
            && let (Some(library), Ok(id)) = (&self.library, Oid::from_str(base))
        {
            // No file changes. Not through the program: this is what most attempts begin with.
            let name = format!("refs/heads/{branch}");
            let moved = library
                .reference(&name, id, true, "ralph: begun")
                .and_then(|_| library.set_head(&name));
            if moved.is_ok() {
                return Ok(());
            }
        }
        let go = ["-c", "submodule.recurse=false", "checkout", "--quiet", "--no-track", "-B"];
        program::run(&self.root, &[&go[..], &[branch, base, "--"]].concat()).map(drop)
    }

    /// Goes to `commit` without a branch, as [`Repo::switch`] does.
    ///
    /// # Errors
    /// In git's own words.
    pub fn go_to(&self, commit: &str) -> Result<()> {
        let go = ["-c", "submodule.recurse=false", "checkout", "--quiet", "--detach", commit, "--"];
        program::run(&self.root, &go).map(drop)
    }

    /// Detaches HEAD at `commit`, with the index of it, and leaves every file as it is. Whether all of
    /// them are then as that commit has them.
    ///
    /// # Errors
    /// In git's own words.
    pub fn settle_on(&self, commit: &str) -> Result<bool> {
        if self.head()?.commit.as_deref() != Some(commit) {
            program::run(&self.root, &["read-tree", commit])?;
            // Tells apart what only looks changed; what is changed is no error here.
            let _ = program::run(&self.root, &["update-index", "-q", "--refresh"]);
        }
        let detached = match (&self.library, Oid::from_str(commit)) {
            (Some(library), Ok(id)) => library.set_head_detached(id).is_ok(),
            _ => false,
        };
        if !detached {
            program::run(&self.root, &["update-ref", "--no-deref", "HEAD", commit])?;
        }
        Ok(self.dirty()?.is_empty())
    }

    /// Whether a branch of this name can be made here.
    ///
    /// # Errors
    /// In git's own words.
    pub fn branch_room(&self, name: &str) -> Result<BranchRoom> {
        let slashes = name.match_indices('/').map(|(at, _)| &name[..at]);
        for folder in slashes {
            if self.branch(folder)?.is_some() {
                return Ok(BranchRoom::Barred { by: folder.to_owned() });
            }
        }
        let Some(commit) = self.branch(name)? else {
            return Ok(BranchRoom::Free);
        };
        let mut others = self.worktrees()?.into_iter().filter(|other| other.path != self.root);
        Ok(match others.find(|other| other.branch.as_deref() == Some(name)) {
            Some(other) => BranchRoom::CheckedOut { path: other.path, commit },
            None => BranchRoom::Ours { commit },
        })
    }

    /// Where a branch is; none without one.
    ///
    /// # Errors
    /// In git's own words.
    pub fn branch(&self, name: &str) -> Result<Option<String>> {
        let name = format!("refs/heads/{name}");
        match &self.library {
            Some(library) => Ok(library.refname_to_id(&name).ok().map(|id| id.to_string())),
            None => self.commit_of(&name),
        }
    }

    /// Deletes a branch that is at `old` and that no other work tree has checked out; whether it
    /// was.
    ///
    /// # Errors
    /// In git's own words.
    pub fn delete_branch(&self, name: &str, old: &str) -> Result<bool> {
        match self.branch_room(name)? {
            BranchRoom::Ours { commit } if commit == old => {
                let name = format!("refs/heads/{name}");
                program::run(&self.root, &["update-ref", "-d", &name, old])?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether `new` is `old` or descends from it.
    ///
    /// # Errors
    /// In git's own words.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        let ids = (Oid::from_str(old), Oid::from_str(new));
        if let (Some(library), (Ok(old), Ok(new))) = (&self.library, ids)
            && let Ok(descends) = library.graph_descendant_of(new, old)
        {
            return Ok(old == new || descends);
        }
        if program::commit(&self.root, old)?.is_none() {
            return Ok(false);
        }
        program::test(&self.root, &["merge-base", "--is-ancestor", old, new])
    }

    /// Fills the submodules of this work tree, from those of the main one where that has them.
    ///
    /// # Errors
    /// In git's own words.
    pub fn update_submodules(&self) -> Result<()> {
        if !self.root.join(".gitmodules").is_file() {
            return Ok(());
        }
        let names = ["config", "--file", ".gitmodules", "--name-only", "--get-regexp", r"\.path$"];
        let names = program::answer(&self.root, &names)?.unwrap_or_default();
        let mut arguments = vec!["-c".to_owned(), "protocol.file.allow=always".to_owned()];
        for name in names.lines().filter_map(|line| line.strip_prefix("submodule.")) {
            let name = name.strip_suffix(".path").unwrap_or(name);
            let here = self.common_dir.join("modules").join(name);
            if here.is_dir() {
                arguments.push("-c".to_owned());
                arguments.push(format!("submodule.{name}.url={}", here.display()));
            }
        }
        let update = ["submodule", "--quiet", "update", "--init", "--recursive"];
        arguments.extend(update.map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        program::run(&self.root, &arguments).map(drop)
    }
}
