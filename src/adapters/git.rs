//! A git repository: HEAD, the commits since a base, and uncommitted changes.
//!
//! The only user of `git2`. Most of it reads. Writers have files of their own: lines in
//! `info/exclude`, refs under `refs/ralph/` (`git/pin`), a commit of given paths (`git/commit`),
//! and the move of a branch with its checkout (`git/land`). It knows neither tasks nor attempts,
//! and does not judge its input.
//!
//! The `git` program does the work. `git/reader` reads objects and refs with libgit2 where libgit2
//! can open the repository.

use std::{
    cell::{Cell, OnceCell},
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs,
    ops::Deref,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use git2::{ErrorCode, Repository, Status, StatusOptions, StatusShow};

mod bounded;
mod change;
mod commit;
mod confined;
mod control;
mod control_tree;
mod head;
mod history;
mod integrate;
mod land;
mod omit;
mod own_commits;
mod pin;
mod program;
mod reader;
mod restore;
mod slot;
mod slot_settings;
mod submodule;
mod tip;
mod transfer;
mod worktree;

pub use bounded::{
    CallStopped, ask_while_waiting, end_calls, is_stopped, limit_signing, mark_calls, stop_calls,
};
pub use change::{AppliedChange, ChangeStyle};
pub use change::{KEEPS_ADDED, REGENERATES};
pub use commit::CommitDraft;
pub use confined::{confine, remove_redirect};
pub use control::{CommitStep, MergedLines, merge_lines, pattern};
pub use control_tree::{changed_lines, inserted_lines};
pub use head::HeadPlace;
pub use history::{Head, LISTED, Patch, Since};
pub use integrate::{BranchWork, Integrated, IntegrationMethod};
pub use land::Following;
pub use own_commits::AttemptStart;
pub use pin::{Pin, PinSource};
pub use program::{leave_repository, unsigned};
pub use reader::RepoReader;
pub use restore::{NOT_WORK, RestoredWork, is_marked};
pub use slot::{put_away, remove_parent, remove_special_files};
use slot_settings::split_at;
pub use slot_settings::{PushRule, SlotSettings};
pub use tip::{BranchTip, TipStanding};
pub use transfer::{
    BrokenSlot, FetchedWork, GitLine, GitService, SlotInUse, WorkerSlot, WorkerStore,
};
pub use worktree::Worktree;

use crate::regular_file;

/// Defines the parts of `ralph`'s git access, one per responsibility.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident = $accessor:ident;)*) => {
        $(
            $(#[$doc])*
            pub struct $name<'a>(&'a Repo);

            impl Deref for $name<'_> {
                type Target = Repo;

                fn deref(&self) -> &Repo {
                    self.0
                }
            }
        )*

        impl Repo {
            $(
                $(#[$doc])*
                pub fn $accessor(&self) -> $name<'_> {
                    $name(self)
                }
            )*
        }
    };
}

parts! {
    /// Work that is kept under refs.
    Pins = pins;
    /// Commits of some files, and their versions in the index.
    CommitMaker = commits;
    /// Branches that move forward to verified work.
    BranchLandings = landings;
    /// HEAD and the branch of the checkout of an attempt.
    CheckoutHead = checkout_head;
    /// Git rules outside of commits: hooks, merge drivers, ignore rules.
    LocalRules = local;
    /// Work that is put on top of another commit, in a slot.
    Integration = integration;
    /// The slots of this repository, which they borrow objects from.
    Slots = slots;
    /// Work in slots on its way to other machines and back.
    Transfers = transfers;
    /// This repository as a slot. Moves of its HEAD are refused elsewhere.
    Slot = slot;
}

/// Paths relative to the root, with the two letters of `git status`.
type Codes = BTreeMap<Vec<u8>, String>;

/// An open repository with a worktree.
pub struct Repo {
    reader: RepoReader,
    common_dir: PathBuf,
    /// The git directory of this worktree; equal to `common_dir` in the main worktree.
    git_dir: PathBuf,
    /// The top of the repository of this slot, once requested.
    slot_of: OnceCell<Option<PathBuf>>,
    /// Whether an attempt works in it at this moment.
    is_live: Cell<bool>,
}

/// The folders of a repository, without symbolic links.
struct RepositoryFolders {
    /// The top of the worktree.
    root: PathBuf,
    /// The git directory that all worktrees share.
    common_dir: PathBuf,
    /// The git directory of this worktree.
    git_dir: PathBuf,
}

impl Deref for Repo {
    type Target = RepoReader;

    fn deref(&self) -> &RepoReader {
        &self.reader
    }
}

impl Repo {
    /// Opens the repository that contains `dir`.
    ///
    /// # Errors
    /// When there is none, when it is bare, and when `git` refuses to open it; a special file where
    /// git reads.
    pub fn discover(dir: &Path) -> Result<Repo> {
        check_files(dir)?;
        let reader = RepoReader::discover(dir);
        let folders = |repo: &Repository| {
            let root = repo.workdir().ok_or_else(|| git2::Error::from_str("a bare repository"))?;
            Ok(RepositoryFolders {
                root: root.to_owned(),
                common_dir: repo.commondir().to_owned(),
                git_dir: repo.path().to_owned(),
            })
        };
        let folders = reader.ask(folders, |_| program::folders(dir))?;
        let git_dir = canonical(&folders.git_dir)?;
        let is_added = folders.common_dir != folders.git_dir;
        let folders = RepositoryFolders {
            root: canonical(&folders.root)?,
            common_dir: if is_added { canonical(&folders.common_dir)? } else { git_dir.clone() },
            git_dir,
        };
        Ok(Repo::of(folders, reader))
    }

