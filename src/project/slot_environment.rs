//! The environment of processes in a slot: no variable leads back to the checkout.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    adapters::process::ProcessSpec,
    core::environment::{self, LedBack},
    project::{slot_pool::SlotPool, workspace::Workspace},
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
    let Some(name) = below.components().next() else { return };
    let slot = pool.folder().join(name);
    let mut moved = Vec::new();
    for LedBack { name, value } in led_back(workspace, &slot) {
        match value {
            Some(value) => moved.push((name, value)),
            None => spec.env_remove.push(name),
        }
    }
    // What is set for this process counts more.
    moved.append(&mut spec.env);
    spec.env = moved;
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
