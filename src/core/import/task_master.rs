//! Reads the `tasks.json` of task-master: with or without tags, with subtasks.

use super::{
    SourceLink,
    builder::TaskBuilder,
    fields::{FieldRole, Reading, links},
    json,
    value::{SourceEntry, SourceValue},
};
use crate::diagnostic::Diagnostic;

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let root = json::value(text)?;
    let mut reading = Reading::default();
    if root.is_list() || root.get("tasks").is_some_and(SourceValue::is_list) {
        let list = if root.is_list() { &root } else { root.get("tasks").unwrap_or(&root) };
        for entry in root.entries().iter().filter(|entry| entry.name != "tasks") {
            reading.top(entry);
        }
        reading.is_empty = list.items().is_empty();
        tasks(&mut reading, list, None, "", None);
        return Ok(reading);
    }
    let tags: Vec<&SourceEntry> = root
        .entries()
        .iter()
        .filter(|entry| entry.value.get("tasks").is_some_and(SourceValue::is_list))
        .collect();
    let lists = tags.iter().filter_map(|entry| entry.value.get("tasks"));
    reading.is_empty = !tags.is_empty() && { lists }.all(|list| list.items().is_empty());
    for entry in root.entries() {
        let Some(list) = entry.value.get("tasks").filter(|list| list.is_list()) else {
            reading.top(entry);
            continue;
        };
        // Numbers start again in each tag.
        let is_main = tags.len() == 1 || entry.name == "master";
        let prefix = if is_main { String::new() } else { format!("{}-", entry.name) };
        let tag = (tags.len() > 1 || entry.name != "master").then_some(entry.name.as_str());
        tasks(&mut reading, list, tag, &prefix, None);
        for other in entry.value.entries().iter().filter(|other| other.name != "tasks") {
            let name = format!("{} of the tag", other.name);
            reading.lose(Some(&entry.name), &name, "a tag is not a task", other.key_at.clone());
        }
    }
    Ok(reading)
}

/// Reads a list of tasks, or of subtasks of `parent`.
fn tasks(
    reading: &mut Reading,
    list: &SourceValue,
    tag: Option<&str>,
    prefix: &str,
    parent: Option<&SourceLink>,
) {
    for item in list.items() {
        if !item.is_map() {
            reading.lose(None, "task", "it is not an object", item.at.clone());
            continue;
        }
        let id = item.word_of(&["id"]).unwrap_or_default();
        let key = match parent {
            Some(parent) if !id.contains('.') => format!("{}.{id}", parent.key),
            _ => format!("{prefix}{id}"),
        };
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        builder.take_all(reading, item, |name| match name {
            "id" | "subtasks" | "dependencies" | "parentTaskId" | "parentId" => {
                Some(FieldRole::Skipped)
            }
            _ => None,
        });
        if !id.is_empty() {
            builder.task.key.clone_from(&key);
            builder.task.at = item.get("id").map_or(item.at.clone(), |id| id.at.clone());
        }
        for link in item.get("dependencies").map(links).unwrap_or_default() {
            // A subtask names its siblings by number alone.
            let is_sibling =
                list.items().iter().any(|item| item.word_of(&["id"]).as_ref() == Some(&link.key));
            let key = match parent {
                Some(parent) if is_sibling && !link.key.contains('.') => {
                    format!("{}.{}", parent.key, link.key)
                }
                _ => format!("{prefix}{}", link.key),
            };
            builder.task.depends_on.push(SourceLink { key, at: link.at });
        }
        builder.task.parent = parent.cloned();
        if let Some(tag) = tag {
            builder.tag(vec![tag.to_owned()]);
        }
        let own = SourceLink { key: builder.task.key.clone(), at: builder.task.at.clone() };
        builder.finish(reading);
        if let Some(subtasks) = item.get("subtasks") {
            tasks(reading, subtasks, tag, prefix, Some(&own));
        }
    }
}
