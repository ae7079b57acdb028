//! The worktrees of a repository: which there are, and how one is taken from work to work.
//!
//! Git is never forced. What lies in the way of a move is first kept by whoever moves
//! ([`Repo::pin`]); then the worktree is [settled](Repo::settle_on) on what was kept, which makes
//! it clean without a file being touched, and an ordinary checkout goes on from there.
//!
//! What moves HEAD or writes an index works in added worktrees only: the main one is a person's.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{Head, Repo, branch_name, is_commit, lock_files, lossy, program};

/// What was begun and not finished, by the file that shows it, and how git forgets that without
/// touching a file of the worktree.
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

/// A git that is still at work in a tree whose runner was killed gets this long to end.
const LAST_WORK: Duration = Duration::from_secs(10);

/// What the reflogs say of moves of HEAD and of branches.
const MOVED: &str = "ralph: next work";

/// One worktree of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Its top, without symbolic links.
    pub path: PathBuf,
    /// The full id of its commit; none before the first, and where its HEAD cannot be read.
    pub head: Option<String>,
    /// The branch it is on, without `refs/heads/`.
    pub branch: Option<String>,
    /// The branches that a rebase or a bisection in it will come back to. HEAD does not say them.
    pub busy: Vec<String>,
    /// Why it must not be removed, if it is locked; the reason may be empty.
    pub locked: Option<String>,
    /// Its folder is gone, and git does not know yet.
    pub missing: bool,
}

/// Where the files of a worktree are.
pub(super) struct WorktreeFolders {
    /// Its top, without symbolic links.
    pub(super) path: PathBuf,
    /// Its git directory.
    pub(super) git_dir: PathBuf,
    is_main: bool,
}

impl Worktree {
    /// Whether a branch is at work here, so that nobody else should move it. A folder that was
    /// deleted has nothing at work, unless it is locked: then it may only be out of reach.
    pub fn holds(&self, branch: &str) -> bool {
        let is_here = !self.missing || self.locked.is_some();
        is_here && (self.is_on(branch) || self.busy.iter().any(|busy| busy == branch))
    }

    /// Whether HEAD is on this branch here.
    pub fn is_on(&self, branch: &str) -> bool {
        self.branch.as_deref() == Some(branch)
    }
}

impl Repo {
    /// All worktrees, the main one first, unless the repository is bare. Reads some small files
    /// for each.
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
                busy: busy_in(&git_dir),
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

    /// The top of the main worktree, also when asked from an added one; none in a repository that
    /// is bare otherwise.
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

    /// Adds a worktree at a commit, on no branch, and the folders above it. Not to be called by
    /// two at once.
    ///
    /// # Errors
    /// In git's own words, above all when there is something at `path`, which is not touched.
    pub fn add_worktree(&self, path: &Path, base: &str) -> Result<()> {
        let path = text(path)?;
        let add = ["worktree", "add", "--quiet", "--detach", "--", path, base];
        self.quietly(&add).with_context(|| format!("cannot add the worktree `{path}`"))
    }

    /// Keeps a worktree from being removed or forgotten, by anybody. Nothing happens if it is
    /// locked for this very reason.
    ///
    /// # Errors
    /// When it is locked for another reason, and in git's own words.
    pub fn lock_worktree(&self, path: &Path, why: &str) -> Result<()> {
        if self.worktree_at(path)?.locked.as_deref() == Some(why) {
            return Ok(());
        }
        self.quietly(&["worktree", "lock", "--reason", why, "--", text(path)?])
    }

