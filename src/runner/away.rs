//! Attempts at executors: executors that do not answer, engines that are asked about processes that
//! were lost, and the work of agents whose guardian was lost.
//!
//! An engine or an executor may take long to answer, so threads ask them.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use chrono::Utc;

use super::{
    RunnerMessage,
    attempts::Records,
    close,
    context::RunContext,
    engine::{EngineWord, engine_question},
    processes::{ClosedProcess, ProcessHandle, spawn_fetch},
};
use crate::{
    adapters::{
        agent_output,
        executor::slurm,
        process::{Closed, StartFault, sandbox},
    },
    core::{
        duration,
        executor::{Executor, ExecutorFault, ExecutorKind, FileTravel},
        exit::Exit,
        graph::TaskGraph,
        run::{
            command::{AttemptId, CheckPurpose, ProcessEnd},
            input::{Input, ProcessStart},
            open_attempt::AttemptProcess,
            process_watch::{ProcessLimits, ProcessWatch},
        },
        select::pause_before_retry,
        verdict::Outcome,
    },
    project::{attempt::AttemptRecord, executors, placement},
};

/// The time that the answer may take after the longest wait for an executor.
const ANSWER: Duration = Duration::from_secs(60 * 60);

/// The most questions about one attempt, in all runs: whatever kills those who ask may do so again.
const MAX_ASKS: u32 = 20;

/// The questions to executors that are not answered yet.
#[derive(Default)]
pub(super) struct RunAway {
    /// The attempts whose executors are about to be asked for their work.
    asked: BTreeSet<AttemptId>,
    /// The number of engines that are being asked about processes.
    engines: usize,
}

impl RunAway {
    /// Whether engines are being asked about processes.
    pub(super) fn is_asking_engines(&self) -> bool {
        self.engines > 0
    }

    /// Asks the engine of an executor about a process that has ended, if the engine may know more.
    /// Returns the end of the process if there is no engine to ask. Where it is not certain that the
    /// process has ended, and the process has the same slot there as here, the slot is kept.
    pub(super) fn ask_engine(
        &mut self,
        cx: &RunContext,
        id: &AttemptId,
        record: &AttemptRecord,
        ended: ClosedProcess,
    ) -> Option<ClosedProcess> {
        let Some(question) = engine_question(cx, record, ended.closed.outcome.as_ref()) else {
            return Some(ended);
        };
        let (outbox, name) = (cx.outbox.clone(), id.clone());
        self.engines += 1;
        thread::spawn(move || {
            let word = question.ask();
            drop(outbox.send(RunnerMessage::Engine(name, Box::new(ended), word)));
        });
        None
    }

    /// Applies an engine's answer about a process. Returns why a process of the attempt may still
    /// work in its slot.
    pub(super) fn engine_told(
        &mut self,
        ended: &mut ClosedProcess,
        word: &EngineWord,
    ) -> Option<String> {
        self.engines = self.engines.saturating_sub(1);
        ended.closed.outcome = ended.closed.outcome.as_ref().map(|_| word.outcome.clone());
        word.suspect.clone()
    }

    /// Asks the executor of an attempt how its agent ended, and for its work. The agent worked for
    /// this long.
    pub(super) fn fetch_work(
        &mut self,
        cx: &RunContext,
        record: &AttemptRecord,
        took: Duration,
    ) -> Input {
        let id = record.id();
        let executor = executors::find(&cx.workspace.config, record.run_on.as_deref());
        let longest = cx.workspace.config.max_wait;
        let (outbox, name) = (cx.outbox.clone(), id.clone());
        self.asked.insert(id.clone());
        thread::spawn(move || {
            let reached = executor.map_err(|error| format!("{error:#}"));
            let reached = reached.and_then(|executor| reach(&executor, longest));
            drop(outbox.send(RunnerMessage::MayFetch(name, reached)));
        });
        let now = Instant::now();
        let limits = ProcessLimits {
            started: now.checked_sub(took).unwrap_or(now),
            limit: longest.saturating_add(took).saturating_add(ANSWER),
            idle: None,
        };
        Input::ProcessStarted(id, limits, ProcessStart::OnItsWay)
    }

    /// Starts to fetch the work of an attempt whose executor can be asked. Returns none if it is no
    /// longer wanted.
    pub(super) fn start_fetch(
        &mut self,
        cx: &RunContext,
        graph: &TaskGraph,
        record: &mut AttemptRecord,
        reached: Result<Executor, String>,
    ) -> Option<Result<ProcessHandle, Input>> {
        let id = record.id();
        if !self.asked.remove(&id) {
            return None;
        }
        let started = reached.and_then(|executor| spawn_fetch(cx, graph, record, &executor));
        Some(started.map_err(|why| {
            let outcome = Some(Outcome::lost(record.run_on.as_deref(), &why));
            Input::ProcessEnded(id, Box::new(ProcessEnd { outcome, ..ProcessEnd::default() }))
        }))
    }

