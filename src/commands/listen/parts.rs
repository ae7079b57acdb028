//! Parts of an attempt's files, for a reader that shows them as they grow.

use std::{io, os::unix::fs::FileExt, path::Path};

use serde::Serialize;

use super::out;
use crate::{
    adapters::terminal::printable,
    core::agents::transcript::{Format, Heard, TranscriptReader},
    regular_file,
};

/// A part of a file that grows.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct FilePart {
    /// The offset of the part, in bytes.
    from: u64,
    /// The offset of the next part.
    next: u64,
    /// The size of the file.
    size: u64,
    /// The part as text that is safe to show.
    text: String,
}

/// A part of an agent's transcript.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct TranscriptPart {
    from: u64,
    next: u64,
    size: u64,
    /// What the agent said and did, in order.
    pieces: Vec<TranscriptPiece>,
}

/// One thing that an agent said or did.
#[derive(Debug, Serialize)]
struct TranscriptPiece {
    kind: PieceKind,
    text: String,
}

/// The kinds of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PieceKind {
    /// A text, or a line of output.
    Says,
    /// The continuation of the text before it.
    GoesOn,
    /// A use of a tool.
    Uses,
    /// An error.
    Fails,
}

/// The whole lines of a file from an offset on, or its last ones.
fn lines_from(path: &Path, from: Option<u64>) -> io::Result<(u64, Vec<u8>, u64)> {
    /// The most bytes of a part.
    const PART: u64 = 128 << 10;
    let file = regular_file::open(path)?;
    let size = file.metadata()?.len();
    let mut start = from.unwrap_or_else(|| size.saturating_sub(PART)).min(size);
    let mut block = vec![0; (size - start).min(PART) as usize];
    file.read_exact_at(&mut block, start)?;
    if from.is_none() && start > 0 {
        let first = block.iter().position(|byte| *byte == b'\n').map_or(block.len(), |at| at + 1);
        block.drain(..first);
        start += first as u64;
    }
    // A line that is longer than a part is cut.
    if let Some(last) = block.iter().rposition(|byte| *byte == b'\n') {
        block.truncate(last + 1);
    } else if (block.len() as u64) < PART {
        // The line is still being written.
        block.clear();
    }
    Ok((start, block, size))
}

/// A part of a file from an offset on, or its last part.
///
/// # Errors
/// The file cannot be read.
pub(in crate::commands) fn file_part(path: &Path, from: Option<u64>) -> io::Result<FilePart> {
    let (from, block, size) = lines_from(path, from)?;
    let next = from + block.len() as u64;
    Ok(FilePart { from, next, size, text: printable(&block) })
}

/// A part of an agent's transcript from an offset of its output on, or its last part. A missing
/// output has no pieces.
pub(in crate::commands) fn transcript(
    path: &Path,
    format: Format,
    from: Option<u64>,
) -> TranscriptPart {
    let (from, block, size) = lines_from(path, from).unwrap_or_default();
    let next = from + block.len() as u64;
    let pieces = if matches!(format, Format::Text | Format::Aider) {
        printable(&block)
            .lines()
            .map(|line| TranscriptPiece { kind: PieceKind::Says, text: line.to_owned() })
            .collect()
    } else {
        let mut transcript = TranscriptReader::new(format).with_pieces();
        transcript.push(&block);
        transcript.take_pieces().iter().map(TranscriptPiece::of).collect()
    };
    TranscriptPart { from, next, size, pieces }
}

impl TranscriptPiece {
    fn of(heard: &Heard) -> TranscriptPiece {
        let kind = match heard {
            Heard::Says(_) | Heard::Prints(_) => PieceKind::Says,
            Heard::GoesOn(_) => PieceKind::GoesOn,
            Heard::Uses(_) => PieceKind::Uses,
            Heard::Fails(_) => PieceKind::Fails,
        };
        TranscriptPiece { kind, text: out::shown(heard).1.trim_start_matches("  > ").to_owned() }
    }
}
