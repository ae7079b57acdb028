//! Combines queued work with the tip of the target branch, or the work ahead of it, in a slot of
//! the merge queue.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{
    graph_copy::GraphChange,
    side_command::{Regeneration, SideCommands},
};
use crate::{
    adapters::git::{self, BranchWork, Integrated, IntegrationMethod, Repo, SlotSettings},
    core::{
        commit_id::CommitId,
        graph::merge::{self, Texts},
        run::{input::BuiltTrial, verified_work::BuiltCommit},
        verdict::Outcome,
    },
    project::{
        merge_attributes::MergeAttributes,
        slot_pool::{self, SlotPool},
    },
    regular_file,
};

/// The work to combine, and the place to do it.
pub(super) struct TrialOrder {
    pub(super) main: PathBuf,
    pub(super) pool: SlotPool,
    pub(super) slot: usize,
    pub(super) settings: SlotSettings,
    pub(super) trial_ref: String,
    pub(super) setup: Vec<String>,
    pub(super) onto: CommitId,
    /// None to check out the commit alone.
    pub(super) work: Option<WorkToLand>,
    pub(super) how: IntegrationMethod,
    pub(super) attributes: MergeAttributes,
    pub(super) regeneration: Regeneration,
    /// The file for the diff of a conflict, with the commits of the other side; for these alone if the
    /// lines of both sides were kept.
    pub(super) conflict: PathBuf,
}

impl TrialOrder {
    /// Combines the work.
    pub(super) fn build(&self) -> Result<BuiltTrial> {
        let main = Repo::discover(&self.main)?;
        let slot = self.pool.merge(self.slot);
        // One whose setup has failed is made again.
        let is_bad = |it: &Repo| !self.setup.is_empty() && it.slot().setup_note().is_none();
        let bad = main.slots().open(&slot).filter(is_bad);
        bad.map_or(Ok(()), |bad| bad.slot().remove())?;
        let tree = self.pool.open(&slot, &self.settings, &self.onto)?;
        let mut trial = if let Some(work) = &self.work {
            self.combine(&main, &tree, work)?
        } else {
            tree.integration().check_out(&self.onto)?;
            BuiltTrial::default()
        };
        let tip = trial.built.as_ref().map_or(&self.onto, |built| &built.commit);
        main.keep(&self.trial_ref, tip)?;
        tree.slot().update_submodules(&main)?;
        trial.is_set_up = slot_pool::is_set_up(&tree, &self.setup)?;
        trial.changed = tree.dirty()?.into_keys().collect();
        Ok(trial)
    }

    fn combine(&self, main: &Repo, tree: &Repo, work: &WorkToLand) -> Result<BuiltTrial> {
        let mut trial = BuiltTrial::default();
        let (onto, integrated) = match self.onto_for(tree, work)? {
            Ok(onto) => (onto.clone(), self.integrate(tree, work, &onto)?),
            Err(conflict) => (self.onto.clone(), conflict),
        };
        if let Integrated::Resolved { others: text, .. } | Integrated::Conflict { diff: text, .. } =
            &integrated
        {
            let path = &self.conflict;
            regular_file::write(path, text.as_bytes())
                .with_context(|| format!("write `{}`", path.display()))?;
        }
        let (commit, resolved) = match integrated {
            Integrated::Done(commit) => (commit, Vec::new()),
            Integrated::Resolved { commit, files, .. } => (commit, files),
            Integrated::Nothing => (onto.clone(), Vec::new()),
            Integrated::Conflict { paths, .. } => {
                trial.conflict = Some(paths);
                return Ok(trial);
            }
        };
        let mut rebuilt = None;
        if commit != work.head {
            main.slots().bring_home(tree, &commit, &self.trial_ref)?;
            // After a rebuild, the commits of the branch are those of the work.
            rebuilt = Some((main.between(&onto, &commit)?, main.diff(&onto, &commit, None)?));
        }
        // The current state lands, whatever the verify commands do in the slot.
        let complete = |it: &Completion| it.commit(main, &commit, &self.hooked(tree, &it.message));
        let completed = work.completion.as_ref().map(complete).transpose()?;
        let commit = completed.unwrap_or(commit);
        main.keep(&self.trial_ref, &commit)?;
        tree.slot().move_to(&commit)?;
        if work.has_new_modules
            && let Err(error) = tree.slot().update_submodules(main)
        {
            if !slot_pool::is_of_the_commit(&error) {
                return Err(error);
            }
            tree.slot().move_to(&self.onto)?;
            trial.refused = Some(format!("{error:#}"));
            return Ok(trial);
        }
        trial.built = Some(BuiltCommit { commit, rebuilt, resolved });
        Ok(trial)
    }

