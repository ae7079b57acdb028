//! Reads another task graph.

use std::collections::HashMap;

use super::{
    SourceLink,
    builder::TaskBuilder,
    fields::{FieldRole, Reading, links},
    value::SourceValue,
};
use crate::{
    diagnostic::Diagnostic,
    graph::{edit::Document, load},
};

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let document = Document::parse(text).map_err(|fault| vec![load::diagnostic(fault)])?;
    load::load(&document)?;
    let mut reading = Reading::default();
    let Some(root) = document.tree().root() else {
        return Ok(reading);
    };
    let root = SourceValue::of_yaml(text, document.tree(), root);
    let empty = SourceValue::of_text("", 0..0);
    let list = root.get("tasks").or_else(|| root.get("nodes")).unwrap_or(&empty);
    let defaults = root.get("defaults").unwrap_or(&empty);
    let mut edges: HashMap<String, Vec<SourceLink>> = HashMap::new();
    for edge in root.get("edges").map(SourceValue::items).unwrap_or_default() {
        if let (Some(from), Some(to)) = (edge.get("from"), edge.get("to"))
            && let (Some(key), Some(dependent)) = (from.word(), to.word())
        {
            edges.entry(dependent).or_default().push(SourceLink { key, at: from.at.clone() });
        }
    }
    for entry in root.entries() {
        match entry.name.as_str() {
            "tasks" | "nodes" | "edges" | "defaults" => {}
            "meta" => {
                let why = "its counts are never trusted";
                reading.lose(None, "meta", why, entry.key_at.clone());
            }
            _ => reading.top(entry),
        }
    }
    reading.is_empty = list.is_list() && list.items().is_empty();
    for item in list.items() {
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        for entry in item.entries() {
            builder.take(&mut reading, entry, role(&entry.name));
        }
        for entry in defaults.entries() {
            if item.get(&entry.name).is_none() {
                builder.take(&mut reading, entry, role(&entry.name));
            }
        }
        if let Some(list) = item.get("depends_on") {
            builder.task.depends_on.extend(links(list));
        }
        let key = builder.task.key.clone();
        builder.task.depends_on.extend(edges.remove(&key).unwrap_or_default());
        builder.finish(&mut reading);
    }
    Ok(reading)
}

/// The fields of the graph keep their meaning; all others are kept.
fn role(name: &str) -> FieldRole {
    match name {
        "id" => FieldRole::Id,
        "title" => FieldRole::Title,
        "description" => FieldRole::Description,
        "status" => FieldRole::Status,
        "priority" => FieldRole::Priority,
        "tags" => FieldRole::Tags,
        "story" => FieldRole::Story,
        "milestone" => FieldRole::Milestone,
        "notes" => FieldRole::Notes,
        "completed_at" => FieldRole::CompletedAt,
        "depends_on" => FieldRole::Skipped,
        "claimed_at" | "claimed_by" => {
            FieldRole::Dropped("a claim belongs to a run of the other graph")
        }
        "source" => FieldRole::Dropped("the task comes from the other graph now"),
        _ => FieldRole::Other,
    }
}
