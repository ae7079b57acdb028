//! The proof of work, as people and programs see it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    core::proof::{ControlKind, ControlResult, Proof},
    view::lines::length,
};

/// Whether the verify commands notice the work of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProofView {
    /// The outcome in one word, as in the journal.
    pub outcome: String,
    /// The outcome in words.
    pub text: String,
    /// Whether the work may be called complete.
    pub is_good: bool,
    /// The controls that ran, in order.
    pub controls: Vec<ControlView>,
    /// Wall time.
    pub duration_seconds: f64,
}

/// A run of the verify commands on another tree.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ControlView {
    /// The tree: `without_source`, `old_tests`, `old_checks`, `tripwire`, `inert`,
    /// `base`, `again`, `stub`, `broken`, `broken_old_checks` or `broken_old_tests`.
    pub control: String,
    /// What it showed, in words.
    pub text: String,
    /// The command that failed; none if all passed.
    pub red: Option<String>,
    /// The file with its output, relative to the repository.
    pub log: Option<String>,
    /// Whether a changed function ran; only of a tripwire.
    pub runs: bool,
    /// Wall time.
    pub duration_seconds: f64,
}

impl ProofView {
    /// The view of a proof.
    pub fn of(proof: &Proof) -> ProofView {
        let word = serde_json::to_value(&proof.outcome).unwrap_or_default();
        let control = |it: &ControlResult| ControlView {
            control: serde_json::to_value(it.control)
                .ok()
                .and_then(|it| it.as_str().map(str::to_owned))
                .unwrap_or_default(),
            text: control_text(it),
            red: it.red.as_ref().map(|red| red.command.clone()),
            log: it.red.as_ref().map(|red| red.log.clone()),
            runs: it.marked,
            duration_seconds: it.duration_seconds,
        };
        ProofView {
            outcome: word["outcome"].as_str().unwrap_or_default().to_owned(),
            text: proof.outcome.to_string(),
            is_good: proof.outcome.is_good(),
            controls: proof.controls.iter().map(control).collect(),
            duration_seconds: proof.duration_seconds,
        }
    }
}

/// A control in words.
fn control_text(control: &ControlResult) -> String {
    let tree = match control.control {
        ControlKind::WithoutSource => "without its source",
        ControlKind::OldTests => "with the tests as they were",
        ControlKind::OldChecks => "with the settings of checks as they were",
        ControlKind::Tripwire => "with a statement that throws",
        ControlKind::Inert => "with a statement that does not throw",
        ControlKind::Base => "before the work",
        ControlKind::Again => "the same work again",
        ControlKind::Stub => "with functions that return nothing",
        ControlKind::Broken => "with all code broken",
        ControlKind::BrokenOldTests => "with all code broken and the tests as they were",
        ControlKind::BrokenOldChecks => {
            "with all code broken and the settings of checks as they were"
        }
    };
    let result = match (&control.red, control.marked) {
        (Some(red), true) => format!("{red}, and ran the statement, {}", red.log),
        (Some(red), false) => format!("{red}, {}", red.log),
        (None, true) => "passed, although the statement ran".to_owned(),
        (None, false) => "passed".to_owned(),
    };
    format!("{tree}: {result}, {}", length(control.duration_seconds))
}
