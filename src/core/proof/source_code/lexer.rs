//! The comments and strings of a text, by its language.

use std::ops::Range;

/// The name of the file at a path.
pub(in crate::proof) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A language whose functions are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript, with JSX.
    JavaScript,
    /// TypeScript, with JSX.
    TypeScript,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java.
    Java,
    /// C.
    C,
}

impl Language {
    /// The language of a file, by its name.
    pub fn of(path: &str) -> Option<Language> {
        let name = file_name(path);
        let (stem, ending) = name.rsplit_once('.')?;
        Some(match ending {
            "py" => Language::Python,
            "js" | "mjs" | "cjs" | "jsx" => Language::JavaScript,
            // A file of declarations is not run.
            "ts" | "mts" | "cts" | "tsx" if stem.rsplit('.').next() != Some("d") => {
                Language::TypeScript
            }
            "rs" => Language::Rust,
            "go" => Language::Go,
            "java" => Language::Java,
            "c" | "h" => Language::C,
            _ => return None,
        })
    }

    fn is_script(self) -> bool {
        matches!(self, Language::JavaScript | Language::TypeScript)
    }
}

/// A part of a text that is not code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Comment,
    Text,
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The comments and strings of a text.
pub(super) fn pieces(language: Language, text: &[u8]) -> Vec<(Range<usize>, Piece)> {
    let mut pieces: Vec<(Range<usize>, Piece)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let Some((piece, end)) = piece_at(language, text, at) else {
            at += 1;
            continue;
        };
        pieces.push((at..end.clamp(at + 1, text.len()), piece));
        at = end.max(at + 1);
    }
    pieces
}

fn piece_at(language: Language, text: &[u8], at: usize) -> Option<(Piece, usize)> {
    let rest = &text[at..];
    let line_end = || at + rest.iter().position(|it| *it == b'\n').unwrap_or(rest.len());
    let slashes = language != Language::Python;
    if (slashes && rest.starts_with(b"//"))
        || (!slashes && rest[0] == b'#')
        || (language.is_script() && at == 0 && rest.starts_with(b"#!"))
    {
        return Some((Piece::Comment, line_end()));
    }
    if slashes && rest.starts_with(b"/*") {
        return Some((Piece::Comment, comment_end(text, at, language == Language::Rust)));
    }
    let end = match (language, rest[0]) {
        (Language::Python, b'"' | b'\'') => {
            let triple = [rest[0]; 3];
            if rest.starts_with(&triple) {
                string_end(text, at + 3, &triple, true, true)
            } else {
                string_end(text, at + 1, &rest[..1], true, false)
            }
        }
        (Language::Java, b'"') if rest.starts_with(b"\"\"\"") => {
            string_end(text, at + 3, b"\"\"\"", true, true)
        }
        (
            Language::JavaScript
            | Language::TypeScript
            | Language::Go
            | Language::Java
            | Language::C,
            b'"' | b'\'',
        ) => string_end(text, at + 1, &rest[..1], true, false),
        (Language::JavaScript | Language::TypeScript, b'`') => template_end(text, at + 1),
        (Language::JavaScript | Language::TypeScript, b'/') => regex_end(text, at)?,
        (Language::Rust, b'"') => {
            let hashes = text[..at].iter().rev().take_while(|it| **it == b'#').count();
            let before = text[..at - hashes].iter().rev().take_while(|it| is_word(**it));
            let prefix: Vec<u8> = before.copied().collect();
            if matches!(prefix.as_slice(), b"r" | b"rb" | b"rc") {
                let end: Vec<u8> = [b'"'].into_iter().chain(vec![b'#'; hashes]).collect();
                string_end(text, at + 1, &end, false, true)
            } else {
                string_end(text, at + 1, b"\"", true, true)
            }
        }
        (Language::Rust, b'\'') => {
            if rest.get(1) == Some(&b'\\') {
                string_end(text, at + 1, b"'", true, false)
            } else {
                // A lifetime has no second quote.
                let length = 1 + rest.get(2..)?.iter().take_while(|it| **it & 0xC0 == 0x80).count();
                let is_char = rest.get(1 + length) == Some(&b'\'');
                is_char.then_some(at + length + 2)?
            }
        }
        (Language::Go, b'`') => string_end(text, at + 1, b"`", false, true),
        (
            Language::Python
            | Language::JavaScript
            | Language::TypeScript
            | Language::Rust
            | Language::Go
            | Language::Java
            | Language::C,
            _,
        ) => return None,
    };
    Some((Piece::Text, end))
}

/// The offset after a string; that after its first quote if it does not end on its line and must.
fn string_end(text: &[u8], from: usize, end: &[u8], escapes: bool, spans_lines: bool) -> usize {
    let mut at = from;
    while at < text.len() {
        match text[at] {
            b'\\' if escapes => at += 1,
            b'\n' if !spans_lines => return from,
            _ if text[at..].starts_with(end) => return at + end.len(),
            _ => {}
        }
        at += 1;
    }
    if spans_lines { text.len() } else { from }
}

fn comment_end(text: &[u8], from: usize, nests: bool) -> usize {
    let (mut at, mut depth) = (from + 2, 1);
    while at < text.len() {
        if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else if nests && text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The offset after a template of JavaScript, with the expressions in it.
fn template_end(text: &[u8], from: usize) -> usize {
    let (mut at, mut open) = (from, Vec::new());
    while at < text.len() {
        match (text[at], open.last()) {
            (b'\\', _) => at += 1,
            (b'`', None) => return at + 1,
            (b'$', None | Some(b'`')) if text.get(at + 1) == Some(&b'{') => {
                open.push(b'{');
                at += 1;
            }
            (b'{', Some(b'{')) => open.push(b'{'),
            (b'`', Some(b'`')) | (b'}', Some(b'{')) => drop(open.pop()),
            (b'`', _) => open.push(b'`'),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The offset after a regular expression of JavaScript; `None` if `/` divides.
fn regex_end(text: &[u8], at: usize) -> Option<usize> {
    let last = text[..at].iter().rposition(|it| !it.is_ascii_whitespace());
    if let Some(last) = last {
        let word = text[..=last].iter().rev().take_while(|it| is_word(**it)).count();
        let word = &text[last + 1 - word..=last];
        let keywords: [&[u8]; 4] = [b"return", b"typeof", b"case", b"of"];
        let divides = if word.is_empty() {
            b")]}\"'`<".contains(&text[last])
        } else {
            !keywords.contains(&word)
        };
        if divides {
            return None;
        }
    }
    let (mut end, mut is_class) = (at + 1, false);
    loop {
        match *text.get(end)? {
            b'\n' => return None,
            b'\\' => end += 1,
            b'[' => is_class = true,
            b']' => is_class = false,
            b'/' if !is_class => return Some(end + 1),
            _ => {}
        }
        end += 1;
    }
}
