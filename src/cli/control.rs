//! The flags of the commands that control a run, and of `demo`, `completions` and `man`.

use std::path::PathBuf;

use clap::Args;

use super::{Named, complete, run::LimitArgs};

/// `ralph resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Retry a rate-limited provider immediately
    #[arg(long)]
    pub now: bool,
    /// Only lift the pause: a run that has ended is not continued
    #[arg(long, conflicts_with_all = ["now", "max_iterations"])]
    pub lift: bool,
    /// Stop after this many attempts, counted from the start of the paused run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// New limits for the run that continues.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Also end the running attempt, as Ctrl-C does; it does not count
    #[arg(long)]
    pub now: bool,
    /// End only this child agent of `ralph spawn`, given by its run or its process, as `ralph status`
    /// shows them
    #[arg(long, value_name = "ID", conflicts_with = "now")]
    pub child: Option<String>,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph spawn`.
#[derive(Debug, Args)]
pub struct SpawnArgs {
    /// The command; it inherits standard input and output, and its exit code is returned
    #[arg(last = true, required = true, value_name = "CMD")]
    pub argv: Vec<String>,
}

/// `ralph demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Create the repository in DIR, which must not exist [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Run up to N attempts at a time, each in its own slot [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

/// `ralph completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(complete::shells()))]
    pub shell: String,
}

/// `ralph man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one page per command to this folder
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}
