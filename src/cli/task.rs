//! The flags of the commands on one task.

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{Called, complete};

/// `ralph task-reset`.
#[derive(Debug, Args)]
pub struct TaskResetArgs {
    /// The tasks
    #[arg(required = true, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub ids: Vec<String>,
    /// The loop.
    #[command(flatten)]
    pub called: Called,
}

/// `ralph task-complete`.
#[derive(Debug, Args)]
pub struct TaskCompleteArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
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
pub struct NoteArgs {
    /// The note; `-` reads it from standard input
    pub text: String,
    /// Add the note to the learnings file for every agent, not only for dependent tasks
    #[arg(long)]
    pub for_all: bool,
    /// For people: give the note to the next attempts at this task
    #[arg(long, value_name = "ID", conflicts_with = "for_all",
        add = ArgValueCandidates::new(complete::ids))]
    pub task: Option<String>,
    /// The heading for the note: one word
    #[arg(long, value_name = "TAG", requires = "for_all", value_parser = tag)]
    pub tag: Option<String>,
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
