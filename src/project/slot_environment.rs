//! The environment of processes in a slot: no variable leads back to the checkout.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    adapters::process::ProcessSpec,
    core::environment::{self, LedBack},
    project::{
        slot_pool::{self, SlotPool},
        workspace::Workspace,
    },
    regular_file,
};

/// Returns the variables of this process that lead to the checkout, with the values that a process in
/// this slot gets.
fn led_back(workspace: &Workspace, slot: &Path) -> Vec<LedBack> {
    let variables = env::vars_os();
    let texts = variables.filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value)));
    let texts = texts.filter_map(|(name, value)| Some((name, value.to_str()?.to_owned())));
    let checkout: Vec<String> =
        spellings(workspace.root()).iter().map(|root| root.display().to_string()).collect();
    let is_there = |path: &str| Path::new(path).exists();
    let keep = &workspace.config.env_keep;
    environment::in_slot(texts, &checkout, &slot.display().to_string(), keep, is_there)
}

/// Lets the variables of a process in a slot lead to that slot.
pub fn lead_to_slot(workspace: &Workspace, spec: &mut ProcessSpec) {
    let pool = SlotPool::of(workspace);
    let Ok(below) = spec.dir.strip_prefix(pool.folder()) else { return };
    let slot = pool.folder().join(below.components().take(2).collect::<PathBuf>());
    let mut moved: Vec<(String, String)> = compose_project(workspace, &slot).into_iter().collect();
    for LedBack { name, value } in led_back(workspace, &slot) {
        match value {
            Some(value) => moved.push((name, value)),
            None => spec.env_remove.push(name),
        }
    }
    // Variables of this process override.
    moved.append(&mut spec.env);
    spec.env = moved;
}

/// The variable with the Docker Compose project name of a slot; none where the person sets it.
fn compose_project(workspace: &Workspace, slot: &Path) -> Option<(String, String)> {
    const NAME: &str = "COMPOSE_PROJECT_NAME";
    let file = regular_file::read_to_string(&workspace.root().join(".env")).unwrap_or_default();
    if env::var_os(NAME).is_some() || file.lines().any(|line| line.trim().starts_with(NAME)) {
        return None;
    }
    let project = workspace.root().file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{project}-{}", slot_pool::name(slot)).to_lowercase();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = name.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
    Some((NAME.to_owned(), name.trim_start_matches(['-', '_']).to_owned()))
}

/// The path of the checkout as git has it, and as the shell has it where that passes a link.
fn spellings(root: &Path) -> Vec<PathBuf> {
    let mut all = vec![root.to_owned()];
    let shell = env::var_os("PWD").map(PathBuf::from);
    let above = shell.iter().flat_map(|dir| dir.ancestors());
    let is_root = |path: &&Path| *path != root && path.canonicalize().is_ok_and(|it| it == root);
    all.extend(above.filter(is_root).map(Path::to_owned));
    all
}
