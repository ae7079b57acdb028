//! How many planted defects a reviewer found, and how often it found something in landed work.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    VERSION,
    words::{counted, length},
};
use crate::core::{
    event::CalibrationCall,
    graph::task::TaskId,
    planted_defect::{DefectKind, PlantedDefect},
    spend::Spend,
};

/// The result of `ralph review --calibrate`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationView {
    /// The version of this shape.
    pub schema: u32,
    /// The name of the reviewer.
    pub by: String,
    /// The result in words.
    pub text: String,
    /// How many defects were found.
    pub found: usize,
    /// How many defects were reviewed.
    pub planted: usize,
    /// How many of the controls, which have no defect, were found fault with.
    pub false_alarms: usize,
    /// How many controls were reviewed.
    pub controls: usize,
    /// How many reviews failed; they count for nothing else.
    pub failed: usize,
    /// In US dollars, of the reviews that told it.
    pub cost_usd: Option<f64>,
    /// By kind of defects.
    pub kinds: Vec<KindScore>,
    /// Every review.
    pub reviews: Vec<CalibrationReview>,
    /// What could not be planted, and why it ended early, if so.
    pub notes: Vec<String>,
}

/// How many defects of a kind were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindScore {
    /// The kind: `removed_check`, `off_by_one`, `swallowed_error`, `weakened_test` or `secret`.
    pub kind: DefectKind,
    /// How many were found.
    pub found: usize,
    /// How many were reviewed.
    pub planted: usize,
}

/// A review of landed work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CalibrationReview {
    /// The task that the work is of.
    pub task_id: TaskId,
    /// The defect: its kind, file, line, and that line before and after; none in a control.
    pub defect: Option<PlantedDefect>,
    /// Whether a finding names the defect; of a control, whether there is a finding.
    pub found: bool,
    /// Why there is no review, if so.
    pub failed: Option<String>,
    /// The findings, the gravest first.
    pub findings: Vec<String>,
    /// The folder with its prompt and output, relative to the repository.
    pub log: String,
}

impl CalibrationReview {
    /// Where the defect is: `src/a.rs:12`.
    pub fn place(&self) -> String {
        let defect = self.defect.as_ref();
        defect.map_or_else(String::new, |defect| format!("{}:{}", defect.file, defect.line))
    }
}

impl CalibrationView {
    /// The result of these reviews, which used that much.
    pub fn of(
        by: &str,
        reviews: Vec<CalibrationReview>,
        spend: &Spend,
        notes: Vec<String>,
    ) -> CalibrationView {
        let made = || reviews.iter().filter(|review| review.failed.is_none());
        let count = |is_planted: bool, is_found: bool| {
            let all = made().filter(|review| review.defect.is_some() == is_planted);
            all.filter(|review| review.found || !is_found).count()
        };
        let kind_of = |review: &CalibrationReview| Some(review.defect.as_ref()?.kind);
        let kinds = DefectKind::ALL.map(|kind| {
            let all = || made().filter(|review| kind_of(review) == Some(kind));
            let found = all().filter(|review| review.found).count();
            KindScore { kind, found, planted: all().count() }
        });
        let [planted, found] = [false, true].map(|is_found| count(true, is_found));
        let [controls, false_alarms] = [false, true].map(|is_found| count(false, is_found));
        let failed = reviews.len() - made().count();
        let alarms = counted(false_alarms, "false alarm");
        let mut text = format!("found {found} of {planted}, {alarms} in {controls}");
        if failed > 0 {
            let _ = write!(text, ", {} failed", counted(failed, "review"));
        }
        let _ = write!(text, ", {}", spend.cost());
        CalibrationView {
            schema: VERSION,
            by: by.to_owned(),
            text,
            found,
            planted,
            false_alarms,
            controls,
            failed,
            cost_usd: Some(spend.cost_usd).filter(|_| spend.is_cost_told()),
            kinds: kinds.into_iter().filter(|score| score.planted > 0).collect(),
            reviews,
            notes,
        }
    }

    /// It in words: the result, a line for each kind, and one for each defect and each false alarm.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("`{}`: {}", self.by, self.text)];
        let scores = self.kinds.iter();
        lines.extend(scores.map(|it| format!("  {}: {} of {}", it.kind, it.found, it.planted)));
        for review in &self.reviews {
            let id = &review.task_id;
            let what = match (&review.failed, review.found) {
                (Some(why), _) => format!("not reviewed: {why}"),
                (None, true) => "found".to_owned(),
                (None, false) => "not found".to_owned(),
            };
            lines.extend(match &review.defect {
                Some(PlantedDefect { kind, before, after, .. }) => {
                    let change = if after.is_empty() {
                        format!("`{before}` removed")
                    } else {
                        format!("`{before}` -> `{after}`")
                    };
                    vec![format!("{what}: {kind} in {} ({id}): {change}", review.place())]
                }
                None if review.failed.is_some() => vec![format!("{id} without a defect: {what}")],
                None => {
                    let alarms = review.findings.iter().filter(|_| review.found);
                    alarms.map(|it| format!("false alarm in {id}: {it}")).collect()
                }
            });
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

/// A review of landed work, in one line.
pub fn line(call: &CalibrationCall) -> String {
    let what = match (&call.planted, call.found) {
        (Some(kind), true) => format!("found the planted {kind}"),
        (Some(kind), false) => format!("did not find the planted {kind}"),
        (None, true) => "raised a false alarm".to_owned(),
        (None, false) => "found nothing in landed work".to_owned(),
    };
    let took = length(call.duration_seconds);
    format!(
        "calibration: `{}` {what} ({}) after {took}; output in {}",
        call.by, call.outcome, call.log
    )
}
