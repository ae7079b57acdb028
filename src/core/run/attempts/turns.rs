//! Which verify commands run at the same time: all that may, or one where the settings say so, or one
//! that failed while others ran and runs once more alone.

use super::Attempts;
use crate::{
    event::CheckEvent,
    run::{
        Situation,
        command::{AttemptId, CheckPurpose, PendingResult, ProcessEnd, RunCommand},
        open_attempt::{AttemptPhase, AttemptProcess, Next, OpenAttempt},
    },
    verdict::{CheckResult, Outcome},
};

impl AttemptProcess {
    /// Whether it is a verify command.
    fn verifies(&self) -> bool {
        match self.purpose {
            Some(CheckPurpose::Baseline | CheckPurpose::Verify | CheckPurpose::Trial(_)) => true,
            Some(CheckPurpose::Setup) | None => false,
        }
    }
}

impl OpenAttempt {
    /// Runs a command again, alone, that failed while others ran: they may share a port or a database.
    pub(in crate::run) fn check_again(
        &mut self,
        (mut process, purpose): (AttemptProcess, CheckPurpose),
        result: Option<Box<PendingResult>>,
        check: CheckResult,
    ) -> Vec<RunCommand> {
        process.alone = true;
        let result = result.unwrap_or_default();
        self.phase = match purpose {
            CheckPurpose::Setup | CheckPurpose::Baseline => AttemptPhase::Working(process),
            CheckPurpose::Verify => AttemptPhase::Verifying(process, result),
            CheckPurpose::Trial(_) => AttemptPhase::Queued(Some(process), result),
        };
        let mut commands = vec![self.emit(CheckEvent::VerifyRepeated(check))];
        commands.extend(self.start_check());
        commands
    }
}

impl Attempts {
    /// Whether a verify command runs.
    pub fn any_check(&self) -> bool {
        let mut processes = self.open.iter().filter_map(|open| open.phase.process());
        processes.any(|process| process.verifies() && !process.waits)
    }

    /// Takes out the starts of verify commands that have to wait for their turn.
    pub(in crate::run) fn in_turn(
        &mut self,
        commands: Vec<RunCommand>,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let mut now = Vec::with_capacity(commands.len());
        for command in commands {
            if let RunCommand::StartCheck(id, purpose, ..) = &command
                && *purpose != CheckPurpose::Setup
                && !has_turn(&mut self.open, id, sit)
            {
                // With the event that it begins.
                now.pop();
                if let Some(process) = self.get_mut(id).and_then(OpenAttempt::process_mut) {
                    process.waits = true;
                }
            } else {
                now.push(command);
            }
        }
        now
    }

    /// Starts a verify command whose turn it is, or ends one that waits when the run ends.
    pub(in crate::run) fn next_turn(&mut self, sit: &Situation<'_>) -> Option<Next> {
        let waiting = checks(&mut self.open).filter(|(_, process)| process.waits);
        let waiting: Vec<AttemptId> = waiting.map(|(id, _)| id.clone()).collect();
        let ends = sit.is_ending();
        let id = waiting.into_iter().find(|id| ends || has_turn(&mut self.open, id, sit))?;
        let attempt = self.get_mut(&id)?;
        attempt.process_mut()?.waits = false;
        if ends {
            let end = ProcessEnd { outcome: Some(Outcome::Cancelled), ..ProcessEnd::default() };
            return Some(self.process_ended(&id, end, sit));
        }
        Some(attempt.start_check().into())
    }
}

/// The verify commands that have begun or wait for their turn.
fn checks(open: &mut [OpenAttempt]) -> impl Iterator<Item = (&AttemptId, &mut AttemptProcess)> {
    open.iter_mut().filter_map(|open| {
        let process = open.phase.process_mut().filter(|process| process.verifies())?;
        Some((&open.id, process))
    })
}

/// Whether the verify command of an attempt may begin now. If others run then, both are marked.
fn has_turn(open: &mut [OpenAttempt], id: &AttemptId, sit: &Situation<'_>) -> bool {
    let (mut is_busy, mut is_reserved, mut runs_alone) = (sit.proves, false, sit.one_check);
    for (other, process) in checks(open) {
        if other == id {
            runs_alone |= process.alone;
        } else {
            is_busy |= !process.waits;
            is_reserved |= process.alone;
        }
    }
    if (is_busy && runs_alone) || (is_reserved && !runs_alone) {
        return false;
    }
    if is_busy {
        for (_, process) in checks(open).filter(|(it, process)| *it == id || !process.waits) {
            process.crowded = true;
        }
    }
    true
}
