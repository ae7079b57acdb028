//! The git operations of the merge queue: combining work on top of the target branch, and moving
//! the branch.

use std::{collections::BTreeMap, fs, iter, path::PathBuf, thread};

use anyhow::{Context, Result};

use super::{
    RunnerMessage,
    attempts::Records,
    context::{RunContext, task_of},
    slots::{RunSlots, attributes},
};
use crate::{
    adapters::git::{self, BranchWork, Integrated, IntegrationMethod, Repo, SlotSettings},
    adapters::state::StateFolder,
    core::{
        commit_id::CommitId,
        graph::{TaskGraph, task::TaskId},
        loop_paths,
        run::{
            Run,
            command::{AttemptId, LandingCommand},
            input::{BuiltBatch, Input, LandOutcome},
            verified_batch::{BuiltCommit, VerifiedBatch},
        },
    },
    crash,
    project::{
        attempt::{AttemptRecord, CONFLICT, leftovers},
        landing_graph::{GraphChange, LandingGraph},
        slot_pool::{self, SlotPool},
        workspace::Workspace,
    },
    regular_file,
};

/// The file that declares submodules.
const MODULES: &str = ".gitmodules";

/// The work to combine, and the place to do it.
struct TrialOrder {
    main: PathBuf,
    pool: SlotPool,
    settings: SlotSettings,
    trial_ref: String,
    setup: Vec<String>,
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
    /// Whether it adds or changes submodules.
    has_new_modules: bool,
    /// None in a plain loop, whose graph is not in git.
    completion: Option<Completion>,
}

/// What completes a task in git: a commit on top of its work that changes its status in the graph.
struct Completion {
    /// The graph file, relative to the repository.
    path: String,
    change: GraphChange,
    message: String,
}

impl Completion {
    /// Makes the commit on top of `parent`. Returns `parent` if the graph is not in git, or does not
    /// have the task.
    fn commit(&self, repo: &Repo, parent: &CommitId) -> Result<CommitId> {
        let Some(text) = repo.file_at(parent, &self.path)? else {
            return Ok(parent.clone());
        };
        let text = String::from_utf8_lossy(&text);
        match self.change.applied(&text)? {
            Some(changed) if changed != text => {
                repo.commits().commit_file(parent, &self.path, &changed, &self.message)
            }
            _ => Ok(parent.clone()),
        }
    }
}

/// Makes the commit that completes a task on top of `parent`, if there is one to make.
fn completed(repo: &Repo, parent: &CommitId, completion: Option<&Completion>) -> Result<CommitId> {
    completion.map_or_else(|| Ok(parent.clone()), |it| it.commit(repo, parent))
}

/// A branch to move.
struct LandOrder {
    root: PathBuf,
    state: StateFolder,
    trial_ref: String,
    /// The graph file, relative to the repository, if it is in it.
    path: Option<String>,
    changes: Vec<GraphChange>,
    branch: String,
    onto: CommitId,
    /// The last commit of each member of the batch.
    commits: Vec<CommitId>,
    commit: CommitId,
}

impl LandOrder {
    /// Returns the places of the members that change one of these paths.
    fn members_that_change(&self, paths: &[String]) -> Result<Vec<usize>> {
        let repo = Repo::discover(&self.root)?;
        let before = iter::once(&self.onto).chain(&self.commits);
        let mut members = Vec::new();
        for (at, (before, commit)) in before.zip(&self.commits).enumerate() {
            let changed = repo.differing(Some(before), commit)?;
            if changed.iter().any(|one| paths.iter().any(|other| are_in_one_place(one, other))) {
                members.push(at);
            }
        }
        Ok(members)
    }

    /// Moves the branch, and finds out which work cannot land because of a person's files.
    fn outcome(&self) -> Result<LandOutcome> {
        Ok(match self.land()? {
            git::Landing::Landed => LandOutcome::Landed,
            git::Landing::Moved => LandOutcome::Moved,
            git::Landing::Busy { why } => LandOutcome::Busy { why },
            git::Landing::InTheWay { checkout, paths, why } => {
                let members = self.members_that_change(&paths)?;
                let checkout = checkout.display().to_string();
                LandOutcome::Blocked { checkout, paths, members, why }
            }
        })
    }

