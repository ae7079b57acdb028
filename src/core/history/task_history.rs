//! The history of one task: its attempts, and details of the newest.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::attempt_log::StoredResult;
use crate::{
    agents::transcript::Tokens,
    commit_id::CommitId,
    default_value::is_default,
    event::{Answer, AttemptResult, Cause, TakenBack, TipRed},
    executor::LOCAL,
    graph::task::{Status, TaskId},
    proof::{Proof, ProofReason},
    spend::Spend,
    verdict::{Commit, Merge, Outcome, Verdict},
};

/// The history of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskHistory {
    /// The number of attempts, which is the number of the newest one. A reset does not change it.
    #[serde(skip_serializing_if = "is_default")]
    pub attempts: u32,
    /// The number of its newest attempt if that was withdrawn.
    #[serde(skip_serializing_if = "is_default")]
    pub withdrawn: Option<u32>,
    /// The number of attempts since the last reset that count towards `max_attempts`.
    #[serde(skip_serializing_if = "is_default")]
    pub counted: u32,
    /// How many of these failed within a minute and without a commit.
    #[serde(skip_serializing_if = "is_default")]
    pub brief: u32,
    /// How many failed in the same way, up to the newest: the same verify command with the same last
    /// line.
    #[serde(skip_serializing_if = "is_default")]
    pub same: u32,
    /// How many failed in the same way as the two before.
    #[serde(skip_serializing_if = "is_default")]
    pub repeated: u32,
    /// The number of ended attempts when its newest counted attempt failed; 0 after a reset.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) failed_at: u64,
    /// Whether it is parked even if it has attempts left.
    #[serde(skip_serializing_if = "is_default")]
    pub stuck: bool,
    /// The number of attempts in a row that were lost with their executor.
    #[serde(skip_serializing_if = "is_default")]
    pub lost: u32,
    /// Whether a person reset it after it was last complete, so that the work before does not count.
    #[serde(skip_serializing_if = "is_default")]
    pub was_reset: bool,
    /// The ref of the work that its newest attempt with an agent left, until it is complete.
    #[serde(skip_serializing_if = "is_default")]
    pub left: Option<String>,
    /// The newest commit of an attempt at it since its last reset.
    #[serde(skip_serializing_if = "is_default")]
    pub work: Option<CommitId>,
    /// The usage of its attempts since the last reset.
    #[serde(skip_serializing_if = "is_default")]
    pub spend: Spend,
    /// The result of the newest ended attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub last: Option<Box<LastAttempt>>,
    /// The proof of the work of its newest attempt that landed.
    #[serde(skip_serializing_if = "is_default")]
    pub proof: Option<Box<Proof>>,
    /// The newest attempt, if its work landed and the proof of it is not there yet.
    #[serde(skip_serializing_if = "is_default")]
    pub awaits_proof: Option<u32>,
    /// The newest of its attempts whose landed work a person has reviewed.
    #[serde(skip_serializing_if = "is_default")]
    pub reviewed: u32,
    /// The commit with which a person took its landed work back, until it is complete.
    #[serde(skip_serializing_if = "is_default")]
    pub taken_back: Option<CommitId>,
    /// The commits of the attempt that completed it.
    #[serde(skip_serializing_if = "is_default")]
    pub commits: Vec<Commit>,
    /// The tasks that its attempts added to the graph as their work, until it is complete.
    #[serde(skip_serializing_if = "is_default")]
    pub added: Vec<TaskId>,
    /// The questions of its agents with the answers, until it is complete; oldest first.
    #[serde(skip_serializing_if = "is_default")]
    pub answers: Vec<Answer>,
    /// How often a reviewer sent its work back, until it is complete or reset.
    #[serde(skip_serializing_if = "is_default")]
    pub rejected: u32,
    /// The files of its conflicts with landed work, until it is complete.
    #[serde(skip_serializing_if = "is_default")]
    pub collided: Vec<String>,
    /// Whether its newest attempt asked a person, who has neither answered nor dropped the question.
    #[serde(skip_serializing_if = "is_default")]
    pub asks: bool,
    /// Why it was opened again after its work had landed, until a person resets it.
    #[serde(skip_serializing_if = "is_default")]
    pub reopened: Option<Box<Reopened>>,
    /// The reason that a person gave for its newest status, such as that of `task-block`.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: Option<String>,
}

/// A task that was opened again because a check failed on the tip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reopened {
    /// The check, and the commit that broke it.
    pub red: TipRed,
    /// How often that has happened.
    pub times: u32,
    /// Whether an attempt has completed it since.
    #[serde(default)]
    pub is_done: bool,
}

/// How often a task is opened again before it is parked: after that, two tasks may undo each other's
/// work without end.
const MAX_REOPENED: u32 = 2;

/// The result of the newest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastAttempt {
    /// When it ended.
    pub at: DateTime<Utc>,
    /// The verdict.
    pub verdict: Verdict,
    /// How it ended.
    pub ended: StoredResult,
}

