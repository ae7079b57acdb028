//! Several agents at one attempt at the same time, its candidates: what each of them brought, and the best.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::{
    default_value::is_default,
    proof::ProofOutcome,
    reviewer::WorkReview,
    spend::dollars,
    verdict::{DiffStat, Verdict},
};

/// The variable in the environment of a candidate beside the agent of the attempt itself: its number.
pub const CANDIDATE: &str = "RALPH_CANDIDATE";

/// What a candidate brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateResult {
    /// Its number, from 1: that of the agent of the attempt itself.
    pub number: u32,
    /// The name of its agent.
    pub by: String,
    /// The verdict on its work in its own slot.
    pub verdict: Verdict,
    /// That verdict in words.
    pub why: String,
    /// What its proof shows, if it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofOutcome>,
    /// Its review, if it was made because other work is proved as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<WorkReview>>,
    /// The size of its changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// What its agent cost, in US dollars, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The ref that keeps its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The folder with its prompt and output, relative to the repository.
    pub log: String,
}

impl CandidateResult {
    /// Whether its work may land.
    pub fn is_good(&self) -> bool {
        self.verdict == Verdict::Complete
    }

    /// How good its proof is: made and good, not made, or made and not good.
    fn proof_rank(&self) -> u8 {
        match &self.proof {
            Some(proof) if proof.is_good() => 2,
            None | Some(ProofOutcome::Skipped { .. }) => 1,
            Some(_) => 0,
        }
    }

    /// The number of lines that it adds or removes.
    fn lines(&self) -> u64 {
        self.diff.as_ref().map_or(0, |diff| diff.insertions as u64 + diff.deletions as u64)
    }

    /// It as one line.
    pub fn line(&self) -> String {
        let size = self
            .diff
            .as_ref()
            .map_or_else(String::new, |diff| format!(", +{} −{}", diff.insertions, diff.deletions));
        let proof = self.proof.as_ref().map_or_else(String::new, |proof| format!("; {proof}"));
        let cost = self.cost_usd.map_or_else(String::new, |cost| format!(", {}", dollars(cost)));
        let review = self.review.as_ref().map_or_else(String::new, |review| format!("; {review}"));
        let kept =
            self.pinned.as_ref().map_or_else(String::new, |name| format!("; kept as {name}"));
        let what = if self.is_good() { "its checks pass" } else { &self.why };
        format!("{} ({}): {what}{size}{cost}{proof}{review}{kept}", self.number, self.by)
    }
}

/// The candidates of an attempt, and the one whose work goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateChoice {
    /// All of them, by number.
    pub of: Vec<CandidateResult>,
    /// The number of the chosen one; none if no work was good.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chosen: Option<u32>,
    /// Why it is that one.
    pub why: String,
}

impl CandidateChoice {
    /// The numbers of the works that are proved best, if there are several.
    pub fn equals(all: &[CandidateResult]) -> Vec<u32> {
        let good = || all.iter().filter(|it| it.is_good());
        let best = good().map(CandidateResult::proof_rank).max();
        let equals: Vec<u32> =
            good().filter(|it| Some(it.proof_rank()) == best).map(|it| it.number).collect();
        if equals.len() > 1 { equals } else { Vec::new() }
    }

