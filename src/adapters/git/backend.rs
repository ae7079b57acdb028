//! The queries that exist twice: once with libgit2, once with the `git` program.
//!
//! libgit2 answers in microseconds where a process takes milliseconds, but it cannot read every
//! repository: SHA-256, reftable, partial clones, split and sparse indexes. [`Backend::ask`] is the
//! only place that chooses: it asks libgit2 first, and `git` where libgit2 fails, so error messages
//! are always those of `git`. Only what runs several times per attempt belongs here; everything
//! else runs `git` alone. The tests compare both answers.

mod history;
mod refs;
mod status;

use std::{
    cell::{OnceCell, Ref, RefCell},
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use git2::{
    Config, ErrorCode, FileMode, Oid, Repository, RepositoryOpenFlags, Signature, TreeWalkMode,
    TreeWalkResult, build::TreeUpdateBuilder,
};

use super::{
    Head, blob_cache, branch_name, canonical, is_commit, lossy,
    patch::trees_diff,
    program::{self, Entries, HOOKS},
};
pub(super) use status::has_filter;

use crate::{core::commit_id::CommitId, regular_file};

/// An open repository, read with libgit2 where possible and else with the `git` program.
pub(super) struct Backend {
    /// The top of the worktree, where `git` runs.
    root: PathBuf,
    /// None where libgit2 cannot open the repository.
    library: RefCell<Option<Repository>>,
    /// Whether the settings stay as they are while it is open.
    is_at_rest: bool,
    /// Whether git only compares files to find what has changed, as far as the settings at rest tell.
    is_plain: OnceCell<bool>,
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
    ///
    /// # Errors
    /// The error of `git`; something else than a file in place of one that git reads.
    pub(super) fn open(dir: &Path) -> Result<(Backend, RepositoryFolders)> {
        check_files(dir)?;
        // Like git, which notices damage by the checksum of the compressed content, and other changes
        // in `git fsck`. The objects of a slot are checked in `loose_objects`.
        git2::opts::strict_hash_verification(false);
        let ceilings: Vec<PathBuf> = env::var_os("GIT_CEILING_DIRECTORIES")
            .map(|list| env::split_paths(&list).collect())
            .unwrap_or_default();
        let library = Repository::open_ext(dir, RepositoryOpenFlags::empty(), ceilings).ok();
        let mut backend = Backend::of(dir, library);
        let folders = backend.ask(library_folders, program::folders)?;
        let git_dir = canonical(&folders.git_dir)?;
        let is_added = folders.common_dir != folders.git_dir;
        let folders = RepositoryFolders {
            root: canonical(&folders.root)?,
            common_dir: if is_added { canonical(&folders.common_dir)? } else { git_dir.clone() },
            git_dir,
        };
        backend.root.clone_from(&folders.root);
        Ok((backend, folders))
    }

    /// A repository that libgit2 has opened, or that it cannot open.
    pub(super) fn of(root: &Path, library: Option<Repository>) -> Backend {
        let library = RefCell::new(library);
        Backend { root: root.to_owned(), library, is_at_rest: false, is_plain: OnceCell::new() }
    }

    /// Opens the bare repository in this folder.
    pub(super) fn bare(dir: &Path) -> Backend {
        Backend::of(dir, Repository::open_bare(dir).ok())
    }

    /// From now on, what libgit2 has read of the repository counts, above all its settings. For one
    /// that is opened again after every process that may change it.
    pub(super) fn rest(&mut self) {
        self.is_at_rest = true;
        if let Some(repo) = self.library.get_mut() {
            // Without it, it only takes longer.
            let _ = keep_settings(repo);
        }
    }

    /// Makes the `git` program answer everything from now on.
    pub(super) fn leave_library(&mut self) {
        *self.library.get_mut() = None;
    }

    /// The repository as libgit2 reads it; none where the program must do everything.
    pub(super) fn library(&self) -> Option<Ref<'_, Repository>> {
        Ref::filter_map(self.library.borrow(), Option::as_ref).ok()
    }

    /// The settings as libgit2 reads them now, or has read them of a repository at rest.
    pub(super) fn config(&self) -> Option<Config> {
        let mut config = self.library()?.config().ok()?;
        if self.is_at_rest { Some(config) } else { config.snapshot().ok() }
    }

    /// The value of a setting, as far as libgit2 reads the settings.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        self.config()?.get_string(name).ok()
    }

    /// The same repository without libgit2.
    #[cfg(test)]
    pub(super) fn without_library(self) -> Backend {
        Backend::of(&self.root, None)
    }

    /// Asks libgit2, and `git` where libgit2 cannot answer.
    pub(super) fn ask<T>(
        &self,
        library: impl FnOnce(&Repository) -> Result<T, git2::Error>,
        program: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        match self.library().map(|repo| library(&repo)) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => program(&self.root),
        }
    }

    pub(super) fn head(&self) -> Result<Head> {
        self.ask(library_head, program::head)
    }

    /// A file of a commit; none if the commit does not contain it.
    pub(super) fn file(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let library = |repo: &Repository| {
            let tree = repo.revparse_single(commit)?.peel_to_tree()?;
            let Some(found) = existing(tree.get_path(Path::new(path)))? else { return Ok(None) };
            if let Some(content) = blob_cache::get(found.id()) {
                return Ok(Some(content.to_vec()));
            }
            let blob = repo.find_blob(found.id())?;
            blob_cache::put(found.id(), blob.content());
            Ok(Some(blob.content().to_vec()))
        };
        self.ask(library, |root| program::file(root, commit, path))
    }

    /// The tree of a commit or of a tree; none if there is neither.
    pub(super) fn tree_of(&self, head: &str) -> Result<Option<String>> {
        let library = |repo: &Repository| {
            let found = repo.find_object(Oid::from_str(head)?, None)?;
            Ok(Some(found.peel_to_tree()?.id().to_string()))
        };
        let verify = ["rev-parse", "--verify", &format!("{head}^{{tree}}")];
        self.ask(library, |root| program::answer(root, &verify))
    }

    /// Those of the ids that are commits of this repository.
    pub(super) fn known_commits(&self, ids: &[&str]) -> Result<Vec<CommitId>> {
        let library = |repo: &Repository| {
            let mut known = Vec::new();
            for id in ids {
                let found = existing(repo.find_commit(Oid::from_str(id)?))?;
                known.extend(found.map(|found| commit_id(found.id())));
            }
            Ok(known)
        };
        self.ask(library, |root| program::known_commits(root, ids))
    }

    /// Whether objects that are missing here are with a server.
    pub(super) fn is_partial_clone(&self) -> Result<bool> {
        const SIGNS: &str = r"^(extensions\.partialclone|remote\..*\.promisor)$";
        let library = |repo: &Repository| {
            Ok(repo.config()?.snapshot()?.entries(Some(SIGNS))?.next().is_some())
        };
        let find = ["config", "--get-regexp", SIGNS];
        self.ask(library, |root| Ok(program::answer(root, &find)?.is_some()))
    }

    /// A commit on top of `parent` that changes one file; none where the `git` program must make
    /// it: libgit2 cannot sign.
    pub(super) fn commit_file(
        &self,
        parent: &str,
        path: &str,
        content: &str,
        message: &str,
    ) -> Option<CommitId> {
        let (repo, config) = (self.library()?, self.config()?);
        if config.get_bool("commit.gpgSign").unwrap_or(false) {
            return None;
        }
        let commit = || -> Result<Oid, git2::Error> {
            let parent = repo.find_commit(Oid::from_str(parent)?)?;
            let tree = parent.tree()?;
            let mode = match tree.get_path(Path::new(path))?.filemode() {
                0o100_755 => FileMode::BlobExecutable,
                _ => FileMode::Blob,
            };
            let blob = repo.blob(content.as_bytes())?;
            blob_cache::put(blob, content.as_bytes());
            let tree =
                TreeUpdateBuilder::new().upsert(path, blob, mode).create_updated(&repo, &tree)?;
            let tree = repo.find_tree(tree)?;
            let [author, committer] =
                [signature(&config, "AUTHOR")?, signature(&config, "COMMITTER")?];
            repo.commit(None, &author, &committer, message, &tree, &[&parent])
        };
        commit().ok().map(commit_id)
    }

    /// Whether libgit2 finds a name and an address for an author and for a committer.
    pub(super) fn knows_committer(&self) -> bool {
        self.config().is_some_and(|config| {
            ["AUTHOR", "COMMITTER"].iter().all(|kind| {
                let [name, email] = ["NAME", "EMAIL"].map(|what| configured(&config, kind, what));
                // Git removes other characters at the ends of a name.
                name.is_some_and(|name| name.chars().any(char::is_alphanumeric))
                    && email.is_some_and(|email| email.chars().any(char::is_alphanumeric))
            })
        })
    }

    /// The files of HEAD with one of these names, in any folder, each with the id of its content.
    pub(super) fn files_named(&self, names: &[&str]) -> Result<Vec<(String, String)>> {
        let library = |repo: &Repository| {
            let mut found = Vec::new();
            let tree = repo.head()?.peel_to_tree()?;
            tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
                let name = entry.name().unwrap_or_default();
                if names.contains(&name) && entry.kind() == Some(git2::ObjectType::Blob) {
                    found.push((format!("{folder}{name}"), entry.id().to_string()));
                }
                TreeWalkResult::Ok
            })?;
            Ok(found)
        };
        let program = |root: &Path| {
            let list = program::run(root, &["ls-tree", "-r", "-z", "HEAD"])?;
            let list = lossy(&list);
            let entry = |line: &str| {
                let (entry, path) = line.split_once('\t')?;
                let name = path.rsplit('/').next()?;
                let id = entry.rsplit(' ').next()?.to_owned();
                names.contains(&name).then(|| (path.to_owned(), id))
            };
            Ok(list.split('\0').filter_map(entry).collect())
        };
        self.ask(library, program)
    }

    /// Whether the index tells git to ignore changes of some files, other than those outside of a
    /// sparse checkout.
    pub(super) fn hides_changes(&self, is_sparse: bool) -> Result<bool> {
        // gitformat-index(5): assume-valid, and skip-worktree among the extended flags.
        const ASSUMED: u16 = 1 << 15;
        const SKIPPED: u16 = 1 << 14;
        let library = |repo: &Repository| {
            let mut index = repo.index()?;
            index.read(true)?;
            let is_hidden = index.iter().any(|entry| {
                let is_skipped = entry.flags_extended & SKIPPED != 0 && !is_sparse;
                entry.flags & ASSUMED != 0 || is_skipped
            });
            Ok(is_hidden)
        };
        let program = |root: &Path| {
            let list = program::run(root, &["ls-files", "-v", "-z"])?;
            let mut tags = list.split(|byte| *byte == 0).filter_map(|entry| entry.first());
            Ok(tags.any(|tag| tag.is_ascii_lowercase() || (*tag == b'S' && !is_sparse)))
        };
        self.ask(library, program)
    }

    pub(super) fn is_ignored(&self, path: &str) -> Result<bool> {
        self.ask(|repo| repo.is_path_ignored(path), |root| program::is_ignored(root, path))
    }

    /// The folder of the hooks as it is configured; none where it is not.
    pub(super) fn hooks_path(&self) -> Result<Option<String>> {
        let library = |_: &Repository| {
            let config = self.config().ok_or_else(|| git2::Error::from_str("no settings"))?;
            let path = existing(config.get_path(HOOKS))?;
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

    /// The files that differ between two commits or trees, each with its mode in the second one; 0
    /// for a file that it does not have. Without `base`, all files of `head`.
    pub(super) fn changed_entries(
        &self,
        base: Option<&str>,
        head: &str,
    ) -> Result<Vec<(String, u32)>> {
        let library = |repo: &Repository| {
            let tree = |name: &str| repo.revparse_single(name)?.peel_to_tree();
            let base = base.map(tree).transpose()?;
            let diff = trees_diff(repo, base.as_ref(), &tree(head)?)?;
            let entry = |delta: git2::DiffDelta<'_>| {
                let is_there = delta.status() != git2::Delta::Deleted;
                let mode = if is_there { u32::from(delta.new_file().mode()) } else { 0 };
                Some((lossy(delta.new_file().path_bytes()?), mode))
            };
            Ok(diff.deltas().filter_map(entry).collect())
        };
        self.ask(library, |root| program::changed_entries(root, base, head))
    }

    /// The mode and id of a file in the index; none if the index does not have it, or has it in
    /// conflict.
    pub(super) fn index_entry(&self, path: &str) -> Result<Option<String>> {
        let library = |repo: &Repository| {
            let mut index = repo.index()?;
            index.read(false)?;
            let found = index.get_path(Path::new(path), 0);
            Ok(found.map(|entry| format!("{:06o} {}", entry.mode, entry.id)))
        };
        self.ask(library, |root| program::index_entry(root, path))
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

/// The name or the address of an author or a committer, as it is configured.
fn configured(config: &Config, kind: &str, what: &str) -> Option<String> {
    let (kind_key, what_key) = (kind.to_lowercase(), what.to_lowercase());
    let keys = [format!("{kind_key}.{what_key}"), format!("user.{what_key}")];
    let given = env::var(format!("GIT_{kind}_{what}")).ok();
    let found = given.or_else(|| keys.iter().find_map(|key| config.get_string(key).ok()));
    found.filter(|text| !text.trim().is_empty())
}

/// The author or the committer of a commit that is made now: `ralph` where none is configured.
pub(super) fn signature(config: &Config, kind: &str) -> Result<Signature<'static>, git2::Error> {
    let value = |what, own: &str| configured(config, kind, what).unwrap_or_else(|| own.to_owned());
    Signature::now(&value("NAME", "ralph"), &value("EMAIL", "ralph@localhost"))
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
    let name = str::from_utf8(target).unwrap_or("HEAD");
    let commit = existing(repo.refname_to_id(name))?.map(commit_id);
    Ok(Head { commit, branch: Some(branch_name(&lossy(target))) })
}

/// HEAD in the worktree whose git directory this is.
fn library_head_in(repo: &Repository, git_dir: &Path) -> Head {
    let text = lossy(&regular_file::read(&git_dir.join("HEAD")).unwrap_or_default());
    let text = text.trim();
    match text.strip_prefix("ref: ") {
        Some(name) => {
            let commit = repo.refname_to_id(name).ok();
            Head { commit: commit.map(commit_id), branch: Some(branch_name(name)) }
        }
        None => Head { commit: is_commit(text).then(|| text.into()), branch: None },
    }
}

/// Checks that the files which git and libgit2 read first are files: either would wait for a FIFO.
fn check_files(dir: &Path) -> Result<()> {
    const FIRST: &[&str] =
        &["", "HEAD", "config", "config.worktree", "commondir", "index", "packed-refs"];
    let git_dir = dir.ancestors().map(|above| above.join(".git")).find(|path| path.exists());
    for path in git_dir.iter().flat_map(|git_dir| FIRST.iter().map(|name| git_dir.join(name))) {
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            bail!("`{}` is not a regular file; remove it", path.display());
        }
    }
    Ok(())
}

/// Opens the repository in a folder for one query.
pub(super) fn open_at_rest(dir: &Path) -> Result<Repository, git2::Error> {
    let repo = Repository::open(dir)?;
    keep_settings(&repo)?;
    Ok(repo)
}

/// Makes libgit2 use the settings as they are now: for each value, it would look at each file of
/// settings again.
fn keep_settings(repo: &Repository) -> Result<(), git2::Error> {
    repo.set_config(&repo.config()?.snapshot()?)
}
