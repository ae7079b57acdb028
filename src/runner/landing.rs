//! The git operations of the merge queue: combining work on top of the tip of the target branch,
//! and moving the tip. The branch and its checkout follow.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    RunnerMessage,
    attempts::Records,
    checkout_graph,
    context::{RunContext, task_of},
    core::RunCore,
    graph_copy::GraphChange,
    side_command::{Regeneration, SideCommands},
    slots::RunSlots,
    trial_order::{Completion, TrialOrder, WorkToLand},
};
use crate::{
    adapters::git::{Repo, TipStanding},
    core::{
        commit_id::CommitId,
        event::{LandingEvent, RunEvent, WaitingWork},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        loop_paths,
        run::{
            Run,
            command::{AttemptId, LandingCommand},
            input::{Input, LandOutcome},
            verified_work::VerifiedWork,
        },
        select::TaskState,
    },
    crash,
    project::{
        attempt::{AttemptRecord, CONFLICT, leftovers},
        follower::{BUSY, Followed, Follower},
        merge_attributes::attributes,
        slot_pool::{self, SlotPool},
        workspace::Workspace,
    },
};

/// The pause between two looks whether a branch that waits can follow.
const LOOK: Duration = Duration::from_secs(5);

/// The longest time for a command that makes a file again; the queue waits for it.
const REGENERATION: Duration = Duration::from_secs(120);

/// The file that declares submodules.
const MODULES: &str = ".gitmodules";

/// A tip to move, and the branch that follows.
struct LandOrder {
    follower: Follower,
    root: PathBuf,
    trial_ref: String,
    branch: String,
    onto: CommitId,
    commit: CommitId,
}

impl LandOrder {
    /// Moves the tip.
    fn land(&self) -> Result<LandOutcome> {
        let repo = Repo::discover(&self.root)?;
        if !repo.landings().land(&self.branch, &self.onto, &self.commit)? {
            return Ok(LandOutcome::Moved);
        }
        crash::point("land.moved");
        repo.drop_ref(&self.trial_ref)?;
        Ok(LandOutcome::Landed { waits: false })
    }
}

/// Removes the leftovers of trials, when none runs.
pub(super) fn drop_trials(workspace: &Workspace) -> Result<()> {
    /// More slots than the merge queue of a run has.
    const MOST: usize = 64;
    let pool = SlotPool::of(workspace);
    (0..MOST).try_for_each(|slot| {
        let _ = fs::remove_file(workspace.state.work(&slot_pool::name(&pool.merge(slot))));
        workspace.repo.drop_ref(&workspace.place.trial_ref(slot))
    })
}

/// The landings of a run.
#[derive(Default)]
pub(super) struct RunLanding {
    /// The graph changes of each attempt's landing.
    pub(super) changes: BTreeMap<AttemptId, GraphChange>,
    /// The tip and the branch that a person has committed on besides, with the commit of both; none
    /// if they conflict.
    joined: Option<([CommitId; 2], Option<CommitId>)>,
    /// Journaled work that waits for the checkout.
    waiting: Option<WaitingWork>,
    /// When it is due to look whether the branch can follow; none while it has all that landed.
    look: Option<Instant>,
    /// Whether another thread moves the branch.
    is_following: bool,
}

/// The inputs of a merge queue step: the attempts, their graph, and the slots.
#[derive(Clone, Copy)]
pub(super) struct LandingView<'a> {
    pub(super) run: &'a Run,
    pub(super) records: &'a Records,
    pub(super) graph: &'a TaskGraph,
    /// The text of the graph, if it differs from the landed one.
    pub(super) edited: Option<&'a str>,
    pub(super) slots: &'a RunSlots,
}

/// Combines the work of an attempt with a commit below it, or checks out that commit alone, in another
/// thread and in a slot of the merge queue.
fn build(
    cx: &RunContext,
    onto: CommitId,
    (id, work): (&AttemptId, Option<WorkToLand>),
    slot: usize,
    view: LandingView<'_>,
) -> Result<()> {
    let workspace = &cx.workspace;
    let record = view.records.get(id).context("a trial without a record")?;
    let (attributes, merge) = (attributes(workspace)?, view.slots.pool.merge(slot));
    let place = (&*merge, "regenerate");
    let order = TrialOrder {
        main: workspace.root().to_owned(),
        pool: view.slots.pool.clone(),
        slot,
        settings: view.slots.settings(workspace)?,
        trial_ref: workspace.place.trial_ref(slot),
        setup: workspace.config.setup.0.clone(),
        onto,
        work,
        how: workspace.config.merge,
        regeneration: Regeneration {
            runs: SideCommands::of(cx, view.graph, record, place, &[]),
            output: record.file(workspace, "regenerate.log"),
            limit: workspace.config.verify_timeout.min(REGENERATION),
        },
        attributes,
        conflict: record.file(workspace, CONFLICT),
    };
    let (outbox, id) = (cx.outbox.clone(), id.clone());
    thread::spawn(move || drop(outbox.send(RunnerMessage::Built(id, order.build()))));
    Ok(())
}

