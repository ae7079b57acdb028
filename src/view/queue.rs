//! The merge queue.

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{ids, named};
use crate::{
    adapters::terminal::visible,
    core::{
        event::{Batch, Held},
        graph::task::TaskId,
        history::ActiveAttempts,
    },
};

/// The merge queue: what is queued to land, and what happens to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueueView {
    /// The tasks queued to land, in order; those that are landing included.
    #[schemars(with = "Vec<String>")]
    pub waiting: Vec<TaskId>,
    /// The batch that is landing.
    pub trying: Option<BatchView>,
    /// What keeps the target branch from moving.
    pub held: Option<HeldView>,
}

/// Tasks that land together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BatchView {
    /// The target branch.
    pub branch: String,
    /// The commit that it is at.
    pub onto: String,
    /// The tasks, in order.
    #[schemars(with = "Vec<String>")]
    pub tasks: Vec<TaskId>,
}

/// What keeps the target branch from moving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldView {
    /// The target branch.
    pub branch: String,
    /// The checkout that has it.
    pub checkout: String,
    /// The files with uncommitted changes that block it.
    pub paths: Vec<String>,
    /// The tasks whose work it holds, if other work goes on landing.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// The reason in git's words, where it is not files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl QueueView {
    /// The merge queue of the history.
    pub fn of(active: &ActiveAttempts) -> QueueView {
        QueueView {
            waiting: active.queue.clone(),
            trying: active.trial.as_ref().map(BatchView::of),
            held: active.held.as_ref().map(HeldView::of),
        }
    }

    /// What is queued and what happens to it, in words; none where nothing is queued.
    pub fn text(&self) -> Option<String> {
        let names =
            |tasks: &[TaskId]| tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ");
        let waiting = (!self.waiting.is_empty()).then(|| names(&self.waiting))?;
        let more = match (&self.trying, &self.held) {
            (Some(batch), _) => format!("; landing {} on {}", names(&batch.tasks), batch.branch),
            (None, Some(held)) => {
                let cure = held.cure().map_or(String::new(), |cure| format!("; {cure}"));
                format!("; {}{cure}", held.text())
            }
            (None, None) => String::new(),
        };
        Some(format!("{waiting}{more}"))
    }
}

impl BatchView {
    /// A batch of the history.
    pub fn of(batch: &Batch) -> BatchView {
        let Batch { branch, onto, tasks } = batch.clone();
        BatchView { branch, onto: onto.into(), tasks }
    }

    /// The first few tasks.
    pub fn names(&self) -> String {
        ids(&self.tasks)
    }
}

impl HeldView {
    /// The hindrance of an event.
    pub fn of(held: &Held) -> HeldView {
        let Held { branch, checkout, paths, tasks, why } = held.clone();
        HeldView { branch, checkout, paths, tasks, why }
    }

    /// Why the branch does not move, safe to print.
    pub fn reason(&self) -> String {
        let what = match &self.why {
            Some(why) => why.clone(),
            None => format!("your uncommitted changes block it: {}", named(&self.paths)),
        };
        visible(&what).into_owned()
    }

    /// What does not move, and why.
    pub fn text(&self) -> String {
        match &*self.tasks {
            [] => format!("`{}` cannot move: {}", self.branch, self.reason()),
            tasks => format!("{} cannot land on `{}`: {}", ids(tasks), self.branch, self.reason()),
        }
    }

    /// What lets it move, where a person can do something about it.
    pub fn cure(&self) -> Option<String> {
        self.why.is_none().then(|| format!("commit or stash them in {}", self.checkout))
    }
}
