//! The cost of attempts, and limits on it.
//!
//! A cost that an agent does not report is unknown. It is shown as unknown, never as zero, and
//! limits count it as the highest known cost of an attempt of the same agent, else of any.

use std::{fmt, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    agents::transcript::{Tokens, Usage},
    default_value::is_default,
    duration,
    outcome::Outcome,
};

/// The usage of several attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spend {
    /// The number of attempts.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// The sum of the reported costs, in US dollars.
    #[serde(skip_serializing_if = "is_default")]
    pub cost_usd: f64,
    /// The number of attempts with unknown cost.
    #[serde(skip_serializing_if = "is_default")]
    pub unknown_cost: u32,
    /// How many of these are counted by `assumed_usd`.
    #[serde(skip_serializing_if = "is_default")]
    pub assumed: u32,
    /// The cost that limits assume for them, in US dollars.
    #[serde(skip_serializing_if = "is_default")]
    pub assumed_usd: f64,
    /// The highest reported cost of an attempt, in US dollars.
    #[serde(skip_serializing_if = "is_default")]
    pub highest_cost: f64,
    /// The sum of the reported tokens.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens: Tokens,
    /// The number of attempts with unknown tokens.
    #[serde(skip_serializing_if = "is_default")]
    pub unknown_tokens: u32,
    /// Wall time.
    #[serde(skip_serializing_if = "is_default")]
    pub duration_seconds: f64,
}

impl Spend {
    /// The usage of one attempt.
    pub fn of(usage: &Usage, outcome: &Outcome, duration_seconds: f64) -> Spend {
        Spend {
            attempts: 1,
            cost_usd: usage.cost_usd.unwrap_or_default(),
            unknown_cost: u32::from(is_unknown(usage, outcome)),
            assumed: 0,
            assumed_usd: 0.0,
            highest_cost: usage.cost_usd.unwrap_or_default(),
            tokens: usage.tokens.unwrap_or_default(),
            unknown_tokens: u32::from(usage.tokens.is_none()),
            duration_seconds,
        }
    }

    /// The usage of an agent that is no attempt.
    pub fn of_call(usage: &Usage, outcome: &Outcome, duration_seconds: f64) -> Spend {
        Spend { attempts: 0, ..Spend::of(usage, outcome, duration_seconds) }
    }

