//! The flags of the commands that run agents or control a run, and of those that predict it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::{complete, setup::DEFAULT_PORT_TEXT};
use crate::core::{agents::promise::Pattern, duration, graph::task::TaskId};

/// The selection of tasks.
#[derive(Debug, Default, Args)]
pub struct Which {
    /// Only this task (may be repeated)
    #[arg(long = "task", value_name = "ID", value_parser = task_id, add = ArgValueCandidates::new(complete::ids))]
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

/// The limits of a run and of its attempts.
#[derive(Debug, Default, Args)]
pub struct LimitArgs {
    /// End an attempt after this long [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// End an agent this long after its final result or report; its work counts [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub exit_grace: Option<Duration>,
    /// Stop at this amount (USD); ends attempts that reach it
    #[arg(long, value_name = "USD", value_parser = money)]
    pub max_cost: Option<f64>,
    /// Stop at N tokens, without cached input; ends attempts that reach it
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// End the run and its attempts after this long
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_duration: Option<Duration>,
    /// A final result that matches this also promises completion
    #[arg(long, value_name = "REGEX", value_parser = Pattern::new)]
    pub done_pattern: Option<Pattern>,
    /// Wait at most this long for a provider [default: 6h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_wait: Option<Duration>,
}

/// The agent to use.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentArgs {
    /// Use this agent for all tasks: claude, codex, gemini, opencode, amp, copilot, qwen, pi,
    /// aider, or a program
    #[arg(id = "agent_name", long = "agent", value_name = "NAME", conflicts_with = "agent")]
    pub name: Option<String>,
    /// Any command that reads a prompt on standard input [default: from the settings]
    #[arg(id = "agent", last = true, value_name = "AGENT")]
    pub command: Vec<String>,
}

/// Where a run goes.
#[derive(Debug, Args)]
pub struct BackgroundArgs {
    /// Return once the run has started; it continues in the background
    #[arg(long)]
    pub detach: bool,
    /// Whether this process is the one in the background
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub detached: bool,
}

/// What a run does.
#[derive(Debug, Args)]
pub struct RunWorkArgs {
    /// Stop after this many attempts [default: open tasks × `max_attempts`, at least 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// Stop once N different tasks failed in a row; 0 for no limit [default: 5]
    #[arg(long, value_name = "N")]
    pub max_failures: Option<u32>,
    /// Run up to N attempts at a time, each in its own slot [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Work in the checkout instead of a slot, one attempt at a time
    #[arg(long, conflicts_with = "jobs")]
    pub in_place: bool,
    /// Land on this branch, made from HEAD if missing, instead of yours
    #[arg(long, value_name = "BRANCH", conflicts_with = "in_place")]
    pub onto: Option<String>,
    /// The selection of tasks.
    #[command(flatten)]
    pub which: Which,
    /// Make one attempt: exit 0 if it completed its task, 1 if not
    #[arg(long, conflicts_with = "max_iterations")]
    pub once: bool,
    /// End an attempt after this long without output, CPU time or changed files; `0s` for no limit
    /// [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub idle: Option<Duration>,
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Run all attempts there: local, sandbox, or one of `executors`
    #[arg(long = "on", value_name = "NAME")]
    pub run_on: Option<String>,
}

/// `ralph run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct RunArgs {
    /// What it does.
    #[command(flatten)]
    pub work: RunWorkArgs,
    /// Wait for tasks that are claimed elsewhere or need input, instead of stopping
    #[arg(long)]
    pub wait: bool,
    /// Also serve the page; on a terminal until Ctrl-C
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
        default_missing_value = DEFAULT_PORT_TEXT)]
    pub serve: Option<u16>,
    /// Start although the checks may not notice broken code
    #[arg(long)]
    pub unproved: bool,
    /// Give each agent a terminal, and show it in a tmux window
    #[arg(long, conflicts_with = "run_on")]
    pub tmux: bool,
    /// Where the run goes.
    #[command(flatten)]
    pub background: BackgroundArgs,
    /// Print only the result
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long)]
    pub verbose: bool,
}

/// `ralph prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// The task [default: the next one]
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: Option<String>,
    /// Claim it for yourself; `ralph run` skips it
    #[arg(long)]
    pub accept: bool,
    /// Show why this task is next, and which tasks follow
    #[arg(long, conflicts_with_all = ["accept", "id"])]
    pub why: bool,
    /// Print all template variables as JSON
    #[arg(long, conflicts_with = "why")]
    pub json: bool,
}

/// `ralph plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show every task, without a limit
    #[arg(long)]
    pub all: bool,
    /// The run.
    #[command(flatten)]
    pub work: RunWorkArgs,
}

/// `ralph dag-status`.
#[derive(Debug, Args)]
pub struct DagStatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Redraw it on every change, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// Show every task, without a limit
    #[arg(long)]
    pub all: bool,
    /// The selection of tasks.
    #[command(flatten)]
    pub which: Which,
}