impl LastAttempt {
    /// An attempt that ended at this time with this result.
    pub fn new(at: DateTime<Utc>, ended: AttemptResult) -> LastAttempt {
        LastAttempt { at, verdict: ended.verdict, ended: ended.into() }
    }
}

impl TaskHistory {
    /// Why it is open again, if no attempt has completed it since.
    pub fn reopening(&self) -> Option<&Reopened> {
        self.reopened.as_deref().filter(|reopened| !reopened.is_done)
    }

    /// Whether its work has no proof, also because none was made; not once a person has completed or
    /// reset it. Work without any verify command is only named: a person chose that for all of it.
    pub fn is_doubtful(&self) -> bool {
        let needs_person =
            |proof: &Proof| !proof.is_good() && proof.reason != ProofReason::Unchecked;
        self.proof.as_deref().is_some_and(needs_person)
    }

    /// The question of the newest attempt, if it needs input.
    pub fn question(&self) -> Option<String> {
        self.last.as_ref().and_then(|last| last.ended.question()).map(str::to_owned)
    }
}

/// The history of a task without one.
pub(super) static NO_HISTORY: TaskHistory = TaskHistory {
    proof: None,
    awaits_proof: None,
    reviewed: 0,
    taken_back: None,
    attempts: 0,
    withdrawn: None,
    counted: 0,
    brief: 0,
    same: 0,
    repeated: 0,
    failed_at: 0,
    stuck: false,
    lost: 0,
    was_reset: false,
    left: None,
    work: None,
    spend: Spend {
        attempts: 0,
        cost_usd: 0.0,
        unknown_cost: 0,
        assumed: 0,
        assumed_usd: 0.0,
        highest_cost: 0.0,
        tokens: Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 },
        unknown_tokens: 0,
        duration_seconds: 0.0,
    },
    last: None,
    commits: Vec::new(),
    added: Vec::new(),
    answers: Vec::new(),
    collided: Vec::new(),
    rejected: 0,
    asks: false,
    reopened: None,
    reason: None,
};

/// The number of attempts in a row that may be lost with their executor before a task is parked: with
/// the pauses between them, more than an hour.
const MAX_LOST: u32 = 20;

/// The number of attempts in a row that may be lost on this machine before they count, all of them:
/// a process of the attempt seems to kill its guardian each time.
const MAX_LOST_HERE: u32 = 3;

impl TaskHistory {
    /// Counts a failed attempt, before it is the newest one.
    pub fn count_failure(&mut self, ended: &AttemptResult) {
        const BRIEF: Duration = Duration::from_secs(60);
        self.counted += 1;
        let is_brief = ended.verdict == Verdict::Failed
            && ended.duration() < BRIEF
            && ended.evidence.commits.is_empty()
            // A refusal and a prompt that is too long are answers, however fast.
            && ended.evidence.obstacle.is_none();
        self.brief += u32::from(is_brief);
        self.same = if self.repeats(ended) { self.same + 1 } else { 1 };
        self.repeated += u32::from(self.same > 2);
    }

    /// The usage of the task since its last reset, or of this ended attempt if a reset has cleared
    /// that.
    pub fn spend_with(&self, ended: &AttemptResult) -> Spend {
        if self.spend.attempts > 0 { self.spend } else { ended.spend(None) }
    }

    /// Whether an attempt fails as the newest one.
    fn repeats(&self, ended: &AttemptResult) -> bool {
        let before = self.last.as_ref().and_then(|last| last.ended.evidence.red());
        let (Some(before), Some(red)) = (before, ended.evidence.red()) else { return false };
        red.last_line.is_some()
            && (&red.command, &red.last_line) == (&before.command, &before.last_line)
    }

