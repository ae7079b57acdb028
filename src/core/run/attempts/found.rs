//! Attempts that an earlier run left open, and processes that lost their guardian.

use super::{Attempts, arrival::without_claim};
use crate::{
    event::{AttemptEvent, AttemptResult},
    run::{
        Situation,
        command::{AttemptId, ProcessEnd, RunCommand},
        input::FoundAttempt,
        open_attempt::{AttemptPhase, OpenAttempt},
    },
    verdict::{Outcome, Verdict},
};

impl Attempts {
    /// Continues an attempt that an earlier run left open.
    pub(in crate::run) fn found(
        &mut self,
        found: FoundAttempt,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let FoundAttempt {
            mut attempt,
            from_run,
            had_agent,
            outcome,
            is_away,
            took,
            swept,
            landed,
        } = found;
        let id = attempt.id.clone();
        if let Some(commands) = found_withdrawn(&attempt, sit) {
            return commands;
        }
        let last = sit.view.history.of(&id.task_id).last.as_ref();
        if let Some(last) = last.filter(|last| {
            last.ended.attempt >= id.attempt && !crate::known_bug::is_on("close-twice")
        }) {
            let AttemptResult { verdict, evidence, .. } = &*last.ended;
            let believed = *verdict == Verdict::Complete || evidence.report.is_none();
            return vec![RunCommand::Release { id, believed }];
        }
        let mut commands =
            vec![attempt.emit(AttemptEvent::Recovered { attempt: id.attempt, from_run })];
        let active = sit.view.history.active.of(&id.task_id);
        if had_agent && active.is_some_and(|active| !active.has_agent) {
            // The run was killed in between.
            commands.push(
                attempt.emit(AttemptEvent::AgentStarted { attempt: id.attempt, placement: None }),
            );
        }
        if is_away
            && landed.is_none()
            && let Some(run_on) = active.and_then(|active| active.run_on.clone())
        {
            commands.extend(attempt.ask_for_end(run_on, took));
            self.open.push(attempt);
            return commands;
        }
        attempt.phase = AttemptPhase::Collecting(landed);
        self.open.push(attempt);
        let end = ProcessEnd { outcome: Some(outcome), took, swept, ..ProcessEnd::default() };
        commands.push(RunCommand::Collect(id, Box::new(end)));
        commands
    }
}

/// Returns what is left to do for an attempt that an earlier run had withdrawn when it was
/// killed; none if it had not.
fn found_withdrawn(attempt: &OpenAttempt, sit: &Situation<'_>) -> Option<Vec<RunCommand>> {
    let id = &attempt.id;
    let is_withdrawn = sit.view.history.of(&id.task_id).withdrawn == Some(id.attempt);
    (is_withdrawn && sit.view.history.active.of(&id.task_id).is_none()).then(|| {
        let mut commands = without_claim(attempt, sit);
        commands.push(RunCommand::Withdraw(id.clone()));
        commands
    })
}

/// The outcome of a process whose guardian died.
pub(super) fn unguarded(id: &AttemptId, sit: &Situation<'_>) -> Outcome {
    let active = sit.view.history.active.of(&id.task_id);
    Outcome::unguarded(active.and_then(|active| active.run_on.as_deref()))
}
