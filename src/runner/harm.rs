//! Changes that an attempt made to the graph file beyond its own task, and undoing those that are
//! certainly the agent's.
//!
//! A person may edit the file while an agent runs, so the author of an uncommitted change is
//! unknown; such a change is only reported. Two cases are certain: a change in the agent's own
//! commits, and a file that is no longer readable. Changes are undone only while an attempt is
//! being closed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{HALF_SAVED, Runner};
use crate::{
    core::{
        event::{Cause, Event, Harm, record::Record},
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
    },
    project::{
        attempt::AttemptRecord,
        graph_file::{Rejected, Write, graph_of},
        workspace,
    },
};

/// The name under which a replaced graph file is kept in the attempt's folder.
const KEPT: &str = "graph.damaged.yaml";

/// The graph at the start of an attempt, including its claim.
pub(super) struct GraphBefore {
    text: String,
    statuses: BTreeMap<TaskId, Status>,
    /// Tasks whose status a `ralph` command has changed since. These changes count as a person's.
    commanded: BTreeSet<TaskId>,
}

impl GraphBefore {
    /// Notes status changes that happen while the attempt runs.
    pub(super) fn note(&mut self, record: &Record) {
        if let (Event::StatusChanged { cause: Cause::Command, .. }, Some(id)) =
            (&record.event, &record.task_id)
        {
            self.commanded.insert(id.clone());
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
        let tasks = self.graph.file.graph().tasks().iter();
        self.graph.before = Some(GraphBefore {
            text: self.graph.file.text().to_owned(),
            statuses: tasks.map(|task| (task.id.clone(), task.status)).collect(),
            commanded: BTreeSet::new(),
        });
        Ok(())
    }

    /// Rereads the graph after an attempt. A graph that stays unreadable is restored. Changes to
    /// the agent's own task are not reported here, because the verdict reports them.
    pub(super) fn reread_graph(&mut self, record: &AttemptRecord) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.graph.file.refresh() {
                Ok(None) => return Ok(()),
                Ok(Some(foreign)) => {
                    self.graph.reported = false;
                    let foreign = foreign.into_iter().filter(|f| f.task_id != record.task_id);
                    return self.note(foreign, Cause::EditedDuringAttempt);
                }
                Err(_) if began.elapsed() > HALF_SAVED => break,
                Err(rejected) => {
                    self.report_bad_graph(&rejected)?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        let text = self.graph.file.text().to_owned();
        let kept = self.put_back(record, &text)?;
        self.graph.reported = false;
        let what = if kept.is_some() { Harm::Damaged } else { Harm::Deleted };
        self.emit_guarded(record, what, Vec::new(), true, kept)
    }

    /// Undoes changes to other tasks that the agent committed.
    pub(super) fn guard_graph(&mut self, record: &AttemptRecord) -> Result<()> {
        // An isolated attempt changes only its own copy, which never becomes the graph file.
        let Some(before) = self.graph.before.take().filter(|_| record.worktree.is_none()) else {
            return Ok(());
        };
        self.report_changes(record, &before)?;
        let foreign = |id: &TaskId| *id != record.task_id && !before.commanded.contains(id);
        let graph = self.graph.file.graph();
        let now = |id: &TaskId| graph.number(id).map(|number| graph.task(number).status);
        let changed: Vec<(TaskId, Status, Option<Status>)> = before
            .statuses
            .iter()
            .map(|(id, old)| (id.clone(), *old, now(id)))
            .filter(|(id, old, new)| {
                let ends = new.is_none_or(Status::is_over);
                ends && *new != Some(*old) && foreign(id)
            })
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        let (Some(base), Some(head)) = (&record.base, self.workspace.repo.head()?.commit) else {
            return Ok(());
        };
        let (was, head) = (self.committed(base)?, self.committed(&head)?.unwrap_or_default());
        let (Some(base), Some(committed)) = (was.as_deref().and_then(graph_of), graph_of(&head))
        else {
            return Ok(());
        };
        let status =
            |graph: &TaskGraph, id: &TaskId| graph.number(id).map(|n| graph.task(n).status);
        let certain = changed.into_iter().filter(|(id, _, new)| {
            let was = status(&base, id);
            was.is_some() && was != *new && status(&committed, id) == *new
        });
        let (dropped, finished): (Vec<_>, Vec<_>) = certain.partition(|(.., new)| new.is_none());
        if !dropped.is_empty() {
            let ids = dropped.into_iter().map(|(id, ..)| id).collect();
            // Restore only if the file is exactly what the agent committed; otherwise a person's
            // edit would be lost.
            if self.graph.file.text().as_bytes() == head {
                let kept = self.put_back(record, &before.text)?;
                return self.emit_guarded(record, Harm::Dropped, ids, true, kept);
            }
            self.emit_guarded(record, Harm::Dropped, ids, false, None)?;
        }
        if finished.is_empty() {
            return Ok(());
        }
        for (id, old, _) in &finished {
            self.set((id, record.iteration), Write::Plain(*old), Cause::PutBack)?;
        }
        let ids = finished.into_iter().map(|(id, ..)| id).collect();
        self.emit_guarded(record, Harm::Finished, ids, true, None)
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
    fn committed(&self, commit: &str) -> Result<Option<Vec<u8>>> {
        let path = self.workspace.graph_name();
        if path.starts_with('/') { Ok(None) } else { self.workspace.repo.file_at(commit, &path) }
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
