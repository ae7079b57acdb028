//! The flags of `loop`, and the flag `--name` of other commands.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::{complete, run::LimitArgs};
use crate::core::{duration, graph::task::TaskId};

/// `ralph loop`.
#[derive(Debug, Args)]
#[command(
    after_help = "The loop ends with exit code 0 when the file `.ralph/loops/NAME/DONE` exists, \
    when the agent runs `ralph task-complete NAME`, and when its final result contains the promise \
    or matches the done pattern; with 1 after consecutive failures, 2 at a limit, 4 when it needs \
    a person. In all other cases the next iteration starts."
)]
#[command(override_usage = "ralph loop [OPTIONS] --prompt-file <FILE>\n                  \
                            --max-iterations <N> [-- <CMD>...]")]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct LoopArgs {
    /// Pass this file to the agent; read again for each iteration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompt_file: PathBuf,
    /// Stop after this many iterations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: u32,
    /// Name the loop; loops with different names can run at the same time
    #[arg(long, value_name = "NAME", default_value = "loop", value_parser = name)]
    pub name: TaskId,
    /// Restart an agent after this long without output, CPU time or changed files: seconds, or
    /// `90s`, `15m`; `0` disables the limit [default: 15m]
    #[arg(long, visible_alias = "idle", value_name = "TIME", value_parser = duration::seconds_or)]
    pub inactivity_timeout: Option<Duration>,
    /// Wait this long between iterations, also after failures: seconds, or `90s`, `15m` [default:
    /// 1, and longer after failures]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or)]
    pub restart_delay: Option<Duration>,
    /// Stop after restarting the agent this many times
    #[arg(long, value_name = "N")]
    pub max_restarts: Option<u32>,
    /// Stop after N consecutive failures; `0` disables the limit
    #[arg(long, value_name = "N", default_value_t = crate::core::select::MAX_FAILURES)]
    pub max_failures: u32,
    /// The limits that `run` has too.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Use this agent instead of that of the settings: claude, codex, gemini, opencode, amp,
    /// copilot, aider, or a program
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// Work in a slot instead of the checkout; the work lands on the branch when the loop is done and
    /// the verify commands pass
    #[arg(long)]
    pub isolated: bool,
    /// Run iterations there instead of where the settings say: local, sandbox, or one of `executors`
    /// of the settings; all but local and sandboxes need `--isolated`
    #[arg(long = "on", value_name = "NAME", conflicts_with = "tmux")]
    pub run_on: Option<String>,
    /// Run each agent in a tmux window, for `ralph attach`; only screen changes and changed files
    /// count as activity
    #[arg(long)]
    pub tmux: bool,
    /// Print only the result
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long)]
    pub verbose: bool,
    /// The agent: any command that reads a prompt on standard input [default: from the settings]
    #[arg(last = true, value_name = "CMD")]
    pub agent: Vec<String>,
}

/// The loop that a command acts on.
#[derive(Debug, Default, Args)]
pub struct Named {
    /// Act on this named loop instead of the graph run
    #[arg(
        id = "loop",
        long = "name",
        value_name = "NAME",
        env = "RALPH_LOOP",
        hide_env_values = true,
        value_parser = name,
        add = ArgValueCandidates::new(complete::loops)
    )]
    pub name: Option<TaskId>,
}

/// The loop that a command on a task acts on. Inside a loop, its name as task id is enough.
#[derive(Debug, Default, Args)]
pub struct Called {
    /// Act on this named loop instead of a task of the graph
    #[arg(
        id = "loop",
        long = "name",
        value_name = "NAME",
        value_parser = name,
        add = ArgValueCandidates::new(complete::loops)
    )]
    pub name: Option<TaskId>,
}

/// `ralph ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses the name of a loop, which follows the rules of a task id.
fn name(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the name {rule}"))
}
