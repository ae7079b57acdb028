//! Executors that do not answer, and engines that are asked about processes that were lost.
//!
//! An engine may take long to answer, so a thread asks it.

use std::{fs, thread, time::Duration};

use anyhow::Result;
use chrono::Utc;

use super::{Runner, RunnerMessage, start::attempt_id};
use crate::{
    adapters::{
        executor::{container, slurm},
        process::{Closed, SignsOfLife, StartFault, sign_of_life},
    },
    core::{
        duration,
        event::Event,
        executor::{Executor, ExecutorFault, ExecutorKind, FileTravel, JobEnd, JobState},
        run::{
            command::{AttemptId, CheckPurpose},
            input::Input,
            process_watch::ProcessWatch,
            verified_batch::HeadSpan,
        },
        select::pause_before_retry,
        verdict::Outcome,
    },
    project::{
        attempt::{AttemptRecord, leftovers},
        executors,
        suspect_slots::{self, SuspectSlot},
    },
};

/// A process of an attempt that has ended.
#[derive(Debug)]
pub(super) struct ClosedProcess {
    pub(super) closed: Closed,
    /// HEAD of the tree in which it verified isolated work.
    pub(super) head: HeadSpan,
    /// The log of a command other than the agent, relative to the repository.
    pub(super) log: Option<String>,
    /// Whether it had got to its executor, or runs here.
    pub(super) has_arrived: bool,
    /// Whether its executor let it wait.
    pub(super) was_queued: bool,
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

impl Runner {
    /// Returns the question to the engine of an executor whose process was lost; none if there is no
    /// engine to ask.
    fn engine_question(
        &self,
        record: &AttemptRecord,
        (name, why): (&str, &str),
    ) -> Option<EngineQuestion> {
        let executor = executors::find(&self.workspace.config, Some(name)).ok()?;
        let is_asked = match executor.kind {
            ExecutorKind::Slurm(_) | ExecutorKind::Container(_) => true,
            ExecutorKind::Command(_) => executor.files() == Some(FileTravel::Shared),
            ExecutorKind::Local | ExecutorKind::Sandbox(_) | ExecutorKind::Ssh(_) => false,
        };
        let (mark, why) = (record.mark(), why.to_owned());
        let signs = suspect_slots::signs(&self.workspace.state, &mark);
        is_asked.then_some(EngineQuestion { executor, mark, why, signs, is_late: false })
    }

    /// Ends what an attempt of an earlier run left at its executor, as far as the engine there can.
    pub(super) fn end_elsewhere(&mut self, record: &AttemptRecord) -> Result<()> {
        let question = record.run_on.as_deref().map(|name| (name, ""));
        if let Some(question) = question.and_then(|it| self.engine_question(record, it))
            && let Some(why) = question.ask().suspect
        {
            return self.suspect(record, why);
        }
        Ok(())
    }

    /// Keeps the slot of an attempt out of use, because a process of the attempt may still work in it.
    /// The next runs must know that, too.
    fn suspect(&mut self, record: &AttemptRecord, why: String) -> Result<()> {
        let (Some(slot), Some(run_on)) = (&record.slot, &record.run_on) else {
            return Ok(());
        };
        let (path, run_on, mark) = (slot.path.clone(), run_on.clone(), record.mark());
        let slot = SuspectSlot { path, run_on, mark, why };
        if suspect_slots::add(&self.workspace.state, &slot)? {
            self.watch_suspect(slot.clone(), Duration::from_secs(1));
        }
        self.slots.suspect(slot);
        Ok(())
    }

    /// Names the slots that earlier runs have left in doubt, and asks the engines about them.
    pub(super) fn watch_suspects(&mut self) -> Result<()> {
        let suspects = suspect_slots::all(&self.workspace.state);
        let open: Vec<String> =
            self.workspace.state.peek().iter().map(AttemptRecord::mark).collect();
        let is_known =
            |mark: &str| open.iter().chain(suspects.iter().map(|it| &it.mark)).any(|it| it == mark);
        sign_of_life::keep(&self.workspace.state.signs_folder(), is_known);
        for slot in suspects {
            let (path, why) = (slot.path.display().to_string(), slot.text());
            self.emit(None, Event::SlotKept { slot: path, why })?;
            self.watch_suspect(slot, Duration::ZERO);
        }
        Ok(())
    }

