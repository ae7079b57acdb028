//! The processes of attempts on their way to their executors, when they have arrived, when they are
//! idle, and when their executors do not answer.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::Attempts;
use crate::{
    duration,
    event::{AttemptEvent, AttemptResult, Cause, ExecutorEvent},
    executor::{ExecutorFault, LOCAL, Placement, SETUP_FAULT},
    graph::task::Status,
    run::{
        Situation,
        command::{AttemptId, CheckPurpose, ProcessEnd, ProcessOrder, RunCommand, StatusWrite},
        input::{FoundAttempt, ProcessStart},
        open_attempt::{AttemptPhase, AttemptProcess, OpenAttempt},
        process_watch::{ProcessLimits, ProcessWatch},
    },
    select::pause_before_retry,
    verdict::{Outcome, Verdict},
};

/// How often `setup` may fail in the same way before only a person can fix it.
const SETUPS: u32 = 3;
/// The pauses between are those of the first try, and then of this one: a network may come back.
const SETUP_PAUSE: u32 = 5;

impl Attempts {
    /// Records that the process of an attempt was started.
    pub(in crate::run) fn process_started(
        &mut self,
        id: &AttemptId,
        limits: ProcessLimits,
        start: ProcessStart,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        match start {
            ProcessStart::Runs(placement) => self.process_arrived(id, limits, placement, sit),
            ProcessStart::OnItsWay => {
                self.watch(id, limits);
                Vec::new()
            }
        }
    }

    /// Records that the process of an attempt runs.
    pub(in crate::run) fn process_arrived(
        &mut self,
        id: &AttemptId,
        limits: ProcessLimits,
        placement: Option<Placement>,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let is_agent = self.watch(id, limits);
        let run_on = placement.as_ref().map_or(LOCAL, |placement| placement.run_on.as_str());
        let mut commands: Vec<RunCommand> =
            reached(self.get(id), run_on, sit).into_iter().collect();
        let attempt = self.get_mut(id).filter(|_| is_agent);
        let started = AttemptEvent::AgentStarted { attempt: id.attempt, placement };
        commands.extend(attempt.map(|attempt| attempt.emit(started)));
        commands
    }

