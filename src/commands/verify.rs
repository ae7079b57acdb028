//! `ralph verify`: runs the verify commands of a task in the foreground.

use anyhow::{Context, Result};

use super::Invocation;
use crate::{
    adapters::{
        process,
        terminal::{self, visible},
    },
    core::{exit::Exit, verdict::Outcome},
    project::workspace::find,
};

/// Runs the commands in order, up to the first failure. Changes no state.
///
/// # Errors
/// An unknown task; a shell that does not start.
pub fn run(invocation: &Invocation, id: &str) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let file = workspace.graph()?;
    let (id, number) = find(&file, id)?;
    let commands = workspace.verify_of(file.graph().task(number));
    if commands.is_empty() {
        terminal::say(&format!(
            "`{id}` has no verify commands; set `verify` for it in `{}`, or for all tasks in \
             `.ralph/config.yaml`",
            file.name()
        ));
        return Ok(Exit::Success);
    }
    for command in &commands {
        terminal::say(&format!("verifying {id}: `{}`", visible(command)));
        let variable = ("RALPH_TASK_ID", id.as_str());
        let outcome =
            process::run_here(command, workspace.standpoint(), variable).context("start `sh`")?;
        if outcome != (Outcome::Exited { exit_code: 0 }) {
            terminal::say(&format!("`{}` {outcome}", visible(command)));
            return Ok(Exit::Error);
        }
    }
    let count = commands.len();
    let all = if count == 1 { "it succeeded".to_owned() } else { format!("all {count} succeeded") };
    terminal::say(&all);
    Ok(Exit::Success)
}
