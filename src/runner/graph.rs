//! The graph of a run: the run's writes to its file, and others' changes in it.
//!
//! Where git tracks the file and attempts are isolated, the run only reads it: completions are in
//! the commits that land, and the journal has the claims. The graph is then the landed one, with a
//! person's changes in the checkout.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use chrono::Utc;

use super::{
    attempts::Records,
    checkout_graph::CheckoutGraph,
    context::{Facts, RunContext},
    graph_copy::GraphChange,
    graph_guard::GraphBefore,
};
use crate::{
    core::{
        event::{Cause, Event, GraphEvent, Harm},
        graph::{
            TaskGraph,
            task::{Status, Task, TaskId},
        },
        history::History,
        run::Run,
    },
    crash,
    project::{
        attempt::{AttemptRecord, leftovers},
        graph_file::{Foreign, GraphFile, Rejected, Write, Written, rfc3339, with_status},
        workspace::{self, Workspace},
    },
};

/// The time that an unreadable graph file has to become valid: an editor may be saving it.
pub(super) const HALF_SAVED: Duration = Duration::from_secs(3);

/// The name under which a replaced graph file is kept in the attempt's folder.
const KEPT: &str = "graph.damaged.yaml";

/// The graph of a run, and the state of its file.
pub(super) struct RunGraph {
    /// The graph: the file itself if the run writes it.
    pub(super) file: GraphFile,
    /// The file in the checkout, if the run only reads it.
    pub(super) checkout: Option<CheckoutGraph>,
    /// The graph before the running attempt in the checkout.
    pub(super) before: Option<GraphBefore>,
    /// Since when the file cannot be read, which the journal has then. The last valid graph is used, and
    /// no task starts.
    pub(super) unreadable: Option<Instant>,
}

/// A status to write because git, the history or the lock of the run contradict the file.
pub(super) struct Correction {
    pub(super) task_id: TaskId,
    status: CorrectStatus,
    pub(super) cause: Cause,
}

/// The status that a task should have in the file.
enum CorrectStatus {
    Complete { at: String },
    Plain(Status),
    Restored(Option<String>),
}

impl Correction {
    /// Returns the status to write.
    pub(super) fn write(&self) -> Write<'_> {
        match &self.status {
            CorrectStatus::Complete { at } => Write::Complete { at },
            CorrectStatus::Plain(status) => Write::Plain(*status),
            CorrectStatus::Restored(word) => Write::Restored(word.as_deref()),
        }
    }
}

/// How the graph file is edited now.
#[derive(Clone, Copy)]
pub(super) struct EditTime {
    /// The cause of edits by others that are found now.
    pub(super) edited: Cause,
    /// Whether the run continues, or ends as asked, with an unreadable file.
    pub(super) goes_on: bool,
}

impl RunGraph {
    /// The graph of a run whose work lands on a branch, unless attempts work in the checkout.
    pub(super) fn new(
        workspace: &Workspace,
        mut file: GraphFile,
        target: Option<&str>,
    ) -> Result<RunGraph> {
        let checkout = match target {
            Some(branch) => CheckoutGraph::of(workspace, branch, &mut file)?,
            None => None,
        };
        Ok(RunGraph { file, checkout, before: None, unreadable: None })
    }

    /// Reads the graph again if its file, the tip of the branch or HEAD has changed. Returns the
    /// changed statuses; none if nothing has changed.
    ///
    /// # Errors
    /// Errors of git.
    pub(super) fn refresh(
        &mut self,
        workspace: &Workspace,
    ) -> Result<Result<Option<Vec<Foreign>>, Box<Rejected>>> {
        match &mut self.checkout {
            Some(checkout) => checkout.refresh(workspace, &mut self.file),
            None => Ok(self.file.refresh(&workspace.state)),
        }
    }

    /// Whether the graph differs from the landed one.
    pub(super) fn is_edited(&self) -> bool {
        self.checkout.as_ref().is_none_or(|checkout| checkout.is_edited)
    }

    /// Whether the run only reads the file in the checkout.
    pub(super) fn is_read_only(&self) -> bool {
        self.checkout.is_some()
    }

    /// The file in the checkout.
    fn in_checkout(&mut self) -> &mut GraphFile {
        self.checkout.as_mut().map_or(&mut self.file, |checkout| &mut checkout.file)
    }

    /// Whether the graph file may be in the middle of being saved.
    pub(super) fn is_half_saved(&self) -> bool {
        self.unreadable.is_none_or(|since| since.elapsed() <= HALF_SAVED)
    }

    /// Returns the event that the graph was read.
    pub(super) fn loaded(&self) -> Event {
        let tasks = self.file.graph().tasks();
        let complete = tasks.iter().filter(|task| task.status == Status::Complete).count();
        GraphEvent::GraphLoaded { tasks: tasks.len(), complete }.into()
    }

