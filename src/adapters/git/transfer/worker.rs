//! The side of a worker: a bare store per repository, and slots that borrow its objects.
//!
//! A store keeps its whole state in refs. `refs/slots/SLOT/TOKEN` is the work of a slot that the
//! other side has, `refs/filling/SLOT/TOKEN` marks a slot in preparation for its work,
//! `refs/arrived/TOKEN` is work that has arrived and is not in its slot yet, `refs/out/TOKEN` work
//! to be fetched, and `refs/stale/ID` work of earlier attempts that was never fetched.

mod slot;

use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};

use super::{FETCHED, GitLine, ON_A_LINE, OUT, STALE, check_name};
use crate::{
    adapters::git::{
        Repo, lossy, program,
        slot_settings::{quoted, remove_all},
    },
    regular_file,
};
pub use slot::{BrokenSlot, WorkerSlot};

/// The folder of refs with the work in slots that the other side has.
const SLOTS: &str = "refs/slots";

/// The folder of refs with a commit of each slot in preparation, which has no work of an agent.
const FILLING: &str = "refs/filling";

/// The settings of a store, which all its slots have. File contents do not depend on the settings
/// of the machine, and git-lfs leaves its pointers as they are.
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

/// The faults in old commits, tags and trees of a person that do no harm.
const OLD_FAULTS: &[&str] = &[
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "nulInCommit",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];

/// The largest number of slots with one name.
const MOST_SLOTS: u32 = 99;

/// Another worker still uses the slot of an attempt: the one with this name.
#[derive(Debug)]
pub struct SlotInUse(pub String);

impl fmt::Display for SlotInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another worker still uses the slot `{}` of this attempt", self.0)
    }
}

impl std::error::Error for SlotInUse {}

/// Git services at the store for the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitService {
    /// It receives work.
    Receive,
    /// It sends work.
    Upload,
}

/// The copy of one repository at a worker.
#[derive(Clone, Debug)]
pub struct WorkerStore {
    folder: PathBuf,
    repo: PathBuf,
}

impl WorkerStore {
    /// Opens the copy of a repository in the folder of a worker; it is made if there is none.
    ///
    /// # Errors
    /// A name that is not valid; a copy with ids of another length; the error of `git`; I/O errors.
    pub fn open(dir: &Path, repository: &str, is_sha256: bool) -> Result<WorkerStore> {
        check_name("name of a repository", repository)?;
        let folder = dir.join(repository);
        for part in ["slots", "locks"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("make `{}`", part.display()))?;
        }
        let folder =
            folder.canonicalize().with_context(|| format!("cannot read `{}`", folder.display()))?;
        let store = WorkerStore { repo: folder.join("store.git"), folder };
        store.make(is_sha256).with_context(|| format!("make `{}`", store.repo.display()))?;
        Ok(store)
    }

    fn make(&self, is_sha256: bool) -> Result<()> {
        let format = if is_sha256 { "sha256" } else { "sha1" };
        let lock = self.folder.join("lock");
        let file = File::create(&lock)?;
        regular_file::lock(&file, &lock)?;
        if self.repo.exists() {
            // Written by `git init` below, and by nothing else.
            let config = regular_file::read_to_string(&self.repo.join("config"))?;
            ensure!(
                config.contains("sha256") == is_sha256,
                "the ids of its objects have another length than those of the repository, whose format \
                 is {format}; name the repository differently, or remove the store"
            );
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
        Ok(fs::rename(making, &self.repo)?)
    }

    pub(super) fn repo(&self) -> Result<Repo> {
        Repo::bare(&self.repo)
    }

    /// The command with which git serves the other side.
    ///
    /// # Errors
    /// The path of the store is not UTF-8.
    pub fn command(&self, service: GitService) -> Result<Vec<String>> {
        let mut settings = vec!["core.hooksPath=/dev/null".to_owned(), "pack.threads=2".to_owned()];
        settings.push("core.bigFileThreshold=64m".to_owned());
        let name = match service {
            GitService::Receive => {
                settings.extend(
                    ["fsckObjects=true", "shallowUpdate=true", "autogc=false"]
                        .map(|setting| format!("receive.{setting}")),
                );
                settings
                    .extend(OLD_FAULTS.iter().map(|fault| format!("receive.fsck.{fault}=ignore")));
                if self.shallow_file().exists() {
                    // The other side may know more of the history by now, and sends all of it.
                    settings
                        .extend([SLOTS, FILLING, STALE].map(|it| format!("receive.hideRefs={it}")));
                }
                "receive-pack"
            }
            GitService::Upload => {
                settings.extend([SLOTS, FILLING].map(|it| format!("uploadpack.hideRefs={it}")));
                "upload-pack"
            }
        };
        let path = self.repo.to_str().context("the path of the store is not UTF-8")?;
        let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
        let end = [name, path].map(str::to_owned);
        Ok(["git".to_owned()].into_iter().chain(settings).chain(end).collect())
    }

    fn shallow_file(&self) -> PathBuf {
        self.repo.join("shallow")
    }

    /// Lets the history of this store end only where it has nothing before.
    fn deepen(&self, store: &Repo) -> Result<()> {
        let Ok(text) = regular_file::read_to_string(&self.shallow_file()) else { return Ok(()) };
        let mut kept = String::new();
        for id in text.lines() {
            // With its parents, whatever git makes of them.
            let commit = lossy(&program::run(&store.root, &["cat-file", "commit", id])?);
            let header = commit.lines().take_while(|line| !line.is_empty());
            let parents: Vec<&str> =
                header.filter_map(|line| line.strip_prefix("parent ")).collect();
            if program::known_commits(&store.root, &parents)?.len() < parents.len() {
                kept.extend([id, "\n"]);
            }
        }
        if kept.is_empty() {
            return Ok(fs::remove_file(self.shallow_file())?);
        }
        Ok(regular_file::write(&self.shallow_file(), kept.as_bytes())?)
    }

    /// Takes a slot for the attempt with this token: the slot with its work, else the slot of this
    /// name, or another if that is in use. Work of other attempts in it that was not fetched
    /// becomes stale: it is sent with the work of this attempt.
    ///
    /// # Errors
    /// [`SlotInUse`] if another worker has the slot of this attempt; no slot can be used; I/O errors.
    pub fn slot(&self, name: &str, token: &str) -> Result<WorkerSlot> {
        check_name("name of a slot", name)?;
        check_name("token", token)?;
        let list = ["for-each-ref", "--format=%(refname)", SLOTS, FILLING];
        let list = lossy(&program::run(&self.repo, &list)?);
        let own = list.lines().find_map(|line| {
            let (slot, it) = line.splitn(3, '/').nth(2)?.split_once('/')?;
            (it == token).then(|| slot.to_owned())
        });
        if let Some(name) = own {
            let lock = self.lock(&name)?.ok_or_else(|| SlotInUse(name.clone()))?;
            return WorkerSlot::open(self, &name, token, lock);
        }
        let mut why = None;
        for number in 1..=MOST_SLOTS {
            let name = if number == 1 { name.to_owned() } else { format!("{name}+{number}") };
            let Some(lock) = self.lock(&name)? else { continue };
            match WorkerSlot::clear(self, &name, token, lock) {
                Ok(slot) => return Ok(slot),
                Err(error) => {
                    why = Some(error.context(format!("`{}`", self.dir_of(&name).display())));
                }
            }
        }
        let why = why.unwrap_or_else(|| anyhow!("all are in use"));
        Err(why.context(format!("no slot `{name}` can be used")))
    }

    fn dir_of(&self, slot: &str) -> PathBuf {
        self.folder.join("slots").join(slot)
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
}

// Where fetched work is until it is checked.

/// The folder in the git directory of a slot for objects that are not checked yet.
pub(super) const QUARANTINE: &str = "ralph-incoming";

/// A repository for one fetch. It borrows the objects of a slot, and has its own until they are checked.
/// It is gone when dropped; the next one removes that of a killed process.
pub(super) struct Quarantine<'a> {
    slot: &'a Repo,
    pub(super) repo: Repo,
}

