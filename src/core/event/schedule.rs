//! `ralph schedule`, and the commands that `ralph` calls around a run.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Identity;
use crate::{default_value::is_default, variants, verdict::CheckResult};

/// `ralph schedule`, and the commands that `ralph` calls around a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleEvent {
    /// `ralph schedule` waits for a time or a request.
    Slept(Slept),
    /// `ralph schedule` started a run for a time or a request, or skipped it.
    Woken(Woken),
    /// `ralph schedule` ended.
    ScheduleEnded {
        /// The name of the signal, if a signal ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// The exit code of the run that ended right before, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// A command of the setting `hooks` failed.
    HookFailed(HookFailed),
}

/// The trigger of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WakeTrigger {
    /// A cron expression.
    Cron,
    /// A signed HTTP request.
    Webhook,
}

/// A wake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Woken {
    /// The trigger.
    pub trigger: WakeTrigger,
    /// The scheduled time; none for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<DateTime<Utc>>,
    /// The delay in whole seconds; large if the machine slept.
    #[serde(default)]
    pub late_seconds: u64,
    /// The number of other scheduled times that passed meanwhile, at most 1000. They are not caught
    /// up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub missed: u32,
    /// The arguments of `ralph run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// Why no run started, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Hindrance>,
}

/// The reason why a wake starts no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// The run of the last wake is still running.
    StillRunning,
    /// Another run is running.
    Busy,
    /// `ralph pause` is in effect.
    Paused,
}

/// The start of a wait of `ralph schedule`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slept {
    /// The end of the wait; none if it waits for a request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// The cron expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    /// The time zone of the expressions; none for the zone of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The waiting process; none if another program, such as cron, triggers the next check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Identity>,
    /// The exit code of the run that just ended, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The duration of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
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
        variants::names::<Hook>()[self as usize]
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
