//! The terminal: its width, its colors, and text that is safe to print.
//!
//! The only user of anstream and console.

pub mod questions;

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    iter,
};

use anstream::ColorChoice;
use serde::{Serialize, Serializer};

pub use crate::core::diagnostic::visible;

/// A text style; there are few, so that color has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Done.
    Good,
    /// Needs attention.
    Warn,
    /// Failed.
    Bad,
    /// Headings.
    Strong,
    /// Secondary information.
    Faint,
}

/// Applies styles to text, or leaves it unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paint {
    color: bool,
}

impl Paint {
    /// The painter of one stream; it depends on whether the stream is a terminal and on `NO_COLOR`,
    /// `CLICOLOR_FORCE` and `TERM`.
    pub fn for_stream(stream: &impl anstream::stream::RawStream) -> Paint {
        Paint { color: anstream::AutoStream::choice(stream) != ColorChoice::Never }
    }

    /// Whether styles are applied.
    pub fn is_on(self) -> bool {
        self.color
    }

    /// The text in the style.
    pub fn text<'a>(self, style: Style, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text = text.into();
        if !self.color {
            return text;
        }
        let code = match style {
            Style::Good => 32,
            Style::Warn => 33,
            Style::Bad => 31,
            Style::Strong => 1,
            Style::Faint => 2,
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }

    /// The rows of a text, wrapped at this width. The style is that of its sign, or of all of it if it
    /// has none; code is bold instead of in backticks.
    pub fn rows(self, style: Option<Style>, text: &str, width: Option<usize>) -> Vec<String> {
        let width = width.unwrap_or(usize::MAX);
        let rows: Vec<String> = text.split('\n').flat_map(|row| wrap(row, width)).collect();
        if !self.color {
            return rows;
        }
        let sign = style.filter(|style| *style != Style::Faint).map_or(0, |_| end_of_sign(text));
        let rest = style.filter(|_| sign == 0);
        let is_paired = text.matches('`').count().is_multiple_of(2) || is_cut_in_code(text);
        let mut is_code = false;
        let row = |(at, row): (usize, String)| {
            let (first, others) = row.split_at(if at == 0 { sign } else { 0 });
            let mut shown =
                style.map_or(first.into(), |style| self.part(style, first)).into_owned();
            for (at, part) in others.split(|c| is_paired && c == '`').enumerate() {
                is_code ^= at > 0;
                let style = if is_code { Some(Style::Strong) } else { rest };
                shown += &style.map_or(part.into(), |style| self.part(style, part));
            }
            shown
        };
        rows.into_iter().enumerate().map(row).collect()
    }

    /// A part of a text in the style; nothing for nothing.
    fn part(self, style: Style, text: &str) -> Cow<'_, str> {
        if text.is_empty() { Cow::Borrowed("") } else { Cow::Owned(self.text(style, text).into()) }
    }
}

/// Whether a text with an odd number of backticks was cut after the last one.
fn is_cut_in_code(text: &str) -> bool {
    text.rsplit('`').next().is_some_and(|rest| rest.contains('…'))
}

/// The signs of lines, one per kind of message.
const SIGNS: &str = "✓✗?!+-";

/// Where the sign at the beginning of a text ends; 0 if it has none.
pub fn end_of_sign(text: &str) -> usize {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let mut chars = text[indent..].chars();
    match (chars.next().filter(|sign| SIGNS.contains(*sign)), chars.next()) {
        (Some(sign), Some(' ')) => indent + sign.len_utf8(),
        _ => 0,
    }
}

/// Writes text to standard output. A closed pipe is not an error.
///
/// # Errors
/// System errors.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes bytes to standard output and reports when its reader is gone.
///
/// # Errors
/// I/O errors; a closed pipe is [`io::ErrorKind::BrokenPipe`].
pub fn put(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Draws a text over the screen of standard output, as much as fits these rows.
///
/// # Errors
/// As [`put`].
pub fn redraw(text: &str, rows: Option<usize>) -> io::Result<()> {
    let rows = rows.unwrap_or(usize::MAX).max(2);
    let lines: Vec<&str> = text.lines().collect();
    // The cursor needs the last row.
    let fits = lines.len() < rows;
    let shown = if fits { lines.len() } else { rows - 2 };
    let mut drawn = "\u{1b}[H".to_owned();
    for line in &lines[..shown] {
        drawn += line;
        drawn += "\u{1b}[K\r\n";
    }
    if !fits {
        let more = format!("  … and {} more lines\u{1b}[K\r\n", lines.len() - shown);
        drawn += &more;
    }
    drawn += "\u{1b}[J";
    put(drawn.as_bytes())
}

/// Writes bytes to standard error and reports when its reader is gone.
///
/// # Errors
/// See [`put`].
pub fn put_error(bytes: &[u8]) -> io::Result<()> {
    io::stderr().lock().write_all(bytes)
}

/// Prints a JSON value over several lines, as `--json` does.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("string keys and finite numbers only") + "\n"
}

