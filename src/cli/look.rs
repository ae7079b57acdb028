//! The flags of the commands that show something, and of `restore`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{
    complete,
    run::{AgentArgs, Named},
};
use crate::core::duration;

/// `ralph costs`.
#[derive(Debug, Args)]
pub struct CostsArgs {
    /// Group costs by this
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Task)]
    pub by: By,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// The grouping of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The task
    Task,
    /// The local day
    Day,
    /// The agent, with what it brought
    Agent,
    /// Its model
    Model,
    /// The story of the task
    Story,
    /// The template of the prompt
    Prompt,
}

impl By {
    /// The grouping of this name.
    pub fn named(name: &str) -> Option<By> {
        clap::ValueEnum::from_str(name, false).ok()
    }
}

/// `ralph check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The graph file [default: the graph of the repository]
    pub file: Option<PathBuf>,
    /// Also find what would waste a run; exit with 1 if anything is found
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Print only the value of this setting
    pub key: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The file that the schema describes
    #[arg(value_enum, value_name = "OF")]
    pub of: Schemas,
}

/// A file with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Schemas {
    /// `task-graph.yaml`
    Graph,
    /// `.ralph/config.yaml`
    Config,
}

/// `ralph doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also try this executor [default: those of the tasks]
    #[arg(long = "on", value_name = "NAME", conflicts_with = "quick")]
    pub run_on: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only warnings and faults
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not run setup and verify commands
    #[arg(long)]
    pub quick: bool,
    /// Also write a file for a bug report [default: ralph-report.txt]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "ralph-report.txt")]
    pub report: Option<PathBuf>,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// `ralph status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Take an earlier run: 1 is the newest, 2 the one before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Redraw it on every change, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The file to write; `.html`, `.md` and `.json` choose the format [default: standard output]
    pub file: Option<PathBuf>,
    /// Take an earlier run: 1 is the newest, 2 the one before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the page as one file
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub html: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph heartbeat`.
#[derive(Debug, Args)]
pub struct HeartbeatArgs {
    /// Call a loop dead if its last heartbeat is older
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    pub max_age: Duration,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph attempts`.
#[derive(Debug, Args)]
pub struct AttemptsArgs {
    /// Only attempts at this task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph logs`.
#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct LogsArgs {
    /// The same as `--task`
    #[arg(value_name = "ID", conflicts_with = "task", add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Follow until Ctrl-C; with `--output`, the run until it ends
    #[arg(short, long)]
    pub follow: bool,
    /// Only entries about this task, from all runs
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub task: Option<String>,
    /// Only entries about attempt N at the task
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Entries from all runs, not only the newest
    #[arg(long)]
    pub all: bool,
    /// Show messages and tool calls of the agent, without `--task` of the newest attempt
    #[arg(long, conflicts_with_all = ["raw", "json", "all"])]
    pub output: bool,
    /// Print the agent's raw output, its standard error to standard error
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub raw: bool,
    /// Print the lines of the journal unchanged
    #[arg(long)]
    pub json: bool,
    /// Start with the last N lines
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Only attempts at this task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Start with the last N lines [default: 20]
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A task, or an attempt such as `parser.2` [default: the newest attempt]
    #[arg(value_name = "ID[.N]", add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// An attempt such as `parser.2`, or a task for its newest
    #[arg(value_name = "ID[.N]", add = ArgValueCandidates::new(complete::ids))]
    pub name: String,
    /// The branch to create [default: ralph/restore/ID.N]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}
