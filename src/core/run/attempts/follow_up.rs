//! Another prompt for the agent of an attempt in its conversation. It names the missing part;
//! another attempt would pay for everything again.

use super::Attempts;
use crate::{
    event::AttemptEvent,
    graph::task::Status,
    run::{
        Situation,
        command::{AttemptId, CheckPurpose, FollowUp, PendingResult, ProcessEnd, RunCommand},
        open_attempt::{AttemptPhase, AttemptProcess, Next, OpenAttempt},
    },
    verdict::{Evidence, Merge, Outcome, Report, Rule, Verdict},
};

/// Ends an attempt with this result, unless its agent may complete it in the same conversation.
pub(in crate::run) fn conclude(
    attempts: &mut Attempts,
    id: &AttemptId,
    mut end: PendingResult,
    sit: &Situation<'_>,
) -> Vec<RunCommand> {
    let at_work = |open: &&OpenAttempt| !matches!(open.phase, AttemptPhase::Queued(..));
    let others = attempts.open().iter().filter(at_work).filter(|open| open.id != *id).count();
    let has_place = others < sit.view.policy.jobs;
    let Some(attempt) = attempts.get_mut(id) else {
        return Vec::new();
    };
    if let Some(before) = attempt.follow_ups.before.take() {
        let was_idle = is_idle(&before);
        end = after(*before, end);
        // It did nothing again after the prompt: only a person knows how to continue.
        if was_idle && is_idle(&end) && matches!(attempt.rule, Rule::Task(_)) {
            end.evidence.question.clone_from(&end.last_line);
        }
    }
    if let Some((lack, follow_up)) = attempt.follow_up(&end, sit).filter(|_| has_place) {
        attempt.follow_ups.before = Some(Box::new(end));
        let continued = AttemptEvent::AgentContinued { attempt: id.attempt, lack: lack.to_owned() };
        attempt.phase = AttemptPhase::Working(AttemptProcess::new(None, Vec::new()));
        return vec![attempt.emit(continued), RunCommand::FollowUp(id.clone(), follow_up)];
    }
    attempt.conclude(end)
}

/// Whether the agent ended by itself, and neither did nor reported anything.
fn is_idle(end: &PendingResult) -> bool {
    matches!(end.outcome, Outcome::Exited { exit_code: 0 })
        && end.evidence.report.is_none()
        && end.evidence.obstacle.is_none()
        && end.evidence.commits.is_empty()
        && end.evidence.leftovers.is_empty()
        && end.evidence.touched.is_empty()
}

/// The result of an attempt whose agent got another prompt after the result `before`.
fn after(before: PendingResult, mut end: PendingResult) -> PendingResult {
    if end.evidence.report.is_some() {
        return end;
    }
    let has_begun = (&before.usage, &before.tools) != (&end.usage, &end.tools);
    let is_not_started = matches!(end.outcome, Outcome::NotStarted { .. });
    let has_failed = is_not_started || end.outcome.is_own_failure();
    if has_failed && !has_begun && end.evidence.obstacle.is_none() {
        // Its model was not asked: the conversation cannot be resumed. The work is not judged.
        let why = end.last_line.unwrap_or_else(|| end.outcome.to_string());
        let evidence = Evidence { not_resumed: Some(why), ..before.evidence };
        let (took, swept, conversation) = (end.took, end.swept, None);
        return PendingResult { took, swept, evidence, conversation, ..before };
    }
    if !is_not_started {
        // The next attempt must know what failed, whatever became of the conversation.
        let red = before.evidence.verify.into_iter().filter(|check| !check.is_green());
        end.evidence.verify.extend(red);
    }
    end
}

