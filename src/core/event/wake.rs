//! The facts about runs that are started by the clock, or by a request from outside.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::Identity;

/// What asks for a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WakeTrigger {
    /// The clock.
    Cron,
    /// A signed request.
    Webhook,
}

/// What made `ralph schedule` start a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Woken {
    /// What asked for it.
    pub trigger: WakeTrigger,
    /// For when; none for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<DateTime<Utc>>,
    /// How late that is, in whole seconds: the machine may have slept.
    #[serde(default)]
    pub late_seconds: u64,
    /// How many other times passed meanwhile, which are not caught up on; at most 1000.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub missed: u32,
    /// What `ralph run` is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
}

/// A wake that did not come to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedWake {
    /// What asked for it.
    pub trigger: WakeTrigger,
    /// For when; none for a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<DateTime<Utc>>,
    /// Why not.
    pub why: Hindrance,
}

/// Why a wake comes to no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// The run of the last wake goes on.
    StillRunning,
    /// Another run goes on.
    Busy,
    /// `ralph pause`.
    Paused,
}

/// `ralph schedule` waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slept {
    /// Until then; without it, for a request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// The expressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    /// The zone in which they are meant; none for that of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Which process waits; none where somebody else looks again, as cron does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Identity>,
    /// How the run ended that was over just before, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// How long that took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
}
