//! The worktrees there are, whose each is, and whether it can be removed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use chrono::Utc;

use crate::{
    adapters::git::{Repo, Worktree},
    commands::status,
    core::{attempt::AttemptState, history::History},
    project::{
        attempt::AttemptRecord,
        workspace::Workspace,
        worktree_pool::{self, WorktreePool},
    },
    view::{
        attempt::{AttemptView, typed_path},
        worktree::WorktreeView,
    },
};

/// What a worktree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorktreeKind {
    /// One of the pool: attempts take turns in it.
    Slot(u32),
    /// The merge queue tries things in it.
    Merge,
    /// Made by `ralph worktree new`.
    Person,
    /// The checkout that people work in.
    Main,
    /// Any other one.
    Other,
}

impl WorktreeKind {
    fn of(path: &Path, pool: &WorktreePool, root: &Path) -> WorktreeKind {
        if path == root {
            return WorktreeKind::Main;
        }
        let name = path.strip_prefix(pool.folder()).ok().and_then(Path::to_str);
        match name {
            None => WorktreeKind::Other,
            Some("merge") => WorktreeKind::Merge,
            Some(name) => name.parse().map_or(WorktreeKind::Person, WorktreeKind::Slot),
        }
    }

    fn word(self) -> &'static str {
        match self {
            WorktreeKind::Slot(_) => "pool",
            WorktreeKind::Merge => "merge queue",
            WorktreeKind::Person => "made by hand",
            WorktreeKind::Main => "main",
            WorktreeKind::Other => "other",
        }
    }
}

/// How one stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorktreeState {
    /// An attempt works in it: which, at what, and whether its run goes on.
    Used { attempt: String, stage: AttemptState, live: bool },
    /// A person keeps it from being removed.
    Locked(String),
    /// Its folder is gone, and git does not know yet.
    Missing,
    /// There is something in it that is kept nowhere else.
    Kept(String),
    /// It is no worktree of this repository, whatever it is.
    Strange,
    /// Nothing would be lost with it.
    Free,
}

/// A worktree.
pub(crate) struct ListedWorktree {
    pub(crate) kind: WorktreeKind,
    pub(crate) tree: Worktree,
    pub(crate) state: WorktreeState,
    /// The task of the attempt in it, or that its branch is named after.
    pub(crate) task: Option<String>,
    /// As it is typed at the top of the repository.
    pub(crate) seen: String,
}

impl ListedWorktree {
    /// All of them: those of the pool first, then those of people.
    ///
    /// # Errors
    /// In git's words.
    pub(crate) fn all(workspace: &Workspace, history: &History) -> Result<Vec<ListedWorktree>> {
        let (pool, live) = (WorktreePool::of(workspace), workspace.is_live(history)?);
        let records: Vec<AttemptRecord> = workspace.state.peek();
        let attempts = status::open_attempts(workspace, history, Utc::now());
        let mut trees = workspace.repo.worktrees()?;
        let known: BTreeSet<PathBuf> = trees.iter().map(|tree| tree.path.clone()).collect();
        let found = fs::read_dir(pool.folder()).into_iter().flatten().flatten();
        let strange = found.map(|entry| entry.path()).filter(|path| !known.contains(path));
        trees.extend(strange.map(|path| Worktree { path, ..Worktree::default() }));
        let mut all: Vec<ListedWorktree> = trees
            .into_iter()
            .map(|tree| {
                let kind = WorktreeKind::of(&tree.path, &pool, workspace.root());
                let used = records.iter().find(|open| {
                    open.worktree.as_ref().is_some_and(|worktree| worktree.tree == tree.path)
                });
                let state = match used {
                    Some(open) => used_by(open, &attempts, live),
                    None if !known.contains(&tree.path) => WorktreeState::Strange,
                    // It is in the middle of something most of the time.
                    None if live && kind == WorktreeKind::Merge => WorktreeState::Free,
                    None => state(workspace, kind, &tree),
                };
                let own = tree.branch.as_deref().and_then(|name| name.strip_prefix("ralph/"));
                ListedWorktree {
                    task: used.map(|open| open.task_id.to_string()).or(own.map(str::to_owned)),
                    seen: typed_path(workspace.root(), &tree.path),
                    kind,
                    tree,
                    state,
                }
            })
            .collect();
        all.sort_by(|a, b| (a.kind, &a.tree.path).cmp(&(b.kind, &b.tree.path)));
        Ok(all)
    }

