//! The output of `listen`: buffered until the last lines are known, then live.

use std::{collections::VecDeque, io};

use anyhow::Result;

use crate::{
    adapters::terminal::{self, Paint, Style, plain, visible, visible_lines},
    core::agents::transcript::Heard,
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
    pub(super) fn hear(&mut self, heard: &Heard) -> Result<()> {
        if !matches!(heard, Heard::GoesOn(_)) {
            self.begin_line()?;
        }
        let (style, text) = shown(heard);
        let text = match style {
            Some(style) => self.paint.text(style, text).into_owned(),
            None => text,
        };
        self.put(OutputSide::Out, text.as_bytes())
    }
}

/// One item of an agent's transcript as text that is safe to print, with its style.
pub(super) fn shown(heard: &Heard) -> (Option<Style>, String) {
    match heard {
        Heard::Says(text) => (None, visible_lines(text.trim_start())),
        Heard::GoesOn(text) => (None, visible_lines(text)),
        Heard::Uses(doing) => (Some(Style::Faint), format!("  > {}", visible(doing))),
        Heard::Fails(why) => (Some(Style::Bad), format!("failed: {}", visible(why))),
        Heard::Prints(line) => (None, visible(&plain(line)).into_owned()),
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
