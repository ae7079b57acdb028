//! The active attempts and the merge queue.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    attempt::AttemptState,
    event::{Batch, Cause, Event, Held, record::Record},
    executor::Placement,
    graph::task::TaskId,
};

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveAttempt {
    /// The task.
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// When it started.
    pub since: DateTime<Utc>,
    /// Its state.
    pub state: AttemptState,
    /// Its slot, if it is isolated.
    pub slot: Option<String>,
    /// The branch that it started on.
    pub branch: Option<String>,
    /// Its folder, relative to the repository.
    pub log: String,
    /// Whether its completion was reported by command.
    #[serde(default)]
    pub reported: bool,
    /// Whether its agent has started.
    #[serde(default)]
    pub has_agent: bool,
    /// Where it is to run, if that is not this machine as it is.
    #[serde(default)]
    pub run_on: Option<String>,
    /// What it waits for at its executor.
    #[serde(default)]
    pub awaits: Option<String>,
    /// When its process was last heard, if there is no contact with it.
    #[serde(default)]
    pub no_contact_since: Option<DateTime<Utc>>,
    /// Where its agent really runs.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// The tasks whose status a command changed since it started.
    #[serde(default)]
    pub commanded: BTreeSet<TaskId>,
    /// The number of ended attempts when it started.
    #[serde(default)]
    pub(super) began_after: u64,
}

/// The active attempts and the merge queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActiveAttempts {
    /// The attempts that have not ended, in the order of their start.
    pub attempts: Vec<ActiveAttempt>,
    /// The tasks queued to land, in order, including those in the current trial.
    pub queue: Vec<TaskId>,
    /// The batch that the merge queue is trying.
    pub trial: Option<Batch>,
    /// What blocks landing on the target branch.
    pub held: Option<Held>,
}

impl ActiveAttempts {
    /// Returns the open attempt at a task, if there is one.
    pub fn of(&self, id: &TaskId) -> Option<&ActiveAttempt> {
        self.attempts.iter().find(|active| active.task_id == *id)
    }

    /// Whether the task is queued to land or is landing.
    pub fn is_queued(&self, id: &TaskId) -> bool {
        self.queue.contains(id)
    }

    /// Whether events about this task concern the current batch of the merge queue.
    pub fn is_landing(&self, id: &TaskId) -> bool {
        self.of(id).is_some_and(|active| active.state.is_landing())
    }

    /// Applies an event. `ended` is the number of attempts that had ended before it.
    pub(super) fn apply(&mut self, record: &Record, ended: u64) {
        let (event, id) = (&record.event, record.task_id.as_ref());
        let was_landing = id.is_some_and(|id| self.is_landing(id));
        for active in self.attempts.iter_mut().filter(|it| Some(&it.task_id) == id) {
            let awaits =
                if let Event::AwaitingExecutor { why, .. } = event { Some(why) } else { None };
            active.awaits = awaits.cloned();
            if let Event::ContactLost { since, .. } = event {
                active.no_contact_since = Some(*since);
            } else if matches!(event, Event::ContactRegained { .. } | Event::Verifying { .. }) {
                active.no_contact_since = None;
            }
        }
        if let Event::LoopStarted(_) = event {
            // A new run rebuilds the queue and checks again what blocks the branch.
            (self.queue, self.held) = (Vec::new(), None);
        } else if let Event::MergeHeld(held) = event {
            self.held = Some(held.clone());
        } else if let (Event::Completed(_), true) = (event, was_landing) {
            // The target branch has moved. Deferred work still waits for a person.
            self.held = self.held.take().filter(|held| id.is_some_and(|id| held.outlasts(id)));
        } else if let (Event::Started { .. }, Some(id)) = (event, id) {
            self.start(id, record, ended);
        } else if let Event::Queued { .. } = event {
            self.queue.extend(id.filter(|id| !self.queue.contains(id)).cloned());
        } else if let Event::AgentStarted { placement, .. } = event {
            for active in self.attempts.iter_mut().filter(|it| Some(&it.task_id) == id) {
                active.has_agent = true;
                active.placement.clone_from(placement);
            }
        } else if let Event::Reported { .. } = event {
            for active in self.attempts.iter_mut().filter(|it| Some(&it.task_id) == id) {
                active.reported = true;
            }
        } else if let (Event::StatusChanged { cause: Cause::Command, .. }, Some(id)) = (event, id) {
            for active in &mut self.attempts {
                active.commanded.insert(id.clone());
            }
        }
        if let Event::Merging(batch) = event {
            self.end_trial(event);
            self.advance(event, |active| batch.tasks.contains(&active.task_id));
            self.trial = Some(batch.clone());
        } else if event.ends_trial() {
            self.end_trial(event);
        } else {
            self.advance(event, |active| Some(&active.task_id) == id);
        }
    }

