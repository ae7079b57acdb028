//! The tasks of a source while they are read, and what the graph has no place for.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use serde_json::{Value, json};

use super::{
    LostField, MAX_TEXT, SourceBacklog, SourceLink, SourceTask, StatusMark,
    fields::{self, FieldRole, clipped, links, long_text, names, one_line, role, slug, tidy},
    value::{SourceEntry, SourceValue},
};
use crate::{
    diagnostic::{Diagnostic, nearest, position},
    graph::{
        load::{self, fields::FIELDS},
        task::Status,
    },
};

/// A text while it is read: its tasks so far, and its errors.
#[derive(Default)]
pub(super) struct Reading {
    backlog: SourceBacklog,
    faults: Vec<Diagnostic>,
    /// Keys of tasks with what waits for them.
    blocks: Vec<(String, SourceLink)>,
    /// Whether the source has a list of tasks that is empty.
    pub(super) is_empty: bool,
    /// The names under which unknown fields are kept.
    kept: HashMap<String, String>,
}

impl Reading {
    /// Lists a part of the whole source as lost.
    pub(super) fn lose(&mut self, field: &str, why: impl Into<String>, at: Range<usize>) {
        self.backlog.lost.push(LostField::new(field, why, at));
    }

    /// Lists a part of the whole source as kept in another form.
    pub(super) fn note(&mut self, field: &str, why: &str, at: Range<usize>) {
        self.backlog.lost.push(LostField { is_kept: true, ..LostField::new(field, why, at) });
    }

    /// Lists something of a task as lost.
    pub(super) fn lose_of(
        &mut self,
        task: &str,
        field: &str,
        why: impl Into<String>,
        at: Range<usize>,
    ) {
        self.backlog.lost.push(LostField::new(field, why, at).of(task));
    }

    /// Adds a field of the whole backlog, unless it is empty.
    pub(super) fn top(&mut self, entry: &SourceEntry) {
        if !entry.value.is_empty() {
            let is_free = !["tasks", "nodes", "edges", "defaults"].contains(&entry.name.as_str());
            let name = if is_free { entry.name.clone() } else { format!("x-{}", entry.name) };
            self.backlog.top.push((name, entry.value.json()));
        }
    }

    /// Sets the parents of tasks that have none, from pairs of a child and a parent.
    pub(super) fn adopt(&mut self, children: &[(String, SourceLink)]) {
        for task in self.backlog.tasks.iter_mut().filter(|task| task.parent.is_none()) {
            let is_it = |(child, parent): &&(String, SourceLink)| {
                *child == task.key && parent.key != task.key
            };
            task.parent = children.iter().find(is_it).map(|(_, parent)| parent.clone());
        }
    }

    /// Gives tasks with the id of an earlier one ids of their own. Returns the numbers of all tasks.
    fn name_alike(&mut self, text: &str) -> HashMap<String, usize> {
        let Reading { backlog: SourceBacklog { tasks, lost, .. }, .. } = self;
        let all: HashSet<String> = tasks.iter().map(|task| task.key.clone()).collect();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for number in 0..tasks.len() {
            let key = tasks[number].key.clone();
            if let Some(first) = numbers.get(&key) {
                let line = position(text, tasks[*first].at.start).0;
                let count = counts.entry(key.clone()).or_insert(1);
                let task = &mut tasks[number];
                while all.contains(&task.key) || numbers.contains_key(&task.key) {
                    *count += 1;
                    task.key = format!("{key}-{count}");
                }
                task.is_key_made = true;
                let why = format!(
                    "line {line} has a task `{}` too, which dependencies mean; this one is `{}`",
                    clipped(&key),
                    clipped(&task.key)
                );
                let note = LostField::new("id", why, task.at.clone()).of(&task.key);
                lost.push(LostField { is_kept: true, ..note });
            }
            numbers.insert(tasks[number].key.clone(), number);
        }
        numbers
    }

    fn too_long(&mut self, what: &str, at: Range<usize>) {
        let help = "the limit for one text is 1 MiB: put it into a file, and name the file";
        self.faults.push(Diagnostic::error(what, at).help(help));
    }

