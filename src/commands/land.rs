//! `ralph land`: brings landed work to the branch and the checkout that wait for it.

use anyhow::Result;

use super::{Invocation, success};
use crate::{
    adapters::{
        git::TipStanding,
        terminal::{self, visible},
    },
    core::{
        event::{LandingEvent, WaitingWork},
        exit::Exit,
    },
    project::{
        follower::{BUSY, Followed, Follower},
        workspace::Workspace,
    },
    view::waits::WaitingWorkView,
};

/// Moves every waiting branch to its landed work.
///
/// # Errors
/// There is no repository; errors of git and of the disk.
pub fn run(invocation: &Invocation) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let branches = workspace.repo.landings().waiting_branches()?;
    if branches.is_empty() {
        note_followed(&workspace, None)?;
        return match elsewhere(&workspace)? {
            None => success("nothing waits: the checkout has all that landed\n"),
            Some(branch) => success(&format!(
                "nothing waits; what landed is on `{branch}`, and `git merge {branch}` brings it here\n"
            )),
        };
    }
    let mut exit = Exit::Success;
    for branch in &branches {
        if !land(&workspace, branch, true)? {
            exit = Exit::Waiting;
        }
    }
    Ok(exit)
}

/// The branch that the newest run landed on, if the checkout is on another branch without it.
fn elsewhere(workspace: &Workspace) -> Result<Option<String>> {
    let landed_on = workspace.event_store()?.history().run.begun.branch.clone();
    let (Some(branch), head) = (landed_on, workspace.repo.head()?) else { return Ok(None) };
    let (Some(there), Some(here)) = (workspace.repo.branch(&branch)?, head.commit) else {
        return Ok(None);
    };
    Ok((!workspace.repo.is_ancestor(&there, &here)?).then_some(branch))
}

/// Moves one branch. Returns whether it has all that landed.
pub(super) fn land(workspace: &Workspace, branch: &str, tells: bool) -> Result<bool> {
    let (repo, follower) = (&workspace.repo, Follower::of(workspace, branch));
    // A live run does the rest: it verifies the combined work.
    if !workspace.state.is_locked()? {
        if let Some(carried) = follower.carry_over(repo)? {
            terminal::say(&carried.text(branch));
        }
        let tip = repo.landings().tip(branch)?;
        if let Some(tip) = tip.filter(|tip| tip.standing == TipStanding::Diverged) {
            match repo.landings().joined(branch, &tip)? {
                Some(joined) if repo.landings().land(branch, &joined, &joined)? => {
                    terminal::say(&format!(
                        "your commits on `{branch}` and what landed are merged, and not verified \
                         together yet"
                    ));
                }
                Some(_) => {}
                None => terminal::say(&format!(
                    "your commits on `{branch}` conflict with what landed; `git merge \
                     refs/ralph/tip/{branch}` merges them by hand"
                )),
            }
        }
    }
    match follower.follow(BUSY)? {
        Followed::Level => {
            note_followed(workspace, Some(branch))?;
            if tells {
                terminal::print(&format!("`{branch}` has all that landed\n"))?;
            }
            Ok(true)
        }
        Followed::Waits(waiting) => {
            note_waiting(workspace, &waiting)?;
            let waiting = WaitingWorkView::of(&waiting);
            terminal::say(&waiting.text());
            for path in &waiting.paths {
                terminal::say(&format!("  {}", visible(path)));
            }
            Ok(false)
        }
    }
}

/// Records a branch's waiting work, unless a run has done so.
fn note_waiting(workspace: &Workspace, waiting: &WaitingWork) -> Result<()> {
    let mut store = workspace.event_store()?;
    let known = store.history().active.waiting.as_ref();
    if known.is_none_or(|known| !known.is_for(waiting)) && !workspace.state.is_locked()? {
        store.emit(None, None, LandingEvent::CheckoutWaits(waiting.clone()))?;
    }
    Ok(())
}

/// Records that a branch has its awaited work.
fn note_followed(workspace: &Workspace, branch: Option<&str>) -> Result<()> {
    let mut store = workspace.event_store()?;
    let Some(waiting) = store.history().active.waiting.clone() else { return Ok(()) };
    let branch = branch.map_or(waiting.branch, str::to_owned);
    let Some(commit) = workspace.repo.branch(&branch)? else { return Ok(()) };
    store.emit(None, None, LandingEvent::CheckoutFollowed { branch, commit })?;
    Ok(())
}
