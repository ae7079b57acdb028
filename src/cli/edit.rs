//! The flags of the commands that change the graph file.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::complete;

/// The fields of a task.
#[derive(Debug, Default, Args)]
pub struct FieldArgs {
    /// Depend on these tasks; separate several by commas
    #[arg(long, alias = "depends-on", value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub after: Vec<String>,
    /// Make these tasks depend on this one
    #[arg(long, value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub before: Vec<String>,
    /// The urgency: a whole number, `P0` to `P4`, or critical, high, medium, low
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// A command that must succeed before the task is complete; repeat it for several
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    pub verify: Vec<String>,
    /// The story that the task belongs to
    #[arg(long, value_name = "STORY", add = ArgValueCandidates::new(complete::stories))]
    pub story: Option<String>,
    /// The milestone that the task belongs to
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::milestones))]
    pub milestone: Option<String>,
    /// A label; repeat it, or separate several by commas
    #[arg(long = "tag", value_name = "TAG", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::tags))]
    pub tags: Vec<String>,
    /// Read the description from this file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub description: Option<PathBuf>,
    /// Set any field, as in `--set timeout=30m`; a JSON list, number or boolean is taken as such
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
}

/// `ralph task-add`.
#[derive(Debug, Args)]
#[command(
    after_help = "The task is added at the end of the graph file, in the style of the other \
    tasks; `ralph task-move` moves it, and `ralph undo` takes it back. A run in progress picks it up."
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
    /// Print the task as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph task-edit`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a flag that changes a field, the task's part of the graph file is \
    opened in $VISUAL, $EDITOR or vi. The graph is checked before the text is kept. `--verify`, \
    `--tag` and `--description` replace what is there; `--after` and `--before` add dependencies."
)]
pub struct TaskEditArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
    /// The title
    #[arg(long)]
    pub title: Option<String>,
    /// The fields.
    #[command(flatten)]
    pub fields: FieldArgs,
    /// No longer depend on these tasks
    #[arg(long, value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub not_after: Vec<String>,
    /// Make these tasks no longer depend on this one
    #[arg(long, value_name = "ID", value_delimiter = ',',
        add = ArgValueCandidates::new(complete::ids))]
    pub not_before: Vec<String>,
    /// Remove a field
    #[arg(long, value_name = "FIELD")]
    pub unset: Vec<String>,
    /// Print the task as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph task-show`.
#[derive(Debug, Args)]
pub struct TaskShowArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph task-move`.
#[derive(Debug, Args)]
#[command(
    after_help = "The place in the file decides between tasks of the same priority and weight. \
    Dependencies are not changed: see `ralph task-edit --after` and `--before`."
)]
#[command(override_usage = "ralph task-move <ID> --first|--last\n       \
                            ralph task-move <ID> --before|--after <ID>")]
pub struct TaskMoveArgs {
    /// The task
    #[arg(add = ArgValueCandidates::new(complete::ids))]
    pub id: String,
    /// The new place.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Print the task as JSON
    #[arg(long)]
    pub json: bool,
}

/// A place in the graph file.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct PlaceArgs {
    /// Move it directly before this task
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub before: Option<String>,
    /// Move it directly after this task
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub after: Option<String>,
    /// Move it before all other tasks
    #[arg(long)]
    pub first: bool,
    /// Move it after all other tasks
    #[arg(long)]
    pub last: bool,
}

/// `ralph task-remove`.
#[derive(Debug, Args)]
pub struct TaskRemoveArgs {
    /// The tasks
    #[arg(required = true, value_name = "ID", add = ArgValueCandidates::new(complete::ids))]
    pub ids: Vec<String>,
    /// Remove the dependencies of other tasks on them too
    #[arg(long, conflicts_with = "rewire")]
    pub detach: bool,
    /// Make other tasks depend on what the removed tasks depend on
    #[arg(long)]
    pub rewire: bool,
}

/// `ralph undo`.
#[derive(Debug, Args)]
#[command(
    after_help = "The newest 20 changes are kept. Later changes of the file stay. A change is not \
    taken back if the file changed in the same place since, if a task depends on it by now, or if an \
    attempt has worked on the task since."
)]
pub struct UndoArgs {
    /// The number of the change, as `--list` shows it [default: the newest]
    pub number: Option<u32>,
    /// List the changes that can be taken back
    #[arg(long, conflicts_with = "number")]
    pub list: bool,
    /// Print JSON
    #[arg(long, requires = "list")]
    pub json: bool,
}
