//! The kinds of notifications, derived from journal events.

use serde::{Deserialize, Serialize};

use crate::event::{Event, record::Record};

/// A kind of notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// A run began.
    Started,
    /// A task is complete.
    Completed,
    /// An attempt failed.
    Failed,
    /// A task needs input from a person.
    NeedsInput,
    /// A task is out of attempts.
    Parked,
    /// A provider refuses service for now.
    Limit,
    /// A provider refuses access.
    Denied,
    /// Everything left is blocked.
    Blocked,
    /// Uncommitted changes of a person keep the target branch from moving.
    MergeHeld,
    /// An attempt was found that a crash interrupted.
    Recovered,
    /// A hook failed.
    HookFailed,
    /// A run ended.
    Finished,
}

impl NotificationKind {
    /// All kinds, in the order in which they usually occur.
    pub const ALL: [NotificationKind; 12] = [
        NotificationKind::Started,
        NotificationKind::Completed,
        NotificationKind::Failed,
        NotificationKind::NeedsInput,
        NotificationKind::Parked,
        NotificationKind::Limit,
        NotificationKind::Denied,
        NotificationKind::Blocked,
        NotificationKind::MergeHeld,
        NotificationKind::Recovered,
        NotificationKind::HookFailed,
        NotificationKind::Finished,
    ];

    /// The default selection: kinds that end a run or need a person.
    pub const USUAL: [NotificationKind; 8] = [
        NotificationKind::NeedsInput,
        NotificationKind::Parked,
        NotificationKind::Limit,
        NotificationKind::Denied,
        NotificationKind::Blocked,
        NotificationKind::MergeHeld,
        NotificationKind::HookFailed,
        NotificationKind::Finished,
    ];

    /// The name in the settings.
    pub fn word(self) -> &'static str {
        match self {
            NotificationKind::Started => "started",
            NotificationKind::Completed => "completed",
            NotificationKind::Failed => "failed",
            NotificationKind::NeedsInput => "needs-input",
            NotificationKind::Parked => "parked",
            NotificationKind::Limit => "limit",
            NotificationKind::Denied => "denied",
            NotificationKind::Blocked => "blocked",
            NotificationKind::MergeHeld => "merge-held",
            NotificationKind::Recovered => "recovered",
            NotificationKind::HookFailed => "hook-failed",
            NotificationKind::Finished => "finished",
        }
    }
}

/// The kind of notification for a journal record, if there is one.
pub fn notification_of(record: &Record) -> Option<NotificationKind> {
    match &record.event {
        Event::LoopStarted(_) => Some(NotificationKind::Started),
        Event::Completed(_) => Some(NotificationKind::Completed),
        Event::Failed(_) => Some(NotificationKind::Failed),
        Event::NeedsInput(_) => Some(NotificationKind::NeedsInput),
        Event::Parked { .. } => Some(NotificationKind::Parked),
        Event::RateLimited(_) => Some(NotificationKind::Limit),
        Event::Denied(_) => Some(NotificationKind::Denied),
        Event::Blocked { .. } => Some(NotificationKind::Blocked),
        Event::MergeHeld(_) => Some(NotificationKind::MergeHeld),
        Event::Recovered { .. } => Some(NotificationKind::Recovered),
        Event::HookFailed(_) => Some(NotificationKind::HookFailed),
        Event::Finished { .. } => Some(NotificationKind::Finished),
        Event::GraphLoaded { .. }
        | Event::GraphRejected { .. }
        | Event::UncommittedFound { .. }
        | Event::SettingsLoaded { .. }
        | Event::SettingsRejected { .. }
        | Event::SourceRefreshed(_)
        | Event::SourceUpdated(_)
        | Event::SourceFailed(_)
        | Event::RecordDamaged { .. }
        | Event::GraphGuarded { .. }
        | Event::Started { .. }
        | Event::DoneRemoved { .. }
        | Event::AgentChanged(_)
        | Event::CheckoutRestored(_)
        | Event::SlotKept { .. }
        | Event::WorkRestored { .. }
        | Event::SettingUp { .. }
        | Event::AwaitingExecutor { .. }
        | Event::Withdrawn { .. }
        | Event::ExecutorUnreachable { .. }
        | Event::ExecutorReachable { .. }
        | Event::ContactLost { .. }
        | Event::ContactRegained { .. }
        | Event::AgentStarted { .. }
        | Event::Queued { .. }
        | Event::Merging(_)
        | Event::Split(_)
        | Event::Reported { .. }
        | Event::Asked { .. }
        | Event::Answered(_)
        | Event::Noted { .. }
        | Event::Verifying { .. }
        | Event::Verified(_)
        | Event::VerifyFailed(_)
        | Event::VerifyPostponed { .. }
        | Event::ChildStarted(_)
        | Event::ChildStopRequested(_)
        | Event::ChildEnded(_)
        | Event::WaitingForChildren(_)
        | Event::ChildrenEnded { .. }
        | Event::ChildrenOverdue { .. }
        | Event::Terminating { .. }
        | Event::Interrupted(_)
        | Event::Iterated(_)
        | Event::Promised { .. }
        | Event::StatusChanged { .. }
        | Event::TaskEdited { .. }
        | Event::Drafted(_)
        | Event::Reset { .. }
        | Event::Waiting { .. }
        | Event::PauseRequested { .. }
        | Event::ResumeRequested { .. }
        | Event::StopRequested(_)
        | Event::Suspended { .. }
        | Event::Continued { .. }
        | Event::ClockSet { .. }
        | Event::NotifyFailed(_)
        | Event::Slept(_)
        | Event::Woken(_)
        | Event::WakeSkipped(_)
        | Event::ScheduleEnded { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_match_the_settings() {
        for moment in NotificationKind::ALL {
            assert_eq!(json!(moment), moment.word());
        }
        assert!(
            NotificationKind::USUAL.iter().all(|moment| NotificationKind::ALL.contains(moment))
        );
    }

    #[test]
    fn most_events_send_no_notification() {
        let of = |event| {
            notification_of(&Record {
                timestamp: DateTime::UNIX_EPOCH,
                run_id: "r".to_owned(),
                seq: 0,
                iteration: None,
                task_id: None,
                event,
            })
        };
        assert_eq!(of(Event::Parked { attempts: 3 }), Some(NotificationKind::Parked));
        assert_eq!(of(Event::Blocked { holders: Vec::new() }), Some(NotificationKind::Blocked));
        assert_eq!(of(Event::Reset {}), None);
        assert_eq!(of(Event::PauseRequested {}), None);
    }
}
