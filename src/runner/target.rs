//! The branch that the work of a run lands on, when a person renames it, and when it is not the one of
//! the checkout.

use anyhow::Result;

use super::{Runner, checkout_graph::commit_statuses};
use crate::{
    core::{
        event::LandingEvent,
        graph::task::{Status, Task},
        history::History,
    },
    project::workspace::{Workspace, checkout_graph},
};

/// Lets work land on a branch under its new name if a person has renamed it. Returns whether that is
/// so.
pub(super) fn follow_rename(runner: &mut Runner, from: &str) -> Result<bool> {
    let renamed = runner.core.cx.workspace.repo.landings().renamed(from)?;
    let Some(to) = renamed.filter(|_| !runner.core.run.landing().is_trying()) else {
        return Ok(false);
    };
    runner.core.run.rename_branch(from, &to);
    runner.attempts.rename_branch(&runner.core.cx, from, &to)?;
    let home = &mut runner.core.cx.home;
    home.iter_mut().filter(|home| *home == from).for_each(|home| to.clone_into(home));
    if runner.core.cx.target.as_deref() == Some(from) {
        let onto = &mut runner.core.cx.workspace.config.onto;
        *onto = onto.take().map(|_| to.clone());
        runner.core.cx.target = Some(to.clone());
        let checkout = runner.core.graph.checkout.iter_mut();
        checkout.for_each(|checkout| to.clone_into(&mut checkout.branch));
    }
    runner.core.emit(None, LandingEvent::BranchRenamed { from: from.to_owned(), to })?;
    Ok(true)
}

/// Reopens on a branch the tasks that a person has reset or answered: on a branch other than the
/// checkout's, whose file may never have had them as complete or parked. On the checkout's only
/// completed ones, since a landing cannot complete them twice.
///
/// # Errors
/// The error of `git`.
pub fn open_reset(workspace: &Workspace, history: &History, branch: &str) -> Result<()> {
    let is_own = workspace.config.onto.as_deref() != Some(branch);
    let Some(tip) = workspace.repo.landings().tip(branch)? else { return Ok(()) };
    let Some(graph) = workspace.committed_graph(&tip.commit)? else { return Ok(()) };
    let checkout = checkout_graph(workspace)?;
    let is_reset = |task: &&Task| {
        let is_held = match task.status {
            Status::Complete => true,
            Status::InProgress | Status::NeedsInput => !is_own,
            Status::Pending | Status::Blocked | Status::Cancelled => false,
        };
        let (past, there) = (history.of(&task.id), checkout.graph().status_of(&task.id));
        let has_failed = past.counted > 0 || past.stuck || past.asks;
        let is_answered = task.status == Status::NeedsInput && !past.asks;
        is_held && there == Some(Status::Pending) && (past.was_reset && !has_failed || is_answered)
    };
    let reset = graph.graph().tasks().iter().filter(is_reset);
    let reset: Vec<_> = reset.map(|task| (task.id.clone(), Status::Pending)).collect();
    let names: Vec<&str> = reset.iter().map(|(id, _)| id.as_str()).collect();
    let title = format!("Open again: {}", names.join(", "));
    commit_statuses(workspace, branch, &reset, &title)
}
