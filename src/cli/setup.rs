//! The flags of what sets a project up.

use std::path::PathBuf;

use clap::Args;

use crate::core::prompt::template::Template;

/// `ralph init`.
#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "these are flags")]
pub struct InitArgs {
    /// Ask nothing and take every default, as without a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Write only this project's files, and do not ask about settings for all projects
    #[arg(long)]
    pub project: bool,
    /// Write only your own settings for all projects, `~/.ralph/config.yaml`
    #[arg(long, conflicts_with_all = ["project", "agents_md", "merge_driver"])]
    pub global: bool,
    /// Write the settings anew, and keep the old file beside them as `config.yaml.bak`
    #[arg(long)]
    pub reset: bool,
    /// Overwrite files that are there; of those that people write, the old one is kept as `.bak`
    #[arg(long)]
    pub force: bool,
    /// Write only `PROMPT.md`, for a loop without a graph
    #[arg(long, conflicts_with_all = ["project", "global", "reset", "agents_md", "merge_driver", "dry_run"])]
    pub prompt: bool,
    /// Also tell agents of `ralph` in AGENTS.md or CLAUDE.md, behind what is in there
    #[arg(long)]
    pub agents_md: bool,
    /// Also have git merge the graph by task in this clone, as `ralph merge-driver --install` does
    #[arg(long)]
    pub merge_driver: bool,
    /// Write nothing: show what --yes would write
    #[arg(long)]
    pub dry_run: bool,
}

/// `ralph template`.
#[derive(Debug, Args)]
pub struct PrintTemplateArgs {
    /// Which one
    #[arg(value_enum, value_name = "NAME", default_value_t = Templates::Task)]
    pub name: Templates,
}

/// `ralph merge-driver`.
#[derive(Debug, Args)]
#[command(override_usage = "ralph merge-driver BASE OURS THEIRS [PATH]\n       \
    ralph merge-driver --install | --uninstall")]
pub struct MergeDriverArgs {
    /// What both sides began with; `%O` to git
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub base: Option<PathBuf>,
    /// Our side, which becomes the result; `%A` to git
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub ours: Option<PathBuf>,
    /// Their side; `%B` to git
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub theirs: Option<PathBuf>,
    /// The path to speak of; `%P` to git
    pub path: Option<PathBuf>,
    /// Have git merge the graph file so in this clone, and keep both sides' lines of learnings
    #[arg(long, conflicts_with_all = ["base", "uninstall"])]
    pub install: bool,
    /// Have git merge them as before
    #[arg(long, conflicts_with = "base")]
    pub uninstall: bool,
}

/// The names of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Templates {
    /// `prompts/task.md`: what an agent is told of a task
    Task,
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
            Templates::Prompt => Template::Prompt,
            Templates::Graph => Template::Graph,
            Templates::Config => Template::Config,
            Templates::Agents => Template::Agents,
            Templates::Just => Template::Just,
        }
    }
}
