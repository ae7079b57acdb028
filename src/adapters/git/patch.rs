//! What a commit changed, as text for people.

use anyhow::Result;
use git2::{Diff, DiffFindOptions, DiffFormat, DiffOptions, FileMode, Oid, Repository, Tree};

use super::{Repo, lossy, program};
use crate::core::verdict::DiffStat;

/// The text of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The change in the unified format, or its beginning.
    pub text: String,
    /// Whether the end is missing.
    pub is_cut: bool,
}

impl Repo {
    /// What changed from one commit to another, a renamed file counted as one removed and one added.
    /// None if the change is large, or is not of plain files only.
    pub(super) fn small_diff_stat(&self, from: Option<&str>, to: &str) -> Option<DiffStat> {
        const FILES: usize = 200;
        const BYTES: usize = 1 << 20;
        let repo = self.backend.library()?;
        let tree = |id| repo.find_commit(Oid::from_str(id).ok()?).ok()?.tree().ok();
        let from = from.map(|from| tree(from).ok_or(())).transpose().ok()?;
        let diff = trees_diff(&repo, from.as_ref(), &tree(to)?).ok()?;
        let paths = diff.deltas().map(|delta| delta.new_file().path_bytes().unwrap_or_default());
        if diff.deltas().len() > FILES || !self.has_no_attributes(paths) {
            return None;
        }
        let odb = repo.odb().ok()?;
        let (mut stat, mut bytes) = (DiffStat::default(), 0);
        for delta in diff.deltas() {
            let mut contents = Vec::new();
            for file in [delta.old_file(), delta.new_file()] {
                if !file.exists() {
                    contents.push(Vec::new());
                    continue;
                }
                if !matches!(file.mode(), FileMode::Blob | FileMode::BlobExecutable) {
                    return None;
                }
                bytes += odb.read_header(file.id()).ok()?.0;
                if bytes > BYTES {
                    return None;
                }
                contents.push(repo.find_blob(file.id()).ok()?.content().to_vec());
            }
            // Without names, no attributes are looked for.
            let patch =
                git2::Patch::from_buffers(&contents[0], None, &contents[1], None, None).ok()?;
            let (_, added, removed) = patch.line_stats().ok()?;
            stat.files += 1;
            stat.insertions += added;
            stat.deletions += removed;
        }
        Some(stat)
    }

    /// The change of a commit against its first parent, at most `most` bytes of it. No program of
    /// the repository's owner runs: neither external diff programs nor text conversions.
    ///
    /// # Errors
    /// There is no such commit; errors of git.
    pub fn patch(&self, commit: &str, most: usize) -> Result<Patch> {
        let library = |repo: &git2::Repository| {
            let commit = repo.revparse_single(commit)?.peel_to_commit()?;
            let parent = commit.parent(0).ok().map(|parent| parent.tree()).transpose()?;
            let mut diff = trees_diff(repo, parent.as_ref(), &commit.tree()?)?;
            diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
            let mut bytes = Vec::new();
            diff.print(DiffFormat::Patch, |_, _, line| {
                // The rest is skipped: stopping here would be an error of the whole call.
                if bytes.len() <= most {
                    if matches!(line.origin(), '+' | '-' | ' ') {
                        bytes.push(line.origin() as u8);
                    }
                    bytes.extend_from_slice(line.content());
                }
                true
            })?;
            Ok(bytes)
        };
        let program = |root: &std::path::Path| {
            let options = ["--no-ext-diff", "--no-textconv", "--no-color", "-M", "--root", "-m"];
            let id = format!("{commit}^{{commit}}");
            let arguments = [&["show", "--format=", "-p"], &options[..], &["--first-parent", &id]];
            program::run(root, &arguments.concat())
        };
        let mut bytes = self.backend.ask(library, program)?;
        let is_cut = bytes.len() > most;
        bytes.truncate(most);
        Ok(Patch { text: lossy(&bytes), is_cut })
    }
}

/// What differs between two trees. A file that becomes a link is one entry.
pub(super) fn trees_diff<'a>(
    repo: &'a Repository,
    base: Option<&Tree<'a>>,
    head: &Tree<'a>,
) -> Result<Diff<'a>, git2::Error> {
    let mut options = DiffOptions::new();
    options.include_typechange(true);
    repo.diff_tree_to_tree(base, Some(head), Some(&mut options))
}
