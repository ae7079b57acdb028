//! Combines queued work with the tip of the target branch, or with what is ahead of it, in a slot of
//! the merge queue.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{graph_copy::GraphChange, side_command::Regeneration};
use crate::{
    adapters::git::{BranchWork, Integrated, IntegrationMethod, Repo, SlotSettings},
    core::{
        commit_id::CommitId,
        graph::merge::{self, Texts},
        run::{input::BuiltTrial, verified_work::BuiltCommit},
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
        let (mut trial, onto) = (BuiltTrial::default(), &self.onto);
        let integrated = self.integrate(tree, work)?;
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
            rebuilt = Some((main.between(onto, &commit)?, main.diff(onto, &commit, None)?));
        }
        // What lands is what is here now, whatever the verify commands do in the slot.
        let completed = work.completion.as_ref().map(|it| it.commit(main, &commit)).transpose()?;
        let commit = completed.unwrap_or(commit);
        main.keep(&self.trial_ref, &commit)?;
        tree.slot().move_to(&commit)?;
        if work.has_new_modules
            && let Err(error) = tree.slot().update_submodules(main)
        {
            if !slot_pool::is_of_the_commit(&error) {
                return Err(error);
            }
            tree.slot().move_to(onto)?;
            trial.refused = Some(format!("{error:#}"));
            return Ok(trial);
        }
        trial.built = Some(BuiltCommit { commit, rebuilt, resolved });
        Ok(trial)
    }

    /// Integrates work, and makes the files again whose conflicts are resolved so.
    fn integrate(&self, tree: &Repo, work: &WorkToLand) -> Result<Integrated> {
        let own: Vec<&str> = work.own.iter().map(String::as_str).collect();
        let WorkToLand { base, head, message, .. } = work;
        let work = BranchWork { head, base, message };
        let integrate = |attributes: &Path| {
            tree.integration().integrate(&self.onto, &work, self.how, &own, Some(attributes))
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
    pub(super) base: CommitId,
    pub(super) head: CommitId,
    pub(super) message: String,
    /// The paths that are left out of it, relative to the repository.
    pub(super) own: Vec<String>,
    /// Whether it adds or changes submodules.
    pub(super) has_new_modules: bool,
    /// None in a plain loop, whose graph is not in git.
    pub(super) completion: Option<Completion>,
}

/// What completes a task in git: a commit on top of its work that changes its status in the graph.
pub(super) struct Completion {
    /// The graph file, relative to the repository.
    pub(super) path: String,
    pub(super) change: GraphChange,
    pub(super) message: String,
    /// The graph of the run, if it is not only what has landed.
    pub(super) edited: Option<String>,
}

impl Completion {
    /// Makes the commit on top of `parent`. Returns `parent` if the graph is not in git, or does not
    /// have the task.
    fn commit(&self, repo: &Repo, parent: &CommitId) -> Result<CommitId> {
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
                repo.commits().commit_file(parent, &self.path, &changed, &self.message)
            }
            _ => Ok(parent.clone()),
        }
    }
}
