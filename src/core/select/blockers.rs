//! The blockers: the smallest set of tasks whose reset or completion frees all others.

use std::{cmp::Reverse, collections::HashSet};

use chrono::{DateTime, Utc};

use super::{TaskState, View, key::unfinished};
use crate::{event::Blocker, graph::task::Status};

impl View<'_> {
    /// Returns the smallest set of tasks whose reset or completion frees all selected tasks. Each
    /// is held up for its own reason. The one that frees the most tasks is first.
    pub fn blockers(&self, now: DateTime<Utc>) -> Vec<Blocker> {
        let mut blocked: HashSet<usize> = HashSet::new();
        let mut roots: Vec<(usize, String)> = Vec::new();
        let mut stack: Vec<usize> = self.admitted().collect();
        // From the selected tasks down to their blockers, which the filter may exclude.
        while let Some(number) = stack.pop() {
            if !blocked.insert(number) {
                continue;
            }
            match self.own_reason(number, now) {
                Some(why) => roots.push((number, why)),
                None => stack.extend(self.waits_for(number)),
            }
        }
        self.rank(roots)
    }

    /// The reason why a task cannot start, if it is not a dependency.
    fn own_reason(&self, number: usize, now: DateTime<Utc>) -> Option<String> {
        match self.state(number, now) {
            TaskState::Claimed => Some("in progress outside of this run".to_owned()),
            TaskState::Parked(attempts) => {
                let past = self.history.of(&self.graph.task(number).id);
                if let Some(reopened) = past.reopening().filter(|_| past.stuck) {
                    let (times, red) = (reopened.times, &reopened.red);
                    return Some(format!("parked, opened again {times} times: {red}"));
                }
                let plural = if attempts == 1 { "" } else { "s" };
                let last = past.last.as_ref().filter(|_| past.repeated > 0);
                let red = last.and_then(|last| last.ended.evidence.red());
                let same = red.map_or_else(String::new, |red| {
                    format!(", `{}` failed {} times in the same way", red.command, past.same)
                });
                Some(format!("parked after {attempts} attempt{plural}{same}"))
            }
            TaskState::NeedsInput => {
                let task = self.graph.task(number);
                let question = self.history.of(&task.id).question(task);
                let first = question.as_deref().and_then(|text| text.lines().next());
                Some(first.map_or("needs input".to_owned(), |text| format!("needs input: {text}")))
            }
            TaskState::Spent => {
                let spent = self.history.of(&self.graph.task(number).id).spend.cost();
                Some(format!("cost limit reached: {spent} spent"))
            }
            TaskState::Blocked => {
                let reason = &self.history.of(&self.graph.task(number).id).reason;
                let more = reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
                Some(format!("blocked by a person{more}"))
            }
            TaskState::OnBranch => {
                let branch = self.policy.elsewhere.get(&self.graph.task(number).id);
                branch.map(|branch| format!("complete on `{branch}`, not on this branch"))
            }
            TaskState::Cancelled => self
                .graph
                .dependents(number)
                .any(|d| unfinished(self.graph.task(d)))
                .then(|| "cancelled, but other tasks depend on it".to_owned()),
            TaskState::Ready if !self.policy.filter.admits(self.graph.task(number)) => {
                Some("ready, but excluded by the filters of this run".to_owned())
            }
            TaskState::Complete
            | TaskState::Running
            | TaskState::Ready
            | TaskState::Conflicting
            | TaskState::Retrying(_)
            | TaskState::RateLimited(_)
            | TaskState::Unreachable(_)
            | TaskState::Denied
            | TaskState::Waiting => None,
        }
    }

    /// Orders the roots by the number of tasks that each frees once those before it are resolved.
    fn rank(&self, mut roots: Vec<(usize, String)>) -> Vec<Blocker> {
        /// The number of roots to rank. The others keep the order of the file, because each rank
        /// costs a pass.
        const RANKED: usize = 20;
        roots.sort_unstable();
        let mut resolved: HashSet<usize> = HashSet::new();
        let mut blockers = Vec::new();
        while !roots.is_empty() && blockers.len() < RANKED {
            let (at, freed) = roots
                .iter()
                .enumerate()
                .map(|(at, (root, _))| (at, self.freed_by(*root, &resolved)))
                .max_by_key(|(at, freed)| (freed.len(), Reverse(*at)))
                .expect("there is a root");
            let (root, why) = roots.remove(at);
            blockers.push(Blocker {
                task_id: self.graph.task(root).id.clone(),
                why,
                frees: freed.len(),
            });
            resolved.extend(freed);
        }
        blockers.extend(roots.into_iter().map(|(root, why)| Blocker {
            task_id: self.graph.task(root).id.clone(),
            why,
            frees: 1,
        }));
        blockers
    }

    /// Returns the unfinished tasks that can be completed once `root` is resolved, including
    /// `root`, assuming that those in `resolved` can.
    fn freed_by(&self, root: usize, resolved: &HashSet<usize>) -> Vec<usize> {
        let mut freed = vec![root];
        let mut done: HashSet<usize> = HashSet::from([root]);
        let mut at = 0;
        while let Some(&number) = freed.get(at) {
            at += 1;
            for dependent in self.graph.dependents(number) {
                let can = |d: usize| {
                    self.graph.task(d).status == Status::Complete
                        || done.contains(&d)
                        || resolved.contains(&d)
                };
                if self.graph.task(dependent).status == Status::Pending
                    && !done.contains(&dependent)
                    && !resolved.contains(&dependent)
                    && self.graph.dependencies(dependent).all(can)
                {
                    done.insert(dependent);
                    freed.push(dependent);
                }
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::TaskGraph, history::History, samples::task, select::Policy};

    #[test]
    fn the_first_twenty_blockers_are_ranked_by_what_they_free() {
        let roots = 25;
        let mut tasks: Vec<_> = (0..roots).map(|root| task(&format!("r{root}"))).collect();
        for root in &mut tasks {
            root.status = Status::Blocked;
        }
        let mut edges = Vec::new();
        for root in 0..roots {
            for dependent in 0..root {
                edges.push((root, tasks.len()));
                tasks.push(task(&format!("d{root}-{dependent}")));
            }
        }
        let graph = TaskGraph::new(tasks, edges).unwrap();
        let (history, policy) = (History::default(), Policy::default());
        let view =
            View { graph: &graph, keys: &[], history: &history, policy: &policy, active: &[] };
        let blockers = view.blockers(DateTime::UNIX_EPOCH);
        let found: Vec<(&str, usize)> =
            blockers.iter().map(|it| (it.task_id.as_str(), it.frees)).collect();
        let names: Vec<String> = (0..roots).map(|root| format!("r{root}")).collect();
        let ranked = (5..roots).rev().map(|root| (names[root].as_str(), root + 1));
        let others = (0..5).map(|root| (names[root].as_str(), 1));
        assert_eq!(found, ranked.chain(others).collect::<Vec<_>>());
    }
}