    /// Ends the reading of a text.
    ///
    /// # Errors
    /// The errors that were found; no tasks.
    pub(super) fn finish(mut self, text: &str) -> Result<SourceBacklog, Vec<Diagnostic>> {
        let numbers = self.name_alike(text);
        if self.faults.is_empty() && numbers.is_empty() && !self.is_empty {
            self.faults.push(
                Diagnostic::error("there are no tasks in it", 0..0)
                    .help("`ralph help import` lists the formats that are read"),
            );
        }
        if !self.faults.is_empty() {
            self.faults.sort_by_key(|fault| fault.at.start);
            return Err(self.faults);
        }
        for (key, link) in std::mem::take(&mut self.blocks) {
            if let Some(number) = numbers.get(&link.key) {
                let links = &mut self.backlog.tasks[*number].depends_on;
                if links.iter().all(|known| known.key != key) {
                    links.push(SourceLink { key, at: link.at });
                }
            } else {
                let why = format!("no task `{}` in the source", clipped(&link.key));
                self.lose_of(&key, "blocks", why, link.at);
            }
        }
        self.backlog.lost.sort_by_key(|lost| lost.at.start);
        Ok(self.backlog)
    }
}

/// The name under which the graph keeps an unknown field.
pub(super) fn free_name(name: &str) -> String {
    let is_known = nearest(name, FIELDS.iter().map(|field| field.name)).is_some();
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let is_mine = ["source", "depends_on", "id"].contains(&name);
    if name.starts_with("x-") || !is_known && is_plain && !is_mine {
        return name.to_owned();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    format!("x-{}", name.chars().map(plain).collect::<String>())
}

/// Whether the graph accepts a value for a field that it has.
fn accepts(name: &str, value: &Value) -> bool {
    let text = format!("tasks:\n- {{id: a, {name}: {value}}}\n");
    load::read(&text).is_ok_and(|(_, loaded)| loaded.warnings.is_empty())
}

/// A task while its fields are read.
#[derive(Default)]
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
    /// Whether it has the `identifier` of an issue in Linear.
    has_identifier: bool,
}

impl TaskBuilder {
    /// A task at this place.
    pub(super) fn new(at: Range<usize>) -> TaskBuilder {
        TaskBuilder { task: SourceTask { at, ..SourceTask::default() }, ..TaskBuilder::default() }
    }

    /// A task with the entries of a mapping, with `other` for the roles that this format gives; none
    /// for anything else, which is lost.
    pub(super) fn of(
        reading: &mut Reading,
        item: &SourceValue,
        what: &str,
        other: impl Fn(&str) -> Option<FieldRole>,
    ) -> Option<TaskBuilder> {
        if !item.is_map() {
            reading.lose(what, "it is not an object", item.at.clone());
            return None;
        }
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        builder.task.fields_end = item.entries().last().map(|entry| entry.value.at.end);
        for entry in item.entries() {
            // An item of a project on GitHub is around its issue.
            if let (true, Some(body)) = (entry.name == "content", entry.value.get("body")) {
                builder.describe(&body.text().unwrap_or_default());
                builder.task.source = entry.value.word_of(&["url"]);
                continue;
            }
            let role = other(&entry.name).unwrap_or_else(|| role(&entry.name));
            builder.take(reading, entry, role);
        }
        Some(builder)
    }

    /// Takes one field in this role.
    pub(super) fn take(&mut self, reading: &mut Reading, entry: &SourceEntry, role: FieldRole) {
        let value = &entry.value;
        if value.is_empty() || role == FieldRole::Skipped {
            return;
        }
        if let Some(length) =
            value.text().map(|text| text.len()).filter(|length| *length > MAX_TEXT)
        {
            let what = format!("`{}` is {} KiB long", clipped(&entry.name), length >> 10);
            return reading.too_long(&what, entry.key_at.clone());
        }
        if role == FieldRole::Id && fields::fold(&entry.name) == "identifier" {
            // Linear's `id` is one that no person knows.
            self.has_identifier = true;
            if !self.task.key.is_empty() {
                self.task.aliases.push(std::mem::take(&mut self.task.key));
                self.taken.retain(|taken| *taken != FieldRole::Id);
            }
        }
        let is_single = !matches!(
            role,
            FieldRole::DependsOn
                | FieldRole::Blocks
                | FieldRole::Relations
                | FieldRole::InverseRelations
                | FieldRole::Alias
                | FieldRole::Tags
                | FieldRole::Other
        );
        if is_single && self.taken.contains(&role) || !self.set_role(entry, role) {
            self.keep(reading, entry);
        }
    }

