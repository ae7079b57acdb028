//! The effects of the events of `event::graph`.

use crate::{
    event::{GraphEvent, record::Record},
    history::{Effect, History},
};

impl Effect for GraphEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        match self {
            GraphEvent::StatusChanged { new, cause, reason, .. } => {
                history.set_status(record.task_id.as_ref(), *new, *cause, reason.as_deref());
            }
            GraphEvent::GraphLoaded { .. }
            | GraphEvent::FileRejected { .. }
            | GraphEvent::GraphGuarded { .. }
            | GraphEvent::Drafted(_) => {}
        }
    }
}
