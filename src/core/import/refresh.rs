//! Takes over what changed in a source since it was imported, field by field, and nothing that a
//! person changed in the graph.

use std::{borrow::Cow, fmt::Write as _};

use serde::Serialize;
use serde_json::{Map, Value};

use super::plan::ImportedTask;
use crate::graph::{
    TaskGraph,
    edit::flow,
    load,
    task::{Priority, Spelling, Status, TaskId},
    task_edit::{FieldChanges, NewTask, TaskPlace, insert_as_given, set_fields_of},
    yaml::{Document, MAX_BYTES, NodeKind, like},
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

// The text of a graph file with new tasks and other values of fields, in the layout of that file.

/// The text of a new graph with these tasks.
///
/// # Errors
/// The reason why the tasks do not fit into a graph.
pub fn graph_text(tasks: &[&ImportedTask], top: &[(String, Value)]) -> Result<String, String> {
    let mut text = String::new();
    if top.iter().all(|(name, _)| name != "version") {
        text += "version: 1\n";
    }
    for (name, value) in top {
        let _ = writeln!(text, "{}: {}", like(NodeKind::Plain, name), flow(value));
    }
    text += "tasks: []\n";
    added(&text, &Spelling::default(), tasks)
}

/// A graph with new tasks at its end.
///
/// # Errors
/// The reason why the tasks do not fit into the file.
pub fn added(text: &str, spelling: &Spelling, new: &[&ImportedTask]) -> Result<String, String> {
    let tasks: Vec<NewTask> =
        new.iter().map(|task| new_task(task, spelling)).collect::<Result<_, _>>()?;
    let found = insert_as_given(text, &tasks, &TaskPlace::Last).map_err(|why| why.reason)?;
    if found.len() > MAX_BYTES {
        return Err("the graph would become too large".to_owned());
    }
    Ok(found)
}

fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::new(text).map_err(|rule| format!("the id `{text}` {rule}"))
}

fn new_task(task: &ImportedTask, spelling: &Spelling) -> Result<NewTask, String> {
    let fields =
        task.fields.iter().filter(|(name, value)| !value.is_null() && name != "depends_on");
    let fields = fields
        .map(|(name, value)| (name.clone(), spelled(name, value, spelling).into_owned()))
        .collect();
    let depends_on = task.dependencies().into_iter().map(task_id).collect::<Result<_, _>>()?;
    Ok(NewTask { id: task_id(&task.id)?, fields, depends_on })
}

/// A field as the file spells it.
fn spelled<'a>(name: &str, value: &'a Value, spelling: &Spelling) -> Cow<'a, Value> {
    let status = value.as_str().filter(|_| name == "status").and_then(Status::parse);
    status.map_or(Cow::Borrowed(value), |status| Cow::Owned(Value::String(spelling.write(status))))
}

