//! The effect of each event: how it changes the history, whom it notifies, and whether its line
//! must survive a power cut.

mod attempt;
mod ended;
mod graph;
mod landing;
mod request;
mod run;
mod schedule;

use super::History;
use crate::{
    event::{Event, record::Record},
    notification_kind::NotificationKind,
};

/// The effect of an event. The defaults are those of an event that changes nothing.
pub trait Effect {
    /// Changes the history.
    fn apply(&self, _record: &Record, _history: &mut History) {}

    /// The kind of notification that it sends, if it sends one.
    fn notification(&self) -> Option<NotificationKind> {
        None
    }

    /// Whether its line must survive a power cut, because the rest follows from it.
    fn is_durable(&self) -> bool {
        false
    }

    /// Whether a person said it once, outside of a run. The journal may be rotated before the next
    /// run saves its effect.
    fn is_said_once(&self) -> bool {
        false
    }
}

impl Event {
    /// Its effect.
    pub fn effect(&self) -> &dyn Effect {
        match self {
            Event::Ended(event) => event,
            Event::Run(event) => event,
            Event::Request(event) => event,
            Event::Attempt(event) => event,
            Event::Check(event) => event,
            Event::Executor(event) => event,
            Event::Landing(event) => event,
            Event::Graph(event) => event,
            Event::Schedule(event) => event,
        }
    }
}