    /// Takes the end of an attempt, which is the `at`th of all, with its usage.
    pub(super) fn close(
        &mut self,
        time: DateTime<Utc>,
        ended: &AttemptResult,
        (had_agent, at, spend): (bool, u64, &Spend),
    ) {
        self.attempts = self.attempts.max(ended.attempt);
        self.asks = ended.verdict == Verdict::NeedsInput;
        if let Some(commit) = ended.evidence.work() {
            self.work = Some(commit.id.clone());
        }
        if matches!(ended.verdict, Verdict::Complete | Verdict::OffBranch) {
            // Work that an attempt left off its branch does not continue the branch.
            self.left = None;
        } else if had_agent && ended.pinned.is_some() {
            // Nothing is kept of an attempt whose slot is lost; the work before it still counts.
            self.left.clone_from(&ended.pinned);
        }
        self.spend = self.spend.plus(spend);
        if let Some(Merge::Conflict { paths, .. }) = &ended.evidence.merge {
            self.collided.extend(paths.iter().cloned());
            self.collided.sort();
            self.collided.dedup();
        }
        for id in &ended.evidence.added {
            if !self.added.contains(id) {
                self.added.push(id.clone());
            }
        }
        if ended.verdict == Verdict::Complete {
            (self.counted, self.brief, self.same, self.repeated) = (0, 0, 0, 0);
            (self.was_reset, self.taken_back) = (false, None);
            self.awaits_proof = ended.evidence.to_prove.then_some(ended.attempt);
            if let Some(reopened) = &mut self.reopened {
                reopened.is_done = true;
            }
            self.commits.clone_from(&ended.evidence.commits);
            self.added.clear();
            self.answers.clear();
            self.collided.clear();
            self.rejected = 0;
        } else if ended.verdict == Verdict::Rejected {
            self.rejected += 1;
        } else if ended.verdict.counts() {
            self.count_failure(ended);
            self.failed_at = at;
        } else if ended.evidence.obstacle.is_some_and(|error| error.obstacle.may_be_of_task()) {
            // The tasks not yet tried show whether it is the provider.
            self.failed_at = at;
        }
        // Another attempt would fail in the same way; a person has to resolve it.
        self.stuck = ended.needs_person();
        let check = ended.evidence.red().map(|check| &check.outcome);
        let is_uncounted =
            |it: &&Outcome| matches!(it, Outcome::Lost { .. }) && !ended.verdict.counts();
        self.count_lost(check.filter(is_uncounted).unwrap_or(&ended.outcome), at);
        self.stuck |= self.lost >= MAX_LOST;
        let last = LastAttempt::new(time, ended.clone());
        match &mut self.last {
            Some(kept) => **kept = last,
            None => self.last = Some(Box::new(last)),
        }
    }

    /// Notes that the newest attempt was lost, or was not.
    fn count_lost(&mut self, outcome: &Outcome, at: u64) {
        let Outcome::Lost { executor, .. } = outcome else {
            self.lost = 0;
            return;
        };
        self.lost += 1;
        if executor == LOCAL && self.lost >= MAX_LOST_HERE {
            let more = if self.lost == MAX_LOST_HERE { MAX_LOST_HERE } else { 1 };
            (self.counted, self.failed_at) = (self.counted + more, at);
        }
    }

    pub(crate) fn answered(&mut self, answer: &Answer) {
        // An answer to a question that is answered corrects it; a note has no question.
        let is_correction = !self.asks && !answer.question.is_empty();
        let same = self.answers.iter_mut().rev().find(|it| it.question == answer.question);
        match same.filter(|_| is_correction) {
            Some(before) => before.clone_from(answer),
            None => self.answers.push(answer.clone()),
        }
        self.asks = false;
    }

    pub(crate) fn reset_by_command(&mut self) {
        self.reset();
        // Work in the target branch by then proves nothing about later attempts.
        (self.was_reset, self.asks, self.work) = (true, false, None);
    }

    /// A person has looked at the work of an attempt and keeps it, also without a proof.
    pub(crate) fn review(&mut self, attempt: u32) {
        self.reviewed = self.reviewed.max(attempt);
        if attempt == self.attempts && self.is_doubtful() {
            self.proof = None;
        }
    }

    /// Opens it again: a person took back the work that had landed.
    pub(crate) fn take_back(&mut self, taken: &TakenBack) {
        self.reset_by_command();
        self.commits.clear();
        self.added.clear();
        self.taken_back = Some(taken.commit.clone());
        if let Some(note) = &taken.note {
            self.answered(&Answer::note(note));
        }
    }

    /// Opens it again: the work that has landed does not complete it any more.
    pub(crate) fn reopen(&mut self, red: &TipRed) {
        let times = self.reopened.as_ref().map_or(0, |before| before.times) + 1;
        self.reset_by_command();
        self.stuck = times >= MAX_REOPENED;
        self.reopened = Some(Box::new(Reopened { red: red.clone(), times, is_done: false }));
    }

    pub(super) fn reset(&mut self) {
        (self.reopened, self.proof, self.awaits_proof) = (None, None, None);
        (self.counted, self.brief, self.same, self.repeated) = (0, 0, 0, 0);
        (self.stuck, self.spend) = (false, Spend::default());
        self.lost = 0;
        self.failed_at = 0;
        self.rejected = 0;
    }

    pub(super) fn set_status(&mut self, new: Option<Status>, cause: Cause, reason: Option<&str>) {
        self.reason = reason.map(str::to_owned);
        if let (Some(new), Cause::Edited | Cause::Command) = (new, cause) {
            self.asks &= new == Status::NeedsInput;
            self.set_by_hand(new);
        }
    }

    /// Applies a status that a person wrote. A status that an agent wrote is not applied.
    fn set_by_hand(&mut self, status: Status) {
        match status {
            // Setting a parked task to pending has the same effect as `task-reset`.
            Status::Pending => self.reset(),
            Status::Complete => {
                self.answers.clear();
                (self.proof, self.awaits_proof) = (None, None);
            }
            Status::InProgress | Status::Blocked | Status::NeedsInput | Status::Cancelled => {}
        }
    }
}
