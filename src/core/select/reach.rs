//! The tasks whose executor is out.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::{MAX_BACKOFF, Policy, View};
use crate::{
    executor::{LOCAL, fault_text, pool_of},
    history::UnreachableExecutor,
};

impl<'a> View<'a> {
    /// Returns the name of the executor of a task.
    pub fn place(&self, number: usize) -> &'a str {
        let own = self.graph.task(number).run_on.as_deref();
        let own = own.filter(|_| !self.policy.run_on_given);
        own.or(self.policy.run_on.as_deref()).unwrap_or(LOCAL)
    }

    /// Returns the executor on which a task can start: of a pool, a host that is to be tried again, or
    /// else the one with the fewest attempts. None if the limit of each is reached.
    ///
    /// # Errors
    /// All are out; with the next try, or none while that is made.
    pub fn host(
        &self,
        number: usize,
        now: DateTime<Utc>,
    ) -> Result<Option<&'a str>, Option<DateTime<Utc>>> {
        let pool = self.place(number);
        // The next run tries at once.
        let known = |name: &str| {
            self.history.unreachable.get(name).filter(|_| self.history.run.finished.is_none())
        };
        let places = self.policy.places(pool);
        let (there, out): (Vec<&str>, Vec<&str>) = places
            .into_iter()
            .partition(|name| known(name).is_none_or(|known| known.may_be_tried(now)));
        if there.is_empty() {
            return Err(self.first_try(&out.into_iter().collect()));
        }
        let limit = self.policy.limits.get(pool).map_or(usize::MAX, |limit| limit.get() as usize);
        let at_work = |name: &str| {
            let active = self.active.iter().filter(|active| active.works);
            let tasks = active.filter_map(|active| Some(&self.graph.task(active.number?).id));
            let open = tasks.filter_map(|id| self.history.active.of(id));
            open.filter(|open| open.run_on.as_deref().unwrap_or(LOCAL) == name).count()
        };
        let loads = there.into_iter().map(|name| {
            let is_known = self.history.unreachable.contains_key(name);
            (!is_known, at_work(name), name)
        });
        let free = loads.filter(|(_, count, _)| *count < limit);
        Ok(free.min_by_key(|(is_in, count, _)| (*is_in, *count)).map(|(.., name)| name))
    }

    /// Returns when the first of these executors is tried again; none while each is tried.
    pub(super) fn first_try(&self, away: &BTreeSet<&str>) -> Option<DateTime<Utc>> {
        let known = away.iter().filter_map(|name| self.history.unreachable.get(*name));
        known.filter(|known| known.trying.is_none()).map(|known| known.next_try).min()
    }
}

impl Policy {
    /// Returns the executors of this name: the hosts of a pool, or itself.
    pub fn places<'p>(&'p self, name: &'p str) -> Vec<&'p str> {
        let hosts = self.hosts.iter().map(String::as_str);
        let hosts: Vec<&str> = hosts.filter(|host| pool_of(host) == name).collect();
        if hosts.is_empty() { vec![name] } else { hosts }
    }
}

impl UnreachableExecutor {
    /// Whether an attempt may try it now.
    fn may_be_tried(&self, now: DateTime<Utc>) -> bool {
        // A try that is further away was recorded before the clock was set back.
        let longest = TimeDelta::from_std(MAX_BACKOFF).expect("five minutes fit");
        let pause = now..now + longest + TimeDelta::seconds(1);
        let waits = self.next_try > now && pause.contains(&self.next_try);
        self.trying.is_none() && !waits
    }

    /// Says for people that the executor of this name is out, and why.
    pub fn text(&self, name: &str) -> String {
        fault_text(name, self.lasts, &self.why)
    }
}
