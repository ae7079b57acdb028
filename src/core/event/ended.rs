//! The result of an attempt: the longest journal line, and most of a long journal.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::Event;
use crate::{
    agents::{
        provider_error::ProviderError,
        transcript::{Tokens, Usage},
    },
    commit_id::CommitId,
    graph::task::TaskId,
    verdict::{
        Autocommit, CheckResult, Commit, DiffStat, Evidence, Merge, Outcome, Report, Verdict,
    },
};

/// The result of an attempt, with the evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Flat")]
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
    /// What the repository shows. In a box, because records are moved often while a journal is read.
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
    /// What stands for a stored result that this build cannot read.
    pub(crate) fn unreadable() -> AttemptResult {
        AttemptResult {
            attempt: 0,
            verdict: Verdict::Interrupted,
            why: "the stored result was written by another build".to_owned(),
            outcome: Outcome::Interrupted,
            duration_seconds: 0.0,
            evidence: Box::default(),
            agent: None,
            usage: Usage::default(),
            tools: BTreeMap::new(),
            last_line: None,
            swept: Vec::new(),
            unlocked: Vec::new(),
            pinned: None,
            unpinned: Vec::new(),
            log: String::new(),
        }
    }
}

/// [`AttemptResult`] in its flat form for reading. Serde reads a flattened part twice, and most of
/// a long journal consists of these lines.
#[derive(Deserialize)]
struct Flat {
    attempt: u32,
    verdict: Verdict,
    why: String,
    outcome: OutcomeTag,
    exit_code: Option<i32>,
    signal: Option<i32>,
    limit_seconds: Option<u64>,
    error: Option<String>,
    executor: Option<String>,
    lost: Option<String>,
    duration_seconds: f64,
    report: Option<Report>,
    #[serde(default)]
    commits: Vec<Commit>,
    earlier: Option<CommitId>,
    diff: Option<DiffStat>,
    #[serde(default)]
    leftovers: Vec<String>,
    strayed: Option<String>,
    #[serde(default)]
    verify: Vec<CheckResult>,
    question: Option<String>,
    autocommit: Option<Autocommit>,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    tampered: Vec<String>,
    #[serde(default)]
    verify_inputs_changed: Vec<String>,
    #[serde(default)]
    metadata_only: bool,
    done_folder: Option<String>,
    #[serde(default)]
    others: Vec<TaskId>,
    #[serde(default)]
    added: Vec<TaskId>,
    #[serde(default)]
    added_besides: usize,
    graph_fault: Option<String>,
    bad_base: Option<String>,
    setup: Option<CheckResult>,
    merge: Option<Merge>,
    obstacle: Option<ProviderError>,
    agent: Option<String>,
    cost_usd: Option<f64>,
    tokens: Option<Tokens>,
    turns: Option<u64>,
    model: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, u64>,
    last_line: Option<String>,
    #[serde(default)]
    swept: Vec<String>,
    #[serde(default)]
    unlocked: Vec<String>,
    pinned: Option<String>,
    #[serde(default)]
    unpinned: Vec<String>,
    log: String,
}

/// The tags of [`Outcome`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeTag {
    Exited,
    Signaled,
    TimedOut,
    Idle,
    Lingered,
    Cancelled,
    Interrupted,
    Lost,
    Exceeded,
    NotStarted,
}

impl TryFrom<Flat> for AttemptResult {
    type Error = &'static str;

    fn try_from(flat: Flat) -> Result<AttemptResult, &'static str> {
        let missing = "an outcome lacks its detail";
        let outcome = match flat.outcome {
            OutcomeTag::Exited => Outcome::Exited { exit_code: flat.exit_code.ok_or(missing)? },
            OutcomeTag::Signaled => Outcome::Signaled { signal: flat.signal.ok_or(missing)? },
            OutcomeTag::TimedOut => {
                Outcome::TimedOut { limit_seconds: flat.limit_seconds.ok_or(missing)? }
            }
            OutcomeTag::Idle => Outcome::Idle { limit_seconds: flat.limit_seconds.ok_or(missing)? },
            OutcomeTag::Lingered => {
                Outcome::Lingered { limit_seconds: flat.limit_seconds.ok_or(missing)? }
            }
            OutcomeTag::Cancelled => Outcome::Cancelled,
            OutcomeTag::Interrupted => Outcome::Interrupted,
            OutcomeTag::Lost => Outcome::Lost {
                executor: flat.executor.ok_or(missing)?,
                why: flat.lost.ok_or(missing)?,
            },
            OutcomeTag::Exceeded => Outcome::Exceeded {
                executor: flat.executor.ok_or(missing)?,
                why: flat.lost.ok_or(missing)?,
            },
            OutcomeTag::NotStarted => Outcome::NotStarted { error: flat.error.ok_or(missing)? },
        };
        Ok(AttemptResult {
            attempt: flat.attempt,
            verdict: flat.verdict,
            why: flat.why,
            outcome,
            duration_seconds: flat.duration_seconds,
            evidence: Box::new(Evidence {
                report: flat.report,
                commits: flat.commits,
                earlier: flat.earlier,
                diff: flat.diff,
                leftovers: flat.leftovers,
                strayed: flat.strayed,
                verify: flat.verify,
                question: flat.question,
                autocommit: flat.autocommit,
                missing: flat.missing,
                tampered: flat.tampered,
                verify_inputs_changed: flat.verify_inputs_changed,
                metadata_only: flat.metadata_only,
                done_folder: flat.done_folder,
                others: flat.others,
                added: flat.added,
                added_besides: flat.added_besides,
                graph_fault: flat.graph_fault,
                bad_base: flat.bad_base,
                setup: flat.setup,
                merge: flat.merge,
                obstacle: flat.obstacle,
            }),
            agent: flat.agent,
            usage: Usage {
                cost_usd: flat.cost_usd,
                tokens: flat.tokens,
                turns: flat.turns,
                model: flat.model,
            },
            tools: flat.tools,
            last_line: flat.last_line,
            swept: flat.swept,
            unlocked: flat.unlocked,
            pinned: flat.pinned,
            unpinned: flat.unpinned,
            log: flat.log,
        })
    }
}

