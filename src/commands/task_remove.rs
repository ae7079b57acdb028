//! `ralph task-remove`: removes tasks from the graph.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{
    Invocation,
    task_editor::{ChangeCommand, TaskEditor, unsupported},
};
use crate::{
    adapters::terminal,
    cli::TaskRemoveArgs,
    core::{
        exit::{Exit, Failure},
        graph::{
            TaskGraph,
            task::TaskId,
            task_edit::{Relink, relink, remove},
        },
    },
    project::{graph_file::GraphFile, workspace::find},
};

/// How many tasks are named in a message.
const NAMED: usize = 5;

/// Removes tasks.
///
/// # Errors
/// An unknown task; a task with a running attempt; a task on which another depends, unless a flag
/// says what becomes of the dependency; inside an attempt.
pub fn run(invocation: &Invocation, options: &TaskRemoveArgs) -> Result<Exit> {
    let mut editor = TaskEditor::for_person(invocation, "task-remove")?;
    let mut ids: Vec<TaskId> = Vec::new();
    for typed in &options.ids {
        let (id, _) = find(&editor.file, typed)?;
        editor.refuse_if_live(&id)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let name = editor.file.name().to_owned();
    let edit = |file: &GraphFile| {
        let links = links(file.graph(), &ids, options.rewire);
        if !options.detach && !options.rewire && !links.is_empty() {
            return Err(refused(&ids, &links));
        }
        let refuse = unsupported(&name);
        let text = relink(file.text(), &links).map_err(&refuse)?;
        remove(&text, &ids).map(Some).map_err(&refuse)
    };
    let found = editor.change(&ChangeCommand::of("task-remove", &ids), edit)?;
    for change in found {
        let line = if change.new.is_none() {
            format!("{}: removed from {name}", change.id)
        } else {
            let number = editor.number(&change.id)?;
            let graph = editor.file.graph();
            let on: Vec<&str> =
                graph.dependencies(number).map(|at| graph.task(at).id.as_str()).collect();
            let on = if on.is_empty() { "nothing".to_owned() } else { on.join(", ") };
            format!("{}: now depends on {on}", change.id)
        };
        terminal::print(&format!("{line}\n"))?;
    }
    Ok(Exit::Success)
}

/// What becomes of the tasks that depend on removed ones.
fn links(graph: &TaskGraph, ids: &[TaskId], rewire: bool) -> Vec<Relink> {
    let removed: BTreeSet<usize> = ids.iter().filter_map(|id| graph.number(id)).collect();
    let id = |number: usize| graph.task(number).id.clone();
    let dependents: BTreeSet<usize> = removed
        .iter()
        .flat_map(|number| graph.dependents(*number))
        .filter(|number| !removed.contains(number))
        .collect();
    let link = |dependent: usize| {
        let (mut gone, mut add) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<usize> = graph.dependencies(dependent).collect();
        open.retain(|number| removed.contains(number));
        while let Some(number) = open.pop() {
            if !removed.contains(&number) {
                add.insert(number);
            } else if gone.insert(number) {
                open.extend(graph.dependencies(number).filter(|_| rewire));
            }
        }
        Relink {
            id: id(dependent),
            add: add.into_iter().map(id).collect(),
            remove: gone.into_iter().map(id).collect(),
        }
    };
    dependents.into_iter().map(link).collect()
}

fn refused(ids: &[TaskId], links: &[Relink]) -> anyhow::Error {
    let mut names: Vec<String> =
        links.iter().take(NAMED).map(|link| format!("`{}`", link.id)).collect();
    if links.len() > NAMED {
        names.push(format!("{} more", links.len() - NAMED));
    }
    let depend = if links.len() == 1 { "depends" } else { "depend" };
    let on = match ids {
        [one] => format!("`{one}`"),
        _ => "the tasks to remove".to_owned(),
    };
    let message = format!(
        "{} {depend} on {on}; `--detach` removes the dependency, `--rewire` puts what {on} depends \
         on in its place",
        names.join(", ")
    );
    Failure::new(Exit::Error, message).into()
}
