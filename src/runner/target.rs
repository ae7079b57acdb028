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

/// Opens the tasks again on a branch that is not the one of the checkout which a person has reset or
/// answered: the
/// file of the checkout may never have had them as complete or parked.
///
/// # Errors
/// The error of `git`.
pub fn open_reset(workspace: &Workspace, history: &History) -> Result<()> {
    let Some(branch) = &workspace.config.onto else { return Ok(()) };
    let (graph, checkout) = (workspace.graph()?, checkout_graph(workspace)?);
    let is_reset = |task: &&Task| {
        let is_held = match task.status {
            Status::Complete | Status::InProgress | Status::NeedsInput => true,
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
