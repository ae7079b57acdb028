//! One file of a checkout: its version in the index, and in the worktree as git writes it.

use anyhow::{Context, Result};

use super::{Repo, lossy, program};

impl Repo {
    /// Returns the text of a file in the index; none if it is the version of the commit, or not in
    /// the index at all.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn staged_text(&self, commit: &str, path: &str) -> Result<Option<String>> {
        let staged = self.index_entry(path).context("cannot read the index")?;
        let Some(staged) = staged else { return Ok(None) };
        if self.entry(commit, path)?.as_ref() == Some(&staged) {
            return Ok(None);
        }
        let id = staged.rsplit(' ').next().unwrap_or_default();
        let text = program::run(&self.root, &["cat-file", "blob", id])?;
        Ok(Some(lossy(&text)))
    }

    /// Stages a text as the version of a file; the file itself stays as it is.
    ///
    /// # Errors
    /// The error of `git`, for example when another process holds the index.
    pub fn stage_text(&self, path: &str, text: &str) -> Result<()> {
        let blob = self.write_blob(text)?;
        let entry = self.index_entry(path)?.context("the file is not in the index")?;
        let mode = entry.split(' ').next().unwrap_or_default();
        self.stage(&format!("{mode} {blob}"), path)
    }

    /// Gives a file the version of a commit, in the index and in the worktree, with the line ends
    /// and filters that the repository has for it.
    ///
    /// # Errors
    /// The error of `git`, for example when another process holds the index.
    pub fn reset_file(&self, commit: &str, path: &str) -> Result<()> {
        let entry = self.entry(commit, path)?.context("the file is not in the commit")?;
        self.stage(&entry, path)?;
        let check_out = ["checkout-index", "--force", "--index", "--", path];
        program::run(&self.root, &check_out).map(drop)
    }

    /// Whether git sees no difference between a file and its version in the index.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn is_as_staged(&self, path: &str) -> Result<bool> {
        // `diff-files` would find a difference in a file that has only been written again.
        let refreshing = ["-c", "diff.autoRefreshIndex=true", "diff", "--quiet", "--no-ext-diff"];
        program::test(&self.root, &[&refreshing[..], &["--", path]].concat())
    }

    /// The mode and id of a file in the index; none if the index does not have it, or has it in
    /// conflict.
    pub(super) fn index_entry(&self, path: &str) -> Result<Option<String>> {
        let path = format!(":(top,literal){path}");
        let list = program::run(&self.root, &["ls-files", "--stage", "-z", "--", &path])?;
        let list = lossy(&list);
        let entry = list.split('\0').find_map(|line| line.split_once(" 0\t"));
        Ok(entry.map(|(entry, _)| entry.to_owned()))
    }

    /// Writes a text as an object, and returns its id.
    pub(super) fn write_blob(&self, text: &str) -> Result<String> {
        let blob = ["hash-object", "-w", "--stdin"];
        let id = program::run_with_input(&self.root, &blob, &[], text.as_bytes())?;
        Ok(lossy(&id).trim().to_owned())
    }

    /// The mode and id of a file in a commit.
    pub(super) fn entry(&self, commit: &str, path: &str) -> Result<Option<String>> {
        Ok(self.entries(commit, &[path])?.into_iter().next().flatten())
    }

    /// Stages an entry, its mode and id, as the version of a file.
    pub(super) fn stage(&self, entry: &str, path: &str) -> Result<()> {
        let info = format!("{},{path}", entry.replace(' ', ","));
        program::run(&self.root, &["update-index", "--cacheinfo", &info]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::adapters::git::tests::{TestSlots, without_library};

    #[test]
    fn a_staged_version_is_read_and_replaced() {
        for options in [&[][..], &["--object-format=sha256"], &["--ref-format=reftable"]] {
            let Some(trees) = TestSlots::with(options) else { continue };
            let base = trees.place.commit("deep/graph", "1\n", "Graph");
            let main = trees.main();
            for repo in [&main, &without_library(&main)] {
                let staged = || repo.staged_text(&base, "deep/graph").unwrap();
                assert_eq!(staged(), None);
                repo.stage_text("deep/graph", "2\n").unwrap();
                assert_eq!(staged().as_deref(), Some("2\n"));
                assert!(!repo.is_as_staged("deep/graph").unwrap());
                assert_eq!(trees.place.git(&["show", ":deep/graph"]), "2");
                repo.reset_file(&base, "deep/graph").unwrap();
                assert_eq!(staged(), None);
                assert!(repo.is_as_staged("deep/graph").unwrap());
                trees.place.write("deep/graph", "other\n");
                assert!(!repo.is_as_staged("deep/graph").unwrap());
                trees.place.write("deep/graph", "1\n");
                assert!(repo.is_as_staged("deep/graph").unwrap());
                assert_eq!(trees.place.git(&["status", "--porcelain"]), "");
                assert_eq!(repo.staged_text(&base, "none").unwrap(), None);
            }
        }
    }

    #[test]
    fn a_file_is_written_as_git_writes_it() {
        let trees = TestSlots::new();
        trees.place.write(".gitattributes", "g text eol=crlf\n");
        trees.place.git(&["add", ".gitattributes"]);
        let base = trees.place.commit("g", "1\n2\n", "Graph");
        let main = trees.main();
        trees.place.write("g", "mine\n");
        main.reset_file(&base, "g").unwrap();
        assert_eq!(fs::read_to_string(main.root().join("g")).unwrap(), "1\r\n2\r\n");
        assert_eq!(trees.place.git(&["status", "--porcelain"]), "");
    }
}
