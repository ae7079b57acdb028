//! Changes to the graph file and the settings during a run, both by others and by the run itself.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{HALF_SAVED, Runner, harm::GraphBefore};
use crate::{
    core::{
        event::{Cause, Event},
        graph::task::TaskId,
        select::Policy,
    },
    project::{
        fatal,
        graph_file::{Foreign, GraphFile, Rejected, Write},
        workspace,
    },
};

/// The graph file of a run, and what is known about it.
pub(super) struct RunGraph {
    pub(super) file: GraphFile,
    /// The graph before the running attempt.
    pub(super) before: Option<GraphBefore>,
    /// Whether the journal already has that the file is unreadable.
    pub(super) reported: bool,
}

impl RunGraph {
    pub(super) fn new(file: GraphFile) -> RunGraph {
        RunGraph { file, before: None, reported: false }
    }
}

impl Runner {
    /// Rereads the graph file and records the changes of others.
    pub(super) fn refresh(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.graph.file.refresh() {
                Ok(None) => return Ok(()),
                Ok(Some(foreign)) => {
                    self.graph.reported = false;
                    self.announce_graph()?;
                    return self.note(foreign, self.edited());
                }
                // While an attempt runs, the last valid graph is used; the end of the attempt
                // repairs the file.
                Err(rejected) if self.run.attempts().any_process() => {
                    return self.report_bad_graph(&rejected);
                }
                Err(rejected) if began.elapsed() > HALF_SAVED => {
                    return Err(workspace::refused(&rejected));
                }
                Err(rejected) => {
                    self.report_bad_graph(&rejected)?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Reloads changed settings between attempts: an attempt is judged by the settings of its
    /// start. If the new settings are invalid, the last valid ones stay.
    pub(super) fn reload_settings(&mut self) -> Result<()> {
        if self.run.attempts().any_process() && !self.is_isolated() {
            return Ok(());
        }
        let (config, changed) = match self.workspace.layers.refresh() {
            Ok(None) => return Ok(()),
            Ok(Some(new)) => new,
            Err(error) => {
                let error = fatal::summary(&error);
                return self.emit(None, Event::SettingsRejected { error });
            }
        };
        self.workspace.config = config;
        for reporter in &mut self.reporters {
            reporter.settle(&self.workspace.config);
        }
        let stop = self.policy.stop;
        self.policy = Policy { stop, ..self.options.policy(&self.workspace) };
        self.graph.file.inherit(self.policy.inherit);
        if changed.is_empty() { Ok(()) } else { self.emit(None, Event::SettingsLoaded { changed }) }
    }

    /// Reports once that the graph file is unreadable.
    pub(super) fn report_bad_graph(&mut self, rejected: &Rejected) -> Result<()> {
        if std::mem::replace(&mut self.graph.reported, true) {
            return Ok(());
        }
        self.emit(None, Event::GraphRejected { error: rejected.summary() })
    }

    /// Returns the cause to record for an edit that is found now.
    pub(super) fn edited(&self) -> Cause {
        if self.run.attempts().any_process() { Cause::EditedDuringAttempt } else { Cause::Edited }
    }

    /// Records the changes of others in the graph file.
    pub(super) fn note(
        &mut self,
        foreign: impl IntoIterator<Item = Foreign>,
        cause: Cause,
    ) -> Result<()> {
        for Foreign { task_id, old, new } in foreign {
            let event = Event::StatusChanged { old, new, cause, reason: None };
            let records = self.store.emit(None, Some(&task_id), event)?;
            self.publish(&records);
        }
        Ok(())
    }

    /// Writes a status to the graph file and records the change.
    pub(super) fn set(
        &mut self,
        about: (&TaskId, u32),
        write: Write<'_>,
        cause: Cause,
    ) -> Result<()> {
        let (id, _) = about;
        let status = |file: &GraphFile| {
            file.graph().number(id).map(|number| file.graph().task(number).status)
        };
        let old = status(&self.graph.file);
        let foreign =
            self.graph.file.write(&self.workspace.state, id, write).map_err(|error| match error
                .downcast::<Rejected>(
            ) {
                Ok(rejected) => workspace::refused(&rejected),
                Err(error) => error,
            })?;
        self.note(foreign, self.edited())?;
        let new = Some(write.status());
        if old == new {
            return Ok(());
        }
        self.emit(Some(about), Event::StatusChanged { old, new, cause, reason: None })
    }
}
