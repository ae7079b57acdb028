//! The text of imported tasks in a graph file, in the layout of that file.

use std::fmt::Write as _;

use serde_json::Value;

use super::plan::ImportedTask;
use crate::core::graph::{
    edit::{Document, double, is_plain},
    merge::{self, Texts},
    task::{Spelling, Status},
    yaml::{MAX_BYTES, NodeKind, column},
};

/// The text of a new graph with these tasks.
pub fn graph(tasks: &[&ImportedTask], top: &[(String, Value)]) -> String {
    let mut text = String::new();
    if top.iter().all(|(name, _)| name != "version") {
        text += "version: 1\n";
    }
    for (name, value) in top {
        let _ = writeln!(text, "{}: {}", scalar(name), flow(value));
    }
    text += "tasks:\n";
    for task in tasks {
        text += &block(task, 2, &Spelling::default());
    }
    text
}

/// A graph with new tasks at its end.
///
/// # Errors
/// The reason why the tasks do not fit into the file.
pub fn added(text: &str, spelling: &Spelling, new: &[&ImportedTask]) -> Result<String, String> {
    const UNCOMMON: &str = "the layout of its tasks is uncommon: write one task a line or more";
    let document = Document::parse(text).map_err(|fault| fault.to_string())?;
    let tree = document.tree();
    let root = tree.root().ok_or("the file is empty")?;
    let (key, list) = ["tasks", "nodes"]
        .iter()
        .find_map(|name| tree.entry(text, root, name))
        .ok_or("the file has no `tasks`")?;
    let range = tree.range(list);
    let with_breaks =
        |items: String| if is_crlf(text) { items.replace('\n', "\r\n") } else { items };
    let flow_items = || {
        let items: Vec<String> = new.iter().map(|one| flow_task(one, spelling)).collect();
        with_breaks(items.join(",\n"))
    };
    let block_items = |indent: usize| {
        with_breaks(new.iter().map(|one| block(one, indent, spelling)).collect::<String>())
    };
    let final_task = tree.items(list).last();
    let is_flow = tree.kind(list) == (NodeKind::Sequence { flow: true });
    let found = match final_task {
        Some(final_task) if is_flow => {
            let end = tree.range(final_task).end;
            let gap = with_breaks(",\n".to_owned());
            format!("{}{gap}{}{}", &text[..end], flow_items(), &text[end..])
        }
        Some(_) => {
            let end = merge::end_of_tasks(text).ok_or(UNCOMMON)?.min(text.len());
            let (head, items) = (&text[..end], block_items(column(text, range.start)));
            if head.ends_with('\n') {
                format!("{head}{items}{}", &text[end..])
            } else {
                format!("{head}{}{}", with_breaks("\n".to_owned()), items.trim_end())
            }
        }
        // `tasks: []` has no layout that new tasks could follow.
        None if tree.kind(root) == (NodeKind::Mapping { flow: true }) => {
            format!("{}[{}]{}", &text[..range.start], flow_items(), &text[range.end..])
        }
        None => below_empty(text, tree.range(key).end, range.end, &block_items(2))?,
    };
    if found.len() > MAX_BYTES {
        return Err("the graph would become too large".to_owned());
    }
    // The merge by task checks that nothing else has changed.
    match merge::adopt(Texts { base: text, ours: text, theirs: &found }) {
        Ok(adopted) if final_task.is_none() => Ok(adopted.unwrap_or(found)),
        Ok(Some(adopted)) if adopted == found => Ok(found),
        Ok(_) => Err(UNCOMMON.to_owned()),
        Err(_) if final_task.is_none() => Ok(found),
        Err(why) => Err(why.reason),
    }
}

/// Whether all lines of a text end with `\r\n`.
fn is_crlf(text: &str) -> bool {
    let breaks = text.matches('\n').count();
    breaks > 0 && text.matches("\r\n").count() == breaks
}

/// A graph with tasks in place of an empty list, whose key and value end here.
fn below_empty(text: &str, key: usize, value: usize, items: &str) -> Result<String, String> {
    let end = text[value..].find('\n').map_or(text.len(), |at| value + at);
    let rest = text[value..end].trim();
    if !rest.is_empty() && !rest.starts_with('#') {
        return Err("the list of tasks is empty, and its line has other text".to_owned());
    }
    let below = text[end..].strip_prefix('\n').unwrap_or(&text[end..]);
    let note = if rest.is_empty() { String::new() } else { format!(" {rest}") };
    Ok(format!("{}:{note}\n{items}{below}", &text[..key]))
}

