//! Samples of the newest attempts, to forecast the next ones: their length, cost and end.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{ActiveAttempt, History};
use crate::{
    agents::transcript::Tokens,
    default_value::is_default,
    event::{AttemptResult, ExecutorEvent, record::Record},
    graph::task::TaskId,
    verdict::Verdict,
};

/// How many attempts are kept. More would be slow to follow a change of agents or of checks.
const KEPT: usize = 200;

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptSample {
    /// The task.
    pub task_id: TaskId,
    /// From its start until its work was queued to land, or until it ended.
    pub work_seconds: f64,
    /// From then until it ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue_seconds: f64,
    /// How it ended.
    pub verdict: Verdict,
    /// The name of its agent, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The cost in US dollars, with that of its reviewers, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// The newest attempts, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptSamples(VecDeque<AttemptSample>);

impl AttemptSamples {
    /// The attempts.
    pub fn iter(&self) -> impl Iterator<Item = &AttemptSample> {
        self.0.iter()
    }

    /// The highest known cost of an attempt of this agent, in US dollars.
    pub(super) fn dearest(&self, agent: Option<&String>) -> Option<f64> {
        let own = self.0.iter().filter(|it| agent.is_some() && it.agent.as_ref() == agent);
        own.filter_map(|it| it.cost_usd).reduce(f64::max)
    }

    /// Adds an attempt that ended then, if it is representative: it is not if its agent did not
    /// start, or if it was cancelled or interrupted.
    pub(super) fn add(&mut self, open: &ActiveAttempt, at: DateTime<Utc>, ended: &AttemptResult) {
        if !open.has_agent || matches!(ended.verdict, Verdict::Cancelled | Verdict::Interrupted) {
            return;
        }
        let seconds = |length: TimeDelta| length.as_seconds_f64().max(0.0);
        let queued = open.queued_at.unwrap_or(at);
        self.0.push_back(AttemptSample {
            task_id: open.task_id.clone(),
            work_seconds: seconds(queued - open.since),
            queue_seconds: seconds(at - queued),
            verdict: ended.verdict,
            agent: ended.agent.clone(),
            cost_usd: ended.usage.cost_usd.map(|cost| cost + open.calls_usd),
            tokens: ended.usage.tokens,
        });
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }
}

// The executors that are out, and the attempts that were withdrawn because of that.

/// An executor that is out: it does not answer, or cannot take work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableExecutor {
    /// Since when.
    pub since: DateTime<Utc>,
    /// The newest reason.
    pub why: String,
    /// The number of tries since it took work last.
    pub tries: u32,
    /// When it is tried again.
    pub next_try: DateTime<Utc>,
    /// Whether only a person can fix it: no run waits for that.
    pub lasts: bool,
    /// The task whose attempt tries it now.
    pub trying: Option<TaskId>,
}

impl History {
    /// Takes back the start of an attempt.
    pub(crate) fn withdraw(&mut self, record: &Record, attempt: u32) {
        self.end_try(record.task_id.as_ref());
        if let Some(id) = &record.task_id {
            self.active.end(id);
        }
        self.run.withdraw(record.iteration);
        self.with(record.task_id.as_ref(), |past| {
            (past.attempts, past.withdrawn) = (attempt.saturating_sub(1), Some(attempt));
        });
    }

    /// Records that an executor is out.
    pub(crate) fn lose_executor(&mut self, record: &Record, event: &ExecutorEvent) {
        let ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds, lasts } = event
        else {
            return;
        };
        let at = record.timestamp;
        let pause = i64::try_from(*pause_seconds).ok().and_then(TimeDelta::try_seconds);
        let known = self.unreachable.get(run_on);
        let executor = UnreachableExecutor {
            since: known.map_or(at, |known| known.since),
            why: why.clone(),
            tries: *tries,
            next_try: at + pause.unwrap_or_default(),
            lasts: *lasts,
            // The task whose attempt still waits or tries, if any.
            trying: record.task_id.clone().or_else(|| known?.trying.clone()),
        };
        self.unreachable.insert(run_on.clone(), executor);
    }

    /// Lets the attempt at a task try an executor that is out, unless another one does.
    pub(super) fn try_executor(&mut self, id: Option<&TaskId>, run_on: &str) {
        let executor = self.unreachable.get_mut(run_on);
        if let Some(executor) = executor.filter(|executor| executor.trying.is_none()) {
            executor.trying = id.cloned();
        }
    }

    /// Ends the try of the attempt at a task.
    pub(super) fn end_try(&mut self, id: Option<&TaskId>) {
        for executor in self.unreachable.values_mut() {
            executor.trying.take_if(|trying| Some(&*trying) == id);
        }
    }
}
