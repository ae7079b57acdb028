//! The worktrees of attempts: a pool in a folder next to the repository. Each isolated attempt has
//! its own worktree while it runs, and the merge queue has one.
//!
//! A worktree is created when all others are in use. Otherwise an existing one is switched to
//! another branch, which is several times faster on a large repository. A worktree is switched only
//! when all its contents are kept elsewhere. Nothing is forced: a worktree that cannot be switched
//! without loss stays as it is.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};

use crate::{
    adapters::git::{BranchRoom, Repo},
    core::commit_id::CommitId,
    crash,
    project::workspace::Workspace,
};

/// The list of ignored files that every worktree needs: patterns as in `.gitignore`.
pub const INCLUDE: &str = ".worktreeinclude";

/// The lock reason of a worktree, up to the name of the attempt.
const LOCKED: &str = "ralph: attempt ";

/// The worktrees of one repository.
#[derive(Clone, Debug)]
pub struct WorktreePool {
    main: PathBuf,
    folder: PathBuf,
}

impl WorktreePool {
    /// Returns the pool of a repository, as configured.
    pub fn of(workspace: &Workspace) -> WorktreePool {
        let root = workspace.root();
        let mut name = root.file_name().unwrap_or_default().to_owned();
        name.push(".worktrees");
        let wanted = workspace.config.worktree_dir.as_ref();
        let folder = wanted.map_or_else(|| root.with_file_name(name), |folder| root.join(folder));
        // Git reports canonical paths.
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        WorktreePool { main: root.to_owned(), folder }
    }

    /// Returns the folder of the worktrees.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the worktree of the merge queue.
    pub fn merge(&self) -> PathBuf {
        self.folder.join("merge")
    }

    /// Returns the first worktree that is not in `taken`.
    pub fn next(&self, taken: &[PathBuf]) -> PathBuf {
        let mut all = (1_u32..).map(|number| self.folder.join(number.to_string()));
        all.find(|slot| !taken.contains(slot)).expect("a number is free")
    }

    /// Opens a worktree. Creates it at `base` if it does not exist. Also returns whether it was
    /// created.
    ///
    /// # Errors
    /// Errors of git; the folder exists and is not a worktree of this repository.
    pub fn open(&self, tree: &Path, base: &str) -> Result<(Repo, bool)> {
        // Git names its administrative folder after the worktree's folder, so only one may be
        // created at a time.
        static TURN: Mutex<()> = Mutex::new(());
        // An empty folder counts as missing.
        let made =
            fs::read_dir(tree).map_or(!tree.exists(), |mut entries| entries.next().is_none());
        let main = Repo::discover(&self.main)?;
        if made {
            let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            let known = main.worktrees()?.into_iter().find(|known| known.path == tree);
            if let Some(known) = known {
                if known.is_half_made() || known.locked.is_some_and(|why| is_own_lock(&why)) {
                    main.unlock_worktree(tree)?;
                }
                main.forget_worktree(tree)?;
            }
            main.add_worktree(tree, base)?;
            crash::point("tree.added");
        }
        let Some(repo) = self.own(tree) else {
            bail!(
                "`{}` is not a worktree of this repository; move it, or set `worktree_dir`",
                tree.display()
            );
        };
        let half_made = !made && !repo.is_own() && repo.is_half_made();
        if half_made {
            // The git process that created it was killed. Finish its work without touching existing
            // files.
            repo.drop_locks()?;
            repo.settle_on(base)?;
            repo.fill()?;
            repo.unlock_here()?;
        }
        if made || half_made {
            repo.own(base)?;
            self.include(&repo)?;
            crash::point("tree.included");
        }
        Ok((repo, made))
    }

    /// Returns the worktree at a folder, or `None` if the folder is not one of this repository.
    fn own(&self, folder: &Path) -> Option<Repo> {
        let (tree, main) = (Repo::discover(folder).ok()?, Repo::discover(&self.main).ok()?);
        let is_top = fs::canonicalize(folder).is_ok_and(|folder| folder == tree.root());
        let is_own = tree.common_dir() == main.common_dir() && tree.root() != main.root();
        (is_top && is_own).then_some(tree)
    }

    /// Copies the ignored files that every worktree needs.
    fn include(&self, tree: &Repo) -> Result<()> {
        let list = self.main.join(INCLUDE);
        if !list.is_file() {
            return Ok(());
        }
        for path in Repo::discover(&self.main)?.ignored_by(&list)? {
            let (from, to) = (self.main.join(&path), tree.root().join(&path));
            copy(&from, &to)
                .with_context(|| format!("copy `{}` of `{INCLUDE}`", path.display()))?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(from)?.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to).map(drop)
}

/// Whether a lock reason is one that `ralph` wrote for an attempt.
pub fn is_own_lock(why: &str) -> bool {
    why.starts_with(LOCKED)
}

/// An order to prepare a worktree.
#[derive(Clone, Debug)]
pub struct WorktreeOrder {
    /// The pool.
    pub pool: WorktreePool,
    /// The worktree.
    pub tree: PathBuf,
    /// The branch. If it is checked out elsewhere, a numbered variant is used.
    pub branch: String,
    /// The name of the attempt.
    pub name: String,
    /// The commit to start from.
    pub base: CommitId,
    /// The ref prefix under which the work of the task's attempts is kept.
    pub pins: String,
}

/// The result of preparing a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedWorktree {
    /// The worktree is ready, on this branch.
    Ready(String),
    /// The worktree cannot be used, for this reason: it has contents that are kept nowhere else.
    Kept(String),
}

