//! Notes in a file that people edit too: a Markdown list with one item per note, under a heading if
//! the note has one. The caller reads and writes the file.
//!
//! An item written here ends with the attempt and the time, `(parser.2, 2026-…Z)`. Only such items
//! are ever removed. All other bytes of the file stay.

use std::{cmp::Reverse, ops::Range};

use chrono::{DateTime, SecondsFormat, Utc};

use crate::history::attempt_log;

/// The longest note, in bytes.
pub const LONGEST: usize = 2000;
/// The limit on the size of all notes in one file, in bytes. A prompt shows about as much.
pub const ROOM: usize = 4 * 1024;

/// A note to add.
#[derive(Clone, Copy, Debug)]
pub struct Note<'a> {
    /// The text; one line or several.
    pub text: &'a str,
    /// The heading to place it under; none for the end of the file.
    pub heading: Option<&'a str>,
    /// The name of the attempt that wrote it, such as `parser.2`.
    pub attempt: &'a str,
    /// The time.
    pub at: DateTime<Utc>,
}

/// A list item of the file.
struct Item {
    /// The line numbers.
    lines: Range<usize>,
    /// The normalized text, for comparison.
    says: String,
    /// The time of writing; none for an item written by a person.
    at: Option<DateTime<Utc>>,
}

/// The lines of a file, each with its line break.
struct NotesPage<'a> {
    lines: Vec<&'a str>,
    items: Vec<Item>,
    /// The line numbers of headings.
    headings: Vec<usize>,
}

/// Returns the text with the note added, and without the oldest notes if all of them exceed `room`
/// bytes. None if the text already has the note.
pub fn add(text: &str, note: &Note<'_>, room: usize) -> Option<String> {
    let page = NotesPage::of(text);
    let says = plain(note.text);
    if page.items.iter().any(|item| item.says == says) {
        return None;
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let item = note.item(end);
    let kept = page.without_oldest(room.saturating_sub(item.len()));
    Some(NotesPage::of(&kept).with(&item, note.heading, end))
}

/// Returns the notes of the attempt with this name, such as `parser.2`, in the order of the file.
pub fn of_attempt(text: &str, attempt: &str) -> Vec<String> {
    let page = NotesPage::of(text);
    let own = |item: &Item| {
        let whole = page.lines[item.lines.clone()].concat();
        let whole = whole[2..].trim_end();
        let (said, at) = signed(whole);
        let author = whole[said.len()..].strip_prefix(" (")?.split_once(", ")?.0;
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        (at.is_some() && author == attempt).then(|| lines.join("\n"))
    };
    page.items.iter().filter_map(own).collect()
}

impl Note<'_> {
    fn item(&self, end: &str) -> String {
        let lines = self.text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let text = lines.collect::<Vec<_>>().join(&format!("{end}  "));
        let at = self.at.to_rfc3339_opts(SecondsFormat::Secs, true);
        format!("- {text} ({}, {at}){end}", self.attempt)
    }
}

