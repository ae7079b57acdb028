//! Isolated attempts: how their worktrees are prepared and released.
//!
//! Git may take seconds to fill a worktree, so other threads do that. Where two attempts can run at
//! once, none of them uses the checkout that people work in.

use std::{fs, path::PathBuf, thread};

use anyhow::{Context, Result, anyhow};

use super::{Runner, RunnerMessage, harm::GraphChanges};
use crate::{
    adapters::{
        git::Repo,
        state::{self, Stamp},
    },
    core::{
        commit_id::CommitId,
        event::{Cause, Event, Harm},
        exit::{Exit, Failure},
        graph::{
            TaskGraph,
            merge::{self, Texts},
            task::{Status, TaskId},
        },
        run::{
            command::AttemptId,
            input::{Input, WorktreeReason},
        },
        select::Policy,
        verdict::Verdict,
    },
    project::{
        attempt::{self, AttemptRecord, WorktreeAssignment},
        graph_file::{Write, graph_of, read_graph},
        workspace::Workspace,
        worktree_pool::{self, PreparedWorktree, WorktreeOrder, WorktreePool},
    },
};

/// The worktrees of a run.
pub(super) struct RunWorktrees {
    pub(super) pool: WorktreePool,
    /// The branch that all work lands on; `None` if attempts work in the checkout.
    target: Option<String>,
    /// The worktrees that are not reused.
    kept: Vec<PathBuf>,
    /// The number of worktrees that are being prepared.
    preparing: usize,
}

impl RunWorktrees {
    /// Returns the worktrees of a run with this policy.
    ///
    /// # Errors
    /// No branch is checked out, no commit exists, or a branch name conflicts.
    pub(super) fn of(workspace: &Workspace, policy: &Policy) -> Result<RunWorktrees> {
        let mut target = None;
        let mut pool = WorktreePool::of(workspace);
        workspace.repo.undo_begun(pool.folder())?;
        if policy.is_isolated(workspace.config.worktree) {
            let head = workspace.repo.head()?;
            let why = match (&head.branch, &head.commit) {
                (Some(_), Some(_)) => "",
                (None, _) => "HEAD is detached; switch to the branch that work lands on",
                (_, None) => "the repository has no commit; create the first one",
            };
            if !why.is_empty() {
                let message = format!("isolated attempts need a branch: {why}");
                return Err(Failure::new(Exit::Error, message).into());
            }
            if workspace.repo.branch(attempt::BRANCHES)?.is_some() {
                let message = format!(
                    "branch `{name}` conflicts with `{name}/…`, the branches of isolated attempts; \
                     rename it",
                    name = attempt::BRANCHES
                );
                return Err(Failure::new(Exit::Error, message).into());
            }
            target = head.branch;
            let folder = pool.folder();
            fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
            // The folder exists now, so this resolves it to the name that git uses.
            pool = WorktreePool::of(workspace);
            hide(&pool, workspace)?;
        }
        Ok(RunWorktrees { pool, target, kept: Vec::new(), preparing: 0 })
    }

    /// Whether any worktree is being prepared.
    pub(super) fn is_preparing(&self) -> bool {
        self.preparing > 0
    }

    /// Excludes a worktree from reuse for the rest of the run.
    fn keep(&mut self, tree: PathBuf, why: String) -> WorktreeReason {
        let worktree = tree.display().to_string();
        self.kept.push(tree);
        WorktreeReason { worktree, why }
    }
}

