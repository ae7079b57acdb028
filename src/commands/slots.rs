//! `ralph slots`: the copies of the repository that attempts work in.
//!
//! Removal loses nothing: a slot with something in it that is kept nowhere else stays.

mod listed;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Invocation, inside::SurroundingAttempt, status::look};
use crate::{
    adapters::{state::Lock, terminal},
    cli::{SlotsArgs, SlotsCommand},
    core::exit::{Exit, Failure},
    project::{slot_pool::SlotPool, workspace::Workspace},
    runner,
    view::slot::SlotView,
};
use listed::STRANGE;
pub(super) use listed::{ListedSlot, SlotState};

/// Lists or removes.
///
/// # Errors
/// A slot that must stay, with the reason.
pub fn run(invocation: &Invocation, options: &SlotsArgs) -> Result<Exit> {
    let loops = invocation.all_loops()?;
    match &options.command {
        None => list(&loops, options.json),
        Some(SlotsCommand::Remove { slots }) => {
            for workspace in &loops {
                SurroundingAttempt::refuse_steering(workspace, "slots remove")?;
            }
            remove(invocation, &loops, slots)
        }
    }
}

fn slots_of(workspace: &Workspace) -> Result<Vec<ListedSlot>> {
    let (store, _) = look(workspace)?;
    ListedSlot::all(workspace, store.history())
}

/// Removes the slots that were typed, or all.
fn remove(invocation: &Invocation, loops: &[Workspace], typed: &[PathBuf]) -> Result<Exit> {
    // No run begins while its lock is held, so none takes what is removed.
    let locks = loops.iter().map(Workspace::lock).collect::<Result<Vec<Option<Lock>>>>()?;
    let found = loops.iter().map(slots_of).collect::<Result<Vec<_>>>()?;
    let found: Vec<_> = loops.iter().zip(found).zip(locks).collect();
    for typed in typed {
        if !found.iter().any(|((workspace, slots), _)| {
            slots.iter().any(|one| is_it(invocation, workspace, one, typed))
        }) {
            return Err(unknown(typed));
        }
    }
    let (mut exit, mut any) = (Exit::Success, false);
    for ((workspace, slots), lock) in &found {
        let is_chosen = |one: &&ListedSlot| {
            typed.is_empty() || typed.iter().any(|typed| is_it(invocation, workspace, one, typed))
        };
        for one in slots.iter().filter(is_chosen) {
            any = true;
            if let Some(why) = hindrance(one, lock.is_some(), workspace) {
                terminal::say(&terminal::visible(&format!("{} stays: {why}", one.seen)));
                exit = Exit::Error;
                continue;
            }
            fs::remove_dir_all(&one.path)
                .with_context(|| format!("remove `{}`", one.path.display()))?;
            terminal::say(&terminal::visible(&format!("removed {}", one.seen)));
        }
    }
    if !any {
        terminal::say("there are no slots");
    }
    Ok(exit)
}

fn unknown(typed: &Path) -> anyhow::Error {
    let typed = typed.display().to_string();
    let message = format!(
        "`{}` is not a slot of this repository; `ralph slots` lists them",
        typed.escape_debug()
    );
    Failure::new(Exit::Error, message).into()
}

fn list(loops: &[Workspace], as_json: bool) -> Result<Exit> {
    let all = loops.iter().map(slots_of).collect::<Result<Vec<_>>>()?;
    let all: Vec<SlotView> = all.iter().flatten().map(ListedSlot::view).collect();
    if all.is_empty() && !as_json {
        terminal::say("there are no slots; a run makes them as it needs them");
        return Ok(Exit::Success);
    }
    terminal::print(&if as_json {
        terminal::json(&all)
    } else {
        let head = ["slot", "task", "state"].map(str::to_owned);
        let shown = |text: &str| terminal::visible(text).into_owned();
        let row = |one: &SlotView| {
            [
                shown(&one.place),
                one.task_id.as_deref().map_or_else(|| "-".to_owned(), shown),
                shown(&one.text),
            ]
        };
        let rows: Vec<[String; 3]> = std::iter::once(head).chain(all.iter().map(row)).collect();
        terminal::table(&rows)
    })?;
    Ok(Exit::Success)
}

/// Whether this slot was typed: by its name or by its path.
fn is_it(invocation: &Invocation, workspace: &Workspace, one: &ListedSlot, typed: &Path) -> bool {
    let named = SlotPool::of(workspace).folder().join(typed);
    let there = invocation.directory().map(|dir| dir.join(typed)).unwrap_or_default();
    one.path == named || there.canonicalize().is_ok_and(|path| one.path == path)
}

/// Returns why a slot cannot be removed, and what to do then.
fn hindrance(one: &ListedSlot, locked: bool, workspace: &Workspace) -> Option<String> {
    match &one.state {
        SlotState::Used { attempt, live: true, .. } => {
            Some(format!("attempt {attempt} works in it; `ralph stop` ends the run after it"))
        }
        SlotState::Used { .. } => {
            let again = workspace.place.name().map_or("run", |_| "loop");
            Some(format!("{}: `ralph {again}`", one.text()))
        }
        SlotState::Kept(why) => {
            let seen = &one.seen;
            Some(format!("{why}; commit it there and `git fetch {seen} HEAD:NAME`, or undo it"))
        }
        SlotState::Suspect(why) => Some(why.clone()),
        SlotState::Strange => Some(format!("it is {STRANGE}")),
        SlotState::Free if !locked => Some(format!(
            "{}, which may use it at any moment; remove it after the run",
            runner::held(workspace)
        )),
        SlotState::Free => {
            let here = env::current_dir().ok()?;
            let is_inside = here.starts_with(&one.path);
            is_inside.then(|| "it is the current directory; change to another one".to_owned())
        }
    }
}
