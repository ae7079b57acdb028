//! The flags of `ralph slots`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use super::complete;

/// `ralph slots`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SlotsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The subcommand; without one, the slots are listed.
    #[command(subcommand)]
    pub command: Option<SlotsCommand>,
}

/// The commands on slots.
#[derive(Debug, Subcommand)]
pub enum SlotsCommand {
    /// Remove slots that have no unsaved work; runs make new ones
    Remove {
        /// The name of a slot, such as `3`, or its path [default: all]
        #[arg(value_name = "NAME-OR-PATH", add = ArgValueCandidates::new(complete::slots))]
        slots: Vec<PathBuf>,
    },
}
