//! The worktrees of the repository.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::VERSION;

/// A worktree of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorktreeView {
    /// The version of this shape.
    pub schema: u32,
    /// Its folder.
    pub path: PathBuf,
    /// What it is for: `pool`, `merge_queue`, `made_by_hand`, `main` or `other`.
    pub kind: String,
    /// The task of the attempt in it, or that its branch is named after.
    pub task_id: Option<String>,
    /// The branch that is checked out in it.
    pub branch: Option<String>,
    /// The commit that is checked out in it.
    pub commit: Option<String>,
    /// Whether it can be removed: `free`, `missing`, or the word for what keeps it.
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

impl WorktreeView {
    /// A worktree in this folder.
    pub fn of(path: PathBuf) -> WorktreeView {
        WorktreeView {
            schema: VERSION,
            path,
            kind: String::new(),
            task_id: None,
            branch: None,
            commit: None,
            state: String::new(),
            why: None,
            attempt: None,
            stage: None,
            place: String::new(),
            text: String::new(),
        }
    }
}
