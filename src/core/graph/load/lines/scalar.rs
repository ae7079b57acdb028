//! Scalars on one line.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::Scalar;

/// Up to this many digits, a number fits into 64 bits.
const MAX_DIGITS: usize = 18;

/// Reads the scalar that is the rest of a line, which may end with a comment.
pub(super) fn whole(rest: &str) -> Option<Scalar<'_>> {
    match rest.as_bytes().first()? {
        b'\'' | b'"' => {
            let (text, after) = quoted(rest)?;
            let comment = after.trim_start_matches(' ');
            let ends =
                comment.is_empty() || (comment.starts_with('#') && after.len() > comment.len());
            ends.then_some(Scalar::Quoted(text))
        }
        _ => typed(plain(rest)?),
    }
}

/// Splits off a text in quotes. Returns what follows the closing quote.
pub(super) fn quoted(rest: &str) -> Option<(Cow<'_, str>, &str)> {
    if let Some(inner) = rest.strip_prefix('\'') {
        return single(inner);
    }
    let inner = rest.strip_prefix('"')?;
    let end = inner.bytes().position(|byte| matches!(byte, b'"' | b'\\'))?;
    if inner.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&inner[..end]), &inner[end + 1..]));
    }
    let mut text = inner[..end].to_owned();
    let mut letters = inner[end..].char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((Cow::Owned(text), &inner[end + at + 1..])),
            '\\' => text.push(match letters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                letter @ ('"' | '\\' | '/') => letter,
                _ => return None,
            }),
            _ => text.push(letter),
        }
    }
    None
}

fn single(inner: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut text = Cow::Borrowed("");
    let mut rest = inner;
    loop {
        let (part, after) = rest.split_once('\'')?;
        if text.is_empty() {
            text = Cow::Borrowed(part);
        } else {
            text.to_mut().push_str(part);
        }
        let Some(more) = after.strip_prefix('\'') else {
            return Some((text, after));
        };
        text.to_mut().push('\'');
        rest = more;
    }
}

/// The scalar without quotes that is the rest of a line, without its comment.
fn plain(rest: &str) -> Option<&str> {
    let bytes = rest.as_bytes();
    is_first(bytes).then_some(())?;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b':' if bytes.get(at + 1).is_none_or(|next| *next == b' ') => return None,
            b'#' if at > 0 && bytes[at - 1] == b' ' => {
                return Some(rest[..at].trim_end_matches(' '));
            }
            _ => {}
        }
    }
    Some(rest)
}

/// Whether a scalar without quotes can start like this, and only such a scalar.
pub(super) fn is_first(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(b'-') => bytes.get(1).is_some_and(u8::is_ascii_digit),
        Some(byte) => {
            byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_/.($~^;+\\".contains(byte)
        }
        None => false,
    }
}

/// What a scalar without quotes is: null, a boolean, a number or text.
pub(super) fn typed(text: &str) -> Option<Scalar<'_>> {
    let bytes = text.as_bytes();
    let other = |value| Some(Scalar::Other(text, value));
    match bytes.first()? {
        b'~' => (text == "~").then_some(Scalar::Null),
        b'n' | b'N' | b't' | b'T' | b'f' | b'F' => match text {
            "null" | "Null" | "NULL" => Some(Scalar::Null),
            "true" | "True" | "TRUE" => other(Value::Bool(true)),
            "false" | "False" | "FALSE" => other(Value::Bool(false)),
            _ => Some(Scalar::Plain(text)),
        },
        b'0' if text.len() == 1 => other(Value::Number(Number::from(0))),
        b'0' if bytes[1] != b'.' => None,
        b'0'..=b'9' => {
            if bytes.iter().all(u8::is_ascii_digit) {
                let number = (bytes.len() <= MAX_DIGITS).then(|| text.parse::<u64>().ok())??;
                return other(Value::Number(Number::from(number)));
            }
            match text.parse::<f64>() {
                Ok(number) => other(Value::Number(Number::from_f64(number)?)),
                Err(_) => Some(Scalar::Plain(text)),
            }
        }
        b'-' => {
            let digits = &bytes[1..];
            let certain = digits.len() <= MAX_DIGITS
                && digits.iter().all(u8::is_ascii_digit)
                && digits[0] != b'0';
            let number = certain.then(|| text.parse::<i64>().ok())??;
            other(Value::Number(Number::from(number)))
        }
        b'.' => {
            let next = bytes.get(1)?;
            let certain = (next.is_ascii_alphabetic() && !b"inIN".contains(next)) || *next == b'/';
            certain.then_some(Scalar::Plain(text))
        }
        b'+' => None,
        _ => Some(Scalar::Plain(text)),
    }
}
