//! The flags of `ralph draft`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::{complete, run::money};
use crate::core::duration;

/// `ralph draft`.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "The agent works in a slot; only the tasks that it writes are used. They are checked \
    as `ralph check --strict` does, and sent back with the errors up to three times. They are kept \
    when you say so; `ralph undo` takes them back. Without a terminal and without `--yes` they are \
    only printed, with exit code 4."
)]
pub struct DraftArgs {
    /// What is wanted: a file, `-` for standard input, or a sentence
    #[arg(required_unless_present_any = ["split", "keep"], value_hint = ValueHint::FilePath)]
    pub spec: Option<String>,
    /// Add tasks to the graph that exists
    #[arg(long, conflicts_with = "split")]
    pub extend: bool,
    /// Replace this task by smaller ones; what depended on it waits on the last of them
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub split: Option<String>,
    /// Keep the tasks without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Keep this earlier draft, without an agent
    #[arg(long, value_name = "DRAFT", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["spec", "yes", "agent", "agent_name", "timeout", "max_cost"])]
    pub keep: Option<PathBuf>,
    /// End a call of the agent after this long [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Call the agent no further once the draft has cost this amount (USD)
    #[arg(long, value_name = "USD", value_parser = money)]
    pub max_cost: Option<f64>,
    /// Use this agent instead of that of the settings: claude, codex, gemini, opencode, amp, copilot,
    /// aider, or a program
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// The agent: any command that reads a prompt on standard input [default: from the settings]
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}
