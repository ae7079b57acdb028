//! HEAD: how a slot moves on to other work, and how the checkout of an attempt is put back.
//!
//! Git is never forced. Before a slot moves, the caller keeps its content ([`Pins::pin`]); then the
//! slot is [settled](Slot::settle_on) on the kept work, which makes it clean without touching a
//! file, and an ordinary checkout continues from there. In a checkout no file with changes is
//! overwritten: git switches only where that is safe, and otherwise just HEAD and the index are
//! moved, so that the files of the attempt become uncommitted changes.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    CheckoutHead, Pins, Repo, Slot,
    control::{exclude, pattern},
    is_commit, lock_files, lossy, program,
    slot_settings::remove_all,
};
use crate::{core::commit_id::CommitId, regular_file};

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

/// The settings of commands that move files.
pub(super) const QUIET: &[&str] =
    &["-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"];

impl Slot<'_> {
    /// Checks out a commit in a slot, with HEAD on no branch.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn move_to(&self, commit: &str) -> Result<()> {
        self.must_be_slot()?;
        self.detach_at(commit)
    }

    /// Checks out a commit, with HEAD on no branch. A folder that loses all its files goes as a
    /// whole, with its ignored files: half of a virtualenv is none.
    pub(super) fn detach_at(&self, commit: &str) -> Result<()> {
        let head = self.head()?;
        if head.branch.is_none() && head.commit.as_deref() == Some(commit) {
            return Ok(());
        }
        self.run_quietly(&["checkout", "--quiet", "--detach", commit])?;
        let Some(before) = head.commit else { return Ok(()) };
        let changed = self.changed_entries(Some(&before), commit)?.into_iter();
        let gone = changed.filter(|(_, [_, now])| *now == 0).map(|(path, _)| path);
        for path in gone {
            if let Some(top) = self.untracked_folder(commit, &path)? {
                remove_all(&self.root.join(top)).context("remove the rest of a folder")?;
            }
        }
        Ok(())
    }

    /// The topmost folder above a path that has no file in a commit.
    fn untracked_folder<'p>(&self, commit: &str, path: &'p str) -> Result<Option<&'p str>> {
        for (at, _) in path.match_indices('/') {
            if self.entries(commit, &[&path[..at]])? == [None] {
                return Ok(Some(&path[..at]));
            }
        }
        Ok(None)
    }

    /// Hides the folders of these uncommitted new files from git in this slot, until it is started
    /// again: setup output is not the work of an agent.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn hide(&self, paths: &[String]) -> Result<()> {
        self.must_be_slot()?;
        let Some(head) = self.head()?.commit else { return Ok(()) };
        let mut patterns = BTreeSet::new();
        for path in paths {
            if self.entries(&head, &[path])? == [None] {
                patterns.insert(pattern(self.untracked_folder(&head, path)?.unwrap_or(path)));
            }
        }
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        exclude(&self.git_dir, &patterns)
    }

    /// Detaches HEAD at `commit` and resets the index to it, without touching a file of the
    /// worktree. An operation in progress, such as a merge, is forgotten. Returns whether the
    /// worktree is clean against the commit: then the commit contains everything, and moving on
    /// loses nothing.
    ///
    /// # Errors
    /// The error of `git`; outside of a slot.
    pub fn settle_on(&self, commit: &str) -> Result<bool> {
        self.must_be_slot()?;
        let was = self.head()?.commit;
        let settle = || -> Result<bool> {
            self.forget_unfinished()?;
            self.point_head(None, Some(commit), MOVED)?;
            if was.as_deref() == Some(commit) && self.codes()?.is_empty() {
                return Ok(true);
            }
            // Keeps the index entries of files that are the same in both.
            self.run_quietly(&["read-tree", "--reset", commit])?;
            Ok(self.codes()?.is_empty())
        };
        settle().with_context(|| format!("cannot settle the slot `{}`", self.root.display()))
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

    /// Removes the lock files of a killed git in this slot: those of its index and HEAD,
    /// none of the repository. Returns their paths. Waits for a git that is still running here,
    /// since it outlives its parent.
    ///
    /// # Errors
    /// When that git does not end and there are locks or an operation in progress; in the main
    /// worktree.
    pub fn drop_locks(&self) -> Result<Vec<PathBuf>> {
        self.must_be_slot()?;
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

    /// A running git process in this slot, as far as `/proc` shows it.
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
}

impl Repo {
    /// Runs git without touching submodules and without background maintenance.
    pub(super) fn run_quietly(&self, arguments: &[&str]) -> Result<()> {
        program::run(&self.root, &[QUIET, arguments].concat()).map(drop)
    }

    /// Points HEAD to a ref, or to a commit and to no branch. Index and files stay.
    pub(super) fn point_head(
        &self,
        name: Option<&str>,
        commit: Option<&str>,
        why: &str,
    ) -> Result<()> {
        match (name, commit) {
            (Some(name), _) => {
                program::run(&self.root, &["symbolic-ref", "-m", why, "HEAD", name]).map(drop)
            }
            (None, Some(commit)) => {
                let update = ["update-ref", "--no-deref", "-m", why, "HEAD", commit];
                program::run(&self.root, &update).map(drop)
            }
            (None, None) => bail!("HEAD was at no commit"),
        }
    }

    /// Makes the index that of a commit, or an empty one. It notes which files are unchanged.
    pub(super) fn reset_index(&self, commit: Option<&str>) -> Result<()> {
        match commit {
            Some(commit) => self.run_quietly(&["read-tree", "--reset", commit])?,
            None => self.run_quietly(&["read-tree", "--empty"])?,
        }
        // Exits with 1 where files differ, as expected.
        let refresh = ["update-index", "-q", "--refresh"];
        program::run_raw(&self.root, &[QUIET, &refresh].concat(), &[]).map(drop)
    }
}

/// The reflog message.
const BACK: &str = "ralph: put back";

/// Where HEAD was.
#[derive(Clone, Copy, Debug)]
pub struct HeadPlace<'a> {
    /// The branch; none if HEAD was detached.
    pub branch: Option<&'a str>,
    /// The commit; none on a branch without one.
    pub commit: Option<&'a str>,
}

