//! The active attempts and the merge queue.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::History;
use crate::{
    agents::provider_error::{Advice, PATIENCE, ProviderError},
    attempt::AttemptState,
    default_value::is_default,
    event::{AttemptResult, Batch, Held, ReviewEnd, ReviewWait, WaitingWork},
    executor::Placement,
    graph::task::TaskId,
    reviewer::WorkReview,
    spend::Spend,
};

/// An attempt that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The command that sets its slot up or verifies it, or did so last.
    pub command: Option<String>,
    /// Whether its agent has started.
    #[serde(default)]
    pub has_agent: bool,
    /// The reason for each continuation of its conversation, such as `no report`.
    #[serde(default)]
    pub continued: Vec<String>,
    /// The newest review of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<WorkReview>>,
    /// The slot for the review of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_slot: Option<String>,
    /// The wait of its required review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_wait: Option<ReviewWait>,
    /// When its work was queued to land.
    pub queued_at: Option<DateTime<Utc>>,
    /// The executor to run on, unless local.
    pub run_on: Option<String>,
    /// The reason for its wait at its executor.
    pub awaits: Option<String>,
    /// The time of the last contact with its process, while contact is lost.
    pub no_contact_since: Option<DateTime<Utc>>,
    /// Where its agent really runs.
    pub placement: Option<Placement>,
    /// When its agent ended, and its usage.
    pub spent: Option<(DateTime<Utc>, Spend)>,
    /// The cost of its reviewers, in US dollars, as far as known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub calls_usd: f64,
    /// The tasks whose status a command changed since it started.
    #[serde(default)]
    pub commanded: BTreeSet<TaskId>,
    /// The number of ended attempts when it started.
    #[serde(default)]
    pub(super) began_after: u64,
}

/// The active attempts and the merge queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActiveAttempts {
    /// The attempts that have not ended, in the order of their start.
    pub attempts: Vec<ActiveAttempt>,
    /// The tasks queued to land, in order, including those in the current trial.
    pub queue: Vec<TaskId>,
    /// The trials of the merge queue, in order.
    pub trials: Vec<Batch>,
    /// Why nothing can land.
    pub held: Option<Held>,
    /// The landed work that waits for the branch of a person.
    pub waiting: Option<WaitingWork>,
}

impl ActiveAttempts {
    /// Returns the open attempt at a task, if there is one.
    pub fn of(&self, id: &TaskId) -> Option<&ActiveAttempt> {
        self.attempts.iter().find(|active| active.task_id == *id)
    }

    /// The usage of ended agents, each with the time of its end.
    pub(super) fn spent(&self) -> impl Iterator<Item = &(DateTime<Utc>, Spend)> {
        self.attempts.iter().filter_map(|active| active.spent.as_ref())
    }

    /// Whether the task is queued to land or is landing.
    pub fn is_queued(&self, id: &TaskId) -> bool {
        self.queue.contains(id)
    }

    /// Whether events about this task concern the current batch of the merge queue.
    pub fn is_landing(&self, id: &TaskId) -> bool {
        self.of(id).is_some_and(|active| active.state.is_landing())
    }

    /// Changes the open attempt at a task, if there is one.
    pub(crate) fn with(&mut self, id: Option<&TaskId>, change: impl FnOnce(&mut ActiveAttempt)) {
        if let Some(active) = self.attempts.iter_mut().find(|it| Some(&it.task_id) == id) {
            change(active);
        }
    }

    /// Adds an attempt, in place of an open one at the same task.
    pub(super) fn start(&mut self, attempt: ActiveAttempt) {
        self.attempts.retain(|active| active.task_id != attempt.task_id);
        self.attempts.push(attempt);
    }

    /// Adds a task to the merge queue.
    pub(crate) fn queue(&mut self, id: Option<&TaskId>, at: DateTime<Utc>) {
        self.set_state(id, AttemptState::Queued);
        self.with(id, |active| {
            (active.queued_at, active.command) = (active.queued_at.or(Some(at)), None);
        });
        self.queue.extend(id.filter(|id| !self.queue.contains(id)).cloned());
    }

