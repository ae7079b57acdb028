//! Isolated attempts: how their slots are prepared and released.
//!
//! Git may take seconds to fill a slot, so other threads do that. Where two attempts can run at
//! once, none of them uses the checkout that people work in.

use std::{cell::RefCell, fs, path::PathBuf, rc::Rc, thread};

use anyhow::{Context, Result};

use super::{Runner, RunnerMessage, start::litter_of};
use crate::{
    adapters::git::{Repo, RestoredWork, SlotSettings},
    core::{
        commit_id::CommitId,
        event::Event,
        exit::{self, Exit, Failure},
        graph::task::TaskId,
        run::{
            command::AttemptId,
            input::{Input, SlotReason},
        },
        select::Policy,
    },
    project::{
        attempt::{self, AttemptRecord, SlotAssignment},
        executors, placement,
        slot_pool::{self, LeftWork, PreparedSlot, SlotOrder, SlotPool},
        suspect_slots::{self, SuspectSlot},
        workspace::Workspace,
    },
};

/// The slots of a run.
pub(super) struct RunSlots {
    pub(super) pool: SlotPool,
    /// The branch that all work lands on, and what git reads as settings in the slots; `None` if
    /// attempts work in the checkout.
    target: Option<(String, SlotSettings)>,
    /// The slots that are not reused.
    kept: Vec<PathBuf>,
    /// The slots of open attempts whose processes may not have ended.
    suspects: Vec<SuspectSlot>,
    /// The number of slots that are being prepared.
    preparing: usize,
    /// The slot that was secured last, until something may change it.
    secured: RefCell<Option<(PathBuf, Rc<Repo>)>>,
}

impl RunSlots {
    /// Returns the slots of a run with this policy.
    ///
    /// # Errors
    /// No branch is checked out, or no commit exists.
    pub(super) fn of(workspace: &Workspace, policy: &Policy) -> Result<RunSlots> {
        let mut target = None;
        let mut pool = SlotPool::of(workspace);
        if policy.is_isolated() {
            let head = workspace.repo.head()?;
            let why = match (head.branch, head.commit) {
                (Some(branch), Some(_)) => {
                    target = Some((branch, workspace.repo.slot_settings()?));
                    ""
                }
                (None, _) => "HEAD is detached; switch to the branch that work lands on",
                (_, None) => "the repository has no commit; create the first one",
            };
            if !why.is_empty() {
                let message = format!("attempts start from a branch: {why}, or use `--in-place`");
                return Err(Failure::new(Exit::Error, message).into());
            }
            let folder = pool.folder();
            fs::create_dir_all(folder).with_context(|| {
                format!("create `{}`; `slot_dir` sets another folder", folder.display())
            })?;
            // The folder exists now, so this resolves it to the name that git uses.
            pool = SlotPool::of(workspace);
            hide(&pool, workspace)?;
        }
        let kept = suspect_slots::all(&workspace.state).into_iter().map(|slot| slot.path).collect();
        let secured = RefCell::default();
        Ok(RunSlots { pool, target, kept, suspects: Vec::new(), preparing: 0, secured })
    }

    /// Returns what git reads as settings in the slots.
    pub(super) fn settings(&self, workspace: &Workspace) -> Result<SlotSettings> {
        match &self.target {
            Some((_, settings)) => Ok(settings.clone()),
            // An earlier run was isolated, and this one closes its attempts.
            None => workspace.repo.slot_settings(),
        }
    }

    /// Returns the branch that all work lands on; none if attempts work in the checkout.
    pub(super) fn target(&self) -> Option<&str> {
        self.target.as_ref().map(|(branch, _)| branch.as_str())
    }

    /// Whether any slot is being prepared.
    pub(super) fn is_preparing(&self) -> bool {
        self.preparing > 0
    }

    /// Keeps the slot of an open attempt when it is released, because a process of the attempt may
    /// still work in it.
    pub(super) fn suspect(&mut self, slot: SuspectSlot) {
        self.suspects.push(slot);
    }

    /// Allows the use of a slot in which no process works any more.
    pub(super) fn cleared(&mut self, slot: &SuspectSlot) {
        self.suspects.retain(|suspect| suspect.path != slot.path);
        self.kept.retain(|kept| *kept != slot.path);
    }

    /// Records that the preparation of a slot has ended.
    pub(super) fn prepared(&mut self) {
        self.preparing = self.preparing.saturating_sub(1);
    }

    /// Lets the next step open a slot again: a process may change it from now on.
    pub(super) fn let_change(&self) {
        self.secured.take();
    }

    /// Returns a slot that was secured and that nothing can have changed since.
    fn unchanged(&self, slot: &SlotAssignment) -> Option<Rc<Repo>> {
        let secured = self.secured.borrow();
        secured.as_ref().filter(|(path, _)| *path == slot.path).map(|(_, tree)| Rc::clone(tree))
    }

    /// Excludes a slot from reuse for the rest of the run.
    fn keep(&mut self, tree: PathBuf, why: String) -> SlotReason {
        let slot = tree.display().to_string();
        self.kept.push(tree);
        SlotReason { slot, why }
    }
}

