//! The command line: parses it, and prints help. The only user of clap.

mod complete;
mod edit;
mod help;
mod look;
mod review;
mod run;
mod setup;
mod tool;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::core::exit::{Exit, Failure};
pub use complete::registration;
pub use edit::*;
pub use help::Flags;
pub use look::*;
pub use review::*;
pub use run::*;
pub use setup::*;
pub use tool::*;

/// Runs coding agents through a task graph and trusts only what git shows
#[derive(Debug, Parser)]
#[command(name = "ralph", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "`ralph help all` lists every command, `ralph help agents` those that agents \
    and scripts call, and `ralph help COMMAND` the flags of one with examples. `ralph demo` needs no \
    agent and no key.\n\n\
    Exit codes: 0 complete, 1 error, 2 limit reached, 3 blocked, 4 waits for a person, \
    5 another run is active, 64 usage, 65 invalid file, 69 no agent, 74 disk, 77 authentication, \
    129/130/143 signal"
)]
pub struct Cli {
    /// Run as if started in DIR
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true, display_order = 900)]
    pub directory: Option<PathBuf>,
    /// Use this graph file [default: task-graph.yaml]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        display_order = 901,
        env = "RALPH_GRAPH",
        hide_env_values = true
    )]
    pub graph: Option<PathBuf>,
    /// Use this settings file [default: .ralph/config.yaml]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        display_order = 902,
        env = "RALPH_CONFIG",
        hide_env_values = true
    )]
    pub config: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command with its arguments. The order is that of the help, which groups them.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Run agents through the task graph until it is complete
    Run(Flags<Box<RunArgs>>),
    /// Repeat an agent on a prompt file, without a graph
    Loop(Flags<Box<LoopArgs>>),
    /// Foresee a run: what it will do, when and why it ends
    #[command(alias = "tonight")]
    Plan(Flags<Box<PlanArgs>>),
    /// Show the next prompt, or claim its task with `--accept`
    Prompt(Flags<PromptArgs>),
    /// Let running attempts finish and start no more
    Pause(Flags<Named>),
    /// Lift the pause and continue the run
    Resume(Flags<ResumeArgs>),
    /// Stop the run after its attempt, or immediately with `--now`
    Stop(Flags<StopArgs>),
    /// Show how the run stands, who is needed, and what is next
    Status(Flags<StatusArgs>),
    /// Print the full report of a run, also as Markdown
    Report(Flags<ReportArgs>),
    /// Show the state of every task
    DagStatus(Flags<DagStatusArgs>),
    /// Draw the task graph
    Graph(Flags<GraphArgs>),
    /// Show the repository in the browser, live
    Serve(Flags<ServeArgs>),
    /// Offer these commands as tools to Claude Code and others
    Mcp(Flags<McpArgs>),
    /// List attempts with their verdicts
    Attempts(Flags<AttemptsArgs>),
    /// Show a task and its attempts, or one attempt
    Show(Flags<ShowArgs>),
    /// Show the journal in plain words, or an agent's output
    Logs(Flags<LogsArgs>),
    /// Follow the run and its agent
    #[command(hide = true)]
    Attach(Flags<AttachArgs>),
    /// Show what attempts cost
    Costs(Flags<CostsArgs>),
    /// Go through what landed, what deserves a look first
    Review(Flags<ReviewArgs>),
    /// Show the changes of a task, or of a run, as they landed
    Diff(Flags<DiffArgs>),
    /// Take landed work back, with a verified commit
    TakeBack(Flags<TakeBackArgs>),
    /// Bring what landed to your checkout
    Land(Flags<LandArgs>),
    /// Open a pull request of what landed, or print its text
    Pr(Flags<PullRequestArgs>),
    /// Validate the graph; report every error with its location
    Check(Flags<CheckArgs>),
    /// Add a task to the graph
    TaskAdd(Flags<Box<TaskAddArgs>>),
    /// Mark a task complete
    TaskComplete(Flags<TaskCompleteArgs>),
    /// Set tasks to pending, with all attempts available again
    TaskReset(Flags<TaskResetArgs>),
    /// Block a task, with a reason
    TaskBlock(Flags<TaskBlockArgs>),
    /// Answer a task that needs input
    Answer(Flags<AnswerArgs>),
    /// Leave a note for the next attempts at a task
    Note(Flags<NoteArgs>),
    /// Add the tasks of a backlog to the graph
    Import(Flags<ImportArgs>),
    /// Have the agent write tasks from a text, and check them
    Draft(Flags<Box<DraftArgs>>),
    /// Create a branch from the work of an incomplete attempt
    Restore(Flags<RestoreArgs>),
    /// List the slots of attempts, and remove them
    Slots(Flags<SlotsArgs>),
    /// Set up a project; overwrite nothing
    Init(Flags<InitArgs>),
    /// Find what would stop a run, with a remedy for each problem
    Doctor(Flags<DoctorArgs>),
    /// Show every setting, its value and its origin
    Config(Flags<ConfigArgs>),
    /// Start runs at set times, or print a service that does
    Schedule(Flags<ScheduleArgs>),
    /// Report whether the loop is alive, for cron
    #[command(hide = true)]
    Heartbeat(Flags<HeartbeatArgs>),
    /// Remove what ralph keeps about this repository
    Uninit(Flags<UninitArgs>),
    /// Run a demo with a built-in agent
    Demo(Flags<DemoArgs>),
    /// Ask a person a question; the task then needs input
    #[command(hide = true)]
    Ask(Flags<AskArgs>),
    /// Run the verify commands of a task
    #[command(hide = true)]
    Verify(Flags<VerifyArgs>),
    /// Print a built-in template
    #[command(hide = true)]
    Template(Flags<PrintTemplateArgs>),
    /// Print the JSON Schema of the graph or the settings
    #[command(hide = true)]
    Schema(Flags<SchemaArgs>),
    /// Merge the graph by task, as a git merge driver
    #[command(hide = true)]
    MergeDriver(Flags<MergeDriverArgs>),
    /// Generate shell completions
    #[command(hide = true)]
    Completions(Flags<CompletionsArgs>),
    /// Print or write manual pages
    #[command(hide = true)]
    Man(Flags<ManArgs>),
    /// Print help for a command
    #[command(hide = true)]
    Help {
        /// A command; `all` for every command, `agents` for those that agents and scripts call
        topic: Vec<String>,
    },
    /// Enters a sandbox and becomes the command
    #[command(name = "__confine", hide = true)]
    Confine {
        /// The orders, as JSON
        orders: String,
        /// The command
        #[arg(last = true, required = true)]
        argv: Vec<String>,
    },
    /// Runs a filter or a merge driver of git in a sandbox
    #[command(name = "__filter", hide = true)]
    Filter {
        /// The name of the sandbox
        executor: String,
        /// The shell command
        command: String,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Guards the processes of an agent for `ralph run`
    #[command(name = "__guard", hide = true)]
    Guard,
    /// Sends or fetches the work in a slot, for a guardian whose agent runs on another machine
    #[command(name = "__work", hide = true)]
    Work {
        /// What to do
        step: WorkStep,
        /// The file that names the slot
        spec: PathBuf,
    },
    /// Runs the processes of an attempt at an executor
    #[command(name = "__worker", hide = true)]
    Worker,
}

