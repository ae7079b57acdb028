//! The command line. The only user of clap: what comes out knows nothing of it.

mod control;
mod look;
mod run;
mod task;

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};

use crate::exit::{Exit, Failure};
pub use control::{Demo, Replay, Resume, Spawn, Stop};
pub use look::{
    Attempts, By, Check, Config, Costs, Doctor, Heartbeat, Restore, Schema, Schemas, Show, Status,
};
pub use run::{DagStatus, Prompt, Run, Which};
pub use task::{Answer, Ask, Note, TaskBlock, TaskComplete, TaskReset, Verify};

/// Drives coding agents through a graph of tasks, unattended, until all of it is done, or says
/// exactly why it cannot be.
#[derive(Debug, Parser)]
#[command(name = "ralph", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 complete, 1 error, 2 limit reached, 3 everything left is \
    blocked, 4 waiting for a person (paused, stopped, input needed), 5 another ralph runs here, \
    64 usage, 65 invalid graph or settings or template, 69 agent missing, 74 disk, 77 not logged in, \
    130 Ctrl-C.\nTry it: `ralph demo` needs no agent and no key.")]
pub struct Cli {
    /// Work in the repository around this folder.
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub directory: Option<PathBuf>,
    /// Use this graph file instead of `task-graph.yaml` at the top of the repository.
    #[arg(long, value_name = "FILE", global = true, env = "RALPH_GRAPH", hide_env_values = true)]
    pub graph: Option<PathBuf>,
    /// Use these settings instead of `.ralph/config.yaml` of the repository.
    #[arg(long, value_name = "FILE", global = true, env = "RALPH_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Work off the graph: choose, prompt, run the agent, judge, repeat
    Run(Box<Run>),
    /// Show the next prompt, without touching anything
    Prompt(Prompt),
    /// Show what is done, in progress, ready and blocked
    DagStatus(DagStatus),
    /// Give tasks back: pending, with all their attempts
    TaskReset(TaskReset),
    /// Say that a task is done
    TaskComplete(TaskComplete),
    /// Hold a task back
    TaskBlock(TaskBlock),
    /// Ask a person, as the agent of an attempt: its task waits for the answer
    Ask(Ask),
    /// Answer what a task asks, and give it back
    Answer(Answer),
    /// Leave a note for agents that come later, as the agent of an attempt
    Note(Note),
    /// Run the verify commands of a task, as a run does before it counts as complete
    Verify(Verify),
    /// Show what attempts cost
    Costs(Costs),
    /// Check the graph file
    Check(Check),
    /// Show every setting, its value, and where that comes from
    Config(Config),
    /// Print the JSON Schema of the graph file or of the settings, for editors
    Schema(Schema),
    /// Find what would keep a run from working, and say what to do about it
    Doctor(Doctor),
    /// Show how the run stands: running, paused, finished or crashed
    Status(Status),
    /// Let the running attempt finish and start no other until `ralph resume`
    Pause,
    /// Take the pause away, and go on with the run that was paused
    Resume(Resume),
    /// Stop the run when its attempt ends, or at once with `--now`
    Stop(Stop),
    /// Tell cron whether the loop lives: exit 0 or 1 with one line
    Heartbeat(Heartbeat),
    /// List the attempts: when, how long, how they were judged, what they left
    Attempts(Attempts),
    /// Show one attempt: verdict, evidence, files, the end of its output
    Show(Show),
    /// Make a branch of what an attempt left that did not complete its task
    Restore(Restore),
    /// For agents: run a command as a child agent of the attempt
    Spawn(Spawn),
    /// Watch it work: eight tasks in a temporary repository, with a built-in agent
    Demo(Demo),
    /// Be an agent that does again what was recorded of one, such as `logs/attempts/ID/N`
    Replay(Replay),
    /// The agent of `ralph demo`
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
    /// Stands between `ralph run` and its agent
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// Reads the command line.
///
/// # Errors
/// A usage error, with its exit code; help and version are none, and are printed.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Option<Cli>> {
    match Cli::try_parse_from(words) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if !error.use_stderr() => {
            // Help into a pipe that nobody reads to its end is as good as read.
            let _ = error.print();
            Ok(None)
        }
        Err(error) => {
            let text = error.render().to_string();
            Err(Failure::drawn(Exit::Usage, text.trim_end().to_owned()).into())
        }
    }
}

/// Every command and what it is for, as `--help` lists them; for the docs' test.
pub fn commands() -> Vec<(String, String)> {
    use clap::CommandFactory;
    Cli::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            (command.get_name().to_owned(), about)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
