//! Brings the submodules of an added worktree to what its commit says.
//!
//! Each worktree has clones of its own. What the main checkout has cloned already is cloned from
//! there, so that no server is asked for what is on the disk.

use std::path::{Component, Path};

use anyhow::{Context, Result};

use super::{Repo, program, worktree::QUIET};

/// A clone of one's own disk is no danger; git refuses it for submodules since the path could come
/// from a stranger.
const FROM_DISK: &[&str] = &["-c", "protocol.file.allow=always"];

const ORIGIN: &str = "remote.origin.url";

impl Repo {
    /// Fetches and checks out the submodules, and those in them. Nothing happens where there are
    /// none. Called after the worktree was added or has gone to another commit.
    ///
    /// # Errors
    /// In git's own words, above all when a server cannot be reached, and when files in a submodule
    /// are changed that would be overwritten; in the main worktree.
    pub fn update_submodules(&self) -> Result<()> {
        self.must_be_added()?;
        let mut open = vec![(self.root.clone(), self.common_dir.join("modules"))];
        // Not all at once by git: only what is checked out says what it has in it.
        while let Some((top, clones)) = open.pop() {
            let modules = modules_of(&top)?;
            for (name, path) in &modules {
                borrow(&top, name, path, &clones.join(name))?;
            }
            if !modules.is_empty() {
                let update = ["submodule", "update", "--quiet", "--init"];
                program::run(&top, &[QUIET, &update].concat()).with_context(|| {
                    format!("cannot update the submodules of `{}`", top.display())
                })?;
            }
            let below = modules.iter().map(|(name, path)| (top.join(path), clones.join(name)));
            open.extend(below.map(|(folder, clone)| (folder, clone.join("modules"))));
        }
        Ok(())
    }
}

/// Clones one submodule from a clone on the disk, unless it is there, and leaves it with the address
/// that it would have otherwise.
fn borrow(top: &Path, name: &str, path: &str, clone: &Path) -> Result<()> {
    let Some(disk) = clone.to_str().filter(|_| clone.join("HEAD").exists()) else {
        return Ok(());
    };
    let folder = top.join(path);
    if !folder.join(".git").exists() {
        // A setting of this call alone, or those that all worktrees share would be changed.
        let from = format!("submodule.{name}.url={disk}");
        let update = ["-c", &from, "submodule", "update", "--quiet", "--init", "--", path];
        // It fails where the clone has not got the commit, which is fetched later, and where there
        // is no such submodule in this commit.
        if program::run(top, &[QUIET, FROM_DISK, &update].concat()).is_err()
            && !folder.join(".git").exists()
        {
            return Ok(());
        }
    }
    let get = ["config", "--get", ORIGIN];
    if program::answer(&folder, &get)?.as_deref() == Some(disk)
        && let Some(address) = program::answer(clone, &get)?
    {
        program::run(&folder, &["config", ORIGIN, &address])?;
    }
    Ok(())
}

