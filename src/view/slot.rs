//! The slots of the repository.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::graph::task::TaskId;

/// A slot of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlotView {
    /// The version of this shape.
    pub schema: u32,
    /// Its folder.
    pub path: PathBuf,
    /// The plain loop that it belongs to; none for the run over the graph.
    #[schemars(with = "Option<String>")]
    pub name: Option<TaskId>,
    /// What it is for: `attempt` or `merge_queue`.
    pub kind: String,
    /// The task of the attempt in it.
    pub task_id: Option<String>,
    /// Whether it can be removed: `free`, or the word for what keeps it: `in_use`, `cut_off`,
    /// `kept`, `strange`.
    pub state: String,
    /// What keeps it, in words.
    pub why: Option<String>,
    /// The attempt in it.
    pub attempt: Option<String>,
    /// The state of that attempt.
    pub stage: Option<String>,
    /// The folder as it is typed at the top of the repository.
    #[serde(skip)]
    pub place: String,
    /// The state in words.
    #[serde(skip)]
    pub text: String,
}
