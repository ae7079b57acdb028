//! The tasks whose executor is out.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, MAX_BACKOFF, TaskState, View, Wait};
use crate::{event::StopReason, executor::LOCAL, history::UnreachableExecutor};

impl<'a> View<'a> {
    /// Returns the name of the executor of a task.
    pub fn place(&self, number: usize) -> &'a str {
        let own = self.graph.task(number).run_on.as_deref();
        let own = own.filter(|_| !self.policy.run_on_given);
        own.or(self.policy.run_on.as_deref()).unwrap_or(LOCAL)
    }

    /// Returns the state of a task that cannot start because of its executor, or because no slot can
    /// be made for it.
    pub(super) fn unreachable(&self, number: usize, now: DateTime<Utc>) -> Option<TaskState> {
        if self.history.run.finished.is_some() {
            // The next run tries at once.
            return None;
        }
        let executor = self.history.unreachable.get(self.place(number))?;
        if executor.trying.is_some() {
            return Some(TaskState::Unreachable(None));
        }
        let next_try = executor.next_try;
        // A try that is further away was recorded before the clock was set back.
        let longest = TimeDelta::from_std(MAX_BACKOFF).expect("five minutes fit");
        let pause = now..now + longest + TimeDelta::seconds(1);
        let waits = next_try > now && pause.contains(&next_try);
        waits.then_some(TaskState::Unreachable(Some(next_try)))
    }

    /// Returns when the first of these executors is tried again; none while each is tried.
    pub(super) fn next_try(&self, away: &BTreeSet<&str>) -> Option<DateTime<Utc>> {
        let known = away.iter().filter_map(|name| self.history.unreachable.get(*name));
        known.filter(|known| known.trying.is_none()).map(|known| known.next_try).min()
    }

    /// Decides whether to wait for executors that are out. `other` is when a task on another
    /// executor can start, and whether a provider keeps it.
    pub(super) fn wait_for_executors(
        &self,
        away: &BTreeSet<&str>,
        other: Option<(DateTime<Utc>, bool)>,
    ) -> Decision {
        let other = other.map(|(until, _)| until);
        let longest = TimeDelta::from_std(self.policy.max_wait).unwrap_or(TimeDelta::MAX);
        let known = || {
            let known = |name: &&str| self.history.unreachable.get_key_value(*name);
            away.iter().filter_map(known)
        };
        let is_over =
            |known: &UnreachableExecutor| known.lasts || known.next_try - known.since > longest;
        // One that may come back is named first.
        let last = known().max_by_key(|(_, known)| (!known.lasts, known.since));
        if let Some((run_on, executor)) = last
            && other.is_none()
            && known().all(|(_, known)| is_over(known))
        {
            let others = known().filter(|(name, _)| *name != run_on);
            return Decision::Stop(StopReason::Unreachable {
                run_on: run_on.clone(),
                since: executor.since,
                why: executor.why.clone(),
                max_wait: (!executor.lasts).then_some(self.policy.max_wait),
                others: others.map(|(name, known)| (name.clone(), known.why.clone())).collect(),
            });
        }
        let texts = known().map(|(name, known)| known.text(name)).collect::<Vec<_>>();
        let until = self.next_try(away).into_iter().chain(other).min();
        Decision::Wait(Wait { until, why: texts.join("; ") })
    }
}

impl UnreachableExecutor {
    /// Says for people that the executor of this name is out, and why.
    pub fn text(&self, name: &str) -> String {
        format!("executor `{name}` {}: {}", fault_words(self.lasts), self.why)
    }
}

/// What is wrong with an executor, in words that its reason follows.
pub fn fault_words(lasts: bool) -> &'static str {
    if lasts { "cannot be used" } else { "is out" }
}
