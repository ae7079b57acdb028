//! What holds everything back: the smallest set of tasks whose reset or completion frees the rest.

use std::{cmp::Reverse, collections::HashSet};

use chrono::{DateTime, Utc};

use super::{TaskState, View, unfinished};
use crate::core::{event::Blocker, graph::task::Status};

impl View<'_> {
    /// The smallest set of tasks whose reset or completion lets everything in question go on: what
    /// is held for a reason of its own. Most freeing first.
    pub fn holders(&self, now: DateTime<Utc>) -> Vec<Blocker> {
        let mut blocked: HashSet<usize> = HashSet::new();
        let mut roots: Vec<(usize, String)> = Vec::new();
        let mut stack: Vec<usize> = self.admitted().collect();
        // Downwards from what is in question to what holds it, which may lie outside the filter.
        while let Some(number) = stack.pop() {
            if !blocked.insert(number) {
                continue;
            }
            match self.held_by_itself(number, now) {
                Some(why) => roots.push((number, why)),
                None => stack.extend(self.waits_for(number)),
            }
        }
        self.rank(roots)
    }

    /// Why a task is held, if the reason is its own and not that of a dependency.
    fn held_by_itself(&self, number: usize, now: DateTime<Utc>) -> Option<String> {
        match self.state(number, now) {
            TaskState::Claimed => Some("in progress, but not by this run".to_owned()),
            TaskState::Parked(attempts) => {
                let plural = if attempts == 1 { "" } else { "s" };
                Some(format!("parked after {attempts} attempt{plural}"))
            }
            TaskState::NeedsInput => {
                let question = self.history.of(&self.graph.task(number).id).question();
                let first = question.and_then(|text| text.lines().next());
                Some(first.map_or("needs input".to_owned(), |text| format!("needs input: {text}")))
            }
            TaskState::Spent => {
                let spent = self.history.of(&self.graph.task(number).id).spend.cost();
                Some(format!("out of money: {spent} spent"))
            }
            TaskState::Held => Some("blocked by hand".to_owned()),
            TaskState::Cancelled => self
                .graph
                .dependents(number)
                .any(|d| unfinished(self.graph.task(d)))
                .then(|| "cancelled, and others depend on it".to_owned()),
            TaskState::Ready if !self.policy.filter.admits(self.graph.task(number)) => {
                Some("ready, but outside what this run was restricted to".to_owned())
            }
            TaskState::Complete
            | TaskState::Running
            | TaskState::Ready
            | TaskState::Conflicting
            | TaskState::Backoff(_)
            | TaskState::Limited(_)
            | TaskState::Denied
            | TaskState::Waiting => None,
        }
    }

    /// Counts what each root frees when those before it are dealt with, the best first.
    fn rank(&self, mut roots: Vec<(usize, String)>) -> Vec<Blocker> {
        /// Beyond so many, the order among the rest is that of the file: each costs a pass.
        const RANKED: usize = 20;
        roots.sort_unstable();
        let mut dealt: HashSet<usize> = HashSet::new();
        let mut holders = Vec::new();
        while !roots.is_empty() && holders.len() < RANKED {
            let (at, freed) = roots
                .iter()
                .enumerate()
                .map(|(at, (root, _))| (at, self.freed_by(*root, &dealt)))
                .max_by_key(|(at, freed)| (freed.len(), Reverse(*at)))
                .expect("there is a root");
            let (root, why) = roots.remove(at);
            holders.push(Blocker {
                task_id: self.graph.task(root).id.clone(),
                why,
                frees: freed.len(),
            });
            dealt.extend(freed);
        }
        holders.extend(roots.into_iter().map(|(root, why)| Blocker {
            task_id: self.graph.task(root).id.clone(),
            why,
            frees: 1,
        }));
        holders
    }

    /// The unfinished tasks that could be worked off once `root` is complete, itself included,
    /// given that those in `dealt` can.
    fn freed_by(&self, root: usize, dealt: &HashSet<usize>) -> Vec<usize> {
        let mut freed = vec![root];
        let mut done: HashSet<usize> = HashSet::from([root]);
        let mut at = 0;
        while let Some(&number) = freed.get(at) {
            at += 1;
            for dependent in self.graph.dependents(number) {
                let can = |d: usize| {
                    self.graph.task(d).status == Status::Complete
                        || done.contains(&d)
                        || dealt.contains(&d)
                };
                if self.graph.task(dependent).status == Status::Pending
                    && !done.contains(&dependent)
                    && !dealt.contains(&dependent)
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
