//! What diagnoses did about tasks that ran out of attempts in a run.

use schemars::JsonSchema;
use serde::Serialize;

use super::page::ReportPage;
use crate::core::{graph::task::TaskId, history::History};

/// A task that was diagnosed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiagnosedTask {
    /// The task.
    #[schemars(with = "String")]
    pub id: TaskId,
    /// Who did what about it, and why.
    pub text: String,
}

impl DiagnosedTask {
    /// The tasks that the newest run diagnosed, by id.
    pub(super) fn all(history: &History) -> Vec<DiagnosedTask> {
        let said = |id: &TaskId| {
            let text = history.of(id).diagnosis.as_ref()?.to_string();
            Some(DiagnosedTask { id: id.clone(), text })
        };
        history.run.diagnosed.iter().filter_map(said).collect()
    }

    /// Shows them.
    pub(super) fn show(all: &[DiagnosedTask], page: &mut ReportPage) {
        for DiagnosedTask { id, text } in all {
            page.text(None, &format!("diagnosed: {id}: {text}"));
        }
    }
}
