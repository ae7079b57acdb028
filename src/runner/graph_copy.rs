//! The copy of the graph in the slot of an isolated attempt. It never becomes the graph file: the
//! attempt's own part is adopted when its work lands, and the rest is recorded and discarded.

use std::{fs, path::Path};

use anyhow::{Context, Result, anyhow};
use chrono::Utc;

use super::{context::Facts, graph_guard::GraphChanges};
use crate::{
    adapters::{
        git::Repo,
        state::{self, Stamp},
    },
    core::{
        event::Harm,
        executor::pool_of,
        graph::{
            TaskGraph,
            merge::{self, Texts},
            task::{ADDED_BY, Status, TaskId},
            task_edit::{FieldChanges, edited_tasks, set_fields_of},
        },
    },
    project::{
        attempt::AttemptRecord,
        executors,
        graph_file::{GraphFile, Write, graph_of, read_graph, rfc3339, with_status},
        workspace::Workspace,
    },
    regular_file,
};

/// The graph changes of a landing: its task is complete, and new tasks are adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GraphChange {
    /// The task.
    pub(super) task_id: TaskId,
    /// When it was complete (RFC 3339).
    pub(super) at: String,
    /// The graph at the base of the attempt, and the graph that the attempt left, if it has new
    /// tasks.
    pub(super) adopted: Option<(String, String)>,
    /// The new tasks, and the status that each gets instead of the attempt's.
    pub(super) new: Vec<(TaskId, Option<Status>)>,
}

impl GraphChange {
    /// Returns the text with this change; none if the task is not in it.
    pub(super) fn applied(&self, text: &str) -> Result<Option<String>> {
        let Some(done) = with_status(text, &self.task_id, Write::Complete { at: &self.at })? else {
            return Ok(None);
        };
        let Some((base, theirs)) = &self.adopted else {
            return Ok(Some(done));
        };
        let texts = Texts { base, ours: &done, theirs };
        let adopted = merge::adopt(texts).map_err(|why| anyhow!("{}", why.reason))?;
        marked(adopted.unwrap_or(done), &self.task_id, &self.new).map(Some)
    }
}

/// Marks tasks of agents as such: who added them, and the status that each gets.
pub(super) fn marked(
    mut text: String,
    by: &TaskId,
    new: &[(TaskId, Option<Status>)],
) -> Result<String> {
    let added =
        |(id, _): &(TaskId, _)| (id.clone(), vec![(ADDED_BY.to_owned(), Some(by.as_str().into()))]);
    let marks: Vec<FieldChanges> = new.iter().map(added).collect();
    if !marks.is_empty() {
        text = set_fields_of(&text, &marks).map_err(|why| anyhow!("{}", why.reason))?;
    }
    for (id, status) in new {
        if let Some(status) = status
            && let Some(changed) = with_status(&text, id, Write::Plain(*status))?
        {
            text = changed;
        }
    }
    Ok(text)
}

/// A copy that an attempt left.
enum LeftCopy {
    Unchanged,
    /// It is gone or not a valid graph, with the first error.
    Invalid(String),
    Changed(Box<ChangedCopy>),
}

/// A graph that an attempt changed.
struct ChangedCopy {
    /// The text at the start of the attempt.
    was: String,
    old: TaskGraph,
    now: String,
    new: TaskGraph,
}

/// Returns the other tasks whose fields an attempt changed, unless it merged landed work.
fn edited(was: &str, now: &str, main: &str, own: &TaskId) -> Vec<TaskId> {
    let mut found = edited_tasks(was, now);
    found.retain(|id| id != own);
    if !found.is_empty() {
        let not_merged = edited_tasks(main, now);
        found.retain(|id| not_merged.contains(id));
    }
    found
}

/// Returns why the graph in a slot cannot be read.
fn unreadable(copy: &Path, name: &str) -> Option<String> {
    if regular_file::is_special(copy) {
        return Some(format!("{name} is not a regular file"));
    }
    GraphFile::read(copy, name).err().map(|rejected| rejected.summary())
}

/// Whether an attempt changed a file of its slot; false if it damaged the repository there.
fn is_changed(tree: &Repo, path: &str) -> bool {
    tree.dirty().is_ok_and(|dirty| dirty.contains_key(path))
        || tree.file_at("HEAD", path).is_ok_and(|text| text.is_none())
}

