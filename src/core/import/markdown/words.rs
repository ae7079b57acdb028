//! What the texts of a plan say: titles with ids and labels, the tasks that a text names
//! (`Depends on: T001, Task 2`).

use std::{collections::HashMap, ops::Range, sync::LazyLock};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex_lite::Regex;

use crate::{
    graph::{
        task::TaskId,
        yaml::{NodeKind, Tree},
    },
    import::fields::{one_line, slug},
};

/// The text of a heading, without its marks.
pub(super) fn heading(source: &str) -> String {
    let line = source.lines().next().unwrap_or_default();
    let bare = line.trim().trim_start_matches('#').trim_end_matches('#').trim();
    let bare = mark_at(bare, 0).map_or(bare, |mark| bare[mark.end + 1..].trim());
    one_line(&bare.replace("**", "").replace(['✅', '⏳', '🚧'], ""))
}

/// A heading such as `Task 3: Parse`: the word, the number and the title.
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    let words = "(task|story|step|issue|ticket|feature|user story)";
    expression(&format!(r"(?i)^{words}[ -][ #-]*(\d+(?:\.\d+)*)(?:[:.) —–-]+(.*)|$)"))
});
/// What may be an id such as `T001`, `US-12` or `PROJ-4.2`.
static LETTERS: LazyLock<Regex> = LazyLock::new(|| expression(r"^[A-Z]{1,10}[\d-][A-Z\d.-]*"));
/// A number before a title: `1. Set up`, `2.3 Write tests`, `3) Third`.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^(\d+(?:\.\d+)+[.)]?|\d+[.)]) [) :-]*(.+)$"));
/// A label before a title, such as `[P]` or `[US1]`.
static LABEL: LazyLock<Regex> = LazyLock::new(|| expression(r"^\[([A-Za-z0-9-]{1,8})\] +"));

/// The first line of a list, a quotation, a table or code.
static BLOCK: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^\s*(?:[-+>|]|\*(?:[^*]|$)|```|\d+[.)] )"));
fn expression(text: &str) -> Regex {
    Regex::new(text).expect("the expression is valid")
}

/// The id and the title in a heading that is a task: `Task 3: Parse`, `US-001: Sign in`.
pub(super) fn task_heading(title: &str) -> Option<(String, String)> {
    if let Some(found) = NUMBERED.captures(title) {
        let key = format!("{}-{}", found[1].to_ascii_lowercase().replace(' ', "-"), &found[2]);
        return Some((key, found.get(3).map_or("", |title| title.as_str()).to_owned()));
    }
    let (key, rest) = letters_and_digits(title)?;
    let after = rest.trim_start();
    let is_named = after.starts_with([':', '-', '—', '–', '.']) || after.is_empty();
    is_named.then(|| (key, after.trim_start_matches([':', '-', '—', '–', '.', ' ']).to_owned()))
}

/// An id of letters and digits at the start of a text, and the rest.
fn letters_and_digits(text: &str) -> Option<(String, &str)> {
    let key = LETTERS.find(text)?.as_str().trim_end_matches(['-', '.']);
    let after = &text[key.len()..];
    let ends = after.is_empty() || after.starts_with([':', '.', ')', ']', ' ', '-', '—']);
    (ends && key.contains(|c: char| c.is_ascii_digit())).then(|| (key.to_owned(), after))
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
    let found = NUMBER.captures(title)?;
    Some((found[1].trim_end_matches(['.', ')']).to_owned(), found[2].to_owned()))
}

/// The labels in brackets at the start of a title, such as `[P] [US1]`, and the rest.
pub(super) fn labels(title: &str) -> (String, Vec<String>) {
    let (mut rest, mut labels) = (title.trim_start(), Vec::new());
    while let Some(found) = LABEL.captures(rest) {
        labels.push(found[1].to_owned());
        rest = &rest[found[0].len()..];
    }
    (rest.to_owned(), labels)
}

/// The first paragraph of an item as its title, and the rest.
pub(super) fn title_and_text(own: &str) -> (String, String) {
    /// The length of a title; a longer paragraph is text too.
    const LONGEST: usize = 160;
    let mut end = 0;
    for (number, line) in own.split_inclusive('\n').enumerate() {
        if line.trim().is_empty() || number > 0 && BLOCK.is_match(line) {
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

/// The names of the tasks of a plan.
pub(super) struct PlanKeys<'a> {
    by_name: HashMap<String, &'a str>,
}

/// What stands before names of tasks.
pub(super) const PHRASES: [&str; 9] = [
    "depends on",
    "dependent on",
    "dependencies",
    "depends-on",
    "depends_on",
    "blocked by",
    "after task",
    "requires",
    "prerequisites",
];

impl<'a> PlanKeys<'a> {
    pub(super) fn new(keys: &[&'a str]) -> PlanKeys<'a> {
        PlanKeys { by_name: keys.iter().map(|key| (key.to_ascii_lowercase(), *key)).collect() }
    }

    /// The tasks that a text names, and names after a colon that are no tasks.
    pub(super) fn references(&self, text: &str) -> (Vec<String>, Vec<String>) {
        let (mut links, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let lower = line.to_ascii_lowercase();
            let Some((at, phrase)) =
                PHRASES.iter().filter_map(|phrase| Some((lower.find(phrase)?, phrase))).min()
            else {
                continue;
            };
            let rest = line[at + phrase.len()..].trim_start_matches(['*', '_', ' ']);
            let is_listed = rest.starts_with(':');
            let rest = rest.trim_start_matches([':', '*', '_', ' ']);
            let rest = rest.split(')').next().unwrap_or_default();
            for name in rest.split([',', ';']).flat_map(|part| part.split(" and ")) {
                let name =
                    name.trim_matches(|c: char| c.is_whitespace() || "*_`.:()[]#".contains(c));
                if name.is_empty()
                    || ["none", "n/a", "nothing", "-"].contains(&name.to_ascii_lowercase().as_str())
                {
                    continue;
                }
                if let Some(key) = self.find(name) {
                    if links.iter().all(|known| known != key) {
                        links.push(key.to_owned());
                    }
                } else if is_listed {
                    unknown.push(name.to_owned());
                }
            }
        }
        (links, unknown)
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let lower = name.to_ascii_lowercase();
        let first = lower.split_whitespace().next().unwrap_or_default();
        let first = first.trim_matches(|c: char| ":.()`*#".contains(c)).to_owned();
        let number = lower.rsplit([' ', '#']).next().unwrap_or_default();
        let is_number = number.starts_with(|c: char| c.is_ascii_digit());
        let numbered = ["task", "story", "step", "issue", "ticket", "feature", "user-story"]
            .iter()
            .filter(|_| is_number)
            .map(|word| format!("{word}-{number}"));
        let names = [lower.clone(), first, slug(name)].into_iter().chain(numbered);
        let names = names.chain(is_number.then(|| number.to_owned()));
        names.into_iter().find_map(|name| self.by_name.get(&name).copied())
    }
}

