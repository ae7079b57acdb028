//! The end of a connection, and the fetch of work that it did not bring back.

use std::{
    io, mem,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use super::{
    CarriedEnd, CarriedGuard, CarriedMessage, CarriedStage, CarrierNews, Closed, ConnectionPurpose,
    GuardedEnd, GuardianCommand, Outcome, ProcessNews, StartFault, connect, lock, tell_news,
};
use crate::core::executor::{ContainerFault, slurm_refusal};

/// The time for a carrier to end after its line has ended, and the time after SIGTERM.
const HANG_UP: Duration = Duration::from_secs(3);

/// The exit codes of a shell that cannot execute a program.
const NO_PROGRAM: [i32; 2] = [126, 127];

/// The number of pulses without a word of the worker after which there is no contact.
const QUIET_PULSES: u32 = 3;

/// The number of pulses without an answer after which a worker that was started counts as away.
const UNANSWERED_PULSES: u32 = 6;

/// The time limit for reconnecting to a lost worker whose agent had not ended.
const REACH_AGAIN: Duration = Duration::from_secs(30);

/// The time limit for a worker that answers to report the end of an agent whose guardian was lost:
/// an earlier worker there may have the slot until it notices the silence of its line.
const LEAVES_SLOT: Duration = Duration::from_secs(6 * 60);

impl CarriedGuard<'_> {
    /// The reason for a loss, with the carrier's message.
    pub(super) fn loss(&self, fault: Option<&str>) -> String {
        let mut why = self.stage.lost().to_owned();
        if let Some(fault) = fault {
            return format!("{why}: {fault}");
        }
        let program = self.carrier.argv.first().map_or("", String::as_str);
        if let Some((fault, image)) = self.container_fault() {
            return fault.describe(program, image);
        }
        if let Some(outcome) = &self.exited {
            why = format!("{why}: `{program}` {outcome}");
        }
        let said = self.connection.last_error();
        if said.is_empty() { why } else { format!("{why}: {said}") }
    }

    /// Returns why a carrier that was lost for this reason cannot reach a worker at all, and the
    /// kind of fault if that is known; none if it may the next time.
    pub(super) fn impossible(&self, why: &str) -> Option<(String, Option<StartFault>)> {
        let Some(Outcome::Exited { exit_code }) = self.exited else { return None };
        if self.stage != CarriedStage::Reaching {
            return None;
        }
        if self.carrier.image.is_none() {
            if let Some(why) = slurm_refusal(&self.connection.errors()) {
                return Some((why, Some(StartFault::Executor)));
            }
            let is_missing = NO_PROGRAM.contains(&exit_code);
            let cure = "install `ralph` there, or set `ralph` or `send_binary` of the executor";
            return is_missing.then(|| (format!("{why}; {cure}"), Some(StartFault::Executor)));
        }
        let (fault, _) = self.container_fault()?;
        (!fault.is_passing()).then(|| (why.to_owned(), Some(StartFault::Executor)))
    }

    /// Returns why the container did not start, and its image, if that is known.
    fn container_fault(&self) -> Option<(ContainerFault, &str)> {
        let Some(Outcome::Exited { exit_code }) = self.exited else { return None };
        let image =
            self.carrier.image.as_deref().filter(|_| self.stage == CarriedStage::Reaching)?;
        Some((ContainerFault::of(Some(exit_code), &self.connection.errors())?, image))
    }

    /// Reports contact with the worker, silent for this number of pulses, to the runner. Before its
    /// first answer, it may be on its way for a while.
    pub(super) fn tell_contact(&mut self, silent: u32) -> io::Result<()> {
        let is_running = self.purpose == ConnectionPurpose::Run;
        let has_answered = self.stage > CarriedStage::Reaching;
        let limit = if has_answered { QUIET_PULSES } else { UNANSWERED_PULSES };
        if silent >= limit && is_running {
            return self.lose_contact();
        }
        if silent == 0 && is_running && mem::take(&mut self.is_silent) {
            return tell_news(ProcessNews::Contact(None));
        }
        Ok(())
    }

    fn lose_contact(&mut self) -> io::Result<()> {
        if mem::replace(&mut self.is_silent, true) {
            return Ok(());
        }
        let silence = lock(&self.arrivals).heard_at.elapsed();
        tell_news(ProcessNews::Contact(Some(silence)))
    }

    pub(super) fn recovers(&self) -> bool {
        self.purpose == ConnectionPurpose::Recover
    }

    /// Whether the worker is asked again after this end of a connection.
    pub(super) fn may_fetch(&self, end: &CarriedEnd) -> bool {
        let recovers = self.recovers();
        let is_fetched = match end {
            CarriedEnd::Lost(_) => recovers || self.stage > CarriedStage::Sending,
            CarriedEnd::Impossible(_, None) => recovers,
            CarriedEnd::Impossible(_, Some(_)) | CarriedEnd::Done | CarriedEnd::Stopped(_) => false,
        };
        is_fetched && self.carrier.transfer.is_some()
    }

    /// The end for a worker that cannot continue. Once the agent has ended, its work cannot be
    /// sent: no fault of the agent, unless it has broken its slot.
    pub(super) fn refused(&self, error: String, is_broken: bool) -> CarriedEnd {
        if self.closed.is_none() {
            return CarriedEnd::Impossible(error, self.missed());
        }
        if is_broken {
            lock(&self.arrivals).say(&format!("its work is lost: {error}"));
            return CarriedEnd::Done;
        }
        lock(&self.arrivals).is_refused = true;
        CarriedEnd::Lost(error)
    }

    /// The fault if a worker that answers could not start the agent.
    pub(super) fn missed(&self) -> Option<StartFault> {
        (self.purpose == ConnectionPurpose::Run).then_some(StartFault::Refused)
    }

    /// Whether the worker was asked for long enough. Finished work is asked for as long as the
    /// settings say, and so is an end that is not known, until a worker answers.
    pub(super) fn has_asked_enough(&self) -> bool {
        let longest = REACH_AGAIN.max(Duration::from_secs(self.carrier.patience_seconds));
        let is_finished = self.closed.is_some() && !lock(&self.arrivals).is_refused;
        match self.greeted_at {
            _ if is_finished => self.began.elapsed() >= longest,
            _ if !self.recovers() => self.began.elapsed() >= REACH_AGAIN,
            None => self.began.elapsed() >= longest,
            Some(at) => at.elapsed() >= LEAVES_SLOT,
        }
    }

    /// Reaches a lost worker again, to fetch the work that it could not send. Returns whether it is
    /// here.
    pub(super) fn fetch(&mut self) -> io::Result<bool> {
        const LONGEST: Duration = Duration::from_secs(5);
        /// A host that is away for longer is away for long.
        const SOON: Duration = Duration::from_secs(60);
        const LATER: Duration = Duration::from_secs(60);
        if self.purpose == ConnectionPurpose::Run {
            (self.purpose, self.began) = (ConnectionPurpose::Fetch, Instant::now());
        }
        let mut pause = Duration::from_millis(100);
        self.lose_contact()?;
        loop {
            // Each extends the limits of the attempt.
            tell_news(ProcessNews::Fetching)?;
            self.hang_up();
            let is_over = self.abandoned || self.killed_at.is_some() || self.has_asked_enough();
            if is_over || self.rest(pause) {
                return Ok(false);
            }
            let is_soon = self.began.elapsed() < SOON || !self.recovers();
            pause = (pause * 2).min(if is_soon { LONGEST } else { LATER });
            self.number += 1;
            (self.exited, self.stage) = (None, CarriedStage::Reaching);
            let (number, arrivals, outbox) = (self.number, &self.arrivals, &self.outbox);
            let Ok(next) = connect(self.brief, self.carrier, number, arrivals, outbox) else {
                continue;
            };
            self.connection = next;
            self.begin();
            match self.watch()? {
                CarriedEnd::Done => return Ok(true),
                CarriedEnd::Stopped(_) => return Ok(false),
                CarriedEnd::Impossible(_, Some(_)) if self.recovers() => return Ok(false),
                // The worker may still be ending the lost one's processes.
                CarriedEnd::Impossible(..) | CarriedEnd::Lost(_) => {}
            }
        }
    }

    /// Waits, and returns whether an order or the end of the runner makes waiting pointless.
    fn rest(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(CarriedMessage::Order(GuardianCommand::Kill)) => return true,
                Ok(CarriedMessage::Alone) | Err(RecvTimeoutError::Disconnected) => {
                    self.abandoned = true;
                    return true;
                }
                Ok(CarriedMessage::Order(GuardianCommand::Cancel)) => self.cancelled = true,
                Ok(CarriedMessage::Order(
                    GuardianCommand::Interrupt | GuardianCommand::Terminate,
                )) if self.recovers() => return true,
                Ok(CarriedMessage::Order(_) | CarriedMessage::Heard(..)) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// Ends the line and then the carrier, and returns how the agent ended.
    pub(super) fn ended(&mut self, end: CarriedEnd) -> GuardedEnd {
        self.hang_up();
        let cut_off = self.cancelled || self.abandoned;
        let (closed, outcome, fault) = match (end, self.closed.take()) {
            (CarriedEnd::Done, Some(closed)) => return GuardedEnd { closed, cut_off },
            // The worker has answered: the agent had not ended by itself.
            (CarriedEnd::Done, None) if self.recovers() => (None, Outcome::Interrupted, None),
            (CarriedEnd::Impossible(why, _), closed) if self.recovers() => {
                (closed, self.lost(why), None)
            }
            (CarriedEnd::Done, None) => {
                (None, self.lost("the worker ended before the agent".to_owned()), None)
            }
            (CarriedEnd::Lost(why), closed) => {
                let is_missed =
                    self.purpose == ConnectionPurpose::Run && self.stage == CarriedStage::Reaching;
                (closed, self.lost(why), is_missed.then_some(StartFault::Unreachable))
            }
            (CarriedEnd::Stopped(outcome), closed) => (closed, outcome, None),
            (
                CarriedEnd::Impossible(
                    why,
                    fault @ Some(StartFault::Executor | StartFault::Refused),
                ),
                closed,
            ) => (closed, self.lost(why), fault),
            (CarriedEnd::Impossible(why, fault), closed) => {
                let error = format!("executor `{}`: {why}", self.carrier.executor);
                (closed, Outcome::NotStarted { error }, fault)
            }
        };
        let closed = Closed { outcome: Some(outcome), fault, ..closed.unwrap_or_default() };
        GuardedEnd { closed, cut_off }
    }

    /// Ends the line, and the carrier if it does not end by itself.
    fn hang_up(&mut self) {
        let line = &self.connection.line;
        line.finish();
        let is_written = line.flush(Duration::from_millis(500));
        line.cut();
        // A carrier in a queue does not notice the end of its input.
        if is_written && self.stage > CarriedStage::Reaching {
            self.await_exit(HANG_UP);
        }
        if self.exited.is_none() {
            self.connection.process.terminate();
            self.await_exit(HANG_UP);
        }
        self.connection.process.kill();
        self.await_exit(HANG_UP);
        self.connection.process.reap();
    }

    /// Waits for the exit of the carrier; the order to kill ends the wait.
    pub(super) fn await_exit(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while self.exited.is_none() {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(CarriedMessage::Heard(number, CarrierNews::Exited(outcome)))
                    if number == self.number =>
                {
                    self.exited = Some(outcome);
                }
                Ok(CarriedMessage::Order(GuardianCommand::Cancel)) => self.cancelled = true,
                Ok(CarriedMessage::Alone) => self.abandoned = true,
                Ok(CarriedMessage::Order(GuardianCommand::Kill)) => {
                    self.killed_at.get_or_insert_with(Instant::now);
                    return;
                }
                Err(_) => return,
                Ok(CarriedMessage::Order(_) | CarriedMessage::Heard(..)) => {}
            }
        }
    }
}
