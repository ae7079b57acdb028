//! Backlogs of other tools: known by their content, and read into tasks.
//!
//! One reader per format turns a text into a [`SourceBacklog`], whose tasks have the fields of the
//! graph. What has no place there is kept under its own name, and what cannot be kept is listed as a
//! [`LostField`]. `plan` maps ids and dependencies, and `graph_text` writes the graph.

mod builder;
mod fields;
mod github;
pub mod graph_text;
mod json_backlog;
mod markdown;
pub mod plan;
mod table;
mod value;
mod yaml_backlog;

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    diagnostic::{Diagnostic, position},
    graph::{task::Status, yaml::Tree},
    variants,
};
use fields::FieldRole;
use value::SourceValue;

/// The size of the largest text of one task, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The name of standard input in `source:`.
pub const STANDARD_INPUT: &str = "stdin";

/// The format of a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BacklogFormat {
    /// `prd.json`: stories with `passes` or `dependsOn`.
    Prd,
    /// The JSONL of beads.
    Beads,
    /// The `tasks.json` of task-master.
    TaskMaster,
    /// GitHub issues, as `gh issue list --json` or the API prints them.
    Github,
    /// A plan in Markdown.
    Markdown,
    /// Tickets with YAML front matter.
    Tickets,
    /// A table with a header: CSV or TSV.
    Csv,
    /// A task graph.
    Graph,
}

impl BacklogFormat {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        variants::names::<BacklogFormat>()[self as usize]
    }
}

impl fmt::Display for BacklogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The tasks of one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceBacklog {
    /// The tasks, in the order of the text.
    pub tasks: Vec<SourceTask>,
    /// What is not kept as it is, in the order of the text.
    pub lost: Vec<LostField>,
    /// The fields of the whole backlog, for the top of a new graph.
    pub top: Vec<(String, Value)>,
}

/// A task as its source has it, with the fields of the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceTask {
    /// Its name in the source, which need not be a valid id.
    pub key: String,
    /// Whether the source has no id for it, so that the key was made from its title or its number.
    pub is_key_made: bool,
    /// Its other names in the source.
    pub aliases: Vec<String>,
    /// A name that identifies it everywhere, such as the address of an issue.
    pub source: Option<String>,
    /// The bytes of its id, or of its first line.
    pub at: Range<usize>,
    /// The fields, without `id` and `depends_on`.
    pub fields: Vec<(String, Value)>,
    /// What it waits for.
    pub depends_on: Vec<SourceLink>,
    /// The task that contains it.
    pub parent: Option<SourceLink>,
    /// Where its status is written.
    pub status_at: Vec<(StatusMark, Range<usize>)>,
    /// The end of its last field in JSON, where another one can be added.
    pub fields_end: Option<usize>,
}

/// How a source writes a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMark {
    /// A word.
    Word,
    /// Whether it is done.
    Flag,
    /// The character in a checkbox.
    Box,
}

impl SourceTask {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        field(&self.fields, name)
    }

    /// The status.
    pub fn status(&self) -> Status {
        status_of(&self.fields)
    }
}

/// The value of a field.
fn field<'a>(fields: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// The status in the fields of a task.
fn status_of(fields: &[(String, Value)]) -> Status {
    let word = field(fields, "status").and_then(Value::as_str);
    word.and_then(Status::parse).unwrap_or(Status::Pending)
}

/// The name of another task, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLink {
    /// Its name in the source.
    pub key: String,
    /// The bytes of the name.
    pub at: Range<usize>,
}

impl SourceLink {
    fn new(key: impl Into<String>, at: &Range<usize>) -> SourceLink {
        SourceLink { key: key.into(), at: at.clone() }
    }
}

/// Something that the graph does not have as the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostField {
    /// The task, by its name in the source; none for a part of the whole backlog.
    pub task: Option<String>,
    /// The field, or the kind of text.
    pub field: String,
    /// The reason, as a lower-case fragment.
    pub why: String,
    /// Whether the value is still in the graph, in another form.
    pub is_kept: bool,
    /// The bytes.
    pub at: Range<usize>,
}

impl LostField {
    fn new(field: &str, why: impl Into<String>, at: Range<usize>) -> LostField {
        LostField { task: None, field: field.to_owned(), why: why.into(), is_kept: false, at }
    }

    /// The same of a task.
    fn of(self, task: &str) -> LostField {
        LostField { task: Some(task.to_owned()), ..self }
    }
}

/// Reads a backlog. `name` is the name of its file.
///
/// # Errors
/// All errors, in the order of the text.
pub fn read(
    format: BacklogFormat,
    name: &str,
    text: &str,
) -> Result<SourceBacklog, Vec<Diagnostic>> {
    let reading = match format {
        BacklogFormat::Prd => json_backlog::prd(text),
        BacklogFormat::Beads => json_backlog::beads(text),
        BacklogFormat::TaskMaster => json_backlog::task_master(text),
        BacklogFormat::Github => github::read(text),
        BacklogFormat::Markdown => Ok(markdown::read(text)),
        BacklogFormat::Tickets => yaml_backlog::tickets(text, stem(name)),
        BacklogFormat::Csv => table::read(text),
        BacklogFormat::Graph => yaml_backlog::graph(text),
    }?;
    reading.finish(text)
}

/// The name of a file without folders and ending.
fn stem(name: &str) -> Option<&str> {
    let file = name.rsplit('/').next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    (!stem.is_empty() && file != STANDARD_INPUT).then_some(stem)
}

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

/// Backlogs of tools that are not read: names in the first task, or in the whole; what it is, and what to
/// do instead.
const FOREIGN: [(&[&str], &str, &str); 3] = [
    (
        &["key", "fields"],
        "it has issues of Jira in JSON, which are not read",
        "export the issues as CSV, and import that",
    ),
    (
        &["cards", "lists"],
        "it is a board of Trello in JSON, which is not read",
        "export the board as CSV, or write `[{\"id\", \"title\", \"description\", \"status\"}]` from its cards",
    ),
    (
        &["uuid", "entry"],
        "it is an export of Taskwarrior, which is not read",
        "`task export | jq '[.[] | {id: .uuid[:8], title: .description, status, dependsOn: [(.depends // \
         [])[][:8]]}]' | ralph import -` reads it",
    ),
];

/// The backlog of a tool that is not read, and what to do instead.
pub fn foreign(text: &str) -> Option<(&'static str, &'static str)> {
    let bare = text.trim_start_matches('\u{feff}').trim_start();
    let first = SourceValue::first_of_json(bare).filter(|_| bare.starts_with(['{', '[']))?;
    let issue = first.list("issues").and_then(|list| list.items().first());
    let has = |names: &[&str]| {
        let all = |value: &&SourceValue| names.iter().all(|name| value.get(name).is_some());
        [Some(&first), issue].iter().flatten().any(all)
    };
    FOREIGN.iter().find(|(names, _, _)| has(names)).map(|(_, what, help)| (*what, *help))
}

/// Why a text looks like no backlog, as a lower-case fragment.
pub fn why_not(text: &str) -> String {
    let bare = text.trim_start_matches('\u{feff}').trim_start();
    if bare.is_empty() {
        return "it is empty".to_owned();
    }
    if let Some((what, help)) = foreign(text) {
        return format!("{what}: {help}");
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
    if foreign(text).is_some() {
        return None;
    }
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
    } else if has("id") && (has("title") || has("subject")) && has("status") {
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
