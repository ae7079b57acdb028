//! The landed work that nobody has reviewed, in the order in which it deserves a look.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    VERSION,
    proof::ProofView,
    words::{counted, length},
};
use crate::core::{
    commit_id::CommitId,
    graph::task::TaskId,
    history::attempt_log::AttemptEntry,
    risk::{self, Risk, WorkFacts},
    spend::dollars,
    verdict::DiffStat,
};

/// All landed work that waits for a review.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReviewView {
    /// The version of the format.
    pub version: u32,
    /// The work, in the order in which it deserves a look.
    pub to_review: Vec<ReviewItem>,
}

/// The landed work of a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReviewItem {
    /// The task.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its title.
    pub title: String,
    /// The number of the attempt whose work landed.
    pub attempt: u32,
    /// When it ended.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: DateTime<Utc>,
    /// Why it deserves a look, the gravest reason first: each with its kind and in words.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub risks: Vec<Risk>,
    /// The commit below its first one.
    #[schemars(with = "String")]
    pub before: CommitId,
    /// Its last commit.
    #[schemars(with = "String")]
    pub last: CommitId,
    /// The number of its commits.
    pub commits: usize,
    /// Files changed.
    pub files: usize,
    /// Lines added.
    pub insertions: usize,
    /// Lines removed.
    pub deletions: usize,
    /// What the attempt cost, in US dollars; none if that is unknown.
    pub cost_usd: Option<f64>,
    /// Its wall time.
    pub duration_seconds: f64,
    /// Whether the verify commands notice it; none if that was not examined.
    pub proof: Option<ProofView>,
}

impl ReviewView {
    /// This work, in order.
    pub fn of(mut items: Vec<ReviewItem>) -> ReviewView {
        items.sort_by_key(|item| (Reverse(risk::weight(&item.risks, item.size())), item.at));
        ReviewView { version: VERSION, to_review: items }
    }
}

impl ReviewItem {
    /// The landed work of an attempt; `ends` are the commit below it and its last one. None if the attempt
    /// has not ended.
    pub fn of(
        entry: &AttemptEntry,
        title: &str,
        ends: (CommitId, CommitId),
        facts: &WorkFacts<'_>,
    ) -> Option<ReviewItem> {
        let (at, ended) = entry.ended.as_ref()?;
        let (before, last) = ends;
        let DiffStat { files, insertions, deletions } = ended.evidence.diff.unwrap_or_default();
        Some(ReviewItem {
            task_id: entry.task_id.clone(),
            title: title.to_owned(),
            attempt: entry.attempt,
            at: *at,
            risks: facts.risks(),
            before,
            last,
            commits: ended.evidence.commits.len(),
            files,
            insertions,
            deletions,
            cost_usd: ended.usage.cost_usd,
            duration_seconds: ended.duration_seconds,
            proof: entry.proof.as_deref().map(ProofView::of),
        })
    }

    fn size(&self) -> DiffStat {
        let ReviewItem { files, insertions, deletions, .. } = *self;
        DiffStat { files, insertions, deletions }
    }

    /// Its size, time and cost, in words.
    pub fn facts(&self) -> String {
        let size = format!("+{} -{}", self.insertions, self.deletions);
        let files = counted(self.files, "file");
        let cost = self.cost_usd.filter(|cost| *cost > 0.0).map(dollars);
        [Some(files), Some(size), Some(length(self.duration_seconds)), cost]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }
}
