//! The text of a source file in a known language: its comments and strings, its functions, and the part
//! that is tests. Not a parser: a file that does not look as expected has no functions.

use std::{collections::BTreeMap, ops::Range};

use lexer::{Language, Piece, is_word, pieces};

pub(super) mod functions;
pub mod lexer;

/// A source file whose comments and strings are known.
pub struct SourceCode<'a> {
    text: &'a str,
    pub(super) language: Language,
    pieces: Vec<(Range<usize>, Piece)>,
    /// The text in the same length, without comments and the contents of strings.
    skeleton: Vec<u8>,
    /// The offset of the other bracket of each pair; `None` if they do not match.
    pairs: Option<BTreeMap<usize, usize>>,
    /// The offset of the start of each line.
    starts: Vec<usize>,
}

impl<'a> SourceCode<'a> {
    /// Reads a file.
    pub fn new(language: Language, text: &'a str) -> SourceCode<'a> {
        let pieces = pieces(language, text.as_bytes());
        let mut skeleton = text.as_bytes().to_vec();
        for (range, piece) in &pieces {
            // Of a string, the first quote stays.
            let is_text = *piece == Piece::Text;
            let bytes = &mut skeleton[range.start + usize::from(is_text)..range.end];
            bytes.iter_mut().filter(|it| is_text || **it != b'\n').for_each(|it| *it = b' ');
        }
        let pairs = pairs(&skeleton);
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        SourceCode { text, language, pieces, skeleton, pairs, starts }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The text without comments, docstrings and blank lines.
    pub fn code(&self) -> String {
        let mut code = self.text.as_bytes().to_vec();
        // Lines of Go that decide whether a file is built are code.
        let builds = |range: &Range<usize>| {
            let text = &self.text[range.clone()];
            self.language == Language::Go
                && ["//go:build", "// +build"].iter().any(|it| text.starts_with(it))
        };
        let is_comment = |(range, piece): &&(Range<usize>, Piece)| match piece {
            Piece::Comment => !builds(range),
            Piece::Text => self.is_docstring(range),
        };
        for (range, _) in self.pieces.iter().filter(is_comment) {
            code[range.clone()].iter_mut().filter(|it| **it != b'\n').for_each(|it| *it = b' ');
        }
        let code = String::from_utf8_lossy(&code);
        let lines = code.lines().map(str::trim_end).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether a string of Python only documents the file, the class or the function that it begins.
    fn is_docstring(&self, string: &Range<usize>) -> bool {
        if self.language != Language::Python {
            return false;
        }
        let Some(before) = self.previous(string.start) else { return true };
        let line = self.line(self.line_of(before)).map_or(0, |line| line.start);
        let header = self.text.get(line..before).unwrap_or_default().trim_start();
        self.skeleton[before] == b':'
            && ["def ", "async def ", "class ", ")"].iter().any(|it| header.starts_with(it))
    }

    /// Whether a line, counted from 0, has code.
    pub fn has_code(&self, line: usize) -> bool {
        let Some(range) = self.line(line) else { return false };
        let first = self.text[range.clone()].len() - self.text[range.clone()].trim_start().len();
        let string = self.string_at(range.start + first);
        if string.is_some_and(|string| self.is_docstring(string)) {
            return false;
        }
        self.next(range.start).is_some_and(|first| first < range.end)
            || self.string_at(range.start).is_some()
    }

    /// A line, counted from 0, in the same length without comments and the contents of strings.
    pub fn code_of(&self, line: usize) -> String {
        let range = self.line(line).unwrap_or_default();
        let code = String::from_utf8_lossy(&self.skeleton[range]);
        code.strip_suffix('\r').unwrap_or(&code).to_owned()
    }

    /// The string with the byte at this offset.
    fn string_at(&self, at: usize) -> Option<&Range<usize>> {
        let before = self.pieces.partition_point(|(piece, _)| piece.start <= at).checked_sub(1)?;
        let (range, piece) = &self.pieces[before];
        (*piece == Piece::Text && range.contains(&at)).then_some(range)
    }

    fn line(&self, line: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(line)?;
        Some(start..self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1))
    }

    pub(super) fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// The offset of the first byte from `at` on that is not white space in the skeleton.
    fn next(&self, at: usize) -> Option<usize> {
        (at..self.skeleton.len()).find(|at| !self.skeleton[*at].is_ascii_whitespace())
    }

    fn previous(&self, before: usize) -> Option<usize> {
        (0..before).rev().find(|at| !self.skeleton[*at].is_ascii_whitespace())
    }

    /// The word that ends before an offset.
    fn word_before(&self, before: usize) -> &'a str {
        let Some(last) = self.previous(before) else { return "" };
        let first = (0..=last).rev().take_while(|at| is_word(self.skeleton[*at])).last();
        first.map_or("", |first| self.text.get(first..=last).unwrap_or_default())
    }

    fn pair(&self, at: usize) -> Option<usize> {
        self.pairs.as_ref()?.get(&at).copied()
    }

    /// The offsets of a word in the skeleton.
    fn words(&self, word: &'static str) -> impl Iterator<Item = usize> + '_ {
        let (code, length) = (&self.skeleton, word.len());
        let found = code.windows(length).enumerate();
        found.filter_map(move |(at, bytes)| {
            let alone = (at == 0 || !is_word(code[at - 1]))
                && code.get(at + length).is_none_or(|next| !is_word(*next));
            (bytes == word.as_bytes() && alone).then_some(at)
        })
    }

    /// The lines, counted from 0, that are tests in a file that also has other code: the items of
    /// Rust under `#[cfg(test)]` or `#[test]`.
    pub fn tests(&self) -> Vec<Range<usize>> {
        if self.language != Language::Rust {
            return Vec::new();
        }
        let mut tests: Vec<Range<usize>> = Vec::new();
        for at in (0..self.skeleton.len()).filter(|at| self.skeleton[*at] == b'#') {
            let Some(open) = self.next(at + 1).filter(|open| self.skeleton[*open] == b'[') else {
                continue;
            };
            let Some(close) = self.pair(open) else { continue };
            let attribute: String =
                self.text[open + 1..close].chars().filter(|c| !c.is_whitespace()).collect();
            let name = attribute.split(['(', '=']).next().unwrap_or_default();
            let is_test = attribute == "cfg(test)"
                || attribute.starts_with("cfg(all(test,")
                || name == "test"
                || name.ends_with("::test")
                || name == "test_case"
                || name == "rstest";
            let first = self.line_of(at);
            if !is_test || tests.last().is_some_and(|last| last.contains(&first)) {
                continue;
            }
            let end = self.item_end(close + 1);
            tests.push(first..self.line_of(end) + 1);
        }
        tests
    }

    /// The offset of the last byte of the item of Rust that starts here.
    fn item_end(&self, mut at: usize) -> usize {
        while at < self.skeleton.len() {
            match self.skeleton[at] {
                b';' => return at,
                b'{' => return self.pair(at).unwrap_or(at),
                b'(' | b'[' => at = self.pair(at).unwrap_or(at),
                _ => {}
            }
            at += 1;
        }
        at.saturating_sub(1)
    }

    /// The offset of the line of the statement at `at`, or of the line after it if that is a docstring.
    fn after_docstring(&self, at: usize) -> usize {
        let prefix = self.text[at..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let text = self.string_at(at + prefix).filter(|it| it.start == at + prefix && prefix <= 2);
        let Some(text) = text else { return self.starts[self.line_of(at)] };
        self.starts.get(self.line_of(text.end) + 1).copied().unwrap_or(self.text.len())
    }

    /// The offset where a statement can be planted that runs when the file is loaded; `None` if
    /// nothing runs then.
    pub(super) fn load_offset(&self) -> Option<usize> {
        match self.language {
            Language::Rust | Language::Go | Language::Java | Language::C => None,
            Language::JavaScript | Language::TypeScript => {
                let shebang = self.text.starts_with("#!").then(|| self.starts.get(1).copied());
                shebang.unwrap_or(Some(0))
            }
            Language::Python => {
                let first = self.next(0).unwrap_or(0);
                let mut at = self.after_docstring(first);
                for future in self.words("from") {
                    let line = self.line(self.line_of(future))?;
                    if !self.text[future..line.end].starts_with("from __future__") {
                        continue;
                    }
                    let open = (future..line.end).find(|at| self.skeleton[*at] == b'(');
                    let end = open.and_then(|open| self.pair(open)).unwrap_or(future);
                    at = self.starts.get(self.line_of(end) + 1).copied()?;
                }
                Some(at)
            }
        }
    }

    /// The indentation of the first line with code from an offset on.
    pub(super) fn indent(&self, from: usize) -> &'a str {
        let Some(first) = self.next(from) else { return "" };
        let start = self.starts[self.line_of(first)];
        &self.text[start..first]
    }
}

fn pairs(code: &[u8]) -> Option<BTreeMap<usize, usize>> {
    let (mut open, mut pairs) = (Vec::new(), BTreeMap::new());
    for (at, byte) in code.iter().enumerate() {
        let opener = match byte {
            b'(' | b'[' | b'{' => {
                open.push(at);
                continue;
            }
            b')' => b'(',
            b']' => b'[',
            b'}' => b'{',
            _ => continue,
        };
        let from = open.pop().filter(|from| code[*from] == opener)?;
        pairs.insert(from, at);
        pairs.insert(at, from);
    }
    open.is_empty().then_some(pairs)
}