/// Whether the commands of an attempt must check if its work exists already: it reported, and
/// changed nothing.
pub(super) fn may_be_there(
    attempt: &OpenAttempt,
    end: &PendingResult,
    sit: &Situation<'_>,
) -> bool {
    let verdict = Verdict::of(&end.outcome, &end.evidence, attempt.rule);
    let is_checked = !end.evidence.verify.is_empty() || attempt.verify.is_empty();
    let active = sit.view.history.active.of(&attempt.id.task_id);
    verdict == Verdict::Unverified
        && end.evidence.changed_nothing()
        && !is_checked
        && attempt.target.is_some()
        // Work that had been queued and is found again after a kill stays so.
        && active.is_some_and(|active| !active.state.is_queued())
        && !sit.is_stopping()
}

impl OpenAttempt {
    /// Returns the reason and another prompt for its agent, if it may complete the task.
    fn follow_up(
        &self,
        end: &PendingResult,
        sit: &Situation<'_>,
    ) -> Option<(&'static str, FollowUp)> {
        let evidence = &end.evidence;
        let verdict = Verdict::of(&end.outcome, evidence, self.rule);
        let lack = verdict.lack()?;
        let continued = &sit.view.history.active.of(&self.id.task_id)?.continued;
        let number = continued.len();
        // It knows that nothing changed, and said again that it is done.
        let repeats = verdict == Verdict::Unverified
            && evidence.changed_nothing()
            && continued.iter().any(|before| before == lack);
        let task = sit.view.graph.task(sit.view.graph.number(&self.id.task_id)?);
        let is_there = match &evidence.merge {
            None => true,
            // Its own tree was verified: there it can see what failed.
            Some(Merge::Red { onto, already: false, flaky: false, .. }) => {
                self.base.as_ref() == Some(onto)
            }
            Some(
                Merge::Red { .. }
                | Merge::Landed { .. }
                | Merge::Conflict { .. }
                | Merge::RedBase { .. }
                | Merge::Refused { .. },
            ) => false,
        };
        let has_stopped = matches!(end.outcome, Outcome::Exited { .. } | Outcome::Lingered { .. });
        // It would be in the file before the agent has done anything.
        let is_reported = self.target.is_none() && evidence.report == Some(Report::Graph);
        // A person may have changed it meanwhile.
        let is_open =
            matches!(task.status, Status::Pending | Status::InProgress | Status::Complete);
        let may = matches!(self.rule, Rule::Task(_))
            && is_there
            && !repeats
            && has_stopped
            && !is_reported
            && is_open
            && evidence.strayed.is_none()
            && evidence.obstacle.is_none()
            && evidence.review.as_ref().is_none_or(|review| review.sent_back)
            && !(end.promised && sit.trusts_promises)
            && number < self.follow_ups.most as usize
            && end.took < self.follow_ups.limit
            && !sit.is_stopping();
        let conversation = end.conversation.clone().filter(|_| may)?;
        let follow_up = FollowUp {
            conversation,
            number: number + 1,
            why: verdict.explain(&end.outcome, evidence),
            log: evidence.red().map(|red| red.log.clone()),
            findings: evidence.review.as_ref().map(|it| it.findings.clone()).unwrap_or_default(),
            took: end.took,
            cost_usd: end.usage.cost_usd,
        };
        Some((lack, follow_up))
    }
}

// Which verify commands run at the same time: all that may, or one where the settings say so, or
// the lone rerun of a command that failed while others ran.

impl AttemptProcess {
    /// Whether it is a verify command.
    fn verifies(&self) -> bool {
        match self.purpose {
            Some(CheckPurpose::Verify | CheckPurpose::Trial(_)) => true,
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
    ) -> Vec<RunCommand> {
        process.alone = true;
        let result = result.unwrap_or_default();
        self.phase = match purpose {
            CheckPurpose::Setup => AttemptPhase::Working(process),
            CheckPurpose::Verify => AttemptPhase::Verifying(process, result),
            CheckPurpose::Trial(_) => AttemptPhase::Queued(Some(process), result),
        };
        self.start_check()
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

    /// Starts the next verify command, or ends a waiting one when the run ends.
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
