//! Reads tickets with YAML front matter: one or many in a text, with or without a text below.

use std::ops::Range;

use super::{builder::TaskBuilder, fields::Reading, value::SourceValue};
use crate::{
    diagnostic::Diagnostic,
    graph::{
        load,
        yaml::{NodeKind, Tree},
    },
};

/// A part of the text between lines of `---`.
pub(super) struct TicketPart {
    pub(super) at: Range<usize>,
    /// The fields, if it is front matter.
    pub(super) tree: Option<Tree>,
}

/// The keys of which front matter has at least one.
const KEYS: [&str; 6] = ["id", "title", "status", "name", "key", "depends_on"];

/// The keys that name a ticket, the best first.
const NAMES: [&str; 4] = ["id", "key", "title", "name"];

/// Cuts a text at its lines of `---`.
///
/// # Errors
/// Front matter at the start that is not YAML.
pub(super) fn parts(text: &str) -> Result<Vec<TicketPart>, Box<Diagnostic>> {
    let bounds = rules(text);
    let mut parts = Vec::new();
    let mut start = 0;
    // How tickets are told from text with rules: by the key that the first one is named by, and by
    // their end if the first one has a text below its end.
    let (mut name, mut has_bodies) = (None, false);
    for (begin, end) in bounds.iter().copied().chain([(text.len(), text.len())]) {
        let slice = &text[start..begin];
        // Below the first front matter, a body may contain anything.
        let is_first = parts.is_empty() && slice.trim().trim_start_matches('\u{feff}').is_empty();
        if !is_first || start > 0 {
            let has_text =
                |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            let parsed = Tree::parse(slice);
            let tree = match parsed {
                Ok(tree) => {
                    let is_next = match name {
                        None => true,
                        Some(name) => {
                            tree.root().is_some_and(|root| tree.entry(slice, root, name).is_some())
                                && (!has_bodies || begin < text.len())
                        }
                    };
                    (is_next && is_ticket(slice, &tree)).then_some(tree)
                }
                Err(fault)
                    if parts.iter().all(|part: &TicketPart| part.tree.is_none())
                        && slice.lines().any(has_text)
                        && start > 0 =>
                {
                    let found = load::diagnostic(fault);
                    let at = found.at.start + start..found.at.end + start;
                    return Err(Box::new(Diagnostic { at, ..found }));
                }
                Err(_) => None,
            };
            if let Some(tree) = &tree
                && name.is_none()
            {
                let root = tree.root();
                let has =
                    |key: &&str| root.is_some_and(|root| tree.entry(slice, root, key).is_some());
                name = NAMES.into_iter().find(has).or(Some(NAMES[0]));
            } else if tree.is_none() && name.is_some() {
                has_bodies |= !slice.trim().is_empty();
            }
            parts.push(TicketPart { at: start..begin, tree });
        }
        start = end;
    }
    Ok(parts)
}

/// The lines of `---` outside of code.
fn rules(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut at, mut fence) = (Vec::new(), 0, None);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches('\u{feff}').trim_end();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) if bare == "---" => found.push((at, at + line.len())),
            _ => {}
        }
        at += line.len();
    }
    found
}

fn is_ticket(text: &str, tree: &Tree) -> bool {
    tree.root().is_some_and(|root| {
        matches!(tree.kind(root), NodeKind::Mapping { .. })
            && KEYS.iter().any(|key| tree.entry(text, root, key).is_some())
    })
}

/// Reads the tickets of a text. A ticket that is alone in its file is named after the file if it has
/// no name of its own; `stem` is the name of the file.
pub(super) fn read(text: &str, stem: Option<&str>) -> Result<Reading, Vec<Diagnostic>> {
    let parts = parts(text).map_err(|fault| vec![*fault])?;
    let is_alone = parts.iter().filter(|part| part.tree.is_some()).count() == 1;
    let stem = stem.filter(|_| is_alone);
    let mut reading = Reading::default();
    let mut open: Option<(TaskBuilder, String)> = None;
    for part in parts {
        let slice = &text[part.at.clone()];
        if part.tree.is_some() || open.is_none() {
            comments(&mut reading, slice, part.at.start);
        }
        if let Some(tree) = part.tree
            && let Some(root) = tree.root()
        {
            if let Some((builder, body)) = open.take() {
                finish(builder, &body, stem, &mut reading);
            }
            let mut item = SourceValue::of_yaml(slice, &tree, root);
            shift(&mut item, part.at.start);
            let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
            builder.take_all(&mut reading, &item, |_| None);
            open = Some((builder, String::new()));
        } else if let Some((_, body)) = &mut open {
            // Lines of `---` in the text are rules.
            if !body.is_empty() {
                body.push_str("---\n");
            }
            body.push_str(slice);
        } else if slice.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let at = part.at.start..part.at.start + 1;
            reading.lose(None, "text", "it is above the first ticket", at);
        }
    }
    if let Some((builder, body)) = open {
        finish(builder, &body, stem, &mut reading);
    }
    Ok(reading)
}

