//! The command line. The only user of clap: what comes out knows nothing of it.

mod complete;
mod control;
mod examples;
mod flags;
mod look;
mod plain_loop;
mod run;
mod schedule;
mod setup;
mod task;
mod worktree;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::core::exit::{Exit, Failure};
pub use control::{
    CompletionsArgs, DemoArgs, ManArgs, ReplayArgs, ResumeArgs, SpawnArgs, StopArgs,
};
pub use flags::Flags;
pub use look::{
    AttachArgs, AttemptsArgs, By, CheckArgs, ConfigArgs, CostsArgs, DoctorArgs, HeartbeatArgs,
    LogsArgs, NotifyArgs, RestoreArgs, SchemaArgs, Schemas, ShowArgs, StatusArgs,
};
pub use plain_loop::{Called, LoopArgs, Ls, Named};
pub use run::{DagStatusArgs, LimitArgs, PaneArgs, PlanArgs, PromptArgs, RunArgs, Which};
pub use schedule::{InstallArgs, Keeper, ScheduleArgs, Units};
pub use setup::{InitArgs, MergeDriverArgs, PrintTemplateArgs};
pub use task::{
    AnswerArgs, AskArgs, NoteArgs, TaskBlockArgs, TaskCompleteArgs, TaskResetArgs, VerifyArgs,
};
pub use worktree::{WorktreeArgs, WorktreeCommand};

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
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true, display_order = 900)]
    pub directory: Option<PathBuf>,
    /// Use this graph file instead of `task-graph.yaml` at the top of the repository.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        display_order = 900,
        env = "RALPH_GRAPH",
        hide_env_values = true
    )]
    pub graph: Option<PathBuf>,
    /// Use these settings instead of `.ralph/config.yaml` of the repository.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        display_order = 900,
        env = "RALPH_CONFIG",
        hide_env_values = true
    )]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Set this project up: settings, a graph with examples, a prompt, recipes; overwrites nothing
    Init(Flags<InitArgs>),
    /// Print a built-in template, that of a task's prompt if none is named
    Template(Flags<PrintTemplateArgs>),
    /// Work off the graph: choose, prompt, run the agent, judge, repeat
    Run(Flags<Box<RunArgs>>),
    /// Restart an agent on a prompt file, without a graph, until it says that all is done
    Loop(Flags<Box<LoopArgs>>),
    /// List the loops of this repository, the run over the graph included, live or dead
    Ls(Flags<Ls>),
    /// Show the next prompt, without touching anything
    Prompt(Flags<PromptArgs>),
    /// Show when all of it could be done, with how many agents at once
    Plan(Flags<PlanArgs>),
    /// Show what is done, in progress, ready and blocked
    DagStatus(Flags<DagStatusArgs>),
    /// Give tasks back: pending, with all their attempts
    TaskReset(Flags<TaskResetArgs>),
    /// Say that a task is done
    TaskComplete(Flags<TaskCompleteArgs>),
    /// Hold a task back
    TaskBlock(Flags<TaskBlockArgs>),
    /// Ask a person, as the agent of an attempt: its task waits for the answer
    Ask(Flags<AskArgs>),
    /// Answer what a task asks, and give it back
    Answer(Flags<AnswerArgs>),
    /// Leave a note for agents that come later, as the agent of an attempt
    Note(Flags<NoteArgs>),
    /// Run the verify commands of a task, as a run does before it counts as complete
    Verify(Flags<VerifyArgs>),
    /// Show what attempts cost
    Costs(Flags<CostsArgs>),
    /// Check the graph file
    Check(Flags<CheckArgs>),
    /// Show every setting, its value, and where that comes from
    Config(Flags<ConfigArgs>),
    /// Print the JSON Schema of the graph file or of the settings, for editors
    Schema(Flags<SchemaArgs>),
    /// Merge three versions of the graph file by task, or have git do it so
    MergeDriver(Flags<MergeDriverArgs>),
    /// List the work trees of attempts, make one for yourself, or remove one that is not needed
    Worktree(Flags<WorktreeArgs>),
    /// Find what would keep a run from working, and say what to do about it
    Doctor(Flags<DoctorArgs>),
    /// Show who is told of what, or try it
    Notify(Flags<NotifyArgs>),
    /// Show how the run stands: running, paused, finished or crashed
    Status(Flags<StatusArgs>),
    /// Let the running attempt finish and start no other until `ralph resume`
    Pause(Flags<Named>),
    /// Take the pause away, and go on with the run that was paused
    Resume(Flags<ResumeArgs>),
    /// Stop the run when its attempt ends, or at once with `--now`
    Stop(Flags<StopArgs>),
    /// Start runs by the clock, or have the system do so
    Schedule(Flags<ScheduleArgs>),
    /// Tell cron whether the loop lives: exit 0 or 1 with one line
    Heartbeat(Flags<HeartbeatArgs>),
    /// Read the journal in plain words, or what an agent printed
    Logs(Flags<LogsArgs>),
    /// Watch the agent at work: in its terminal with `ralph run --tmux`, else what it says
    Attach(Flags<AttachArgs>),
    /// List the attempts: when, how long, how they were judged, what they left
    Attempts(Flags<AttemptsArgs>),
    /// Show one attempt: verdict, evidence, files, the end of its output
    Show(Flags<ShowArgs>),
    /// Make a branch of what an attempt left that did not complete its task
    Restore(Flags<RestoreArgs>),
    /// For agents: run a command as a child agent of the attempt
    Spawn(Flags<SpawnArgs>),
    /// Watch it work: eight tasks in a temporary repository, with a built-in agent
    Demo(Flags<DemoArgs>),
    /// Be an agent that does again what was recorded of one, such as `logs/attempts/ID/N`
    Replay(Flags<ReplayArgs>),
    /// Print what makes a shell complete commands, flags, ids and settings
    Completions(Flags<CompletionsArgs>),
    /// Print the manual page, or write those of all commands
    Man(Flags<ManArgs>),
    /// The agent of `ralph demo`
    #[command(name = "__demo-agent", hide = true)]
    DemoAgent,
    /// Stands in for an agent that is to have a terminal
    #[command(name = "__pane", hide = true)]
    Pane(Flags<PaneArgs>),
    /// Stands before an agent in its terminal
    #[command(name = "__in-pane", hide = true)]
    InPane {
        /// The folder of its pane
        folder: PathBuf,
    },
    /// Stands between `ralph run` and its agent
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// Reads the command line. A shell that asks for completions is answered here.
///
/// # Errors
/// A usage error, with its exit code; help and version are none, and are printed.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Option<Cli>> {
    let words: Vec<OsString> = words.into_iter().collect();
    if complete::answer(&words, Cli::command) {
        return Ok(None);
    }
    let found = Cli::command().try_get_matches_from(words);
    match found.and_then(|found| Cli::from_arg_matches(&found)) {
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

/// What a shell has to be told once, so that it asks `program` what can be completed.
pub fn registration(shell: &str, program: &Path) -> String {
    complete::registration(shell, program)
}

/// The manual: file names and pages, that of `ralph` itself first.
///
/// # Errors
/// None but those of writing into memory.
pub fn man_pages() -> io::Result<Vec<(String, String)>> {
    let mut whole = Cli::command();
    whole.build();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let all = std::iter::once(&whole).chain(commands);
    all.map(|command| {
        let man = clap_mangen::Man::new(command.clone());
        let mut page = Vec::new();
        man.render(&mut page)?;
        Ok((man.get_filename(), String::from_utf8_lossy(&page).into_owned()))
    })
    .collect()
}

/// Every command and what it is for, as `--help` lists them; for the docs' test.
pub fn commands() -> Vec<(String, String)> {
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
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_that_can_be_typed() {
        for (name, _) in commands() {
            let found = examples::EXAMPLES.iter().find(|(command, _)| *command == name);
            let (_, examples) = found.unwrap_or_else(|| panic!("no example for {name}"));
            for (line, _) in *examples {
                let at = line.find("ralph ").expect("it calls ralph");
                let line = line[at..].split([')', '|', '>', '<']).next().unwrap_or_default();
                let words = line.split_whitespace().scan(None, |quoted: &mut Option<()>, word| {
                    // What is in quotes is one word.
                    let inside = quoted.is_some();
                    if word.matches('"').count() % 2 == 1 {
                        *quoted = if inside { None } else { Some(()) };
                    }
                    Some((!inside).then(|| OsString::from(word)))
                });
                let parsed = Cli::command().try_get_matches_from(words.flatten());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
        assert_eq!(examples::EXAMPLES.len(), commands().len(), "an example for no command");
    }
}
