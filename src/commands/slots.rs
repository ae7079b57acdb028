//! `ralph slots`: the copies of the repository that attempts work in, who uses them, and their
//! removal, which loses nothing: a slot with unsaved work stays. And slots that one command uses:
//! copies of the newest commit, removed at the end without a look at their content.

use std::{
    env,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use chrono::Utc;

use super::{
    Invocation,
    inside::SurroundingAttempt,
    status::{look, open_attempts},
    success,
};
use crate::{
    adapters::{
        git::{self, PushRule},
        state::Lock,
        terminal,
    },
    cli::{SlotsArgs, SlotsCommand},
    core::{
        attempt::AttemptState,
        commit_id::CommitId,
        exit::{Exit, Failure, fail},
        graph::task::TaskId,
        history::History,
        loop_paths::LoopPaths,
    },
    project::{
        attempt::AttemptRecord,
        slot_pool::{self, PreparedSlot, SlotOrder, SlotPool},
        suspect_slots,
        workspace::Workspace,
    },
    runner,
    view::{
        attempt::SlotView,
        attempt::{AttemptView, typed_path},
    },
};

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

pub(super) fn slots_of(workspace: &Workspace) -> Result<Vec<ListedSlot>> {
    let (store, _) = look(workspace)?;
    ListedSlot::all(workspace, store.history())
}

/// Removes the slots that were typed, or all.
pub(super) fn remove(
    invocation: &Invocation,
    loops: &[Workspace],
    typed: &[PathBuf],
) -> Result<Exit> {
    // No run begins while its lock is held, so none takes a removed slot.
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
            remove_slot(&one.path).with_context(|| format!("remove `{}`", one.path.display()))?;
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
    success(&if as_json {
        terminal::json(&all)
    } else {
        let task = |one: &SlotView| one.task_id.clone().unwrap_or_else(|| "-".to_owned());
        let row = |one: &SlotView| [one.place.clone(), task(one), one.text.clone()];
        terminal::table(["slot", "task", "state"], all.iter().map(row))
    })
}

/// Whether this slot was typed: by its name or by its path.
fn is_it(invocation: &Invocation, workspace: &Workspace, one: &ListedSlot, typed: &Path) -> bool {
    let pool = SlotPool::of(workspace);
    let there = invocation.directory().map(|dir| dir.join(typed)).unwrap_or_default();
    let is_one = |path: &Path| {
        path != pool.folder() && (one.path == path || one.path.parent() == Some(path))
    };
    is_one(&pool.folder().join(typed)) || there.canonicalize().is_ok_and(|path| is_one(&path))
}

/// Returns why a slot cannot be removed, and the remedy.
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

/// Says that a folder is not a slot, and the remedy.
const STRANGE: &str =
    "not a slot of this repository; take the files that you want, and remove the folder";

/// The state of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// An attempt uses it: its name, its state, and whether its run is alive.
    Used { attempt: String, stage: AttemptState, live: bool },
    /// It contains unsaved work.
    Kept(String),
    /// A process of an earlier attempt may still work in it.
    Suspect(String),
    /// It is not a slot of this repository.
    Strange,
    /// Nothing would be lost with it.
    Free,
}

/// A slot.
pub(super) struct ListedSlot {
    pub(super) path: PathBuf,
    pub(super) state: SlotState,
    /// The plain loop that it belongs to.
    name: Option<TaskId>,
    /// The task of the attempt in it.
    task: Option<String>,
    /// Its path as typed at the top of the repository.
    pub(super) seen: String,
    /// Its purpose, if not attempts.
    side: Option<&'static str>,
}

