//! Knows the format of a backlog by its content.

use super::{
    BacklogFormat,
    fields::{self, FieldRole},
    github, json_backlog, markdown, table,
    value::SourceValue,
    yaml_backlog,
};
use crate::{diagnostic::position, graph::yaml::Tree};

/// The format of a text; none if it looks like no backlog.
pub fn detect(text: &str) -> Option<BacklogFormat> {
    let bare = text.trim_start_matches('\u{feff}');
    let start = bare.trim_start();
    if start.starts_with(['{', '[']) && !looks_like_markdown(start) {
        return in_json(bare);
    }
    if let Some(format) = in_yaml(bare) {
        return Some(format);
    }
    if is_table(bare) {
        return Some(BacklogFormat::Csv);
    }
    markdown::is_plan(bare).then_some(BacklogFormat::Markdown)
}

/// Why a text looks like no backlog, as a lower-case fragment.
pub fn why_not(text: &str) -> String {
    let bare = text.trim_start_matches('\u{feff}').trim_start();
    if bare.is_empty() {
        return "it is empty".to_owned();
    }
    if bare.starts_with(['{', '[']) && !looks_like_markdown(bare) {
        return match SourceValue::of_json(text) {
            Ok(_) => "it has no list of tasks".to_owned(),
            Err(faults) => {
                let line = position(text, faults[0].at.start).0;
                format!("{} (line {line})", faults[0].message)
            }
        };
    }
    "it has no tasks: no front matter, checkbox, numbered list, table or task heading".to_owned()
}

/// Whether a text that starts with a bracket is Markdown: a link, or a checkbox without a dash.
fn looks_like_markdown(start: &str) -> bool {
    let line = start.lines().next().unwrap_or_default();
    start.starts_with('[')
        && (line.contains("](") || line.starts_with("[ ]") || line.starts_with("[x]"))
}

fn in_json(text: &str) -> Option<BacklogFormat> {
    let of = |item: &SourceValue| by_fields(|name| item.get(name).is_some());
    // A long file is known by its first object too, even if it is broken below.
    let first = || SourceValue::first_of_json(text);
    if text.trim_start().starts_with('[')
        && let Some(format) = first().as_ref().and_then(of)
    {
        return Some(format);
    }
    let Some(whole) = SourceValue::of_json(text).ok().or_else(first) else {
        // The format that a broken text was probably meant to have, so that its errors are shown.
        let has = |name: &str| text.contains(&format!("\"{name}\""));
        let named = [("userStories", BacklogFormat::Prd), ("depends_on", BacklogFormat::Graph)];
        let by_name = || named.into_iter().find(|(name, _)| has(name)).map(|(_, format)| format);
        return by_fields(has).or_else(by_name);
    };
    if let Some(list) = github::list_in(&whole)
        && list.items().first().and_then(of) == Some(BacklogFormat::Github)
    {
        return Some(BacklogFormat::Github);
    }
    if whole.is_list() {
        let page = whole.items().first().and_then(|first| first.items().first());
        // A list of nothing is that in any format.
        return page.and_then(of).or(Some(BacklogFormat::Prd));
    }
    if whole.entries().iter().any(|entry| entry.value.list("tasks").is_some()) {
        return Some(BacklogFormat::TaskMaster);
    }
    if let Some(list) = whole.list("tasks").or_else(|| whole.list("nodes")) {
        let any = |names: &[&str]| {
            list.items().iter().any(|item| names.iter().any(|name| item.get(name).is_some()))
        };
        let has = |name: &str| whole.get(name).is_some();
        return Some(if has("edges") || has("nodes") || any(&["depends_on", "verify"]) {
            BacklogFormat::Graph
        } else if any(&["passes", "acceptanceCriteria", "dependsOn"]) {
            BacklogFormat::Prd
        } else {
            BacklogFormat::TaskMaster
        });
    }
    let has_stories = json_backlog::LISTS.iter().any(|name| whole.list(name).is_some());
    if has_stories { Some(BacklogFormat::Prd) } else { of(&whole) }
}

