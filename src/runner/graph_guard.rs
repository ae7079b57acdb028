//! Changes that an attempt in the checkout made to the graph file beyond its own task, and which of
//! them are certainly the agent's.
//!
//! A person may edit the file while an agent runs, so the author of an uncommitted change is
//! unknown; the change is only reported. Two cases are certain: a change in the agent's own
//! commits, and a file that is no longer readable. One change is undone although a person may have
//! made it: another task is set to complete without a command. No agent may do that, and a person
//! can repeat it with `ralph task-complete`. Changes are undone only while an attempt is being
//! closed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;

use crate::{
    core::{
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::ActiveAttempt,
    },
    project::{
        attempt::AttemptRecord,
        graph_file::{GraphFile, graph_of},
        workspace::Workspace,
    },
};

/// The time that a command has to write the journal after the graph file.
pub(super) const COMMAND: Duration = Duration::from_millis(250);

/// The graph changes of an attempt.
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
    pub(super) fn of(file: &GraphFile, recovered: bool) -> GraphBefore {
        let tasks = file.graph().tasks().iter();
        GraphBefore {
            text: file.text().to_owned(),
            statuses: tasks.map(|task| (task.id.clone(), task.status)).collect(),
            recovered,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The status of a task. A new task has none to return to, and is pending.
    pub(super) fn status_of(&self, id: &TaskId) -> Status {
        self.statuses.get(id).copied().unwrap_or(Status::Pending)
    }

    /// Returns the tasks of the file that are new since.
    pub(super) fn added(&self, now: &TaskGraph) -> Vec<TaskId> {
        let ids = now.tasks().iter().map(|task| &task.id);
        ids.filter(|id| !self.statuses.contains_key(*id)).cloned().collect()
    }

    /// Returns the tasks whose definition changed during the attempt, including its own: it is
    /// judged by the definition at its start.
    pub(super) fn redefined(&self, file: &GraphFile, record: &AttemptRecord) -> Vec<TaskId> {
        if self.text == file.text() {
            return Vec::new();
        }
        let Some(was) = graph_of(self.text.as_bytes()) else {
            return Vec::new();
        };
        let now = file.graph();
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
                    let is_term = ["verify", "output"].contains(&name.as_str());
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
        self.statuses.keys().filter(|id| is_changed(id)).cloned().collect()
    }

    /// Returns the other tasks that are complete in the file since, and not by a command.
    pub(super) fn completed(
        &self,
        now: &TaskGraph,
        record: &AttemptRecord,
        active: Option<&ActiveAttempt>,
    ) -> Vec<TaskId> {
        let is_new = |id: &TaskId| self.statuses.get(id) != Some(&Status::Complete);
        let tasks = now.tasks().iter();
        let done = tasks.filter(|task| task.status == Status::Complete && is_new(&task.id));
        let ids = done.map(|task| task.id.clone());
        ids.filter(|id| {
            !is_commanded(record, active, id) && !crate::core::known_bug::is_on("guard-no-graph")
        })
        .collect()
    }

    /// Returns the other tasks that the agent's commits removed or cancelled, in two lists.
    pub(super) fn ended(
        &self,
        workspace: &Workspace,
        now: &TaskGraph,
        record: &AttemptRecord,
        active: Option<&ActiveAttempt>,
    ) -> Result<(Vec<TaskId>, Vec<TaskId>)> {
        let nothing = (Vec::new(), Vec::new());
        let ids = self.statuses.iter().map(|(id, old)| (id, *old, now.status_of(id)));
        let changed: Vec<_> = ids
            .filter(|(id, old, new)| {
                let ends = new.is_none_or(|new| new == Status::Cancelled);
                ends && *new != Some(*old) && !is_commanded(record, active, id)
            })
            .collect();
        if changed.is_empty() || self.recovered {
            return Ok(nothing);
        }
        let (Some(base), Some(head)) = (&record.base, workspace.repo.head()?.commit) else {
            return Ok(nothing);
        };
        let committed = (workspace.committed_graph(base)?, workspace.committed_graph(&head)?);
        let (Some(base), Some(committed)) = committed else { return Ok(nothing) };
        let (base, committed) = (base.graph(), committed.graph());
        let is_certain = |id: &TaskId, new: Option<Status>| {
            let was = base.status_of(id);
            was.is_some() && was != new && committed.status_of(id) == new
        };
        let certain = changed.into_iter().filter(|(id, _, new)| is_certain(id, *new));
        let (removed, cancelled): (Vec<_>, Vec<_>) = certain.partition(|(.., new)| new.is_none());
        let ids = |found: Vec<(&TaskId, Status, Option<Status>)>| {
            found.into_iter().map(|(id, ..)| id.clone()).collect()
        };
        Ok((ids(removed), ids(cancelled)))
    }
}

/// Whether the status of a task is the attempt's to set, or was set by a command.
fn is_commanded(record: &AttemptRecord, active: Option<&ActiveAttempt>, id: &TaskId) -> bool {
    *id == record.task_id || active.is_some_and(|active| active.commanded.contains(id))
}
