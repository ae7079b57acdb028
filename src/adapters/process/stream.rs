//! The streams of a process, with secrets removed, stored in bounded space: the first part, the
//! last part, and a mark for the dropped part between them. The streams of a process elsewhere are
//! passed on instead.
//!
//! Streams are always drained, however much is printed: an agent must not block on its own output.
//! The last part is kept in two files that alternate, so that neither memory nor disk use grows. The
//! first of the two halves follows the first part in the same file, so that output of up to two parts is
//! written once.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, PipeReader, PipeWriter, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::{Errno, FdFlags, ioctl_fionread},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::ProcessSpec;
use crate::{core::redact::Redactor, regular_file};

/// The size of the first part, and the minimum size of the last part.
pub(super) const PART: u64 = 32 << 20;

/// The size of a pipe: a program that prints much waits less often for its guardian.
#[cfg(target_os = "linux")]
const PIPE: usize = 256 * 1024;

/// The time limit for the end of a stream once its writers are gone.
const DRAIN: Duration = Duration::from_secs(5);

/// The interval between two checks for bytes left in the pipes.
const SETTLE: Duration = Duration::from_millis(1);

/// The streams of one process on their way to its files.
#[derive(Debug)]
pub(super) struct Streams {
    shared: Vec<Shared>,
    readers: Vec<Arc<PipeReader>>,
    drained: Receiver<()>,
}

/// A receiver of the bytes of a stream.
pub(super) trait ByteSink: Send + fmt::Debug {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// I/O errors.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Ends the stream.
    ///
    /// # Errors
    /// I/O errors.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// A stream that one thread reads and another may close; none once it is closed. It is locked from
/// before bytes leave the pipe until they are in the file.
type Shared = Arc<Mutex<Option<OutputStream>>>;

impl Streams {
    /// Opens the files of `spec` and drains two pipes into them, its standard output and standard
    /// error; or one `terminal` for both. Counts bytes in `taken` as they arrive, and redacts
    /// with `secrets`.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn open(
        spec: &ProcessSpec,
        terminal: bool,
        secrets: &Redactor,
        taken: &Arc<AtomicU64>,
    ) -> io::Result<(Streams, PipeWriter, PipeWriter)> {
        Streams::open_into(spec, terminal, secrets, taken, |path| {
            Ok(Box::new(KeptOutput::create(path)?))
        })
    }

    /// Like [`open`](Streams::open), with another receiver than each of the files.
    ///
    /// # Errors
    /// I/O errors, and those of `sink`.
    pub(super) fn open_into(
        spec: &ProcessSpec,
        terminal: bool,
        secrets: &Redactor,
        taken: &Arc<AtomicU64>,
        sink: impl Fn(&Path) -> io::Result<Box<dyn ByteSink>>,
    ) -> io::Result<(Streams, PipeWriter, PipeWriter)> {
        let (done, drained) = mpsc::channel();
        let (mut streams, mut readers) = (Vec::new(), Vec::new());
        let mut open = |path: &Path| -> io::Result<PipeWriter> {
            let (reader, writer) = if terminal { self::terminal()? } else { io::pipe()? };
            // The system may allow no more than the usual size.
            #[cfg(target_os = "linux")]
            let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE);
            let reader = Arc::new(reader);
            let sink = sink(path)?;
            let stream = OutputStream { sink, secrets: secrets.clone(), clean: Vec::new() };
            let shared = Arc::new(Mutex::new(Some(stream)));
            streams.push(Arc::clone(&shared));
            readers.push(Arc::clone(&reader));
            let (done, taken) = (done.clone(), Arc::clone(taken));
            thread::Builder::new().name("stream".to_owned()).spawn(move || {
                take_all(&shared, &reader, &taken);
                let _ = done.send(());
            })?;
            Ok(writer)
        };
        let stdout = open(&spec.stdout)?;
        let is_one = terminal || spec.stderr == spec.stdout;
        let stderr = if is_one { stdout.try_clone()? } else { open(&spec.stderr)? };
        Ok((Streams { shared: streams, readers, drained }, stdout, stderr))
    }

    /// Waits until everything that has been written to the pipes so far is in the files.
    pub(super) fn settle(&self) {
        let began = Instant::now();
        let is_behind = |(stream, reader): (&Shared, &Arc<PipeReader>)| {
            let stream = lock(stream);
            stream.is_some() && ioctl_fionread(reader).is_ok_and(|unread| unread > 0)
        };
        while self.shared.iter().zip(&self.readers).any(is_behind) && began.elapsed() < DRAIN {
            thread::sleep(SETTLE);
        }
    }

    /// Whether a stream has ended after at most this time.
    pub(super) fn ends_within(&self, limit: Duration) -> bool {
        self.drained.recv_timeout(limit).is_ok()
    }

    /// Waits until everything is in the files, and closes them. The stream of a writer that cannot
    /// be ended is cut off.
    pub(super) fn drain(self) {
        for _ in &self.shared {
            let _ = self.drained.recv_timeout(DRAIN);
        }
        self.cut();
    }

    /// Closes the files. Later output of living writers is dropped.
    pub(super) fn cut(self) {
        self.shared.iter().for_each(close);
    }
}

/// Opens a terminal: the side that shows, and the side that is printed on.
fn terminal() -> io::Result<(PipeReader, PipeWriter)> {
    const SIZE: Winsize = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&shown)?;
    unlockpt(&shown)?;
    tcsetwinsize(&shown, SIZE)?;
    rustix::io::fcntl_setfd(&shown, FdFlags::CLOEXEC)?;
    let name = ptsname(&shown, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let printed = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((shown.into(), printed.into()))
}

