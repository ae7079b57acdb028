//! The JSON Schema of what commands print with `--json`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use super::{
    graph::GraphView,
    past_attempt::{PastAttemptDetails, PastAttemptView},
    picture::GraphPicture,
    plan::PlanView,
    run::RunView,
    run_report::RunReport,
    slot::SlotView,
    spend::CostView,
    task::{TaskDetails, TaskView},
};

/// What each command prints with `--json`, by command.
#[derive(JsonSchema)]
#[schemars(title = "what ralph prints with --json, by command")]
#[serde(rename_all = "kebab-case")]
pub struct PrintedViews {
    /// `ralph dag-status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dag_status: Option<GraphView>,
    /// `ralph graph --format json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphPicture>,
    /// `ralph status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunReport>,
    /// `ralph report`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RunReport>,
    /// `ralph ls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ls: Option<Vec<RunView>>,
    /// `ralph slots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<Vec<SlotView>>,
    /// `ralph plan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    /// `ralph attempts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<PastAttemptView>>,
    /// `ralph show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<PastAttemptDetails>,
    /// `ralph task-add`, `task-edit` and `task-move`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_edit: Option<TaskView>,
    /// `ralph task-show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_show: Option<TaskDetails>,
    /// `ralph costs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostView>,
}

/// Returns the schema of a document with one field for each command.
pub fn views() -> Value {
    let settings = SchemaSettings::default().for_serialize();
    settings.into_generator().into_root_schema_for::<PrintedViews>().to_value()
}