    /// Returns the commit to put work on: with the commits of others that its attempt pulled, which keep
    /// their ids; or their conflict.
    fn onto_for(&self, tree: &Repo, work: &WorkToLand) -> Result<Result<CommitId, Integrated>> {
        let onto = self.onto.clone();
        let Some(from) = &work.started_from else { return Ok(Ok(onto)) };
        // A person may have taken the base off the branch.
        if !tree.is_ancestor(from, &onto)? || tree.is_ancestor(&work.base, &onto)? {
            return Ok(Ok(onto));
        }
        if tree.is_ancestor(&onto, &work.base)? {
            return Ok(Ok(work.base.clone()));
        }
        let message =
            format!("Merge what {} is on", work.message.lines().next().unwrap_or_default());
        let pulled = BranchWork { head: &work.base, base: from, message: &message };
        let attributes = Some(&*self.attributes.file);
        let merged = tree.integration().integrate(
            &onto,
            &pulled,
            IntegrationMethod::Merge,
            &[],
            attributes,
        )?;
        Ok(match merged {
            Integrated::Done(commit) | Integrated::Resolved { commit, .. } => Ok(commit),
            Integrated::Nothing => Ok(onto),
            Integrated::Conflict { .. } => Err(merged),
        })
    }

    /// The message of a commit as the hooks of the project write it, such as with a sign-off; as is
    /// where they refuse it. They run where the verify commands do: an attempt may have changed
    /// them.
    fn hooked(&self, tree: &Repo, message: &str) -> String {
        const FILE: &str = "ralph-message";
        const RUN: &str = "f=$(git rev-parse --git-path ralph-message) \
             && git hook run --ignore-missing prepare-commit-msg -- \"$f\" message \
             && git hook run --ignore-missing commit-msg -- \"$f\"";
        let file = tree.git_dir().join(FILE);
        let runs = self.regeneration.runs.as_ref().ok().filter(|_| tree.local().writes_messages());
        let run = |runs: &SideCommands| {
            regular_file::write(&file, message.as_bytes()).ok()?;
            let Regeneration { output, limit, .. } = &self.regeneration;
            let outcome = runs.run(RUN, output, *limit, || !git::is_stopped());
            runs.end();
            let written = regular_file::read_to_string(&file).ok()?;
            let is_kept = message.lines().all(|line| written.lines().any(|it| it == line));
            (is_kept && outcome == Outcome::Exited { exit_code: 0 }).then_some(written)
        };
        runs.and_then(run).unwrap_or_else(|| message.to_owned())
    }

    /// Integrates work, and makes the files again whose conflicts are resolved so.
    fn integrate(&self, tree: &Repo, work: &WorkToLand, onto: &CommitId) -> Result<Integrated> {
        let own: Vec<&str> = work.own.iter().map(String::as_str).collect();
        let WorkToLand { base, head, message, .. } = work;
        let work = BranchWork { head, base, message };
        let integrate = |attributes: &Path| {
            tree.integration().integrate(onto, &work, self.how, &own, Some(attributes))
        };
        let mut integrated = integrate(&self.attributes.file)?;
        let Integrated::Resolved { commit, files, .. } = &mut integrated else {
            return Ok(integrated);
        };
        if files.iter().all(|file| file.command.is_none()) {
            return Ok(integrated);
        }
        if let Err(why) = self.regeneration.run(tree, files) {
            let mut plain = integrate(&self.attributes.plain)?;
            if let Integrated::Conflict { diff, .. } = &mut plain {
                *diff = format!("{why:#}\n{diff}");
            }
            return Ok(plain);
        }
        *commit = tree.integration().amend(files)?;
        Ok(integrated)
    }
}

/// The work of one attempt.
pub(super) struct WorkToLand {
    /// The commit that it is on.
    pub(super) base: CommitId,
    /// The commit that its attempt started from, if the base has more, which it pulled.
    pub(super) started_from: Option<CommitId>,
    pub(super) head: CommitId,
    pub(super) message: String,
    /// The paths that are left out of it, relative to the repository.
    pub(super) own: Vec<String>,
    /// Whether it adds or changes submodules.
    pub(super) has_new_modules: bool,
    /// None in a plain loop, whose graph is not in git.
    pub(super) completion: Option<Completion>,
}

/// A task's completion in git: a commit on top of its work that changes its status in the graph.
pub(super) struct Completion {
    /// The graph file, relative to the repository.
    pub(super) path: String,
    pub(super) change: GraphChange,
    pub(super) message: String,
    /// The graph of the run, if it differs from the landed one.
    pub(super) edited: Option<String>,
}

impl Completion {
    /// Makes the commit on top of `parent`. Returns `parent` if the graph is not in git, or does not
    /// have the task.
    fn commit(&self, repo: &Repo, parent: &CommitId, message: &str) -> Result<CommitId> {
        let Some(text) = repo.file_at(parent, &self.path)? else {
            return Ok(parent.clone());
        };
        let text = String::from_utf8_lossy(&text);
        let changed = match (self.change.applied(&text)?, &self.edited) {
            (None, Some(edited)) => {
                // A person has added the task, and not committed it.
                let texts = Texts { base: &text, ours: &text, theirs: edited };
                let adopted = merge::adopt(texts).ok().flatten();
                adopted.map_or(Ok(None), |text| self.change.applied(&text))?
            }
            (changed, _) => changed,
        };
        match changed {
            Some(changed) if changed != text => {
                repo.commits().commit_file(parent, &self.path, &changed, message)
            }
            _ => Ok(parent.clone()),
        }
    }
}
