//! The contents of commits, and their differences.

use std::io;

use anyhow::{Context, Result, bail};

use super::{
    bounded::CallStreams,
    is_commit, lossy, program,
    reader::{RepoReader, Walk, WalkedCommit},
    submodule,
};
use crate::core::{
    commit_id::CommitId,
    verdict::{Commit, DiffStat},
};

/// [`RepoReader::since`] lists no more commits than this.
pub const LISTED: usize = 200;

/// The position of HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The full id; none on a branch without a commit.
    pub commit: Option<CommitId>,
    /// The branch without `refs/heads/`; none when HEAD is detached.
    pub branch: Option<String>,
}

/// The commits since a base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Oldest first, including those of merged branches: `git rev-list --reverse base..HEAD`, the
    /// newest [`LISTED`] of them.
    pub commits: Vec<Commit>,
    /// The changes from the base to HEAD; a renamed file counts as one removed and one added. None
    /// when there are no commits.
    pub diff: Option<DiffStat>,
    /// Whether HEAD is the base or descends from it. If not, the rest is empty.
    pub descends: bool,
}

/// The text of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The change in the unified format, or its beginning.
    pub text: String,
    /// Whether the end is missing.
    pub is_cut: bool,
}

/// A writer that keeps the beginning.
struct Beginning {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RepoReader {
    /// The commit of a branch; none if there is no such branch.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn branch(&self, name: &str) -> Result<Option<CommitId>> {
        self.commit_of(&format!("refs/heads/{name}"))
    }

    /// The commits since `base`, a full id; none means that there was no commit then.
    ///
    /// HEAD does not descend from a base that is no longer in the repository. If HEAD has not
    /// moved, only HEAD is read.
    pub fn since(&self, base: Option<&str>) -> Result<Since> {
        if let Some(id) = base
            && !is_commit(id)
        {
            bail!("`{id}` is not a commit id");
        }
        let head = self.head()?.commit;
        if head.as_deref() == base {
            return Ok(Since { descends: true, ..Since::default() });
        }
        let Some(head) = head else {
            return Ok(Since::default());
        };
        let list = || -> Result<Since> {
            if let Some(base) = base
                && !self.has_ancestor(&head, base)?
            {
                return Ok(Since::default());
            }
            let mut commits = self.log(&head, base, LISTED)?;
            commits.reverse();
            let empty = || program::empty_tree(&self.root);
            let from = base.map_or_else(empty, |base| Ok(base.to_owned()))?;
            let diff = program::diff_stat(&self.root, &from, &head, None)?;
            Ok(Since { commits, diff: Some(diff), descends: true })
        };
        list().context("cannot list the new commits")
    }

    /// Returns the changes between two commits in all files, or in all but one.
    ///
    /// # Errors
    /// Errors of git.
    pub fn diff(&self, base: &str, head: &str, all_but: Option<&str>) -> Result<DiffStat> {
        if !is_commit(base) || !is_commit(head) {
            bail!("`{base}` or `{head}` is not a commit id");
        }
        program::diff_stat(&self.root, base, head, all_but)
    }

    /// Whether `head` descends from `base`: not if `base` is no longer in the repository.
    pub(super) fn has_ancestor(&self, head: &str, base: &str) -> Result<bool> {
        match self.is_ancestor(base, head) {
            Err(_) if program::commit(&self.root, base)?.is_none() => Ok(false),
            other => other,
        }
    }

    /// The last `count` commits of HEAD, newest first.
    pub fn recent(&self, count: usize) -> Result<Vec<Commit>> {
        let Some(head) = self.head()?.commit else {
            return Ok(Vec::new());
        };
        self.log(&head, None, count).context("cannot list the last commits")
    }

    /// The last `count` commits of `head` without those of `hidden`, newest first.
    fn log(&self, head: &str, hidden: Option<&str>, count: usize) -> Result<Vec<Commit>> {
        let walk = Walk { head, hidden: hidden.as_slice(), most: count };
        let found = self.walk(walk, |_| true)?;
        Ok(found.into_iter().map(|it| Commit { subject: it.subject(), id: it.id }).collect())
    }

