//! Splits bytes into lines and lines into events, in bounded memory, and recovers events from
//! damaged lines; and keeps the end of a plain text.

use serde_json::{Deserializer, Value};

use super::{AgentTranscript, MESSAGE, phrase};

/// The longest line that is kept, in bytes. Results of tools take hundreds of kilobytes.
const LONGEST: usize = 8 << 20;
/// The number of positions to try in a damaged line.
const TRIES: usize = 64;

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    skips: bool,
    /// The number of lines longer than [`LONGEST`].
    pub skipped: u64,
}

impl LineSplitter {
    /// Calls `take` with each line that is complete, without its line break.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            if !self.skips && self.line.len() + text.len() > LONGEST {
                self.skips = true;
                self.skipped += 1;
                self.line = Vec::new();
            }
            match (self.skips, is_whole) {
                (true, _) => self.skips = !is_whole,
                (false, true) if self.line.is_empty() => take(text),
                (false, _) => {
                    self.line.extend_from_slice(text);
                    if is_whole {
                        take(&self.line);
                        self.line.clear();
                        self.line.shrink_to(LONGEST / 8);
                    }
                }
            }
        }
    }

    /// The bytes after the last line break.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }
}

/// The events in a line: usually one, but several if lines were joined or one was written into the
/// middle of another.
pub(super) fn events(line: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let whole = joined(text);
    if !whole.is_empty() {
        return whole.into_iter().flat_map(flat).collect();
    }
    // An event within another one, or after a truncated one.
    for (at, _) in text.match_indices("{\"").skip_while(|(at, _)| *at == 0).take(TRIES) {
        let mut values = Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let Some(Ok(inner @ Value::Object(_))) = values.next() else {
            continue;
        };
        let end = at + values.byte_offset();
        if end == text.len() {
            return vec![inner];
        }
        let outer = format!("{}{}", &text[..at], &text[end..]);
        if let Ok(outer) = serde_json::from_str::<Value>(&outer) {
            return vec![inner, outer];
        }
    }
    Vec::new()
}

/// Consecutive objects and lists of objects, up to the first damage.
fn joined(text: &str) -> Vec<Value> {
    if !text.starts_with(['{', '[']) {
        return Vec::new();
    }
    let values = Deserializer::from_str(text).into_iter::<Value>();
    values.map_while(Result::ok).filter(|value| value.is_object() || value.is_array()).collect()
}

fn flat(value: Value) -> Vec<Value> {
    if let Value::Array(values) = value {
        return values.into_iter().filter(Value::is_object).collect();
    }
    vec![value]
}

/// The end of a plain text so far.
#[derive(Debug, Default)]
pub(super) struct TextEnd {
    tail: Vec<u8>,
}

impl TextEnd {
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
        for line in text.split(['\n', '\r']).filter(|line| !line.trim().is_empty()) {
            transcript.keep_line(&short(line));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn types(line: &str) -> Vec<String> {
        events(line.as_bytes()).iter().map(|event| event["type"].to_string()).collect()
    }

    #[test]
    fn whole_events_are_recovered_from_damaged_lines() {
        let (a, b) = (r#"{"type":"a","x":{"y":[1]}}"#, r#"{"type":"b"}"#);
        assert_eq!(types(a), ["\"a\""]);
        assert_eq!(types(&format!("{a}{b}\r")), ["\"a\"", "\"b\""]);
        assert_eq!(types(&format!("[{a},{b},3]")), ["\"a\"", "\"b\""]);
        assert_eq!(types(&format!("{a} and words")), ["\"a\""]);
        assert_eq!(types(&format!("warning: {a}")), ["\"a\""]);
        // An event written into the middle of another one.
        assert_eq!(types(&a.replacen("\"x\"", &format!("{b}\"x\""), 1)), ["\"b\"", "\"a\""]);
        // An event after a truncated one.
        assert_eq!(types(&format!("{}{b}", &a[..14])), ["\"b\""]);
        for nothing in ["", "words", "{", "{\"type\":", "17", "\"x\"", "[[{", "]"] {
            assert_eq!(types(nothing), [""; 0], "{nothing}");
        }
        // A byte that is not UTF-8 does not lose the line.
        assert_eq!(events(b"{\"type\":\"a\xff\"}")[0]["type"], "a\u{fffd}");
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_counted() {
        let mut lines = LineSplitter::default();
        let mut seen = Vec::new();
        let block = vec![b'x'; 1 << 20];
        lines.push(b"one\n", |line| seen.push(line.len()));
        for _ in 0..64 {
            lines.push(&block, |line| seen.push(line.len()));
            assert!(lines.line.capacity() <= 2 * LONGEST);
        }
        lines.push(b"x\ntwo!\nend", |line| seen.push(line.len()));
        assert_eq!((seen, lines.skipped, lines.rest()), (vec![3, 4], 1, b"end".to_vec()));
    }
}
