//! Turns values into tasks, and finds the errors in them with their locations.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::Value;

use super::{
    GraphShape, GraphText, MAX_FAULTS, TaskFields,
    fields::{FIELDS, FieldKind, SOURCE, TaskField},
    place::{FaultPlace, Places},
};
use crate::{
    agents::agent_command::AgentCommand,
    diagnostic::{Diagnostic, Severity, is_misspelled, nearest},
    duration,
    graph::{
        Cyclic, TaskGraph,
        edit::Document,
        glob::Glob,
        task::{self, CommitRule, Priority, Spelling, Status, Task, TaskId},
        yaml::NodeKind,
    },
};

/// Returns the graph, if it can be built, and all errors and warnings.
pub(super) fn read(
    document: &Document,
    shape: &GraphShape,
    file: GraphText,
) -> (Option<TaskGraph>, Vec<Diagnostic>) {
    let mut reader = TaskReader::new(document, shape);
    let mut graph = reader.graph(file);
    if let Some(graph) = &mut graph {
        graph.spelling = reader.spelling;
    }
    (graph, reader.faults)
}

/// Turns values into tasks and collects errors and warnings.
pub(super) struct TaskReader<'a> {
    pub(super) places: Places<'a>,
    pub(super) faults: Vec<Diagnostic>,
    /// The spelling of statuses.
    pub(super) spelling: Spelling,
    /// The unknown fields seen so far. Each is reported once.
    unknown: HashSet<String>,
}

impl<'a> TaskReader<'a> {
    /// A reader that has read nothing.
    pub(super) fn new(document: &'a Document, shape: &'a GraphShape) -> TaskReader<'a> {
        TaskReader {
            places: Places { document, shape },
            faults: Vec::new(),
            spelling: Spelling::default(),
            unknown: HashSet::new(),
        }
    }
}