    /// Opens a bare repository: for uses without files and index.
    fn bare(dir: &Path) -> Result<Repo> {
        let dir = canonical(dir)?;
        let reader = RepoReader::of(&dir, Repository::open_bare(&dir).ok());
        let (root, common_dir) = (dir.clone(), dir.clone());
        Ok(Repo::of(RepositoryFolders { root, common_dir, git_dir: dir }, reader))
    }

    fn of(folders: RepositoryFolders, mut reader: RepoReader) -> Repo {
        let RepositoryFolders { root, common_dir, git_dir } = folders;
        reader.root = root;
        let (slot_of, is_live) = (OnceCell::new(), Cell::default());
        Repo { reader, common_dir, git_dir, slot_of, is_live }
    }

    /// Whether no repository contains `dir`, not even an unreadable one.
    pub fn is_missing(dir: &Path) -> bool {
        let found = Repository::discover_path(dir, &[] as &[PathBuf]);
        found.is_err_and(|error| error.code() == ErrorCode::NotFound)
    }

    /// Creates a repository in `dir`, as `git init` does.
    ///
    /// # Errors
    /// The error of libgit2.
    pub fn init(dir: &Path) -> Result<()> {
        Repository::init(dir).map(drop).with_context(|| format!("git init `{}`", dir.display()))
    }

    /// The top of the worktree, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a folder is the top of the worktree, and does not only lie below it.
    pub fn is_top(&self, folder: &Path) -> bool {
        folder == self.root || fs::canonicalize(folder).is_ok_and(|folder| folder == self.root)
    }

    /// The git directory that all worktrees of the repository share, without symbolic links.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The operation in progress in this worktree, such as `a merge`.
    pub fn unfinished(&self) -> Option<&'static str> {
        // Checks the same files as `git status`; works where libgit2 cannot open the repository.
        let signs = [
            ("MERGE_HEAD", "a merge"),
            ("rebase-merge", "a rebase"),
            ("rebase-apply", "a rebase"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
        ];
        signs.into_iter().find(|(name, _)| self.git_dir.join(name).exists()).map(|(_, what)| what)
    }

    /// The lock files of git that exist now: of the index, HEAD, the configuration, packed and
    /// loose references. Locks of other worktrees and of `ralph` are not included.
    pub fn locks(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![
            (self.common_dir.clone(), 0),
            (self.common_dir.join("reftable"), 0),
            (self.common_dir.join("refs"), usize::MAX),
        ];
        if self.is_added() {
            folders.push((self.git_dir.clone(), 0));
        }
        for (folder, depth) in folders {
            lock_files(folder, depth, &mut found);
        }
        found.sort();
        found.dedup();
        found
    }

    /// The paths that are changed, staged, or untracked and not ignored, each with a fingerprint
    /// that differs after the file has changed again. Untracked directories are listed file by
    /// file. The index is not refreshed.
    ///
    /// A submodule or nested repository is one path; its fingerprint depends on its HEAD, not on
    /// the files in it.
    pub fn dirty(&self) -> Result<BTreeMap<String, String>> {
        let codes = self.codes()?;
        let changed = codes.iter().map(|(path, code)| (lossy(path), self.fingerprint(path, code)));
        Ok(changed.collect())
    }

    /// The git directory of this worktree alone.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Whether any ref contains a commit. Not if the repository does not have the commit.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn keeps(&self, commit: &str) -> Result<bool> {
        let head = self.head()?;
        if let (Some(_), Some(tip)) = (head.branch, head.commit)
            && matches!(self.is_ancestor(commit, &tip), Ok(true))
        {
            return Ok(true);
        }
        if self.commit_of(commit)?.is_none() {
            return Ok(false);
        }
        let list = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit];
        Ok(!program::run(&self.root, &list)?.is_empty())
    }

    /// Keeps a commit under the ref `name`.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn keep(&self, name: &str, commit: &str) -> Result<()> {
        self.set_ref(name, commit)
    }

    /// Deletes a ref. Does nothing without it.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn drop_ref(&self, name: &str) -> Result<()> {
        match self.commit_of(name)? {
            Some(commit) => self.delete_ref(name, &commit),
            None => Ok(()),
        }
    }

    /// Packs the refs once those of attempts are many files: a long run makes one for each task.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn pack_refs(&self) -> Result<()> {
        /// How many tasks may have a folder of refs.
        const MOST: usize = 100;
        let folders = fs::read_dir(self.common_dir.join("refs/ralph")).map_or(0, Iterator::count);
        if folders <= MOST {
            return Ok(());
        }
        program::run(&self.root, &["pack-refs", "--all"]).map(drop)
    }

    fn codes(&self) -> Result<Codes> {
        if self.is_live.get() && confined::is_on() {
            return self.codes_by_library();
        }
        let codes = program::status(&self.root).context("cannot read the status of the worktree");
        if confined::is_on() {
            return self.with_nested(codes?);
        }
        codes
    }

    /// Notes that an attempt works in it: in a sandbox it may just have changed git's settings, so
    /// that changes are read without git.
    pub fn note_live(&self) {
        self.is_live.set(true);
    }

    fn codes_by_library(&self) -> Result<Codes> {
        let mut look = StatusOptions::new();
        look.show(StatusShow::Workdir).include_untracked(true).recurse_untracked_dirs(true);
        let repo = Repository::open(&self.root)?;
        let found = repo.statuses(Some(look.exclude_submodules(true)))?;
        let code = |status: Status| match () {
            () if status.is_wt_new() => "??",
            () if status.is_wt_deleted() => ".D",
            () => ".M",
        };
        let codes =
            found.iter().map(|it| (it.path_bytes().to_owned(), code(it.status()).to_owned()));
        Ok(codes.collect())
    }

    /// Adds the nested repositories with changed files, which git has not entered. libgit2 starts
    /// no program.
    fn with_nested(&self, mut codes: Codes) -> Result<Codes> {
        let list = program::run(&self.root, &["ls-files", "--stage", "-z"])?;
        let links = list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        for path in links.filter_map(|entry| Some(split_at(entry, b'\t')?.1)) {
            let Ok(nested) = Repository::open(self.file(path)) else { continue };
            let mut look = StatusOptions::new();
            look.show(StatusShow::Workdir).include_untracked(true).exclude_submodules(true);
            if !nested.statuses(Some(&mut look)).is_ok_and(|found| found.is_empty()) {
                codes.entry(path.to_owned()).or_insert_with(|| ".M".to_owned());
            }
        }
        Ok(codes)
    }

    /// The changed paths that have these names; a name is lossy where its path is not UTF-8.
    fn changed(&self, names: &[String]) -> Result<Codes> {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        let mut codes = self.codes()?;
        codes.retain(|path, _| names.contains(&*lossy(path)));
        Ok(codes)
    }

    fn file(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn fingerprint(&self, path: &[u8], code: &str) -> String {
        let file = self.file(path);
        let Ok(found) = fs::symlink_metadata(&file) else {
            return format!("{code} gone");
        };
        if found.is_dir() {
            let is_nested = file.join(".git").exists();
            let commit = is_nested.then(|| program::commit(&file, "HEAD").ok().flatten()).flatten();
            let commit = commit.map(String::from).unwrap_or_default();
            return format!("{code} {commit}");
        }
        format!(
            "{code} {} {}.{:09} {:o}",
            found.size(),
            found.mtime(),
            found.mtime_nsec(),
            found.mode()
        )
    }
}

