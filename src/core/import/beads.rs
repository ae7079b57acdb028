//! Reads the JSONL of beads. Only dependencies of the type `blocks` make a task wait.

use super::{
    SourceLink,
    builder::TaskBuilder,
    fields::{FieldRole, Reading, clipped},
    json,
    value::SourceValue,
};
use crate::diagnostic::Diagnostic;

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let mut reading = Reading::default();
    let items = json::lines(text)?;
    reading.is_empty = items.is_empty();
    for item in items {
        if !item.is_map() {
            reading.lose(None, "issue", "it is not an object", item.at.clone());
            continue;
        }
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        builder.take_all(&mut reading, &item, |name| match name {
            "dependencies" | "dependents" | "estimated_minutes" => Some(FieldRole::Skipped),
            _ => None,
        });
        if let Some(minutes) = item.get("estimated_minutes").and_then(SourceValue::word) {
            builder.set("estimate", serde_json::json!(format!("{minutes}m")));
        }
        dependencies(&mut builder, &item);
        builder.finish(&mut reading);
    }
    Ok(reading)
}

fn dependencies(builder: &mut TaskBuilder, item: &SourceValue) {
    let list = item.get("dependencies").map(SourceValue::items).unwrap_or_default();
    for dependency in list {
        let target =
            ["depends_on_id", "depends_on", "id"].iter().find_map(|name| dependency.get(name));
        let target = if dependency.is_map() { target } else { Some(dependency) };
        let Some((key, at)) = target.and_then(|value| Some((value.word()?, value.at.clone())))
        else {
            builder.lose("dependencies", "it names no issue", false, dependency.at.clone());
            continue;
        };
        let link = SourceLink { key, at };
        let kind =
            dependency.word_of(&["type", "dependency_type"]).unwrap_or_else(|| "blocks".to_owned());
        match kind.as_str() {
            "blocks" | "blocked-by" | "blocked_by" | "conditional-blocks" | "waits-for" => {
                builder.task.depends_on.push(link);
            }
            "parent-child" | "parent" => builder.task.parent = Some(link),
            other => {
                let why = format!(
                    "the type `{}` does not make a task wait (`{}`)",
                    clipped(other),
                    clipped(&link.key)
                );
                builder.lose("dependencies", &why, false, link.at);
            }
        }
    }
}