    /// The other way round. Nothing happens if it is not locked.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn unlock_worktree(&self, path: &Path) -> Result<()> {
        if self.worktree_at(path)?.locked.is_none() {
            return Ok(());
        }
        self.quietly(&["worktree", "unlock", "--", text(path)?])
    }

    /// Has git forget a worktree whose folder was deleted by hand, and no other one.
    ///
    /// # Errors
    /// When the folder is there, when the worktree is locked, and in git's own words.
    pub fn forget_worktree(&self, path: &Path) -> Result<()> {
        let found = self.worktree_at(path)?;
        ensure!(found.missing, "the worktree `{}` is still there", path.display());
        // `git worktree prune` would be about all of them.
        self.quietly(&["worktree", "remove", "--", text(&found.path)?])
    }

    /// Removes a worktree with its folder. What git ignores in it goes as well.
    ///
    /// # Errors
    /// When anything in it is changed or untracked, when it is locked, when its commit is on no
    /// branch and under no other ref, and when it has submodules, whose commits are nowhere else;
    /// mostly in git's own words.
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
        self.quietly(&["worktree", "remove", "--", text(&found.path)?])
    }

    /// Puts this worktree on `branch` at `base`. The branch is made, or moved there from `old`,
    /// whose commits the caller has kept; if it is anywhere else by then, it stays there. Where HEAD
    /// is at `base` already, no process is started and neither index nor files are read.
    ///
    /// The worktree must be [clean](Repo::settle_on): git takes a changed file along where both
    /// commits have the same, and refuses where they differ. May be called again after it was
    /// killed, with what [`Repo::branch_room`] says then.
    ///
    /// # Errors
    /// In git's own words; in the main worktree; when another worktree has the branch.
    pub fn switch(&self, branch: &str, base: &str, old: Option<&str>) -> Result<()> {
        self.must_be_added()?;
        let is_at_work = |tree: &Worktree| tree.path != self.root && tree.holds(branch);
        if old.is_some()
            && let Some(other) = self.worktrees()?.into_iter().find(is_at_work)
        {
            bail!("the branch `{branch}` is at work in `{}`", other.path.display());
        }
        let head = self.head()?;
        let (is_there, is_on) =
            (head.commit.as_deref() == Some(base), head.branch.as_deref() == Some(branch));
        if is_there && is_on {
            return Ok(());
        }
        if !is_there {
            self.stand_at(base)?;
        }
        let point = || {
            let name = format!("refs/heads/{branch}");
            // Zeros say that there must not be one.
            let none = "0".repeat(base.len());
            let update = ["update-ref", "-m", MOVED, &name, base, old.unwrap_or(&none)];
            program::run(&self.root, &update)?;
            program::run(&self.root, &["symbolic-ref", "-m", MOVED, "HEAD", &name]).map(drop)
        };
        point().with_context(|| format!("cannot go to the branch `{branch}`"))
    }

    /// HEAD at a commit and on no branch, and the files of it.
    pub(super) fn stand_at(&self, commit: &str) -> Result<()> {
        let head = self.head()?;
        if head.branch.is_none() && head.commit.as_deref() == Some(commit) {
            return Ok(());
        }
        self.quietly(&["checkout", "--quiet", "--detach", commit])
    }

    /// Puts HEAD on no branch at `commit`, with the index of it, and touches no file of the work
    /// tree. A merge, rebase or the like that was begun here is forgotten. Says whether the work
    /// tree is clean against the commit: then it has all that is here, and nothing is lost by going
    /// on to another one.
    ///
    /// # Errors
    /// In git's own words; in the main worktree.
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
            // Keeps what the index knows of files that are the same in both.
            self.quietly(&["read-tree", "--reset", commit])?;
            Ok(self.codes()?.is_empty())
        };
        settle().with_context(|| format!("cannot settle `{}`", self.root.display()))
    }

    /// Has git forget a merge, rebase or the like that was begun here. Index and files stay.
    pub(super) fn forget_unfinished(&self) -> Result<()> {
        for (sign, arguments) in UNFINISHED {
            if self.git_dir.join(sign).exists() {
                self.quietly(arguments)?;
            }
        }
        Ok(())
    }

    /// Removes the lock files that a git which was killed has left in this added worktree: those
    /// of its own index and HEAD, none of the repository's. Says which there were. A git that is
    /// still at work here is waited for, since it outlives whoever started it.
    ///
    /// # Errors
    /// When it does not end and has locks or something unfinished; in the main worktree.
    pub fn drop_locks(&self) -> Result<Vec<PathBuf>> {
        self.must_be_added()?;
        let since = Instant::now();
        let mut at_work = self.git_at_work();
        while at_work.is_some() && since.elapsed() < LAST_WORK {
            thread::sleep(Duration::from_millis(20));
            at_work = self.git_at_work();
        }
        let mut locks = Vec::new();
        lock_files(self.git_dir.clone(), 0, &mut locks);
        if let Some(process) = at_work {
            // A person may only be looking.
            ensure!(
                locks.is_empty() && self.unfinished().is_none(),
                "git is still at work in `{}` (process {process})",
                self.root.display()
            );
        }
        locks.sort();
        for lock in &locks {
            fs::remove_file(lock).with_context(|| format!("cannot remove `{}`", lock.display()))?;
        }
        Ok(locks)
    }

    /// A process of git that works in this tree, as far as that can be seen.
    fn git_at_work(&self) -> Option<u32> {
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
    /// In the main worktree, which is a person's.
    pub(super) fn must_be_added(&self) -> Result<()> {
        ensure!(
            self.is_added(),
            "`{}` is the main worktree, which only people take elsewhere",
            self.root.display()
        );
        Ok(())
    }

    /// Runs git so that submodules stay as they are and no other work begins behind it.
    pub(super) fn quietly(&self, arguments: &[&str]) -> Result<()> {
        program::run(&self.root, &[QUIET, arguments].concat()).map(drop)
    }

    fn worktree_at(&self, path: &Path) -> Result<Worktree> {
        let path = without_links(path);
        let found = self.worktrees()?.into_iter().find(|tree| tree.path == path);
        found.with_context(|| format!("`{}` is no worktree of this repository", path.display()))
    }
}

