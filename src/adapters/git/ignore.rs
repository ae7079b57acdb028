//! The ignore rules of git, and the patterns that `ralph` adds.

use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Repo, lossy, program};
use crate::regular_file;

impl Repo {
    /// Whether the ignore rules match `path`, relative to the root; a directory that does not exist
    /// yet ends in a slash. Tracked paths are not treated differently.
    pub fn is_ignored(&self, path: &str) -> Result<bool> {
        program::test(&self.root, &["check-ignore", "--no-index", "-q", "--", path])
            .with_context(|| format!("cannot check whether `{path}` is ignored"))
    }

    /// Adds this path, relative to the root, to the repository's exclude file.
    pub fn exclude_path(&self, path: &str) -> Result<()> {
        let mut pattern = String::from("/");
        for c in path.chars() {
            if "*?[\\".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        // Git ignores blanks at the end.
        if pattern.ends_with(' ') {
            pattern.insert(pattern.len() - 1, '\\');
        }
        self.exclude(&[&pattern])
    }

    /// Adds the missing `patterns` to the repository's exclude file, which is not committed and is
    /// shared by all its worktrees. Existing lines are kept as they are.
    pub fn exclude(&self, patterns: &[&str]) -> Result<()> {
        let file = self.common_dir.join("info/exclude");
        let failed = || format!("cannot add to `{}`", file.display());
        let text = match regular_file::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.with_context(failed)?,
        };
        let mut has: Vec<&[u8]> = text
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        let mut added = String::new();
        for pattern in patterns {
            if !has.contains(&pattern.as_bytes()) {
                has.push(pattern.as_bytes());
                added.push_str(pattern);
                added.push('\n');
            }
        }
        if added.is_empty() {
            return Ok(());
        }
        if text.last().is_some_and(|byte| *byte != b'\n') {
            added.insert(0, '\n');
        }
        fs::create_dir_all(self.common_dir.join("info")).with_context(failed)?;
        let mut open = OpenOptions::new();
        open.create(true).append(true);
        regular_file::open_with(&file, &mut open)
            .and_then(|mut opened| opened.write_all(added.as_bytes()))
            .with_context(failed)
    }

    /// The files that git ignores and that also match the patterns in the file `list`, relative to
    /// the root.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn ignored_by(&self, list: &Path) -> Result<Vec<PathBuf>> {
        let others = ["ls-files", "-z", "--others", "--ignored"];
        let named = program::run(
            &self.root,
            &[&others[..], &[&format!("--exclude-from={}", list.display())]].concat(),
        )?;
        let ignored = program::run(&self.root, &[&others[..], &["--exclude-standard"]].concat())?;
        let ignored: HashSet<&[u8]> = ignored.split(|byte| *byte == 0).collect();
        let both = named.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(both.filter(|path| ignored.contains(path)).map(|path| lossy(path).into()).collect())
    }
}
