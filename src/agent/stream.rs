//! A stream of the agent's, kept in bounded space: the first part, the last part, and a mark for
//! what was dropped between them.
//!
//! Always drained, however much comes: an agent must not block on its own output. The last part
//! is kept in two files that take turns, so that neither memory nor disk grows with the flood.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, PipeReader, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// How much of the beginning, and at least how much of the end, is kept.
const PART: u64 = 32 << 20;

/// Where a stream is kept.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    head: File,
    written: u64,
    part: u64,
    tail: Option<Tail>,
    dropped: u64,
}

/// The end so far: the older half is complete, the newer one grows.
#[derive(Debug)]
struct Tail {
    newer: File,
    size: u64,
    older: u64,
}

impl Kept {
    /// Appends to the file at `path`, created if missing.
    pub(super) fn create(path: &Path) -> io::Result<Kept> {
        let head = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("open `{}`: {error}", path.display()))
        })?;
        Ok(Kept { path: path.to_owned(), head, written: 0, part: PART, tail: None, dropped: 0 })
    }

    /// Drains the stream to its end, counting into `taken`. What cannot be written is dropped.
    pub(super) fn take_all(kept: &Mutex<Kept>, mut stream: PipeReader, taken: &AtomicU64) {
        let kept = || kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut block = vec![0; 64 * 1024];
        loop {
            match stream.read(&mut block) {
                Ok(0) => break,
                Ok(length) => {
                    taken.fetch_add(length as u64, Ordering::Relaxed);
                    let _ = kept().take(&block[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = kept().close();
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.part - self.written.min(self.part)).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.write_all(head)?;
        self.written += head.len() as u64;
        if rest.is_empty() { Ok(()) } else { self.take_late(rest) }
    }

    fn take_late(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tail.as_ref().is_none_or(|tail| tail.size >= self.part) {
            let older = match self.tail.take() {
                None => 0,
                Some(tail) => {
                    self.dropped += tail.older;
                    fs::rename(self.half("newer"), self.half("older"))?;
                    tail.size
                }
            };
            let newer = File::create(self.half("newer"))?;
            self.tail = Some(Tail { newer, size: 0, older });
        }
        let tail = self.tail.as_mut().expect("just made");
        tail.newer.write_all(bytes)?;
        tail.size += bytes.len() as u64;
        Ok(())
    }

    fn half(&self, which: &str) -> PathBuf {
        self.path.with_extension(which)
    }

    /// Puts the parts together.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(tail) = self.tail.take() else {
            return Ok(());
        };
        if self.dropped > 0 {
            writeln!(self.head, "\n[… {} bytes dropped …]", self.dropped)?;
        }
        for half in ["older", "newer"] {
            if half == "older" && tail.older == 0 {
                continue;
            }
            let path = self.half(half);
            io::copy(&mut File::open(&path)?, &mut self.head)?;
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(part: u64, blocks: &[&[u8]]) -> (String, usize) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut kept = Kept { part, ..Kept::create(&path).unwrap() };
        for block in blocks {
            kept.take(block).unwrap();
        }
        kept.close().unwrap();
        let files = fs::read_dir(dir.path()).unwrap().count();
        (fs::read_to_string(&path).unwrap(), files)
    }

    #[test]
    fn what_fits_is_kept_as_it_came() {
        assert_eq!(keep(4, &[b"ab", b"cd"]), ("abcd".to_owned(), 1));
        assert_eq!(keep(4, &[b"abcdef", b"gh"]), ("abcdefgh".to_owned(), 1));
        assert_eq!(keep(4, &[]), (String::new(), 1));
    }

    #[test]
    fn of_a_flood_both_ends_are_kept_and_the_gap_is_told() {
        let blocks: Vec<Vec<u8>> = (0..10).map(|n| format!("{n}{n}{n}{n}").into_bytes()).collect();
        let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        let (text, files) = keep(4, &blocks);
        assert_eq!(text, "0000\n[… 28 bytes dropped …]\n88889999");
        assert_eq!(files, 1);
    }
}
