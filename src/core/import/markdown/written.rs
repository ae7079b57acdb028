//! The form in which `ralph export` writes a task of a plan, which reads back as the same task.

use std::{borrow::Cow, fmt::Write as _};

use super::references::PHRASES;
use crate::{graph::task::TaskId, import::fields::one_line};

/// What stands before the dependencies of a task.
const DEPENDS_ON: &str = "Depends on: ";
/// What stands there for a task without dependencies.
const NONE: &str = "none";

/// The lines of a task: its box, id and title; its description; its dependencies.
pub(in crate::import) fn item(
    mark: char,
    id: &str,
    title: &str,
    description: Option<&str>,
    depends_on: &[&str],
) -> String {
    let mut text = format!("- [{mark}] `{id}`: {}\n", one_line(title));
    let description = description.unwrap_or_default();
    if !description.is_empty() {
        text.push('\n');
    }
    for line in description.lines() {
        let line = format!("  {}", escaped(line));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let prose = format!("{title}\n{description}").to_ascii_lowercase();
    let names: Vec<String> = depends_on.iter().map(|id| format!("`{id}`")).collect();
    if !names.is_empty() {
        let _ = write!(text, "\n  {DEPENDS_ON}{}\n", names.join(", "));
    } else if PHRASES.iter().any(|phrase| prose.contains(phrase)) {
        // Otherwise the words of the text count.
        let _ = write!(text, "\n  {DEPENDS_ON}{NONE}\n");
    }
    if text.lines().count() > 1 {
        text.push('\n');
    }
    text
}

/// The id, the title and the rest of an item in this form.
pub(super) fn id_and_title(own: &str) -> Option<(String, String, String)> {
    let (first, rest) = own.split_once('\n').unwrap_or((own, ""));
    let (key, title) = first.strip_prefix('`')?.split_once("`: ")?;
    let is_alone = rest.lines().next().is_none_or(|line| line.trim().is_empty());
    (is_alone && TaskId::new(key).is_ok())
        .then(|| (key.to_owned(), one_line(title), rest.to_owned()))
}

/// The ids in the line of dependencies at the end of a text, and the text without it.
pub(super) fn dependencies(text: &str) -> Option<(Vec<String>, &str)> {
    let text = text.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let names = last.trim().strip_prefix(DEPENDS_ON)?;
    if names == NONE {
        return Some((Vec::new(), before));
    }
    let id = |name: &str| {
        let id = name.strip_prefix('`')?.strip_suffix('`')?;
        TaskId::new(id).is_ok().then(|| id.to_owned())
    };
    let ids: Option<Vec<String>> = names.split(", ").map(id).collect();
    Some((ids?, before))
}

/// The offset of the brackets of a checkbox in a line, after backslashes; none if it has none.
fn box_at(line: &str) -> Option<usize> {
    let bare = line.trim_start();
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let rest = if digits > 0 {
        bare[digits..].strip_prefix(['.', ')'])?
    } else {
        bare.strip_prefix(['-', '*', '+'])?
    };
    let text = rest.trim_start();
    let inner = text.trim_start_matches('\\');
    let mut chars = inner.strip_prefix('[')?.chars();
    let is_box = text.len() < rest.len() && chars.next().is_some() && chars.next() == Some(']');
    is_box.then(|| line.len() - text.len())
}

/// A line without a checkbox: `- \[ ] text`.
fn escaped(line: &str) -> Cow<'_, str> {
    match box_at(line) {
        Some(at) => Cow::Owned(format!("{}\\{}", &line[..at], &line[at..])),
        None => Cow::Borrowed(line),
    }
}

/// The text of which the lines were escaped.
pub(super) fn unescaped(text: &str) -> String {
    let line = |line: &str| match box_at(line) {
        Some(at) if line[at..].starts_with('\\') => format!("{}{}", &line[..at], &line[at + 1..]),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
