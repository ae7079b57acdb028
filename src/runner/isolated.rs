//! Attempts that have a work tree to themselves: how it is prepared, and how it is let go of.
//!
//! Git may take seconds to fill a work tree, so that is done beside the loop. Where two attempts can
//! go on at once, none of them is ever in the checkout that people work in.

use std::{fs, path::PathBuf, thread};

use anyhow::{Context, Result, anyhow};

use super::{Runner, RunnerMessage, close::PendingResult, verify::ProcessStage};
use crate::{
    core::{
        event::{Cause, Event, Harm},
        exit::{Exit, Failure},
        graph::{
            TaskGraph,
            merge::{self, Texts},
            task::{Status, TaskId},
        },
        select::Policy,
        verdict::{Outcome, Verdict},
    },
    project::{
        attempt::{self, AttemptRecord, WorktreeAssignment},
        graph_file::graph_of,
        workspace::Workspace,
        worktree_pool::{self, PreparedWorktree, WorktreeOrder, WorktreePool},
    },
};

/// The work trees of a run.
pub(super) struct RunWorktrees {
    pub(super) pool: WorktreePool,
    /// The branch that everything is merged into; none where attempts work in the checkout.
    target: Option<String>,
    /// The work trees that are left as they are.
    kept: Vec<PathBuf>,
    /// The attempts whose work trees are being prepared.
    pub(super) preparing: Vec<AttemptRecord>,
}

impl RunWorktrees {
    /// Those of a run with these rules.
    ///
    /// # Errors
    /// No branch, or no commit, to begin with.
    pub(super) fn of(workspace: &Workspace, policy: &Policy) -> Result<RunWorktrees> {
        let mut target = None;
        let mut pool = WorktreePool::of(workspace);
        workspace.repo.undo_begun(pool.folder())?;
        if policy.is_apart(workspace.config.worktree) {
            let head = workspace.repo.head()?;
            let why = match (&head.branch, &head.commit) {
                (Some(_), Some(_)) => "",
                (None, _) => "HEAD is detached; switch to the branch that all work is merged into",
                (_, None) => "there is no commit to begin with; make the first one",
            };
            if !why.is_empty() {
                let message = format!("attempts in work trees of their own need a branch: {why}");
                return Err(Failure::new(Exit::Error, message).into());
            }
            if workspace.repo.branch(attempt::BRANCHES)?.is_some() {
                let message = format!(
                    "branch `{name}` is in the way of `{name}/…`, the branches of attempts in work \
                     trees of their own: git has a folder for these; rename it",
                    name = attempt::BRANCHES
                );
                return Err(Failure::new(Exit::Error, message).into());
            }
            target = head.branch;
            let folder = pool.folder();
            fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
            // Now that it is there, by the name that git has for it.
            pool = WorktreePool::of(workspace);
            hide(&pool, workspace)?;
        }
        let (kept, preparing) = (Vec::new(), Vec::new());
        Ok(RunWorktrees { pool, target, kept, preparing })
    }
}

