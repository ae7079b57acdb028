//! The attributes (gitattributes(5)) with which work is merged.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{
    adapters::git::{KEEPS_ADDED, REGENERATES},
    core::loop_paths,
    project::workspace::Workspace,
    regular_file,
};

/// Files that a tool writes, where the lines of two sides make no sense together.
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

/// Files that a tool makes again from others, and the command that does it. Each changes as little as
/// the tool can, and without a network where the tool can do without.
pub const REGENERATED: &[(&str, &str)] = &[
    ("Cargo.lock", "cargo update --workspace --offline"),
    (
        "package-lock.json",
        "npm install --package-lock-only --offline --ignore-scripts --no-audit --no-fund",
    ),
    (
        "pnpm-lock.yaml",
        "pnpm install --lockfile-only --offline --ignore-scripts --no-frozen-lockfile",
    ),
    ("poetry.lock", "poetry lock --no-interaction"),
    ("uv.lock", "uv lock --offline"),
    ("yarn.lock", "yarn install --mode=update-lockfile"),
];

/// Files whose lines are independent, so that those of both sides are always right.
const UNITED: &[&str] = &["go.sum", "CHANGELOG.md"];

/// How work is merged.
pub struct MergeAttributes {
    /// The attributes file.
    pub file: PathBuf,
    /// The same file without files that are made again.
    pub plain: PathBuf,
}

/// Returns the attributes that say how git merges files that several agents write. The lines that both
/// added to any other file are kept, and files are made again, only if commands verify the result.
///
/// # Errors
/// I/O errors.
pub fn attributes(workspace: &Workspace) -> Result<MergeAttributes> {
    let config = &workspace.config;
    let is_verified = !config.verify.0.is_empty();
    let any = is_verified.then(|| format!("* {KEEPS_ADDED}\n"));
    let again = REGENERATED.iter().enumerate().filter(|_| is_verified);
    let again: Vec<String> =
        again.map(|(at, (path, _))| format!("{path} {REGENERATES}={at}\n")).collect();
    let again = again.concat();
    let locks = LOCK_FILES.iter().map(|path| format!("{path} -{KEEPS_ADDED}\n"));
    let union = UNITED.iter().copied().chain([loop_paths::LEARNINGS]);
    let tail: Vec<String> = union.map(|path| format!("{path} merge=union\n")).collect();
    let tail = tail.concat();
    let head: String = any.into_iter().chain(locks).collect();
    let write = |name: &str, lines: &str| -> Result<PathBuf> {
        let path = workspace.state.dir().join(name);
        if regular_file::read_to_string(&path).ok().as_deref() != Some(lines) {
            fs::write(&path, lines).with_context(|| format!("write `{}`", path.display()))?;
        }
        Ok(path)
    };
    Ok(MergeAttributes {
        file: write("attributes", &format!("{head}{again}{tail}"))?,
        plain: write("attributes-plain", &format!("{head}{tail}"))?,
    })
}
