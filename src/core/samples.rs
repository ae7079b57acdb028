//! Sample values for the tests of all layers.
//!
//! They are compiled into the library because a test of another crate cannot use what exists only in
//! the tests of this one.

use chrono::DateTime;

use crate::{
    event::{AttemptEvent, AttemptResult, Event, record::Record},
    graph::{
        TaskGraph,
        task::{Task, TaskId},
    },
    outcome::Outcome,
    verdict::Verdict,
};

/// Returns a pending task of medium priority.
///
/// # Panics
/// `id` is not the id of a task.
pub fn task(id: &str) -> Task {
    Task::new(TaskId::new(id).unwrap())
}

/// Returns a graph of the tasks `t0`… with these edges.
///
/// # Panics
/// The edges contain a cycle.
pub fn graph(count: usize, edges: &[(usize, usize)]) -> TaskGraph {
    let tasks = (0..count).map(|i| task(&format!("t{i}"))).collect();
    TaskGraph::new(tasks, edges.to_vec()).expect("no cycle")
}

/// Returns a record of `event` about task `id`, `at` seconds after the epoch.
pub fn record(id: &str, at: i64, event: impl Into<Event>) -> Record {
    Record {
        timestamp: DateTime::from_timestamp(at, 0).unwrap(),
        run_id: "r".to_owned(),
        seq: 0,
        iteration: None,
        task_id: TaskId::new(id).ok(),
        event: event.into(),
    }
}

/// Returns the result of attempt `attempt` with `verdict`.
pub fn end(attempt: u32, verdict: Verdict) -> AttemptResult {
    let outcome = Outcome::Exited { exit_code: 0 };
    AttemptResult { duration_seconds: 1.0, ..AttemptResult::new(attempt, verdict, outcome) }
}

/// Returns the start of attempt `attempt`.
pub fn started(attempt: u32) -> Event {
    AttemptEvent::started(attempt).into()
}