impl HeadPlace<'_> {
    /// The full name of the branch.
    fn branch_ref(&self) -> Option<String> {
        self.branch.map(|branch| format!("refs/heads/{branch}"))
    }
}

impl Repo {
    /// The branch that HEAD is on, or that an unfinished rebase returns to; none if there is neither.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn branch_in_use(&self) -> Result<Option<String>> {
        let rebased = |folder: &&str| {
            let file = self.git_dir.join(folder).join("head-name");
            let name = regular_file::read_to_string(&file).ok()?;
            name.trim().strip_prefix("refs/heads/").map(str::to_owned)
        };
        let branch = self.head()?.branch;
        Ok(branch.or_else(|| ["rebase-merge", "rebase-apply"].iter().find_map(rebased)))
    }
}

impl CheckoutHead<'_> {
    /// Whether HEAD has left a place: it is on another branch, or does not descend from the commit.
    /// An unfinished rebase has left nothing, because it returns to its branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_left(&self, place: HeadPlace<'_>) -> Result<bool> {
        let head = self.head()?;
        if head.branch.as_deref() != place.branch {
            return Ok(self.branch_in_use()?.as_deref() != place.branch);
        }
        Ok(self.unfinished().is_none() && !self.is_at_or_after(place, head.commit.as_deref())?)
    }

    /// When HEAD was last moved, according to its files.
    pub fn head_moved_at(&self) -> Option<SystemTime> {
        let files = ["HEAD", "logs/HEAD"].map(|name| self.git_dir.join(name));
        let moved = |file: PathBuf| fs::metadata(file).and_then(|found| found.modified()).ok();
        files.into_iter().filter_map(moved).max()
    }

    /// Restores files from a commit, and leaves the index unchanged.
    ///
    /// # Errors
    /// The error of `git`, for example for a file that is not in the commit.
    pub fn restore_files(&self, commit: &str, paths: &[&str]) -> Result<()> {
        let restore = ["--literal-pathspecs", "restore", "--source", commit, "--worktree", "--"];
        program::run(&self.root, &[&restore[..], paths].concat()).map(drop)
    }

    /// Puts HEAD back to a place that it has left. The branch goes back to the commit if it does not
    /// descend from it any more. Returns the commit of HEAD. If uncommitted changes are in the way,
    /// those of the file `own` are given up; the caller writes it again.
    ///
    /// # Errors
    /// The error of `git`; an unfinished operation; changed files in the way where moving HEAD alone
    /// would turn the work of others into changes that undo it.
    pub fn return_head(&self, place: HeadPlace<'_>, own: Option<&str>) -> Result<CommitId> {
        if let Some(what) = self.unfinished() {
            bail!("{what} is unfinished");
        }
        let head = self.head()?;
        let is_on_it = head.branch.as_deref() == place.branch;
        if let (Some(branch), Some(name), Some(commit)) =
            (place.branch, place.branch_ref(), place.commit)
            && !is_on_it
            && !self.is_at_or_after(place, self.branch(branch)?.as_deref())?
        {
            program::move_ref(&self.root, &name, commit, BACK)?;
        }
        let check_out = ["checkout", "--no-guess", "--no-overwrite-ignore"];
        let arguments = match (place.branch, place.commit) {
            (Some(_), Some(commit)) if is_on_it => vec!["reset", "--keep", commit],
            (Some(branch), _) => [&check_out[..], &[branch, "--"]].concat(),
            (None, Some(commit)) => [&check_out[..], &["--detach", commit, "--"]].concat(),
            (None, None) => bail!("HEAD was at no commit"),
        };
        let mut refused = self.try_move(&arguments)?;
        if refused.is_some()
            && let (Some(own), Some(commit)) = (own, &head.commit)
            && self.entry(commit, own)?.is_some()
        {
            self.commits().reset_file(commit, own)?;
            refused = self.try_move(&arguments)?;
        }
        if let Some(why) = refused {
            // Only the attempt's changes may become uncommitted.
            let target = match place.branch {
                Some(branch) if !is_on_it => self.branch(branch)?,
                _ => place.commit.map(CommitId::from),
            };
            let is_on_top = match (&target, &head.commit) {
                (Some(target), Some(head)) if is_on_it => self.replaces(target, head)?,
                (Some(target), Some(head)) => self.is_ancestor(target, head)?,
                _ => false,
            };
            let Some(target) = target.filter(|_| is_on_top) else { return Err(why) };
            if let Some(name) = place.branch_ref() {
                program::move_ref(&self.root, &name, &target, BACK)?;
            }
            self.move_head_only(place, Some(&target))?;
        }
        self.head()?.commit.context("HEAD is at no commit")
    }

    /// Puts HEAD, its branch and the index back to a place without reading the commits in between,
    /// which git may be unable to. No file changes.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn take_back(&self, place: HeadPlace<'_>) -> Result<()> {
        match (place.branch_ref(), place.commit) {
            (Some(name), Some(commit)) => {
                program::move_ref(&self.root, &name, commit, BACK)?;
            }
            (Some(name), None) => {
                program::run(&self.root, &["update-ref", "-d", &name])?;
            }
            (None, _) => {}
        }
        self.move_head_only(place, place.commit)
    }

    /// Like [`CheckoutHead::take_back`] if HEAD is elsewhere; then writes the files of the commit as they are
    /// in it, except those of `left`, which were changed there before.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn take_back_with_files(&self, place: HeadPlace<'_>, left: &[String]) -> Result<()> {
        let (head, Some(commit)) = (self.head()?, place.commit) else { return Ok(()) };
        if head.branch.as_deref() == place.branch && head.commit.as_deref() == place.commit {
            return Ok(());
        }
        self.take_back(place)?;
        let mut paths = Vec::new();
        for path in self.dirty()?.into_keys().filter(|path| !left.contains(path)) {
            if self.entry(commit, &path)?.is_some() {
                paths.push(path);
            }
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        if paths.is_empty() { Ok(()) } else { self.restore_files(commit, &paths) }
    }

    /// Returns the first error that git finds when it reads every object of the commits since
    /// `base`, also those that another commit of the repository would need.
    ///
    /// # Errors
    /// `git` cannot be run, or exceeds its limit.
    pub fn damage_since(&self, base: Option<&str>) -> Result<Option<String>> {
        let head = program::answer(&self.root, &["rev-parse", "-q", "--verify", "HEAD"])?;
        let Some(head) = head.filter(|head| Some(head.as_str()) != base) else {
            return Ok(None);
        };
        // libgit2 waits without end for the rest of a truncated object.
        let list = ["rev-list", "--objects", "--verify-objects", "--quiet", &head];
        let known: Vec<&str> = base.into_iter().flat_map(|base| ["--not", base]).collect();
        let output = program::run_raw(&self.root, &[&list[..], &known].concat(), &[])?;
        let said = lossy(&output.stderr);
        let errors = said.lines().filter_map(|line| {
            line.strip_prefix("error: ").or_else(|| line.strip_prefix("fatal: "))
        });
        let names = |line: &&str| line.split(|c: char| !c.is_ascii_hexdigit()).any(is_commit);
        let first = errors.clone().find(names).or_else(|| errors.clone().next());
        let failed = (!output.status.success()).then_some("`git rev-list` failed");
        Ok(first.or(failed).map(str::to_owned))
    }

    fn is_at_or_after(&self, place: HeadPlace<'_>, commit: Option<&str>) -> Result<bool> {
        match (place.commit, commit) {
            (None, _) => Ok(true),
            (Some(_), None) => Ok(false),
            (Some(base), Some(commit)) => self.has_ancestor(commit, base),
        }
    }

    /// Whether `head` has another version of the last commit `target`, as after `git commit --amend`.
    fn replaces(&self, target: &str, head: &str) -> Result<bool> {
        let Some(parent) = program::commit(&self.root, &format!("{target}^"))? else {
            return Ok(false);
        };
        let now = self.differing(Some(&parent), head)?;
        let was = self.differing(Some(&parent), target)?;
        Ok(self.is_ancestor(&parent, head)? && was.iter().all(|path| now.contains(path)))
    }

    /// Runs a command that moves HEAD with its files. Returns the error if git refused.
    fn try_move(&self, arguments: &[&str]) -> Result<Option<anyhow::Error>> {
        let (command, rest) = arguments.split_first().context("a command")?;
        let arguments = [QUIET, &[command, "--quiet"], rest].concat();
        let output = program::run_raw(&self.root, &arguments, &[])?;
        Ok((!output.status.success()).then(|| program::failed(&[command], &output)))
    }

    /// Points HEAD to the place, and makes the index that of the commit.
    fn move_head_only(&self, place: HeadPlace<'_>, commit: Option<&str>) -> Result<()> {
        self.point_head(place.branch_ref().as_deref(), commit, BACK)?;
        self.reset_index(commit)
    }
}

