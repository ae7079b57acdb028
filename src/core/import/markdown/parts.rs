//! The parts of a Markdown text: headings, items of lists, and other blocks.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::{graph::task::TaskId, import::fields::one_line};

/// A part of a plan, in the order of the text.
pub(super) enum PlanPart {
    /// A heading.
    Heading {
        /// 1 to 6.
        level: u8,
        /// Its bytes.
        at: Range<usize>,
    },
    /// An item of a list.
    Item(PlanItem),
    /// A paragraph or another block outside of lists.
    Prose(Range<usize>),
}

/// An item of a list.
pub(super) struct PlanItem {
    /// Its bytes, with all below it.
    pub(super) at: Range<usize>,
    /// Where its text starts, after the marker and the checkbox.
    pub(super) text: usize,
    /// The number of items around it.
    pub(super) depth: usize,
    /// Whether its list is numbered.
    pub(super) is_numbered: bool,
    /// The byte between the brackets of its checkbox.
    pub(super) mark: Option<Range<usize>>,
    /// The number of the part around it.
    pub(super) parent: Option<usize>,
}

/// Cuts a text into its parts.
pub(super) fn parts(text: &str) -> Vec<PlanPart> {
    let mut parts = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut lists: Vec<bool> = Vec::new();
    let mut depth = 0_usize;
    for (event, at) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if open.is_empty() => {
                parts.push(PlanPart::Heading { level: number(level), at });
            }
            Event::Start(Tag::List(first)) => lists.push(first.is_some()),
            Event::End(TagEnd::List(_)) => {
                lists.pop();
            }
            Event::Start(Tag::Item) => {
                let (start, mark) = after_marker(text, &at);
                let item = PlanItem {
                    text: start,
                    depth: open.len(),
                    is_numbered: lists.last().copied().unwrap_or(false),
                    mark,
                    parent: open.last().copied(),
                    at,
                };
                open.push(parts.len());
                parts.push(PlanPart::Item(item));
            }
            Event::End(TagEnd::Item) => {
                open.pop();
            }
            Event::Start(
                Tag::Paragraph
                | Tag::CodeBlock(_)
                | Tag::Table(_)
                | Tag::HtmlBlock
                | Tag::BlockQuote(_),
            ) => {
                if open.is_empty() && depth == 0 {
                    parts.push(PlanPart::Prose(at));
                }
                depth += 1;
            }
            Event::End(
                TagEnd::Paragraph
                | TagEnd::CodeBlock
                | TagEnd::Table
                | TagEnd::HtmlBlock
                | TagEnd::BlockQuote(_),
            ) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    parts
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Where the text of an item starts, and the byte in its checkbox.
fn after_marker(text: &str, at: &Range<usize>) -> (usize, Option<Range<usize>>) {
    let item = &text[at.clone()];
    let bare = item.trim_start();
    let marker = if bare.starts_with(['-', '*', '+']) {
        1
    } else {
        let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
        digits + usize::from(digits > 0)
    };
    let rest = bare.get(marker..).unwrap_or_default();
    let trimmed = rest.trim_start_matches([' ', '\t']);
    let start = at.end - trimmed.len();
    match mark_at(text, start) {
        Some(mark) => (mark.end + 1, Some(mark)),
        None => (start, None),
    }
}

/// The byte in the checkbox that starts here.
fn mark_at(text: &str, start: usize) -> Option<Range<usize>> {
    let inner = text[start..].strip_prefix('[')?;
    let mark = inner.chars().next()?;
    let length = mark.len_utf8();
    let rest = inner[length..].strip_prefix(']')?;
    let is_mark = " xX~/>-!?*✓✔✅".contains(mark);
    (is_mark && (rest.is_empty() || rest.starts_with(char::is_whitespace)))
        .then_some(start + 1..start + 1 + length)
}

/// The byte in the checkbox of a heading.
pub(super) fn box_in(text: &str, heading: &Range<usize>) -> Option<Range<usize>> {
    let line = &text[heading.clone()];
    mark_at(text, heading.start + line.len() - line.trim_start_matches(['#', ' ']).len())
}

/// The text of a heading, without its marks.
pub(super) fn heading(source: &str) -> String {
    let line = source.lines().next().unwrap_or_default();
    let bare = line.trim().trim_start_matches('#').trim_end_matches('#').trim();
    let bare = mark_at(bare, 0).map_or(bare, |mark| bare[mark.end + 1..].trim());
    one_line(&bare.replace("**", "").replace(['✅', '⏳', '🚧'], ""))
}

/// The id and the title in a heading that is a task: `Task 3: Parse`, `US-001: Sign in`.
pub(super) fn task_heading(title: &str) -> Option<(String, String)> {
    const WORDS: [&str; 7] = ["task", "story", "step", "issue", "ticket", "feature", "user story"];
    let lower = title.to_ascii_lowercase();
    for word in WORDS {
        let Some(rest) = lower.strip_prefix(word) else {
            continue;
        };
        let rest = rest.trim_start_matches([' ', '#', '-']);
        let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let number = number.trim_end_matches('.');
        if number.is_empty()
            || !lower.as_bytes()[word.len()..].starts_with(b" ")
                && !lower[word.len()..].starts_with('-')
        {
            continue;
        }
        let after = &rest[number.len()..];
        let is_end = after.is_empty() || after.starts_with([':', '.', ')', ' ', '-', '—', '–']);
        if is_end {
            let title = title[title.len() - after.len()..]
                .trim_start_matches([':', '.', ')', ' ', '-', '—', '–']);
            return Some((format!("{}-{number}", word.replace(' ', "-")), title.to_owned()));
        }
    }
    let (key, rest) = letters_and_digits(title)?;
    let after = rest.trim_start();
    let is_named = after.starts_with([':', '-', '—', '–', '.']) || after.is_empty();
    (is_named && key.contains(|c: char| c.is_ascii_digit()))
        .then(|| (key, after.trim_start_matches([':', '-', '—', '–', '.', ' ']).to_owned()))
}

/// An id such as `T001`, `US-12` or `PROJ-4.2` at the start of a text, and the rest.
fn letters_and_digits(text: &str) -> Option<(String, &str)> {
    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
    if !(1..=10).contains(&letters) {
        return None;
    }
    let rest = &text[letters..];
    let body: usize = rest
        .bytes()
        .take_while(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.') || b.is_ascii_uppercase())
        .count();
    let key = text[..letters + body].trim_end_matches(['-', '.']);
    let has_digits = key[letters..].starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && key.bytes().any(|b| b.is_ascii_digit());
    let after = &text[key.len()..];
    let ends = after.is_empty() || after.starts_with([':', '.', ')', ']', ' ', '-', '—']);
    (has_digits && ends).then(|| (key.to_owned(), after))
}

/// The id at the start of the title of an item, and the rest.
pub(super) fn leading_id(title: &str) -> Option<(String, String)> {
    /// Abbreviations with numbers that are no ids.
    const STANDARDS: [&str; 8] = ["ISO", "RFC", "UTF", "SHA", "HTTP", "CVE", "ES", "MP"];
    // As `ralph export` writes it.
    if let Some((key, rest)) = title.strip_prefix('`').and_then(|rest| rest.split_once("`: "))
        && TaskId::new(key).is_ok()
    {
        return Some((key.to_owned(), rest.trim().to_owned()));
    }
    let bare = title.trim_start_matches(['`', '[']);
    if let Some((key, rest)) = letters_and_digits(bare) {
        let is_marked = bare.len() < title.len() || rest.starts_with([':', ')', ']']);
        let digits = key.bytes().filter(u8::is_ascii_digit).count();
        let is_standard = STANDARDS.iter().any(|name| key.starts_with(name));
        let rest = rest.trim_start_matches([':', ')', ']', '`', ' ', '-', '—']);
        if (is_marked || digits >= 3 && !is_standard) && !rest.is_empty() {
            return Some((key, rest.to_owned()));
        }
    }
    let number: String = title.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let rest = &title[number.len()..];
    let key = number.trim_end_matches('.');
    let is_number = key.contains('.') && rest.starts_with(' ')
        || number.ends_with('.') && rest.starts_with(' ')
        || !key.is_empty() && rest.starts_with(") ");
    let rest = rest.trim_start_matches([')', ' ', '-', ':']);
    (is_number
        && !key.is_empty()
        && !key.starts_with('.')
        && !key.contains("..")
        && !rest.is_empty())
    .then(|| (key.to_owned(), rest.to_owned()))
}

/// The labels in brackets at the start of a title, such as `[P] [US1]`, and the rest.
pub(super) fn labels(title: &str) -> (String, Vec<String>) {
    let (mut rest, mut labels) = (title.trim_start(), Vec::new());
    while let Some((label, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'))
    {
        let is_label = (1..=8).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && after.starts_with(' ');
        if !is_label {
            break;
        }
        labels.push(label.to_owned());
        rest = after.trim_start();
    }
    (rest.to_owned(), labels)
}

/// The first paragraph of an item as its title, and the rest.
pub(super) fn title_and_text(own: &str) -> (String, String) {
    /// The length of a title; a longer paragraph is text too.
    const LONGEST: usize = 160;
    let is_block = |line: &str| {
        let bare = line.trim_start();
        bare.starts_with(['-', '*', '+', '>', '|']) && !bare.starts_with("**")
            || bare.starts_with("```")
            || bare.split_once(['.', ')']).is_some_and(|(number, rest)| {
                !number.is_empty()
                    && number.bytes().all(|b| b.is_ascii_digit())
                    && rest.starts_with(' ')
            })
    };
    let mut end = 0;
    for (number, line) in own.split_inclusive('\n').enumerate() {
        if line.trim().is_empty() || number > 0 && is_block(line) {
            break;
        }
        end += line.len();
    }
    let paragraph = one_line(&own[..end].replace("**", ""));
    if paragraph.chars().count() <= LONGEST {
        return (paragraph, own[end..].to_owned());
    }
    let first = own.lines().next().unwrap_or_default().replace("**", "");
    let mut title = String::new();
    for word in first.split_whitespace() {
        if title.chars().count() + word.chars().count() > LONGEST {
            title += " …";
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title += word;
    }
    (title.chars().take(LONGEST + 2).collect(), own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_titles_are_found() {
        let of = |title: &str| leading_id(title).map(|(key, _)| key);
        for (title, want) in [
            ("T001 Create it", Some("T001")),
            ("US-12: Sign in", Some("US-12")),
            ("[AB-1] text", Some("AB-1")),
            ("1. Set up", Some("1")),
            ("2.3 Write tests", Some("2.3")),
            ("3) Third", Some("3")),
            ("3 retries for the upload", None),
            ("S3 upload", None),
            ("UTF-8 support", None),
            ("ISO-8601 dates", None),
            ("Add login", None),
        ] {
            assert_eq!(of(title).as_deref(), want, "{title}");
        }
        assert_eq!(task_heading("Task 3: Parse"), Some(("task-3".into(), "Parse".into())));
        assert_eq!(
            task_heading("Story 1.2 — Sign in"),
            Some(("story-1.2".into(), "Sign in".into()))
        );
        assert_eq!(task_heading("Tasks"), None);
        assert_eq!(task_heading("Task list"), None);
        assert_eq!(task_heading("HTTP API"), None);
    }
}