/// Excludes slots inside the repository from its `git status`.
fn hide(pool: &SlotPool, workspace: &Workspace) -> Result<()> {
    let Ok(inside) = pool.folder().strip_prefix(workspace.root()) else {
        return Ok(());
    };
    let inside = inside.display();
    if workspace.repo.is_ignored(&format!("{inside}/x"))? {
        return Ok(());
    }
    workspace.repo.exclude(&[&format!("/{inside}/")])
}

impl Runner {
    /// Whether attempts are isolated.
    pub(super) fn is_isolated(&self) -> bool {
        self.slots.target.is_some()
    }

    /// Returns the slot of the next attempt and the commit it starts from; `None` if the
    /// attempt works in the checkout.
    pub(super) fn assign_slot(&self) -> Result<Option<(SlotAssignment, CommitId)>> {
        let Some((target, _)) = self.slots.target.clone() else {
            return Ok(None);
        };
        let base = self.tip(&target)?;
        let base =
            base.with_context(|| format!("branch `{target}` no longer exists; create it again"))?;
        Ok(Some((SlotAssignment { path: self.free_slot(), target, landing: None }, base)))
    }

    fn free_slot(&self) -> PathBuf {
        let used =
            self.records.values().filter_map(|record| Some(record.slot.as_ref()?.path.clone()));
        let taken: Vec<PathBuf> = used.chain(self.slots.kept.iter().cloned()).collect();
        self.slots.pool.next(&taken)
    }

    /// Starts preparing the slot of an attempt.
    pub(super) fn prepare_slot(&mut self, id: &AttemptId) -> Result<()> {
        let record = self.records.get(id).context("an attempt without a record")?;
        let slot = record.slot.as_ref().context("an attempt without a slot")?;
        if let Some((_, settings)) = &mut self.slots.target {
            // A person may have changed them, and `ralph` the list of ignored files.
            *settings = self.workspace.repo.slot_settings()?;
            let calls = self.records.values().filter_map(|record| record.call.as_ref());
            calls.for_each(|call| settings.ignore(litter_of(call)));
        }
        let (left, attributes) = (self.left_work(&record.task_id)?, self.attributes()?);
        let order = SlotOrder {
            pool: self.slots.pool.clone(),
            slot: slot.path.clone(),
            settings: self.slots.settings(&self.workspace)?,
            branch: attempt::branch_of(&record.task_id),
            base: record.base.clone().context("an attempt without a base")?,
            left: left.map(|(_, commit)| LeftWork { commit, attributes }),
            graph: self.workspace.graph_in_git(),
            setup: self.workspace.config.setup.0.clone(),
            base_ref: self.workspace.place.base_ref(&record.task_id, record.attempt),
        };
        let (outbox, id) = (self.inbox.sender(), id.clone());
        let executor = executors::find(&self.workspace.config, record.run_on.as_deref());
        self.slots.preparing += 1;
        thread::spawn(move || {
            let message = match executor.map_or(Ok(()), |executor| placement::reach(&executor)) {
                Err(fault) => RunnerMessage::Missed(id, fault),
                Ok(()) => RunnerMessage::Prepared(id, slot_pool::prepare(&order)),
            };
            drop(outbox.send(message));
        });
        Ok(())
    }

    /// Returns the ref and the commit of the work that the next attempt at a task continues.
    fn left_work(&self, id: &TaskId) -> Result<Option<(String, CommitId)>> {
        let left = self.store.history().of(id).left.clone();
        let Some(name) = left.filter(|_| self.workspace.config.continues_work()) else {
            return Ok(None);
        };
        Ok(self.workspace.repo.commit_of(&name)?.map(|commit| (name, commit)))
    }

    /// Records that a slot has the work of an earlier attempt, or why not.
    fn note_restored(
        &mut self,
        id: &TaskId,
        (attempt, iteration): (u32, u32),
        restored: Option<RestoredWork>,
    ) -> Result<()> {
        let (Some(restored), Some((from, _))) = (restored, self.left_work(id)?) else {
            return Ok(());
        };
        let conflicts = match restored {
            RestoredWork::Done => Vec::new(),
            RestoredWork::Conflict(paths) => paths,
        };
        self.emit(Some((id, iteration)), Event::WorkRestored { attempt, from, conflicts })
    }

    /// Assigns another slot to an attempt and starts preparing it.
    pub(super) fn reassign_slot(&mut self, id: &AttemptId) -> Result<()> {
        let path = self.free_slot();
        if let Some(record) = self.records.get_mut(id) {
            record.slot = record.slot.take().map(|slot| SlotAssignment { path, ..slot });
            record.write(&self.workspace)?;
        }
        self.prepare_slot(id)
    }

