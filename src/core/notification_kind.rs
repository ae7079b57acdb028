//! The moments that people want to be told of: a few, made from the many facts of the journal.

use serde::{Deserialize, Serialize};

use crate::core::event::{Event, record::Record};

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// A run began.
    Started,
    /// A task is complete.
    Completed,
    /// An attempt failed.
    Failed,
    /// A task waits for a person's answer.
    NeedsInput,
    /// A task is out of attempts.
    Parked,
    /// A provider gives no service for now.
    Limit,
    /// An agent is refused.
    Denied,
    /// Everything left is blocked.
    Blocked,
    /// Uncommitted changes of a person keep the target branch from moving.
    MergeHeld,
    /// An attempt was found that a crash had cut off.
    Recovered,
    /// A hook did not succeed.
    HookFailed,
    /// A run ended.
    Finished,
}

impl NotificationKind {
    /// All of them, in the order in which they come.
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

    /// Those that are told where nobody says which: what ends a run or waits for a person.
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

    /// As it is written in settings.
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

/// The moment that a fact is, if it is one.
pub fn moment_of(record: &Record) -> Option<NotificationKind> {
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
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_those_of_the_settings() {
        for moment in NotificationKind::ALL {
            assert_eq!(json!(moment), moment.word());
        }
        assert!(
            NotificationKind::USUAL.iter().all(|moment| NotificationKind::ALL.contains(moment))
        );
    }

    #[test]
    fn most_facts_are_no_moment() {
        let of = |event| {
            moment_of(&Record {
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
