//! What people and programs are shown, as plain values made from graph, history and locks.
//!
//! A text formats one of these values, and `--json` prints the same value.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod attempt;
pub mod lines;
pub mod log;
pub mod message;
pub mod picture;
pub mod night;
pub mod plan;
pub mod review;
pub mod run;
pub mod run_report;
pub mod spend;
pub mod state;
pub mod task;
pub mod timeline;
pub mod transcript;
pub mod waits;
mod words;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// The version of the values, printed as `schema` in each. Fields are added within a version, and
/// never renamed.
pub const VERSION: u32 = 1;

/// What `ralph show` prints.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "it is never made, only described")]
pub enum ShownView {
    /// A task.
    Task(task::TaskDetails),
    /// An attempt.
    Attempt(attempt::PastAttemptDetails),
}

/// What each command prints with `--json`, by command.
#[derive(JsonSchema)]
#[schemars(title = "what ralph prints with --json, by command")]
#[serde(rename_all = "kebab-case")]
pub struct PrintedViews {
    /// `ralph dag-status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag_status: Option<plan::GraphView>,
    /// `ralph graph --format json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<picture::GraphPicture>,
    /// `ralph status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<run_report::RunReport>,
    /// `ralph report`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<run_report::RunReport>,
    /// `ralph slots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<Vec<attempt::SlotView>>,
    /// `ralph plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<plan::PlanView>,
    /// `ralph attempts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<attempt::PastAttemptView>>,
    /// `ralph show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<ShownView>,
    /// `ralph task-add`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_add: Option<task::TaskView>,
    /// `ralph costs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<spend::CostView>,
}

/// Returns the schema of a document with one field for each command.
pub fn json_schema() -> Value {
    let settings = SchemaSettings::default().for_serialize();
    settings.into_generator().into_root_schema_for::<PrintedViews>().to_value()
}
