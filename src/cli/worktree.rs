//! The flags of `ralph worktree`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::complete;

/// `ralph worktree`.
#[derive(Debug, Args)]
pub struct WorktreeArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: WorktreeCommand,
}

/// The commands on worktrees.
#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// List worktrees with owner, branch and unsaved work
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a worktree and print its path
    New {
        /// A task, for its branch `ralph/ID`; or a branch, created if it does not exist
        #[arg(value_name = "TASK-OR-BRANCH", add = ArgValueCandidates::new(complete::ids))]
        name: String,
    },
    /// Remove a worktree that has no unsaved work
    Remove {
        /// The name of the worktree, such as `3`, or its path
        #[arg(value_name = "NAME-OR-PATH", add = ArgValueCandidates::new(complete::worktrees))]
        tree: PathBuf,
    },
}