impl RunLanding {
    /// The landings of a run after what its journal has.
    pub(super) fn of(history: &History) -> RunLanding {
        RunLanding { waiting: history.active.waiting.clone(), ..RunLanding::default() }
    }

    /// Carries out a step of the merge queue. The commit that is about to land is in the record
    /// `own` before it lands.
    pub(super) fn carry_out(
        &mut self,
        cx: &RunContext,
        command: LandingCommand,
        view: LandingView<'_>,
    ) -> Result<Option<Input>> {
        match command {
            LandingCommand::Build { onto, id, slot } => {
                let work = self.work_to_land(cx, &id, view)?;
                build(cx, onto, (&id, Some(work)), slot, view)?;
            }
            LandingCommand::CheckOut { id, onto, slot } => {
                build(cx, onto, (&id, None), slot, view)?;
            }
            LandingCommand::Land { verified, slot } => self.land(cx, &verified, slot),
            LandingCommand::KeepLog { from, to } => {
                let root = cx.workspace.root();
                // A missing file needs no action.
                let _ = fs::rename(root.join(from), root.join(to));
            }
            // The owner of the records does that.
            LandingCommand::Record(..) => {}
        }
        Ok(None)
    }

    /// Returns the work of an attempt that is queued to land.
    fn work_to_land(
        &self,
        cx: &RunContext,
        id: &AttemptId,
        view: LandingView<'_>,
    ) -> Result<WorkToLand> {
        let (workspace, repo) = (&cx.workspace, &cx.workspace.repo);
        let mut own: Vec<String> = workspace.graph_in_git().into_iter().collect();
        let record = view.records.get(id).context("queued work without a record")?;
        let end = view.run.attempts().get(id).and_then(|open| open.phase.result());
        let evidence = &end.context("queued work without an end")?.evidence;
        let base = record.base.clone().context("queued work without a base")?;
        // A task that needs no commit may have none.
        let head = evidence.commits.last().map_or_else(|| base.clone(), |it| it.id.clone());
        let mut has_new_modules = false;
        if base != head {
            // An agent may have added files that git ignores, such as the journal.
            let changed = repo.differing(Some(&base), &head)?;
            has_new_modules = changed.iter().any(|path| path == MODULES);
            own.extend(changed.into_iter().filter(|path| loop_paths::is_own_or_above(path)));
        }
        let title = task_of(view.graph, record).map(|task| task.title);
        let title = title.unwrap_or_else(|| record.task_id.to_string());
        let completion = self.completion(workspace, id, record, &title, view.edited)?;
        let message = leftovers::message(record, &title);
        let started_from = record.started_from.clone();
        Ok(WorkToLand { base, started_from, head, message, own, has_new_modules, completion })
    }

    /// Returns the completion of an attempt's task in git; none if the graph is not there.
    fn completion(
        &self,
        workspace: &Workspace,
        id: &AttemptId,
        record: &AttemptRecord,
        title: &str,
        edited: Option<&str>,
    ) -> Result<Option<Completion>> {
        let Some(path) = workspace.graph_in_git() else { return Ok(None) };
        let change = self.changes.get(id).context("queued work without a change")?.clone();
        let message = leftovers::completion_message(record, title);
        Ok(Some(Completion { path, change, message, edited: edited.map(str::to_owned) }))
    }

    /// Moves the tip to the last commit of verified work, and the branch, in another thread.
    fn land(&mut self, cx: &RunContext, verified: &VerifiedWork, slot: usize) {
        let order = LandOrder {
            follower: Follower::of(&cx.workspace, verified.branch()),
            root: cx.workspace.root().to_owned(),
            trial_ref: cx.workspace.place.trial_ref(slot),
            branch: verified.branch().to_owned(),
            onto: verified.onto().clone(),
            commit: verified.tip().clone(),
        };
        let outbox = cx.outbox.clone();
        self.is_following = true;
        thread::spawn(move || {
            let mut landed = order.land();
            let mut followed = None;
            if let Ok(LandOutcome::Landed { waits }) = &mut landed {
                let level = followed.insert(order.follower.follow(BUSY));
                *waits = !matches!(level, Ok(Followed::Level));
            }
            drop(outbox.send(RunnerMessage::Landed(landed, followed)));
        });
    }