impl NotesPage<'_> {
    fn of(text: &str) -> NotesPage<'_> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (mut items, mut headings) = (Vec::<Item>::new(), Vec::new());
        let (mut open, mut fenced) = (false, false);
        for (number, line) in lines.iter().enumerate() {
            let is_blank = line.trim().is_empty();
            if open && line.starts_with("  ") && !is_blank {
                items.last_mut().expect("one is open").lines.end = number + 1;
                continue;
            }
            open = !fenced && (line.starts_with("- ") || line.starts_with("* "));
            if line.starts_with("```") || line.starts_with("~~~") {
                fenced = !fenced;
            } else if open {
                items.push(Item { lines: number..number + 1, says: String::new(), at: None });
            } else if !fenced && line.trim_start_matches('#').starts_with(' ') {
                headings.extend(line.starts_with('#').then_some(number));
            }
        }
        for item in &mut items {
            let whole = lines[item.lines.clone()].concat();
            let (said, at) = signed(whole[2..].trim_end());
            (item.says, item.at) = (plain(said), at);
        }
        NotesPage { lines, items, headings }
    }

    /// The text without the oldest notes, so that the others take at most `room` bytes.
    fn without_oldest(&self, mut room: usize) -> String {
        let mut notes: Vec<&Item> = self.items.iter().filter(|item| item.at.is_some()).collect();
        notes.sort_by_key(|item| Reverse((item.at, item.lines.start)));
        let mut lines = self.lines.clone();
        for item in notes {
            let size: usize = lines[item.lines.clone()].iter().map(|line| line.len()).sum();
            if size > room {
                // Drops all older notes too.
                room = 0;
                lines[item.lines.clone()].fill("");
            } else {
                room -= size;
            }
        }
        lines.concat()
    }

    /// The text with an item at the end of the section `heading`, which is added if missing.
    fn with(&self, item: &str, heading: Option<&str>, end: &str) -> String {
        let title = |number: usize| self.lines[number].trim_start_matches('#').trim();
        let found = heading.and_then(|heading| {
            let same = |number: &usize| title(*number).eq_ignore_ascii_case(heading);
            self.headings.iter().copied().find(same)
        });
        let part = match found {
            Some(first) => {
                let next = self.headings.iter().copied().find(|number| *number > first);
                first..next.unwrap_or(self.lines.len())
            }
            None => 0..self.lines.len(),
        };
        let is_text = |number: &usize| !self.lines[*number].trim().is_empty();
        let at = part.clone().rev().find(is_text).map_or(part.start, |last| last + 1);
        let mut text = self.lines[..at].concat();
        if !text.is_empty() && !text.ends_with('\n') {
            text += end;
        }
        let made = heading.filter(|_| found.is_none());
        let in_list = self.items.iter().any(|item| item.lines.end == at);
        if at > 0 && (made.is_some() || !in_list) {
            text += end;
        }
        if let Some(heading) = made {
            text = format!("{text}## {heading}{end}{end}");
        }
        text += item;
        if self.lines.get(at).is_some_and(|next| !next.trim().is_empty()) {
            text += end;
        }
        text + &self.lines[at..].concat()
    }
}

/// Splits the text of an item into the note and the time of its signature.
fn signed(text: &str) -> (&str, Option<DateTime<Utc>>) {
    let parts = || {
        let (said, signature) = text.strip_suffix(')')?.rsplit_once(" (")?;
        let (attempt, at) = signature.split_once(", ")?;
        attempt_log::split(attempt)?;
        let at = DateTime::parse_from_rfc3339(at).ok()?;
        Some((said, at.to_utc()))
    };
    parts().map_or((text, None), |(said, at)| (said, Some(at)))
}

