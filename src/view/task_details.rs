//! One task with its fields, its neighbors in the graph, and its attempts.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    VERSION,
    attempt::AttemptView,
    graph::{neighbor, standing},
    past_attempt::PastAttemptView,
    task::{DependencyView, TaskView},
};
use crate::core::{graph::load::fields::in_templates, select::View};

/// A task with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TaskDetails {
    /// The version of this shape.
    pub schema: u32,
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The graph file.
    pub file: String,
    /// The line of the file on which the task begins.
    pub line: usize,
    /// The other fields that are set, by the file or by its `defaults`.
    pub fields: Map<String, Value>,
    /// The commands that must succeed before it is complete, also those of the settings.
    pub verify: Vec<String>,
    /// Whether these commands are the task's own.
    pub own_verify: bool,
    /// The tasks that it depends on, with their states.
    pub depends_on: Vec<DependencyView>,
    /// The tasks that depend on it, with their states.
    pub dependents: Vec<DependencyView>,
    /// The number of unfinished tasks that depend on it, directly or through others.
    pub unfinished_dependents: usize,
    /// Its attempts, oldest first.
    pub attempts: Vec<PastAttemptView>,
}

/// What the disk tells about a task besides graph and journal.
#[derive(Clone, Debug, Default)]
pub struct TaskFacts {
    /// The graph file.
    pub file: String,
    /// The line of the file on which the task begins.
    pub line: usize,
    /// The commands that must succeed before it is complete.
    pub verify: Vec<String>,
    /// Whether a run goes on.
    pub live: bool,
    /// The attempts that have not ended.
    pub open: Vec<AttemptView>,
    /// All attempts at the task.
    pub attempts: Vec<PastAttemptView>,
}

impl TaskView {
    /// The task of this number; `running` is whether a run goes on, and its attempts.
    pub fn at(
        view: &View<'_>,
        number: usize,
        running: (bool, &[AttemptView]),
        now: DateTime<Utc>,
    ) -> TaskView {
        TaskView::of(view.graph.task(number), standing(view, number, running, now))
    }
}

impl TaskDetails {
    /// The task of this number.
    pub fn of(view: &View<'_>, number: usize, facts: TaskFacts, now: DateTime<Utc>) -> TaskDetails {
        let task = view.graph.task(number);
        let mut fields = in_templates(task);
        fields.retain(|name, value| {
            let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            !is_empty && !["id", "title", "priority", "verify"].contains(&name.as_str())
        });
        let near = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<DependencyView> {
            numbers.map(|number| neighbor(view, number, now)).collect()
        };
        TaskDetails {
            schema: VERSION,
            task: TaskView::at(view, number, (facts.live, &facts.open), now),
            file: facts.file,
            line: facts.line,
            fields,
            verify: facts.verify,
            own_verify: task.verify.is_some(),
            depends_on: near(&mut view.graph.dependencies(number)),
            dependents: near(&mut view.graph.dependents(number)),
            unfinished_dependents: waiting_for(view, number),
            attempts: facts.attempts,
        }
    }
}

/// The number of unfinished tasks behind a task.
fn waiting_for(view: &View<'_>, number: usize) -> usize {
    let mut seen = vec![false; view.graph.tasks().len()];
    let mut open: Vec<usize> = view.graph.dependents(number).collect();
    let mut count = 0;
    while let Some(next) = open.pop() {
        if !std::mem::replace(&mut seen[next], true) {
            count += usize::from(!view.graph.task(next).status.is_over());
            open.extend(view.graph.dependents(next));
        }
    }
    count
}