/// Excludes worktrees inside the repository from its `git status`.
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
    /// Whether attempts are isolated.
    pub(super) fn is_isolated(&self) -> bool {
        self.worktrees.target.is_some()
    }

    /// Returns the worktree of the next attempt and the commit it starts from; `None` if the
    /// attempt works in the checkout.
    pub(super) fn assign_worktree(&self) -> Result<Option<(WorktreeAssignment, CommitId)>> {
        let Some(target) = self.worktrees.target.clone() else {
            return Ok(None);
        };
        let base = self.tip(&target)?;
        let base =
            base.with_context(|| format!("branch `{target}` no longer exists; create it again"))?;
        Ok(Some((WorktreeAssignment { tree: self.free_worktree(), target, landing: None }, base)))
    }

    fn free_worktree(&self) -> PathBuf {
        let used =
            self.records.values().filter_map(|record| Some(record.worktree.as_ref()?.tree.clone()));
        let taken: Vec<PathBuf> = used.chain(self.worktrees.kept.iter().cloned()).collect();
        self.worktrees.pool.next(&taken)
    }

    /// Starts preparing the worktree of an attempt.
    pub(super) fn prepare_worktree(&mut self, id: &AttemptId) -> Result<()> {
        let record = self.records.get(id).context("an attempt without a record")?;
        let worktree = record.worktree.as_ref().context("an attempt without a worktree")?;
        let order = WorktreeOrder {
            pool: self.worktrees.pool.clone(),
            tree: worktree.tree.clone(),
            branch: attempt::branch_of(&record.task_id),
            name: record.name(),
            base: record.base.clone().context("an attempt without a base")?,
            pins: self.workspace.place.pins(&record.task_id),
        };
        let (outbox, id) = (self.inbox.sender(), id.clone());
        self.worktrees.preparing += 1;
        thread::spawn(move || {
            let prepared = worktree_pool::prepare(&order);
            drop(outbox.send(RunnerMessage::Prepared(id, prepared)));
        });
        Ok(())
    }

    /// Assigns another worktree to an attempt and starts preparing it.
    pub(super) fn reassign_worktree(&mut self, id: &AttemptId) -> Result<()> {
        let tree = self.free_worktree();
        if let Some(record) = self.records.get_mut(id) {
            record.worktree =
                record.worktree.take().map(|worktree| WorktreeAssignment { tree, ..worktree });
            record.write(&self.workspace)?;
        }
        self.prepare_worktree(id)
    }

    /// Handles the result of preparing the worktree of an attempt.
    pub(super) fn worktree_prepared(
        &mut self,
        id: &AttemptId,
        prepared: Result<PreparedWorktree>,
    ) -> Result<Option<Input>> {
        self.worktrees.preparing = self.worktrees.preparing.saturating_sub(1);
        let Some(record) = self.records.get_mut(id) else {
            return Ok(None);
        };
        let id = id.clone();
        let input = match prepared {
            Err(error) => Input::NotStarted(id, format!("{error:#}")),
            Ok(PreparedWorktree::Kept(why)) => {
                let tree = record.worktree.as_ref().map(|worktree| worktree.tree.clone());
                let reason = self.worktrees.keep(tree.unwrap_or_default(), why);
                Input::WorktreeKept(id, reason)
            }
            Ok(PreparedWorktree::Ready(branch)) => {
                record.branch = Some(branch);
                let base = record.base.clone().context("an attempt without a base")?;
                match record.tree(&self.workspace) {
                    Err(error) => Input::NotStarted(id, format!("{error:#}")),
                    Ok(tree) => {
                        (record.locks, record.controls) = (tree.locks(), Some(tree.controls()));
                        record.write(&self.workspace)?;
                        self.copy_graph(&tree, &base)?;
                        Input::WorktreeReady(id)
                    }
                }
            }
        };
        Ok(Some(input))
    }

    /// Adopts the new tasks that an attempt wrote into its own copy of the graph. Other changes are
    /// recorded and discarded.
    pub(super) fn adopt_graph_changes(&mut self, record: &AttemptRecord) -> Result<GraphChanges> {
        let nothing = GraphChanges::default();
        let path = self.workspace.graph_name();
        if record.worktree.is_none() || path.starts_with('/') {
            return Ok(nothing);
        }
        let (Some(base), Ok(tree)) = (&record.base, record.tree(&self.workspace)) else {
            return Ok(nothing);
        };
        let copy = tree.root().join(&path);
        let Ok(now) = fs::read_to_string(&copy) else {
            return Ok(nothing);
        };
        let tracked = tree.file_at(base, &path)?;
        if tracked.is_none() {
            // It must not look like work that the attempt left.
            fs::remove_file(&copy).with_context(|| format!("remove `{}`", copy.display()))?;
        }
        // A graph that git does not track was copied from the main checkout.
        let was = tracked.map_or_else(
            || self.graph.file.text().to_owned(),
            |was| String::from_utf8_lossy(&was).into_owned(),
        );
        let Some(old) = graph_of(was.as_bytes()).filter(|_| was != now) else {
            return Ok(nothing);
        };
        let new = match read_graph(&path, &now) {
            Ok(new) => new,
            Err(fault) => {
                self.emit_guarded(record, Harm::OwnCopy, Vec::new(), true, None)?;
                return Ok(GraphChanges { fault: Some(fault), ..nothing });
            }
        };
        let status = |graph: &TaskGraph, id: &TaskId| {
            graph.number(id).map(|number| graph.task(number).status)
        };
        let main = self.graph.file.graph();
        // The agent may have merged what has landed since its start.
        let is_other = |id: &TaskId| {
            let set = status(&new, id);
            *id != record.task_id && set != status(&old, id) && set != status(main, id)
        };
        let ids = old.tasks().iter().map(|task| task.id.clone());
        let others: Vec<TaskId> = ids.filter(is_other).collect();
        let is_new = |id: &TaskId| old.number(id).is_none() && main.number(id).is_none();
        let unknown = new.tasks().iter().map(|task| task.id.clone());
        let unknown: Vec<TaskId> = unknown.filter(is_new).collect();
        if !others.is_empty() {
            self.emit_guarded(record, Harm::OwnCopy, others.clone(), true, None)?;
        }
        let adopt = |ours: &str| {
            let texts = Texts { base: &was, ours, theirs: &now };
            merge::adopt(texts).map_err(|why| anyhow!("{}", why.reason))
        };
        let added = if let Ok(foreign) = self.graph.file.put_in(&self.workspace.state, adopt) {
            self.note(foreign, Cause::EditedDuringAttempt)?;
            unknown
        } else {
            // The new tasks would make the graph invalid.
            self.emit_guarded(record, Harm::OwnCopy, unknown, true, None)?;
            Vec::new()
        };
        let own = status(&new, &record.task_id);
        let own = own.filter(|own| Some(*own) != status(&old, &record.task_id));
        let others = [others, self.reopen(record, &added)?].concat();
        Ok(GraphChanges { status: own, others, added, fault: None })
    }

    /// Returns the state of the file of the graph in the worktree of an isolated attempt.
    pub(super) fn own_graph_stamp(&self, record: &AttemptRecord) -> Option<Stamp> {
        let worktree = record.worktree.as_ref()?;
        state::stamp(&worktree.tree.join(self.workspace.graph_name())).ok()
    }

    /// Returns the status of its own task in the graph in the worktree of an isolated attempt, if
    /// the attempt changed it.
    pub(super) fn own_graph_status(&self, record: &AttemptRecord) -> Option<Status> {
        let tree = record.tree(&self.workspace).ok()?;
        let path = self.workspace.graph_name();
        let status = |text: Vec<u8>| {
            let graph = graph_of(&text)?;
            graph.number(&record.task_id).map(|number| graph.task(number).status)
        };
        let was = tree.file_at(record.base.as_deref()?, &path).ok()?;
        let copy = tree.root().join(&path);
        // Reading a pipe would block the run.
        let now = copy.is_file().then(|| fs::read(&copy).ok()).flatten().and_then(status);
        now.filter(|_| now != was.and_then(status))
    }

    /// Copies the graph into the worktree of an attempt if git does not track it.
    fn copy_graph(&self, tree: &Repo, base: &str) -> Result<()> {
        let path = self.workspace.graph_name();
        if path.starts_with('/') || tree.file_at(base, &path)?.is_some() {
            return Ok(());
        }
        let copy = tree.root().join(&path);
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
        }
        fs::write(&copy, self.graph.file.text())
            .with_context(|| format!("write `{}`", copy.display()))
    }

    /// Sets adopted tasks that are complete to pending: no attempt has worked on them. Returns them.
    fn reopen(&mut self, record: &AttemptRecord, adopted: &[TaskId]) -> Result<Vec<TaskId>> {
        let graph = self.graph.file.graph();
        let is_done = |id: &&TaskId| {
            let number = graph.number(id);
            number.is_some_and(|number| graph.task(number).status == Status::Complete)
        };
        let done: Vec<TaskId> = adopted.iter().filter(is_done).cloned().collect();
        for id in &done {
            self.set((id, record.iteration), Write::Plain(Status::Pending), Cause::PutBack)?;
        }
        if !done.is_empty() {
            self.emit_guarded(record, Harm::Finished, done.clone(), true, None)?;
        }
        Ok(done)
    }

    /// Releases the worktree of an attempt whose end is recorded.
    pub(super) fn release_worktree(
        &mut self,
        record: &AttemptRecord,
        verdict: Verdict,
    ) -> Result<()> {
        let Some(worktree) = record.worktree.clone() else {
            return Ok(());
        };
        let Ok(tree) = record.tree(&self.workspace) else {
            // The worktree was removed or never created.
            let _ = self.workspace.repo.unlock_worktree(&worktree.tree);
            return Ok(());
        };
        let pin =
            attempt::leftovers::pin_name(&self.workspace.place, &record.task_id, record.attempt);
        let kept = self.workspace.repo.commit_of(&pin)?;
        let branch = record.branch.as_deref().filter(|_| verdict == Verdict::Complete);
        let why = match worktree_pool::release(&tree, kept.as_deref(), branch) {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why,
            Err(error) => format!("{error:#}"),
        };
        let WorktreeReason { worktree, why } = self.worktrees.keep(worktree.tree, why);
        self.emit(None, Event::WorktreeKept { worktree, why })
    }
}
