//! Values -> tasks: what each field means, and every fault with its place.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    FIELDS, GraphShape, GraphText, MAX_FAULTS, TaskFields,
    place::{FaultPlace, Places},
};
use crate::core::{
    agents::agent_command::AgentCommand,
    diagnostic::{Diagnostic, Severity, nearest},
    duration,
    graph::{
        Cyclic, TaskGraph,
        edit::Document,
        glob::Glob,
        task::{self, CommitRule, Priority, Spelling, Status, Task, TaskId},
        yaml::NodeKind,
    },
};

/// The graph, if it can be built, and all faults and warnings.
pub(super) fn read(
    document: &Document,
    shape: &GraphShape,
    file: GraphText,
) -> (Option<TaskGraph>, Vec<Diagnostic>) {
    let mut reader = TaskReader {
        places: Places { document, shape },
        faults: Vec::new(),
        spelling: Spelling::default(),
        unknown: HashSet::new(),
    };
    let mut graph = reader.graph(file);
    if let Some(graph) = &mut graph {
        graph.spelling = reader.spelling;
    }
    (graph, reader.faults)
}

/// Turns values into tasks and collects what is wrong.
pub(super) struct TaskReader<'a> {
    pub(super) places: Places<'a>,
    pub(super) faults: Vec<Diagnostic>,
    spelling: Spelling,
    /// Unknown fields seen, each reported once.
    unknown: HashSet<String>,
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
        // A graph is attempted even after other faults: a cycle is one of its own.
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
            let names = self.list(&fields.depends_on, Some(number), "depends_on");
            let task = self.task(Some(number), &fields);
            tasks.push(Task { extra: fields.extra, ..task });
            depends_on.push(names);
        }
        Some((tasks, depends_on))
    }

    /// Both readers must see the same id: a splice made for one task must not land in another.
    fn agree(&mut self, number: usize, fields: &TaskFields) {
        let (tree, text) = (self.places.document.tree(), self.places.document.text());
        let seen =
            tree.entry(text, self.places.shape.tasks[number], "id").and_then(|(_, value)| {
                if tree.kind(value) == NodeKind::Alias { None } else { tree.scalar(text, value) }
            });
        if let (Some(seen), Value::String(id)) = (seen, &fields.id)
            && seen != *id
        {
            let place = FaultPlace::Field(number, "id");
            self.error(format!("the two YAML readers see `{seen}` and `{id}`"), place, "");
        }
    }

    /// The fields of one task, or of `defaults`, as what they mean.
    fn task(&mut self, number: Option<usize>, fields: &TaskFields) -> Task {
        let place = |name: &'static str| {
            number.map_or(FaultPlace::Default(name), |n| FaultPlace::Field(n, name))
        };
        // A task without a usable id stays in its place, so that the faults of all are found.
        let id = number.and_then(|number| self.id(&fields.id, number)).unwrap_or_else(|| {
            let stand_in = format!("0.unnamed.{}", number.unwrap_or_default());
            TaskId::new(&stand_in).expect("follows the rule")
        });
        self.unknown_fields(number, &fields.extra);
        let optional =
            |reader: &mut Self, value: &Value, name| reader.text(value, place(name), name);
        Task {
            title: optional(self, &fields.title, "title").unwrap_or_else(|| id.to_string()),
            description: optional(self, &fields.description, "description"),
            story: optional(self, &fields.story, "story"),
            milestone: optional(self, &fields.milestone, "milestone"),
            prompt: optional(self, &fields.prompt, "prompt"),
            claimed_at: optional(self, &fields.claimed_at, "claimed_at"),
            claimed_by: optional(self, &fields.claimed_by, "claimed_by"),
            tags: self.list(&fields.tags, number, "tags"),
            touches: self.globs(fields.extra.get("touches"), number, "touches"),
            priority: self.priority(&fields.priority, place("priority")),
            status: self.status(&fields.status, place("status")),
            minutes: self.minutes(&fields.extra, &place),
            agents: self.agents(fields.extra.get("agent"), place("agent")),
            verify: fields
                .extra
                .get("verify")
                .filter(|value| !value.is_null())
                .map(|value| self.list(value, number, "verify")),
            idle: self.length(
                fields.extra.get("idle").unwrap_or(&Value::Null),
                place("idle"),
                "idle",
            ),
            max_cost: self.money(fields.extra.get("max_cost"), place("max_cost"), "max_cost"),
            verify_baseline: self.flag(
                fields.extra.get("verify_baseline"),
                place("verify_baseline"),
                "verify_baseline",
            ),
            commit: self.commit(&fields.commit, place("commit")),
            timeout: self.length(&fields.timeout, place("timeout"), "timeout"),
            stale_after: self.length(&fields.stale_after, place("stale_after"), "stale_after"),
            max_attempts: self.attempts(&fields.max_attempts, place("max_attempts")),
            extra: Map::new(),
            id,
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

    fn priority(&mut self, value: &Value, place: FaultPlace) -> Priority {
        let parsed = match value {
            Value::Null => return Priority::default(),
            Value::Number(n) => n.as_i64().map(Priority),
            Value::String(text) => Priority::parse(text),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        parsed.unwrap_or_else(|| {
            self.wrong(
                "priority",
                value,
                place,
                "a whole number, `P0`–`P4`, or critical, high, medium, low",
            );
            Priority::default()
        })
    }

    fn status(&mut self, value: &Value, place: FaultPlace) -> Status {
        let Value::String(text) = value else {
            if !value.is_null() {
                self.wrong(
                    "status",
                    value,
                    place,
                    "one of pending, in-progress, complete, blocked, needs-input, cancelled",
                );
            }
            return Status::Pending;
        };
        if let Some(status) = Status::parse(text) {
            self.spelling.note(status, text);
            return status;
        }
        let fault = Diagnostic::error(
            format!("unknown status `{}`", clipped(text)),
            self.places.range(place),
        )
        .help("statuses are pending, in-progress, complete, blocked, needs-input, cancelled");
        self.push(fault.did_you_mean(nearest(text, Status::words())));
        Status::Pending
    }

    fn commit(&mut self, value: &Value, place: FaultPlace) -> CommitRule {
        match value {
            Value::Null => CommitRule::Required,
            Value::String(text) if text == "required" => CommitRule::Required,
            Value::String(text) if text == "optional" => CommitRule::Optional,
            _ => {
                self.wrong("commit", value, place, "`required` or `optional`");
                CommitRule::Required
            }
        }
    }

    /// The expected length, from `estimate` (a length of time, a bare number being hours), else
    /// from `complexity`. An odd one only costs precision, so it is a warning.
    fn minutes(
        &mut self,
        extra: &Map<String, Value>,
        place: &dyn Fn(&'static str) -> FaultPlace,
    ) -> u32 {
        let estimate = extra.get("estimate").unwrap_or(&Value::Null);
        let minutes = match estimate {
            Value::Number(hours) => hours.as_f64().map(|hours| hours * 60.0),
            Value::String(text) => {
                duration::parse(text).ok().map(|length| length.as_secs_f64() / 60.0)
            }
            _ => None,
        };
        match minutes {
            Some(minutes) if (0.0..=10_000_000.0).contains(&minutes) => {
                #[expect(clippy::cast_sign_loss, reason = "just checked")]
                return (minutes.ceil() as u32).max(1);
            }
            _ if estimate.is_null() => {}
            _ => self.odd("estimate", estimate, place("estimate"), "a length of time such as `2h`"),
        }
        let complexity = extra.get("complexity").unwrap_or(&Value::Null);
        let size = complexity.as_str().and_then(task::minutes_of_size);
        if size.is_none() && !complexity.is_null() {
            self.odd("complexity", complexity, place("complexity"), "S, M, L or XL");
        }
        size.unwrap_or(task::DEFAULT_MINUTES)
    }

    fn length(&mut self, value: &Value, place: FaultPlace, name: &str) -> Option<Duration> {
        match value {
            Value::Null => None,
            Value::String(text) => match duration::parse(text) {
                Ok(length) => Some(length),
                Err(message) => {
                    self.error(message, place, "");
                    None
                }
            },
            _ => {
                self.wrong(name, value, place, "a length of time: `90s`, `15m` or `2h`");
                None
            }
        }
    }

    fn agents(&mut self, value: Option<&Value>, place: FaultPlace) -> Vec<AgentCommand> {
        match value.filter(|value| !value.is_null()).map(AgentCommand::read) {
            None => Vec::new(),
            Some(Ok(calls)) => calls,
            Some(Err(message)) => {
                self.error(message, place, "");
                Vec::new()
            }
        }
    }

    fn money(&mut self, value: Option<&Value>, place: FaultPlace, name: &str) -> Option<f64> {
        let value = value.filter(|value| !value.is_null())?;
        let sum = value.as_f64().filter(|sum| *sum > 0.0);
        if sum.is_none() {
            self.wrong(name, value, place, "a sum of US dollars above 0, such as `2.50`");
        }
        sum
    }

    fn flag(&mut self, value: Option<&Value>, place: FaultPlace, name: &str) -> Option<bool> {
        match value? {
            Value::Null => None,
            Value::Bool(flag) => Some(*flag),
            value => {
                self.wrong(name, value, place, "`true` or `false`");
                None
            }
        }
    }

    fn attempts(&mut self, value: &Value, place: FaultPlace) -> Option<u32> {
        if value.is_null() {
            return None;
        }
        let attempts = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
        if attempts.is_none() {
            self.wrong("max_attempts", value, place, "a whole number from 1");
        }
        attempts
    }

    /// A text; numbers and booleans as they are written.
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

    /// A list of patterns of paths.
    fn globs(
        &mut self,
        value: Option<&Value>,
        number: Option<usize>,
        name: &'static str,
    ) -> Vec<Glob> {
        let texts = self.items(value.unwrap_or(&Value::Null), number, name);
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

    /// A list of texts; a single text is a list of one.
    fn list(&mut self, value: &Value, number: Option<usize>, name: &'static str) -> Vec<String> {
        self.items(value, number, name).into_iter().map(|(text, _)| text).collect()
    }

    /// The same, and where each is.
    fn items(
        &mut self,
        value: &Value,
        number: Option<usize>,
        name: &'static str,
    ) -> Vec<(String, FaultPlace)> {
        let whole = number.map_or(FaultPlace::Default(name), |n| FaultPlace::Field(n, name));
        match value {
            Value::Null => Vec::new(),
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

    /// Unknown fields are kept; one that is nearly a known one was probably meant to be it.
    fn unknown_fields(&mut self, number: Option<usize>, extra: &Map<String, Value>) {
        for name in extra.keys() {
            if FIELDS.contains(&name.as_str()) {
                continue;
            }
            if self.unknown.contains(name) {
                continue;
            }
            self.unknown.insert(name.clone());
            if let Some(near) = nearest(name, FIELDS.iter().copied()) {
                let fault = Diagnostic::warning(
                    format!("unknown field `{}`", clipped(name)),
                    self.places.key_range(number, name),
                )
                .label("kept for templates, otherwise ignored");
                self.push(fault.did_you_mean(Some(near)));
            }
        }
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

/// YAML 1.1's booleans, which this reader takes as text and others do not.
fn is_a_boolean_to_some(text: &str) -> bool {
    ["y", "n", "yes", "no", "on", "off"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Text of a stranger's, safe and short enough for a message.
fn clipped(text: &str) -> String {
    let mut shown: String = text.chars().take(70).flat_map(char::escape_debug).collect();
    if text.chars().nth(70).is_some() {
        shown.push('…');
    }
    shown
}
