//! Shell completion of commands, flags and task ids.
//!
//! The shell calls this program for the candidates, so that they are always current. An error yields
//! no candidates: a shell cannot show it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Command;
use clap_complete::{
    CompletionCandidate,
    env::{CompleteEnv, Shells},
};

use crate::{
    core::{graph::task::Task, loop_paths::LoopPaths},
    project::workspace::Workspace,
};

/// The environment variable that requests completions.
const VARIABLE: &str = "RALPH_COMPLETE";

/// Prints completions if the shell requested them. Returns whether it did.
pub(super) fn answer(words: &[OsString], command: fn() -> Command) -> bool {
    let Ok(here) = env::current_dir() else {
        return false;
    };
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    asked.try_complete(words.to_vec(), Some(&here)).unwrap_or(false)
}

/// The supported shells.
pub(super) fn shells() -> Vec<&'static str> {
    Shells::builtins().names().collect()
}

/// The script that makes a shell ask `program` for completions.
pub fn registration(shell: &str, program: &Path) -> String {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(shell) {
        let program = program.display().to_string();
        let _ = shell.write_registration(VARIABLE, "ralph", "ralph", &program, &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

fn workspace() -> Option<Workspace> {
    Workspace::open(&env::current_dir().ok()?, LoopPaths::default(), graph().as_deref(), None).ok()
}

fn graph() -> Option<PathBuf> {
    let graph = env::var_os("RALPH_GRAPH")?;
    Some(env::current_dir().ok()?.join(graph))
}

/// Task ids, each with its title.
pub(super) fn ids() -> Vec<CompletionCandidate> {
    let candidate = |task: &Task| {
        CompletionCandidate::new(task.id.as_str()).help(Some(task.title.clone().into()))
    };
    let file = workspace().and_then(|workspace| workspace.graph().ok());
    file.map(|file| file.graph().tasks().iter().map(candidate).collect()).unwrap_or_default()
}
