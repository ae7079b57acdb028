//! Taking back landed work: a commit on top of the branch removes it and reopens its tasks. Nothing
//! is rewritten.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::git::AppliedChange,
    core::{
        commit_id::CommitId,
        event::{Cause, Event, GraphEvent, LandingEvent, TakenBack},
        graph::{
            TaskGraph,
            merge::{Texts, merge},
            task::{Status, TaskId},
        },
        history::attempt_log::AttemptLog,
    },
    crash,
    project::{
        event_store::EventStore,
        graph_file::{Write, graph_of, with_status},
        landed_work::LandedChange,
        workspace::Workspace,
    },
};

/// The file in the state folder with the pending take-back.
const INTENT: &str = "take-back.json";

/// The work of some tasks on a branch.
#[derive(Clone, Debug)]
pub struct TakeBack {
    /// The branch.
    pub branch: String,
    /// Its tip, which has the work.
    pub onto: CommitId,
    /// The tasks, in the order of the graph.
    pub tasks: Vec<TaskId>,
    /// Those of them that a person named.
    pub named: Vec<TaskId>,
    /// Their work, newest first.
    pub work: Vec<LandedChange>,
    /// The note for the next attempts at these.
    pub note: Option<String>,
}

/// Work that cannot be taken back: later commits changed it.
#[derive(Clone, Debug)]
pub struct LaterChanges {
    /// The task.
    pub task_id: TaskId,
    /// The files.
    pub paths: Vec<String>,
    /// The later commits, newest first.
    pub commits: Vec<String>,
}

/// The records to write once the branch has the commit.
#[derive(Debug, Serialize, Deserialize)]
struct TakeBackIntent {
    branch: String,
    commit: CommitId,
    tasks: Vec<(TaskId, TakenBack)>,
}

impl TakeBack {
    /// The work of these tasks that is on the tip of a branch.
    ///
    /// # Errors
    /// Errors of git.
    pub fn of(
        workspace: &Workspace,
        log: &AttemptLog,
        (branch, onto): (&str, &CommitId),
        tasks: Vec<TaskId>,
    ) -> Result<TakeBack> {
        let mut entries: Vec<_> =
            log.of(None).filter(|entry| tasks.contains(&entry.task_id)).collect();
        entries.sort_by_key(|entry| entry.ended.as_ref().map(|(at, _)| *at));
        let work = LandedChange::all(&workspace.repo, entries.into_iter().rev(), onto)?;
        let (branch, onto, named) = (branch.to_owned(), onto.clone(), tasks.clone());
        Ok(TakeBack { branch, onto, tasks, named, work, note: None })
    }

    /// Makes the commit without the work. No branch is moved.
    ///
    /// # Errors
    /// Errors of git.
    pub fn build(
        &self,
        workspace: &Workspace,
        graph: &TaskGraph,
    ) -> Result<Result<CommitId, LaterChanges>> {
        let mut tip = self.onto.clone();
        let own = workspace.graph_in_git();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        for work in &self.work {
            let message = self.message(work, graph);
            let back = (work.last.as_str(), work.before.as_str());
            match workspace.repo.landings().apply_change(&tip, back, &own, &message)? {
                AppliedChange::Done(commit) => tip = commit,
                AppliedChange::Nothing => {}
                AppliedChange::Conflict { paths, commits } => {
                    let task_id = work.task_id.clone();
                    return Ok(Err(LaterChanges { task_id, paths, commits }));
                }
            }
        }
        self.open_again(workspace, tip).map(Ok)
    }

    fn message(&self, work: &LandedChange, graph: &TaskGraph) -> String {
        let id = &work.task_id;
        let title = graph.number(id).map(|number| graph.task(number).title_line());
        let title = title.filter(|title| *title != id.as_str());
        let title = title.map_or_else(String::new, |title| format!(": {title}"));
        let note = self.note.as_ref().filter(|_| self.named.contains(id));
        let note = note.map_or_else(String::new, |note| format!("{note}\n\n"));
        let reverts = reverts(work.commits.iter());
        format!("Take back {id}{title}\n\n{note}{reverts}\n\nRalph-Task: {id}\n")
    }