    /// Keeps a copy of the graph at the start of an attempt.
    pub(super) fn keep(&mut self, workspace: &Workspace) -> Result<()> {
        workspace.state.keep_graph(self.file.text()).context("keep a copy of the graph")?;
        self.before = Some(GraphBefore::of(&self.file, false));
        crash::point("start.kept");
        Ok(())
    }

    /// Puts the graph file back if an attempt put something in its place that is not a file.
    pub(super) fn restore_special(
        &mut self,
        workspace: &Workspace,
        facts: &mut Facts,
    ) -> Result<()> {
        let Some(aside) = self.in_checkout().restore_special(&workspace.state)? else {
            return Ok(());
        };
        let kept = aside.strip_prefix(workspace.root()).unwrap_or(&aside);
        let kept = Some(kept.display().to_string());
        let (what, tasks) = (Harm::Damaged, Vec::new());
        facts.of_run(GraphEvent::GraphGuarded { what, tasks, undone: true, kept });
        Ok(())
    }

    /// Rereads the graph after an attempt. A graph that stays unreadable is restored. Returns its
    /// first error. Changes to the agent's own task are not reported here, because the verdict
    /// reports them.
    pub(super) fn reread(
        &mut self,
        workspace: &Workspace,
        records: &Records,
        record: &AttemptRecord,
        facts: &mut Facts,
    ) -> Result<Option<String>> {
        self.restore_special(workspace, facts)?;
        let began = Instant::now();
        let fault = loop {
            match self.refresh(workspace)? {
                Ok(None) => return Ok(None),
                Ok(Some(foreign)) => {
                    let mut foreign = without_landings(records, foreign);
                    foreign.retain(|change| change.task_id != record.task_id);
                    note(self.file.graph(), foreign, Cause::EditedDuringAttempt, facts);
                    return Ok(None);
                }
                // An isolated attempt has a copy of its own, so a person is editing this file.
                Err(rejected) if record.slot.is_some() => {
                    self.report_bad(&rejected, facts);
                    return Ok(None);
                }
                Err(rejected) if began.elapsed() > HALF_SAVED => break rejected.summary(),
                Err(rejected) => {
                    self.report_bad(&rejected, facts);
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        };
        let text = self.file.text().to_owned();
        let kept = self.put_back(workspace, record, &text)?;
        let what = if kept.is_some() { Harm::Damaged } else { Harm::Deleted };
        facts.guarded(record, what, Vec::new(), true, kept);
        Ok(Some(fault))
    }

    /// Replaces the graph file with `text`. Returns the path of the kept old file, if there was
    /// one.
    pub(super) fn put_back(
        &mut self,
        workspace: &Workspace,
        record: &AttemptRecord,
        text: &str,
    ) -> Result<Option<String>> {
        let aside = record.file(workspace, KEPT);
        if let Some(folder) = aside.parent() {
            fs::create_dir_all(folder).context("create the attempt's folder")?;
        }
        let kept = self.in_checkout().put_back(&workspace.state, text, &aside).map_err(
            |error| match error.downcast::<Rejected>() {
                Ok(rejected) => workspace::refused(&rejected),
                Err(error) => error,
            },
        )?;
        Ok(kept.then(|| format!("{}/{KEPT}", record.log)))
    }

    /// Whether the file is exactly that of the newest commit.
    pub(super) fn is_committed(&self, workspace: &Workspace) -> Result<bool> {
        let head = workspace.repo.head()?.commit;
        let head = head.map(|head| workspace.committed_text(&head)).transpose()?.flatten();
        Ok(head.is_some_and(|head| self.file.text() == head))
    }

    /// Reports once that the graph file is unreadable.
    pub(super) fn report_bad(&mut self, rejected: &Rejected, facts: &mut Facts) {
        if self.unreadable.is_none() {
            self.unreadable = Some(Instant::now());
            facts.of_run(GraphEvent::FileRejected { error: rejected.summary() });
        }
    }

    /// Writes a status to the graph file, and reports the change. Returns whether the file has it.
    pub(super) fn set(
        &mut self,
        cx: &RunContext,
        records: &Records,
        (id, iteration): (&TaskId, u32),
        (write, cause, time): (Write<'_>, Cause, EditTime),
        facts: &mut Facts,
    ) -> Result<bool> {
        let is_claimed = records.values().any(|record| record.task_id == *id);
        let is_in_place = records.values().any(|it| it.task_id == *id && it.slot.is_none());
        if self.is_read_only() && !is_in_place {
            return Ok(self.note_status((id, iteration), (write, cause), is_claimed, facts));
        }
        let Written { foreign, old, is_written } =
            match self.in_checkout().write(&cx.workspace.state, id, write) {
                Ok(written) => written,
                Err(error) => {
                    let rejected = error.downcast::<Rejected>()?;
                    // Once the file can be read, the claim that stays in it is void, and the commit
                    // that completed a task counts.
                    let is_known = match write {
                        Write::Complete { .. } => is_in_git(&cx.workspace, records, id),
                        // The attempt does not start.
                        Write::Claim { .. } => true,
                        Write::Plain(_) | Write::Restored(_) => time.goes_on,
                    };
                    if !is_known {
                        return Err(workspace::refused(&rejected));
                    }
                    self.report_bad(&rejected, facts);
                    return Ok(false);
                }
            };
        note(self.file.graph(), without_landings(records, foreign), time.edited, facts);
        let old = match (write, old) {
            // The landing has written it.
            (Write::Complete { .. }, Some(Status::Complete)) if is_claimed => {
                Some(Status::InProgress)
            }
            (_, old) => old,
        };
        let new = Some(write.status());
        if is_written && old != new {
            let event = GraphEvent::StatusChanged { old, new, cause, reason: None };
            facts.of_task(id, Some(iteration), event);
        }
        Ok(is_written)
    }

    /// Reports a status that the file of the checkout does not get from the run. Returns whether it
    /// is that of the task now.
    fn note_status(
        &mut self,
        (id, iteration): (&TaskId, u32),
        (write, cause): (Write<'_>, Cause),
        is_claimed: bool,
        facts: &mut Facts,
    ) -> bool {
        let Some(number) = self.file.graph().number(id) else { return false };
        let is_claim = matches!(write, Write::Claim { .. });
        if is_claim && !self.file.may_start(number) {
            return false;
        }
        let status = self.file.graph().task(number).status;
        let old = match status {
            Status::Pending if is_claimed && !is_claim => Status::InProgress,
            Status::Complete if is_claimed && write.status() == Status::Complete => {
                Status::InProgress
            }
            status => status,
        };
        // The history has the claims and the questions. A person may have completed the task.
        let is_complete = matches!(write, Write::Complete { .. });
        if status == Status::Complete && !is_complete && cause != Cause::Reopened {
            return true;
        }
        if is_complete || !is_claimed {
            self.file.follow(number, write);
        }
        let (old, new) = (Some(old), Some(write.status()));
        if old != new {
            let event = GraphEvent::StatusChanged { old, new, cause, reason: None };
            facts.of_task(id, Some(iteration), event);
        }
        true
    }

    /// Adds the new tasks of a completed attempt to the graph file if git does not track it.
    pub(super) fn adopt(
        &mut self,
        workspace: &Workspace,
        records: &Records,
        change: &GraphChange,
        facts: &mut Facts,
    ) {
        if change.adopted.is_none() || self.is_read_only() {
            return;
        }
        let edit = |file: &GraphFile| change.applied(file.text());
        // A person may have changed the file so that they do not fit; git has them.
        if let Ok(edited) = self.file.edit_text(&workspace.state, edit) {
            let changed = edited.foreign.into_iter().chain(edited.own.into_iter().flatten());
            let foreign = without_landings(records, changed.collect());
            note(self.file.graph(), foreign, Cause::EditedDuringAttempt, facts);
        }
    }

    /// Returns when a task was complete, according to the graph file.
    pub(super) fn completed_at(&self, id: &TaskId) -> Option<String> {
        let graph = self.file.graph();
        let task = graph.task(graph.number(id)?);
        task.extra.get("completed_at")?.as_str().map(str::to_owned)
    }

    /// Returns the corrections of the file where git or the lock of this run contradict it: a task
    /// that is complete in the newest commit is complete, unless a person reset it, and the claim
    /// of a run that is over is void. An older version of the file may have been restored. A commit
    /// that opens the task again, such as a revert, counts as well.
    pub(super) fn corrections(
        &self,
        cx: &RunContext,
        history: &History,
        records: &Records,
    ) -> Result<Vec<Correction>> {
        // A person may have another branch checked out than the target.
        let tip = match &cx.target {
            Some(target) => cx.workspace.repo.landings().tip(target)?.map(|tip| tip.commit),
            None => cx.workspace.repo.head()?.commit,
        };
        let Some(tip) = tip.filter(|_| cx.plain().is_none()) else { return Ok(Vec::new()) };
        let Some(committed) = cx.workspace.committed_graph(&tip)? else {
            return Ok(Vec::new());
        };
        let is_open = |task: &&Task| {
            matches!(task.status, Status::Pending | Status::InProgress)
                && !records.keys().any(|id| id.task_id == task.id)
        };
        let correct = |task: &Task| {
            let past = history.of(&task.id);
            let number = committed.graph().number(&task.id);
            let there = number.map(|number| committed.graph().task(number));
            let is_done = there.is_some_and(|there| there.status == Status::Complete);
            let (status, cause) = if !past.was_reset && is_done {
                let at = there.and_then(|task| task.extra.get("completed_at")?.as_str());
                let at = at.map_or_else(|| rfc3339(Utc::now()), str::to_owned);
                (CorrectStatus::Complete { at }, Cause::History)
            } else if task.has_void_claim() {
                let number = number.filter(|_| !there.is_some_and(Task::has_void_claim));
                let status = match number {
                    Some(number) => CorrectStatus::Restored(committed.status_word(number)),
                    None => CorrectStatus::Plain(Status::Pending),
                };
                (status, Cause::Recovered)
            } else {
                return None;
            };
            Some(Correction { task_id: task.id.clone(), status, cause })
        };
        Ok(self.file.graph().tasks().iter().filter(is_open).filter_map(correct).collect())
    }
}

/// Returns the cause of edits by others that are found now.
pub(super) fn cause_of_edits(run: &Run) -> Cause {
    if run.attempts().any_process() { Cause::EditedDuringAttempt } else { Cause::Edited }
}

/// Reports the changes of others in the graph file.
pub(super) fn note(graph: &TaskGraph, foreign: Vec<Foreign>, cause: Cause, facts: &mut Facts) {
    for Foreign { task_id, old, new } in foreign {
        // An agent's task comes with its work.
        let task = graph.number(&task_id).map(|number| graph.task(number));
        let is_of_agent = old.is_none() && task.is_some_and(|task| task.added_by.is_some());
        let cause = if is_of_agent { Cause::EditedDuringAttempt } else { cause };
        facts.of_task(&task_id, None, GraphEvent::StatusChanged { old, new, cause, reason: None });
    }
}

/// Leaves out the completions of tasks whose work has just landed: each is recorded with the end
/// of its attempt.
pub(super) fn without_landings(records: &Records, mut foreign: Vec<Foreign>) -> Vec<Foreign> {
    foreign.retain(|change| {
        let mut records = records.values();
        change.new != Some(Status::Complete)
            || !records.any(|record| record.task_id == change.task_id && record.slot.is_some())
    });
    foreign
}

/// Whether the completion of a task has landed with its work.
fn is_in_git(workspace: &Workspace, records: &Records, id: &TaskId) -> bool {
    let mut records = records.values();
    workspace.graph_in_git().is_some()
        && records.any(|record| record.task_id == *id && record.landing().is_some())
}

/// Returns how the file spelled the status of a task before it was claimed, if the task gets
/// that status again.
pub(super) fn word_before(records: &Records, id: &TaskId, status: Status) -> Option<String> {
    let is_its = |record: &&AttemptRecord| record.task_id == *id;
    let word = records.values().find(is_its)?.status_word.clone()?;
    let was = if word.is_empty() { Some(Status::Pending) } else { Status::parse(&word) };
    (status == Status::Pending && was == Some(Status::Pending)).then_some(word)
}

/// Commits the status of a task whose attempt `record` worked in the checkout: completion belongs to
/// the work, and a claim that the attempt committed is undone.
pub(super) fn commit_status(
    workspace: &Workspace,
    record: &AttemptRecord,
    write: Write<'_>,
) -> Result<()> {
    let (repo, id) = (&workspace.repo, &record.task_id);
    let Some(file) = workspace.head_graph()? else { return Ok(()) };
    let (graph, text) = (file.graph(), file.text());
    let Some(task) = graph.number(id).map(|number| graph.task(number)) else { return Ok(()) };
    let is_due = match write {
        Write::Complete { .. } => true,
        Write::Claim { .. } | Write::Plain(_) | Write::Restored(_) => {
            task.claimed_by == Some(format!("ralph {}", record.run_id))
        }
    };
    if !is_due {
        return Ok(());
    }
    let path = workspace.graph_name();
    if let Ok(Some(changed)) = with_status(text, id, write)
        && changed != text
    {
        let message = match write {
            Write::Complete { .. } => leftovers::completion_message(record, &task.title),
            Write::Claim { .. } | Write::Plain(_) | Write::Restored(_) => {
                leftovers::release_message(record, &task.title)
            }
        };
        // A person who commits at the same moment wins; the status then stays uncommitted.
        let _ = repo.commits().commit_file_on_head(&path, &changed, &message);
        crash::point("close.committed");
    } else {
        let _ = repo.commits().finish_file_commit(&path);
    }
    Ok(())
}