/// Examines the graph that an isolated attempt left in its slot. New tasks are adopted when its
/// work lands; other changes are recorded and discarded.
pub(super) fn examine(
    workspace: &Workspace,
    file: &GraphFile,
    record: &AttemptRecord,
    tree: Option<&Repo>,
    facts: &mut Facts,
) -> Result<(GraphChange, GraphChanges)> {
    let nothing = GraphChanges::default();
    if let Some(found) = landed_change(workspace, record)? {
        return Ok(found);
    }
    let (task_id, at) = (record.task_id.clone(), rfc3339(Utc::now()));
    let mut change = GraphChange { task_id, at, adopted: None, new: Vec::new() };
    let ChangedCopy { was, old, now, new } = match left_copy(workspace, file, record, tree)? {
        LeftCopy::Unchanged => return Ok((change, nothing)),
        LeftCopy::Invalid(fault) => {
            facts.guarded(record, Harm::OwnCopy, Vec::new(), true, None);
            return Ok((change, GraphChanges { fault: Some(fault), ..nothing }));
        }
        LeftCopy::Changed(changed) => *changed,
    };
    let main = file.graph();
    // The agent may have merged work landed since its start.
    let is_other = |id: &TaskId| {
        let set = new.status_of(id);
        *id != record.task_id && set != old.status_of(id) && set != main.status_of(id)
    };
    let ids = old.tasks().iter().map(|task| task.id.clone());
    let others: Vec<TaskId> = ids.filter(is_other).collect();
    let is_new = |id: &TaskId| old.number(id).is_none() && main.number(id).is_none();
    let added = new.tasks().iter().map(|task| task.id.clone());
    let mut added: Vec<TaskId> = added.filter(is_new).collect();
    let mut discarded = others.clone();
    discarded.extend(edited(&was, &now, file.text(), &record.task_id));
    discarded.sort_unstable();
    discarded.dedup();
    if !discarded.is_empty() {
        facts.guarded(record, Harm::OwnCopy, discarded, true, None);
    }
    let own = new.status_of(&record.task_id);
    let own = own.filter(|own| Some(*own) != old.status_of(&record.task_id));
    // No attempt has worked on a new task.
    let is_done = |id: &&TaskId| new.status_of(id) == Some(Status::Complete);
    let reopened: Vec<TaskId> = added.iter().filter(is_done).cloned().collect();
    if !reopened.is_empty() {
        facts.guarded(record, Harm::Finished, reopened.clone(), true, None);
    }
    if let Some(own) = &record.run_on {
        // A new task must not get out of where its author is kept.
        let gets_out = |id: &TaskId| {
            let task = new.number(id).map(|number| new.task(number));
            task.is_some_and(|task| {
                executors::name_of(&workspace.config, task, None) != pool_of(own)
            })
        };
        if added.iter().any(gets_out) {
            let added = std::mem::take(&mut added);
            facts.guarded(record, Harm::NewElsewhere, added, true, None);
        }
    }
    if !added.is_empty() {
        let adopted = Some((was, now));
        // Its `complete` is invalid: no attempt was made at the task.
        let status =
            |id: &TaskId| (new.status_of(id)? == Status::Complete).then_some(Status::Pending);
        let tasks = added.iter().map(|id| (id.clone(), status(id))).collect();
        let whole = GraphChange { adopted, new: tasks, ..change.clone() };
        if whole.applied(file.text()).is_ok() {
            change = whole;
        } else {
            let added = std::mem::take(&mut added);
            facts.guarded(record, Harm::NewInvalid, added, true, None);
        }
    }
    let others = [others, reopened].concat();
    Ok((change, GraphChanges { status: own, others, added, fault: None }))
}

/// Returns an attempt's changes in the graph if an earlier run has landed its work: the landed
/// commit has them, and the file of the checkout may not have it yet.
fn landed_change(
    workspace: &Workspace,
    record: &AttemptRecord,
) -> Result<Option<(GraphChange, GraphChanges)>> {
    let has_landed = record.has_landed(workspace)?.is_some();
    let Some(commit) = record.landing().filter(|_| has_landed) else { return Ok(None) };
    let repo = &workspace.repo;
    let before = repo.commit_of(&format!("{commit}^"))?;
    let before = before.map(|before| workspace.committed_graph(&before)).transpose()?.flatten();
    let (Some(before), Some(after)) = (before, workspace.committed_graph(commit)?) else {
        return Ok(None);
    };
    let number = after.graph().number(&record.task_id);
    let at = number.and_then(|number| {
        after.graph().task(number).extra.get("completed_at")?.as_str().map(str::to_owned)
    });
    let Some(at) = at else { return Ok(None) };
    let added = after.graph().tasks().iter().map(|task| task.id.clone());
    let added = added.filter(|id| before.graph().number(id).is_none()).collect();
    let adopted = Some((before.text().to_owned(), after.text().to_owned()));
    let task_id = record.task_id.clone();
    let change = GraphChange { task_id, at, adopted, new: Vec::new() };
    let (status, others) = (Some(Status::Complete), Vec::new());
    Ok(Some((change, GraphChanges { status, others, added, fault: None })))
}

