//! Where attempts work, how a retry starts, and other choices of a run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

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

/// The lowest number of a slot that is not taken.
pub fn free_number(taken: impl IntoIterator<Item = usize>) -> usize {
    let taken: BTreeSet<usize> = taken.into_iter().collect();
    (0..=taken.len()).find(|number| !taken.contains(number)).unwrap_or_default()
}
