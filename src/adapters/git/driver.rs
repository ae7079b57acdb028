//! Merge drivers: their configuration, and the merge by lines that git does without one.

use std::path::PathBuf;

use anyhow::{Context, Result};
use git2::{MergeFileInput, MergeFileOptions};

use super::{Repo, lossy, program};

/// A text merged by lines.
#[derive(Clone, Debug)]
pub struct MergedLines {
    /// The text, with conflicts between markers.
    pub text: Vec<u8>,
    /// Whether there are no conflicts.
    pub is_clean: bool,
}

/// Merges three texts by lines, as git does without a driver.
///
/// # Errors
/// The error of libgit2.
pub fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<MergedLines> {
    // This initializes libgit2, which the merge call alone does not do.
    let _set_up = git2::Config::new();
    let input = |content| {
        let mut input = MergeFileInput::new();
        input.content(content);
        input
    };
    let mut options = MergeFileOptions::new();
    options.ancestor_label("base").our_label("ours").their_label("theirs");
    let (base, ours, theirs) = (input(base), input(ours), input(theirs));
    let merged = git2::merge_file(&base, &ours, &theirs, Some(&mut options))
        .context("cannot merge by lines")?;
    Ok(MergedLines { text: merged.content().to_vec(), is_clean: merged.is_automergeable() })
}

impl Repo {
    /// The attributes file of the repository: not committed, shared by its worktrees.
    pub fn attributes(&self) -> PathBuf {
        self.common_dir.join("info/attributes")
    }

    /// Adds a merge driver to the configuration of this repository. Returns whether that changed
    /// anything.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn set_driver(&self, name: &str, about: &str, command: &str) -> Result<bool> {
        let mut is_news = false;
        for (key, value) in [("name", about), ("driver", command)] {
            let key = format!("merge.{name}.{key}");
            let old = program::answer(&self.root, &["config", "--local", "--get", &key])?;
            if old.as_deref() != Some(value) {
                program::run(&self.root, &["config", "--local", "--replace-all", &key, value])?;
                is_news = true;
            }
        }
        Ok(is_news)
    }

    /// Removes a merge driver from the configuration. Returns whether it was there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn unset_driver(&self, name: &str) -> Result<bool> {
        let section = format!("merge.{name}");
        let keys = format!("^merge\\.{name}\\.");
        let known = ["config", "--local", "--name-only", "--get-regexp", &keys];
        if program::answer(&self.root, &known)?.is_none() {
            return Ok(false);
        }
        program::run(&self.root, &["config", "--local", "--remove-section", &section])?;
        Ok(true)
    }

    /// The merge driver of a path: `unspecified` if no attribute sets it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn merged_with(&self, path: &str) -> Result<String> {
        let answer = program::run(&self.root, &["check-attr", "-z", "merge", "--", path])?;
        Ok(lossy(answer.split(|byte| *byte == 0).nth(2).unwrap_or_default()))
    }
}
