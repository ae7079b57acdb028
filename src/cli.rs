//! The command line. The only user of clap: what comes out knows nothing of it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{
    duration,
    exit::{Exit, Failure},
    promise::Pattern,
    task::TaskId,
};

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

/// Which tasks are meant.
#[derive(Debug, Default, Args)]
pub struct Which {
    /// Only this task (may be repeated)
    #[arg(long = "task", value_name = "ID", value_parser = task_id)]
    pub tasks: Vec<TaskId>,
    /// Only tasks of this story (may be repeated)
    #[arg(long = "story", value_name = "STORY")]
    pub stories: Vec<String>,
    /// Only tasks of this milestone (may be repeated)
    #[arg(long = "milestone", value_name = "MILESTONE")]
    pub milestones: Vec<String>,
    /// Only tasks with this tag (may be repeated)
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
}

/// `ralph run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct Run {
    /// Stop after this many attempts [default: 50]
    #[arg(long, value_name = "N", env = "RALPH_MAX_ITERATIONS", hide_env_values = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// Which tasks.
    #[command(flatten)]
    pub which: Which,
    /// Make one attempt: exit 0 if it completed its task, 1 if not
    #[arg(long, conflicts_with = "max_iterations")]
    pub once: bool,
    /// End an attempt after this long [default: 2h]
    #[arg(long, value_name = "TIME", env = "RALPH_TIMEOUT", hide_env_values = true, value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// End an attempt that did nothing for this long: no output, no processor time, no changed
    /// file; `0s` for no such limit [default: 15m]
    #[arg(long, value_name = "TIME", env = "RALPH_IDLE", hide_env_values = true, value_parser = duration::parse)]
    pub idle: Option<Duration>,
    /// End an agent that has given its final result and does not exit for this long; its work
    /// counts [default: 30s]
    #[arg(long, value_name = "TIME", env = "RALPH_EXIT_GRACE", hide_env_values = true, value_parser = duration::parse)]
    pub exit_grace: Option<Duration>,
    /// Stop when the attempts of this run have cost so many US dollars
    #[arg(long, value_name = "USD", env = "RALPH_MAX_COST", hide_env_values = true, value_parser = money)]
    pub max_cost: Option<f64>,
    /// Stop when they have used so many tokens, those read from a cache left out
    #[arg(long, value_name = "N", env = "RALPH_MAX_TOKENS", hide_env_values = true)]
    pub max_tokens: Option<u64>,
    /// Start nothing after this long
    #[arg(long, value_name = "TIME", env = "RALPH_MAX_DURATION", hide_env_values = true, value_parser = duration::parse)]
    pub max_duration: Option<Duration>,
    /// Also take a final result that this regular expression matches for a promise that all is done
    #[arg(long, value_name = "REGEX", value_parser = Pattern::new)]
    pub done_pattern: Option<Pattern>,
    /// Wait this long for a provider that gives no service for now [default: 6h]
    #[arg(long, value_name = "TIME", env = "RALPH_MAX_WAIT", hide_env_values = true, value_parser = duration::parse)]
    pub max_wait: Option<Duration>,
    /// Use this agent, whatever tasks and settings say: claude, codex, gemini, opencode, amp,
    /// copilot, aider, or a program
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// When everything left is in progress elsewhere or needs input, wait instead of stopping
    #[arg(long)]
    pub wait: bool,
    /// Show the order it would take and why, and touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say only how it ended
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long)]
    pub verbose: bool,
    /// The agent: any command that reads a prompt on standard input
    /// [default: that of the settings, else claude]
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `ralph prompt`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct Prompt {
    /// The task; without it, the one that is next
    pub id: Option<String>,
    /// Claim the task: it is yours, and `ralph run` leaves it alone
    #[arg(long)]
    pub accept: bool,
    /// Show why this task is next, and which would follow
    #[arg(long, conflicts_with_all = ["accept", "id"])]
    pub why: bool,
    /// Show everything a template can name, as JSON
    #[arg(long, conflicts_with = "why")]
    pub json: bool,
    /// Write the built-in template to `prompts/task.md`, to be changed
    #[arg(long, conflicts_with_all = ["accept", "why", "json", "id"])]
    pub write_template: bool,
    /// Overwrite a template that is there
    #[arg(long, requires = "write_template")]
    pub force: bool,
}

