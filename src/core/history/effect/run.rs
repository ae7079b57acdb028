//! The effects of the events of `event::run`.

use crate::{
    event::{RunEvent, record::Record},
    history::{Effect, History},
    notification_kind::NotificationKind,
};

impl Effect for RunEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let run = &mut history.run;
        match self {
            RunEvent::LoopStarted(begun) => history.begin(record, begun),
            RunEvent::Waiting { until, why } => run.wait(*until, why),
            RunEvent::Blocked { holders } => run.blockers.clone_from(holders),
            RunEvent::Suspended {} => run.suspended = true,
            RunEvent::Continued { .. } => run.suspended = false,
            RunEvent::CommitsUnsigned { .. } => run.is_unsigned = true,
            RunEvent::Noticed { .. } => {}
            RunEvent::Finished { why, exit_code, remaining, duration_seconds, .. } => {
                run.finished = Some((why.clone(), *exit_code));
                run.remaining = Some(*remaining);
                run.duration_seconds = Some(*duration_seconds);
                history.active.end_all_trials();
            }
        }
    }

    fn notification(&self) -> Option<NotificationKind> {
        match self {
            RunEvent::LoopStarted(_) => Some(NotificationKind::Started),
            RunEvent::Blocked { .. } => Some(NotificationKind::Blocked),
            RunEvent::Finished { .. } => Some(NotificationKind::Finished),
            RunEvent::Waiting { .. }
            | RunEvent::Suspended {}
            | RunEvent::Continued { .. }
            | RunEvent::Noticed { .. }
            | RunEvent::CommitsUnsigned { .. } => None,
        }
    }

    fn is_durable(&self) -> bool {
        matches!(self, RunEvent::Finished { .. })
    }
}