    /// Handles the result of preparing the slot of an attempt.
    pub(super) fn slot_prepared(
        &mut self,
        id: &AttemptId,
        prepared: Result<PreparedSlot>,
    ) -> Result<Option<Input>> {
        self.slots.prepared();
        if matches!(prepared, Err(_) | Ok(PreparedSlot::BadBase(_))) {
            // A request to stop may have ended a git command, and must be taken into account.
            let records = self.store.catch_up()?;
            self.publish(&records);
        }
        let Some(record) = self.records.get_mut(id) else {
            return Ok(None);
        };
        let id = id.clone();
        let input = match prepared {
            // No other task fares better, and the next run continues with this one.
            Err(error) if exit::of_error(&error) == Exit::Disk => return Err(error),
            Err(error) => Input::NotStarted(id, format!("{error:#}")),
            Ok(PreparedSlot::Kept(why)) => {
                let tree = record.slot.as_ref().map(|slot| slot.path.clone());
                let reason = self.slots.keep(tree.unwrap_or_default(), why);
                Input::SlotKept(id, reason)
            }
            Ok(PreparedSlot::BadBase(why)) => Input::BadBase(id, why),
            Ok(PreparedSlot::Ready { slot: tree, restored, is_set_up }) => {
                (record.locks, record.controls) = (tree.locks(), Some(tree.controls()));
                if restored == Some(RestoredWork::Done) {
                    let left = attempt::changed(&self.workspace, &tree)?;
                    record.inherited = left.into_keys().collect();
                }
                record.write(&self.workspace)?;
                record.clear_slot_reports(&self.workspace)?;
                let about = (record.attempt, record.iteration);
                let base = record.base.clone().context("an attempt without a base")?;
                self.copy_graph(&tree, &base)?;
                self.note_restored(&id.task_id, about, restored)?;
                Input::SlotReady { id, is_set_up }
            }
        };
        Ok(Some(input))
    }

    /// Opens the repository in which an attempt worked, after all its processes have ended. Git
    /// then reads no setting in it that the attempt wrote.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub(super) fn secured_tree(&self, record: &AttemptRecord) -> Result<Rc<Repo>> {
        match record.slot.as_ref().and_then(|slot| self.slots.unchanged(slot)) {
            Some(tree) => Ok(tree),
            None => self.secured(record, record.tree(&self.workspace)?),
        }
    }

    /// Does the same with a repository that was opened after all processes of the attempt had ended.
    pub(super) fn secured(&self, record: &AttemptRecord, tree: Rc<Repo>) -> Result<Rc<Repo>> {
        let Some(slot) = &record.slot else {
            return Ok(tree);
        };
        let again = tree.secure_slot(&self.slots.settings(&self.workspace)?)?;
        let tree = again.map_or(tree, Rc::new);
        let is_suspect = self.slots.suspects.iter().any(|it| it.path == slot.path);
        if !is_suspect && !self.processes.has_spared() {
            self.slots.secured.replace(Some((slot.path.clone(), Rc::clone(&tree))));
        }
        Ok(tree)
    }

    /// Returns the repository in which an attempt worked as it was secured, or opens it if something
    /// may have changed it since.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub(super) fn opened_tree(&self, record: &AttemptRecord) -> Result<Rc<Repo>> {
        let secured = record.slot.as_ref().and_then(|slot| self.slots.unchanged(slot));
        secured.map_or_else(|| record.tree(&self.workspace), Ok)
    }

    /// Releases the slot of an attempt whose end is recorded.
    pub(super) fn release_slot(&mut self, record: &AttemptRecord) -> Result<()> {
        let Some(slot) = record.slot.clone() else {
            return Ok(());
        };
        let base = self.workspace.place.base_ref(&record.task_id, record.attempt);
        self.workspace.repo.drop_ref(&base)?;
        let name = slot.path.file_name().unwrap_or_default().to_string_lossy();
        let _ = fs::remove_file(self.workspace.state.work(&name));
        if let Some(at) = self.slots.suspects.iter().position(|it| it.path == slot.path) {
            let suspect = self.slots.suspects.remove(at);
            let why = suspect.text();
            let SlotReason { slot, why } = self.slots.keep(suspect.path, why);
            return self.emit(None, Event::SlotKept { slot, why });
        }
        let Ok(tree) = self.opened_tree(record) else {
            // The slot was removed or never made.
            return Ok(());
        };
        let pin =
            attempt::leftovers::pin_name(&self.workspace.place, &record.task_id, record.attempt);
        let kept = self.workspace.repo.commit_of(&pin)?;
        if !record.dirty.is_empty() {
            // What the setup left there is not ignored by git, so it goes with the rest.
            tree.note_setup(None)?;
        }
        let (main, setup) = (&self.workspace.repo, &self.workspace.config.setup.0);
        // A damaged slot is recognized below.
        let head = tree.head().ok().and_then(|head| head.commit);
        if let (Some(base), Some(head)) = (&record.base, head)
            && let Ok(Some(path)) = tree.nested_repository(base, &head)
        {
            let why = format!("it has the repository `{path}`, whose commits are nowhere else");
            let SlotReason { slot, why } = self.slots.keep(slot.path, why);
            return self.emit(None, Event::SlotKept { slot, why });
        }
        let why = match slot_pool::release(main, &tree, kept.as_deref(), setup) {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why,
            Err(error) => format!("{error:#}"),
        };
        let SlotReason { slot, why } = self.slots.keep(slot.path, why);
        self.emit(None, Event::SlotKept { slot, why })
    }
}