    /// The commits of `to` that are not in `from`, oldest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn between(&self, from: &str, to: &str) -> Result<Vec<Commit>> {
        let mut commits = self.log(to, Some(from), LISTED)?;
        commits.reverse();
        Ok(commits)
    }

    /// The newest commit in the history of `head`, and not in that of `hidden`, with a line in its
    /// message; none without one.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn commit_with_line(
        &self,
        head: &str,
        hidden: &str,
        line: &str,
    ) -> Result<Option<CommitId>> {
        let walk = Walk { head, hidden: &[hidden], most: 1 };
        let has_line = |it: &WalkedCommit| it.message.lines().any(|found| found == line);
        let found = self.walk(walk, has_line)?;
        Ok(found.into_iter().next().map(|it| it.id))
    }

    /// The commits in the history of `head`, and not in that of `hidden`, with a line in their
    /// messages that starts with `start`, and the messages; newest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn messages_with(
        &self,
        head: &str,
        hidden: Option<&str>,
        start: &str,
    ) -> Result<Vec<(CommitId, String)>> {
        let walk = Walk { head, hidden: hidden.as_slice(), most: usize::MAX };
        let has_line = |it: &WalkedCommit| it.message.lines().any(|line| line.starts_with(start));
        let found = self.walk(walk, has_line)?;
        Ok(found.into_iter().map(|it| (it.id, it.message)).collect())
    }

    /// Whether a commit has a file or a folder at a path relative to the root.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_at(&self, commit: &str, path: &str) -> Result<bool> {
        Ok(self.entry(commit, path)?.is_some())
    }

    /// The mode and id of a file in a commit.
    pub(super) fn entry(&self, commit: &str, path: &str) -> Result<Option<String>> {
        Ok(self.entries(commit, &[path])?.into_iter().next().flatten())
    }

    /// Whether two commits have the same version of a file, or both lack it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_same_file(&self, one: &str, other: &str, path: &str) -> Result<bool> {
        Ok(self.entry(one, path)? == self.entry(other, path)?)
    }

    /// Whether a commit has text at `path`: none without such a path, false for a blank file, true
    /// for any other file and for a folder.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_text_at(&self, commit: &str, path: &str) -> Result<Option<bool>> {
        let path = path.trim_end_matches('/');
        let Some(entry) = self.entry(commit, path)? else { return Ok(None) };
        // The modes of files and links.
        if !entry.starts_with("10") && !entry.starts_with("12") {
            return Ok(Some(true));
        }
        Ok(self.file_at(commit, path)?.map(|text| !text.trim_ascii().is_empty()))
    }

    /// The files of HEAD with one of these names, in any folder, each with the id of its content.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn files_named(&self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let list = program::run(&self.root, &["ls-tree", "-r", "-z", "HEAD"]);
        let list = lossy(&list.context("cannot list the files of HEAD")?);
        let entry = |line: &str| {
            let (entry, path) = line.split_once('\t')?;
            let name = path.rsplit('/').next()?;
            let id = entry.rsplit(' ').next()?.to_owned();
            names.contains(&name).then(|| (path.to_owned(), id))
        };
        Ok(list.split('\0').filter_map(entry).collect())
    }

    /// The files and folders at the top of HEAD, with their ids.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn top_entries(&self) -> Result<Vec<(String, String)>> {
        let list = lossy(&program::run(&self.root, &["ls-tree", "-z", "HEAD"])?);
        let entry = |line: &str| {
            let (entry, path) = line.split_once('\t')?;
            Some((path.to_owned(), entry.rsplit(' ').next()?.to_owned()))
        };
        Ok(list.split('\0').filter_map(entry).collect())
    }

    /// The paths of all files of a commit, sorted.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn files_at(&self, commit: &str) -> Result<Vec<String>> {
        let list =
            lossy(&program::run(&self.root, &["ls-tree", "-r", "-z", "--name-only", commit])?);
        Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }

    /// The paths that differ between two commits, or that a first commit adds, in no particular
    /// order.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn differing(&self, base: Option<&str>, head: &str) -> Result<Vec<String>> {
        let entries = self
            .changed_entries(base, head)
            .with_context(|| format!("cannot list the changes of commit {head}"))?;
        Ok(entries.into_iter().map(|(path, _)| path).collect())
    }

    /// Returns a repository inside this one that the commits after `base` record as a link, and
    /// that is not a submodule: its commits exist only here.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn nested_repository(&self, base: &str, head: &str) -> Result<Option<String>> {
        /// The mode of a link to a commit (gitformat-index(5)).
        const LINK: u32 = 0o160_000;
        if base == head {
            return Ok(None);
        }
        let entries = self.changed_entries(Some(base), head)?;
        let mut links = entries.into_iter().filter(|(_, [_, mode])| *mode == LINK).peekable();
        if links.peek().is_none() {
            return Ok(None);
        }
        // A file that git cannot read declares none.
        let modules = self.modules_at(head).unwrap_or_default();
        let is_submodule = |path: &str| modules.iter().any(|(_, known)| known == path);
        Ok(links.find(|(path, _)| !is_submodule(path)).map(|(path, _)| path))
    }

    /// The submodules that a commit declares, by name and path.
    pub(super) fn modules_at(&self, commit: &str) -> Result<Vec<(String, String)>> {
        if self.entries(commit, &[".gitmodules"])? == [None] {
            return Ok(Vec::new());
        }
        submodule::read_modules(&self.root, ["--blob", &format!("{commit}:.gitmodules")])
    }

    /// The change of a commit against its first parent, at most `most` bytes of it. No program of
    /// the repository's owner runs: neither external diff programs nor text conversions.
    ///
    /// # Errors
    /// There is no such commit; errors of git.
    pub fn patch(&self, commit: &str, most: usize) -> Result<Patch> {
        let options = ["--no-ext-diff", "--no-textconv", "--no-color", "-M", "--root", "-m"];
        let id = format!("{commit}^{{commit}}");
        beginning(
            &self.root,
            &[&["show", "--format=", "-p"], &options[..], &["--first-parent", &id]].concat(),
            most,
        )
    }

    /// The change from one commit to another, as `patch` has that of one.
    ///
    /// # Errors
    /// There is no such commit; errors of git.
    pub fn patch_between(&self, base: &str, head: &str, most: usize) -> Result<Patch> {
        let options = ["--no-ext-diff", "--no-textconv", "--no-color", "-M"];
        beginning(&self.root, &[&["diff"], &options[..], &[base, head, "--"]].concat(), most)
    }
}

/// The beginning of the output of a command.
fn beginning(root: &std::path::Path, command: &[&str], most: usize) -> Result<Patch> {
    let mut output = Beginning { bytes: Vec::new(), most: most + 1 };
    let streams = CallStreams { input: &mut io::empty(), output: &mut output };
    program::run_streaming(root, command, &[], streams)?;
    let mut bytes = output.bytes;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Ok(Patch { text: lossy(&bytes), is_cut })
}

impl WalkedCommit {
    /// The first paragraph of the message, in one line.
    pub(super) fn subject(&self) -> String {
        let lines = self.message.lines().map(str::trim).skip_while(|line| line.is_empty());
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
