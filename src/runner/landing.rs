//! The git operations of the merge queue: combining work on top of the target branch, and moving
//! the branch.

use std::{fs, path::PathBuf, thread};

use anyhow::{Context, Result};

use super::{Runner, RunnerMessage};
use crate::{
    adapters::git::{self, BranchWork, Integrated, IntegrationMethod, Repo},
    core::{
        commit_id::CommitId,
        run::{
            command::AttemptId,
            input::{BuiltBatch, Input, LandOutcome},
            verified_batch::{BuiltCommit, VerifiedBatch},
        },
        verdict::Merge,
    },
    crash,
    project::{
        attempt::{AttemptRecord, CONFLICT, leftovers},
        worktree_pool::WorktreePool,
    },
};

/// The work to combine, and the place to do it.
struct TrialOrder {
    pool: WorktreePool,
    onto: CommitId,
    work: Vec<WorkToLand>,
    how: IntegrationMethod,
    own: Vec<String>,
    attributes: PathBuf,
    /// The file for the diff of a conflict of the first piece of work.
    conflict: PathBuf,
}

/// The work of one attempt.
struct WorkToLand {
    base: CommitId,
    head: CommitId,
    message: String,
}

fn build(order: &TrialOrder) -> Result<BuiltBatch> {
    let (tree, _) = order.pool.open(&order.pool.merge(), &order.onto)?;
    let own: Vec<&str> = order.own.iter().map(String::as_str).collect();
    let mut built = BuiltBatch::default();
    let mut tip = order.onto.clone();
    for WorkToLand { base, head, message } in &order.work {
        let work = BranchWork { head, base, message };
        let commit = match tree.integrate(&tip, &work, order.how, &own, Some(&order.attributes))? {
            Integrated::Done(commit) => commit,
            Integrated::Nothing => tip.clone(),
            Integrated::Conflict { paths, diff } => {
                if built.commits.is_empty() {
                    let path = &order.conflict;
                    fs::write(path, diff).with_context(|| format!("write `{}`", path.display()))?;
                }
                built.conflict = Some(paths);
                break;
            }
        };
        // After a rebuild, the commits of the branch are those of the work.
        let rebuilt = (commit != *head).then(|| tree.between(&tip, &commit)).transpose()?;
        tip.clone_from(&commit);
        built.commits.push(BuiltCommit { commit, rebuilt });
    }
    built.changed = tree.dirty()?.into_keys().collect();
    Ok(built)
}

impl Runner {
    /// Returns the commit of a branch.
    pub(super) fn tip(&self, branch: &str) -> Result<Option<CommitId>> {
        self.workspace.repo.branch(branch)
    }

    /// Combines the work of attempts on top of a commit of the target branch. `in_trial` as in
    /// [`RunCommand::Build`](crate::core::run::command::RunCommand::Build).
    pub(super) fn build(
        &mut self,
        onto: CommitId,
        members: &[AttemptId],
        in_trial: bool,
    ) -> Result<Option<Input>> {
        let how = self.workspace.config.merge;
        let own: Vec<String> = Some(self.workspace.graph_name())
            .filter(|name| !name.starts_with('/'))
            .into_iter()
            .collect();
        let mut work = Vec::new();
        for id in members {
            let record = self.records.get(id).context("queued work without a record")?;
            let end = self.run.attempts().get(id).and_then(|open| open.end.as_ref());
            let evidence = &end.context("queued work without an end")?.evidence;
            let head = evidence.commits.last().context("queued work without commits")?.id.clone();
            let base = record.base.clone().context("queued work without a base")?;
            if members.len() == 1 && base == onto && !in_trial {
                let own: Vec<&str> = own.iter().map(String::as_str).collect();
                let piece = BranchWork { head: &head, base: &base, message: "" };
                if let Some(commit) = self.workspace.repo.fits_as_it_is(&onto, &piece, how, &own)? {
                    let commits = vec![BuiltCommit { commit, rebuilt: None }];
                    let built = BuiltBatch { commits, as_is: true, ..BuiltBatch::default() };
                    return Ok(Some(Input::Built(Ok(built))));
                }
            }
            let title = self.task_of(record).map(|task| task.title).unwrap_or_default();
            let message = leftovers::message(record, &title);
            work.push(WorkToLand { base, head, message });
        }
        let first = members.first().and_then(|id| self.records.get(id));
        let conflict = first.context("a batch without members")?.file(&self.workspace, CONFLICT);
        let pool = self.worktrees.pool.clone();
        let attributes = self.attributes()?;
        let order = TrialOrder { pool, onto, work, how, own, attributes, conflict };
        let outbox = self.inbox.sender();
        thread::spawn(move || drop(outbox.send(RunnerMessage::Built(build(&order)))));
        Ok(None)
    }

    /// Returns the attributes file that makes git merge files that several agents write.
    fn attributes(&self) -> Result<PathBuf> {
        let config = &self.workspace.config;
        let union = config.merge_union.0.iter().map(String::as_str);
        let union = union.chain([self.workspace.learnings()]);
        let lines: Vec<String> = union.map(|path| format!("{path} merge=union\n")).collect();
        let lines = lines.concat();
        let path = self.workspace.state.dir().join("attributes");
        if fs::read_to_string(&path).ok().as_ref() != Some(&lines) {
            fs::write(&path, lines).with_context(|| format!("write `{}`", path.display()))?;
        }
        Ok(path)
    }

    /// Writes the commit that an attempt is about to land as into its record.
    pub(super) fn record_landing(&mut self, id: &AttemptId, commit: CommitId) -> Result<()> {
        let Some(record) = self.records.get_mut(id) else {
            return Ok(());
        };
        if let Some(worktree) = &mut record.worktree {
            worktree.landing = Some(commit);
        }
        record.write(&self.workspace)?;
        crash::point("merge.intended");
        Ok(())
    }

    /// Moves a branch to the last commit of a batch, in another thread.
    pub(super) fn land(&self, batch: VerifiedBatch) {
        let (root, outbox) = (self.workspace.root().to_owned(), self.inbox.sender());
        thread::spawn(move || {
            let landed = Repo::discover(&root)
                .and_then(|repo| repo.land(batch.branch(), batch.onto(), batch.tip()));
            let landed = landed.map(|landing| match landing {
                git::Landing::Landed => LandOutcome::Landed,
                git::Landing::Moved => LandOutcome::Moved,
                git::Landing::Busy { why } => LandOutcome::Busy { why },
                git::Landing::InTheWay { checkout, paths, why } => {
                    LandOutcome::Blocked { checkout: checkout.display().to_string(), paths, why }
                }
            });
            drop(outbox.send(RunnerMessage::Landed(landed)));
        });
    }

    /// Returns the landing if the work of an attempt found after a crash is in the target branch.
    pub(super) fn has_landed(&self, record: &AttemptRecord) -> Result<Option<Merge>> {
        let Some(worktree) = &record.worktree else {
            return Ok(None);
        };
        let (Some(commit), Some(tip)) = (worktree.landing.clone(), self.tip(&worktree.target)?)
        else {
            return Ok(None);
        };
        let is_in = self.workspace.repo.is_ancestor(&commit, &tip)?;
        let branch = worktree.target.clone();
        Ok(is_in.then_some(Merge::Landed { branch, commit }))
    }
}
