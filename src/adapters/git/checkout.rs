//! Checks out another commit without a process, where git would only replace some plain files.

use git2::{Config, FileMode, Oid, Repository, build::CheckoutBuilder};

use super::{Repo, backend::has_filter, patch::trees_diff};

/// The largest number of files that are written by the thread of the caller.
const FILES: usize = 1_000;

/// The largest number of bytes in them.
const BYTES: usize = 16 << 20;

/// Whether git would write the files of a commit as they are, on a file system like that of Linux.
fn writes_plainly(config: &Config) -> bool {
    let is = |name: &str, value: bool| config.get_bool(name).is_ok_and(|found| found == value);
    let is_set = |name: &str| config.get_entry(name).is_ok();
    let converts = is_set("core.autocrlf") && !is("core.autocrlf", false)
        || is_set("core.eol") && !config.get_string("core.eol").is_ok_and(|end| end == "lf");
    let differs = is("core.symlinks", false) || is("core.fileMode", false);
    let has_filter = has_filter(config, r"^filter\..*\.(clean|smudge|process)$");
    let is_partial = is("core.sparseCheckout", true) || is("core.ignoreCase", true);
    !converts && !differs && !is_partial && has_filter.is_ok_and(|any| !any)
}

impl Repo {
    /// Checks out a commit with HEAD on no branch, as `git checkout --detach` does. Returns false if
    /// that is left to the program: then no file has changed, unless the disk failed.
    pub(super) fn check_out(&self, commit: &str) -> bool {
        let Some(repo) = self.backend.library() else { return false };
        let detach = || repo.set_head_detached(Oid::from_str(commit)?);
        self.check_out_files(commit) && detach().is_ok()
    }

    /// Does the same and leaves HEAD, which the caller must write.
    pub(super) fn check_out_files(&self, commit: &str) -> bool {
        let library = self.backend.library();
        library.is_some_and(|repo| self.write_files(&repo, commit).is_some())
    }

    /// Writes the files of a commit that differ from HEAD, and the index; none if git might not write
    /// them as they are. Only for slots, in which no person works: libgit2 looks at less than git
    /// does before it replaces or removes a file.
    fn write_files(&self, repo: &Repository, commit: &str) -> Option<()> {
        let target = repo.find_commit(Oid::from_str(commit).ok()?).ok()?;
        let paths = plain_changes(repo, &target.tree().ok()?)?;
        let is_plain = writes_plainly(&self.backend.config()?)
            && self.has_no_attributes(paths.iter().map(Vec::as_slice))
            && !paths.iter().any(|path| self.is_behind_link(path));
        if !is_plain {
            return None;
        }
        if paths.is_empty() {
            return Some(());
        }
        let mut how = CheckoutBuilder::new();
        how.safe().disable_pathspec_match(true);
        for path in paths {
            how.path(path);
        }
        repo.checkout_tree(target.as_object(), Some(&mut how)).ok()
    }
}

