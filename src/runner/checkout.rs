//! Forbidden leftovers of an attempt in the checkout: HEAD elsewhere than on its branch, commits
//! that git cannot read, and commits that change the settings or damage the graph.
//!
//! An isolated attempt cannot do that, because only verified work leaves its slot. Here it is put
//! back, and nothing is lost: HEAD's work is kept under the attempt's ref, and files with changes
//! stay.

use std::fs;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};

use super::context::{Facts, RunContext};
use crate::{
    adapters::{
        git::{HeadPlace, Repo},
        state,
    },
    core::{
        commit_id::CommitId,
        event::{AttemptEvent, CheckoutRestored, GraphEvent},
        exit::{Exit, Failure},
        graph::{
            TaskGraph,
            task::{Status, Task},
        },
        verdict::Evidence,
    },
    project::{
        attempt::{self, AttemptRecord, scrutiny},
        graph_file::{GraphFile, Write, with_status},
    },
    regular_file,
};

/// How long after the last sign of an attempt HEAD may have been moved by its end.
const SETTLING: TimeDelta = TimeDelta::seconds(5);

/// Where HEAD was when an attempt started.
fn place_of(record: &AttemptRecord) -> HeadPlace<'_> {
    HeadPlace { branch: record.branch.as_deref(), commit: record.base.as_deref() }
}

/// Whether HEAD was moved after an attempt had ended: a person did that.
fn was_moved_since(repo: &Repo, end: DateTime<Utc>) -> bool {
    repo.checkout_head()
        .head_moved_at()
        .is_some_and(|at| DateTime::<Utc>::from(at) > end + SETTLING)
}

/// Whether changes by an attempt to the checkout are put back: not in a plain loop, whose
/// iterations may change it freely.
pub(super) fn guards_checkout(cx: &RunContext, record: &AttemptRecord) -> bool {
    record.slot.is_none() && cx.plain().is_none()
}

/// Takes the commits of an attempt in the checkout off its branch if git cannot read all of them.
/// Its files stay. Returns a report.
pub(super) fn take_back_damaged(cx: &RunContext, record: &AttemptRecord) -> Result<Option<String>> {
    if !guards_checkout(cx, record) {
        return Ok(None);
    }
    let repo = &cx.workspace.repo;
    let Some(why) = repo.checkout_head().damage_since(record.base.as_deref())? else {
        return Ok(None);
    };
    repo.checkout_head()
        .take_back(place_of(record))
        .context("take damaged commits off the branch")?;
    Ok(Some(format!(
        "git cannot read its commits ({why}); they were taken off the branch, and its files stay \
         as uncommitted changes"
    )))
}

/// Whether HEAD is no longer where an attempt in the checkout may leave it.
pub(super) fn has_left_branch(cx: &RunContext, record: &AttemptRecord) -> Result<bool> {
    Ok(guards_checkout(cx, record)
        && cx.workspace.repo.checkout_head().has_left(place_of(record))?)
}

/// Keeps the commits of an attempt in the checkout which HEAD had lost when its verify commands
/// had ended. Returns a report.
pub(super) fn keep_lost(
    cx: &RunContext,
    record: &AttemptRecord,
    evidence: &Evidence,
) -> Result<Option<String>> {
    let repo = &cx.workspace.repo;
    let (Some(last), Some(head)) = (evidence.commits.last(), repo.head()?.commit) else {
        return Ok(None);
    };
    if !guards_checkout(cx, record) || repo.is_ancestor(&last.id, &head)? {
        return Ok(None);
    }
    let name = record.pin(&cx.workspace.place);
    repo.pins().keep_commit(&name, &last.id)?;
    Ok(Some(format!("HEAD left its commits while they were verified; they are kept as {name}")))
}

/// Keeps the settings from before an attempt in the checkout, whatever it or a person wrote
/// meanwhile: the author is unknown.
pub(super) fn pass_over_settings(cx: &mut RunContext, record: &AttemptRecord) -> Facts {
    let mut facts = Facts::default();
    if guards_checkout(cx, record) {
        for name in cx.workspace.layers.pass_over() {
            let error = format!(
                "`{name}` changed while attempt {} at `{}` worked in the checkout; the next run \
                 reads it",
                record.attempt, record.task_id
            );
            facts.of_run(GraphEvent::FileRejected { error });
        }
    }
    facts
}