    /// Starts a trial of tasks, which are in no other.
    pub(crate) fn start_trial(&mut self, batch: &Batch) {
        batch.tasks.iter().for_each(|id| self.leave_trial(id));
        self.set_states(&batch.tasks, AttemptState::Landing);
        self.trials.push(batch.clone());
    }

    /// Ends the trials of these tasks, which are queued again.
    pub(crate) fn end_trials(&mut self, tasks: &[TaskId]) {
        let is_of = |trial: &mut Batch| trial.tasks.iter().any(|id| tasks.contains(id));
        for trial in self.trials.extract_if(.., is_of).collect::<Vec<_>>() {
            self.set_states(&trial.tasks, AttemptState::Queued);
        }
    }

    /// Ends all trials.
    pub(crate) fn end_all_trials(&mut self) {
        let tasks: Vec<TaskId> = self.trials.iter().flat_map(|trial| trial.tasks.clone()).collect();
        self.end_trials(&tasks);
    }

    fn leave_trial(&mut self, id: &TaskId) {
        self.trials.iter_mut().for_each(|trial| trial.tasks.retain(|tried| tried != id));
        self.trials.retain(|trial| !trial.tasks.is_empty());
    }

    fn set_states(&mut self, tasks: &[TaskId], state: AttemptState) {
        let attempts = self.attempts.iter_mut().filter(|it| tasks.contains(&it.task_id));
        attempts.for_each(|active| active.state = state);
    }

    /// Sets the state of the open attempt at a task, if there is one.
    pub(crate) fn set_state(&mut self, id: Option<&TaskId>, state: AttemptState) {
        self.with(id, |active| active.state = state);
    }

    /// Continues the agent of the open attempt at a task, for this reason. Its previous turn no
    /// longer counts.
    pub(crate) fn go_on(&mut self, id: Option<&TaskId>, lack: &str) {
        let Some(id) = id else { return };
        self.leave_queue(id);
        self.with(Some(id), |active| {
            active.state = AttemptState::Running;
            (active.spent, active.queued_at) = (None, None);
            active.continued.push(lack.to_owned());
        });
    }

    /// Removes the open attempt at a task, which has ended.
    pub(super) fn end(&mut self, id: &TaskId) {
        self.attempts.retain(|active| active.task_id != *id);
        self.leave_queue(id);
    }

    fn leave_queue(&mut self, id: &TaskId) {
        self.queue.retain(|queued| queued != id);
        self.leave_trial(id);
    }
}

// The agents whose providers refuse them for now.

/// An agent that got a provider error in its newest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCooldown {
    /// The newest error.
    #[serde(rename = "met")]
    pub error: ProviderError,
    /// The number of attempts in a row with an error. Attempts that ran at the same time count as
    /// one.
    pub count: u32,
    /// The number of ended attempts when the newest of these attempts ended.
    at: u64,
    /// When the first of these attempts ended.
    pub since: DateTime<Utc>,
}

impl History {
    /// The number of attempts of an agent in a row that got provider errors before the open attempt
    /// at a task started.
    pub fn errors_before(&self, agent: &str, id: &TaskId) -> u32 {
        let Some(cooldown) = self.cooldowns.get(agent) else {
            // Other attempts were answered since the task met such an error: the task is the cause.
            let before = self.of(id).last.as_ref().and_then(|last| last.ended.evidence.obstacle);
            let is_of_task = before.is_some_and(|error| error.obstacle.may_be_of_task());
            return if is_of_task { PATIENCE } else { 0 };
        };
        let together = self.active.of(id).is_some_and(|active| active.began_after < cooldown.at);
        cooldown.count - u32::from(together)
    }

    /// Whether the newest attempt at some task has run with this agent.
    pub fn has_worked(&self, agent: &str) -> bool {
        let is_it = |ended: &AttemptResult| {
            ended.agent.as_deref() == Some(agent) && ended.evidence.obstacle.is_none()
        };
        self.tasks.values().filter_map(|task| task.last.as_ref()).any(|last| is_it(&last.ended))
    }

