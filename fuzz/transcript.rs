//! The output of an agent in any format: it is read to the same end in one part and in two.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::agents::transcript::{AgentTranscript, Format, TranscriptReader};

fn read(format: Format, parts: &[&[u8]]) -> AgentTranscript {
    let mut reader = TranscriptReader::new(format).with_pieces();
    parts.iter().for_each(|part| reader.push(part));
    reader.finish()
}

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (format, at, bytes) = input;
    let (_, format) = Format::ALL[usize::from(format) % Format::ALL.len()];
    let (first, second) = bytes.split_at(usize::from(at).min(bytes.len()));
    assert_eq!(read(format, &[bytes]), read(format, &[first, second]));
});
