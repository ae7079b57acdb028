//! What an agent printed, as it lies in its files.
//!
//! Reads ends of files only: an agent may print gigabytes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// The last lines of a file that are not blank, as text, each cut to 500 characters.
///
/// # Errors
/// As the disk gives them.
pub fn last_lines(path: &Path, count: usize) -> io::Result<Vec<String>> {
    let text = tail(path, 64 * 1024)?;
    let lines: Vec<&str> = text
        .split(['\n', '\r'])
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    Ok(last.iter().map(|line| line.chars().take(500).collect()).collect())
}

/// The last line of a file that is not blank, as text, cut to 500 characters: what an agent said
/// last.
///
/// # Errors
/// As the disk gives them.
pub fn last_line(path: &Path) -> io::Result<Option<String>> {
    let text = tail(path, 8 * 1024)?;
    Ok(text
        .split(['\n', '\r'])
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .map(|line| line.chars().take(500).collect()))
}

/// The last bytes of a file, as text.
fn tail(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    file.take(bytes).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
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
        assert_eq!(last_lines(&path, 2).unwrap()[1], "last words");
        fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(last_line(&path).unwrap().unwrap().len(), 500);
    }
}