    /// Sets what a field means; `false` if its value has no meaning in this role.
    fn set_role(&mut self, entry: &SourceEntry, role: FieldRole) -> bool {
        let value = &entry.value;
        self.taken.push(role);
        let is_word = (role == FieldRole::Status).then_some(StatusMark::Word);
        let mark = is_word.or((role == FieldRole::Done).then_some(StatusMark::Flag));
        // `state: {name: Done}` is an object of the other tool.
        if let Some(mark) = mark.filter(|_| value.text().is_some()) {
            self.task.status_at.push((mark, value.at.clone()));
        }
        let links = || links(value).into_iter();
        match role {
            FieldRole::DependsOn => self.task.depends_on.extend(links()),
            FieldRole::Blocks => self.blocks.extend(links()),
            FieldRole::Relations => self.relate(value, "relatedIssue", false),
            FieldRole::InverseRelations => self.relate(value, "issue", true),
            FieldRole::Alias => self.task.aliases.extend(value.word()),
            FieldRole::Tags => self.tag(names(value)),
            FieldRole::Notes => self.set("notes", value.json()),
            FieldRole::Dropped(why) => self.lose(&entry.name, why, entry.key_at.clone()),
            FieldRole::Skipped => {}
            FieldRole::Other => return false,
            FieldRole::Id => return value.link().map(|link| self.set_key(link)).is_some(),
            FieldRole::Title => return value.text().map(|text| self.set_title(&text)).is_some(),
            FieldRole::Description => return fill(&mut self.description, long_text(value)),
            FieldRole::Section(heading) => {
                let section = long_text(value).map(|text| (heading, text));
                let is_text = section.is_some();
                self.sections.extend(section);
                return is_text;
            }
            FieldRole::Status => {
                return named(value).map(|word| self.read_status(entry, &word)).is_some();
            }
            FieldRole::Priority => {
                return named(value).map(|word| self.read_priority(entry, &word)).is_some();
            }
            FieldRole::Done => return fill(&mut self.is_done, value.flag()),
            FieldRole::Parent => return fill(&mut self.task.parent, links().next()),
            FieldRole::CompletedAt => return fill(&mut self.completed_at, value.word()),
            FieldRole::Story => return self.set_name("story", value).is_some(),
            FieldRole::Milestone => return self.set_name("milestone", value).is_some(),
        }
        true
    }

    /// Takes the relations to other issues.
    fn relate(&mut self, value: &SourceValue, to: &str, is_inverse: bool) {
        for relation in value.get("nodes").unwrap_or(value).items() {
            let found = relation.get(to).map(links).unwrap_or_default();
            match relation.word_of(&["type"]).as_deref() {
                Some("blocks") if is_inverse => self.task.depends_on.extend(found),
                Some("blocks") => self.blocks.extend(found),
                kind => {
                    let kind = clipped(kind.unwrap_or("none"));
                    let why = format!("the type `{kind}` does not make a task wait");
                    self.lose("relations", why, relation.at.clone());
                }
            }
        }
    }

    fn set_key(&mut self, link: SourceLink) {
        self.task.key = link.key;
        self.task.at = link.at;
    }

    fn read_status(&mut self, entry: &SourceEntry, word: &str) {
        let at = entry.value.at.clone();
        let Some((status, is_same)) = fields::status(word) else {
            let why = format!("`{}` is no known status; kept as `x-status`", clipped(word));
            self.note(&entry.name, why, at);
            return self.own.push(("x-status".to_owned(), json!(word)));
        };
        self.status = Some(status);
        if !is_same {
            self.note(&entry.name, format!("`{}` is read as {status}", clipped(word)), at);
        }
    }

    fn read_priority(&mut self, entry: &SourceEntry, word: &str) {
        let at = entry.value.at.clone();
        let lower = word.to_ascii_lowercase();
        match fields::priority(word) {
            Some(_) if ["critical", "high", "medium", "low"].contains(&lower.as_str()) => {
                self.set("priority", json!(lower));
            }
            Some(priority) => {
                self.set("priority", json!(priority.0));
                if lower.trim_start_matches('p') != priority.0.to_string() {
                    let why = format!("`{}` is read as {}", clipped(word), priority.0);
                    self.note(&entry.name, why, at);
                }
            }
            None => {
                let why = format!("`{}` is no priority; kept as `x-priority`", clipped(word));
                self.note(&entry.name, why, at);
                self.own.push(("x-priority".to_owned(), json!(word)));
            }
        }
    }

    fn set_name(&mut self, name: &str, value: &SourceValue) -> Option<()> {
        let word = value.word().or_else(|| value.word_of(&["title", "name", "id"]))?;
        self.set(name, json!(one_line(&word)));
        Some(())
    }

