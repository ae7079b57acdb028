//! A pack on the line, in both directions: in parts.

use std::io::{self, Read, Write};

use super::{CHUNK, Encoded, FromWorker, LineWriter, ToWorker, Worker};

/// The parts of a pack as they arrive.
pub(super) struct PackReader<'a> {
    pub(super) worker: &'a Worker,
    pub(super) part: io::Cursor<Vec<u8>>,
    pub(super) has_ended: bool,
}

impl Read for PackReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.part.read(into)?;
            if length > 0 || into.is_empty() || self.has_ended {
                return Ok(length);
            }
            match self.worker.next()? {
                ToWorker::Pack(part) => self.part = io::Cursor::new(part.bytes()?),
                ToWorker::PackEnd {} => self.has_ended = true,
                _ => {}
            }
        }
    }
}

/// A pack that is sent in parts.
pub(super) struct PackWriter<'a> {
    pub(super) line: &'a LineWriter,
    pub(super) part: Vec<u8>,
}

impl Write for PackWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(CHUNK - self.part.len());
        self.part.extend_from_slice(&bytes[..length]);
        if self.part.len() == CHUNK {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.part.is_empty() {
            self.line.send_bulk(&FromWorker::Pack(Encoded::of(&self.part)))?;
            self.part.clear();
        }
        Ok(())
    }
}