/// `ralph graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The form of the picture
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = PictureFormat::Text)]
    pub format: PictureFormat,
    /// Also draw what is complete or cancelled, in text
    #[arg(long)]
    pub all: bool,
    /// The selection of tasks.
    #[command(flatten)]
    pub which: Which,
}

/// The form of a picture of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PictureFormat {
    /// A tree for the terminal
    Text,
    /// Graphviz
    Dot,
    /// Mermaid, which many sites draw in Markdown
    Mermaid,
    /// JSON, for programs
    Json,
}

pub(super) fn money(text: &str) -> Result<f64, String> {
    let sum = text.trim_start_matches('$').parse().ok().filter(|sum: &f64| *sum > 0.0);
    sum.filter(|sum| sum.is_finite())
        .ok_or_else(|| "expected an amount above 0, such as `2.50`".to_owned())
}

fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the id {rule}"))
}

/// `ralph loop`.
#[derive(Debug, Args)]
#[command(
    after_help = "The loop ends with exit code 0 when the file `.ralph/loops/NAME/DONE` exists, \
    when the agent runs `ralph task-complete NAME`, and when its final result contains the promise \
    or matches the done pattern; with 1 after consecutive failures, 2 at a limit, 4 when it needs \
    a person. In all other cases the next iteration starts."
)]
#[command(override_usage = "ralph loop [OPTIONS] --prompt-file <FILE>\n                  \
                            --max-iterations <N> [-- <AGENT>...]")]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct LoopArgs {
    /// Pass this file to the agent; read again for each iteration
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompt_file: PathBuf,
    /// Stop after this many iterations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: u32,
    /// Name the loop; loops of different names can run at the same time
    #[arg(long, value_name = "NAME", default_value = "loop", value_parser = name)]
    pub name: TaskId,
    /// Restart an agent after this long (seconds, or `15m`) without output, CPU time or changed
    /// files; `0` for no limit [default: 15m]
    #[arg(long, visible_alias = "idle", value_name = "TIME", value_parser = duration::seconds_or)]
    pub inactivity_timeout: Option<Duration>,
    /// Wait this long between iterations: seconds, or `15m` [default: 1, and longer after failures]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds_or)]
    pub restart_delay: Option<Duration>,
    /// Stop after restarting the agent this many times
    #[arg(long, value_name = "N")]
    pub max_restarts: Option<u32>,
    /// Stop after N failures in a row; `0` for no limit
    #[arg(long, value_name = "N", default_value_t = crate::core::select::MAX_FAILURES)]
    pub max_failures: u32,
    /// The limits that `run` has too.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// Work in a slot; the work lands when the loop is done and the verify commands pass
    #[arg(long)]
    pub isolated: bool,
    /// Run iterations there: local, sandbox, or with `--isolated` one of `executors`
    #[arg(long = "on", value_name = "NAME", conflicts_with = "tmux")]
    pub run_on: Option<String>,
    /// Give each agent a terminal, and show it in a tmux window
    #[arg(long)]
    pub tmux: bool,
    /// Where the loop goes.
    #[command(flatten)]
    pub background: BackgroundArgs,
    /// Print only the result
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long)]
    pub verbose: bool,
}

/// The loop that a command acts on.
#[derive(Debug, Default, Args)]
pub struct Named {
    /// Act on this loop
    #[arg(
        id = "loop",
        long = "name",
        value_name = "NAME",
        env = "RALPH_LOOP",
        hide_env_values = true,
        value_parser = name
    )]
    pub name: Option<TaskId>,
}

/// The loop that a command on a task acts on. Inside a loop, its name as task id is enough.
#[derive(Debug, Default, Args)]
pub struct Called {
    /// Act on this loop instead of a task
    #[arg(
        id = "loop",
        long = "name",
        value_name = "NAME",
        value_parser = name
    )]
    pub name: Option<TaskId>,
}

/// Parses the name of a loop, which follows the rules of a task id.
fn name(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the name {rule}"))
}

/// `ralph resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Retry a rate-limited provider immediately
    #[arg(long)]
    pub now: bool,
    /// Only lift the pause; continue no ended run
    #[arg(long, conflicts_with_all = ["now", "max_iterations"])]
    pub lift: bool,
    /// Stop after this many attempts, counted from the start of that run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// New limits for the run that continues.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Where the run goes that continues.
    #[command(flatten)]
    pub background: BackgroundArgs,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
}

/// `ralph land`.
#[derive(Debug, Args)]
pub struct LandArgs {}

/// `ralph stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Also end the running attempt, as Ctrl-C does; it does not count
    #[arg(long)]
    pub now: bool,
    /// The loop.
    #[command(flatten)]
    pub named: Named,
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

/// What happens to the work in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkStep {
    /// Send the work
    Send,
    /// Fetch what became of it
    Fetch,
}
