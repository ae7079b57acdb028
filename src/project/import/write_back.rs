//! The way back to the sources of tasks: statuses in their texts, completed tasks in their files, and
//! GitHub issues that are closed.
//!
//! What is to be written follows from the graph and from the file alone, so a run that was killed
//! before or while it wrote is made up for by the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Component, Path},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{ImportRecord, SourceText, format_of, refused};
use crate::{
    adapters::{git::Repo, state},
    core::{
        commit_id::CommitId,
        event::{AttemptResult, SourceUpdated},
        graph::{
            TaskGraph,
            task::{Status, Task, TaskId},
        },
        import::{self, BacklogFormat, export, plan::ExistingTasks},
        verdict::{Commit, Merge},
    },
    project::workspace::Workspace,
    regular_file,
};

/// A source with the statuses of the graph.
#[derive(Debug)]
pub struct UpdatedSource {
    /// The text.
    pub text: String,
    /// The number of its tasks that the graph has.
    pub known: usize,
    /// Its tasks that the graph has, by `source`.
    pub sources: Vec<String>,
    /// The tasks whose status was written, by `source`.
    pub written: Vec<String>,
    /// The tasks for whose status it has no place, by their name in the source.
    pub unwritten: Vec<String>,
}

/// Returns the `source` of each imported task, with its status.
pub fn by_source(graph: &TaskGraph) -> BTreeMap<String, Status> {
    let source = |task: &Task| Some((task.extra.get("source")?.as_str()?.to_owned(), task.status));
    graph.tasks().iter().filter_map(source).collect()
}

/// Writes statuses, by `source`, into a source.
///
/// # Errors
/// The text cannot be read, or would have another meaning than wanted.
pub fn update(
    source: &SourceText,
    statuses: &BTreeMap<String, Status>,
    existing: &ExistingTasks,
) -> Result<UpdatedSource> {
    let refused = |faults: Vec<_>| refused(&source.name, &source.text, &faults);
    let backlog = import::read(source.format, &source.name, &source.text).map_err(refused)?;
    let mut identified = backlog.clone();
    existing.identify(&source.name, &mut identified);
    let mut by_key: BTreeMap<String, Status> = BTreeMap::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (task, known) in backlog.tasks.into_iter().zip(identified.tasks) {
        let name = task.source.unwrap_or_else(|| format!("{}#{}", source.name, known.key));
        if let Some(status) = statuses.get(&name) {
            by_key.insert(task.key.clone(), *status);
            names.insert(task.key, name);
        }
    }
    let known = by_key.len();
    if known == 0 {
        let (text, written, unwritten) = (source.text.clone(), Vec::new(), Vec::new());
        return Ok(UpdatedSource { text, known, sources: Vec::new(), written, unwritten });
    }
    let updated = export::with_statuses(source.format, &source.name, &source.text, &by_key)
        .map_err(refused)?;
    let sources = names.values().cloned().collect();
    let written = updated.written.iter().filter_map(|key| names.remove(key)).collect();
    Ok(UpdatedSource { text: updated.text, known, sources, written, unwritten: updated.unwritten })
}

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
        Err(FILE_CHANGED) if repo.commits().is_as_staged(name)? => (None, None),
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
        update(source, &self.statuses, self.existing)
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
            return state::replace(path, text.as_bytes(), workspace.config.fsync)
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
    if !repo.commits().finish_file_commit(name)? || !repo.commits().is_as_staged(name)? {
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
    let commit = repo.commits().commit_file_on_head(name, &updated.text, &message(name, tasks))?;
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

/// The number of commits that a comment names.
const MOST_COMMITS: usize = 50;

/// The file with the closed issues, in the state folder.
const CLOSED_ISSUES: &str = "closed-issues.json";

/// The issues that were closed here, by address. Each is closed once: a person may open it again.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClosedIssues(BTreeSet<String>);

impl ClosedIssues {
    /// Reads the list.
    pub fn read(workspace: &Workspace) -> ClosedIssues {
        workspace.state.kept(CLOSED_ISSUES).unwrap_or_default()
    }

    /// Whether an issue was closed.
    pub fn has(&self, address: &str) -> bool {
        self.0.contains(address)
    }

    /// Adds an issue.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn add(&mut self, workspace: &Workspace, address: &str) -> Result<()> {
        self.0.insert(address.to_owned());
        workspace.state.keep(CLOSED_ISSUES, self).context("keep which issues are closed")
    }
}

