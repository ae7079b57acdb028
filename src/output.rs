//! What an agent printed, as it lies in its files.
//!
//! Reads ends of files only: an agent may print gigabytes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// The last line of a file that is not blank, as text, cut to 500 characters: what an agent said
/// last.
///
/// # Errors
/// As the disk gives them.
pub fn last_line(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8 * 1024)))?;
    let mut tail = Vec::new();
    file.take(8 * 1024).read_to_end(&mut tail)?;
    let text = String::from_utf8_lossy(&tail);
    Ok(text
        .split(['\n', '\r'])
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .map(|line| line.chars().take(500).collect()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_line_is_found_in_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "x".repeat(100_000) + "\nlast words\r\n\n  \n").unwrap();
        assert_eq!(last_line(&path).unwrap().as_deref(), Some("last words"));
        fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(last_line(&path).unwrap().unwrap().len(), 500);
    }
}
