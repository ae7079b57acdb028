//! `ralph worktree`: the worktrees of the repository, those of attempts and those of people.
//!
//! Removal loses nothing: a worktree with something in it that is kept nowhere else stays. The
//! worktrees of attempts have numbers; those of people have names, so that no run takes them.

mod listed;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Invocation, status::look};
use crate::{
    adapters::{git::BranchRoom, terminal},
    cli::{WorktreeArgs, WorktreeCommand},
    core::{
        diagnostic::nearest,
        exit::{Exit, Failure},
    },
    project::{attempt, workspace::Workspace, worktree_pool::WorktreePool},
    runner,
    view::worktree::WorktreeView,
};
pub(super) use listed::{ListedWorktree, WorktreeKind, WorktreeState};

/// Lists, makes or removes.
///
/// # Errors
/// What would lose something, with the reason; in git's words.
pub fn run(invocation: &Invocation, options: &WorktreeArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    match &options.command {
        WorktreeCommand::List { json } => list(&workspace, *json),
        WorktreeCommand::New { name } => new(&workspace, name),
        WorktreeCommand::Remove { tree } => remove(invocation, &workspace, tree),
    }
}

fn refused(message: String) -> anyhow::Error {
    Failure::new(Exit::Error, message).into()
}

fn list(workspace: &Workspace, as_json: bool) -> Result<Exit> {
    let (store, _) = look(workspace)?;
    let all = ListedWorktree::all(workspace, store.history())?;
    let all: Vec<WorktreeView> = all.iter().map(ListedWorktree::view).collect();
    terminal::print(&if as_json {
        terminal::json(&all)
    } else {
        let head = ["worktree", "task", "branch", "state"].map(str::to_owned);
        let shown = |text: &str| terminal::visible(text).into_owned();
        let row = |one: &WorktreeView| {
            [
                shown(&one.place),
                one.task_id.as_deref().map_or_else(|| "-".to_owned(), shown),
                one.branch.as_deref().map_or_else(|| "-".to_owned(), shown),
                shown(&one.text),
            ]
        };
        let rows: Vec<[String; 4]> = std::iter::once(head).chain(all.iter().map(row)).collect();
        terminal::table(&rows)
    })?;
    Ok(Exit::Success)
}

/// The branch that is meant: that of a task, one that is there, or a new one.
fn meant(workspace: &Workspace, name: &str) -> Result<String> {
    if workspace.repo.branch(name)?.is_some() {
        return Ok(name.to_owned());
    }
    let graph = attempt::graph(workspace);
    let tasks = graph.as_ref().map_or(&[][..], |file| file.graph().tasks());
    if let Some(task) = tasks.iter().find(|task| task.id.as_str() == name) {
        return Ok(attempt::branch_of(&task.id));
    }
    if let Some(near) = nearest(name, tasks.iter().map(|task| task.id.as_str())) {
        return Err(refused(format!(
            "there is no task and no branch `{}`; did you mean `{near}`?",
            name.escape_debug()
        )));
    }
    Ok(name.to_owned())
}

/// The folder for a branch in the pool. Numbers are for attempts.
fn folder(pool: &WorktreePool, branch: &str) -> PathBuf {
    let name = branch.strip_prefix("ralph/").unwrap_or(branch).replace('/', "-");
    let taken = name == "merge" || name.chars().all(|c| c.is_ascii_digit());
    pool.folder().join(if taken { format!("task-{name}") } else { name })
}

fn new(workspace: &Workspace, name: &str) -> Result<Exit> {
    let repo = &workspace.repo;
    let head = repo.head()?;
    let tip = head.commit.context("there is no commit to begin with; make the first one")?;
    let branch = meant(workspace, name)?;
    let (base, old) = match repo.branch_room(&branch)? {
        BranchRoom::Free => (tip, None),
        BranchRoom::Exists { commit } => (commit.clone(), Some(commit)),
        BranchRoom::CheckedOut { path, .. } => {
            let path = path.display();
            return Err(refused(format!("`{branch}` is checked out already: `cd {path}`")));
        }
        BranchRoom::Barred { by } => {
            return Err(refused(format!(
                "branch `{by}` is in the way of `{branch}`, since git has a folder for it; rename it"
            )));
        }
    };
    let pool = WorktreePool::of(workspace);
    let path = folder(&pool, &branch);
    if path.exists() {
        let path = path.display();
        return Err(refused(format!("`{path}` is there already; move it away or use it")));
    }
    let (tree, _) = pool.open(&path, &base)?;
    tree.switch(&branch, &base, old.as_deref())?;
    tree.update_submodules()?;
    let short = base.get(..7).unwrap_or(&base);
    let whence = match (&old, &head.branch) {
        (Some(_), _) => format!("as it is, at {short}"),
        (None, Some(target)) => format!("new, from {target} at {short}"),
        (None, None) => format!("new, from {short}"),
    };
    terminal::say(&terminal::visible(&format!("on branch {branch}, {whence}")));
    let setup = &workspace.config.setup.0;
    if !setup.is_empty() {
        let setup = setup.join("; ");
        terminal::say(&terminal::visible(&format!("not set up: attempts would run {setup}")));
    }
    terminal::print(&format!("{}\n", path.display()))?;
    Ok(Exit::Success)
}

