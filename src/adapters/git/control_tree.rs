//! The trees where verify commands run again: a commit with other versions of some files.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};
use git2::{DiffOptions, Patch};

use super::{CommitMaker, Slot, program};
use crate::{core::commit_id::CommitId, regular_file};

/// The marker of running controls in the git directory of a slot.
pub(super) const CONTROLLED: &str = "ralph-controls";
/// Where git notes the moves of HEAD, unless refs are in tables.
const HEAD_LOG: &str = "logs/HEAD";

impl CommitMaker<'_> {
    /// Makes a commit on top of `head` with these texts of the files; without a text, the version
    /// of `base`. No ref names it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn variant<'t>(
        &self,
        head: &str,
        base: &str,
        files: impl Iterator<Item = (&'t str, Option<&'t str>)>,
    ) -> Result<CommitId> {
        let tree = self.with_texts(head, base, files)?;
        self.commit_alone(&tree, head, "A control of ralph\n")
    }

    /// The tree of `head` with these texts of the files; without a text, the version of `base`.
    fn with_texts<'t>(
        &self,
        head: &str,
        base: &str,
        files: impl Iterator<Item = (&'t str, Option<&'t str>)>,
    ) -> Result<String> {
        let (mut paths, mut entries) = (Vec::new(), Vec::new());
        for (path, text) in files {
            let of = |commit: &str| -> Result<Option<String>> {
                Ok(self.entries(commit, &[path])?.pop().flatten())
            };
            let entry = match text {
                None => of(base)?,
                Some(text) => {
                    let old = of(head)?.or(of(base)?);
                    let mode = old.as_deref().and_then(|old| old.split(' ').next());
                    Some(format!("{} {}", mode.unwrap_or("100644"), self.write_blob(text)?))
                }
            };
            paths.push(path);
            entries.push(entry);
        }
        self.with_entries(head, &paths, &entries)
    }

    /// Makes an unsigned commit that no ref names.
    fn commit_alone(&self, tree: &str, parent: &str, message: &str) -> Result<CommitId> {
        let (parents, env) = ([parent], self.identity());
        let new =
            program::NewCommit { tree, parents: &parents, message, env: &env, is_signed: false };
        program::commit_tree(&self.root, &new)
    }
}

/// The moves of HEAD of a slot before controls moved it.
#[derive(Debug)]
pub struct HeadLog(Option<Vec<u8>>);

impl Slot<'_> {
    /// The moves of HEAD until now.
    pub fn head_log(&self) -> HeadLog {
        HeadLog(regular_file::read(&self.git_dir.join(HEAD_LOG)).ok())
    }

    /// Leaves the trees of controls for the commit of the work, and forgets the moves of HEAD to them, so
    /// that no kept ref has them.
    ///
    /// # Errors
    /// The error of `git`; I/O errors.
    pub fn leave_controls(&self, commit: &str, before: &HeadLog) -> Result<()> {
        self.move_to(commit)?;
        let HeadLog(Some(log)) = before else { return Ok(()) };
        fs::write(self.git_dir.join(HEAD_LOG), log).context("restore the log of HEAD of the slot")
    }

    /// Notes that the slot has trees of controls from now on, and nothing that must be kept: if that does
    /// not end, the slot is made again.
    ///
    /// # Errors
    /// I/O errors.
    pub fn begin_controls(&self) -> Result<()> {
        self.must_be_slot()?;
        fs::write(self.git_dir.join(CONTROLLED), "").context("note the controls of the slot")
    }

    /// Notes that the slot is at its own commit again.
    ///
    /// # Errors
    /// I/O errors.
    pub fn end_controls(&self, commit: &str) -> Result<()> {
        self.note(commit)?;
        fs::remove_file(self.git_dir.join(CONTROLLED)).context("note the end of controls")
    }
}

/// The lines of a text that were put between those of an older one: a line that replaces another is
/// none of them.
///
/// # Errors
/// The error of libgit2.
pub fn inserted_lines<'t>(old: &str, new: &'t str) -> Result<Vec<&'t str>> {
    let patch = patch_of(old, new)?;
    let all: Vec<&str> = new.lines().collect();
    let mut lines = Vec::new();
    for number in 0..patch.num_hunks() {
        let (hunk, _) = patch.hunk(number)?;
        let start = (hunk.new_start() as usize).saturating_sub(1);
        let inserted = all.get(start..start + hunk.new_lines() as usize);
        lines.extend(inserted.filter(|_| hunk.old_lines() == 0).unwrap_or_default());
    }
    Ok(lines)
}

/// The differences of two texts, without lines around them.
fn patch_of<'t>(old: &'t str, new: &'t str) -> Result<Patch<'t>> {
    let mut options = DiffOptions::new();
    options.context_lines(0);
    let patch = Patch::from_buffers(old.as_bytes(), None, new.as_bytes(), None, Some(&mut options));
    patch.context("cannot compare two versions of a file")
}

/// The lines of a text that an older one lacks, counted from 0, and those next to a removed line.
///
/// # Errors
/// The error of libgit2.
pub fn changed_lines(old: &str, new: &str) -> Result<BTreeSet<usize>> {
    let patch = patch_of(old, new)?;
    let mut lines = BTreeSet::new();
    for number in 0..patch.num_hunks() {
        let (hunk, _) = patch.hunk(number)?;
        let (start, length) = (hunk.new_start() as usize, hunk.new_lines() as usize);
        // Without new lines, the start is the line before.
        lines.extend(start.saturating_sub(1)..start.saturating_sub(1) + length.max(1));
    }
    Ok(lines)
}
