//! The ends of reviews by other agents.

use serde::{Deserialize, Serialize};

use crate::{
    agents::{provider_error::ProviderError, transcript::Usage},
    default_value::is_default,
    outcome::Outcome,
    reviewer::WorkReview,
    spend::Spend,
};

/// The end of a review. Its usage is that of the run, not of the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewEnd {
    /// The attempt.
    pub attempt: u32,
    /// How the reviewer's process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The review.
    pub review: WorkReview,
    /// Its wall time.
    pub duration_seconds: f64,
    /// The reported usage.
    #[serde(flatten)]
    pub usage: Usage,
    /// The provider error of the reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<ProviderError>,
    /// Whether the review is made again, since the work must not land without it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: bool,
}

/// A required review that waits for the provider of its reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewWait {
    /// The attempt.
    pub attempt: u32,
    /// The name of the reviewer's agent.
    pub by: String,
    /// The provider error.
    pub obstacle: ProviderError,
}

impl ReviewEnd {
    /// Its usage, part of no attempt.
    pub fn spend(&self) -> Spend {
        Spend::of_call(&self.usage, &self.outcome, self.duration_seconds)
    }
}