    /// Returns the base commit of a trial: the tip of a branch, with a person's own commits on the
    /// branch; none if the branch does not exist.
    pub(super) fn base_of_trial(
        &mut self,
        workspace: &Workspace,
        branch: &str,
    ) -> Result<Option<CommitId>> {
        let Some(tip) = workspace.repo.landings().tip(branch)? else { return Ok(None) };
        if tip.standing != TipStanding::Diverged {
            return Ok(Some(tip.commit));
        }
        let both = [tip.commit.clone(), tip.branch.clone()];
        let known = self.joined.as_ref().filter(|(known, _)| *known == both);
        let joined = match known {
            Some((_, joined)) => joined.clone(),
            None => workspace.repo.landings().joined(branch, &tip)?,
        };
        self.joined = Some((both, joined.clone()));
        Ok(Some(joined.unwrap_or(tip.commit)))
    }

    /// The time until it is due to look whether the branch can follow.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let look = self.look.filter(|_| !self.is_following);
        look.map(|at| at.saturating_duration_since(now))
    }

    /// Has the branch follow in another thread, if that is due.
    pub(super) fn look(&mut self, cx: &RunContext) {
        let Some(branch) = &cx.target else { return };
        if self.patience(Instant::now()) != Some(Duration::ZERO) {
            return;
        }
        let (follower, outbox) = (Follower::of(&cx.workspace, branch), cx.outbox.clone());
        self.is_following = true;
        thread::spawn(move || drop(outbox.send(RunnerMessage::Followed(follower.follow(BUSY)))));
    }

    /// Has the branch follow, at the start and at the end of a run. Waits at most this long for the
    /// lock of another git process.
    pub(super) fn follow(&mut self, core: &mut RunCore, busy: Duration) -> Result<()> {
        let Some(branch) = &core.cx.target else { return Ok(()) };
        let follower = Follower::of(&core.cx.workspace, branch);
        if let Some(carried) = follower.carry_over(&core.cx.workspace.repo)? {
            let text = carried.text(branch);
            core.emit(None, RunEvent::Noticed { text })?;
        }
        self.followed(core, follower.follow(busy))
    }

    /// Commits the statuses of the tasks that wait for a person, which only the journal has so far.
    pub(super) fn mark_standing(&mut self, core: &mut RunCore) -> Result<()> {
        let Some(branch) = core.cx.target.clone().filter(|_| core.graph.is_read_only()) else {
            return Ok(());
        };
        // A mark that the checkout lacks would hide a person's reaction there.
        self.follow(core, BUSY)?;
        if self.waiting.is_some() {
            return Ok(());
        }
        let now = Utc::now();
        let standing = core.with_view(|view| {
            let status = |number: usize| {
                let state = view.state(number, now);
                let is_parked = matches!(state, TaskState::Parked(_));
                let status = if is_parked { Status::InProgress } else { Status::NeedsInput };
                if !is_parked && state != TaskState::NeedsInput {
                    return None;
                }
                let task = view.graph.task(number);
                (task.status != status).then(|| (task.id.clone(), status))
            };
            view.frontier().filter_map(status).collect::<Vec<_>>()
        });
        if !standing.is_empty() {
            checkout_graph::commit_standing(&core.cx.workspace, &branch, &standing)?;
        }
        Ok(())
    }

    /// Records where the branch is after it was to follow.
    pub(super) fn followed(
        &mut self,
        core: &mut RunCore,
        followed: Result<Followed>,
    ) -> Result<()> {
        self.is_following = false;
        match followed {
            Ok(Followed::Level) => {
                self.look = None;
                let branch = core.cx.target.as_ref().filter(|_| self.waiting.take().is_some());
                if let Some(branch) = branch
                    && let Some(commit) = core.cx.workspace.repo.branch(branch)?
                {
                    let branch = branch.clone();
                    core.emit(None, LandingEvent::CheckoutFollowed { branch, commit })?;
                }
            }
            Ok(Followed::Waits(waiting)) => {
                self.look = Some(Instant::now() + LOOK);
                let is_new = self.waiting.as_ref().is_none_or(|known| !known.is_for(&waiting));
                self.waiting = Some(waiting.clone());
                if is_new {
                    core.emit(None, LandingEvent::CheckoutWaits(waiting))?;
                }
            }
            // The work has landed; the branch is tried again.
            Err(_) => self.look = Some(Instant::now() + LOOK),
        }
        Ok(())
    }

    /// Returns when a task was complete according to the commit that landed with its work.
    pub(super) fn landed_at(&self, records: &Records, id: &TaskId) -> Option<String> {
        let (landed, _) = records
            .iter()
            .find(|(_, record)| record.task_id == *id && record.landing().is_some())?;
        self.changes.get(landed).map(|change| change.at.clone())
    }
}