/// Settings for whatever moves files.
pub(super) const QUIET: &[&str] =
    &["-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"];

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("`{}` is no UTF-8", path.display()))
}

/// Also of a path whose end is not there.
fn without_links(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(above), Some(name)) => without_links(above).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

/// The branches that a rebase or a bisection there will come back to.
fn busy_in(admin: &Path) -> Vec<String> {
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

    fn place_of(repo: &Repo) -> (Option<String>, Option<String>) {
        let head = repo.head().unwrap();
        (head.commit, head.branch)
    }

    /// With libgit2 and without, which must say the same.
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
    fn a_repository_with_a_bare_middle_has_no_main_tree() {
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
    fn a_worktree_is_added_only_where_there_is_nothing() {
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
    fn only_the_one_that_is_gone_is_forgotten() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        for name in ["1", "2", "3"] {
            trees.add(name);
        }
        let refused = said(main.forget_worktree(&trees.path("1")));
        assert!(refused.contains("is still there"), "{refused}");
        main.lock_worktree(&trees.path("3"), "keep").unwrap();
        // With the folder above it, so that nothing of the path is there.
        fs::remove_dir_all(trees.path("")).unwrap();
        main.forget_worktree(&trees.path("1")).unwrap();
        assert!(said(main.forget_worktree(&trees.path("3"))).contains("keep"));
        let left: Vec<PathBuf> = list(&main).into_iter().map(|tree| tree.path).collect();
        assert_eq!(left, [main.root().to_owned(), trees.path("2"), trees.path("3")]);
        main.add_worktree(&trees.path("1"), &trees.first).unwrap();
        let unknown = said(main.forget_worktree(&trees.path("4")));
        assert!(unknown.contains("is no worktree of this repository"), "{unknown}");
    }

    #[test]
    fn what_somebody_could_miss_is_not_removed() {
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
    fn a_worktree_goes_from_branch_to_branch() {
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
                // Where it is already: HEAD only.
                slot.switch(&y, &second, None).unwrap();
                assert_eq!(place_of(&slot), on(&second, Some(&y)));
                // Back to one that is there, from where it is to the beginning.
                slot.switch(&x, &trees.first, Some(&second)).unwrap();
                assert_eq!(place_of(&slot), on(&trees.first, Some(&x)));
                assert!(!slot.root().join("b").exists() && slot.dirty().unwrap().is_empty());
                assert_eq!(trees.git(&slot, &["rev-parse", &y]), second);
                let tracking =
                    trees.place.try_git(slot.root(), &["config", "--get-regexp", "^branch"]);
                assert!(!tracking.status.success(), "nothing is noted on the branch");
                // It has moved meanwhile, or came to be: it stays there.
                slot.switch(&y, &trees.first, Some(&trees.first)).unwrap_err();
                slot.switch(&y, &trees.first, None).unwrap_err();
                assert_eq!(trees.git(&slot, &["rev-parse", &y]), second);
            }
        }
    }

    #[test]
    fn nobody_loses_a_file_or_a_branch_to_a_switch() {
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
        assert!(refused.contains("is at work in"), "{refused}");
        let refused = said(trees.main().switch("ralph/y", &second, None));
        assert!(refused.contains("main worktree"), "{refused}");
        assert!(trees.main().settle_on(&second).is_err() && trees.main().drop_locks().is_err());
    }

    #[test]
    fn what_was_kept_makes_a_worktree_clean_and_nothing_is_touched() {
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
    fn whatever_was_begun_is_forgotten_when_it_settles() {
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
    fn locks_of_the_dead_are_removed_and_those_of_the_living_waited_for() {
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
        while slot.git_at_work().is_none() {
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
