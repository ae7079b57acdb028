//! Reads backlogs in YAML: tickets with front matter, one or many in a text, with or without a text
//! below; and other task graphs.

use std::{collections::HashMap, ops::Range};

use super::{
    SourceLink,
    builder::{Reading, TaskBuilder},
    fields::{FieldRole, links},
    value::{SourceEntry, SourceValue},
};
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

/// The keys that name a ticket, the best first. Front matter has one of them or of [`OTHERS`].
const NAMES: [&str; 4] = ["id", "key", "title", "name"];
/// Other keys of front matter.
const OTHERS: [&str; 2] = ["status", "depends_on"];

/// Cuts a text at its lines of `---`.
///
/// # Errors
/// Front matter at the start that is not YAML.
pub(super) fn parts(text: &str) -> Result<Vec<TicketPart>, Box<Diagnostic>> {
    let bounds = rules(text);
    let mut parts: Vec<TicketPart> = Vec::new();
    let mut start = 0;
    // How tickets are told from text with rules: by the key that the first one is named by, and by
    // their end if the first one has a text below its end.
    let (mut name, mut has_bodies) = (None, false);
    // A front matter that names no ticket is one of a plan.
    let mut is_begun = false;
    for (begin, end) in bounds.iter().copied().chain([(text.len(), text.len())]) {
        let at = std::mem::replace(&mut start, end)..begin;
        let slice = &text[at.clone()];
        let is_above = at.start == 0 && slice.trim().trim_start_matches('\u{feff}').is_empty();
        if is_above {
            continue;
        }
        let has = |tree: &Tree, key: &str| {
            tree.root().is_some_and(|root| tree.entry(slice, root, key).is_some())
        };
        let is_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let tree = match Tree::parse(slice) {
            Ok(tree) => {
                // Below the first front matter, a body may contain anything.
                let is_another =
                    name.is_none_or(|name| has(&tree, name) && (!has_bodies || begin < text.len()));
                let is_map = |root| matches!(tree.kind(root), NodeKind::Mapping { .. });
                let is_map = tree.root().is_some_and(is_map);
                is_begun |= is_map;
                let is_ticket = is_map && NAMES.iter().chain(&OTHERS).any(|key| has(&tree, key));
                (is_another && is_ticket).then_some(tree)
            }
            Err(fault) if !is_begun && slice.lines().any(is_text) && at.start > 0 => {
                let found = load::diagnostic(fault);
                let at = found.at.start + at.start..found.at.end + at.start;
                return Err(Box::new(Diagnostic { at, ..found }));
            }
            Err(_) => None,
        };
        match &tree {
            Some(tree) if name.is_none() => {
                name = NAMES.into_iter().find(|key| has(tree, key)).or(Some(NAMES[0]));
            }
            None if name.is_some() => has_bodies |= !slice.trim().is_empty(),
            Some(_) | None => {}
        }
        parts.push(TicketPart { at, tree });
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

/// Reads the tickets of a text. A ticket that is alone in its file is named after the file if it has
/// no name of its own; `stem` is the name of the file.
pub(super) fn tickets(text: &str, stem: Option<&str>) -> Result<Reading, Vec<Diagnostic>> {
    let parts = parts(text).map_err(|fault| vec![*fault])?;
    let is_alone = parts.iter().filter(|part| part.tree.is_some()).count() == 1;
    let stem = stem.filter(|_| is_alone);
    let mut reading = Reading::default();
    let mut open: Option<(TaskBuilder, String)> = None;
    for TicketPart { at, tree } in parts {
        let slice = &text[at.clone()];
        if tree.is_some() || open.is_none() {
            comments(&mut reading, slice, at.start);
        }
        if let Some(tree) = tree
            && let Some(root) = tree.root()
        {
            if let Some((builder, body)) = open.take() {
                finish(builder, body, stem, &mut reading);
            }
            let item = SourceValue::of_yaml(slice, &tree, root, at.start);
            let builder = TaskBuilder::of(&mut reading, &item, "ticket", |_| None);
            open = builder.map(|builder| (builder, String::new()));
        } else if let Some((_, body)) = &mut open {
            // Lines of `---` in the text are rules.
            if !body.is_empty() {
                body.push_str("---\n");
            }
            body.push_str(slice);
        } else if slice.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            reading.lose("text", "it is above the first ticket", at.start..at.start + 1);
        }
    }
    if let Some((builder, body)) = open {
        finish(builder, body, stem, &mut reading);
    }
    Ok(reading)
}

/// Adds a ticket with the text below it. Without a title, its first heading is the title.
fn finish(mut builder: TaskBuilder, mut body: String, stem: Option<&str>, reading: &mut Reading) {
    let heading = body.lines().find(|line| title_of(line).is_some()).map(str::to_owned);
    if let Some(line) = heading.filter(|_| !builder.has_title()) {
        builder.set_title(title_of(&line).unwrap_or_default());
        if let Some(rest) = body.trim_start().strip_prefix(&line) {
            body = rest.to_owned();
        }
    }
    if let Some(stem) = stem {
        if !builder.has_title() {
            builder.set_title(stem);
        }
        if builder.task.key.is_empty() {
            stem.clone_into(&mut builder.task.key);
        }
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
            reading.lose("comment", "a comment is not part of a ticket", at);
        }
        at += line.len();
    }
}

