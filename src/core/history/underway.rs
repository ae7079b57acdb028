//! The attempts that have no end, and the merge queue: where each of them is on its way from the
//! start to its place in the target branch.

use std::slice;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::core::{
    event::{Batch, Event, Held, record::Record},
    graph::task::TaskId,
};

/// Where an attempt without an end is, as far as the journal tells: that its agent has begun, after
/// a work tree was prepared for it, is no fact of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStage {
    /// Its work tree is being prepared.
    Preparing,
    /// The commands of `setup` run.
    SettingUp,
    /// The verify commands run before its agent.
    Baseline,
    /// Its agent is at work.
    Running,
    /// The verify commands run after its agent.
    Verifying,
    /// It waits to be merged.
    Queued,
    /// It is tried on top of the target branch.
    Merging,
}

impl AttemptStage {
    /// In a word, or two.
    pub fn word(self) -> &'static str {
        match self {
            AttemptStage::Preparing => "preparing",
            AttemptStage::SettingUp => "setting up",
            AttemptStage::Running => "running",
            AttemptStage::Baseline | AttemptStage::Verifying => "verifying",
            AttemptStage::Queued => "queued",
            AttemptStage::Merging => "merging",
        }
    }
}

/// An attempt that has no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveAttempt {
    /// The task.
    pub task_id: TaskId,
    /// Which attempt at it.
    pub attempt: u32,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Where it is.
    pub stage: AttemptStage,
    /// The work tree that it has to itself, if it has one.
    pub worktree: Option<String>,
    /// The branch that it began on.
    pub branch: Option<String>,
    /// Its folder, relative to the repository.
    pub log: String,
}

/// All that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Underway {
    /// The attempts that have no end, in the order in which they began.
    pub attempts: Vec<ActiveAttempt>,
    /// The tasks that wait to be merged, the first first; those that are tried included.
    pub queue: Vec<TaskId>,
    /// What the merge queue tries.
    pub trial: Option<Batch>,
    /// Why the target branch is not moved for now.
    pub held: Option<Held>,
}

impl Underway {
    /// The attempt at a task, if one goes on.
    pub fn of(&self, id: &TaskId) -> Option<&ActiveAttempt> {
        self.attempts.iter().find(|going| going.task_id == *id)
    }

    /// Whether the task waits to be merged, or is just being.
    pub fn waits(&self, id: &TaskId) -> bool {
        self.queue.contains(id)
    }

    /// Whether this is about what the merge queue tries, and not about the attempt alone.
    pub fn is_trial(&self, id: &TaskId) -> bool {
        self.of(id).is_some_and(|going| going.stage == AttemptStage::Merging)
    }

