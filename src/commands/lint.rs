//! Lint with the facts of this machine: for `ralph check --strict`, and counted by `ralph run`.

use std::path::Path;

use crate::{
    adapters::process,
    core::graph::{
        TaskGraph,
        lint::{LintFacts, LintFinding, lint},
    },
    project::{config::Select, workspace::Workspace},
};

/// Returns the findings about the graph of a repository.
pub(super) fn of_workspace(workspace: &Workspace, graph: &TaskGraph) -> Vec<LintFinding> {
    let config = &workspace.config;
    let inherits = config.select == Select::Inherit;
    in_folder(workspace.root(), graph, &config.verify.0, config.jobs, inherits)
}

/// Returns the findings about a graph without a repository, whose paths start in this folder.
pub(super) fn of_file(folder: &Path, graph: &TaskGraph) -> Vec<LintFinding> {
    in_folder(folder, graph, &[], 1, false)
}

fn in_folder(
    folder: &Path,
    graph: &TaskGraph,
    verify: &[String],
    jobs: usize,
    inherits: bool,
) -> Vec<LintFinding> {
    let has_program = |program: &str| process::resolve(program, folder).is_ok();
    let has_path = |path: &str| folder.join(path).symlink_metadata().is_ok();
    let facts =
        LintFacts { verify, has_program: &has_program, has_path: &has_path, jobs, inherits };
    lint(graph, &facts)
}
