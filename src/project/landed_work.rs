//! What has landed, attempt by attempt, as the branch has it.

use anyhow::Result;

use crate::{
    adapters::git::Repo,
    core::{
        commit_id::CommitId, event::AttemptResult, graph::task::TaskId,
        history::attempt_log::AttemptEntry, verdict::Merge,
    },
};

/// Corrects the verdict on work that waited for its branch when it landed, if the branch has it by now.
///
/// # Errors
/// The error of `git`.
pub fn note_arrival(repo: &Repo, ended: Option<&mut AttemptResult>) -> Result<()> {
    let Some(ended) = ended else { return Ok(()) };
    let Some(merge) = &mut ended.evidence.merge else { return Ok(()) };
    let waited = merge.landed();
    if let Merge::Landed { branch, commit, waits, .. } = merge
        && *waits
        && let Some(tip) = repo.branch(branch)?
        && repo.is_ancestor(commit, &tip)?
    {
        *waits = false;
        ended.why = ended.why.replace(&waited, &merge.landed());
    }
    Ok(())
}

/// The work of one attempt in the history of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedChange {
    /// The task.
    pub task_id: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The commit below its first one.
    pub before: CommitId,
    /// Its last commit.
    pub last: CommitId,
    /// Its commits, oldest first.
    pub commits: Vec<CommitId>,
    /// The commit on top of them that marks the task as complete, if there is one.
    pub done: Option<CommitId>,
}

impl LandedChange {
    /// The work of an attempt, if it has commits that the commit `tip` descends from, and was not taken
    /// back. What an attempt left that did not complete its task is work as well, if it is there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn of(repo: &Repo, entry: &AttemptEntry, tip: &CommitId) -> Result<Option<LandedChange>> {
        let Some((_, ended)) = entry.ended.as_ref().filter(|_| !entry.is_taken_back) else {
            return Ok(None);
        };
        let commits: Vec<CommitId> =
            ended.evidence.commits.iter().map(|commit| commit.id.clone()).collect();
        let Some(last) = commits.last() else { return Ok(None) };
        // A commit that is gone is in no history.
        if !repo.is_ancestor(last, tip).unwrap_or(false) {
            return Ok(None);
        }
        let Some(before) = repo.landings().below(last, &commits)? else { return Ok(None) };
        let done = match &ended.evidence.merge {
            Some(Merge::Landed { commit, .. }) if commit != last => Some(commit.clone()),
            _ => None,
        };
        Ok(Some(LandedChange {
            task_id: entry.task_id.clone(),
            attempt: entry.attempt,
            before,
            last: last.clone(),
            commits,
            done,
        }))
    }

    /// The work of some attempts, in the same order.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn all<'a>(
        repo: &Repo,
        entries: impl Iterator<Item = &'a AttemptEntry>,
        tip: &CommitId,
    ) -> Result<Vec<LandedChange>> {
        let found = entries.map(|entry| LandedChange::of(repo, entry, tip));
        found.filter_map(Result::transpose).collect()
    }

    /// The change, from one commit to another.
    pub fn ends(&self) -> (CommitId, CommitId) {
        (self.before.clone(), self.last.clone())
    }
}
