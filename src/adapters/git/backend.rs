//! The queries that exist twice: once with libgit2, once with the `git` program.
//!
//! libgit2 answers in microseconds where a process takes milliseconds, but it cannot read every
//! repository: SHA-256, reftable, partial clones, split and sparse indexes. [`Backend::ask`] is the
//! only place that chooses: it asks libgit2 first, and `git` where libgit2 fails, so error messages
//! are always those of `git`. Only what runs several times per attempt belongs here; everything
//! else runs `git` alone. The tests compare both answers.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::Result;
use git2::{ErrorCode, Oid, Repository, RepositoryOpenFlags, Status, StatusOptions};

use super::{
    Codes, Head, branch_name, canonical, is_commit, lossy,
    program::{self, Entries, HOOKS},
};
use crate::core::{commit_id::CommitId, verdict::Commit};

/// From this number of index entries on, `git status` is about twice as fast as libgit2.
const LARGE: u32 = 5_000;

/// An open repository, read with libgit2 where possible and else with the `git` program.
pub(super) struct Backend {
    /// The top of the worktree, where `git` runs.
    root: PathBuf,
    /// None where libgit2 cannot open the repository.
    library: Option<Repository>,
}

/// The folders of a repository, without symbolic links.
pub(super) struct RepositoryFolders {
    /// The top of the worktree.
    pub(super) root: PathBuf,
    /// The git directory that all worktrees share.
    pub(super) common_dir: PathBuf,
    /// The git directory of this worktree.
    pub(super) git_dir: PathBuf,
}

/// The folders of a worktree.
pub(super) struct WorktreeFolders {
    /// Its top, without symbolic links.
    pub(super) path: PathBuf,
    /// Its git directory.
    pub(super) git_dir: PathBuf,
    /// Whether it is the main worktree.
    pub(super) is_main: bool,
}

impl Backend {
    /// Opens the repository that contains `dir`.
    pub(super) fn open(dir: &Path) -> Result<(Backend, RepositoryFolders)> {
        let ceilings: Vec<PathBuf> = env::var_os("GIT_CEILING_DIRECTORIES")
            .map(|list| env::split_paths(&list).collect())
            .unwrap_or_default();
        let library = Repository::open_ext(dir, RepositoryOpenFlags::empty(), ceilings).ok();
        let mut backend = Backend { root: dir.to_owned(), library };
        let folders = backend.ask(library_folders, program::folders)?;
        let folders = RepositoryFolders {
            root: canonical(&folders.root)?,
            common_dir: canonical(&folders.common_dir)?,
            git_dir: canonical(&folders.git_dir)?,
        };
        backend.root.clone_from(&folders.root);
        Ok((backend, folders))
    }

    /// The same repository without libgit2.
    #[cfg(test)]
    pub(super) fn without_library(self) -> Backend {
        Backend { library: None, ..self }
    }