impl TaskReader<'_> {
    fn graph(&mut self, file: GraphText) -> Option<TaskGraph> {
        let (tasks, depends_on) = self.tasks(file.tasks, &file.defaults)?;
        let mut numbers: HashMap<TaskId, usize> = HashMap::with_capacity(tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            if let Some(first) = numbers.insert(task.id.clone(), number) {
                let message = format!("two tasks have the id `{}`", task.id);
                let earlier = self.places.range(FaultPlace::Field(first, "id"));
                let at = self.places.range(FaultPlace::Field(number, "id"));
                self.push(
                    Diagnostic::error(message, at)
                        .related(earlier, "first used here")
                        .help("ids name tasks in the journal and in `depends_on`: rename one"),
                );
            }
        }
        let links = self.links(&numbers, &depends_on, &file.edges);
        // The graph is built even after errors, to report cycles too.
        match TaskGraph::new(tasks, links.iter().map(|link| link.edge).collect()) {
            Ok(mut graph) => {
                graph.project = file.rest;
                Some(graph)
            }
            Err(Cyclic { cycles, tasks }) => {
                self.cycles(&tasks, &cycles, &links);
                None
            }
        }
    }

    fn tasks(
        &mut self,
        raw: Vec<TaskFields>,
        defaults: &TaskFields,
    ) -> Option<(Vec<Task>, Vec<Vec<String>>)> {
        if raw.len() != self.places.shape.tasks.len() {
            self.push(Diagnostic::error("the two YAML readers count different tasks", 0..0));
            return None;
        }
        let before = self.faults.len();
        self.task(None, defaults);
        let defaults = if self.faults.len() == before { defaults } else { &TaskFields::default() };
        let mut tasks = Vec::with_capacity(raw.len());
        let mut depends_on = Vec::with_capacity(raw.len());
        for (number, mut fields) in raw.into_iter().enumerate() {
            self.agree(number, &fields);
            fields.fill(defaults);
            let (task, names) = self.task(Some(number), &fields);
            tasks.push(Task { extra: fields.into_extra(), ..task });
            depends_on.push(names);
        }
        Some((tasks, depends_on))
    }

    /// Checks that both readers see the same id; otherwise an edit could change the wrong task.
    fn agree(&mut self, number: usize, fields: &TaskFields) {
        let (tree, text) = (self.places.document.tree(), self.places.document.text());
        let seen =
            tree.entry(text, self.places.shape.tasks[number], "id").and_then(|(_, value)| {
                if tree.kind(value) == NodeKind::Alias { None } else { tree.scalar(text, value) }
            });
        if let (Some(seen), Value::String(id)) = (seen, fields.get("id"))
            && seen != *id
        {
            let place = FaultPlace::Field(number, "id");
            self.error(format!("the two YAML readers see `{seen}` and `{id}`"), place, "");
        }
    }

    /// Reads the fields of one task, or of `defaults`, and the ids of its dependencies.
    pub(super) fn task(
        &mut self,
        number: Option<usize>,
        fields: &TaskFields,
    ) -> (Task, Vec<String>) {
        // A task with an invalid id gets a substitute, so that its other errors are found too.
        let id = number.and_then(|number| self.id(fields.get("id"), number)).unwrap_or_else(|| {
            let stand_in = format!("0.unnamed.{}", number.unwrap_or_default());
            TaskId::new(&stand_in).expect("follows the rule")
        });
        for name in fields.unknown.keys() {
            self.unknown_field(number, name);
        }
        let mut task = Task::new(id);
        let mut depends_on = Vec::new();
        let mut has_estimate = false;
        for (field, value) in &fields.known {
            let field = &FIELDS[*field];
            match field.kind {
                _ if value.is_null() => {}
                FieldKind::Dependencies if number.is_none() => {}
                FieldKind::Dependencies => depends_on = self.list(value, number, field.name),
                FieldKind::Estimate(set) => {
                    if let Some(minutes) = self.estimate(value, field_place(number, field)) {
                        set(&mut task, minutes);
                        has_estimate = true;
                    }
                }
                FieldKind::Size(_) if has_estimate => {}
                _ => self.field(&mut task, number, field, value),
            }
        }
        (task, depends_on)
    }

    /// Reads a field that depends on no other into the task. `value` is not null.
    pub(super) fn field(
        &mut self,
        task: &mut Task,
        number: Option<usize>,
        field: &'static TaskField,
        value: &Value,
    ) {
        /// Sets a value that could be read.
        fn put<T>(task: &mut Task, set: fn(&mut Task, T), value: Option<T>) {
            if let Some(value) = value {
                set(task, value);
            }
        }
        let (name, place) = (field.name, field_place(number, field));
        match field.kind {
            FieldKind::Text(set) | FieldKind::Word(set) => {
                put(task, set, self.text(value, place, name));
            }
            FieldKind::Texts(set) | FieldKind::Commands(set) => {
                set(task, self.list(value, number, name));
            }
            FieldKind::Patterns(set) => set(task, self.globs(value, number, name)),
            FieldKind::Priority(set) => put(task, set, self.priority(value, place, name)),
            FieldKind::Status(set) => put(task, set, self.status(value, place, name)),
            FieldKind::Commit(set) => put(task, set, self.commit(value, place, name)),
            FieldKind::Length(set) => put(task, set, self.length(value, place, name)),
            FieldKind::Count(set) => put(task, set, self.count(value, place, name)),
            FieldKind::Money(set) => put(task, set, self.money(value, place, name)),
            FieldKind::Flag(set) => put(task, set, self.flag(value, place, name)),
            FieldKind::Agents(set) => put(task, set, self.agents(value, place)),
            FieldKind::Size(set) => put(task, set, self.size(value, place, name)),
            FieldKind::Id
            | FieldKind::Dependencies
            | FieldKind::Estimate(_)
            | FieldKind::Paths
            | FieldKind::Time
            | FieldKind::Anything => {}
        }
    }

    fn id(&mut self, value: &Value, number: usize) -> Option<TaskId> {
        let place = FaultPlace::Field(number, "id");
        let at = self.places.range(place);
        let source = &self.places.document.text()[at];
        let text = match value {
            Value::Null if source.is_empty() || self.places.node(place).is_none() => {
                self.error(
                    "a task without `id`",
                    place,
                    "give it a short name that stays, such as `T-1`",
                );
                return None;
            }
            Value::String(text) => text.clone(),
            Value::Number(n) if n.to_string() == source => source.to_owned(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let message = format!("the id `{source}` is not text to YAML");
                self.error(message, place, &format!("quote it: `\"{source}\"`"));
                return None;
            }
            Value::Array(_) | Value::Object(_) => {
                self.error("an id must be text", place, "");
                return None;
            }
        };
        if source == text && is_a_boolean_to_some(source) {
            let message = format!("the id `{source}` is a boolean to many YAML readers");
            self.error(message, place, &format!("quote it: `\"{source}\"`"));
            return None;
        }
        match TaskId::new(&text) {
            Ok(id) => Some(id),
            Err(rule) => {
                let message = format!("the id `{}` {rule}", clipped(&text));
                self.error(message, place, "ids are letters, digits, `.`, `_` and `-`, at most 64");
                None
            }
        }
    }

    fn priority(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<Priority> {
        let parsed = match value {
            Value::Number(n) => n.as_i64().map(Priority),
            Value::String(text) => Priority::parse(text),
            _ => None,
        };
        if parsed.is_none() {
            let want = "a whole number, `P0`–`P4`, or critical, high, medium, low";
            self.wrong(name, value, place, want);
        }
        parsed
    }

    fn status(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<Status> {
        let Value::String(text) = value else {
            let want = "one of pending, in-progress, complete, blocked, needs-input, cancelled";
            self.wrong(name, value, place, want);
            return None;
        };
        if let Some(status) = Status::parse(text) {
            self.spelling.note(status, text);
            return Some(status);
        }
        let fault = Diagnostic::error(
            format!("unknown status `{}`", clipped(text)),
            self.places.range(place),
        )
        .help("statuses are pending, in-progress, complete, blocked, needs-input, cancelled");
        self.push(fault.did_you_mean(nearest(text, Status::words())));
        None
    }

    fn commit(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<CommitRule> {
        match value.as_str() {
            Some("required") => Some(CommitRule::Required),
            Some("optional") => Some(CommitRule::Optional),
            _ => {
                self.wrong(name, value, place, "`required` or `optional`");
                None
            }
        }
    }

    /// Reads a duration in minutes; a bare number means hours. A wrong value only makes the order
    /// of tasks less precise, so it is a warning.
    pub(super) fn estimate(&mut self, value: &Value, place: FaultPlace) -> Option<u32> {
        let minutes = match value {
            Value::Number(hours) => hours.as_f64().map(|hours| hours * 60.0),
            Value::String(text) => {
                duration::parse(text).ok().map(|length| length.as_secs_f64() / 60.0)
            }
            _ => None,
        };
        let Some(minutes) = minutes.filter(|minutes| (0.0..=10_000_000.0).contains(minutes)) else {
            self.odd("estimate", value, place, "a length of time such as `2h`");
            return None;
        };
        #[expect(clippy::cast_sign_loss, reason = "just checked")]
        Some((minutes.ceil() as u32).max(1))
    }

    fn size(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<u32> {
        let minutes = value.as_str().and_then(task::minutes_of_size);
        if minutes.is_none() {
            self.odd(name, value, place, "S, M, L or XL");
        }
        minutes
    }

    fn length(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<Duration> {
        let Value::String(text) = value else {
            self.wrong(name, value, place, "a length of time: `90s`, `15m` or `2h`");
            return None;
        };
        duration::parse(text).map_err(|message| self.error(message, place, "")).ok()
    }

    fn agents(&mut self, value: &Value, place: FaultPlace) -> Option<Vec<AgentCommand>> {
        AgentCommand::read(value).map_err(|message| self.error(message, place, "")).ok()
    }

    fn money(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<f64> {
        let sum = value.as_f64().filter(|sum| *sum > 0.0);
        if sum.is_none() {
            self.wrong(name, value, place, "a sum of US dollars above 0, such as `2.50`");
        }
        sum
    }

    fn flag(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<bool> {
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(name, value, place, "`true` or `false`");
        }
        flag
    }

    fn count(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<u32> {
        let count = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        if count.is_none() {
            self.wrong(name, value, place, "a whole number from 1");
        }
        count
    }

    /// Reads a text. A number or a boolean is taken as it is written.
    pub(super) fn text(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<String> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => {
                let source = self.places.document.text()[self.places.range(place)].to_owned();
                Some(if source.is_empty() { value.to_string() } else { source })
            }
            Value::Array(_) | Value::Object(_) => {
                self.wrong(name, value, place, "text");
                None
            }
        }
    }

    /// Reads a list of path patterns.
    fn globs(&mut self, value: &Value, number: Option<usize>, name: &'static str) -> Vec<Glob> {
        let texts = self.items(value, number, name);
        let mut globs = Vec::new();
        for (text, place) in texts {
            match Glob::new(&text) {
                Ok(glob) => globs.push(glob),
                Err(rule) => {
                    let message = format!("the pattern `{}` {rule}", clipped(&text));
                    self.error(message, place, "");
                }
            }
        }
        globs
    }

    /// Reads a list of texts. A single text is a list of one.
    fn list(&mut self, value: &Value, number: Option<usize>, name: &'static str) -> Vec<String> {
        self.items(value, number, name).into_iter().map(|(text, _)| text).collect()
    }

    /// Reads a list of texts with their locations.
    fn items(
        &mut self,
        value: &Value,
        number: Option<usize>,
        name: &'static str,
    ) -> Vec<(String, FaultPlace)> {
        let whole = number.map_or(FaultPlace::Default(name), |n| FaultPlace::Field(n, name));
        match value {
            Value::Array(items) => (0..)
                .zip(items)
                .filter_map(|(at, item)| {
                    let place = number.map_or(whole, |n| FaultPlace::Item(n, name, at));
                    if item.is_null() {
                        self.error(format!("an empty item in `{name}`"), place, "");
                    }
                    Some((self.text(item, place, name)?, place))
                })
                .collect(),
            Value::Object(_) => {
                self.wrong(name, value, whole, "a list");
                Vec::new()
            }
            _ => self.text(value, whole, name).map(|text| (text, whole)).into_iter().collect(),
        }
    }

    /// Reports an unknown field whose name is close to a known one: as an error if it can only be
    /// a typing error, and as a warning otherwise. All other unknown fields are kept, and those
    /// that start with `x-` are never reported.
    pub(super) fn unknown_field(&mut self, number: Option<usize>, name: &str) {
        if self.unknown.contains(name) {
            return;
        }
        self.unknown.insert(name.to_owned());
        if name.starts_with("x-") || name == SOURCE {
            return;
        }
        let Some(near) = nearest(name, FIELDS.iter().map(|field| field.name)) else {
            return;
        };
        let message = format!("unknown field `{}`", clipped(name));
        let at = self.places.key_range(number, name);
        let fault = if is_misspelled(name, near) {
            Diagnostic::error(message, at)
                .label(format!("a field of your own starts with `x-`: `x-{}`", clipped(name)))
        } else {
            Diagnostic::warning(message, at).label("kept for templates, otherwise ignored")
        };
        self.push(fault.did_you_mean(Some(near)));
    }

    fn wrong(&mut self, name: &str, value: &Value, place: FaultPlace, want: &str) {
        let found = match value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "this text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        let fault =
            Diagnostic::error(format!("`{name}` must be {want}"), self.places.short_range(place));
        self.push(fault.label(format!("found {found}")));
    }

    fn odd(&mut self, name: &str, value: &Value, place: FaultPlace, want: &str) {
        let fault = Diagnostic::warning(
            format!("`{name}` is `{}`, which is not {want}", clipped(&value.to_string())),
            self.places.short_range(place),
        );
        self.push(fault.label("taken as size M"));
    }

    pub(super) fn error(&mut self, message: impl Into<String>, place: FaultPlace, help: &str) {
        let fault = Diagnostic::error(message, self.places.short_range(place));
        self.push(if help.is_empty() { fault } else { fault.help(help) });
    }

    pub(super) fn push(&mut self, fault: Diagnostic) {
        if self.faults.len() < MAX_FAULTS || fault.severity == Severity::Error {
            self.faults.push(fault);
        }
    }
}

/// The location of a field of a task, or of `defaults`.
fn field_place(number: Option<usize>, field: &TaskField) -> FaultPlace {
    number.map_or(FaultPlace::Default(field.name), |number| FaultPlace::Field(number, field.name))
}

/// Whether this is a boolean in YAML 1.1. Other readers parse it as one; this reader as text.
pub(super) fn is_a_boolean_to_some(text: &str) -> bool {
    ["y", "n", "yes", "no", "on", "off"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Escapes and shortens text of the file for a message.
fn clipped(text: &str) -> String {
    let mut shown: String = text.chars().take(70).flat_map(char::escape_debug).collect();
    if text.chars().nth(70).is_some() {
        shown.push('…');
    }
    shown
}
