//! Further checks of the evidence: whether the outputs of the task exist, and whether the attempt
//! changed files that judge it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{AttemptRecord, criteria::WorkFiles};
use crate::{
    adapters::git::{Repo, inserted_lines, is_marked},
    core::{
        commit_id::CommitId,
        graph::task::{CommitRule, Task, TaskId},
        history::LandedWork,
        loop_paths,
        proof::halves::{Half, HalvesRule, as_it_was},
        task_paths,
        verdict::{Evidence, first_names},
    },
    project::{config_layers, slot_files, workspace::Workspace},
    regular_file,
};

/// The largest number of changed files for which commits are checked for metadata only.
const FEW: usize = 5;

/// Returns the files that say how work is judged, where attempts run, and which ignored files they
/// see, as far as an attempt must not change them: the settings of its run for all, and both files
/// of a repository for a confined attempt, because a change would free the next one.
fn guarded(workspace: &Workspace, record: &AttemptRecord) -> Vec<String> {
    let own = workspace.layers.own_text().map(|(path, _)| path);
    let fences = [config_layers::PATH, slot_files::INCLUDE].map(str::to_owned);
    let more =
        fences.into_iter().filter(|path| record.run_on.is_some() && own.as_ref() != Some(path));
    own.iter().cloned().chain(more).collect()
}

/// Returns the guarded files that the commits of an attempt have in another version than its base.
/// In the checkout, a person's version that the attempt committed along is none.
///
/// # Errors
/// Errors of git.
pub fn changed_settings(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    head: &CommitId,
) -> Result<Vec<String>> {
    let Some(base) = record.base.as_ref().filter(|base| *base != head) else {
        return Ok(Vec::new());
    };
    let given = workspace.layers.own_text().filter(|_| record.slot.is_none());
    let mut changed = Vec::new();
    for path in guarded(workspace, record) {
        let is_given = || -> Result<bool> {
            let Some((_, text)) = given.as_ref().filter(|(own, _)| *own == path) else {
                return Ok(false);
            };
            Ok(tree.file_at(head, &path)?.as_deref() == text.map(str::as_bytes))
        };
        if !tree.has_same_file(base, head, &path)? && !is_given()? {
            changed.push(path);
        }
    }
    Ok(changed)
}

/// Adds to the evidence the missing outputs of the task, and the changed git hooks, git settings
/// and existing files named in `verify`.
///
/// # Errors
/// Errors of git.
pub fn check_evidence(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    task: &Task,
    evidence: &mut Evidence,
) -> Result<()> {
    evidence.tampered.extend(tampered(record, tree));
    evidence.tampered.sort();
    evidence.tampered.dedup();
    let head = tree.head()?.commit;
    let verify = workspace.verify_of(task);
    let may_be_metadata = evidence.report.is_some()
        && evidence.diff.is_some_and(|diff| (1..=FEW).contains(&diff.files));
    let committed = match &head {
        Some(head)
            if !evidence.commits.is_empty()
                && (evidence.report.is_some() || !verify.is_empty()) =>
        {
            tree.differing(record.base.as_deref(), head)?
        }
        _ => Vec::new(),
    };
    evidence.metadata_only = may_be_metadata
        && !committed.is_empty()
        && committed.iter().all(|path| is_metadata(workspace, task, path));
    // The iterations of a plain loop may change the checkout freely.
    let is_free = workspace.place.name().is_some() && record.slot.is_none();
    evidence.to_prove = evidence.report.is_some()
        && !is_free
        && (record.slot.is_some() || !verify.is_empty())
        && HalvesRule::is_due(&task.proof_settings(&workspace.config.proof), &verify, &committed);
    if evidence.report.is_some() {
        evidence.missing.extend(still_marked(tree, record));
    }
    if evidence.report.is_some() && !is_free {
        settings_kept(workspace, tree, record, head.as_ref(), evidence)?;
        if let (Some(base), Some(head)) = (&record.base, &head)
            && !evidence.commits.is_empty()
        {
            let WorkFiles { faults, bulk } =
                WorkFiles::of(workspace, tree, base, head, &committed)?;
            evidence.missing.extend(faults);
            evidence.bulk = bulk;
        }
    }
    if !verify.is_empty() {
        let mut changed = evidence.leftovers.clone();
        changed.extend(committed);
        changed.sort();
        changed.dedup();
        check_inputs(workspace, tree, record, (&verify, changed), head.as_deref(), evidence)?;
    }
    if evidence.report.is_some()
        && let Some(output) = task.extra.get("output")
    {
        let graph = workspace.graph_name();
        for path in task_paths::of_output(output) {
            let fault = if path == graph && !evidence.added.is_empty() {
                None
            } else if path == graph && record.slot.is_some() {
                // Its other changes are not taken over.
                Some(format!("`{path}` has no new task"))
            } else {
                output_fault(tree, task, head.as_deref(), &path)?
            };
            evidence.missing.extend(fault);
        }
    }
    Ok(())
}

