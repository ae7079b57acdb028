//! A run before the newest one.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::counted;
use crate::core::history::{History, PastRun};

/// A run before the newest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PastRunView {
    /// Its number, counted back from the newest run, which is 1.
    pub number: usize,
    /// Its id.
    pub run_id: String,
    /// When it began.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<DateTime<Utc>>,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of tasks that it completed.
    pub completed: u32,
    /// Why it ended; none if it exited unexpectedly.
    pub why: Option<String>,
    /// The exit code that it ended with.
    pub exit_code: Option<u8>,
}

impl PastRunView {
    /// The runs of a history before the newest one, the newest first.
    pub(super) fn all(history: &History) -> Vec<PastRunView> {
        let earlier = history.earlier.iter().rev().zip(2..);
        let view = |(run, number): (&PastRun, usize)| PastRunView {
            number,
            run_id: run.id.clone(),
            started_at: run.started_at,
            attempts: run.iterations,
            completed: run.completed,
            why: run.finished.as_ref().map(|(why, _)| why.clone()),
            exit_code: run.finished.as_ref().map(|(_, code)| *code),
        };
        earlier.map(view).collect()
    }

    /// What it did and how it ended.
    pub fn text(&self) -> String {
        let attempts = counted(self.attempts as usize, "attempt");
        let why = self.why.as_deref().unwrap_or("exited unexpectedly");
        format!("{} completed in {attempts}; {why}", self.completed)
    }
}