    /// Opens the tasks again in the graph of a commit. Returns a commit on top of it; the same one if git
    /// does not track the graph.
    fn open_again(&self, workspace: &Workspace, tip: CommitId) -> Result<CommitId> {
        let Some(landed) = workspace.committed_text(&tip)? else { return Ok(tip) };
        let mut text = landed.clone();
        for done in self.work.iter().filter_map(|work| work.done.as_ref()) {
            let base = workspace.committed_text(done)?;
            let theirs = workspace.committed_text(&format!("{done}^"))?;
            let (Some(base), Some(theirs)) = (base, theirs) else { continue };
            let texts = Texts { base: &base, ours: &text, theirs: &theirs };
            let merged = merge(texts).ok().filter(|merged| merged.conflicts.is_empty());
            if let Some(merged) = merged.filter(|it| graph_of(it.text.as_bytes()).is_some()) {
                text = merged.text;
            }
        }
        let is_open = |text: &str, id: &TaskId| {
            let status = graph_of(text.as_bytes()).and_then(|graph| graph.status_of(id));
            status.is_none_or(|status| status == Status::Pending)
        };
        for id in &self.tasks {
            if !is_open(&text, id)
                && let Some(opened) = with_status(&text, id, Write::Plain(Status::Pending))?
            {
                text = opened;
            }
        }
        if text == landed {
            return Ok(tip);
        }
        let names: Vec<&str> = self.tasks.iter().map(TaskId::as_str).collect();
        let reverts = reverts(self.work.iter().filter_map(|work| work.done.as_ref()));
        let message = format!("Open again: {}\n\n{reverts}\n", names.join(", "));
        workspace.repo.commits().commit_file(&tip, &workspace.graph_name(), &text, &message)
    }

    /// The tasks other than these whose work landed after the first of theirs, and that are complete.
    pub fn later_tasks(&self, log: &AttemptLog, graph: &TaskGraph) -> BTreeSet<TaskId> {
        let ends = log.of(None).filter_map(|entry| Some((entry, entry.ended.as_ref()?.0)));
        let own = |id: &TaskId| self.tasks.contains(id);
        let first = ends.clone().filter(|(entry, _)| own(&entry.task_id)).map(|(_, at)| at).min();
        let later = ends.filter(|(entry, at)| Some(*at) >= first && !own(&entry.task_id));
        let is_done = |id: &TaskId| graph.status_of(id) == Some(Status::Complete);
        later.map(|(entry, _)| entry.task_id.clone()).filter(is_done).collect()
    }

    /// Moves the tip of the branch to the commit, and records the take-back. Returns false, and
    /// changes nothing, if others moved the branch. After a kill, [`settle`] records the rest.
    ///
    /// # Errors
    /// Errors of git and of the disk.
    pub fn land(
        &self,
        workspace: &Workspace,
        store: &mut EventStore,
        commit: &CommitId,
    ) -> Result<bool> {
        let of_task = |id: &TaskId| {
            let work = self.work.iter().rev().filter(|work| work.task_id == *id);
            let taken = TakenBack {
                branch: self.branch.clone(),
                commit: commit.clone(),
                reverted: work.flat_map(|work| work.commits.clone()).collect(),
                note: self.note.clone().filter(|_| self.named.contains(id)),
            };
            (id.clone(), taken)
        };
        let tasks = self.tasks.iter().map(of_task).collect();
        let intent = TakeBackIntent { branch: self.branch.clone(), commit: commit.clone(), tasks };
        workspace.state.keep(INTENT, &intent).context("note what is taken back")?;
        crash::point("back.intended");
        let has_moved = workspace.repo.landings().land(&self.branch, &self.onto, commit)?;
        crash::point("back.landed");
        settle(workspace, store)?;
        Ok(has_moved)
    }
}

/// The lines that name commits whose changes are gone, as `git revert` writes them.
fn reverts<'a>(commits: impl Iterator<Item = &'a CommitId>) -> String {
    let lines: Vec<String> =
        commits.map(|commit| format!("This reverts commit {commit}.")).collect();
    lines.join("\n")
}

/// Records the take-back of a command that was killed before it could do so. The caller has the
/// lock of the runs.
///
/// # Errors
/// Errors of git and of the disk.
pub fn settle(workspace: &Workspace, store: &mut EventStore) -> Result<()> {
    let Some(intent) = workspace.state.kept::<TakeBackIntent>(INTENT) else { return Ok(()) };
    let tip = workspace.repo.landings().tip(&intent.branch)?;
    let is_there = |tip: &CommitId| workspace.repo.is_ancestor(&intent.commit, tip);
    if tip.is_some_and(|tip| is_there(&tip.commit).unwrap_or(false)) {
        let events = intent.tasks.into_iter().flat_map(|(id, taken)| {
            let opened = GraphEvent::StatusChanged {
                old: Some(Status::Complete),
                new: Some(Status::Pending),
                cause: Cause::Command,
                reason: None,
            };
            let taken = LandingEvent::TakenBack(taken);
            [(id.clone(), Event::from(opened)), (id, Event::from(taken))]
        });
        store.emit_all(events.collect())?;
        crash::point("back.told");
    }
    fs::remove_file(workspace.state.dir().join(INTENT)).context("remove a note")
}
