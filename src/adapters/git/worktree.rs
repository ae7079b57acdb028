//! The worktrees of a repository: listing, adding and removing them, and moving one to other work.
//!
//! Git is never forced. Before a move, the caller keeps what the worktree contains ([`Repo::pin`]);
//! then the worktree is [settled](Repo::settle_on) on what was kept, which makes it clean without
//! touching a file, and an ordinary checkout continues from there.
//!
//! Operations that move HEAD or write an index work in added worktrees only: the main worktree
//! belongs to a person.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Head, Repo, backend::WorktreeFolders, branch_name, is_commit, lock_files, lossy, program,
};
use crate::core::commit_id::CommitId;

/// The operations in progress, by the file that shows them, and the command that makes git forget
/// them without touching a file of the worktree.
const UNFINISHED: &[(&str, &[&str])] = &[
    ("rebase-apply/applying", &["am", "--quit"]),
    ("rebase-apply", &["rebase", "--quit"]),
    ("rebase-merge", &["rebase", "--quit"]),
    ("sequencer", &["cherry-pick", "--quit"]),
    ("CHERRY_PICK_HEAD", &["cherry-pick", "--quit"]),
    ("REVERT_HEAD", &["revert", "--quit"]),
    ("MERGE_HEAD", &["merge", "--quit"]),
    ("BISECT_START", &["bisect", "reset", "HEAD"]),
];

/// The time limit for a git that still works in a worktree after its runner was killed.
const LAST_WORK: Duration = Duration::from_secs(10);

/// The reflog message of moves of HEAD and of branches.
const MOVED: &str = "ralph: next work";

/// A worktree of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Its top, without symbolic links.
    pub path: PathBuf,
    /// The full id of its commit; none before the first commit, and if its HEAD cannot be read.
    pub head: Option<CommitId>,
    /// Its branch, without `refs/heads/`.
    pub branch: Option<String>,
    /// The branches to which a rebase or a bisection in it will return. HEAD does not show them.
    pub busy: Vec<String>,
    /// The reason of its lock, if it is locked; the reason may be empty.
    pub locked: Option<String>,
    /// Whether its folder is gone while git still lists it.
    pub missing: bool,
}

impl Worktree {
    /// Whether this worktree uses a branch, so that the branch must not be moved from elsewhere. A
    /// worktree whose folder was deleted uses no branch, unless it is locked: then the folder may
    /// only be out of reach.
    pub fn holds(&self, branch: &str) -> bool {
        let is_here = !self.missing || self.locked.is_some();
        is_here && (self.is_on(branch) || self.busy.iter().any(|busy| busy == branch))
    }

    /// Whether HEAD is on this branch.
    pub fn is_on(&self, branch: &str) -> bool {
        self.branch.as_deref() == Some(branch)
    }
}