/// Drains a stream to its end. Unwritable bytes are dropped.
fn take_all(shared: &Shared, mut reader: &PipeReader, taken: &AtomicU64) {
    let mut block = vec![0; 64 * 1024];
    loop {
        // No reader may find the pipe empty while its bytes are not in the file.
        while poll(&mut [PollFd::new(reader, PollFlags::IN)], None) == Err(Errno::INTR) {}
        let mut stream = lock(shared);
        match reader.read(&mut block) {
            Ok(0) => break,
            Ok(length) => {
                taken.fetch_add(length as u64, Ordering::Relaxed);
                if let Some(stream) = stream.as_mut() {
                    let _ = stream.take(&block[..length]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    close(shared);
}

fn close(shared: &Shared) {
    if let Some(stream) = lock(shared).take() {
        let _ = stream.close();
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Option<OutputStream>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of bytes from a stream to their receiver.
#[derive(Debug)]
struct OutputStream {
    sink: Box<dyn ByteSink>,
    /// Holds back the possible beginning of a secret until that is known, however long the stream
    /// is silent.
    secrets: Redactor,
    /// A buffer that is reused.
    clean: Vec<u8>,
}

impl OutputStream {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.clean.clear();
        self.secrets.push(bytes, &mut self.clean);
        self.sink.take(&self.clean)
    }

    fn close(mut self) -> io::Result<()> {
        self.clean.clear();
        self.secrets.finish(&mut self.clean);
        self.sink.take(&self.clean)?;
        self.sink.close()
    }
}

/// The files of a stream.
#[derive(Debug)]
pub(super) struct KeptOutput {
    path: PathBuf,
    /// The first part, and then the older half of the last part until there are two newer ones.
    head: File,
    /// The length of this file before the stream.
    start: u64,
    /// The bytes of the stream in it.
    written: u64,
    part: u64,
    tail: Option<KeptTail>,
    dropped: u64,
}

/// The end of a stream that does not fit into its first file.
#[derive(Debug)]
struct KeptTail {
    /// The newer half, which grows.
    newer: File,
    size: u64,
    /// The size of the older half, if that is in a file of its own.
    older: Option<u64>,
}

impl KeptOutput {
    /// Appends to the file at `path`, created if missing, with its folder: an agent may have removed
    /// everything that git ignores.
    pub(super) fn create(path: &Path) -> io::Result<KeptOutput> {
        let open = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let head = regular_file::open_with(path, OpenOptions::new().create(true).append(true))?;
            let start = head.metadata()?.len();
            Ok((head, start))
        };
        let (head, start) = open().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("open `{}`: {error}", path.display()))
        })?;
        Ok(KeptOutput {
            path: path.to_owned(),
            head,
            start,
            written: 0,
            part: PART,
            tail: None,
            dropped: 0,
        })
    }

    fn take_late(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.tail.as_ref().is_none_or(|tail| tail.size >= self.part) {
            let older = self.tail.take().map(|full| self.retire(&full)).transpose()?;
            let newer = File::create(self.half("newer"))?;
            self.tail = Some(KeptTail { newer, size: 0, older });
        }
        let tail = self.tail.as_mut().expect("just made");
        tail.newer.write_all(bytes)?;
        tail.size += bytes.len() as u64;
        Ok(())
    }

    /// Drops the older half, and makes the full newer one the older. Returns its size.
    fn retire(&mut self, full: &KeptTail) -> io::Result<u64> {
        self.dropped += if let Some(older) = full.older {
            older
        } else {
            self.head.set_len(self.start + self.part)?;
            self.written - self.part
        };
        fs::rename(self.half("newer"), self.half("older"))?;
        Ok(full.size)
    }

    fn half(&self, which: &str) -> PathBuf {
        self.path.with_extension(which)
    }
}

impl ByteSink for KeptOutput {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = (2 * self.part).saturating_sub(self.written);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.write_all(head)?;
        self.written += head.len() as u64;
        if rest.is_empty() { Ok(()) } else { self.take_late(rest) }
    }

    /// Joins the parts.
    fn close(mut self: Box<Self>) -> io::Result<()> {
        let Some(tail) = self.tail.take() else {
            return Ok(());
        };
        if self.dropped > 0 {
            writeln!(self.head, "\n[… {} bytes dropped …]", self.dropped)?;
        }
        let older = tail.older.map(|_| "older");
        for half in older.into_iter().chain(["newer"]) {
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
        let mut kept = KeptOutput { part, ..KeptOutput::create(&path).unwrap() };
        for block in blocks {
            kept.take(block).unwrap();
        }
        Box::new(kept).close().unwrap();
        let files = fs::read_dir(dir.path()).unwrap().count();
        (fs::read_to_string(&path).unwrap(), files)
    }

    #[test]
    fn short_output_is_kept_unchanged() {
        assert_eq!(keep(4, &[b"ab", b"cd"]), ("abcd".to_owned(), 1));
        assert_eq!(keep(4, &[b"abcdef", b"gh"]), ("abcdefgh".to_owned(), 1));
        assert_eq!(keep(4, &[b"abcdefgh", b"ij", b"kl"]), ("abcdefghijkl".to_owned(), 1));
        assert_eq!(keep(4, &[]), (String::new(), 1));
    }

    #[test]
    fn long_output_keeps_both_ends_and_reports_the_gap() {
        let blocks: Vec<Vec<u8>> = (0..10).map(|n| format!("{n}{n}{n}{n}").into_bytes()).collect();
        let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        let (text, files) = keep(4, &blocks);
        assert_eq!(text, "0000\n[… 28 bytes dropped …]\n88889999");
        assert_eq!(files, 1);
        assert_eq!(keep(4, &blocks[..4]).0, "0000\n[… 4 bytes dropped …]\n22223333");
        assert_eq!(keep(4, &blocks[..3]).0, "000011112222");
    }
}
