//! Reads the fields of a task, and finds the errors in them.

use std::{borrow::Cow, collections::HashSet, time::Duration};

use super::{
    MAX_FAULTS,
    fields::{self, FIELDS, FieldKind, SOURCE, TaskField},
};
use crate::{
    agents::agent_command::AgentCommand,
    diagnostic::{Diagnostic, Severity, is_misspelled, nearest},
    duration,
    glob::Glob,
    graph::{
        task::{self, CommitRule, Priority, Spelling, Status, Task, TaskId},
        yaml::{Node, Scalar},
    },
    retired::{RetiredKind, replacement},
};

/// Turns nodes into tasks and collects errors and warnings.
#[derive(Default)]
pub(super) struct TaskReader {
    pub(super) faults: Vec<Diagnostic>,
    /// The spelling of statuses.
    pub(super) spelling: Spelling,
    /// The unknown fields seen so far. Each is reported once.
    unknown: HashSet<String>,
}

/// Texts of a list, each with its place.
pub(super) type Texts<'a> = Vec<(Cow<'a, str>, Node<'a>)>;

/// The type of a value, in words.
pub(super) fn found(value: Node<'_>) -> &'static str {
    match value.scalar() {
        None if value.is_list() => "a list",
        None => "a mapping",
        Some(Scalar::Null) => "nothing",
        Some(Scalar::Bool(_)) => "a boolean",
        Some(Scalar::Number(_)) => "a number",
        Some(Scalar::Text(_)) => "this text",
    }
}

fn number(value: Node<'_>) -> Option<serde_json::Number> {
    match value.scalar() {
        Some(Scalar::Number(number)) => Some(number),
        _ => None,
    }
}

/// The text of a value that is a text to YAML.
fn word(value: Node<'_>) -> Option<Cow<'_, str>> {
    match value.scalar() {
        Some(Scalar::Text(text)) => Some(text),
        _ => None,
    }
}

impl TaskReader {
    /// Reads `defaults`; none if there are none without errors.
    pub(super) fn defaults<'a>(&mut self, root: Node<'a>) -> Option<Node<'a>> {
        let defaults = root.get("defaults").filter(|defaults| !defaults.is_null())?;
        if !defaults.is_mapping() {
            self.wrong("defaults", defaults, "a mapping");
            return None;
        }
        let before = self.faults.len();
        self.fields(None, defaults, None);
        (self.faults.len() == before).then_some(defaults)
    }

    /// Reads a task and the names of its dependencies.
    pub(super) fn task<'a>(
        &mut self,
        number: usize,
        node: Node<'a>,
        defaults: Option<Node<'a>>,
    ) -> (Task, Texts<'a>) {
        // A task with an invalid id gets a substitute, so that its other errors are found too.
        let id = self.id(node).unwrap_or_else(|| {
            TaskId::new(&format!("0.unnamed.{number}")).expect("follows the rule")
        });
        self.fields(Some(Task::new(id)), node, defaults)
    }

    /// Reads the fields of a task, and takes from `defaults` those that it does not set; without a
    /// task, reads `defaults` themselves. A null in a task counts as set only in a field that
    /// templates see verbatim.
    fn fields<'a>(
        &mut self,
        task: Option<Task>,
        own: Node<'a>,
        defaults: Option<Node<'a>>,
    ) -> (Task, Texts<'a>) {
        let is_task = task.is_some();
        let mut task =
            task.unwrap_or_else(|| Task::new(TaskId::new("0").expect("follows the rule")));
        let mut seen = [false; FIELDS.len()];
        let (mut depends_on, mut size, mut has_estimate) = (Vec::new(), None, false);
        let own = own.entries().map(|entry| (entry, false));
        let inherited = defaults.into_iter().flat_map(Node::entries).map(|entry| (entry, true));
        for ((key, value), is_default) in own.chain(inherited) {
            let Some(name) = key.text() else { continue };
            let Some(position) = fields::position(&name) else {
                if !(is_default && task.extra.contains_key(&*name)) {
                    self.unknown_field(key, &name);
                    task.extra.insert(name.into_owned(), value.json());
                }
                continue;
            };
            let field = &FIELDS[position];
            let is_taken = seen[position] && !(is_default && field.adds_to_default);
            if is_taken || is_default && !field.has_default {
                continue;
            }
            let is_null = value.is_null();
            let is_written = field.in_templates.is_written();
            if is_written && !seen[position] {
                task.extra.insert(field.name.to_owned(), value.json());
            }
            seen[position] = is_written || !is_null;
            match field.kind {
                _ if is_null => {}
                FieldKind::Dependencies if !is_task => {}
                FieldKind::Dependencies => depends_on = self.list(value, field.name),
                FieldKind::Size(_) => size = Some((field, value)),
                FieldKind::Estimate(set) => {
                    if let Some(minutes) = self.estimate(value) {
                        set(&mut task, minutes);
                        has_estimate = true;
                    }
                }
                _ => self.field(&mut task, field, value),
            }
        }
        if let Some((field, value)) = size.filter(|_| !has_estimate) {
            self.field(&mut task, field, value);
        }
        (task, depends_on)
    }

    /// Reads a field that depends on no other into the task. `value` is not null.
    fn field(&mut self, task: &mut Task, field: &'static TaskField, value: Node<'_>) {
        /// Sets a value that could be read.
        fn put<T>(task: &mut Task, set: fn(&mut Task, T), value: Option<T>) {
            if let Some(value) = value {
                set(task, value);
            }
        }
        let name = field.name;
        match field.kind {
            FieldKind::Text(set) | FieldKind::Word(set) => {
                put(task, set, self.text(value, name).map(Cow::into_owned));
            }
            FieldKind::Texts(set) | FieldKind::Commands(set) => {
                let texts = self.list(value, name).into_iter();
                set(task, texts.map(|(text, _)| text.into_owned()).collect());
            }
            FieldKind::Patterns(set) => set(task, self.globs(value, name)),
            FieldKind::Priority(set) => put(task, set, self.priority(value, name)),
            FieldKind::Status(set) => put(task, set, self.status(value, name)),
            FieldKind::Commit(set) => put(task, set, self.commit(value, name)),
            FieldKind::Length(set) => put(task, set, self.length(value, name)),
            FieldKind::Count(set) => {
                let count = number(value).and_then(|n| u32::try_from(n.as_u64()?).ok());
                let count = count.filter(|n| *n > 0);
                put(task, set, self.or_wrong(count, name, value, "a whole number from 1"));
            }
            FieldKind::Money(set) => {
                let sum = number(value).and_then(|n| n.as_f64()).filter(|sum| *sum > 0.0);
                let want = "a sum of US dollars above 0, such as `2.50`";
                put(task, set, self.or_wrong(sum, name, value, want));
            }
            FieldKind::Proof(set) => {
                let policy = serde_json::from_value(value.json()).ok();
                let want = "`tests`, `exercised`, `report`, `require` or `none`";
                put(task, set, self.or_wrong(policy, name, value, want));
            }
            FieldKind::Flag(set) => {
                let flag = value.json().as_bool();
                put(task, set, self.or_wrong(flag, name, value, "`true` or `false`"));
            }
            FieldKind::Agents(set) => {
                let agents = AgentCommand::read(&value.json());
                put(task, set, agents.map_err(|message| self.error(message, value, "")).ok());
            }
            FieldKind::Size(set) => {
                let minutes = word(value).and_then(|size| task::minutes_of_size(&size));
                if minutes.is_none() {
                    self.odd(name, value, "S, M, L or XL");
                }
                put(task, set, minutes);
            }
            FieldKind::Id
            | FieldKind::Dependencies
            | FieldKind::Estimate(_)
            | FieldKind::Paths
            | FieldKind::Time
            | FieldKind::Anything => {}
        }
    }

    fn id(&mut self, task: Node<'_>) -> Option<TaskId> {
        let value = task.get("id");
        let Some(value) = value.filter(|value| !value.is_null() || !value.range().is_empty())
        else {
            self.error(
                "a task without `id`",
                value.unwrap_or(task),
                "give it a short name that stays, such as `T-1`",
            );
            return None;
        };
        let source = value.written();
        let quote = format!("quote it: `\"{source}\"`");
        let text = match value.scalar() {
            Some(Scalar::Text(text)) => text,
            Some(Scalar::Number(n)) if n.to_string() == source => Cow::Borrowed(source),
            Some(Scalar::Null | Scalar::Bool(_) | Scalar::Number(_)) => {
                self.error(format!("the id `{source}` is not text to YAML"), value, &quote);
                return None;
            }
            None => {
                self.error("an id must be text", value, "");
                return None;
            }
        };
        // YAML 1.1 has more booleans.
        let booleans = ["y", "n", "yes", "no", "on", "off"];
        if source == text && booleans.iter().any(|word| word.eq_ignore_ascii_case(source)) {
            let message = format!("the id `{source}` is a boolean to many YAML readers");
            self.error(message, value, &quote);
            return None;
        }
        match TaskId::new(&text) {
            Ok(id) => Some(id),
            Err(rule) => {
                let message = format!("the id `{}` {rule}", clipped(&text));
                self.error(message, value, "ids are letters, digits, `.`, `_` and `-`, at most 64");
                None
            }
        }
    }

    fn priority(&mut self, value: Node<'_>, name: &str) -> Option<Priority> {
        let priority = match value.scalar() {
            Some(Scalar::Number(n)) => n.as_i64().map(Priority),
            Some(Scalar::Text(text)) => Priority::parse(&text),
            _ => None,
        };
        let want = "a whole number, `P0`–`P4`, or critical, high, medium, low";
        self.or_wrong(priority, name, value, want)
    }

    fn status(&mut self, value: Node<'_>, name: &str) -> Option<Status> {
        const WORDS: &str = "pending, in-progress, complete, blocked, needs-input, cancelled";
        let Some(text) = word(value) else {
            return self.or_wrong(None, name, value, &format!("one of {WORDS}"));
        };
        if let Some(status) = Status::parse(&text) {
            self.spelling.note(status, &text);
            return Some(status);
        }
        let message = format!("unknown status `{}`", clipped(&text));
        let fault = Diagnostic::error(message, value.range());
        let near = nearest(&text, Status::words());
        self.push(fault.help(format!("statuses are {WORDS}")).did_you_mean(near));
        None
    }

    fn commit(&mut self, value: Node<'_>, name: &str) -> Option<CommitRule> {
        let rule = match word(value).as_deref() {
            Some("required") => Some(CommitRule::Required),
            Some("optional") => Some(CommitRule::Optional),
            _ => None,
        };
        self.or_wrong(rule, name, value, "`required` or `optional`")
    }

    /// Reads a duration in minutes; a bare number means hours. A wrong value only makes the order
    /// of tasks less precise, so it is a warning.
    fn estimate(&mut self, value: Node<'_>) -> Option<u32> {
        let minutes = match value.scalar() {
            Some(Scalar::Number(hours)) => hours.as_f64().map(|hours| hours * 60.0),
            Some(Scalar::Text(text)) => {
                duration::parse(&text).ok().map(|length| length.as_secs_f64() / 60.0)
            }
            _ => None,
        };
        let Some(minutes) = minutes.filter(|minutes| (0.0..=10_000_000.0).contains(minutes)) else {
            self.odd("estimate", value, "a length of time such as `2h`");
            return None;
        };
        #[expect(clippy::cast_sign_loss, reason = "just checked")]
        Some((minutes.ceil() as u32).max(1))
    }

    fn length(&mut self, value: Node<'_>, name: &str) -> Option<Duration> {
        let Some(text) = word(value) else {
            return self.or_wrong(None, name, value, "a length of time: `90s`, `15m` or `2h`");
        };
        duration::parse(&text).map_err(|message| self.error(message, value, "")).ok()
    }

    /// Reads a text. A number or a boolean is taken verbatim.
    pub(super) fn text<'a>(&mut self, value: Node<'a>, name: &str) -> Option<Cow<'a, str>> {
        if value.is_null() {
            return None;
        }
        self.or_wrong(value.text(), name, value, "text")
    }

    /// Reads a list of path patterns.
    fn globs(&mut self, value: Node<'_>, name: &str) -> Vec<Glob> {
        let mut globs = Vec::new();
        for (text, place) in self.list(value, name) {
            match Glob::new(&text) {
                Ok(glob) => globs.push(glob),
                Err(rule) => {
                    self.error(format!("the pattern `{}` {rule}", clipped(&text)), place, "");
                }
            }
        }
        globs
    }

    /// Reads a list of texts. A single text is a list of one. The place of an item of an alias is
    /// that of the alias.
    fn list<'a>(&mut self, value: Node<'a>, name: &str) -> Texts<'a> {
        if value.is_mapping() {
            self.wrong(name, value, "a list");
            return Vec::new();
        }
        if !value.is_list() {
            return self.text(value, name).map(|text| (text, value)).into_iter().collect();
        }
        let mut texts = Vec::new();
        for item in value.items() {
            let place = if value.is_alias() { value } else { item };
            if item.is_null() {
                self.error(format!("an empty item in `{name}`"), place, "");
            } else if let Some(text) = item.text() {
                texts.push((text, place));
            } else {
                let fault = Diagnostic::error(format!("`{name}` must be text"), place.first_line());
                self.push(fault.label(format!("found {}", found(item))));
            }
        }
        texts
    }

    /// Reports an unknown field whose name is close to a known one: as an error if it can only be
    /// a typing error, and as a warning otherwise. All other unknown fields are kept, and those
    /// that start with `x-` are never reported.
    fn unknown_field(&mut self, key: Node<'_>, name: &str) {
        if self.unknown.contains(name) {
            return;
        }
        self.unknown.insert(name.to_owned());
        if name.starts_with("x-") || name == SOURCE {
            return;
        }
        if let Some(instead) = replacement(RetiredKind::TaskField, name) {
            let message = format!("field `{}` is gone: {instead}", clipped(name));
            self.push(Diagnostic::error(message, key.range()));
            return;
        }
        let Some(near) = nearest(name, FIELDS.iter().map(|field| field.name)) else {
            return;
        };
        let message = format!("unknown field `{}`", clipped(name));
        let fault = if is_misspelled(name, near) {
            Diagnostic::error(message, key.range())
                .label(format!("a field of your own starts with `x-`: `x-{}`", clipped(name)))
        } else {
            Diagnostic::warning(message, key.range()).label("kept for templates, otherwise ignored")
        };
        self.push(fault.did_you_mean(Some(near)));
    }

    /// Passes on a readable value, and reports an unreadable one.
    fn or_wrong<T>(
        &mut self,
        read: Option<T>,
        name: &str,
        value: Node<'_>,
        want: &str,
    ) -> Option<T> {
        if read.is_none() {
            self.wrong(name, value, want);
        }
        read
    }

    fn wrong(&mut self, name: &str, value: Node<'_>, want: &str) {
        let fault = Diagnostic::error(format!("`{name}` must be {want}"), value.first_line());
        self.push(fault.label(format!("found {}", found(value))));
    }

    fn odd(&mut self, name: &str, value: Node<'_>, want: &str) {
        let shown = clipped(&value.json().to_string());
        let message = format!("`{name}` is `{shown}`, which is not {want}");
        self.push(Diagnostic::warning(message, value.first_line()).label("taken as size M"));
    }

    fn error(&mut self, message: impl Into<String>, at: Node<'_>, help: &str) {
        let fault = Diagnostic::error(message, at.first_line());
        self.push(if help.is_empty() { fault } else { fault.help(help) });
    }

    pub(super) fn push(&mut self, fault: Diagnostic) {
        if self.faults.len() < MAX_FAULTS || fault.severity == Severity::Error {
            self.faults.push(fault);
        }
    }
}

/// Escapes and shortens text of the file for a message.
fn clipped(text: &str) -> String {
    let mut shown: String = text.chars().take(70).flat_map(char::escape_debug).collect();
    if text.chars().nth(70).is_some() {
        shown.push('…');
    }
    shown
}
