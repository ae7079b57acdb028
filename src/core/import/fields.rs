//! Which field of the graph a field of a source becomes, whatever the tool calls it.

use std::{collections::HashMap, ops::Range};

use serde_json::Value;

use super::{
    LostField, SourceBacklog, SourceLink, SourceTask,
    value::{SourceEntry, SourceValue},
    words::fold,
};
use crate::{
    diagnostic::{Diagnostic, nearest, position},
    graph::{
        edit::Document,
        load::{self, fields::FIELDS},
    },
};

/// What a field of a source means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldRole {
    Id,
    Title,
    Description,
    /// A part of the description with this heading.
    Section(&'static str),
    Status,
    /// Whether it is done.
    Done,
    Priority,
    DependsOn,
    /// What waits for it.
    Blocks,
    Tags,
    Story,
    Milestone,
    Parent,
    Notes,
    CompletedAt,
    /// Kept, under a name that means nothing else.
    Other,
    /// Not kept, for this reason.
    Dropped(&'static str),
    /// Read elsewhere.
    Skipped,
}

/// Roles by folded name. The first present name of a role wins; the others are kept.
const ROLES: &[(FieldRole, &[&str])] = &[
    (FieldRole::Id, &["id", "key", "identifier", "taskid", "issuekey", "ticketid"]),
    (FieldRole::Title, &["title", "name", "summary", "subject", "headline"]),
    (FieldRole::Description, &["description", "body", "desc", "content"]),
    (FieldRole::Section("Details"), &["details"]),
    (FieldRole::Section("Design"), &["design"]),
    (
        FieldRole::Section("Acceptance criteria"),
        &["acceptancecriteria", "acceptance", "criteria", "definitionofdone", "dod"],
    ),
    (FieldRole::Section("Steps"), &["steps"]),
    (FieldRole::Section("Technical notes"), &["technicalnotes", "implementationnotes"]),
    (FieldRole::Section("Test strategy"), &["teststrategy"]),
    (FieldRole::Status, &["status", "state"]),
    (FieldRole::Done, &["passes", "done", "completed", "complete", "isdone", "iscomplete"]),
    (FieldRole::Priority, &["priority", "prio", "urgency"]),
    (
        FieldRole::DependsOn,
        &[
            "dependson",
            "dependencies",
            "deps",
            "blockedby",
            "requires",
            "prerequisites",
            "needs",
            "after",
        ],
    ),
    (FieldRole::Blocks, &["blocks", "before"]),
    (FieldRole::Tags, &["tags", "labels", "label", "tag", "keywords"]),
    (FieldRole::Story, &["story", "userstory"]),
    (FieldRole::Milestone, &["milestone"]),
    (FieldRole::Parent, &["parent", "parentid", "epic", "epicid", "parentissue", "epiclink"]),
    (FieldRole::Notes, &["notes"]),
    (
        FieldRole::CompletedAt,
        &["completedat", "closedat", "finishedat", "doneat", "resolvedat", "resolved"],
    ),
];

/// The role of a field by its name.
pub(super) fn role(name: &str) -> FieldRole {
    let folded = fold(name);
    let found = ROLES.iter().find(|(_, names)| names.contains(&folded.as_str()));
    found.map_or(FieldRole::Other, |(role, _)| *role)
}

/// A text while it is read: its tasks so far, and its errors.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) backlog: SourceBacklog,
    pub(super) faults: Vec<Diagnostic>,
    /// Keys of tasks with what waits for them.
    pub(super) blocks: Vec<(String, SourceLink)>,
    /// Whether the source has a list of tasks that is empty.
    pub(super) is_empty: bool,
    /// Whether a field of `ralph` accepts a value.
    accepted: HashMap<String, bool>,
    /// The names under which unknown fields are kept.
    kept: HashMap<String, String>,
}

impl Reading {
    /// Lists something as lost.
    pub(super) fn lose(
        &mut self,
        task: Option<&str>,
        field: &str,
        why: impl Into<String>,
        at: Range<usize>,
    ) {
        self.note(task, field, why, false, at);
    }

    /// Lists something that the graph has in another form.
    pub(super) fn note(
        &mut self,
        task: Option<&str>,
        field: &str,
        why: impl Into<String>,
        is_kept: bool,
        at: Range<usize>,
    ) {
        self.backlog.lost.push(LostField {
            task: task.map(str::to_owned),
            field: field.to_owned(),
            why: why.into(),
            is_kept,
            at,
        });
    }

    /// Adds a field of the whole backlog, unless it is empty.
    pub(super) fn top(&mut self, entry: &SourceEntry) {
        if !entry.value.is_empty() {
            let is_free = !["tasks", "nodes", "edges", "defaults"].contains(&entry.name.as_str());
            let name = if is_free { entry.name.clone() } else { format!("x-{}", entry.name) };
            self.backlog.top.push((name, entry.value.json()));
        }
    }

    /// The name under which the graph keeps an unknown field.
    pub(super) fn free_name(&mut self, name: &str) -> String {
        if let Some(known) = self.kept.get(name) {
            return known.clone();
        }
        let free = Reading::free(name);
        self.kept.insert(name.to_owned(), free.clone());
        free
    }

