//! The tasks that are left, by state.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{task::TaskCounts, words::ids};
use crate::core::{
    graph::task::TaskId,
    select::{TaskState, View},
};

/// The tasks that are left, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TasksLeft {
    /// How many tasks are in each state.
    pub counts: TaskCounts,
    /// The tasks that can start, in the order in which they will.
    #[schemars(with = "Vec<String>")]
    pub ready: Vec<TaskId>,
}

impl TasksLeft {
    /// Returns the tasks that are left at this time.
    pub fn of(view: &View<'_>, now: DateTime<Utc>) -> TasksLeft {
        let mut ready = Vec::new();
        let counts = TaskCounts::with(view, now, |number, state| {
            if matches!(state, TaskState::Ready | TaskState::Denied) {
                ready.push(view.key(number));
            }
        });
        ready.sort_unstable();
        let ready = ready.into_iter().map(|key| view.graph.task(key.number).id.clone());
        TasksLeft { counts, ready: ready.collect() }
    }

    /// Returns one text for each state that has tasks; ready tasks are named.
    pub fn texts(&self) -> Vec<String> {
        let TasksLeft { counts, ready } = self;
        let named = (counts.ready > 0).then(|| format!("{} ready: {}", counts.ready, ids(ready)));
        let others = TaskCounts { ready: 0, ..*counts };
        let others = others.parts().into_iter().map(|(count, word)| format!("{count} {word}"));
        named.into_iter().chain(others).collect()
    }
}
