//! A task while its fields are read.

use std::{borrow::Cow, ops::Range};

use serde_json::{Value, json};

use super::{
    LostField, MAX_TEXT, SourceLink, SourceTask, StatusMark,
    fields::{FieldRole, Reading, clipped, links, names, one_line, role, tidy},
    ids::slug,
    value::{SourceEntry, SourceValue},
    words,
};
use crate::{
    diagnostic::Diagnostic,
    graph::{load::fields::FIELDS, task::Status},
};

/// A task while its fields are read.
pub(super) struct TaskBuilder {
    pub(super) task: SourceTask,
    title: Option<String>,
    description: Option<String>,
    sections: Vec<(&'static str, String)>,
    status: Option<Status>,
    is_done: Option<bool>,
    completed_at: Option<String>,
    own: Vec<(String, Value)>,
    lost: Vec<LostField>,
    blocks: Vec<SourceLink>,
    taken: Vec<FieldRole>,
}

impl TaskBuilder {
    pub(super) fn new(at: Range<usize>) -> TaskBuilder {
        TaskBuilder {
            task: SourceTask { at, ..SourceTask::default() },
            title: None,
            description: None,
            sections: Vec::new(),
            status: None,
            is_done: None,
            completed_at: None,
            own: Vec::new(),
            lost: Vec::new(),
            blocks: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Takes all entries of a mapping, with `other` for the roles that this format gives.
    pub(super) fn take_all(
        &mut self,
        reading: &mut Reading,
        item: &SourceValue,
        other: impl Fn(&str) -> Option<FieldRole>,
    ) {
        self.task.fields_end = item.entries().last().map(|entry| entry.value.at.end);
        for entry in item.entries() {
            let role = other(&entry.name).unwrap_or_else(|| role(&entry.name));
            self.take(reading, entry, role);
        }
    }

    /// Takes one field in this role.
    pub(super) fn take(&mut self, reading: &mut Reading, entry: &SourceEntry, role: FieldRole) {
        let value = &entry.value;
        if value.is_empty() || role == FieldRole::Skipped {
            return;
        }
        if let Some(text) = value.text()
            && text.len() > MAX_TEXT
        {
            let message = format!("`{}` is {} KiB long", clipped(&entry.name), text.len() >> 10);
            reading
                .faults
                .push(Diagnostic::error(message, entry.key_at.clone()).help(
                    "the limit for one text is 1 MiB: put it into a file, and name the file",
                ));
            return;
        }
        let is_single = !matches!(
            role,
            FieldRole::DependsOn | FieldRole::Blocks | FieldRole::Tags | FieldRole::Other
        );
        if is_single && self.taken.contains(&role) {
            self.keep(reading, entry);
            return;
        }
        self.taken.push(role);
        self.mark(role, value);
        match role {
            FieldRole::Id => self.id(reading, entry),
            FieldRole::Title => match value.text() {
                Some(text) => self.title = Some(one_line(&text)),
                None => self.keep(reading, entry),
            },
            FieldRole::Description => match long_text(value) {
                Some(text) => self.description = Some(text),
                None => self.keep(reading, entry),
            },
            FieldRole::Section(heading) => match long_text(value) {
                Some(text) => self.sections.push((heading, text)),
                None => self.keep(reading, entry),
            },
            FieldRole::Status => self.read_status(reading, entry),
            FieldRole::Done => match value.flag() {
                Some(flag) => self.is_done = Some(flag),
                None => self.keep(reading, entry),
            },
            FieldRole::Priority => self.read_priority(reading, entry),
            FieldRole::DependsOn => self.task.depends_on.extend(links(value)),
            FieldRole::Blocks => self.blocks.extend(links(value)),
            FieldRole::Tags => self.tag(names(value)),
            FieldRole::Story => self.set_name("story", reading, entry),
            FieldRole::Milestone => self.set_name("milestone", reading, entry),
            FieldRole::Parent => match links(value).into_iter().next() {
                Some(link) => self.task.parent = Some(link),
                None => self.keep(reading, entry),
            },
            FieldRole::Notes => self.set("notes", value.json()),
            FieldRole::CompletedAt => match value.word() {
                Some(time) => self.completed_at = Some(time),
                None => self.keep(reading, entry),
            },
            FieldRole::Other => self.keep(reading, entry),
            FieldRole::Dropped(why) => self.lose(&entry.name, why, false, entry.key_at.clone()),
            FieldRole::Skipped => {}
        }
    }

    /// Remembers where the status is written.
    fn mark(&mut self, role: FieldRole, value: &SourceValue) {
        let mark = match role {
            FieldRole::Status => StatusMark::Word,
            FieldRole::Done => StatusMark::Flag,
            FieldRole::Id
            | FieldRole::Title
            | FieldRole::Description
            | FieldRole::Section(_)
            | FieldRole::Priority
            | FieldRole::DependsOn
            | FieldRole::Blocks
            | FieldRole::Tags
            | FieldRole::Story
            | FieldRole::Milestone
            | FieldRole::Parent
            | FieldRole::Notes
            | FieldRole::CompletedAt
            | FieldRole::Other
            | FieldRole::Dropped(_)
            | FieldRole::Skipped => return,
        };
        // `state: {name: Done}` is an object of the other tool.
        if value.text().is_some() {
            self.task.status_at.push((mark, value.at.clone()));
        }
    }

    fn id(&mut self, reading: &mut Reading, entry: &SourceEntry) {
        match entry.value.word() {
            Some(key) => {
                self.task.key = key;
                self.task.at = entry.value.at.clone();
            }
            None => self.keep(reading, entry),
        }
    }

    fn read_status(&mut self, reading: &mut Reading, entry: &SourceEntry) {
        let word = entry.value.word().or_else(|| entry.value.word_of(&["name", "title"]));
        let Some(word) = word else {
            self.keep(reading, entry);
            return;
        };
        if let Some((status, is_same)) = words::status(&word) {
            self.status = Some(status);
            if !is_same {
                let why = format!("`{}` is read as {status}", clipped(&word));
                self.lose(&entry.name, &why, true, entry.value.at.clone());
            }
        } else {
            let why = format!("`{}` is no known status; kept as `x-status`", clipped(&word));
            self.lose(&entry.name, &why, true, entry.value.at.clone());
            self.own.push(("x-status".to_owned(), json!(word)));
        }
    }

    fn read_priority(&mut self, reading: &mut Reading, entry: &SourceEntry) {
        let word = entry.value.word().or_else(|| entry.value.word_of(&["name", "title"]));
        let Some(word) = word else {
            self.keep(reading, entry);
            return;
        };
        let is_usual =
            ["critical", "high", "medium", "low"].contains(&word.to_ascii_lowercase().as_str());
        match words::priority(&word) {
            Some(_) if is_usual => self.set("priority", json!(word.to_ascii_lowercase())),
            Some(priority) => {
                self.set("priority", json!(priority.0));
                let digits = word.trim_start_matches(['p', 'P']);
                if digits != priority.0.to_string() {
                    let why = format!("`{}` is read as {}", clipped(&word), priority.0);
                    self.lose(&entry.name, &why, true, entry.value.at.clone());
                }
            }
            None => {
                let why = format!("`{}` is no priority; kept as `x-priority`", clipped(&word));
                self.lose(&entry.name, &why, true, entry.value.at.clone());
                self.own.push(("x-priority".to_owned(), json!(word)));
            }
        }
    }

    fn set_name(&mut self, name: &str, reading: &mut Reading, entry: &SourceEntry) {
        let value = &entry.value;
        match value.word().or_else(|| value.word_of(&["title", "name", "id"])) {
            Some(word) => self.set(name, json!(one_line(&word))),
            None => self.keep(reading, entry),
        }
    }

    /// Keeps a field that has no role: under its own name if the graph accepts it there.
    pub(super) fn keep(&mut self, reading: &mut Reading, entry: &SourceEntry) {
        let SourceEntry { name, value, key_at } = entry;
        if value.is_empty() {
            return;
        }
        let json = value.json();
        let is_field = FIELDS.iter().any(|field| field.name == name)
            && !["id", "depends_on", "claimed_at", "claimed_by"].contains(&name.as_str());
        if is_field && self.task.get(name).is_none() && reading.accepts(name, &json) {
            self.task.fields.push((name.clone(), json));
            return;
        }
        let free = reading.free_name(name);
        if free != *name {
            let why = if is_field {
                format!("its value means something else here; kept as `{free}`")
            } else {
                format!("kept as `{free}`")
            };
            self.lose(name, &why, true, key_at.clone());
        }
        if self.own.iter().all(|(known, _)| *known != free) {
            self.own.push((free, json));
        } else {
            self.lose(name, "there are two fields of this name", false, key_at.clone());
        }
    }

    /// Sets a field of the graph.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.task.fields.retain(|(known, _)| known != name);
        self.task.fields.push((name.to_owned(), value));
    }

    /// Sets the status.
    pub(super) fn set_status(&mut self, status: Status) {
        self.status = Some(status);
    }

    /// Whether it has a title.
    pub(super) fn has_title(&self) -> bool {
        self.title.is_some()
    }

    /// Sets the title.
    pub(super) fn set_title(&mut self, title: &str) {
        self.title = Some(one_line(title));
    }

    /// Adds a text to the description.
    pub(super) fn describe(&mut self, text: &str) {
        let text = tidy(text);
        if text.is_empty() {
            return;
        }
        self.description = Some(match self.description.take() {
            Some(before) => format!("{before}\n\n{text}"),
            None => text,
        });
    }

    /// Adds labels.
    pub(super) fn tag(&mut self, labels: Vec<String>) {
        let mut tags: Vec<Value> =
            self.task.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
        for label in labels {
            if !tags.contains(&json!(label)) {
                tags.push(json!(label));
            }
        }
        if !tags.is_empty() {
            self.set("tags", Value::Array(tags));
        }
    }

    /// Lists something of this task as lost, or as kept in another form.
    pub(super) fn lose(&mut self, field: &str, why: &str, is_kept: bool, at: Range<usize>) {
        let lost =
            LostField { task: None, field: field.to_owned(), why: why.to_owned(), is_kept, at };
        self.lost.push(lost);
    }

    /// Adds the task to the backlog.
    pub(super) fn finish(mut self, reading: &mut Reading) {
        if self.task.key.is_empty() {
            self.task.key = self.title.as_deref().map(slug).unwrap_or_default();
            self.task.is_key_made = true;
        }
        if self.task.key.is_empty() {
            let why = "it has neither an id nor a title";
            reading.lose(None, "task", why, self.task.at);
            return;
        }
        let (key, title) = (self.task.key.clone(), self.title.take());
        if self.description.as_ref().is_some_and(|text| text.len() > MAX_TEXT) {
            let message = format!("the description of `{}` is too long", clipped(&key));
            reading
                .faults
                .push(Diagnostic::error(message, self.task.at.clone()).help(
                    "the limit for one text is 1 MiB: put it into a file, and name the file",
                ));
        }
        self.set("title", json!(title.unwrap_or_else(|| key.clone())));
        for (heading, text) in std::mem::take(&mut self.sections) {
            self.describe(&format!("{heading}:\n{text}"));
        }
        if let Some(text) = self.description.take() {
            self.set("description", json!(text));
        }
        let mut status = self.status.unwrap_or(Status::Pending);
        match self.is_done {
            Some(true) => status = Status::Complete,
            Some(false) if status == Status::Complete => status = Status::Pending,
            _ => {}
        }
        self.set("status", json!(status.word()));
        if let Some(time) = self.completed_at.take() {
            if status == Status::Complete {
                self.set("completed_at", json!(time));
            } else {
                self.own.push(("x-closed_at".to_owned(), json!(time)));
            }
        }
        let own = std::mem::take(&mut self.own);
        self.task.fields.extend(own);
        for mut lost in self.lost {
            lost.task = Some(key.clone());
            reading.backlog.lost.push(lost);
        }
        let mut seen = Vec::new();
        self.task.depends_on.retain(|link| {
            let is_new = !seen.contains(&link.key);
            seen.push(link.key.clone());
            is_new
        });
        reading.blocks.extend(self.blocks.into_iter().map(|link| (key.clone(), link)));
        reading.backlog.tasks.push(self.task);
    }
}

/// A text of several lines: a text, or a list of texts as a list.
fn long_text(value: &SourceValue) -> Option<String> {
    if value.is_list() {
        let item = |item: &SourceValue| {
            let text = item.text().map(Cow::into_owned);
            let text = text
                .or_else(|| item.word_of(&["text", "title", "description", "criterion", "name"]))?;
            Some(format!("- {}", tidy(&text).replace('\n', "\n  ")))
        };
        let items: Option<Vec<String>> = value.items().iter().map(item).collect();
        return items.map(|items| items.join("\n"));
    }
    value.text().map(|text| tidy(&text))
}
