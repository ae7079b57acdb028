//! The flags of the commands that control a run, and of `demo`, `replay`, `completions` and `man`.

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

/// `ralph replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A file with standard output; or a folder with `stdout` and optionally `stderr`, `timed.jsonl`
    /// (lines of `[seconds, "out" or "err", line]`) and `meta.json` (`{"rc": CODE}`)
    pub transcript: PathBuf,
    /// Replay N times faster, or `max` [default: original speed with waits of at most 1s]
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// Commit a file, `replayed/ID.txt`
    #[arg(long)]
    pub commit: bool,
    /// Report the task with `ralph task-complete`
    #[arg(long)]
    pub report: bool,
    /// Exit with this code [default: the recorded one, or 0]
    #[arg(long, value_name = "CODE")]
    pub exit_code: Option<u8>,
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

/// Parses a factor; 0 means `max`.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        _ if text == "max" => Ok(0.0),
        Ok(factor) if factor >= 0.0 && f64::is_finite(factor) => Ok(factor),
        _ => Err("expected a factor such as 10, or `max`".to_owned()),
    }
}
