//! The side of a worker: a bare store per repository, and slots that borrow its objects.

mod note;
mod slot;
mod stale;

use std::{
    collections::HashSet,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};
use note::{WorkerNote, read_all};
pub use slot::WorkerSlot;
pub use stale::StaleWork;

use super::header::check_name;
use crate::{
    adapters::git::{Repo, lossy, program},
    core::commit_id::CommitId,
    regular_file,
};

/// The settings of a store, which all its slots have. What a file contains does not depend on the
/// settings of the machine, and git-lfs leaves its pointers as they are.
const SETTINGS: &[(&str, &str)] = &[
    ("core.attributesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.eol", "lf"),
    ("core.excludesFile", "/dev/null"),
    ("core.fileMode", "true"),
    ("core.symlinks", "true"),
    ("filter.lfs.clean", ""),
    ("filter.lfs.process", ""),
    ("filter.lfs.required", "false"),
    ("filter.lfs.smudge", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// The largest number of slots with one name.
const MOST_SLOTS: u32 = 99;

/// The largest number of commits that are offered to build on.
const OFFERED: &str = "--count=100";

/// Another worker still uses the slot of an attempt: the one with this name.
#[derive(Debug)]
pub struct SlotInUse(pub String);

impl fmt::Display for SlotInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another worker still uses the slot `{}` of this attempt", self.0)
    }
}

impl std::error::Error for SlotInUse {}

/// A slot that git cannot read any more: the one in this folder.
#[derive(Debug)]
pub struct BrokenSlot(pub PathBuf);

impl fmt::Display for BrokenSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no slot any more; its agent has broken it", self.0.display())
    }
}

impl std::error::Error for BrokenSlot {}

/// The copy of one repository at a worker.
#[derive(Clone, Debug)]
pub struct WorkerStore {
    folder: PathBuf,
}

impl WorkerStore {
    /// Opens the copy of a repository in the folder of a worker. The store is made when the first
    /// pack arrives.
    ///
    /// # Errors
    /// A name that is not valid; I/O errors.
    pub fn open(dir: &Path, repository: &str) -> Result<WorkerStore> {
        check_name("name of a repository", repository)?;
        let folder = dir.join(repository);
        for part in ["slots", "notes", "locks", "stale"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("make `{}`", part.display()))?;
        }
        let folder =
            folder.canonicalize().with_context(|| format!("cannot read `{}`", folder.display()))?;
        Ok(WorkerStore { folder })
    }

    /// The commits that a pack can build on, newest first.
    ///
    /// # Errors
    /// The error of `git`.
    pub fn have(&self) -> Result<Vec<String>> {
        let Some(store) = self.repo()? else { return Ok(Vec::new()) };
        if !store.shallow_ends().is_empty() {
            // The other side may know more of the history by now.
            return Ok(Vec::new());
        }
        let list = ["for-each-ref", OFFERED, "--sort=-committerdate", "--format=%(objectname)"];
        let text = lossy(&program::run(&store.root, &[&list[..], &["refs/slots"]].concat())?);
        let mut ids: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        Ok(ids)
    }

    /// Takes a slot for the attempt with this token: the one that has its work, or one of this name
    /// or of another, if that one is in use. Work of other attempts in it that was not fetched
    /// becomes [stale](WorkerSlot::stale).
    ///
    /// # Errors
    /// [`SlotInUse`] if another worker has the slot of this attempt; no slot can be used; I/O errors.
    pub fn slot(&self, name: &str, token: &str) -> Result<WorkerSlot> {
        check_name("name of a slot", name)?;
        check_name("token", token)?;
        for (name, note) in self.notes() {
            if note.token == token {
                let Some(lock) = self.lock(&name)? else {
                    return Err(SlotInUse(name).into());
                };
                return Ok(self.locked(&name, token, lock));
            }
        }
        let mut why = None;
        for number in 1..=MOST_SLOTS {
            let name = if number == 1 { name.to_owned() } else { format!("{name}+{number}") };
            let Some(lock) = self.lock(&name)? else { continue };
            let slot = self.locked(&name, token, lock);
            match slot.clear() {
                Ok(()) => return Ok(slot),
                Err(error) => why = Some(error.context(format!("`{}`", slot.dir().display()))),
            }
        }
        let why = why.unwrap_or_else(|| anyhow!("all are in use"));
        Err(why.context(format!("no slot `{name}` can be used")))
    }

    fn locked(&self, name: &str, token: &str, lock: File) -> WorkerSlot {
        WorkerSlot::new(self.clone(), name, token, lock)
    }

    /// Locks a slot; none if another process has locked it.
    fn lock(&self, name: &str) -> Result<Option<File>> {
        let path = self.folder.join("locks").join(name);
        let open = || -> io::Result<Option<File>> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let file = regular_file::open_with(&path, &mut options)?;
            match file.try_lock() {
                Ok(()) => Ok(Some(file)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(error),
            }
        };
        open().with_context(|| format!("lock `{}`", path.display()))
    }

    fn notes(&self) -> Vec<(String, WorkerNote)> {
        read_all(&self.folder.join("notes"))
    }

    /// The store; none before the first pack.
    fn repo(&self) -> Result<Option<Repo>> {
        let path = self.folder.join("store.git");
        if path.exists() { Repo::bare(&path).map(Some) } else { Ok(None) }
    }

    /// The store for commits with such ids. Makes it if it does not exist.
    fn repo_for(&self, id: &CommitId) -> Result<Repo> {
        let format = if id.len() == 64 { "sha256" } else { "sha1" };
        let path = self.folder.join("store.git");
        if !path.exists() {
            self.make_store(&path, format)
                .with_context(|| format!("make the store `{}`", path.display()))?;
        }
        let store = Repo::bare(&path)?;
        let own = program::answer(&store.root, &["rev-parse", "--show-object-format"])?;
        ensure!(
            own.as_deref() == Some(format),
            "the store `{}` has objects of the format {}, and the repository {format}; name the \
             repository differently, or remove the store",
            path.display(),
            own.unwrap_or_default()
        );
        Ok(store)
    }

    fn make_store(&self, path: &Path, format: &str) -> Result<()> {
        let lock = self.folder.join("lock");
        let file = File::create(&lock)?;
        regular_file::lock(&file, &lock)?;
        if path.exists() {
            return Ok(());
        }
        let making = self.folder.join("store.git.making");
        if making.exists() {
            fs::remove_dir_all(&making)?;
        }
        let name = making.to_str().context("its path is not UTF-8")?;
        let format = format!("--object-format={format}");
        let init = ["init", "--quiet", "--bare", "--template=", &format, "--", name];
        program::run(&self.folder, &init)?;
        for (setting, value) in SETTINGS {
            program::run(&making, &["config", setting, value])?;
        }
        Ok(fs::rename(making, path)?)
    }
}
