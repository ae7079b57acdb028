//! Reads YAML in the layout that people and programs usually write, straight from its lines.
//!
//! The layout is: block mappings and block lists; scalars on one line, without quotes or in single
//! or double quotes; lists and mappings in brackets on one line; literal and folded blocks;
//! comments. Every function returns `None` for anything else: anchors, aliases, tags, values of
//! several lines, tabs, document markers, unknown escapes, a key given twice, and every error. The
//! full readers then read the text, so `None` is never a judgement. What is read here has exactly the
//! values that they give, which the tests of `line_graph` compare.

mod block;
mod flow;
mod scalar;
mod value;

pub(super) use value::{LineValue, Scalar};

/// The limit on nesting, far below those of the full readers.
const MAX_DEPTH: usize = 16;
/// The limit on the length of a key, below the 1024 bytes of YAML.
const MAX_KEY: usize = 128;

/// A line with content, without its indentation, trailing blanks and line break.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentLine<'t> {
    /// The number of blanks before the content.
    pub(super) indent: usize,
    /// The content, which may end with a comment.
    pub(super) body: &'t str,
}

/// Where the lines of a mapping stand.
pub(super) enum MappingLine<'t> {
    /// The key of an entry, and the rest of its line.
    Entry(&'t str, &'t str),
    /// The mapping has ended.
    End,
}

/// The lines of a text, one at a time. Blank lines and lines that are comments are left out.
pub(super) struct Lines<'t> {
    /// The text after the current line.
    rest: &'t str,
    length: usize,
    /// The start of the current line in the text; its end at the end.
    start: usize,
    current: Option<ContentLine<'t>>,
}

impl<'t> Lines<'t> {
    /// The lines of a text, at the first one.
    pub(super) fn new(text: &'t str) -> Option<Lines<'t>> {
        are_plain_characters(text).then_some(())?;
        let mut lines = Lines { rest: text, length: text.len(), start: 0, current: None };
        lines.advance()?;
        Some(lines)
    }

    /// The start of the current line in the text, or the end of the text.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The current line; none at the end.
    pub(super) fn current(&self) -> Option<ContentLine<'t>> {
        self.current
    }

    /// Whether the current line is an item of a list at this indentation.
    pub(super) fn is_item(&self, indent: usize) -> bool {
        self.current.is_some_and(|line| line.indent == indent && is_item(line.body))
    }

