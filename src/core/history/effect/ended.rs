//! The effects of the events of `event::ended`.

use crate::{
    event::{AttemptResult, record::Record},
    history::{Effect, History},
    notification_kind::NotificationKind,
};

impl Effect for AttemptResult {
    fn apply(&self, record: &Record, history: &mut History) {
        history.close(record, self);
    }

    fn notification(&self) -> Option<NotificationKind> {
        match self.action() {
            "completed" => Some(NotificationKind::Completed),
            "failed" if self.verdict.counts() => Some(NotificationKind::Failed),
            "needs_input" => Some(NotificationKind::NeedsInput),
            "rate_limited" => Some(NotificationKind::Limit),
            "denied" => Some(NotificationKind::Denied),
            _ => None,
        }
    }

    fn is_durable(&self) -> bool {
        true
    }
}
