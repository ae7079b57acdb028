//! The attributes (gitattributes(5)) with which work is merged.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{adapters::git::KEEPS_ADDED, project::workspace::Workspace, regular_file};

/// Files that a tool writes, in which the lines of two sides make no sense together.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Returns the attributes file that says how git merges files that several agents write. The lines
/// that both added to any other file are kept only if commands verify the result.
///
/// # Errors
/// I/O errors.
pub fn attributes(workspace: &Workspace) -> Result<PathBuf> {
    let config = &workspace.config;
    let is_verified = !config.verify.0.is_empty();
    let any = is_verified.then(|| format!("* {KEEPS_ADDED}\n"));
    let strict = LOCK_FILES.iter().copied().chain(config.merge_strict.0.iter().map(String::as_str));
    let strict = strict.map(|path| format!("{path} -{KEEPS_ADDED}\n"));
    let union = config.merge_union.0.iter().map(String::as_str);
    let union = union.chain([config.learnings.as_str()]);
    let union = union.map(|path| format!("{path} merge=union\n"));
    let lines: String = any.into_iter().chain(strict).chain(union).collect();
    let path = workspace.state.dir().join("attributes");
    if regular_file::read_to_string(&path).ok().as_ref() != Some(&lines) {
        fs::write(&path, lines).with_context(|| format!("write `{}`", path.display()))?;
    }
    Ok(path)
}
