//! The graph of a repository: the file in the checkout, the copy of a run, and the last commit.

use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use anyhow::{Context as _, Result};

use super::{Workspace, refused};
use crate::{
    core::{
        commit_id::CommitId,
        graph::{
            TaskGraph, merge,
            task::{Status, TaskId},
        },
        history::History,
        select::Policy,
        verdict::{Merge, Verdict},
    },
    project::graph_file::GraphFile,
    regular_file,
};

/// How often, and how long after the last time, the graph file is read again while git writes it.
const CHECKOUTS: (u32, Duration) = (10, Duration::from_millis(20));

/// The commits from which the graph of a branch is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphCommits {
    /// The tip of the branch, which has all that landed.
    pub tip: CommitId,
    /// The base commit of the edited file in the checkout.
    base: Option<CommitId>,
}

impl GraphCommits {
    /// Returns the commits from which the graph of a branch is read; none if there is no such branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn of(workspace: &Workspace, branch: &str) -> Result<Option<GraphCommits>> {
        let Some(tip) = workspace.repo.landings().tip(branch)? else { return Ok(None) };
        let head = workspace.repo.head()?;
        let base = match head.commit {
            // A person's commits on the branch and landed work are read together, too. A person's
            // commits elsewhere belong to a run that lands on a branch of its own.
            Some(commit)
                if head.branch.as_deref() == Some(branch)
                    || named_branch(workspace).as_deref() == Some(branch) =>
            {
                workspace.repo.landings().merge_base(&commit, &tip.commit)?
            }
            commit => commit,
        };
        Ok(Some(GraphCommits { tip: tip.commit, base }))
    }

    /// Returns the landed graph, and the same with a person's changes in `file`, the text in the
    /// checkout; none if git does not track the graph.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn texts(
        &self,
        workspace: &Workspace,
        file: Option<&str>,
    ) -> Result<Option<(String, String)>> {
        let Some(landed) = workspace.committed_text(&self.tip)? else { return Ok(None) };
        let base = match &self.base {
            Some(base) if *base == self.tip => Some(landed.clone()),
            Some(base) => workspace.committed_text(base)?,
            None => None,
        };
        let merged = match (&base, file) {
            (Some(base), Some(file)) => merge::with_landed(base, file, &landed),
            // A branch without the graph is checked out.
            (None, _) | (_, None) => None,
        };
        let merged = merged.unwrap_or_else(|| landed.clone());
        Ok(Some((landed, merged)))
    }
}

impl Workspace {
    /// Returns the text of the graph file at a commit; none if git does not track it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn committed_text(&self, commit: &str) -> Result<Option<String>> {
        let Some(path) = self.graph_in_git() else { return Ok(None) };
        let text = self.repo.file_at(commit, &path)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Returns the graph of a commit; none if the commit has no valid one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn committed_graph(&self, commit: &str) -> Result<Option<GraphFile>> {
        let Some(path) = self.graph_in_git() else { return Ok(None) };
        let text = self.repo.file_at(commit, &path)?;
        // A text that is not UTF-8 is no graph, as in the checkout.
        let text = text.and_then(|text| String::from_utf8(text).ok());
        Ok(text.and_then(|it| GraphFile::assume(Path::new(""), "", &it).ok()))
    }

    /// Returns the graph in the newest commit of the checkout; none if that has no valid one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn head_graph(&self) -> Result<Option<GraphFile>> {
        let head = self.repo.head()?.commit;
        Ok(head.map(|head| self.committed_graph(&head)).transpose()?.flatten())
    }

    /// Reads the graph, with work landed for the branch that waits for the checkout.
    ///
    /// # Errors
    /// The errors in it, as a drawn diagnostic with its exit code.
    pub fn graph(&self) -> Result<GraphFile> {
        // The commits first: the file gets landings before HEAD moves.
        let branch = landing_branch(self)?;
        let commits = branch.map(|branch| GraphCommits::of(self, &branch)).transpose()?.flatten();
        let file = checkout_graph(self)?;
        let Some(commits) = commits.filter(|it| it.base.as_ref() != Some(&it.tip)) else {
            return Ok(file);
        };
        let texts = commits.texts(self, Some(file.text()))?;
        // The run reports conflicts.
        Ok(texts.and_then(|(_, text)| file.with_text(&text).ok()).unwrap_or(file))
    }

    /// The graph at the start of an attempt, as if the file still had that text. None if there is
    /// no copy of it.
    pub fn kept_graph(&self) -> Option<GraphFile> {
        let text = regular_file::read_to_string(&self.state.graph()).ok()?;
        GraphFile::assume(&self.graph, &self.graph_name(), &text).ok()
    }
}

/// Whether git may be writing the graph file of a run whose work lands: it makes the file empty
/// first.
fn is_checking_out(workspace: &Workspace) -> bool {
    let is_empty = fs::metadata(&workspace.graph).map_or(true, |found| found.len() == 0);
    is_empty && workspace.state.is_locked().unwrap_or(false)
}

