//! The flags of `init`, `template` and `merge-driver`.

use std::path::PathBuf;

use clap::Args;

use crate::core::prompt::template::Template;

/// `ralph init`.
#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct InitArgs {
    /// Accept all defaults without asking, as without a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Write only the files of this project, no user settings
    #[arg(long)]
    pub project: bool,
    /// Write only the user settings, `~/.ralph/config.yaml`
    #[arg(long, conflicts_with_all = ["project", "agents_md", "merge_driver"])]
    pub global: bool,
    /// Overwrite the settings, with a backup in `config.yaml.bak`
    #[arg(long)]
    pub reset: bool,
    /// Overwrite existing files, with `.bak` backups of those that people edit
    #[arg(long)]
    pub force: bool,
    /// Write only `PROMPT.md`, for a loop without a graph
    #[arg(long, conflicts_with_all = ["project", "global", "reset", "agents_md", "merge_driver", "dry_run"])]
    pub prompt: bool,
    /// Also append a section about `ralph` to AGENTS.md or CLAUDE.md
    #[arg(long)]
    pub agents_md: bool,
    /// Also install the merge driver, as `ralph merge-driver --install` does
    #[arg(long)]
    pub merge_driver: bool,
    /// Show what `--yes` would write; write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `ralph template`.
#[derive(Debug, Args)]
pub struct PrintTemplateArgs {
    /// The template
    #[arg(value_enum, value_name = "NAME", default_value_t = Templates::Task)]
    pub name: Templates,
}

/// `ralph merge-driver`.
#[derive(Debug, Args)]
#[command(override_usage = "ralph merge-driver BASE OURS THEIRS [PATH]\n       \
    ralph merge-driver --install | --uninstall")]
pub struct MergeDriverArgs {
    /// The common ancestor; `%O` in git's configuration
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub base: Option<PathBuf>,
    /// Our version, overwritten with the result; `%A` in git's configuration
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub ours: Option<PathBuf>,
    /// Their version; `%B` in git's configuration
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub theirs: Option<PathBuf>,
    /// The path for messages; `%P` in git's configuration
    pub path: Option<PathBuf>,
    /// Install the driver for the graph in this clone, and union merge for the learnings
    #[arg(long, conflicts_with_all = ["base", "uninstall"])]
    pub install: bool,
    /// Remove the installed driver
    #[arg(long, conflicts_with = "base")]
    pub uninstall: bool,
}

/// The names of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Templates {
    /// `prompts/task.md`, the prompt for a task
    Task,
    /// `prompts/draft.md`, the prompt of `ralph draft`
    Draft,
    /// `PROMPT.md`, for a loop without a graph
    Prompt,
    /// `task-graph.yaml` with two examples
    Graph,
    /// `.ralph/config.yaml`
    Config,
    /// The paragraph for AGENTS.md or CLAUDE.md
    Agents,
    /// The recipes for a justfile
    Just,
}

impl From<Templates> for Template {
    fn from(name: Templates) -> Template {
        match name {
            Templates::Task => Template::Task,
            Templates::Draft => Template::Draft,
            Templates::Prompt => Template::Prompt,
            Templates::Graph => Template::Graph,
            Templates::Config => Template::Config,
            Templates::Agents => Template::Agents,
            Templates::Just => Template::Just,
        }
    }
}
