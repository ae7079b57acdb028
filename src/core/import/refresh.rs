//! Takes over what changed in a source since it was imported, field by field, and nothing that a
//! person changed in the graph.

use serde::Serialize;
use serde_json::{Map, Value};

use super::plan::ImportedTask;
use crate::graph::{
    TaskGraph, load,
    task::{Priority, Status, TaskId},
    yaml::Document,
};

/// A field that changed in the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefreshedField {
    /// The task.
    pub id: String,
    /// The field.
    pub field: String,
    /// Its new value; none if the source has none any more.
    pub value: Option<Value>,
    /// Its value in the source at the last import; none if the source had none.
    pub before: Option<Value>,
    /// Whether the graph has the task as complete.
    pub of_complete: bool,
    /// What a refresh does with it.
    pub outcome: FieldOutcome,
}

/// What a refresh does with a field that changed in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FieldOutcome {
    /// The graph gets the value of the source.
    Taken,
    /// The graph keeps its value: it has another one than at the last import.
    ChangedInGraph,
    /// The graph keeps the task as complete, although the source has it as open again.
    KeptComplete,
    /// The graph keeps its value: the layout of the file allows no change here.
    NoPlace,
}

impl RefreshedField {
    /// Whether the graph gets the value of the source.
    pub fn is_taken(&self) -> bool {
        self.outcome == FieldOutcome::Taken
    }
}

/// The fields of a task that changed in the source. `base` has them as they were at the last import,
/// `ours` as the graph has them.
pub fn changes(
    task: &ImportedTask,
    base: &Map<String, Value>,
    ours: &Map<String, Value>,
) -> Vec<RefreshedField> {
    let mut names: Vec<&str> = task.fields.iter().map(|(name, _)| name.as_str()).collect();
    names.extend(base.keys().map(String::as_str).filter(|name| task.get(name).is_none()));
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| *name != "source") {
        let (theirs, before, here) = (task.get(name), base.get(name), ours.get(name));
        if same(name, theirs, before) || same(name, theirs, here) {
            continue;
        }
        let is_conflict = !same(name, here, before);
        // Both sides completed it, each at its own time; or it stays complete.
        if name == "completed_at" && (is_conflict || theirs.is_none()) {
            continue;
        }
        let outcome = if name == "status" && reopens(here, theirs) {
            // The source may never have heard that the task is done.
            if same(name, before, theirs) {
                continue;
            }
            FieldOutcome::KeptComplete
        } else if is_conflict {
            FieldOutcome::ChangedInGraph
        } else {
            FieldOutcome::Taken
        };
        found.push(RefreshedField {
            id: task.id.clone(),
            field: name.to_owned(),
            value: theirs.cloned(),
            before: before.cloned(),
            of_complete: normal("status", ours.get("status")) == Status::Complete.word(),
            outcome,
        });
    }
    found
}

/// The fields of a task of the graph, with its dependencies in either notation.
pub fn fields(document: &Document, graph: &TaskGraph, id: &str) -> Option<Map<String, Value>> {
    let number = graph.number(&TaskId::new(id).ok()?)?;
    let mut fields = load::task_node(document, number)?.json().as_object()?.clone();
    let waits: Value =
        graph.dependencies(number).map(|other| graph.task(other).id.to_string()).collect();
    fields.insert("depends_on".to_owned(), waits);
    Some(fields)
}

/// Whether a complete task would be open again.
fn reopens(here: Option<&Value>, theirs: Option<&Value>) -> bool {
    let complete = Status::Complete.word();
    normal("status", here) == complete && normal("status", theirs) != complete
}

/// Whether two values of a field mean the same.
fn same(name: &str, one: Option<&Value>, other: Option<&Value>) -> bool {
    normal(name, one) == normal(name, other)
}

fn normal(name: &str, value: Option<&Value>) -> Value {
    let text = value.and_then(Value::as_str);
    match name {
        "status" => {
            let status = text.and_then(Status::parse).unwrap_or(Status::Pending);
            return Value::from(status.word());
        }
        "priority" => {
            let number = value.and_then(Value::as_i64).map(Priority);
            let priority = number.or_else(|| text.and_then(Priority::parse));
            return Value::from(priority.unwrap_or_default().0);
        }
        _ => {}
    }
    match value {
        None | Some(Value::Null) => Value::Null,
        Some(Value::Array(items)) if items.is_empty() => Value::Null,
        Some(Value::Array(items)) if load::fields::is_set(name) => {
            let mut items: Vec<String> = items.iter().map(Value::to_string).collect();
            items.sort();
            Value::from(items)
        }
        Some(Value::String(text)) => Value::from(text.trim_end()),
        Some(value) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(fields: &Value) -> ImportedTask {
        ImportedTask {
            id: "a".to_owned(),
            key: "a".to_owned(),
            source: "x#a".to_owned(),
            file: 0,
            is_new: false,
            is_renamed: false,
            fields: fields.as_object().unwrap().clone().into_iter().collect(),
        }
    }

    #[test]
    fn each_field_is_merged_alone() {
        let base = json!({"title": "A", "tags": ["x", "y"], "status": "pending", "n": 1});
        let ours = json!({"title": "Mine", "tags": ["y", "x"], "status": "todo", "n": 1});
        let theirs = json!({"title": "Theirs", "tags": ["x"], "status": "complete", "m": [1]});
        let found = changes(&task(&theirs), base.as_object().unwrap(), ours.as_object().unwrap());
        let of = |name: &str| {
            let change = found.iter().find(|change| change.field == name);
            change.map(|change| (change.value.clone(), change.is_taken()))
        };
        assert_eq!(of("title"), Some((Some(json!("Theirs")), false)));
        assert_eq!(of("tags"), Some((Some(json!(["x"])), true)));
        assert_eq!(of("status"), Some((Some(json!("complete")), true)));
        assert_eq!((of("n"), of("m")), (Some((None, true)), Some((Some(json!([1])), true))));
        let (open, done) = (json!({"status": "pending"}), json!({"status": "complete"}));
        let reopened = |base: &Value| {
            let (base, done) = (base.as_object().unwrap(), done.as_object().unwrap());
            changes(&task(&open), base, done)
        };
        assert_eq!(reopened(&done)[0].outcome, FieldOutcome::KeptComplete);
        assert_eq!(reopened(&open), []);
        let same = changes(&task(&base), base.as_object().unwrap(), ours.as_object().unwrap());
        assert_eq!(same, []);
    }
}