impl<'a> Quarantine<'a> {
    pub(super) fn begin(slot: &'a Repo) -> Result<Quarantine<'a>> {
        let folder = slot.git_dir.join(QUARANTINE);
        let make = || -> Result<()> {
            remove_all(&folder)?;
            fs::create_dir_all(folder.join("objects/info"))?;
            fs::create_dir_all(folder.join("refs"))?;
            for file in ["config", "shallow"] {
                match fs::copy(slot.git_dir.join(file), folder.join(file)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    copied => drop(copied?),
                }
            }
            let mut objects = quoted(slot.common_dir.join("objects").as_os_str().as_bytes());
            objects.push(b'\n');
            fs::write(folder.join("objects/info/alternates"), objects)?;
            if let Some(tip) = slot.transfers().sent_tip()
                && slot.commit_of(&tip)?.is_some()
            {
                // No ref names it, and the other side has it.
                fs::write(folder.join("packed-refs"), format!("{tip} refs/sent\n"))?;
            }
            Ok(fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?)
        };
        make().with_context(|| format!("make `{}`", folder.display()))?;
        Ok(Quarantine { slot, repo: Repo::bare(&folder)? })
    }

    /// Fetches the work with this token and that of earlier attempts. Git checks each object, and that
    /// all they name is there or in the slot.
    pub(super) fn fetch(&self, token: &str, line: &GitLine) -> Result<()> {
        let (into, wanted) = FETCHED;
        let refs = [format!("+{OUT}/{token}:{into}/{wanted}"), format!("+{STALE}/*:{into}/*")];
        let mut words = ON_A_LINE.to_vec();
        words.extend(["-c", "fetch.fsckObjects=true"]);
        if program::is_partial_clone(&self.slot.root)? {
            // Missing objects are with the server, where only `git unpack-objects` looks.
            words.extend(["-c", "fetch.unpackLimit=100000000"]);
        }
        words.extend(["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--refmap="]);
        words.extend(["--no-recurse-submodules", "--no-auto-maintenance", "--"]);
        let from = line.address();
        words.push(&from);
        words.extend(refs.iter().map(String::as_str));
        program::run_on_line(&self.repo.root, &words)
    }

    /// Gives the objects to the slot.
    pub(super) fn accept(&self) -> Result<()> {
        let accept = || -> io::Result<()> {
            let to = self.slot.common_dir.join("objects");
            for folder in entries(&self.repo.root.join("objects"))? {
                let name = folder.file_name().unwrap_or_default();
                if name == "info" || !folder.is_dir() {
                    continue;
                }
                let to = to.join(name);
                fs::create_dir_all(&to)?;
                let mut files = entries(&folder)?;
                // Git looks for a pack by its index, which is therefore the last.
                files.sort_by_key(|file| file.extension() == Some(OsStr::new("idx")));
                for file in files {
                    let to = to.join(file.file_name().unwrap_or_default());
                    if !to.exists() {
                        fs::rename(&file, to)?;
                    }
                }
            }
            Ok(())
        };
        accept().context("accept the objects")
    }
}

impl Drop for Quarantine<'_> {
    fn drop(&mut self) {
        // The next one removes it otherwise.
        let _ = remove_all(&self.repo.root);
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}
