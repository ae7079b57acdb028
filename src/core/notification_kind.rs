//! The kinds of notifications.

use serde::{Deserialize, Serialize};

use crate::variants;

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
        variants::names::<NotificationKind>()[self as usize]
    }
}
