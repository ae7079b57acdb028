//! Paid attempts that completed nothing, by the kind of failure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    event::AttemptResult,
    outcome::Outcome,
    verdict::{Merge, Verdict},
};

/// Why an attempt that was paid for was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WasteKind {
    /// Its work conflicted with work that had landed since.
    Conflict,
    /// Git refused its work.
    Refused,
    /// A reviewer sent its work back.
    Review,
    /// Its work failed a verify command.
    Check,
    /// A verify command failed without its work as well.
    Base,
    /// It ended without a report, or without the work that a report needs.
    Report,
    /// Its agent failed.
    Crash,
    /// It reached its time limit.
    Time,
    /// Its provider refused service.
    Limit,
    /// It was interrupted.
    Interruption,
}

impl WasteKind {
    /// Why an attempt was not needed; none if it was needed, or its agent did no work.
    fn of(ended: &AttemptResult) -> Option<WasteKind> {
        match ended.verdict {
            Verdict::Complete
            | Verdict::NeedsInput
            | Verdict::Again
            | Verdict::Denied
            | Verdict::SetupFailed => None,
            Verdict::BaselineBroken => {
                let is_red = matches!(ended.evidence.merge, Some(Merge::RedBase { .. }));
                is_red.then_some(WasteKind::Base)
            }
            Verdict::Conflict => Some(WasteKind::Conflict),
            Verdict::MergeFailed => Some(WasteKind::Refused),
            Verdict::Rejected => Some(WasteKind::Review),
            Verdict::VerifyFailed => Some(WasteKind::Check),
            Verdict::Incomplete
            | Verdict::Unverified
            | Verdict::Uncommitted
            | Verdict::OffBranch => Some(WasteKind::Report),
            Verdict::Failed => Some(WasteKind::Crash),
            Verdict::TimedOut => Some(WasteKind::Time),
            Verdict::RateLimited => Some(WasteKind::Limit),
            Verdict::Cancelled | Verdict::Interrupted => Some(WasteKind::Interruption),
        }
    }

    /// Its words, for one and for several.
    fn words(self) -> [&'static str; 2] {
        match self {
            WasteKind::Conflict => ["conflict", "conflicts"],
            WasteKind::Refused => ["refused by git", "refused by git"],
            WasteKind::Check => ["red check", "red checks"],
            WasteKind::Review => ["sent back by a reviewer", "sent back by a reviewer"],
            WasteKind::Base => ["already red", "already red"],
            WasteKind::Report => ["not done", "not done"],
            WasteKind::Crash => ["crash", "crashes"],
            WasteKind::Time => ["time limit", "time limits"],
            WasteKind::Limit => ["limit", "limits"],
            WasteKind::Interruption => ["interrupted", "interrupted"],
        }
    }
}

/// How many attempts were paid for, and how many of them were not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidAttempts {
    /// The attempts whose agents worked.
    pub paid: u32,
    /// Those that completed nothing, by the kind of failure.
    pub wasted: BTreeMap<WasteKind, u32>,
}

impl PaidAttempts {
    /// Adds an attempt that ended.
    pub fn add(&mut self, ended: &AttemptResult) {
        let kind = WasteKind::of(ended);
        let has_worked = !matches!(ended.outcome, Outcome::NotStarted { .. })
            && ended.verdict != Verdict::Denied;
        if has_worked {
            self.paid += 1;
            if let Some(kind) = kind {
                *self.wasted.entry(kind).or_default() += 1;
            }
        }
    }

    /// Adds those of another run.
    pub fn join(&mut self, other: &PaidAttempts) {
        self.paid += other.paid;
        other
            .wasted
            .iter()
            .for_each(|(kind, count)| *self.wasted.entry(*kind).or_default() += count);
    }

    /// The number of attempts that were needed.
    pub fn needed(&self) -> u32 {
        self.paid - self.wasted.values().sum::<u32>()
    }

    /// The waste in words, if any.
    pub fn text(&self) -> Option<String> {
        let part = |(kind, count): (&WasteKind, &u32)| {
            format!("{count} {}", kind.words()[usize::from(*count > 1)])
        };
        let parts: Vec<String> = self.wasted.iter().map(part).collect();
        let (paid, needed) = (self.paid, self.needed());
        (!parts.is_empty()).then(|| format!("paid {paid}, needed {needed}: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{commit_id::CommitId, samples::end};

    #[test]
    fn what_was_wasted_is_said_by_kind() {
        let mut paid = PaidAttempts::default();
        for verdict in [Verdict::Complete, Verdict::NeedsInput, Verdict::Denied] {
            paid.add(&end(1, verdict));
        }
        assert_eq!((paid.paid, paid.text()), (2, None));
        let failed = [Verdict::Conflict, Verdict::Conflict, Verdict::RateLimited];
        for verdict in failed.into_iter().chain([Verdict::VerifyFailed, Verdict::Cancelled]) {
            paid.add(&end(1, verdict));
        }
        let mut red = end(2, Verdict::BaselineBroken);
        let (branch, onto) = ("main".to_owned(), CommitId::from("0"));
        red.evidence.merge = Some(Merge::RedBase { branch, onto });
        paid.add(&red);
        let outcome = Outcome::NotStarted { error: "no program".to_owned() };
        paid.add(&AttemptResult { outcome, ..end(3, Verdict::Failed) });
        let text =
            "paid 8, needed 2: 2 conflicts, 1 red check, 1 already red, 1 limit, 1 interrupted";
        assert_eq!(paid.text().as_deref(), Some(text));
    }
}
