//! The queries that exist twice: once with libgit2, once with the `git` program.
//!
//! libgit2 answers in microseconds where a process takes milliseconds, but it cannot open every
//! repository: SHA-256, reftable, partial clones. [`ask_in`] is the only place that chooses: it asks
//! libgit2 first, and `git` where libgit2 fails, so error messages are always those of `git`.
//! Only reads and updates of objects and refs that run several times per attempt belong here;
//! everything else runs `git` alone. The tests compare both answers.
//!
//! libgit2 waits without end for the rest of a truncated object, and panics at a mode that it does not
//! know. So it reads no object that an attempt wrote before `git` has checked it: in a slot, it reads
//! those of the repository, where work arrives checked, and `git` reads the others.

use std::{
    cell::{Cell, Ref, RefCell},
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result};
use git2::{DiffOptions, ErrorCode, ObjectType, Oid, Repository, RepositoryOpenFlags, Sort};

use super::{Head, branch_name, is_commit, lossy, program, program::HOOKS};
use crate::core::commit_id::CommitId;

/// The mode and id of a commit's entry at each of some paths.
pub(super) type Entries = Vec<Option<String>>;

/// A file that differs between two trees, with its modes: 0 where it is not.
pub(super) type ChangedEntry = (String, [u32; 2]);

/// A commit of a walk through the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WalkedCommit {
    pub(super) id: CommitId,
    pub(super) parents: Vec<CommitId>,
    pub(super) message: String,
}

/// The part of the history that a walk covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    /// The newest commit.
    pub(super) head: &'a str,
    /// The commits whose history is left out.
    pub(super) hidden: &'a [&'a str],
    /// The largest number of commits.
    pub(super) most: usize,
}

/// A repository that libgit2 has opened.
pub(super) struct OpenedRepository {
    repo: Repository,
    /// When a pack was last added or removed. libgit2 keeps a removed pack open.
    packed_at: Option<SystemTime>,
    /// How often it was asked. libgit2 keeps the small objects that it has read, up to 256 MiB.
    asked: Cell<u32>,
}

/// After so many queries a repository is opened again.
const MOST_ASKED: u32 = 1000;

/// Reads the commits and refs of a repository, with libgit2 where possible and else with the `git`
/// program.
pub struct RepoReader {
    /// The top of the worktree, where `git` runs.
    pub(super) root: PathBuf,
    /// Its refs and settings; none where libgit2 cannot open it.
    own: RefCell<Option<OpenedRepository>>,
    /// In a slot, the repository whose objects are read.
    pub(super) main: Option<RefCell<Option<OpenedRepository>>>,
}

impl OpenedRepository {
    fn of(repo: Repository) -> OpenedRepository {
        // Like git, which notices damage by the checksum of the compressed content, and other changes
        // in `git fsck`.
        git2::opts::strict_hash_verification(false);
        let packed_at = packed_at(&repo);
        OpenedRepository { repo, packed_at, asked: Cell::new(0) }
    }
}

fn packed_at(repo: &Repository) -> Option<SystemTime> {
    fs::metadata(repo.commondir().join("objects/pack")).ok()?.modified().ok()
}

/// The repository, opened again if its packs have changed or it was asked often.
fn opened(place: &RefCell<Option<OpenedRepository>>) -> Option<Ref<'_, Repository>> {
    let is_old = |it: &OpenedRepository| {
        it.asked.set(it.asked.get() + 1);
        it.asked.get() > MOST_ASKED || packed_at(&it.repo) != it.packed_at
    };
    if place.borrow().as_ref().is_some_and(is_old)
        && let Ok(mut place) = place.try_borrow_mut()
        && let Some(old) = place.take()
    {
        *place = Repository::open(old.repo.path()).ok().map(OpenedRepository::of);
    }
    Ref::filter_map(place.borrow(), |it| it.as_ref().map(|it| &it.repo)).ok()
}

/// Asks libgit2, and `git` in the folder `root` where libgit2 cannot answer.
fn ask_in<T>(
    place: &RefCell<Option<OpenedRepository>>,
    root: &Path,
    library: impl FnOnce(&Repository) -> Result<T, git2::Error>,
    program: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let answer = opened(place).and_then(|repo| library(&repo).ok());
    answer.map_or_else(|| program(root), Ok)
}

