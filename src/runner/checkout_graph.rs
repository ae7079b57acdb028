//! The graph of a run that only reads the file in the checkout: the landed graph, with a person's
//! changes there.

use std::{fs, mem, time::Duration};

use anyhow::Result;

use crate::{
    core::{
        exit::{Exit, Failure},
        graph::task::{Status, TaskId},
    },
    project::{
        graph_file::{Foreign, GraphFile, Rejected, Write, with_status},
        workspace::{self, GraphCommits, Workspace},
    },
};

/// How long the lock of the index may be that of a git process that is switching branches.
const SWITCHING: Duration = Duration::from_secs(10);

/// The graph file of a checkout that a run only reads.
pub(super) struct CheckoutGraph {
    pub(super) file: GraphFile,
    /// The branch that work lands on.
    pub(super) branch: String,
    /// The commits that were read together with the file.
    commits: Option<GraphCommits>,
    /// Whether the graph differs from the landed one.
    pub(super) is_edited: bool,
}

impl CheckoutGraph {
    /// The graph of a branch; none if git does not track it. `file` is that of the checkout, and the
    /// graph afterwards.
    pub(super) fn of(
        workspace: &Workspace,
        branch: &str,
        file: &mut GraphFile,
    ) -> Result<Option<CheckoutGraph>> {
        let Some(commits) = GraphCommits::of(workspace, branch)? else { return Ok(None) };
        if workspace.committed_text(&commits.tip)?.is_none() {
            let head = workspace.repo.head()?.commit.filter(|_| workspace.config.onto.is_some());
            if head.map(|head| workspace.committed_text(&head)).transpose()?.flatten().is_some() {
                let name = workspace.graph_name();
                let message = format!(
                    "`{branch}` has no `{name}`, so no commit there can say what is complete; merge \
                     the branch of your checkout into it"
                );
                return Err(Failure::new(Exit::Error, message).into());
            }
            return Ok(None);
        }
        let copy = file.with_text(file.text());
        let copy = copy.map_err(|rejected| workspace::refused(&rejected))?;
        let branch = branch.to_owned();
        let mut checkout = CheckoutGraph {
            file: mem::replace(file, copy),
            branch,
            commits: None,
            is_edited: false,
        };
        checkout.compose(workspace, Some(commits), file)?;
        Ok(Some(checkout))
    }

    /// Reads the graph again if the file, the tip of the branch or HEAD has changed. Returns the
    /// changed statuses; none if nothing has changed.
    ///
    /// # Errors
    /// Errors of git.
    pub(super) fn refresh(
        &mut self,
        workspace: &Workspace,
        graph: &mut GraphFile,
    ) -> Result<Result<Option<Vec<Foreign>>, Box<Rejected>>> {
        // The commits first: the file gets landings before HEAD moves.
        let commits = GraphCommits::of(workspace, &self.branch)?;
        let has_moved = commits != self.commits;
        let mut found = Ok(None);
        if !is_elsewhere(workspace)? {
            if self.file.has_changed() && is_switching(workspace) {
                return Ok(Ok(None));
            }
            found = self.file.refresh(&workspace.state);
        }
        let is_changed = found.as_ref().is_ok_and(Option::is_some);
        if !is_changed && !has_moved {
            return Ok(found.map(|_| None));
        }
        let before = graph.text().to_owned();
        // A person's changes from before the file became unreadable still count.
        let changes = self.compose(workspace, commits, graph)?;
        if let Err(rejected) = found {
            return Ok(Err(rejected));
        }
        // The run itself has moved the tip and the branch, and the file has followed.
        let is_known = changes.is_empty() && (has_moved || before == graph.text());
        Ok(Ok(Some(changes).filter(|_| !is_known)))
    }

    /// Makes the graph from the landed one and the changes in the checkout. Returns the statuses
    /// that differ from before.
    fn compose(
        &mut self,
        workspace: &Workspace,
        commits: Option<GraphCommits>,
        graph: &mut GraphFile,
    ) -> Result<Vec<Foreign>> {
        let text = (!is_elsewhere(workspace)?).then(|| self.file.text());
        let texts = match &commits {
            Some(commits) => commits.texts(workspace, text)?,
            None => None,
        };
        self.commits = commits;
        let Some((landed, text)) = texts else { return Ok(Vec::new()) };
        // Conflicts, such as two tasks with one id, wait for a person.
        let fresh = graph.with_text(&text).or_else(|_| graph.with_text(&landed));
        let Ok(fresh) = fresh else { return Ok(Vec::new()) };
        self.is_edited = text != landed;
        let changes = fresh.changes_since(graph);
        *graph = fresh;
        Ok(changes)
    }
}

/// Whether git may be writing the files of another branch: HEAD moves last.
fn is_switching(workspace: &Workspace) -> bool {
    let lock = fs::metadata(workspace.repo.git_dir().join("index.lock"));
    let since = lock.and_then(|found| found.modified());
    since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < SWITCHING))
}

/// Commits the statuses of tasks that wait for a person on the tip of a branch.
pub(super) fn commit_standing(
    workspace: &Workspace,
    branch: &str,
    standing: &[(TaskId, Status)],
) -> Result<()> {
    let names: Vec<&str> = standing.iter().map(|(id, _)| id.as_str()).collect();
    let title = format!("Mark as waiting for a person: {}", names.join(", "));
    commit_statuses(workspace, branch, standing, &title)
}

/// Commits statuses of tasks on the tip of a branch.
pub(super) fn commit_statuses(
    workspace: &Workspace,
    branch: &str,
    standing: &[(TaskId, Status)],
    title: &str,
) -> Result<()> {
    let (repo, name) = (&workspace.repo, workspace.graph_name());
    let Some(tip) = repo.landings().tip(branch)? else { return Ok(()) };
    let Some(landed) = workspace.committed_text(&tip.commit)? else { return Ok(()) };
    let mut text = landed.clone();
    for (id, status) in standing {
        if let Ok(Some(marked)) = with_status(&text, id, Write::Plain(*status)) {
            text = marked;
        }
    }
    if text == landed {
        return Ok(());
    }
    let message = format!("{title}\n");
    let commit = repo.commits().commit_file(&tip.commit, &name, &text, &message)?;
    // A person's commit at the same moment comes first; the next run marks them.
    repo.landings().land(branch, &tip.commit, &commit).map(drop)
}

/// Whether the checkout is at a commit that does not have the graph file, and neither has it.
fn is_elsewhere(workspace: &Workspace) -> Result<bool> {
    if workspace.graph_path().exists() {
        return Ok(false);
    }
    let head = workspace.repo.head()?.commit;
    Ok(head.map(|head| workspace.committed_text(&head)).transpose()?.flatten().is_none())
}
