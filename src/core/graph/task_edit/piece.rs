//! The text of one task, for an editor.

use std::collections::HashSet;

use super::{GraphDraft, read};
use crate::graph::{
    edit::Unsupported,
    merge::value::{Value, ValueShape},
    task::TaskId,
    yaml::Tree,
};

/// Returns the text of one task with the comments directly above it, as if it were the first column
/// of a file.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, or the task is not in it.
pub fn piece(text: &str, id: &TaskId) -> Result<String, Unsupported> {
    let draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let own = &text[list.own(text, list.number_of(id)?)];
    let col = list.col().unwrap_or(0);
    let mut piece = String::with_capacity(own.len());
    for line in own.split_inclusive('\n') {
        let blanks = line.bytes().take(col).take_while(|byte| *byte == b' ').count();
        piece.push_str(&line[blanks..]);
    }
    let piece = piece.replace("\r\n", "\n");
    Ok(if piece.ends_with('\n') { piece } else { piece + "\n" })
}

/// Returns the text with another [`piece`] in place of that of the task.
///
/// # Errors
/// The text is not YAML, its layout does not allow the edit, the task is not in it, or the new piece
/// is not one task with the same id. If the new piece is not YAML, neither is the text returned.
pub fn replace_piece(text: &str, id: &TaskId, new: &str) -> Result<String, Unsupported> {
    let mut draft = GraphDraft::parse(text)?;
    let (name, tasks_node) = draft.tasks()?;
    let list = draft.cut_list(&name, tasks_node, ValueShape::Tasks)?;
    let number = list.number_of(id)?;
    draft.check_unused(&list, &HashSet::from([number]))?;
    let with = match list.col() {
        None => new.trim().replace('\n', draft.newline),
        Some(col) => {
            let line = |line: &str| {
                let pad = if line.trim().is_empty() { 0 } else { col };
                " ".repeat(pad) + line + draft.newline
            };
            new.lines().map(line).collect::<Vec<_>>().concat()
        }
    };
    draft.replace_item(&list, number, with);
    let changed = draft.applied()?;
    // The errors of a text that is not YAML have places in the whole text, for the caller to show.
    if Tree::parse(&changed).is_err() {
        return Ok(changed);
    }
    let (_, value) = read(&changed)?;
    let Some(Value::List(tasks)) = value.get(&name) else {
        return not_one(id);
    };
    let same_count = tasks.len() == list.cut.pieces.len();
    let Some(task) = tasks
        .get(number)
        .filter(|task| same_count && task.get("id").and_then(Value::text) == Some(id.as_str()))
    else {
        return not_one(id);
    };
    draft.list_mut(&name)?[number] = task.clone();
    if value != draft.want {
        return not_one(id);
    }
    Ok(changed)
}

fn not_one<T>(id: &TaskId) -> Result<T, Unsupported> {
    Err(Unsupported { reason: format!("the text is not one task with the id `{id}`") })
}
