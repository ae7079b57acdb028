//! The process to start for an attempt: the command, its environment and its files.

use std::{env, path::Path};

use crate::{
    adapters::{
        process::{NESTED, ProcessSpec},
        service_manager,
    },
    core::{
        agents::agent_command::AgentCommand,
        run::command::{CheckPurpose, FollowUp},
    },
    project::{attempt::AttemptRecord, workspace::Workspace},
};

/// The kind of a process of an attempt.
pub(super) enum ProcessKind {
    /// The agent; with another prompt than its first, if so.
    Agent(Option<FollowUp>),
    /// A command: its purpose, its number among the commands of that purpose, and its text.
    Check(CheckPurpose, usize, String),
}

impl ProcessKind {
    /// Whether the agent of its attempt has worked before.
    pub(super) fn follows_work(&self) -> bool {
        self.verifies() || matches!(self, ProcessKind::Agent(Some(_)))
    }

    /// Whether it verifies the work of an attempt.
    pub(super) fn verifies(&self) -> bool {
        match self {
            ProcessKind::Check(CheckPurpose::Verify | CheckPurpose::Trial(_), ..) => true,
            ProcessKind::Check(CheckPurpose::Setup, ..) | ProcessKind::Agent(_) => false,
        }
    }
}

/// Returns the agent process of an attempt.
pub(super) fn agent(
    workspace: &Workspace,
    record: &AttemptRecord,
    call: &AgentCommand,
) -> ProcessSpec {
    let root = workspace.root();
    let task_dir = root.join(record.folder(workspace)).display().to_string();
    let mut env = vec![
        ("RALPH_TASK_ID".to_owned(), record.task_id.to_string()),
        ("RALPH_ATTEMPT".to_owned(), record.attempt.to_string()),
        ("RALPH_RUN_ID".to_owned(), record.run_id.clone()),
        ("RALPH_ATTEMPT_ID".to_owned(), record.mark()),
        ("RALPH_TASK_DIR".to_owned(), task_dir.clone()),
        ("TASK_FOLDER".to_owned(), task_dir),
    ];
    // For the advice to rewrite commits.
    env.extend(record.base.as_ref().map(|base| ("RALPH_BASE".to_owned(), base.to_string())));
    // A `ralph` that the agent runs must use the same graph file and the same loop.
    if let Some(graph) = workspace.other_graph() {
        env.push(("RALPH_GRAPH".to_owned(), graph.display().to_string()));
    }
    if let Some(slot) = &record.slot {
        env.push(("RALPH_SLOT".to_owned(), slot.path.display().to_string()));
        env.push(ceiling(&slot.path));
    }
    if let Some(name) = workspace.place.name() {
        env.push(("RALPH_LOOP".to_owned(), name.to_string()));
    }
    let config = workspace.layers.named();
    env.extend(config.map(|path| ("RALPH_CONFIG".to_owned(), path.display().to_string())));
    env.extend(without_gc().into_iter().chain(call.env.clone()));
    ProcessSpec {
        argv: call.argv.clone(),
        dir: record.slot.as_ref().map_or(root, |slot| &slot.path).to_owned(),
        env,
        env_remove: removed(),
        stdin: record.file(workspace, "prompt.md"),
        stdout: record.file(workspace, "stdout"),
        stderr: record.file(workspace, "stderr"),
    }
}

/// Without its git directory, a slot must not count as part of another repository.
fn ceiling(slot: &Path) -> (String, String) {
    let above = slot.parent().unwrap_or(Path::new("/"));
    ("GIT_CEILING_DIRECTORIES".to_owned(), above.display().to_string())
}

/// The variables that an agent does not get.
fn removed() -> Vec<String> {
    // The last variables belong to an attempt that this process may itself be part of.
    let last = ["RALPH_PARENT_RUN_ID", "RALPH_LOOP", "RALPH_SLOT"];
    NESTED.into_iter().chain(service_manager::VARIABLES).chain(last).map(str::to_owned).collect()
}

/// Returns a shell command of an attempt, run in `dir` with its output in `log`.
pub(super) fn check(mut agent: ProcessSpec, command: &str, dir: &Path, log: &Path) -> ProcessSpec {
    // Checks verify the slot, also where work lands.
    let (ceiling, above) = ceiling(dir);
    for (name, value) in &mut agent.env {
        match name.as_str() {
            "RALPH_SLOT" => *value = dir.display().to_string(),
            name if name == ceiling => value.clone_from(&above),
            _ => {}
        }
    }
    ProcessSpec {
        argv: ["sh", "-c", command].map(str::to_owned).to_vec(),
        stdin: "/dev/null".into(),
        stdout: log.to_owned(),
        stderr: log.to_owned(),
        dir: dir.to_owned(),
        ..agent
    }
}

/// Git's background maintenance calls `setsid` and outlives the attempt that caused it.
fn without_gc() -> Vec<(String, String)> {
    let count: usize =
        env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let off = [("gc.auto", "0"), ("maintenance.auto", "false")];
    let mut env = vec![("GIT_CONFIG_COUNT".to_owned(), (count + off.len()).to_string())];
    for (at, (key, value)) in (count..).zip(off) {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key.to_owned()));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value.to_owned()));
    }
    env
}