    /// Moves the branch, and the checkout that has it.
    fn land(&self) -> Result<git::Landing> {
        let repo = Repo::discover(&self.root)?;
        let text = |commit: &CommitId| -> Result<Option<String>> {
            let text = self.path.as_ref().map(|path| repo.file_at(commit, path)).transpose()?;
            Ok(text.flatten().map(|text| String::from_utf8_lossy(&text).into_owned()))
        };
        let is_here = repo.head()?.branch.as_ref() == Some(&self.branch);
        let mut graph = match (&self.path, text(&self.onto)?, text(&self.commit)?) {
            (Some(name), Some(old), Some(new)) if is_here => {
                let commits = (&self.onto, &self.commit);
                let texts = (old, new);
                Some(LandingGraph::begin(&self.state, &repo, name, commits, texts, &self.changes)?)
            }
            _ => None,
        };
        let mut landed = repo.landings().land(&self.branch, &self.onto, &self.commit);
        let is_in_the_way = |landed: &Result<git::Landing>| match landed {
            Ok(git::Landing::InTheWay { paths, .. }) => {
                self.path.iter().all(|it| paths.contains(it))
            }
            _ => false,
        };
        if let Some(graph) = &mut graph
            && is_in_the_way(&landed)
        {
            landed = match graph.reset(&self.onto) {
                Ok(true) => repo.landings().land(&self.branch, &self.onto, &self.commit),
                Ok(false) => landed,
                Err(error) => Err(error),
            };
        }
        let has_landed = matches!(&landed, Ok(git::Landing::Landed));
        crash::point("land.moved");
        if let Some(graph) = graph {
            graph.finish(has_landed)?;
        }
        if has_landed {
            repo.drop_ref(&self.trial_ref)?;
        }
        landed
    }
}

/// Whether two paths are the same, or one is a folder of the other.
fn are_in_one_place(one: &str, other: &str) -> bool {
    let is_in = |path: &str, folder: &str| {
        path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    };
    one == other || is_in(one, other) || is_in(other, one)
}

fn build(order: &TrialOrder) -> Result<BuiltBatch> {
    let main = Repo::discover(&order.main)?;
    let tree = order.pool.open(&order.pool.merge(), &order.settings, &order.onto)?;
    let own: Vec<&str> = order.own.iter().map(String::as_str).collect();
    let mut built = BuiltBatch::default();
    let mut tip = order.onto.clone();
    for WorkToLand { base, head, message, has_new_modules, completion } in &order.work {
        let work = BranchWork { head, base, message };
        let commit = match tree.integration().integrate(
            &tip,
            &work,
            order.how,
            &own,
            Some(&order.attributes),
        )? {
            Integrated::Done(commit) => commit,
            Integrated::Nothing => tip.clone(),
            Integrated::Conflict { paths, diff } => {
                if built.commits.is_empty() {
                    let path = &order.conflict;
                    regular_file::write(path, diff.as_bytes())
                        .with_context(|| format!("write `{}`", path.display()))?;
                }
                built.conflict = Some(paths);
                break;
            }
        };
        // After a rebuild, the commits of the branch are those of the work.
        let rebuilt = (commit != *head).then(|| tree.between(&tip, &commit)).transpose()?;
        let commit = completed(&tree, &commit, completion.as_ref())?;
        tree.slot().move_to(&commit)?;
        if *has_new_modules && let Err(error) = tree.slot().update_submodules(&main) {
            if !slot_pool::is_of_the_commit(&error) {
                return Err(error);
            }
            tree.slot().move_to(&tip)?;
            built.refused = Some(format!("{error:#}"));
            break;
        }
        tip.clone_from(&commit);
        let verified = commit.clone();
        built.commits.push(BuiltCommit { commit, verified, rebuilt });
    }
    // What lands is what is here now, whatever the verify commands do in the slot.
    main.slots().bring_home(&tree, &tip, &order.trial_ref)?;
    tree.slot().update_submodules(&main)?;
    built.is_set_up = slot_pool::is_set_up(&tree, &order.setup)?;
    built.changed = tree.dirty()?.into_keys().collect();
    Ok(built)
}

/// What the landings of a run need to know of its attempts.
#[derive(Default)]
pub(super) struct RunLanding {
    /// What the landing of each attempt changes in the graph.
    pub(super) changes: BTreeMap<AttemptId, GraphChange>,
}

/// What a step of the merge queue reads: the attempts, their graph, and the slots.
#[derive(Clone, Copy)]
pub(super) struct LandingView<'a> {
    pub(super) run: &'a Run,
    pub(super) records: &'a Records,
    pub(super) graph: &'a TaskGraph,
    pub(super) slots: &'a RunSlots,
}

