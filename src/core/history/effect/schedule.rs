//! The effects of the events of `event::schedule`.

use crate::{
    event::{ScheduleEvent, record::Record},
    history::{Effect, History},
    notification_kind::NotificationKind,
};

impl Effect for ScheduleEvent {
    fn apply(&self, record: &Record, history: &mut History) {
        let at = record.timestamp;
        match self {
            ScheduleEvent::Slept(slept) => history.sleep(slept, at),
            ScheduleEvent::Woken(wake) => history.wake(at, wake.skipped.is_none()),
            ScheduleEvent::ScheduleEnded { signal, .. } => {
                // A service manager sends SIGTERM before a restart or a shutdown, and the schedule
                // continues after that. Any other signal ends the schedule.
                if signal.as_deref() != Some("SIGTERM") {
                    history.schedule = None;
                }
            }
            ScheduleEvent::HookFailed(_) => {}
        }
    }

    fn notification(&self) -> Option<NotificationKind> {
        let failed = matches!(self, ScheduleEvent::HookFailed(_));
        failed.then_some(NotificationKind::HookFailed)
    }
}
