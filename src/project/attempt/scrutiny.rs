//! Further checks of the evidence: whether the outputs of the task exist, and whether the attempt
//! changed files that judge it.

use std::collections::BTreeMap;

use anyhow::Result;

use super::AttemptRecord;
use crate::{
    adapters::git::Repo,
    core::{
        graph::{
            task::{CommitRule, Task},
            task_paths,
        },
        verdict::Evidence,
    },
    project::{config_layers, slot_pool, workspace::Workspace},
    regular_file,
};

/// The largest number of changed files for which commits are checked for metadata only.
const FEW: usize = 5;

/// The files that say where attempts run, what runs beside them, and which ignored files they see.
/// An attempt that is kept in somewhere cannot change them: that would let the next one out.
const FENCES: [&str; 2] = [config_layers::PATH, slot_pool::INCLUDE];

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
    let is_kept_in = record.run_on.is_some();
    let committed = match &head {
        Some(head)
            if !evidence.commits.is_empty()
                && (may_be_metadata || !verify.is_empty() || is_kept_in) =>
        {
            tree.differing(record.base.as_deref(), head)?
        }
        _ => Vec::new(),
    };
    evidence.metadata_only = may_be_metadata
        && !committed.is_empty()
        && committed.iter().all(|path| is_metadata(workspace, task, path));
    if is_kept_in && evidence.report.is_some() {
        let is_changed = |path: &&str| {
            let mut changed = committed.iter().chain(&evidence.leftovers);
            changed.any(|changed| changed == *path)
        };
        let fences: Vec<&str> = FENCES.into_iter().filter(is_changed).collect();
        evidence.missing.extend(fences.into_iter().map(|path| {
            { let base = record.base.as_deref().and_then(|base| base.get(..7)).unwrap_or("HEAD"); format!("it changed `{path}`, which only a person may change; `git checkout {base} -- {path}` takes that back") }
        }));
    }
    if !verify.is_empty() {
        let mut changed = evidence.leftovers.clone();
        changed.extend(committed);
        changed.sort();
        changed.dedup();
        let mut named = task_paths::named_by(&verify, &changed);
        named.truncate(super::LEFTOVERS);
        // A new file may be an output of the task.
        for path in named {
            if let Some(base) = &record.base
                && tree.has_text_at(base, &path)?.is_some()
            {
                evidence.verify_inputs_changed.push(path);
            }
        }
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

/// Whether new tasks are the work of a task: the graph is one of its outputs.
pub fn makes_tasks(workspace: &Workspace, task: &Task) -> bool {
    let output = task.extra.get("output").map(task_paths::of_output).unwrap_or_default();
    output.contains(&workspace.graph_name())
}

/// Whether a path holds metadata of `ralph` and its agents and is not an output of the task.
fn is_metadata(workspace: &Workspace, task: &Task, path: &String) -> bool {
    let wanted = task.extra.get("output").map(task_paths::of_output).unwrap_or_default();
    !wanted.contains(path)
        && (workspace.is_own(path) || path.starts_with(".ralph/") || path == workspace.learnings())
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
    let loose = outside || task.commit == CommitRule::Optional || tree.is_ignored(path)?;
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
    before.map_or_else(Vec::new, |before| differences(before, &tree.controls()))
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
