//! Changes that an attempt made to the graph file beyond its own task, and undoing those that are
//! certainly the agent's.
//!
//! A person may edit the file while an agent runs, so the author of an uncommitted change is
//! unknown; such a change is only reported. Two cases are certain: a change in the agent's own
//! commits, and a file that is no longer readable. One change is undone although a person may have
//! made it: another task is set to complete without a command. No agent may do that, and a person
//! can repeat it with `ralph task-complete`. Changes are undone only while an attempt is being
//! closed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{HALF_SAVED, Runner};
use crate::{
    core::{
        event::{Cause, Event, Harm},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
    },
    project::{
        attempt::{self, AttemptRecord},
        graph_file::{GraphFile, Rejected, Write, graph_of},
        workspace,
    },
};

/// The name under which a replaced graph file is kept in the attempt's folder.
const KEPT: &str = "graph.damaged.yaml";
/// The time that a command has to write the journal after the graph file.
const COMMAND: Duration = Duration::from_millis(250);

/// What an attempt changed in the graph.
#[derive(Debug, Default)]
pub(super) struct GraphChanges {
    /// The new status of its own task, if it changed in its own copy. That is a report.
    pub(super) status: Option<Status>,
    /// Other tasks whose status it set, which is not taken over.
    pub(super) others: Vec<TaskId>,
    /// The tasks that it added.
    pub(super) added: Vec<TaskId>,
    /// The first error, if it left an invalid graph.
    pub(super) fault: Option<String>,
}

/// The graph at the start of an attempt, including its claim.
pub(super) struct GraphBefore {
    text: String,
    statuses: BTreeMap<TaskId, Status>,
    /// Whether the run that started the attempt has died since, so that a person may have edited
    /// and committed the file.
    recovered: bool,
}

impl GraphBefore {
    fn of(file: &GraphFile, recovered: bool) -> GraphBefore {
        let tasks = file.graph().tasks().iter();
        GraphBefore {
            text: file.text().to_owned(),
            statuses: tasks.map(|task| (task.id.clone(), task.status)).collect(),
            recovered,
        }
    }
}

impl Runner {
    /// Keeps a copy of the graph at the start of the attempt.
    pub(super) fn remember_graph(&mut self) -> Result<()> {
        self.workspace
            .state
            .keep_graph(self.graph.file.text())
            .context("keep a copy of the graph")?;
        self.graph.before = Some(GraphBefore::of(&self.graph.file, false));
        Ok(())
    }

