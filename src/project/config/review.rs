//! The settings of the review of work by another agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Agents;
use crate::core::reviewer::{FindingSeverity, ReviewRule, ReviewWhen};

/// Another agent that reviews work before it lands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewConfig {
    /// The reviewer; without one, another installed preset than that of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub by: Option<Agents>,
    /// Which work is reviewed: `always`, `risky` or `never`.
    #[serde(default = "always")]
    #[schemars(with = "String", extend("enum" = ["always", "risky", "never"]))]
    pub when: ReviewWhen,
    /// How often work at a task goes back to its author.
    #[serde(default = "two")]
    pub rounds: u32,
    /// The gravity from which a finding sends work back: `low`, `medium` or `high`.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["low", "medium", "high"]))]
    pub severity: FindingSeverity,
    /// Whether work lands only with a review without such findings.
    #[serde(default)]
    pub required: bool,
}

impl ReviewConfig {
    /// What follows a review.
    pub fn rule(&self) -> ReviewRule {
        let ReviewConfig { severity, rounds, required, .. } = *self;
        ReviewRule { severity, rounds, required }
    }
}

fn always() -> ReviewWhen {
    ReviewWhen::Always
}

fn two() -> u32 {
    2
}