/// The worktree that was typed: a name in the pool, or a path.
fn find(
    invocation: &Invocation,
    workspace: &Workspace,
    all: Vec<ListedWorktree>,
    typed: &Path,
) -> Result<ListedWorktree> {
    let inside = WorktreePool::of(workspace).folder().join(typed);
    let path = invocation.directory()?.join(typed);
    let path = path.canonicalize().unwrap_or(path);
    let is_it = |one: &ListedWorktree| one.tree.path == inside || one.tree.path == path;
    all.into_iter().find(is_it).ok_or_else(|| {
        let typed = typed.display().to_string();
        refused(format!(
            "`{}` is not a worktree of this repository; `ralph worktree list` lists them",
            typed.escape_debug()
        ))
    })
}

fn remove(invocation: &Invocation, workspace: &Workspace, typed: &Path) -> Result<Exit> {
    let (store, live) = look(workspace)?;
    // No run begins while this lock is held, so none takes what is removed.
    let lock = if live { None } else { workspace.lock()? };
    let all = ListedWorktree::all(workspace, store.history())?;
    let one = find(invocation, workspace, all, typed)?;
    if let Some(why) = hindrance(&one, lock.is_some(), workspace) {
        return Err(refused(format!("{} stays: {why}", one.seen)));
    }
    let (repo, path) = (&workspace.repo, &one.tree.path);
    if one.tree.locked.is_some() {
        repo.unlock_worktree(path)?;
    }
    let what = if one.state == WorktreeState::Missing {
        repo.forget_worktree(path)?;
        "forgot"
    } else {
        repo.remove_worktree(path)?;
        "removed"
    };
    let branch = one.tree.branch.map_or(String::new(), |name| format!("; branch {name} stays"));
    terminal::say(&terminal::visible(&format!("{what} {}{branch}", one.seen)));
    Ok(Exit::Success)
}

/// Why it cannot be removed, and what to do then.
fn hindrance(one: &ListedWorktree, locked: bool, workspace: &Workspace) -> Option<String> {
    let path = one.tree.path.display();
    let why = match &one.state {
        _ if one.kind == WorktreeKind::Main => "it is the checkout that people work in".to_owned(),
        WorktreeState::Used { attempt, live: true, .. } => {
            format!("attempt {attempt} is at work in it; `ralph stop` ends the run after it")
        }
        WorktreeState::Used { .. } => format!("{}: `ralph run`", one.text()),
        WorktreeState::Locked(why) => {
            let why = if why.is_empty() { "without a reason" } else { why };
            format!("it is locked ({why}); `git worktree unlock {path}` first")
        }
        WorktreeState::Kept(why) if one.tree.missing => {
            let head = one.tree.head.as_deref().unwrap_or_default();
            format!("{why}; `git branch NAME {head}` keeps it")
        }
        WorktreeState::Kept(why) => format!("{why}; put it on a branch, or undo it, in `{path}`"),
        WorktreeState::Strange => "it is not a worktree of this repository".to_owned(),
        WorktreeState::Missing | WorktreeState::Free
            if matches!(one.kind, WorktreeKind::Slot(_) | WorktreeKind::Merge) =>
        {
            if locked {
                return inside(one);
            }
            format!(
                "{}, which may take it at any moment; remove it when that is over",
                runner::held(workspace)
            )
        }
        WorktreeState::Missing | WorktreeState::Free => return inside(one),
    };
    Some(why)
}

/// Why a person in that folder cannot remove it.
fn inside(one: &ListedWorktree) -> Option<String> {
    let here = env::current_dir().ok()?;
    here.starts_with(&one.tree.path).then(|| "you are in it; `cd` to another place".to_owned())
}