    /// How it stands, in words.
    pub(crate) fn text(&self) -> String {
        let what = match &self.state {
            WorktreeState::Used { attempt, stage, live: true } => {
                return format!("in use by attempt {attempt}, {}", stage.word());
            }
            WorktreeState::Used { attempt, stage: AttemptState::Queued, .. } => {
                return format!("attempt {attempt} is queued to land in the next run");
            }
            WorktreeState::Used { attempt, .. } => {
                return format!("attempt {attempt} was cut off in it; the next run recovers it");
            }
            WorktreeState::Locked(why) if why.is_empty() => "locked".to_owned(),
            WorktreeState::Locked(why) => format!("locked: {why}"),
            WorktreeState::Missing => "missing: its folder is gone".to_owned(),
            WorktreeState::Kept(why) => format!("kept: {why}"),
            WorktreeState::Strange => "not a worktree of this repository".to_owned(),
            WorktreeState::Free => "free".to_owned(),
        };
        match self.kind {
            WorktreeKind::Slot(_) => what,
            WorktreeKind::Merge if self.state == WorktreeState::Free => {
                "the merge queue's".to_owned()
            }
            WorktreeKind::Merge => format!("the merge queue's; {what}"),
            WorktreeKind::Main => "the checkout that people work in".to_owned(),
            WorktreeKind::Person | WorktreeKind::Other => match self.state {
                WorktreeState::Free => "yours; nothing would be lost with it".to_owned(),
                _ => format!("yours; {what}"),
            },
        }
    }

    /// As a value of the read model.
    pub(crate) fn view(&self) -> WorktreeView {
        let (word, why) = match &self.state {
            WorktreeState::Used { live: true, .. } => ("in use", None),
            WorktreeState::Used { .. } => ("cut off", None),
            WorktreeState::Locked(why) => ("locked", Some(why)),
            WorktreeState::Missing => ("missing", None),
            WorktreeState::Kept(why) => ("kept", Some(why)),
            WorktreeState::Strange => ("strange", None),
            WorktreeState::Free => ("free", None),
        };
        let (attempt, stage) = match &self.state {
            WorktreeState::Used { attempt, stage, .. } => {
                (Some(attempt.clone()), Some(stage.word().replace(' ', "_")))
            }
            _ => (None, None),
        };
        WorktreeView {
            kind: self.kind.word().replace(' ', "_"),
            task_id: self.task.clone(),
            branch: self.tree.branch.clone(),
            commit: self.tree.head.clone().map(String::from),
            state: word.replace(' ', "_"),
            why: why.cloned(),
            attempt,
            stage,
            place: self.seen.clone(),
            text: self.text(),
            ..WorktreeView::of(self.tree.path.clone())
        }
    }
}

fn used_by(open: &AttemptRecord, attempts: &[AttemptView], live: bool) -> WorktreeState {
    let is_it =
        |attempt: &&AttemptView| attempt.task_id == open.task_id && attempt.attempt == open.attempt;
    let found = attempts.iter().find(is_it);
    let stage = found.map_or(AttemptState::Preparing, |attempt| attempt.position.state);
    WorktreeState::Used { attempt: open.name(), stage, live }
}

fn state(workspace: &Workspace, kind: WorktreeKind, tree: &Worktree) -> WorktreeState {
    if kind == WorktreeKind::Main {
        return WorktreeState::Free;
    }
    if let Some(why) = tree.locked.as_ref().filter(|why| !worktree_pool::is_own_lock(why)) {
        return WorktreeState::Locked(why.clone());
    }
    if tree.missing {
        let lost = tree
            .head
            .as_ref()
            .filter(|head| tree.branch.is_none() && !workspace.repo.is_kept(head).unwrap_or(false));
        return lost.map_or(WorktreeState::Missing, |head| {
            let short = head.get(..7).unwrap_or(head);
            WorktreeState::Kept(format!("its folder is gone, and commit {short} is on no branch"))
        });
    }
    let unkept = Repo::discover(&tree.path).and_then(|tree| worktree_pool::unkept(&tree));
    match unkept {
        Ok(None) => WorktreeState::Free,
        Ok(Some(why)) => WorktreeState::Kept(why),
        Err(error) => WorktreeState::Kept(format!("it cannot be read: {error:#}")),
    }
}