/// Keeps work trees that are inside the repository out of `git status` there.
fn hide(pool: &WorktreePool, workspace: &Workspace) -> Result<()> {
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
    /// Whether attempts have work trees to themselves.
    pub(super) fn is_apart(&self) -> bool {
        self.trees.target.is_some()
    }

    /// Where the next attempt works, and with which commit it begins; none where that is the
    /// checkout that people work in.
    pub(super) fn place_apart(&self) -> Result<Option<(WorktreeAssignment, String)>> {
        let Some(target) = self.trees.target.clone() else {
            return Ok(None);
        };
        let base = self.tip(&target)?;
        let base = base.with_context(|| format!("branch `{target}` is gone; make it again"))?;
        Ok(Some((WorktreeAssignment { tree: self.free_tree(), target, landing: None }, base)))
    }

    fn free_tree(&self) -> PathBuf {
        let queue = &self.queue;
        let open = self.running.iter().map(|running| &running.record);
        let open = open.chain(&self.trees.preparing).chain(queue.records());
        let used = open.filter_map(|record| Some(record.apart.as_ref()?.tree.clone()));
        let taken: Vec<PathBuf> = used.chain(self.trees.kept.iter().cloned()).collect();
        self.trees.pool.next(&taken)
    }

    /// Where a branch is.
    pub(super) fn tip(&self, branch: &str) -> Result<Option<String>> {
        Ok(self.workspace.repo.branch(branch)?.map(String::from))
    }

    /// Has the work tree of an attempt prepared.
    pub(super) fn prepare(&mut self, record: AttemptRecord) -> Result<()> {
        let apart = record.apart.as_ref().context("an attempt without a place")?;
        let order = WorktreeOrder {
            pool: self.trees.pool.clone(),
            tree: apart.tree.clone(),
            branch: attempt::branch_of(&record.task_id),
            name: record.name(),
            base: record.base.clone().context("an attempt without a base")?,
            pins: self.workspace.place.pins(&record.task_id),
        };
        let (outbox, name) = (self.outbox.clone(), record.name());
        self.trees.preparing.push(record);
        thread::spawn(move || {
            let prepared = worktree_pool::prepare(&order);
            drop(outbox.send(RunnerMessage::Prepared(name, prepared)));
        });
        Ok(())
    }

    /// Goes on with an attempt whose work tree is prepared.
    pub(super) fn prepared(
        &mut self,
        name: &str,
        prepared: Result<PreparedWorktree>,
    ) -> Result<()> {
        let named = |record: &AttemptRecord| record.name() == name;
        let Some(at) = self.trees.preparing.iter().position(named) else {
            return Ok(());
        };
        let mut record = self.trees.preparing.remove(at);
        if self.is_ending() {
            return self.close(
                &record,
                PendingResult { outcome: Outcome::Cancelled, ..PendingResult::default() },
            );
        }
        match prepared {
            Err(error) => self.close(&record, PendingResult::not_started(&error)),
            Ok(PreparedWorktree::Kept(why)) => {
                let tree = record.apart.as_ref().map(|apart| apart.tree.clone());
                self.keep_tree(tree.unwrap_or_default(), why)?;
                let tree = self.free_tree();
                record.apart = record.apart.map(|apart| WorktreeAssignment { tree, ..apart });
                record.write(&self.workspace)?;
                self.prepare(record)
            }
            Ok(PreparedWorktree::Ready(branch)) => {
                record.branch = Some(branch);
                let tree = match record.tree(&self.workspace) {
                    Ok(tree) => tree,
                    Err(error) => return self.close(&record, PendingResult::not_started(&error)),
                };
                (record.locks, record.controls) = (tree.locks(), Some(tree.controls()));
                record.write(&self.workspace)?;
                let stage = self.stage_of_setup(&record);
                self.launch(record, stage)
            }
        }
    }

    /// Leaves a work tree as it is.
    pub(super) fn keep_tree(&mut self, tree: PathBuf, why: String) -> Result<()> {
        let worktree = tree.display().to_string();
        self.trees.kept.push(tree);
        self.emit(None, Event::WorktreeKept { worktree, why })
    }

    /// Takes over what an attempt wrote into its own copy of the graph: new tasks. Of its own task it
    /// is what the attempt reports, which is returned; the rest is told and left there.
    pub(super) fn take_over(&mut self, record: &AttemptRecord) -> Result<Option<Status>> {
        let path = self.workspace.graph_name();
        if record.apart.is_none() {
            return Ok(None);
        }
        let (Some(base), Ok(tree)) = (&record.base, record.tree(&self.workspace)) else {
            return Ok(None);
        };
        let now = fs::read_to_string(tree.root().join(&path));
        let (Ok(now), Some(was)) = (now, tree.file_at(base, &path)?) else {
            return Ok(None);
        };
        let was = String::from_utf8_lossy(&was).into_owned();
        if was == now {
            return Ok(None);
        }
        let Some(old) = graph_of(was.as_bytes()) else {
            return Ok(None);
        };
        let Some(new) = graph_of(now.as_bytes()) else {
            self.guarded(record, Harm::Apart, Vec::new(), true, None)?;
            return Ok(None);
        };
        let status = |graph: &TaskGraph, id: &TaskId| {
            graph.number(id).map(|number| graph.task(number).status)
        };
        let is_other = |id: &TaskId| *id != record.task_id && status(&old, id) != status(&new, id);
        let ids = old.tasks().iter().map(|task| task.id.clone());
        let others: Vec<TaskId> = ids.filter(is_other).collect();
        if !others.is_empty() {
            self.guarded(record, Harm::Apart, others, true, None)?;
        }
        let unknown = new.tasks().iter().map(|task| task.id.clone());
        let unknown: Vec<TaskId> = unknown.filter(|id| old.number(id).is_none()).collect();
        let adopt = |ours: &str| {
            let texts = Texts { base: &was, ours, theirs: &now };
            merge::adopt(texts).map_err(|why| anyhow!("{}", why.reason))
        };
        match self.file.put_in(&self.workspace.state, adopt) {
            Ok(foreign) => self.note(foreign, Cause::EditedDuringAttempt)?,
            // They would make no good graph.
            Err(_) => self.guarded(record, Harm::Apart, unknown, true, None)?,
        }
        let said = status(&new, &record.task_id);
        Ok(said.filter(|said| Some(*said) != status(&old, &record.task_id)))
    }

    /// Lets go of the work tree of an attempt that is on record as closed.
    pub(super) fn release(&mut self, record: &AttemptRecord, verdict: Verdict) -> Result<()> {
        let Some(apart) = record.apart.clone() else {
            return Ok(());
        };
        let Ok(tree) = record.tree(&self.workspace) else {
            // Somebody has removed it, or it was never made: then there is nothing to unlock.
            let _ = self.workspace.repo.unlock_worktree(&apart.tree);
            return Ok(());
        };
        let pin =
            attempt::leftovers::pin_name(&self.workspace.place, &record.task_id, record.attempt);
        let kept = self.workspace.repo.commit_of(&pin)?;
        let branch = record.branch.as_deref().filter(|_| verdict == Verdict::Complete);
        match worktree_pool::release(&tree, kept.as_deref(), branch) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => self.keep_tree(apart.tree, why),
            Err(error) => self.keep_tree(apart.tree, format!("{error:#}")),
        }
    }

    /// The stage that prepares the work tree of an attempt further, where the settings name
    /// commands for that; else the first one of all attempts.
    fn stage_of_setup(&self, record: &AttemptRecord) -> ProcessStage {
        let commands = self.workspace.config.setup.0.clone();
        if commands.is_empty() { self.first_stage(record) } else { ProcessStage::setup(commands) }
    }
}
