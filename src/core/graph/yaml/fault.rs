//! Messages for parser errors, with their locations in the text.
//!
//! Except for control characters, other modules decide what is an error. The parser's own messages
//! are compiled out, because they use terms such as scanner and token.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::{Fault, MAX_DEPTH};

/// Creates a fault at `at`, widened to at least one character and limited to the text.
pub(super) fn fault(text: &str, at: Range<usize>, message: String, help: &str) -> Fault {
    let whole = |at: &usize| text.is_char_boundary(*at);
    let latest = at.start.min(text.len().saturating_sub(1));
    let start = (0..=latest).rev().find(whole).unwrap_or(0);
    let end = at.end.max(start + 1).min(text.len());
    Fault {
        message,
        at: start..(end..=text.len()).find(whole).unwrap_or(text.len()),
        help: (!help.is_empty()).then(|| help.to_owned()),
    }
}

pub(super) fn tab(text: &str, at: usize) -> Fault {
    let message = "a tab is used as indentation".to_owned();
    fault(text, at..at, message, "indent with spaces")
}

pub(super) fn too_deep(text: &str, at: usize) -> Fault {
    let message = format!("lists and mappings are nested more than {MAX_DEPTH} deep");
    fault(text, at..at, message, "flatten this part")
}

pub(super) fn unknown_alias(text: &str, at: usize) -> Fault {
    let rest = &text[at.min(text.len())..];
    let ends = |c: char| c.is_whitespace() || ",[]{}".contains(c);
    let name = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let anchor = name.trim_start_matches('*');
    fault(
        text,
        at..at + name.len(),
        format!("`{name}` has no anchor"),
        &format!("write `&{anchor}` before an earlier value, or quote `{name}` if it is text"),
    )
}

/// The first conflict marker that git left at the start of a line, as the reason why a text cannot be
/// parsed.
pub(super) fn conflict_marker(text: &str) -> Option<Fault> {
    const MARKERS: [&str; 4] = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"];
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let marked = line.trim_end();
        let is_marker = |marker: &&str| {
            marked
                .strip_prefix(*marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if MARKERS.iter().any(|marker| is_marker(&marker)) {
            let message = "the text has conflict markers of a merge".to_owned();
            let help = "resolve the conflicts: edit what is between `<<<<<<<` and `>>>>>>>`, and \
                        remove the lines with these markers";
            return Some(fault(text, start..start + marked.len(), message, help));
        }
        start += line.len();
    }
    None
}

/// Rejects control characters, which are invisible in an editor and dangerous on a terminal; and a
/// lone carriage return, which is a line break for the parser but not for most editors.
pub(super) fn refuse_control_characters(text: &str) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    // Bitwise and without early exit, so that the compiler can use vector instructions.
    let suspect = bytes.iter().fold(0, |suspect, &byte| {
        let low = u8::from(byte < 0x20);
        let breaks = u8::from(byte == b'\t') | u8::from(byte == b'\n') | u8::from(byte == b'\r');
        let leads = u8::from(byte == 0x7f) | u8::from(byte == 0xc2) | u8::from(byte == 0xef);
        suspect | (low & (1 - breaks)) | leads
    });
    let mut returns = text.match_indices('\r');
    if let Some((at, _)) = returns.find(|(at, _)| bytes.get(at + 1) != Some(&b'\n')) {
        let message = "a carriage return has no line feed after it".to_owned();
        let help = "save the file with LF or CRLF line breaks";
        return Err(fault(text, at..at, message, help));
    }
    if suspect == 0 {
        return Ok(());
    }
    let refused = |c: char| {
        let allowed = matches!(c, '\t' | '\n' | '\r' | '\u{85}');
        (c.is_control() && !allowed) || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    text.char_indices().find(|(_, c)| refused(*c)).map_or(Ok(()), |(at, c)| {
        let message = format!("the control character `U+{:04X}` is not allowed", u32::from(c));
        Err(fault(text, at..at, message, "remove it, or write it as an escape in double quotes"))
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum is not exhaustive")]
pub(super) fn of_scan(text: &str, error: &ScanError) -> Fault {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => return too_deep(text, at),
        ErrorKind::UnknownAnchor => return unknown_alias(text, at),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar
        | ErrorKind::InvalidBlockEntryWhitespace => return tab(text, tab_near(text, at)),
        _ => {}
    }
    let (message, help) = words(error.kind());
    fault(text, at..at, message, help)
}

/// The parser stops after the tab; the first tab on the line is reported.
fn tab_near(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let line = super::line_start(bytes, at);
    let near = bytes[line..].iter().take_while(|byte| **byte != b'\n');
    near.enumerate().find(|(_, byte)| **byte == b'\t').map_or(at, |(on, _)| line + on)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum is not exhaustive")]
fn words(kind: &ErrorKind) -> (String, &'static str) {
    let (message, help) = match kind {
        ErrorKind::UnclosedFlowCollection { open } => {
            let message = format!("`{open}` is opened here and never closed");
            return (message, "add the closing bracket");
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            let message = format!("`{open}` is closed by `{close}`");
            return (message, "close brackets in the order they were opened");
        }
        ErrorKind::UnexpectedCharacter { character } => {
            let message = format!("a value cannot start with `{}`", character.escape_default());
            return (message, "put the value in quotes");
        }
        ErrorKind::UnclosedQuotedScalar => {
            ("a quote is opened here and never closed", "add the closing quote")
        }
        ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            ("the text ends inside brackets", "add the closing bracket")
        }
        ErrorKind::MisplacedFlowCollectionEnd => {
            ("a bracket is closed here that was never opened", "remove it, or quote the value")
        }
        ErrorKind::ExpectedFlowMappingSeparator => {
            ("a `,` or `}` is missing here", "separate entries with `,` and end them with `}`")
        }
        ErrorKind::ExpectedFlowSequenceSeparator => {
            ("a `,` or `]` is missing here", "separate items with `,` and end them with `]`")
        }
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::InvalidMappingValueWhitespace
        | ErrorKind::FlowMappingValueAdjacentCollection => (
            "a `:` is not allowed here",
            "put a value that contains `: ` in quotes, or fix this line's indentation",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            ("this key has no `:`", "write `key: value`, or fix this line's indentation")
        }
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::MappingKeyNotAllowed
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::InvalidBlockScalarIndent => (
            "this line's indentation does not match the lines above",
            "align it with its neighbors",
        ),
        _ => return words_for_text(kind),
    };
    (message.to_owned(), help)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum is not exhaustive")]
fn words_for_text(kind: &ErrorKind) -> (String, &'static str) {
    let (message, help) = match kind {
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => (
            "an unknown escape in double quotes",
            r"write `\\` for a backslash, or use single quotes",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            ("text follows the closing quote", "put the quotes around the whole value")
        }
        ErrorKind::CommentNotSeparated => {
            ("a comment needs a space before its `#`", "add a space, or quote the value")
        }
        ErrorKind::CommentInterceptedScalar => {
            ("a comment is inside a value of several lines", "move the comment")
        }
        ErrorKind::BomInsideDocument => ("a byte order mark is inside the text", "remove it"),
        ErrorKind::UndeclaredTagHandle => ("a tag with an unknown prefix", "remove the tag"),
        ErrorKind::BlockEntryInFlowCollection => {
            ("a `-` is inside brackets", "separate items with `,`, or quote the value")
        }
        _ => ("this is not YAML", "fix or quote the value"),
    };
    (message.to_owned(), help)
}
