//! The settings of hooks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Commands;
use crate::core::event::Hook;

/// Commands to run before and after runs and attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// Commands to run before a run starts. If one fails, the run ends with exit code 1.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub before_run: Commands,
    /// Commands to run after a run, whatever its result.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub after_run: Commands,
    /// Commands to run before an attempt claims its task. If one fails, the run ends with exit code
    /// 1.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub before_attempt: Commands,
    /// Commands to run after the verdict on an attempt.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub after_attempt: Commands,
    /// Commands to run before a run that `ralph schedule` starts.
    #[serde(skip_serializing_if = "Commands::is_empty")]
    #[schemars(with = "Value", extend("type" = ["string", "array"]))]
    pub on_scheduled_wake: Commands,
}

impl Hooks {
    /// Returns the commands of a hook.
    pub fn of(&self, hook: Hook) -> &[String] {
        let commands = match hook {
            Hook::BeforeRun => &self.before_run,
            Hook::AfterRun => &self.after_run,
            Hook::BeforeAttempt => &self.before_attempt,
            Hook::AfterAttempt => &self.after_attempt,
            Hook::OnScheduledWake => &self.on_scheduled_wake,
        };
        &commands.0
    }
}
