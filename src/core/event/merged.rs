//! Events between the end of an attempt and the state of its branch: landing of isolated work, and
//! what is put back after work in the checkout.

use serde::{Deserialize, Serialize};

use crate::commit_id::CommitId;
use crate::graph::task::TaskId;

/// A trial of the merge queue: the tasks it combines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The target branch.
    pub branch: String,
    /// The commit of the target branch.
    pub onto: CommitId,
    /// The tasks whose work is tried on top of it, in this order.
    pub tasks: Vec<TaskId>,
}

/// What was put back after an attempt that worked in the checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutRestored {
    /// The attempt.
    pub attempt: u32,
    /// The branch that HEAD is on; none if HEAD is detached, as it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that HEAD was moved to; none if it had stayed on its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The files whose earlier version is committed on top of the attempt's commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// The reason why the target branch cannot move now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The target branch.
    pub branch: String,
    /// The checkout that has this branch checked out.
    pub checkout: String,
    /// The files with uncommitted changes in that checkout that landing would overwrite; empty if
    /// git refused for another reason.
    pub paths: Vec<String>,
    /// The tasks whose queued work changes these files; all other work goes on landing. Empty if
    /// nothing can land.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// The message of git, if the reason is not files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Held {
    /// Whether it still holds when the work of this task has landed.
    pub fn outlasts(&self, landed: &TaskId) -> bool {
        !self.tasks.is_empty() && !self.tasks.contains(landed)
    }

    /// A hold for which git gave the reason.
    pub fn because(branch: String, why: String) -> Held {
        let (checkout, paths, tasks) = (String::new(), Vec::new(), Vec::new());
        Held { branch, checkout, paths, tasks, why: Some(why) }
    }
}