    /// Asks libgit2, and `git` where libgit2 cannot answer.
    fn ask<T>(
        &self,
        library: impl FnOnce(&Repository) -> Result<T, git2::Error>,
        program: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        match self.library.as_ref().map(library) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => program(&self.root),
        }
    }

    pub(super) fn head(&self) -> Result<Head> {
        self.ask(library_head, program::head)
    }

    /// The commit that a ref points to; none without such a ref.
    pub(super) fn commit_of(&self, name: &str) -> Result<Option<CommitId>> {
        let library = |repo: &Repository| {
            let found = existing(repo.find_reference(name))?;
            found.map(|found| Ok(commit_id(found.peel_to_commit()?.id()))).transpose()
        };
        self.ask(library, |root| program::commit(root, name))
    }

    /// Deletes the ref `name` if it points to `old`. libgit2 does this without a lock on the packed
    /// refs, where a killed `git` may have left one.
    pub(super) fn delete_ref(&self, name: &str, old: &str) -> Result<()> {
        let library = |repo: &Repository| {
            let mut found = repo.find_reference(name)?;
            // libgit2 refuses, as git does, when the ref moves before it is deleted.
            if found.target() == Some(Oid::from_str(old)?) { found.delete() } else { Ok(()) }
        };
        self.ask(library, |root| program::run(root, &["update-ref", "-d", name, old]).map(drop))
    }

    /// Whether `new` is `old` or descends from it.
    pub(super) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        let library = |repo: &Repository| {
            let (old, new) = (Oid::from_str(old)?, Oid::from_str(new)?);
            repo.find_commit(old)?;
            Ok(old == new || repo.graph_descendant_of(new, old)?)
        };
        self.ask(library, |root| program::test(root, &["merge-base", "--is-ancestor", old, new]))
    }

    /// The last `count` commits of `head` without those of `hidden`, newest first.
    pub(super) fn log(
        &self,
        head: &str,
        hidden: Option<&str>,
        count: usize,
    ) -> Result<Vec<Commit>> {
        let library = |repo: &Repository| library_log(repo, head, hidden, count);
        self.ask(library, |root| program::log(root, head, hidden, count))
    }

    /// What `git status` lists.
    pub(super) fn status(&self) -> Result<Codes> {
        self.ask(library_status, program::status)
    }

    pub(super) fn is_ignored(&self, path: &str) -> Result<bool> {
        self.ask(|repo| repo.is_path_ignored(path), |root| program::is_ignored(root, path))
    }

    /// The folder of the hooks as it is configured; none where it is not.
    pub(super) fn hooks_path(&self) -> Result<Option<String>> {
        let library = |repo: &Repository| {
            let path = existing(repo.config()?.snapshot()?.get_path(HOOKS))?;
            Ok(path.map(|path| path.display().to_string()))
        };
        self.ask(library, program::hooks_path)
    }

    /// The mode and id of what a commit has at each of the paths.
    pub(super) fn entries(&self, commit: &str, paths: &[&str]) -> Result<Entries> {
        let library = |repo: &Repository| {
            let tree = repo.find_commit(Oid::from_str(commit)?)?.tree()?;
            let entry = |path: &&str| {
                let found = existing(tree.get_path(Path::new(path)))?;
                Ok(found.map(|entry| format!("{:06o} {}", entry.filemode(), entry.id())))
            };
            paths.iter().map(entry).collect()
        };
        self.ask(library, |root| program::entries(root, commit, paths))
    }

    /// The top of the main worktree, asked from an added one; none in a repository that is bare
    /// otherwise.
    pub(super) fn main_root(&self) -> Result<Option<PathBuf>> {
        let library = |repo: &Repository| {
            let main = Repository::open(repo.commondir())?;
            Ok(main.workdir().map(Path::to_owned))
        };
        self.ask(library, program::main_root)
    }

    /// HEAD in each of these worktrees; empty where it cannot be read.
    pub(super) fn worktree_heads(&self, trees: &[WorktreeFolders]) -> Result<Vec<Head>> {
        let library = |repo: &Repository| {
            Ok(trees.iter().map(|tree| library_head_in(repo, &tree.git_dir)).collect())
        };
        let program = |root: &Path| {
            let heads = program::worktree_heads(root)?;
            Ok(trees
                .iter()
                .map(|tree| heads.get(&tree.path).cloned().unwrap_or_default())
                .collect())
        };
        self.ask(library, program)
    }
}

fn commit_id(id: Oid) -> CommitId {
    id.to_string().into()
}

/// None for what libgit2 does not find.
fn existing<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn library_folders(repo: &Repository) -> Result<RepositoryFolders, git2::Error> {
    let root = repo.workdir().ok_or_else(|| git2::Error::from_str("a bare repository"))?;
    Ok(RepositoryFolders {
        root: root.to_owned(),
        common_dir: repo.commondir().to_owned(),
        git_dir: repo.path().to_owned(),
    })
}