    /// The reported usage of running attempts so far.
    pub fn so_far<'a>(usages: impl Iterator<Item = &'a Usage>) -> Spend {
        usages.fold(Spend::default(), |sum, usage| Spend {
            cost_usd: sum.cost_usd + usage.cost_usd.unwrap_or_default(),
            tokens: sum.tokens.plus(usage.tokens.unwrap_or_default()),
            ..sum
        })
    }

    /// The usage with that of other attempts.
    #[must_use]
    pub fn plus(&self, other: &Spend) -> Spend {
        Spend {
            attempts: self.attempts + other.attempts,
            cost_usd: self.cost_usd + other.cost_usd,
            unknown_cost: self.unknown_cost + other.unknown_cost,
            assumed: self.assumed + other.assumed,
            assumed_usd: self.assumed_usd + other.assumed_usd,
            highest_cost: self.highest_cost.max(other.highest_cost),
            tokens: self.tokens.plus(other.tokens),
            unknown_tokens: self.unknown_tokens + other.unknown_tokens,
            duration_seconds: self.duration_seconds + other.duration_seconds,
        }
    }

    /// The usage without that of its first attempts.
    #[must_use]
    pub fn since(&self, first: &Spend) -> Spend {
        Spend {
            attempts: self.attempts.saturating_sub(first.attempts),
            cost_usd: (self.cost_usd - first.cost_usd).max(0.0),
            unknown_cost: self.unknown_cost.saturating_sub(first.unknown_cost),
            assumed: self.assumed.saturating_sub(first.assumed),
            assumed_usd: (self.assumed_usd - first.assumed_usd).max(0.0),
            highest_cost: self.highest_cost,
            tokens: self.tokens.minus(first.tokens),
            unknown_tokens: self.unknown_tokens.saturating_sub(first.unknown_tokens),
            duration_seconds: (self.duration_seconds - first.duration_seconds).max(0.0),
        }
    }

    /// The cost that limits count: an attempt of unknown cost counts as much as the most expensive known
    /// one of its agent, else of any.
    pub fn assumed_cost(&self) -> f64 {
        self.assumed_cost_at(self.highest_cost)
    }

    /// The same, where an attempt of an agent without known costs counts as much as `highest`.
    pub(crate) fn assumed_cost_at(&self, highest: f64) -> f64 {
        let others = f64::from(self.unknown_cost.saturating_sub(self.assumed));
        self.cost_usd + self.assumed_usd + others * highest
    }

    /// The sum of the costs, in US dollars, if all are known.
    pub fn known_cost(&self) -> Option<f64> {
        (self.unknown_cost == 0).then_some(self.cost_usd)
    }

    /// Whether any of its agents reported its cost, or none ran.
    pub fn is_cost_told(&self) -> bool {
        self.unknown_cost == 0 || self.highest_cost > 0.0
    }

    /// Whether any of its agents reported its tokens.
    pub fn are_tokens_told(&self) -> bool {
        self.unknown_tokens < self.attempts.max(1) || self.tokens != Tokens::default()
    }

    /// The cost as text.
    pub fn cost(&self) -> String {
        match self.unknown_cost {
            0 => dollars(self.cost_usd),
            _ if !self.is_cost_told() => "unknown".to_owned(),
            unknown => format!("{} and {unknown} unknown", dollars(self.cost_usd)),
        }
    }
}

/// Whether a cost is not known. An agent that did not start had none.
fn is_unknown(usage: &Usage, outcome: &Outcome) -> bool {
    usage.cost_usd.is_none() && !matches!(outcome, Outcome::NotStarted { .. })
}

/// Formats an amount: in cents, or with more digits below ten cents.
pub fn dollars(sum: f64) -> String {
    if sum != 0.0 && sum < 0.1 { format!("${sum:.4}") } else { format!("${sum:.2}") }
}

/// The limits on usage. Reaching one stops the run. Running attempts are ended at that on time, and at
/// the others where their own usage reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// US dollars per run.
    pub cost: Option<f64>,
    /// Tokens per run, without those read from a cache, which cost a tenth.
    pub tokens: Option<u64>,
    /// Wall time per run, including waiting.
    pub duration: Option<Duration>,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reached {
    /// The cost per run: the limit, and the usage.
    Cost(f64, Spend),
    /// The tokens per run: limit and actual value.
    Tokens(u64, u64),
    /// The duration of a run: limit.
    Duration(Duration),
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reached::Cost(limit, spent) => {
                write!(f, "{} per run ({} spent", dollars(*limit), dollars(spent.cost_usd))?;
                match spent.unknown_cost {
                    0 => f.write_str(")"),
                    count => {
                        let assumed = dollars(spent.assumed_cost() - spent.cost_usd);
                        write!(f, ", and {count} of unknown cost counted as {assumed})")
                    }
                }
            }
            Reached::Tokens(limit, used) => {
                write!(f, "{limit} tokens per run ({used} used)")
            }
            Reached::Duration(limit) => {
                write!(f, "{} per run", duration::short(*limit))
            }
        }
    }
}

impl Budget {
    /// When a run ends at the limit on its time, if it has one.
    pub fn ends_at(&self, began: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
        let limit = TimeDelta::from_std(self.duration?).unwrap_or(TimeDelta::MAX);
        Some(began?.checked_add_signed(limit).unwrap_or(DateTime::<Utc>::MAX_UTC))
    }

    /// The rest of the limit on cost, in US dollars; none without a limit.
    pub fn left(&self, run: &Spend) -> Option<f64> {
        self.cost.map(|limit| limit - run.assumed_cost())
    }

