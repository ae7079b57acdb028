//! Opening and reading files that an agent may have replaced by something else.
//!
//! A FIFO blocks the process that opens it, a device has no end, and a folder cannot be read. Everything at
//! a path that others can write to is therefore opened here: only if it is a regular file, without
//! blocking, and read up to a size. The wait for its lock has a limit as well.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat},
    io::Errno,
};

use crate::{core::duration, fixed_limit};

/// The size of the largest file that is read as a whole, in bytes.
pub const LARGEST: u64 = 256 << 20;

/// Whether something other than a regular file is at this path, which may be a link to it.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Waits until a file exists and is not empty, at most this long.
pub fn wait_for_text(path: &Path, limit: Duration) {
    let began = Instant::now();
    let is_absent = || fs::metadata(path).map_or(true, |found| found.len() == 0);
    while is_absent() && began.elapsed() < limit {
        thread::sleep(Duration::from_millis(20));
    }
}

fn special() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Opens a regular file with these options.
///
/// # Errors
/// I/O errors; anything else at this path is an error of the kind `InvalidInput`.
pub fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // First, because opening a device may have an effect.
    if is_special(path) {
        return Err(special());
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = options.custom_flags(flags).open(path)?;
    // Then, because another process may have replaced it.
    if file.metadata()?.is_file() { Ok(file) } else { Err(special()) }
}

/// Opens a regular file to read it.
///
/// # Errors
/// Errors of [`open_with`].
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens the standard input of a process: a regular file, or `/dev/null`.
///
/// # Errors
/// Errors of [`open_with`].
pub fn open_input(path: &Path) -> io::Result<File> {
    if path == Path::new("/dev/null") { File::open(path) } else { open(path) }
}

/// Opens a regular file to read it, unless a link leads out of the folder `root`: an agent in a
/// sandbox may make a link to a file that only this process can read.
///
/// # Errors
/// Errors of [`open_with`]; a link that leads out is an error.
pub fn open_within(root: &Path, path: &Path) -> io::Result<File> {
    let path = fs::canonicalize(path)?;
    if !path.starts_with(fs::canonicalize(root)?) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link leads out of the folder"));
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    if is_special(&path) {
        return Err(special());
    }
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(special()) }
}

/// A file at a path below a folder, without a link on the way: what a process does for an agent in
/// a sandbox must not leave the folders that the agent may change.
#[derive(Debug)]
pub struct FileBelow {
    folder: OwnedFd,
    name: OsString,
}

impl FileBelow {
    /// Finds the folder of the file, and makes what is missing of it.
    ///
    /// # Errors
    /// I/O errors; a link on the way, or a path that leads out.
    pub fn of(root: &Path, path: &Path) -> io::Result<FileBelow> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, root, flags, Mode::empty())?;
        let mut parts = path.components().peekable();
        loop {
            let Some(Component::Normal(name)) = parts.next() else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            if parts.peek().is_none() {
                return Ok(FileBelow { folder, name: name.to_owned() });
            }
            match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
    }

    /// Reads the file; none if it does not exist.
    ///
    /// # Errors
    /// I/O errors; anything but a regular file of at most [`LARGEST`] bytes.
    pub fn read_to_string(&self) -> io::Result<Option<String>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.folder, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.len() > LARGEST {
            return Err(special());
        }
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Replaces the file by this text.
    ///
    /// # Errors
    /// I/O errors; the file is unchanged then.
    pub fn replace(&self, text: &str) -> io::Result<()> {
        let draft = format!(".ralph-below-{}.tmp", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let _ = unlinkat(&self.folder, &draft, AtFlags::empty());
        let file = openat(&self.folder, &draft, flags, Mode::from_raw_mode(0o666))?;
        File::from(file).write_all(text.as_bytes())?;
        Ok(renameat(&self.folder, &draft, &self.folder, &self.name)?)
    }
}

/// Reads a regular file of at most [`LARGEST`] bytes.
///
/// # Errors
/// Errors of [`open_with`]; a larger file is an error of the kind `FileTooLarge`.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(LARGEST)).unwrap_or_default());
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let why = format!("it is longer than {} MiB", LARGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a regular file as text.
///
/// # Errors
/// Errors of [`read`]; text that is not UTF-8 is an error of the kind `InvalidData`.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Copies a regular file with its permissions. `to` is created or written in place.
///
/// # Errors
/// Errors of [`open_with`], for both.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open(from)?;
    let mut target = open_with(to, OpenOptions::new().write(true).create(true).truncate(false))?;
    target.set_len(0)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(source.metadata()?.permissions())
}