/// Normalizes white space and case.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_notes_of_one_attempt_are_found() {
        let note = |text, attempt| Note { text, heading: None, attempt, at: at(1) };
        let text = add("- by hand\n", &note("one\ntwo (or so)", "a.1"), ROOM).unwrap();
        let text = add(&text, &note("other", "a.12"), ROOM).unwrap();
        let text = add(&text, &note("three", "a.1"), ROOM).unwrap();
        assert_eq!(of_attempt(&text, "a.1"), ["one\ntwo (or so)", "three"]);
        assert_eq!(of_attempt(&text, "a.12"), ["other"]);
        assert!(of_attempt(&text, "a").is_empty() && of_attempt("", "a.1").is_empty());
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn note<'a>(text: &'a str, heading: Option<&'a str>, second: i64) -> Note<'a> {
        Note { text, heading, attempt: "a.1", at: at(second) }
    }

    fn added(text: &str, line: &str, heading: Option<&str>) -> String {
        add(text, &note(line, heading, 0), ROOM).unwrap()
    }

    const SIGNED: &str = "(a.1, 1970-01-01T00:00:00Z)";

    #[test]
    fn a_note_goes_to_the_end_of_its_section() {
        let one = added("", "One\n\n two ", Some("tests"));
        assert_eq!(one, format!("## tests\n\n- One\n   two {SIGNED}\n"));
        let two = added(&one, "Two", Some("Tests"));
        assert_eq!(two, format!("{one}- Two {SIGNED}\n"));
        let three = added(&two, "Three", Some("build"));
        assert_eq!(three, format!("{two}\n## build\n\n- Three {SIGNED}\n"));
        let four = added(&three, "Four", Some("tests"));
        let [head, tail] = [two, format!("\n## build\n\n- Three {SIGNED}\n")];
        assert_eq!(four, format!("{head}- Four {SIGNED}\n{tail}"));
        assert_eq!(added("", "One", None), format!("- One {SIGNED}\n"));
    }

    #[test]
    fn text_of_people_stays_unchanged() {
        let text = "# Ours\r\n\r\nProse.\r\n```sh\r\n# no heading\r\n- no item\r\n```\r\n# Next";
        let signed = format!("- X {SIGNED}\r\n");
        assert_eq!(
            added(text, "X", Some("ours")),
            text.replace("# Next", &format!("\r\n{signed}\r\n# Next"))
        );
        assert_eq!(added(text, "X", Some("new")), format!("{text}\r\n\r\n## new\r\n\r\n{signed}"));
    }

    #[test]
    fn a_known_note_is_not_added_again() {
        let text = format!("* A person's\n  item\n- An  agent's {SIGNED}\n");
        assert_eq!(add(&text, &note("a person's item", None, 1), ROOM), None);
        assert_eq!(add(&text, &note("An agent's", Some("x"), 1), ROOM), None);
        assert!(add(&text, &note("Another", None, 1), ROOM).is_some());
    }

    #[test]
    fn the_oldest_notes_are_dropped() {
        let mut text = "Prose.\n\n- A person's (see a.1)\n".to_owned();
        for second in 0..9 {
            let heading = ["odd", "even"][usize::from(second % 2 == 0)];
            let line = format!("Note {second}");
            text = add(&text, &note(&line, Some(heading), second), 3 * 40).unwrap();
        }
        let left: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
        let signed = |n: u8| format!("- Note {n} (a.1, 1970-01-01T00:00:0{n}Z)");
        assert_eq!(left, ["- A person's (see a.1)", &signed(6), &signed(8), &signed(7)]);
    }

    proptest! {
        #[test]
        fn no_line_of_a_person_is_lost(
            lines in prop::collection::vec(
                prop::sample::select(vec![
                    "", "# tests", "## build", "Prose.", "- item", "  more", "```", "* x (y)",
                    "- n (a.1, 1970-01-01T00:00:00Z)", "- m (a.2, 1970-01-01T00:00:09Z)",
                ]),
                0..12,
            ),
            heading in prop::option::of(prop::sample::select(vec!["tests", "build", "new"])),
            room in 0usize..120,
            crlf in any::<bool>(),
        ) {
            let text = lines.join(if crlf { "\r\n" } else { "\n" });
            let new = add(&text, &note("A new one", heading, 5), room).unwrap();
            let ours: Vec<Range<usize>> = NotesPage::of(&text)
                .items
                .into_iter()
                .filter_map(|item| item.at.map(|_| item.lines))
                .collect();
            let mut rest = new.split_inclusive('\n').map(str::trim_end);
            for (number, line) in text.split_inclusive('\n').map(str::trim_end).enumerate() {
                if !ours.iter().any(|item| item.contains(&number)) {
                    prop_assert!(rest.any(|found| found == line), "{line:?} in {new:?}");
                }
            }
            prop_assert!(new.contains("- A new one (a.1, 1970-01-01T00:00:05Z)"));
            prop_assert!(NotesPage::of(&new).lines.iter().filter(|line| line.contains("- A new")).count() == 1);
        }
    }
}