/// Commits the graph of the base again if the attempt's commits left one that cannot be read, or
/// without tasks that were restored in the file. Statuses of other tasks that were restored in the
/// file are restored in the commit as well: the newest commit determines completion.
pub(super) fn restore_committed_graph(
    cx: &RunContext,
    graph: &GraphFile,
    record: &AttemptRecord,
    facts: &mut Facts,
) -> Result<()> {
    let repo = &cx.workspace.repo;
    if !guards_checkout(cx, record) || repo.checkout_head().has_left(place_of(record))? {
        return Ok(());
    }
    let (Some(base), Some(head), Some(path)) =
        (&record.base, repo.head()?.commit, cx.workspace.graph_in_git())
    else {
        return Ok(());
    };
    if *base == head || repo.unfinished().is_some() || repo.has_same_file(base, &head, &path)? {
        return Ok(());
    }
    let Some(was) = cx.workspace.committed_graph(base)? else { return Ok(()) };
    let now = cx.workspace.committed_graph(&head)?;
    let file = graph.graph();
    let is_whole = |now: &GraphFile| {
        let mut ids = was.graph().tasks().iter().map(|task| &task.id);
        ids.all(|id| now.graph().number(id).is_some() || file.number(id).is_none())
    };
    let Some(now) = now.filter(is_whole) else {
        return commit_restored(cx, record, base, (None, vec![path]), facts);
    };
    let text = with_restored_statuses(graph.graph(), record, &was, &now);
    if text == now.text() {
        return Ok(());
    }
    let message = restoration(record, &[&path]);
    if cx.workspace.repo.commits().commit_file_on_head(&path, &text, &message)?.is_none() {
        return Ok(());
    }
    restored(record, None, vec![path], facts);
    Ok(())
}

/// Returns the text of the committed graph `now`, with the earlier statuses of the other tasks that
/// have ended since the graph `was` but not in the file.
fn with_restored_statuses(
    graph: &TaskGraph,
    record: &AttemptRecord,
    was: &GraphFile,
    now: &GraphFile,
) -> String {
    let is_restored = |task: &&Task| {
        let has = |status: Option<Status>| status == Some(task.status);
        let there = graph.status_of(&task.id);
        task.id != record.task_id
            && task.status.is_over()
            && !has(was.graph().status_of(&task.id))
            && there.is_some()
            && !has(there)
    };
    let mut text = now.text().to_owned();
    for task in now.graph().tasks().iter().filter(is_restored) {
        let before = was.graph().status_of(&task.id);
        let word = was.graph().number(&task.id).map(|number| was.status_word(number));
        let write = match (before, &word) {
            (Some(Status::Pending), Some(word)) => Write::Restored(word.as_deref()),
            (before, _) => Write::Plain(before.unwrap_or(Status::Pending)),
        };
        if let Ok(Some(restored)) = with_status(&text, &task.id, write) {
            text = restored;
        }
    }
    text
}

/// Reverts the branch changes of an attempt in the checkout, once its end is recorded.
///
/// # Errors
/// HEAD cannot be put back; no attempt may start elsewhere.
pub(super) fn restore_checkout(
    cx: &RunContext,
    graph: &GraphFile,
    run_id: &str,
    record: &AttemptRecord,
    facts: &mut Facts,
) -> Result<()> {
    if !guards_checkout(cx, record) {
        return Ok(());
    }
    let is_found = record.run_id != run_id;
    if is_found && was_moved_since(&cx.workspace.repo, record.last_sign(&cx.workspace)) {
        return Ok(());
    }
    let moved = return_head(cx, graph, run_id, record)?;
    if moved.is_some() {
        return_files(cx, record)?;
    }
    let (Some(base), Some(head)) = (&record.base, cx.workspace.repo.head()?.commit) else {
        return Ok(());
    };
    let files = if cx.workspace.repo.unfinished().is_some() {
        Vec::new()
    } else {
        scrutiny::changed_settings(&cx.workspace, &cx.workspace.repo, record, &head)?
    };
    if moved.is_none() && files.is_empty() {
        return Ok(());
    }
    for path in files.iter().filter(|path| is_as_committed(cx, &head, path)) {
        restore_file(cx, path, base)?;
    }
    commit_restored(cx, record, base, (moved, files), facts)
}

