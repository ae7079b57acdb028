//! What a person should know before a run, since it would spoil it.

use std::fmt::Write as _;

use anyhow::Result;

use super::check;
use crate::{
    core::{executor::shell_word, select::MAX_ITERATIONS},
    project::{attempt, executors, graph_file::GraphFile, placement, workspace::Workspace},
    runner::{self, RunOptions},
    view::lines::{counted, first_paths, ids},
};

/// What a person should know before a run starts, with what can be done about it.
pub(super) fn notes(
    workspace: &Workspace,
    file: &GraphFile,
    run: &RunOptions,
    remarks: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let odd = file.warnings().len();
    if odd > 0 {
        let odd = counted(odd, "warning");
        notes.push(format!("{odd} in `{}`; `ralph check` shows them", file.name()));
    }
    notes.extend(workspace.config.max_iterations.and_then(many));
    if let Some(gaps) = sandbox_warning(workspace, file, run) {
        notes.push(format!("warning: {gaps}; `ralph doctor` lists all"));
    }
    if let Err(error) = workspace.repo.commits().check_committer() {
        let more = "an agent that has no name of its own cannot commit";
        notes.push(format!("warning: {error:#}; {more}"));
    }
    // Another branch than that of the checkout gets such a task with its work.
    let unknown = match &workspace.config.onto {
        Some(_) => Vec::new(),
        None => workspace.uncommitted_tasks(file.graph()).unwrap_or_default(),
    };
    if !unknown.is_empty() {
        let (count, ids) = (counted(unknown.len(), "task"), ids(&unknown));
        notes.push(format!(
            "warning: {count} not committed, so no commit will say that they are complete: {ids}; \
             commit `{}`",
            file.name()
        ));
    }
    let remarks = if remarks { check::remarks(workspace, file.graph()).len() } else { 0 };
    if remarks > 0 {
        let remarks = counted(remarks, "remark");
        notes.push(format!("{remarks} about the tasks; `ralph check --strict` shows them"));
    }
    if workspace.config.is_isolated() {
        notes.extend(uncommitted(workspace));
    }
    let branch = workspace.config.onto.as_ref();
    notes.extend(branch.and_then(|branch| other_branch(workspace, branch).ok()?));
    notes
}

/// What a sandbox of the run does not hold.
fn sandbox_warning(workspace: &Workspace, file: &GraphFile, run: &RunOptions) -> Option<String> {
    let policy = run.policy(workspace);
    let open = runner::open(&policy, file.graph().tasks());
    // The runner reports what is wrong with them.
    let needed = executors::needed(workspace, open.into_iter(), run.run_on.as_deref()).ok()?;
    needed.iter().find_map(|executor| placement::sandbox_support(executor)?.warning())
}

/// That work does not land on the branch of the checkout.
fn other_branch(workspace: &Workspace, branch: &str) -> Result<Option<String>> {
    let repo = &workspace.repo;
    let head = repo.head()?;
    if head.branch.as_deref() == Some(branch) {
        return Ok(None);
    }
    let mut text =
        format!("lands on `{branch}`; your branch, checkout and graph file stay as they are");
    if let (Some(head), Some(tip)) = (head.commit, repo.landings().tip(branch)?)
        && !repo.is_ancestor(&head, &tip.commit)?
    {
        let cure = if repo.is_ancestor(&tip.commit, &head)? {
            format!("; `git branch -f {} HEAD` brings it forward", shell_word(branch))
        } else {
            String::new()
        };
        let _ =
            write!(text, ". Attempts start from its newest commit, without those of HEAD{cure}");
    }
    Ok(Some(text))
}

/// That attempts do not see what is not committed, and that it can hold back what lands.
pub(super) fn uncommitted(workspace: &Workspace) -> Option<String> {
    let (paths, more) = attempt::first_changed(workspace).unwrap_or_default();
    (!paths.is_empty()).then(|| {
        let paths = first_paths(&paths, more);
        format!(
            "not committed, so attempts do not have it: {paths}; commit or stash it, or all that lands \
             waits for your checkout once work changes it"
        )
    })
}

/// A warning of a high iteration limit.
pub(super) fn many(max_iterations: u32) -> Option<String> {
    (max_iterations > MAX_ITERATIONS).then(|| {
        format!(
            "warning: up to {max_iterations} iterations (over {MAX_ITERATIONS}) may consume \
             significant resources"
        )
    })
}
