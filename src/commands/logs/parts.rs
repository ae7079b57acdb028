//! The output of agents as text: on the terminal, where it is held back until the last lines are known;
//! and parts of files that grow.

use std::{collections::VecDeque, io, os::unix::fs::FileExt, path::Path};

use anyhow::Result;
use serde::Serialize;

use crate::{
    adapters::terminal::{self, Paint, Style, plain, printable, visible, visible_lines},
    core::agents::transcript::{Format, OutputPiece, TranscriptReader},
    regular_file,
};

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputSide {
    Out,
    Err,
}

/// The output: buffered until the last lines are known, then live.
pub(super) struct Out {
    pub(super) paint: Paint,
    pub(super) width: Option<usize>,
    held: Option<VecDeque<(OutputSide, Vec<u8>)>>,
    most: usize,
    /// Whether the last line is incomplete.
    is_open: bool,
}

impl Out {
    pub(super) fn new(lines: Option<usize>) -> Out {
        Out {
            paint: Paint::for_stream(&io::stdout()),
            width: terminal::stdout_width(),
            held: lines.map(|_| VecDeque::new()),
            most: lines.unwrap_or(usize::MAX),
            is_open: false,
        }
    }

    pub(super) fn put(&mut self, stream: OutputSide, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.is_open = bytes.last() != Some(&b'\n');
        let Some(held) = &mut self.held else {
            return Ok(stream.put(bytes)?);
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match held.back_mut() {
                Some((before, begun)) if *before == stream && begun.last() != Some(&b'\n') => {
                    begun.extend_from_slice(line);
                }
                _ => held.push_back((stream, line.to_vec())),
            }
            if held.len() > self.most {
                held.pop_front();
            }
        }
        Ok(())
    }

    /// Completes the last line.
    pub(super) fn begin_line(&mut self) -> Result<()> {
        if self.is_open { self.put(OutputSide::Out, b"\n") } else { Ok(()) }
    }

    pub(super) fn go_live(&mut self) -> Result<()> {
        for (stream, line) in self.held.take().unwrap_or_default() {
            stream.put(&line)?;
        }
        Ok(())
    }

    /// Prints one item of an agent's transcript.
    pub(super) fn print_piece(&mut self, piece: &OutputPiece) -> Result<()> {
        if !matches!(piece, OutputPiece::Continuation(_)) {
            self.begin_line()?;
        }
        let (style, text) = shown(piece);
        let text = match style {
            Some(style) => self.paint.text(style, text).into_owned(),
            None => text,
        };
        self.put(OutputSide::Out, text.as_bytes())
    }
}

/// One item of an agent's transcript as text that is safe to print, with its style.
pub(super) fn shown(piece: &OutputPiece) -> (Option<Style>, String) {
    match piece {
        OutputPiece::Message(text) => (None, visible_lines(text.trim_start())),
        OutputPiece::Continuation(text) => (None, visible_lines(text)),
        OutputPiece::Action(doing) => (Some(Style::Faint), format!("  > {}", visible(doing))),
        OutputPiece::Failure(why) => (Some(Style::Bad), format!("failed: {}", visible(why))),
        OutputPiece::Line(line) => (None, visible(&plain(line)).into_owned()),
    }
}

impl OutputSide {
    fn put(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            OutputSide::Out => terminal::put(bytes),
            OutputSide::Err => terminal::put_error(bytes),
        }
    }
}

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
    fn of(piece: &OutputPiece) -> TranscriptPiece {
        let kind = match piece {
            OutputPiece::Message(_) | OutputPiece::Line(_) => PieceKind::Says,
            OutputPiece::Continuation(_) => PieceKind::GoesOn,
            OutputPiece::Action(_) => PieceKind::Uses,
            OutputPiece::Failure(_) => PieceKind::Fails,
        };
        TranscriptPiece { kind, text: shown(piece).1.trim_start_matches("  > ").to_owned() }
    }
}
