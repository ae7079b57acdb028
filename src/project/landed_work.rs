//! Landed work by attempt, as the branch has it.

use std::collections::HashMap;

use anyhow::Result;

use crate::{
    adapters::git::Repo,
    core::{
        commit_id::CommitId,
        event::AttemptResult,
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::{History, attempt_log::AttemptEntry},
        verdict::{Commit, Merge, Verdict},
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

/// The complete tasks whose work on a branch a later commit reverts, with that commit.
///
/// # Errors
/// The error of `git`.
pub fn reverted(
    repo: &Repo,
    branch: &str,
    history: &History,
    graph: &TaskGraph,
) -> Result<Vec<(TaskId, CommitId)>> {
    const NAMES: &str = "This reverts commit ";
    let is_done = |id: &TaskId| graph.status_of(id) == Some(Status::Complete);
    let landed = history.tasks().into_iter();
    let mut landed: Vec<_> =
        landed.filter(|(id, past)| is_done(id) && !past.commits.is_empty()).collect();
    landed.sort_by_key(|(_, past)| past.last.as_ref().map(|last| last.at));
    let Some(first) = landed.first().and_then(|(_, past)| past.commits.first()) else {
        return Ok(Vec::new());
    };
    let Some(tip) = repo.landings().tip(branch)? else { return Ok(Vec::new()) };
    let reverts = repo.messages_with(&tip.commit, Some(&first.id), NAMES)?;
    let by = |commit: &CommitId| {
        let line = format!("{NAMES}{commit}");
        reverts.iter().find(|(_, message)| message.contains(&line)).map(|(by, _)| by)
    };
    // A revert that is reverted itself has brought the work back.
    let gone = |commit: &CommitId| by(commit).filter(|revert| by(revert).is_none());
    let reverted = landed.iter().filter_map(|(id, past)| {
        let by = past.commits.iter().find_map(|commit| gone(&commit.id))?;
        Some(((*id).clone(), by.clone()))
    });
    Ok(reverted.collect())
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
    /// The work of an attempt, if it has commits that the commit `tip` descends from, and was not
    /// taken back. Leftovers of an attempt that did not complete its task are work as well, if
    /// there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn of(repo: &Repo, entry: &AttemptEntry, tip: &CommitId) -> Result<Option<LandedChange>> {
        let Some((_, ended)) = entry.ended.as_ref().filter(|_| !entry.is_taken_back) else {
            return Ok(None);
        };
        let mut commits: Vec<CommitId> =
            ended.evidence.commits.iter().map(|commit| commit.id.clone()).collect();
        let mut done = match &ended.evidence.merge {
            Some(Merge::Landed { commit, .. }) if commits.last() != Some(commit) => {
                Some(commit.clone())
            }
            _ => None,
        };
        let Some(last) = commits.last() else { return Ok(None) };
        // A commit that is gone is in no history.
        if !repo.is_ancestor(last, tip).unwrap_or(false) {
            if ended.verdict != Verdict::Complete {
                return Ok(None);
            }
            (commits, done) = rebased(repo, entry, &ended.evidence.commits, tip)?;
        }
        let Some(last) = commits.last() else { return Ok(None) };
        let Some(before) = repo.landings().below(last, &commits)? else { return Ok(None) };
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

/// The commits of an attempt, oldest first, and the one on top of them that marks its task as complete, in
/// a history with other ids: a person has rebased the branch. No commits where they are not right below
/// one another.
fn rebased(
    repo: &Repo,
    entry: &AttemptEntry,
    commits: &[Commit],
    tip: &CommitId,
) -> Result<(Vec<CommitId>, Option<CommitId>)> {
    let [task, attempt] = TRAILERS;
    let trailers = [format!("{task}{}", entry.task_id), format!("{attempt}{}", entry.attempt)];
    let is_named =
        |message: &str| trailers.iter().all(|trailer| message.lines().any(|line| line == trailer));
    let is_own = |message: &str| {
        commits.iter().any(|commit| message.lines().next() == Some(commit.subject.as_str()))
    };
    // The work's base had none of its copies: older history is not read, for each task.
    let below = commits.first().map(|first| repo.commit_of(&format!("{}^", first.id)));
    let below = below.transpose()?.flatten();
    let all = repo.messages_with(tip, below.as_deref(), "")?.into_iter();
    let mut from = all.skip_while(|(_, message)| !is_named(message)).peekable();
    let done = from.next_if(|(_, message)| !is_own(message)).map(|(id, _)| id);
    let own = from.take_while(|(_, message)| is_own(message)).take(commits.len());
    let mut found: Vec<CommitId> = own.map(|(id, _)| id).collect();
    found.reverse();
    Ok((found, done))
}

// The newest commit of each task, by the trailers in the messages of commits.
//
// Commits that arrive from another clone are in no journal here. The history is read once, then
// only its new commits.

/// The starts of the lines that name the task and the attempt of a commit.
const TRAILERS: [&str; 2] = ["Ralph-Task: ", "Ralph-Attempt: "];

/// The newest commits of attempts at each task in the history of a commit.
#[derive(Debug, Default)]
pub struct TaskCommits {
    /// The commit whose history was read.
    tip: Option<CommitId>,
    newest: HashMap<String, CommitId>,
}

impl TaskCommits {
    /// Returns the newest commit of an attempt at a task in the history of `head`.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn newest(
        &mut self,
        repo: &Repo,
        head: &CommitId,
        task: &TaskId,
    ) -> Result<Option<CommitId>> {
        let is_ancestor = |old: &CommitId, new: &CommitId| repo.is_ancestor(old, new);
        let descends = |tip: &CommitId| is_ancestor(tip, head).unwrap_or(false);
        let precedes = |tip: &CommitId| is_ancestor(head, tip).unwrap_or(false);
        if self.tip.as_ref().is_none_or(descends) {
            self.read(repo, head)?;
        } else if !self.tip.as_ref().is_some_and(precedes) {
            *self = TaskCommits::default();
            self.read(repo, head)?;
        }
        match self.newest.get(task.as_str()) {
            Some(commit) if !is_ancestor(commit, head)? => {
                let mut before = TaskCommits::default();
                before.read(repo, head)?;
                Ok(before.newest.remove(task.as_str()))
            }
            found => Ok(found.cloned()),
        }
    }

    /// Reads the history of a commit that descends from the tip.
    fn read(&mut self, repo: &Repo, head: &CommitId) -> Result<()> {
        if self.tip.as_ref() == Some(head) {
            return Ok(());
        }
        let [task, attempt] = TRAILERS;
        let found = repo.messages_with(head, self.tip.as_deref(), attempt)?;
        for (commit, message) in found.into_iter().rev() {
            for id in message.lines().filter_map(|line| line.strip_prefix(task)) {
                self.newest.insert(id.to_owned(), commit.clone());
            }
        }
        self.tip = Some(head.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::git_in;

    #[test]
    fn commits_of_attempts_are_found_in_the_history_of_any_commit() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let output = git_in(folder.path()).args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            CommitId::from(String::from_utf8(output.stdout).unwrap().trim())
        };
        git(&["init", "-q"]);
        let commit = |message: &str| {
            git(&["commit", "-q", "--allow-empty", "-m", message]);
            git(&["rev-parse", "HEAD"])
        };
        let start = commit("Start");
        let one = commit("One\n\nRalph-Task: a\nRalph-Attempt: 1");
        let done = commit("Closed in its source\n\nRalph-Task: b");
        let two = commit("Two\n\nRalph-Task: a\nRalph-Attempt: 2");
        let repo = Repo::discover(folder.path()).unwrap();
        let mut commits = TaskCommits::default();
        let mut newest = |head: &CommitId, id: &str| {
            commits.newest(&repo, head, &TaskId::new(id).unwrap()).unwrap()
        };
        assert_eq!(newest(&one, "a"), Some(one.clone()));
        assert_eq!(newest(&two, "a"), Some(two.clone()));
        assert_eq!(newest(&two, "b"), None, "no attempt made it");
        assert_eq!(newest(&done, "a"), Some(one.clone()), "an older base");
        assert_eq!(newest(&start, "a"), None);
        git(&["reset", "-q", "--hard", &one]);
        let other = commit("Other\n\nRalph-Task: b\nRalph-Attempt: 1");
        assert_eq!(newest(&other, "b"), Some(other.clone()), "another history");
        assert_eq!(newest(&other, "a"), Some(one));
    }
}