    /// Watches the process of an attempt, unless it is being ended. Returns whether it is an agent.
    fn watch(&mut self, id: &AttemptId, limits: ProcessLimits) -> bool {
        let cancel_at = self.cancel_at;
        let Some(process) = self.get_mut(id).and_then(OpenAttempt::process_mut) else {
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
    pub(in crate::run) fn process_fetching(&mut self, id: &AttemptId) -> Vec<RunCommand> {
        /// The time for the work of one process, on a slow line.
        const FETCH: Duration = Duration::from_secs(10 * 60);
        if let Some(watch) = self.get_mut(id).and_then(OpenAttempt::watch_mut) {
            watch.extend(FETCH);
        }
        Vec::new()
    }

    /// Records that the process of an attempt waits for its executor.
    pub(in crate::run) fn process_awaits(
        &mut self,
        id: &AttemptId,
        run_on: String,
        why: String,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let mut commands: Vec<RunCommand> =
            reached(self.get(id), &run_on, sit).into_iter().collect();
        let Some(attempt) = self.get_mut(id).filter(|attempt| attempt.phase.process().is_some())
        else {
            return Vec::new();
        };
        let awaiting = ExecutorEvent::AwaitingExecutor { attempt: id.attempt, run_on, why };
        commands.push(attempt.emit(awaiting));
        commands
    }

    /// Records that the executor of an attempt has not answered so far. The attempt tries it,
    /// unless another one does.
    pub(in crate::run) fn unanswered(
        &mut self,
        id: &AttemptId,
        run_on: String,
        why: String,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let is_known = sit.view.history.unreachable.contains_key(&run_on);
        let attempt = self.get_mut(id).filter(|it| it.phase.process().is_some() && !is_known);
        let (tries, pause_seconds, lasts) = (0, 0, false);
        let event = ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds, lasts };
        attempt.map_or_else(Vec::new, |attempt| vec![attempt.emit(event)])
    }

    /// Records that there is no contact with the process of an attempt since this time, or again.
    pub(in crate::run) fn contact(
        &mut self,
        id: &AttemptId,
        since: Option<DateTime<Utc>>,
        now: Instant,
    ) -> Vec<RunCommand> {
        let mut attempt = self.get_mut(id).filter(|attempt| attempt.phase.process().is_some());
        if let Some(watch) = attempt.as_mut().and_then(|attempt| attempt.watch_mut()) {
            watch.contact(since.is_some(), now);
        }
        let event = ExecutorEvent::Contact { attempt: id.attempt, lost_since: since };
        attempt.map_or_else(Vec::new, |attempt| vec![attempt.emit(event)])
    }

    /// Ends an idle process, unless files have changed.
    pub(in crate::run) fn process_idle(
        &mut self,
        id: &AttemptId,
        changed: bool,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let Some(attempt) = self.get_mut(id) else {
            return Vec::new();
        };
        let watch = attempt.phase.process().and_then(|process| process.watch.as_ref());
        let Some(limit) = watch.and_then(|watch| watch.limits().idle) else {
            return Vec::new();
        };
        if changed {
            let is_ending = watch.is_some_and(ProcessWatch::is_ending);
            return if is_ending {
                Vec::new()
            } else {
                vec![RunCommand::Process(id.clone(), ProcessOrder::KeepAwake)]
            };
        }
        let Some(end) = attempt.end_process(Outcome::Idle { limit_seconds: limit.as_secs() }, sit)
        else {
            return Vec::new();
        };
        let why = format!("idle for {}", duration::short(limit));
        vec![end, attempt.emit(AttemptEvent::Terminating { attempt: id.attempt, why })]
    }

    /// Takes back an attempt that its executor has not taken. Its task stays ready.
    pub(in crate::run) fn withdraw(
        &mut self,
        id: &AttemptId,
        fault: ExecutorFault,
        sit: &Situation<'_>,
    ) -> Vec<RunCommand> {
        let ExecutorFault { why, lasts } = fault;
        let Some(at) = self.open.iter().position(|open| open.id == *id) else {
            return Vec::new();
        };
        let attempt = self.open.remove(at);
        let active = sit.view.history.active.of(&id.task_id);
        let run_on = active.and_then(|active| active.run_on.as_deref()).unwrap_or(LOCAL).to_owned();
        let known = sit.view.history.unreachable.get(&run_on);
        let is_try = known.is_none_or(|known| known.trying.as_ref() == Some(&id.task_id));
        let tries = known.map_or(0, |known| known.tries) + 1;
        let mut commands = without_claim(&attempt, sit);
        commands.push(attempt.emit(ExecutorEvent::Withdrawn {
            attempt: id.attempt,
            run_on: run_on.clone(),
            why: why.clone(),
        }));
        if is_try || lasts {
            // A person needs longer than a network.
            let length = match tries {
                _ if lasts => tries + 5,
                2.. if why.starts_with(SETUP_FAULT) => tries.max(SETUP_PAUSE),
                _ => tries,
            };
            let pause_seconds = pause_before_retry(length).as_secs();
            let event =
                ExecutorEvent::ExecutorUnreachable { run_on, why, tries, pause_seconds, lasts };
            commands.push(RunCommand::Emit(None, Box::new(event.into())));
        }
        commands.push(RunCommand::Withdraw(id.clone()));
        commands.push(RunCommand::SetHolder(None));
        commands
    }
}

/// Returns the command that makes the task of an attempt pending again, if it is claimed.
pub(super) fn without_claim(attempt: &OpenAttempt, sit: &Situation<'_>) -> Vec<RunCommand> {
    let task_id = attempt.id.task_id.clone();
    let number = sit.view.graph.number(&task_id);
    let status = number.map(|number| sit.view.graph.task(number).status);
    let write = StatusWrite::Plain(Status::Pending);
    let pending = RunCommand::WriteStatus(task_id, attempt.iteration, write, Cause::Released);
    if status == Some(Status::InProgress) { vec![pending] } else { Vec::new() }
}

/// Returns the command that journals that an executor is back, if it was out. One whose `setup` failed is
/// not back when that starts again.
fn reached(attempt: Option<&OpenAttempt>, run_on: &str, sit: &Situation<'_>) -> Option<RunCommand> {
    let known = sit.view.history.unreachable.get(run_on)?;
    let purpose = attempt.and_then(|attempt| attempt.phase.process()?.purpose);
    if purpose == Some(CheckPurpose::Setup) && known.why.starts_with(SETUP_FAULT) {
        return None;
    }
    let event = ExecutorEvent::ExecutorReachable { run_on: run_on.to_owned() };
    Some(RunCommand::Emit(None, Box::new(event.into())))
}

/// Returns why the executor of an attempt cannot take one now, if its process has ended before the
/// agent worked and neither the task nor a remainder of earlier work is to blame.
pub(super) fn place_fault(
    process: &AttemptProcess,
    outcome: &Outcome,
    end: &ProcessEnd,
    id: &AttemptId,
    sit: &Situation<'_>,
) -> Option<ExecutorFault> {
    let is_bad = !outcome.is_cut_off() && *outcome != Outcome::Exited { exit_code: 0 };
    let active = sit.view.history.active.of(&id.task_id);
    let has_worked = active.is_some_and(|active| !active.continued.is_empty());
    let is_free = sit.is_ending() || sit.view.policy.plain.is_some();
    if !is_bad || process.recovers || has_worked || is_free {
        return None;
    }
    match process.purpose {
        Some(CheckPurpose::Setup) if sit.view.history.of(&id.task_id).left.is_none() => {
            let command = process.commands.get(process.done.len())?;
            let said = end.last_line.as_ref().map_or_else(String::new, |line| format!(": {line}"));
            let why = format!("{SETUP_FAULT}: `{command}` {outcome}{said}");
            let run_on = active.and_then(|active| active.run_on.as_deref()).unwrap_or(LOCAL);
            let known = sit.view.history.unreachable.get(run_on);
            let lasts = known.is_some_and(|it| it.why == why && it.tries + 1 >= SETUPS);
            Some(ExecutorFault { why, lasts })
        }
        None if end.no_program => {
            // Another agent may be there.
            let number = sit.view.graph.number(&id.task_id)?;
            let is_only = sit.view.agents(number).len() == 1 && sit.view.place(number) != LOCAL;
            let Outcome::NotStarted { error } = outcome else { return None };
            is_only.then(|| ExecutorFault::lasting(error.clone()))
        }
        None | Some(CheckPurpose::Setup | CheckPurpose::Verify | CheckPurpose::Trial(_)) => None,
    }
}

// Attempts that an earlier run left open, and processes that lost their guardian.

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

/// Returns the remaining commands for an attempt that an earlier run had withdrawn when it was
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