/// Prints a list of values as [`json`] does, one after the other: together they may not fit in memory.
///
/// # Errors
/// System errors; a closed pipe is none.
pub fn print_json_list(values: impl Iterator<Item = impl Serialize>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut all = serde_json::Serializer::pretty(&mut out);
    let printed = Serializer::collect_seq(&mut all, values).map_err(io::Error::from);
    match printed.and_then(|()| writeln!(out)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes text to standard error and ignores errors.
pub fn say(text: &str) {
    let rows = Paint::for_stream(&io::stderr()).rows(None, text, None);
    let _ = writeln!(anstream::stderr(), "{}", rows.join("\n"));
}

/// Writes text to standard error as [`say`] does, wrapped if that is a terminal.
pub fn say_wrapped(text: &str) {
    for line in wrap(text, stderr_width().unwrap_or(usize::MAX)) {
        say(&line);
    }
}

/// Shows the cursor again after a program that had hidden it was stopped.
pub fn show_cursor() {
    let _ = console::Term::stderr().show_cursor();
}

/// Waits for a key of the person. Only where [`can_ask`].
///
/// # Errors
/// Ctrl-C, or the terminal is gone.
pub fn key() -> io::Result<char> {
    console::Term::stderr().read_char()
}

/// Whether a person can answer questions at a terminal.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && stderr_is_live()
}

/// Whether standard error is a terminal that can redraw lines.
pub fn stderr_is_live() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether both standard input and standard output are terminals.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The columns of the terminal of standard output; none without a terminal.
pub fn stdout_width() -> Option<usize> {
    width(&io::stdout())
}

/// The columns of the terminal of standard error; none without a terminal.
pub fn stderr_width() -> Option<usize> {
    width(&io::stderr())
}

/// The rows of the terminal of standard output; none without a terminal.
pub fn stdout_height() -> Option<usize> {
    stdout_is_terminal().then(stderr_height).flatten()
}

/// The rows of the terminal of standard error; none without a terminal.
pub fn stderr_height() -> Option<usize> {
    console::Term::stderr()
        .size_checked()
        .map(|(rows, _)| usize::from(rows))
        .filter(|rows| *rows > 0)
}

fn width(stream: &impl IsTerminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let (_, columns) = console::Term::stderr().size();
    columns_set().or(Some(usize::from(columns))).filter(|columns| *columns > 0)
}

/// The columns that the environment sets (`COLUMNS`), for text that is for people in a pipe too.
pub fn columns_set() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.filter(|columns| *columns > 0)
}

/// Like [`visible`] for text of several lines; line breaks are kept.
pub fn visible_lines(text: &str) -> String {
    let line = |line: &str| match line.strip_suffix('\n') {
        Some(line) => visible(line.strip_suffix('\r').unwrap_or(line)).into_owned() + "\n",
        None => visible(line).into_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Converts the output of a program to lines that are safe to print, without escape sequences. Only
/// the last version of a line that a progress bar overwrote remains.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = plain(&text);
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = line.trim_end_matches('\r');
        visible(line.rsplit('\r').next().unwrap_or(line)).into_owned() + end
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Like [`visible_lines`] for a stream, wherever the stream is cut.
#[derive(Debug, Default)]
pub struct Visible {
    /// The bytes whose meaning depends on the next ones.
    held: Vec<u8>,
}

impl Visible {
    /// The complete text of the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let rest = self.held.split_off(self.held.len() - open_end(&self.held));
        let text = visible_lines(&String::from_utf8_lossy(&self.held));
        self.held = rest;
        text
    }

    /// The text of the bytes that were held back.
    pub fn finish(&mut self) -> String {
        visible_lines(&String::from_utf8_lossy(&std::mem::take(&mut self.held)))
    }
}

/// The number of bytes at the end that may be the beginning of a character or of a line end.
fn open_end(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    let near = bytes.len().saturating_sub(3);
    let begin = bytes[near..].iter().rposition(|byte| *byte & 0b1100_0000 != 0b1000_0000);
    let Some(begin) = begin.map(|at| near + at) else {
        return 0;
    };
    let whole = match bytes[begin] {
        0b1100_0000..0b1110_0000 => 2,
        0b1110_0000..0b1111_0000 => 3,
        0b1111_0000.. => 4,
        _ => 1,
    };
    let there = bytes.len() - begin;
    if there < whole { there } else { 0 }
}

/// The first `width` columns of one line, with an ellipsis if it was cut.
pub fn fit(text: &str, width: usize) -> Cow<'_, str> {
    console::truncate_str(text, width, "…")
}

/// Text wrapped at blanks to lines of at most `width` columns; continuation lines get the
/// indentation of the first line and two columns more. A word wider than a line is broken.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    if columns(text) <= width {
        return vec![text.to_owned()];
    }
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    let mut filled = indent;
    let mut empty = true;
    let mut blanks = 0;
    for word in text.trim().split(' ') {
        let wide = columns(word);
        if !empty {
            blanks += 1;
            if word.is_empty() {
                continue;
            }
            if filled + blanks + wide > width {
                lines.push(" ".repeat(indent + 2));
                (filled, empty) = (indent + 2, true);
            }
        }
        if !empty {
            lines.last_mut().expect("there is a first line").push_str(&" ".repeat(blanks));
            filled += blanks;
        }
        blanks = 0;
        for c in word.chars() {
            let wide = columns(c.encode_utf8(&mut [0; 4]));
            if filled + wide > width.max(indent + 4) {
                lines.push(" ".repeat(indent + 2));
                filled = indent + 2;
            }
            lines.last_mut().expect("there is a first line").push(c);
            filled += wide;
        }
        empty = false;
    }
    lines
}

