//! What happens between the end of an attempt in a work tree of its own and its place in the target
//! branch.

use serde::{Deserialize, Serialize};

use crate::core::graph::task::TaskId;

/// A trial of the merge queue: what it puts together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The target branch.
    pub branch: String,
    /// Where it is.
    pub onto: String,
    /// The tasks whose work is tried on it, in this order.
    pub tasks: Vec<TaskId>,
}

/// Why the target branch is not moved for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The target branch.
    pub branch: String,
    /// The checkout that has it.
    pub checkout: String,
    /// The files in it that somebody changed and that the merge changes too; none where git refused
    /// for another reason.
    pub paths: Vec<String>,
    /// In git's words, where it was not files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Held {
    /// For a reason of git's own.
    pub fn because(branch: String, why: String) -> Held {
        Held { branch, checkout: String::new(), paths: Vec::new(), why: Some(why) }
    }
}
