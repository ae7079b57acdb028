//! The slots of isolated attempts: how they are prepared, kept out of use and released.
//!
//! Git may take seconds to fill a slot, so other threads do that. Where two attempts can run at
//! once, none of them uses the checkout that people work in.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{
    RunnerMessage,
    attempts::{Records, litter_of},
    context::{Facts, RunContext},
    engine::watch_suspect,
    graph_copy,
};
use crate::{
    adapters::git::{Repo, RestoredWork, SlotSettings},
    core::{
        commit_id::CommitId,
        diagnostic::visible,
        event::{AttemptEvent, Held, RunEvent},
        executor::ExecutorFault,
        exit::{self, Exit, Failure},
        graph::task::TaskId,
        history::{History, LastAttempt},
        run::{
            command::AttemptId,
            input::{Input, SlotReason},
        },
        select::Policy,
    },
    project::{
        attempt::{self, AttemptRecord, SlotAssignment, leftovers},
        executors,
        merge_attributes::attributes,
        placement,
        slot_pool::{self, LeftWork, PreparedSlot, SlotOrder, SlotPool},
        suspect_slots::{self, SuspectSlot},
        workspace::{Workspace, landing_branch},
    },
};

/// The slots of a run.
pub(super) struct RunSlots {
    pub(super) pool: SlotPool,
    /// What git reads as settings in the slots; `None` if attempts work in the checkout.
    settings: Option<SlotSettings>,
    /// The slots that are not reused.
    kept: Vec<PathBuf>,
    /// The slots of open attempts whose processes may not have ended.
    suspects: Vec<SuspectSlot>,
    /// The number of slots that are being prepared.
    preparing: usize,
    /// The slot that was secured last, until something may change it.
    secured: RefCell<Option<(PathBuf, Rc<Repo>)>>,
    /// Whether a process that an agent left behind was spared: it may change any slot at any time.
    pub(super) has_spared: bool,
}

/// The branch that work lands on, and the newest commit of the checkout.
///
/// # Errors
/// There is none, and attempts cannot start.
pub(super) fn target_of(workspace: &Workspace) -> Result<(String, CommitId)> {
    let head = workspace.repo.head()?;
    let why = match (landing_branch(workspace)?, head.commit) {
        (Some(branch), Some(head)) => return Ok((branch, head)),
        (None, _) => {
            "HEAD is detached; switch to the branch that work lands on, name one with `--onto`"
        }
        (_, None) => "the repository has no commit; create the first one",
    };
    let message = format!("attempts start from a branch: {why}, or use `--in-place`");
    Err(Failure::new(Exit::Error, message).into())
}

/// Returns what git reads as settings in the slots of a repository.
fn slot_settings(workspace: &Workspace) -> Result<SlotSettings> {
    workspace.repo.slots().settings(workspace.config.push)
}

