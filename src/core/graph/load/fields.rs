//! The fields of a task, as a table.
//!
//! A new field is a row here and, unless it is only kept for templates, the field of [`Task`] that
//! the row sets. The reader, the suggestions for misspelled names, `defaults`, the templates, the
//! merge driver, the JSON Schema and the table in `docs/task-graph.md` are all made from the rows.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::core::{
    agents::agent_command::AgentCommand,
    graph::{
        glob::Glob,
        task::{CommitRule, MAX_ID, Priority, Status, Task},
    },
};

/// A field of a task in `task-graph.yaml`.
pub struct TaskField {
    /// The name.
    pub name: &'static str,
    /// What its value may be, and what the value sets.
    pub kind: FieldKind,
    /// The description in the JSON Schema and in the docs, in Markdown.
    pub description: &'static str,
    /// Whether `defaults` supplies it to the tasks that lack it.
    pub has_default: bool,
    /// How templates see it.
    pub in_templates: InTemplates,
    /// Whether it is an unordered list, which the merge driver merges by item.
    pub is_set: bool,
}

/// What a field's value may be, and how it becomes part of a [`Task`].
///
/// Each kind has one reader (in `reader`) and one schema (below).
#[derive(Clone, Copy)]
pub enum FieldKind {
    /// The id of the task itself. It is read before all other fields.
    Id,
    /// The ids of other tasks, which become edges of the graph.
    Dependencies,
    /// Text; a number or a boolean is taken as it is written.
    Text(fn(&mut Task, String)),
    /// A short text for which an editor expects no number: a file name or a time.
    Word(fn(&mut Task, String)),
    /// A text or a list of texts.
    Texts(fn(&mut Task, Vec<String>)),
    /// A command or a list of commands.
    Commands(fn(&mut Task, Vec<String>)),
    /// A path pattern or a list of them.
    Patterns(fn(&mut Task, Vec<Glob>)),
    /// The urgency.
    Priority(fn(&mut Task, Priority)),
    /// The status.
    Status(fn(&mut Task, Status)),
    /// Whether a commit is required.
    Commit(fn(&mut Task, CommitRule)),
    /// A duration.
    Length(fn(&mut Task, Duration)),
    /// A whole number from 1.
    Count(fn(&mut Task, u32)),
    /// An amount in US dollars above 0.
    Money(fn(&mut Task, f64)),
    /// `true` or `false`.
    Flag(fn(&mut Task, bool)),
    /// Agents.
    Agents(fn(&mut Task, Vec<AgentCommand>)),
    /// The expected duration; a bare number means hours.
    Estimate(fn(&mut Task, u32)),
    /// The same as a size. It is ignored if an estimate was read before it.
    Size(fn(&mut Task, u32)),
    /// Paths, kept as they are written.
    Paths,
    /// A time, kept as it is written.
    Time,
    /// Any value, kept as it is written.
    Anything,
}

/// How templates see a field.
#[derive(Clone, Copy)]
pub enum InTemplates {
    /// Not at all.
    Hidden,
    /// As the task has it after reading.
    Read(fn(&Task) -> Value),
    /// As the file has it; undefined if the file does not set it.
    Written,
    /// As the file has it; null if the file does not set it.
    WrittenOrNull,
}

impl InTemplates {
    /// Whether the value stays in [`Task::extra`].
    pub fn is_written(self) -> bool {
        matches!(self, InTemplates::Written | InTemplates::WrittenOrNull)
    }
}

/// The field of an imported task with its place in the source. It is kept for templates.
pub const SOURCE: &str = "source";
/// The field with what the attempts at a task need of a cluster.
pub const RESOURCES: &str = "resources";