/// Reads the copy that an attempt left. Removes it if git does not track the graph.
fn left_copy(
    workspace: &Workspace,
    file: &GraphFile,
    record: &AttemptRecord,
    tree: Option<&Repo>,
) -> Result<LeftCopy> {
    let Some(path) = workspace.graph_in_git().filter(|_| record.slot.is_some()) else {
        return Ok(LeftCopy::Unchanged);
    };
    let (Some(base), Some(tree)) = (&record.base, tree) else {
        return Ok(LeftCopy::Unchanged);
    };
    let copy = tree.root().join(&path);
    let tracked = workspace.repo.file_at(base, &path)?;
    let Some(now) = regular_file::read(&copy).ok().and_then(|text| String::from_utf8(text).ok())
    else {
        // A sparse checkout need not have the file.
        let is_its = tracked.is_none() || is_changed(tree, &path);
        let fault = is_its.then(|| unreadable(&copy, &path)).flatten();
        return Ok(fault.map_or(LeftCopy::Unchanged, LeftCopy::Invalid));
    };
    if tracked.is_none() && tree.file_at("HEAD", &path).is_ok_and(|text| text.is_none()) {
        // It must not look like work that the attempt left. A committed one stays: its removal
        // would be a change.
        fs::remove_file(&copy).with_context(|| format!("remove `{}`", copy.display()))?;
    }
    // A graph that git does not track was copied from the main checkout.
    let was = tracked
        .map_or_else(|| file.text().to_owned(), |was| String::from_utf8_lossy(&was).into_owned());
    if was == now {
        return Ok(LeftCopy::Unchanged);
    }
    let Some(old) = graph_of(was.as_bytes()) else {
        return Ok(LeftCopy::Unchanged);
    };
    Ok(match read_graph(&path, &now) {
        Ok(new) => LeftCopy::Changed(Box::new(ChangedCopy { was, old, now, new })),
        Err(fault) => LeftCopy::Invalid(fault),
    })
}

/// Returns the state of the file of the graph in the slot of an isolated attempt.
pub(super) fn own_stamp(workspace: &Workspace, record: &AttemptRecord) -> Option<Stamp> {
    let slot = record.slot.as_ref()?;
    state::stamp(&slot.path.join(workspace.graph_in_git()?)).ok()
}

/// Returns the status of its own task in the graph in the slot of an isolated attempt, if the
/// attempt changed it.
pub(super) fn own_status(workspace: &Workspace, record: &AttemptRecord) -> Option<Status> {
    let slot = record.slot.as_ref()?;
    let path = workspace.graph_in_git()?;
    let status = |text: Vec<u8>| {
        let graph = graph_of(&text)?;
        graph.number(&record.task_id).map(|number| graph.task(number).status)
    };
    let was = workspace.repo.file_at(record.base.as_deref()?, &path).ok()?;
    let now = regular_file::read(&slot.path.join(&path)).ok().and_then(status);
    now.filter(|_| now != was.and_then(status))
}

/// Copies the graph into the slot of an attempt if git does not track it.
pub(super) fn write(workspace: &Workspace, tree: &Repo, base: &str, text: &str) -> Result<()> {
    let Some(path) = workspace.graph_in_git() else {
        return Ok(());
    };
    if tree.has_at(base, &path)? {
        return Ok(());
    }
    let copy = tree.root().join(&path);
    if let Some(folder) = copy.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create `{}`", folder.display()))?;
    }
    fs::write(&copy, text).with_context(|| format!("write `{}`", copy.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-01-02T03:04:05Z";

    #[test]
    fn a_claimed_task_and_a_free_one_end_as_the_same_text() {
        let id = TaskId::new("a").unwrap();
        for graph in [
            "tasks:\n  - id: a\n    title: A\n  - id: b\n",
            "tasks:\n  - {id: a, title: A}\n  - {id: b}\n",
            "tasks:\n- id: a\n  status: todo # later\n  depends_on: [b]\n- id: b\n",
            "nodes:\r\n  - id: b\r\n  - id: a\r\n    status: pending\r\n    title: A\r\n",
            "tasks: [{id: a}, {id: b}]",
            "tasks:\n  - id: b\n  - id: a\n    description: |\n      Text.\n\n      More.\n",
            "{\"tasks\": [{\"id\": \"a\", \"status\": \"pending\"}, {\"id\": \"b\"}]}\n",
        ] {
            let claim = Write::Claim { at: AT, by: "ralph run" };
            let claimed = with_status(graph, &id, claim).unwrap().unwrap();
            let change = GraphChange {
                task_id: id.clone(),
                at: AT.to_owned(),
                adopted: None,
                new: Vec::new(),
            };
            assert_ne!(claimed, graph);
            let file = |text| GraphFile::assume(Path::new(""), "", text).unwrap();
            let file = file(graph);
            let word = file.status_word(file.graph().number(&id).unwrap());
            let restored = with_status(&claimed, &id, Write::Restored(word.as_deref()));
            assert_eq!(restored.unwrap().as_deref(), Some(graph));
            assert_eq!(change.applied(&claimed).unwrap(), change.applied(graph).unwrap());
        }
    }
}
