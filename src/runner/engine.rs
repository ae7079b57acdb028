//! Questions to the engines of executors about lost processes, and the meaning of the answers.

use std::{thread, time::Duration};

use super::{
    RunnerMessage,
    context::{Facts, RunContext},
};
use crate::{
    adapters::{
        executor::{container, slurm},
        process::{SignsOfLife, sign_of_life},
    },
    core::{
        event::AttemptEvent,
        executor::{Executor, ExecutorKind, FileTravel, JobEnd, JobState},
        select::pause_before_retry,
        verdict::Outcome,
    },
    project::{
        attempt::AttemptRecord,
        executors,
        suspect_slots::{self, SuspectSlot},
    },
};

/// A question to the engine of an executor.
pub(super) struct EngineQuestion {
    pub(super) executor: Executor,
    /// The identity of the attempt's processes.
    pub(super) mark: String,
    /// Why the process was lost.
    pub(super) why: String,
    /// How it ended, if it was not lost: its engine may have ended it.
    pub(super) ended: Option<Outcome>,
    /// Where its files are the very files that are here, whether it may run.
    pub(super) signs: SignsOfLife,
    /// Whether the process was lost some time ago: the engine may have forgotten it.
    pub(super) is_late: bool,
}

/// The answer of an executor's engine about a lost process.
#[derive(Debug)]
pub(super) struct EngineWord {
    pub(super) outcome: Outcome,
    /// Why a process of the attempt may still work in its slot.
    pub(super) suspect: Option<String>,
    /// Whether the process has never been there, as far as the engine knows.
    pub(super) is_missed: bool,
}

impl EngineQuestion {
    /// Asks, and ends the rest of the attempt there as far as the engine can.
    pub(super) fn ask(&self) -> EngineWord {
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
                if let Some(outcome) = self.ended.clone().filter(|_| !state.was_ended()) {
                    return EngineWord { outcome, suspect: None, is_missed: false };
                }
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
        let words = [Some(self.why.as_str()).filter(|why| !why.is_empty()), more];
        let why = words.into_iter().flatten().collect::<Vec<_>>().join("; ");
        Outcome::Lost { executor: self.executor.name.clone(), why }
    }
}

/// Returns the question to the engine of an executor about a process that was lost, or that failed
/// and may have been ended by its engine; none if there is nothing to ask, or no engine.
pub(super) fn engine_question(
    cx: &RunContext,
    record: &AttemptRecord,
    outcome: Option<&Outcome>,
) -> Option<EngineQuestion> {
    let run_on = record.run_on.as_deref();
    let (name, why, ended) = match outcome {
        Some(Outcome::Lost { executor, why }) => (executor.as_str(), why.as_str(), None),
        Some(outcome) if outcome.is_own_failure() => (run_on?, "", Some(outcome.clone())),
        Some(_) => return None,
        // Its guardian was killed.
        None => (run_on?, "", None),
    };
    let executor = executors::find(&cx.workspace.config, Some(name)).ok()?;
    let is_asked = match executor.kind {
        // A job's processes get its signal one by one, so an agent may end before its worker does.
        ExecutorKind::Slurm(_) => true,
        ExecutorKind::Container(_) => ended.is_none(),
        ExecutorKind::Command(_) => ended.is_none() && executor.files() == Some(FileTravel::Shared),
        ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Ssh(_) => false,
    };
    let (mark, why) = (record.mark(), why.to_owned());
    let signs = suspect_slots::signs(&cx.workspace.state, &mark);
    is_asked.then_some(EngineQuestion { executor, mark, why, ended, signs, is_late: false })
}

/// Names the suspect slots of earlier runs, and asks the engines about them.
pub(super) fn watch_suspects(cx: &RunContext, facts: &mut Facts) {
    let state = &cx.workspace.state;
    let suspects = suspect_slots::all(state);
    let open: Vec<String> = state.peek().iter().map(AttemptRecord::mark).collect();
    let is_known =
        |mark: &str| open.iter().chain(suspects.iter().map(|it| &it.mark)).any(|it| it == mark);
    sign_of_life::keep(&state.signs_folder(), is_known);
    for slot in suspects {
        let (path, why) = (slot.path.display().to_string(), slot.text());
        facts.of_run(AttemptEvent::SlotKept { slot: path, why });
        watch_suspect(cx, slot, Duration::ZERO);
    }
}

/// Asks the engine about a suspect slot after this pause, and now and then until it proves that
/// nothing works there. Without an engine to ask, the slot stays out of use.
pub(super) fn watch_suspect(cx: &RunContext, slot: SuspectSlot, pause: Duration) {
    let executor = executors::find(&cx.workspace.config, Some(&slot.run_on));
    let Ok(executor) = executor else { return };
    let (mark, why) = (slot.mark.clone(), String::new());
    let signs = suspect_slots::signs(&cx.workspace.state, &mark);
    let question = EngineQuestion { executor, mark, why, ended: None, signs, is_late: true };
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