/// An issue of a GitHub repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The repository, as `gh` names it.
    repository: String,
    /// The number.
    number: String,
}

impl Issue {
    /// Reads an address such as `https://github.com/owner/name/issues/12`; none for anything else.
    pub fn of(address: &str) -> Option<Issue> {
        let parts: Vec<&str> = address.strip_prefix("https://")?.split('/').collect();
        let [host, owner, name, "issues", number] = parts[..] else { return None };
        let is_word = |text: &str| {
            let is_usual = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_usual)
        };
        let is_number =
            !number.is_empty() && number.len() < 19 && number.chars().all(|c| c.is_ascii_digit());
        if !is_number || ![host, owner, name].into_iter().all(is_word) {
            return None;
        }
        let host = if host == "github.com" { String::new() } else { format!("{host}/") };
        let repository = format!("{host}{owner}/{name}");
        Some(Issue { repository, number: number.to_owned() })
    }

    /// The command that closes it with a comment.
    pub fn closing(&self, comment: &str) -> Vec<String> {
        let (repository, number) = (self.repository.as_str(), self.number.as_str());
        let words = ["gh", "issue", "close", number, "--repo", repository, "--comment", comment];
        words.map(str::to_owned).to_vec()
    }
}

/// The comment for the issue of a completed task: the verdict and the commits.
pub fn comment(ended: &AttemptResult, commits: &[Commit]) -> String {
    let mut text = format!("Done: {}.\n", ended.why.trim_end_matches('.'));
    if let Some(Merge::Landed { branch, commit, .. }) = &ended.evidence.merge {
        let _ = writeln!(text, "\nLanded on `{branch}` as {commit}.");
    }
    let passed: Vec<String> = { ended.evidence.verify.iter() }
        .filter(|check| check.is_green())
        .map(|check| format!("- `{}` passed\n", check.command))
        .collect();
    if !passed.is_empty() {
        let _ = write!(text, "\n{}", passed.concat());
    }
    if !commits.is_empty() {
        text.push('\n');
    }
    for commit in commits.iter().take(MOST_COMMITS) {
        let _ = writeln!(text, "- {} {}", commit.id, commit.subject);
    }
    if commits.len() > MOST_COMMITS {
        let _ = writeln!(text, "- and {} more", commits.len() - MOST_COMMITS);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_an_issue_is_one() {
        let repository = |address: &str| Issue::of(address).map(|issue| issue.repository);
        let home = "https://github.com/owner/na.me/issues/12";
        assert_eq!(repository(home).as_deref(), Some("owner/na.me"));
        assert_eq!(
            repository("https://git.example.com/o/n/issues/1").as_deref(),
            Some("git.example.com/o/n")
        );
        let command = Issue::of(home).unwrap().closing("c");
        assert_eq!(command.join(" "), "gh issue close 12 --repo owner/na.me --comment c");
        for other in [
            "prd.json#a",
            "http://github.com/o/n/issues/1",
            "https://github.com/o/n/pull/1",
            "https://github.com/o/n/issues/1/x",
            "https://github.com/o/n/issues/",
            "https://github.com/o/n/issues/-1",
            "https://github.com/-o/n/issues/1",
            "https://github.com/o/../issues/1",
            "https://github.com/o /n/issues/1",
            "https://evil@github.com/o/n/issues/1",
        ] {
            assert_eq!(Issue::of(other), None, "{other}");
        }
    }
}
