//! Brings the work of a branch on top of another one, and moves that.
//!
//! By the `git` program, in a work tree that is there for nothing else: what is tried is what people
//! would get, their merge drivers, filters and attributes included. Only the hooks stay off.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::{Repo, lossy, pin::IDENTITY, program};

/// How much of a conflict is kept, in bytes.
const DIFF: usize = 64 * 1024;

/// In what form work comes into the target branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Its commits one by one on top of the target.
    Rebase,
    /// A merge commit of both.
    Merge,
    /// One commit of all of it.
    Squash,
}

/// The work of a branch.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its last commit.
    pub head: &'a str,
    /// The commit it began with.
    pub base: &'a str,
    /// What the commit says that brings it in, where that is one.
    pub message: &'a str,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Integrated {
    /// This commit has both.
    Done(String),
    /// There is nothing in it that is not there already.
    Nothing,
    /// Both have changed the same lines.
    Conflict {
        /// Of these files.
        paths: Vec<String>,
        /// In which way.
        diff: String,
    },
}

/// Whether a branch was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing {
    /// It was.
    Landed,
    /// Somebody else has moved it before.
    Moved,
    /// The files of the checkout that has it cannot follow.
    InTheWay {
        /// Which checkout.
        checkout: PathBuf,
        /// The files that somebody has changed there.
        paths: Vec<String>,
    },
    /// Another git is at work there.
    Busy,
}

impl Repo {
    /// Brings `piece` on top of `onto` in this work tree, whose HEAD is then detached at the result.
    /// What the branch did to the paths `own` is left out. `attributes` stands in for the user's
    /// own file of attributes.
    ///
    /// # Errors
    /// In git's own words.
    pub fn integrate(
        &self,
        onto: &str,
        piece: &Piece<'_>,
        how: How,
        own: &[&str],
        attributes: Option<&Path>,
    ) -> Result<Integrated> {
        self.tidy_up()?;
        let changed = self.differing(Some(piece.base), piece.head)?;
        let head = if changed.iter().any(|path| own.contains(&path.as_str())) {
            self.without(piece, own)?
        } else {
            piece.head.to_owned()
        };
        if how == How::Rebase && piece.base == onto {
            self.go_to(&head)?;
            return Ok(if head == onto { Integrated::Nothing } else { Integrated::Done(head) });
        }
        let options = self.options(attributes);
        let git = |arguments: &[&str]| {
            let options = options.iter().map(String::as_str);
            let all: Vec<&str> = options.chain(arguments.iter().copied()).collect();
            program::run(&self.root, &all)
        };
        let (result, undo) = match how {
            How::Rebase => {
                let rebase = ["rebase", "--quiet", "--onto", onto, piece.base, &head];
                (git(&rebase), ["rebase", "--abort"])
            }
            How::Merge => {
                self.go_to(onto)?;
                let merge = ["merge", "--quiet", "--no-ff", "-m", piece.message, &head];
                (git(&merge), ["merge", "--abort"])
            }
            How::Squash => {
                self.go_to(onto)?;
                (git(&["merge", "--quiet", "--squash", &head]), ["reset", "--merge"])
            }
        };
        if let Err(error) = result {
            let Some(conflict) = self.conflict()? else {
                // Nothing may have been begun.
                let _ = git(&undo);
                return Err(error);
            };
            git(&undo).context("take back what is in conflict")?;
            return Ok(conflict);
        }
        if how == How::Squash && !program::test(&self.root, &["diff", "--cached", "--quiet"])? {
            let author = ["log", "-1", "--format=%an <%ae>", &head];
            let author = lossy(&program::run(&self.root, &author)?);
            let author = format!("--author={}", author.trim());
            git(&["commit", "--quiet", &author, "-m", piece.message])?;
        }
        let now = self.head()?.commit.context("no commit after a merge")?;
        Ok(if now == onto { Integrated::Nothing } else { Integrated::Done(now) })
    }

