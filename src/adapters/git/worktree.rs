//! The worktrees of a repository: where they are, and which branches they use.
//!
//! They belong to people. `ralph` neither adds nor removes any, and moves HEAD in none except to
//! land work on a branch that is checked out there (`git/land`). Those that an attempt adds to its slot
//! belong to the attempt.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::Result;

use super::{
    Head, Repo, RepoReader, Slot, branch_name, confined, is_commit, lossy, program,
    slot::read_mark,
    slot_settings::{remove_all, replace},
};
use crate::{core::commit_id::CommitId, regular_file};

/// Nothing that an attempt left runs.
const NO_HOOKS: &[&str] = &["-c", "core.hooksPath=/dev/null"];

/// A worktree of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Its top, without symbolic links.
    pub path: PathBuf,
    /// The full id of its commit; none before the first commit, and if its HEAD cannot be read.
    pub head: Option<CommitId>,
    /// Its branch, without `refs/heads/`.
    pub branch: Option<String>,
    /// The branches to which a rebase or a bisection in it will return. HEAD does not show them.
    pub busy: Vec<String>,
    /// The reason of its lock, if it is locked; the reason may be empty.
    pub locked: Option<String>,
    /// Whether its folder is gone while git still lists it.
    pub missing: bool,
    /// When it was added; none for the main one.
    pub added_at: Option<SystemTime>,
}

/// The folders of a worktree.
struct WorktreeFolders {
    /// Its top, without symbolic links.
    path: PathBuf,
    git_dir: PathBuf,
    /// Whether it is the main worktree.
    is_main: bool,
}

impl Worktree {
    /// Whether this worktree uses a branch, so that the branch must not be moved from elsewhere. A
    /// worktree whose folder was deleted uses no branch, unless it is locked: then the folder may
    /// only be out of reach.
    pub fn holds(&self, branch: &str) -> bool {
        let is_here = !self.missing || self.locked.is_some();
        is_here && (self.is_on(branch) || self.busy.iter().any(|busy| busy == branch))
    }

    /// Whether HEAD is on this branch.
    pub fn is_on(&self, branch: &str) -> bool {
        self.branch.as_deref() == Some(branch)
    }
}

impl Slot<'_> {
    /// Lets the worktrees that an attempt in a sandbox has added read the settings of the slot.
    fn confine_worktrees(&self) -> Result<()> {
        for entry in fs::read_dir(self.common_dir.join("worktrees"))? {
            let folder = entry?.path();
            remove_all(&folder.join("config.worktree"))?;
            replace(&folder.join("commondir"), b"../..\n")?;
        }
        Ok(())
    }
}

impl Repo {
    /// Takes the commits of the worktrees that an attempt has added since `began` onto the branch
    /// of its slot, or of the checkout, where the branch only has to follow them, and removes the
    /// worktrees whose work a branch has. Agents add worktrees unasked.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn take_in_worktrees(&self, began: SystemTime) -> Result<()> {
        if !self.common_dir.join("worktrees").exists() || self.is_added() {
            return Ok(());
        }
        let is_slot = self.slot_of().is_some();
        if is_slot && confined::is_on() {
            self.slot().confine_worktrees()?;
        }
        let mut added = self.worktrees()?;
        // Those of the checkout may be a person's.
        added.retain(|it| {
            let is_own = is_slot || (it.path.starts_with(&self.root) && it.added_at >= Some(began));
            it.path != self.root && !it.missing && is_own
        });
        for tree in added {
            let (Some(commit), Some(head)) = (tree.head, self.head()?.commit) else {
                continue;
            };
            if head != commit && self.is_ancestor(&head, &commit)? {
                // It fails where a changed file is in the way; then the commits are kept as they are.
                let _ = self.run_quietly(&[NO_HOOKS, &["merge", "--ff-only", &commit]].concat());
            }
            let is_taken = match self.head()?.commit {
                Some(head) => head == commit || self.is_ancestor(&commit, &head)?,
                None => false,
            };
            if let Some(path) = tree.path.to_str().filter(|_| is_taken || tree.branch.is_some()) {
                // The process that has locked it is gone. It stays where it has uncommitted changes.
                let _ = self.run_quietly(&[NO_HOOKS, &["worktree", "unlock", path]].concat());
                let _ = self.run_quietly(&[NO_HOOKS, &["worktree", "remove", path]].concat());
            }
        }
        Ok(())
    }
}

impl Repo {
    /// The top of the repository in one of whose slots this is: the slot, or a worktree, submodule or
    /// repository that an attempt has in it; none elsewhere.
    pub fn in_slot_of(&self) -> Option<PathBuf> {
        let around = self.root.ancestors().skip(1).map(|folder| folder.join(".git"));
        let inside = self.git_dir.ancestors().map(Path::to_owned);
        let all = inside.chain([self.common_dir.clone()]).chain(around);
        all.filter_map(|folder| read_mark(&folder)).map(|(_, main)| main).next()
    }

