//! The flags of what steers a run or stands in for a part of it.

use std::path::PathBuf;

use clap::Args;

use super::{Named, complete};

/// `ralph resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Try again at once what the provider refused for now
    #[arg(long)]
    pub now: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// End the attempt too, as Ctrl-C does; it does not count
    #[arg(long)]
    pub now: bool,
    /// Which loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph spawn`.
#[derive(Debug, Args)]
pub struct SpawnArgs {
    /// The command; it has the streams of this one, and its exit code becomes that of this one
    #[arg(last = true, required = true, value_name = "CMD")]
    pub argv: Vec<String>,
}

/// `ralph demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Make the repository here instead of in the temporary folder; must not exist yet
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Make this many attempts at the same time, each in a git work tree of its own [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

/// `ralph replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A folder with `stdout`, and `stderr`, `timed.jsonl` (`[seconds, "out" or "err", line]`) and
    /// `meta.json` (`{"rc": CODE}`) where it has them; or a file of standard output
    pub transcript: PathBuf,
    /// So many times as fast as it was, or `max` [default: as it was, but no wait over 1 s]
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<f64>,
    /// Commit a file `replayed/ID.txt`
    #[arg(long)]
    pub commit: bool,
    /// Report the task done, with `ralph task-complete`
    #[arg(long)]
    pub report: bool,
    /// End with this code [default: the recorded one, or 0]
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
    /// Write a page for every command into this folder
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// 0 stands for `max`.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        _ if text == "max" => Ok(0.0),
        Ok(factor) if factor >= 0.0 && f64::is_finite(factor) => Ok(factor),
        _ => Err("write a factor such as 10, or `max`".to_owned()),
    }
}
