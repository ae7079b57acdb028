//! The interface between the loop and its reporters.
//!
//! A reporter only consumes records. The loop does not know which reporters exist. All reporters
//! receive the same records in the same order, so none can disagree with another. A reporter that
//! fails to write its output does not fail the run.

use std::time::Duration;

use crate::{
    core::{event::record::Record, graph::task::TaskId, select::View},
    project::config::Config,
};

/// The status of an agent that has not printed anything yet.
pub const AT_WORK: &str = "the agent is at work";

/// A consumer of the records of a run.
pub trait Reporter {
    /// Receives a record and the view that includes it.
    fn record(&mut self, record: &Record, view: &View<'_>);

    /// Receives the current activity of the process of an attempt. The text comes from the process
    /// and is not sanitized.
    fn doing(&mut self, _id: &TaskId, _doing: &str) {}

    /// Receives a turn of the loop.
    fn tick(&mut self) {}

    /// Receives changed settings.
    fn settle(&mut self, _config: &Config) {}

    /// Returns whether the reporter still has work that the ended run should wait for.
    fn is_busy(&mut self) -> bool {
        false
    }

    /// Returns the interval at which the reporter needs `tick`.
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
}
