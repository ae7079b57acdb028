//! The slots of a repository, who uses them, and whether they can be removed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use chrono::Utc;

use crate::{
    commands::status,
    core::{attempt::AttemptState, graph::task::TaskId, history::History, loop_paths::LoopPaths},
    project::{
        attempt::AttemptRecord,
        slot_pool::{self, SlotPool},
        suspect_slots,
        workspace::Workspace,
    },
    view::{
        attempt::{AttemptView, typed_path},
        slot::SlotView,
    },
};

/// Says that a folder is not a slot, and what to do with it.
pub(crate) const STRANGE: &str =
    "not a slot of this repository; take the files that you want, and remove the folder";

/// The state of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// An attempt uses it: its name, its state, and whether its run is alive.
    Used { attempt: String, stage: AttemptState, live: bool },
    /// It contains something that is kept nowhere else.
    Kept(String),
    /// A process of an earlier attempt may still work in it.
    Suspect(String),
    /// It is not a slot of this repository.
    Strange,
    /// Nothing would be lost with it.
    Free,
}

/// A slot.
pub(crate) struct ListedSlot {
    pub(crate) path: PathBuf,
    pub(crate) state: SlotState,
    /// The plain loop that it belongs to.
    name: Option<TaskId>,
    /// The task of the attempt in it.
    task: Option<String>,
    /// Its path as it is typed at the top of the repository.
    pub(crate) seen: String,
    is_merge: bool,
}

impl ListedSlot {
    /// Returns the slots of the selected loop, numbered ones first. Those of the run over the graph
    /// include the folders that belong to no loop.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn all(workspace: &Workspace, history: &History) -> Result<Vec<ListedSlot>> {
        let (pool, live) = (SlotPool::of(workspace), workspace.is_live(history)?);
        let records: Vec<AttemptRecord> = workspace.state.peek();
        let suspects = suspect_slots::all(&workspace.state);
        let attempts = status::open_attempts(workspace, history, Utc::now());
        let others = match workspace.place.name() {
            Some(_) => Vec::new(),
            None => workspace.loops().context("list the loops")?,
        };
        let others: Vec<SlotPool> =
            others.into_iter().map(|name| pool.of_loop(LoopPaths::of_loop(name))).collect();
        let is_ours = |path: &PathBuf| match workspace.place.name() {
            Some(_) => pool.is_its(path),
            None => !others.iter().any(|other| other.is_its(path)),
        };
        let found = fs::read_dir(pool.folder()).into_iter().flatten().flatten();
        let folders = found.map(|entry| entry.path()).filter(|path| path.is_dir());
        let folders = folders.filter(is_ours);
        let mut all: Vec<ListedSlot> = folders
            .map(|path| {
                let used = records
                    .iter()
                    .find(|open| open.slot.as_ref().is_some_and(|slot| slot.path == path));
                let is_merge = path == pool.merge();
                let state = match used {
                    Some(open) => used_by(open, &attempts, live),
                    // It is in the middle of a trial most of the time.
                    None if live && is_merge => SlotState::Free,
                    None => match suspects.iter().find(|slot| slot.path == path) {
                        Some(slot) => SlotState::Suspect(slot.text()),
                        None => state(workspace, &path),
                    },
                };
                ListedSlot {
                    task: used.map(|open| open.task_id.to_string()),
                    name: workspace.place.name().cloned(),
                    seen: typed_path(workspace.root(), &path),
                    path,
                    state,
                    is_merge,
                }
            })
            .collect();
        let number = |one: &ListedSlot| pool.number(&one.path).unwrap_or(u32::MAX);
        all.sort_by(|a, b| (number(a), &a.path).cmp(&(number(b), &b.path)));
        Ok(all)
    }

    /// Returns the state in words.
    pub(crate) fn text(&self) -> String {
        let what = match &self.state {
            SlotState::Used { attempt, stage, live: true } => {
                format!("in use by attempt {attempt}, {}", stage.word())
            }
            SlotState::Used { attempt, stage: AttemptState::Queued, .. } => {
                format!("attempt {attempt} is queued to land in the next run")
            }
            SlotState::Used { attempt, .. } => {
                format!("attempt {attempt} was cut off in it; the next run recovers it")
            }
            SlotState::Kept(why) | SlotState::Suspect(why) => format!("kept: {why}"),
            SlotState::Strange => STRANGE.to_owned(),
            SlotState::Free => "free".to_owned(),
        };
        if self.is_merge { format!("merge queue; {what}") } else { what }
    }

    /// Returns it as a value of the read model.
    pub(crate) fn view(&self) -> SlotView {
        let (word, why) = match &self.state {
            SlotState::Used { live: true, .. } => ("in_use", None),
            SlotState::Used { .. } => ("cut_off", None),
            SlotState::Kept(why) | SlotState::Suspect(why) => ("kept", Some(why.clone())),
            SlotState::Strange => ("strange", None),
            SlotState::Free => ("free", None),
        };
        let (attempt, stage) = match &self.state {
            SlotState::Used { attempt, stage, .. } => {
                (Some(attempt.clone()), Some(stage.word().replace(' ', "_")))
            }
            SlotState::Kept(_) | SlotState::Suspect(_) | SlotState::Strange | SlotState::Free => {
                (None, None)
            }
        };
        SlotView {
            schema: crate::view::VERSION,
            path: self.path.clone(),
            name: self.name.clone(),
            kind: if self.is_merge { "merge_queue" } else { "attempt" }.to_owned(),
            task_id: self.task.clone(),
            state: word.to_owned(),
            why,
            attempt,
            stage,
            place: self.seen.clone(),
            text: self.text(),
        }
    }
}

fn used_by(open: &AttemptRecord, attempts: &[AttemptView], live: bool) -> SlotState {
    let is_it =
        |attempt: &&AttemptView| attempt.task_id == open.task_id && attempt.attempt == open.attempt;
    let found = attempts.iter().find(is_it);
    let stage = found.map_or(AttemptState::Preparing, |attempt| attempt.position.state);
    SlotState::Used { attempt: open.name(), stage, live }
}

fn state(workspace: &Workspace, path: &Path) -> SlotState {
    if workspace.repo.is_incomplete_slot(path) {
        return SlotState::Free;
    }
    let Some(slot) = workspace.repo.open_slot(path) else {
        return SlotState::Strange;
    };
    match slot_pool::unkept(&workspace.repo, &slot) {
        Ok(None) => SlotState::Free,
        Ok(Some(why)) => SlotState::Kept(why),
        Err(error) => SlotState::Kept(format!("it cannot be read: {error:#}")),
    }
}
