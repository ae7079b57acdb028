//! The state of a slot besides its ignored files, and how a slot takes on another state.

use std::{collections::BTreeMap, ffi::OsStr};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::git::{PinSource, Repo, lossy, pin::IDENTITY, program, submodule},
    core::commit_id::CommitId,
    crash,
};

/// The message of the commit with the uncommitted changes.
const MESSAGE: &str = "Uncommitted changes\n";

/// The date of that commit: the same state is the same commit.
const DATE: &str = "2000-01-01T00:00:00+00:00";

/// The largest number of strays.
const MOST_STRAYS: usize = 50;

/// The reflog message of moves.
const MOVED: &str = "ralph: work of a worker";

/// What a slot contains besides its ignored files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkState {
    pub(super) head: CommitId,
    /// The branch without `refs/heads/`; none when HEAD is detached.
    pub(super) branch: Option<String>,
    /// A commit on top of HEAD with the uncommitted changes; none without changes.
    pub(super) changes: Option<CommitId>,
    /// Commits that HEAD does not reach, such as stashes and other branches of an agent.
    pub(super) strays: Vec<CommitId>,
    /// What the commit does not contain, and why.
    pub(super) left_out: Vec<String>,
}

impl WorkState {
    /// The work that only consists of a commit.
    pub(super) fn clean(head: &CommitId) -> WorkState {
        let (strays, left_out) = (Vec::new(), Vec::new());
        WorkState { head: head.clone(), branch: None, changes: None, strays, left_out }
    }

    /// The commit that contains everything.
    pub(super) fn tip(&self) -> &CommitId {
        self.changes.as_ref().unwrap_or(&self.head)
    }

    /// The commits that have no other commit of this work above them.
    pub(super) fn tips(&self) -> impl Iterator<Item = &CommitId> {
        [self.tip()].into_iter().chain(&self.strays)
    }
}

impl Repo {
    /// The state of this slot. Its uncommitted changes become a commit that no ref names.
    pub(super) fn work_state(&self) -> Result<WorkState> {
        let at = self.head()?;
        let head = at.commit.context("HEAD of the slot has no commit")?;
        let (paths, mut left_out) = self.keepable(&self.codes()?);
        let scratch = self.git_dir.join("ralph-index");
        let tree = self.tree(Some(&head), &paths, &scratch)?;
        let changes = if tree == self.tree_of(Some(&head))? {
            None
        } else {
            let arguments = ["-c", "i18n.commitEncoding=UTF-8", "commit-tree", "-p", &head, &tree];
            let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, DATE));
            let env: BTreeMap<&str, &OsStr> = IDENTITY
                .into_iter()
                .chain(dates)
                .map(|(name, it)| (name, OsStr::new(it)))
                .collect();
            let env: Vec<(&str, &OsStr)> = env.into_iter().collect();
            let id = program::run_with_input(&self.root, &arguments, &env, MESSAGE.as_bytes())?;
            Some(CommitId::from(lossy(&id).trim()))
        };
        if let Some(what) = self.unfinished() {
            left_out.push(format!("{what}, which is unfinished"));
        }
        let tip = changes.as_ref().unwrap_or(&head);
        for (_, path) in submodule::modules_at(&self.root, tip).unwrap_or_default() {
            left_out.push(format!("{} (the files of a submodule)", path.escape_debug()));
        }
        Ok(WorkState { head, branch: at.branch, changes, strays: Vec::new(), left_out })
    }

    /// The state of this slot, with the commits that an agent made in it and HEAD does not reach.
    pub(super) fn work_of_agent(&self) -> Result<WorkState> {
        let mut work = self.work_state()?;
        // All that the repository of the slot does not have.
        let left = PinSource { base: None, branch: None, began: i64::MAX, changed: &[] };
        work.strays = self.strays(Some(&work.head), left)?;
        if work.strays.len() > MOST_STRAYS {
            let more = work.strays.len() - MOST_STRAYS;
            work.left_out.push(format!("{more} commits that HEAD does not reach"));
            work.strays.truncate(MOST_STRAYS);
        }
        Ok(work)
    }

    /// Brings this slot from the state `now`, which it has, to another one. Only files that differ
    /// are written, and ignored files stay.
    ///
    /// # Errors
    /// The error of `git`, for example when a file that `now` does not contain is in the way. No
    /// file is changed then.
    pub(super) fn take_on(&self, now: &WorkState, to: &WorkState) -> Result<()> {
        self.must_be_slot()?;
        if let Some(branch) = &to.branch {
            self.check_branch(branch, &to.head)?;
        }
        self.forget_unfinished()?;
        if now.tip() != to.tip() {
            // The index has what the files have, so that git sees what it may replace.
            self.run_quietly(&["read-tree", "--reset", now.tip()])?;
            self.refresh_index();
            self.run_quietly(&["read-tree", "-m", "-u", now.tip(), to.tip()])?;
        }
        crash::point("transfer.filled");
        match &to.branch {
            Some(branch) => {
                let name = format!("refs/heads/{branch}");
                self.run_quietly(&["update-ref", "-m", MOVED, &name, &to.head])?;
                self.run_quietly(&["symbolic-ref", "-m", MOVED, "HEAD", &name])?;
            }
            None => {
                self.run_quietly(&["update-ref", "--no-deref", "-m", MOVED, "HEAD", &to.head])?;
            }
        }
        // The files keep the changes, and the index does not have them.
        self.run_quietly(&["read-tree", "--reset", &to.head])?;
        self.refresh_index();
        Ok(())
    }

    /// Fails if a branch cannot be put on a commit: git cannot have both `a` and `a/b`.
    fn check_branch(&self, branch: &str, commit: &str) -> Result<()> {
        let trial = format!("start\nupdate refs/heads/{branch} {commit}\nprepare\nabort\n");
        let update = ["update-ref", "--stdin"];
        program::run_with_input(&self.root, &update, &[], trial.as_bytes()).map(drop)
    }

    /// Notes in the index which files are unchanged. Git reports the others as an error.
    fn refresh_index(&self) {
        let _ = self.run_quietly(&["update-index", "-q", "--refresh"]);
    }
}