impl Repo {
    /// All worktrees, the main one first, unless the repository is bare. Reads some small files for
    /// each.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn worktrees(&self) -> Result<Vec<Worktree>> {
        let folders = self.worktree_folders()?;
        let heads = self.backend.worktree_heads(&folders)?;
        let tree = |(folders, head): (WorktreeFolders, Head)| {
            let WorktreeFolders { path, git_dir, is_main } = folders;
            let locked = fs::read(git_dir.join("locked")).ok().filter(|_| !is_main);
            Worktree {
                head: head.commit,
                branch: head.branch,
                busy: branches_in_progress(&git_dir),
                locked: locked.map(|why| lossy(&why).trim().to_owned()),
                missing: !path.join(".git").exists() && !is_main,
                path,
            }
        };
        Ok(folders.into_iter().zip(heads).map(tree).collect())
    }

    fn worktree_folders(&self) -> Result<Vec<WorktreeFolders>> {
        let main = self.main_root()?;
        let main = main.map(|path| {
            let git_dir = self.common_dir.clone();
            WorktreeFolders { path, git_dir, is_main: true }
        });
        let entries = fs::read_dir(self.common_dir.join("worktrees"));
        let mut admins: Vec<PathBuf> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        admins.sort();
        let added = admins.into_iter().filter_map(|git_dir| {
            // This file is missing while git adds or removes the worktree.
            let text = fs::read(git_dir.join("gitdir")).ok()?;
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            // Git can be configured to write a path relative to the git directory.
            let file = git_dir.join(OsStr::from_bytes(text));
            let path = without_links(file.parent()?);
            Some(WorktreeFolders { path, git_dir, is_main: false })
        });
        Ok(main.into_iter().chain(added).collect())
    }

    /// The top of the main worktree, also when called from an added one; none in a bare repository
    /// with added worktrees.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn main_root(&self) -> Result<Option<PathBuf>> {
        if !self.is_added() {
            return Ok(Some(self.root.clone()));
        }
        let found = self.backend.main_root()?;
        Ok(found.map(|path| without_links(&path)))
    }

    /// Whether this is an added worktree and not the main one.
    pub fn is_added(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Adds a worktree at a commit, on no branch, and creates its parent folders. Must not be
    /// called twice at the same time.
    ///
    /// # Errors
    /// The error of `git`, for example when `path` exists; it is not touched then.
    pub fn add_worktree(&self, path: &Path, base: &str) -> Result<()> {
        let path = utf8(path)?;
        let add = ["worktree", "add", "--quiet", "--detach", "--", path, base];
        self.run_quietly(&add).with_context(|| format!("cannot add the worktree `{path}`"))
    }

    /// Locks a worktree, so that it is not removed or pruned. Does nothing if it is locked for the
    /// same reason.
    ///
    /// # Errors
    /// When it is locked for another reason; the error of `git`.
    pub fn lock_worktree(&self, path: &Path, why: &str) -> Result<()> {
        if self.worktree_at(path)?.locked.as_deref() == Some(why) {
            return Ok(());
        }
        self.run_quietly(&["worktree", "lock", "--reason", why, "--", utf8(path)?])
    }

    /// Unlocks a worktree. Does nothing if it is not locked.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn unlock_worktree(&self, path: &Path) -> Result<()> {
        if self.worktree_at(path)?.locked.is_none() {
            return Ok(());
        }
        self.run_quietly(&["worktree", "unlock", "--", utf8(path)?])
    }

    /// Makes git forget one worktree whose folder was deleted by hand.
    ///
    /// # Errors
    /// When the folder exists, when the worktree is locked; the error of `git`.
    pub fn forget_worktree(&self, path: &Path) -> Result<()> {
        let found = self.worktree_at(path)?;
        ensure!(found.missing, "the worktree `{}` still exists", path.display());
        // `git worktree prune` would affect all of them.
        self.run_quietly(&["worktree", "remove", "--", utf8(&found.path)?])
    }

    /// Removes a worktree and its folder, including ignored files.
    ///
    /// # Errors
    /// When it has changed or untracked files, when it is locked, when its commit is on no branch
    /// and under no other ref, and when it has submodules, whose commits exist nowhere else; the
    /// error of `git`.
    pub fn remove_worktree(&self, path: &Path) -> Result<()> {
        let found = self.worktree_at(path)?;
        if let (Some(head), None) = (&found.head, &found.branch) {
            ensure!(
                self.is_under(head, "refs/")?,
                "the commit {head} of the worktree `{}` is on no branch; make one with `git \
                 branch NAME {head}`",
                path.display()
            );
        }
        self.run_quietly(&["worktree", "remove", "--", utf8(&found.path)?])
    }

    /// Puts this worktree on `branch` at `base`. The branch is created, or moved from `old`, whose
    /// commits the caller has kept; if it points elsewhere by then, it is not moved. If HEAD is at
    /// `base` already, neither index nor files are read.
    ///
    /// The worktree must be [clean](Repo::settle_on): git carries a changed file over where both
    /// commits have the same version, and refuses where they differ. After a kill it may be called
    /// again, with the result of [`Repo::branch_room`] at that time.
    ///
    /// # Errors
    /// The error of `git`; in the main worktree; when another worktree uses the branch.
    pub fn switch(&self, branch: &str, base: &str, old: Option<&str>) -> Result<()> {
        self.must_be_added()?;
        let uses_branch = |tree: &Worktree| tree.path != self.root && tree.holds(branch);
        if old.is_some()
            && let Some(other) = self.worktrees()?.into_iter().find(uses_branch)
        {
            bail!("the branch `{branch}` is in use in `{}`", other.path.display());
        }
        let head = self.head()?;
        let (is_there, is_on) =
            (head.commit.as_deref() == Some(base), head.branch.as_deref() == Some(branch));
        if is_there && is_on {
            return Ok(());
        }
        if !is_there {
            self.detach_at(base)?;
        }
        let point = || {
            let name = format!("refs/heads/{branch}");
            // Zeros mean that the branch must not exist.
            let none = "0".repeat(base.len());
            let update = ["update-ref", "-m", MOVED, &name, base, old.unwrap_or(&none)];
            program::run(&self.root, &update)?;
            program::run(&self.root, &["symbolic-ref", "-m", MOVED, "HEAD", &name]).map(drop)
        };
        point().with_context(|| format!("cannot switch to the branch `{branch}`"))
    }

    /// Checks out a commit, with HEAD on no branch.
    pub(super) fn detach_at(&self, commit: &str) -> Result<()> {
        let head = self.head()?;
        if head.branch.is_none() && head.commit.as_deref() == Some(commit) {
            return Ok(());
        }
        self.run_quietly(&["checkout", "--quiet", "--detach", commit])
    }

    /// Detaches HEAD at `commit` and resets the index to it, without touching a file of the
    /// worktree. An operation in progress, such as a merge, is forgotten. Returns whether the
    /// worktree is clean against the commit: then the commit contains everything, and moving on
    /// loses nothing.
    ///
    /// # Errors
    /// The error of `git`; in the main worktree.
    pub fn settle_on(&self, commit: &str) -> Result<bool> {
        self.must_be_added()?;
        let was = self.head()?.commit;
        let settle = || -> Result<bool> {
            self.forget_unfinished()?;
            let detach = ["update-ref", "--no-deref", "-m", MOVED, "HEAD", commit];
            program::run(&self.root, &detach)?;
            if was.as_deref() == Some(commit) && self.codes()?.is_empty() {
                return Ok(true);
            }
            // Keeps the index entries of files that are the same in both.
            self.run_quietly(&["read-tree", "--reset", commit])?;
            Ok(self.codes()?.is_empty())
        };
        settle().with_context(|| format!("cannot settle the worktree `{}`", self.root.display()))
    }

    /// Makes git forget an operation in progress. Index and files stay.
    pub(super) fn forget_unfinished(&self) -> Result<()> {
        for (sign, arguments) in UNFINISHED {
            if self.git_dir.join(sign).exists() {
                self.run_quietly(arguments)?;
            }
        }
        Ok(())
    }

    /// Removes the lock files of a killed git in this added worktree: those of its index and HEAD,
    /// none of the repository. Returns their paths. Waits for a git that is still running here,
    /// since it outlives its parent.
    ///
    /// # Errors
    /// When that git does not end and there are locks or an operation in progress; in the main
    /// worktree.
    pub fn drop_locks(&self) -> Result<Vec<PathBuf>> {
        self.must_be_added()?;
        let since = Instant::now();
        let mut at_work = self.running_git();
        while at_work.is_some() && since.elapsed() < LAST_WORK {
            thread::sleep(Duration::from_millis(20));
            at_work = self.running_git();
        }
        let mut locks = Vec::new();
        lock_files(self.git_dir.clone(), 0, &mut locks);
        if let Some(process) = at_work {
            // A person may only be reading.
            ensure!(
                locks.is_empty() && self.unfinished().is_none(),
                "git is still running in `{}` (process {process})",
                self.root.display()
            );
        }
        locks.sort();
        for lock in &locks {
            fs::remove_file(lock).with_context(|| format!("cannot remove `{}`", lock.display()))?;
        }
        Ok(locks)
    }

    /// A running git process in this worktree, as far as `/proc` shows it.
    fn running_git(&self) -> Option<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()))
        });
        let works_here = |folder: &PathBuf| {
            let name = fs::read(folder.join("comm")).unwrap_or_default();
            name.starts_with(b"git")
                && fs::read_link(folder.join("cwd")).is_ok_and(|dir| dir.starts_with(&self.root))
        };
        processes.into_iter().find(|(_, folder)| works_here(folder)).map(|(id, _)| id)
    }

    /// # Errors
    /// In the main worktree, which belongs to a person.
    pub(super) fn must_be_added(&self) -> Result<()> {
        ensure!(
            self.is_added(),
            "`{}` is the main worktree, whose HEAD `ralph` does not move",
            self.root.display()
        );
        Ok(())
    }

    /// Runs git without touching submodules and without background maintenance.
    pub(super) fn run_quietly(&self, arguments: &[&str]) -> Result<()> {
        program::run(&self.root, &[QUIET, arguments].concat()).map(drop)
    }

    fn worktree_at(&self, path: &Path) -> Result<Worktree> {
        let path = without_links(path);
        let found = self.worktrees()?.into_iter().find(|tree| tree.path == path);
        found.with_context(|| format!("`{}` is not a worktree of this repository", path.display()))
    }
}