fn library_head(repo: &Repository) -> Result<Head, git2::Error> {
    let head = repo.find_reference("HEAD")?;
    let Some(target) = head.symbolic_target_bytes() else {
        let commit = head.target().map(commit_id);
        return Ok(Head { commit, branch: None });
    };
    let branch = Some(branch_name(&lossy(target)));
    let commit = existing(repo.refname_to_id("HEAD"))?.map(commit_id);
    Ok(Head { commit, branch })
}

/// HEAD in the worktree whose git directory this is.
fn library_head_in(repo: &Repository, git_dir: &Path) -> Head {
    let text = lossy(&fs::read(git_dir.join("HEAD")).unwrap_or_default());
    let text = text.trim();
    match text.strip_prefix("ref: ") {
        Some(name) => {
            let commit = repo.refname_to_id(name).ok();
            Head { commit: commit.map(commit_id), branch: Some(branch_name(name)) }
        }
        None => Head { commit: is_commit(text).then(|| text.into()), branch: None },
    }
}

fn library_log(
    repo: &Repository,
    head: &str,
    hidden: Option<&str>,
    count: usize,
) -> Result<Vec<Commit>, git2::Error> {
    let mut walk = repo.revwalk()?;
    walk.push(Oid::from_str(head)?)?;
    if let Some(hidden) = hidden {
        walk.hide(Oid::from_str(hidden)?)?;
    }
    let commit = |id| {
        let commit = repo.find_commit(id)?;
        let subject = lossy(commit.summary_bytes().unwrap_or_default());
        Ok(Commit { id: commit_id(commit.id()), subject })
    };
    walk.take(count).map(|id| commit(id?)).collect()
}

fn library_status(repo: &Repository) -> Result<Codes, git2::Error> {
    if !suits_library(repo)? {
        return Err(git2::Error::from_str("a repository for the program"));
    }
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).update_index(false);
    let statuses = repo.statuses(Some(&mut options))?;
    let changed =
        statuses.iter().map(|entry| (entry.path_bytes().to_owned(), letters(entry.status())));
    Ok(changed.collect::<BTreeMap<_, _>>())
}

/// Whether libgit2 reads the status correctly and fast: not where a clean filter is configured (LFS
/// and the like), which libgit2 does not run, and not where the index is large.
fn suits_library(repo: &Repository) -> Result<bool, git2::Error> {
    let config = repo.config()?;
    let mut filters = config.entries(Some(r"^filter\..*\.(clean|process)$"))?;
    let is_filtered = filters.next().is_some();
    Ok(!is_filtered && index_entries(&repo.path().join("index")).unwrap_or(0) < LARGE)
}

/// The number of entries in the index: the third number of its header (gitformat-index(5)).
fn index_entries(index: &Path) -> io::Result<u32> {
    let mut header = [0; 12];
    File::open(index)?.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    Ok(u32::from_be_bytes([a, b, c, d]))
}

/// The two letters of `git status`: the index against HEAD, the worktree against the index.
fn letters(status: Status) -> String {
    let one = |pairs: &[(Status, char)]| {
        let found = pairs.iter().find(|(flag, _)| status.contains(*flag));
        found.map_or('.', |(_, letter)| *letter)
    };
    if status.contains(Status::CONFLICTED) {
        return "UU".to_owned();
    }
    if status == Status::WT_NEW {
        return "??".to_owned();
    }
    let index = one(&[
        (Status::INDEX_NEW, 'A'),
        (Status::INDEX_DELETED, 'D'),
        (Status::INDEX_TYPECHANGE, 'T'),
        (Status::INDEX_MODIFIED, 'M'),
    ]);
    let worktree = one(&[
        (Status::WT_NEW, '?'),
        (Status::WT_DELETED, 'D'),
        (Status::WT_TYPECHANGE, 'T'),
        (Status::WT_MODIFIED, 'M'),
    ]);
    [index, worktree].into_iter().collect()
}
