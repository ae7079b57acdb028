//! The signs of processes that run behind a carrier with the very files that are here: one file each.
//!
//! The guardian here makes a sign before the worker may start the process. It is removed once
//! everything has ended: there by the guardian of the process, also when the line was cut, or by
//! the worker if that guardian was killed, if they see the folder; otherwise by the guardian here,
//! once notified. Without a sign, nothing of an attempt runs. With one, only the engine knows.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The time for a worker whose line was cut to end everything.
const ENDS: Duration = Duration::from_secs(5);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Where the signs of one attempt are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignsOfLife {
    folder: PathBuf,
    mark: String,
}

impl SignsOfLife {
    /// The signs of the attempt whose processes are recognized by this mark, in a folder for those of all
    /// attempts.
    pub fn of(folder: PathBuf, mark: &str) -> SignsOfLife {
        SignsOfLife { folder, mark: mark.to_owned() }
    }

    /// Returns the path for the sign of another process of the attempt.
    pub(super) fn another(&self) -> PathBuf {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.folder.join(format!("{}-{}.{}", self.mark, process::id(), now.as_nanos()))
    }

    /// Whether something of the attempt may run: it has a sign, or that cannot be found out.
    pub fn is_any(&self) -> bool {
        match fs::read_dir(&self.folder) {
            Ok(mut entries) => entries.any(|entry| match entry {
                Ok(entry) => self.has(&entry.path()),
                Err(_) => true,
            }),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Waits for workers whose line was cut to end everything. Returns whether something may still run.
    pub fn outlast(&self) -> bool {
        let began = Instant::now();
        while self.is_any() {
            if began.elapsed() >= ENDS {
                return true;
            }
            thread::sleep(LOOK);
        }
        false
    }

    /// Removes the signs of an attempt whose processes have all ended.
    pub fn remove(&self) {
        keep(&self.folder, |mark| mark != self.mark);
    }

    fn has(&self, path: &Path) -> bool {
        mark_of(path).is_some_and(|mark| mark == self.mark)
    }
}

/// Removes the signs in a folder, except those of attempts that `is_kept` selects.
pub fn keep(folder: &Path, is_kept: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if mark_of(&path).is_none_or(|mark| !is_kept(mark)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes a sign. It survives a power cut here, because the process may do so there.
///
/// # Errors
/// I/O errors; nothing may be started then.
pub(super) fn make(sign: &Path) -> io::Result<()> {
    let folder = sign.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    File::create(sign)?.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Removes a sign, if the process has one, after everything has ended. Where it is not seen, nothing
/// happens.
pub(super) fn remove(sign: Option<&Path>) {
    if let Some(sign) = sign {
        let _ = fs::remove_file(sign);
    }
}

/// The mark in the name of a sign.
fn mark_of(path: &Path) -> Option<&str> {
    Some(path.file_name()?.to_str()?.rsplit_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_lives_as_long_as_one_of_its_signs() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("signs");
        let signs = |mark: &str| SignsOfLife::of(folder.clone(), mark);
        let (one, other) = (signs("r1.a.1"), signs("r1.a.1-b.1"));
        assert!(!one.is_any(), "there is no folder");
        let paths = [one.another(), one.another(), other.another()];
        assert_ne!(paths[0], paths[1]);
        for path in &paths {
            make(path).unwrap();
        }
        assert!(one.is_any() && other.is_any() && !signs("r1.a.10").is_any());
        fs::remove_file(&paths[0]).unwrap();
        assert!(one.is_any(), "its other process runs");
        one.remove();
        assert!(!one.is_any() && other.is_any());
        keep(&folder, |_| false);
        assert!(!other.is_any());
        fs::remove_dir(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(one.is_any(), "it is not known");
    }
}