/// Puts HEAD back on the branch of an attempt. Returns its commit if it was elsewhere.
fn return_head(
    cx: &RunContext,
    graph: &GraphFile,
    run_id: &str,
    record: &AttemptRecord,
) -> Result<Option<CommitId>> {
    let (repo, place) = (&cx.workspace.repo, place_of(record));
    if !repo.checkout_head().has_left(place)? {
        return Ok(None);
    }
    if record.run_id != run_id {
        record.unlock(repo);
    }
    let name = record.pin(&cx.workspace.place);
    let (in_git, text) = (cx.workspace.graph_in_git(), graph.text());
    let back = || -> Result<CommitId> {
        if let Some(head) = repo.head()?.commit {
            repo.pins().keep_commit(&name, &head)?;
        }
        // Of this file, `ralph` itself has uncommitted changes.
        let aside = in_git.as_deref().filter(|_| cx.workspace.graph_path().is_file());
        let commit = repo.checkout_head().return_head(place, aside);
        if aside.is_some()
            && regular_file::read_to_string(cx.workspace.graph_path()).ok().as_deref() != Some(text)
        {
            let path = cx.workspace.graph_path();
            state::replace(path, text.as_bytes()).context("write the graph file")?;
        }
        commit
    };
    back().map(Some).map_err(|error| {
        let (target, cure) = match (place.branch, place.commit) {
            (Some(branch), _) => (format!("`{branch}`"), format!("git switch {branch}")),
            (None, commit) => {
                let commit = commit.unwrap_or_default();
                (format!("commit {commit}"), format!("git switch --detach {commit}"))
            }
        };
        let message = format!(
            "attempt {} at `{}` left HEAD elsewhere than on {target}, and it cannot be put back: \
             {error:#}; what it did is kept as {name}: put HEAD back with `{cure}`, then run again",
            record.attempt, record.task_id
        );
        Failure::new(Exit::Error, message).into()
    })
}

/// Puts back the files with uncommitted changes of a person that an attempt has committed
/// elsewhere than on its branch.
fn return_files(cx: &RunContext, record: &AttemptRecord) -> Result<()> {
    let repo = &cx.workspace.repo;
    let name = record.pin(&cx.workspace.place);
    let Some(commit) = &repo.commit_of(&name)? else { return Ok(()) };
    let now = attempt::changed(&cx.workspace, repo)?;
    let mut paths: Vec<&str> = record.dirty.keys().map(String::as_str).collect();
    paths.retain(|path| {
        !now.contains_key(*path) && repo.file_at(commit, path).is_ok_and(|text| text.is_some())
    });
    if paths.is_empty() { Ok(()) } else { repo.checkout_head().restore_files(commit, &paths) }
}

/// Whether a file of the checkout is the version of a commit.
fn is_as_committed(cx: &RunContext, commit: &CommitId, path: &str) -> bool {
    let committed = cx.workspace.repo.file_at(commit, path).ok().flatten();
    regular_file::read(&cx.workspace.root().join(path)).ok() == committed
}

/// Writes a file as it was before: the settings as this run has read them, others as in the base.
fn restore_file(cx: &RunContext, path: &str, base: &CommitId) -> Result<()> {
    let file = cx.workspace.root().join(path);
    let own = cx.workspace.layers.own_text().filter(|(own, _)| own == path);
    let text = match own {
        Some((_, text)) => text.map(|text| text.as_bytes().to_owned()),
        None => cx.workspace.repo.file_at(base, path)?,
    };
    match text {
        Some(text) => state::replace(&file, &text),
        None if file.exists() => fs::remove_file(&file),
        None => Ok(()),
    }
    .with_context(|| format!("restore `{path}`"))
}

/// Commits the base version of these files, and records the restoration.
fn commit_restored(
    cx: &RunContext,
    record: &AttemptRecord,
    base: &CommitId,
    (commit, files): (Option<CommitId>, Vec<String>),
    facts: &mut Facts,
) -> Result<()> {
    if !files.is_empty() {
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        let message = restoration(record, &names);
        cx.workspace.repo.commits().restore_on_head(base, &names, &message)?;
    }
    restored(record, commit, files, facts);
    Ok(())
}

/// Records the restoration.
fn restored(
    record: &AttemptRecord,
    commit: Option<CommitId>,
    files: Vec<String>,
    facts: &mut Facts,
) {
    let (attempt, branch) = (record.attempt, record.branch.clone());
    let restored = CheckoutRestored { attempt, branch, commit, files };
    facts.of_attempt(record, AttemptEvent::CheckoutRestored(restored));
}

/// Returns the message of a commit that puts files back.
fn restoration(record: &AttemptRecord, files: &[&str]) -> String {
    let (number, id) = (record.attempt, &record.task_id);
    format!("Restore {} after attempt {number} at {id}\n", files.join(" and "))
}
