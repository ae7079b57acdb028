//! Where attempts work.

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
