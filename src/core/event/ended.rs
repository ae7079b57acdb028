//! The result of an attempt: the longest journal line, and most of a long journal.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    agents::transcript::Usage,
    spend::Spend,
    verdict::{Evidence, Outcome, Verdict},
};

/// The result of an attempt, with the evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The number of the attempt.
    pub attempt: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// The explanation of the verdict.
    pub why: String,
    /// How the process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// The evidence. In a box, because records are moved often while a journal is read.
    #[serde(flatten)]
    pub evidence: Box<Evidence>,
    /// The name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The reported usage.
    #[serde(flatten)]
    pub usage: Usage,
    /// The number of uses of each tool, as reported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, u64>,
    /// The last non-blank line of the agent's output, cut to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The reason for each continuation of its conversation, such as `no report`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<String>,
    /// The processes that the agent left running, which `ralph` killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// The git lock files that the agent left, which `ralph` removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlocked: Vec<String>,
    /// The ref that keeps the work of an attempt that did not complete its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The files that the ref could not keep, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpinned: Vec<String>,
    /// The folder of the prompt and output, relative to the repository.
    pub log: String,
}

impl AttemptResult {
    /// The bare result of an attempt.
    pub fn new(attempt: u32, verdict: Verdict, outcome: Outcome) -> AttemptResult {
        AttemptResult {
            attempt,
            verdict,
            why: String::new(),
            outcome,
            duration_seconds: 0.0,
            evidence: Box::default(),
            agent: None,
            usage: Usage::default(),
            tools: BTreeMap::new(),
            last_line: None,
            continued: Vec::new(),
            swept: Vec::new(),
            unlocked: Vec::new(),
            pinned: None,
            unpinned: Vec::new(),
            log: String::new(),
        }
    }

    /// The placeholder for a stored result that this build cannot read.
    pub(crate) fn unreadable() -> AttemptResult {
        AttemptResult {
            why: "the stored result was written by another build".to_owned(),
            ..AttemptResult::new(0, Verdict::Interrupted, Outcome::Interrupted)
        }
    }

    /// The usage. `price` is the highest known cost of an attempt of its agent.
    pub fn spend(&self, price: Option<f64>) -> Spend {
        let spend = Spend::of(&self.usage, &self.outcome, self.duration_seconds);
        match price.filter(|_| spend.unknown_cost > 0) {
            Some(price) => Spend { assumed: 1, assumed_usd: price, ..spend },
            None => spend,
        }
    }

    /// Wall time.
    pub fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default()
    }

    /// The question for a person, if the task needs input; without a question, the last line of the
    /// output.
    pub fn question(&self) -> Option<&str> {
        let question = self.evidence.question.as_deref().filter(|text| !text.is_empty());
        question.or(self.last_line.as_deref()).filter(|_| self.verdict == Verdict::NeedsInput)
    }
}

/// The actions of the end of an attempt.
pub(super) const ACTIONS: [&str; 7] =
    ["completed", "failed", "interrupted", "needs_input", "rate_limited", "denied", "iterated"];

/// Writes the end of an attempt under the action of its verdict.
pub(super) fn write<S: Serializer>(ended: &AttemptResult, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map([(ended.action(), ended)])
}

impl AttemptResult {
    /// Whether another attempt would end in the same way: its setup fails, its work is done and waits for
    /// a review that is required and could not be made, or it was there already.
    pub fn needs_person(&self) -> bool {
        let review = self.evidence.review.as_ref();
        let is_unreviewed = review.is_some_and(|review| review.failed.is_some());
        self.verdict == Verdict::SetupFailed
            || (self.verdict == Verdict::Unverified
                && (is_unreviewed || (self.evidence.passes_unchanged() && self.pinned.is_none())))
    }

    /// The action of its line.
    pub(crate) fn action(&self) -> &'static str {
        match self.verdict {
            Verdict::Complete => "completed",
            Verdict::NeedsInput => "needs_input",
            Verdict::RateLimited => "rate_limited",
            Verdict::Denied => "denied",
            Verdict::Again => "iterated",
            Verdict::Incomplete
            | Verdict::Unverified
            | Verdict::VerifyFailed
            | Verdict::Uncommitted
            | Verdict::OffBranch
            | Verdict::Failed
            | Verdict::TimedOut
            | Verdict::SetupFailed
            | Verdict::MergeFailed
            | Verdict::Cancelled
            | Verdict::Interrupted
            | Verdict::BaselineBroken => {
                if self.verdict.counts() {
                    "failed"
                } else {
                    "interrupted"
                }
            }
            // Its work did not land, but the task continues, and no notification is sent.
            Verdict::Conflict | Verdict::Rejected => "failed",
        }
    }
}
