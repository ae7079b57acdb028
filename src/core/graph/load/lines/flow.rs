//! Lists and mappings in brackets, on one line.

use super::{
    LineValue, Scalar, is_key, is_key_byte,
    scalar::{is_first, quoted, typed},
};

/// The limit on nesting.
const MAX_DEPTH: usize = 4;

/// Reads the list or mapping that is the rest of a line, which may end with a comment.
pub(super) fn whole(rest: &str) -> Option<LineValue<'_>> {
    let (value, after) = collection(rest, 0)?;
    let comment = after.trim_start_matches(' ');
    let ends = comment.is_empty() || (comment.starts_with('#') && after.len() > comment.len());
    ends.then_some(value)
}

fn collection(rest: &str, depth: usize) -> Option<(LineValue<'_>, &str)> {
    if depth == MAX_DEPTH {
        return None;
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let mut items = Vec::new();
        let after = each(inner, ']', |rest| {
            let (item, after) = value(rest, depth)?;
            items.push(item);
            Some(after)
        })?;
        return Some((LineValue::List(items), after));
    }
    let mut entries: Vec<(&str, LineValue<'_>)> = Vec::new();
    let after = each(rest.strip_prefix('{')?, '}', |rest| {
        let end = rest.bytes().position(|byte| !is_key_byte(byte))?;
        let (key, rest) = rest.split_at(end);
        if !is_key(key) || entries.iter().any(|(other, _)| *other == key) {
            return None;
        }
        let (value, after) = value(rest.strip_prefix(": ")?.trim_start_matches(' '), depth)?;
        entries.push((key, value));
        Some(after)
    })?;
    Some((LineValue::Mapping(entries), after))
}

/// Reads entries, with commas between them, up to the closing bracket. Returns what follows it.
fn each<'t>(
    inner: &'t str,
    close: char,
    mut entry: impl FnMut(&'t str) -> Option<&'t str>,
) -> Option<&'t str> {
    let mut rest = inner.trim_start_matches(' ');
    if let Some(after) = rest.strip_prefix(close) {
        return Some(after);
    }
    loop {
        rest = entry(rest)?.trim_start_matches(' ');
        if let Some(after) = rest.strip_prefix(close) {
            return Some(after);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches(' ');
    }
}

fn value(rest: &str, depth: usize) -> Option<(LineValue<'_>, &str)> {
    match rest.as_bytes().first()? {
        b'[' | b'{' => collection(rest, depth + 1),
        b'\'' | b'"' => {
            let (text, after) = quoted(rest)?;
            Some((LineValue::Scalar(Scalar::Quoted(text)), after))
        }
        _ => {
            let bytes = rest.as_bytes();
            is_first(bytes).then_some(())?;
            let end = bytes.iter().position(|byte| matches!(byte, b',' | b']' | b'}'))?;
            // A colon is text between letters, as in `area:core`, and special elsewhere.
            let is_text = |at: usize| match bytes[at] {
                b':' => bytes[at + 1].is_ascii_alphanumeric() || bytes[at + 1] == b'/',
                b'[' | b'{' | b'#' | b'"' | b'\'' | b'?' | b'|' | b'>' | b'`' => false,
                _ => true,
            };
            (0..end).all(is_text).then_some(())?;
            Some((LineValue::Scalar(typed(rest[..end].trim_end_matches(' '))?), &rest[end..]))
        }
    }
}
