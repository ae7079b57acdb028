//! The flags of `import` and `export`.

use std::path::PathBuf;

use clap::{Args, builder::PossibleValuesParser, builder::TypedValueParser as _};

use crate::core::import::BacklogFormat;

fn formats() -> impl clap::builder::TypedValueParser<Value = BacklogFormat> {
    PossibleValuesParser::new(BacklogFormat::ALL.map(BacklogFormat::name)).map(|name| {
        let found = BacklogFormat::ALL.into_iter().find(|format| format.name() == name);
        found.expect("each name is that of a format")
    })
}

/// `ralph import`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct ImportArgs {
    /// Files or folders with backlogs; `-` for standard input
    #[arg(value_name = "FILE|FOLDER|-", required_unless_present = "refresh")]
    pub sources: Vec<PathBuf>,
    /// The format [default: known by the content]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<BacklogFormat>,
    /// Show the tasks, their dependencies, and what is lost and why; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The story of tasks that have none
    #[arg(long, value_name = "STORY")]
    pub story: Option<String>,
    /// The milestone of tasks that have none
    #[arg(long, value_name = "MILESTONE")]
    pub milestone: Option<String>,
    /// A label to add to each task; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Make a task that contains others (an epic, a list above a list) wait for them
    #[arg(long)]
    pub nested: bool,
    /// Also take over what changed in the source since the last import, but nothing that was changed
    /// in the graph [default source: all earlier ones]
    #[arg(long)]
    pub refresh: bool,
    /// Print what came and what was lost as JSON
    #[arg(long)]
    pub json: bool,
}

/// `ralph export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub to: BacklogFormat,
    /// The file to write, or a folder of tickets; statuses are updated in existing files [default:
    /// standard output]
    #[arg(required_if_eq("json", "true"))]
    pub file: Option<PathBuf>,
    /// Write all tasks from scratch, without the text that they were imported from
    #[arg(long)]
    pub new: bool,
    /// Print what was written and what was lost as JSON
    #[arg(long)]
    pub json: bool,
}
