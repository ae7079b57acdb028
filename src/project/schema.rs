//! The JSON Schemas of the files that people write, for their editors.
//!
//! The schema of the settings is derived from `Config`, that of the graph from the table of fields.

use serde_json::{Map, Value, json};

use crate::{
    adapters::terminal,
    core::graph::load::fields::{FIELDS, FieldKind},
    project::config::Config,
};

/// The schema of `task-graph.yaml`.
pub fn graph() -> String {
    terminal::json(&graph_schema())
}

/// The schema of `.ralph/config.yaml`.
pub fn config() -> String {
    terminal::json(&Config::schema())
}

fn graph_schema() -> Value {
    let end = |description| json!({"type": ["string", "number"], "description": description});
    // A task needs its id; `defaults` has none.
    let (id, fields): (Vec<_>, Vec<_>) =
        FIELDS.iter().partition(|field| matches!(field.kind, FieldKind::Id));
    let [id, fields] = [id, fields].map(|fields| {
        let schemas = fields.into_iter().map(|field| (field.name.to_owned(), field.schema()));
        Value::Object(schemas.collect::<Map<_, _>>())
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "task graph of ralph",
        "type": "object",
        "anyOf": [{"required": ["tasks"]}, {"required": ["nodes"]}],
        "properties": {
            "version": {"description": "The version of the file format."},
            "project": {"description": "The name of the project."},
            "tasks": {"description": "The tasks.", "$ref": "#/$defs/tasks"},
            "nodes": {"description": "The same as `tasks`.", "$ref": "#/$defs/tasks"},
            "edges": {
                "description": "Dependencies in addition to those in the tasks: `to` depends on `from`.",
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "properties": {
                        "from": end("The id of the task that must be complete first."),
                        "to": end("The id of the task that depends on it."),
                    },
                    "required": ["from", "to"],
                },
            },
            "defaults": {
                "description": "Fields for all tasks that do not set them.",
                "$ref": "#/$defs/fields",
            },
            "milestones": {"description": "Descriptions of milestones, for templates."},
            "stories": {"description": "Descriptions of stories, for templates."},
            "meta": {"description": "Anything else, for templates."},
        },
        "$defs": {
            "tasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id"],
                    "$ref": "#/$defs/fields",
                    "properties": id,
                },
            },
            "fields": {"type": ["object", "null"], "properties": fields},
        },
    })
}
