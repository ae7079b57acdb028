//! The work trees of attempts: a pool in a folder beside the repository, of which each attempt has
//! one to itself while it goes on, and one in which the merge queue tries things.
//!
//! A work tree is made when all others are in use, and is otherwise moved on to another branch: on a
//! large repository that is several times faster. It is only moved when all that is in it is kept
//! somewhere else. Nothing is ever forced: what cannot be moved without loss stays as it is.

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

/// Files that git ignores and that every work tree needs: patterns as in `.gitignore`.
pub const INCLUDE: &str = ".worktreeinclude";

/// Why a work tree is locked, before the name of an attempt.
const LOCKED: &str = "ralph: attempt ";

/// The work trees of one repository.
#[derive(Clone, Debug)]
pub struct WorktreePool {
    main: PathBuf,
    folder: PathBuf,
}

impl WorktreePool {
    /// That of a repository, as the settings say.
    pub fn of(workspace: &Workspace) -> WorktreePool {
        let root = workspace.root();
        let mut name = root.file_name().unwrap_or_default().to_owned();
        name.push(".worktrees");
        let wanted = workspace.config.worktree_dir.as_ref();
        let folder = wanted.map_or_else(|| root.with_file_name(name), |folder| root.join(folder));
        // As git names them.
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        WorktreePool { main: root.to_owned(), folder }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The one of the merge queue.
    pub fn merge(&self) -> PathBuf {
        self.folder.join("merge")
    }

    /// The first one that is not among those.
    pub fn next(&self, taken: &[PathBuf]) -> PathBuf {
        let mut all = (1_u32..).map(|number| self.folder.join(number.to_string()));
        all.find(|slot| !taken.contains(slot)).expect("there are numbers enough")
    }

    /// Opens a work tree, which is made if it is not there; `base` is then what it has. And whether
    /// it was made.
    ///
    /// # Errors
    /// In git's words; something else in its place.
    pub fn open(&self, tree: &Path, base: &str) -> Result<(Repo, bool)> {
        // Git takes the name of its note of a work tree from the folder: not two at once.
        static TURN: Mutex<()> = Mutex::new(());
        // An empty folder is as good as none.
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
                "`{}` is no work tree of this repository; move it away, or set `worktree_dir`",
                tree.display()
            );
        };
        let half_made = !made && !repo.is_own() && repo.is_half_made();
        if half_made {
            // Its git was killed. What that did not come to is done; no file that is there is touched.
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

    /// The work tree that a folder is; none where it is something else.
    fn own(&self, folder: &Path) -> Option<Repo> {
        let (tree, main) = (Repo::discover(folder).ok()?, Repo::discover(&self.main).ok()?);
        let is_top = fs::canonicalize(folder).is_ok_and(|folder| folder == tree.root());
        let is_own = tree.common_dir() == main.common_dir() && tree.root() != main.root();
        (is_top && is_own).then_some(tree)
    }

    /// Copies the ignored files that every work tree needs.
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

/// Whether a work tree is locked for an attempt, or by git until it is made, and not by a person.
pub fn is_own_lock(why: &str) -> bool {
    why.starts_with(LOCKED)
}

/// What is to be prepared.
#[derive(Clone, Debug)]
pub struct WorktreeOrder {
    /// Of which pool.
    pub pool: WorktreePool,
    /// Which work tree.
    pub tree: PathBuf,
    /// On which branch, or on one named after it where somebody has that checked out.
    pub branch: String,
    /// For which attempt.
    pub name: String,
    /// With what.
    pub base: CommitId,
    /// Under which name in git the work of the task's attempts is kept.
    pub pins: String,
}

/// A work tree that was to be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedWorktree {
    /// It is, and on this branch.
    Ready(String),
    /// There is something in it that is kept nowhere else.
    Kept(String),
}

/// Prepares a work tree for an attempt: on a new branch, with nothing in it but what its base has
/// and what git ignores.
///
/// # Errors
/// In git's words.
pub fn prepare(order: &WorktreeOrder) -> Result<PreparedWorktree> {
    let is_used = fs::read_dir(&order.tree).is_ok_and(|mut entries| entries.next().is_some());
    if is_used && order.pool.own(&order.tree).is_none() {
        return Ok(PreparedWorktree::Kept("it is no work tree of this repository".to_owned()));
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

/// What there is in a work tree that is kept nowhere else, if there is anything.
///
/// # Errors
/// In git's words.
pub fn unkept(tree: &Repo) -> Result<Option<String>> {
    if let Some(what) = tree.unfinished() {
        return Ok(Some(format!("{what} is left half-way")));
    }
    if let Some(path) = tree.dirty()?.into_keys().next() {
        return Ok(Some(format!("`{path}` is changed and not committed")));
    }
    let head = tree.head()?;
    match head.commit {
        Some(commit) if head.branch.is_none() && !tree.is_kept(&commit)? => {
            Ok(Some(format!("commit {} is on no branch", commit.get(..7).unwrap_or(&commit))))
        }
        _ => Ok(None),
    }
}

/// The name of the attempt's branch, and where it is if there is one. Its earlier work is kept first.
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
            BranchRoom::Barred { by } => bail!(
                "branch `{by}` is in the way of `{name}`, since git has a folder for it; rename it"
            ),
            // Somebody looks at it.
            BranchRoom::CheckedOut { .. } => {}
        }
    }
    bail!("`{name}` and all names like it are checked out somewhere")
}

/// Lets go of a work tree whose attempt is closed: what it left is in `kept`. Its branch goes if it is
/// named, with nothing on it that is not kept. What cannot be let go of stays as it is, with the
/// reason.
///
/// # Errors
/// In git's words.
pub fn release(tree: &Repo, kept: Option<&str>, branch: Option<&str>) -> Result<Option<String>> {
    let Some(at) = kept.map(CommitId::from).or(tree.head()?.commit) else {
        return Ok(Some("it has no commit".to_owned()));
    };
    let settled = tree.settle_on(&at).or_else(|_| {
        // A killed run may leave a git that takes its locks only now, or dies with them.
        tree.drop_locks()?;
        tree.settle_on(&at)
    });
    if !settled? {
        return Ok(Some("not all that is in it could be kept".to_owned()));
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
    fn a_lock_that_a_killed_git_left_does_not_keep_a_worktree_locked() {
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
