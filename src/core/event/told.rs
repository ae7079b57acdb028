//! Events about agents, hooks and notifications.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{agents::provider_error::ProviderError, verdict::CheckResult};

/// A change from one agent of a list to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChange {
    /// The agent of the next attempt.
    pub agent: String,
    /// The agent that it replaces.
    pub from: String,
    /// The provider error that blocks the replaced agent; none if the next agent is the first of the
    /// list, which is available again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<ProviderError>,
}

/// A point at which commands of the settings run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// Before a run starts.
    BeforeRun,
    /// After a run ended.
    AfterRun,
    /// Before an attempt claims its task.
    BeforeAttempt,
    /// After an attempt got its verdict.
    AfterAttempt,
    /// When `ralph schedule` wakes.
    OnScheduledWake,
}

impl Hook {
    /// The name in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Hook::BeforeRun => "before_run",
            Hook::AfterRun => "after_run",
            Hook::BeforeAttempt => "before_attempt",
            Hook::AfterAttempt => "after_attempt",
            Hook::OnScheduledWake => "on_scheduled_wake",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookFailed {
    /// The hook.
    pub hook: Hook,
    /// Its command and result.
    #[serde(flatten)]
    pub check: CheckResult,
}

impl fmt::Display for HookFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckResult { command, outcome, last_line, .. } = &self.check;
        write!(f, "hook `{}`: `{command}` {outcome}", self.hook)?;
        match last_line {
            Some(last) => write!(f, "; its last line: {last}"),
            None => Ok(()),
        }
    }
}

/// A notification that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyFailed {
    /// The receiver, without parts that may be secret.
    pub notifier: String,
    /// The kind of notification.
    pub moment: String,
    /// The reason.
    pub why: String,
}