/// The format of a task in JSON that has some of these fields.
fn by_fields(has: impl Fn(&str) -> bool) -> Option<BacklogFormat> {
    if has("number") && has("title") {
        Some(BacklogFormat::Github)
    } else if has("issue_type") || has("created_by") && has("status") {
        Some(BacklogFormat::Beads)
    } else if has("passes") || has("acceptanceCriteria") || has("dependsOn") {
        Some(BacklogFormat::Prd)
    } else if has("subtasks") || has("testStrategy") {
        Some(BacklogFormat::TaskMaster)
    } else if has("id") && has("title") && has("status") {
        Some(BacklogFormat::Beads)
    } else {
        None
    }
}

fn in_yaml(text: &str) -> Option<BacklogFormat> {
    let has_rule = text.lines().any(|line| line.trim_end() == "---");
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if has_rule && first.is_some_and(|line| line.trim_end() == "---") {
        // A broken front matter is shown as an error of a ticket.
        let is_ticket = match yaml_backlog::parts(text) {
            Ok(parts) => parts.iter().any(|part| part.tree.is_some()),
            Err(_) => true,
        };
        if is_ticket {
            return Some(BacklogFormat::Tickets);
        }
    }
    let names_tasks = text.lines().any(|line| {
        let line = line.trim_end();
        ["tasks:", "nodes:"].iter().any(|key| {
            line.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    });
    if !names_tasks {
        return None;
    }
    match Tree::parse(text) {
        Ok(tree) => {
            let root = tree.root()?;
            let found = ["tasks", "nodes"].iter().any(|key| tree.entry(text, root, key).is_some());
            found.then_some(BacklogFormat::Graph)
        }
        Err(_) => Some(BacklogFormat::Graph),
    }
}

/// Whether the first line is a header with a title or an id.
fn is_table(text: &str) -> bool {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let separator = table::separator(text);
    let names: Vec<&str> =
        header.split(separator).map(|name| name.trim().trim_matches('"')).collect();
    let has_title = names.iter().any(|name| fields::role(name) == FieldRole::Title);
    let role = |name: &str| table::role(name, has_title);
    let known = names.iter().filter(|name| role(name) != FieldRole::Other).count();
    let is_short = names.iter().all(|name| name.len() <= 60 && !name.starts_with(['#', '-', '*']));
    let is_named = names.iter().any(|name| matches!(role(name), FieldRole::Title | FieldRole::Id));
    names.len() > 1 && known > 1 && is_short && is_named && lines.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_content() {
        for (text, want) in [
            ("{\"userStories\": []}", Some(BacklogFormat::Prd)),
            (
                "[{\"category\": \"x\", \"description\": \"y\", \"passes\": false}]",
                Some(BacklogFormat::Prd),
            ),
            (
                "{\"id\":\"a\",\"title\":\"b\",\"issue_type\":\"bug\"}\n{\"id\":",
                Some(BacklogFormat::Beads),
            ),
            ("{\"tasks\": [{\"id\": 1, \"dependencies\": []}]}", Some(BacklogFormat::TaskMaster)),
            ("{\"master\": {\"tasks\": []}}", Some(BacklogFormat::TaskMaster)),
            ("{\"tasks\": [{\"id\": \"a\", \"depends_on\": []}]}", Some(BacklogFormat::Graph)),
            ("[{\"number\": 1, \"title\": \"b\"}]", Some(BacklogFormat::Github)),
            (
                "{\"total_count\": 1, \"items\": [{\"number\": 1, \"title\": \"b\"}]}",
                Some(BacklogFormat::Github),
            ),
            ("\u{feff}---\r\nid: a\r\n---\r\ntext\r\n", Some(BacklogFormat::Tickets)),
            ("# a.md\n---\nid: a\n# b.md\n---\nid: b\n", Some(BacklogFormat::Tickets)),
            ("version: 1\ntasks:\n  - id: a\n", Some(BacklogFormat::Graph)),
            ("id,title\n1,b\n", Some(BacklogFormat::Csv)),
            ("Task,Status\nb,Done\n", Some(BacklogFormat::Csv)),
            ("Key\tSummary\tStatus\nA-1\tb\tDone\n", Some(BacklogFormat::Csv)),
            ("# Plan\n\n- [ ] a\n", Some(BacklogFormat::Markdown)),
            ("### Task 1: a\n\ntext\n", Some(BacklogFormat::Markdown)),
            ("Dear reader, hello,\n\nno tasks.\n", None),
            ("", None),
            ("{}", None),
            ("[]", Some(BacklogFormat::Prd)),
        ] {
            assert_eq!(detect(text), want, "{text}");
        }
    }
}