/// The refs in these folders of a repository with its top in `root`.
pub(super) fn refs_in(
    place: &RefCell<Option<OpenedRepository>>,
    root: &Path,
    folders: &[&str],
) -> Result<Vec<u8>> {
    let library = |repo: &Repository| {
        let odb = repo.odb()?;
        let mut found = BTreeMap::new();
        for reference in repo.references()? {
            let reference = reference?;
            let name = reference.name_bytes().to_owned();
            let is_in = |folder: &&str| {
                let rest = name.strip_prefix(folder.as_bytes());
                rest.is_some_and(|rest| rest.starts_with(b"/"))
            };
            if !folders.iter().any(is_in) {
                continue;
            }
            let id = match reference.target() {
                Some(id) => Some(id),
                None => reference.resolve()?.target(),
            };
            let id = id.filter(|id| odb.exists(*id));
            // Git leaves it out, and says so.
            let id = id.ok_or_else(|| git2::Error::from_str("a ref is broken"))?;
            found.insert(name, id);
        }
        let lines = found.into_iter().flat_map(|(name, id)| {
            [id.to_string().into_bytes(), b" ".to_vec(), name, b"\n".to_vec()].concat()
        });
        Ok(lines.collect())
    };
    let list = ["for-each-ref", "--format=%(objectname) %(refname)"];
    ask_in(place, root, library, |root| program::run(root, &[&list[..], folders].concat()))
}

impl RepoReader {
    /// The repository that contains `dir`, as far as libgit2 can open it.
    pub(super) fn discover(dir: &Path) -> RepoReader {
        let ceilings: Vec<PathBuf> = env::var_os("GIT_CEILING_DIRECTORIES")
            .map(|list| env::split_paths(&list).collect())
            .unwrap_or_default();
        let repo = Repository::open_ext(dir, RepositoryOpenFlags::empty(), ceilings);
        RepoReader::of(dir, repo.ok())
    }

    /// A repository that libgit2 has opened, or that it cannot open.
    pub(super) fn of(root: &Path, repo: Option<Repository>) -> RepoReader {
        let own = RefCell::new(repo.map(OpenedRepository::of));
        RepoReader { root: root.to_owned(), own, main: None }
    }

    /// Reads the objects of another repository, from which this one borrows, and those that it does not
    /// have with the program.
    pub(super) fn read_objects_of(&mut self, git_dir: &Path) {
        let main = Repository::open(git_dir).ok().map(OpenedRepository::of);
        self.main = Some(RefCell::new(main));
    }

    /// The same repository without libgit2.
    #[cfg(test)]
    pub(super) fn without_library(self) -> RepoReader {
        RepoReader::of(&self.root, None)
    }

    /// Asks libgit2 about refs or settings, and `git` where libgit2 cannot answer.
    pub(super) fn ask<T>(
        &self,
        library: impl FnOnce(&Repository) -> Result<T, git2::Error>,
        program: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        ask_in(&self.own, &self.root, library, program)
    }

    /// Asks libgit2 about objects, and `git` where libgit2 cannot answer.
    fn ask_objects<T>(
        &self,
        library: impl FnOnce(&Repository) -> Result<T, git2::Error>,
        program: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let place = self.main.as_ref().unwrap_or(&self.own);
        ask_in(place, &self.root, library, program)
    }

