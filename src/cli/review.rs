//! The flags of the commands with which a person reviews what landed.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;

/// `ralph review`.
#[derive(Debug, Args)]
pub struct ReviewArgs {
    /// The tasks [default: all that landed and were not reviewed]
    #[arg(value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub ids: Vec<String>,
    /// Accept their work without a question
    #[arg(long, conflicts_with = "json")]
    pub accept: bool,
    /// A note on it
    #[arg(long, value_name = "TEXT", requires = "accept")]
    pub note: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A task, or one of its attempts, such as `a.2` [default: all that landed in the newest run]
    #[arg(value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Take an earlier run: 1 is the newest, 2 the one before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "id")]
    pub run: Option<u32>,
    /// Show only how much changed in each file
    #[arg(long)]
    pub stat: bool,
}

/// `ralph take-back`.
#[derive(Debug, Default, Args)]
pub struct TakeBackArgs {
    /// The tasks
    #[arg(required = true, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub ids: Vec<String>,
    /// What was wrong, for the next attempts; `-` reads standard input
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,
    /// Also take back the landed tasks that need this work, without asking
    #[arg(long)]
    pub with_dependents: bool,
    /// Do not run the verify commands
    #[arg(long)]
    pub unverified: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph pr`.
#[derive(Debug, Args)]
pub struct PullRequestArgs {
    /// Take an earlier run: 1 is the newest, 2 the one before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub run: Option<u32>,
    /// The branch that it is for [default: as the remote says]
    #[arg(long, value_name = "BRANCH")]
    pub base: Option<String>,
    /// Push the branch and open it with `gh`
    #[arg(long)]
    pub push: bool,
    /// Open it as a draft
    #[arg(long)]
    pub draft: bool,
}
