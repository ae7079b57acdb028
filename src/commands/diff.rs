//! `ralph diff`: the changes of a task, or a run, on the branch, in the form of `git diff`.

use anyhow::{Context, Result};
use chrono::Utc;

use super::{Invocation, attempts, status};
use crate::{
    adapters::git::ChangeStyle,
    cli::DiffArgs,
    core::{
        commit_id::CommitId,
        exit::{Exit, fail},
        history::attempt_log::{AttemptLog, LogDetail},
    },
    project::{
        landed_work::LandedChange,
        workspace::{Workspace, landing_branch},
    },
};

/// Shows the changes of a task as they landed, without its mark of completion; or all that landed
/// in a run.
///
/// # Errors
/// Nothing of it has landed; no such task or run; errors of git.
pub fn run(invocation: &Invocation, options: &DiffArgs) -> Result<Exit> {
    let workspace = invocation.reviewed()?;
    let log = workspace.attempt_log(LogDetail::Results)?;
    let tip = tip(&workspace)?;
    let changes = match &options.id {
        Some(name) => of_task(&workspace, &log, name, &tip)?,
        None => of_run(invocation, &workspace, &log, options.run, &tip)?,
    };
    let style = if options.stat { ChangeStyle::Sizes } else { ChangeStyle::Lines };
    let own: Vec<String> = workspace.graph_in_git().into_iter().collect();
    workspace.repo.landings().show_changes(&changes, style, &own)?;
    Ok(Exit::Success)
}

/// The commit with all that landed.
pub(super) fn tip(workspace: &Workspace) -> Result<CommitId> {
    let tip = match landing_branch(workspace)? {
        Some(branch) => workspace.repo.landings().tip(&branch)?.map(|tip| tip.commit),
        None => workspace.repo.head()?.commit,
    };
    tip.context("the branch has no commit yet")
}

/// Landed work of a task, or of one attempt at it; oldest first.
fn of_task(
    workspace: &Workspace,
    log: &AttemptLog,
    name: &str,
    tip: &CommitId,
) -> Result<Vec<(CommitId, CommitId)>> {
    let found = attempts::find(workspace, log, name)?;
    let is_one = found.task_id.as_str() != name;
    let entries = log.of(Some(&found.task_id));
    let entries = entries.filter(|entry| !is_one || entry.attempt == found.attempt);
    let changes = LandedChange::all(&workspace.repo, entries.clone(), tip)?;
    if !changes.is_empty() {
        return Ok(changes.iter().map(LandedChange::ends).collect());
    }
    let why = if entries.clone().any(|entry| entry.is_taken_back) {
        "its work was taken back".to_owned()
    } else {
        format!("`ralph show {name}` tells what it left")
    };
    fail(Exit::Error, format!("nothing of `{name}` has landed: {why}"))
}

/// Work landed in the reported runs, from the commit below the first of it to the last one.
fn of_run(
    invocation: &Invocation,
    workspace: &Workspace,
    log: &AttemptLog,
    number: Option<u32>,
    tip: &CommitId,
) -> Result<Vec<(CommitId, CommitId)>> {
    let now = Utc::now();
    let report = status::read_for_person(invocation, number, now)?;
    let mut entries: Vec<_> = log.of(None).filter(|entry| report.has(entry)).collect();
    entries.sort_by_key(|entry| entry.ended.as_ref().map(|(at, _)| *at));
    let changes = LandedChange::all(&workspace.repo, entries.into_iter(), tip)?;
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
        return fail(Exit::Error, "nothing has landed in this run; `ralph report` tells of it");
    };
    Ok(vec![(first.before.clone(), last.last.clone())])
}
