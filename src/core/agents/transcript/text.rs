//! Plain text, of which only the end is kept.

use super::{AgentTranscript, MESSAGE, phrase};

/// The end of the text so far.
#[derive(Debug, Default)]
pub(super) struct TextReader {
    tail: Vec<u8>,
}

impl TextReader {
    pub fn take(&mut self, transcript: &mut AgentTranscript, bytes: &[u8]) {
        transcript.has_spoken = transcript.has_spoken || !bytes.trim_ascii().is_empty();
        let bytes = &bytes[bytes.len().saturating_sub(MESSAGE)..];
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 4 * MESSAGE {
            self.tail.drain(..self.tail.len() - MESSAGE);
        }
        let near = &self.tail[self.tail.len().saturating_sub(2048)..];
        if let Some(line) = last(&String::from_utf8_lossy(near)) {
            transcript.doing = Some(phrase(line));
        }
    }

    pub fn finish(&mut self, transcript: &mut AgentTranscript) {
        let tail = &self.tail[self.tail.len().saturating_sub(MESSAGE)..];
        let text = String::from_utf8_lossy(tail);
        transcript.last_line = last(&text).map(short);
        transcript.message = (!text.trim().is_empty()).then(|| text.trim().to_owned());
        transcript.doing = None;
    }
}

/// The last non-blank line. A line overwritten by a progress bar does not count.
fn last(text: &str) -> Option<&str> {
    text.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty())
}

/// The beginning of a line.
pub(super) fn short(line: &str) -> String {
    line.trim().chars().take(500).collect()
}