    /// Applies the provider error of an attempt, or its absence. An attempt that started before the
    /// newest error met the same condition, so its error does not increase the count, and its
    /// success does not end the cooldown.
    pub(super) fn apply_provider_error(
        &mut self,
        since: DateTime<Utc>,
        began: u64,
        ended: &AttemptResult,
    ) {
        let Some(agent) = &ended.agent else {
            return;
        };
        let (at, cooldown) = (self.ended, self.cooldowns.get_mut(agent));
        let is_new = cooldown.as_ref().is_none_or(|cooldown| began >= cooldown.at);
        match (ended.evidence.obstacle, cooldown) {
            (None, _) if is_new => drop(self.cooldowns.remove(agent)),
            (None, _) => {}
            (Some(error), Some(cooldown)) if !is_new => {
                cooldown.error = cooldown.error.or_longer(error);
            }
            (Some(error), Some(cooldown)) => {
                (cooldown.error, cooldown.count, cooldown.at) = (error, cooldown.count + 1, at);
            }
            (Some(error), None) => {
                self.cooldowns.insert(agent.clone(), AgentCooldown { error, count: 1, at, since });
            }
        }
    }

    /// Applies the provider error of a reviewer, or its absence.
    pub(crate) fn apply_review_error(&mut self, since: DateTime<Utc>, end: &ReviewEnd) {
        let (by, at) = (&end.review.by, self.ended);
        let lasts = |error: &ProviderError| error.advice() != Advice::Count;
        match end.obstacle.filter(lasts) {
            Some(error) => {
                let known = self.cooldowns.get(by);
                let (count, since) = known.map_or((1, since), |it| (it.count + 1, it.since));
                self.cooldowns.insert(by.clone(), AgentCooldown { error, count, at, since });
            }
            None if end.review.failed.is_none() => drop(self.cooldowns.remove(by)),
            None => {}
        }
    }

    /// The provider error that blocks a reviewer at this time.
    pub fn review_error(&self, by: &str, now: DateTime<Utc>) -> Option<ProviderError> {
        let error = self.cooldowns.get(by)?.error;
        let blocks = match error.advice() {
            Advice::Wait { until } => now < until,
            Advice::Stop(_) => true,
            Advice::Count => false,
        };
        blocks.then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AttemptEvent, CheckEvent, Event, LandingEvent};
    use crate::history::History;
    use crate::samples::{end, record, started};
    use crate::{
        outcome::Outcome,
        verdict::{CheckResult, Verdict},
    };

    fn isolated(attempt: u32) -> Event {
        let mut event = started(attempt);
        if let Event::Attempt(AttemptEvent::Started { slot, .. }) = &mut event {
            *slot = Some("/slots/1".to_owned());
        }
        event
    }

    fn verifying() -> Event {
        let (command, log) = ("true".to_owned(), String::new());
        CheckEvent::Verifying { attempt: 1, command, log }.into()
    }

    fn verified() -> Event {
        CheckEvent::Verified(CheckResult {
            command: "true".to_owned(),
            outcome: Outcome::Exited { exit_code: 0 },
            duration_seconds: 1.0,
            last_line: None,
            no_test: false,
            log: String::new(),
        })
        .into()
    }

    fn batch(ids: &[&str]) -> Batch {
        let tasks = ids.iter().map(|id| TaskId::new(id).unwrap()).collect();
        Batch { branch: "main".to_owned(), onto: "0".into(), tasks }
    }

    /// Applies events. Returns the history, and the states of all attempts after each event.
    fn states_after(events: Vec<(&str, Event)>) -> (History, String) {
        let (mut history, mut lines) = (History::default(), Vec::new());
        for (at, (id, event)) in (0..).zip(events) {
            history.apply(&record(id, at, event));
            let all = history.active.attempts.iter();
            let all = all.map(|it| format!("{} {}", it.task_id, it.state.word()));
            lines.push(all.collect::<Vec<_>>().join(", "));
        }
        (history, lines.join("\n"))
    }

