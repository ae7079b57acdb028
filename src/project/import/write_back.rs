//! Completed tasks in the files that they were imported from.
//!
//! What is to be written follows from the graph and from the file alone, so a run that was killed
//! before or while it wrote is made up for by the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path},
};

use anyhow::{Context, Result, bail};

use super::{
    ImportRecord, SourceText, format_of,
    statuses::{self, UpdatedSource},
};
use crate::{
    adapters::{git::Repo, state},
    core::{
        commit_id::CommitId,
        event::SourceUpdated,
        graph::task::{Status, TaskId},
        import::{BacklogFormat, plan::ExistingTasks},
    },
    project::workspace::Workspace,
    regular_file,
};

/// How often an update is made again because the file was saved at the same moment.
const TRIES: u32 = 5;

/// The tasks that are complete, by `source`.
pub type DoneTasks = BTreeMap<String, TaskId>;

/// Returns the files of the repository that these tasks come from, by name.
pub fn files(workspace: &Workspace, done: &DoneTasks) -> BTreeSet<String> {
    let own = workspace.graph_name();
    let names = done.keys().filter_map(|source| file_of(workspace.root(), source));
    names.filter(|name| *name != own).collect()
}

/// The file of a `source` such as `prd.json#US-001`, if it is a regular file in the repository. The
/// graph may have been written by an agent, so no other path is followed.
fn file_of(root: &Path, source: &str) -> Option<String> {
    let names = source.match_indices('#').map(|(at, _)| &source[..at]);
    let is_inside = |name: &&str| {
        let is_normal = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
        let (path, found) = (Path::new(name), fs::symlink_metadata(root.join(name)));
        let whole = fs::canonicalize(root.join(name)).ok();
        path.components().all(is_normal)
            && found.is_ok_and(|found| found.is_file())
            && whole.zip(fs::canonicalize(root).ok()).is_some_and(|(path, root)| {
                path.strip_prefix(&root).is_ok_and(|inside| inside == Path::new(name))
            })
    };
    { names }.find(is_inside).map(str::to_owned)
}

/// Marks tasks as done in a file. The change is committed on HEAD if git tracks the file and a person
/// has not changed it. Returns none if the file has nothing to change.
///
/// # Errors
/// The file cannot be read as a backlog; errors of git and of the disk.
pub fn mark_done(
    workspace: &Workspace,
    name: &str,
    done: &DoneTasks,
    existing: &ExistingTasks,
) -> Result<Option<SourceUpdated>> {
    let path = workspace.root().join(name);
    let wanted = WantedStatuses {
        statuses: done.keys().map(|source| (source.clone(), Status::Complete)).collect(),
        existing,
        format: ImportRecord::read(workspace).format(name),
    };
    let found = SourceFileText::read(&path, name, wanted.format)?;
    let updated = wanted.update(&found.source)?;
    if updated.written.is_empty() {
        return Ok(None);
    }
    let tasks: Vec<TaskId> =
        updated.written.iter().filter_map(|source| done.get(source).cloned()).collect();
    let repo = &workspace.repo;
    let committed = committed(repo, name, &wanted, &tasks)?;
    put(workspace, &path, (found, updated.text), &wanted)?;
    ImportRecord::read(workspace).note_done(workspace, &updated.written)?;
    let (commit, uncommitted) = match committed {
        Ok(commit) => (Some(commit), None),
        // A killed run has committed it.
        Err(FILE_CHANGED) if repo.is_as_staged(name)? => (None, None),
        Err(why) => (None, Some(why.to_owned())),
    };
    Ok(Some(SourceUpdated { source: name.to_owned(), tasks, commit, uncommitted }))
}

/// The statuses that a source is to have, by `source`, with what is known of its tasks.
struct WantedStatuses<'a> {
    statuses: BTreeMap<String, Status>,
    existing: &'a ExistingTasks,
    /// The format that a person named.
    format: Option<BacklogFormat>,
}

impl WantedStatuses<'_> {
    fn update(&self, source: &SourceText) -> Result<UpdatedSource> {
        statuses::update(source, &self.statuses, self.existing)
    }
}

/// Replaces the file by a text that was made from `found`, unless a person saves the file meanwhile:
/// then the statuses go into the newer text.
fn put(
    workspace: &Workspace,
    path: &Path,
    (mut found, mut text): (SourceFileText, String),
    wanted: &WantedStatuses<'_>,
) -> Result<()> {
    let name = found.source.name.clone();
    for _ in 0..TRIES {
        if state::stamp(path).ok() == found.stamp {
            return state::replace(path, text.as_bytes(), workspace.durable())
                .with_context(|| format!("write `{name}`"));
        }
        found = SourceFileText::read(path, &name, wanted.format)?;
        text = wanted.update(&found.source)?.text;
    }
    bail!("`{name}` changes all the time")
}

/// The reason why a change is not committed together with changes of a person.
const FILE_CHANGED: &str = "the file has other changes";

/// Commits the file with the statuses, if it may be committed. Returns the commit, or the reason why
/// there is none.
fn committed(
    repo: &Repo,
    name: &str,
    wanted: &WantedStatuses<'_>,
    tasks: &[TaskId],
) -> Result<Result<CommitId, &'static str>> {
    let Some(head) = repo.head()?.commit else { return Ok(Err("there is no commit yet")) };
    let Some(text) = repo.file_at(&head, name)? else {
        return Ok(Err("git does not track the file"));
    };
    if repo.unfinished().is_some() {
        return Ok(Err("git has an unfinished merge or rebase"));
    }
    // A run may have been killed between the commit and the index.
    if !repo.finish_file_commit(name)? || !repo.is_as_staged(name)? {
        return Ok(Err(FILE_CHANGED));
    }
    // Git may have converted the file in the checkout, so its own text is changed, too.
    let Ok(text) = String::from_utf8(text) else { return Ok(Err("git has another text")) };
    let format = format_of(name, &text, wanted.format)?;
    let source = SourceText { name: name.to_owned(), path: None, text, format };
    let updated = wanted.update(&source)?;
    if updated.written.is_empty() {
        return Ok(Err("git has another text"));
    }
    let commit = repo.commit_file_on_head(name, &updated.text, &message(name, tasks))?;
    Ok(commit.ok_or(FILE_CHANGED))
}

fn message(name: &str, tasks: &[TaskId]) -> String {
    let noun = if tasks.len() == 1 { "task" } else { "tasks" };
    let trailers = tasks.iter().map(|id| format!("Ralph-Task: {id}\n"));
    let name = name.escape_debug();
    format!("Mark {} {noun} as done in {name}\n\n{}", tasks.len(), trailers.collect::<String>())
}

/// A source file, and the version of it that was read.
struct SourceFileText {
    stamp: Option<state::Stamp>,
    source: SourceText,
}

impl SourceFileText {
    fn read(path: &Path, name: &str, format: Option<BacklogFormat>) -> Result<SourceFileText> {
        let stamp = state::stamp(path).ok();
        let text = regular_file::read_to_string(path).with_context(|| format!("read `{name}`"))?;
        let format = format_of(name, &text, format)?;
        let source =
            SourceText { name: name.to_owned(), path: Some(path.to_owned()), text, format };
        Ok(SourceFileText { stamp, source })
    }
}