/// Prepares a worktree for an attempt: on a new branch, with only its base and ignored files.
///
/// # Errors
/// Errors of git.
pub fn prepare(order: &WorktreeOrder) -> Result<PreparedWorktree> {
    let is_used = fs::read_dir(&order.tree).is_ok_and(|mut entries| entries.next().is_some());
    if is_used && order.pool.own(&order.tree).is_none() {
        return Ok(PreparedWorktree::Kept("it is not a worktree of this repository".to_owned()));
    }
    let (tree, made) = order.pool.open(&order.tree, &order.base)?;
    if !made && let Some(why) = unkept(&tree)? {
        return Ok(PreparedWorktree::Kept(why));
    }
    let (branch, old) = branch(&tree, order)?;
    crash::point("tree.named");
    tree.switch(&branch, &order.base, old.as_deref())?;
    crash::point("tree.switched");
    tree.update_submodules()?;
    tree.lock_here(&format!("{LOCKED}{}", order.name))?;
    Ok(PreparedWorktree::Ready(branch))
}

/// Returns the first content of a worktree that is kept nowhere else, if any.
///
/// # Errors
/// Errors of git.
pub fn unkept(tree: &Repo) -> Result<Option<String>> {
    if let Some(what) = tree.unfinished() {
        return Ok(Some(format!("{what} is unfinished")));
    }
    if let Some(path) = tree.dirty()?.into_keys().next() {
        return Ok(Some(format!("`{path}` has uncommitted changes")));
    }
    let head = tree.head()?;
    match head.commit {
        Some(commit) if head.branch.is_none() && !tree.is_kept(&commit)? => {
            Ok(Some(format!("commit {} is on no branch", commit.get(..7).unwrap_or(&commit))))
        }
        _ => Ok(None),
    }
}

/// Returns the name of the attempt's branch, and its commit if it exists. Earlier work on it is
/// kept first.
fn branch(tree: &Repo, order: &WorktreeOrder) -> Result<(String, Option<CommitId>)> {
    let name = order.branch.clone();
    let others = (2..100).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.clone()).chain(others) {
        match tree.branch_room(&name)? {
            BranchRoom::Free => return Ok((name, None)),
            BranchRoom::Exists { commit } => {
                if *commit != *order.base && !tree.is_under(&commit, &order.pins)? {
                    let short = commit.get(..10).unwrap_or(&commit);
                    tree.keep(&format!("{}/branch-{short}", order.pins), &commit)?;
                }
                return Ok((name, Some(commit)));
            }
            BranchRoom::Barred { by } => {
                bail!("branch `{by}` conflicts with the branch `{name}`; rename it")
            }
            // Another worktree uses the branch, so try the next name.
            BranchRoom::CheckedOut { .. } => {}
        }
    }
    bail!("`{name}` and all its numbered variants are checked out elsewhere")
}

/// Releases the worktree of a closed attempt whose leftovers are in `kept`. Deletes `branch` if
/// given and if all its commits are kept. Returns the reason if the worktree cannot be released; it
/// then stays as it is.
///
/// # Errors
/// Errors of git.
pub fn release(tree: &Repo, kept: Option<&str>, branch: Option<&str>) -> Result<Option<String>> {
    let Some(at) = kept.map(CommitId::from).or(tree.head()?.commit) else {
        return Ok(Some("it has no commit".to_owned()));
    };
    let settled = tree.settle_on(&at).or_else(|_| {
        // A git process of a killed run may still be taking locks, or may have died with them.
        tree.drop_locks()?;
        tree.settle_on(&at)
    });
    if !settled? {
        return Ok(Some("not all of its contents could be kept".to_owned()));
    }
    crash::point("tree.settled");
    tree.own(&at)?;
    if let Some(branch) = branch
        && let Some(commit) = tree.branch(branch)?
        && tree.is_ancestor(&commit, &at)?
    {
        tree.delete_branch(branch, &commit)?;
    }
    tree.unlock_here()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_lock_file_of_a_killed_git_does_not_keep_a_worktree_locked() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().canonicalize().unwrap().join("main");
        Repo::init(&main).unwrap();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"];
            let status = Command::new("git")
                .current_dir(&main)
                .args([&identity[..], arguments].concat())
                .status();
            assert!(status.unwrap().success(), "{arguments:?}");
        };
        git(&["commit", "-q", "--allow-empty", "-m", "First"]);
        let base = Repo::discover(&main).unwrap().head().unwrap().commit.unwrap();
        let pool = WorktreePool { folder: main.with_file_name("trees"), main: main.clone() };
        let (tree, _) = pool.open(&pool.next(&[]), &base).unwrap();
        tree.lock_here("ralph: attempt a.1").unwrap();
        for lock in ["index.lock", "HEAD.lock"] {
            fs::write(tree.git_dir().join(lock), "").unwrap();
            fs::write(tree.root().join("new"), "").unwrap();
            assert!(release(&tree, None, None).unwrap().is_some(), "the file is not kept");
            fs::remove_file(tree.root().join("new")).unwrap();
        }
        fs::write(tree.git_dir().join("HEAD.lock"), "").unwrap();
        assert_eq!(release(&tree, None, None).unwrap(), None);
        assert!(!tree.git_dir().join("locked").exists());
    }
}