/// A field as the file spells it.
pub(super) fn spelled<'a>(
    name: &str,
    value: &'a Value,
    spelling: &Spelling,
) -> std::borrow::Cow<'a, Value> {
    let status = (name == "status").then(|| value.as_str().and_then(Status::parse)).flatten();
    match status {
        Some(status) => std::borrow::Cow::Owned(Value::String(spelling.write(status))),
        None => std::borrow::Cow::Borrowed(value),
    }
}

/// A task in block style, with its dash in this column.
fn block(task: &ImportedTask, indent: usize, spelling: &Spelling) -> String {
    let pad = " ".repeat(indent);
    let mut text = format!("{pad}- id: {}\n", scalar(&task.id));
    for (name, value) in &task.fields {
        let value = spelled(name, value, spelling);
        if value.is_null() {
            continue;
        }
        let long = value.as_str().filter(|text| is_literal(text));
        let shown =
            long.map_or_else(|| format!(" {}\n", flow(&value)), |text| literal(text, indent + 4));
        let _ = write!(text, "{pad}  {}:{shown}", scalar(name));
    }
    text
}

/// A task in one line, in braces.
fn flow_task(task: &ImportedTask, spelling: &Spelling) -> String {
    let mut parts = vec![format!("\"id\": {}", double(&task.id))];
    for (name, value) in &task.fields {
        let value = spelled(name, value, spelling);
        if !value.is_null() {
            parts.push(format!("{}: {}", double(name), quoted(&value)));
        }
    }
    format!("  {{{}}}", parts.join(", "))
}

/// A value with all texts in quotes.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => double(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entry =
                |(name, value): (&String, &Value)| format!("{}: {}", double(name), quoted(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<String> = items.iter().filter_map(Value::as_str).map(scalar).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            quoted(value)
        }
    }
}

/// A text on one line, with quotes if it needs them.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { double(text) }
}

/// Whether a text can be written below `|-` and reads as the same text.
pub(super) fn is_literal(text: &str) -> bool {
    let is_usual = |c: char| {
        c == '\n'
            || c == '\t'
            || !c.is_control()
                && !('\u{2028}'..='\u{202e}').contains(&c)
                && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{ffff}')
    };
    let ends_well = !text.ends_with('\n') && !text.starts_with([' ', '\n', '\t']);
    // Blank lines with blanks in them would end up shorter or longer.
    let lines_are_tidy = text.lines().all(|line| line.trim_end().len() == line.len());
    text.contains('\n') && ends_well && lines_are_tidy && text.chars().all(is_usual)
}

