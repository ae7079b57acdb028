//! Agents and executors that unfinished tasks name and that do not exist: no attempt could start.

use crate::{
    adapters::process,
    core::{
        diagnostic::{Diagnostic, visible},
        executor::Executor,
        graph::{lint::places, task::Task},
        select::roster::Roster,
    },
    project::{
        executors,
        graph_file::{GraphFile, Rejected},
        workspace::Workspace,
    },
};

/// Returns the errors in the names of agents. Other machines cannot be checked, so their tasks are
/// left out.
pub fn of_agents(file: &GraphFile, workspace: Option<&Workspace>) -> Vec<Diagnostic> {
    let roster = workspace.map_or_else(Roster::default, |it| it.policy().roster);
    let root = workspace.map_or_else(|| ".".into(), |it| it.root().to_owned());
    let has_program = |word: &str| process::resolve(word, &root).is_ok();
    let is_here = |task: &Task| {
        workspace.is_none_or(|workspace| executors::here(workspace, &[task], None).is_some())
    };
    let place = places(file.document());
    let open = unfinished(file).filter(|(_, task)| is_here(task));
    let fields = open.flat_map(|(number, task)| {
        [(number, "agent", &task.agents), (number, "escalate", &task.escalate)]
    });
    let faults = fields.filter_map(|(number, field, calls)| {
        let fault = roster.fault(calls).or_else(|| roster.misspelled(calls, &has_program))?;
        let text = format!("`{field}`: {}", visible(&fault.text));
        Some(Diagnostic::error(text, place(number, field)))
    });
    faults.collect()
}

/// Returns the errors in the names of executors.
pub fn of_executors(file: &GraphFile, workspace: &Workspace) -> Vec<Diagnostic> {
    let place = places(file.document());
    let faults = unfinished(file).filter_map(|(number, task)| {
        let why = Executor::find(task.run_on.as_deref()?, &workspace.config.executors).err()?;
        Some(Diagnostic::error(format!("`run_on`: {why}"), place(number, "run_on")))
    });
    faults.collect()
}

fn unfinished(file: &GraphFile) -> impl Iterator<Item = (usize, &Task)> {
    file.graph().tasks().iter().enumerate().filter(|(_, task)| !task.status.is_over())
}

/// Returns the error for a graph with these errors, if there are any.
pub fn rejected(file: &GraphFile, faults: Vec<Diagnostic>) -> Option<Box<Rejected>> {
    if faults.is_empty() {
        return None;
    }
    let faults = [file.warnings().to_vec(), faults].concat();
    let (name, text) = (file.name().to_owned(), file.text().to_owned());
    Some(Box::new(Rejected { name, text, faults }))
}
