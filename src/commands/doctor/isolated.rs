//! Attempts in work trees of their own: where those go, what is left of earlier ones, and what they
//! need.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder, VERSION},
    few,
};
use crate::{
    adapters::disk,
    commands::worktree::{ListedWorktree, WorktreeKind, WorktreeState},
    core::history::History,
    project::{
        attempt,
        graph_file::GraphFile,
        workspace::Workspace,
        worktree_pool::{INCLUDE, WorktreePool},
    },
    view::{attempt::typed_path, lines::counted},
};

/// The oldest git that can do what is asked of it here.
const OLDEST: (u32, u32) = (2, 36);
/// How many files are looked at to see how large a work tree is.
const FILES: usize = 50_000;

/// All of it, where attempts are to have work trees or have had them.
pub(super) fn all(
    workspace: &Workspace,
    bench: &ProbeFolder,
    graph: Option<&GraphFile>,
    history: &History,
) -> Vec<Finding> {
    let pool = WorktreePool::of(workspace);
    if !workspace.is_apart() && !pool.folder().exists() {
        return Vec::new();
    }
    let mut findings = vec![place(workspace, &pool), git(bench)];
    findings.extend(left(workspace, history));
    findings.extend(graph.and_then(|graph| branches(workspace, graph)));
    findings.extend(copied(workspace, bench));
    findings.extend(submodules(workspace));
    findings
}

/// Work trees can be made where they are to be, and so many of them fit.
fn place(workspace: &Workspace, pool: &WorktreePool) -> Finding {
    const ABOUT: &str = "work trees";
    let folder = pool.folder();
    let there = folder.ancestors().find(|path| path.is_dir()).unwrap_or(folder);
    let shown = typed_path(workspace.root(), folder);
    if tempfile::tempdir_in(there).is_err() {
        let found = format!("no attempt can begin: nothing can be made in `{}`", there.display());
        let cure = "make it writable, or name another folder as `worktree_dir`";
        return Finding::warning(ABOUT, found, cure);
    }
    // The merge queue has one too.
    let count = workspace.config.jobs as u64 + 1;
    let each = size(workspace.root(), folder);
    let Ok(room) = disk::room(there) else {
        return Finding::ok(ABOUT, shown);
    };
    let (free, needed) = (room.bytes / 1_000_000, each.saturating_mul(count) / 1_000_000);
    let found = format!(
        "{shown}: {} of about {} MB as the checkout is now, {free} MB free",
        counted(workspace.config.jobs + 1, "work tree"),
        each.div_ceil(1_000_000)
    );
    if needed > free {
        let cure = "make room, name a folder on another disk as `worktree_dir`, or lower `jobs`";
        return Finding::warning(ABOUT, found, cure);
    }
    Finding::ok(ABOUT, found)
}

/// About how many bytes the files of a checkout take, what git ignores included: work trees get
/// that in time.
fn size(root: &Path, pool: &Path) -> u64 {
    let (mut folders, mut bytes, mut seen) = (vec![root.to_owned()], 0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, Ok(data)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            seen += 1;
            if data.is_file() {
                bytes += data.len();
            } else if data.is_dir() && entry.file_name() != ".git" && path != pool {
                folders.push(path);
            }
            if seen == FILES {
                return bytes;
            }
        }
    }
    bytes
}

/// Git is not too old.
fn git(bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "git";
    let (major, minor) = OLDEST;
    let cure = format!("install {major}.{minor} or newer; attempts have work trees of their own");
    let argv = ["git", "--version"].map(str::to_owned).to_vec();
    let said = match bench.ask(Probe { argv, ..Probe::default() }, VERSION) {
        Ok(ProbeAnswer::Yes(lines)) => lines.join(" "),
        Ok(ProbeAnswer::No(why)) => return Finding::warning(ABOUT, why, cure),
        Ok(ProbeAnswer::Late(_)) => return Finding::warning(ABOUT, "it does not answer", cure),
        Err(error) => return Finding::warning(ABOUT, format!("{error:#}"), cure),
    };
    match version(&said) {
        Some(found) if found < OLDEST => Finding::warning(ABOUT, said, cure),
        _ => Finding::ok(ABOUT, said),
    }
}

