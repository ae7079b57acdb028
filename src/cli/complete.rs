//! Shell completion of commands, flags, task ids and names of settings.
//!
//! The shell calls this program for the candidates, so that they are always current. An error yields
//! no candidates: a shell cannot show it.

use std::{
    collections::BTreeSet,
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
    core::{
        graph::{TaskGraph, task::Task},
        loop_paths::LoopPaths,
    },
    project::{
        config::Config,
        slot_pool::{self, SlotPool},
        workspace::Workspace,
    },
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

fn of_graph(found: impl Fn(&TaskGraph) -> Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let file = workspace().and_then(|workspace| workspace.graph().ok());
    file.map(|file| found(file.graph())).unwrap_or_default()
}

/// Task ids, each with its title.
pub(super) fn ids() -> Vec<CompletionCandidate> {
    let candidate = |task: &Task| {
        CompletionCandidate::new(task.id.as_str()).help(Some(task.title.clone().into()))
    };
    of_graph(|graph| graph.tasks().iter().map(candidate).collect())
}

fn words<'a>(words: impl Iterator<Item = &'a String>) -> Vec<CompletionCandidate> {
    words.collect::<BTreeSet<_>>().into_iter().map(CompletionCandidate::new).collect()
}

/// Stories in the graph.
pub(super) fn stories() -> Vec<CompletionCandidate> {
    of_graph(|graph| words(graph.tasks().iter().filter_map(|task| task.story.as_ref())))
}

/// Milestones in the graph.
pub(super) fn milestones() -> Vec<CompletionCandidate> {
    of_graph(|graph| words(graph.tasks().iter().filter_map(|task| task.milestone.as_ref())))
}

/// Tags in the graph.
pub(super) fn tags() -> Vec<CompletionCandidate> {
    of_graph(|graph| words(graph.tasks().iter().flat_map(|task| &task.tags)))
}

/// Names of plain loops.
pub(super) fn loops() -> Vec<CompletionCandidate> {
    let names = workspace().and_then(|workspace| workspace.loops().ok()).unwrap_or_default();
    names.iter().map(|name| CompletionCandidate::new(name.as_str())).collect()
}

/// Names of slots.
pub(super) fn slots() -> Vec<CompletionCandidate> {
    let Some(workspace) = workspace() else {
        return Vec::new();
    };
    let pool = SlotPool::of(&workspace);
    pool.entries().iter().map(|slot| CompletionCandidate::new(slot_pool::name(slot))).collect()
}

/// Names of settings.
pub(super) fn settings() -> Vec<CompletionCandidate> {
    words(Config::keys().iter())
}
