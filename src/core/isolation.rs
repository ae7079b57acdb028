//! Where attempts work, how a retry starts, and other choices of a run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where attempts work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each attempt has a slot of its own, and only verified work reaches the branch.
    #[default]
    Slot,
    /// Attempts work in the checkout, one at a time.
    Checkout,
}

/// How the merge queue verifies queued work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueMode {
    /// Piece by piece, many at once.
    #[default]
    Parallel,
    /// Several pieces together, one trial at a time.
    Batch,
}

/// What a run does when a verify command fails on the target branch without the work of any task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRedBase {
    /// It ends.
    #[default]
    Stop,
    /// It adds a task that mends the command, and does that first.
    Repair,
}

/// What becomes of the tasks that agents add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentTasks {
    /// They run like other tasks.
    #[default]
    Run,
    /// Each waits until a person allows it.
    Ask,
}

/// How another attempt at a task starts in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retry {
    /// With the commits and the uncommitted changes of the attempt before.
    #[default]
    Continue,
    /// Without them.
    Fresh,
}

/// How the next task is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// By its own priority.
    Own,
    /// By the most urgent priority among itself and all that waits for it.
    Inherit,
}

/// The lowest number of a slot that is not taken.
pub fn free_number(taken: impl IntoIterator<Item = usize>) -> usize {
    let taken: BTreeSet<usize> = taken.into_iter().collect();
    (0..=taken.len()).find(|number| !taken.contains(number)).unwrap_or_default()
}

/// The most candidates of an attempt.
const MOST: u32 = 8;

/// At which attempts of a task there are candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateWhen {
    /// At each.
    #[default]
    Always,
    /// At the last one before the task is parked.
    Last,
}

/// How many agents try at the same time, and when: written as a number, or with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CandidateRule {
    /// How many.
    pub count: u32,
    /// At which attempts.
    pub when: CandidateWhen,
    /// Whether the first one whose checks pass ends the others.
    pub first: bool,
}

/// A rule as it is written in full.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    count: u32,
    #[serde(default)]
    when: CandidateWhen,
    #[serde(default)]
    first: bool,
}

impl CandidateRule {
    /// What a rule must be, in words.
    pub const WANTED: &str =
        "a number from 1 to 8, or `{count: 2}` with `when: always` or `last` and `first: true`";

    /// Reads a rule; none if it is not one.
    pub fn read(value: Value) -> Option<CandidateRule> {
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        let written = match count {
            Some(count) => WrittenRule { count, when: CandidateWhen::Always, first: false },
            None => serde_json::from_value(value).ok()?,
        };
        let WrittenRule { count, when, first } = written;
        (1..=MOST).contains(&count).then_some(CandidateRule { count, when, first })
    }

    /// The number of candidates of an attempt.
    pub fn count_at(self, is_last: bool) -> u32 {
        match self.when {
            CandidateWhen::Last if !is_last => 1,
            CandidateWhen::Always | CandidateWhen::Last => self.count,
        }
    }
}

impl<'de> Deserialize<'de> for CandidateRule {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<CandidateRule, D::Error> {
        let wrong = || serde::de::Error::custom(format!("expected {}", CandidateRule::WANTED));
        CandidateRule::read(Value::deserialize(deserializer)?).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_a_number_or_a_mapping() {
        let rule = |value| CandidateRule::read(value);
        let full = rule(json!({"count": 3, "when": "last", "first": true})).unwrap();
        assert_eq!((full.count_at(false), full.count_at(true), full.first), (1, 3, true));
        let short = rule(json!(2)).unwrap();
        assert_eq!((short.count_at(false), short.count_at(true), short.first), (2, 2, false));
        for wrong in
            [json!(0), json!(9), json!("2"), json!({"when": "last"}), json!({"count": 2, "x": 1})]
        {
            assert_eq!(rule(wrong.clone()), None, "{wrong}");
        }
    }
}
