//! What becomes of the work that an attempt leaves: committed where it was reported done, kept
//! under a ref where the attempt did not complete its task.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{AttemptRecord, changed};
use crate::{
    adapters::{
        agent_output,
        git::{CommitDraft, Pin, PinSource, Repo},
        process::{self, ProcessSpec},
    },
    core::{
        graph::task::TaskId,
        loop_paths::LoopPaths,
        verdict::{Autocommit, Outcome},
    },
    crash,
    project::workspace::Workspace,
};

/// Where what git and its hooks print is kept, in the attempt's folder.
const LOG: &str = "commit.log";
/// How many of its last lines say why a commit was refused.
const LINES: usize = 3;

/// The ref under which what an attempt left is kept.
pub fn pin_name(place: &LoopPaths, id: &TaskId, attempt: u32) -> String {
    format!("{}/{attempt}", place.pins(id))
}

/// The paths that are changed now and were not so before, or are what an earlier attempt at the
/// task left; all of them.
///
/// # Errors
/// As git gives them.
pub fn left(workspace: &Workspace, tree: &Repo, record: &AttemptRecord) -> Result<Vec<String>> {
    let mut before = record.dirty.clone();
    before.retain(|path, _| !record.inherited.contains(path));
    Ok(since(changed(workspace, tree)?, &before))
}

/// The paths whose contents are not those of `before`; that one was merely staged is no change.
fn since(now: BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<String> {
    let contents = |print: &str| print.split_once(' ').map(|(_, contents)| contents.to_owned());
    let is_new = |(path, print): &(String, String)| {
        before.get(path).is_none_or(|before| contents(before) != contents(print))
    };
    now.into_iter().filter(is_new).map(|(path, _)| path).collect()
}

/// Those of the changed paths that the attempts before this one at the same task left, and that
/// nobody has touched since.
///
/// # Errors
/// As git gives them.
pub fn inherited(
    workspace: &Workspace,
    tree: &Repo,
    id: &TaskId,
    attempt: u32,
    dirty: &BTreeMap<String, String>,
) -> Result<BTreeSet<String>> {
    // Before the first attempt every change is a person's, or another task's.
    if attempt == 1 || dirty.is_empty() {
        return Ok(BTreeSet::new());
    }
    let Some(pin) = tree.newest_pin(&workspace.place.pins(id))? else {
        return Ok(BTreeSet::new());
    };
    let changed: Vec<String> = dirty.keys().cloned().collect();
    let name = format!("{id}.{attempt}");
    let scratch = workspace.state.scratch(&name).context("make room for an index")?;
    Ok(tree.still_as_pinned(&pin, &changed, &scratch)?.into_iter().collect())
}

/// Keeps what the attempt left, its commits included: the ref if there was anything to keep, and
/// what could not be kept, with the reason.
pub fn pin(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
) -> (Option<String>, Vec<String>) {
    let name = pin_name(&workspace.place, &record.task_id, record.attempt);
    let changed = match &record.worktree {
        None => left(workspace, tree, record),
        // Nothing in its work tree is anybody else's, and all of it must be somewhere before the next
        // attempt can have it.
        Some(_) => tree.dirty().map(|dirty| dirty.into_keys().collect()),
    };
    let kept = changed.and_then(|changed| {
        let left = PinSource {
            base: record.base.as_deref(),
            branch: record.branch.as_deref(),
            began: record.started_at.timestamp(),
            changed: &changed,
        };
        let base = record.base.as_deref().unwrap_or("none");
        let message = format!(
            "What attempt {} at {} left\n\n{}Ralph-Base: {base}\n",
            record.attempt,
            record.task_id,
            trailers(record)
        );
        let scratch = workspace.state.scratch(&record.name()).context("make room for an index")?;
        let kept = tree.pin(&name, &message, left, &scratch);
        crash::point("left.kept");
        kept
    });
    match kept {
        Ok(Pin { commit, left_out }) => (commit.map(|_| name), left_out),
        // The work tree is as it was: nothing is lost, and the run can go on.
        Err(error) => (None, vec![format!("{error:#}")]),
    }
}

/// The message of a commit that `ralph` makes of an attempt's work.
pub fn message(record: &AttemptRecord, title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{title}\n\n{}", trailers(record))
}

fn trailers(record: &AttemptRecord) -> String {
    format!("Ralph-Task: {}\nRalph-Attempt: {}\n", record.task_id, record.attempt)
}

/// Commits the paths that the attempt left, with the project's hooks and signing, within `limit`. None if
/// there is nothing that can be committed.
///
/// # Errors
/// As the disk gives them; what git says is a refusal.
pub fn commit(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    left: &[String],
    title: &str,
    limit: Duration,
) -> Result<Option<Autocommit>> {
    let message = message(record, title);
    let before = tree.head()?.commit;
    let draft = match tree.draft(left, &message) {
        Ok(None) => return Ok(None),
        Ok(Some(draft)) => draft,
        Err(error) => return Ok(Some(Autocommit::Refused(format!("{error:#}")))),
    };
    crash::point("left.drafted");
    let why = run(workspace, tree, record, &draft, limit)?;
    crash::point("left.committed");
    let head = tree.head()?.commit;
    // A hook that fails or hangs after the commit does not undo it.
    if let Some(commit) = head.filter(|head| before.as_ref() != Some(head)) {
        return Ok(Some(Autocommit::Committed(commit)));
    }
    tree.drop_draft(&draft)?;
    Ok(Some(Autocommit::Refused(why)))
}

/// Runs the commit; what it said last, should it have failed.
fn run(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    draft: &CommitDraft,
    limit: Duration,
) -> Result<String> {
    let paths = workspace.state.scratch(&record.name()).context("make room for a list of paths")?;
    fs::write(&paths, &draft.input).context("write a list of paths")?;
    let log = record.file(workspace, LOG);
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).context("make the attempt's folder")?;
    }
    let mut env = draft.env.clone();
    env.push(("RALPH_ATTEMPT_ID".to_owned(), record.mark()));
    let spec = ProcessSpec {
        argv: draft.argv.clone(),
        dir: tree.root().to_owned(),
        env,
        env_remove: draft.env_remove.clone(),
        stdin: paths.clone(),
        stdout: log.clone(),
        stderr: log.clone(),
    };
    // What a hook started and left running, also outside of the group.
    let end_rest = || drop(record.end_all(workspace));
    let outcome = process::run(&spec, limit, workspace.redacts(), end_rest);
    let _ = fs::remove_file(&paths);
    record.unlock(tree);
    Ok(match outcome {
        Ok(Outcome::TimedOut { .. }) => {
            let limit = crate::core::duration::short(limit);
            format!("the commit was ended after {limit} (`commit_timeout`)")
        }
        Ok(_) => match agent_output::last_lines(&log, LINES).unwrap_or_default() {
            lines if lines.is_empty() => "git commit failed without a word".to_owned(),
            lines => lines.join(" / "),
        },
        Err(error) => format!("git could not be started: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_is_no_change_and_new_contents_are() {
        let prints = |list: &[(&str, &str)]| {
            list.iter().map(|(path, print)| ((*path).to_owned(), (*print).to_owned())).collect()
        };
        let before = prints(&[("a", ".M 1 2.0 644"), ("b", "?? 1 2.0 644"), ("c", ".D gone")]);
        let now = prints(&[
            ("a", "M. 1 2.0 644"),
            ("b", "?? 2 3.0 644"),
            ("c", "D. gone"),
            ("d", "?? 1 2.0 644"),
        ]);
        assert_eq!(since(now, &before), ["b", "d"]);
    }
}