/// The fields, in the order in which they are read and documented.
pub const FIELDS: &[TaskField] = &[
    TaskField::new(
        "id",
        FieldKind::Id,
        "The name of the task in the journal and in `depends_on`: letters, digits, `.`, `_` and \
         `-`; at most 64 characters.",
    )
    .read(|task| json!(task.id)),
    TaskField::new(
        "title",
        FieldKind::Text(|task, text| task.title = text.trim_end().to_owned()),
        "One line that says what to do. Default: the id.",
    )
    .read(|task| json!(task.title)),
    TaskField::new(
        "description",
        FieldKind::Text(|task, text| task.description = Some(text)),
        "What the agent is told to do.",
    )
    .read(|task| json!(task.description)),
    TaskField::new(
        "priority",
        FieldKind::Priority(|task, priority| task.priority = priority),
        "A whole number, `P0` to `P4`, or critical, high, medium, low; smaller is more urgent. \
         Default: medium (2).",
    )
    .default()
    .read(|task| json!(task.priority)),
    TaskField::new(
        "depends_on",
        FieldKind::Dependencies,
        "The ids of the tasks that must be complete first.",
    )
    .set(),
    TaskField::new(
        "status",
        FieldKind::Status(|task, status| task.status = status),
        "`pending` (also todo, open, ready, backlog), `in-progress` (also doing, started, wip), \
         `complete` (also done, closed), `blocked`, `needs-input` or `cancelled`. `ralph` keeps the \
         spelling of the file.",
    )
    .read(|task| json!(task.status)),
    TaskField::new(
        "story",
        FieldKind::Text(|task, text| task.story = Some(text)),
        "The story that the task belongs to, for `--story`.",
    )
    .read(|task| json!(task.story)),
    TaskField::new(
        "milestone",
        FieldKind::Text(|task, text| task.milestone = Some(text)),
        "The milestone that the task belongs to, for `--milestone`.",
    )
    .read(|task| json!(task.milestone)),
    TaskField::new(
        "tags",
        FieldKind::Texts(|task, tags| task.tags = tags),
        "Labels, for `--tag` and the setting `limits`.",
    )
    .default()
    .read(|task| json!(task.tags))
    .set(),
    TaskField::new(
        "touches",
        FieldKind::Patterns(|task, touches| task.touches = touches),
        "The files that the task will change: a pattern such as `src/api/**`, or a list of \
         patterns. Tasks whose patterns overlap do not run at the same time.",
    )
    .default()
    .written()
    .set(),
    TaskField::new(
        "estimate",
        FieldKind::Estimate(|task, minutes| task.minutes = minutes),
        "How long the task takes, such as `2h`; a bare number means hours. The weight of the task \
         in the longest chain.",
    )
    .default()
    .written(),
    TaskField::new(
        "complexity",
        FieldKind::Size(|task, minutes| task.minutes = minutes),
        "The same as a size: S, M (the default), L or XL. Not used if `estimate` is set.",
    )
    .default()
    .written(),
    TaskField::new(
        "prompt",
        FieldKind::Word(|task, name| task.prompt = Some(name)),
        "A template under `prompts/` instead of `task.md`.",
    )
    .default(),
    TaskField::new(
        "agent",
        FieldKind::Agents(|task, agents| task.agents = agents),
        "The agent of this task, as in the settings: a preset, a command as a list of words, a \
         mapping, or a list of agents.",
    )
    .default()
    .written(),
    TaskField::new(
        "run_on",
        FieldKind::Word(|task, name| task.run_on = Some(name)),
        "Where its attempts run, as in the settings: `local`, `sandbox` or one of `executors`.",
    )
    .default()
    .written(),
    TaskField::new(
        RESOURCES,
        FieldKind::Anything,
        "What its attempts need of a cluster: the options of its queue, such as `{cpus-per-task: 8, \
         mem: 16G}`.",
    )
    .default()
    .written(),
    TaskField::new(
        "verify",
        FieldKind::Commands(|task, commands| task.verify = Some(commands)),
        "A command or a list of commands that must succeed before the task is complete; `[]` for \
         none.",
    )
    .default()
    .written_or_null(),
    TaskField::new(
        "verify_baseline",
        FieldKind::Flag(|task, flag| task.verify_baseline = Some(flag)),
        "Whether the verify commands also run before an attempt.",
    )
    .default()
    .written(),
    TaskField::new(
        "output",
        FieldKind::Paths,
        "Paths, as a list or separated by commas, that must be committed and not blank; named in \
         the prompt. An entry that contains a blank or a wildcard is only named. If the graph file \
         is one of them, new valid tasks are the work of the task, and no commit is needed.",
    )
    .default()
    .written_or_null()
    .set(),
    TaskField::new(
        "commit",
        FieldKind::Commit(|task, rule| task.commit = rule),
        "Whether a commit must show that the task is done: `required` (the default) or `optional`.",
    )
    .default(),
    TaskField::new(
        "timeout",
        FieldKind::Length(|task, length| task.timeout = Some(length)),
        "The wall-clock limit of an attempt.",
    )
    .default(),
    TaskField::new(
        "idle",
        FieldKind::Length(|task, length| task.idle = Some(length)),
        "End an attempt that shows no sign of life for this long; `0s` for never.",
    )
    .default()
    .written(),
    TaskField::new(
        "stale_after",
        FieldKind::Length(|task, length| task.stale_after = Some(length)),
        "The task counts as stale after this long in progress.",
    )
    .default(),
    TaskField::new(
        "max_attempts",
        FieldKind::Count(|task, count| task.max_attempts = Some(count)),
        "The number of attempts before the task is parked.",
    )
    .default(),
    TaskField::new(
        "max_cost",
        FieldKind::Money(|task, sum| task.max_cost = Some(sum)),
        "The most that all attempts at the task since its last reset may cost, in US dollars.",
    )
    .default()
    .written(),
    TaskField::new("path", FieldKind::Paths, "Where the work is; named in the prompt.")
        .default()
        .written_or_null(),
    TaskField::new("notes", FieldKind::Anything, "Anything else to tell the agent.")
        .default()
        .written(),
    TaskField::new(
        "allow",
        FieldKind::Texts(|task, rules| task.allow = rules),
        "The rules of `ralph check --strict` that do not apply to the task, such as `vague-text`.",
    )
    .default()
    .set(),
    TaskField::new(
        "claimed_at",
        FieldKind::Word(|task, time| task.claimed_at = Some(time)),
        "When the last attempt began. Written by `ralph`.",
    ),
    TaskField::new(
        "claimed_by",
        FieldKind::Word(|task, name| task.claimed_by = Some(name)),
        "Who made the last attempt. Written by `ralph`.",
    ),
    TaskField::new(
        "completed_at",
        FieldKind::Time,
        "When the task was completed. Written by `ralph`.",
    )
    .default()
    .written(),
];