/// Adds a ticket with the text below it. Without a title, its first heading is the title.
fn finish(mut builder: TaskBuilder, body: &str, stem: Option<&str>, reading: &mut Reading) {
    let mut body = body.to_owned();
    if !builder.has_title() {
        let heading = body.lines().find(|line| title_of(line).is_some()).map(str::to_owned);
        if let Some(line) = heading {
            builder.set_title(title_of(&line).unwrap_or_default());
            if body.trim_start().starts_with(&line) {
                body = body.trim_start()[line.len()..].to_owned();
            }
        } else if let Some(stem) = stem {
            builder.set_title(stem);
        }
    }
    if let Some(stem) = stem
        && builder.task.key.is_empty()
    {
        stem.clone_into(&mut builder.task.key);
    }
    builder.describe(&body);
    builder.finish(reading);
}

/// The text of a heading.
fn title_of(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let title = text.trim().trim_end_matches('#').trim_end();
    let is_heading = text.len() < line.len() && text.starts_with(' ') && !title.is_empty();
    is_heading.then_some(title)
}

/// Lists comment lines in front matter and before it.
fn comments(reading: &mut Reading, slice: &str, start: usize) {
    let mut at = start;
    for line in slice.split_inclusive('\n') {
        if line.starts_with('#') {
            let at = at..at + line.trim_end().len();
            reading.lose(None, "comment", "a comment is not part of a ticket", at);
        }
        at += line.len();
    }
}

fn shift(value: &mut SourceValue, by: usize) {
    use super::value::SourceKind;
    value.at = value.at.start + by..value.at.end + by;
    match &mut value.kind {
        SourceKind::List(items) => items.iter_mut().for_each(|item| shift(item, by)),
        SourceKind::Map(entries) => {
            for entry in entries {
                entry.key_at = entry.key_at.start + by..entry.key_at.end + by;
                shift(&mut entry.value, by);
            }
        }
        SourceKind::Null | SourceKind::Bool(_) | SourceKind::Number(_) | SourceKind::Text(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(text: &str) -> Vec<(String, String, String)> {
        let backlog = read(text, Some("file")).unwrap().finish(text).unwrap();
        let field = |task: &super::super::SourceTask, name: &str| {
            task.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        let of = |task| (task_key(task), field(task, "title"), field(task, "description"));
        backlog.tasks.iter().map(of).collect()
    }

    fn task_key(task: &super::super::SourceTask) -> String {
        task.key.clone()
    }

    #[test]
    fn rules_and_fields_in_the_text_are_text() {
        for body in [
            "one\n\n---\n\ntwo",
            "one\n\n---\nstatus: open\nname: x\n---\ntwo",
            "one\n\n```\n---\nid: b\n---\n```",
            "one\n\n---\nid: the last line",
        ] {
            let found = titles(&format!("---\nid: a\ntitle: A\n---\n{body}\n"));
            assert_eq!(found.len(), 1, "{body}");
            assert_eq!(found[0].2, body);
        }
        let two = "---\nid: a\n---\ntext\n\n---\nid: b\n---\n\nmore\n";
        assert_eq!(titles(two).len(), 2);
    }

    #[test]
    fn a_title_comes_from_the_heading_or_the_file() {
        let of = |text: &str| titles(text).remove(0);
        let want = |key: &str, title: &str, text: &str| {
            (key.to_owned(), title.to_owned(), text.to_owned())
        };
        assert_eq!(of("---\nid: a\n---\n# Cut it\n\ntext\n"), want("a", "Cut it", "text"));
        assert_eq!(of("---\nstatus: open\n---\ntext\n"), want("file", "file", "text"));
        assert_eq!(of("---\nstatus: open\n---\n\n## B\n"), want("file", "B", ""));
        assert_eq!(of("---\nid: a\ntitle: A\n---\n# B\n"), want("a", "A", "# B"));
    }
}
