//! What the proof of work must show.

use serde::{Deserialize, Serialize};

/// When the proof of work is asked for, and what it must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofPolicy {
    /// After the work has landed; only reported.
    #[default]
    Report,
    /// Before the work lands; without it, the attempt fails.
    Require,
    /// Tests must fail without the work; to be exercised is not enough.
    Tests,
    /// The tests as they were must pass and run it: for work that keeps all behavior.
    Exercised,
    /// Never.
    None,
}
