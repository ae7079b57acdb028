//! How a process of an attempt gets to its executor.

use std::path::PathBuf;

use serde_json::Value;

use crate::{
    adapters::process::{Carrier, ProcessSpec},
    core::{
        commit_id::CommitId,
        executor::{Executor, ExecutorKind, Placement},
    },
    project::workspace::Workspace,
};

/// A process as its executor starts it.
pub struct PlacedProcess {
    /// The process.
    pub spec: ProcessSpec,
    /// The way to it, if it runs behind a worker.
    pub carrier: Option<Carrier>,
    /// Where it runs, if that is not this machine as it is.
    pub placement: Option<Placement>,
}

impl PlacedProcess {
    /// A process on this machine as it is.
    pub fn here(spec: ProcessSpec) -> PlacedProcess {
        PlacedProcess { spec, carrier: None, placement: None }
    }
}

/// What an executor must know about a process.
pub struct ProcessFacts {
    /// What its processes are recognized by, such as `r1.a.2`.
    pub mark: String,
    /// The slot in which it works.
    pub slot: PathBuf,
    /// The commit from which the work in the slot starts.
    pub base: Option<CommitId>,
    /// The folder of the task, in which it reports.
    pub task_dir: PathBuf,
    /// What the task needs of a cluster.
    pub resources: Option<Value>,
}

/// Returns a process as this executor starts it.
///
/// # Errors
/// The executor cannot run it; a message for a person.
pub fn placed(
    workspace: &Workspace,
    executor: &Executor,
    facts: &ProcessFacts,
    spec: ProcessSpec,
) -> Result<PlacedProcess, String> {
    match &executor.kind {
        ExecutorKind::Local => Ok(PlacedProcess::here(spec)),
        other => Err(format!("{other:?} {:?} {:?}", facts.mark, workspace.root())),
    }
}