/// The files that differ between HEAD and a tree. None if there are too many, if one is not a
/// plain file or a link, if one has a meaning for git, or if the index has another version.
fn plain_changes(repo: &Repository, tree: &git2::Tree<'_>) -> Option<Vec<Vec<u8>>> {
    let head = repo.head().ok()?.peel_to_tree().ok()?;
    let diff = trees_diff(repo, Some(&head), tree).ok()?;
    if diff.deltas().len() > FILES {
        return None;
    }
    let mut index = repo.index().ok()?;
    // The program may have written it since something else was asked of it.
    index.read(true).ok()?;
    if index.has_conflicts() {
        return None;
    }
    let odb = repo.odb().ok()?;
    let (mut paths, mut bytes) = (Vec::new(), 0);
    for delta in diff.deltas() {
        let (old, new) = (delta.old_file(), delta.new_file());
        let path = new.path_bytes()?;
        let is_plain = [&old, &new].iter().all(|file| {
            let plain = [FileMode::Blob, FileMode::BlobExecutable, FileMode::Link];
            !file.exists() || plain.contains(&file.mode())
        });
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        if !is_plain || name.starts_with(b".git") && name != b".gitignore" {
            return None;
        }
        let staged = index.get_path(new.path()?, 0).map(|entry| (entry.id, entry.mode));
        let before = old.exists().then(|| (old.id(), u32::from(old.mode())));
        if staged != before {
            return None;
        }
        if new.exists() {
            bytes += odb.read_header(new.id()).ok()?.0;
        }
        paths.push(path.to_owned());
    }
    (bytes <= BYTES).then_some(paths)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::adapters::git::tests::{TestSlots, on};

    /// A repository with two commits, and a slot at the first of them.
    fn two() -> (TestSlots, Repo, String) {
        let trees = TestSlots::new();
        trees.place.write("gone/deep", "1\n");
        trees.place.write("kept", "1\n");
        let first = trees.place.commit("a", "1\n", "Files");
        fs::remove_dir_all(trees.place.top.join("gone")).unwrap();
        symlink("a", trees.place.top.join("link")).unwrap();
        trees.place.write("new/deep/file", "2\n");
        let second = trees.place.commit("a", "22\n", "Changed");
        let main = trees.main();
        let slot = main.make_slot(&trees.path("1"), &main.slot_settings().unwrap(), &first);
        let slot = slot.unwrap();
        (trees, slot, second.to_string())
    }

    #[test]
    fn a_commit_is_checked_out_as_git_does_it() {
        let (trees, slot, second) = two();
        let first = slot.head().unwrap().commit.unwrap();
        fs::write(slot.root().join("untracked"), "").unwrap();
        for (commit, is_there) in [(&*second, true), (&first, false), (&second, true)] {
            assert!(slot.check_out(commit));
            let head = slot.head().unwrap();
            assert_eq!((head.commit, head.branch), on(commit, None));
            assert_eq!(trees.git(&slot, &["status", "--porcelain"]), "?? untracked");
            assert_eq!(trees.git(&slot, &["diff", "--cached", "--name-only"]), "");
            assert_eq!(slot.root().join("new/deep/file").exists(), is_there);
            assert_eq!(slot.root().join("gone").exists(), !is_there);
        }
        assert_eq!(fs::read_link(slot.root().join("link")).unwrap().to_str(), Some("a"));
        trees.git(&slot, &["fsck", "--strict", "--no-dangling"]);
    }

    #[test]
    fn a_checkout_that_needs_care_is_left_to_git() {
        let (trees, slot, second) = two();
        let file = |path: &str| slot.root().join(path);
        let is_left = |what: &str| {
            let before = trees.git(&slot, &["status", "--porcelain", "--ignored"]);
            let slot = Repo::discover(slot.root()).unwrap();
            assert!(!slot.check_out(&second), "{what}");
            assert_eq!(trees.git(&slot, &["status", "--porcelain", "--ignored"]), before, "{what}");
        };
        fs::write(file("a"), "mine\n").unwrap();
        is_left("a changed file");
        trees.git(&slot, &["add", "a"]);
        is_left("a staged file");
        trees.git(&slot, &["checkout", "-q", "HEAD", "a"]);
        fs::create_dir_all(file("new/deep")).unwrap();
        fs::write(file("new/deep/file"), "mine\n").unwrap();
        is_left("an untracked file");
        fs::remove_dir_all(file("new")).unwrap();
        let outside = trees.path("outside");
        fs::create_dir_all(&outside).unwrap();
        symlink(&outside, file("new")).unwrap();
        is_left("a link to somewhere else");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::remove_file(file("new")).unwrap();
        for (name, value) in [("core.autocrlf", "true"), ("filter.x.smudge", "false")] {
            trees.git(&slot, &["config", name, value]);
            is_left(name);
            trees.git(&slot, &["config", "--unset", name]);
        }
        fs::create_dir_all(file("new")).unwrap();
        fs::write(slot.git_dir().join("info/exclude"), ".gitattributes\n").unwrap();
        fs::write(file("new/.gitattributes"), "* working-tree-encoding=UTF-16\n").unwrap();
        is_left("an ignored file of attributes");
        fs::remove_dir_all(file("new")).unwrap();
        assert!(Repo::discover(slot.root()).unwrap().check_out(&second));
    }
}