    /// Ends the question to the executor of an attempt, if that is being asked. Returns whether it
    /// was.
    pub(super) fn stop_asking(&mut self, cx: &RunContext, id: &AttemptId) -> bool {
        let was_asked = self.asked.remove(id);
        if was_asked {
            drop(cx.outbox.send(RunnerMessage::NotAsked(id.clone())));
        }
        was_asked
    }
}

/// Asks clusters about these jobs that wait. Another thread does it: a cluster may take long to
/// answer.
pub(super) fn ask_clusters(cx: &RunContext, waiting: Vec<AttemptId>, records: &Records) {
    for id in waiting {
        let Some(record) = records.get(&id) else {
            continue;
        };
        let executor = executors::find(&cx.workspace.config, record.run_on.as_deref());
        let Ok(Executor { kind: ExecutorKind::Slurm(settings), .. }) = executor else {
            continue;
        };
        let (outbox, mark) = (cx.outbox.clone(), record.mark());
        thread::spawn(move || {
            drop(outbox.send(RunnerMessage::Job(id, slurm::look(&settings, &mark))));
        });
    }
}

/// Cancels the jobs that a cluster still has of an attempt that has ended.
pub(super) fn cancel_jobs(cx: &RunContext, record: &AttemptRecord) {
    let executor = executors::find(&cx.workspace.config, record.run_on.as_deref());
    if let Ok(Executor { kind: ExecutorKind::Slurm(settings), .. }) = executor {
        let mark = record.mark();
        order_until_taken(move || slurm::cancel(&settings, &mark));
    }
}

/// Cancels the jobs that clusters still have of a run, except those of its open attempts. A
/// starting run does that for the previous run until it succeeds; an ending run tries once for
/// itself.
pub(super) fn cancel_left(cx: &RunContext, run_id: &str, is_end: bool) {
    let open: Vec<String> = cx.workspace.state.peek().iter().map(AttemptRecord::mark).collect();
    for kind in cx.workspace.config.executors.values() {
        if let ExecutorKind::Slurm(settings) = kind.clone() {
            let (run_id, open) = (run_id.to_owned(), open.clone());
            let order = move || slurm::cancel_left(&settings, &run_id, &open);
            if is_end { drop(order()) } else { order_until_taken(order) }
        }
    }
}

/// Gives an order on another thread, again and again for an hour if a cluster does not take it.
fn order_until_taken(order: impl Fn() -> Result<(), String> + Send + 'static) {
    thread::spawn(move || {
        for tries in 1..=20 {
            if order().is_ok() {
                return;
            }
            thread::sleep(pause_before_retry(tries));
        }
    });
}

/// Ends the rest of an earlier run's attempt at its executor, as far as the engine there can.
/// Returns why a process of the attempt may still work in its slot.
pub(super) fn end_elsewhere(cx: &RunContext, record: &AttemptRecord) -> Option<String> {
    engine_question(cx, record, None)?.ask().suspect
}

impl ClosedProcess {
    /// Returns the next input, once the engine of the executor has answered.
    pub(super) fn settled(
        self,
        cx: &RunContext,
        (process, record): (Option<&AttemptProcess>, &AttemptRecord),
        word: Option<&EngineWord>,
    ) -> Input {
        let missed = process.and_then(|it| missed_why(cx, it, &self, word));
        if let Some(fault) = missed {
            return Input::Unreachable { id: record.id(), fault };
        }
        let ClosedProcess { closed, head, log, .. } = self;
        let is_agent = log.is_none();
        let log = log.unwrap_or_default();
        let is_green = closed.outcome == Some(Outcome::Exited { exit_code: 0 });
        let output = (!log.is_empty()).then(|| cx.workspace.root().join(&log));
        let (last_line, no_test) =
            output.map_or((None, false), |output| close::said(&output, is_green));
        let absent = missing_inside(cx, record, closed.outcome.as_ref()).filter(|_| is_agent);
        let is_missing = closed.fault == Some(StartFault::Program) || absent.is_some();
        let end = ProcessEnd {
            outcome: absent.map(|error| Outcome::NotStarted { error }).or(closed.outcome),
            took: Duration::ZERO,
            swept: closed.swept,
            log,
            last_line,
            no_test,
            head,
            no_program: is_agent && is_missing,
        };
        Input::ProcessEnded(record.id(), Box::new(end))
    }
}

/// Returns why a sandbox did not start the agent of an attempt: only in it its program is missing.
fn missing_inside(
    cx: &RunContext,
    record: &AttemptRecord,
    outcome: Option<&Outcome>,
) -> Option<String> {
    let code = i32::from(Exit::Agent.code());
    outcome.filter(|it| **it == Outcome::Exited { exit_code: code })?;
    let executor = executors::find(&cx.workspace.config, record.run_on.as_deref()).ok()?;
    matches!(executor.kind, ExecutorKind::Sandbox(_)).then_some(())?;
    let errors = record.file(&cx.workspace, "stderr");
    sandbox::missing_program(&agent_output::last_line(&errors)?)
}

