//! What the loop tells its reporters, of which it knows nothing else.
//!
//! A reporter only consumes. The loop never asks which ones there are, and none can disagree with
//! another, because all are told the same records in the same order. Their own output failing is
//! no failure of the run.

use std::time::Duration;

use crate::{
    core::{event::record::Record, graph::task::TaskId, select::View},
    project::config::Config,
};

/// What an agent does that has not said anything yet.
pub const AT_WORK: &str = "the agent is at work";

/// Somebody who is told what happens.
pub trait Reporter {
    /// A fact, and how things stand with it taken in.
    fn record(&mut self, record: &Record, view: &View<'_>);

    /// What the process of the attempt at this task does now. Raw text of a stranger's.
    fn doing(&mut self, _id: &TaskId, _doing: &str) {}

    /// The loop turns.
    fn tick(&mut self) {}

    /// The settings have changed.
    fn settle(&mut self, _config: &Config) {}

    /// The run is over: whether it has still something to do that is worth waiting for.
    fn is_busy(&mut self) -> bool {
        false
    }

    /// How often it wants to be told so.
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
}
