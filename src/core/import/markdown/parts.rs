//! The parts of a Markdown text: headings, items of lists, and other blocks.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

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

impl PlanPart {
    /// The item of a list, if it is one.
    pub(super) fn item(&self) -> Option<&PlanItem> {
        if let PlanPart::Item(item) = self { Some(item) } else { None }
    }
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
                parts.push(PlanPart::Heading { level: level as u8, at });
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
pub(super) fn mark_at(text: &str, start: usize) -> Option<Range<usize>> {
    let inner = text[start..].strip_prefix('[')?;
    let mark = inner.chars().next()?;
    let length = mark.len_utf8();
    let rest = inner[length..].strip_prefix(']')?;
    let is_mark = " xX~/>.oO<-!?*✓✔✅".contains(mark);
    (is_mark && (rest.is_empty() || rest.starts_with(char::is_whitespace)))
        .then_some(start + 1..start + 1 + length)
}

/// The byte in the checkbox of a heading.
pub(super) fn box_in(text: &str, heading: &Range<usize>) -> Option<Range<usize>> {
    let line = &text[heading.clone()];
    mark_at(text, heading.start + line.len() - line.trim_start_matches(['#', ' ']).len())
}
