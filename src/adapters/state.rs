//! The state folder `<git common dir>/ralph/`, or a folder in it: the lock, the open attempts, the
//! history snapshot.
//!
//! `git clean -fdx` does not reach it, and all worktrees share it. The lock is on the folder and
//! not on a file in it: after a lock file is deleted, two runs can both hold "the" lock. This
//! module stores serializable values and does not know their meaning.

mod snapshot_sum;

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{crash, regular_file};
use snapshot_sum::SnapshotSum;

/// The prefix and the suffix of the name of a draft.
const DRAFT: (&str, &str) = (".ralph-", ".tmp");

/// The pattern of these names.
pub const DRAFTS: &str = ".ralph-*.tmp";

/// The file with the name of the sandbox of attempts.
const SANDBOX: &str = "sandbox";

/// The state folder.
#[derive(Clone, Debug)]
pub struct StateFolder {
    dir: PathBuf,
}

/// The lock of a run; the system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    folder: File,
}

impl Lock {
    fn on(folder: &Path) -> io::Result<Option<Lock>> {
        let folder = File::open(folder)?;
        match folder.try_lock() {
            Ok(()) => Ok(Some(Lock { folder })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The open folder; every process that inherits it holds the lock too.
    pub fn folder(&self) -> &File {
        &self.folder
    }

    /// Whether the folder is still the one at this path. The lock on a removed folder has no
    /// effect: another run would create a new folder and lock that.
    pub fn is_on(&self, path: &Path) -> bool {
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        let ours = self.folder.metadata().map(id);
        ours.is_ok_and(|ours| {
            fs::metadata(path).map(id).is_ok_and(|there| {
                there == ours || crate::core::known_bug::is_on("hold-a-removed-lock")
            })
        })
    }
}

impl StateFolder {
    /// The state folder `dir`. The first write creates it, so that reading leaves no trace.
    pub fn open(dir: PathBuf) -> StateFolder {
        StateFolder { dir }
    }

    fn make(&self) -> io::Result<()> {
        let folder = self.dir.join("attempts");
        if folder.is_dir() { Ok(()) } else { fs::create_dir_all(folder) }
    }

    /// The path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the lock, or returns that another process has it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn try_lock(&self) -> io::Result<Option<Lock>> {
        self.make()?;
        Lock::on(&self.dir)
    }

    /// The folder whose lock the schedule daemon of this repository holds.
    pub fn schedule(&self) -> PathBuf {
        self.dir.join("schedule")
    }

    /// Takes the lock of the schedule daemon, or returns that another process has it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn try_lock_schedule(&self) -> io::Result<Option<Lock>> {
        fs::create_dir_all(self.schedule())?;
        Lock::on(&self.schedule())
    }

    /// The folder whose lock `ralph draft` holds.
    pub fn draft(&self) -> PathBuf {
        self.dir.join("draft")
    }

    /// Takes the lock of `ralph draft`, or returns that another process has it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn try_lock_draft(&self) -> io::Result<Option<Lock>> {
        fs::create_dir_all(self.draft())?;
        Lock::on(&self.draft())
    }

    /// Notes that attempts have worked in the sandbox of this name.
    pub fn note_sandbox(&self, name: &str) {
        let file = self.dir.join(SANDBOX);
        if self.noted_sandbox().as_deref() != Some(name) && self.make().is_ok() {
            let _ = regular_file::write(&file, name.as_bytes());
        }
    }

    /// The sandbox of earlier attempts.
    pub fn noted_sandbox(&self) -> Option<String> {
        regular_file::read_to_string(&self.dir.join(SANDBOX)).ok()
    }

