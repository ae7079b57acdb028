//! The bytes that belong to a secret after its beginning: of one class, or the lines of a private
//! key with whatever a program puts before each line.

use super::MARK;

/// The bytes of the stream to drop now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swallow {
    /// Bytes of this class.
    Class(fn(u8) -> bool),
    /// The lines of a key: the number of dashes in a row, and whether five of them have started the
    /// last line; and what each line begins with.
    Pem { dashes: u8, ends: bool, prefix: LinePrefix },
}

/// Whether a known value was replaced here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    Here,
    /// The text may continue as a mark.
    Maybe,
    No,
}

pub(super) fn mark_at(text: &[u8]) -> Marked {
    let mark = MARK.as_bytes();
    if text.starts_with(mark) {
        Marked::Here
    } else if mark.starts_with(text) {
        Marked::Maybe
    } else {
        Marked::No
    }
}

/// Whether a known value is only a part of this text.
pub(super) fn is_part_known(body: &[u8]) -> bool {
    let mark = MARK.as_bytes();
    body != mark && body.windows(mark.len()).any(|part| part == mark)
}

/// What every line of a key begins with, as in `web_1 | MIIE…`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePrefix {
    bytes: [u8; LinePrefix::LONGEST],
    length: usize,
}

/// How a text goes on, as far as it is known.
enum Continues {
    /// With a match of this length.
    Yes(usize),
    No,
    /// More bytes are needed.
    Open,
}

impl LinePrefix {
    const LONGEST: usize = 64;

    /// The prefix of the last line of `text`, which ends with a row of `in_row` bytes of the key.
    pub fn of(text: &[u8], in_row: usize) -> LinePrefix {
        let text = &text[..text.len() - in_row];
        let end = |at: &usize| text[*at] == b'\n' || text[*at..].starts_with(b"\\n");
        let start = (0..text.len()).rev().find(end);
        let start = start.map_or(text.len(), |at| at + if text[at] == b'\n' { 1 } else { 2 });
        let mut prefix = LinePrefix { bytes: [0; LinePrefix::LONGEST], length: 0 };
        if let Some(place) = prefix.bytes.get_mut(..text.len() - start) {
            place.copy_from_slice(&text[start..]);
            prefix.length = text.len() - start;
        }
        prefix
    }

    /// Whether a line begins with this prefix. Numbers and blanks may differ.
    fn begins(&self, line: &[u8]) -> Continues {
        let kind = |byte: u8| match byte {
            b'0'..=b'9' => b'0',
            b' ' | b'\t' => b' ',
            byte => byte,
        };
        let is_run = |byte: u8| matches!(byte, b'0' | b' ');
        let (mut at, mut before) = (0, 0);
        for byte in self.bytes[..self.length].iter().map(|byte| kind(*byte)) {
            if is_run(byte) && byte == before {
                continue;
            }
            before = byte;
            let run = line[at..].iter().take_while(|it| is_run(byte) && kind(**it) == byte).count();
            match line.get(at + run) {
                None => return Continues::Open,
                Some(_) if run > 0 || byte == b' ' => at += run,
                Some(it) if kind(*it) == byte => at += 1,
                Some(_) => return Continues::No,
            }
        }
        Continues::Yes(at)
    }

    /// Whether a line ends here, possibly with a quote and what joins lines of a program, and the
    /// next line begins with this prefix.
    fn continues(&self, text: &[u8]) -> Continues {
        /// The longest end of a line, such as `\n" +`.
        const END: usize = 12;
        if self.length == 0 {
            return Continues::No;
        }
        let is_end = |at: &usize| text[*at] == b'\n' || text[*at..].starts_with(b"\\n");
        let may_end = |byte: u8| b"\\\"'nr+,; \r".contains(&byte);
        let most = text.len().min(END);
        let length = (0..most).find(|at| !may_end(text[*at])).unwrap_or(most);
        let mut open = length == text.len();
        // The last of several ends, as in `\n"` and a new line.
        for at in (0..text.len().min(length + 1)).filter(is_end) {
            let next = at + if text[at] == b'\n' { 1 } else { 2 };
            match self.begins(&text[next..]) {
                Continues::Yes(more) => return Continues::Yes(next + more),
                Continues::Open => open = true,
                Continues::No => {}
            }
        }
        if open { Continues::Open } else { Continues::No }
    }
}

impl Swallow {
    /// Returns the number of bytes to drop, and the state if more may follow.
    pub fn over(self, bytes: &[u8], is_end: bool) -> (usize, Option<Swallow>) {
        let (mut dashes, mut ends, prefix) = match self {
            Swallow::Class(class) => return over_class(bytes, class, is_end),
            Swallow::Pem { dashes, ends, prefix } => (dashes, ends, prefix),
        };
        let state = |dashes, ends| Some(Swallow::Pem { dashes, ends, prefix });
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let rest = &bytes[at..];
            match mark_at(rest) {
                Marked::Here => {
                    (at, dashes) = (at + MARK.len(), 0);
                    continue;
                }
                Marked::Maybe if !is_end => break,
                Marked::Maybe | Marked::No => {}
            }
            if b"\\\"'\r\n".contains(byte) {
                match prefix.continues(rest) {
                    Continues::Yes(length) => {
                        (at, dashes) = (at + length, 0);
                        continue;
                    }
                    Continues::Open if !is_end => break,
                    Continues::Open | Continues::No => {}
                }
            }
            match byte {
                // Drops an escape as a whole, so that JSON stays valid.
                b'\\' => match bytes.get(at + 1) {
                    None => break,
                    Some(b'n' | b'r' | b't' | b'u' | b'/' | b'\\') => at += 1,
                    Some(_) => return (at, None),
                },
                b'-' if dashes == 4 && ends => return (at + 1, None),
                b'-' if dashes == 4 => (dashes, ends) = (0, true),
                b'-' => dashes += 1,
                byte if is_in_pem(*byte) => dashes = 0,
                _ => return (at, None),
            }
            at += 1;
        }
        (at, state(dashes, ends))
    }
}

fn over_class(bytes: &[u8], class: fn(u8) -> bool, is_end: bool) -> (usize, Option<Swallow>) {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match mark_at(&bytes[at..]) {
            Marked::Here => at += MARK.len(),
            Marked::Maybe if !is_end => break,
            Marked::Maybe | Marked::No if class(*byte) => at += 1,
            Marked::Maybe | Marked::No => return (at, None),
        }
    }
    (at, Some(Swallow::Class(class)))
}

/// The characters of base64.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// Bytes between the first and the last line of a key, which may be indented, numbered or quoted.
pub(super) fn is_in_pem(byte: u8) -> bool {
    is_base64(byte) || byte.is_ascii_whitespace() || b"-:,.".contains(&byte) || !byte.is_ascii()
}

/// The characters of the value of a parameter.
pub(super) fn is_parameter(byte: u8) -> bool {
    is_token(byte) || byte == b'%'
}

/// The characters of a login in a URL.
pub(super) fn is_login(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"/@:\"'<>`\\,;()".contains(&byte)
}

pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

pub(super) fn is_token(byte: u8) -> bool {
    is_name(byte) || b".~+/=".contains(&byte)
}
