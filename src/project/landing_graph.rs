//! The graph file of the checkout while work lands on its branch.
//!
//! The file in the checkout shows the claims of running attempts and may contain uncommitted edits
//! of a person, so it usually differs from the committed file, which git would not replace. For the
//! moment of landing the committed text is put back, and afterwards the same changes are made again
//! on what the file contained. That text is on disk meanwhile, so that a kill loses nothing.

use std::{fs::File, path::PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::state::{self, StateFolder},
    core::{
        commit_id::CommitId,
        graph::{
            merge::{self, Texts},
            task::{Status, TaskId},
        },
    },
    crash,
    project::graph_file::{Write, with_status},
    regular_file,
};

/// What a landing changes in the graph: its task is complete, and new tasks are adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphChange {
    /// The task.
    pub task_id: TaskId,
    /// When it was complete (RFC 3339).
    pub at: String,
    /// The graph at the base of the attempt, and the graph that the attempt left, if it has new
    /// tasks.
    pub adopted: Option<(String, String)>,
    /// The new tasks that the attempt marked complete, which no attempt has worked on.
    pub reopened: Vec<TaskId>,
}

impl GraphChange {
    /// Returns the text with this change; none if the task is not in it.
    ///
    /// # Errors
    /// The text is not a valid graph, or its layout does not allow the edit.
    pub fn applied(&self, text: &str) -> Result<Option<String>> {
        let Some(done) = with_status(text, &self.task_id, Write::Complete { at: &self.at })? else {
            return Ok(None);
        };
        let Some((base, theirs)) = &self.adopted else {
            return Ok(Some(done));
        };
        let texts = Texts { base, ours: &done, theirs };
        let adopted = merge::adopt(texts).map_err(|why| anyhow!("{}", why.reason))?;
        let mut text = adopted.unwrap_or(done);
        for id in &self.reopened {
            if let Some(open) = with_status(&text, id, Write::Plain(Status::Pending))? {
                text = open;
            }
        }
        Ok(Some(text))
    }
}

/// What the graph file contained when work began to land, and what it should contain then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AsideTexts {
    path: PathBuf,
    /// The commit that lands.
    commit: CommitId,
    /// The committed text before the landing.
    old: String,
    /// The committed text after it.
    new: String,
    /// The text of the file before.
    mine: String,
    /// The text of the file with the same changes.
    after: String,
}

impl AsideTexts {
    /// Puts the text of the file back, with the changes if the commit has landed.
    fn restore(&self, state: &StateFolder, has_landed: bool) -> Result<()> {
        let now = regular_file::read_to_string(&self.path).unwrap_or_default();
        let want = if has_landed { &self.after } else { &self.mine };
        // A killed git may have written a part of the file. Any other text was saved by a person at
        // that moment.
        if same(&now, &self.old) || same(&now, &self.new) || self.new.starts_with(&now) {
            state::replace(&self.path, want.as_bytes(), state.is_durable())
                .with_context(|| format!("write `{}`", self.path.display()))?;
        }
        crash::point("land.restored");
        state.drop_aside().context("remove the copy of the graph")
    }
}

/// Whether two texts are the same except for line ends, which git may convert.
fn same(one: &str, other: &str) -> bool {
    one == other || one.lines().eq(other.lines())
}

/// The graph file of a checkout while work lands, under the lock that its other writers take.
pub struct LandingGraph<'a> {
    state: &'a StateFolder,
    aside: Option<AsideTexts>,
    _turn: File,
}

impl LandingGraph<'_> {
    /// Puts the committed text back. `old` and `new` are the committed texts before and after
    /// `commit` lands, which makes these changes.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn begin<'a>(
        state: &'a StateFolder,
        path: PathBuf,
        commit: CommitId,
        (old, new): (String, String),
        changes: &[GraphChange],
    ) -> Result<LandingGraph<'a>> {
        let turn = state.lock_graph().context("lock the graph file")?;
        let mut graph = LandingGraph { state, aside: None, _turn: turn };
        let Ok(mine) = regular_file::read_to_string(&path) else {
            return Ok(graph);
        };
        if mine == old {
            return Ok(graph);
        }
        let mut after = mine.clone();
        for change in changes {
            // A person may have removed the task, or be in the middle of an edit.
            if let Ok(Some(text)) = change.applied(&after) {
                after = text;
            }
        }
        let aside = AsideTexts { path, commit, old, new, mine, after };
        state.keep_aside(&aside).context("keep a copy of the graph")?;
        crash::point("land.kept");
        state::replace(&aside.path, aside.old.as_bytes(), state.is_durable())
            .with_context(|| format!("write `{}`", aside.path.display()))?;
        crash::point("land.cleared");
        graph.aside = Some(aside);
        Ok(graph)
    }

    /// Puts the text of the file back, with the changes if the commit has landed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn finish(self, has_landed: bool) -> Result<()> {
        self.aside.map_or(Ok(()), |aside| aside.restore(self.state, has_landed))
    }
}