/// A graph with other values of fields. Changes of one task follow one another.
///
/// # Errors
/// The layout of a task does not allow a change.
pub fn with_fields(
    text: &str,
    changes: &[&RefreshedField],
    spelling: &Spelling,
) -> Result<String, String> {
    let mut by_task: Vec<FieldChanges> = Vec::new();
    for change in changes {
        let id = task_id(&change.id)?;
        let value = change.value.as_ref().filter(|value| !value.is_null());
        let value = value.map(|value| spelled(&change.field, value, spelling).into_owned());
        let field = (change.field.clone(), value);
        match by_task.last_mut().filter(|(last, _)| *last == id) {
            Some((_, fields)) => fields.push(field),
            None => by_task.push((id, vec![field])),
        }
    }
    set_fields_of(text, &by_task).map_err(|why| why.reason)
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

#[cfg(test)]
mod render_tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{
        BacklogFormat, SourceBacklog, SourceLink, SourceTask,
        plan::{ExistingTasks, ImportOptions, SourceFile, plan},
        read,
        refresh::FieldOutcome,
    };
    use super::*;
    use crate::graph::{load, yaml::Document};

    fn loaded(text: &str) -> load::Loaded {
        let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        load::load(&document).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
    }

    fn task(id: &str, fields: &[(&str, Value)]) -> ImportedTask {
        ImportedTask {
            id: id.to_owned(),
            key: id.to_owned(),
            source: format!("x#{id}"),
            file: 0,
            is_new: true,
            is_renamed: false,
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        }
    }

    #[test]
    fn tasks_follow_the_layout_of_the_file() {
        let new = task(
            "new",
            &[
                ("title", json!("N: x")),
                ("status", json!("complete")),
                ("description", json!("a\n\n  b")),
            ],
        );
        for (text, want) in [
            (
                "tasks:\n  - id: a\n    status: done # c\n# end\n",
                "tasks:\n  - id: a\n    status: done # c\n  - id: new\n    title: \"N: x\"\n    \
                 status: done\n    description: |-\n      a\n\n        b\n# end\n",
            ),
            (
                "nodes:\n- id: a\nedges: []\n",
                "nodes:\n- id: a\n- id: new\n  title: \"N: x\"\n  status: complete\n  \
                 description: |-\n    a\n\n      b\nedges: []\n",
            ),
            (
                "{\"tasks\": [{\"id\": \"a\"}]}\n",
                "{\"tasks\": [{\"id\": \"a\"}, {\"id\": \"new\", \"title\": \"N: x\", \"status\": \
                 \"complete\", \"description\": \"a\\n\\n  b\"}]}\n",
            ),
            (
                "a: 1\r\ntasks:\r\n- id: a\r\n# end",
                "a: 1\r\ntasks:\r\n- id: a\r\n- id: new\r\n  title: \"N: x\"\r\n  status: \
                 complete\r\n  description: |-\r\n    a\r\n\r\n      b\r\n# end",
            ),
            (
                "version: 1\ntasks: [] # none\nmeta: {}\n",
                "version: 1\ntasks: # none\n  - id: new\n    title: \"N: x\"\n    status: complete\n    \
                 description: |-\n      a\n\n        b\nmeta: {}\n",
            ),
        ] {
            let spelling = loaded(text).graph.spelling;
            let found = added(text, &spelling, &[&new]).unwrap();
            assert_eq!(found, want);
            let graph = loaded(&found).graph;
            let last = graph.tasks().last().unwrap();
            assert_eq!(last.description.as_deref(), Some("a\n\n  b"));
        }
    }

    #[test]
    fn dependencies_are_written_as_the_file_does_it() {
        let new = task(
            "new",
            &[("priority", json!("P1")), ("depends_on", json!(["a"])), ("x", json!(1))],
        );
        for (text, want) in [
            (
                "nodes:\n- {id: a}\n- {id: b}\nedges:\n- {from: a, to: b}\n",
                "nodes:\n- {id: a}\n- {id: b}\n- {id: new, priority: P1, x: 1}\nedges:\n- {from: a, to: \
                 b}\n- {from: a, to: new}\n",
            ),
            (
                "tasks:\n- id: a\n",
                "tasks:\n- id: a\n- id: new\n  priority: P1\n  depends_on: [a]\n  x: 1\n",
            ),
        ] {
            assert_eq!(added(text, &Spelling::default(), &[&new]).as_deref(), Ok(want));
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ \t\n\r:#\"'|>&*!%@`{}\\[\\],?~-]{0,12}",
            "([a-z -]{0,9}\n){0,4}",
            "(yes|null|0x1f|1e3|2026-11-20|~|- a|a: b|#c)",
        ]
    }

    proptest! {
        #[test]
        fn any_backlog_becomes_a_graph_that_loads(
            keys in prop::collection::hash_set(text(), 1..6),
            titles in prop::collection::vec(text(), 6),
            texts in prop::collection::vec(text(), 6),
            status in prop::sample::select(vec!["open", "DONE", "in_progress", "tombstone", "x y"]),
            flow in any::<bool>(),
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let stories: Vec<Value> = keys.iter().enumerate().map(|(at, key)| json!({
                "id": key, "title": titles[at], "description": texts[at], "status": status,
                "priority": texts[at], "notes": {"a": [texts[at], 1]}, "timeout": titles[at],
                "createdAt": "x", "verify": [titles[at]], "agent": texts[at],
                "dependsOn": keys[..at],
            })).collect();
            let prd = json!({"userStories": stories, "name": titles[0]}).to_string();
            // Some keys are blank, and then a title may be one of them.
            let Ok(backlog) = read(BacklogFormat::Prd, "x", &prd) else { return Ok(()) };
            let file = SourceFile { name: "prd.json".to_owned(), backlog };
            let options = ImportOptions::default();
            let Ok(plan) = plan(&[file], &ExistingTasks::default(), &options) else { return Ok(()) };
            let all: Vec<&ImportedTask> = plan.tasks.iter().collect();
            let fresh = graph_text(&all, &plan.top).unwrap();
            let mut graphs = vec![loaded(&fresh).graph];
            let text = if flow { "{tasks: [{id: zz-zz}]}\n" } else { "tasks:\n- id: zz-zz\n" };
            let into = added(text, &Spelling::default(), &all).unwrap();
            graphs.push(loaded(&into).graph);
            for graph in graphs {
                for task in &plan.tasks {
                    let number = graph.number(&crate::graph::task::TaskId::new(&task.id).unwrap());
                    let found = graph.task(number.unwrap());
                    prop_assert_eq!(Some(found.title.as_str()), task.get("title").and_then(Value::as_str));
                    prop_assert_eq!(found.description.as_deref(), task.get("description").and_then(Value::as_str));
                    prop_assert_eq!(found.extra.get("source"), task.get("source"));
                    prop_assert_eq!(found.extra.get("notes"), task.get("notes"));
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in text(), at in 0_usize..8) {
            let format = crate::variants::all::<BacklogFormat>()[at];
            if let Ok(backlog) = read(format, "x", &text) {
                let SourceBacklog { tasks, lost, .. } = backlog;
                let inside = |at: &std::ops::Range<usize>| at.start <= at.end && at.start <= text.len();
                prop_assert!(tasks.iter().all(|task: &SourceTask| inside(&task.at)));
                prop_assert!(tasks.iter().flat_map(|task| &task.depends_on).all(|link: &SourceLink| inside(&link.at)));
                prop_assert!(lost.iter().all(|lost| inside(&lost.at)));
            }
            super::super::detect(&text);
        }
    }

    #[test]
    fn a_field_is_changed_in_any_layout() {
        for text in [
            "tasks:\n  - id: a\n    d: |\n      one\n\n      two\n    l: [x]\n    s: 'q' # c\n  # end\n",
            "nodes:\n- {id: a, l: [x, y], s: q, d: e}\n",
            "{\"tasks\": [{\"id\": \"a\", \"s\": \"q\"}]}",
            "tasks:\n- id: a\n  l:\n  - x\n  - y\n# end",
        ] {
            for value in [
                json!("word"),
                json!("two\n\n  lines"),
                json!(["p", "q: r"]),
                json!([]),
                json!(3),
                json!(true),
                json!({"k": ["v"]}),
                Value::Null,
            ] {
                for field in ["d", "l", "s", "new"] {
                    let value = (!value.is_null()).then(|| value.clone());
                    let change = RefreshedField {
                        id: "a".to_owned(),
                        field: field.to_owned(),
                        value: value.clone(),
                        before: None,
                        of_complete: false,
                        outcome: FieldOutcome::Taken,
                    };
                    let found = with_fields(text, &[&change], &Spelling::default());
                    let found = found.unwrap_or_else(|why| panic!("{why}: {value:?} in {text}"));
                    assert!(
                        field == "s" || found.contains("# c") == text.contains("# c"),
                        "{found}"
                    );
                    assert_eq!(found.contains("# end"), text.contains("# end"), "{found}");
                }
            }
        }
    }
}