    /// Takes in one more fact.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::LoopStarted(_) => {
                self.end_trial();
                // It finds anew what waits and what is in the way.
                (self.queue, self.held) = (Vec::new(), None);
            }
            Event::Merging(batch) => {
                self.end_trial();
                self.put(&batch.tasks, AttemptStage::Merging);
                self.trial = Some(batch.clone());
            }
            Event::Split(_) | Event::Finished { .. } => self.end_trial(),
            Event::MergeHeld(held) => {
                self.end_trial();
                self.held = Some(held.clone());
            }
            _ => {}
        }
        let Some(id) = &record.task_id else {
            return;
        };
        let stage = self.of(id).map(|going| going.stage);
        match &record.event {
            Event::Started { attempt, branch, log, worktree, .. } => {
                self.forget(id);
                let apart = worktree.is_some();
                self.attempts.push(ActiveAttempt {
                    task_id: id.clone(),
                    attempt: *attempt,
                    since: record.timestamp,
                    stage: if apart { AttemptStage::Preparing } else { AttemptStage::Running },
                    worktree: worktree.clone(),
                    branch: branch.clone(),
                    log: log.clone(),
                });
            }
            Event::SettingUp { .. } => self.put(slice::from_ref(id), AttemptStage::SettingUp),
            // What is said of a trial is said of the first task in it.
            _ if stage == Some(AttemptStage::Merging) && record.event.ended().is_none() => {}
            Event::Verifying { baseline, .. } => {
                let stage =
                    if *baseline { AttemptStage::Baseline } else { AttemptStage::Verifying };
                self.put(slice::from_ref(id), stage);
            }
            Event::Verified(_) if stage == Some(AttemptStage::Baseline) => {
                self.put(slice::from_ref(id), AttemptStage::Running);
            }
            Event::Queued { .. } => {
                self.put(slice::from_ref(id), AttemptStage::Queued);
                if !self.queue.contains(id) {
                    self.queue.push(id.clone());
                }
            }
            event if event.ended().is_some() => {
                self.forget(id);
                // The target branch has moved.
                if stage == Some(AttemptStage::Merging) && matches!(event, Event::Completed(_)) {
                    self.held = None;
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, ids: &[TaskId], stage: AttemptStage) {
        for going in self.attempts.iter_mut().filter(|going| ids.contains(&going.task_id)) {
            going.stage = stage;
        }
    }

    fn end_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.put(&trial.tasks, AttemptStage::Queued);
        }
    }

    fn forget(&mut self, id: &TaskId) {
        self.attempts.retain(|going| going.task_id != *id);
        self.queue.retain(|waiting| waiting != id);
        if let Some(trial) = &mut self.trial {
            trial.tasks.retain(|tried| tried != id);
        }
        self.trial.take_if(|trial| trial.tasks.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{end, record, started},
        *,
    };
    use crate::core::{
        outcome::Outcome,
        verdict::{CheckResult, Verdict},
    };

    fn apart(attempt: u32) -> Event {
        match started(attempt) {
            Event::Started { attempt, base, branch, log, why, format, .. } => {
                let worktree = Some("/trees/1".to_owned());
                Event::Started { attempt, base, branch, log, why, format, worktree }
            }
            other => other,
        }
    }

    fn verifying(baseline: bool) -> Event {
        let (command, log) = ("true".to_owned(), String::new());
        Event::Verifying { attempt: 1, command, baseline, log }
    }

    fn verified() -> Event {
        Event::Verified(CheckResult {
            command: "true".to_owned(),
            outcome: Outcome::Exited { exit_code: 0 },
            duration_seconds: 1.0,
            last_line: None,
            log: String::new(),
        })
    }

    fn batch(ids: &[&str]) -> Batch {
        let tasks = ids.iter().map(|id| TaskId::new(id).unwrap()).collect();
        Batch { branch: "main".to_owned(), onto: "0".to_owned(), tasks }
    }

    /// What is told, and the stages of all that goes on after it.
    fn course(told: Vec<(&str, Event)>) -> (Underway, String) {
        let (mut underway, mut course) = (Underway::default(), Vec::new());
        for (at, (id, event)) in (0..).zip(told) {
            underway.apply(&record(id, at, event));
            let all = underway.attempts.iter();
            let all = all.map(|going| format!("{} {}", going.task_id, going.stage.word()));
            course.push(all.collect::<Vec<_>>().join(", "));
        }
        (underway, course.join("\n"))
    }

    #[test]
    fn an_attempt_is_followed_to_its_place_in_the_target() {
        let setting = Event::SettingUp { attempt: 1, command: String::new(), log: String::new() };
        let (underway, text) = course(vec![
            ("a", apart(1)),
            ("a", setting),
            ("a", verifying(true)),
            ("a", verified()),
            ("a", verifying(false)),
            ("b", started(1)),
            ("a", Event::Queued { attempt: 1, waiting: 1 }),
            ("a", Event::Merging(batch(&["a"]))),
            ("a", verifying(false)),
            ("a", verified()),
            ("a", Event::Completed(end(1, Verdict::Complete))),
        ]);
        insta::assert_snapshot!(text, @r"
        a preparing
        a setting up
        a verifying
        a running
        a verifying
        a verifying, b running
        a queued, b running
        a merging, b running
        a merging, b running
        a merging, b running
        b running
        ");
        assert_eq!((underway.queue, underway.trial), (Vec::new(), None));
    }

    #[test]
    fn a_trial_that_fails_gives_its_tasks_back_to_the_queue() {
        let queued = |waiting| Event::Queued { attempt: 1, waiting };
        let held = Held {
            branch: "main".to_owned(),
            checkout: "/repo".to_owned(),
            paths: vec!["x".to_owned()],
            why: None,
        };
        let begin = [("a", apart(1)), ("b", apart(1)), ("c", apart(1))];
        let told = begin.into_iter().chain([
            ("b", queued(1)),
            ("a", queued(2)),
            ("b", Event::Merging(batch(&["b", "a"]))),
            ("b", Event::Split(batch(&["b", "a"]))),
            ("b", Event::Merging(batch(&["b"]))),
            ("", Event::MergeHeld(held.clone())),
        ]);
        let (mut underway, text) = course(told.collect());
        insta::assert_snapshot!(text, @r"
        a preparing
        a preparing, b preparing
        a preparing, b preparing, c preparing
        a preparing, b queued, c preparing
        a queued, b queued, c preparing
        a merging, b merging, c preparing
        a queued, b queued, c preparing
        a queued, b merging, c preparing
        a queued, b queued, c preparing
        ");
        let names = |underway: &Underway| underway.queue.iter().map(TaskId::to_string).collect();
        let waiting: Vec<String> = names(&underway);
        assert_eq!(waiting, ["b", "a"]);
        assert_eq!(underway.held, Some(held));
        underway.apply(&record("b", 20, Event::Merging(batch(&["b", "a"]))));
        underway.apply(&record("b", 21, Event::Completed(end(1, Verdict::Complete))));
        let waiting: Vec<String> = names(&underway);
        assert_eq!((waiting, underway.held.clone()), (vec!["a".to_owned()], None));
        assert!(underway.is_trial(&TaskId::new("a").unwrap()), "it lands at the same time");
    }
}