    /// All worktrees, the main one first, unless the repository is bare. Reads some small files for
    /// each.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn worktrees(&self) -> Result<Vec<Worktree>> {
        let tree = |WorktreeFolders { path, git_dir, is_main }| {
            let head = self.head_in(&git_dir)?;
            let locked = regular_file::read(&git_dir.join("locked")).ok().filter(|_| !is_main);
            Ok(Worktree {
                head: head.commit,
                branch: head.branch,
                busy: branches_in_progress(&git_dir),
                locked: locked.map(|why| lossy(&why).trim().to_owned()),
                missing: !path.join(".git").exists() && !is_main,
                added_at: { fs::metadata(git_dir.join("gitdir")).ok() }
                    .and_then(|file| file.modified().ok()),
                path,
            })
        };
        self.worktree_folders()?.into_iter().map(tree).collect()
    }

    /// Where HEAD of a worktree is, whose folder may be gone.
    fn head_in(&self, git_dir: &Path) -> Result<Head> {
        let text = lossy(&regular_file::read(&git_dir.join("HEAD")).unwrap_or_default());
        let name = match text.trim().strip_prefix("ref: ") {
            // The refs are in tables, which git alone reads.
            Some("refs/heads/.invalid") => return RepoReader::of(git_dir, None).head(),
            name => name,
        };
        let commit = match name {
            Some(name) => self.commit_of(name)?,
            None => Some(text.trim()).filter(|text| is_commit(text)).map(CommitId::from),
        };
        Ok(Head { commit, branch: name.map(branch_name) })
    }

    fn worktree_folders(&self) -> Result<Vec<WorktreeFolders>> {
        let main = self.main_root()?;
        let main = main.map(|path| {
            let git_dir = self.common_dir.clone();
            WorktreeFolders { path, git_dir, is_main: true }
        });
        let entries = fs::read_dir(self.common_dir.join("worktrees"));
        let mut admins: Vec<PathBuf> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        admins.sort();
        let added = admins.into_iter().filter_map(|git_dir| {
            // This file is missing while git adds or removes the worktree.
            let text = regular_file::read(&git_dir.join("gitdir")).ok()?;
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            // Git can be configured to write a path relative to the git directory.
            let file = git_dir.join(OsStr::from_bytes(text));
            let path = without_links(file.parent()?);
            Some(WorktreeFolders { path, git_dir, is_main: false })
        });
        Ok(main.into_iter().chain(added).collect())
    }

    /// The top of the main worktree, also when called from an added one; none in a bare repository
    /// with added worktrees.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn main_root(&self) -> Result<Option<PathBuf>> {
        if !self.is_added() {
            return Ok(Some(self.root.clone()));
        }
        let found = program::main_root(&self.root)?;
        Ok(found.map(|path| without_links(&path)))
    }

    /// Whether this is an added worktree and not the main one.
    pub fn is_added(&self) -> bool {
        self.git_dir != self.common_dir
    }
}

/// Resolves symbolic links, also in a path whose end does not exist.
fn without_links(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(above), Some(name)) => without_links(above).join(name),
        (Err(_), ..) => path.to_owned(),
    }
}

/// The branches to which a rebase or a bisection will return.
fn branches_in_progress(admin: &Path) -> Vec<String> {
    let first = |file: &str| {
        let text = lossy(&regular_file::read(&admin.join(file)).unwrap_or_default());
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    let rebased = ["rebase-merge/head-name", "rebase-apply/head-name"].map(first);
    let rebased = rebased.iter().filter(|name| name.starts_with("refs/heads/"));
    let mut busy: Vec<String> = rebased.map(|name| branch_name(name)).collect();
    let bisected = first("BISECT_START");
    if !bisected.is_empty() && !is_commit(&bisected) {
        busy.push(branch_name(&bisected));
    }
    busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::tests::{TestSlots, without_library};

    /// The worktrees with libgit2 and without, which must be equal.
    fn list(repo: &Repo) -> Vec<Worktree> {
        let trees = repo.worktrees().unwrap();
        assert_eq!(trees, without_library(repo).worktrees().unwrap(), "libgit2 and git differ");
        trees
    }

    #[test]
    fn worktrees_are_listed_from_each_of_them() {
        let trees = TestSlots::new();
        let main = trees.main();
        let (one, two) = (trees.worktree("1"), trees.worktree("deep/er/2"));
        trees.git(&one, &["checkout", "-q", "-b", "ralph/x"]);
        let two_path = two.root().to_str().unwrap();
        trees.place.git(&["worktree", "lock", "--reason", "used by \u{fc}", two_path]);
        for repo in [&main, &one, &two] {
            let found = list(repo);
            let paths: Vec<&Path> = found.iter().map(|tree| &*tree.path).collect();
            assert_eq!(paths, [main.root(), one.root(), two.root()]);
            assert_eq!(repo.main_root().unwrap().as_deref(), Some(main.root()));
            assert_eq!(found[0].branch.as_deref(), Some("main"));
            assert_eq!(found[1].branch.as_deref(), Some("ralph/x"));
            assert_eq!(found[2].locked.as_deref(), Some("used by \u{fc}"));
            assert_eq!((&found[2].branch, &found[0].locked), (&None, &None));
            assert!(found.iter().all(|tree| tree.head.as_ref() == Some(&trees.first)));
            assert!(!found.iter().any(|tree| tree.missing));
        }
        fs::remove_dir_all(two.root()).unwrap();
        assert!(list(&main)[2].missing && !list(&main)[1].missing);
        assert!(list(&main)[1].holds("ralph/x") && !list(&main)[2].holds("ralph/x"));
        trees.git(&one, &["checkout", "-q", "--orphan", "fresh"]);
        let fresh = &list(&main)[1];
        assert_eq!((&fresh.head, fresh.branch.as_deref()), (&None, Some("fresh")));
    }

    #[test]
    fn a_bare_repository_has_no_main_worktree() {
        let trees = TestSlots::new();
        let bare = trees.path("bare.git");
        trees.place.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        let linked = trees.path("linked");
        trees.place.git_in(&bare, &["worktree", "add", "-q", linked.to_str().unwrap()]);
        let linked = Repo::discover(&linked).unwrap();
        assert_eq!(linked.main_root().unwrap(), None);
        assert_eq!(without_library(&linked).main_root().unwrap(), None);
        let found = list(&linked);
        assert_eq!((found.len(), found[0].path.as_path()), (1, linked.root()));
    }
}
