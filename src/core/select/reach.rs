//! The tasks whose executor does not answer.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, MAX_BACKOFF, TaskState, View, Wait};
use crate::core::{event::StopReason, executor::LOCAL, history::UnreachableExecutor};

impl<'a> View<'a> {
    /// Returns the executor of a task; none if that is this machine as it is.
    pub fn executor(&self, number: usize) -> Option<&'a str> {
        let own = self.graph.task(number).run_on.as_deref();
        let own = own.filter(|_| !self.policy.run_on_given);
        own.or(self.policy.run_on.as_deref()).filter(|name| *name != LOCAL)
    }

    /// Returns the state of a task that cannot start because its executor does not answer.
    pub(super) fn unreachable(&self, number: usize, now: DateTime<Utc>) -> Option<TaskState> {
        if self.history.run.finished.is_some() {
            // The next run tries at once.
            return None;
        }
        let executor = self.history.unreachable.get(self.executor(number)?)?;
        if executor.trying.is_some() {
            return Some(TaskState::Unreachable(None));
        }
        // A try that is further away was recorded before the clock was set back.
        let longest = TimeDelta::from_std(MAX_BACKOFF).expect("five minutes fit");
        let pause = now..now + longest + TimeDelta::seconds(1);
        let waits = executor.next_try > now && pause.contains(&executor.next_try);
        waits.then_some(TaskState::Unreachable(Some(executor.next_try)))
    }

    /// Returns when the first of these executors is tried again; none while each is tried.
    pub(super) fn next_try(&self, away: &BTreeSet<&str>) -> Option<DateTime<Utc>> {
        let known = away.iter().filter_map(|name| self.history.unreachable.get(*name));
        known.filter(|known| known.trying.is_none()).map(|known| known.next_try).min()
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
        let is_over = |known: &UnreachableExecutor| known.next_try - known.since > longest;
        let last = known().max_by_key(|(_, known)| known.since);
        if let Some((run_on, executor)) = last
            && other.is_none()
            && known().all(|(_, known)| is_over(known))
        {
            return Decision::Stop(StopReason::Unreachable {
                run_on: run_on.clone(),
                since: executor.since,
                why: executor.why.clone(),
                max_wait: self.policy.max_wait,
            });
        }
        let texts = known().map(|(name, known)| known.text(name)).collect::<Vec<_>>();
        let until = self.next_try(away).into_iter().chain(other).min();
        Decision::Wait(Wait { until, why: texts.join("; ") })
    }
}

impl UnreachableExecutor {
    /// Says for people that the executor of this name does not answer, and why.
    pub fn text(&self, name: &str) -> String {
        format!("executor `{name}` does not answer: {}", self.why)
    }
}
