//! A guardian's line to the process that started it: orders on standard input, notices on standard
//! error.

use std::{
    io::{self, BufRead},
    sync::mpsc::{self, Receiver},
    thread,
};

use serde::Deserialize;

use super::{
    StartFault,
    program::NoProgram,
    protocol::{GuardianCommand, GuardianNotice, GuardianSpec},
    send,
};

/// A line that a guardian with an agent gets.
#[derive(Deserialize)]
#[serde(untagged)]
enum OrderLine {
    Order(GuardianCommand),
    Next(Box<GuardianSpec>),
}

/// Starts a thread that calls `hear` for each order, and without one when the runner is gone. The
/// thread ends with the orders for the next agent, which the receiver gets.
pub(super) fn listen(
    hear: impl Fn(Option<GuardianCommand>) + Send + 'static,
) -> Receiver<GuardianSpec> {
    let (next, briefs) = mpsc::sync_channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(OrderLine::Order(order)) => hear(Some(order)),
                Ok(OrderLine::Next(brief)) => return drop(next.send(*brief)),
                Err(_) => {}
            }
        }
        hear(None);
    });
    briefs
}

/// Sends a notice; a runner that is gone is no reason to fail.
///
/// # Errors
/// I/O errors.
pub(super) fn tell(notice: &GuardianNotice) -> io::Result<()> {
    match send(&mut io::stderr().lock(), notice) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Sends the notice that the agent did not start because of `error`. If a program is missing, that is
/// a fault of this kind.
///
/// # Errors
/// I/O errors.
pub(super) fn tell_not_started(error: &io::Error, kind: StartFault) -> io::Result<()> {
    let fault = NoProgram::is(error).then_some(kind);
    tell(&GuardianNotice::NotStarted { error: error.to_string(), fault })
}
