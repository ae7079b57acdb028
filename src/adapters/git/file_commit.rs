//! Commits that change one file, made without a checkout: no index, file or branch is touched.

use std::ffi::OsStr;

use anyhow::{Context, Result};

use super::{Repo, lossy, pin::IDENTITY, program};
use crate::{core::commit_id::CommitId, crash};

impl Repo {
    /// Makes a commit on top of `parent` in which the file `path` has this content. The file exists
    /// in `parent`. No hook is run.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn commit_file(
        &self,
        parent: &str,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<CommitId> {
        let commit = || -> Result<CommitId> {
            let blob = self.write_blob(content)?;
            let entry = self.entry(parent, path)?.context("the file is not there")?;
            let mode = entry.split(' ').next().unwrap_or_default();
            let tree = self.with_entries(parent, &[path], &vec![Some(format!("{mode} {blob}"))])?;
            self.commit_tree(parent, &tree, message)
        };
        commit().with_context(|| format!("cannot commit `{path}`"))
    }

    /// Commits this content of the file `path` on top of HEAD, and moves HEAD's branch. The file in
    /// the worktree stays as it is. Returns none, and does nothing, if the index has another
    /// version of the file than HEAD: a person has staged it.
    ///
    /// # Errors
    /// The error of `git`, for example when HEAD moves at that moment.
    pub fn commit_file_on_head(
        &self,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<Option<CommitId>> {
        let _alone = self.alone();
        let head = self.head()?.commit.context("HEAD is at no commit")?;
        if !self.finish_file_commit(path)? {
            return Ok(None);
        }
        let commit = self.commit_file(&head, path, content, message)?;
        self.move_head(&head, &commit, "ralph: complete")?;
        crash::point("file.committed");
        let entry = self.entry(&commit, path)?.unwrap_or_default();
        self.stage(&entry, path)?;
        Ok(Some(commit))
    }

    /// Makes a commit of a tree on top of `parent`, signed if the repository signs commits.
    fn commit_tree(&self, parent: &str, tree: &str, message: &str) -> Result<CommitId> {
        let mut arguments = vec!["-c", "i18n.commitEncoding=UTF-8", "commit-tree"];
        if self.signs_commits()? {
            arguments.push("-S");
        }
        arguments.extend(["-p", parent, tree]);
        let identity = self.identity();
        let commit =
            program::run_with_input(&self.root, &arguments, &identity, message.as_bytes())?;
        Ok(CommitId::from(lossy(&commit).trim()))
    }

    /// Commits these files on top of HEAD as they are in the commit `from`, which may not have some
    /// of them, and moves HEAD's branch. The index follows; the files in the worktree stay as they
    /// are.
    ///
    /// # Errors
    /// The error of `git`, for example when HEAD moves at that moment.
    pub fn restore_on_head(&self, from: &str, paths: &[&str], message: &str) -> Result<CommitId> {
        let _alone = self.alone();
        let head = self.head()?.commit.context("HEAD is at no commit")?;
        let entries = self.entries(from, paths)?;
        let tree = self.with_entries(&head, paths, &entries)?;
        let commit = self.commit_tree(&head, &tree, message)?;
        self.move_head(&head, &commit, "ralph: restore")?;
        for (path, entry) in paths.iter().zip(&entries) {
            let info = entry.as_ref().map(|entry| format!("{},{path}", entry.replace(' ', ",")));
            let update: &[&str] = match &info {
                Some(info) => &["update-index", "--add", "--cacheinfo", info],
                None => &["update-index", "--force-remove", "--", path],
            };
            program::run(&self.root, update)?;
        }
        Ok(commit)
    }

    /// Moves HEAD's branch, or HEAD itself if it is on none, from the commit `old` to another.
    fn move_head(&self, old: &str, new: &str, why: &str) -> Result<()> {
        program::run(&self.root, &["update-ref", "-m", why, "HEAD", new, old]).map(drop)
    }

    /// Whether two commits have the same version of a file, or both lack it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn has_same_file(&self, one: &str, other: &str, path: &str) -> Result<bool> {
        Ok(self.entry(one, path)? == self.entry(other, path)?)
    }

    /// Updates the index if a process was killed between the two last steps of
    /// [`Repo::commit_file_on_head`]: the next commit would undo the last one. Returns whether the
    /// index has the version of HEAD.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn finish_file_commit(&self, path: &str) -> Result<bool> {
        let commit = |name| self.commit_of(name)?.context("no such commit");
        let now = self.entry(&commit("HEAD")?, path)?;
        if self.index_entry(path)? == now {
            return Ok(true);
        }
        let changed = ["diff-tree", "--name-only", "--no-commit-id", "-r", "-z", "HEAD"];
        if lossy(&program::run(&self.root, &changed)?) != format!("{path}\0") {
            return Ok(false);
        }
        let staged = lossy(&program::run(&self.root, &["ls-files", "--stage", "--", path])?);
        let was = self.entry(&commit("HEAD^")?, path)?;
        match (was, now) {
            (Some(was), Some(now)) if staged.starts_with(&format!("{was} 0\t")) => {
                self.stage(&now, path)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The variables for the identity of the committer: none if git knows one, else `ralph`.
    pub(super) fn identity(&self) -> Vec<(&'static str, &'static OsStr)> {
        if self.check_committer().is_ok() {
            return Vec::new();
        }
        IDENTITY.map(|(name, value)| (name, OsStr::new(value))).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use crate::adapters::git::tests::{TestSlots, without_library};

    #[test]
    fn one_file_is_committed_without_a_checkout() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let base = trees.place.commit("deep/graph", "1\n", "Graph");
            let main = trees.main();
            trees.place.write("a", "mine\n");
            let status = trees.place.git(&["status", "--porcelain"]);
            for repo in [&main, &without_library(&main)] {
                let commit =
                    repo.commit_file(&base, "deep/graph", "2\n", "Done\n\nX: y\n").unwrap();
                let git = |arguments: &[&str]| trees.place.git(arguments);
                assert_eq!(git(&["show", &format!("{commit}:deep/graph")]), "2");
                assert_eq!(git(&["diff", "--name-only", &base, &commit]), "deep/graph");
                assert_eq!(git(&["log", "-1", "--format=%s %P", &commit]), format!("Done {base}"));
                assert_eq!(git(&["log", "-1", "--format=%(trailers)", &commit]), "X: y");
                assert_eq!(git(&["status", "--porcelain"]), status);
            }
            main.commit_file_on_head("deep/graph", "2\n", "Done").unwrap().unwrap();
            assert!(main.move_head(&base, &base, "moved").is_err(), "HEAD is not there");
            let log = ["reflog", "-2", "--format=%gs"];
            let (head, branch) =
                (trees.place.git(&log), trees.place.git(&[&log[..], &["main"]].concat()));
            assert!(head.starts_with("ralph: complete\n") && branch == head, "{head} {branch}");
            trees.place.write("deep/graph", "2\n");
            assert_eq!(trees.place.git(&["status", "--porcelain"]), status);
            // Killed before it updated the index.
            trees.place.git(&["reset", "-q", "HEAD^", "--", "deep/graph"]);
            assert!(main.finish_file_commit("deep/graph").unwrap());
            assert_eq!(trees.place.git(&["status", "--porcelain"]), status);
            trees.place.write("deep/graph", "3\n");
            trees.place.git(&["add", "deep/graph"]);
            assert_eq!(main.commit_file_on_head("deep/graph", "4\n", "Done").unwrap(), None);
            assert!(!main.finish_file_commit("deep/graph").unwrap());
        }
    }
}