/// What `--version` says.
const VERSION: &str = concat!("ralph ", env!("CARGO_PKG_VERSION"));

/// Parses the command line. Shell completions, the version and help are answered here.
///
/// # Errors
/// A usage error, with its exit code. Help and version are printed and are not errors.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Option<Cli>> {
    let words: Vec<OsString> = words.into_iter().collect();
    if complete::answer(&words, Cli::command) {
        return Ok(None);
    }
    if let [_, word] = &words[..]
        && ["-V", "--version"].iter().any(|flag| word == flag)
    {
        // Scripts ask for it, and need no parser of all commands.
        let _ = writeln!(io::stdout(), "{VERSION}");
        return Ok(None);
    }
    let error = match Cli::command().try_get_matches_from(&words) {
        Ok(found) => {
            let cli = Cli::from_arg_matches(&found).map_err(|error| usage(&error))?;
            return match &cli.command {
                Command::Help { topic } => print_help(topic),
                _ => Ok(Some(cli)),
            };
        }
        // Only the help needs the short list of commands.
        Err(_) => match help::first_page().try_get_matches_from(&words) {
            Err(error) => error,
            Ok(_) => unreachable!("the list changes only the help"),
        },
    };
    if error.use_stderr() {
        let known = help::unknown_command(&error, &words);
        let known = known.or_else(|| help::unknown_flag(&error, &words));
        return Err(known.unwrap_or_else(|| usage(&error)));
    }
    // A reader of the pipe may stop early, as `head` does.
    let _ = error.print();
    Ok(None)
}

/// Prints the first page, the page of a command, of every command, or of those for agents.
fn print_help(topic: &[String]) -> anyhow::Result<Option<Cli>> {
    let pages = match topic {
        [one] if one == "all" => help::all_pages(),
        [one] if one == "agents" => vec![help::agents_page()],
        _ => Vec::new(),
    };
    if !pages.is_empty() {
        for (number, mut page) in pages.into_iter().enumerate() {
            // As above.
            let _ = io::stdout().write_all(if number == 0 { b"" } else { b"\n" });
            let _ = page.print_help();
        }
        return Ok(None);
    }
    let words = ["ralph"].into_iter().chain(topic.iter().map(String::as_str)).chain(["--help"]);
    parse(words.map(OsString::from))
}

fn usage(error: &clap::Error) -> anyhow::Error {
    let text = error.render().to_string();
    Failure::drawn(Exit::Usage, text.trim_end().to_owned()).into()
}

/// The manual pages with their file names, that of `ralph` itself first.
///
/// # Errors
/// Only those of writing into memory.
pub fn man_pages() -> io::Result<Vec<(String, String)>> {
    let mut whole = Cli::command();
    whole.build();
    let commands = whole.get_subcommands().filter(|command| help::is_public(command));
    let all = std::iter::once(&whole).chain(commands);
    all.map(|command| {
        let man = clap_mangen::Man::new(command.clone());
        let mut page = Vec::new();
        man.render(&mut page)?;
        Ok((man.get_filename(), String::from_utf8_lossy(&page).into_owned()))
    })
    .collect()
}

/// The names of the commands that people, agents and scripts call.
pub fn commands() -> Vec<String> {
    let whole = Cli::command();
    let public = whole.get_subcommands().filter(|command| help::is_public(command));
    public.map(|command| command.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(Cli::command().render_version().trim_end(), VERSION);
    }
}