impl RunSlots {
    /// Returns the slots of a run with this policy, and the branch that all work lands on.
    ///
    /// # Errors
    /// No branch is checked out, or no commit exists.
    pub(super) fn of(workspace: &Workspace, policy: &Policy) -> Result<(RunSlots, Option<String>)> {
        let (mut target, mut settings) = (None, None);
        let mut pool = SlotPool::of(workspace);
        if policy.is_isolated() {
            let (branch, head) = target_of(workspace)?;
            if workspace.config.onto.is_some()
                && let Err(why) = workspace.repo.landings().begin(&branch, &head)?
            {
                let message = format!("work cannot land on `{}`: {why}", visible(&branch));
                return Err(Failure::new(Exit::Usage, message).into());
            }
            (target, settings) = (Some(branch), Some(slot_settings(workspace)?));
            let folder = pool.folder();
            fs::create_dir_all(folder).with_context(|| {
                format!("create `{}`; `slot_dir` sets another folder", folder.display())
            })?;
            // The folder exists now, so this resolves it to the name that git uses.
            pool = SlotPool::of(workspace);
            hide(&pool, workspace)?;
        } else if let (Some(branch), None) = (&workspace.config.onto, &policy.plain) {
            let message = format!(
                "`onto: {branch}` needs slots, since attempts in the checkout land on its branch; \
                 leave out `--in-place` (`isolation: checkout`) or `onto`"
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let kept = suspect_slots::all(&workspace.state).into_iter().map(|slot| slot.path).collect();
        let secured = RefCell::default();
        let slots = RunSlots {
            pool,
            settings,
            kept,
            suspects: Vec::new(),
            preparing: 0,
            secured,
            has_spared: false,
        };
        Ok((slots, target))
    }

    /// Returns what git reads as settings in the slots.
    pub(super) fn settings(&self, workspace: &Workspace) -> Result<SlotSettings> {
        match &self.settings {
            Some(settings) => Ok(settings.clone()),
            // An earlier run was isolated, and this one closes its attempts.
            None => slot_settings(workspace),
        }
    }

    /// Whether any slot is being prepared.
    pub(super) fn is_preparing(&self) -> bool {
        self.preparing > 0
    }

    /// Keeps the slot of an open attempt out of use when it is released, because a process of the
    /// attempt may still work in it. The next runs must know that, too. Returns the slot if that is new.
    pub(super) fn suspect(
        &mut self,
        cx: &RunContext,
        record: &AttemptRecord,
        why: String,
    ) -> Result<()> {
        let (Some(slot), Some(run_on)) = (&record.slot, &record.run_on) else {
            return Ok(());
        };
        let (path, run_on, mark) = (slot.path.clone(), run_on.clone(), record.mark());
        let slot = SuspectSlot { path, run_on, mark, why };
        self.suspects.push(slot.clone());
        if suspect_slots::add(&cx.workspace.state, &slot)? {
            watch_suspect(cx, slot, Duration::from_secs(1));
        }
        Ok(())
    }

    /// Notes why a process may still work in a slot, or uses the slot again if none does.
    pub(super) fn suspicion(
        &mut self,
        cx: &RunContext,
        slot: SuspectSlot,
        why: Option<String>,
    ) -> Result<()> {
        let Some(why) = why else {
            self.suspects.retain(|suspect| suspect.path != slot.path);
            self.kept.retain(|kept| *kept != slot.path);
            return suspect_slots::remove(&cx.workspace.state, &slot);
        };
        suspect_slots::add(&cx.workspace.state, &SuspectSlot { why, ..slot }).map(drop)
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

    /// Returns the slot of the next attempt and the commit it starts from; `None` if the
    /// attempt works in the checkout.
    pub(super) fn assign<'s>(
        &self,
        cx: &RunContext,
        records: &Records,
        proving: impl Iterator<Item = &'s PathBuf>,
    ) -> Result<Option<(SlotAssignment, CommitId)>> {
        let Some(target) = cx.target.clone() else {
            return Ok(None);
        };
        let tip = cx.workspace.repo.landings().tip(&target)?;
        // Found at a landing, the same ends the run as work that is held.
        let tip = tip.ok_or_else(|| Failure::new(Exit::Waiting, Held::gone(&target).why))?;
        let path = self.free_slot(records, proving);
        Ok(Some((SlotAssignment { path, target, landing: None }, tip.commit)))
    }

    /// Returns a slot that no open attempt works in and that is none of `proving`, in which proofs are
    /// made.
    pub(super) fn free_slot<'s>(
        &self,
        records: &Records,
        proving: impl Iterator<Item = &'s PathBuf>,
    ) -> PathBuf {
        let used = records.values().filter_map(|record| Some(record.slot.as_ref()?.path.clone()));
        let taken = used.chain(self.kept.iter().cloned()).chain(proving.cloned());
        let taken: Vec<PathBuf> = taken.collect();
        self.pool.next(&taken)
    }

    /// Whether a slot is not reused.
    pub(super) fn is_kept(&self, slot: &Path) -> bool {
        self.kept.iter().any(|kept| kept == slot)
    }

    /// Starts preparing the slot of an attempt.
    pub(super) fn prepare(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        records: &Records,
        history: &History,
    ) -> Result<()> {
        let workspace = &cx.workspace;
        let record = records.get(id).context("an attempt without a record")?;
        let slot = record.slot.as_ref().context("an attempt without a slot")?;
        if let Some(settings) = &mut self.settings {
            // A person may have changed them, and `ralph` the list of ignored files.
            *settings = slot_settings(workspace)?;
            let calls = records.values().filter_map(|record| record.call.as_ref());
            calls.for_each(|call| settings.ignore(litter_of(call)));
            settings.ignore(&leftovers::unwanted(workspace, record.base.as_ref()));
        }
        let left = left_work(cx, history, &record.task_id)?;
        let attributes = attributes(workspace)?.file;
        // A failed attempt did not get on with its work, marked or not.
        let counted = |last: &LastAttempt| last.verdict.counts();
        let last = history.of(&record.task_id).last.as_deref();
        let marks = !last.is_some_and(counted);
        let order = SlotOrder {
            pool: self.pool.clone(),
            slot: slot.path.clone(),
            settings: self.settings(workspace)?,
            branch: attempt::branch_of(&record.task_id),
            base: record.base.clone().context("an attempt without a base")?,
            left: left.map(|(_, commit)| LeftWork { commit, attributes, marks }),
            graph: workspace.graph_in_git(),
            setup: executors::setup(&workspace.config, record.run_on.as_deref()),
            base_ref: workspace.place.base_ref(&record.task_id, record.attempt),
        };
        let (outbox, id) = (cx.outbox.clone(), id.clone());
        let executor = executors::find(&workspace.config, record.run_on.as_deref());
        self.preparing += 1;
        thread::spawn(move || {
            let message = match executor.map_or(Ok(()), |executor| placement::reach(&executor)) {
                Err(fault) => RunnerMessage::Missed(id, fault),
                Ok(()) => RunnerMessage::Prepared(id, slot_pool::prepare(&order)),
            };
            drop(outbox.send(message));
        });
        Ok(())
    }

    /// Handles the result of preparing the slot of an attempt. The copy of a graph that git does not
    /// track has the text `graph`.
    pub(super) fn slot_prepared(
        &mut self,
        cx: &RunContext,
        record: &mut AttemptRecord,
        prepared: Result<PreparedSlot>,
        (graph, history): (&str, &History),
        facts: &mut Facts,
    ) -> Result<Input> {
        let id = record.id();
        Ok(match prepared {
            // No other task fares better, and the next run continues with this one.
            Err(error) if exit::of_error(&error) == Exit::Disk => return Err(error),
            // It may pass, as the failure of a filter that needs a network or a key.
            Err(error) => {
                let fault = ExecutorFault::passing(format!("{error:#}"));
                Input::Unreachable { id, fault }
            }
            Ok(PreparedSlot::Kept(why)) => {
                let tree = record.slot.as_ref().map(|slot| slot.path.clone());
                let reason = self.keep(tree.unwrap_or_default(), why);
                Input::SlotKept(id, reason)
            }
            Ok(PreparedSlot::BadBase(why)) => Input::BadBase(id, why),
            Ok(PreparedSlot::Ready { slot: tree, restored, is_set_up }) => {
                (record.locks, record.controls) = (tree.locks(), Some(tree.local().controls()));
                let (mut unreadable, mut restored) = (None, restored);
                if let Some(RestoredWork::Unreadable(why)) = restored {
                    (unreadable, restored) = (Some(why), None);
                }
                let (conflicts, marked) = match restored.clone() {
                    Some(RestoredWork::Conflict(paths)) => (paths, Vec::new()),
                    Some(RestoredWork::Marked(paths)) => (Vec::new(), paths),
                    Some(RestoredWork::Done | RestoredWork::Unreadable(_)) | None => {
                        Default::default()
                    }
                };
                if restored.is_some() && conflicts.is_empty() {
                    let left = attempt::changed(&cx.workspace, &tree)?;
                    record.inherited = left.into_keys().collect();
                }
                record.marked.clone_from(&marked);
                record.write(&cx.workspace)?;
                record.clear_slot_reports(&cx.workspace)?;
                let base = record.base.clone().context("an attempt without a base")?;
                graph_copy::write(&cx.workspace, &tree, &base, graph)?;
                let is_told = restored.is_some() || unreadable.is_some();
                let left = if is_told { left_work(cx, history, &record.task_id)? } else { None };
                if let (Some(why), Some((from, _))) = (&unreadable, &left) {
                    let id = &record.task_id;
                    let text = format!("{id} starts over: {from} cannot be restored: {why}");
                    facts.of_attempt(record, RunEvent::Noticed { text });
                } else if let Some((from, _)) = left {
                    let attempt = record.attempt;
                    let restored = AttemptEvent::WorkRestored { attempt, from, conflicts, marked };
                    facts.of_attempt(record, restored);
                }
                Input::SlotReady { id, is_set_up }
            }
        })
    }

    /// Opens the repository in which an attempt worked, after all its processes have ended. Git
    /// then reads no setting in it that the attempt wrote.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub(super) fn secured_tree(
        &self,
        workspace: &Workspace,
        record: &AttemptRecord,
    ) -> Result<Rc<Repo>> {
        match record.slot.as_ref().and_then(|slot| self.unchanged(slot)) {
            Some(tree) => Ok(tree),
            None => self.secured(workspace, record, record.tree(workspace)?),
        }
    }

