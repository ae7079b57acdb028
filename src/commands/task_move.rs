//! `ralph task-move`: moves a task to another place in the graph file.

use anyhow::Result;

use super::{
    Invocation,
    task_editor::{ChangeCommand, TaskEditor, unsupported},
};
use crate::{
    cli::{PlaceArgs, TaskMoveArgs},
    core::{
        exit::Exit,
        graph::task_edit::{TaskPlace, move_to},
    },
    project::{graph_file::GraphFile, workspace::find},
};

/// Moves a task.
///
/// # Errors
/// An unknown task; inside an attempt.
pub fn run(invocation: &Invocation, options: &TaskMoveArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "task-move")?;
    let (id, _) = find(&editor.file, &options.id)?;
    let other = |typed: &str| Ok::<_, anyhow::Error>(find(&editor.file, typed)?.0);
    let (place, where_to) = match &options.place {
        PlaceArgs { before: Some(typed), .. } => {
            let other = other(typed)?;
            (TaskPlace::Before(other.clone()), format!("before {other}"))
        }
        PlaceArgs { after: Some(typed), .. } => {
            let other = other(typed)?;
            (TaskPlace::After(other.clone()), format!("after {other}"))
        }
        PlaceArgs { first: true, .. } => (TaskPlace::First, "to the start".to_owned()),
        PlaceArgs { .. } => (TaskPlace::Last, "to the end".to_owned()),
    };
    let name = editor.file.name().to_owned();
    let edit =
        |file: &GraphFile| move_to(file.text(), &id, &place).map(Some).map_err(unsupported(&name));
    let found = editor.change(&ChangeCommand::of("task-move", std::slice::from_ref(&id)), edit)?;
    let line = if found.is_empty() {
        format!("{id} is already there")
    } else {
        format!("{id}: moved {where_to} in {name}")
    };
    editor.print(&id, options.json, &line)?;
    Ok(Exit::Success)
}
