//! A second look at a piece of evidence: is there what the task was to produce, and did the attempt
//! change what is to judge it?

use std::{collections::BTreeMap, fs};

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
    project::workspace::Workspace,
};

/// Commits that change more files than this are not all the graph and notes.
const FEW: usize = 5;

/// Adds to the evidence what of the task's `output` is missing, and which of the hooks, settings of
/// git and files named by `verify` that were there before are changed.
///
/// # Errors
/// As git gives them.
pub fn look_closer(
    workspace: &Workspace,
    tree: &Repo,
    record: &AttemptRecord,
    task: &Task,
    evidence: &mut Evidence,
) -> Result<()> {
    if let Some(before) = &record.controls {
        evidence.tampered = differences(before, &tree.controls());
    }
    let head = tree.head()?.commit;
    let verify = workspace.verify_of(task);
    let may_be_metadata = evidence.report.is_some()
        && evidence.diff.is_some_and(|diff| (1..=FEW).contains(&diff.files));
    let committed = match &head {
        Some(head) if !evidence.commits.is_empty() && (may_be_metadata || !verify.is_empty()) => {
            tree.differing(record.base.as_deref(), head)?
        }
        _ => Vec::new(),
    };
    evidence.metadata_only = may_be_metadata
        && !committed.is_empty()
        && committed.iter().all(|path| is_metadata(workspace, task, path));
    if !verify.is_empty() {
        let mut changed = evidence.leftovers.clone();
        changed.extend(committed);
        changed.sort();
        changed.dedup();
        let mut named = task_paths::named_by(&verify, &changed);
        named.truncate(super::LEFTOVERS);
        // A file that is new may well be what the task was to produce.
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
        for path in task_paths::of_output(output) {
            evidence.missing.extend(lack(tree, task, head.as_deref(), &path)?);
        }
    }
    Ok(())
}

/// Whether a path is one that `ralph` and its agents keep for themselves, and the task was not to
/// produce just that.
fn is_metadata(workspace: &Workspace, task: &Task, path: &String) -> bool {
    let wanted = task.extra.get("output").map(task_paths::of_output).unwrap_or_default();
    !wanted.contains(path)
        && (workspace.is_own(path) || path.starts_with(".ralph/") || path == workspace.learnings())
}

/// What is wrong with one output of the task. It counts in the commit; where git cannot have it, or
/// the task needs no commit, on disk.
fn lack(tree: &Repo, task: &Task, head: Option<&str>, path: &str) -> Result<Option<String>> {
    let outside = path.starts_with('/') || path.split('/').any(|part| part == "..");
    let committed = match head {
        Some(head) if !outside => tree.has_text_at(head, path)?,
        _ => None,
    };
    let loose = outside || task.commit == CommitRule::Optional || tree.is_ignored(path)?;
    let file = tree.root().join(path);
    let found = match committed {
        None if loose && file.is_dir() => Some(true),
        None if loose => fs::read(&file).ok().map(|text| !text.trim_ascii().is_empty()),
        found => found,
    };
    Ok(match found {
        Some(true) => None,
        Some(false) => Some(format!("`{path}` is empty")),
        None if loose => Some(format!("there is no `{path}`")),
        None if file.exists() => Some(format!("`{path}` is not committed")),
        None => Some(format!("there is no `{path}`")),
    })
}

/// The names of what is new, gone or different.
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
    fn new_gone_and_different_are_differences() {
        let prints = |list: &[(&str, &str)]| {
            list.iter().map(|(path, print)| ((*path).to_owned(), (*print).to_owned())).collect()
        };
        let before = prints(&[("same", "1"), ("other", "1"), ("gone", "1")]);
        let now = prints(&[("same", "1"), ("other", "2"), ("new", "1")]);
        assert_eq!(differences(&before, &now), ["gone", "new", "other"]);
    }
}
