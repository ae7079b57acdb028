//! The state of a slot besides its ignored files, and how a slot takes on another state.

use std::{collections::BTreeMap, ffi::OsStr};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::git::{
        PinSource, Transfers,
        pin::{IDENTITY, KeptPaths},
        program::{self, NewCommit},
    },
    core::commit_id::CommitId,
    crash,
};

/// The message of the commit with the uncommitted changes.
const MESSAGE: &str = "Uncommitted changes\n";

/// The largest number of strays.
const MOST_STRAYS: usize = 50;

/// The date of that commit: the same state is the same commit.
const DATE: &str = "2000-01-01T00:00:00+00:00";

/// The reflog message of moves.
const MOVED: &str = "ralph: work of a worker";

/// A slot's content besides its ignored files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkState {
    pub(super) head: CommitId,
    /// The branch without `refs/heads/`; none when HEAD is detached.
    pub(super) branch: Option<String>,
    /// A commit on top of HEAD with the uncommitted changes; none without changes.
    pub(super) changes: Option<CommitId>,
    /// Whether HEAD, the index and the files have the same.
    pub(super) is_clean: bool,
    /// Commits that HEAD does not reach, such as stashes and other branches of an agent.
    pub(super) strays: Vec<CommitId>,
    /// The paths that the commit lacks, and why.
    pub(super) left_out: Vec<String>,
}

impl WorkState {
    /// The work that only consists of a commit.
    pub(super) fn clean(head: &CommitId) -> WorkState {
        let (strays, left_out) = (Vec::new(), Vec::new());
        let head = head.clone();
        WorkState { head, branch: None, changes: None, is_clean: true, strays, left_out }
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

impl Transfers<'_> {
    /// The state of this slot. Its uncommitted changes become a commit that no ref names.
    pub(super) fn work_state(&self) -> Result<WorkState> {
        let at = self.head()?;
        let head = at.commit.context("HEAD of the slot has no commit")?;
        let codes = self.codes()?;
        let (paths, mut left_out) = self.pins().keepable(&codes);
        let changes = if paths.is_empty() { None } else { self.commit_of_changes(&head, &paths)? };
        if let Some(what) = self.unfinished() {
            left_out.push(format!("{what}, which is unfinished"));
        }
        let tip = changes.as_ref().unwrap_or(&head);
        for (_, path) in self.modules_at(tip).unwrap_or_default() {
            left_out.push(format!("{} (the files of a submodule)", path.escape_debug()));
        }
        let (is_clean, strays) = (codes.is_empty(), Vec::new());
        Ok(WorkState { head, branch: at.branch, changes, is_clean, strays, left_out })
    }

    /// Makes the commit with the changes in these files; none if HEAD has them as they are.
    fn commit_of_changes(&self, head: &str, paths: &KeptPaths) -> Result<Option<CommitId>> {
        let tree = self.pins().tree(Some(head), paths, &self.git_dir.join("ralph-index"))?;
        if tree == self.tree_of(head)? {
            return Ok(None);
        }
        self.work_commit(&tree, &[head], MESSAGE).map(Some)
    }

    /// Makes a commit that no ref names. The same content is the same commit.
    pub(super) fn work_commit(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<CommitId> {
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(|name| (name, DATE));
        let env: BTreeMap<&str, &OsStr> =
            IDENTITY.into_iter().chain(dates).map(|(name, it)| (name, OsStr::new(it))).collect();
        let env: Vec<(&str, &OsStr)> = env.into_iter().collect();
        let new = NewCommit { tree, parents, message, env: &env, is_signed: false };
        program::commit_tree(&self.root, &new)
    }

    /// The state of this slot, with the commits that an agent made in it and HEAD does not reach.
    pub(super) fn work_of_agent(&self) -> Result<WorkState> {
        let mut work = self.work_state()?;
        // All that the repository of the slot does not have.
        let left = PinSource { base: None, branch: None, began: None, changed: &[] };
        work.strays = self.pins().strays(Some(&work.head), left)?;
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
        self.slot().must_be_slot()?;
        if let Some(branch) = &to.branch {
            self.check_branch(branch, &to.head)?;
        }
        self.slot().forget_unfinished()?;
        let are_clean = now.is_clean && to.is_clean;
        let checkout = ["checkout", "--quiet", "--detach", &to.head];
        let is_there = are_clean && (now.head == to.head || self.run_quietly(&checkout).is_ok());
        if !is_there && now.tip() != to.tip() {
            // The index matches the files, so that git sees which it may replace.
            self.reset_index(Some(now.tip()))?;
            self.run_quietly(&["read-tree", "-m", "-u", now.tip(), to.tip()])?;
        }
        crash::point("transfer.filled");
        let name = to.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
        if let Some(name) = &name {
            program::move_ref(&self.root, name, &to.head, MOVED)?;
        }
        self.point_head(name.as_deref(), Some(&to.head), MOVED)?;
        // The files keep the changes, and the index does not have them.
        if is_there { Ok(()) } else { self.reset_index(Some(&to.head)) }
    }

    /// Fails if a branch cannot be put on a commit: git cannot have both `a` and `a/b`.
    pub(super) fn check_branch(&self, branch: &str, commit: &str) -> Result<()> {
        if self.branch(branch)?.is_some() {
            return Ok(());
        }
        let trial = format!("start\nupdate refs/heads/{branch} {commit}\nprepare\nabort\n");
        let update = ["update-ref", "--stdin"];
        program::run_with_input(&self.root, &update, &[], trial.as_bytes()).map(drop)
    }
}