/// Returns the fault of its executor that requires withdrawing an attempt with this end of its
/// process; none otherwise: only an attempt whose processes never reached the executor can be
/// withdrawn.
fn missed_why(
    cx: &RunContext,
    process: &AttemptProcess,
    ended: &ClosedProcess,
    word: Option<&EngineWord>,
) -> Option<ExecutorFault> {
    if !is_before_agent(process.purpose) {
        return None;
    }
    let is_there = word.is_some_and(|word| !word.is_missed);
    let ending = process.watch.as_ref().and_then(ProcessWatch::ending);
    if let Some(Outcome::TimedOut { .. }) = ending
        && !ended.has_arrived
        && !is_there
        && !ended.was_queued
    {
        let limit = duration::short(cx.workspace.config.max_wait);
        let why = format!("it said nothing for {limit}");
        return Some(ExecutorFault::passing(why));
    }
    let Closed { outcome: Some(Outcome::Lost { why, .. }), fault: Some(fault), .. } = &ended.closed
    else {
        return None;
    };
    let fault = match fault {
        StartFault::Unreachable if is_there => return None,
        StartFault::Unreachable | StartFault::Refused => ExecutorFault::passing(why.clone()),
        StartFault::Executor => ExecutorFault::lasting(why.clone()),
        StartFault::Program => return None,
    };
    ending.is_none().then_some(fault)
}

/// Handles the silence of a process, or its end. A process that has not got to its executor says
/// something about that: only a queue or an image may hold it up longer.
pub(super) fn contact(
    cx: &RunContext,
    record: &AttemptRecord,
    is_on_its_way: bool,
    silence: Option<Duration>,
) -> Option<Input> {
    let id = record.id();
    if !is_on_its_way {
        return Some(Input::Contact(id, silence.map(|silence| Utc::now() - silence)));
    }
    let run_on = record.run_on.clone()?;
    let executor = executors::find(&cx.workspace.config, Some(&run_on)).ok()?;
    match executor.kind {
        ExecutorKind::Ssh(_) | ExecutorKind::Command(_) => {}
        ExecutorKind::Local
        | ExecutorKind::Sandbox(_)
        | ExecutorKind::Container(_)
        | ExecutorKind::Slurm(_) => return None,
    }
    let why = format!("it has said nothing for {}", duration::short(silence?));
    Some(Input::Unanswered { id, run_on, why })
}

/// Whether the executor of an attempt may know how its agent ended, and have its work: the agent was
/// sent there, where it has a slot of its own, and its end was not examined here.
pub(super) fn is_away(cx: &RunContext, record: &AttemptRecord) -> bool {
    let executor = executors::find(&cx.workspace.config, record.run_on.as_deref());
    let is_sent = executor.is_ok_and(|executor| executor.files() == Some(FileTravel::Sent));
    let is_known = record.slot.is_none() || record.call.is_none() || record.left.is_some();
    is_sent && !is_known && record.asks < MAX_ASKS && record.was_sent(&cx.workspace)
}

/// Whether the work of an attempt is fetched whose agent, or the question about it, has lost its
/// guardian.
pub(super) fn fetches_after_loss(
    cx: &RunContext,
    process: Option<&AttemptProcess>,
    handle: &ProcessHandle,
    record: &AttemptRecord,
) -> bool {
    let is_ending = process.and_then(|it| it.watch.as_ref()).is_none_or(ProcessWatch::is_ending);
    let is_agent = handle.log.is_none() || handle.fetches;
    is_agent && !is_ending && is_away(cx, record)
}

/// Takes the output that was fetched with the end of an agent.
pub(super) fn take_fetched(
    cx: &RunContext,
    process: Option<&AttemptProcess>,
    record: &AttemptRecord,
    closed: &mut Closed,
) -> Result<()> {
    if closed.outcome == Some(Outcome::Interrupted) && process.is_some_and(|it| !it.recovers) {
        // This run continues; only the guardian was lost.
        closed.outcome = None;
    }
    record.take_fetched_output(&cx.workspace)?;
    record.remove_fetched_output(&cx.workspace);
    Ok(())
}

/// Waits until an executor can be asked, as far as that is known before a process starts there.
fn reach(executor: &Executor, longest: Duration) -> Result<Executor, String> {
    let (began, mut tries) = (Instant::now(), 0);
    loop {
        match placement::reach(executor) {
            Err(fault) if !fault.lasts && began.elapsed() < longest => {
                tries += 1;
                thread::sleep(pause_before_retry(tries));
            }
            reached => return reached.map(|()| executor.clone()).map_err(|fault| fault.why),
        }
    }
}

/// Whether a process with this purpose comes before the agent of an attempt, or is the agent.
fn is_before_agent(purpose: Option<CheckPurpose>) -> bool {
    match purpose {
        None | Some(CheckPurpose::Setup) => true,
        Some(CheckPurpose::Verify | CheckPurpose::Trial(_)) => false,
    }
}
