//! Events about the backlogs that tasks were imported from.

use serde::{Deserialize, Serialize};

use crate::{commit_id::CommitId, graph::task::TaskId};

/// A source that was refreshed before a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRefreshed {
    /// The file or folder, as in the setting `sources`.
    pub source: String,
    /// What was taken over, or why it could not be read.
    pub what: String,
}

/// A source to which completed tasks were written back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceUpdated {
    /// The file, relative to the repository, or the address of an issue.
    pub source: String,
    /// The tasks that it has as done now.
    pub tasks: Vec<TaskId>,
    /// The commit with the change of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The reason why the change of a file is not committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncommitted: Option<String>,
}

/// A source to which completed tasks could not be written back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFailed {
    /// The file, relative to the repository, or the address of an issue.
    pub source: String,
    /// The reason.
    pub why: String,
}

impl SourceUpdated {
    /// Whether the source is an issue, which was closed.
    pub fn is_issue(&self) -> bool {
        self.source.contains("://")
    }
}
