//! What the newest attempts say about the next ones: how long they took, what they cost, how they ended.

use std::collections::VecDeque;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::ActiveAttempt;
use crate::{
    agents::transcript::Tokens, default_value::is_default, event::AttemptResult,
    graph::task::TaskId, verdict::Verdict,
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
    /// Whether an attempt at the task had failed before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_retry: bool,
    /// The cost in US dollars, if it is known.
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

    /// Adds an attempt that ended then, if it says something about others: one whose agent did not
    /// start, or that somebody ended, does not.
    pub(super) fn add(
        &mut self,
        open: &ActiveAttempt,
        is_retry: bool,
        at: DateTime<Utc>,
        ended: &AttemptResult,
    ) {
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
            is_retry,
            cost_usd: ended.usage.cost_usd,
            tokens: ended.usage.tokens,
        });
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }
}