/// The submodules of a worktree, by name and path.
fn modules_of(top: &Path) -> Result<Vec<(String, String)>> {
    if !top.join(".gitmodules").exists() {
        return Ok(Vec::new());
    }
    let list = ["config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"];
    let Some(text) = program::answer(top, &list)? else { return Ok(Vec::new()) };
    let modules = text.split('\0').filter_map(|entry| {
        let (key, path) = entry.split_once('\n')?;
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        // As git, which uses them as paths, too.
        let is_below = |path: &str| {
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        };
        (is_below(name) && is_below(path)).then(|| (name.to_owned(), path.to_owned()))
    });
    Ok(modules.collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::adapters::git::tests::{TestRepository, TestWorktrees, said};

    /// `top` has `lib`, which has `deep/inner`; the main checkout has them all. Says where the
    /// repositories are that they come from.
    fn nested(trees: &TestWorktrees) -> [PathBuf; 2] {
        let [lib, inner] = ["from/lib", "from/inner"].map(|name| {
            let path = trees.path(name);
            fs::create_dir_all(&path).unwrap();
            trees.place.git_in(&path, &["init", "-q", "-b", "main"]);
            commit(&trees.place, &path, "1\n");
            path
        });
        for (top, from, name, path) in
            [(&lib, &inner, "inner", "deep/inner"), (&trees.place.top, &lib, "the lib", "lib")]
        {
            let from = from.to_str().unwrap();
            trees.place.git_in(top, &["submodule", "--quiet", "add", "--name", name, from, path]);
            trees.place.git_in(top, &["commit", "-q", "-m", "Submodule"]);
        }
        trees.place.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
        [lib, inner]
    }

    fn commit(place: &TestRepository, top: &Path, text: &str) {
        fs::write(top.join("file"), text).unwrap();
        place.git_in(top, &["add", "-A"]);
        place.git_in(top, &["commit", "-q", "-m", "File"]);
    }

    #[test]
    fn submodules_come_from_the_disk() {
        let trees = TestWorktrees::new();
        let from = nested(&trees);
        let base = trees.place.git(&["rev-parse", "HEAD"]);
        let config = fs::read_to_string(trees.place.top.join(".git/config")).unwrap();
        // Nobody is there to be asked.
        let away = from.clone().map(|path| path.with_extension("away"));
        for (from, away) in from.iter().zip(&away) {
            fs::rename(from, away).unwrap();
        }
        let slot = trees.add("1");
        slot.update_submodules().unwrap();
        slot.switch("ralph/x", &base, None).unwrap();
        slot.update_submodules().unwrap();
        assert_eq!(slot.dirty().unwrap().len(), 0);
        for (path, from) in [("lib", &from[0]), ("lib/deep/inner", &from[1])] {
            let top = slot.root().join(path);
            assert_eq!(fs::read_to_string(top.join("file")).unwrap(), "1\n");
            let origin = trees.place.git_in(&top, &["config", "remote.origin.url"]);
            assert_eq!(Path::new(&origin), from);
            let head = trees.place.git_in(&top, &["rev-parse", "HEAD"]);
            assert_eq!(
                head,
                trees.place.git_in(&trees.place.top.join(path), &["rev-parse", "HEAD"])
            );
        }
        assert_eq!(fs::read_to_string(trees.place.top.join(".git/config")).unwrap(), config);
        slot.update_submodules().unwrap();
        let refused = said(trees.main().update_submodules());
        assert!(refused.contains("main worktree"), "{refused}");

        // A commit that only its origin has: asked for there, and not found today.
        commit(&trees.place, &away[0], "2\n");
        fs::rename(&away[0], &from[0]).unwrap();
        let lib = slot.root().join("lib");
        let get = ["-c", "protocol.file.allow=always", "fetch", "-q"];
        trees.place.git_in(&lib, &get);
        trees.place.git_in(&lib, &["checkout", "-q", "origin/main"]);
        let head = trees.commit(&slot, "a", "2\n");
        slot.update_submodules().unwrap();
        let other = trees.add("2");
        other.switch("ralph/y", &head, None).unwrap();
        fs::rename(&from[0], &away[0]).unwrap();
        let refused = said(other.update_submodules());
        assert!(refused.starts_with("cannot update the submodules of "), "{refused}");
        fs::rename(&away[0], &from[0]).unwrap();
        // To the test that is a server.
        let cloned = other.root().join("lib");
        trees.place.git_in(&cloned, &["config", "protocol.file.allow", "always"]);
        other.update_submodules().unwrap();
        assert_eq!(fs::read_to_string(other.root().join("lib/file")).unwrap(), "2\n");
        // Back again, and to a commit without any.
        slot.switch("ralph/z", &base, None).unwrap();
        slot.update_submodules().unwrap();
        assert_eq!(fs::read_to_string(lib.join("file")).unwrap(), "1\n");
        trees.add("3").update_submodules().unwrap();
    }
}
