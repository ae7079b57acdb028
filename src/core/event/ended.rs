//! The end of an attempt: the longest of all lines, and most of a long journal.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::core::{
    agents::{
        provider_error::ProviderError,
        transcript::{Tokens, Usage},
    },
    verdict::{
        Autocommit, CheckResult, Commit, DiffStat, Evidence, Merge, Outcome, Report, Verdict,
    },
};

/// The end of an attempt, with its proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Flat")]
pub struct AttemptResult {
    /// Its number.
    pub attempt: u32,
    /// The judgement.
    pub verdict: Verdict,
    /// The judgement in words.
    pub why: String,
    /// How the process ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall time.
    pub duration_seconds: f64,
    /// What the repository shows.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// What the agent is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it used, as far as it said.
    #[serde(flatten)]
    pub usage: Usage,
    /// How often the agent used which of its tools, as far as it said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, u64>,
    /// The last line of what the agent said that is not blank, cut to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// What the agent had left running when it ended; ended with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// Git's lock files that it had left; removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlocked: Vec<String>,
    /// The ref that keeps what it left, where it did not complete its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// What could not be kept so, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpinned: Vec<String>,
    /// Where prompt and output lie, relative to the repository.
    pub log: String,
}

/// [`AttemptResult`] as it is read: all on one level, because serde reads a flattened part twice, and most
/// of a long journal are such lines.
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
    duration_seconds: f64,
    report: Option<Report>,
    #[serde(default)]
    commits: Vec<Commit>,
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
            OutcomeTag::NotStarted => Outcome::NotStarted { error: flat.error.ok_or(missing)? },
        };
        Ok(AttemptResult {
            attempt: flat.attempt,
            verdict: flat.verdict,
            why: flat.why,
            outcome,
            duration_seconds: flat.duration_seconds,
            evidence: Evidence {
                report: flat.report,
                commits: flat.commits,
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
                setup: flat.setup,
                merge: flat.merge,
                obstacle: flat.obstacle,
            },
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

    /// What it asks, if it waits for a person: its question, or else the last thing it said.
    pub fn question(&self) -> Option<&str> {
        let question = self.evidence.question.as_deref().filter(|text| !text.is_empty());
        question.or(self.last_line.as_deref()).filter(|_| self.verdict == Verdict::NeedsInput)
    }
}