    /// What is the same for every call of git that makes commits of work.
    fn options(&self, attributes: Option<&Path>) -> Vec<String> {
        // What people like for their own rebases would touch other branches and stashes.
        let mut settings: Vec<String> = [
            "rebase.updateRefs=false",
            "rebase.autoSquash=false",
            "rebase.autoStash=false",
            "merge.autoStash=false",
            "submodule.recurse=false",
            "core.editor=true",
            "sequence.editor=true",
        ]
        .map(str::to_owned)
        .to_vec();
        if let Some(file) = attributes {
            settings.push(format!("core.attributesFile={}", file.display()));
        }
        if self.committer().is_err() {
            let [(_, name), (_, address), ..] = IDENTITY;
            settings.push(format!("user.name={name}"));
            settings.push(format!("user.email={address}"));
        }
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }

    /// What is in conflict here, if anything is.
    fn conflict(&self) -> Result<Option<Integrated>> {
        let names = ["diff", "--name-only", "--diff-filter=U", "-z"];
        let names = program::run(&self.root, &names)?;
        let paths: Vec<String> =
            names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(lossy).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let diff = program::run(&self.root, &["diff", "--no-ext-diff", "--no-textconv"])?;
        let diff = lossy(&diff[..diff.len().min(DIFF)]);
        Ok(Some(Integrated::Conflict { paths, diff }))
    }

    /// Makes this work tree clean, which is there for nothing but this: ends what a git that was
    /// killed left half-way, and puts what verify commands left into a commit that nobody needs.
    fn tidy_up(&self) -> Result<()> {
        for what in ["rebase", "cherry-pick", "merge"] {
            if self.unfinished().is_none() {
                break;
            }
            let _ = program::run(&self.root, &[what, "--abort"]);
        }
        for lock in self.locks().into_iter().filter(|lock| lock.starts_with(self.git_dir())) {
            // Whoever had it is dead: nobody else works here.
            let _ = fs::remove_file(lock);
        }
        if self.dirty()?.is_empty() && self.unfinished().is_none() {
            return Ok(());
        }
        self.gather("What verify commands left\n")?;
        match self.unfinished() {
            None => Ok(()),
            Some(what) => Err(anyhow!(
                "{what} is left half-way in `{}`, and git does not end it; look there",
                self.root.display()
            )),
        }
    }

    /// The branch of a piece without what it did to some paths: its commits made anew, as their
    /// authors wrote them; those that did nothing else are left out.
    fn without(&self, piece: &Piece<'_>, own: &[&str]) -> Result<String> {
        let index = self.git_dir().join("ralph-index");
        let env = [("GIT_INDEX_FILE", index.as_os_str())];
        let range = format!("{}..{}", piece.base, piece.head);
        let list = ["rev-list", "--reverse", "--topo-order", "--parents", &range];
        let mut new: HashMap<String, String> = HashMap::new();
        let mut tip = piece.base.to_owned();
        for line in lossy(&program::run(&self.root, &list)?).lines() {
            let mut words = line.split(' ').map(str::to_owned);
            let old = words.next().context("a commit without a name")?;
            let mapped = |parent: String| new.get(&parent).cloned().unwrap_or(parent);
            let parents: Vec<String> = words.map(mapped).collect();
            program::feed(&self.root, &["read-tree", &old], &env, b"")?;
            for path in own {
                let entry = ["--literal-pathspecs", "ls-tree", "-z", piece.base, "--", path];
                let entry = program::run(&self.root, &entry)?;
                let entry = if entry.is_empty() {
                    format!("0 {}\t{path}\0", "0".repeat(piece.base.len())).into_bytes()
                } else {
                    entry
                };
                program::feed(&self.root, &["update-index", "-z", "--index-info"], &env, &entry)?;
            }
            let tree = lossy(&program::feed(&self.root, &["write-tree"], &env, b"")?);
            let tree = tree.trim().to_owned();
            let first = parents.first().cloned().unwrap_or_default();
            let before =
                self.tree_of(Some(&first).filter(|first| !first.is_empty()).map(String::as_str))?;
            tip = if parents.len() == 1 && tree == before {
                first
            } else {
                self.commit_again(&old, &tree, &parents)?
            };
            new.insert(old, tip.clone());
        }
        let _ = fs::remove_file(index);
        Ok(tip)
    }

