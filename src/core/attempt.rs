//! Attempts: where they work, which commits are their own, and their state on the way to the target
//! branch.
//!
//! Only events change the state, in `history/active`, so the runner, a status command and the next
//! run after a crash read the same state from the same journal.

use serde::{Deserialize, Serialize};

use crate::commit_id::CommitId;

/// Where attempts work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each attempt has a slot of its own, and only verified work reaches the branch.
    #[default]
    Slot,
    /// Attempts work in the checkout, one at a time.
    Checkout,
}

/// The state of an attempt that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It is recorded and claimed; its slot is being prepared or its first process is starting.
    Preparing,
    /// The commands of `setup` run in its slot.
    SettingUp,
    /// Its agent runs.
    Running,
    /// Its agent reported and exited; its remaining child processes may finish.
    WaitingForChildren,
    /// The verify commands run after its agent ended.
    Verifying,
    /// Another agent reviews its work.
    Reviewing,
    /// Its work passed and is queued to land.
    Queued,
    /// The merge queue verifies its work on top of the target branch, or moves the branch.
    Landing,
}

impl AttemptState {
    /// The state as a word for people.
    pub fn word(self) -> &'static str {
        match self {
            AttemptState::Preparing => "preparing",
            AttemptState::SettingUp => "setting up",
            AttemptState::Running => "running",
            AttemptState::WaitingForChildren => "waiting for children",
            AttemptState::Verifying => "verifying",
            AttemptState::Reviewing => "reviewing",
            AttemptState::Queued => "queued",
            AttemptState::Landing => "landing",
        }
    }

    /// Whether its agent has done its part: its work is queued to be verified where it lands.
    pub fn is_queued(self) -> bool {
        match self {
            AttemptState::Queued | AttemptState::Landing => true,
            AttemptState::Preparing
            | AttemptState::SettingUp
            | AttemptState::Running
            | AttemptState::WaitingForChildren
            | AttemptState::Verifying
            | AttemptState::Reviewing => false,
        }
    }

    /// Whether a command that is no agent may run for it.
    pub fn is_checked(self) -> bool {
        match self {
            AttemptState::SettingUp | AttemptState::Verifying | AttemptState::Landing => true,
            AttemptState::Preparing
            | AttemptState::Running
            | AttemptState::WaitingForChildren
            | AttemptState::Reviewing
            | AttemptState::Queued => false,
        }
    }

    /// Whether the merge queue is trying it.
    pub fn is_landing(self) -> bool {
        self == AttemptState::Landing
    }
}

/// A commit with what stays the same where it is amended or replayed: its author and their date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCommit {
    /// The commit.
    pub id: CommitId,
    /// Its author and their date.
    pub author: String,
}

/// What an attempt left at HEAD.
#[derive(Clone, Debug)]
pub struct LeftCommits {
    /// The commit that it started from.
    pub base: CommitId,
    /// HEAD.
    pub head: CommitId,
    /// The commits of HEAD that neither the base nor others have.
    pub new: Vec<SignedCommit>,
    /// The commits right below these.
    pub below: Vec<CommitId>,
    /// Those of them, and of the base, that no other of them has.
    pub newest_below: Vec<CommitId>,
    /// The commits of the base that HEAD does not have.
    pub lost: Vec<SignedCommit>,
}

/// The work of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnWork {
    /// The commits of HEAD after this one.
    After(CommitId),
    /// The difference between these, joined, and HEAD: the attempt has rewritten its base, or its commits
    /// are between those of others.
    Difference(Vec<CommitId>),
    /// Nothing that can be told from a loss of others' commits.
    Strayed,
}

impl LeftCommits {
    /// Returns which work is the attempt's own.
    pub fn own_work(self) -> OwnWork {
        let is_kept = |lost: &SignedCommit| self.new.iter().any(|new| new.author == lost.author);
        if !self.lost.iter().all(is_kept) {
            return OwnWork::Strayed;
        }
        if self.new.is_empty() {
            return OwnWork::After(self.head);
        }
        match &*self.newest_below {
            [base] if *base == self.base && self.lost.is_empty() => OwnWork::After(self.base),
            [pulled] if self.lost.is_empty() && self.below.len() == 1 => {
                OwnWork::After(pulled.clone())
            }
            _ => OwnWork::Difference(self.newest_below),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commits(list: &[&str]) -> Vec<SignedCommit> {
        let commit = |name: &&str| {
            let (id, author) = name.split_once(' ').unwrap_or((name, name));
            SignedCommit { id: id.into(), author: author.to_owned() }
        };
        list.iter().map(commit).collect()
    }

    fn ids(list: &[&str]) -> Vec<CommitId> {
        list.iter().map(|id| CommitId::from(*id)).collect()
    }

    /// With HEAD at the first of the new commits, or at `pulled`.
    fn own(new: &[&str], below: &[&str], newest: &[&str], lost: &[&str]) -> OwnWork {
        let new = commits(new);
        let head = new.first().map_or("pulled".into(), |commit| commit.id.clone());
        let (below, newest_below, lost) = (ids(below), ids(newest), commits(lost));
        LeftCommits { base: "base".into(), head, new, below, newest_below, lost }.own_work()
    }

    #[test]
    fn only_what_the_agent_committed_is_its_own() {
        let after = |id: &str| OwnWork::After(id.into());
        let difference = |list: &[&str]| OwnWork::Difference(ids(list));
        let base = &["base"][..];
        assert_eq!(own(&["b", "a"], base, base, &[]), after("base"));
        // A branch of its own from an older commit, merged.
        assert_eq!(own(&["m", "a"], &["base", "old"], base, &[]), after("base"));
        assert_eq!(own(&["a"], &["pulled"], &["pulled"], &[]), after("pulled"));
        assert_eq!(own(&[], &[], base, &[]), after("pulled"));
        // Merged over its own commits, or over those of the branch that others do not have.
        assert_eq!(own(&["m", "a"], &["base", "r"], &["r"], &[]), difference(&["r"]));
        assert_eq!(own(&["m"], &["base", "r"], &["base", "r"], &[]), difference(&["base", "r"]));
    }

    #[test]
    fn a_rewritten_base_is_a_difference_and_a_lost_one_is_not() {
        let amended = own(&["c other", "b base"], &["old"], &["base"], &["base base"]);
        assert_eq!(amended, OwnWork::Difference(ids(&["base"])));
        let rebased = own(&["c other", "b base"], &["r"], &["base", "r"], &["base base"]);
        assert_eq!(rebased, OwnWork::Difference(ids(&["base", "r"])));
        assert_eq!(own(&["c other"], &["old"], &["base"], &["base base"]), OwnWork::Strayed);
        assert_eq!(own(&[], &[], &["base"], &["base base"]), OwnWork::Strayed);
    }
}