/// The text without colors.
pub fn plain(text: &str) -> Cow<'_, str> {
    console::strip_ansi_codes(text)
}

/// The number of columns of a text.
pub fn columns(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A heading and rows of cells aligned in columns with two blanks between them, cut at the width of
/// the terminal if standard output is one. Control characters in the cells are shown.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    table_within(stdout_width().unwrap_or(usize::MAX), head, rows)
}

/// The least columns for the cells of a column that is cut in the middle, and those that the last column
/// has at least.
const CELL: usize = 16;

/// A table of this width. Long cells of the widest column but the last lose their middle: an id is
/// known by its ends, and later columns say more.
fn table_within<const N: usize>(
    screen: usize,
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows = iter::once(head.map(str::to_owned)).chain(rows);
    let mut rows: Vec<_> = rows.map(|row| row.map(|cell| visible(&cell).into_owned())).collect();
    let width = |at: usize| rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..N).map(width).collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let cut = widths.last().map_or(0, |last| last.saturating_sub(CELL) + 2);
    let over = used.saturating_sub(cut).saturating_sub(screen);
    if let Some(at) = (0..N.saturating_sub(1)).max_by_key(|at| widths[*at]) {
        widths[at] = widths[at].saturating_sub(over).max(CELL.min(widths[at]));
        for row in &mut rows {
            row[at] = without_middle(&row[at], widths[at]);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let line = cells.fold(String::new(), |line, (cell, width)| {
            format!("{line}{cell}{}", " ".repeat(width - columns(cell) + 2))
        });
        text.push_str(&fit(line.trim_end(), screen));
        text.push('\n');
    }
    text
}

/// A text shortened in the middle.
fn without_middle(text: &str, most: usize) -> String {
    let head = fit(text, most.div_ceil(2));
    let starts = text.char_indices().map(|(at, _)| at);
    let tail = starts.map(|at| &text[at..]).find(|it| columns(it) + columns(&head) <= most);
    if columns(text) <= most { text.to_owned() } else { format!("{head}{}", tail.unwrap_or("")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_id_does_not_push_the_verdict_off_the_screen() {
        let long = "migrate-the-billing-service-from-the-old-queue-to-the-new-one-01";
        let row =
            |id: &str| [id, "complete", "$1.20", "a long title that may be cut"].map(str::to_owned);
        let text = table_within(60, ["id", "verdict", "cost", ""], [row("one"), row(long)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| columns(line) <= 60), "{text}");
        assert!(lines[1].contains("complete  $1.20  a long"), "{text}");
        assert!(
            lines[2].starts_with("migrate-the-")
                && lines[2].contains("new-one-01  complete  $1.20"),
            "{text}"
        );
        assert_eq!(without_middle("日本語日本語", 7), "日…本語");
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("plain é"), "plain é");
        assert_eq!(visible("a\u{1b}[31m\tb\u{202e}"), "a\\u{1b}[31m b\\u{202e}");
    }

    #[test]
    fn a_stream_is_safe_wherever_it_is_cut() {
        let text = "one \u{1b}[31mtwo\u{1b}[0m\r\nzwölf 日本 🦀\r three\n\nno end".as_bytes();
        let want = "one \\u{1b}[31mtwo\\u{1b}[0m\nzwölf 日本 🦀\\u{d} three\n\nno end";
        for cut in 0..=text.len() {
            let mut stream = Visible::default();
            let mut shown = stream.push(&text[..cut]) + &stream.push(&text[cut..]);
            shown += &stream.finish();
            assert_eq!(shown, want, "cut at {cut}");
        }
        let mut stream = Visible::default();
        assert_eq!(stream.push(b"\xff\xc3") + &stream.push(b"a\xf0\x9f"), "\u{fffd}\u{fffd}a");
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn long_text_is_broken_at_blanks() {
        assert_eq!(wrap("  one two three", 9), ["  one two", "    three"]);
        assert_eq!(wrap("short", 9), ["short"]);
        assert_eq!(wrap("a bcdefghij k", 6), ["a", "  bcde", "  fghi", "  j k"]);
        assert_eq!(wrap("日本語です", 6), ["日本語", "  です"]);
        assert_eq!(wrap("", 6), [""]);
    }

    #[test]
    fn colors_are_removed() {
        let painted = Paint { color: true }.text(Style::Bad, "no");
        assert_eq!((painted.len() > 2, &*plain(&painted)), (true, "no"));
    }

    #[test]
    fn wide_text_is_cut_by_columns() {
        assert_eq!(fit("日本語です", 7), "日本語…");
        assert_eq!(columns("日本"), 4);
    }
}
