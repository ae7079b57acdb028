//! The free space of a disk.

use std::{io, path::Path};

/// The free space on the disk of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes available to this user.
    pub bytes: u64,
    /// Files that this user can still create; none where the file system has no limit.
    pub files: Option<u64>,
}

/// The free space of the disk that holds `path`.
///
/// # Errors
/// System errors.
pub fn room(path: &Path) -> io::Result<Room> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Room {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        files: (found.f_files > 0).then_some(found.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_and_a_missing_folder_is_an_error() {
        let here = room(Path::new(".")).unwrap();
        assert!(here.bytes > 0 && here.files != Some(0));
        assert_eq!(room(Path::new("/proc")).unwrap().bytes, 0);
        assert!(room(Path::new("/no/such/folder")).is_err());
    }
}
