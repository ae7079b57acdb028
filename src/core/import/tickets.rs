//! Reads tickets with YAML front matter: one or many in a text, with or without a text below.

use std::ops::Range;

use super::{builder::TaskBuilder, fields::Reading, value::SourceValue};
use crate::core::{
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

/// Cuts a text at its lines of `---`.
///
/// # Errors
/// Front matter at the start that is not YAML.
pub(super) fn parts(text: &str) -> Result<Vec<TicketPart>, Box<Diagnostic>> {
    let mut bounds = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start_matches('\u{feff}').trim_end() == "---" {
            bounds.push((at, at + line.len()));
        }
        at += line.len();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (begin, end) in bounds.iter().copied().chain([(text.len(), text.len())]) {
        let slice = &text[start..begin];
        // Below the first front matter, a body may contain anything.
        let is_first = parts.is_empty() && slice.trim().trim_start_matches('\u{feff}').is_empty();
        if !is_first || start > 0 {
            let has_text =
                |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            let parsed = Tree::parse(slice);
            let tree = match parsed {
                Ok(tree) => is_ticket(slice, &tree).then_some(tree),
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
            parts.push(TicketPart { at: start..begin, tree });
        }
        start = end;
    }
    Ok(parts)
}

fn is_ticket(text: &str, tree: &Tree) -> bool {
    tree.root().is_some_and(|root| {
        matches!(tree.kind(root), NodeKind::Mapping { .. })
            && KEYS.iter().any(|key| tree.entry(text, root, key).is_some())
    })
}

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let parts = parts(text).map_err(|fault| vec![*fault])?;
    let mut reading = Reading::default();
    let mut open: Option<TaskBuilder> = None;
    let mut has_text = false;
    for part in parts {
        let slice = &text[part.at.clone()];
        if part.tree.is_some() || open.is_none() {
            comments(&mut reading, slice, part.at.start);
        }
        if let Some(tree) = part.tree
            && let Some(root) = tree.root()
        {
            if let Some(builder) = open.take() {
                builder.finish(&mut reading);
            }
            let mut item = SourceValue::of_yaml(slice, &tree, root);
            shift(&mut item, part.at.start);
            let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
            builder.take_all(&mut reading, &item, |_| None);
            open = Some(builder);
            has_text = false;
        } else if let Some(builder) = &mut open {
            // Lines of `---` in the text are rules.
            builder.describe(&if has_text { format!("---\n{slice}") } else { slice.to_owned() });
            has_text = true;
        } else if slice.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let at = part.at.start..part.at.start + 1;
            reading.lose(None, "text", "it is above the first ticket", at);
        }
    }
    if let Some(builder) = open {
        builder.finish(&mut reading);
    }
    Ok(reading)
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
