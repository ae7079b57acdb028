//! Reads `prd.json`: stories with `passes`, `acceptanceCriteria` and `dependsOn`.

use super::{builder::TaskBuilder, fields::Reading, json, value::SourceValue};
use crate::diagnostic::Diagnostic;

/// The names of the list of stories.
pub(super) const LISTS: [&str; 8] =
    ["userStories", "user_stories", "stories", "features", "requirements", "tasks", "items", "prd"];

pub(super) fn read(text: &str) -> Result<Reading, Vec<Diagnostic>> {
    let root = json::value(text)?;
    let mut reading = Reading::default();
    let list = stories(&root);
    for entry in root.entries() {
        if list.is_none_or(|list| entry.value.at != list.at) {
            reading.top(entry);
        }
    }
    let Some(list) = list else {
        let fault = Diagnostic::error("there is no list of stories", root.at.start..root.at.start);
        return Err(vec![fault.help("a `prd.json` has `userStories: [{id, title, …}]`")]);
    };
    reading.is_empty = list.items().is_empty();
    for item in list.items() {
        if !item.is_map() {
            reading.lose(None, "story", "it is not an object", item.at.clone());
            continue;
        }
        let mut builder = TaskBuilder::new(item.at.start..item.at.start + 1);
        builder.take_all(&mut reading, item, |_| None);
        // The list of features of a harness has no titles: `description` is one line.
        if item.get("title").is_none()
            && item.get("name").is_none()
            && let Some(line) = item.word_of(&["description"])
        {
            builder.set_title(line.lines().next().unwrap_or_default());
        }
        builder.finish(&mut reading);
    }
    Ok(reading)
}

fn stories(root: &SourceValue) -> Option<&SourceValue> {
    if root.is_list() {
        return Some(root);
    }
    LISTS.iter().filter_map(|name| root.get(name)).find(|value| value.is_list())
}