pub(super) fn literal(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let mut written = " |-\n".to_owned();
    for line in text.split('\n') {
        if !line.is_empty() {
            written += &pad;
            written += line;
        }
        written.push('\n');
    }
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{
        BacklogFormat, SourceBacklog, SourceLink, SourceTask,
        plan::{ExistingTasks, ImportOptions, SourceFile, plan},
        read,
    };
    use super::*;
    use crate::core::graph::load;

    fn loaded(text: &str) -> load::Loaded {
        let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        load::load(&document).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
    }

    fn task(id: &str, fields: &[(&str, Value)]) -> ImportedTask {
        ImportedTask {
            id: id.to_owned(),
            key: id.to_owned(),
            source: format!("x#{id}"),
            file: 0,
            is_new: true,
            is_renamed: false,
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        }
    }

    #[test]
    fn tasks_follow_the_layout_of_the_file() {
        let new = task(
            "new",
            &[
                ("title", json!("N: x")),
                ("status", json!("complete")),
                ("description", json!("a\n\n  b")),
            ],
        );
        for (text, want) in [
            (
                "tasks:\n  - id: a\n    status: done # c\n# end\n",
                "tasks:\n  - id: a\n    status: done # c\n  - id: new\n    title: \"N: x\"\n    \
                 status: done\n    description: |-\n      a\n\n        b\n# end\n",
            ),
            (
                "nodes:\n- id: a\nedges: []\n",
                "nodes:\n- id: a\n- id: new\n  title: \"N: x\"\n  status: complete\n  \
                 description: |-\n    a\n\n      b\nedges: []\n",
            ),
            (
                "{\"tasks\": [{\"id\": \"a\"}]}\n",
                "{\"tasks\": [{\"id\": \"a\"},\n  {\"id\": \"new\", \"title\": \"N: x\", \"status\": \
                 \"complete\", \"description\": \"a\\n\\n  b\"}]}\n",
            ),
            (
                "a: 1\r\ntasks:\r\n- id: a\r\n# end",
                "a: 1\r\ntasks:\r\n- id: a\r\n- id: new\r\n  title: \"N: x\"\r\n  status: \
                 complete\r\n  description: |-\r\n    a\r\n\r\n      b\r\n# end",
            ),
            (
                "version: 1\ntasks: [] # none\nmeta: {}\n",
                "version: 1\ntasks: # none\n  - id: new\n    title: \"N: x\"\n    status: complete\n    \
                 description: |-\n      a\n\n        b\nmeta: {}\n",
            ),
        ] {
            let spelling = loaded(text).graph.spelling;
            let found = added(text, &spelling, &[&new]).unwrap();
            assert_eq!(found, want);
            let graph = loaded(&found).graph;
            let last = graph.tasks().last().unwrap();
            assert_eq!(last.description.as_deref(), Some("a\n\n  b"));
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ \t\n\r:#\"'|>&*!%@`{}\\[\\],?~-]{0,12}",
            "([a-z -]{0,9}\n){0,4}",
            "(yes|null|0x1f|1e3|2026-11-20|~|- a|a: b|#c)",
        ]
    }

    proptest! {
        #[test]
        fn any_backlog_becomes_a_graph_that_loads(
            keys in prop::collection::hash_set(text(), 1..6),
            titles in prop::collection::vec(text(), 6),
            texts in prop::collection::vec(text(), 6),
            status in prop::sample::select(vec!["open", "DONE", "in_progress", "tombstone", "x y"]),
            flow in any::<bool>(),
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let stories: Vec<Value> = keys.iter().enumerate().map(|(at, key)| json!({
                "id": key, "title": titles[at], "description": texts[at], "status": status,
                "priority": texts[at], "notes": {"a": [texts[at], 1]}, "timeout": titles[at],
                "createdAt": "x", "verify": [titles[at]], "agent": texts[at],
                "dependsOn": keys[..at],
            })).collect();
            let prd = json!({"userStories": stories, "name": titles[0]}).to_string();
            // Some keys are blank, and then a title may be one of them.
            let Ok(backlog) = read(BacklogFormat::Prd, &prd) else { return Ok(()) };
            let file = SourceFile { name: "prd.json".to_owned(), backlog };
            let options = ImportOptions::default();
            let Ok(plan) = plan(&[file], &ExistingTasks::default(), &options) else { return Ok(()) };
            let all: Vec<&ImportedTask> = plan.tasks.iter().collect();
            let fresh = graph(&all, &plan.top);
            let mut graphs = vec![loaded(&fresh).graph];
            let text = if flow { "{tasks: [{id: zz-zz}]}\n" } else { "tasks:\n- id: zz-zz\n" };
            let into = added(text, &Spelling::default(), &all).unwrap();
            graphs.push(loaded(&into).graph);
            for graph in graphs {
                for task in &plan.tasks {
                    let number = graph.number(&crate::core::graph::task::TaskId::new(&task.id).unwrap());
                    let found = graph.task(number.unwrap());
                    prop_assert_eq!(Some(found.title.as_str()), task.get("title").and_then(Value::as_str));
                    prop_assert_eq!(found.description.as_deref(), task.get("description").and_then(Value::as_str));
                    prop_assert_eq!(found.extra.get("source"), task.get("source"));
                    prop_assert_eq!(found.extra.get("notes"), task.get("notes"));
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in text(), at in 0_usize..8) {
            let format = BacklogFormat::ALL[at];
            if let Ok(backlog) = read(format, &text) {
                let SourceBacklog { tasks, lost, .. } = backlog;
                let inside = |at: &std::ops::Range<usize>| at.start <= at.end && at.start <= text.len();
                prop_assert!(tasks.iter().all(|task: &SourceTask| inside(&task.at)));
                prop_assert!(tasks.iter().flat_map(|task| &task.depends_on).all(|link: &SourceLink| inside(&link.at)));
                prop_assert!(lost.iter().all(|lost| inside(&lost.at)));
            }
            super::super::detect::detect(&text);
        }
    }
}