/// The settings of commands that move files.
pub(super) const QUIET: &[&str] =
    &["-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"];

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("`{}` is not valid UTF-8", path.display()))
}

/// Resolves symbolic links, also in a path whose end does not exist.
fn without_links(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(above), Some(name)) => without_links(above).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

/// The branches to which a rebase or a bisection will return.
fn branches_in_progress(admin: &Path) -> Vec<String> {
    let first = |file: &str| {
        let text = lossy(&fs::read(admin.join(file)).unwrap_or_default());
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    let rebased = ["rebase-merge/head-name", "rebase-apply/head-name"].map(first);
    let rebased = rebased.iter().filter(|name| name.starts_with("refs/heads/"));
    let mut busy: Vec<String> = rebased.map(|name| branch_name(name)).collect();
    let bisected = first("BISECT_START");
    if !bisected.is_empty() && !is_commit(&bisected) {
        busy.push(branch_name(&bisected));
    }
    busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::{
        BranchRoom,
        tests::{TestWorktrees, on, said, without_library},
    };

    fn place_of(repo: &Repo) -> (Option<CommitId>, Option<String>) {
        let head = repo.head().unwrap();
        (head.commit, head.branch)
    }

    /// The worktrees with libgit2 and without, which must be equal.
    fn list(repo: &Repo) -> Vec<Worktree> {
        let trees = repo.worktrees().unwrap();
        assert_eq!(trees, without_library(repo).worktrees().unwrap(), "libgit2 and git differ");
        trees
    }

    #[test]
    fn worktrees_are_listed_from_each_of_them() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        let (one, two) = (trees.add("1"), trees.add("deep/er/2"));
        trees.git(&one, &["checkout", "-q", "-b", "ralph/x"]);
        main.lock_worktree(two.root(), "used by \u{fc}").unwrap();
        for repo in [&main, &one, &two] {
            let found = list(repo);
            let paths: Vec<&Path> = found.iter().map(|tree| &*tree.path).collect();
            assert_eq!(paths, [main.root(), one.root(), two.root()]);
            assert_eq!(repo.main_root().unwrap().as_deref(), Some(main.root()));
            assert_eq!(found[0].branch.as_deref(), Some("main"));
            assert_eq!(found[1].branch.as_deref(), Some("ralph/x"));
            assert_eq!(found[2].locked.as_deref(), Some("used by \u{fc}"));
            assert_eq!((&found[2].branch, &found[0].locked), (&None, &None));
            assert!(found.iter().all(|tree| tree.head.as_ref() == Some(&trees.first)));
            assert!(!found.iter().any(|tree| tree.missing));
        }
        fs::remove_dir_all(two.root()).unwrap();
        assert!(list(&main)[2].missing && !list(&main)[1].missing);
        assert!(list(&main)[1].holds("ralph/x") && !list(&main)[2].holds("ralph/x"));
        trees.git(&one, &["checkout", "-q", "--orphan", "fresh"]);
        let fresh = &list(&main)[1];
        assert_eq!((&fresh.head, fresh.branch.as_deref()), (&None, Some("fresh")));
    }

    #[test]
    fn a_bare_repository_has_no_main_worktree() {
        let trees = TestWorktrees::new();
        let bare = trees.path("bare.git");
        trees.place.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        let linked = trees.path("linked");
        trees.place.git_in(&bare, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        let linked = Repo::discover(&linked).unwrap();
        assert_eq!(linked.main_root().unwrap(), None);
        assert_eq!(without_library(&linked).main_root().unwrap(), None);
        let found = list(&linked);
        assert_eq!((found.len(), found[0].path.as_path()), (1, linked.root()));
    }

    #[test]
    fn a_worktree_is_added_only_at_an_unused_path() {
        let trees = TestWorktrees::new();
        let added = trees.add("new/folders/1");
        assert_eq!(place_of(&added), on(&trees.first, None));
        assert!(added.is_added() && !trees.main().is_added());
        let taken = trees.path("taken");
        fs::create_dir_all(&taken).unwrap();
        fs::write(taken.join("mine"), "1").unwrap();
        let refused = said(trees.main().add_worktree(&taken, &trees.first));
        assert!(refused.contains("already exists"), "{refused}");
        assert_eq!(fs::read_to_string(taken.join("mine")).unwrap(), "1");
        assert_eq!(list(&trees.main()).len(), 2);
    }

    #[test]
    fn only_the_missing_worktree_is_forgotten() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        for name in ["1", "2", "3"] {
            trees.add(name);
        }
        let refused = said(main.forget_worktree(&trees.path("1")));
        assert!(refused.contains("still exists"), "{refused}");
        main.lock_worktree(&trees.path("3"), "keep").unwrap();
        // With the parent folder, so that nothing of the path exists.
        fs::remove_dir_all(trees.path("")).unwrap();
        main.forget_worktree(&trees.path("1")).unwrap();
        assert!(said(main.forget_worktree(&trees.path("3"))).contains("keep"));
        let left: Vec<PathBuf> = list(&main).into_iter().map(|tree| tree.path).collect();
        assert_eq!(left, [main.root().to_owned(), trees.path("2"), trees.path("3")]);
        main.add_worktree(&trees.path("1"), &trees.first).unwrap();
        let unknown = said(main.forget_worktree(&trees.path("4")));
        assert!(unknown.contains("is not a worktree of this repository"), "{unknown}");
    }

    #[test]
    fn worktrees_with_unsaved_work_are_not_removed() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        let one = trees.add("1");
        let refused = || said(main.remove_worktree(one.root()));
        fs::write(one.root().join("new"), "1").unwrap();
        assert!(refused().contains("modified or untracked"), "{}", refused());
        let lost = trees.commit(&one, "new", "1");
        assert!(refused().contains(&format!("the commit {lost} of the worktree")));
        trees.git(&one, &["update-ref", "refs/ralph/x/1", &lost]);
        main.lock_worktree(one.root(), "used").unwrap();
        main.lock_worktree(one.root(), "used").unwrap();
        assert!(said(main.lock_worktree(one.root(), "other")).contains("already locked"));
        assert!(refused().contains("used"), "{}", refused());
        main.unlock_worktree(one.root()).unwrap();
        main.unlock_worktree(one.root()).unwrap();
        main.remove_worktree(one.root()).unwrap();
        assert!(!one.root().exists());
        assert_eq!(list(&main).len(), 1);
    }

    #[test]
    fn a_worktree_switches_between_branches() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestWorktrees::with(options) else { continue };
            let second = trees.place.commit("b", "2\n", "Second");
            let found = trees.add("1");
            for (way, slot) in [("a", without_library(&found)), ("b", found)] {
                let [x, y] = ["x", "y"].map(|name| format!("ralph/{way}{name}"));
                slot.switch(&x, &second, None).unwrap();
                assert_eq!(place_of(&slot), on(&second, Some(&x)));
                assert!(slot.root().join("b").exists() && slot.dirty().unwrap().is_empty());
                slot.switch(&x, &second, None).unwrap();
                // HEAD only, because the commit is the same.
                slot.switch(&y, &second, None).unwrap();
                assert_eq!(place_of(&slot), on(&second, Some(&y)));
                // Back to an existing branch, moved to the first commit.
                slot.switch(&x, &trees.first, Some(&second)).unwrap();
                assert_eq!(place_of(&slot), on(&trees.first, Some(&x)));
                assert!(!slot.root().join("b").exists() && slot.dirty().unwrap().is_empty());
                assert_eq!(trees.git(&slot, &["rev-parse", &y]), second);
                let tracking =
                    trees.place.try_git(slot.root(), &["config", "--get-regexp", "^branch"]);
                assert!(!tracking.status.success(), "nothing is noted on the branch");
                // A branch that has moved meanwhile, or was created, is not moved.
                slot.switch(&y, &trees.first, Some(&trees.first)).unwrap_err();
                slot.switch(&y, &trees.first, None).unwrap_err();
                assert_eq!(trees.git(&slot, &["rev-parse", &y]), second);
            }
        }
    }

    #[test]
    fn switching_loses_neither_files_nor_branches() {
        let trees = TestWorktrees::new();
        let second = trees.place.commit("a", "2\n", "Second");
        let (one, two) = (trees.add("1"), trees.add("2"));
        fs::write(one.root().join("a"), "mine\n").unwrap();
        let refused = said(one.switch("ralph/x", &second, None));
        assert!(refused.contains("would be overwritten"), "{refused}");
        assert_eq!(fs::read_to_string(one.root().join("a")).unwrap(), "mine\n");
        assert_eq!(one.branch_room("ralph/x").unwrap(), BranchRoom::Free);
        two.switch("ralph/x", &second, None).unwrap();
        trees.git(&one, &["checkout", "-q", "--", "a"]);
        let refused = said(one.switch("ralph/x", &trees.first, Some(&second)));
        assert!(refused.contains("is in use in"), "{refused}");
        let refused = said(trees.main().switch("ralph/y", &second, None));
        assert!(refused.contains("main worktree"), "{refused}");
        assert!(trees.main().settle_on(&second).is_err() && trees.main().drop_locks().is_err());
    }

    #[test]
    fn settling_on_a_pin_cleans_a_worktree_without_touching_files() {
        let trees = TestWorktrees::new();
        let slot = trees.add("1");
        let root = slot.root();
        slot.switch("ralph/x", &trees.first, None).unwrap();
        // In the middle of a merge, with a conflict, a staged file and a new one.
        let mine = trees.commit(&slot, "a", "mine\n");
        trees.git(&slot, &["checkout", "-q", "-b", "other", &trees.first]);
        trees.commit(&slot, "a", "other\n");
        trees.place.try_git(root, &["merge", "-q", "ralph/x"]);
        fs::write(root.join("staged"), "1\n").unwrap();
        trees.git(&slot, &["add", "staged"]);
        fs::write(root.join("new"), "1\n").unwrap();
        let before = fs::read_to_string(root.join("a")).unwrap();
        assert!(before.contains("<<<<<<<"), "{before}");
        assert!(!slot.settle_on(&trees.first).unwrap(), "there is more here than that");
        let changed: Vec<String> = slot.dirty().unwrap().into_keys().collect();
        let left = crate::adapters::git::PinSource {
            base: None,
            branch: None,
            began: i64::MAX,
            changed: &changed,
        };
        let scratch = trees.path("scratch");
        let pin = slot.pin("refs/ralph/x/1", "Left\n", left, &scratch).unwrap().commit.unwrap();
        assert!(slot.settle_on(&pin).unwrap());
        assert_eq!(place_of(&slot), on(&pin, None));
        assert_eq!(slot.unfinished(), None);
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), before);
        slot.switch("ralph/y", &trees.first, None).unwrap();
        assert!(!root.join("new").exists() && slot.dirty().unwrap().is_empty());
        assert_eq!(trees.git(&slot, &["rev-parse", "ralph/x"]), mine);
    }

    #[test]
    fn settling_forgets_operations_in_progress() {
        let trees = TestWorktrees::new();
        let slot = trees.add("1");
        let other = trees.commit(&slot, "a", "other\n");
        let begin: &[&[&str]] = &[
            &["rebase", "--merge", &other],
            &["rebase", "--apply", &other],
            &["cherry-pick", &other],
            &["cherry-pick", &other, &other],
            &["revert", "--no-edit", &trees.first],
            &["merge", &other],
        ];
        for begin in begin {
            slot.settle_on(&trees.first).unwrap();
            trees.git(&slot, &["checkout", "-q", "-f", "-B", "work", &trees.first]);
            trees.commit(&slot, "a", "mine\n");
            trees.place.try_git(slot.root(), begin);
            assert!(slot.unfinished().is_some(), "{begin:?}");
            slot.settle_on(&trees.first).unwrap();
            assert_eq!(slot.unfinished(), None, "{begin:?}");
            assert_eq!(list(&slot)[1].busy, [""; 0], "{begin:?}");
        }
        trees.git(&slot, &["checkout", "-q", "-f", "work"]);
        trees.git(&slot, &["bisect", "start"]);
        assert_eq!(list(&slot)[1].busy, ["work"]);
        slot.settle_on(&trees.first).unwrap();
        assert_eq!(list(&slot)[1].busy, [""; 0]);
    }

    #[test]
    fn locks_are_removed_once_no_git_is_running() {
        let trees = TestWorktrees::new();
        let slot = trees.add("1");
        let admin = slot.git_dir.clone();
        trees.main().lock_worktree(slot.root(), "used").unwrap();
        assert!(slot.drop_locks().unwrap().is_empty());
        for name in ["index.lock", "HEAD.lock"] {
            fs::write(admin.join(name), "").unwrap();
        }
        let foreign = trees.place.top.join(".git/index.lock");
        fs::write(&foreign, "").unwrap();
        // An alias that runs for a while, as a child of a git.
        let mut living = std::process::Command::new("git")
            .args(["-c", "alias.wait=!sleep 0.3", "wait"])
            .current_dir(slot.root())
            .spawn()
            .unwrap();
        while slot.running_git().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(
            slot.drop_locks().unwrap(),
            ["HEAD.lock", "index.lock"].map(|it| admin.join(it))
        );
        assert!(living.try_wait().unwrap().is_some(), "the lock of a git at work was removed");
        assert!(foreign.exists());
        assert_eq!(list(&slot)[1].locked.as_deref(), Some("used"));
    }
}