/// The message about files that still have both sides of a conflict.
fn still_marked(tree: &Repo, record: &AttemptRecord) -> Option<String> {
    let is_still = |path: &&String| {
        regular_file::read(&tree.root().join(path)).is_ok_and(|text| is_marked(&text))
    };
    let marked: Vec<&String> = record.marked.iter().filter(is_still).collect();
    let says = "is not resolved: its marks (`<<<<<<<`, `>>>>>>>`) are still there";
    (!marked.is_empty()).then(|| format!("the conflict in {} {says}", first_names(&marked)))
}

/// The most landed work that is compared with that of an attempt.
const COMPARED: usize = 100;

/// The lines that work must have added before their loss says that it was taken back.
const SOME_LINES: usize = 3;

/// Adds to the evidence which landed work of other tasks it takes back. Where git cannot tell, the
/// attempt does not land: work of theirs might be lost.
pub fn weigh_others(
    workspace: &Workspace,
    record: &AttemptRecord,
    (landed, collided): (&[LandedWork], &[String]),
    evidence: &mut Evidence,
) {
    let judged = taken_back(workspace, record, evidence, (landed, collided)).and_then(|tasks| {
        evidence.takes_back = tasks;
        dropped_side(&workspace.repo, record, (landed, collided), evidence)
    });
    let unknown =
        |error| Some(format!("its work cannot be compared with that of other tasks: {error:#}"));
    evidence.missing.extend(judged.unwrap_or_else(unknown));
}

/// Returns the tasks whose landed work the commits of an attempt take back: they revert one of its
/// commits, leave all its files as they were before it, or have hardly a line of its additions, in
/// all or to a file where the task `collided` with others.
///
/// # Errors
/// Errors of git.
fn taken_back(
    workspace: &Workspace,
    record: &AttemptRecord,
    evidence: &Evidence,
    (landed, collided): (&[LandedWork], &[String]),
) -> Result<Vec<TaskId>> {
    /// How git begins the line that names the commit of a revert.
    const REVERTS: &str = "This reverts commit ";
    let repo = &workspace.repo;
    let (Some(base), Some(head)) = (&record.base, evidence.commits.last()) else {
        return Ok(Vec::new());
    };
    let reverts = repo.messages_with(&head.id, Some(base.as_str()), REVERTS)?;
    let graph = workspace.graph_in_git();
    let is_work = |path: &String| Some(path) != graph.as_ref() && !workspace.is_own(path);
    let changed = repo.differing(Some(base), &head.id)?.into_iter().filter(is_work);
    let changed: BTreeSet<String> = changed.collect();
    let mut kept = None;
    let mut undoes = |work: &LandedWork| -> Result<bool> {
        let Some((first, last)) = work.commits.first().zip(work.commits.last()) else {
            return Ok(false);
        };
        let is_named = |commit: &CommitId| {
            let line = format!("{REVERTS}{commit}");
            reverts.iter().any(|(_, message)| message.contains(&line))
        };
        if work.commits.iter().any(is_named) {
            return Ok(true);
        }
        let Some(before) = repo.commit_of(&format!("{first}^"))? else { return Ok(false) };
        let mut files = repo.differing(Some(&before), last)?;
        files.retain(is_work);
        let (touched, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|path| changed.contains(path));
        if touched.is_empty() {
            return Ok(false);
        }
        let kept = match &mut kept {
            Some(kept) => kept,
            None => kept.insert(lines_of(repo, &head.id, &changed)?),
        };
        let (mut is_as_before, mut gone, mut all) = (others.is_empty(), 0, 0);
        for path in &touched {
            let added = added_lines(repo, [&before, last, base], path)?;
            let missing = added.iter().filter(|line| !kept.contains(*line)).count();
            if collided.contains(path) && is_most(missing, added.len()) {
                return Ok(true);
            }
            (gone, all) = (gone + missing, all + added.len());
            is_as_before = is_as_before
                && repo.has_same_file(&before, &head.id, path)?
                && repo.has_same_file(last, base, path)?;
        }
        // Additions to other files are all there.
        if is_as_before || !is_most(gone, all) {
            return Ok(is_as_before);
        }
        for path in &others {
            all += added_lines(repo, [&before, last, base], path)?.len();
        }
        Ok(all >= SOME_LINES && is_most(gone, all))
    };
    let mut ids = Vec::new();
    for work in landed.iter().rev().take(COMPARED) {
        if work.task_id != record.task_id && !ids.contains(&work.task_id) && undoes(work)? {
            ids.push(work.task_id.clone());
        }
    }
    Ok(ids)
}