impl ListedSlot {
    /// Returns the slots of the selected loop, numbered ones first. Those of the run over the graph
    /// include the folders that belong to no loop.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn all(workspace: &Workspace, history: &History) -> Result<Vec<ListedSlot>> {
        let (pool, live) = (SlotPool::of(workspace), workspace.is_live(history)?);
        let records: Vec<AttemptRecord> = workspace.state.peek();
        let suspects = suspect_slots::all(&workspace.state);
        let attempts = open_attempts(workspace, history, Utc::now());
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
        let folders = pool.entries().into_iter().filter(is_ours);
        let mut all: Vec<ListedSlot> = folders
            .map(|path| {
                let used = records
                    .iter()
                    .find(|open| open.slot.as_ref().is_some_and(|slot| slot.path == path));
                let side = pool.kind(&path);
                let beside = history.active.attempts.iter().find_map(|active| {
                    let is_it = |slot: &String| Path::new(slot) == path;
                    let reviews = active.review_slot.as_ref().is_some_and(is_it);
                    (live && reviews).then_some((active, AttemptState::Reviewing))
                });
                let state = match (used, beside) {
                    (Some(open), _) => used_by(open, &attempts, live),
                    (None, Some((active, stage))) => SlotState::Used {
                        attempt: format!("{}.{}", active.task_id, active.attempt),
                        stage,
                        live,
                    },
                    // It is in the middle of a trial most of the time.
                    (None, None) if live && side.is_some() => SlotState::Free,
                    (None, None) => match suspects.iter().find(|slot| slot.path == path) {
                        Some(slot) => SlotState::Suspect(slot.text()),
                        None => state(workspace, &path, side.is_some()),
                    },
                };
                ListedSlot {
                    task: used
                        .map(|open| &open.task_id)
                        .or(beside.map(|(active, _)| &active.task_id))
                        .map(ToString::to_string),
                    name: workspace.place.name().cloned(),
                    seen: typed_path(workspace.root(), &path),
                    path,
                    state,
                    side,
                }
            })
            .collect();
        let number = |one: &ListedSlot| pool.number(&one.path).unwrap_or(u32::MAX);
        all.sort_by(|a, b| (number(a), &a.path).cmp(&(number(b), &b.path)));
        Ok(all)
    }

    /// Returns the state in words.
    pub(super) fn text(&self) -> String {
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
        match self.kind() {
            "merge_queue" => format!("merge queue; {what}"),
            "review" => format!("reviewer; {what}"),
            _ => what,
        }
    }

    /// Its kind of work.
    fn kind(&self) -> &'static str {
        match self.side {
            Some("merge") => "merge_queue",
            Some(other) => other,
            None => "attempt",
        }
    }

    /// Returns it as a value of the read model.
    pub(super) fn view(&self) -> SlotView {
        let (word, why, used) = match &self.state {
            SlotState::Used { attempt, stage, live } => {
                let used = (attempt.clone(), stage.word().replace(' ', "_"));
                (if *live { "in_use" } else { "cut_off" }, None, Some(used))
            }
            SlotState::Kept(why) | SlotState::Suspect(why) => ("kept", Some(why.clone()), None),
            SlotState::Strange => ("strange", None, None),
            SlotState::Free => ("free", None, None),
        };
        let (attempt, stage) = used.unzip();
        SlotView {
            schema: crate::view::VERSION,
            path: self.path.clone(),
            name: self.name.clone(),
            kind: self.kind().to_owned(),
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

fn state(workspace: &Workspace, path: &Path, is_side: bool) -> SlotState {
    if workspace.repo.slots().is_incomplete(path) {
        return SlotState::Free;
    }
    let Some(slot) = workspace.repo.slots().open(path) else {
        return SlotState::Strange;
    };
    // The commits in a slot for merges are copies of work that is kept.
    let is_clean = || slot.unfinished().is_none() && slot.dirty().is_ok_and(|it| it.is_empty());
    match slot_pool::unkept(&workspace.repo, &slot) {
        Ok(Some(_)) if is_side && is_clean() => SlotState::Free,
        Ok(None) => SlotState::Free,
        Ok(Some(why)) => SlotState::Kept(why),
        Err(error) => SlotState::Kept(format!("it cannot be read: {error:#}")),
    }
}

/// A slot, removed when dropped.
pub(super) struct TemporarySlot {
    /// Its top.
    pub(super) root: PathBuf,
    /// The commit in it.
    pub(super) base: CommitId,
    pool: PathBuf,
}

/// The identity of a command's temporary slot.
pub(super) struct SlotUse<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The commit in it; none for that of the checkout.
    pub(super) commit: Option<CommitId>,
    /// The branch that is checked out in it.
    pub(super) branch: &'a str,
    /// The ref in the repository that keeps the commit while the slot is made.
    pub(super) base_ref: String,
    /// A name at its top that only this command creates. A slot with it is removed even if git
    /// cannot read it any more.
    pub(super) mark: &'a str,
}

impl TemporarySlot {
    /// Makes the slot. The caller holds a lock, so that no other process uses the same one.
    ///
    /// # Errors
    /// No commit; another folder in its place; errors of git and of the disk.
    pub(super) fn prepare(workspace: &Workspace, wanted: SlotUse<'_>) -> Result<TemporarySlot> {
        let (repo, SlotUse { name, commit, branch, base_ref, mark }) = (&workspace.repo, wanted);
        let base = match commit {
            Some(commit) => Some(commit),
            None => repo.head()?.commit,
        };
        let Some(base) = base else {
            return fail(
                Exit::Error,
                "the repository has no commit, so there is nothing to copy for the \
                           agent; make the first commit (`git commit --allow-empty`)",
            );
        };
        let pool = SlotPool::of(workspace);
        fs::create_dir_all(pool.folder()).with_context(|| {
            format!("create `{}`; `slot_dir` sets another folder", pool.folder().display())
        })?;
        // The path of the folder is canonical once it exists.
        let pool = SlotPool::of(workspace);
        let root = pool.slot(name);
        // A killed command left it. Git is asked last: an agent may have changed its files.
        if root.join(mark).exists()
            || repo.slots().is_incomplete(&root)
            || repo.slots().open(&root).is_some()
        {
            remove_slot(&root).with_context(|| format!("remove `{}`", root.display()))?;
        }
        let folder = pool.folder().to_owned();
        let slot = TemporarySlot { root, base, pool: folder };
        let order = SlotOrder {
            slot: slot.root.clone(),
            settings: repo.slots().settings(PushRule::default())?,
            branch: branch.to_owned(),
            base: slot.base.clone(),
            base_ref: base_ref.clone(),
            left: None,
            graph: None,
            setup: Vec::new(),
            pool,
        };
        let prepared = slot_pool::prepare(&order)?;
        repo.drop_ref(&base_ref)?;
        if let PreparedSlot::Kept(why) = prepared {
            let shown = slot.root.display().to_string();
            std::mem::forget(slot);
            bail!("cannot use `{shown}`: {why}; move it away");
        }
        Ok(slot)
    }
}

/// Removes a slot.
fn remove_slot(slot: &Path) -> io::Result<()> {
    remove_folder(&git::put_away(slot)?)?;
    git::remove_parent(slot);
    Ok(())
}

/// Removes a folder with everything in it, even read-only files, as package managers make.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        if !fs::symlink_metadata(&folder)?.is_dir() {
            continue;
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            folders.push(entry?.path());
        }
    }
    fs::remove_dir_all(path)
}

impl Drop for TemporarySlot {
    fn drop(&mut self) {
        if let Err(error) = remove_slot(&self.root)
            && self.root.exists()
        {
            let slot = self.root.display();
            let text = format!("cannot remove the slot `{slot}`: {error}; remove it by hand");
            terminal::say(&terminal::visible(&text));
        }
        // Fails if attempts have slots there.
        let _ = fs::remove_dir(&self.pool);
    }
}