impl RunLanding {
    /// Carries out a step of the merge queue. The commit that is about to land is in the record
    /// `own` before it lands.
    pub(super) fn carry_out(
        &self,
        cx: &RunContext,
        command: LandingCommand,
        view: LandingView<'_>,
    ) -> Result<Option<Input>> {
        match command {
            LandingCommand::Build { onto, members, in_trial } => {
                return self.build(cx, onto, &members, in_trial, view);
            }
            LandingCommand::Land(batch) => self.land(cx, &batch, view),
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

    /// Combines the work of attempts on top of a commit of the target branch. `in_trial` as in
    /// [`LandingCommand::Build`].
    fn build(
        &self,
        cx: &RunContext,
        onto: CommitId,
        members: &[AttemptId],
        in_trial: bool,
        view: LandingView<'_>,
    ) -> Result<Option<Input>> {
        let workspace = &cx.workspace;
        let (how, repo) = (workspace.config.merge, &workspace.repo);
        let mut own: Vec<String> = workspace.graph_in_git().into_iter().collect();
        let mut work = Vec::new();
        for id in members {
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
            // What passed in its slot may have needed what is only there, such as the clone of a
            // submodule that no other slot can make.
            let is_proven =
                !record.has_own_ignored && evidence.tampered.is_empty() && !has_new_modules;
            let title = task_of(view.graph, record).map(|task| task.title);
            let title = title.unwrap_or_else(|| record.task_id.to_string());
            let completion = self.completion(workspace, id, record, &title)?;
            if members.len() == 1 && base == onto && !in_trial && is_proven {
                let own: Vec<&str> = own.iter().map(String::as_str).collect();
                let piece = BranchWork { head: &head, base: &base, message: "" };
                let fits = if head == base {
                    Some(head.clone())
                } else {
                    repo.integration().fits_as_it_is(&onto, &piece, how, &own)?
                };
                if let Some(verified) = fits {
                    let commit = completed(repo, &verified, completion.as_ref())?;
                    let commits = vec![BuiltCommit { commit, verified, rebuilt: None }];
                    let built = BuiltBatch { commits, as_is: true, ..BuiltBatch::default() };
                    return Ok(Some(Input::Built(Ok(built))));
                }
            }
            let message = leftovers::message(record, &title);
            work.push(WorkToLand { base, head, message, has_new_modules, completion });
        }
        let first = members.first().and_then(|id| view.records.get(id));
        let order = TrialOrder {
            main: workspace.root().to_owned(),
            pool: view.slots.pool.clone(),
            settings: view.slots.settings(workspace)?,
            trial_ref: workspace.place.trial_ref(),
            setup: workspace.config.setup.0.clone(),
            onto,
            work,
            how,
            own,
            attributes: attributes(workspace)?,
            conflict: first.context("a batch without members")?.file(workspace, CONFLICT),
        };
        let outbox = cx.outbox.clone();
        thread::spawn(move || drop(outbox.send(RunnerMessage::Built(build(&order)))));
        Ok(None)
    }

    /// Returns what completes the task of an attempt in git; none if the graph is not there.
    fn completion(
        &self,
        workspace: &Workspace,
        id: &AttemptId,
        record: &AttemptRecord,
        title: &str,
    ) -> Result<Option<Completion>> {
        let Some(path) = workspace.graph_in_git() else { return Ok(None) };
        let change = self.changes.get(id).context("queued work without a change")?.clone();
        let message = leftovers::completion_message(record, title);
        Ok(Some(Completion { path, change, message }))
    }

    /// Moves a branch to the last commit of a batch, in another thread.
    fn land(&self, cx: &RunContext, batch: &VerifiedBatch, view: LandingView<'_>) {
        let repo = &cx.workspace.repo;
        let lands = |id: &&AttemptId| {
            let landing = view.records.get(id).and_then(AttemptRecord::landing);
            landing.is_some_and(|its| repo.is_ancestor(its, batch.tip()).unwrap_or(false))
        };
        let queued = view.run.landing().queued().filter(lands);
        let order = LandOrder {
            root: cx.workspace.root().to_owned(),
            state: cx.workspace.state.clone(),
            trial_ref: cx.workspace.place.trial_ref(),
            path: cx.workspace.graph_in_git(),
            changes: queued.filter_map(|id| self.changes.get(id).cloned()).collect(),
            branch: batch.branch().to_owned(),
            onto: batch.onto().clone(),
            commits: batch.commits().iter().map(|built| built.commit.clone()).collect(),
            commit: batch.tip().clone(),
        };
        let outbox = cx.outbox.clone();
        thread::spawn(move || drop(outbox.send(RunnerMessage::Landed(order.outcome()))));
    }

    /// Returns when a task was complete according to the commit that landed with its work.
    pub(super) fn landed_at(&self, records: &Records, id: &TaskId) -> Option<String> {
        let (landed, _) = records
            .iter()
            .find(|(_, record)| record.task_id == *id && record.landing().is_some())?;
        self.changes.get(landed).map(|change| change.at.clone())
    }
}