    /// Whether a process holds the lock: a run, or the guardian that cleans up after a dead one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn is_locked(&self) -> io::Result<bool> {
        Ok(self.dir.exists() && self.try_lock()?.is_none())
    }

    /// Whether the locks of the file system exclude a second holder. Tested on the parent folder,
    /// without the lock of a run.
    ///
    /// # Errors
    /// I/O errors; a file system without locks is an error.
    pub fn locks_hold(&self) -> io::Result<bool> {
        let parent = self.dir.parent().unwrap_or(&self.dir);
        let (first, second) = (File::open(parent)?, File::open(parent)?);
        for folder in [&first, &second] {
            match folder.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Records the holder of the lock. Never synced: it is only read while the holder lives.
    /// Written in place and padded to one size: this happens twice per attempt, and a new file each
    /// time would slow down the file system's search for free blocks.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_holder(&self, holder: &impl Serialize) -> io::Result<()> {
        const SIZE: usize = 256;
        self.make()?;
        let mut bytes = json(holder);
        bytes.resize(bytes.len().max(SIZE), b' ');
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false);
        let file = regular_file::open_with(&self.dir.join("holder.json"), &mut open)?;
        file.write_all_at(&bytes, 0)?;
        crash::point("holder.written");
        Ok(())
    }

    /// The current or last holder of the lock.
    pub fn holder<T: DeserializeOwned>(&self) -> Option<T> {
        read(&self.dir.join("holder.json"))
    }

    /// Waits for the lock of the graph file, which every `ralph` process takes to change it.
    ///
    /// # Errors
    /// I/O errors.
    pub fn lock_graph(&self) -> io::Result<File> {
        self.wait_for_lock("graph.lock")
    }

    fn wait_for_lock(&self, name: &str) -> io::Result<File> {
        self.make()?;
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(false);
        let path = self.dir.join(name);
        let file = regular_file::open_with(&path, &mut open)?;
        regular_file::lock(&file, &path)?;
        Ok(file)
    }

    /// Stores the record of an attempt until the attempt is closed.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_attempt(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        self.make()?;
        replace(&self.attempt(name), &json(record))
    }

    /// Adds the process of an attempt to its record. Not synced: after a power cut there is no such
    /// process.
    ///
    /// # Errors
    /// I/O errors.
    pub fn update_attempt(&self, name: &str, record: &impl Serialize) -> io::Result<()> {
        replace_by(&self.attempt(name), false, |file| file.write_all(&json(record)))
    }

    /// Removes the record of an attempt that is closed.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove_attempt(&self, name: &str) -> io::Result<()> {
        // A guardian that was killed while writing leaves a draft.
        let draft = self.exit(name).with_extension("tmp");
        let [scratch, sent, folder] =
            ["scratch", "sent", "tmpdir"].map(|kind| self.attempt(name).with_extension(kind));
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for path in [draft, scratch, sent, self.exit(name), self.attempt(name)] {
            crash::point("record.removing");
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes unfinished files of killed writers here and next to the graph file.
    ///
    /// # Errors
    /// I/O errors.
    pub fn remove_drafts(&self, graph: &Path) -> io::Result<()> {
        // The holder of the lock may be writing a draft right now.
        let _lock = self.lock_graph()?;
        // The folder may be missing: an interrupted attempt can have deleted it.
        let graph = fs::canonicalize(graph).unwrap_or_else(|_| graph.to_owned());
        let parent = graph.parent().unwrap_or(Path::new(".")).to_owned();
        for folder in [parent, self.dir.clone(), self.dir.join("attempts")] {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                if name.starts_with(DRAFT.0) && name.ends_with(DRAFT.1) {
                    // Another process may have removed it in the meantime.
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(())
    }

    /// Every attempt that was not closed. A record that cannot be read is moved to `damaged/` and
    /// its path is returned.
    ///
    /// # Errors
    /// I/O errors.
    pub fn attempts<T: DeserializeOwned>(&self) -> io::Result<(Vec<T>, Vec<PathBuf>)> {
        let (mut open, mut damaged) = (Vec::new(), Vec::new());
        self.make()?;
        for path in self.records()? {
            if let Some(record) = read(&path) {
                open.push(record);
                continue;
            }
            let aside = self.dir.join("damaged");
            fs::create_dir_all(&aside)?;
            let kept = aside.join(path.file_name().unwrap_or_default());
            fs::rename(&path, &kept)?;
            crash::point("record.damaged");
            damaged.push(kept);
        }
        Ok((open, damaged))
    }

    /// The open attempts for processes that do not hold the lock: nothing is changed, and records
    /// that cannot be read are left out.
    pub fn peek<T: DeserializeOwned>(&self) -> Vec<T> {
        self.records().unwrap_or_default().iter().filter_map(|path| read(path)).collect()
    }

    fn records(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.dir.join("attempts"))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
        paths.sort();
        Ok(paths)
    }

    /// The path of the record of an attempt.
    pub fn attempt(&self, name: &str) -> PathBuf {
        self.dir.join("attempts").join(format!("{name}.json"))
    }

    /// The path of the description of the work in a slot, for the programs that pack and unpack it.
    pub fn work(&self, slot: &str) -> PathBuf {
        self.dir.join("attempts").join(format!("{slot}.work"))
    }

    /// The path where the guardian of an attempt writes how it ended.
    pub fn exit(&self, name: &str) -> PathBuf {
        self.dir.join("attempts").join(format!("{name}.exit"))
    }

    /// The folder for the signs of processes that run elsewhere in slots that are shared.
    pub fn signs_folder(&self) -> PathBuf {
        self.dir.join("signs")
    }

    /// The path of a temporary file for another program while an attempt is closed.
    ///
    /// # Errors
    /// I/O errors.
    pub fn scratch(&self, name: &str) -> io::Result<PathBuf> {
        self.make()?;
        Ok(self.attempt(name).with_extension("scratch"))
    }

    /// Keeps a copy of the current graph, so that a good version exists if the file is damaged.
    /// Never synced.
    ///
    /// # Errors
    /// I/O errors.
    pub fn keep_graph(&self, text: &str) -> io::Result<()> {
        self.make()?;
        replace_by(&self.graph(), false, |file| file.write_all(text.as_bytes()))
    }

    /// The path of that copy.
    pub fn graph(&self) -> PathBuf {
        self.dir.join("graph.yaml")
    }

    /// Keeps a value in a file of this name.
    ///
    /// # Errors
    /// I/O errors.
    pub fn keep(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.make()?;
        replace(&self.dir.join(name), &json(value))
    }

    /// The value that was kept under this name; none if there is no valid one.
    pub fn kept<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        read(&self.dir.join(name))
    }

    /// Stores a snapshot, so that the journal need not be read from its start. Never synced: it can
    /// be rebuilt.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write_snapshot(&self, snapshot: &impl Serialize) -> io::Result<()> {
        self.make()?;
        // Written twice: that of thousands of tasks need not be in memory as a whole.
        let mut sum = SnapshotSum::default();
        serde_json::to_writer(&mut sum, snapshot)?;
        replace_by(&self.dir.join("history.json"), false, |file| {
            let mut file = BufWriter::new(file);
            file.write_all(sum.seal().as_bytes())?;
            serde_json::to_writer(&mut file, snapshot)?;
            file.flush()
        })
    }

    /// The snapshot; none if it is missing, was changed, or is one of another version, which may
    /// have read less from the same journal.
    pub fn snapshot<T: DeserializeOwned>(&self) -> Option<T> {
        let sealed = regular_file::read(&self.dir.join("history.json")).ok()?;
        let line = sealed.iter().position(|byte| *byte == b'\n')? + 1;
        let (found, body) = sealed.split_at(line);
        let mut sum = SnapshotSum::default();
        sum.write_all(body).ok()?;
        if found != sum.seal().as_bytes() {
            return None;
        }
        serde_json::from_slice(body).ok()
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("string keys and finite numbers only")
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&regular_file::read(path).ok()?).ok()
}