/// Reads the graph file of the checkout, which commands of a person edit.
///
/// # Errors
/// The errors in it, as a drawn diagnostic with its exit code.
pub fn checkout_graph(workspace: &Workspace) -> Result<GraphFile> {
    let read = || GraphFile::read(&workspace.graph, &workspace.graph_name());
    let mut found = read();
    for _ in 0..CHECKOUTS.0 {
        if found.is_ok() || !is_checking_out(workspace) {
            break;
        }
        thread::sleep(CHECKOUTS.1);
        found = read();
    }
    found.map_err(|rejected| refused(&rejected))
}

/// The graph of a checkout that has no graph file yet, as its first change finds it.
///
/// # Errors
/// Only those of [`checkout_graph`].
pub fn empty_graph(workspace: &Workspace) -> Result<GraphFile> {
    let (path, name) = (&workspace.graph, workspace.graph_name());
    let text = "version: 1\ntasks: []\n";
    GraphFile::assume(path, &name, text).map_err(|rejected| refused(&rejected))
}

// The branch that the graph of a workspace belongs to, and the tasks that are complete on another one.

/// The policy for a graph with this history: with the tasks that are complete on another branch.
///
/// # Errors
/// The error of `git`.
pub fn policy_for(
    workspace: &Workspace,
    policy: Policy,
    graph: &TaskGraph,
    history: &History,
) -> Result<Policy> {
    let own = landing_branch(workspace)?;
    let elsewhere = landed_elsewhere(workspace, graph, history, own.as_deref())?;
    Ok(Policy { elsewhere, ..policy })
}

/// The branch of this graph: from the settings or a living run, otherwise that of the checkout.
///
/// # Errors
/// The error of `git`.
pub fn landing_branch(workspace: &Workspace) -> Result<Option<String>> {
    let named = named_branch(workspace);
    named.map_or_else(|| Ok(workspace.repo.head()?.branch), |branch| Ok(Some(branch)))
}

/// The newest commit of a branch with its landed work.
///
/// # Errors
/// The branch has no commit; the error of `git`.
pub fn landed_tip(workspace: &Workspace, branch: &str) -> Result<CommitId> {
    let tip = workspace.repo.landings().tip(branch)?;
    let nothing = || format!("`{branch}` has no commit, so nothing has landed on it");
    Ok(tip.with_context(nothing)?.commit)
}

/// The branch that the settings or a living run name.
pub(super) fn named_branch(workspace: &Workspace) -> Option<String> {
    let living = || {
        let onto = workspace.holder()?.onto?;
        workspace.is_busy().is_ok_and(|is_busy| is_busy).then_some(onto)
    };
    workspace.config.onto.clone().or_else(living)
}

/// The tasks of a graph that an attempt completed on another branch than `own`, which still has its
/// work, with that branch.
///
/// # Errors
/// The error of `git`.
pub fn landed_elsewhere(
    workspace: &Workspace,
    graph: &TaskGraph,
    history: &History,
    own: Option<&str>,
) -> Result<BTreeMap<TaskId, String>> {
    let mut found = BTreeMap::new();
    let mut tips: BTreeMap<String, Option<GraphFile>> = BTreeMap::new();
    let own_tip = own.map(|own| workspace.repo.landings().tip(own)).transpose()?.flatten();
    for task in graph.tasks().iter().filter(|task| task.status == Status::Pending) {
        let past = history.of(&task.id);
        let last = past.last.as_ref().filter(|it| it.verdict == Verdict::Complete);
        let Some(last) = last.filter(|_| !past.was_reset) else { continue };
        let Some(Merge::Landed { branch, commit, .. }) = &last.ended.evidence.merge else {
            continue;
        };
        // A commit that opened the task again after its work had arrived here counts.
        let is_here = || own_tip.as_ref().is_some_and(|tip| has(workspace, commit, &tip.commit));
        if own == Some(branch.as_str()) || is_here() {
            continue;
        }
        if !tips.contains_key(branch) {
            let tip = workspace.repo.landings().tip(branch)?;
            let there = tip.map(|tip| workspace.committed_graph(&tip.commit)).transpose()?;
            tips.insert(branch.clone(), there.flatten());
        }
        let there = tips.get(branch).and_then(Option::as_ref);
        if there.and_then(|it| it.graph().status_of(&task.id)) == Some(Status::Complete) {
            found.insert(task.id.clone(), branch.clone());
        }
    }
    Ok(found)
}

/// Whether a commit is, or descends from, another one.
fn has(workspace: &Workspace, old: &str, commit: &str) -> bool {
    workspace.repo.is_ancestor(old, commit).is_ok_and(|is_ancestor| is_ancestor)
}
