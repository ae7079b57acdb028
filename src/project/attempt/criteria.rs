//! The criteria for an attempt's work.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    adapters::git::{CommitStep, Repo},
    core::{
        commit_id::CommitId,
        graph::task::{CommitRule, Task},
        proof::ProofPolicy,
        redact,
    },
    project::{config::is_named, workspace::Workspace},
};

/// The acceptance criteria of an attempt, as the task had them at its start: an agent may edit the
/// graph, but must not choose its own criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcceptanceCriteria {
    verify: Vec<String>,
    commit: CommitRule,
    output: Option<Value>,
    proof: Option<ProofPolicy>,
}

impl AcceptanceCriteria {
    /// Returns the current criteria of a task. `verify` has the commands that must succeed.
    pub fn of(task: &Task, verify: Vec<String>) -> AcceptanceCriteria {
        let output = task.extra.get("output").cloned();
        AcceptanceCriteria { verify, commit: task.commit, output, proof: task.proof }
    }

    /// Returns the commands that must succeed.
    pub fn verify(&self) -> &[String] {
        &self.verify
    }

    /// Returns the task with these criteria.
    pub fn applied(&self, task: &Task) -> Task {
        let mut task = task.clone();
        (task.verify, task.verify_only) = (Vec::new(), Some(self.verify.clone()));
        (task.commit, task.proof) = (self.commit, self.proof);
        match self.output.clone() {
            Some(output) => task.extra.insert("output".to_owned(), output),
            None => task.extra.remove("output"),
        };
        task
    }
}

// The files that the commits of an attempt add or change: those that must not land, and those that a
// person wants to know of.

/// The size from which a new file is named, in bytes.
const LARGE: usize = 10 << 20;
/// How much of a file is searched for secrets, in bytes.
const SEARCHED: usize = 1 << 20;
/// How many bytes git looks at to tell a binary file from text.
const SAMPLE: usize = 8_000;
/// The most files that are named.
const NAMED: usize = 5;

/// The faults and the remarks about the files of an attempt.
#[derive(Debug, Default)]
pub(super) struct WorkFiles {
    /// Why the work must not land, each with its fix.
    pub(super) faults: Vec<String>,
    /// New files that are large or binary, each with its size.
    pub(super) bulk: Vec<String>,
}

impl WorkFiles {
    /// Looks at the additions from `base` to `head`, and at the paths that they `changed`.
    ///
    /// # Errors
    /// Errors of git.
    pub(super) fn of(
        workspace: &Workspace,
        tree: &Repo,
        base: &CommitId,
        head: &CommitId,
        changed: &[String],
    ) -> Result<WorkFiles> {
        let config = &workspace.config;
        // Files of `ralph` itself do not land.
        let is_allowed =
            |path: &String| is_named(&config.allow_files, path) || workspace.is_own(path);
        let steps = tree.local().steps_after(base, head)?;
        let added: BTreeSet<&String> = steps.iter().flat_map(|step| &step.added).collect();
        let added = || added.iter().copied().filter(|path| !is_allowed(path));
        let changed: BTreeSet<&String> = changed.iter().collect();
        let mut found = WorkFiles::default();
        let again = "make its commits again without it (`git reset --soft \"$RALPH_BASE\"`), or let a \
                     person name it in `allow_files`";
        let by_name = added().filter(|path| redact::is_secret_file(path));
        found.fault("adds a file that holds secrets by its name", by_name, again);
        if added().next().is_some() {
            let ignored: BTreeSet<String> = tree.local().ignored_in_index()?.into_iter().collect();
            let ignored =
                added().filter(|path| ignored.contains(*path) && !redact::is_secret_file(path));
            found.fault("adds a file that git ignores", ignored, again);
        }
        for path in changed.iter().copied().filter(|path| !is_allowed(path)) {
            let Some(now) = tree.file_at(head, path)? else { continue };
            let is_new = tree.file_at(base, path)?.is_none();
            if is_new && (now.len() >= LARGE || is_binary(&now)) {
                found.bulk.push(format!("{path} ({})", size(now.len())));
            }
        }
        let mut keys = BTreeSet::new();
        for CommitStep { id, parents, message, written, .. } in &steps {
            let of_step = if id == head { String::new() } else { format!(" of {}", id.short()) };
            let message_has_key = new_key(workspace, "", message.as_bytes(), &[]).is_some();
            keys.extend(message_has_key.then(|| format!("the message of {}", id.short())));
            let is_searched = |path: &&String| !is_allowed(path) && !redact::is_secret_file(path);
            for path in written.iter().filter(is_searched) {
                let Some(now) = tree.file_at(id, path)?.filter(|now| !is_binary(now)) else {
                    continue;
                };
                let before = parents.iter().chain([base]).map(|commit| tree.file_at(commit, path));
                let before = before.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
                let line = new_key(workspace, path, &now, &before);
                keys.extend(line.map(|line| format!("{path}:{line}{of_step}")));
            }
        }
        found.fault("writes what looks like a key or a password", keys.iter(), again);
        let guarded = changed.into_iter().filter(|path| is_named(&config.protect, path));
        let cure = format!("`git checkout {} -- PATH` takes that back", base.short());
        found.fault("changes what `protect` keeps as it is", guarded, &cure);
        let more = found.bulk.len().saturating_sub(NAMED);
        found.bulk.truncate(NAMED);
        found.bulk.extend((more > 0).then(|| format!("and {more} more")));
        Ok(found)
    }

    fn fault<'a>(&mut self, what: &str, paths: impl Iterator<Item = &'a String>, cure: &str) {
        let paths: Vec<String> = paths.map(|path| format!("`{path}`")).collect();
        let shown = paths.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let rest = match paths.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !paths.is_empty() {
            self.faults.push(format!("it {what}: {shown}{rest}; {cure}"));
        }
    }
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 {
        format!("{} kB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MB", bytes >> 20)
    }
}

/// Whether git takes a file for binary.
fn is_binary(content: &[u8]) -> bool {
    content.iter().take(SAMPLE).any(|byte| *byte == 0)
}

/// The number of the first line of a file with a secret that none of its earlier texts has.
fn new_key(workspace: &Workspace, path: &str, now: &[u8], before: &[Vec<u8>]) -> Option<usize> {
    let lines = |text: &[u8]| -> Vec<String> {
        let text = &text[..text.len().min(SEARCHED)];
        let lines = text.split(|byte| *byte == b'\n');
        lines.map(|line| redact::without_examples(&String::from_utf8_lossy(line))).collect()
    };
    let before: BTreeSet<String> = before.iter().flat_map(|text| lines(text)).collect();
    let now = lines(now);
    let is_new = |line: &&String| !before.contains(*line);
    let new = now.iter().filter(is_new).map(String::as_str).collect::<Vec<_>>().join("\n");
    let redactor = workspace.secrets().for_file(path);
    if redactor.clone().text(&new) == new {
        return None;
    }
    let has_key = |line: &String| is_new(&line) && redactor.clone().text(line) != *line;
    Some(now.iter().position(has_key).map_or(1, |at| at + 1))
}
