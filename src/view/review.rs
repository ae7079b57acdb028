//! The landed work that nobody has reviewed, in the order in which it deserves a look.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{VERSION, words::length};
use crate::core::{
    commit_id::CommitId,
    graph::task::TaskId,
    history::{TaskHistory, attempt_log::AttemptEntry},
    proof::{ControlKind, ControlResult, Proof},
    risk::{self, Risk, WorkFacts},
    spend::dollars,
    verdict::{DiffStat, first_names},
};

/// All landed work that waits for a review.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReviewView {
    /// The version of the format.
    pub schema: u32,
    /// The work, in the order in which it deserves a look.
    pub to_review: Vec<ReviewItem>,
}

/// The landed work of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReviewItem {
    /// The task.
    pub task_id: TaskId,
    /// Its title.
    pub title: String,
    /// The number of the attempt whose work landed.
    pub attempt: u32,
    /// When it ended.
    pub at: DateTime<Utc>,
    /// Why it deserves a look, the gravest reason first: each with its kind and in words.
    pub risks: Vec<Risk>,
    /// The commit below its first one.
    pub before: CommitId,
    /// Its last commit.
    pub last: CommitId,
    /// The number of its commits.
    pub commits: usize,
    /// Its size.
    #[serde(flatten)]
    pub diff: DiffStat,
    /// What all attempts at the task cost since its last reset, in US dollars; none if that is unknown.
    pub cost_usd: Option<f64>,
    /// Their wall time.
    pub duration_seconds: f64,
    /// Whether the verify commands notice it; none if that was not examined.
    pub proof: Option<ProofView>,
}

impl ReviewView {
    /// This work, in order.
    pub fn of(mut items: Vec<ReviewItem>) -> ReviewView {
        items.sort_by_key(|item| (Reverse(risk::weight(&item.risks, item.diff)), item.at));
        ReviewView { schema: VERSION, to_review: items }
    }
}

impl ReviewItem {
    /// The landed work of an attempt; `ends` are the commit below it and its last one. None if the attempt
    /// has not ended.
    pub fn of(
        entry: &AttemptEntry,
        (title, past): (&str, &TaskHistory),
        ends: (CommitId, CommitId),
        facts: &WorkFacts<'_>,
    ) -> Option<ReviewItem> {
        let (at, ended) = entry.ended.as_ref()?;
        let (before, last) = ends;
        let spend = past.spend_with(ended);
        Some(ReviewItem {
            task_id: entry.task_id.clone(),
            title: title.to_owned(),
            attempt: entry.attempt,
            at: *at,
            risks: facts.risks(),
            before,
            last,
            commits: ended.evidence.commits.len(),
            diff: ended.evidence.diff.unwrap_or_default(),
            cost_usd: spend.known_cost(),
            duration_seconds: spend.duration_seconds,
            proof: entry.proof.as_deref().map(ProofView::of),
        })
    }

    /// Its size, time and cost, in words.
    pub fn facts(&self) -> String {
        let cost = self.cost_usd.filter(|cost| *cost > 0.0);
        let cost = cost.map_or(String::new(), |cost| format!(", {}", dollars(cost)));
        format!("{}, {}{cost}", self.diff, length(self.duration_seconds))
    }
}

// The proof of work, as people and programs see it.

/// Whether the verify commands notice the work of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProofView {
    /// The outcome, as in the journal: `proved`, `exercised`, `not_proved` or `nothing_to_prove`.
    pub outcome: String,
    /// The reason in one word.
    pub reason: String,
    /// The outcome and the reason in words.
    pub text: String,
    /// Whether the work may be called complete.
    pub is_good: bool,
    /// The controls that ran, in order.
    pub controls: Vec<ControlView>,
    /// Wall time.
    pub duration_seconds: f64,
}

/// A run of the verify commands on another tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlView {
    /// The tree: `inert`, `without_source`, `stub`, `tripwire`, `broken`, `broken_old` or `old_tests`.
    pub control: String,
    /// What it showed, in words.
    pub text: String,
    /// The command that failed; none if all passed.
    pub red: Option<String>,
    /// The file with its output, relative to the repository.
    pub log: Option<String>,
    /// The changed functions that it asks about.
    pub functions: Vec<String>,
    /// The tests that failed, by name.
    pub failed: Vec<String>,
    /// Wall time.
    pub duration_seconds: f64,
}

impl ProofView {
    /// The view of a proof.
    pub fn of(proof: &Proof) -> ProofView {
        let word = serde_json::to_value(proof).unwrap_or_default();
        let word = |key: &str| word[key].as_str().unwrap_or_default().to_owned();
        let control = |it: &ControlResult| ControlView {
            control: serde_json::to_value(it.control)
                .ok()
                .and_then(|it| it.as_str().map(str::to_owned))
                .unwrap_or_default(),
            text: control_text(it),
            red: it.red.as_ref().map(|red| red.command.clone()),
            log: it.red.as_ref().map(|red| red.log.clone()),
            functions: it.functions.clone(),
            failed: it.failed.clone(),
            duration_seconds: it.duration_seconds,
        };
        ProofView {
            outcome: word("outcome"),
            reason: word("reason"),
            text: proof.to_string(),
            is_good: proof.is_good(),
            controls: proof.controls.iter().map(control).collect(),
            duration_seconds: proof.duration_seconds,
        }
    }
}

/// A control in words.
fn control_text(control: &ControlResult) -> String {
    let functions = first_names(&control.functions);
    let tree = match control.control {
        ControlKind::Inert => "with a statement that does nothing".to_owned(),
        ControlKind::Landed => "as it is".to_owned(),
        ControlKind::WithoutSource => "without its source".to_owned(),
        ControlKind::Stub => format!("with {functions} emptied"),
        ControlKind::Tripwire => format!("with a statement that throws in {functions}"),
        ControlKind::Broken => "with all code broken".to_owned(),
        ControlKind::BrokenOld => "with all code broken and the tests as they were".to_owned(),
        ControlKind::OldTests => "with the tests as they were".to_owned(),
    };
    let result = match (&control.red, &control.failed[..]) {
        (Some(red), []) => format!("{red} without a failed test, {}", red.log),
        (Some(red), failed) => format!("{} failed, {}", first_names(failed), red.log),
        (None, _) => "passed".to_owned(),
    };
    format!("{tree}: {result}, {}", length(control.duration_seconds))
}
