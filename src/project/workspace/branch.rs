//! The branch that the graph of a workspace belongs to, and the tasks that are complete on another one.

use std::collections::BTreeMap;

use anyhow::Result;

use super::Workspace;
use crate::{
    core::{
        graph::{
            TaskGraph,
            task::{Status, TaskId},
        },
        history::History,
        select::Policy,
        verdict::{Merge, Verdict},
    },
    project::graph_file::GraphFile,
};

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

/// The branch whose graph this is: the one that the settings or a living run name, and otherwise
/// the one of the checkout.
///
/// # Errors
/// The error of `git`.
pub fn landing_branch(workspace: &Workspace) -> Result<Option<String>> {
    let named = named_branch(workspace);
    named.map_or_else(|| Ok(workspace.repo.head()?.branch), |branch| Ok(Some(branch)))
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
