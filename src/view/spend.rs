//! The usage of attempts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::VERSION;
use crate::core::{
    agents::transcript::Tokens,
    spend::Spend,
    waste::{PaidAttempts, WasteKind},
};

/// The usage of some attempts. A value that no attempt reported has no sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpendView {
    /// How many attempts.
    pub attempts: u32,
    /// In US dollars, of those that reported it.
    pub cost_usd: Option<f64>,
    /// How many did not report their cost.
    pub unknown_cost: u32,
    /// The tokens of those that reported them.
    pub tokens: Option<Tokens>,
    /// How many did not report their tokens.
    pub unknown_tokens: u32,
    /// Wall time.
    pub duration_seconds: f64,
    /// The cost in words.
    #[serde(skip)]
    pub cost: String,
}

/// The usage of all attempts, by task, day, agent or story.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostView {
    /// The version of this shape.
    pub schema: u32,
    /// The groups, by name.
    pub sums: Vec<CostSum>,
    /// All of them together.
    pub total: CostSum,
    /// How many of the attempts were needed.
    pub waste: WasteView,
}

/// How many attempts were paid for, and how many of them were needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WasteView {
    /// The attempts whose agents worked.
    pub paid: u32,
    /// Those that completed a task or asked a question.
    pub needed: u32,
    /// The others, by the kind of failure.
    pub wasted: BTreeMap<WasteKind, u32>,
    /// The same in words; none if all were needed.
    #[serde(skip)]
    pub text: Option<String>,
}

impl WasteView {
    /// The attempts of a run, or of the journal.
    pub fn of(paid: &PaidAttempts) -> WasteView {
        let (needed, wasted) = (paid.needed(), paid.wasted.clone());
        WasteView { paid: paid.paid, needed, wasted, text: paid.text() }
    }
}

/// The usage of one group of attempts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSum {
    /// The group.
    pub name: String,
    /// Its usage.
    #[serde(flatten)]
    pub spend: SpendView,
    /// The attempts that completed their tasks.
    pub done: u32,
}

impl SpendView {
    /// A sum of the history.
    pub fn of(spend: &Spend) -> SpendView {
        SpendView {
            attempts: spend.attempts,
            cost_usd: spend.is_cost_told().then_some(spend.cost_usd),
            unknown_cost: spend.unknown_cost,
            tokens: spend.are_tokens_told().then_some(spend.tokens),
            unknown_tokens: spend.unknown_tokens,
            duration_seconds: spend.duration_seconds,
            cost: spend.cost(),
        }
    }
}

impl CostView {
    /// The sums of some groups, and of all attempts.
    pub fn of(
        sums: &BTreeMap<String, (Spend, u32)>,
        total: &(Spend, u32),
        paid: &PaidAttempts,
    ) -> CostView {
        let sum = |name: &str, (spend, done): &(Spend, u32)| CostSum {
            name: name.to_owned(),
            spend: SpendView::of(spend),
            done: *done,
        };
        let sums = sums.iter().map(|(name, used)| sum(name, used)).collect();
        let (total, waste) = (sum("total", total), WasteView::of(paid));
        CostView { schema: VERSION, sums, total, waste }
    }
}