    /// Opens a slot with the settings that it had, whatever an attempt has written to them; none if it is no
    /// slot any more.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub(super) fn restored(
        &self,
        workspace: &Workspace,
        record: &AttemptRecord,
    ) -> Result<Option<Rc<Repo>>> {
        let Some(slot) = &record.slot else { return Ok(None) };
        let settings = self.settings(workspace)?;
        Ok(workspace.repo.slots().reopen(&slot.path, &settings)?.map(Rc::new))
    }

    /// Does the same with a repository that was opened after all processes of the attempt had ended.
    pub(super) fn secured(
        &self,
        workspace: &Workspace,
        record: &AttemptRecord,
        tree: Rc<Repo>,
    ) -> Result<Rc<Repo>> {
        let Some(slot) = &record.slot else {
            return Ok(tree);
        };
        let again = tree.slot().secure(&self.settings(workspace)?)?;
        let tree = again.map_or(tree, Rc::new);
        if !self.suspects.iter().any(|it| it.path == slot.path) && !self.has_spared {
            self.secured.replace(Some((slot.path.clone(), Rc::clone(&tree))));
        }
        Ok(tree)
    }

    /// Returns the repository in which an attempt worked as it was secured, or opens it if something
    /// may have changed it since.
    ///
    /// # Errors
    /// The slot no longer exists.
    pub(super) fn opened_tree(
        &self,
        workspace: &Workspace,
        record: &AttemptRecord,
    ) -> Result<Rc<Repo>> {
        let secured = record.slot.as_ref().and_then(|slot| self.unchanged(slot));
        secured.map_or_else(|| record.tree(workspace), Ok)
    }

    /// Releases the slot of an attempt whose end is recorded.
    pub(super) fn release(
        &mut self,
        workspace: &Workspace,
        record: &AttemptRecord,
        facts: &mut Facts,
    ) -> Result<()> {
        let Some(slot) = record.slot.clone() else {
            return Ok(());
        };
        let base = workspace.place.base_ref(&record.task_id, record.attempt);
        workspace.repo.drop_ref(&base)?;
        let _ = fs::remove_file(workspace.state.work(&slot_pool::name(&slot.path)));
        if let Some(why) = self.why_kept(workspace, record, &slot.path)? {
            let SlotReason { slot, why } = self.keep(slot.path, why);
            facts.of_run(AttemptEvent::SlotKept { slot, why });
        }
        Ok(())
    }

    /// Releases a slot, and returns why it cannot be reused, if so.
    fn why_kept(
        &mut self,
        workspace: &Workspace,
        record: &AttemptRecord,
        path: &Path,
    ) -> Result<Option<String>> {
        if let Some(at) = self.suspects.iter().position(|it| it.path == path) {
            return Ok(Some(self.suspects.remove(at).text()));
        }
        let Ok(tree) = self.opened_tree(workspace, record) else {
            // The slot was removed or never made.
            return Ok(None);
        };
        let pin = record.pin(&workspace.place);
        let kept = workspace.repo.commit_of(&pin)?;
        if !record.dirty.is_empty() {
            // What the setup left there is not ignored by git, so it goes with the rest.
            tree.slot().note_setup(None)?;
        }
        let (main, setup) =
            (&workspace.repo, executors::setup(&workspace.config, record.run_on.as_deref()));
        // A damaged slot is recognized below.
        let head = tree.head().ok().and_then(|head| head.commit);
        if let (Some(base), Some(head)) = (&record.base, head)
            && let Ok(Some(path)) = tree.nested_repository(base, &head)
        {
            let why = format!("it has the repository `{path}`, whose commits are nowhere else");
            return Ok(Some(why));
        }
        Ok(match slot_pool::release(main, &tree, kept.as_deref(), &setup) {
            Ok(why) => why,
            Err(error) => Some(format!("{error:#}")),
        })
    }
}