impl Pins<'_> {
    /// Keeps a commit under the ref `name`, unless that ref already contains it.
    ///
    /// # Errors
    /// The error of `git`; other work is kept there.
    pub fn keep_commit(&self, name: &str, commit: &str) -> Result<()> {
        match self.commit_of(name)? {
            Some(kept) if self.is_ancestor(commit, &kept)? => Ok(()),
            Some(_) => bail!("`{name}` has other work"),
            None => self.keep(name, commit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::{TestRepository, TestSlots, on, said};

    #[test]
    fn settling_on_a_pin_cleans_a_worktree_without_touching_files() {
        let trees = TestSlots::new();
        let slot = trees.add("1");
        let root = slot.root();
        trees.git(&slot, &["checkout", "-q", "-b", "ralph/x"]);
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
        assert!(!slot.slot().settle_on(&trees.first).unwrap(), "there is more here than that");
        let changed: Vec<String> = slot.dirty().unwrap().into_keys().collect();
        let left = crate::adapters::git::PinSource {
            base: None,
            branch: None,
            began: None,
            changed: &changed,
        };
        let scratch = trees.path("scratch");
        let pin =
            slot.pins().pin("refs/ralph/x/1", "Left\n", left, &scratch).unwrap().commit.unwrap();
        assert!(slot.slot().settle_on(&pin).unwrap());
        let head = slot.head().unwrap();
        assert_eq!((head.commit, head.branch), on(&pin, None));
        assert_eq!(slot.unfinished(), None);
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), before);
        slot.slot().detach_at(&trees.first).unwrap();
        assert!(!root.join("new").exists() && slot.dirty().unwrap().is_empty());
        assert_eq!(trees.git(&slot, &["rev-parse", "ralph/x"]), mine);
    }

    #[test]
    fn settling_forgets_operations_in_progress() {
        let trees = TestSlots::new();
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
            slot.slot().settle_on(&trees.first).unwrap();
            trees.git(&slot, &["checkout", "-q", "-f", "-B", "work", &trees.first]);
            trees.commit(&slot, "a", "mine\n");
            trees.place.try_git(slot.root(), begin);
            assert!(slot.unfinished().is_some(), "{begin:?}");
            slot.slot().settle_on(&trees.first).unwrap();
            assert_eq!(slot.unfinished(), None, "{begin:?}");
        }
        trees.git(&slot, &["checkout", "-q", "-f", "work"]);
        trees.git(&slot, &["bisect", "start"]);
        assert!(slot.git_dir.join("BISECT_START").exists());
        slot.slot().settle_on(&trees.first).unwrap();
        assert!(!slot.git_dir.join("BISECT_START").exists());
    }

    #[test]
    fn locks_are_removed_once_no_git_is_running() {
        let trees = TestSlots::new();
        let slot = trees.add("1");
        let admin = slot.git_dir.clone();
        assert!(slot.slot().drop_locks().unwrap().is_empty());
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
        while slot.slot().running_git().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(
            slot.slot().drop_locks().unwrap(),
            ["HEAD.lock", "index.lock"].map(|it| admin.join(it))
        );
        assert!(living.try_wait().unwrap().is_some(), "the lock of a git at work was removed");
        assert!(foreign.exists());
    }

    #[test]
    fn a_persons_checkout_is_never_moved() {
        let trees = TestSlots::new();
        let main = trees.main();
        for refused in [said(main.slot().settle_on(&trees.first)), said(main.slot().drop_locks())] {
            assert!(refused.contains("is not a slot"), "{refused}");
        }
    }

    #[test]
    fn an_unfinished_rebase_has_not_left_its_branch() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        let second = place.commit("a", "2\n", "Second");
        place.git(&["checkout", "-q", "-b", "side", &first]);
        place.commit("a", "3\n", "Side");
        let main = HeadPlace { branch: Some("main"), commit: Some(&second) };
        let repo = Repo::discover(&place.top).unwrap();
        assert!(repo.checkout_head().has_left(main).unwrap());
        place.git(&["checkout", "-q", "main"]);
        assert!(!repo.checkout_head().has_left(main).unwrap());
        assert!(!place.try_git(&place.top, &["rebase", "side"]).status.success());
        assert_eq!(repo.head().unwrap().branch, None);
        assert_eq!(repo.branch_in_use().unwrap().as_deref(), Some("main"));
        assert!(!repo.checkout_head().has_left(main).unwrap());
        assert!(repo.checkout_head().return_head(main, None).is_err());
        place.git(&["rebase", "--abort"]);
        place.git(&["checkout", "-q", "--detach"]);
        assert_eq!(repo.checkout_head().return_head(main, None).unwrap(), second);
        let head = repo.head().unwrap();
        assert_eq!((head.commit, head.branch), on(&second, Some("main")));
    }

    #[test]
    fn damage_is_found_in_new_commits_alone() {
        let place = TestRepository::new();
        let repo = Repo::discover(&place.top).unwrap();
        assert_eq!(repo.checkout_head().damage_since(None).unwrap(), None);
        let first = place.commit("a", "1\n", "First");
        let second = place.commit("b", "2\n", "Second");
        assert_eq!(repo.checkout_head().damage_since(Some(&first)).unwrap(), None);
        let id = place.git(&["rev-parse", "HEAD:b"]);
        fs::remove_file(place.top.join(".git/objects").join(&id[..2]).join(&id[2..])).unwrap();
        assert!(repo.checkout_head().damage_since(Some(&first)).unwrap().unwrap().contains(&id));
        assert_eq!(repo.checkout_head().damage_since(Some(&second)).unwrap(), None);
        repo.checkout_head()
            .take_back(HeadPlace { branch: Some("main"), commit: Some(&first) })
            .unwrap();
        assert_eq!(place.git(&["status", "--porcelain"]), "?? b");
        let head = repo.head().unwrap();
        assert_eq!((head.commit, head.branch), on(&first, Some("main")));
    }
}
