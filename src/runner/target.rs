//! The branch that the work of a run lands on, when a person renames it, and when it is not the one of
//! the checkout.

use anyhow::Result;

use super::{Runner, checkout_graph, core::RunCore};
use crate::core::{
    event::LandingEvent,
    graph::task::{Status, Task},
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

/// Opens the tasks again on a branch that is not the one of the checkout which a person has reset: the
/// file of the checkout may never have had them as complete.
pub(super) fn open_reset(core: &RunCore) -> Result<()> {
    let (workspace, graph) = (&core.cx.workspace, &core.graph);
    let Some(branch) = core.cx.target.as_ref().filter(|_| workspace.config.onto.is_some()) else {
        return Ok(());
    };
    let Some(checkout) = &graph.checkout else { return Ok(()) };
    let is_reset = |task: &&Task| {
        let there = checkout.file.graph().status_of(&task.id);
        let is_open = (task.status, there) == (Status::Complete, Some(Status::Pending));
        is_open && core.journal.history().of(&task.id).was_reset
    };
    let reset = graph.file.graph().tasks().iter().filter(is_reset);
    let reset: Vec<_> = reset.map(|task| (task.id.clone(), Status::Pending)).collect();
    let names: Vec<&str> = reset.iter().map(|(id, _)| id.as_str()).collect();
    let title = format!("Open again: {}", names.join(", "));
    checkout_graph::commit_statuses(workspace, branch, &reset, &title)
}