/// Puts back what a killed run has kept aside. `has_landed` says whether a commit is in the branch.
///
/// # Errors
/// Errors of the disk and of `has_landed`.
pub fn recover(state: &StateFolder, has_landed: impl Fn(&CommitId) -> Result<bool>) -> Result<()> {
    let _turn = state.lock_graph().context("lock the graph file")?;
    match state.kept_aside::<AsideTexts>() {
        Some(aside) => aside.restore(state, has_landed(&aside.commit)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::project::graph_file::GraphFile;

    const AT: &str = "2026-01-02T03:04:05Z";

    #[test]
    fn a_claimed_task_and_a_free_one_end_as_the_same_text() {
        let id = TaskId::new("a").unwrap();
        for graph in [
            "tasks:\n  - id: a\n    title: A\n  - id: b\n",
            "tasks:\n  - {id: a, title: A}\n  - {id: b}\n",
            "tasks:\n- id: a\n  status: todo # later\n  depends_on: [b]\n- id: b\n",
            "nodes:\r\n  - id: b\r\n  - id: a\r\n    status: pending\r\n    title: A\r\n",
            "tasks: [{id: a}, {id: b}]",
            "tasks:\n  - id: b\n  - id: a\n    description: |\n      Text.\n\n      More.\n",
            "{\"tasks\": [{\"id\": \"a\", \"status\": \"pending\"}, {\"id\": \"b\"}]}\n",
        ] {
            let claim = Write::Claim { at: AT, by: "ralph run" };
            let claimed = with_status(graph, &id, claim).unwrap().unwrap();
            let change = GraphChange {
                task_id: id.clone(),
                at: AT.to_owned(),
                adopted: None,
                reopened: Vec::new(),
            };
            assert_ne!(claimed, graph);
            let file = |text| GraphFile::assume(Path::new(""), "", false, false, text).unwrap();
            let file = file(graph);
            let word = file.status_word(file.graph().number(&id).unwrap());
            let restored = with_status(&claimed, &id, Write::Restored(word.as_deref()));
            assert_eq!(restored.unwrap().as_deref(), Some(graph));
            assert_eq!(change.applied(&claimed).unwrap(), change.applied(graph).unwrap());
        }
    }

    #[test]
    fn edits_and_claims_survive_a_landing_and_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::open(folder.path().join("state"), false);
        let path = folder.path().join("graph.yaml");
        let old = "tasks:\n  - id: a\n    title: A\n  - id: b\n    title: B\n";
        let change = GraphChange {
            task_id: TaskId::new("a").unwrap(),
            at: AT.to_owned(),
            adopted: None,
            reopened: Vec::new(),
        };
        let new = change.applied(old).unwrap().unwrap();
        let b = TaskId::new("b").unwrap();
        let claim = Write::Claim { at: AT, by: "ralph run" };
        let mine = with_status(old, &b, claim).unwrap().unwrap().replace("title: A", "title: Mine");
        let begin = || {
            fs::write(&path, &mine).unwrap();
            let texts = (old.to_owned(), new.clone());
            let commit = CommitId::from("c");
            LandingGraph::begin(&state, path.clone(), commit, texts, std::slice::from_ref(&change))
                .unwrap()
        };
        let read = || fs::read_to_string(&path).unwrap();
        let after = change.applied(&mine).unwrap().unwrap();
        for (landed, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
            let graph = begin();
            assert_eq!(read(), old);
            if landed {
                fs::write(&path, new.replace('\n', "\r\n")).unwrap();
            }
            if is_killed {
                drop(graph);
                recover(&state, |_| Ok(landed)).unwrap();
            } else {
                graph.finish(landed).unwrap();
            }
            assert_eq!(&read(), if landed { &after } else { &mine });
            assert_eq!(state.kept_aside::<AsideTexts>(), None);
        }
        let graph = begin();
        fs::write(&path, "saved meanwhile").unwrap();
        graph.finish(true).unwrap();
        assert_eq!(read(), "saved meanwhile");
    }
}