    #[test]
    fn an_attempt_passes_through_its_states_until_it_lands() {
        let setting =
            CheckEvent::SettingUp { attempt: 1, command: String::new(), log: String::new() };
        let (history, text) = states_after(vec![
            ("a", isolated(1)),
            ("a", setting.into()),
            ("a", AttemptEvent::AgentStarted { attempt: 1, placement: None }.into()),
            ("a", verifying()),
            ("b", started(1)),
            ("b", AttemptEvent::AgentStarted { attempt: 1, placement: None }.into()),
            ("a", LandingEvent::Queued { attempt: 1, waiting: 1 }.into()),
            ("a", LandingEvent::Merging(batch(&["a"])).into()),
            ("a", verifying()),
            ("a", verified()),
            ("a", Event::Ended(end(1, Verdict::Complete))),
        ]);
        insta::assert_snapshot!(text, @r"
        a preparing
        a setting up
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
        let active = history.active;
        assert_eq!((active.queue, active.trials), (Vec::new(), Vec::new()));
    }

    #[test]
    fn an_agent_that_goes_on_takes_its_work_and_its_report_back() {
        let lack = "verify failed".to_owned();
        let usage = crate::agents::transcript::Usage::default();
        let outcome = Outcome::Exited { exit_code: 0 };
        let ended = crate::event::AgentEnd { attempt: 1, outcome, duration_seconds: 1.0, usage };
        let (history, text) = states_after(vec![
            ("a", isolated(1)),
            ("a", AttemptEvent::AgentStarted { attempt: 1, placement: None }.into()),
            ("a", AttemptEvent::AgentEnded(ended).into()),
            ("a", LandingEvent::Queued { attempt: 1, waiting: 1 }.into()),
            ("a", LandingEvent::Merging(batch(&["a"])).into()),
            ("a", AttemptEvent::AgentContinued { attempt: 1, lack: lack.clone() }.into()),
        ]);
        assert!(text.ends_with("a landing\na running"), "{text}");
        let active = &history.active;
        assert_eq!((active.queue.len(), active.trials.len()), (0, 0));
        let own = active.of(&TaskId::new("a").unwrap()).unwrap();
        assert_eq!((&own.spent, &own.queued_at), (&None, &None));
        assert_eq!(own.continued, [lack]);
    }

    #[test]
    fn a_failed_trial_returns_its_tasks_to_the_queue() {
        let queued = |waiting| Event::Landing(LandingEvent::Queued { attempt: 1, waiting });
        let held = Held { branch: "main".to_owned(), why: "x".to_owned() };
        let begin = [("a", isolated(1)), ("b", isolated(1)), ("c", isolated(1))];
        let events = begin.into_iter().chain([
            ("b", queued(1)),
            ("a", queued(2)),
            ("b", LandingEvent::Merging(batch(&["b", "a"])).into()),
            ("", LandingEvent::MergeHeld(held.clone()).into()),
        ]);
        let (mut history, text) = states_after(events.collect());
        insta::assert_snapshot!(text, @r"
        a preparing
        a preparing, b preparing
        a preparing, b preparing, c preparing
        a preparing, b queued, c preparing
        a queued, b queued, c preparing
        a landing, b landing, c preparing
        a queued, b queued, c preparing
        ");
        let names = |history: &History| -> Vec<String> {
            history.active.queue.iter().map(TaskId::to_string).collect()
        };
        assert_eq!(names(&history), ["b", "a"]);
        assert_eq!(history.active.held, Some(held));
        history.apply(&record("b", 20, LandingEvent::Merging(batch(&["b", "a"]))));
        history.apply(&record("b", 21, end(1, Verdict::Complete)));
        assert_eq!((names(&history), &history.active.held), (vec!["a".to_owned()], &None));
        assert!(history.active.is_landing(&TaskId::new("a").unwrap()), "it is in the same batch");
    }
}