/// The index of a field in [`FIELDS`].
pub(super) fn position(name: &str) -> Option<usize> {
    FIELDS.iter().position(|field| field.name == name)
}

/// Whether the field of this name is an unordered list.
pub fn is_set(name: &str) -> bool {
    FIELDS.iter().any(|field| field.is_set && field.name == name)
}

/// The fields of a task as templates see them, by their names in the file. Unknown fields are
/// included.
pub fn in_templates(task: &Task) -> Map<String, Value> {
    let mut shown = task.extra.clone();
    for field in FIELDS {
        match field.in_templates {
            InTemplates::Hidden | InTemplates::Written => {}
            InTemplates::Read(value) => {
                shown.insert(field.name.to_owned(), value(task));
            }
            InTemplates::WrittenOrNull => {
                shown.entry(field.name).or_insert(Value::Null);
            }
        }
    }
    shown
}

impl TaskField {
    const fn new(name: &'static str, kind: FieldKind, description: &'static str) -> TaskField {
        let in_templates = InTemplates::Hidden;
        TaskField { name, kind, description, has_default: false, in_templates, is_set: false }
    }

    const fn default(self) -> TaskField {
        TaskField { has_default: true, ..self }
    }

    const fn read(self, value: fn(&Task) -> Value) -> TaskField {
        TaskField { in_templates: InTemplates::Read(value), ..self }
    }

    const fn written(self) -> TaskField {
        TaskField { in_templates: InTemplates::Written, ..self }
    }

    const fn written_or_null(self) -> TaskField {
        TaskField { in_templates: InTemplates::WrittenOrNull, ..self }
    }

    const fn set(self) -> TaskField {
        TaskField { is_set: true, ..self }
    }

    /// The JSON Schema of the field.
    pub fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        schema["description"] = json!(self.description);
        schema
    }
}

impl FieldKind {
    /// The JSON Schema of the values that an editor should accept.
    fn schema(self) -> Value {
        match self {
            FieldKind::Id => json!({
                "type": ["string", "number"],
                "pattern": format!("^[A-Za-z0-9][A-Za-z0-9._-]{{0,{}}}$", MAX_ID - 1),
            }),
            FieldKind::Text(_) | FieldKind::Estimate(_) => {
                json!({"type": ["string", "number", "null"]})
            }
            FieldKind::Word(_) | FieldKind::Time => json!({"type": ["string", "null"]}),
            FieldKind::Dependencies | FieldKind::Texts(_) => json!({
                "type": ["string", "number", "array", "null"],
                "items": {"type": ["string", "number"]},
            }),
            FieldKind::Commands(_) | FieldKind::Patterns(_) => json!({
                "type": ["string", "array", "null"],
                "items": {"type": "string"},
            }),
            FieldKind::Paths => json!({"type": ["string", "array", "null"]}),
            FieldKind::Priority(_) => one_of(
                &json!({"enum": ["critical", "high", "medium", "low", "P0", "P1", "P2", "P3", "P4"]}),
                &["integer", "string", "null"],
            ),
            FieldKind::Status(_) => {
                one_of(&json!({"enum": Status::words().collect::<Vec<_>>()}), &["string", "null"])
            }
            FieldKind::Commit(_) => json!({"enum": ["required", "optional", null]}),
            FieldKind::Length(_) => json!({
                "type": "string",
                "pattern": r"^\s*(\d+\s*[a-zA-Zµ]+\s*)+$",
                "examples": ["90s", "15m", "2h"],
            }),
            FieldKind::Count(_) => json!({"type": ["integer", "null"], "minimum": 1}),
            FieldKind::Money(_) => json!({"type": ["number", "null"], "exclusiveMinimum": 0}),
            FieldKind::Flag(_) => json!({"type": ["boolean", "null"]}),
            FieldKind::Agents(_) => json!({"type": ["string", "array", "object", "null"]}),
            FieldKind::Size(_) => {
                json!({"type": ["string", "null"], "examples": ["S", "M", "L", "XL"]})
            }
            FieldKind::Anything => json!({}),
        }
    }
}

/// A schema that suggests words to an editor and accepts other values of these types too.
fn one_of(words: &Value, types: &[&str]) -> Value {
    let mut choices = vec![words.clone()];
    choices.extend(types.iter().map(|name| json!({"type": name})));
    json!({"anyOf": choices})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_one_row_and_a_sentence_for_the_docs() {
        for (at, field) in FIELDS.iter().enumerate() {
            assert_eq!(position(field.name), Some(at), "{}", field.name);
            assert!(field.description.ends_with('.'), "{}", field.name);
            assert!(!field.description.contains('|'), "{}: it is a cell of a table", field.name);
        }
        assert!(matches!(FIELDS[0].kind, FieldKind::Id));
    }
}