/// The lines of these files in a commit, without the space around them.
fn lines_of(repo: &Repo, commit: &CommitId, paths: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for path in paths {
        let text = text_at(repo, commit, path)?;
        lines.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    Ok(lines)
}

fn text_at(repo: &Repo, commit: &CommitId, path: &str) -> Result<String> {
    let bytes = repo.file_at(commit, path)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines that work added to a file between two commits and that a later one still had.
fn added_lines(
    repo: &Repo,
    [before, after, base]: [&CommitId; 3],
    path: &str,
) -> Result<Vec<String>> {
    let (old, new) = (text_at(repo, before, path)?, text_at(repo, after, path)?);
    let base = text_at(repo, base, path)?;
    let base: BTreeSet<&str> = base.lines().map(str::trim).collect();
    let mut added: Vec<&str> = inserted_lines(&old, &new)?.into_iter().map(str::trim).collect();
    // Such as a brace, which others have, too.
    added.retain(|line| line.chars().any(char::is_alphanumeric) && base.contains(line));
    Ok(added.into_iter().map(str::to_owned).collect())
}

fn is_most(part: usize, all: usize) -> bool {
    part > 0 && part * 4 >= all * 3
}

/// The message about work that takes back landed work of other tasks although its task conflicted
/// in these files before. Files that one side deleted have no lines of both, and a rewritten one
/// loses more than their additions: losses there are only named.
///
/// # Errors
/// The error of `git`.
fn dropped_side(
    repo: &Repo,
    record: &AttemptRecord,
    (landed, collided): (&[LandedWork], &[String]),
    evidence: &Evidence,
) -> Result<Option<String>> {
    let tasks: Vec<&str> = evidence.takes_back.iter().map(TaskId::as_str).collect();
    let (Some(base), Some(head)) = (&record.base, evidence.commits.last()) else {
        return Ok(None);
    };
    let mut kept = Vec::new();
    for path in collided.iter().filter(|_| !tasks.is_empty()) {
        if repo.file_at(base, path)?.is_none() || repo.file_at(&head.id, path)?.is_none() {
            continue;
        }
        let mut theirs = Vec::new();
        for work in landed.iter().filter(|work| evidence.takes_back.contains(&work.task_id)) {
            let Some((first, last)) = work.commits.first().zip(work.commits.last()) else {
                continue;
            };
            let before = repo.commit_of(&format!("{first}^"))?;
            if let Some(before) = before {
                theirs.extend(added_lines(repo, [&before, last, base], path)?);
            }
        }
        let left = text_at(repo, &head.id, path)?;
        let left: BTreeSet<&str> = left.lines().map(str::trim).collect();
        let base = text_at(repo, base, path)?;
        let is_lost = |line: &&str| !left.contains(line) && line.chars().any(char::is_alphanumeric);
        let lost = base.lines().map(str::trim).filter(is_lost);
        let own = lost.filter(|line| !theirs.iter().any(|it| it == line)).count();
        if own < SOME_LINES {
            kept.push(path);
        }
    }
    Ok((!kept.is_empty()).then(|| {
        let (files, tasks) = (first_names(&kept), first_names(&tasks));
        format!(
            "it resolved the conflict in {files} without what {tasks} had added; both must stay"
        )
    }))
}

/// Adds to the evidence the changed files that control the checks, and the changed tests.
fn check_inputs(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    (verify, changed): (&[String], Vec<String>),
    head: Option<&str>,
    evidence: &mut Evidence,
) -> Result<()> {
    let Some(base) = &record.base else { return Ok(()) };
    let rule = HalvesRule::new(&workspace.config.proof, (verify, &changed), &[]);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    for path in changed {
        let half = rule.half(&path);
        if !matches!(half, Half::Check | Half::Test) {
            continue;
        }
        let before = tree.file_at(base, &path)?.map(text);
        let after = head.map_or(Ok(None), |head| tree.file_at(head, &path))?.map(text);
        let says_same = as_it_was(&path, before.as_deref(), after.as_deref()).is_none();
        evidence.settings_changed |= !says_same && rule.decides_checks(&path);
        // A new file may be an output of the task.
        if before.is_none() {
            continue;
        }
        let files = match half {
            Half::Test => &mut evidence.tests_changed,
            Half::Check if says_same => continue,
            Half::Check => &mut evidence.verify_inputs_changed,
            Half::Source | Half::Other => continue,
        };
        if files.len() < super::LEFTOVERS {
            files.push(path);
        }
    }
    Ok(())
}

/// Adds to the evidence the changed files that only a person may change.
fn settings_kept(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    head: Option<&CommitId>,
    evidence: &mut Evidence,
) -> Result<()> {
    let mut changed = match head {
        Some(head) if evidence.strayed.is_none() => {
            changed_settings(workspace, tree, record, head)?
        }
        _ => Vec::new(),
    };
    let left = guarded(workspace, record).into_iter();
    changed.extend(left.filter(|path| evidence.leftovers.contains(path)));
    changed.sort();
    changed.dedup();
    let base = record.base.as_ref().map_or("HEAD", CommitId::short);
    evidence.missing.extend(changed.into_iter().map(|path| {
        let cure = match record.slot {
            Some(_) => format!("`git checkout {base} -- {path}` takes that back"),
            None => "its earlier version is restored".to_owned(),
        };
        format!("it changed `{path}`, which only a person may change; {cure}")
    }));
    Ok(())
}

/// Whether new tasks are the work of a task: the graph is one of its outputs.
pub fn makes_tasks(workspace: &Workspace, task: &Task) -> bool {
    let output = task.extra.get("output").map(task_paths::of_output).unwrap_or_default();
    output.contains(&workspace.graph_name())
}

/// Whether a path holds metadata of `ralph` and its agents and is not an output of the task.
fn is_metadata(workspace: &Workspace, task: &Task, path: &String) -> bool {
    let wanted = task.extra.get("output").map(task_paths::of_output).unwrap_or_default();
    !wanted.contains(path)
        && (workspace.is_own(path) || path.starts_with(".ralph/") || path == loop_paths::LEARNINGS)
}

/// Returns the fault of one output, if any. The commit counts; the disk counts if git cannot track
/// the path or the task needs no commit.
fn output_fault(
    tree: &Repo,
    task: &Task,
    head: Option<&str>,
    path: &str,
) -> Result<Option<String>> {
    let outside = path.starts_with('/') || path.split('/').any(|part| part == "..");
    let committed = match head {
        Some(head) if !outside => tree.has_text_at(head, path)?,
        _ => None,
    };
    let loose = outside || task.commit == CommitRule::Optional || tree.local().is_ignored(path)?;
    let file = tree.root().join(path);
    let found = match committed {
        None if loose && file.is_dir() => Some(true),
        None if loose => regular_file::read(&file).ok().map(|text| !text.trim_ascii().is_empty()),
        found => found,
    };
    Ok(match found {
        Some(true) => None,
        Some(false) => Some(format!("`{path}` is empty")),
        None if loose => Some(format!("`{path}` does not exist")),
        None if file.exists() => Some(format!("`{path}` is not committed")),
        None => Some(format!("`{path}` does not exist")),
    })
}

/// Returns the git hooks and settings that changed since the start of an attempt.
pub fn tampered(record: &AttemptRecord, tree: &Repo) -> Vec<String> {
    let before = record.controls.as_ref();
    before.map_or_else(Vec::new, |before| differences(before, &tree.local().controls()))
}

/// Returns the names that are new, gone or different.
fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let changed = now.iter().filter(|(name, print)| before.get(*name) != Some(print));
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let mut names: Vec<String> = changed.map(|(name, _)| name).chain(gone).cloned().collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_new_gone_and_different_names() {
        let prints = |list: &[(&str, &str)]| {
            list.iter().map(|(path, print)| ((*path).to_owned(), (*print).to_owned())).collect()
        };
        let before = prints(&[("same", "1"), ("other", "1"), ("gone", "1")]);
        let now = prints(&[("same", "1"), ("other", "2"), ("new", "1")]);
        assert_eq!(differences(&before, &now), ["gone", "new", "other"]);
    }
}
