//! Checks for isolated attempts: their slots, leftovers of earlier ones, and requirements.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{
    Finding,
    bench::{Probe, ProbeAnswer, ProbeFolder, VERSION},
    few,
};
use crate::{
    adapters::disk,
    commands::slots::{ListedSlot, SlotState},
    core::history::History,
    project::{
        slot_pool::{INCLUDE, SlotPool},
        workspace::Workspace,
    },
    regular_file,
    view::{attempt::typed_path, lines::counted},
};

/// The oldest supported version of git.
const OLDEST: (u32, u32) = (2, 36);
/// The number of files to measure for the size of a slot.
const FILES: usize = 50_000;

/// All checks, if attempts use slots or have used them.
pub(super) fn all(workspace: &Workspace, bench: &ProbeFolder, history: &History) -> Vec<Finding> {
    let pool = SlotPool::of(workspace);
    if !workspace.config.is_isolated() && !pool.folder().exists() {
        return Vec::new();
    }
    let mut findings = vec![place(workspace, &pool), git(bench)];
    findings.extend(left(workspace, history));
    findings.extend(copied(workspace, bench));
    findings.extend(submodules(workspace));
    findings
}

/// Checks that the slots can be created and fit on the disk.
fn place(workspace: &Workspace, pool: &SlotPool) -> Finding {
    const ABOUT: &str = "slots";
    let folder = pool.folder();
    let there = folder.ancestors().find(|path| path.is_dir()).unwrap_or(folder);
    let shown = typed_path(workspace.root(), folder);
    if tempfile::tempdir_in(there).is_err() {
        let found =
            format!("no attempt can start: cannot create a folder in `{}`", there.display());
        let cure = "make it writable, or set `slot_dir` to another folder";
        return Finding::warning(ABOUT, found, cure);
    }
    // One more for the merge queue.
    let count = workspace.config.jobs as u64 + 1;
    let each = size(workspace.root(), folder);
    let Ok(room) = disk::room(there) else {
        return Finding::ok(ABOUT, shown);
    };
    let (free, needed) = (room.bytes / 1_000_000, each.saturating_mul(count) / 1_000_000);
    let found = format!(
        "{shown}: {} of about {} MB each, {free} MB free",
        counted(workspace.config.jobs + 1, "slot"),
        each.div_ceil(1_000_000)
    );
    if needed > free {
        let cure = "free space, set `slot_dir` to a folder on another disk, or lower `jobs`";
        return Finding::warning(ABOUT, found, cure);
    }
    Finding::ok(ABOUT, found)
}

/// The approximate size of a checkout in bytes, including files that git ignores: slots get such
/// files too.
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

/// Checks the version of git.
fn git(bench: &ProbeFolder) -> Finding {
    const ABOUT: &str = "git";
    let (major, minor) = OLDEST;
    let cure = format!("install git {major}.{minor} or newer, for slots");
    let argv = ["git", "--version"].map(str::to_owned).to_vec();
    let said = match bench.ask(Probe { argv, ..Probe::default() }, VERSION) {
        Ok(ProbeAnswer::Yes(lines)) => lines.join(" "),
        Ok(ProbeAnswer::No(why)) => return Finding::warning(ABOUT, why, cure),
        Ok(ProbeAnswer::Late(_)) => {
            return Finding::warning(ABOUT, "`git --version` did not finish", cure);
        }
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

/// Finds unsaved work in the slots of earlier attempts.
fn left(workspace: &Workspace, history: &History) -> Option<Finding> {
    const ABOUT: &str = "leftovers";
    let all = match ListedSlot::all(workspace, history) {
        Ok(all) => all,
        Err(error) => return Some(Finding::of_error(ABOUT, &error, "see `ralph slots`")),
    };
    let is_odd = |one: &&ListedSlot| {
        matches!(one.state, SlotState::Kept(_) | SlotState::Suspect(_) | SlotState::Strange)
    };
    let odd: Vec<String> =
        all.iter().filter(is_odd).map(|one| format!("{} ({})", one.seen, one.text())).collect();
    (!odd.is_empty()).then(|| {
        let cure = "save what you want from there and remove the folder; until then other slots \
                    are used";
        Finding::warning(ABOUT, few(&odd), cure)
    })
}

/// Checks that every pattern of files to copy into slots matches a file.
fn copied(workspace: &Workspace, bench: &ProbeFolder) -> Option<Finding> {
    const ABOUT: &str = "copied files";
    let text = regular_file::read_to_string(&workspace.root().join(INCLUDE)).ok()?;
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
        Err(error) => Finding::of_error(ABOUT, &error, "correct the file"),
        Ok((files, blank)) if blank.is_empty() => {
            let found = format!("{} from `{INCLUDE}`", counted(files, "file"));
            Finding::ok(ABOUT, found)
        }
        Ok((_, blank)) => {
            let found =
                format!("patterns in `{INCLUDE}` that match no ignored file: {}", few(&blank));
            Finding::warning(
                ABOUT,
                found,
                "correct them; only matching files are copied into slots",
            )
        }
    })
}

/// Checks that submodules are cloned, so that slots need no network.
fn submodules(workspace: &Workspace) -> Option<Finding> {
    const ABOUT: &str = "submodules";
    let text = regular_file::read_to_string(&workspace.root().join(".gitmodules")).ok()?;
    let name = |line: &str| -> Option<String> {
        let name = line.trim().strip_prefix("[submodule \"")?.strip_suffix("\"]")?;
        Some(name.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(name).collect();
    let modules = workspace.repo.common_dir().join("modules");
    let absent: Vec<String> =
        names.iter().filter(|name| !modules.join(name).is_dir()).cloned().collect();
    if absent.is_empty() {
        let found = format!("{}, cloned", counted(names.len(), "submodule"));
        return Some(Finding::ok(ABOUT, found));
    }
    let found = format!("not cloned: {}", few(&absent));
    let cure = "run `git submodule update --init`, or every slot fetches them again";
    Some(Finding::warning(ABOUT, found, cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_versions_are_parsed_and_compared() {
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
