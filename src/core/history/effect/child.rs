//! What follows from the events of `event::child`.

use crate::{
    attempt::AttemptState,
    event::{ChildEvent, record::Record},
    history::{Effect, History},
};

impl Effect for ChildEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let id = record.task_id.as_ref();
        match self {
            ChildEvent::WaitingForChildren(_) => {
                history.active.set_state(id, AttemptState::WaitingForChildren);
            }
            ChildEvent::ChildrenOverdue { .. } => {
                history.active.set_state(id, AttemptState::Running);
            }
        }
    }
}
