//! Reads the files with an agent's output.
//!
//! The meaning of the output is in `core::agents::transcript`. Files are read in blocks, because an
//! agent may print gigabytes.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    core::agents::transcript::{AgentTranscript, Format, MESSAGE, TranscriptReader, Usage},
    regular_file,
};

/// The last lines of a file that are not blank, as text, each cut to 500 characters.
///
/// # Errors
/// I/O errors.
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

/// A growing file, read incrementally. It need not exist yet.
#[derive(Debug)]
pub struct OutputTail {
    path: PathBuf,
    offset: u64,
}

impl OutputTail {
    /// Starts at the beginning of the file at `path`.
    pub fn new(path: PathBuf) -> OutputTail {
        OutputTail { path, offset: 0 }
    }

    /// Passes on the bytes added since the last call, in blocks; false if there were none. A read
    /// error counts as no new data.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> bool {
        if let Ok(found) = fs::metadata(&self.path) {
            if found.len() == self.offset {
                return false;
            }
            // Of long output the middle is dropped; new output is appended to the rest.
            self.offset = self.offset.min(found.len());
        }
        let begin = self.offset;
        let Ok(mut file) = regular_file::open(&self.path) else {
            return false;
        };
        if file.seek(SeekFrom::Start(begin)).is_err() {
            return false;
        }
        let mut block = vec![0; 64 * 1024];
        loop {
            match file.read(&mut block) {
                Ok(length @ 1..) => {
                    each(&block[..length]);
                    self.offset += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return self.offset > begin,
            }
        }
    }
}

/// The output of an agent, parsed while the agent runs.
pub struct Follow {
    tail: OutputTail,
    /// None for plain text: only its last line matters.
    transcript: Option<TranscriptReader>,
    /// The last line of plain text, with the length and the time of the file that had it.
    last: Option<(u64, SystemTime, Option<String>)>,
}

impl Follow {
    /// Reads the file at `path`, which need not exist yet.
    pub fn new(path: PathBuf, format: Format) -> Follow {
        let transcript = (format != Format::Text).then(|| TranscriptReader::new(format));
        Follow { tail: OutputTail::new(path), transcript, last: None }
    }

    /// Reads the new output. Returns the transcript so far; none for plain text.
    pub fn look(&mut self) -> Option<&AgentTranscript> {
        let transcript = self.transcript.as_mut()?;
        self.tail.read(|bytes| transcript.push(bytes));
        Some(transcript.transcript())
    }

    /// Whether it has printed events that have not been read.
    pub fn has_events(&self) -> bool {
        let length = |path| fs::metadata(path).map_or(0, |found| found.len());
        self.transcript.is_some() && length(&self.tail.path) != self.tail.offset
    }

    /// The usage read so far.
    pub fn usage(&self) -> Option<&Usage> {
        self.transcript.as_ref().map(|transcript| &transcript.transcript().usage)
    }

    /// The agent's current activity in one line, as far as it has been read. Raw text.
    pub fn doing(&mut self) -> Option<String> {
        if let Some(transcript) = &self.transcript {
            return transcript.transcript().doing.clone();
        }
        // An agent is silent most of the time, and there may be many.
        let found = fs::metadata(&self.tail.path).ok()?;
        let (length, time) = (found.len(), found.modified().ok()?);
        if let Some((_, _, line)) =
            self.last.as_ref().filter(|(known, at, _)| (*known, *at) == (length, time))
        {
            return line.clone();
        }
        let line = last_line(&self.tail.path);
        self.last = Some((length, time, line.clone()));
        line
    }
}

/// The transcript of a whole file.
pub fn transcript(path: &Path, format: Format) -> AgentTranscript {
    let mut transcript = TranscriptReader::new(format);
    if format == Format::Text {
        // Only the end is kept; whether there was anything else matters if that is blank.
        transcript.push(&last_bytes(path, MESSAGE as u64).unwrap_or_default());
        if transcript.transcript().has_spoken {
            return transcript.finish();
        }
    }
    OutputTail::new(path.to_owned()).read(|bytes| transcript.push(bytes));
    transcript.finish()
}

/// The end of a file as text, at most `limit` bytes; empty if the file cannot be read.
pub fn end(path: &Path, bytes: u64) -> String {
    tail(path, bytes).unwrap_or_default()
}

fn tail(path: &Path, bytes: u64) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&last_bytes(path, bytes)?).into_owned())
}

fn last_bytes(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = regular_file::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    file.take(bytes).read_to_end(&mut tail)?;
    Ok(tail)
}

/// The end of a file, long enough for the reason of a failure.
pub fn failure(path: &Path) -> String {
    end(path, 64 * 1024)
}

/// The last line of a file that is not blank, cut to 500 characters.
pub fn last_line(path: &Path) -> Option<String> {
    let line = last_lines(path, 1).ok()?.pop()?;
    // The rules that pytest draws around its summary.
    let bare = line.trim_matches('=').trim();
    let is_ruled = line.starts_with("===") && line.ends_with("===") && !bare.is_empty();
    Some(if is_ruled { bare } else { line.trim_start() }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_found_in_a_flood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "x".repeat(100_000) + "\nlast words\r\n\n  \n").unwrap();
        assert_eq!(last_line(&path).as_deref(), Some("last words"));
        assert_eq!(last_lines(&path, 2).unwrap()[1], "last words");
        fs::write(path.with_extension("ruled"), "====== 3 passed in 0.05s ======\n").unwrap();
        assert_eq!(last_line(&path.with_extension("ruled")).as_deref(), Some("3 passed in 0.05s"));
        fs::write(&path, "x".repeat(100_000)).unwrap();
        assert_eq!(last_line(&path).unwrap().len(), 500);
    }

    #[test]
    fn plain_text_is_understood_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let long = "é a line of some length\n".repeat(20_000);
        let ends = ["", "the last line\r\n\n", "é", &" \n".repeat(100_000)];
        for text in
            ends.map(|end| long.clone() + end).into_iter().chain([String::new(), "x".into()])
        {
            fs::write(&path, &text).unwrap();
            let mut all = TranscriptReader::new(Format::Text);
            text.as_bytes().chunks(7000).for_each(|bytes| all.push(bytes));
            assert_eq!(transcript(&path, Format::Text), all.finish(), "{} bytes", text.len());
        }
    }
}
