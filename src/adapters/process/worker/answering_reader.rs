//! What a worker reads from its guardian. It must not interpret the messages.

use std::{
    fs::File,
    io::{self, Read},
};

use super::{FromWorker, LineWriter};

/// The bytes of a part of a message that is answered: `srun` sends 1,024 at once. A line that carries single
/// bytes would be flooded with answers.
const ANSWERED: usize = 512;

/// What the guardian sends. A part of a message is answered, so that TCP does not hold back the rest.
pub(super) struct AnsweringReader {
    input: File,
    /// None before this worker has said who it is.
    line: Option<LineWriter>,
}

impl AnsweringReader {
    /// A reader that does not answer yet.
    pub(super) fn new(input: File) -> AnsweringReader {
        AnsweringReader { input, line: None }
    }

    /// Answers on this line from now on.
    pub(super) fn answer_on(&mut self, line: LineWriter) {
        self.line = Some(line);
    }
}

impl Read for AnsweringReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        if let Some(line) = &self.line
            && length >= ANSWERED
            && !buffer[..length].ends_with(b"\n")
        {
            line.send_if_idle(&FromWorker::Pulse {});
        }
        Ok(length)
    }
}
