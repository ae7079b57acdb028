//! The processes of attempts on their way to their executors, and when they have arrived.

use std::time::Duration;

use super::Attempts;
use crate::core::{
    event::Event,
    executor::Placement,
    run::{
        command::{AttemptId, RunCommand},
        input::ProcessStart,
        process_watch::{ProcessLimits, ProcessWatch},
    },
};

impl Attempts {
    /// Records that the process of an attempt was started.
    pub(in crate::core::run) fn process_started(
        &mut self,
        id: &AttemptId,
        limits: ProcessLimits,
        start: ProcessStart,
    ) -> Vec<RunCommand> {
        match start {
            ProcessStart::Runs(placement) => self.process_arrived(id, limits, placement),
            ProcessStart::OnItsWay => {
                self.watch(id, limits);
                Vec::new()
            }
        }
    }

    /// Records that the process of an attempt runs.
    pub(in crate::core::run) fn process_arrived(
        &mut self,
        id: &AttemptId,
        limits: ProcessLimits,
        placement: Option<Placement>,
    ) -> Vec<RunCommand> {
        let is_agent = self.watch(id, limits);
        let attempt = self.get_mut(id).filter(|_| is_agent);
        let started = Event::AgentStarted { attempt: id.attempt, placement };
        attempt.map_or_else(Vec::new, |attempt| vec![attempt.emit(started)])
    }

    /// Watches the process of an attempt, unless it is being ended. Returns whether it is an agent.
    fn watch(&mut self, id: &AttemptId, limits: ProcessLimits) -> bool {
        let cancel_at = self.cancel_at;
        let Some(process) = self.get_mut(id).and_then(|attempt| attempt.process.as_mut()) else {
            return false;
        };
        let is_agent = process.purpose.is_none();
        if process.watch.as_ref().is_none_or(|watch| !watch.is_ending()) {
            let watch = process.watch.insert(ProcessWatch::new(limits, is_agent));
            if let Some(at) = cancel_at {
                watch.cancel_at(at);
            }
        }
        is_agent
    }

    /// Gives the work of a process that has ended at its executor time to get here.
    pub(in crate::core::run) fn process_fetching(&mut self, id: &AttemptId) -> Vec<RunCommand> {
        /// The time for the work of one process, on a slow line.
        const FETCH: Duration = Duration::from_secs(10 * 60);
        let process = self.get_mut(id).and_then(|attempt| attempt.process.as_mut());
        if let Some(watch) = process.and_then(|process| process.watch.as_mut()) {
            watch.extend(FETCH);
        }
        Vec::new()
    }

    /// Records that the process of an attempt waits for its executor.
    pub(in crate::core::run) fn process_awaits(
        &mut self,
        id: &AttemptId,
        run_on: String,
        why: String,
    ) -> Vec<RunCommand> {
        let attempt = self.get_mut(id).filter(|attempt| attempt.process.is_some());
        let awaiting = Event::AwaitingExecutor { attempt: id.attempt, run_on, why };
        attempt.map_or_else(Vec::new, |attempt| vec![attempt.emit(awaiting)])
    }
}