    /// The current position of HEAD. Reads two small files, and neither index nor worktree.
    pub fn head(&self) -> Result<Head> {
        let library = |repo: &Repository| {
            let head = repo.find_reference("HEAD")?;
            let Some(target) = head.symbolic_target_bytes() else {
                let commit = head.target().map(commit_id);
                return Ok(Head { commit, branch: None });
            };
            let name = str::from_utf8(target).unwrap_or("HEAD");
            let commit = existing(repo.refname_to_id(name))?.map(commit_id);
            Ok(Head { commit, branch: Some(branch_name(&lossy(target))) })
        };
        // One process; three on a branch without a commit, where `rev-parse` fails.
        let program = |root: &Path| {
            let ask = ["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"];
            let output = program::run_raw(root, &ask, &[])?;
            let text = lossy(&output.stdout);
            if output.status.success()
                && let [commit, name] = text.lines().collect::<Vec<_>>()[..]
            {
                let branch = (name != "HEAD").then(|| branch_name(name));
                return Ok(Head { commit: Some(commit.into()), branch });
            }
            let branch = program::answer(root, &["symbolic-ref", "-q", "HEAD"])?;
            let branch = branch.map(|name| branch_name(&name));
            Ok(Head { commit: program::commit(root, "HEAD")?, branch })
        };
        self.ask(library, program).context("cannot read HEAD")
    }

