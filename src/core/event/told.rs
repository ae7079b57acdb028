//! The facts about what `ralph` runs for others: hooks, and those who want to be told.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::core::verdict::CheckResult;

/// A place at which commands of the settings are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// Before a run looks at anything.
    BeforeRun,
    /// When it is over.
    AfterRun,
    /// Before an attempt claims its task.
    BeforeAttempt,
    /// When it has been judged.
    AfterAttempt,
    /// When `ralph schedule` wakes.
    OnScheduledWake,
}

impl Hook {
    /// As it is written in settings.
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

/// A hook did not succeed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookFailed {
    /// Which.
    pub hook: Hook,
    /// Its command, and how that ended.
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

/// Somebody who wanted to be told was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyFailed {
    /// Who, without what may be as good as a password.
    pub notifier: String,
    /// Of which moment.
    pub moment: String,
    /// Why not.
    pub why: String,
}
