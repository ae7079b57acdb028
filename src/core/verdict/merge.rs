//! How the landing of an attempt ended.

use serde::{Deserialize, Serialize};

use crate::{commit_id::CommitId, default_value::is_default};

/// A file that both sides changed at the same place, with its conflict resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedConflict {
    /// The path.
    pub path: String,
    /// The command that regenerated it. If none, both sides only added lines, and those of both
    /// were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl ResolvedConflict {
    /// The paths of these files.
    pub fn paths(files: &[ResolvedConflict]) -> Vec<String> {
        files.iter().map(|file| file.path.clone()).collect()
    }
}

/// The result of landing the branch of an isolated attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Merge {
    /// Its work is in the target branch.
    Landed {
        /// The target branch.
        branch: String,
        /// The last commit of its work there.
        commit: CommitId,
        /// Whether the branch and its checkout did not follow yet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
        /// The files whose conflicts with other work were resolved.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resolved: Vec<ResolvedConflict>,
    },
    /// Its work conflicts with the current target branch, or a verify command fails after
    /// conflicts were resolved.
    Conflict {
        /// The target branch.
        branch: String,
        /// The commit of the target branch.
        onto: CommitId,
        /// The files in conflict.
        paths: Vec<String>,
    },
    /// A verify command fails on the merge with the current target branch.
    Red {
        /// The target branch.
        branch: String,
        /// The commit that it was tried on.
        onto: CommitId,
        /// Whether the command fails in the same way without this work.
        #[serde(default, skip_serializing_if = "is_default")]
        already: bool,
        /// Whether it passed each time when it ran again on the same files: it fails now and then.
        #[serde(default, skip_serializing_if = "is_default")]
        flaky: bool,
    },
    /// A verify command fails on the merge, and in the same way without this work; that of another
    /// task fails so as well.
    RedBase {
        /// The target branch.
        branch: String,
        /// The commit of the target branch.
        onto: CommitId,
    },
    /// Git refused.
    Refused {
        /// The target branch.
        branch: String,
        /// The message of git.
        why: String,
    },
}

impl Merge {
    /// Where a verify command failed, for the end of a sentence; empty if none did.
    pub(super) fn red(&self) -> String {
        let Merge::Red { branch, already, flaky, .. } = self else { return String::new() };
        let how = match (already, flaky) {
            (true, _) => ", as it does without this work",
            (false, true) => ", again and again, and passed on the same files after that",
            (false, false) => "",
        };
        format!(" on top of `{branch}`{how}")
    }

    /// Where landed work is, for the end of a sentence; empty if it did not land.
    pub fn landed(&self) -> String {
        match self {
            Merge::Landed { branch, waits, resolved, .. } => {
                let place = if *waits {
                    "; landed, waits for your checkout".to_owned()
                } else {
                    format!("; landed on `{branch}`")
                };
                let files = resolved.iter().map(|file| match &file.command {
                    None => format!("; `{}` has the lines of both sides", file.path),
                    Some(command) => format!("; `{}` made again by `{command}`", file.path),
                });
                place + &files.collect::<String>()
            }
            Merge::Conflict { .. }
            | Merge::Red { .. }
            | Merge::RedBase { .. }
            | Merge::Refused { .. } => String::new(),
        }
    }
}
