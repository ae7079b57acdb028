//! Searches for known values, in every spelling that programs print.

use std::fmt::Write as _;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::MARK;

/// The limit on the total size of all spellings for which the fastest search is used.
const FAST: usize = 32 << 10;

/// Replaces values with [`MARK`]; overlapping values become one mark.
#[derive(Clone)]
pub(super) struct Needles {
    /// None without needles.
    search: Option<AhoCorasick>,
    spelled: Vec<Vec<u8>>,
    /// Whether a spelling starts with this byte.
    begins: Box<[bool; 256]>,
    longest: usize,
    /// The received bytes that are not decided yet.
    held: Vec<u8>,
    /// The number of bytes at the start of `held` that belong to a secret already marked.
    covered: usize,
}

impl Needles {
    pub fn new<'a>(values: impl Iterator<Item = &'a [u8]>) -> Needles {
        let mut needles: Vec<Vec<u8>> = values.flat_map(spellings).collect();
        needles.sort_unstable();
        needles.dedup();
        let mut begins = Box::new([false; 256]);
        for needle in &needles {
            begins[usize::from(needle[0])] = true;
        }
        // The fastest search takes some hundred bytes of memory per byte of the values.
        let size: usize = needles.iter().map(Vec::len).sum();
        let kind = (size <= FAST).then_some(AhoCorasickKind::DFA);
        let search = (!needles.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .kind(kind)
                .build(&needles)
                .expect("the values of an environment are far below the limit of 2 GB")
        });
        let longest = needles.iter().map(Vec::len).max().unwrap_or(0);
        Needles { search, spelled: needles, begins, longest, held: Vec::new(), covered: 0 }
    }

    pub fn push(&mut self, bytes: &[u8], is_end: bool, out: &mut Vec<u8>) {
        let Some(search) = &self.search else {
            out.extend_from_slice(bytes);
            return;
        };
        self.held.extend_from_slice(bytes);
        let text = &self.held[..];
        let open = if is_end { text.len() } else { self.open(text) };
        // Bytes before `done` are written, or covered by a mark.
        let mut done = self.covered;
        let mut at = 0;
        while let Some(found) = search.find(&text[at..]) {
            let (start, end) = (at + found.start(), at + found.end());
            if start >= open {
                break;
            }
            if start >= done {
                out.extend_from_slice(&text[done..start]);
                out.extend_from_slice(MARK.as_bytes());
            }
            done = done.max(end);
            at = start + 1;
        }
        if done < open {
            out.extend_from_slice(&text[done..open]);
            done = open;
        }
        self.covered = done - open;
        self.held.drain(..open);
    }

    /// The first position at which an incomplete value may start. Everything before it is decided.
    fn open(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        (first..text.len())
            .find(|at| {
                let rest = &text[*at..];
                self.begins[usize::from(rest[0])]
                    && self.spelled.iter().any(|it| it.len() > rest.len() && it.starts_with(rest))
            })
            .unwrap_or(text.len())
    }
}

/// The spellings of a value: plain, in JSON, in JSON within JSON, in a URL, and in base64 at any
/// offset within a longer text. Programs escape different characters.
fn spellings(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![value.to_vec()];
    if let Ok(text) = std::str::from_utf8(value) {
        let plain = json(text);
        let web = escaped(&plain, |c| "<>&".contains(c), false);
        for once in [
            escaped(&plain, |c| !c.is_ascii(), false),
            escaped(&plain, |c| !c.is_ascii(), true),
            escaped(&web, |c| !c.is_ascii(), false),
            plain.replace('/', "\\/"),
            web,
            plain,
        ] {
            all.push(json(&once).into_bytes());
            all.push(once.into_bytes());
        }
    }
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        for space in ["%20", "+"] {
            for kept in KEPT_IN_URLS {
                all.push(url(value, digits, space, kept));
            }
        }
    }
    for offset in 0..3 {
        let standard = base64(value, offset);
        let safe = standard.iter().map(|byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        });
        all.push(safe.collect());
        all.push(standard);
    }
    all
}

/// The bytes that programs keep in a URL, besides letters, digits and `-._~`: none, those of a path,
/// those of JavaScript's `encodeURIComponent`, and those of its `encodeURI`.
const KEPT_IN_URLS: [&[u8]; 5] = [b"", b"/", b"/=", b"!'()*", b";,/?:@&=+$!*'()#"];

/// Spells some characters of a JSON string as `\u00e9`.
fn escaped(json: &str, is_escaped: impl Fn(char) -> bool, capitals: bool) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if !is_escaped(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = if capitals {
                write!(text, "\\u{unit:04X}")
            } else {
                write!(text, "\\u{unit:04x}")
            };
        }
    }
    text
}

fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn url(value: &[u8], digits: &[u8; 16], space: &str, kept: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(*byte);
            }
            byte if kept.contains(byte) => escaped.push(*byte),
            b' ' => escaped.extend_from_slice(space.as_bytes()),
            byte => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                escaped.extend_from_slice(&[b'%', digits[high], digits[low]]);
            }
        }
    }
    escaped
}

/// The base64 characters that depend only on the value, if `offset` bytes precede it in its group
/// of three.
fn base64(value: &[u8], offset: usize) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| value.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    // Starts at the first bit that begins a character, and drops an incomplete last character.
    let skipped = [0, 4, 2][offset];
    (skipped..)
        .step_by(6)
        .take_while(|at| at + 6 <= value.len() * 8)
        .map(|at| DIGITS[(at..at + 6).fold(0, |digit, at| digit << 1 | bit(at))])
        .collect()
}