/// `ralph dag-status`.
#[derive(Debug, Args)]
pub struct DagStatus {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Every task, however many there are
    #[arg(long)]
    pub all: bool,
    /// Which tasks.
    #[command(flatten)]
    pub which: Which,
}

/// `ralph task-reset`.
#[derive(Debug, Args)]
pub struct TaskReset {
    /// The tasks
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// `ralph task-complete`.
#[derive(Debug, Args)]
pub struct TaskComplete {
    /// The task
    pub id: String,
}

/// `ralph task-block`.
#[derive(Debug, Args)]
pub struct TaskBlock {
    /// The task
    pub id: String,
    /// Why, for whoever reads the journal
    #[arg(long)]
    pub reason: String,
}

/// `ralph ask`.
#[derive(Debug, Args)]
pub struct Ask {
    /// The question; `-` reads it from standard input
    pub text: String,
}

/// `ralph answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The task
    pub id: String,
    /// The answer; `-` reads it from standard input; without it, the question is shown
    pub text: Option<String>,
}

/// `ralph note`.
#[derive(Debug, Args)]
pub struct Note {
    /// The note; `-` reads it from standard input
    pub text: String,
    /// For every agent, in the learnings file; else for the tasks that depend on this one
    #[arg(long)]
    pub for_all: bool,
    /// The heading that it belongs under: a word
    #[arg(long, value_name = "TAG", requires = "for_all", value_parser = tag)]
    pub tag: Option<String>,
}

/// `ralph verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The task
    pub id: String,
}

/// `ralph costs`.
#[derive(Debug, Args)]
pub struct Costs {
    /// One line for each of these
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Task)]
    pub by: By,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What costs are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The task
    Task,
    /// The day here
    Day,
    /// The agent
    Agent,
    /// The story of the task
    Story,
}

/// `ralph check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The file; without it, that of the repository
    pub file: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Show only what is not all right
    #[arg(short, long)]
    pub quiet: bool,
    /// Look at this agent, whatever tasks and settings say
    #[arg(long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub agent_name: Option<String>,
    /// The agent, as for `ralph run`
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `ralph status`.
#[derive(Debug, Args)]
pub struct Status {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph resume`.
#[derive(Debug, Args)]
pub struct Resume {
    /// Try again at once what the provider refused for now
    #[arg(long)]
    pub now: bool,
}

/// `ralph stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// End the attempt too, as Ctrl-C does; it does not count
    #[arg(long)]
    pub now: bool,
}

/// `ralph heartbeat`.
#[derive(Debug, Args)]
pub struct Heartbeat {
    /// A loop that has not beaten for longer is dead
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    pub max_age: Duration,
}

/// `ralph attempts`.
#[derive(Debug, Args)]
pub struct Attempts {
    /// Only those of this task
    pub id: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The attempt, such as `parser.2`; for a task, its newest one
    #[arg(value_name = "ID[.N]")]
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// The attempt, such as `parser.2`; for a task, its newest one
    #[arg(value_name = "ID[.N]")]
    pub name: String,
    /// The branch to make [default: ralph/restore/ID.N]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
}

/// `ralph spawn`.
#[derive(Debug, Args)]
pub struct Spawn {
    /// The command; it has the streams of this one, and its exit code becomes that of this one
    #[arg(last = true, required = true, value_name = "CMD")]
    pub argv: Vec<String>,
}

/// `ralph demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Make the repository here instead of in the temporary folder; must not exist yet
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// `ralph replay`.
#[derive(Debug, Args)]
pub struct Replay {
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

/// 0 stands for `max`.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        _ if text == "max" => Ok(0.0),
        Ok(factor) if factor >= 0.0 && f64::is_finite(factor) => Ok(factor),
        _ => Err("write a factor such as 10, or `max`".to_owned()),
    }
}

fn money(text: &str) -> Result<f64, String> {
    let sum = text.trim_start_matches('$').parse().ok().filter(|sum: &f64| *sum > 0.0);
    sum.filter(|sum| sum.is_finite()).ok_or_else(|| "a sum above 0, such as `2.50`".to_owned())
}

fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the id {rule}"))
}

fn tag(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    if (1..=40).contains(&text.chars().count()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("a tag is a word of at most 40 letters, digits, `.`, `_` and `-`".to_owned())
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
