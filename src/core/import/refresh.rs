//! Takes over what changed in a source since it was imported, field by field, and nothing that a
//! person changed in the graph.

use serde_json::{Map, Value};

use super::{
    plan::ImportedTask,
    render::{self, flow},
    value::SourceValue,
};
use crate::core::graph::{
    TaskGraph,
    edit::{Change, Document},
    load,
    task::{Priority, Spelling, Status, TaskId},
    yaml::{NodeKind, column},
};

/// A field that changed in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshedField {
    /// The task.
    pub id: String,
    /// The field.
    pub field: String,
    /// Its new value; none if the source has none any more.
    pub value: Option<Value>,
    /// Whether the graph has another value than at the last import, which stays.
    pub is_conflict: bool,
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
        // Both sides completed it, each at its own time.
        if name == "completed_at" && is_conflict {
            continue;
        }
        found.push(RefreshedField {
            id: task.id.clone(),
            field: name.to_owned(),
            value: theirs.cloned(),
            is_conflict,
        });
    }
    found
}

/// The fields of a task of the graph, with its dependencies in either notation.
pub fn fields(document: &Document, graph: &TaskGraph, id: &str) -> Option<Map<String, Value>> {
    let number = graph.number(&TaskId::new(id).ok()?)?;
    let node = load::node_of(document, number)?;
    let value = SourceValue::of_yaml(document.text(), document.tree(), node).json();
    let mut fields = value.as_object()?.clone();
    let waits: Value =
        graph.dependencies(number).map(|other| graph.task(other).id.to_string()).collect();
    fields.insert("depends_on".to_owned(), waits);
    Some(fields)
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

/// A graph with other values of one field.
///
/// # Errors
/// The layout of the task does not allow the change.
pub fn with_field(
    document: &Document,
    number: usize,
    change: &RefreshedField,
    spelling: &Spelling,
) -> Result<String, String> {
    let whole = |document: &Document| {
        let root = document.tree().root()?;
        Some(SourceValue::of_yaml(document.text(), document.tree(), root).json())
    };
    let value = change
        .value
        .as_ref()
        .map(|value| render::spelled(&change.field, value, spelling).into_owned());
    let mut want = whole(document).ok_or("the file is empty")?;
    let list = if want.get("tasks").is_some() { "tasks" } else { "nodes" };
    let task =
        want.get_mut(list).and_then(|list| list.get_mut(number)).and_then(Value::as_object_mut);
    let task = task.ok_or("the task is not in the file")?;
    match &value {
        Some(value) => task.insert(change.field.clone(), value.clone()),
        None => task.remove(&change.field),
    };
    // Which layout an edit leads to is only known afterwards.
    for edit in [in_place, anew] {
        let Some(text) = edit(document, number, &change.field, value.as_ref()) else {
            continue;
        };
        if let Ok(found) = Document::parse(&text)
            && whole(&found).as_ref() == Some(&want)
        {
            return Ok(text);
        }
    }
    Err(format!("`{}` cannot be changed in this layout", change.field))
}

/// The text with the value replaced where it is.
fn in_place(
    document: &Document,
    number: usize,
    key: &str,
    value: Option<&Value>,
) -> Option<String> {
    let node = load::node_of(document, number)?;
    let (text, tree) = (document.text(), document.tree());
    let (key_node, old) = tree.entry(text, node, key)?;
    let value = value?;
    let mut changed = document.clone();
    if let Value::String(word) = value
        && !word.contains('\n')
    {
        changed.edit(node, &[Change::Set { key, value: word }]).ok()?;
        return Some(changed.text().to_owned());
    }
    let range = tree.range(old);
    let is_block = matches!(tree.kind(old), NodeKind::Literal | NodeKind::Folded);
    let long = value.as_str().filter(|long| render::is_literal(long));
    let new = match long {
        Some(long) if tree.kind(node) == (NodeKind::Mapping { flow: false }) => {
            let indent = column(text, tree.range(key_node).start) + 2;
            render::literal(long, indent).trim().to_owned()
        }
        _ => flow(value),
    };
    let end = if is_block && text[range.clone()].ends_with('\n') { "\n" } else { "" };
    Some(format!("{}{new}{end}{}", &text[..range.start], &text[range.end..]))
}

/// The text with the value removed and added again.
fn anew(document: &Document, number: usize, key: &str, value: Option<&Value>) -> Option<String> {
    let node = load::node_of(document, number)?;
    let mut changed = document.clone();
    changed.edit(node, &[Change::Remove { key }]).ok()?;
    let Some(value) = value else {
        return Some(changed.text().to_owned());
    };
    changed.edit(node, &[Change::Set { key, value: "x" }]).ok()?;
    in_place(&changed, number, key, Some(value))
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
            change.map(|change| (change.value.clone(), change.is_conflict))
        };
        assert_eq!(of("title"), Some((Some(json!("Theirs")), true)));
        assert_eq!(of("tags"), Some((Some(json!(["x"])), false)));
        assert_eq!(of("status"), Some((Some(json!("complete")), false)));
        assert_eq!((of("n"), of("m")), (Some((None, false)), Some((Some(json!([1])), false))));
        let same = changes(&task(&base), base.as_object().unwrap(), ours.as_object().unwrap());
        assert_eq!(same, []);
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
                    let document = Document::parse(text).unwrap();
                    let value = (!value.is_null()).then(|| value.clone());
                    let change = RefreshedField {
                        id: "a".to_owned(),
                        field: field.to_owned(),
                        value: value.clone(),
                        is_conflict: false,
                    };
                    let found = with_field(&document, 0, &change, &Spelling::default());
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
