//! A log file of bounded size: at its limit it becomes `NAME.1`, and a new file begins.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The size at which a file is full.
const FULL: u64 = 4 << 20;

/// A log file that other processes may append to at the same time.
#[derive(Debug)]
pub struct BoundedLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl BoundedLog {
    /// Creates the log at `path`. The file is created by the first write.
    pub fn new(path: PathBuf) -> BoundedLog {
        BoundedLog { path, file: None, size: 0 }
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.size >= FULL && self.file.take().is_some() {
            fs::rename(&self.path, earlier(&self.path))?;
        }
        if self.file.is_none() {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
            let file = OpenOptions::new().append(true).create(true).open(&self.path)?;
            self.size = file.metadata()?.len();
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The path of the file before the current one.
fn earlier(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

impl Write for BoundedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.open()?.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_becomes_the_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/run.log");
        let mut log = BoundedLog::new(path.clone());
        let block = vec![b'x'; 1 << 20];
        for _ in 0..9 {
            log.write_all(&block).unwrap();
        }
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!((length(&path), length(&earlier(&path))), (1 << 20, FULL));
        BoundedLog::new(path.clone()).write_all(b"end").unwrap();
        assert_eq!(length(&path), (1 << 20) + 3, "a new process appends");
    }
}
