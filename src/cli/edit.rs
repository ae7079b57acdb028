//! The flags of the commands that change the graph or one task of it.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::{
    complete,
    run::{AgentArgs, Called},
};

/// The fields of a task.
#[derive(Debug, Default, Args)]
pub struct FieldArgs {
    /// Depend on these tasks, separated by commas
    #[arg(long, alias = "depends-on", value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub after: Vec<String>,
    /// Make these tasks depend on this one
    #[arg(long, value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub before: Vec<String>,
    /// A whole number, `P0` to `P4`, or critical, high, medium, low
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// A command that must succeed before the task is complete; may be repeated
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    pub verify: Vec<String>,
    /// Its story
    #[arg(long, value_name = "STORY")]
    pub story: Option<String>,
    /// Its milestone
    #[arg(long, value_name = "NAME")]
    pub milestone: Option<String>,
    /// Labels, separated by commas; may be repeated
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// What must be true when it is complete: a text, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub description: Option<String>,
    /// Set any field, as in `--set timeout=30m`; lists, numbers and booleans as JSON
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
}

/// `ralph task-add`.
#[derive(Debug, Args)]
#[command(
    after_help = "The task is added at the end of the graph file, in the style of the other \
    tasks. A run in progress picks it up."
)]
pub struct TaskAddArgs {
    /// One line that says what to do
    pub title: String,
    /// The id [default: made from the title]
    #[arg(long)]
    pub id: Option<String>,
    /// The fields.
    #[command(flatten)]
    pub fields: FieldArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph task-reset`.
#[derive(Debug, Args)]
pub struct TaskResetArgs {
    /// The tasks
    #[arg(required = true, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub ids: Vec<String>,
    /// What their next attempts are told; `-` reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,
    /// The loop.
    #[command(flatten)]
    pub called: Called,
}

/// `ralph task-complete`.
#[derive(Debug, Args)]
pub struct TaskCompleteArgs {
    /// The task [default: that of the attempt]
    #[arg(add = ArgValueCandidates::new(complete::ids), env = "RALPH_TASK_ID", hide_env = true)]
    pub id: String,
    /// The loop.
    #[command(flatten)]
    pub called: Called,
}

/// `ralph task-block`.
#[derive(Debug, Args)]
pub struct TaskBlockArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
    /// The reason, kept in the journal
    #[arg(long)]
    pub reason: String,
}

/// `ralph ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// The question; `-` reads it from standard input
    pub text: String,
}

/// `ralph answer`.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
    /// The answer; `-` reads it from standard input [default: show the question]
    pub text: Option<String>,
    /// The loop.
    #[command(flatten)]
    pub called: Called,
}

/// `ralph note`.
#[derive(Debug, Args)]
#[command(
    override_usage = "ralph note [OPTIONS] [TASK] <TEXT>",
    after_help = "An agent leaves a note without a task: for the tasks that depend on its own."
)]
pub struct NoteArgs {
    /// The task whose next attempts get the note
    #[arg(id = "task", value_name = "TASK", required_unless_present = "text",
        add = ArgValueCandidates::new(complete::ids))]
    first: Option<String>,
    /// The note; `-` reads it from standard input
    #[arg(id = "text", value_name = "TEXT")]
    second: Option<String>,
    /// The same as the task before the text
    #[arg(id = "named_task", long = "task", value_name = "ID", hide = true,
        conflicts_with_all = ["text", "for_all"])]
    named: Option<String>,
    /// Note it in the learnings, for every agent and not only for dependent tasks
    #[arg(long, conflicts_with = "text")]
    pub for_all: bool,
    /// The heading for the note: one word
    #[arg(long, value_name = "TAG", requires = "for_all", value_parser = tag)]
    pub tag: Option<String>,
}

impl NoteArgs {
    /// The task, if one is named.
    pub fn task(&self) -> Option<&str> {
        self.named.as_deref().or(self.second.as_ref().and(self.first.as_deref()))
    }

    /// The note.
    pub fn text(&self) -> &str {
        self.second.as_deref().or(self.first.as_deref()).unwrap_or_default()
    }
}

/// `ralph verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
}

fn tag(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    if (1..=40).contains(&text.chars().count()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("a tag is a word of at most 40 letters, digits, `.`, `_` and `-`".to_owned())
}

/// `ralph draft`.
#[derive(Debug, Default, Args)]
pub struct DraftArgs {
    /// What is wanted: a file, `-` for standard input, or a sentence
    #[arg(value_hint = ValueHint::FilePath)]
    pub spec: String,
    /// Take the tasks over without asking
    #[arg(short, long)]
    pub yes: bool,
    /// The agent.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// `ralph import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files or folders with backlogs; `-` for standard input
    #[arg(value_name = "FILE|FOLDER|-", required = true)]
    pub sources: Vec<PathBuf>,
    /// Show the tasks and what is lost; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A label to add to each task; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
