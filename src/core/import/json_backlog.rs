//! Reads backlogs in JSON: `prd.json`, the JSONL of beads, and the `tasks.json` of task-master.

use super::{
    SourceLink,
    builder::{Reading, TaskBuilder},
    fields::{FieldRole, clipped, links},
    value::{SourceEntry, SourceValue},
};
use crate::diagnostic::Diagnostic;

/// The names of the list of stories.
pub(super) const LISTS: [&str; 8] =
    ["userStories", "user_stories", "stories", "features", "requirements", "tasks", "items", "prd"];

/// Reads stories with `passes`, `acceptanceCriteria` and `dependsOn`.
pub(super) fn prd(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let root = SourceValue::of_json(text)?;
    let mut reading = Reading::default();
    let whole = Some(&root).filter(|root| root.is_list());
    let Some(list) = whole.or_else(|| LISTS.iter().find_map(|name| root.list(name))) else {
        let fault = Diagnostic::error("there is no list of stories", root.at.start..root.at.start);
        return Err(vec![fault.help("a `prd.json` has `userStories: [{id, title, …}]`")]);
    };
    for entry in root.entries().iter().filter(|entry| entry.value.at != list.at) {
        reading.top(entry);
    }
    reading.is_empty = list.items().is_empty();
    for item in list.items() {
        let Some(mut builder) = TaskBuilder::of(&mut reading, item, "story", |_| None) else {
            continue;
        };
        // The list of features of a harness has no titles: `description` is one line.
        if item.get("title").is_none()
            && item.get("name").is_none()
            && let Some(line) = item.word_of(&["description", "content"])
        {
            builder.set_title(line.lines().next().unwrap_or_default());
        }
        builder.finish(&mut reading);
    }
    Ok(reading)
}

/// Reads beads. Only dependencies of some types make a task wait.
pub(super) fn beads(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let mut reading = Reading::default();
    let items = SourceValue::of_json_lines(text)?;
    reading.is_empty = items.is_empty();
    for item in items {
        let role = |name: &str| {
            ["dependencies", "dependents", "estimated_minutes"]
                .contains(&name)
                .then_some(FieldRole::Skipped)
        };
        let Some(mut builder) = TaskBuilder::of(&mut reading, &item, "issue", role) else {
            continue;
        };
        if let Some(minutes) = item.word_of(&["estimated_minutes"]) {
            builder.set("estimate", format!("{minutes}m").into());
        }
        for dependency in item.get("dependencies").map(SourceValue::items).unwrap_or_default() {
            bead_dependency(&mut builder, dependency);
        }
        builder.finish(&mut reading);
    }
    Ok(reading)
}

fn bead_dependency(builder: &mut TaskBuilder, dependency: &SourceValue) {
    let named =
        || ["depends_on_id", "depends_on", "id"].iter().find_map(|name| dependency.get(name));
    let target = if dependency.is_map() { named() } else { Some(dependency) };
    let Some(link) = target.and_then(SourceValue::link) else {
        return builder.lose("dependencies", "it names no issue", dependency.at.clone());
    };
    let kind = dependency.word_of(&["type", "dependency_type"]);
    match kind.as_deref().unwrap_or("blocks") {
        "blocks" | "blocked-by" | "blocked_by" | "conditional-blocks" | "waits-for" => {
            builder.task.depends_on.push(link);
        }
        "parent-child" | "parent" => builder.task.parent = Some(link),
        other => {
            let (kind, key) = (clipped(other), clipped(&link.key));
            let why = format!("the type `{kind}` does not make a task wait (`{key}`)");
            builder.lose("dependencies", why, link.at);
        }
    }
}

/// Reads the tasks of task-master: with or without tags, with subtasks.
pub(super) fn task_master(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let root = SourceValue::of_json(text)?;
    let mut reading = Reading::default();
    if let Some(list) = if root.is_list() { Some(&root) } else { root.list("tasks") } {
        for entry in root.entries().iter().filter(|entry| entry.name != "tasks") {
            reading.top(entry);
        }
        reading.is_empty = list.items().is_empty();
        TaskMasterList { list, tag: None, prefix: "", parent: None }.read(&mut reading);
        return Ok(reading);
    }
    let tags = root.entries().iter().filter_map(|entry| entry.value.list("tasks"));
    let tags: Vec<&SourceValue> = tags.collect();
    reading.is_empty = !tags.is_empty() && tags.iter().all(|list| list.items().is_empty());
    for entry in root.entries() {
        let Some(list) = entry.value.list("tasks") else {
            reading.top(entry);
            continue;
        };
        // Numbers start again in each tag.
        let is_main = tags.len() == 1 || entry.name == "master";
        let prefix = if is_main { String::new() } else { format!("{}-", entry.name) };
        let tag = (tags.len() > 1 || entry.name != "master").then_some(entry.name.as_str());
        TaskMasterList { list, tag, prefix: &prefix, parent: None }.read(&mut reading);
        let others = entry.value.entries().iter().filter(|other| other.name != "tasks");
        for SourceEntry { name, key_at, .. } in others {
            let field = format!("{name} of the tag");
            reading.lose_of(&entry.name, &field, "a tag is not a task", key_at.clone());
        }
    }
    Ok(reading)
}

/// A list of tasks of task-master, or of the subtasks of one.
struct TaskMasterList<'a> {
    list: &'a SourceValue,
    /// The label of its tasks.
    tag: Option<&'a str>,
    /// What stands before its numbers.
    prefix: &'a str,
    parent: Option<&'a SourceLink>,
}

impl TaskMasterList<'_> {
    fn read(&self, reading: &mut Reading) {
        for item in self.list.items() {
            let role = |name: &str| {
                ["id", "subtasks", "dependencies", "parentTaskId", "parentId"]
                    .contains(&name)
                    .then_some(FieldRole::Skipped)
            };
            let Some(mut builder) = TaskBuilder::of(reading, item, "task", role) else { continue };
            if let Some(id) = item.get("id").and_then(SourceValue::link) {
                builder.task.key = self.key(&id.key, true);
                builder.task.at = id.at;
            }
            for link in item.get("dependencies").map(links).unwrap_or_default() {
                // A subtask names its siblings by number alone.
                let is_it = |item: &SourceValue| item.word_of(&["id"]).as_ref() == Some(&link.key);
                let is_sibling = self.list.items().iter().any(is_it);
                let key = self.key(&link.key, is_sibling);
                builder.task.depends_on.push(SourceLink { key, at: link.at });
            }
            builder.task.parent = self.parent.cloned();
            builder.tag(self.tag.map(str::to_owned).into_iter().collect());
            let own = SourceLink::new(&builder.task.key, &builder.task.at);
            builder.finish(reading);
            if let Some(list) = item.get("subtasks") {
                TaskMasterList { list, parent: Some(&own), ..*self }.read(reading);
            }
        }
    }

    /// The key of a task of this list, or of another one.
    fn key(&self, number: &str, is_here: bool) -> String {
        match self.parent {
            Some(parent) if is_here && !number.contains('.') => format!("{}.{number}", parent.key),
            _ => format!("{}{number}", self.prefix),
        }
    }
}
