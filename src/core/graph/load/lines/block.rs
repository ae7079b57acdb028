//! Literal and folded blocks.

use std::borrow::Cow;

use super::{Lines, Scalar, blanks};

/// Reads the block whose header is the rest of the current line, below a key or a dash at `parent`.
pub(super) fn text<'t>(
    lines: &mut Lines<'t>,
    parent: usize,
    header: &'t str,
) -> Option<Scalar<'t>> {
    let (folded, strip) = match header {
        "|" => (false, false),
        "|-" => (false, true),
        ">" => (true, false),
        ">-" => (true, true),
        _ => return None,
    };
    let first = lines.rest.split('\n').next()?;
    let indent = blanks(first);
    if indent <= parent || indent == first.len() {
        return None;
    }
    let mut text = String::new();
    let mut empty = 0;
    while !lines.rest.is_empty() {
        let before = lines.rest;
        let (line, has_break) = lines.take();
        let lead = blanks(line);
        if lead == line.len() {
            if lead > indent {
                return None;
            }
            empty += 1;
            continue;
        }
        if lead < indent {
            if lead > parent {
                return None;
            }
            lines.rest = before;
            break;
        }
        if !has_break || (folded && lead > indent) {
            return None;
        }
        if !text.is_empty() {
            match (folded, empty) {
                (true, 0) => text.push(' '),
                (true, _) => {}
                (false, _) => text.push('\n'),
            }
            text.extend(std::iter::repeat_n('\n', empty));
        }
        text.push_str(&line[indent..]);
        empty = 0;
    }
    if !strip {
        text.push('\n');
    }
    lines.advance()?;
    Some(Scalar::Quoted(Cow::Owned(text)))
}