    /// Chooses the best: by its proof, then by its review if all that are proved as well have one, then by
    /// the fewest changed lines, then by its number.
    pub fn of(mut all: Vec<CandidateResult>) -> CandidateChoice {
        all.sort_by_key(|it| it.number);
        let good: Vec<&CandidateResult> = all.iter().filter(|it| it.is_good()).collect();
        let equals = CandidateChoice::equals(&all);
        let is_reviewed = |it: &&CandidateResult| {
            it.review.as_ref().is_some_and(|review| review.failed.is_none())
        };
        let decides = good.iter().filter(|it| equals.contains(&it.number)).all(is_reviewed);
        let gravity = |it: &CandidateResult| {
            it.review.as_deref().filter(|_| decides).map(WorkReview::gravity).unwrap_or_default()
        };
        let key = |it: &&&CandidateResult| {
            (it.proof_rank(), Reverse((gravity(it), it.lines(), it.number)))
        };
        let best = good.iter().max_by_key(key);
        let why = match best {
            None => format!("none of {} has work that may land", all.len()),
            Some(_) if good.len() == 1 => "the only one whose work may land".to_owned(),
            Some(best) => {
                let others = || good.iter().filter(|it| it.number != best.number);
                let rank = best.proof_rank();
                let mut equal = others().filter(|it| it.proof_rank() == rank);
                if equals.is_empty() {
                    "the only one that is proved".to_owned()
                } else if equal.clone().all(|it| gravity(it) > gravity(best)) {
                    "a reviewer found least in it".to_owned()
                } else if equal.all(|it| gravity(it) > gravity(best) || it.lines() > best.lines()) {
                    "the smallest change".to_owned()
                } else {
                    "the first of equals".to_owned()
                }
            }
        };
        let chosen = best.map(|best| best.number);
        CandidateChoice { of: all, chosen, why }
    }

    /// The choice as one line.
    pub fn line(&self) -> String {
        match self.chosen {
            Some(number) => format!("candidate {number} of {}: {}", self.of.len(), self.why),
            None => self.why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reviewer::{FindingSeverity, ReviewFinding};

    fn result(number: u32, verdict: Verdict, lines: usize) -> CandidateResult {
        CandidateResult {
            number,
            by: "fake".to_owned(),
            verdict,
            why: "no report".to_owned(),
            proof: None,
            review: None,
            diff: Some(DiffStat { files: 1, insertions: lines, deletions: 0 }),
            cost_usd: None,
            pinned: None,
            log: String::new(),
        }
    }

    #[test]
    fn the_best_has_a_proof_then_the_smallest_change_then_the_lowest_number() {
        let proved = ProofOutcome::Kept;
        let unseen = ProofOutcome::NotNoticed { runs: true };
        let skipped = ProofOutcome::Skipped { why: String::new() };
        let good = |number, lines| result(number, Verdict::Complete, lines);
        let with = |it: CandidateResult, proof: &ProofOutcome| CandidateResult {
            proof: Some(proof.clone()),
            ..it
        };
        let found = |it: CandidateResult, found: &[FindingSeverity]| {
            let finding = |severity: &FindingSeverity| ReviewFinding {
                severity: *severity,
                ..ReviewFinding::default()
            };
            let findings = found.iter().map(finding).collect();
            let review = WorkReview { findings, ..WorkReview::default() };
            CandidateResult { review: Some(Box::new(review)), ..it }
        };
        let bad = |number| result(number, Verdict::Incomplete, 1);
        for (all, line) in [
            (vec![bad(1), bad(2)], "none of 2 has work that may land"),
            (vec![bad(1), good(2, 9)], "candidate 2 of 2: the only one whose work may land"),
            (vec![good(2, 9), good(1, 9)], "candidate 1 of 2: the first of equals"),
            (vec![good(1, 9), good(2, 8), bad(3)], "candidate 2 of 3: the smallest change"),
            (
                vec![with(good(1, 1), &unseen), with(good(2, 9), &proved)],
                "candidate 2 of 2: the only one that is proved",
            ),
            (
                vec![with(good(1, 9), &proved), with(good(2, 5), &proved), good(3, 1)],
                "candidate 2 of 3: the smallest change",
            ),
            (vec![with(good(1, 9), &skipped), good(2, 5)], "candidate 2 of 2: the smallest change"),
            (
                vec![found(good(1, 9), &[]), found(good(2, 5), &[FindingSeverity::Low])],
                "candidate 1 of 2: a reviewer found least in it",
            ),
            (
                vec![
                    found(good(1, 9), &[FindingSeverity::Medium; 3]),
                    found(good(2, 5), &[FindingSeverity::High]),
                ],
                "candidate 1 of 2: a reviewer found least in it",
            ),
            (vec![found(good(1, 9), &[]), good(2, 5)], "candidate 2 of 2: the smallest change"),
        ] {
            assert_eq!(CandidateChoice::of(all).line(), line);
        }
    }
}
