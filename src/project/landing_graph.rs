//! The graph file of the checkout while git lands work on its branch.
//!
//! The file in the checkout shows the claims of running attempts and may contain uncommitted edits
//! of a person, so it usually differs from the committed file, which git would not replace. For the
//! moment of landing the committed text is put back, and afterwards the same changes are made again
//! on what the file contained. That text is on disk meanwhile, so that a kill loses nothing.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::{
    adapters::{
        git::Repo,
        state::{self, StateFolder},
    },
    core::{
        commit_id::CommitId,
        graph::{
            merge::{self, Texts},
            task::{Status, TaskId},
        },
    },
    crash,
    project::graph_file::{GraphFile, Write, with_status},
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
    /// What a person has staged of the file.
    #[serde(default)]
    staged: Option<StagedTexts>,
}

/// What a person has staged of the graph file, without claims: these are never committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StagedTexts {
    before: String,
    /// The same text with the changes of the landing.
    after: String,
}

impl AsideTexts {
    /// Whether git wrote the file, or a part of it before it was killed. Any other text was saved
    /// by a person at that moment.
    fn is_written_by_git(&self, repo: &Repo, now: &str) -> bool {
        same(now, &self.old)
            || same(now, &self.new)
            || self.new.starts_with(now)
            || repo.commits().is_as_staged(&self.name(repo)).unwrap_or(false)
    }

    /// The file relative to the repository.
    fn name(&self, repo: &Repo) -> String {
        self.path.strip_prefix(repo.root()).unwrap_or(&self.path).display().to_string()
    }

    /// Puts the text of the file back, with the changes if the commit has landed.
    fn restore(&self, state: &StateFolder, repo: &Repo, has_landed: bool) -> Result<()> {
        let now = regular_file::read_to_string(&self.path).unwrap_or_default();
        let want = if has_landed { &self.after } else { &self.mine };
        if now != *want && self.is_written_by_git(repo, &now) {
            state::replace(&self.path, want.as_bytes(), state.is_durable())
                .with_context(|| format!("write `{}`", self.path.display()))?;
        }
        crash::point("land.restored");
        if let Some(staged) = &self.staged {
            let (want, is) =
                if has_landed { (&staged.after, &self.new) } else { (&staged.before, &self.old) };
            if want != is {
                // Where another git process holds the index, the edit is still in the file.
                let _ = repo.commits().stage_text(&self.name(repo), want);
            }
        }
        state.drop_aside().context("remove the copy of the graph")
    }
}

/// Whether two texts are the same except for line ends, which git may convert.
fn same(one: &str, other: &str) -> bool {
    one == other || one.lines().eq(other.lines())
}

/// Returns the text with all changes that fit: a person may have removed the task, or be in the
/// middle of an edit.
fn with_changes(text: &str, changes: &[GraphChange]) -> String {
    changes.iter().fold(text.to_owned(), |text, change| match change.applied(&text) {
        Ok(Some(after)) => after,
        Ok(None) | Err(_) => text,
    })
}

/// Returns a staged text in which the tasks that are claimed by a run have the status of the
/// committed text.
fn without_claims(staged: &str, committed: &str) -> String {
    let read = |text| GraphFile::assume(Path::new(""), "", false, false, text).ok();
    let (Some(file), Some(old)) = (read(staged), read(committed)) else {
        return staged.to_owned();
    };
    let claimed = file.graph().tasks().iter().filter(|task| task.claiming_run().is_some());
    claimed.fold(staged.to_owned(), |text, task| {
        let word = old.graph().number(&task.id).and_then(|number| old.status_word(number));
        match with_status(&text, &task.id, Write::Restored(word.as_deref())) {
            Ok(Some(free)) => free,
            Ok(None) | Err(_) => text,
        }
    })
}

/// The graph file of a checkout while work lands, under the lock that its other writers take.
pub struct LandingGraph<'a> {
    state: &'a StateFolder,
    repo: &'a Repo,
    /// None if the file cannot be read.
    aside: Option<AsideTexts>,
    is_kept: bool,
    _turn: File,
}

