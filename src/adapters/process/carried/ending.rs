//! The end of a connection, and the fetch of work that it did not bring back.

use std::{
    io,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use super::{
    CarriedEnd, CarriedGuard, CarriedMessage, CarriedStage, CarrierNews, ConnectionPurpose,
    GuardedEnd, GuardianCommand, GuardianNotice, Outcome, StartFault, connect, tell,
};
use crate::core::executor::ContainerFault;

/// The time for a carrier to end after its line has ended, and the time after SIGTERM.
const HANG_UP: Duration = Duration::from_secs(3);

/// The exit codes of a shell that cannot execute a program.
const NO_PROGRAM: [i32; 2] = [126, 127];

/// The time in which a lost worker is reached again.
const REACH_AGAIN: Duration = Duration::from_secs(30);

impl CarriedGuard<'_> {
    /// The reason for a loss, with what the carrier said.
    pub(super) fn loss(&self, fault: Option<&str>) -> String {
        let mut why = self.stage.lost().to_owned();
        if let Some(fault) = fault {
            return format!("{why}: {fault}");
        }
        let program = self.carrier.argv.first().map_or("", String::as_str);
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
        let Some(image) = &self.carrier.image else {
            let is_missing = NO_PROGRAM.contains(&exit_code);
            let cure = "install `ralph` there, or set `ralph` or `send_binary` of the executor";
            return is_missing.then(|| (format!("{why}; {cure}"), Some(StartFault::Executor)));
        };
        let fault = ContainerFault::of(Some(exit_code), &self.connection.errors())?;
        // The container of an earlier process is removed before the next attempt.
        let kind = match fault {
            ContainerFault::Other(_) => None,
            _ => Some(StartFault::Executor),
        };
        let program = self.carrier.argv.first().map_or("", String::as_str);
        (fault != ContainerFault::NameTaken).then(|| (fault.describe(program, image), kind))
    }

    /// Reaches a lost worker again, to fetch the work that it could not send.
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        const LONGEST: Duration = Duration::from_secs(5);
        let until = Instant::now() + REACH_AGAIN;
        let mut pause = Duration::from_millis(100);
        self.purpose = ConnectionPurpose::Fetch;
        tell(&GuardianNotice::Fetching {})?;
        loop {
            self.hang_up();
            let is_over = self.abandoned || self.killed_at.is_some() || Instant::now() >= until;
            if is_over || self.rest(pause) {
                return Ok(());
            }
            pause = LONGEST.min(pause * 2);
            self.number += 1;
            (self.exited, self.stage) = (None, CarriedStage::Reaching);
            let (number, arrivals, outbox) = (self.number, &self.arrivals, &self.outbox);
            let Ok(next) = connect(self.brief, self.carrier, number, arrivals, outbox) else {
                continue;
            };
            self.connection = next;
            self.begin();
            match self.watch()? {
                CarriedEnd::Done | CarriedEnd::Stopped(_) => return Ok(()),
                // The worker may still be ending what the lost one guarded.
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
            (CarriedEnd::Done, Some(closed)) => return GuardedEnd { cut_off, ..closed },
            (CarriedEnd::Done, None) => {
                (None, self.lost("the worker ended before the agent".to_owned()), None)
            }
            (CarriedEnd::Lost(why), closed) => (closed, self.lost(why), None),
            (CarriedEnd::Stopped(outcome), closed) => (closed, outcome, None),
            (CarriedEnd::Impossible(why, fault), closed) => {
                let error = format!("executor `{}`: {why}", self.carrier.executor);
                (closed, Outcome::NotStarted { error }, fault)
            }
        };
        let (swept, immortal) =
            closed.map_or((Vec::new(), 0), |closed| (closed.swept, closed.immortal));
        GuardedEnd { outcome, swept, immortal, fault, cut_off }
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
