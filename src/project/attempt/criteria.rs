//! What the work of an attempt must satisfy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    core::{
        graph::{
            TaskGraph,
            task::{CommitRule, Status, Task},
        },
        history::TaskHistory,
        proof::policy::ProofPolicy,
    },
    project::workspace::Workspace,
};

/// The acceptance criteria of an attempt, as the task had them at its start: an agent may edit the
/// graph, but must not choose its own criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcceptanceCriteria {
    verify: Vec<String>,
    commit: CommitRule,
    output: Option<Value>,
    #[serde(default)]
    proof: Option<ProofPolicy>,
}

impl AcceptanceCriteria {
    /// Returns the current criteria of a task. `verify` has the commands that must succeed.
    pub fn of(task: &Task, verify: Vec<String>) -> AcceptanceCriteria {
        let output = task.extra.get("output").cloned();
        AcceptanceCriteria { verify, commit: task.commit, output, proof: task.proof }
    }

    /// Returns the commands that must succeed.
    pub fn verify(&self) -> &[String] {
        &self.verify
    }

    /// Returns the task with these criteria.
    pub fn applied(&self, task: &Task) -> Task {
        let mut task = task.clone();
        (task.verify, task.verify_only) = (Vec::new(), Some(self.verify.clone()));
        (task.commit, task.proof) = (self.commit, self.proof);
        match self.output.clone() {
            Some(output) => task.extra.insert("output".to_owned(), output),
            None => task.extra.remove("output"),
        };
        task
    }
}

/// The commands that must succeed before a task of a graph is complete, as its history has it: also
/// those of complete tasks that its earlier work made fail.
pub fn required(
    workspace: &Workspace,
    graph: &TaskGraph,
    task: &Task,
    past: &TaskHistory,
) -> Vec<String> {
    let is_kept = |command: &String| {
        let mut complete = graph.tasks().iter().filter(|other| other.status == Status::Complete);
        complete.any(|other| workspace.verify_of(other).contains(command))
    };
    let mut required = workspace.verify_of(task);
    for command in &past.owed {
        if !required.contains(command) && is_kept(command) {
            required.push(command.clone());
        }
    }
    required
}