/// Reads another task graph.
pub(super) fn graph(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let (document, _) = load::read(text)?;
    let mut reading = Reading::default();
    let Some(root) = document.tree().root() else {
        return Ok(reading);
    };
    let root = SourceValue::of_yaml(text, document.tree(), root, 0);
    let items = |name: &str| root.get(name).map(SourceValue::items).unwrap_or_default();
    let mut edges: HashMap<String, Vec<SourceLink>> = HashMap::new();
    for edge in items("edges") {
        let ends = edge.get("from").and_then(SourceValue::link).zip(edge.word_of(&["to"]));
        if let Some((link, dependent)) = ends {
            edges.entry(dependent).or_default().push(link);
        }
    }
    for entry in root.entries() {
        match entry.name.as_str() {
            "tasks" | "nodes" | "edges" | "defaults" => {}
            "meta" => {
                reading.lose("meta", "its counts are never trusted", entry.key_at.clone());
            }
            _ => reading.top(entry),
        }
    }
    let list = root.get("tasks").or_else(|| root.get("nodes"));
    let tasks = list.map(SourceValue::items).unwrap_or_default();
    reading.is_empty = list.is_some_and(SourceValue::is_list) && tasks.is_empty();
    for item in tasks {
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        let defaults = root.get("defaults").map(SourceValue::entries).unwrap_or_default();
        let is_lacking = |entry: &&SourceEntry| item.get(&entry.name).is_none();
        for entry in item.entries().iter().chain(defaults.iter().filter(is_lacking)) {
            builder.take(&mut reading, entry, graph_role(&entry.name));
        }
        builder.task.depends_on.extend(item.get("depends_on").map(links).unwrap_or_default());
        let edges = edges.remove(&builder.task.key).unwrap_or_default();
        builder.task.depends_on.extend(edges);
        builder.finish(&mut reading);
    }
    Ok(reading)
}

/// The fields of the graph keep their meaning; all others are kept.
fn graph_role(name: &str) -> FieldRole {
    match name {
        "id" => FieldRole::Id,
        "title" => FieldRole::Title,
        "description" => FieldRole::Description,
        "status" => FieldRole::Status,
        "priority" => FieldRole::Priority,
        "tags" => FieldRole::Tags,
        "story" => FieldRole::Story,
        "milestone" => FieldRole::Milestone,
        "notes" => FieldRole::Notes,
        "completed_at" => FieldRole::CompletedAt,
        "depends_on" => FieldRole::Skipped,
        "claimed_at" | "claimed_by" => {
            FieldRole::Dropped("a claim belongs to a run of the other graph")
        }
        "source" => FieldRole::Dropped("the task comes from the other graph now"),
        _ => FieldRole::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(text: &str) -> Vec<(String, String, String)> {
        let backlog = tickets(text, Some("file")).unwrap().finish(text).unwrap();
        let field = |task: &super::super::SourceTask, name: &str| {
            task.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        { backlog.tasks.iter() }
            .map(|task| (task.key.clone(), field(task, "title"), field(task, "description")))
            .collect()
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
