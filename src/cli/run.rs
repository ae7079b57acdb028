//! The flags of what chooses and works: `run`, `prompt`, `dag-status`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::complete;

use crate::core::{agents::promise::Pattern, duration, graph::task::TaskId};

/// Which tasks are meant.
#[derive(Debug, Default, Args)]
pub struct Which {
    /// Only this task (may be repeated)
    #[arg(long = "task", value_name = "ID", value_parser = task_id, add = ArgValueCandidates::new(complete::ids))]
    pub tasks: Vec<TaskId>,
    /// Only tasks of this story (may be repeated)
    #[arg(long = "story", value_name = "STORY", add = ArgValueCandidates::new(complete::stories))]
    pub stories: Vec<String>,
    /// Only tasks of this milestone (may be repeated)
    #[arg(long = "milestone", value_name = "MILESTONE", add = ArgValueCandidates::new(complete::milestones))]
    pub milestones: Vec<String>,
    /// Only tasks with this tag (may be repeated)
    #[arg(long = "tag", value_name = "TAG", add = ArgValueCandidates::new(complete::tags))]
    pub tags: Vec<String>,
}

/// What bounds a run, and each of its attempts.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// End an attempt after this long [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// End an agent that has given its final result and does not exit for this long; its work
    /// counts [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub exit_grace: Option<Duration>,
    /// Stop when the attempts of this run have cost so many US dollars
    #[arg(long, value_name = "USD", value_parser = money)]
    pub max_cost: Option<f64>,
    /// Stop when they have used so many tokens, those read from a cache left out
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Start nothing after this long
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_duration: Option<Duration>,
    /// Also take a final result that this regular expression matches for a promise that all is done
    #[arg(long, value_name = "REGEX", value_parser = Pattern::new)]
    pub done_pattern: Option<Pattern>,
    /// Wait this long for a provider that gives no service for now [default: 6h]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_wait: Option<Duration>,
}

/// `ralph run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct RunArgs {
    /// Stop after this many attempts [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// Make this many attempts at the same time, each in a git work tree of its own [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Have each attempt in a work tree of its own also where there is one at a time
    #[arg(long)]
    pub worktree: bool,
    /// Which tasks.
    #[command(flatten)]
    pub which: Which,
    /// Make one attempt: exit 0 if it completed its task, 1 if not
    #[arg(long, conflicts_with = "max_iterations")]
    pub once: bool,
    /// End an attempt that did nothing for this long: no output, no processor time, no changed
    /// file; `0s` for no such limit [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub idle: Option<Duration>,
    /// What bounds it.
    #[command(flatten)]
    pub limits: LimitArgs,
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
    /// Give each agent a terminal of its own, a window of tmux, to which `ralph attach` goes. Only
    /// what changes on its screen, or a changed file, is then a sign of life for `--idle`
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
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `ralph __pane`.
#[derive(Debug, Args)]
pub struct PaneArgs {
    /// A folder to make for it
    pub folder: PathBuf,
    /// What the window is called
    #[arg(long)]
    pub title: String,
    /// The prompt
    #[arg(long)]
    pub prompt: PathBuf,
    /// The record of the attempt
    #[arg(long)]
    pub record: PathBuf,
    /// How often to look at the screen, if at all
    #[arg(long, value_parser = duration::parse)]
    pub look: Option<Duration>,
    /// The agent
    #[arg(last = true, required = true)]
    pub argv: Vec<String>,
}

/// `ralph prompt`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct PromptArgs {
    /// The task; without it, the one that is next
    #[arg(add = ArgValueCandidates::new(complete::ids))]
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

/// `ralph plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// With so many at once, such as `2,4,8` (may be repeated) [default: 1, 2, 4, … until more does
    /// not help]
    #[arg(long, value_name = "N", value_parser = jobs, value_delimiter = ',')]
    pub jobs: Vec<usize>,
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

/// `ralph dag-status`.
#[derive(Debug, Args)]
pub struct DagStatusArgs {
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

fn money(text: &str) -> Result<f64, String> {
    let sum = text.trim_start_matches('$').parse().ok().filter(|sum: &f64| *sum > 0.0);
    sum.filter(|sum| sum.is_finite()).ok_or_else(|| "a sum above 0, such as `2.50`".to_owned())
}

fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the id {rule}"))
}

fn jobs(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1000).contains(count));
    count.ok_or_else(|| "a number from 1 to 1000".to_owned())
}
