//! Agents whose guardians were lost: their executors are asked how they ended, and for their work.
//!
//! What an agent had finished and committed is not done twice. The question is asked next to the loop,
//! because an executor may not answer for hours.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Runner, RunnerMessage, process_spec, processes::ProcessHandle};
use crate::{
    adapters::{
        agent_output::Follow,
        process::{AgentProcess, Closed, GuardPost},
    },
    core::{
        agents::transcript::Format,
        executor::{Executor, FileTravel},
        run::{
            command::{AttemptId, ProcessEnd},
            input::{Input, ProcessStart},
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

impl Runner {
    /// Whether the executor of an attempt may know how its agent ended, and have its work: the agent was
    /// sent there, where it has a slot of its own, and its end was not examined here.
    pub(super) fn is_away(&self, record: &AttemptRecord) -> bool {
        let executor = executors::find(&self.workspace.config, record.run_on.as_deref());
        let is_sent = executor.is_ok_and(|executor| executor.files() == Some(FileTravel::Sent));
        let is_known = record.slot.is_none() || record.call.is_none() || record.left.is_some();
        is_sent && !is_known && record.asks < MAX_ASKS && record.was_sent(&self.workspace)
    }

    /// Asks the executor of an attempt how its agent ended, and for its work. The agent worked for
    /// this long.
    pub(super) fn fetch_work(&mut self, id: &AttemptId, took: Duration) -> Option<Input> {
        let record = self.records.get(id)?;
        let executor = executors::find(&self.workspace.config, record.run_on.as_deref());
        let longest = self.workspace.config.max_wait;
        let (outbox, name) = (self.inbox.sender(), id.clone());
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
        Some(Input::ProcessStarted(id.clone(), limits, ProcessStart::OnItsWay))
    }

    /// Starts to fetch the work of an attempt whose executor can be asked, unless it is no longer
    /// wanted.
    pub(super) fn start_fetch(
        &mut self,
        id: &AttemptId,
        reached: Result<Executor, String>,
    ) -> Option<Input> {
        let record = self.records.get(id).cloned().filter(|_| self.asked.remove(id))?;
        let started = reached.and_then(|executor| self.spawn_fetch(id, record.clone(), &executor));
        let why = started.err()?;
        let executor = record.run_on.unwrap_or_default();
        let outcome = Some(Outcome::Lost { executor, why });
        let end = ProcessEnd { outcome, ..ProcessEnd::default() };
        Some(Input::ProcessEnded(id.clone(), Box::new(end)))
    }

    /// Starts a guardian that fetches the end and the work of an agent.
    fn spawn_fetch(
        &mut self,
        id: &AttemptId,
        mut record: AttemptRecord,
        executor: &Executor,
    ) -> Result<(), String> {
        let call = record.call.clone().ok_or("the attempt has no agent")?;
        let mut spec = process_spec::agent(&self.workspace, &record, &call);
        record.asks += 1;
        record.remove_fetched_output(&self.workspace);
        let [stdout, stderr] = record.fetched_output(&self.workspace);
        (spec.stdout, spec.stderr) = (stdout, stderr);
        let placed = self.placed(&record, executor, &spec, self.workspace.config.max_wait);
        let placed = placed.map_err(|fault| fault.to_string())?;
        let mut carrier = placed.carrier.ok_or("its executor is this machine now")?;
        carrier.recovers = true;
        let post = self.guard_post(&record, true, None, None);
        let post = GuardPost { carrier: Some(carrier), ..post };
        let (outbox, name) = (self.inbox.sender(), id.clone());
        let send = move |news| drop(outbox.send(RunnerMessage::News(name.clone(), news)));
        let process = AgentProcess::spawn(&placed.spec, &post, send)
            .map_err(|reason| format!("its work cannot be asked for: {reason:?}"))?;
        let noted = self.note_process(&mut record, &process);
        let handle = ProcessHandle {
            output: Follow::new(spec.stdout, Format::Text),
            process,
            in_pane: false,
            doing: None,
            result: None,
            log: Some(String::new()),
            verifies: None,
            reported: false,
            graph: None,
            on_its_way: None,
            seen: (record.base.clone(), record.dirty.clone()),
            fetches: true,
        };
        self.processes.insert(id.clone(), handle);
        self.records.insert(id.clone(), record);
        noted.map_err(|error| format!("{error:#}"))
    }

    /// Ends the question to the executor of an attempt, if that is being asked. Returns whether it
    /// was.
    pub(super) fn stop_asking(&mut self, id: &AttemptId) -> bool {
        let was_asked = self.asked.remove(id);
        if was_asked {
            drop(self.inbox.sender().send(RunnerMessage::NotAsked(id.clone())));
        }
        was_asked
    }

    /// Whether the work of an attempt is fetched whose agent, or the question about it, has lost its
    /// guardian.
    pub(super) fn fetches_after_loss(
        &self,
        id: &AttemptId,
        handle: &ProcessHandle,
        record: &AttemptRecord,
    ) -> bool {
        let process = self.run.attempts().process(id);
        let is_ending =
            process.and_then(|it| it.watch.as_ref()).is_none_or(ProcessWatch::is_ending);
        let is_agent = handle.log.is_none() || handle.fetches;
        is_agent && !is_ending && self.is_away(record)
    }

    /// Takes the output that was fetched with the end of an agent.
    pub(super) fn take_fetched(
        &self,
        id: &AttemptId,
        record: &AttemptRecord,
        closed: &mut Closed,
    ) -> Result<()> {
        let process = self.run.attempts().process(id);
        if closed.outcome == Some(Outcome::Interrupted) && process.is_some_and(|it| !it.recovers) {
            // This run goes on, and only the guardian was lost.
            closed.outcome = None;
        }
        record.take_fetched_output(&self.workspace)?;
        record.remove_fetched_output(&self.workspace);
        Ok(())
    }
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
