//! The executors that are out, and the attempts that were withdrawn because of that.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::History;
use crate::{
    event::{ExecutorEvent, record::Record},
    graph::task::TaskId,
};

/// An executor that is out: it does not answer, or cannot take work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableExecutor {
    /// Since when.
    pub since: DateTime<Utc>,
    /// The newest reason.
    pub why: String,
    /// The number of tries since it took work last.
    pub tries: u32,
    /// When it is tried again.
    pub next_try: DateTime<Utc>,
    /// Whether only a person can mend it: no run waits for that.
    pub lasts: bool,
    /// The task whose attempt tries it now.
    pub trying: Option<TaskId>,
}

impl History {
    /// Takes back the start of an attempt.
    pub(crate) fn withdraw(&mut self, record: &Record, attempt: u32) {
        self.end_try(record.task_id.as_ref());
        if let Some(id) = &record.task_id {
            self.active.end(id);
        }
        self.run.withdraw(record.iteration);
        self.with(record.task_id.as_ref(), |past| {
            (past.attempts, past.withdrawn) = (attempt.saturating_sub(1), Some(attempt));
        });
    }

    /// Records that an executor is out.
    pub(crate) fn lose_executor(&mut self, record: &Record, event: &ExecutorEvent) {
        let ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds, lasts } = event
        else {
            return;
        };
        let at = record.timestamp;
        let pause = i64::try_from(*pause_seconds).ok().and_then(TimeDelta::try_seconds);
        let known = self.unreachable.get(run_on);
        let executor = UnreachableExecutor {
            since: known.map_or(at, |known| known.since),
            why: why.clone(),
            tries: *tries,
            next_try: at + pause.unwrap_or_default(),
            lasts: *lasts,
            // The task whose attempt goes on waiting, if one does, or goes on trying.
            trying: record.task_id.clone().or_else(|| known?.trying.clone()),
        };
        self.unreachable.insert(run_on.clone(), executor);
    }

    /// Lets the attempt at a task try an executor that is out, unless another one does.
    pub(super) fn try_executor(&mut self, id: Option<&TaskId>, run_on: &str) {
        let executor = self.unreachable.get_mut(run_on);
        if let Some(executor) = executor.filter(|executor| executor.trying.is_none()) {
            executor.trying = id.cloned();
        }
    }

    /// Ends the try of the attempt at a task.
    pub(super) fn end_try(&mut self, id: Option<&TaskId>) {
        for executor in self.unreachable.values_mut() {
            executor.trying.take_if(|trying| Some(&*trying) == id);
        }
    }
}
