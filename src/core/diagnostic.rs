//! Diagnostics: errors in a file with their locations, shared by the terminal, JSON and tests.
//!
//! Rendering is the job of `excerpt`. This is the only user of `strsim`.

use std::{borrow::Cow, ops::Range};

use serde::Serialize;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably not as intended.
    Warning,
}

/// One error or warning about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message: a lower-case fragment with names in backticks.
    pub message: String,
    /// The bytes it is about.
    pub at: Range<usize>,
    /// The text under the caret.
    pub label: String,
    /// Another location, with an explanation.
    pub related: Option<(Range<usize>, String)>,
    /// A hint on what to do next.
    pub help: Option<String>,
    /// The replacement for the bytes at `at`.
    pub replacement: Option<String>,
}

impl Diagnostic {
    /// Creates an error at `at`.
    pub fn error(message: impl Into<String>, at: Range<usize>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            at,
            label: String::new(),
            related: None,
            help: None,
            replacement: None,
        }
    }

    /// Creates a warning at `at`.
    pub fn warning(message: impl Into<String>, at: Range<usize>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(message, at) }
    }

    /// Sets the text under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds a second location.
    #[must_use]
    pub fn related(mut self, at: Range<usize>, label: impl Into<String>) -> Diagnostic {
        self.related = Some((at, label.into()));
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Suggests `word` as the replacement, if there is one.
    #[must_use]
    pub fn did_you_mean(mut self, word: Option<&str>) -> Diagnostic {
        if let Some(word) = word {
            self.help = Some(format!("did you mean `{word}`?"));
            self.replacement = Some(word.to_owned());
        }
        self
    }
}

/// Makes untrusted text safe to print: control characters and characters that reorder text are
/// shown and have no effect.
pub fn visible(text: &str) -> Cow<'_, str> {
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' => shown.push(' '),
            c if odd(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Line and column of a byte offset, both from 1, the column in characters. It reads the text up to
/// there: for many offsets, use [`positions`].
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    positions_in(&text.as_bytes()[..offset.min(text.len())])(offset)
}

/// Returns what finds [`position`] of any offset in a text that is read once.
pub fn positions(text: &str) -> impl Fn(usize) -> (usize, usize) {
    positions_in(text.as_bytes())
}

fn positions_in(text: &[u8]) -> impl Fn(usize) -> (usize, usize) {
    let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let starts: Vec<usize> = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
    move |offset| {
        let offset = offset.min(text.len());
        let line = starts.partition_point(|start| *start <= offset);
        let before = &text[starts[line - 1]..offset];
        (line, 1 + String::from_utf8_lossy(before).chars().count())
    }
}

/// Returns the word most similar to a misspelled one, if any is similar enough.
///
/// Up to a third of the letters may differ. A difference in case and separators counts as none.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |word: &str| -> String {
        word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let folded = fold(wrong);
    words
        .into_iter()
        .map(|word| {
            let distance = if fold(word) == folded {
                0
            } else {
                strsim::damerau_levenshtein(wrong, word).max(1)
            };
            (distance, word)
        })
        .filter(|(distance, word)| *distance <= 1.max(wrong.len().max(word.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Whether `wrong` can only be a misspelling of `word`: one letter differs, or two in a long word,
/// or only case and separators do.
pub fn is_misspelled(wrong: &str, word: &str) -> bool {
    /// The length of a long word.
    const LONG: usize = 9;
    let letters = |word: &str| {
        word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let allowed = if wrong.len().min(word.len()) >= LONG { 2 } else { 1 };
    letters(wrong) == letters(word) || strsim::damerau_levenshtein(wrong, word) <= allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let text = "a\nä é: x\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, text.find('x').unwrap()), (2, 6));
        assert_eq!(position(text, 999), (3, 1));
        let of = positions(text);
        assert!((0..20).all(|offset| of(offset) == position(text, offset)));
    }

    #[test]
    fn the_nearest_word_is_near() {
        let words = ["depends_on", "description", "status"];
        assert_eq!(nearest("dependsOn", words), Some("depends_on"));
        assert_eq!(nearest("statsu", words), Some("status"));
        assert_eq!(nearest("colour", words), None);
    }

    #[test]
    fn a_near_word_may_be_a_word_of_its_own() {
        for (wrong, word) in [
            ("depend_on", "depends_on"),
            ("dependsOn", "depends_on"),
            ("titel", "title"),
            ("toches", "touches"),
            ("desciptoin", "description"),
        ] {
            assert!(is_misspelled(wrong, word), "{wrong}");
        }
        for (own, word) in [("comment", "commit"), ("state", "status"), ("closed_at", "claimed_at")]
        {
            assert!(!is_misspelled(own, word), "{own}");
        }
    }
}
