//! The output of agents as text: on the terminal, where it is held back until the last lines are known;
//! and parts of files that grow.

use std::{collections::VecDeque, io, mem, os::unix::fs::FileExt, path::Path};

use anyhow::Result;
use chrono::NaiveDate;
use serde_json::{Value, json};

use crate::{
    adapters::{
        agent_output,
        terminal::{self, Paint, Style, plain, printable, visible, visible_lines},
    },
    core::agents::transcript::{Format, OutputPiece, TimedPiece, TranscriptReader},
    project::failure_output,
    regular_file,
    view::transcript::{ShownPaths, TranscriptPart, TranscriptPiece},
};

/// The most bytes of a part of an output.
const PART: u64 = 128 << 10;

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputSide {
    Out,
    Err,
}

/// The output: held back until it is known which lines are the last, and then as it comes.
pub(super) struct Out {
    pub(super) paint: Paint,
    pub(super) width: Option<usize>,
    held: Option<VecDeque<HeldLine>>,
    most: usize,
    /// Whether the last line is incomplete.
    is_open: bool,
    /// The prefix of the next output lines.
    pub(super) speaker: String,
    /// The prefix of the last line.
    spoke: String,
    /// The day whose heading was printed last.
    day: Option<NaiveDate>,
}

/// A line of the output, or an entry of the journal with its day.
struct HeldLine {
    side: OutputSide,
    bytes: Vec<u8>,
    day: Option<NaiveDate>,
}

impl Out {
    pub(super) fn new(lines: Option<usize>) -> Out {
        Out {
            paint: Paint::for_stream(&io::stdout()),
            width: terminal::stdout_width(),
            held: lines.map(|_| VecDeque::new()),
            most: lines.unwrap_or(usize::MAX),
            is_open: false,
            speaker: String::new(),
            spoke: String::new(),
            day: None,
        }
    }

    pub(super) fn put(&mut self, side: OutputSide, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.spoke != self.speaker {
            self.begin_line()?;
            self.spoke.clone_from(&self.speaker);
        }
        if self.speaker.is_empty() {
            return self.write(side, bytes);
        }
        let mut text = Vec::with_capacity(bytes.len());
        let mut is_open = self.is_open;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !is_open {
                text.extend_from_slice(self.paint.text(Style::Faint, &self.speaker).as_bytes());
            }
            text.extend_from_slice(line);
            is_open = line.last() != Some(&b'\n');
        }
        self.write(side, &text)
    }

    fn write(&mut self, side: OutputSide, bytes: &[u8]) -> Result<()> {
        self.is_open = bytes.last() != Some(&b'\n');
        if self.held.is_none() {
            return Ok(side.put(bytes)?);
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.held.as_mut().and_then(VecDeque::back_mut) {
                Some(before) if before.side == side && before.bytes.last() != Some(&b'\n') => {
                    before.bytes.extend_from_slice(line);
                }
                _ => self.entry(HeldLine { side, bytes: line.to_vec(), day: None })?,
            }
        }
        Ok(())
    }

    /// An entry of the journal, below the heading of its day.
    pub(super) fn put_entry(&mut self, day: Option<NaiveDate>, text: String) -> Result<()> {
        self.entry(HeldLine { side: OutputSide::Out, bytes: text.into_bytes(), day })
    }

    fn entry(&mut self, line: HeldLine) -> Result<()> {
        let Some(held) = &mut self.held else {
            return self.print(&line);
        };
        held.push_back(line);
        if held.len() > self.most {
            held.pop_front();
        }
        Ok(())
    }

    fn print(&mut self, HeldLine { side, bytes, day }: &HeldLine) -> Result<()> {
        let day = day.filter(|day| self.day != Some(*day));
        if let Some(day) = day {
            self.day = Some(day);
            let heading = self.paint.text(Style::Strong, day.to_string()).into_owned();
            side.put(&[heading.as_bytes(), b"\n", bytes].concat())?;
        } else {
            side.put(bytes)?;
        }
        Ok(())
    }

    /// Drops the held text.
    pub(super) fn clear(&mut self) {
        if let Some(held) = &mut self.held {
            held.clear();
        }
    }

    /// Completes the last line.
    pub(super) fn begin_line(&mut self) -> Result<()> {
        if self.is_open { self.write(OutputSide::Out, b"\n") } else { Ok(()) }
    }

    pub(super) fn go_live(&mut self) -> Result<()> {
        let held = self.held.take().unwrap_or_default();
        held.iter().try_for_each(|line| self.print(line))
    }

    /// Prints one item of an agent's transcript.
    pub(super) fn print_piece(&mut self, piece: &OutputPiece) -> Result<()> {
        let Some((style, mut text)) = shown(piece) else { return Ok(()) };
        if !matches!(piece, OutputPiece::Continuation(_)) {
            self.begin_line()?;
        }
        if matches!(piece, OutputPiece::Line(_)) {
            text.push('\n');
        }
        let text = match style {
            Some(style) => self.paint.text(style, text).into_owned(),
            None => text,
        };
        self.put(OutputSide::Out, text.as_bytes())
    }
}

/// The items of an agent's output, made from its bytes: those of a transcript, or the lines of plain
/// text.
pub(super) enum PieceReader {
    Typed(Box<TranscriptReader>),
    /// Plain text without colors. Holds back an incomplete line.
    Plain(Vec<u8>),
}