    /// The limits that the usage of running attempts can reach, as far as they report it.
    #[must_use]
    pub fn within_attempts(&self, running: &Spend) -> Budget {
        Budget {
            cost: self.cost.filter(|_| running.cost_usd > 0.0),
            tokens: self.tokens.filter(|_| running.tokens != Tokens::default()),
            duration: None,
        }
    }

    /// Returns the first limit that the usage of the run since its start reaches.
    pub fn reached(
        &self,
        run: &Spend,
        began: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Option<Reached> {
        let tokens = run.tokens.input + run.tokens.output + run.tokens.cache_write;
        if let Some(limit) = self.cost.filter(|limit| run.assumed_cost() >= *limit) {
            return Some(Reached::Cost(limit, *run));
        }
        if let Some(limit) = self.tokens.filter(|limit| tokens >= *limit) {
            return Some(Reached::Tokens(limit, tokens));
        }
        let is_over = self.ends_at(began).is_some_and(|end| end <= now);
        self.duration.filter(|_| is_over).map(Reached::Duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agents::transcript::Usage, event::AttemptResult, samples::end, verdict::Verdict};

    fn at(hours: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::hours(hours)
    }

    #[test]
    fn unknown_cost_is_not_zero() {
        let mut ended = end(1, Verdict::Failed);
        let mut spend = ended.spend(None);
        assert_eq!(spend.cost(), "unknown");
        // An attempt without an agent costs nothing.
        let outcome = Outcome::NotStarted { error: String::new() };
        let unstarted = AttemptResult { outcome, ..end(1, Verdict::BaselineBroken) };
        spend = spend.plus(&unstarted.spend(None));
        assert_eq!(spend.cost(), "unknown");
        ended.usage = Usage { cost_usd: Some(0.25), ..Usage::default() };
        spend = spend.plus(&ended.spend(None));
        assert_eq!(spend.cost(), "$0.25 and 1 unknown");
        assert_eq!((spend.unknown_cost, spend.unknown_tokens, spend.attempts), (1, 3, 3));
        // One attempt of an agent with known costs, and one of another agent.
        ended.usage = Usage::default();
        spend = spend.plus(&ended.spend(Some(0.05)));
        assert!((spend.assumed_cost() - (0.25 + 0.25 + 0.05)).abs() < 1e-9);
        assert_eq!((dollars(0.0), dollars(0.0042)), ("$0.00".to_owned(), "$0.0042".to_owned()));
    }

    #[test]
    fn each_limit_has_its_own_measure() {
        let tokens = Tokens { input: 10, output: 5, cache_read: 1000, cache_write: 1 };
        let run = Spend { cost_usd: 2.0, tokens, ..Spend::default() };
        let reached = |budget: Budget| {
            budget.reached(&run, Some(at(29)), at(31)).map(|reached| reached.to_string())
        };
        let blank = Budget::default();
        let unknown = Spend { unknown_cost: 2, highest_cost: 1.5, ..run };
        let limit = Budget { cost: Some(5.0), ..blank };
        assert_eq!(
            limit.reached(&unknown, None, at(31)).map(|reached| reached.to_string()).as_deref(),
            Some("$5.00 per run ($2.00 spent, and 2 of unknown cost counted as $3.00)")
        );
        let limit = Budget { cost: Some(5.01), ..blank };
        assert_eq!(limit.reached(&unknown, None, at(31)), None);
        assert_eq!(reached(blank), None);
        for (budget, want) in [
            (Budget { cost: Some(2.0), ..blank }, Some("$2.00 per run ($2.00 spent)")),
            (Budget { cost: Some(2.01), ..blank }, None),
            (Budget { tokens: Some(16), ..blank }, Some("16 tokens per run (16 used)")),
            (Budget { tokens: Some(17), ..blank }, None),
            (Budget { duration: Some(Duration::from_secs(7200)), ..blank }, Some("2h per run")),
        ] {
            assert_eq!(reached(budget).as_deref(), want, "{budget:?}");
        }
    }
}