    /// Keeps a field that has no role: under its own name if the graph accepts it there.
    fn keep(&mut self, reading: &mut Reading, entry: &SourceEntry) {
        let SourceEntry { name, value, key_at } = entry;
        if value.is_empty() {
            return;
        }
        let json = value.json();
        let is_field = FIELDS.iter().any(|field| field.name == name)
            && !["id", "depends_on", "claimed_at", "claimed_by"].contains(&name.as_str());
        if is_field && self.task.get(name).is_none() && accepts(name, &json) {
            self.task.fields.push((name.clone(), json));
            return;
        }
        let free = reading.kept.entry(name.clone()).or_insert_with(|| free_name(name)).clone();
        if free != *name {
            let reason = if is_field { "its value means something else here; " } else { "" };
            self.note(name, format!("{reason}kept as `{free}`"), key_at.clone());
        } else if fields::is_telling(name) {
            let why = format!("kept as `{free}`; no status, order or dependency is read from it");
            self.note(name, why, key_at.clone());
        }
        if self.own.iter().all(|(known, _)| *known != free) {
            self.own.push((free, json));
        } else {
            self.lose(name, "there are two fields of this name", key_at.clone());
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
        if !text.is_empty() {
            let before = self.description.take().map(|before| before + "\n\n");
            self.description = Some(before.unwrap_or_default() + &text);
        }
    }

    /// Adds labels.
    pub(super) fn tag(&mut self, labels: Vec<String>) {
        let mut tags: Vec<Value> =
            self.task.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
        for label in labels.into_iter().map(Value::from) {
            if !tags.contains(&label) {
                tags.push(label);
            }
        }
        if !tags.is_empty() {
            self.set("tags", Value::Array(tags));
        }
    }

    /// Lists something of this task as lost.
    pub(super) fn lose(&mut self, field: &str, why: impl Into<String>, at: Range<usize>) {
        self.lost.push(LostField::new(field, why, at));
    }

    /// Lists something of this task as kept in another form.
    pub(super) fn note(&mut self, field: &str, why: impl Into<String>, at: Range<usize>) {
        self.lost.push(LostField { is_kept: true, ..LostField::new(field, why, at) });
    }

    /// Adds the task to the backlog.
    pub(super) fn finish(mut self, reading: &mut Reading) {
        if self.task.key.is_empty() {
            self.task.key = self.title.as_deref().map(slug).unwrap_or_default();
            self.task.is_key_made = true;
        }
        let key = self.task.key.clone();
        if key.is_empty() {
            return reading.lose("task", "it has neither an id nor a title", self.task.at);
        }
        if self.description.as_ref().is_some_and(|text| text.len() > MAX_TEXT) {
            let what = format!("the description of `{}` is too long", clipped(&key));
            reading.too_long(&what, self.task.at.clone());
        }
        let title = self.title.take();
        self.set("title", json!(title.unwrap_or_else(|| key.clone())));
        for (heading, text) in std::mem::take(&mut self.sections) {
            self.describe(&format!("{heading}:\n{text}"));
        }
        if let Some(text) = self.description.take() {
            self.set("description", json!(text));
        }
        let status = match (self.is_done, self.status) {
            (Some(true), _) => Status::Complete,
            (Some(false), Some(Status::Complete)) => Status::Pending,
            (_, Some(status)) => status,
            (_, None) if self.completed_at.is_some() => Status::Complete,
            (_, None) => Status::Pending,
        };
        if self.has_identifier && self.task.get("priority") == Some(&json!(0)) {
            // Linear's 0 is none, and 1 the most urgent.
            self.task.fields.retain(|(name, _)| name != "priority");
        }
        self.set("status", json!(status.word()));
        if let Some(time) = self.completed_at.take() {
            if status == Status::Complete {
                self.set("completed_at", json!(time));
            } else {
                self.own.push(("x-closed_at".to_owned(), json!(time)));
            }
        }
        self.task.fields.append(&mut self.own);
        reading.backlog.lost.extend(self.lost.into_iter().map(|lost| lost.of(&key)));
        let mut seen = HashSet::new();
        self.task.depends_on.retain(|link| seen.insert(link.key.clone()));
        reading.blocks.extend(self.blocks.into_iter().map(|link| (key.clone(), link)));
        reading.backlog.tasks.push(self.task);
    }
}

/// Sets a field to a value, if there is one.
fn fill<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let is_there = value.is_some();
    if is_there {
        *field = value;
    }
    is_there
}

/// The name of something that may be an object of the other tool.
fn named(value: &SourceValue) -> Option<String> {
    value.word().or_else(|| value.word_of(&["name", "title"]))
}
