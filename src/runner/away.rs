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
    context::{Facts, RunContext},
    placement::spawn_fetch,
    processes::{ClosedProcess, ProcessHandle},
};
use crate::{
    adapters::{
        executor::{container, slurm},
        process::{Closed, SignsOfLife, StartFault, sign_of_life},
    },
    core::{
        duration,
        event::Event,
        executor::{Executor, ExecutorFault, ExecutorKind, FileTravel, JobEnd, JobState},
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
    project::{
        attempt::AttemptRecord,
        executors, placement,
        suspect_slots::{self, SuspectSlot},
    },
};

/// The interval between two questions to a cluster about a job that waits.
pub(super) const ASK: Duration = Duration::from_secs(5);

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

/// A question to the engine of an executor.
struct EngineQuestion {
    executor: Executor,
    /// What the processes of the attempt are recognized by.
    mark: String,
    /// Why the process was lost.
    why: String,
    /// Where its files are the very files that are here, whether it may run.
    signs: SignsOfLife,
    /// Whether the process was lost some time ago: the engine may have forgotten it.
    is_late: bool,
}

/// What the engine of an executor says about a process that was lost.
#[derive(Debug)]
pub(super) struct EngineWord {
    outcome: Outcome,
    /// Why a process of the attempt may still work in its slot.
    suspect: Option<String>,
    /// Whether the process has never been there, as far as the engine knows.
    is_missed: bool,
}

impl EngineQuestion {
    /// Asks, and ends what is left of the attempt there as far as the engine can.
    fn ask(&self) -> EngineWord {
        let word = self.ask_engine();
        let suspect = word.suspect.filter(|_| self.signs.is_any());
        if suspect.is_none() {
            self.signs.remove();
        }
        EngineWord { suspect, ..word }
    }

    fn ask_engine(&self) -> EngineWord {
        match &self.executor.kind {
            ExecutorKind::Slurm(settings) => {
                let (state, is_certain) = slurm::end(settings, &self.mark);
                let is_certain = is_certain && !(self.is_late && matches!(state, JobState::Absent));
                let is_missed = matches!(state, JobState::Unknown(_) | JobState::Absent);
                let suspect = (!is_certain).then(|| match state {
                    JobState::Ended(
                        JobEnd::Exited
                        | JobEnd::Preempted
                        | JobEnd::Timeout
                        | JobEnd::Cancelled
                        | JobEnd::OutOfMemory,
                    ) => {
                        let word = state.describe();
                        format!("{word}, and the cluster may not find every process of a job")
                    }
                    JobState::Ended(JobEnd::NodeFail | JobEnd::Other(_))
                    | JobState::Pending { .. }
                    | JobState::Running { .. }
                    | JobState::Absent
                    | JobState::Unknown(_) => state.describe(),
                });
                EngineWord { outcome: self.outcome_of(&state), suspect, is_missed }
            }
            ExecutorKind::Container(settings) => {
                let removed = container::find(settings)
                    .and_then(|engine| container::remove(&engine, &self.mark));
                let fault = removed.err().map(|fault| settings.describe(&fault));
                let outcome = self.lost(fault.as_deref());
                EngineWord { outcome, suspect: fault, is_missed: true }
            }
            ExecutorKind::Command(_) => {
                let suspect = self.signs.outlast().then(|| {
                    let name = &self.executor.name;
                    format!("its worker at {name} has not told that everything there has ended")
                });
                EngineWord { outcome: self.lost(None), suspect, is_missed: true }
            }
            ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Ssh(_) => {
                EngineWord { outcome: self.lost(None), suspect: None, is_missed: true }
            }
        }
    }

    fn outcome_of(&self, state: &JobState) -> Outcome {
        match state {
            // Another attempt would need as long, or as much.
            JobState::Ended(JobEnd::Timeout | JobEnd::OutOfMemory) => {
                let executor = self.executor.name.clone();
                Outcome::Exceeded { executor, why: state.describe() }
            }
            JobState::Ended(
                JobEnd::NodeFail
                | JobEnd::Preempted
                | JobEnd::Cancelled
                | JobEnd::Other(_)
                | JobEnd::Exited,
            )
            | JobState::Pending { .. }
            | JobState::Running { .. }
            | JobState::Absent
            | JobState::Unknown(_) => self.lost(Some(&state.describe())),
        }
    }

    fn lost(&self, more: Option<&str>) -> Outcome {
        let why = more.map_or_else(|| self.why.clone(), |more| format!("{}; {more}", self.why));
        Outcome::Lost { executor: self.executor.name.clone(), why }
    }
}

impl RunAway {
    /// Whether engines are being asked about processes.
    pub(super) fn is_asking_engines(&self) -> bool {
        self.engines > 0
    }

    /// Names the slots that earlier runs have left in doubt, and asks the engines about them.
    pub(super) fn watch_suspects(&self, cx: &RunContext, facts: &mut Facts) {
        let state = &cx.workspace.state;
        let suspects = suspect_slots::all(state);
        let open: Vec<String> = state.peek().iter().map(AttemptRecord::mark).collect();
        let is_known =
            |mark: &str| open.iter().chain(suspects.iter().map(|it| &it.mark)).any(|it| it == mark);
        sign_of_life::keep(&state.signs_folder(), is_known);
        for slot in suspects {
            let (path, why) = (slot.path.display().to_string(), slot.text());
            facts.of_run(Event::SlotKept { slot: path, why });
            self.watch_suspect(cx, slot, Duration::ZERO);
        }
    }

    /// Asks the engine about a suspect slot after this pause, and now and then until it proves that
    /// nothing works there. Without an engine to ask, the slot stays out of use.
    pub(super) fn watch_suspect(&self, cx: &RunContext, slot: SuspectSlot, pause: Duration) {
        let executor = executors::find(&cx.workspace.config, Some(&slot.run_on));
        let Ok(executor) = executor else { return };
        let (mark, why) = (slot.mark.clone(), String::new());
        let signs = suspect_slots::signs(&cx.workspace.state, &mark);
        let question = EngineQuestion { executor, mark, why, signs, is_late: true };
        let outbox = cx.outbox.clone();
        thread::spawn(move || {
            thread::sleep(pause);
            let (mut tries, mut known) = (0, Some(slot.why.clone()));
            while known.is_some() {
                let why = question.ask().suspect;
                if why != known
                    && outbox.send(RunnerMessage::Suspicion(slot.clone(), why.clone())).is_err()
                {
                    return;
                }
                known = why;
                tries += 1;
                thread::sleep(pause_before_retry(tries));
            }
        });
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
        let lost = match &ended.closed.outcome {
            Some(Outcome::Lost { executor, why }) => Some((executor.as_str(), why.as_str())),
            Some(_) => None,
            // Its guardian was killed.
            None => record.run_on.as_deref().map(|name| (name, "")),
        };
        let Some(question) = lost.and_then(|lost| engine_question(cx, record, lost)) else {
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

    /// Takes what an engine says about a process into account. Returns why a process of the attempt may
    /// still work in its slot.
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
            let executor = record.run_on.clone().unwrap_or_default();
            let outcome = Some(Outcome::Lost { executor, why });
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

    /// Asks clusters about these jobs that wait. Another thread does it: a cluster may take long to
    /// answer.
    pub(super) fn ask_clusters(&self, cx: &RunContext, waiting: Vec<AttemptId>, records: &Records) {
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
}

/// Returns the question to the engine of an executor whose process was lost; none if there is no
/// engine to ask.
fn engine_question(
    cx: &RunContext,
    record: &AttemptRecord,
    (name, why): (&str, &str),
) -> Option<EngineQuestion> {
    let executor = executors::find(&cx.workspace.config, Some(name)).ok()?;
    let is_asked = match executor.kind {
        ExecutorKind::Slurm(_) | ExecutorKind::Container(_) => true,
        ExecutorKind::Command(_) => executor.files() == Some(FileTravel::Shared),
        ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Ssh(_) => false,
    };
    let (mark, why) = (record.mark(), why.to_owned());
    let signs = suspect_slots::signs(&cx.workspace.state, &mark);
    is_asked.then_some(EngineQuestion { executor, mark, why, signs, is_late: false })
}

/// Ends what an attempt of an earlier run left at its executor, as far as the engine there can.
/// Returns why a process of the attempt may still work in its slot.
pub(super) fn end_elsewhere(cx: &RunContext, record: &AttemptRecord) -> Option<String> {
    let lost = record.run_on.as_deref().map(|name| (name, ""));
    engine_question(cx, record, lost?)?.ask().suspect
}

/// Returns the executor, and its fault, because of which an attempt must be withdrawn whose
/// process has ended like this; none if it must not: only an attempt of which no process has got
/// to its executor can be.
pub(super) fn missed_why(
    cx: &RunContext,
    (process, record): (&AttemptProcess, &AttemptRecord),
    ended: &ClosedProcess,
    word: Option<&EngineWord>,
) -> Option<(String, ExecutorFault)> {
    if !is_before_agent(process.purpose) || word.is_some_and(|word| !word.is_missed) {
        return None;
    }
    let run_on = record.run_on.clone()?;
    let ending = process.watch.as_ref().and_then(ProcessWatch::ending);
    if let Some(Outcome::TimedOut { .. }) = ending
        && !ended.has_arrived
        && !ended.was_queued
    {
        let limit = duration::short(cx.workspace.config.max_wait);
        let why = format!("it said nothing for {limit}");
        return Some((run_on, ExecutorFault::passing(why)));
    }
    let Closed { outcome: Some(Outcome::Lost { why, .. }), fault: Some(fault), .. } = &ended.closed
    else {
        return None;
    };
    let fault = match fault {
        StartFault::Unreachable => ExecutorFault::passing(why.clone()),
        StartFault::Executor => ExecutorFault::lasting(why.clone()),
        StartFault::Program => return None,
    };
    ending.is_none().then_some((run_on, fault))
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
        // This run goes on, and only the guardian was lost.
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
        None | Some(CheckPurpose::Setup | CheckPurpose::Baseline) => true,
        Some(CheckPurpose::Verify | CheckPurpose::Trial) => false,
    }
}
