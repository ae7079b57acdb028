//! The kinds of notifications.

use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
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
}
