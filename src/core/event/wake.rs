//! Events of `ralph schedule`: runs started by the clock or by a webhook.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Identity;
use crate::default_value::is_default;

/// The trigger of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WakeTrigger {
    /// A cron expression.
    Cron,
    /// A signed HTTP request.
    Webhook,
}

/// A wake that started a run.
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
}

/// A wake that started no run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedWake {
    /// The trigger.
    pub trigger: WakeTrigger,
    /// The scheduled time; none for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<DateTime<Utc>>,
    /// The reason.
    pub why: Hindrance,
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
