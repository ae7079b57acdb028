//! The effects of the events of `event::request`.

use crate::{
    event::{RequestEvent, record::Record},
    history::{Effect, History, TaskHistory},
};

impl Effect for RequestEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let id = record.task_id.as_ref();
        match self {
            RequestEvent::Answered(answer) => history.with(id, |past| past.answered(answer)),
            RequestEvent::Reset {} => history.with(id, TaskHistory::reset_by_command),
            RequestEvent::Reviewed { attempt, .. } => {
                history.with(id, |past| past.review(*attempt));
                history.run.seen |= history.run.finished.is_some();
            }
            RequestEvent::Looked {} => history.run.seen = true,
            RequestEvent::PauseRequested {} => history.pause(),
            RequestEvent::ResumeRequested { now } => history.resume(*now),
            RequestEvent::StopRequested(stop) => history.stop(stop),
            RequestEvent::Noted { .. } => {}
        }
    }

    fn is_said_once(&self) -> bool {
        match self {
            RequestEvent::Answered(_)
            | RequestEvent::Reset {}
            | RequestEvent::Reviewed { .. }
            | RequestEvent::Looked {}
            | RequestEvent::PauseRequested {}
            | RequestEvent::ResumeRequested { .. } => true,
            RequestEvent::Noted { .. } | RequestEvent::StopRequested(_) => false,
        }
    }
}
