//! The executor of each process of an attempt.

use std::time::Duration;

use super::{Runner, start::ProcessKind};
use crate::{
    adapters::process::ProcessSpec,
    core::{
        executor::{Executor, ExecutorKind},
        graph::load::fields::RESOURCES,
        run::command::CheckPurpose,
    },
    project::{
        attempt::AttemptRecord,
        executors,
        placement::{self, PlacedProcess, ProcessFacts},
    },
};

impl Runner {
    /// Returns the executor of a process of an attempt.
    ///
    /// # Errors
    /// The settings have changed and do not know it any more.
    pub(super) fn executor_of(
        &self,
        record: &AttemptRecord,
        kind: &ProcessKind,
    ) -> Result<Executor, String> {
        let config = &self.workspace.config;
        let own = executors::find(config, record.run_on.as_deref());
        let own = own.map_err(|error| format!("{error:#}"))?;
        let is_trial = matches!(kind, ProcessKind::Check(CheckPurpose::Trial, ..));
        if !is_trial {
            return Ok(own);
        }
        match (&config.verify_on, &own.kind) {
            (Some(name), _) => {
                executors::find(config, Some(name)).map_err(|error| format!("{error:#}"))
            }
            // What keeps an agent in, or gives it its tools, is right for what it wrote.
            (None, ExecutorKind::Sandbox(_) | ExecutorKind::Container(_)) => Ok(own),
            (
                None,
                ExecutorKind::Local
                | ExecutorKind::Slurm(_)
                | ExecutorKind::Ssh(_)
                | ExecutorKind::Command(_),
            ) => Ok(Executor::local()),
        }
    }

    /// Returns a process of an attempt as this executor starts it.
    ///
    /// # Errors
    /// The executor cannot run it; a message for a person.
    pub(super) fn placed(
        &self,
        record: &AttemptRecord,
        executor: &Executor,
        spec: &ProcessSpec,
        limit: Duration,
    ) -> Result<PlacedProcess, String> {
        let facts = ProcessFacts {
            mark: record.mark(),
            slot: spec.dir.clone(),
            base: record.base.clone(),
            task_dir: self.workspace.root().join(self.workspace.task_dir(&record.task_id)),
            record: self.workspace.state.attempt(&record.name()),
            agent: record.call.as_ref().map(|call| call.name.clone()),
            limit: Some(limit),
            resources: self.task_of(record).and_then(|task| task.extra.get(RESOURCES).cloned()),
        };
        placement::placed(&self.workspace, executor, &facts, spec.clone())
    }
}