    /// Rereads the graph after an attempt. A graph that stays unreadable is restored. Returns its
    /// first error. Changes to the agent's own task are not reported here, because the verdict
    /// reports them.
    pub(super) fn reread_graph(&mut self, record: &AttemptRecord) -> Result<Option<String>> {
        self.restore_special_graph()?;
        let began = Instant::now();
        let fault = loop {
            match self.graph.file.refresh(&self.workspace.state) {
                Ok(None) => return Ok(None),
                Ok(Some(foreign)) => {
                    let mut foreign = self.without_landings(foreign);
                    foreign.retain(|change| change.task_id != record.task_id);
                    self.note(foreign, Cause::EditedDuringAttempt)?;
                    return Ok(None);
                }
                // An isolated attempt has a copy of its own, so a person is editing this file.
                Err(rejected) if record.slot.is_some() => {
                    self.report_bad_graph(&rejected)?;
                    return Ok(None);
                }
                Err(rejected) if began.elapsed() > HALF_SAVED => break rejected.summary(),
                Err(rejected) => {
                    self.report_bad_graph(&rejected)?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        };
        let text = self.graph.file.text().to_owned();
        let kept = self.put_back(record, &text)?;
        let what = if kept.is_some() { Harm::Damaged } else { Harm::Deleted };
        self.emit_guarded(record, what, Vec::new(), true, kept)?;
        Ok(Some(fault))
    }

    /// Undoes changes to other tasks that are certainly the agent's, and completions of other tasks.
    pub(super) fn guard_graph(&mut self, record: &AttemptRecord) -> Result<GraphChanges> {
        // An isolated attempt changes only its own copy, which never becomes the graph file.
        if record.slot.is_some() {
            return Ok(GraphChanges::default());
        }
        let kept = || attempt::kept_graph(&self.workspace, record);
        let before = self.graph.before.take().or_else(|| Some(GraphBefore::of(&kept()?, true)));
        let Some(before) = before else {
            return Ok(GraphChanges::default());
        };
        self.report_changes(record, &before)?;
        let completed = self.completed_by(record, &before)?;
        let ended = if before.recovered { Vec::new() } else { self.ended_by(record, &before)? };
        let (dropped, cancelled): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|(_, new)| new.is_none());
        self.restore_dropped(record, &before, dropped.into_iter().map(|(id, _)| id).collect())?;
        let cancelled = cancelled.into_iter().map(|(id, _)| id);
        let others: Vec<TaskId> = completed.into_iter().chain(cancelled).collect();
        for id in &others {
            // A new task has no status to return to.
            let old = before.statuses.get(id).copied().unwrap_or(Status::Pending);
            if self.status_now(id).is_some_and(|now| now != old) {
                self.set((id, record.iteration), Write::Plain(old), Cause::PutBack)?;
            }
        }
        if !others.is_empty() {
            self.emit_guarded(record, Harm::Finished, others.clone(), true, None)?;
        }
        self.restore_committed_graph(record)?;
        let ids = self.graph.file.graph().tasks().iter().map(|task| &task.id);
        let added = ids.filter(|id| !before.statuses.contains_key(*id)).cloned().collect();
        Ok(GraphChanges { others, added, ..GraphChanges::default() })
    }

    /// Restores the graph if the agent's commits removed tasks.
    fn restore_dropped(
        &mut self,
        record: &AttemptRecord,
        before: &GraphBefore,
        dropped: Vec<TaskId>,
    ) -> Result<()> {
        if dropped.is_empty() {
            return Ok(());
        }
        let head = self.workspace.repo.head()?.commit;
        let head = head.map(|head| self.committed(&head)).transpose()?.flatten();
        // Only if the file is exactly what the agent committed; otherwise a person's edit would be
        // lost.
        if head.is_none_or(|head| self.graph.file.text().as_bytes() != head) {
            return self.emit_guarded(record, Harm::Dropped, dropped, false, None);
        }
        let kept = self.put_back(record, &before.text)?;
        self.emit_guarded(record, Harm::Dropped, dropped, true, kept)
    }

    pub(super) fn status_now(&self, id: &TaskId) -> Option<Status> {
        self.graph.file.graph().status_of(id)
    }

    /// Whether the status of a task is the attempt's to set, or was set by a command.
    fn is_commanded(&self, record: &AttemptRecord, id: &TaskId) -> bool {
        let active = self.store.history().active.of(&record.task_id);
        *id == record.task_id || active.is_some_and(|active| active.commanded.contains(id))
    }

    /// Returns the other tasks that are complete in the file since the start of the attempt, and
    /// not by a command.
    fn completed_by(
        &mut self,
        record: &AttemptRecord,
        before: &GraphBefore,
    ) -> Result<Vec<TaskId>> {
        let found = |runner: &Runner| -> Vec<TaskId> {
            let tasks = runner.graph.file.graph().tasks().iter();
            let is_new = |id: &TaskId| before.statuses.get(id) != Some(&Status::Complete);
            let done = tasks.filter(|task| task.status == Status::Complete && is_new(&task.id));
            let ids = done.map(|task| task.id.clone());
            ids.filter(|id| !runner.is_commanded(record, id)).collect()
        };
        if found(self).is_empty() {
            return Ok(Vec::new());
        }
        // A command that has just written the file is about to write the journal.
        std::thread::sleep(COMMAND);
        let records = self.store.catch_up()?;
        self.publish(&records);
        Ok(found(self))
    }

    /// Returns the other tasks that the agent's commits removed or cancelled.
    fn ended_by(
        &self,
        record: &AttemptRecord,
        before: &GraphBefore,
    ) -> Result<Vec<(TaskId, Option<Status>)>> {
        let ids = before.statuses.iter().map(|(id, old)| (id, *old, self.status_now(id)));
        let changed: Vec<_> = ids
            .filter(|(id, old, new)| {
                let ends = new.is_none_or(|new| new == Status::Cancelled);
                ends && *new != Some(*old) && !self.is_commanded(record, id)
            })
            .collect();
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let (Some(base), Some(head)) = (&record.base, self.workspace.repo.head()?.commit) else {
            return Ok(Vec::new());
        };
        let (was, head) = (self.committed(base)?, self.committed(&head)?.unwrap_or_default());
        let (Some(base), Some(committed)) = (was.as_deref().and_then(graph_of), graph_of(&head))
        else {
            return Ok(Vec::new());
        };
        let is_certain = |id: &TaskId, new: Option<Status>| {
            let was = base.status_of(id);
            was.is_some() && was != new && committed.status_of(id) == new
        };
        let certain = changed.into_iter().filter(|(id, _, new)| is_certain(id, *new));
        Ok(certain.map(|(id, _, new)| (id.clone(), new)).collect())
    }

    /// Reports the tasks whose definition changed during the attempt, including its own: it is
    /// judged by the definition at its start.
    fn report_changes(&mut self, record: &AttemptRecord, before: &GraphBefore) -> Result<()> {
        if before.text == self.graph.file.text() {
            return Ok(());
        }
        let Some(was) = graph_of(before.text.as_bytes()) else {
            return Ok(());
        };
        let now = self.graph.file.graph();
        let is_changed = |id: &TaskId| {
            let (Some(old), Some(new)) = (was.number(id), now.number(id)) else {
                return false;
            };
            let own = *id == record.task_id;
            let definition = |graph: &TaskGraph, number: usize| {
                let task = graph.task(number);
                let mut more = task.extra.clone();
                // Agents may write notes. Of its own task, an agent must not change the acceptance
                // criteria.
                more.retain(|name, _| {
                    let is_term = ["verify", "verify_baseline", "output"].contains(&name.as_str());
                    let is_free = ["notes", "completed_at"].contains(&name.as_str());
                    if own { is_term } else { !is_free }
                });
                let on = graph.dependencies(number).map(|d| graph.task(d).id.clone());
                let text = (task.title.clone(), task.description.clone(), task.priority);
                let rest = (!own).then(|| (text, on.collect::<BTreeSet<_>>()));
                (more, task.commit, rest)
            };
            definition(&was, old) != definition(now, new)
        };
        let changed: Vec<TaskId> =
            before.statuses.keys().filter(|id| is_changed(id)).cloned().collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.emit_guarded(record, Harm::Changed, changed, false, None)
    }

    /// Returns the graph file at a commit.
    pub(super) fn committed(&self, commit: &str) -> Result<Option<Vec<u8>>> {
        match self.workspace.graph_in_git() {
            Some(path) => self.workspace.repo.file_at(commit, &path),
            None => Ok(None),
        }
    }

    /// Replaces the graph file with `text`. Returns the path of the kept old file, if there was
    /// one.
    fn put_back(&mut self, record: &AttemptRecord, text: &str) -> Result<Option<String>> {
        let aside = record.file(&self.workspace, KEPT);
        if let Some(folder) = aside.parent() {
            fs::create_dir_all(folder).context("create the attempt's folder")?;
        }
        let kept =
            self.graph.file.put_back(&self.workspace.state, text, &aside).map_err(|error| {
                match error.downcast::<Rejected>() {
                    Ok(rejected) => workspace::refused(&rejected),
                    Err(error) => error,
                }
            })?;
        Ok(kept.then(|| format!("{}/{KEPT}", record.log)))
    }

    pub(super) fn emit_guarded(
        &mut self,
        record: &AttemptRecord,
        what: Harm,
        tasks: Vec<TaskId>,
        undone: bool,
        kept: Option<String>,
    ) -> Result<()> {
        let about = (&record.task_id, record.iteration);
        self.emit(Some(about), Event::GraphGuarded { what, tasks, undone, kept })
    }
}