/// Notes that a slot for merges is set up, before command `number` of a trial: its first
/// commands are those of the setup, and all before this one have passed.
pub(super) fn note_trial_setup(workspace: &Workspace, merge: &Path, number: usize) -> Result<()> {
    let setup = &workspace.config.setup.0;
    match workspace.repo.slots().open(merge).filter(|_| number == setup.len() + 1) {
        // Files that git does not ignore do not stay in a slot.
        Some(slot) if slot.dirty()?.is_empty() => slot_pool::note_setup(&slot, setup),
        _ => Ok(()),
    }
}

/// Returns the ref and the commit of the work that the next attempt at a task continues.
fn left_work(
    cx: &RunContext,
    history: &History,
    id: &TaskId,
) -> Result<Option<(String, CommitId)>> {
    let left = history.of(id).left.clone();
    let Some(name) = left.filter(|_| cx.workspace.config.continues_work()) else {
        return Ok(None);
    };
    Ok(cx.workspace.repo.commit_of(&name)?.map(|commit| (name, commit)))
}

/// Excludes slots inside the repository from its `git status`.
fn hide(pool: &SlotPool, workspace: &Workspace) -> Result<()> {
    let Ok(inside) = pool.folder().strip_prefix(workspace.root()) else {
        return Ok(());
    };
    let inside = inside.display();
    if workspace.repo.local().is_ignored(&format!("{inside}/x"))? {
        return Ok(());
    }
    workspace.repo.local().exclude(&[&format!("/{inside}/")])
}