    fn free(name: &str) -> String {
        if name.starts_with("x-") {
            return name.to_owned();
        }
        let is_known = nearest(name, FIELDS.iter().map(|field| field.name)).is_some();
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let is_mine = ["source", "depends_on", "id"].contains(&name);
        if !is_known && is_plain && !is_mine {
            return name.to_owned();
        }
        let cleaned: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' })
            .collect();
        format!("x-{cleaned}")
    }

    /// Whether the graph accepts a value for a field that it has.
    pub(super) fn accepts(&mut self, name: &str, value: &Value) -> bool {
        let text = format!("tasks:\n- {{id: a, {name}: {value}}}\n");
        if let Some(known) = self.accepted.get(&text) {
            return *known;
        }
        let loaded = Document::parse(&text).ok().map(|document| load::load(&document));
        let accepted =
            loaded.is_some_and(|loaded| loaded.is_ok_and(|loaded| loaded.warnings.is_empty()));
        self.accepted.insert(text, accepted);
        accepted
    }

    /// Ends the reading of a text.
    ///
    /// # Errors
    /// The errors that were found, and those of the whole: no tasks, equal keys.
    pub(super) fn finish(mut self, text: &str) -> Result<SourceBacklog, Vec<Diagnostic>> {
        let mut first: HashMap<&str, &SourceTask> = HashMap::new();
        let mut faults = Vec::new();
        for task in &self.backlog.tasks {
            if let Some(earlier) = first.insert(&task.key, task) {
                let line = position(text, earlier.at.start).0;
                let message = format!("two tasks have the id `{}`", clipped(&task.key));
                faults.push(
                    Diagnostic::error(message, task.at.clone())
                        .label(format!("first used on line {line}"))
                        .help("rename one of them in the source"),
                );
            }
        }
        self.faults.append(&mut faults);
        if self.faults.is_empty() && self.backlog.tasks.is_empty() && !self.is_empty {
            self.faults.push(
                Diagnostic::error("there are no tasks in it", 0..0)
                    .help("`ralph help import` lists the formats that are read"),
            );
        }
        if !self.faults.is_empty() {
            self.faults.sort_by_key(|fault| fault.at.start);
            return Err(self.faults);
        }
        let numbers: HashMap<String, usize> = self
            .backlog
            .tasks
            .iter()
            .enumerate()
            .map(|(at, task)| (task.key.clone(), at))
            .collect();
        for (key, link) in std::mem::take(&mut self.blocks) {
            if let Some(number) = numbers.get(&link.key) {
                let links = &mut self.backlog.tasks[*number].depends_on;
                if links.iter().all(|known| known.key != key) {
                    links.push(SourceLink { key, at: link.at });
                }
            } else {
                let why = format!("no task `{}` in the source", clipped(&link.key));
                self.lose(Some(&key), "blocks", why, link.at);
            }
        }
        self.backlog.lost.sort_by_key(|lost| lost.at.start);
        Ok(self.backlog)
    }
}

/// A text of a source in a message.
pub(super) fn clipped(text: &str) -> String {
    const LONGEST: usize = 60;
    let escaped = text.escape_debug().to_string();
    if escaped.chars().count() <= LONGEST {
        return escaped;
    }
    escaped.chars().take(LONGEST).chain(['…']).collect()
}

/// A long text as the graph keeps it: `\n` line breaks, no blanks at the end of lines, no blank
/// lines around it.
pub(super) fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let is_text = |line: &&str| !line.is_empty();
    let start = lines.iter().position(is_text).unwrap_or(lines.len());
    let end = lines.iter().rposition(is_text).map_or(start, |at| at + 1);
    lines[start..end].join("\n")
}

/// One line of a text: its line breaks and repeated blanks are single blanks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The names in a list of tasks: items, objects with an id, or one text with separators.
pub(super) fn links(value: &SourceValue) -> Vec<SourceLink> {
    let names = ["id", "key", "number", "depends_on_id", "dependsOn", "issue", "task", "title"];
    if value.is_list() {
        return value.items().iter().flat_map(links).collect();
    }
    if value.is_map() {
        let found = names.iter().find_map(|name| value.get(name));
        return found
            .and_then(|value| Some((value.word()?, value.at.clone())))
            .into_iter()
            .map(|(key, at)| SourceLink { key, at })
            .collect();
    }
    let text = value.text().unwrap_or_default();
    text.split([',', ';', '\n'])
        .map(|name| name.trim().trim_start_matches('#'))
        .filter(|name| {
            !name.is_empty() && !["none", "n/a", "-"].contains(&name.to_ascii_lowercase().as_str())
        })
        .map(|name| SourceLink { key: name.to_owned(), at: value.at.clone() })
        .collect()
}

/// The names in a list of labels.
pub(super) fn names(value: &SourceValue) -> Vec<String> {
    if value.is_list() {
        return value.items().iter().flat_map(names).collect();
    }
    if value.is_map() {
        return value.word_of(&["name", "title", "label", "id"]).into_iter().collect();
    }
    let text = value.text().unwrap_or_default();
    text.split([',', ';']).map(one_line).filter(|name| !name.is_empty()).collect()
}