impl AttemptResult {
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

impl Event {
    /// Creates the event for the end of an attempt, according to its verdict.
    pub fn of_end(ended: AttemptResult) -> Event {
        match ended.verdict {
            Verdict::Complete => Event::Completed(ended),
            Verdict::NeedsInput => Event::NeedsInput(ended),
            Verdict::RateLimited => Event::RateLimited(ended),
            Verdict::Denied => Event::Denied(ended),
            Verdict::Again => Event::Iterated(ended),
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
                if ended.verdict.counts() {
                    Event::Failed(ended)
                } else {
                    Event::Interrupted(ended)
                }
            }
        }
    }

    /// Whether the event ends what the merge queue tries, besides the end of its attempts.
    pub fn ends_trial(&self) -> bool {
        matches!(
            self,
            Event::Split(_) | Event::MergeHeld(_) | Event::LoopStarted(_) | Event::Finished { .. }
        )
    }

    /// The result of an attempt, if the event is the end of one.
    pub fn ended(&self) -> Option<&AttemptResult> {
        match self {
            Event::Completed(ended)
            | Event::Failed(ended)
            | Event::Interrupted(ended)
            | Event::NeedsInput(ended)
            | Event::RateLimited(ended)
            | Event::Denied(ended)
            | Event::Iterated(ended) => Some(ended),
            Event::LoopStarted(_)
            | Event::GraphLoaded { .. }
            | Event::GraphRejected { .. }
            | Event::UncommittedFound { .. }
            | Event::SettingsLoaded { .. }
            | Event::SettingsRejected { .. }
            | Event::SourceRefreshed(_)
            | Event::SourceUpdated(_)
            | Event::SourceFailed(_)
            | Event::RecordDamaged { .. }
            | Event::GraphGuarded { .. }
            | Event::Started { .. }
            | Event::DoneRemoved { .. }
            | Event::AgentChanged(_)
            | Event::CheckoutRestored(_)
            | Event::SlotKept { .. }
            | Event::WorkRestored { .. }
            | Event::SettingUp { .. }
            | Event::AwaitingExecutor { .. }
            | Event::Withdrawn { .. }
            | Event::ExecutorUnreachable { .. }
            | Event::ExecutorReachable { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained { .. }
            | Event::AgentStarted { .. }
            | Event::Queued { .. }
            | Event::Merging(_)
            | Event::Split(_)
            | Event::MergeHeld(_)
            | Event::Reported { .. }
            | Event::Asked { .. }
            | Event::Answered(_)
            | Event::Noted { .. }
            | Event::Verifying { .. }
            | Event::Verified(_)
            | Event::VerifyFailed(_)
            | Event::VerifyPostponed { .. }
            | Event::ChildStarted(_)
            | Event::ChildStopRequested(_)
            | Event::ChildEnded(_)
            | Event::WaitingForChildren(_)
            | Event::ChildrenEnded { .. }
            | Event::ChildrenOverdue { .. }
            | Event::Terminating { .. }
            | Event::Promised { .. }
            | Event::Parked { .. }
            | Event::Recovered { .. }
            | Event::StatusChanged { .. }
            | Event::TaskEdited { .. }
            | Event::Drafted(_)
            | Event::Reset { .. }
            | Event::Waiting { .. }
            | Event::Blocked { .. }
            | Event::PauseRequested { .. }
            | Event::ResumeRequested { .. }
            | Event::StopRequested(_)
            | Event::Suspended { .. }
            | Event::Continued { .. }
            | Event::ClockSet { .. }
            | Event::HookFailed(_)
            | Event::NotifyFailed(_)
            | Event::Slept(_)
            | Event::Woken(_)
            | Event::WakeSkipped(_)
            | Event::ScheduleEnded { .. }
            | Event::Finished { .. } => None,
        }
    }
}
