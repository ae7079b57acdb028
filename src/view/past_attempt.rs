//! The attempts of the journal.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{VERSION, spend::TokensView};
use crate::core::{
    event::{AttemptResult, record::Record},
    executor::runs_on,
    graph::task::TaskId,
    history::attempt_log::AttemptEntry,
};

/// An attempt of the journal, ended or not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PastAttemptView {
    /// The version of this shape.
    pub schema: u32,
    /// The task.
    #[schemars(with = "String")]
    pub task_id: TaskId,
    /// Its number, per task.
    pub attempt: u32,
    /// The run that it belongs to.
    pub run_id: String,
    /// When it began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: DateTime<Utc>,
    /// The commit that it began with.
    pub base: Option<String>,
    /// The folder of its prompt and output, relative to the repository.
    pub log: String,
    /// Where it runs, if that is not this machine as it is: as it was asked for, until its agent has
    /// started.
    pub runs_on: Option<String>,
    /// When it ended; none while it runs, or if that was not recorded.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub ended_at: Option<DateTime<Utc>>,
    /// How it ended.
    #[serde(flatten, serialize_with = "as_end")]
    #[schemars(with = "Option<AttemptEndSchema>")]
    pub end: Option<AttemptResult>,
}

/// An attempt of the journal with what its folder and the journal tell besides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PastAttemptDetails {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: PastAttemptView,
    /// The journal's lines about its task and the graph file while it ran.
    #[serde(serialize_with = "as_lines")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub changes: Vec<Record>,
    /// The files of its folder: name and size in bytes.
    pub files: Vec<(String, u64)>,
    /// The last lines of its standard error.
    pub errors: Vec<String>,
    /// The last lines of its output, as `ralph logs --output` shows them.
    pub output: Vec<String>,
    /// The last lines of the output of the verify command that failed.
    pub verify_output: Vec<String>,
}

/// What a line of the journal that ends an attempt says, as JSON.
#[derive(JsonSchema)]
pub struct AttemptEndSchema {
    /// The judgement.
    pub verdict: String,
    /// The judgement in words.
    pub why: String,
    /// How the process ended; `exit_code`, `signal`, `limit_seconds` or `error` has the detail.
    pub outcome: String,
    /// The exit code of `exited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal of `signaled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The limit of `timed_out`, `idle` and `lingered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_seconds: Option<u64>,
    /// The error of `not_started`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Wall time.
    pub duration_seconds: f64,
    /// How completion was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// New commits, oldest first.
    pub commits: Vec<CommitSchema>,
    /// What they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffSchema>,
    /// Uncommitted paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// What happened to the branch, where it is not on a descendant of the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strayed: Option<String>,
    /// The verify commands that were run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<CheckSchema>,
    /// What its agent asks a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What became of the leftovers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autocommit: Option<Value>,
    /// The missing paths of `output`, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Git's hooks and settings that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tampered: Vec<String>,
    /// Changed paths that `verify` names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify_inputs_changed: Vec<String>,
    /// Whether its commits change the graph and notes only.
    #[serde(skip_serializing_if = "bool::not")]
    pub metadata_only: bool,
    /// The command of `setup` that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<CheckSchema>,
    /// How it landed, or why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<Map<String, Value>>,
    /// The error of the agent's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Map<String, Value>>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensView>,
    /// Rounds with the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often it used each tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, u64>,
    /// The last line of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// The processes that it left running, ended with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// Git's lock files that it left, removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlocked: Vec<String>,
    /// The ref that keeps what it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// What could not be kept, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpinned: Vec<String>,
}

/// A commit, as JSON.
#[derive(JsonSchema)]
pub struct CommitSchema {
    /// The full id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// How much changed, as JSON.
#[derive(JsonSchema)]
pub struct DiffSchema {
    /// Files.
    pub files: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
}

/// A command that was run, as JSON.
#[derive(JsonSchema)]
pub struct CheckSchema {
    /// The command.
    pub command: String,
    /// How it ended.
    pub outcome: String,
    /// Wall time.
    pub duration_seconds: f64,
    /// The last line of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
    /// Its output, relative to the repository.
    pub log: String,
}

impl PastAttemptView {
    /// An attempt of the log.
    pub fn of(entry: &AttemptEntry) -> PastAttemptView {
        PastAttemptView {
            schema: VERSION,
            task_id: entry.task_id.clone(),
            attempt: entry.attempt,
            run_id: entry.run_id.clone(),
            started_at: entry.started_at,
            base: entry.base.clone().map(String::from),
            log: entry.log.clone(),
            runs_on: runs_on(entry.run_on.as_deref(), entry.placement.as_ref()),
            ended_at: entry.ended.as_ref().map(|(at, _)| *at),
            end: entry.ended.as_ref().map(|(_, ended)| ended.clone()),
        }
    }

    /// What a person types for it: `a.2`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.task_id, self.attempt)
    }
}

/// The fields of the end, without those that the attempt has too.
#[expect(clippy::ref_option, reason = "serde requires this reference")]
fn as_end<S: Serializer>(end: &Option<AttemptResult>, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = match end.as_ref().map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    fields.remove("attempt");
    fields.remove("log");
    fields.serialize(to)
}

/// Lines of the journal as they are.
fn as_lines<S: Serializer>(records: &[Record], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(records.iter().map(Record::fields))
}
