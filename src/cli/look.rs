//! The flags of what looks and touches nothing but, at most, a new branch.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;

use super::Named;
use crate::core::duration;

/// `ralph costs`.
#[derive(Debug, Args)]
pub struct CostsArgs {
    /// One line for each of these
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Task)]
    pub by: By,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// What costs are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The task
    Task,
    /// The day here
    Day,
    /// The agent
    Agent,
    /// The story of the task
    Story,
}

/// `ralph notify`.
#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// Tell each of them something now, and say how that went
    #[arg(long)]
    pub test: bool,
}

/// `ralph check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file; without it, that of the repository
    pub file: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Only this setting: its value and nothing else
    #[arg(add = ArgValueCandidates::new(complete::settings))]
    pub key: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum, value_name = "OF")]
    pub of: Schemas,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Schemas {
    /// `task-graph.yaml`
    Graph,
    /// `.ralph/config.yaml`
    Config,
    /// What commands print with `--json`
    Views,
}

/// `ralph doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Show only what is not all right
    #[arg(short, long)]
    pub quiet: bool,
    /// Look at this agent, whatever tasks and settings say
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// The agent, as for `ralph run`
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `ralph status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph heartbeat`.
#[derive(Debug, Args)]
pub struct HeartbeatArgs {
    /// A loop that has not beaten for longer is dead
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    pub max_age: Duration,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph attempts`.
#[derive(Debug, Args)]
pub struct AttemptsArgs {
    /// Only those of this task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph logs`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct LogsArgs {
    /// Go on with what comes, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,
    /// Only what is about this task, in all runs
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub task: Option<String>,
    /// Only what is about this attempt at it
    #[arg(long, value_name = "N", requires = "task")]
    pub attempt: Option<u32>,
    /// All runs, and not the newest one alone
    #[arg(long)]
    pub all: bool,
    /// What the agent says and which tools it uses, instead of the journal; without `--task` that of
    /// the newest attempt
    #[arg(long, conflicts_with_all = ["raw", "json", "all"])]
    pub output: bool,
    /// What the agent prints, as it is, its standard error on standard error; on a terminal escapes
    /// are shown and not obeyed
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub raw: bool,
    /// The lines of the journal as they are
    #[arg(long)]
    pub json: bool,
    /// Begin with the last lines, so many
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Only attempts at this task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Begin with the last lines, so many; in tmux with the whole screen
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: usize,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The attempt, such as `parser.2`; for a task, its newest one
    #[arg(value_name = "ID[.N]", add = ArgValueCandidates::new(complete::ids))]
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The attempt, such as `parser.2`; for a task, its newest one
    #[arg(value_name = "ID[.N]", add = ArgValueCandidates::new(complete::ids))]
    pub name: String,
    /// The branch to make [default: ralph/restore/ID.N]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}