impl LandingGraph<'_> {
    /// Puts the committed text back. `old` and `new` are the committed texts before and after
    /// `commit` lands on `onto`, which makes these changes. `name` is the file in the repository.
    ///
    /// # Errors
    /// Errors of the disk and of git.
    pub fn begin<'a>(
        state: &'a StateFolder,
        repo: &'a Repo,
        name: &str,
        (onto, commit): (&CommitId, &CommitId),
        (old, new): (String, String),
        changes: &[GraphChange],
    ) -> Result<LandingGraph<'a>> {
        let turn = state.lock_graph().context("lock the graph file")?;
        let mut graph = LandingGraph { state, repo, aside: None, is_kept: false, _turn: turn };
        let path = repo.root().join(name);
        let Ok(mine) = regular_file::read_to_string(&path) else {
            return Ok(graph);
        };
        let after = with_changes(&mine, changes);
        let staged = repo.commits().staged_text(onto, name)?.map(|text| {
            let before = without_claims(&text, &old);
            StagedTexts { after: with_changes(&before, changes), before }
        });
        let is_clean = mine == old && staged.is_none();
        let commit = commit.clone();
        let aside = graph.aside.insert(AsideTexts { path, commit, old, new, mine, after, staged });
        if is_clean {
            return Ok(graph);
        }
        state.keep_aside(aside).context("keep a copy of the graph")?;
        graph.is_kept = true;
        crash::point("land.kept");
        // A person may have saved the file meanwhile: that text is put back instead.
        if let Ok(now) = regular_file::read_to_string(&aside.path)
            && now != aside.mine
        {
            (aside.after, aside.mine) = (with_changes(&now, changes), now);
            state.keep_aside(aside).context("keep a copy of the graph")?;
        }
        state::replace(&aside.path, aside.old.as_bytes(), state.is_durable())
            .with_context(|| format!("write `{}`", aside.path.display()))?;
        crash::point("land.cleared");
        Ok(graph)
    }

    /// Has git itself put the version of the target branch into the worktree and the index: the
    /// file is staged, or git converts it. Returns whether there was a file to put back.
    ///
    /// # Errors
    /// Errors of the disk and of git.
    pub fn reset(&mut self, onto: &CommitId) -> Result<bool> {
        let Some(aside) = &self.aside else { return Ok(false) };
        if !self.is_kept {
            self.state.keep_aside(aside).context("keep a copy of the graph")?;
            self.is_kept = true;
        }
        self.repo.commits().reset_file(onto, &aside.name(self.repo))?;
        crash::point("land.reset");
        Ok(true)
    }

    /// Puts the text of the file back, with the changes if the commit has landed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn finish(self, has_landed: bool) -> Result<()> {
        let aside = self.aside.filter(|_| self.is_kept);
        aside.map_or(Ok(()), |aside| aside.restore(self.state, self.repo, has_landed))
    }
}

/// Puts back what a killed run has kept aside. `has_landed` says whether a commit is in the branch.
///
/// # Errors
/// Errors of the disk and of `has_landed`.
pub fn recover(
    state: &StateFolder,
    repo: &Repo,
    has_landed: impl Fn(&CommitId) -> Result<bool>,
) -> Result<()> {
    let _turn = state.lock_graph().context("lock the graph file")?;
    match state.kept_aside::<AsideTexts>() {
        Some(aside) => aside.restore(state, repo, has_landed(&aside.commit)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

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
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"];
            let mut git = Command::new("git");
            assert!(
                git.current_dir(&folder).args(identity).args(arguments).status().unwrap().success()
            );
        };
        git(&["init", "-q"]);
        let state = StateFolder::open(folder.path().join("state"), false);
        let path = folder.path().join("graph.yaml");
        let old = "tasks:\n  - id: a\n    title: A\n  - id: b\n    title: B\n";
        fs::write(&path, old).unwrap();
        git(&["add", "graph.yaml"]);
        git(&["commit", "-q", "-m", "Graph"]);
        let repo = Repo::discover(folder.path()).unwrap();
        let onto = repo.head().unwrap().commit.unwrap();
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
            let commits = (&onto, &CommitId::from("c"));
            let changes = std::slice::from_ref(&change);
            LandingGraph::begin(&state, &repo, "graph.yaml", commits, texts, changes).unwrap()
        };
        let read = || fs::read_to_string(&path).unwrap();
        let after = change.applied(&mine).unwrap().unwrap();
        let free = |text: &str| without_claims(text, old);
        assert_eq!(free(&mine), old.replace("title: A", "title: Mine"));
        for (landed, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
            for (is_staged, is_reset) in [(false, false), (false, true), (true, true)] {
                repo.commits()
                    .stage_text("graph.yaml", if is_staged { &mine } else { old })
                    .unwrap();
                let mut graph = begin();
                assert_eq!(read(), old);
                if is_reset {
                    assert!(graph.reset(&onto).unwrap());
                    assert_eq!(repo.commits().staged_text(&onto, "graph.yaml").unwrap(), None);
                }
                if landed {
                    fs::write(&path, new.replace('\n', "\r\n")).unwrap();
                }
                if is_killed {
                    drop(graph);
                    recover(&state, &repo, |_| Ok(landed)).unwrap();
                } else {
                    graph.finish(landed).unwrap();
                }
                assert_eq!(&read(), if landed { &after } else { &mine });
                assert_eq!(state.kept_aside::<AsideTexts>(), None);
                let staged = is_staged.then(|| free(if landed { &after } else { &mine }));
                assert_eq!(repo.commits().staged_text(&onto, "graph.yaml").unwrap(), staged);
            }
        }
        let graph = begin();
        fs::write(&path, "saved meanwhile").unwrap();
        graph.finish(true).unwrap();
        assert_eq!(read(), "saved meanwhile");
    }
}