fn lock_files(folder: PathBuf, depth: usize, found: &mut Vec<PathBuf>) {
    let mut open = vec![(folder, depth)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) && depth > 0 {
                open.push((path, depth - 1));
            } else if kind.is_ok_and(|kind| kind.is_file())
                && path.extension().is_some_and(|extension| extension == "lock")
            {
                found.push(path);
            }
        }
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
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"config")) {
            check_includes(&path, 10)?;
        }
    }
    Ok(())
}

/// Refuses files of settings that another one includes and that are no regular files. libgit2 would
/// wait for a FIFO without end.
fn check_includes(config: &Path, depth: usize) -> Result<()> {
    let Some(text) = regular_file::read(config).ok().filter(|_| depth > 0) else {
        return Ok(());
    };
    let text = lossy(&text);
    let keys = text.split(['\n', ']']).filter_map(|line| line.split_once('='));
    let paths = keys.filter(|(key, _)| key.trim().eq_ignore_ascii_case("path"));
    for (_, value) in paths {
        let value = value.trim().trim_matches('"');
        let home = std::env::home_dir().unwrap_or_default();
        let path = match value.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => config.parent().unwrap_or(Path::new("")).join(value),
        };
        if regular_file::is_special(&path) {
            let (config, path) = (config.display(), path.display());
            bail!("`{config}` includes `{path}`, which is not a regular file; take that line out");
        }
        check_includes(&path, depth - 1)?;
    }
    Ok(())
}

fn bare(dir: &Path) -> anyhow::Error {
    anyhow!(
        "`{}` is in a bare git repository, which has no files to work on; use a clone",
        dir.display()
    )
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("cannot read `{}`", path.display()))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the text is a full commit id.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn branch_name(reference: &str) -> String {
    reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned()
}