/// What stands before the dependencies of a task.
const DEPENDS_ON: &str = "Depends on: ";
/// What stands there for a task without dependencies.
const NONE: &str = "none";

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

// The parts of a Markdown text: headings, items of lists, and other blocks.

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
#[expect(clippy::wildcard_enum_match_arm, reason = "it matches on Markdown events only")]
pub(super) fn parts(text: &str) -> Vec<PlanPart> {
    let mut parts = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut lists: Vec<bool> = Vec::new();
    let mut depth = 0_usize;
    let start = front_matter(text);
    // Below its cards, a board has its settings.
    let text = text.find("\n%% kanban:settings").map_or(text, |end| &text[..end]);
    for (event, at) in Parser::new_ext(&text[start..], Options::ENABLE_TABLES).into_offset_iter() {
        let at = at.start + start..at.end + start;
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

/// The length of the front matter, such as that of a board: a mapping between two lines of `---`.
fn front_matter(text: &str) -> usize {
    let bare = text.trim_start_matches('\u{feff}');
    let inside = bare.strip_prefix("---").filter(|rest| rest.starts_with(['\n', '\r']));
    let end = inside
        .and_then(|inside| Some(inside.find("\n---\n").or_else(|| inside.find("\n---\r"))? + 1));
    let (Some(inside), Some(end)) = (inside, end) else { return 0 };
    let is_map = Tree::parse(&inside[..end]).is_ok_and(|tree| {
        tree.root().is_some_and(|root| matches!(tree.kind(root), NodeKind::Mapping { .. }))
    });
    if is_map { text.len() - inside.len() + end + "---".len() } else { 0 }
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

    #[test]
    fn names_after_a_phrase_are_found() {
        let keys = PlanKeys::new(&["T001", "T-2", "task-3", "add-login"]);
        let of = |text: &str| keys.references(text);
        assert_eq!(of("x (depends on T001, t-2)").0, ["T001", "T-2"]);
        assert_eq!(of("**Dependencies:** Task 3 and Add login").0, ["task-3", "add-login"]);
        assert_eq!(of("Depends on: T001, the weather").1, ["the weather"]);
        assert_eq!(of("It depends on the weather."), (vec![], vec![]));
        assert_eq!(of("Dependencies: none"), (vec![], vec![]));
    }
}