    /// The commit that a ref points to, or with this id, or the first parent of that (`ID^`); none without it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn commit_of(&self, name: &str) -> Result<Option<CommitId>> {
        let program = |root: &Path| {
            program::commit(root, name).with_context(|| format!("cannot look for `{name}`"))
        };
        let child = name.strip_suffix('^').filter(|id| is_commit(id));
        let id = if let Some(id) = child.or_else(|| is_commit(name).then_some(name)) {
            id.to_owned()
        } else {
            let library = |repo: &Repository| existing(repo.refname_to_id(name));
            let found = opened(&self.own).map(|repo| library(&repo));
            match found {
                Some(Ok(Some(id))) => id.to_string(),
                Some(Ok(None)) => return Ok(None),
                // Also for the name of a parent, such as `HEAD^`.
                Some(Err(_)) | None => return program(&self.root),
            }
        };
        let library = |repo: &Repository| {
            let found = repo.find_object(Oid::from_str(&id)?, None);
            let found = found.and_then(|found| found.peel_to_commit());
            let found = if child.is_some() { found.and_then(|it| it.parent(0)) } else { found };
            // A slot may have it.
            let found = if self.main.is_some() { found.map(Some) } else { existing(found) };
            Ok(found?.map(|found| commit_id(found.id())))
        };
        self.ask_objects(library, program)
    }

    /// Points the ref `name` to a commit.
    pub(super) fn set_ref(&self, name: &str, commit: &str) -> Result<()> {
        const WHY: &str = "ralph: kept";
        let library = |repo: &Repository| {
            let id = Oid::from_str(commit)?;
            repo.find_commit(id)?;
            repo.reference(name, id, true, WHY).map(drop)
        };
        let update = ["update-ref", "-m", WHY, name, commit];
        self.ask(library, |root| program::run(root, &update).map(drop))
    }

    /// Deletes the ref `name` if it points to `old`. libgit2 does this without a lock on the packed
    /// refs, where a killed `git` may have left one.
    pub(super) fn delete_ref(&self, name: &str, old: &str) -> Result<()> {
        let library = |repo: &Repository| {
            let mut found = repo.find_reference(name)?;
            // libgit2 refuses, as git does, when the ref moves before it is deleted.
            if found.target() == Some(Oid::from_str(old)?) {
                found.delete()?;
                remove_empty_folders(repo.commondir(), name);
            }
            Ok(())
        };
        self.ask(library, |root| program::run(root, &["update-ref", "-d", name, old]).map(drop))
    }

    /// The refs in these folders, sorted by name: a line with the id and the name for each.
    pub(super) fn refs(&self, folders: &[&str]) -> Result<Vec<u8>> {
        refs_in(&self.own, &self.root, folders)
    }

    /// The configured folder of the hooks; none without a setting.
    pub(super) fn hooks_path(&self) -> Result<Option<String>> {
        let library = |repo: &Repository| {
            let path = existing(repo.config()?.snapshot()?.get_path(HOOKS))?;
            Ok(path.map(|path| path.display().to_string()))
        };
        let program = |root: &Path| {
            let get = ["config", "--type=path", "-z", "--get-all", HOOKS];
            let all = lossy(&program::run(root, &get)?);
            // The last value is the one of `command`, which turns hooks off for this call.
            let others = all.strip_suffix('\0').and_then(|all| all.rsplit_once('\0'));
            Ok(others.and_then(|(others, _)| others.rsplit('\0').next()).map(str::to_owned))
        };
        self.ask(library, program)
    }

    /// Whether `new` is `old` or descends from it.
    ///
    /// # Errors
    /// The error of `git`, for example when one of them is not in the repository.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool> {
        let library = |repo: &Repository| {
            let (old, new) = (Oid::from_str(old)?, Oid::from_str(new)?);
            repo.find_commit(old)?;
            Ok(old == new || repo.graph_descendant_of(new, old)?)
        };
        let program = |root: &Path| program::test(root, &["merge-base", "--is-ancestor", old, new]);
        self.ask_objects(library, program)
    }

    /// The commits of a walk for which `is_wanted` is true, newest first.
    pub(super) fn walk(
        &self,
        walk: Walk<'_>,
        is_wanted: impl Fn(&WalkedCommit) -> bool,
    ) -> Result<Vec<WalkedCommit>> {
        let library = |repo: &Repository| {
            let mut commits = repo.revwalk()?;
            // A child may be older than its parent by its time.
            let order = if walk.hidden.is_empty() { Sort::NONE } else { Sort::TOPOLOGICAL };
            commits.set_sorting(order)?;
            commits.push(Oid::from_str(walk.head)?)?;
            walk.hidden.iter().try_for_each(|id| commits.hide(Oid::from_str(id)?))?;
            let mut found = Vec::new();
            for id in commits {
                if found.len() == walk.most {
                    break;
                }
                let commit = repo.find_commit(id?)?;
                let commit = WalkedCommit {
                    id: commit_id(commit.id()),
                    parents: commit.parent_ids().map(commit_id).collect(),
                    message: lossy(commit.message_raw_bytes()),
                };
                found.extend(Some(commit).filter(&is_wanted));
            }
            Ok(found)
        };
        let program = |root: &Path| {
            let hidden: Vec<String> = walk.hidden.iter().map(|id| format!("^{id}")).collect();
            let order = (!hidden.is_empty()).then_some("--topo-order");
            let format = ["log", "-z", "--format=%H%n%P%n%B", "--encoding=UTF-8", walk.head];
            let hidden = hidden.iter().map(String::as_str).chain(order);
            let list: Vec<&str> = format.into_iter().chain(hidden).chain(["--"]).collect();
            let text = lossy(&program::run(root, &list)?);
            let commit = |entry: &str| {
                let mut lines = entry.splitn(3, '\n');
                let (id, parents) = (lines.next()?, lines.next()?);
                let parents = parents.split_whitespace().map(CommitId::from).collect();
                let message = lines.next().unwrap_or_default().to_owned();
                Some(WalkedCommit { id: id.into(), parents, message })
            };
            let commits = text.split('\0').filter_map(commit).filter(&is_wanted);
            Ok(commits.take(walk.most).collect())
        };
        self.ask_objects(library, program)
    }

    /// A file of a commit, by its path relative to the root; none if the commit does not contain it, or
    /// has a folder or a submodule there.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn file_at(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let id = if is_commit(commit) { Some(commit.into()) } else { self.commit_of(commit)? };
        let Some(commit) = id.as_deref() else { return Ok(None) };
        let library = |repo: &Repository| {
            let tree = repo.find_commit(Oid::from_str(commit)?)?.tree()?;
            let found = existing(tree.get_path(Path::new(path)))?;
            let file = found.filter(|found| found.kind() == Some(ObjectType::Blob));
            let Some(file) = file else { return Ok(None) };
            Ok(Some(repo.find_blob(file.id())?.content().to_vec()))
        };
        let program = |root: &Path| {
            let text = program::run(root, &["cat-file", "blob", &format!("{commit}:{path}")]);
            text.map(Some).or_else(|failed| match self.entry(commit, path)? {
                Some(entry) if entry.starts_with("10") || entry.starts_with("12") => Err(failed),
                _ => Ok(None),
            })
        };
        self.ask_objects(library, program)
            .with_context(|| format!("cannot read `{path}` of commit {commit}"))
    }

    /// The mode and id of a commit's entry at each of the paths.
    pub(super) fn entries(&self, commit: &str, paths: &[&str]) -> Result<Entries> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let library = |repo: &Repository| {
            let tree = repo.find_commit(Oid::from_str(commit)?)?.tree()?;
            let entry = |path: &&str| {
                let found = existing(tree.get_path(Path::new(path)))?;
                Ok(found.map(|entry| format!("{:06o} {}", entry.filemode(), entry.id())))
            };
            paths.iter().map(entry).collect()
        };
        let program = |root: &Path| {
            let list = [&["--literal-pathspecs", "ls-tree", "-z", commit, "--"], paths].concat();
            let text = lossy(&program::run(root, &list)?);
            let mut entries = vec![None; paths.len()];
            for (what, path) in text.split('\0').filter_map(|entry| entry.split_once('\t')) {
                let mut words = what.split(' ');
                if let (Some(at), Some(mode), Some(id)) =
                    (paths.iter().position(|it| *it == path), words.next(), words.nth(1))
                {
                    entries[at] = Some(format!("{mode} {id}"));
                }
            }
            Ok(entries)
        };
        self.ask_objects(library, program).with_context(|| format!("cannot read commit {commit}"))
    }

    /// The tree of a commit or of a tree.
    pub(super) fn tree_of(&self, head: &str) -> Result<String> {
        let library = |repo: &Repository| {
            let found = repo.find_object(Oid::from_str(head)?, None)?;
            Ok(found.peel_to_tree()?.id().to_string())
        };
        let verify = ["rev-parse", "--verify", &format!("{head}^{{tree}}")];
        let program = |root: &Path| Ok(lossy(&program::run(root, &verify)?).trim().to_owned());
        self.ask_objects(library, program)
    }

    /// The files that differ between two commits or trees. Without `base`, all files of `head`. A renamed
    /// file is one removed and one added.
    pub(super) fn changed_entries(
        &self,
        base: Option<&str>,
        head: &str,
    ) -> Result<Vec<ChangedEntry>> {
        let library = |repo: &Repository| {
            let tree = |name: &str| repo.find_object(Oid::from_str(name)?, None)?.peel_to_tree();
            let base = base.map(tree).transpose()?;
            let mut options = DiffOptions::new();
            options.include_typechange(true);
            let head = tree(head)?;
            let diff = repo.diff_tree_to_tree(base.as_ref(), Some(&head), Some(&mut options))?;
            let entry = |delta: git2::DiffDelta<'_>| {
                let modes = [delta.old_file(), delta.new_file()].map(|it| it.mode().into());
                Some((lossy(delta.new_file().path_bytes()?), modes))
            };
            Ok(diff.deltas().filter_map(entry).collect())
        };
        let program = |root: &Path| {
            let base =
                base.map_or_else(|| program::empty_tree(root), |base| Ok(base.to_owned()))?;
            let diff = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff"];
            let text = lossy(&program::run(root, &[&diff[..], &[&base, head]].concat())?);
            let mut fields = text.split('\0');
            let mut found = Vec::new();
            // Two fields for each file: `:OLD NEW …`, with the modes in octal, then the path.
            while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
                let mut modes = entry.trim_start_matches(':').split(' ');
                let mut mode = || u32::from_str_radix(modes.next()?, 8).ok();
                found.push((path.to_owned(), [(); 2].map(|()| mode().unwrap_or(0))));
            }
            Ok(found)
        };
        self.ask_objects(library, program)
    }
}

/// Removes the folders that a deleted ref leaves empty, as git does and libgit2 does not: every
/// later list of refs reads them. Those of `refs/heads` and the like stay.
fn remove_empty_folders(common_dir: &Path, name: &str) {
    let folders =
        Path::new(name).ancestors().skip(1).take_while(|path| path.components().count() > 2);
    for folder in folders {
        if fs::remove_dir(common_dir.join(folder)).is_err() {
            return;
        }
    }
}

pub(super) fn commit_id(id: Oid) -> CommitId {
    id.to_string().into()
}

/// None if libgit2 finds nothing.
pub(super) fn existing<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        other => other.map(Some),
    }
}