fn version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("git version ")?.split(['.', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Nothing is left over in work trees that is kept nowhere else.
fn left(workspace: &Workspace, history: &History) -> Option<Finding> {
    const ABOUT: &str = "left over";
    let all = match ListedWorktree::all(workspace, history) {
        Ok(all) => all,
        Err(error) => return Some(Finding::of_error(ABOUT, &error, "see `git worktree list`")),
    };
    let of_ours =
        |one: &&ListedWorktree| matches!(one.kind, WorktreeKind::Slot(_) | WorktreeKind::Merge);
    let slots = all.iter().filter(of_ours);
    let (mut odd, mut missing) = (Vec::new(), Vec::new());
    for one in slots {
        match one.state {
            WorktreeState::Kept(_) | WorktreeState::Strange | WorktreeState::Locked(_) => {
                odd.push(format!("{} ({})", one.seen, one.text()));
            }
            WorktreeState::Missing => missing.push(one.seen.clone()),
            WorktreeState::Used { .. } | WorktreeState::Free => {}
        }
    }
    if !odd.is_empty() {
        let cure = "commit what is wanted in them to a branch, and undo the rest; until then others \
                    are used";
        return Some(Finding::warning(ABOUT, few(&odd), cure));
    }
    if !missing.is_empty() {
        let found = format!("folders that git knows and that are gone: {}", few(&missing));
        let cure = "nothing: they are made anew; `ralph worktree remove` has git forget them";
        return Some(Finding::warning(ABOUT, found, cure));
    }
    None
}

/// No branches of tasks lie about that are done.
fn branches(workspace: &Workspace, graph: &GraphFile) -> Option<Finding> {
    let trees = workspace.repo.worktrees().unwrap_or_default();
    let over = graph.graph().tasks().iter().filter(|task| task.status.is_over());
    let names = over.map(|task| attempt::branch_of(&task.id));
    let is_left = |name: &String| {
        workspace.repo.branch(name).is_ok_and(|commit| commit.is_some())
            && !trees.iter().any(|tree| tree.holds(name))
    };
    let names: Vec<String> = names.filter(is_left).collect();
    let first = names.first()?;
    let found = format!("of tasks that are done: {}", few(&names));
    let cure = format!("`git branch -d {first}`, which git refuses where something is not merged");
    Some(Finding::warning("branches", found, cure))
}

/// Every pattern of files that are copied into work trees matches one.
fn copied(workspace: &Workspace, bench: &ProbeFolder) -> Option<Finding> {
    const ABOUT: &str = "copied files";
    let text = fs::read_to_string(workspace.root().join(INCLUDE)).ok()?;
    let is_pattern = |line: &&str| !line.is_empty() && !line.starts_with(['#', '!']);
    let patterns: Vec<&str> = text.lines().map(str::trim_end).filter(is_pattern).collect();
    let look = || -> Result<(usize, Vec<String>)> {
        let file = bench.folder("include")?.join("pattern");
        let (mut files, mut blank) = (0, Vec::new());
        for pattern in &patterns {
            fs::write(&file, format!("{pattern}\n")).context("write a pattern")?;
            match workspace.repo.ignored_by(&file)?.len() {
                0 => blank.push(format!("`{pattern}`")),
                count => files += count,
            }
        }
        Ok((files, blank))
    };
    Some(match look() {
        Err(error) => Finding::of_error(ABOUT, &error, "see what git says of it"),
        Ok((files, blank)) if blank.is_empty() => {
            let found = format!("{} by `{INCLUDE}`", counted(files, "file"));
            Finding::ok(ABOUT, found)
        }
        Ok((_, blank)) => {
            let found =
                format!("in `{INCLUDE}`, matching no file that git ignores: {}", few(&blank));
            Finding::warning(ABOUT, found, "correct it; nothing else is copied into work trees")
        }
    })
}

/// Submodules are cloned here, so that work trees are filled without a network.
fn submodules(workspace: &Workspace) -> Option<Finding> {
    const ABOUT: &str = "submodules";
    let text = fs::read_to_string(workspace.root().join(".gitmodules")).ok()?;
    let name = |line: &str| -> Option<String> {
        let name = line.trim().strip_prefix("[submodule \"")?.strip_suffix("\"]")?;
        Some(name.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(name).collect();
    let modules = workspace.repo.common_dir().join("modules");
    let absent: Vec<String> =
        names.iter().filter(|name| !modules.join(name).is_dir()).cloned().collect();
    if absent.is_empty() {
        let found = format!("{}, cloned here", counted(names.len(), "submodule"));
        return Some(Finding::ok(ABOUT, found));
    }
    let found = format!("not cloned here: {}", few(&absent));
    let cure = "`git submodule update --init`; else every work tree fetches them anew";
    Some(Finding::warning(ABOUT, found, cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_told_by_its_version() {
        for (said, found) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.35.1.windows.2", Some((2, 35))),
            ("git version 3.0.0 (Apple Git-155)", Some((3, 0))),
            ("hub version 2.14", None),
        ] {
            assert_eq!(version(said), found, "{said}");
        }
        assert!(version("git version 2.35.9") < Some(OLDEST));
    }
}
