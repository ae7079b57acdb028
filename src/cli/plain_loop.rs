//! The flags of `loop`, and the one by which other commands mean such a loop.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::{complete, run::LimitArgs};
use crate::core::{duration, graph::task::TaskId};

/// `ralph loop`.
#[derive(Debug, Args)]
#[command(
    after_help = "It ends with exit code 0 when the file `.ralph/loops/NAME/DONE` is there, \
    when the agent runs `ralph task-complete NAME`, promises that all is done, or says what the \
    done pattern matches; with 1 after failures in a row, 2 at a limit, 4 when it needs a person. \
    Everything else is followed by the next iteration."
)]
#[command(override_usage = "ralph loop [OPTIONS] --prompt-file <FILE>\n                  \
                            --max-iterations <N> [-- <CMD>...]")]
pub struct LoopArgs {
    /// Give the agent what is in this file, read anew for each iteration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompt_file: PathBuf,
    /// Stop after this many iterations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: u32,
    /// What the loop is called; loops of different names go on at once
    #[arg(long, value_name = "NAME", default_value = "loop", value_parser = name)]
    pub name: TaskId,
    /// Restart an agent that did nothing for this long: no output, no processor time, no changed
    /// file; seconds, or `90s`, `15m`; `0` for no such limit [default: 15m]
    #[arg(long, visible_alias = "idle", value_name = "TIME", value_parser = duration::seconds_or)]
    pub inactivity_timeout: Option<Duration>,
    /// Wait this long between an iteration and the next; seconds, or `90s`, `15m`
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = duration::seconds_or)]
    pub restart_delay: Duration,
    /// Stop when the agent was started this many times after the first
    #[arg(long, value_name = "N")]
    pub max_restarts: Option<u32>,
    /// Stop after so many failures in a row; `0` for never
    #[arg(long, value_name = "N", default_value_t = crate::core::select::MAX_FAILURES)]
    pub max_failures: u32,
    /// The limits it has like any run.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Use this agent, whatever the settings say: claude, codex, gemini, opencode, amp, copilot,
    /// aider, or a program
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// Give each agent a terminal of its own, a window of tmux, to which `ralph attach` goes. Only
    /// what changes on its screen, or a changed file, is then a sign of life
    #[arg(long)]
    pub tmux: bool,
    /// Say only how it ended
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long)]
    pub verbose: bool,
    /// The agent: any command that reads a prompt on standard input
    /// [default: that of the settings, else claude]
    #[arg(last = true, value_name = "CMD")]
    pub agent: Vec<String>,
}

/// A loop by its name.
#[derive(Debug, Default, Args)]
pub struct Named {
    /// Mean the plain loop of this name, and not the run over the graph
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

/// The same where the id of a task is given, which means it by itself inside of that loop.
#[derive(Debug, Default, Args)]
pub struct Called {
    /// Mean the plain loop of this name, and not a task of the graph
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
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// The name of a loop, which has the rule of an id.
fn name(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the name {rule}"))
}
