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

/// The commits that an attempt left at HEAD.
#[derive(Clone, Debug)]
pub struct LeftCommits {
    /// The commit that it started from.
    pub base: CommitId,
    /// HEAD.
    pub head: CommitId,
    /// Whether HEAD has commits that neither the base nor others have.
    pub has_new: bool,
    /// The commits right below these.
    pub below: Vec<CommitId>,
    /// Those of them, and of the base, that no other of them has.
    pub newest_below: Vec<CommitId>,
    /// Whether HEAD descends from the base.
    pub has_base: bool,
    /// Whether HEAD has the base as the attempt amended it.
    pub has_amended: bool,
}

/// The work of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnWork {
    /// The commits of HEAD after this one, which the base may descend from.
    After(CommitId),
    /// The difference between these, joined, and HEAD: the attempt has amended its base, or its commits
    /// are between those of others.
    Difference(Vec<CommitId>),
    /// The changes that merging HEAD brings to these, joined: HEAD does not have all of the base.
    Merge(Vec<CommitId>),
    /// HEAD has nothing in common with the base.
    Strayed,
}

impl LeftCommits {
    /// Returns the attempt's own work. Commits of the base that HEAD lacks are never part of it.
    pub fn own_work(self) -> OwnWork {
        if !self.has_new {
            return OwnWork::After(self.head);
        }
        match (&*self.newest_below, &*self.below) {
            _ if self.has_amended => OwnWork::Difference(self.newest_below),
            ([base], _) if self.has_base && *base == self.base => OwnWork::After(self.base),
            ([_], [below]) => OwnWork::After(below.clone()),
            (_, []) => OwnWork::Strayed,
            _ if self.has_base => OwnWork::Difference(self.newest_below),
            _ => OwnWork::Merge(self.newest_below),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &[&str]) -> Vec<CommitId> {
        list.iter().map(|id| CommitId::from(*id)).collect()
    }

    /// With HEAD at `head`.
    fn left(below: &[&str], newest: &[&str]) -> LeftCommits {
        LeftCommits {
            base: "base".into(),
            head: "head".into(),
            has_new: true,
            below: ids(below),
            newest_below: ids(newest),
            has_base: true,
            has_amended: false,
        }
    }

    #[test]
    fn only_what_the_agent_committed_is_its_own() {
        let after = |id: &str| OwnWork::After(id.into());
        let difference = |list: &[&str]| OwnWork::Difference(ids(list));
        let own = |below: &[&str], newest: &[&str]| left(below, newest).own_work();
        let base = &["base"][..];
        assert_eq!(own(base, base), after("base"));
        // A branch of its own from an older commit, merged.
        assert_eq!(own(&["base", "old"], base), after("base"));
        assert_eq!(own(&["pulled"], &["pulled"]), after("pulled"));
        assert_eq!(LeftCommits { has_new: false, ..left(&[], base) }.own_work(), after("head"));
        // Merged over its own commits, or over those of the branch that others do not have.
        assert_eq!(own(&["base", "r"], &["r"]), difference(&["r"]));
        assert_eq!(own(&["base", "r"], &["base", "r"]), difference(&["base", "r"]));
    }

    #[test]
    fn only_an_amended_base_is_replaced() {
        let amended =
            LeftCommits { has_amended: true, has_base: false, ..left(&["old"], &["base"]) };
        assert_eq!(amended.own_work(), OwnWork::Difference(ids(&["base"])));
        let without = |below: &[&str], newest: &[&str]| {
            LeftCommits { has_base: false, ..left(below, newest) }.own_work()
        };
        // For example, a branch from an older or a fetched commit.
        assert_eq!(without(&["old"], &["base"]), OwnWork::After("old".into()));
        assert_eq!(without(&["r"], &["base", "r"]), OwnWork::Merge(ids(&["base", "r"])));
        assert_eq!(without(&[], &["base"]), OwnWork::Strayed);
    }
}
