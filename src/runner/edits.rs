//! What others do to the graph file and to the settings while a run goes on, and what the run writes
//! there itself.

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

/// The graph file of a run.
pub(super) struct RunGraph {
    pub(super) file: GraphFile,
    /// The graph before the attempt that runs now.
    pub(super) before: Option<GraphBefore>,
    /// Whether it is journalled already that the file cannot be read.
    pub(super) told: bool,
}

impl RunGraph {
    pub(super) fn new(file: GraphFile) -> RunGraph {
        RunGraph { file, before: None, told: false }
    }
}

impl Runner {
    /// Takes in what others did to the graph file.
    pub(super) fn refresh(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.graph.file.refresh() {
                Ok(None) => return Ok(()),
                Ok(Some(foreign)) => {
                    self.graph.told = false;
                    self.announce_graph()?;
                    return self.note(foreign, self.edited());
                }
                // While an attempt runs the last good one will do; its end sets things right.
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

    /// Takes in what others did to the settings, between attempts: an attempt is judged by those it
    /// began with. After a change that makes them invalid, the last good ones stay.
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

    /// Says that the graph file cannot be read, once.
    pub(super) fn report_bad_graph(&mut self, rejected: &Rejected) -> Result<()> {
        if std::mem::replace(&mut self.graph.told, true) {
            return Ok(());
        }
        self.emit(None, Event::GraphRejected { error: rejected.summary() })
    }

    /// What an edit that is found now is put down to.
    pub(super) fn edited(&self) -> Cause {
        if self.run.attempts().any_process() { Cause::EditedDuringAttempt } else { Cause::Edited }
    }

    /// Puts on record what others changed in the graph file.
    pub(super) fn note(
        &mut self,
        foreign: impl IntoIterator<Item = Foreign>,
        cause: Cause,
    ) -> Result<()> {
        for Foreign { task_id, old, new } in foreign {
            let event = Event::StatusChanged { old, new, cause, reason: None };
            let records = self.store.emit(None, Some(&task_id), event)?;
            self.tell(&records);
        }
        Ok(())
    }

    /// Writes a status and says so.
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
