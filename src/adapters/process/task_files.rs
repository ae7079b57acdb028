//! The files in the folder of a task with which an agent reports, sent between here and a worker.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::protocol::{Encoded, LARGEST_FILE, TaskFile, TaskFileContent};
use crate::{core::loop_paths::REPORTS, regular_file};

/// The folder of a task, on one of the two sides.
#[derive(Debug)]
pub(super) struct TaskFolder {
    dir: PathBuf,
    /// Each file's state on both sides.
    known: BTreeMap<String, KnownFile>,
}

#[derive(Debug)]
struct KnownFile {
    stamp: FileStamp,
    content: TaskFileContent,
}

/// The number, size and time of a file; none if it does not exist.
type FileStamp = Option<(u64, u64, i64, i64)>;

impl TaskFolder {
    /// A folder unknown to the other side.
    pub(super) fn new(dir: &Path) -> TaskFolder {
        TaskFolder { dir: dir.to_owned(), known: BTreeMap::new() }
    }

    /// Returns the files that the other side does not know as they are now.
    pub(super) fn news(&mut self) -> Vec<TaskFile> {
        let mut news = Vec::new();
        for name in REPORTS {
            let path = self.dir.join(name);
            let stamp = stamp(&path);
            let known = self.known.get(name);
            if known.map_or(stamp.is_none(), |known| known.stamp == stamp) {
                continue;
            }
            let Ok(content) = read(&path) else {
                continue;
            };
            if known.is_none_or(|known| known.content != content) {
                news.push(TaskFile { name: name.to_owned(), content: content.clone() });
            }
            self.known.insert(name.to_owned(), KnownFile { stamp, content });
        }
        news
    }

    /// Brings all files into the state that they have on the other side, which has sent those that
    /// it has. Leftovers of an earlier attempt in their place are removed as far as possible.
    pub(super) fn replace(&mut self, files: &[TaskFile]) {
        for name in REPORTS {
            let absent = || TaskFile { name: name.to_owned(), content: TaskFileContent::Absent };
            let sent = files.iter().find(|file| file.name == name).cloned();
            // Leftovers are new to the other side.
            let _ = self.store(&sent.unwrap_or_else(absent));
        }
    }

    /// Brings a file into the state that it has on the other side. Text that the other side has
    /// added is appended here, to keep text written here meanwhile.
    ///
    /// # Errors
    /// I/O errors; a name that is not one of a report.
    pub(super) fn store(&mut self, file: &TaskFile) -> io::Result<()> {
        let TaskFile { name, content } = file;
        if !REPORTS.contains(&name.as_str()) {
            let why = format!("`{}` is not a report", name.escape_debug());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        fs::create_dir_all(&self.dir)?;
        let path = self.dir.join(name);
        let before = self.known.get(name).map(|known| &known.content);
        match content {
            TaskFileContent::Absent => remove(&path)?,
            TaskFileContent::Folder => {
                remove(&path)?;
                fs::create_dir(&path)?;
            }
            TaskFileContent::Text(text) => write(&path, &text.bytes()?, before)?,
        }
        let known = KnownFile { stamp: stamp(&path), content: content.clone() };
        self.known.insert(name.clone(), known);
        Ok(())
    }
}

fn stamp(path: &Path) -> FileStamp {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

/// The end of a file that is too long is not sent.
fn read(path: &Path) -> io::Result<TaskFileContent> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TaskFileContent::Absent),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => Ok(TaskFileContent::Folder),
        Ok(_) => {
            let mut text = Vec::new();
            regular_file::open(path)?.take(LARGEST_FILE).read_to_end(&mut text)?;
            Ok(TaskFileContent::Text(Encoded::of(&text)))
        }
    }
}

/// Removes a file or an empty folder, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let removed = if is_folder { fs::remove_dir(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn write(path: &Path, text: &[u8], before: Option<&TaskFileContent>) -> io::Result<()> {
    if let Some(TaskFileContent::Text(before)) = before
        && let Some(added) = text.strip_prefix(before.bytes()?.as_slice())
        && let Ok(mut file) = regular_file::open_with(path, OpenOptions::new().append(true))
    {
        return file.write_all(added);
    }
    let draft = path.with_extension("part");
    remove(&draft)?;
    OpenOptions::new().write(true).create_new(true).open(&draft)?.write_all(text)?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        remove(path)?;
    }
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn sync(from: &mut TaskFolder, to: &mut TaskFolder) -> usize {
        let news = from.news();
        for file in &news {
            to.store(file).unwrap();
        }
        news.len()
    }

    #[test]
    fn files_follow_each_other_in_both_directions() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (one.path().join("task"), other.path().join("task"));
        let (mut a, mut b) = (TaskFolder::new(&here), TaskFolder::new(&there));
        assert_eq!(sync(&mut a, &mut b), 0);
        fs::create_dir(&here).unwrap();
        fs::write(here.join("notes.md"), "one\n").unwrap();
        fs::write(here.join("other.md"), "stays").unwrap();
        assert_eq!(sync(&mut a, &mut b), 1);
        assert_eq!((sync(&mut a, &mut b), sync(&mut b, &mut a)), (0, 0), "nothing is new");
        fs::write(there.join("notes.md"), "one\ntwo\n").unwrap();
        fs::write(there.join("DONE"), "").unwrap();
        // A person adds a note meanwhile.
        fs::write(here.join("notes.md"), "one\nhere\n").unwrap();
        assert_eq!(sync(&mut b, &mut a), 2);
        assert_eq!(fs::read_to_string(here.join("notes.md")).unwrap(), "one\nhere\ntwo\n");
        assert!(here.join("DONE").is_file());
        fs::remove_file(there.join("DONE")).unwrap();
        fs::create_dir(there.join("DONE")).unwrap();
        assert_eq!(sync(&mut b, &mut a), 1);
        assert!(here.join("DONE").is_dir());
        fs::remove_dir(there.join("DONE")).unwrap();
        fs::write(there.join("notes.md"), "anew").unwrap();
        assert_eq!(sync(&mut b, &mut a), 2);
        assert!(!here.join("DONE").exists() && !there.join("other.md").exists());
        assert_eq!(fs::read_to_string(here.join("notes.md")).unwrap(), "anew");
    }

    #[test]
    fn a_worker_writes_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, outside) = (folder.path().join("task"), folder.path().join("outside"));
        let mut own = TaskFolder::new(&dir);
        let text = |name: &str| TaskFile {
            name: name.to_owned(),
            content: TaskFileContent::Text(Encoded::of(b"text")),
        };
        for name in ["../outside", "other.md", "", "/etc/passwd", "DONE/x"] {
            assert!(own.store(&text(name)).is_err(), "{name}");
        }
        fs::create_dir_all(&dir).unwrap();
        fs::write(&outside, "mine").unwrap();
        for name in ["DONE", "DONE.part"] {
            symlink(&outside, dir.join(name)).unwrap();
        }
        own.store(&text("DONE")).unwrap();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
        assert_eq!(fs::read_to_string(dir.join("DONE")).unwrap(), "text");
    }
}