    /// Takes the dash from the current line, so that it begins with the item.
    pub(super) fn enter_item(&mut self) -> Option<ContentLine<'t>> {
        let line = self.current?;
        let body = line.body.strip_prefix('-')?.trim_start_matches(' ');
        if body.is_empty() || body.starts_with('#') || is_item(body) {
            return None;
        }
        let line = ContentLine { indent: line.indent + (line.body.len() - body.len()), body };
        self.current = Some(line);
        Some(line)
    }

    /// The current line as a line of a mapping at this indentation.
    pub(super) fn entry(&self, indent: usize) -> Option<MappingLine<'t>> {
        match self.current {
            Some(line) if line.indent == indent => {
                key(line.body).map(|(key, rest)| MappingLine::Entry(key, rest))
            }
            Some(line) if line.indent > indent => None,
            Some(_) | None => Some(MappingLine::End),
        }
    }

    /// Moves to the value on the lines below a key, which has nothing on its own line.
    pub(super) fn value_below(&mut self, rest: &str) -> Option<()> {
        rest.is_empty().then_some(())?;
        self.advance()
    }

    /// Reads the value of an entry of a mapping at `indent`, or of an item of a list there. `rest` is
    /// what is on the line.
    pub(super) fn value(
        &mut self,
        indent: usize,
        rest: &'t str,
        depth: usize,
    ) -> Option<LineValue<'t>> {
        match rest.as_bytes().first() {
            None => {
                self.advance()?;
                self.nested(indent, depth)
            }
            Some(b'|' | b'>') => block::text(self, indent, rest).map(LineValue::Scalar),
            Some(b'[' | b'{') => {
                let value = flow::whole(rest)?;
                self.advance()?;
                Some(value)
            }
            Some(_) => {
                let scalar = scalar::whole(rest)?;
                self.advance()?;
                Some(LineValue::Scalar(scalar))
            }
        }
    }

    /// Reads the value on the lines below a key of a mapping at `indent`.
    fn nested(&mut self, indent: usize, depth: usize) -> Option<LineValue<'t>> {
        let Some(line) = self.current.filter(|line| line.indent >= indent) else {
            return Some(LineValue::Empty);
        };
        if depth == MAX_DEPTH {
            return None;
        }
        if is_item(line.body) {
            return self.list(line.indent, depth + 1);
        }
        if line.indent == indent {
            return Some(LineValue::Empty);
        }
        self.mapping(line.indent, depth + 1)
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<LineValue<'t>> {
        let mut items = Vec::new();
        while self.is_item(indent) {
            let line = self.enter_item()?;
            items.push(if key(line.body).is_some() {
                if depth == MAX_DEPTH {
                    return None;
                }
                self.mapping(line.indent, depth + 1)?
            } else {
                self.value(indent, line.body, depth)?
            });
        }
        self.ends(indent).then_some(LineValue::List(items))
    }

    /// Reads a mapping whose first line is the current one.
    pub(super) fn mapping(&mut self, indent: usize, depth: usize) -> Option<LineValue<'t>> {
        let mut entries: Vec<(&'t str, LineValue<'t>)> = Vec::new();
        while let MappingLine::Entry(key, rest) = self.entry(indent)? {
            if entries.iter().any(|(other, _)| *other == key) {
                return None;
            }
            entries.push((key, self.value(indent, rest, depth)?));
        }
        Some(LineValue::Mapping(entries))
    }

    /// Whether a list at `indent` ends before the current line, rather than that the line is wrong.
    pub(super) fn ends(&self, indent: usize) -> bool {
        self.current.is_none_or(|line| line.indent <= indent)
    }

    /// Moves to the next line with content.
    fn advance(&mut self) -> Option<()> {
        while !self.rest.is_empty() {
            self.start = self.length - self.rest.len();
            let (line, _) = self.take();
            let indent = blanks(line);
            let body = &line[indent..];
            if body.is_empty() || body.starts_with('#') {
                continue;
            }
            let is_marker = |marker| body.starts_with(marker);
            if indent == 0 && ["---", "...", "%"].into_iter().any(is_marker) {
                return None;
            }
            self.current = Some(ContentLine { indent, body: body.trim_end_matches(' ') });
            return Some(());
        }
        self.start = self.length;
        self.current = None;
        Some(())
    }

    /// Takes any line, and whether it ends with a line break.
    fn take(&mut self) -> (&'t str, bool) {
        match self.rest.split_once('\n') {
            Some((line, rest)) => {
                self.rest = rest;
                (line, true)
            }
            None => (std::mem::take(&mut self.rest), false),
        }
    }
}

fn is_item(body: &str) -> bool {
    let bytes = body.as_bytes();
    bytes.first() == Some(&b'-') && bytes.get(1).is_none_or(|next| *next == b' ')
}

/// The number of blanks at the start.
fn blanks(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}

/// Splits `key: value # comment`. A value that is only a comment is empty.
fn key(body: &str) -> Option<(&str, &str)> {
    let end = body.bytes().position(|byte| !is_key_byte(byte))?;
    let (key, rest) = (is_key(&body[..end]).then_some(&body[..end])?, &body[end..]);
    let rest = rest.strip_prefix(':')?;
    let value = rest.trim_start_matches(' ');
    if value.len() == rest.len() && !rest.is_empty() {
        return None;
    }
    Some((key, if value.starts_with('#') { "" } else { value }))
}

fn is_key_byte(byte: u8) -> bool {
    /// Whether each byte can be part of a key.
    const KEY_BYTES: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0_u8;
        while byte < 0x80 {
            table[byte as usize] =
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            byte += 1;
        }
        table
    };
    KEY_BYTES[byte as usize]
}

/// Whether the word is a key that is text to every reader.
fn is_key(word: &str) -> bool {
    word.len() <= MAX_KEY
        && word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && (!matches!(word.len(), 4 | 5)
            || !["null", "true", "false"].iter().any(|other| other.eq_ignore_ascii_case(word)))
}

/// Whether no character of the text is refused, a line break to some readers only, or a tab.
fn are_plain_characters(text: &str) -> bool {
    // Bitwise and without early exit, so that the compiler can use vector instructions.
    let (suspect, wide) = text.as_bytes().iter().fold((0, 0), |(suspect, wide), &byte| {
        let control = u8::from(byte < 0x20) & u8::from(byte != b'\n');
        (suspect | control | u8::from(byte == 0x7f), wide | byte)
    });
    let refused = |c: char| {
        matches!(c, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
            || u32::from(c) & 0xfffe == 0xfffe
    };
    suspect == 0 && (wide < 0x80 || !text.chars().any(refused))
}