    /// Asks the engine about a suspect slot after this pause, and now and then until it proves that
    /// nothing works there. Without an engine to ask, the slot stays out of use.
    fn watch_suspect(&self, slot: SuspectSlot, pause: Duration) {
        let executor = executors::find(&self.workspace.config, Some(&slot.run_on));
        let Ok(executor) = executor else { return };
        let (mark, why) = (slot.mark.clone(), String::new());
        let signs = suspect_slots::signs(&self.workspace.state, &mark);
        let question = EngineQuestion { executor, mark, why, signs, is_late: true };
        let outbox = self.inbox.sender();
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

    /// Notes why a process may still work in a slot, or uses the slot again if none does.
    pub(super) fn suspicion(&mut self, slot: SuspectSlot, why: Option<String>) -> Result<()> {
        let Some(why) = why else {
            self.slots.cleared(&slot);
            return suspect_slots::remove(&self.workspace.state, &slot);
        };
        suspect_slots::add(&self.workspace.state, &SuspectSlot { why, ..slot }).map(drop)
    }

    /// Handles the end of a process whose executor may know more about it: its engine is asked
    /// first. Where it is not certain that the process has ended, and the process has the same slot
    /// there as here, the slot is kept.
    pub(super) fn ask_engine(
        &mut self,
        id: &AttemptId,
        record: &AttemptRecord,
        ended: ClosedProcess,
    ) -> Input {
        let lost = match &ended.closed.outcome {
            Some(Outcome::Lost { executor, why }) => Some((executor.as_str(), why.as_str())),
            Some(_) => None,
            // Its guardian was killed.
            None => record.run_on.as_deref().map(|name| (name, "")),
        };
        let question = lost.and_then(|lost| self.engine_question(record, lost));
        let Some(question) = question else {
            return self.process_settled(id, ended, None);
        };
        let (outbox, name) = (self.inbox.sender(), id.clone());
        self.asked_engines += 1;
        thread::spawn(move || {
            let word = question.ask();
            drop(outbox.send(RunnerMessage::Engine(name, Box::new(ended), word)));
        });
        // The limits of the process do not matter any more.
        Input::ProcessFetching(id.clone())
    }

    /// Handles what an engine says about a process.
    pub(super) fn engine_told(
        &mut self,
        id: &AttemptId,
        mut ended: ClosedProcess,
        word: &EngineWord,
    ) -> Result<Input> {
        self.asked_engines = self.asked_engines.saturating_sub(1);
        if let (Some(why), Some(record)) = (&word.suspect, self.records.get(id).cloned()) {
            self.suspect(&record, why.clone())?;
        }
        ended.closed.outcome = ended.closed.outcome.map(|_| word.outcome.clone());
        Ok(self.process_settled(id, ended, Some(word)))
    }

    /// Returns the executor, and its fault, because of which an attempt must be withdrawn whose
    /// process has ended like this; none if it must not: only an attempt of which no process has got
    /// to its executor can be.
    pub(super) fn missed_why(
        &self,
        id: &AttemptId,
        ended: &ClosedProcess,
        word: Option<&EngineWord>,
    ) -> Option<(String, ExecutorFault)> {
        let process = self.run.attempts().process(id)?;
        if !is_before_agent(process.purpose) || word.is_some_and(|word| !word.is_missed) {
            return None;
        }
        let run_on = self.records.get(id)?.run_on.clone()?;
        let ending = process.watch.as_ref().and_then(ProcessWatch::ending);
        if let Some(Outcome::TimedOut { .. }) = ending
            && !ended.has_arrived
            && !ended.was_queued
        {
            let limit = duration::short(self.workspace.config.max_wait);
            let why = format!("it said nothing for {limit}");
            return Some((run_on, ExecutorFault::passing(why)));
        }
        let Closed { outcome: Some(Outcome::Lost { why, .. }), fault: Some(fault), .. } =
            &ended.closed
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
    pub(super) fn contact(&self, id: AttemptId, silence: Option<Duration>) -> Option<Input> {
        if self.processes.get(&id)?.on_its_way.is_none() {
            return Some(Input::Contact(id, silence.map(|silence| Utc::now() - silence)));
        }
        let run_on = self.records.get(&id)?.run_on.clone()?;
        let executor = executors::find(&self.workspace.config, Some(&run_on)).ok()?;
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

    /// Handles an executor that did not answer or cannot be used, before a process was started.
    pub(super) fn missed(&mut self, id: AttemptId, fault: ExecutorFault) -> Option<Input> {
        self.slots.prepared();
        let run_on = self.records.get(&id)?.run_on.clone()?;
        Some(Input::Unreachable { id, run_on, fault })
    }

    /// Removes the record of an attempt that was withdrawn, and releases its slot. No agent has run
    /// in it, so nothing of it is kept: the work of an earlier attempt in it has a ref of its own.
    pub(super) fn withdraw(&mut self, id: &AttemptId) -> Result<()> {
        let Some(record) = self.records.get(id).cloned() else {
            return Ok(());
        };
        for name in ["stdout", "stderr"] {
            // The next attempt has the same number, and must not find them.
            let _ = fs::remove_file(record.file(&self.workspace, name));
        }
        let is_prepared = record.slot.is_some() && record.controls.is_some();
        let tree = is_prepared.then(|| self.secured_tree(&record).ok()).flatten();
        let pinned = tree.and_then(|tree| leftovers::pin(&self.workspace, &tree, &record, &[]).0);
        self.release(&attempt_id(&record), true)?;
        pinned.map_or(Ok(()), |name| self.workspace.repo.drop_ref(&name))
    }
}

/// Whether a process with this purpose comes before the agent of an attempt, or is the agent.
fn is_before_agent(purpose: Option<CheckPurpose>) -> bool {
    match purpose {
        None | Some(CheckPurpose::Setup | CheckPurpose::Baseline) => true,
        Some(CheckPurpose::Verify | CheckPurpose::Trial) => false,
    }
}
