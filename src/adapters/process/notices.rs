//! A guardian's line to the process that started it: orders on standard input, notices on standard
//! error.

use std::{
    io::{self, BufRead},
    thread,
};

use super::{
    StartFault,
    program::NoProgram,
    protocol::{GuardianCommand, GuardianNotice},
    send,
};

/// Starts a thread that calls `hear` for each order, and without one when the runner is gone.
pub(super) fn listen(hear: impl Fn(Option<GuardianCommand>) + Send + 'static) {
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(order) = serde_json::from_str(&line) {
                hear(Some(order));
            }
        }
        hear(None);
    });
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