    /// A commit as another one, but for its tree and its parents.
    fn commit_again(&self, old: &str, tree: &str, parents: &[String]) -> Result<String> {
        let format = "--format=%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B";
        let text = program::run(&self.root, &["log", "-1", "--date=raw", format, old])?;
        let mut parts = text.splitn(7, |byte| *byte == 0).map(lossy);
        let names = [
            "GIT_AUTHOR_NAME",
            "GIT_AUTHOR_EMAIL",
            "GIT_AUTHOR_DATE",
            "GIT_COMMITTER_NAME",
            "GIT_COMMITTER_EMAIL",
            "GIT_COMMITTER_DATE",
        ];
        let env: Vec<(&str, String)> = names.into_iter().zip(parts.by_ref()).collect();
        let env: Vec<_> =
            env.iter().map(|(name, value)| (*name, OsStr::new(value.as_str()))).collect();
        let message = parts.next().unwrap_or_default();
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        let commit = program::feed(&self.root, &arguments, &env, message.as_bytes())?;
        Ok(lossy(&commit).trim().to_owned())
    }

    /// Moves a branch from `old` to `new`, which descends from it. Where a checkout has it, its files
    /// follow, and nothing is moved if a person's changes are in the way.
    ///
    /// # Errors
    /// In git's own words.
    pub fn land(&self, branch: &str, old: &str, new: &str) -> Result<Landing> {
        let trees = self.worktrees()?;
        let Some(tree) = trees.iter().find(|tree| tree.branch.as_deref() == Some(branch)) else {
            return self.move_branch(branch, old, new);
        };
        if tree.head.as_deref() == Some(new) {
            return Ok(Landing::Landed);
        }
        if tree.head.as_deref() != Some(old) {
            return Ok(Landing::Moved);
        }
        let merge = ["-c", "merge.autoStash=false", "-c", "submodule.recurse=false"];
        let merge = [&merge[..], &["merge", "--quiet", "--ff-only", new]].concat();
        let Err(error) = program::run(&tree.path, &merge) else {
            return Ok(Landing::Landed);
        };
        let said = error.to_string();
        let names = said.lines().filter_map(|line| line.strip_prefix('\t'));
        let paths: Vec<String> = names.map(str::to_owned).collect();
        if said.contains(".lock'") {
            Ok(Landing::Busy)
        } else if !paths.is_empty() && said.contains("would be overwritten") {
            Ok(Landing::InTheWay { checkout: tree.path.clone(), paths })
        } else if self.branch(branch)?.as_deref() == Some(old) {
            Err(error)
        } else {
            Ok(Landing::Moved)
        }
    }

    /// The same where no checkout has it.
    fn move_branch(&self, branch: &str, old: &str, new: &str) -> Result<Landing> {
        let name = format!("refs/heads/{branch}");
        // In the middle of a rebase its checkout does not show it.
        let folders = fs::read_dir(self.common_dir.join("worktrees")).into_iter().flatten();
        let folders = folders.flatten().map(|entry| entry.path());
        for folder in folders.chain([self.common_dir.clone()]) {
            for kind in ["rebase-merge", "rebase-apply"] {
                let rebased = fs::read_to_string(folder.join(kind).join("head-name"));
                if rebased.is_ok_and(|rebased| rebased.trim() == name) {
                    return Err(anyhow!("`{branch}` is being rebased; finish or abort that"));
                }
            }
        }
        let moved = ["update-ref", "-m", "ralph: merged", &name, new, old];
        let Err(error) = program::run(&self.root, &moved) else {
            return Ok(Landing::Landed);
        };
        match self.branch(branch)? {
            Some(now) if now == old && error.to_string().contains(".lock'") => Ok(Landing::Busy),
            Some(now) if now == old => Err(error),
            Some(now) if now == new => Ok(Landing::Landed),
            _ => Ok(Landing::Moved),
        }
    }
}
