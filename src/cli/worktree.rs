//! The flags of `ralph worktree`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::complete;

/// `ralph worktree`.
#[derive(Debug, Args)]
pub struct WorktreeArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: WorktreeCommand,
}

/// What to do with work trees.
#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// List them: whose each is, its branch, and whether anything would be lost with it
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make one for yourself, and print its path
    New {
        /// A task, for its branch `ralph/ID`; or a branch, which is made if there is none
        #[arg(value_name = "TASK-OR-BRANCH", add = ArgValueCandidates::new(complete::ids))]
        name: String,
    },
    /// Remove one, if nothing is lost by it
    Remove {
        /// Its name beside the others, such as `3`, or its path
        #[arg(value_name = "NAME-OR-PATH", add = ArgValueCandidates::new(complete::worktrees))]
        tree: PathBuf,
    },
}
