//! The tasks whose executor does not answer or cannot be used.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, MAX_BACKOFF, NextTry, TaskState, View, Wait};
use crate::{event::StopReason, executor::LOCAL, history::UnreachableExecutor};

impl<'a> View<'a> {
    /// Returns the executor of a task; none if that is this machine as it is.
    pub fn executor(&self, number: usize) -> Option<&'a str> {
        let own = self.graph.task(number).run_on.as_deref();
        let own = own.filter(|_| !self.policy.run_on_given);
        own.or(self.policy.run_on.as_deref()).filter(|name| *name != LOCAL)
    }

    /// Returns the state of a task that cannot start because of its executor, or because no slot can
    /// be made for it.
    pub(super) fn unreachable(&self, number: usize, now: DateTime<Utc>) -> Option<TaskState> {
        if self.history.run.finished.is_some() {
            // The next run tries at once.
            return None;
        }
        let executor = self.history.unreachable.get(self.executor(number).unwrap_or(LOCAL))?;
        if executor.trying.is_some() {
            return Some(TaskState::Unreachable(NextTry::Now));
        }
        let Some(next_try) = executor.next_try else {
            return Some(TaskState::Unreachable(NextTry::Never));
        };
        // A try that is further away was recorded before the clock was set back.
        let longest = TimeDelta::from_std(MAX_BACKOFF).expect("five minutes fit");
        let pause = now..now + longest + TimeDelta::seconds(1);
        let waits = next_try > now && pause.contains(&next_try);
        waits.then_some(TaskState::Unreachable(NextTry::At(next_try)))
    }

    /// Returns when the first of these executors is tried again; none while each is tried or cannot
    /// be used.
    pub(super) fn next_try(&self, away: &BTreeSet<&str>) -> Option<DateTime<Utc>> {
        let known = away.iter().filter_map(|name| self.history.unreachable.get(*name));
        known.filter(|known| known.trying.is_none()).filter_map(|known| known.next_try).min()
    }

    /// Decides whether to wait for executors that do not answer. `other` is when a task on another
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
        let is_over = |known: &UnreachableExecutor| {
            known.next_try.is_none_or(|next_try| next_try - known.since > longest)
        };
        // One that is silent is named before one that cannot be used: it may come back.
        let last = known().max_by_key(|(_, known)| (known.next_try.is_some(), known.since));
        if let Some((run_on, executor)) = last
            && other.is_none()
            && known().all(|(_, known)| is_over(known))
        {
            return Decision::Stop(StopReason::Unreachable {
                run_on: run_on.clone(),
                since: executor.since,
                why: executor.why.clone(),
                max_wait: executor.next_try.map(|_| self.policy.max_wait),
            });
        }
        let texts = known().map(|(name, known)| known.text(name)).collect::<Vec<_>>();
        let until = self.next_try(away).into_iter().chain(other).min();
        Decision::Wait(Wait { until, why: texts.join("; ") })
    }
}

impl UnreachableExecutor {
    /// Says for people that the executor of this name does not answer or cannot be used, and why.
    pub fn text(&self, name: &str) -> String {
        format!("executor `{name}` {}: {}", fault_words(self.next_try.is_none()), self.why)
    }
}

/// What is wrong with an executor, in words that its reason follows.
pub fn fault_words(lasts: bool) -> &'static str {
    if lasts { "cannot be used" } else { "does not answer" }
}
