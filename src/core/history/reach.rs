//! The executors that do not answer or cannot be used, and the attempts that were withdrawn because of that.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::History;
use crate::{
    event::{Event, record::Record},
    graph::task::TaskId,
};

/// An executor that does not answer or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableExecutor {
    /// When it did not answer for the first time.
    pub since: DateTime<Utc>,
    /// The newest reason.
    pub why: String,
    /// The number of tries since it answered last.
    pub tries: u32,
    /// When it is tried again; none if the run does not try it again.
    pub next_try: Option<DateTime<Utc>>,
    /// The task whose attempt tries it now.
    pub trying: Option<TaskId>,
}

impl History {
    /// Takes back the start of an attempt.
    pub(super) fn withdraw(&mut self, record: &Record, attempt: u32) {
        self.run.withdraw(record.iteration);
        self.with(record.task_id.as_ref(), |past| {
            (past.attempts, past.withdrawn) = (attempt.saturating_sub(1), Some(attempt));
        });
    }

    /// Applies an event to the executors that do not answer.
    pub(super) fn follow_executors(&mut self, record: &Record) {
        let (event, id) = (&record.event, record.task_id.as_ref());
        if let Event::LoopStarted(_) = event {
            // A new run tries at once.
            self.unreachable.clear();
        } else if let Event::ExecutorUnreachable { run_on, why, tries, pause_seconds } = event {
            let at = record.timestamp;
            let pause = |seconds: u64| {
                let pause = i64::try_from(seconds).ok().and_then(TimeDelta::try_seconds);
                at + pause.unwrap_or_default()
            };
            let known = self.unreachable.get(run_on);
            let executor = UnreachableExecutor {
                since: known.map_or(at, |known| known.since),
                why: why.clone(),
                tries: *tries,
                next_try: pause_seconds.map(pause),
                // The task whose attempt goes on waiting, if one does.
                trying: id.cloned(),
            };
            self.unreachable.insert(run_on.clone(), executor);
        } else if let Event::ExecutorReachable { run_on } = event {
            self.unreachable.remove(run_on);
        } else if let Event::Started { run_on: Some(run_on), .. } = event {
            let executor = self.unreachable.get_mut(run_on);
            if let Some(executor) = executor.filter(|executor| executor.trying.is_none()) {
                executor.trying = id.cloned();
            }
        } else if event.ended().is_some() || matches!(event, Event::Withdrawn { .. }) {
            for executor in self.unreachable.values_mut() {
                executor.trying.take_if(|trying| Some(&*trying) == id);
            }
        }
    }
}
