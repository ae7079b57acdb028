//! A line between two processes: messages in both directions, in bounded memory.
//!
//! A thread writes the messages of a [`LineWriter`]. Rare messages never wait, so that a peer that
//! does not read cannot delay an order or a notice; bulk waits for room.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

/// The bytes of bulk that wait to be written.
const ROOM: usize = 1 << 20;

/// The sending side of a line.
#[derive(Clone, Debug)]
pub(super) struct LineWriter {
    queue: Arc<LineQueue>,
}

#[derive(Debug)]
struct LineQueue {
    state: Mutex<LineState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineState {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A line that was taken out is being written.
    writes: bool,
    /// Nothing is put in any more, and the line is closed once all is written.
    finished: bool,
    /// Nothing is written any more.
    cut: bool,
}

impl LineState {
    fn is_idle(&self) -> bool {
        self.cut || (self.lines.is_empty() && !self.writes)
    }
}

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, LineState>) -> MutexGuard<'a, LineState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines until the end; dropping `out` then closes the line.
    fn write_all(&self, mut out: impl Write) {
        let mut state = self.lock();
        loop {
            if state.cut || (state.finished && state.lines.is_empty()) {
                break;
            }
            let Some(line) = state.lines.pop_front() else {
                state = self.wait(state);
                continue;
            };
            state.bytes -= line.len();
            state.writes = true;
            drop(state);
            let written = out.write_all(&line).and_then(|()| out.flush());
            state = self.lock();
            state.writes = false;
            state.cut |= written.is_err();
            self.changed.notify_all();
        }
        state.cut = true;
        state.lines.clear();
        self.changed.notify_all();
    }
}

impl LineWriter {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<LineWriter> {
        let queue = Arc::new(LineQueue { state: Mutex::default(), changed: Condvar::new() });
        let own = Arc::clone(&queue);
        thread::Builder::new().name("line".to_owned()).spawn(move || own.write_all(out))?;
        Ok(LineWriter { queue })
    }

    /// Sends a message without waiting. Drops it after the end.
    pub(super) fn send(&self, message: &impl Serialize) {
        if let Ok(line) = line_of(message) {
            self.put(self.queue.lock(), line);
        }
    }

    /// Sends a message once there is room for it.
    ///
    /// # Errors
    /// The line is closed.
    pub(super) fn send_bulk(&self, message: &impl Serialize) -> io::Result<()> {
        let line = line_of(message)?;
        let mut state = self.queue.lock();
        while state.bytes >= ROOM && !state.cut && !state.finished {
            state = self.queue.wait(state);
        }
        if state.cut || state.finished {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.put(state, line);
        Ok(())
    }

    fn put(&self, mut state: MutexGuard<'_, LineState>, line: Vec<u8>) {
        if !state.cut && !state.finished {
            state.bytes += line.len();
            state.lines.push_back(line);
            self.queue.changed.notify_all();
        }
    }

    /// Sends a message if nothing waits to be written. Returns false once the line is closed.
    pub(super) fn send_if_idle(&self, message: &impl Serialize) -> bool {
        let state = self.queue.lock();
        if state.cut || state.finished {
            return false;
        }
        if state.is_idle()
            && let Ok(line) = line_of(message)
        {
            self.put(state, line);
        }
        true
    }

    /// Closes the line once everything is written.
    pub(super) fn finish(&self) {
        self.queue.lock().finished = true;
        self.queue.changed.notify_all();
    }

    /// Closes the line. Unwritten messages are dropped.
    pub(super) fn cut(&self) {
        self.queue.lock().cut = true;
        self.queue.changed.notify_all();
    }

    /// Whether nothing is written any more.
    pub(super) fn is_cut(&self) -> bool {
        self.queue.lock().cut
    }

    /// Waits until everything is written or the line is closed, and returns whether that happened in
    /// time.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.queue.lock();
        while !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the next line into `line`, with its end. Returns false at the end of the input.
///
/// # Errors
/// I/O errors; a line longer than `limit` is an error of the kind `InvalidData`.
pub(super) fn read_line(
    input: &mut impl BufRead,
    limit: usize,
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    line.clear();
    input.by_ref().take(limit as u64).read_until(b'\n', line)?;
    if line.len() >= limit && line.last() != Some(&b'\n') {
        let why = format!("a line is longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(!line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{
        io::BufReader,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
    };

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn messages_arrive_in_their_order_and_the_end_closes_the_line() {
        let (reader, writer) = io::pipe().unwrap();
        let line = LineWriter::start(writer).unwrap();
        line.send(&1);
        line.send_bulk(&"two").unwrap();
        line.send(&3);
        line.finish();
        line.send(&4);
        assert!(line.send_bulk(&5).is_err());
        let read: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert_eq!(read, ["1", "\"two\"", "3"]);
        assert!(line.flush(SOON));
    }

    #[test]
    fn bulk_waits_for_a_slow_reader_and_notices_do_not() {
        let (reader, writer) = io::pipe().unwrap();
        let line = LineWriter::start(writer).unwrap();
        let block = "x".repeat(64 * 1024);
        let sent = Arc::new(AtomicUsize::new(0));
        let (filler, count) = (line.clone(), Arc::clone(&sent));
        let (told, ended) = mpsc::channel();
        thread::spawn(move || {
            while filler.send_bulk(&block).is_ok() {
                count.fetch_add(block.len(), Ordering::Relaxed);
            }
            told.send(()).unwrap();
        });
        let mut before = usize::MAX;
        while before != sent.load(Ordering::Relaxed) {
            before = sent.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
        }
        assert!(before <= 2 * ROOM, "{before} bytes wait");
        line.send(&"order");
        assert!(!line.flush(Duration::ZERO));
        line.cut();
        ended.recv_timeout(SOON).unwrap();
        drop(reader);
        assert!(line.flush(SOON));
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_line() {
        let (reader, writer) = io::pipe().unwrap();
        let line = LineWriter::start(writer).unwrap();
        drop(reader);
        while line.send_bulk(&"x").is_ok() {}
        assert!(line.flush(SOON));
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut line = Vec::new();
        let mut input = io::Cursor::new(b"one\ntwo".to_vec());
        assert!(read_line(&mut input, 4, &mut line).unwrap());
        assert_eq!(line, b"one\n");
        assert!(read_line(&mut input, 4, &mut line).unwrap());
        assert_eq!(line, b"two");
        assert!(!read_line(&mut input, 4, &mut line).unwrap());
        let mut endless = BufReader::new(io::repeat(b'x'));
        assert!(read_line(&mut endless, 1000, &mut line).is_err());
        assert_eq!(line.len(), 1000);
    }
}
