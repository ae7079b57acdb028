//! What a commit changed: as text for people, and compared with another change.

use std::collections::BTreeMap;

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

    /// Whether two changes, each from one commit to another, do the same to the same files. False where
    /// that cannot be told.
    pub fn is_same_change(&self, one: [&str; 2], other: [&str; 2]) -> bool {
        let same = |repo: &Repository| {
            let (one, other) = (changed_files(repo, one)?, changed_files(repo, other)?);
            let mut pairs = one.iter().zip(&other);
            let are_same = one.len() == other.len()
                && pairs.all(|((path, one), (other_path, other))| {
                    path == other_path && (one == other || does_same(repo, one, other))
                });
            are_same.then_some(())
        };
        self.backend.library().is_some_and(|repo| same(&repo).is_some())
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

/// A file before and after a change.
type FileChange = [(Oid, FileMode); 2];

/// The files that differ between two commits.
fn changed_files(
    repo: &Repository,
    [from, to]: [&str; 2],
) -> Option<BTreeMap<Vec<u8>, FileChange>> {
    let tree = |id| repo.find_commit(Oid::from_str(id).ok()?).ok()?.tree().ok();
    let diff = trees_diff(repo, Some(&tree(from)?), &tree(to)?).ok()?;
    let changes = diff.deltas().map(|delta| {
        let path = delta.new_file().path_bytes()?.to_vec();
        Some((path, [delta.old_file(), delta.new_file()].map(|file| (file.id(), file.mode()))))
    });
    changes.collect()
}

/// Whether two changes of a file with different contents remove and add the same lines.
fn does_same(repo: &Repository, one: &FileChange, other: &FileChange) -> bool {
    /// Larger files are not compared.
    const BYTES: usize = 1 << 20;
    let lines = |change: &FileChange| {
        let content = |(id, mode): &(Oid, FileMode)| {
            if id.is_zero() {
                return Some(Vec::new());
            }
            let is_file = matches!(mode, FileMode::Blob | FileMode::BlobExecutable);
            let is_small = repo.odb().ok()?.read_header(*id).ok()?.0 <= BYTES;
            (is_file && is_small).then(|| Some(repo.find_blob(*id).ok()?.content().to_vec()))?
        };
        let [before, after] = [content(&change[0])?, content(&change[1])?];
        let patch = git2::Patch::from_buffers(&before, None, &after, None, None).ok()?;
        if patch.delta().flags().is_binary() {
            return None;
        }
        let mut lines = Vec::new();
        for hunk in 0..patch.num_hunks() {
            for line in 0..patch.num_lines_in_hunk(hunk).ok()? {
                let line = patch.line_in_hunk(hunk, line).ok()?;
                if matches!(line.origin(), '+' | '-') {
                    lines.push((line.origin(), line.content().to_vec()));
                }
            }
        }
        (!lines.is_empty()).then_some(lines)
    };
    let modes = |change: &FileChange| change.map(|(_, mode)| mode);
    modes(one) == modes(other) && lines(one).is_some_and(|its| Some(its) == lines(other))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::TestRepository;

    #[test]
    fn a_change_that_is_replayed_is_the_same_and_another_one_is_not() {
        let place = TestRepository::new();
        let lines = |more: [&str; 2]| format!("{}\n1\n2\n3\n4\n5\n6\n{}\n", more[0], more[1]);
        let base = place.commit("many", &lines(["a", "b"]), "Base");
        place.write("new", "1\n");
        place.git(&["add", "new"]);
        let work = place.commit("many", &lines(["a", "work"]), "Work");
        place.git(&["checkout", "-q", "--detach", &base]);
        let onto = place.commit("many", &lines(["other", "b"]), "Other");
        place.git(&["cherry-pick", &work]);
        let landed = place.git(&["rev-parse", "HEAD"]);
        let is_same = |landed: &str| {
            let repo = Repo::discover(&place.top).unwrap();
            repo.is_same_change([&base, &work], [&onto, landed])
        };
        assert!(is_same(&landed));
        // One file more, one less, another line, another mode.
        assert!(!is_same(&place.commit("more", "1\n", "More")));
        place.git(&["reset", "-q", "--hard", &landed]);
        place.git(&["rm", "-q", "new"]);
        assert!(!is_same(&place.commit("many", &lines(["other", "work"]), "Less")));
        place.git(&["reset", "-q", "--hard", &landed]);
        assert!(!is_same(&place.commit("many", &lines(["other", "merged"]), "Merged")));
        place.git(&["reset", "-q", "--hard", &landed]);
        place.git(&["update-index", "--chmod=+x", "many"]);
        place.git(&["commit", "-qm", "Mode"]);
        assert!(!is_same(&place.git(&["rev-parse", "HEAD"])));
    }

    #[test]
    fn binary_files_are_the_same_only_as_a_whole() {
        let place = TestRepository::new();
        let base = place.commit("image", "\0one", "Base");
        let work = place.commit("image", "\0two", "Work");
        place.git(&["checkout", "-q", "--detach", &base]);
        let onto = place.commit("image", "\0other", "Other");
        let landed = place.commit("image", "\0both", "Landed");
        let repo = Repo::discover(&place.top).unwrap();
        assert!(!repo.is_same_change([&base, &work], [&onto, &landed]));
        assert!(repo.is_same_change([&base, &work], [&base, &work]));
    }
}
