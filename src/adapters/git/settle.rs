//! Moves a slot on to other work.
//!
//! Git is never forced. Before a move, the caller keeps what the slot contains ([`Pins::pin`]); then
//! the slot is [settled](Slot::settle_on) on what was kept, which makes it clean without touching a
//! file, and an ordinary checkout continues from there.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{Repo, Slot, lock_files, program};

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
        // Exits with 1 where files differ, which is what is expected.
        let refresh = ["update-index", "-q", "--refresh"];
        program::run_raw(&self.root, &[QUIET, &refresh].concat(), &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::{TestSlots, on, said};

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
}
