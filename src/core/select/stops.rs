//! Why a run stops when tasks are left.

use chrono::{DateTime, Utc};

use super::{MAX_ITERATIONS, TaskState, View};
use crate::{
    event::{Blocker, StopReason},
    graph::task::Status,
};

/// Returns the number of the task that mends a verify command which fails without the work of any
/// other, while these wait for it.
pub fn repair(view: &View<'_>) -> Option<usize> {
    let run = &view.history.run;
    let number =
        view.graph.number(run.repair.as_ref().filter(|_| run.baseline_broken.is_some())?)?;
    can_mend(view, number).then_some(number)
}

/// Whether a task that mends a verify command can have another attempt.
pub fn can_mend(view: &View<'_>, number: usize) -> bool {
    match view.graph.task(number).status {
        Status::Pending | Status::InProgress => !view.out_of_attempts(number),
        Status::Complete | Status::Cancelled | Status::Blocked | Status::NeedsInput => false,
    }
}

impl View<'_> {
    /// The reason to stop when no task can start: questions only, or other reasons too.
    pub(super) fn stuck(&self, now: DateTime<Utc>) -> StopReason {
        let blockers = self.blockers(now);
        let asks = |blocker: &Blocker| {
            let number = self.graph.number(&blocker.task_id);
            number.is_some_and(|number| self.state(number, now) == TaskState::NeedsInput)
        };
        let only_asks = blockers.iter().all(asks);
        if only_asks { StopReason::NeedsInput(blockers) } else { StopReason::Blocked(blockers) }
    }

    /// Returns the limit of the run that is reached, if one is.
    pub(super) fn limit(&self, now: DateTime<Utc>) -> Option<StopReason> {
        let run = &self.history.run;
        if self.policy.once && run.iterations > 0 {
            let once = StopReason::Once { completed: run.last_completed };
            return Some(self.denied_last().unwrap_or(once));
        }
        if run.promised {
            return Some(StopReason::Promised);
        }
        if let Some(why) = run.baseline_broken.as_ref().filter(|_| repair(self).is_none()) {
            return Some(StopReason::BaselineBroken(why.clone()));
        }
        if let Some(why) = &run.bad_base {
            return Some(StopReason::BadBase(why.clone()));
        }
        if (1..=run.failures_in_a_row).contains(&self.max_failures()) {
            return Some(match &self.policy.plain {
                Some(_) => StopReason::Failures(run.failures_in_a_row),
                None => StopReason::FailedTasks(run.failed_tasks.clone()),
            });
        }
        if (1..=run.starts_failed).contains(&self.policy.start_limit) {
            return Some(StopReason::StartLimit(run.starts_failed));
        }
        let (spend, recent) = (self.history.spend(), self.history.recent_costs());
        if let Some(reached) = self.policy.budget.reached(&spend, run.started_at, recent, now) {
            return Some(StopReason::Limit(reached.to_string()));
        }
        if let Some(max) = iteration_limit_reached(self) {
            let limit = format!("{max} iteration{}", if max == 1 { "" } else { "s" });
            return Some(StopReason::Limit(limit));
        }
        self.restarts()
    }

    /// The request of a person to stop or pause the run. It is checked last: a run that has ended
    /// for another reason reports that reason.
    pub(super) fn requested(&self) -> Option<StopReason> {
        let name = || self.policy.plain.as_ref().map(|plain| plain.name.clone());
        let paused = self.history.paused.then(|| StopReason::Paused(name()));
        self.history.run.stop.as_ref().map(|_| StopReason::Stopped).or(paused)
    }
}

/// The default limit on the attempts of a run that starts now.
pub fn default_iterations(view: &View<'_>) -> u32 {
    attempts_of_tasks(view, None).max(MAX_ITERATIONS)
}

/// The attempts that the selected tasks may take: the open ones, and those that were completed
/// since then.
fn attempts_of_tasks(view: &View<'_>, since: Option<DateTime<Utc>>) -> u32 {
    let counts = |number: &usize| {
        let task = view.graph.task(*number);
        let last = || view.history.of(&task.id).last.as_ref();
        match task.status {
            Status::Cancelled => false,
            Status::Complete => {
                since.is_some_and(|since| last().is_some_and(|last| last.at >= since))
            }
            Status::Pending | Status::InProgress | Status::NeedsInput | Status::Blocked => true,
        }
    };
    let attempts = view.admitted().filter(counts).map(|number| view.max_attempts(number));
    attempts.fold(0, u32::saturating_add)
}

/// Returns the limit on attempts, if it is reached. By default it grows with the graph.
pub fn iteration_limit_reached(view: &View<'_>) -> Option<u32> {
    let run = &view.history.run;
    let grown = || attempts_of_tasks(view, run.started_at).saturating_add(run.begun.before);
    let max = view.policy.max_iterations.unwrap_or_else(|| {
        let first = run.begun.max_iterations.max(MAX_ITERATIONS);
        if run.used() < first { first } else { grown().max(first) }
    });
    (run.used() >= max).then_some(max)
}
