//! A call of an agent by `ralph draft`.

use serde::{Deserialize, Serialize};

use crate::{agents::transcript::Usage, outcome::Outcome};

/// A call of an agent by `ralph draft` that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftCall {
    /// Its number, per draft.
    pub call: u32,
    /// The name of the agent.
    pub agent: String,
    /// How the process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// The reported usage.
    #[serde(flatten)]
    pub usage: Usage,
    /// The number of tasks in the draft; none if there is no valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// The folder with its prompt and output, relative to the repository.
    pub log: String,
}