impl PieceReader {
    pub(super) fn new(format: Format) -> PieceReader {
        match format {
            Format::Text => PieceReader::Plain(Vec::new()),
            _ => PieceReader::Typed(Box::new(TranscriptReader::new(format).with_pieces())),
        }
    }

    /// Returns the items that the next bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<TimedPiece> {
        match self {
            PieceReader::Typed(transcript) => {
                transcript.push(bytes);
                transcript.take_pieces()
            }
            PieceReader::Plain(held) => {
                held.extend_from_slice(bytes);
                let end = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let rest = held.split_off(end);
                let lines = printable(&mem::replace(held, rest));
                let line = |line: &str| OutputPiece::Line(line.to_owned());
                lines.lines().map(|it| TimedPiece { at: None, piece: line(it) }).collect()
            }
        }
    }

    /// Returns the held pieces.
    pub(super) fn finish(&mut self) -> Vec<TimedPiece> {
        let is_open = matches!(self, PieceReader::Plain(held) if !held.is_empty());
        if is_open { self.push(b"\n") } else { Vec::new() }
    }
}

/// The last lines of the output of an attempt, as `ralph logs --output` shows them.
pub(in crate::commands) fn last_lines(path: &Path, format: Format, count: usize) -> Vec<String> {
    let end = agent_output::end(path, PART);
    // The end of a long output begins in the middle of a line.
    let is_cut = end.len() as u64 >= PART;
    let from = end.find('\n').filter(|_| is_cut).map_or(0, |at| at + 1);
    let mut reader = PieceReader::new(format);
    let mut text = String::new();
    for TimedPiece { piece, .. } in reader.push(format!("{}\n", &end[from..]).as_bytes()) {
        let Some((_, more)) = shown(&piece) else { continue };
        if !matches!(piece, OutputPiece::Continuation(_)) {
            text.push('\n');
        }
        text += &more;
    }
    failure_output::last_of(&text, count)
}

/// One item of an agent's transcript as text that is safe to print, with its style; none for
/// page-only items.
fn shown(piece: &OutputPiece) -> Option<(Option<Style>, String)> {
    let action = |line: &str| (Some(Style::Faint), format!("  > {}", visible(line)));
    Some(match piece {
        OutputPiece::Message(text) => (None, visible_lines(text.trim_start())),
        OutputPiece::Continuation(text) => (None, visible_lines(text)),
        OutputPiece::Action(doing) => action(doing),
        OutputPiece::Use(used) => action(&used.line),
        OutputPiece::Failure(why) => (Some(Style::Bad), format!("failed: {}", visible(why))),
        OutputPiece::Line(line) => (None, visible(&plain(line)).into_owned()),
        OutputPiece::Thought(_) | OutputPiece::Result(_) => return None,
    })
}

impl OutputSide {
    fn put(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            OutputSide::Out => terminal::put(bytes),
            OutputSide::Err => terminal::put_error(bytes),
        }
    }
}

/// The whole lines of a file from an offset on, or its last ones.
fn lines_from(path: &Path, from: Option<u64>, most: u64) -> io::Result<(u64, Vec<u8>, u64)> {
    let file = regular_file::open(path)?;
    let size = file.metadata()?.len();
    let mut start = from.unwrap_or_else(|| size.saturating_sub(most)).min(size);
    let mut block = vec![0; (size - start).min(most) as usize];
    file.read_exact_at(&mut block, start)?;
    if from.is_none() && start > 0 {
        let first = block.iter().position(|byte| *byte == b'\n').map_or(block.len(), |at| at + 1);
        block.drain(..first);
        start += first as u64;
    }
    // A line that is longer than a part is cut.
    if let Some(last) = block.iter().rposition(|byte| *byte == b'\n') {
        block.truncate(last + 1);
    } else if (block.len() as u64) < most {
        // The line is still being written.
        block.clear();
    }
    Ok((start, block, size))
}

/// A part of a file from an offset on, or its last part: its text, safe to show, its offset and that of
/// the next part in bytes, and the size of the file.
///
/// # Errors
/// The file cannot be read.
pub(in crate::commands) fn file_part(path: &Path, from: Option<u64>) -> io::Result<Value> {
    let (from, block, size) = lines_from(path, from, PART)?;
    let next = from + block.len() as u64;
    Ok(json!({ "from": from, "next": next, "size": size, "text": printable(&block) }))
}

/// The longest line of an output that is read whole: results of tools are long.
const LONGEST: u64 = 8 << 20;

/// A part of an agent's transcript from an offset of its output on, or its last part. A missing
/// output has no pieces.
pub(in crate::commands) fn transcript(
    path: &Path,
    format: Format,
    from: Option<u64>,
    paths: &ShownPaths,
) -> TranscriptPart {
    let mut read = lines_from(path, from, PART).unwrap_or_default();
    let is_in_line = read.1.is_empty() && (from.is_none() || read.0 < read.2);
    if is_in_line || read.1.len() as u64 >= PART {
        read = lines_from(path, from, LONGEST).unwrap_or_default();
    }
    let (from, block, size) = read;
    let next = from + block.len() as u64;
    let pieces = PieceReader::new(format).push(&block).into_iter();
    let pieces = pieces.map(|piece| TranscriptPiece::of(piece, paths)).collect();
    TranscriptPart { from, next, size, pieces }
}
