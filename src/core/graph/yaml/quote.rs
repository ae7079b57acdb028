//! Quoting: writes a text as a YAML scalar that every reader parses as this text.
//!
//! It quotes more than YAML 1.2 requires, because YAML 1.1 readers parse `no`, `1:30` or
//! `2026-11-20` as other types.

use std::fmt::Write;

use super::NodeKind;

/// Words that some readers parse as a boolean, null or a number.
const WORDS: [&str; 13] =
    ["y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf", "infinity", "none"];

/// Writes `value` in the style of `kind`, if that style can represent it.
pub(crate) fn like(kind: NodeKind, value: &str) -> String {
    match kind {
        NodeKind::SingleQuoted if !value.chars().any(needs_escape) => {
            format!("'{}'", value.replace('\'', "''"))
        }
        NodeKind::SingleQuoted | NodeKind::DoubleQuoted => double(value),
        NodeKind::Plain
        | NodeKind::Literal
        | NodeKind::Folded
        | NodeKind::Sequence { .. }
        | NodeKind::Mapping { .. }
        | NodeKind::Alias => {
            if is_plain(value) {
                value.to_owned()
            } else {
                double(value)
            }
        }
    }
}

/// Writes `value` in double quotes. The result is also JSON, except for rare invisible characters.
pub(crate) fn double(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => {
                let code = u32::from(c);
                let written = if code > 0xffff {
                    write!(out, "\\U{code:08X}")
                } else {
                    write!(out, "\\u{code:04X}")
                };
                written.expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a character is invisible, breaks lines, or changes the text direction.
pub(crate) fn needs_escape(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{ffff}')
}

/// Whether `value` without quotes reads as the same text in block and flow, in YAML 1.1 and 1.2.
pub(crate) fn is_plain(value: &str) -> bool {
    let Some(first) = value.chars().next() else {
        return false;
    };
    let starts_well = first.is_alphanumeric() || first == '_' || first == '/';
    let looks_like_a_number = first.is_ascii_digit() && !value.chars().any(beyond_numbers);
    let lowered = value.to_ascii_lowercase();
    starts_well
        && !first.is_numeric() | first.is_ascii_digit()
        && !looks_like_a_number
        && !value.ends_with(' ')
        && !WORDS.contains(&lowered.as_str())
        && value.chars().all(|c| {
            c.is_alphanumeric() || " _-./+()=~;:".contains(c) || (!c.is_ascii() && !needs_escape(c))
        })
        && colons_are_inner(value, first)
}

/// Whether a letter occurs in no number or time, including hexadecimal ones.
fn beyond_numbers(c: char) -> bool {
    c.is_alphabetic()
        && !matches!(c, 'a'..='f' | 'A'..='F' | 'x' | 'X' | 'o' | 'O' | 't' | 'T' | 'z' | 'Z')
}

/// Whether all colons are between letters, and cannot make the text a time.
fn colons_are_inner(value: &str, first: char) -> bool {
    let mut parts = value.split(':').peekable();
    let mut has_colon = false;
    while let Some(part) = parts.next() {
        let Some(next) = parts.peek() else { break };
        has_colon = true;
        let before = part.chars().next_back().is_some_and(char::is_alphanumeric);
        let after = next.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '/');
        if !before || !after {
            return false;
        }
    }
    !has_colon || first.is_alphabetic()
}
