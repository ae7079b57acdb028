//! The inspection of a project: files at its top level, and programs on PATH.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{
    adapters::process,
    commands::doctor,
    core::{
        agents::agent_preset,
        executor::SandboxEngine,
        import::detect::detect,
        setup::{self, Found, FoundAgent},
    },
    regular_file,
};

/// Longer files are not read.
const LONG: u64 = 1 << 20;
/// Folders that are not searched for plans.
const FOREIGN: &[&str] = &["node_modules", "target", "vendor", "dist", "build", "logs"];

/// Inspects the project in `root`. Unreadable files are ignored.
pub(in crate::commands) fn found(root: &Path) -> Found {
    let names = names(root);
    let read = |name: &String| {
        let path = root.join(name);
        let is_read = setup::READ.contains(&&*name.to_lowercase())
            && fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LONG);
        let text = is_read.then(|| regular_file::read_to_string(&path).ok()).flatten()?;
        Some((name.clone(), text))
    };
    let texts: BTreeMap<String, String> = names.iter().filter_map(read).collect();
    let in_tests: Vec<String> =
        ["tests", "test"].iter().flat_map(|name| self::names(&root.join(name))).collect();
    let on_path = |program: &str| process::resolve(program, root).is_ok();
    Found {
        installs: setup::installs(&names, &texts, on_path),
        checks: setup::checks(&names, &texts, &in_tests, on_path),
        backlog: setup::backlog(&paths(root, &names), |path| has_tasks(&root.join(path))),
        agents: agents(root),
        sandbox: sandbox(),
        names,
    }
}

/// Whether `ralph import` finds tasks in a document.
fn has_tasks(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= LONG)
        && regular_file::read_to_string(path).is_ok_and(|text| detect(&text).is_some())
}

/// Bubblewrap, if it works on this machine: Landlock alone holds less.
pub(super) fn sandbox() -> Option<String> {
    let support = process::sandbox::support(SandboxEngine::Bubblewrap).ok()?;
    Some(support.to_string())
}

/// The presets whose program is on PATH.
pub(super) fn agents(root: &Path) -> Vec<FoundAgent> {
    let look = |preset: &agent_preset::AgentPreset| {
        let path = process::resolve(preset.argv[0], root).ok()?;
        let login = doctor::login_sign(preset);
        Some(FoundAgent { name: preset.name, path: path.display().to_string(), login })
    };
    agent_preset::ALL.iter().filter_map(look).collect()
}

/// The sorted names in a folder. Names of folders end with a slash.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(if entry.path().is_dir() { name + "/" } else { name })
        })
        .collect();
    names.sort_unstable();
    names
}

/// The paths in which plans are searched: the top level and two levels of folders.
fn paths(root: &Path, names: &[String]) -> Vec<String> {
    let mut paths = names.to_vec();
    let folders = names.iter().filter(|name| name.ends_with('/'));
    let is_own = |name: &&String| {
        let bare = name.trim_end_matches('/');
        *name == ".taskmaster/" || !(bare.starts_with('.') || FOREIGN.contains(&bare))
    };
    for folder in folders.filter(is_own) {
        for name in self::names(&root.join(folder)) {
            let path = format!("{folder}{name}");
            if path.ends_with('/') && !FOREIGN.contains(&name.trim_end_matches('/')) {
                let below = self::names(&root.join(&path));
                paths.extend(below.into_iter().map(|name| format!("{path}{name}")));
            }
            paths.push(path);
        }
    }
    paths
}
