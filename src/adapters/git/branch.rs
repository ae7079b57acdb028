//! Branches: whether one can be created, and how one is deleted.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use git2::Reference;

use super::{Repo, program};
use crate::core::commit_id::CommitId;

/// Whether a branch of some name can be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchRoom {
    /// There is no branch of that name.
    Free,
    /// There is one, and no worktree uses it.
    Exists {
        /// Its commit.
        commit: CommitId,
    },
    /// There is one, and a worktree is on it or will return to it.
    CheckedOut {
        /// The top of that worktree.
        path: PathBuf,
        /// Its commit; none before the first commit.
        commit: Option<CommitId>,
    },
    /// Git stores branches like files in folders, and another branch is a folder of this name or a
    /// file where this one needs a folder.
    Barred {
        /// The other branch.
        by: String,
    },
}

impl Repo {
    /// Whether a branch of that name can be created.
    ///
    /// # Errors
    /// When the name is not valid for a branch; the error of `git`.
    pub fn branch_room(&self, name: &str) -> Result<BranchRoom> {
        let full = format!("refs/heads/{name}");
        ensure!(Reference::is_valid_name(&full), "`{name}` is not a valid branch name");
        let found = program::branches_around(&self.root, name)?;
        let commit = found.iter().find(|tip| tip.name == name).map(|tip| tip.commit.clone());
        if commit.is_none()
            && let Some(tip) = found.into_iter().next()
        {
            return Ok(BranchRoom::Barred { by: tip.name });
        }
        if let Some(tree) = self.worktrees()?.into_iter().find(|tree| tree.holds(name)) {
            return Ok(BranchRoom::CheckedOut { path: tree.path, commit });
        }
        Ok(commit.map_or(BranchRoom::Free, |commit| BranchRoom::Exists { commit }))
    }

    /// Deletes a branch that is still at `old`, and leaves its configuration. Returns whether it is
    /// gone: not if it has moved or a worktree uses it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn delete_branch(&self, name: &str, old: &str) -> Result<bool> {
        if self.worktrees()?.iter().any(|tree| tree.holds(name)) {
            return Ok(false);
        }
        let name = format!("refs/heads/{name}");
        let delete = self.backend.delete_ref(&name, old);
        match (delete, self.commit_of(&name)?) {
            (_, None) => Ok(true),
            (Err(_), Some(tip)) if tip != *old => Ok(false),
            (delete, Some(_)) => delete.map(|()| false),
        }
    }

    /// Whether `new` is `old` or descends from it.
    ///
    /// # Errors
    /// The error of `git`, for example when one of them is not in the repository.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        self.backend.is_ancestor(old, new)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::adapters::git::tests::{TestWorktrees, said, without_library};

    #[test]
    fn branch_room_reports_what_is_in_the_way() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        let slot = trees.add("1");
        let room = |name: &str| {
            let room = main.branch_room(name).unwrap();
            assert_eq!(room, without_library(&main).branch_room(name).unwrap(), "{name}");
            room
        };
        let barred = |by: &str| BranchRoom::Barred { by: by.to_owned() };
        let held = |repo: &Repo, commit: &str| BranchRoom::CheckedOut {
            path: repo.root().to_owned(),
            commit: Some(commit.into()),
        };
        trees.place.git(&["branch", "ralph/x"]);
        trees.place.git(&["branch", "ralph2"]);
        let first = trees.first.clone();
        assert_eq!(room("ralph/x"), BranchRoom::Exists { commit: first.clone() });
        assert_eq!(room("ralph/y"), BranchRoom::Free);
        assert_eq!(room("ralph/x/y/z"), barred("ralph/x"));
        assert_eq!(room("ralph"), barred("ralph/x"));
        assert_eq!(room("main"), held(&main, &first));
        slot.switch("ralph/x", &first, Some(&first)).unwrap();
        assert_eq!(room("ralph/x"), held(&slot, &first));
        assert!(said(main.branch_room("ralph/a..b")).contains("is not a valid branch name"));
        // A stopped rebase: HEAD does not show that the branch is in use.
        let other = trees.commit(&slot, "a", "x\n");
        trees.place.commit("a", "main\n", "Second");
        trees.place.try_git(slot.root(), &["rebase", "main"]);
        assert_eq!(slot.head().unwrap().branch, None);
        assert_eq!(room("ralph/x"), held(&slot, &other));
        assert!(!main.delete_branch("ralph/x", &other).unwrap());
        fs::remove_dir_all(slot.root()).unwrap();
        assert_eq!(room("ralph/x"), BranchRoom::Exists { commit: other });
    }

    #[test]
    fn a_branch_is_deleted_only_where_it_was() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        let second = trees.place.commit("a", "2\n", "Second");
        trees.place.git(&["branch", "x"]);
        trees.place.git(&["config", "branch.x.note", "kept"]);
        assert!(!main.delete_branch("x", &trees.first).unwrap());
        assert!(!main.delete_branch("main", &second).unwrap());
        trees.place.git(&["pack-refs", "--all"]);
        assert!(main.delete_branch("x", &second).unwrap());
        assert!(main.delete_branch("x", &second).unwrap(), "it is gone");
        assert_eq!(main.branch_room("x").unwrap(), BranchRoom::Free);
        assert_eq!(trees.place.git(&["config", "branch.x.note"]), "kept");
        fs::write(trees.place.top.join(".git/packed-refs.lock"), "").unwrap();
        trees.place.git(&["branch", "y"]);
        let program = without_library(&main);
        assert!(said(program.delete_branch("y", &second)).contains("packed-refs.lock"));
        assert!(main.delete_branch("y", &second).unwrap(), "it was never packed");
    }

    #[test]
    fn descent_is_seen() {
        let trees = TestWorktrees::new();
        let main = trees.main();
        let second = trees.place.commit("a", "2\n", "Second");
        let unknown = "1".repeat(40);
        for repo in [&main, &without_library(&main)] {
            assert!(repo.is_ancestor(&trees.first, &second).unwrap());
            assert!(repo.is_ancestor(&second, &second).unwrap());
            assert!(!repo.is_ancestor(&second, &trees.first).unwrap());
            assert!(repo.is_ancestor(&unknown, &second).is_err());
            assert!(repo.is_ancestor(&unknown, &unknown).is_err());
        }
    }
}