/// The version of a file: every write that replaces or changes the file changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

/// The current stamp of a file.
///
/// # Errors
/// I/O errors.
pub fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok(Stamp { inode: metadata.ino(), length: metadata.len(), modified: metadata.modified().ok() })
}

/// Replaces a file by `bytes` atomically: a temporary file in the same folder, then a rename.
/// Follows a link to its target and keeps the mode; the new text survives a power cut.
///
/// # Errors
/// I/O errors; the file is unchanged then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, regular_file::syncs(), |file| file.write_all(bytes))
}

/// Replaces a file like [`replace`] by what `write` writes; with `durable` it survives a power cut.
fn replace_by(
    path: &Path,
    durable: bool,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (target, found) = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            let found = fs::metadata(&target);
            (target, found)
        }
        found => (path.to_owned(), found),
    };
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        let why = "it is not a regular file, so it is not replaced";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(DRAFT.0).suffix(DRAFT.1);
    let mode = match found {
        Ok(found) => found.permissions(),
        Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    let mut file = builder.tempfile_in(folder)?;
    crash::point("draft.created");
    write(file.as_file_mut())?;
    // Set after creation, because the umask limits the mode of a new file.
    file.as_file().set_permissions(mode)?;
    if durable {
        file.as_file().sync_data()?;
    }
    crash::point("draft.written");
    file.persist(&target).map_err(|error| error.error)?;
    crash::point("draft.placed");
    if durable {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_lock_holds_after_its_files_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(dir.path().join("ralph"));
        let lock = state.try_lock().unwrap().unwrap();
        for entry in fs::read_dir(state.dir()).unwrap() {
            let path = entry.unwrap().path();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        assert!(StateFolder::open(state.dir().to_owned()).is_locked().unwrap());
        assert!(state.locks_hold().unwrap());
        assert!(lock.is_on(state.dir()));
        fs::rename(state.dir(), dir.path().join("aside")).unwrap();
        assert!(!lock.is_on(state.dir()));
        state.write_holder(&"another").unwrap();
        assert!(!lock.is_on(state.dir()));
        drop(lock);
        assert!(!state.is_locked().unwrap());
    }

    #[test]
    fn a_damaged_record_is_moved_aside_and_returned() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(dir.path().join("ralph"));
        state.write_attempt("a.1", &"one").unwrap();
        state.write_attempt("b.1", &"two").unwrap();
        fs::write(state.attempt("c.1"), "{").unwrap();
        state.remove_attempt("b.1").unwrap();
        state.remove_attempt("b.1").unwrap();
        let (open, damaged) = state.attempts::<String>().unwrap();
        assert_eq!((open.as_slice(), damaged.len()), (&["one".to_owned()][..], 1));
        assert_eq!(fs::read_to_string(&damaged[0]).unwrap(), "{");
    }

    #[test]
    fn a_truncated_record_is_moved_aside_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(dir.path().join("ralph"));
        let record = serde_json::json!({"task_id": "a", "pid": 12, "dirty": {"x y": "\u{e9}"}});
        state.write_attempt("b.1", &record).unwrap();
        let whole = fs::read(state.attempt("b.1")).unwrap();
        for cut in 0..whole.len() {
            fs::write(state.attempt("a.1"), &whole[..cut]).unwrap();
            assert_eq!(state.peek::<serde_json::Value>(), std::slice::from_ref(&record));
            let (open, damaged) = state.attempts::<serde_json::Value>().unwrap();
            assert_eq!(open, std::slice::from_ref(&record), "cut at {cut}");
            assert_eq!(damaged, [state.dir().join("damaged/a.1.json")], "cut at {cut}");
            assert_eq!(fs::read(&damaged[0]).unwrap(), whole[..cut]);
        }
    }

    #[test]
    fn only_drafts_of_killed_writers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(dir.path().join("git"));
        state.write_attempt("a.1", &"one").unwrap();
        let graph = dir.path().join("graph.yaml");
        for path in [&graph, &dir.path().join(".ralph-x.tmp"), &dir.path().join("other.tmp")] {
            fs::write(path, "").unwrap();
        }
        fs::write(state.dir().join("attempts/.ralph-y.tmp"), "").unwrap();
        fs::write(state.dir().join("attempts/a.1.tmp"), "").unwrap();
        state.remove_drafts(&graph).unwrap();
        state.remove_attempt("a.1").unwrap();
        assert_eq!(fs::read_dir(state.dir().join("attempts")).unwrap().count(), 0);
        assert!(!dir.path().join(".ralph-x.tmp").exists());
        assert!(dir.path().join("other.tmp").exists() && graph.exists());
    }

    #[test]
    fn replacing_keeps_mode_and_link_and_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, PermissionsExt::from_mode(0o664)).unwrap();
        symlink("real", &link).unwrap();
        let before = stamp(&link).unwrap();
        replace(&link, b"new").unwrap();
        assert_ne!(stamp(&link).unwrap(), before);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o664);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