/// Whether what must survive a power cut is written through to the disk. `RALPH_NO_FSYNC` turns that off in
/// builds with debug assertions only, which is what tests run.
pub fn syncs() -> bool {
    !(cfg!(debug_assertions) && std::env::var_os("RALPH_NO_FSYNC").is_some())
}

/// Waits for the lock of a file, which is at this path. An agent may hold it for as long as it runs.
///
/// # Errors
/// I/O errors; the kind `TimedOut` at the limit.
pub fn lock(file: &File, path: &Path) -> io::Result<()> {
    const LONGEST: Duration = Duration::from_millis(50);
    let limit = fixed_limit::lock();
    let (began, mut pause) = (Instant::now(), Duration::from_micros(50));
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if began.elapsed() < limit => {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "another process has locked `{}` for longer than {}; `fuser -v \
                     {}` names it",
                    path.display(),
                    duration::short(limit),
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

/// Writes a regular file, which may exist, in place. Its folder is made if it is missing: a person or an
/// agent may have removed everything that git ignores.
///
/// # Errors
/// Errors of [`open_with`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::create_dir_all(folder)?;
    }
    let mut file = open_with(path, OpenOptions::new().write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Moves what is at this path into a folder, if it is something other than a regular file or a link
/// to one. Returns the new path. A caller can then create a file here.
///
/// # Errors
/// I/O errors.
pub fn set_aside(path: &Path, folder: &Path) -> io::Result<Option<PathBuf>> {
    if !is_special(path) {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fs::create_dir_all(folder)?;
    let mut number = 1;
    let aside = loop {
        let aside = folder.join(format!("{name}.damaged-{number}"));
        if fs::symlink_metadata(&aside).is_err() {
            break aside;
        }
        number += 1;
    };
    fs::rename(path, &aside)?;
    Ok(Some(aside))
}

/// Opens a regular file to write it. What else is at this path is set aside in the same folder.
///
/// # Errors
/// Errors of [`open_with`] and of [`set_aside`].
pub fn open_instead(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match open_with(path, options) {
        Err(_) if is_special(path) => {
            set_aside(path, path.parent().unwrap_or(Path::new(".")))?;
            open_with(path, options)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        process::Command,
    };

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        fs::create_dir(at("folder")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        for name in ["fifo", "folder", "zero"] {
            let path = at(name);
            let kind = |error: io::Error| error.kind();
            assert_eq!(read(&path).map_err(kind), Err(io::ErrorKind::InvalidInput), "{name}");
            assert_eq!(write(&path, b"x").map_err(kind), Err(io::ErrorKind::InvalidInput));
            assert_eq!(copy(&path, &at("to")).map_err(kind), Err(io::ErrorKind::InvalidInput));
            assert!(copy(&at("from"), &path).is_err());
            let aside = set_aside(&path, &at("aside")).unwrap().unwrap();
            assert!(fs::symlink_metadata(aside).is_ok() && fs::symlink_metadata(&path).is_err());
            write(&path, b"text").unwrap();
            write(&path, b"new").unwrap();
            write(&at("removed/meanwhile/file"), b"x").unwrap();
            assert_eq!(read_to_string(&path).unwrap(), "new");
            assert_eq!(set_aside(&path, dir.path()).unwrap(), None);
            fs::set_permissions(&path, PermissionsExt::from_mode(0o740)).unwrap();
            copy(&path, &at("copy")).unwrap();
            assert_eq!(read(&at("copy")).unwrap(), b"new");
            assert_eq!(fs::metadata(at("copy")).unwrap().permissions().mode() & 0o777, 0o740);
        }
        File::create(at("large")).unwrap().set_len(LARGEST + 1).unwrap();
        let large = read(&at("large")).unwrap_err();
        assert_eq!(large.to_string(), "it is longer than 256 MiB");
    }

    #[test]
    fn what_is_no_file_is_replaced_by_one_that_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let path = at("file");
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for number in 1..=4 {
            open_instead(&path, &mut options).unwrap().write_all(b"text").unwrap();
            assert_eq!(read(&path).unwrap(), b"text");
            open_instead(&path, &mut options).unwrap().write_all(b".").unwrap();
            assert_eq!(read(&path).unwrap(), b"text.", "a file stays");
            assert!(is_special(&at(&format!("file.damaged-{number}"))));
            fs::remove_file(&path).unwrap();
            match number {
                1 => fs::create_dir(&path).unwrap(),
                2 => symlink("/dev/zero", &path).unwrap(),
                // A link to a FIFO.
                _ => symlink(at("file.damaged-1"), &path).unwrap(),
            }
        }
        let missing = open_instead(&at("gone/file"), &mut options).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