    fn start(&mut self, id: &TaskId, record: &Record, ended: u64) {
        let Event::Started { attempt, branch, log, slot, run_on, .. } = &record.event else {
            return;
        };
        self.attempts.retain(|active| active.task_id != *id);
        self.attempts.push(ActiveAttempt {
            task_id: id.clone(),
            attempt: *attempt,
            since: record.timestamp,
            state: AttemptState::Preparing,
            slot: slot.clone(),
            branch: branch.clone(),
            log: log.clone(),
            reported: false,
            has_agent: false,
            run_on: run_on.clone(),
            awaits: None,
            no_contact_since: None,
            placement: None,
            commanded: BTreeSet::new(),
            began_after: ended,
        });
    }

    /// Ends the trial and queues its tasks again.
    fn end_trial(&mut self, event: &Event) {
        if self.trial.take().is_some() {
            let state = |active: &ActiveAttempt| active.state.is_landing();
            if let Event::Merging(batch) = event {
                self.advance(&Event::Split(batch.clone()), state);
            } else {
                self.advance(event, state);
            }
        }
    }

    /// Applies an event to the attempts it concerns, and removes those that it ends.
    fn advance(&mut self, event: &Event, concerns: impl Fn(&ActiveAttempt) -> bool) {
        let mut ended = Vec::new();
        self.attempts.retain_mut(|active| {
            if !concerns(active) {
                return true;
            }
            match active.state.after(event) {
                Some(state) => active.state = state,
                None => ended.push(active.task_id.clone()),
            }
            !ended.contains(&active.task_id)
        });
        self.queue.retain(|queued| !ended.contains(queued));
        if let Some(trial) = &mut self.trial {
            trial.tasks.retain(|tried| !ended.contains(tried));
        }
        self.trial.take_if(|trial| trial.tasks.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{end, record, started};
    use crate::{
        outcome::Outcome,
        verdict::{CheckResult, Verdict},
    };

    fn isolated(attempt: u32) -> Event {
        let mut event = started(attempt);
        if let Event::Started { slot, .. } = &mut event {
            *slot = Some("/slots/1".to_owned());
        }
        event
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
        Batch { branch: "main".to_owned(), onto: "0".into(), tasks }
    }

    /// Applies events. Returns the result, and the states of all attempts after each event.
    fn states_after(events: Vec<(&str, Event)>) -> (ActiveAttempts, String) {
        let (mut active, mut lines) = (ActiveAttempts::default(), Vec::new());
        for (at, (id, event)) in (0..).zip(events) {
            active.apply(&record(id, at, event), 0);
            let all = active.attempts.iter();
            let all = all.map(|it| format!("{} {}", it.task_id, it.state.word()));
            lines.push(all.collect::<Vec<_>>().join(", "));
        }
        (active, lines.join("\n"))
    }

    #[test]
    fn an_attempt_passes_through_its_states_until_it_lands() {
        let setting = Event::SettingUp { attempt: 1, command: String::new(), log: String::new() };
        let (active, text) = states_after(vec![
            ("a", isolated(1)),
            ("a", setting),
            ("a", verifying(true)),
            ("a", verified()),
            ("a", Event::AgentStarted { attempt: 1, placement: None }),
            ("a", verifying(false)),
            ("b", started(1)),
            ("b", Event::AgentStarted { attempt: 1, placement: None }),
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
        a verifying
        a running
        a verifying
        a verifying, b preparing
        a verifying, b running
        a queued, b running
        a landing, b running
        a landing, b running
        a landing, b running
        b running
        ");
        assert_eq!((active.queue, active.trial), (Vec::new(), None));
    }

    #[test]
    fn a_failed_trial_returns_its_tasks_to_the_queue() {
        let queued = |waiting| Event::Queued { attempt: 1, waiting };
        let held = Held {
            branch: "main".to_owned(),
            checkout: "/repo".to_owned(),
            paths: vec!["x".to_owned()],
            tasks: Vec::new(),
            why: None,
        };
        let begin = [("a", isolated(1)), ("b", isolated(1)), ("c", isolated(1))];
        let events = begin.into_iter().chain([
            ("b", queued(1)),
            ("a", queued(2)),
            ("b", Event::Merging(batch(&["b", "a"]))),
            ("b", Event::Split(batch(&["b", "a"]))),
            ("b", Event::Merging(batch(&["b"]))),
            ("", Event::MergeHeld(held.clone())),
        ]);
        let (mut active, text) = states_after(events.collect());
        insta::assert_snapshot!(text, @r"
        a preparing
        a preparing, b preparing
        a preparing, b preparing, c preparing
        a preparing, b queued, c preparing
        a queued, b queued, c preparing
        a landing, b landing, c preparing
        a queued, b queued, c preparing
        a queued, b landing, c preparing
        a queued, b queued, c preparing
        ");
        let names = |active: &ActiveAttempts| active.queue.iter().map(TaskId::to_string).collect();
        let waiting: Vec<String> = names(&active);
        assert_eq!(waiting, ["b", "a"]);
        assert_eq!(active.held, Some(held));
        active.apply(&record("b", 20, Event::Merging(batch(&["b", "a"]))), 0);
        active.apply(&record("b", 21, Event::Completed(end(1, Verdict::Complete))), 0);
        let waiting: Vec<String> = names(&active);
        assert_eq!((waiting, active.held.clone()), (vec!["a".to_owned()], None));
        assert!(active.is_landing(&TaskId::new("a").unwrap()), "it is in the same batch");
    }
}
