//! Verify and setup commands that are no valid shell: every attempt would fail with them.

use std::collections::BTreeMap;

use crate::{
    adapters::process,
    core::graph::{TaskGraph, task::Task},
    project::{executors, workspace::Workspace},
};

/// A command that the shell does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellFault {
    /// The command.
    pub command: String,
    /// The shell's message.
    pub why: String,
}

impl ShellFault {
    /// Returns the first one of these commands.
    pub fn first(commands: &[String]) -> Option<ShellFault> {
        commands.iter().find_map(|command| {
            let why = process::shell_fault(command)?;
            Some(ShellFault { command: command.clone(), why })
        })
    }

    /// Returns a sentence about it; `owner` has the command.
    pub fn text(&self, owner: &str) -> String {
        let ShellFault { command, why } = self;
        format!("{owner}: `{command}` is not a valid shell command: {why}")
    }
}

/// Returns the first fault of each unfinished task, by the number of the task. The shells of other
/// machines may accept more, so their tasks are left out.
pub fn of_tasks(graph: &TaskGraph, workspace: Option<&Workspace>) -> BTreeMap<usize, ShellFault> {
    let is_here = |task: &Task| {
        workspace.is_none_or(|workspace| executors::here(workspace, &[task], None).is_some())
    };
    let open = graph.tasks().iter().enumerate().filter(|(_, task)| !task.status.is_over());
    let faults = open.filter_map(|(number, task)| {
        let only = task.verify_only.as_deref().and_then(ShellFault::first);
        let fault = ShellFault::first(&task.verify).or(only)?;
        is_here(task).then_some((number, fault))
    });
    faults.collect()
}

/// Returns the first fault in the settings, as a sentence.
pub fn of_settings(workspace: &Workspace) -> Option<String> {
    let config = &workspace.config;
    let lists = [("verify", &config.verify.0), ("setup", &config.setup.0)];
    lists.into_iter().find_map(|(name, commands)| {
        Some(ShellFault::first(commands)?.text(&format!("`{name}` in the settings")))
    })
}