/// The program in a folder, with an identity and without the settings of this machine.
#[cfg(test)]
pub fn git_in(dir: &Path) -> std::process::Command {
    let mut command = std::process::Command::new("git");
    for name in program::FOREIGN {
        command.env_remove(name);
    }
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@b.c")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@b.c");
    command
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs::File,
        os::unix::fs::{PermissionsExt, symlink},
        process::{Command, Output},
    };

    use tempfile::TempDir;

    use super::*;
    use crate::core::{
        commit_id::CommitId,
        verdict::{Commit, DiffStat},
    };

    /// A folder with a repository in `top`, and `git` without the configuration of this machine.
    pub(super) struct TestRepository {
        folder: TempDir,
        pub(super) top: PathBuf,
    }

    impl TestRepository {
        /// None, with a message, when the installed git does not know the options.
        pub(super) fn with(options: &[&str]) -> Option<TestRepository> {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap().join("top");
            fs::create_dir(&top).unwrap();
            let place = TestRepository { folder, top };
            let arguments = [&["init", "-q", "-b", "main"], options].concat();
            if place.try_git(&place.top, &arguments).status.success() {
                return Some(place);
            }
            println!("skipped: git does not know {options:?}");
            None
        }

        pub(super) fn new() -> TestRepository {
            TestRepository::with(&[]).expect("a plain repository")
        }

        pub(super) fn try_git(&self, dir: &Path, arguments: &[&str]) -> Output {
            let mut command = git_in(dir);
            let command = command.args(["-c", "protocol.file.allow=always"]).args(arguments);
            command.env("HOME", self.folder.path()).output().unwrap()
        }

        pub(super) fn git_in(&self, dir: &Path, arguments: &[&str]) -> String {
            let output = self.try_git(dir, arguments);
            let said = lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {said}");
            lossy(&output.stdout).trim().to_owned()
        }

        pub(super) fn git(&self, arguments: &[&str]) -> String {
            self.git_in(&self.top, arguments)
        }

        pub(super) fn write(&self, path: &str, text: &str) {
            let file = self.top.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// Writes, adds and commits a file, and returns the id.
        pub(super) fn commit(&self, path: &str, text: &str, message: &str) -> CommitId {
            self.write(path, text);
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", message]);
            self.git(&["rev-parse", "HEAD"]).into()
        }

        fn both(&self) -> Both {
            Both::at(&self.top)
        }
    }

    /// A repository with one commit, and folders next to it for slots and worktrees.
    pub(super) struct TestSlots {
        pub(super) place: TestRepository,
        pub(super) first: CommitId,
    }

    impl TestSlots {
        pub(super) fn with(options: &[&str]) -> Option<TestSlots> {
            let place = TestRepository::with(options)?;
            let first = place.commit("a", "1\n", "First");
            Some(TestSlots { place, first })
        }

        pub(super) fn new() -> TestSlots {
            TestSlots::with(&[]).unwrap()
        }

        pub(super) fn path(&self, name: &str) -> PathBuf {
            self.place.top.parent().unwrap().join("top.slots").join(name)
        }

        pub(super) fn main(&self) -> Repo {
            Repo::discover(&self.place.top).unwrap()
        }

        /// A slot at the first commit.
        pub(super) fn add(&self, name: &str) -> Repo {
            let main = self.main();
            main.slots()
                .make(
                    &self.path(name),
                    &main.slots().settings(PushRule::Refuse).unwrap(),
                    &self.first,
                )
                .unwrap()
        }

        /// A worktree at the first commit, on no branch.
        pub(super) fn worktree(&self, name: &str) -> Repo {
            let path = self.path(name);
            let path_text = path.to_str().unwrap();
            self.place.git(&["worktree", "add", "-q", "--detach", path_text, &self.first]);
            Repo::discover(&path).unwrap()
        }

        /// Brings a commit of a slot home.
        pub(super) fn bring(&self, slot: &Repo, commit: &str) {
            let name = format!("refs/ralph/test/{commit}");
            self.main().slots().bring_home(slot, commit, &name).unwrap();
        }

        pub(super) fn git(&self, repo: &Repo, arguments: &[&str]) -> String {
            self.place.git_in(repo.root(), arguments)
        }

        pub(super) fn commit(&self, repo: &Repo, path: &str, text: &str) -> CommitId {
            fs::write(repo.root().join(path), text).unwrap();
            self.git(repo, &["add", "-A"]);
            self.git(repo, &["commit", "-q", "-m", path]);
            self.git(repo, &["rev-parse", "HEAD"]).into()
        }
    }

    pub(super) fn without_library(repo: &Repo) -> Repo {
        let repo = Repo::discover(repo.root()).unwrap();
        Repo { reader: repo.reader.without_library(), ..repo }
    }

    pub(super) fn on(head: &str, branch: Option<&str>) -> (Option<CommitId>, Option<String>) {
        (Some(head.into()), branch.map(str::to_owned))
    }

    pub(super) fn said<T>(result: Result<T>) -> String {
        format!("{:#}", result.err().expect("an error"))
    }

    /// The same repository with libgit2 and without; both must give the same answers.
    struct Both {
        library: Repo,
        program: Repo,
    }

    impl Both {
        fn at(dir: &Path) -> Both {
            let library = Repo::discover(dir).unwrap();
            let program = without_library(&library);
            Both { library, program }
        }

        fn ask<T: PartialEq + std::fmt::Debug>(&self, ask: impl Fn(&Repo) -> Result<T>) -> T {
            let answer = ask(&self.library).unwrap();
            assert_eq!(answer, ask(&self.program).unwrap(), "libgit2 and git differ");
            answer
        }

        fn head(&self) -> (Option<CommitId>, Option<String>) {
            let head = self.ask(|repo| repo.head());
            (head.commit, head.branch)
        }

        fn since(&self, base: Option<&str>) -> Since {
            self.ask(|repo| repo.since(base))
        }

        fn dirty(&self) -> BTreeMap<String, String> {
            self.ask(Repo::dirty)
        }

        /// The paths with their two letters.
        fn codes(&self) -> Vec<(String, String)> {
            let short = |(path, print): (String, String)| (path, print[..2].to_owned());
            self.dirty().into_iter().map(short).collect()
        }
    }

    fn subjects(commits: &[Commit]) -> Vec<&str> {
        commits.iter().map(|commit| &*commit.subject).collect()
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        list.iter().map(owned).collect()
    }

    #[test]
    fn no_repository_and_a_bare_one_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |dir: &Path| Repo::discover(dir).err().unwrap().to_string();
        let path = folder.path().display();
        assert_eq!(
            refused(folder.path()),
            format!("`{path}` is not in a git repository; make one with `git init`")
        );
        assert!(refused(&folder.path().join("none")).contains("none"));
        let place = TestRepository::with(&["--bare"]).unwrap();
        assert!(refused(&place.top).contains("bare git repository"));
        for format in ["--object-format=sha256", "--ref-format=reftable"] {
            if let Some(place) = TestRepository::with(&["--bare", format]) {
                assert!(refused(&place.top).contains("bare git repository"));
            }
        }
    }

    #[test]
    fn errors_come_from_git() {
        let place = TestRepository::new();
        place.commit("a", "1\n", "First");
        // With the user's own settings, which may trust every folder.
        let status = || Command::new("git").arg("status").current_dir(&place.top).output();
        let minds_owner = || !status().unwrap().status.success();
        if std::os::unix::fs::chown(&place.top, Some(4321), None).is_err() || !minds_owner() {
            println!("skipped: needs root and a git that minds the owner");
            return;
        }
        let refused = Repo::discover(&place.top).err().unwrap().to_string();
        assert!(refused.contains("dubious ownership"), "{refused}");
        assert!(refused.contains("safe.directory"), "{refused}");
        fs::write(place.top.join(".git/config"), "[core\n").unwrap();
        std::os::unix::fs::chown(&place.top, Some(0), None).unwrap();
        let refused = Repo::discover(&place.top).err().unwrap().to_string();
        assert!(refused.contains("bad config"), "{refused}");
    }

    #[test]
    fn the_root_is_found_from_below_and_through_a_link() {
        let place = TestRepository::new();
        place.commit("deep/er/a", "1\n", "First");
        let link = place.folder.path().join("link");
        symlink(&place.top, &link).unwrap();
        for dir in [place.top.join("deep/er"), link.clone(), link.join("deep")] {
            let both = Both::at(&dir);
            assert_eq!(both.library.root(), place.top);
            assert_eq!(both.library.common_dir(), place.top.join(".git"));
            place.write("new", "x");
            assert_eq!(both.codes(), pairs(&[("new", "??")]));
        }
    }

    #[test]
    fn head_is_followed_while_the_repository_stays_open() {
        let place = TestRepository::new();
        let both = place.both();
        assert_eq!(both.head(), (None, Some("main".to_owned())));
        assert!(both.ask(|repo| repo.recent(5)).is_empty());
        assert_eq!(both.since(None), Since { descends: true, ..Since::default() });
        let first = place.commit("a", "1\n", "First");
        assert_eq!(both.head(), (Some(first.clone()), Some("main".to_owned())));
        let second = place.commit("a", "2\n", "Second");
        assert_eq!(both.head(), (Some(second.clone()), Some("main".to_owned())));
        place.git(&["pack-refs", "--all"]);
        place.git(&["gc", "-q"]);
        assert_eq!(both.head(), (Some(second.clone()), Some("main".to_owned())));
        place.git(&["checkout", "-q", "-b", "feature/\u{fc}ber"]);
        assert_eq!(both.head(), (Some(second), Some("feature/\u{fc}ber".to_owned())));
        place.git(&["checkout", "-q", "--detach", &first]);
        assert_eq!(both.head(), (Some(first.clone()), None));
        place.git(&["checkout", "-q", "--orphan", "fresh"]);
        assert_eq!(both.head(), (None, Some("fresh".to_owned())));
        assert!(!both.since(Some(&first)).descends);
        fs::write(place.top.join(".git/HEAD"), "").unwrap();
        let error = format!("{:#}", both.library.head().unwrap_err());
        assert!(error.starts_with("cannot read HEAD: `git symbolic-ref` failed:"), "{error}");
    }

    #[test]
    fn a_parent_is_found_alike_by_library_and_program() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        let second = place.commit("a", "2\n", "Second");
        let parent = |id: &str| Both::at(&place.top).ask(|repo| repo.commit_of(&format!("{id}^")));
        assert_eq!(parent(&second), Some(first.clone()));
        assert_eq!((parent(&first), parent(&"1".repeat(40))), (None, None));
    }

    #[test]
    fn many_refs_of_attempts_are_packed() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        let repo = Repo::discover(&place.top).unwrap();
        let folders = || fs::read_dir(place.top.join(".git/refs/ralph")).map_or(0, Iterator::count);
        for number in 0..=100 {
            assert_eq!(folders(), number);
            repo.keep(&format!("refs/ralph/t{number}/1"), &first).unwrap();
            repo.pack_refs().unwrap();
        }
        assert_eq!(folders(), 0);
        assert_eq!(repo.commit_of("refs/ralph/t100/1").unwrap(), Some(first));
    }

    #[test]
    fn new_commits_come_oldest_first_with_their_sum() {
        let place = TestRepository::new();
        let both = place.both();
        let first = place.commit("a", "1\n2\n", "First");
        let unborn = both.since(None);
        assert_eq!(subjects(&unborn.commits), ["First"]);
        assert_eq!(unborn.diff.unwrap().to_string(), "1 file, +2 -0");
        assert_eq!(both.since(Some(&first)), Since { descends: true, ..Since::default() });
        place.commit("a", "1\n3\n4\n", "Second,\nwith a second line\n\nand a body");
        let third = place.commit("b c/\u{e4}", "x\n", "Dritter \u{2713}");
        let since = both.since(Some(&first));
        assert!(since.descends);
        assert_eq!(subjects(&since.commits), ["Second, with a second line", "Dritter \u{2713}"]);
        assert_eq!(since.commits[1].id, third);
        assert_eq!(since.diff.unwrap().to_string(), "2 files, +3 -1");
        let recent = both.ask(|repo| repo.recent(2));
        assert_eq!(recent, since.commits.into_iter().rev().collect::<Vec<_>>());
        assert_eq!(both.ask(|repo| repo.recent(9)).len(), 3);
        assert!(both.ask(|repo| repo.recent(0)).is_empty());
        place.git(&["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", ""]);
        let empty = both.since(Some(&third));
        assert_eq!(subjects(&empty.commits), [""]);
        assert_eq!(empty.diff, Some(DiffStat::default()));
        place.git(&["mv", "a", "z"]);
        fs::write(place.top.join("bytes"), [0, 159, 0, 1]).unwrap();
        let moved = place.commit("empty", "", "Move");
        let diff = both.since(Some(&third)).diff.unwrap();
        assert_eq!(diff.to_string(), "4 files, +3 -3");
        assert!(both.since(Some(&moved)).commits.is_empty());
    }

    #[test]
    fn merged_commits_count_too() {
        let place = TestRepository::new();
        let both = place.both();
        let base = place.commit("a", "1\n", "Base");
        place.git(&["checkout", "-q", "-b", "side"]);
        place.commit("side", "1\n", "Side");
        place.git(&["checkout", "-q", "main"]);
        place.commit("a", "2\n", "Main");
        place.git(&["merge", "-q", "--no-ff", "-m", "Merge", "side"]);
        let since = both.since(Some(&base));
        let listed =
            place.git(&["rev-list", "--reverse", "--topo-order", &format!("{base}..HEAD")]);
        let ids: Vec<&str> = since.commits.iter().map(|commit| &*commit.id).collect();
        assert_eq!(ids, listed.lines().collect::<Vec<_>>());
        assert_eq!(since.commits.len(), 3);
        assert_eq!(since.diff.unwrap().to_string(), "2 files, +2 -1");
    }

    #[test]
    fn a_folder_is_no_file() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        place.git(&["rm", "-q", "a"]);
        let second = place.commit("a/b", "2\n", "Second");
        for repo in [&place.both().library, &place.both().program] {
            let has = |commit: &CommitId, path: &str| repo.file_at(commit, path).unwrap().is_some();
            assert_eq!([has(&first, "a"), has(&first, "a/b")], [true, false]);
            assert_eq!([has(&second, "a"), has(&second, "a/b")], [false, true]);
        }
    }

    #[test]
    fn head_that_left_its_base_does_not_descend() {
        let place = TestRepository::new();
        let both = place.both();
        let first = place.commit("a", "1\n", "First");
        let second = place.commit("a", "2\n", "Second");
        let left = Since::default();
        place.git(&["commit", "-q", "--amend", "-m", "Other"]);
        assert_eq!(both.since(Some(&second)), left);
        assert!(both.since(Some(&first)).descends);
        place.git(&["reset", "-q", "--hard", &first]);
        assert_eq!(both.since(Some(&second)), left);
        place.git(&["checkout", "-q", "-b", "other"]);
        let other = place.commit("b", "1\n", "On other");
        place.git(&["checkout", "-q", "main"]);
        assert_eq!(both.since(Some(&other)), left);
        assert_eq!(both.since(Some(&"ab".repeat(20))), left);
        for wrong in ["HEAD", "--all", "", "abc"] {
            assert!(both.library.since(Some(wrong)).is_err());
        }
    }

    #[test]
    fn a_long_list_keeps_the_newest() {
        let place = TestRepository::new();
        let base = place.commit("a", "1\n", "Base");
        let mut stream = String::new();
        for number in 0..LISTED + 5 {
            let from = if number == 0 { "from refs/heads/main^0\n" } else { "" };
            stream.extend([format!(
                "commit refs/heads/main\ncommitter A <a@b.c> {} +0000\ndata 4\n{number:04}\n{from}",
                2_000_000_000 + number
            )]);
        }
        let file = place.folder.path().join("stream");
        fs::write(&file, stream).unwrap();
        let script = format!("git fast-import --quiet <'{}'", file.display());
        place.git(&["-c", &format!("alias.import=!{script}"), "import"]);
        let since = place.both().since(Some(&base));
        assert_eq!(since.commits.len(), LISTED);
        assert_eq!(since.commits[0].subject, "0005");
        assert_eq!(since.commits[LISTED - 1].subject, "0204");
    }

    #[test]
    fn a_commit_is_found_by_the_lines_of_its_message() {
        let place = TestRepository::new();
        let both = place.both();
        let base = place.commit("a", "1\n", "Base\n\nTask: a.b\nAttempt: 1\n");
        place.commit("a", "2\n", "Other\n\nTask: axb\nTask: a.bc\nmore Task: a.b\n");
        let one = place.commit("a", "3\n", "One\n\nAttempt: 2\nTask: a.b\n");
        let last = place.commit("a", "4\n", "Task: a.b\n");
        let find =
            |hidden: &str, line: &str| both.ask(|repo| repo.commit_with_line(&last, hidden, line));
        assert_eq!(find(&base, "Task: a.b"), Some(last.clone()));
        assert_eq!(find(&base, "Attempt: 2"), Some(one.clone()));
        assert_eq!(find(&base, "Attempt: 1"), None);
        assert_eq!(find(&base, "Task: a"), None);
        let all = |hidden: Option<&str>, start: &str| {
            both.ask(|repo| repo.messages_with(&last, hidden, start))
        };
        let ids = |hidden, start| -> Vec<CommitId> {
            all(hidden, start).into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(ids(None, "Attempt: "), [one.clone(), base.clone()]);
        assert_eq!(ids(Some(&base), "Attempt: "), [one]);
        assert_eq!(ids(None, "Task: a.b").len(), 4);
        assert_eq!(ids(None, "Task: a.bc").len(), 1);
        assert_eq!(all(None, "Base")[0].1.trim_end(), "Base\n\nTask: a.b\nAttempt: 1");
    }

    #[test]
    fn every_kind_of_change_is_seen() {
        let place = TestRepository::new();
        let both = place.both();
        place.write("early", "1\n");
        assert_eq!(both.codes(), pairs(&[("early", "??")]));
        for name in ["changed", "staged", "deleted", "removed", "moved", "kept", "both"] {
            place.write(name, &format!("{name}\n"));
        }
        place.write(".gitignore", "*.log\nbuild/\n");
        place.write("mode", "x\n");
        place.commit("typed", "x\n", "First");
        assert!(both.dirty().is_empty());
        place.write("changed", "2\n");
        place.write("staged", "2\n");
        place.write("both", "2\n");
        place.git(&["add", "staged", "both"]);
        place.write("both", "3\n");
        fs::remove_file(place.top.join("deleted")).unwrap();
        place.git(&["rm", "-q", "removed"]);
        place.git(&["rm", "-q", "--cached", "kept"]);
        place.git(&["mv", "moved", "moved to"]);
        fs::remove_file(place.top.join("typed")).unwrap();
        symlink("nowhere", place.top.join("typed")).unwrap();
        let runnable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.top.join("mode"), runnable).unwrap();
        place.write("new dir/\u{fc}mlaut \u{2713}", "x");
        place.write("new dir/sub/quote\"d\n", "x");
        place.write("x.log", "ignored");
        place.write("build/out", "ignored");
        place.write("added", "1\n");
        place.git(&["add", "added"]);
        let want = [
            ("added", "A."),
            ("both", "MM"),
            ("changed", ".M"),
            ("deleted", ".D"),
            ("kept", "D?"),
            ("mode", ".M"),
            ("moved", "D."),
            ("moved to", "A."),
            ("new dir/sub/quote\"d\n", "??"),
            ("new dir/\u{fc}mlaut \u{2713}", "??"),
            ("removed", "D."),
            ("staged", "M."),
            ("typed", ".T"),
        ];
        assert_eq!(both.codes(), pairs(&want));
        let dirty = both.dirty();
        assert_eq!(dirty["deleted"], ".D gone");
        assert_eq!(dirty, both.dirty(), "nothing moved");
    }

    #[test]
    fn a_path_changed_again_has_another_fingerprint() {
        let place = TestRepository::new();
        let both = place.both();
        place.commit("a", "1\n", "First");
        place.write("a", "two\n");
        place.write("new", "x");
        let before = both.dirty();
        place.write("a", "three\n");
        let after = both.dirty();
        assert_ne!(before["a"], after["a"]);
        assert_eq!(before["new"], after["new"]);
        place.git(&["add", "a"]);
        assert_ne!(after["a"], both.dirty()["a"]);
        place.write("a", "1\n");
        place.git(&["add", "a"]);
        fs::remove_file(place.top.join("new")).unwrap();
        assert!(both.dirty().is_empty(), "changed back is clean");
    }

    #[test]
    fn a_conflict_is_one_dirty_path() {
        let place = TestRepository::new();
        let both = place.both();
        place.commit("a", "1\n", "Base");
        place.git(&["checkout", "-q", "-b", "side"]);
        place.commit("a", "side\n", "Side");
        place.git(&["checkout", "-q", "main"]);
        place.commit("a", "main\n", "Main");
        assert!(!place.try_git(&place.top, &["merge", "side"]).status.success());
        assert_eq!(both.codes(), pairs(&[("a", "UU")]));
    }

    #[test]
    fn looking_does_not_write_the_index() {
        let place = TestRepository::new();
        place.commit("a", "1\n", "First");
        let index = place.top.join(".git/index");
        let file = File::options().append(true).open(place.top.join("a")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let before = (fs::read(&index).unwrap(), fs::metadata(&index).unwrap().mtime_nsec());
        let both = place.both();
        assert!(both.dirty().is_empty(), "touched and not changed");
        fs::write(place.top.join(".git/index.lock"), "").unwrap();
        assert!(both.dirty().is_empty(), "a lock of another process does not matter");
        let after = (fs::read(&index).unwrap(), fs::metadata(&index).unwrap().mtime_nsec());
        assert!(before == after);
    }

    #[test]
    fn a_linked_worktree_has_its_own_head_and_the_common_directory() {
        let place = TestRepository::new();
        let first = place.commit("a", "1\n", "First");
        let linked = place.top.with_file_name("linked tree");
        place.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
        let (main, side) = (place.both(), Both::at(&linked));
        assert_eq!(side.library.root(), linked);
        assert_eq!(side.library.common_dir(), place.top.join(".git"));
        place.git_in(&linked, &["commit", "-q", "--allow-empty", "-m", "Aside"]);
        fs::write(linked.join("only here"), "x").unwrap();
        assert_eq!(side.head().1, Some("side".to_owned()));
        assert_eq!(subjects(&side.since(Some(&first)).commits), ["Aside"]);
        assert_eq!(side.codes(), pairs(&[("only here", "??")]));
        assert_eq!(main.head(), (Some(first), Some("main".to_owned())));
        assert!(main.dirty().is_empty());
        side.library.local().exclude(&["only*"]).unwrap();
        assert!(side.dirty().is_empty());
    }

    #[test]
    fn submodules_and_nested_repositories_are_one_path_each() {
        let (inner, place) = (TestRepository::new(), TestRepository::new());
        inner.commit("i", "1\n", "Inner");
        place.commit("a", "1\n", "First");
        place.git(&["submodule", "--quiet", "add", inner.top.to_str().unwrap(), "sub"]);
        place.git(&["commit", "-q", "-m", "Sub"]);
        let both = place.both();
        assert!(both.dirty().is_empty());
        let below = Both::at(&place.top.join("sub"));
        assert_eq!(below.library.root(), place.top.join("sub"));
        assert_eq!(subjects(&below.ask(|repo| repo.recent(3))), ["Inner"]);
        let step = ["commit", "-q", "--allow-empty", "-m", "Step"];
        place.git_in(&place.top.join("sub"), &step);
        let before = both.dirty();
        assert_eq!(before.keys().collect::<Vec<_>>(), ["sub"]);
        place.git_in(&place.top.join("sub"), &step);
        assert_ne!(before, both.dirty());
        place.git(&["clone", "-q", inner.top.to_str().unwrap(), "nested"]);
        let paths: Vec<String> = both.dirty().into_keys().collect();
        assert_eq!(paths, ["nested/", "sub"]);
    }

    #[test]
    fn a_sparse_checkout_is_not_dirty() {
        let place = TestRepository::new();
        place.write("in/a", "1\n");
        place.commit("out/b", "1\n", "First");
        place.git(&["sparse-checkout", "set", "--sparse-index", "in"]);
        let both = place.both();
        assert!(both.dirty().is_empty());
        place.write("in/a", "2\n");
        assert_eq!(both.codes(), pairs(&[("in/a", ".M")]));
    }

    #[test]
    fn a_clean_filter_is_run() {
        let place = TestRepository::new();
        place.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
        place.write(".gitattributes", "*.txt filter=up\n");
        place.commit("a.txt", "abc\n", "First");
        place.write("a.txt", "abc\n");
        assert!(place.both().dirty().is_empty());
    }

    #[test]
    fn other_formats_are_read_by_the_program() {
        for format in ["--object-format=sha256", "--ref-format=reftable"] {
            let Some(place) = TestRepository::with(&[format]) else {
                continue;
            };
            let repo = Repo::discover(&place.top).unwrap();
            assert_eq!(repo.root(), place.top);
            assert_eq!(repo.common_dir(), place.top.join(".git"));
            assert_eq!(repo.head().unwrap().branch, Some("main".to_owned()));
            let first = place.commit("a", "1\n", "First");
            assert_eq!(repo.head().unwrap().commit.as_ref(), Some(&first));
            assert_eq!(subjects(&repo.since(None).unwrap().commits), ["First"]);
            place.commit("b \u{e4}", "1\n", "Second");
            let since = repo.since(Some(&first)).unwrap();
            assert_eq!(subjects(&since.commits), ["Second"]);
            assert_eq!(since.diff.unwrap().to_string(), "1 file, +1 -0");
            assert!(!repo.since(Some(&"0".repeat(first.len()))).unwrap().descends);
            place.write("c d", "x");
            assert_eq!(repo.dirty().unwrap().into_keys().collect::<Vec<_>>(), ["c d"]);
            repo.local().exclude(&["c*"]).unwrap();
            assert!(repo.local().is_ignored("c d").unwrap() && repo.dirty().unwrap().is_empty());
            let linked = place.top.with_file_name("linked");
            place.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
            let side = Repo::discover(&linked).unwrap();
            assert_eq!(side.common_dir(), place.top.join(".git"));
            assert_eq!(side.head().unwrap().branch, Some("side".to_owned()));
        }
    }

    #[test]
    fn ignore_rules_are_read_where_git_reads_them() {
        let place = TestRepository::new();
        let both = place.both();
        place.write(".gitignore", "*.log\n!keep.log\nbuild/\n/top-only\n");
        place.write("deep/.gitignore", "local\n");
        place.write("build/x", "");
        let is = |path: &str| both.ask(|repo| repo.local().is_ignored(path));
        for path in ["a.log", "deep/b.log", "build", "build/x", "later/build/", "deep/local"] {
            assert!(is(path), "{path}");
        }
        for path in ["keep.log", "deep/top-only", "local", "a", "with space", "-x"] {
            assert!(!is(path), "{path}");
        }
        both.library.local().exclude(&["with space", "logs/"]).unwrap();
        assert!(is("with space") && is("logs/") && is("logs/x"));
    }

    #[test]
    fn excluding_adds_only_what_is_missing() {
        let place = TestRepository::new();
        let repo = place.both().library;
        let info = place.top.join(".git/info");
        let file = info.join("exclude");
        let text = || fs::read_to_string(&file).unwrap();
        fs::write(&file, "# mine\n/a").unwrap();
        repo.local().exclude(&["/a", "/b", "/b", "/c"]).unwrap();
        assert_eq!(text(), "# mine\n/a\n/b\n/c\n");
        repo.local().exclude(&["/c", "/a"]).unwrap();
        assert_eq!(text(), "# mine\n/a\n/b\n/c\n");
        fs::write(&file, b"\xff\r\n/a\r\n").unwrap();
        repo.local().exclude(&["/a", "/b"]).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"\xff\r\n/a\r\n/b\n");
        fs::remove_dir_all(&info).unwrap();
        repo.local().exclude(&[]).unwrap();
        assert!(!info.exists());
        repo.local().exclude(&["/x"]).unwrap();
        assert_eq!(text(), "/x\n");
    }

    /// A hook whose git variables name another repository.
    #[test]
    fn variables_of_another_repository_are_ignored() {
        let other = TestRepository::new();
        other.commit("other", "1\n", "Other");
        let run = Command::new(env::current_exe().unwrap())
            .args(["--exact", "adapters::git::tests::every_kind_of_change_is_seen"])
            .args(["adapters::git::tests::merged_commits_count_too"])
            .env("GIT_DIR", other.top.join(".git"))
            .env("GIT_WORK_TREE", &other.top)
            .env("GIT_INDEX_FILE", other.top.join(".git/index"))
            .output()
            .unwrap();
        let said = lossy(&run.stdout);
        assert!(run.status.success() && said.contains("2 passed"), "{said}");
    }
}
